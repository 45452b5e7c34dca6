"""From where to where the sides of a chart reach, and how far along a number lies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnviz.views.grids.grid import Curves

LOGARITHMIC_RATIO = 8  # from where on a scale is logarithmic


@dataclass(frozen=True)
class AxisSpan:
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


def horizontal_span(curves: Curves) -> AxisSpan:
    """The side of the places, over powers of ten where they lie far apart."""
    low, high = min(curves.x_values), max(curves.x_values)
    logarithmic = low > 0 and high / low >= LOGARITHMIC_RATIO
    if logarithmic:
        factor = (high / low) ** 0.04
        return AxisSpan(low / factor, high * factor, True)
    margin = (high - low) * 0.04
    return AxisSpan(low - (margin or 1), high + (margin or 1), False)


def vertical_span(curves: Curves) -> AxisSpan:
    """From 0, or over powers of ten where lines that have no 0 lie far apart."""
    ends = np.concatenate([line_end for line in curves.lines for line_end in (line.low, line.high)])
    finite_ends = ends[~np.isnan(ends)]  # a line may have gaps
    low, high = (
        (float(finite_ends.min()), float(finite_ends.max())) if finite_ends.size else (0.0, 1.0)
    )
    if any(line.dashed for line in curves.lines) and low > 0 and high / low >= LOGARITHMIC_RATIO:
        return AxisSpan(low / 1.3, high * 1.3, True)
    return AxisSpan(0.0, max(high, curves.reach) * 1.08 or 1.0, False)
