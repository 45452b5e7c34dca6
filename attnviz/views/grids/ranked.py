"""A ranking: names with a number each, the largest first, and a few words about each."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.views.grids.grid import Grid


@dataclass(frozen=True, eq=False)
class Ranked:
    """The same numbers as a grid's, drawn as bars: those of its first column."""

    grid: Grid  # a row for each name, in the order of the ranking
    remarks: tuple[str, ...]  # beside each bar, or empty
    reach: float  # the number of a bar that is as long as can be

    @property
    def counts(self) -> str:
        """What one row is: "head", "token"."""
        return self.grid.rows.counts
