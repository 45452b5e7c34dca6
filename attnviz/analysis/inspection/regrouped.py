"""Cells of which some rows and columns are left out, or several count as one; and divided anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from attnviz.cells import EVERYTHING, Cells, Patch

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Regrouped(Cells):
    """Several rows and columns as one: the sum over keys, and the mean over queries."""

    cells: Cells
    rows: Groups  # rows of the cells; those of a group, and the groups, in their order
    columns: Groups

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        down, across = self.rows[rows], self.columns[columns]
        if not down or not across:
            return Patch(
                np.zeros((len(down), len(across))), np.ones((len(down), len(across)), bool)
            )
        first, last = down[0][0], down[-1][-1]
        inner = self.cells.window(slice(first, last + 1), EVERYTHING)
        places = np.ix_(_flat(down) - first, _flat(across))
        heights = np.array([len(group) for group in down])[:, None]
        values = _added(inner.values[places].astype(np.float64), down, across) / heights
        return Patch(values, _added(~inner.hidden[places], down, across) == 0)


@dataclass(frozen=True, eq=False, repr=False)
class Divided(Cells):
    """The same, each row divided by its sum; a row of zeros stays one."""

    cells: Cells

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, EVERYTHING)
        sums = patch.values.sum(axis=1, keepdims=True, dtype=np.float64)
        values = patch.values / np.where(sums, sums, 1)
        return Patch(values[:, columns], patch.hidden[:, columns])


def _flat(groups: Groups) -> Int[np.ndarray, "place"]:
    return np.array([place for group in groups for place in group])


def _added(numbers: np.ndarray, down: Groups, across: Groups) -> np.ndarray:
    """Sums over groups that stand side by side; each alone is its own sum."""
    if numbers.shape == (len(down), len(across)):
        return numbers
    rows, columns = (np.cumsum([0, *map(len, groups)])[:-1] for groups in (down, across))
    added = np.add.reduceat(numbers, columns, axis=1, dtype=np.float64)
    sums: np.ndarray = np.add.reduceat(added, rows, axis=0)
    return sums
