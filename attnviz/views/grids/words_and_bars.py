"""RankedBars, Arcs and Sentence: one row of a grid as bars, lines or coloured words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnviz.views.grids.grid import Grid
from attnviz.views.grids.number_formats import NumberFormat

PALER = 2.0  # times as far as the largest number the colours of bars below lines reach


@dataclass(frozen=True, eq=False)
class RankedBars:
    """A ranking whose bars are the numbers in the first column of a grid.

    The second column, if there is one, is drawn as a mark in each bar to compare the bar's end
    with. Rankings that are compared share `longest`, the number of a bar of full length. With
    `intervals`, a picture draws bars to both sides of 0, and a line for each interval.
    """

    grid: Grid  # a row for each name, the first of the ranking first
    remarks: tuple[str, ...]  # beside each bar; may be empty
    longest: float | None = None  # None: the largest number of the grid
    intervals: tuple[tuple[float, float], ...] = ()  # low and high end of each row
    interval_title: str = ""  # what the lines across the bars are then

    @property
    def unit(self) -> str:
        """What one row is, in the singular: "head", "token"."""
        return self.grid.rows.unit

    def with_intervals(
        self, intervals: Sequence[tuple[float, float]], title: str, remarks: Sequence[str]
    ) -> RankedBars:
        """Return the ranking with a line for each interval, on bars pale enough for it, and with
        these remarks.
        """
        scale = self.grid.scale
        pale = replace(scale, low=PALER * scale.low, high=PALER * scale.high)
        return replace(
            self,
            grid=replace(self.grid, scale=pale),
            remarks=tuple(remarks),
            intervals=tuple(intervals),
            interval_title=title,
        )

    @cached_property
    def full_length(self) -> float:
        """The number of a bar of full length: `longest`, or the largest absolute number of the
        grid; 1 where all are 0.
        """
        if self.longest is not None:
            return self.longest
        return float(np.nanmax(np.abs(self.grid.values), initial=0)) or 1.0

    @property
    def mark_title(self) -> str:
        return self.grid.columns.names[1] if len(self.grid.columns) > 1 else ""

    def mark_length(self, row: int) -> float | None:
        """Return how far along the bar a row's mark stands, as a share of the full length; None
        without a mark.
        """
        value = float(self.grid.values[row, 1]) if self.mark_title else np.nan
        return None if np.isnan(value) else abs(value) / self.full_length

    def remark_text(self, row: int, number_format: NumberFormat) -> str:
        """Return what stands beside a bar: `others` and the number of the mark, if there is one,
        and the remark.
        """
        has_mark = self.mark_length(row) is not None
        mark_text = f"others {number_format(float(self.grid.values[row, 1]))}" if has_mark else ""
        return " · ".join(filter(None, (mark_text, self.remarks[row])))


@dataclass(frozen=True, eq=False)
class Arcs:
    """A line from each token to each token that it attends to, thicker for a larger weight."""

    grid: Grid  # a row for each query, a column for each key
    query: int | None = None  # the only row whose lines are drawn; None: all rows
    single_command: str = ""  # the command that draws this head alone; empty: there is none


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence whose words are coloured by how much one token attends to them."""

    grid: Grid  # with a single row
    query: int | None  # the column of the query itself; None: it is in another sentence
    has_bars: bool = True  # whether a list of bars is drawn below the sentence
    is_whole_text: bool = False  # then its lines are those of the text, and each token has a number
    written: int | None = None  # so many words are written so far, and the others blank; None: all
    single_command: str = ""  # the command that draws this head alone; empty: there is none

    @cached_property
    def most_read(self) -> list[int]:
        """The indices of the visible columns (tokens), sorted by weight, the largest first."""
        order = np.argsort(-self.grid.values[0], kind="stable").tolist()
        return [column for column in order if not self.grid.hidden[0, column]]

    @property
    def bars(self) -> list[int]:
        return self.most_read if self.has_bars else []

    @property
    def reads_others(self) -> bool:
        return self.query is not None and self.most_read != [self.query]
