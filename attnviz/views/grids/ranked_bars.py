"""A ranking: names with a number each, and a few words about each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import NumberFormat


@dataclass(frozen=True, eq=False)
class RankedBars:
    """The same numbers as a grid's, drawn as bars: those of its first column.

    A second column, if there is one, is drawn as a mark in each bar, to be compared with its end.
    Rankings that are compared have the same `longest`: the number of a bar of full length.
    """

    grid: Grid  # a row for each name, in the order of the ranking
    remarks: tuple[str, ...]  # beside each bar, or empty
    longest: float | None = None  # None: the largest number that is drawn

    @property
    def unit(self) -> str:
        """What one row is: "head", "token"."""
        return self.grid.rows.unit

    @cached_property
    def full_length(self) -> float:
        """The number of a bar that is as long as can be."""
        if self.longest is not None:
            return self.longest
        return float(np.nanmax(np.abs(self.grid.values), initial=0)) or 1.0

    @property
    def mark_title(self) -> str:
        """What the marks in bars are; nothing where there are none."""
        return self.grid.columns.names[1] if len(self.grid.columns) > 1 else ""

    def mark_length(self, row: int) -> float | None:
        """How long a bar would be that ends at the mark."""
        value = float(self.grid.values[row, 1]) if self.mark_title else np.nan
        return None if np.isnan(value) else abs(value) / self.full_length

    def remark_text(self, row: int, number_format: NumberFormat) -> str:
        """The number of its mark, and the remark."""
        mark_texts = (
            []
            if self.mark_length(row) is None
            else [f"others {number_format(float(self.grid.values[row, 1]))}"]
        )
        return " · ".join(filter(None, (*mark_texts, self.remarks[row])))
