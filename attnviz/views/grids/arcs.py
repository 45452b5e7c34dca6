"""Weights as lines between words: the same numbers as a grid's, to be drawn another way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.views.grids.grid import Grid


@dataclass(frozen=True, eq=False)
class Arcs:
    """A line from each token to each that it reads, the thicker the more."""

    grid: Grid  # a row for each token that reads, a column for each that is read
    query: int | None = None  # the row whose lines alone are drawn
    single_command: str = ""  # the command that draws it alone, where there is one


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence as one token reads it: its words in colour, and how much is read of each."""

    grid: Grid  # of one row
    query: int | None  # where the token that reads stands among the columns; None: elsewhere
    has_bars: bool = True  # whether there is a list of bars below it

    @cached_property
    def most_read(self) -> list[int]:
        """Every column that is not hidden, the most read first."""
        order = np.argsort(-self.grid.values[0], kind="stable").tolist()
        return [column for column in order if not self.grid.hidden[0, column]]

    @property
    def bars(self) -> list[int]:
        """The columns that have a bar."""
        return self.most_read if self.has_bars else []

    @property
    def reads_others(self) -> bool:
        """Whether there is a token of this sentence that reads another one of it."""
        return self.query is not None and self.most_read != [self.query]
