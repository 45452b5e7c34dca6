"""Attention weights as lines between words, or as the words of a sentence in colour."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.views.grids.grid import Grid


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

    @cached_property
    def most_read(self) -> list[int]:
        """The visible columns, sorted by weight, the largest first."""
        order = np.argsort(-self.grid.values[0], kind="stable").tolist()
        return [column for column in order if not self.grid.hidden[0, column]]

    @property
    def bars(self) -> list[int]:
        """The columns that have a bar, in the order of the bars."""
        return self.most_read if self.has_bars else []

    @property
    def reads_others(self) -> bool:
        """Whether the query is in this sentence and attends to any other token of it."""
        return self.query is not None and self.most_read != [self.query]
