"""A table of numbers that need not be kept whole: asked for by row, by window, or in blocks.

Whoever has all the numbers in memory answers with `Whole`. Whoever can only work them out, a part
at a time, says how large the table is and what stands in a window of it; the rest follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Shaped

CellValues = Shaped[np.ndarray, "row column"]
CellMask = Bool[np.ndarray, "row column"]
SampledNumbers = Shaped[np.ndarray, "number"]

CELLS_PER_BAND = 2**18
MAX_SAMPLED_NUMBERS = 1_000_000  # numbers, by which those of a book are judged
FULL_SLICE = slice(None)


@dataclass(frozen=True, eq=False)
class Patch:
    """A part of a table: its numbers, and which of them are hidden."""

    values: CellValues
    hidden: CellMask


class Cells(ABC):
    """A table of numbers, some of them hidden; NaN is what is not yet known."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""

    @abstractmethod
    def window(self, rows: slice, columns: slice) -> Patch:
        """What stands in some rows and columns."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.shape[0]} × {self.shape[1]} cells>"

    def row(self, row: int) -> Patch:
        """One row, as a table of one."""
        return self.window(slice(row, row + 1), FULL_SLICE)

    def pooled(self, height: int, width: int, *, share: bool) -> Patch:
        """Blocks of cells as one cell each; those at the end may be smaller.

        A row that is divided up stays so: a share is added over the columns of a block and
        averaged over its rows. Anything else is averaged, but for −∞, of which nothing is an
        average. A block is hidden if all of it is.
        """
        down, across = (
            -(-count // size) for count, size in zip(self.shape, (height, width), strict=True)
        )
        # Small pieces that are kept would lie between the large bands that are not, and keep
        # their memory from whoever wants it next: there is one place for all blocks.
        pooled_patch = Patch(np.empty((down, across)), np.empty((down, across), dtype=bool))
        first = 0
        for band in self.bands(height):
            blocks = _pool_blocks(band, height, width, share=share)
            rows = slice(first, first + len(blocks.values))
            pooled_patch.values[rows], pooled_patch.hidden[rows] = blocks.values, blocks.hidden
            first = rows.stop
        return pooled_patch

    def bands(self, height: int = 1) -> Iterator[Patch]:
        """All rows from the top, a few million cells at once, in multiples of so many rows."""
        rows, columns = self.shape
        rows_per_band = max(1, CELLS_PER_BAND // max(1, columns * height)) * height
        for first in range(0, rows, rows_per_band):
            yield self.window(slice(first, first + rows_per_band), FULL_SLICE)

    @cached_property
    def extent(self) -> tuple[int | float, int | float]:
        """The lowest and the highest number, 0 among them; whole where all numbers are."""
        lows, highs = [], []
        for band in self.bands():
            numbers = band.values[np.isfinite(band.values)]
            lows.append(numbers.min(initial=0).item())
            highs.append(numbers.max(initial=0).item())
        return min(lows, default=0), max(highs, default=0)

    @property
    def reach(self) -> float:
        """How far from 0 the numbers go."""
        return float(max(-self.extent[0], self.extent[1]))

    @cached_property
    def has_hidden(self) -> bool:
        """Whether any cell is hidden."""
        return any(bool(band.hidden.any()) for band in self.bands())

    def sample(self) -> SampledNumbers:
        """All numbers of a table of ordinary size, and every so many of a larger one."""
        rows, columns = self.shape
        step = max(1, rows * columns // MAX_SAMPLED_NUMBERS)
        samples, numbers_before = [], 0
        for band in self.bands():
            flat = band.values.ravel()
            samples.append(
                flat[-numbers_before % step :: step].copy()
            )  # a part would keep the whole band
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
class MappedCells(Cells):
    """A table of which every part is changed by a function before it is handed on."""

    cells: Cells
    change: Callable[[Patch], Patch]

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        return self.change(self.cells.window(rows, columns))


@dataclass(frozen=True, eq=False, repr=False)
class LazyCells(Cells):
    """A table that is made whenever it is asked for: many may be there, and none is kept.

    Whoever goes through all of it asks for its bands, for which it is made once.
    """

    size: tuple[int, int]
    make: Callable[[], Cells]

    @property
    def shape(self) -> tuple[int, int]:
        return self.size

    def window(self, rows: slice, columns: slice) -> Patch:
        return self.make().window(rows, columns)

    def bands(self, height: int = 1) -> Iterator[Patch]:
        return self.make().bands(height)


def unmasked_cells(values: CellValues) -> StoredCells:
    """A table of which nothing is hidden."""
    return StoredCells(values, np.zeros(values.shape, dtype=bool))


def _pool_blocks(patch: Patch, height: int, width: int, *, share: bool) -> Patch:
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
    """The sums of blocks that begin at these rows and columns."""
    rows = np.add.reduceat(values, across, axis=1, dtype=np.float64)
    sums: CellValues = np.add.reduceat(rows, down, axis=0, dtype=np.float64)
    return sums
