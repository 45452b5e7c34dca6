"""The ranges of a chart's axes, and how far along an axis a value lies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnviz.views.grids.grid import Curves

LOGARITHMIC_RATIO = 8  # of the highest value to the lowest, from which an axis is logarithmic


@dataclass(frozen=True)
class AxisSpan:
    """The range of an axis, linear or logarithmic."""

    low: float
    high: float
    logarithmic: bool

    def share(self, values: np.ndarray) -> np.ndarray:
        """Return how far along the axis each value lies, from 0 to 1."""
        if self.logarithmic:
            values = np.log(np.maximum(values, self.low))
            return (values - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (values - self.low) / (self.high - self.low)


def horizontal_span(curves: Curves) -> AxisSpan:
    """Return the range of the x axis, logarithmic if the values lie far apart."""
    low, high = min(curves.x_values), max(curves.x_values)
    logarithmic = low > 0 and high / low >= LOGARITHMIC_RATIO
    if logarithmic:
        factor = (high / low) ** 0.04
        return AxisSpan(low / factor, high * factor, True)
    margin = (high - low) * 0.04
    return AxisSpan(low - (margin or 1), high + (margin or 1), False)


def vertical_span(curves: Curves) -> AxisSpan:
    """Return the range of the y axis: from 0, or logarithmic for lines without a 0."""
    ends = np.concatenate([end for line in curves.lines for end in (line.low, line.high)])
    ends = ends[~np.isnan(ends)]  # a line may have gaps
    low, high = (float(ends.min()), float(ends.max())) if ends.size else (0.0, 1.0)
    if any(line.dashed for line in curves.lines) and low > 0 and high / low >= LOGARITHMIC_RATIO:
        return AxisSpan(low / 1.3, high * 1.3, True)
    return AxisSpan(0.0, max(high, curves.reach) * 1.08 or 1.0, False)
