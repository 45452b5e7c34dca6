"""RankedBars: a ranking of names, drawn as bars with remarks beside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import NumberFormat


@dataclass(frozen=True, eq=False)
class RankedBars:
    """The first column of a grid as bars.

    The second column, if there is one, is drawn as a mark in each bar to compare its end with.
    Rankings that are compared share `longest`, the number of a bar of full length.
    """

    grid: Grid  # a row for each name, the first of the ranking first
    remarks: tuple[str, ...]  # beside each bar; may be empty
    longest: float | None = None  # None: the largest number of the grid

    @property
    def unit(self) -> str:
        """What one row is: "head", "token"."""
        return self.grid.rows.unit

    @cached_property
    def full_length(self) -> float:
        """The number of a bar of full length; 1 where all numbers are 0."""
        if self.longest is not None:
            return self.longest
        return float(np.nanmax(np.abs(self.grid.values), initial=0)) or 1.0

    @property
    def mark_title(self) -> str:
        """The title of the marks; empty where there are none."""
        return self.grid.columns.names[1] if len(self.grid.columns) > 1 else ""

    def mark_length(self, row: int) -> float | None:
        """The position of the mark as a share of the full length; None where there is no mark."""
        value = float(self.grid.values[row, 1]) if self.mark_title else np.nan
        return None if np.isnan(value) else abs(value) / self.full_length

    def remark_text(self, row: int, number_format: NumberFormat) -> str:
        """The number of the mark, if there is one, and the remark."""
        has_mark = self.mark_length(row) is not None
        mark_text = f"others {number_format(float(self.grid.values[row, 1]))}" if has_mark else ""
        return " · ".join(filter(None, (mark_text, self.remarks[row])))
