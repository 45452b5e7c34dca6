"""From where to where the sides of a chart reach, and how far along a number lies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnviz.views.grids.grid import Curves

LARGE_RANGE = 8  # from where on a scale is logarithmic


@dataclass(frozen=True)
class Span:
    """What one side of a chart reaches from and to."""

    low: float
    high: float
    logarithmic: bool

    def share(self, values: np.ndarray) -> np.ndarray:
        """How far along the side each value lies."""
        if self.logarithmic:
            values = np.log(np.maximum(values, self.low))
            return (values - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (values - self.low) / (self.high - self.low)


def side_across(curves: Curves) -> Span:
    """The side of the places, over powers of ten where they lie far apart."""
    low, high = min(curves.places), max(curves.places)
    logarithmic = low > 0 and high / low >= LARGE_RANGE
    if logarithmic:
        factor = (high / low) ** 0.04
        return Span(low / factor, high * factor, True)
    margin = (high - low) * 0.04
    return Span(low - (margin or 1), high + (margin or 1), False)


def side_along(curves: Curves) -> Span:
    """From 0, or over powers of ten where lines that have no 0 lie far apart."""
    ends = np.concatenate([each for line in curves.lines for each in (line.low, line.high)])
    there = ends[~np.isnan(ends)]  # a line may have gaps
    low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 1.0)
    if any(line.dashed for line in curves.lines) and low > 0 and high / low >= LARGE_RANGE:
        return Span(low / 1.3, high * 1.3, True)
    return Span(0.0, max(high, curves.reach) * 1.08 or 1.0, False)
