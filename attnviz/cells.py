"""Cells: a table of numbers, perhaps larger than memory, read by row, window or pooled block.

A table in memory is a `StoredCells`. A table that is computed one part at a time is a subclass of
`Cells` that defines `shape` and `window`; everything else follows from those.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Shaped

from attnviz.wording.words import with_summary

CellValues = Shaped[np.ndarray, "row column"]
CellMask = Bool[np.ndarray, "row column"]
MergeFunction = Callable[[CellValues, CellValues], CellValues]
SampledNumbers = Shaped[np.ndarray, "number"]

CELLS_PER_BAND = 2**18
MAX_SAMPLED_NUMBERS = 1_000_000
FULL_SLICE = slice(None)


@with_summary
@dataclass(frozen=True, eq=False)
class Patch:
    """The values in part of a table, and which of them are hidden."""

    values: CellValues
    hidden: CellMask


class Cells(ABC):
    """A table of numbers, some of them hidden; NaN marks a number that is not known yet."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""

    @abstractmethod
    def window(self, rows: slice, columns: slice) -> Patch:
        """Return the values in these rows and columns, and which of them are hidden."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.shape[0]} × {self.shape[1]} cells>"

    def row(self, row: int) -> Patch:
        return self.window(slice(row, row + 1), FULL_SLICE)

    def stored(self, rows: slice = FULL_SLICE, columns: slice = FULL_SLICE) -> StoredCells:
        """Return these rows and columns as a table in memory."""
        patch = self.window(rows, columns)
        return StoredCells(patch.values, patch.hidden)

    def pooled(self, height: int, width: int, *, share: bool) -> Patch:
        """Pool each block of `height` × `width` cells into one; blocks at the end may be smaller.

        `share`: the cells are shares of a row, so they are summed over a block's columns and
        averaged over its rows, and rows still sum to 1. Other values are averaged, leaving out −∞;
        a block of −∞ only stays −∞. A pooled cell is hidden if its whole block is.
        """
        down, across = (
            -(-count // size) for count, size in zip(self.shape, (height, width), strict=True)
        )
        # One array for all blocks: small results kept between the large temporary bands would
        # fragment the memory.
        pooled = Patch(np.empty((down, across)), np.empty((down, across), dtype=bool))
        first = 0
        for band in self.bands(height):
            blocks = _pool_blocks(band, height, width, share=share)
            rows = slice(first, first + len(blocks.values))
            pooled.values[rows], pooled.hidden[rows] = blocks.values, blocks.hidden
            first = rows.stop
        return pooled

    def bands(self, height: int = 1) -> Iterator[Patch]:
        """Yield all rows from the top, about CELLS_PER_BAND cells at a time, in multiples of
        `height` rows."""
        rows, columns = self.shape
        rows_per_band = max(1, CELLS_PER_BAND // max(1, columns * height)) * height
        for first in range(0, rows, rows_per_band):
            yield self.window(slice(first, first + rows_per_band), FULL_SLICE)

    @cached_property
    def extent(self) -> tuple[int | float, int | float]:
        """The lowest and the highest finite number or 0; integers if the table holds integers."""
        lows, highs = [], []
        for band in self.bands():
            numbers = band.values[np.isfinite(band.values)]
            lows.append(numbers.min(initial=0).item())
            highs.append(numbers.max(initial=0).item())
        return min(lows, default=0), max(highs, default=0)

    @property
    def reach(self) -> float:
        """The largest absolute value of all finite numbers."""
        return float(max(-self.extent[0], self.extent[1]))

    @cached_property
    def has_hidden(self) -> bool:
        return any(bool(band.hidden.any()) for band in self.bands())

    def sample(self) -> SampledNumbers:
        """Return all numbers in one dimension, or about MAX_SAMPLED_NUMBERS evenly spaced ones of a
        larger table."""
        rows, columns = self.shape
        step = max(1, rows * columns // MAX_SAMPLED_NUMBERS)
        samples, numbers_before = [], 0
        for band in self.bands():
            flat = band.values.ravel()
            # A view would keep the whole band in memory.
            samples.append(flat[-numbers_before % step :: step].copy())
            numbers_before += flat.size
        return np.concatenate(samples) if samples else np.empty(0)


@dataclass(frozen=True, eq=False, repr=False)
class StoredCells(Cells):
    """A table that is in memory."""

    values: CellValues
    hidden: CellMask

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def window(self, rows: slice, columns: slice) -> Patch:
        return Patch(self.values[rows, columns], self.hidden[rows, columns])


@dataclass(frozen=True, eq=False, repr=False)
class DerivedCells(Cells):
    """Cells that are made of those of another table, one of each."""

    cells: Cells

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape


@dataclass(frozen=True, eq=False, repr=False)
class MappedCells(DerivedCells):
    """A table that applies a function to every patch of another table."""

    change: Callable[[Patch], Patch]

    def window(self, rows: slice, columns: slice) -> Patch:
        return self.change(self.cells.window(rows, columns))


@dataclass(frozen=True, eq=False, repr=False)
class MergedCells(Cells):
    """The mean of several tables (for `np.add`), or their cells combined in pairs, such as the
    maximum. A cell is hidden if it is in all of them."""

    tables: tuple[Cells, ...]
    merge_function: MergeFunction

    @property
    def shape(self) -> tuple[int, int]:
        return self.tables[0].shape

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.tables[0].window(rows, columns)
        values, hidden = patch.values.astype(np.float64), patch.hidden
        for other in self.tables[1:]:
            patch = other.window(rows, columns)
            values, hidden = self.merge_function(values, patch.values), hidden & patch.hidden
        return Patch(values / (len(self.tables) if self.merge_function is np.add else 1), hidden)


@dataclass(frozen=True, eq=False, repr=False)
class LazyCells(Cells):
    """A table that is built anew for every window, so that many of them take no memory.

    To read all of it use `bands`, which builds it once.
    """

    size: tuple[int, int]
    make: Callable[[], Cells]

    @property
    def shape(self) -> tuple[int, int]:
        return self.size

    @cached_property
    def has_hidden(self) -> bool:
        return self.make().has_hidden

    def window(self, rows: slice, columns: slice) -> Patch:
        return self.make().window(rows, columns)

    def bands(self, height: int = 1) -> Iterator[Patch]:
        return self.make().bands(height)


def unmasked_cells(values: CellValues) -> StoredCells:
    return StoredCells(values, np.zeros(values.shape, dtype=bool))


def _pool_blocks(patch: Patch, height: int, width: int, *, share: bool) -> Patch:
    """Return the patch with each block of `height` × `width` cells pooled into one, as
    `Cells.pooled` does."""
    rows, columns = patch.values.shape
    down, across = np.arange(0, rows, height), np.arange(0, columns, width)
    heights, widths = np.diff(np.append(down, rows)), np.diff(np.append(across, columns))
    cells = heights[:, None] * widths[None, :]
    divisor = heights[:, None] if share else cells
    infinite = np.isneginf(patch.values)
    if not share and infinite.any():
        divisor = cells - _block_sums(infinite, down, across)
    sums = _block_sums(np.where(infinite, 0, patch.values), down, across)
    values = np.where(divisor, sums / np.maximum(divisor, 1), -np.inf)
    return Patch(values, _block_sums(patch.hidden, down, across) == cells)


def _block_sums(
    values: Shaped[np.ndarray, "row column"],
    down: Shaped[np.ndarray, "down"],
    across: Shaped[np.ndarray, "across"],
) -> Shaped[np.ndarray, "down across"]:
    """Return the sums of the blocks that begin at these rows (`down`) and columns (`across`)."""
    rows = np.add.reduceat(values, across, axis=1, dtype=np.float64)
    sums: CellValues = np.add.reduceat(rows, down, axis=0, dtype=np.float64)
    return sums
