"""Grid and Curves: labelled tables of numbers and line charts; how grids are pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Shaped

from attnviz.cells import (
    FULL_SLICE,
    CellMask,
    Cells,
    CellValues,
    Patch,
    StoredCells,
    unmasked_cells,
)
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.scales import (
    Scale,
    centred_scale,
    colorless_scale,
    weight_scale,
    widest_scale,
)
from attnviz.wording.numbers import exact_text
from attnviz.wording.words import shape_text

TEXT_BLOCKS = 32  # of a map of blocks in a text file, on a side
OFF_SUFFIX = " (off)"  # after the name of a head that is switched off


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a chart: a value for each x value, and the lower and the upper end of a band
    around it.
    """

    name: str
    middle: Shaped[np.ndarray, "place"]
    low: Shaped[np.ndarray, "place"]
    high: Shaped[np.ndarray, "place"]
    dashed: bool = False  # computed from a formula, not measured
    plain: bool = False  # in the colour of the text instead of one of its own


@dataclass(frozen=True, eq=False, repr=False)
class Grid:
    """A labelled matrix of numbers with a colour scale."""

    title: str
    rows: Axis
    columns: Axis
    cells: Cells
    scale: Scale
    note: str = ""  # one line on how to read it
    share: bool = False  # rows sum to 1, so pooling adds columns instead of averaging them
    pool_note: str = ""  # what one cell stands for; empty unless cells were pooled
    cell_size: tuple[int, int] = (1, 1)  # how many rows and columns one cell stands for
    decimals: int | None = None  # None: as many as there is room for
    words: tuple[
        tuple[str, ...], ...
    ] = ()  # a word before the number of each cell; empty: no words
    off: tuple[bool, ...] = ()  # for each row, whether its head is switched off; empty: none is
    keeps_last: bool = False  # where rows have no room, the first are left out, not the last
    is_list: bool = False  # a column for each row in a terminal where its words are too wide
    # Runs of cells that the title is about, which a picture frames: row, first column, end.
    marks: tuple[tuple[int, int, int], ...] = ()

    def __repr__(self) -> str:
        """`<Grid 'weights': 4 × 4>`"""
        return f"<Grid {self.title!r}: {shape_text(self.cells.shape)}>"

    @cached_property
    def _whole_patch(self) -> Patch:
        return self.cells.window(FULL_SLICE, FULL_SLICE)

    @property
    def values(self) -> CellValues:
        """All numbers of the grid; for a part of a large grid, or for blocks, use its cells."""
        return self._whole_patch.values

    @cached_property
    def hidden(self) -> CellMask:
        """Which cells are not drawn: those masked, and those of −∞, which has no colour."""
        return self._whole_patch.hidden | np.isneginf(self._whole_patch.values)

    def is_off(self, row: int) -> bool:
        return bool(self.off) and self.off[row]

    @property
    def is_all_off(self) -> bool:
        """Whether the heads of all rows are switched off, so that the title is struck through;
        False if none is marked.
        """
        return bool(self.off) and all(self.off)

    def part(self, rows: slice, columns: slice = FULL_SLICE) -> Grid:
        return replace(
            self,
            rows=self.rows.part(rows),
            columns=self.columns.part(columns),
            cells=self.cells.stored(rows, columns),
            words=tuple(row_words[columns] for row_words in self.words[rows]),
            off=self.off[rows],
            marks=(),
        )

    def turned(self) -> Grid:
        cells = StoredCells(self.values.T, self.hidden.T)
        turned = replace(self, rows=self.columns, columns=self.rows, cells=cells)
        return replace(turned, share=False, marks=())

    def text_with_word(self, row: int, column: int, number: str) -> str:
        """Return `number` (the text of a cell's number), after the cell's word if the grid has
        words; an empty `number` stays empty.
        """
        return f"{self.words[row][column]} {number}".strip() if self.words and number else number

    def with_values(self, values: CellValues) -> Grid:
        return replace(self, cells=StoredCells(values, self.hidden))


@dataclass(frozen=True, eq=False)
class Curves:
    """A line chart: one or more numbers as functions of another."""

    title: str
    x_title: str
    x_values: tuple[float, ...]
    lines: tuple[Curve, ...]
    note: str = ""
    x_ticks: tuple[float, ...] = ()  # the x values that are labelled; empty: as many as fit
    reached_count: int | None = None  # only so many points are drawn; None: all
    reach: float = 0.0  # the y axis is at least so high
    counts: bool = False  # whether the values are whole numbers, and so those beside the y axis
    headed: bool = False  # whether a picture writes the title above the names of the lines

    @property
    def table(self) -> Grid:
        """The chart as a Grid: a row for each x value, a column with the middle of each line that
        is not dashed.
        """
        measured = [line for line in self.lines if not line.dashed]
        values = np.stack([line.middle for line in measured], axis=1)
        return Grid(
            f"{self.title} by {self.x_title}",
            plain_axis("value", [exact_text(x_value) for x_value in self.x_values]),
            plain_axis("line", [line.name for line in measured]),
            unmasked_cells(values),
            colorless_scale(self.title),
            note=self.note,
        )


def cells_without_nan(values: np.ndarray) -> StoredCells:
    """Return the values as cells, where NaN becomes a masked 0."""
    return StoredCells(np.nan_to_num(values), np.isnan(values))


def with_common_scales(grids: Sequence[Grid]) -> list[Grid]:
    """Return the grids with equal colour scales where the labels of the scales are equal, so that
    colours compare.
    """
    scales = common_scales(grids)
    return [replace(grid, scale=scales[grid.scale.label]) for grid in grids]


def common_scales(grids: Sequence[Grid]) -> dict[str, Scale]:
    """Return, for each label of a scale, the one with the largest upper end among these grids."""
    kinds: dict[str, list[Scale]] = {}
    for grid in grids:
        kinds.setdefault(grid.scale.label, []).append(grid.scale)
    return {label: widest_scale(scales) for label, scales in kinds.items()}


def pool_grid(grid: Grid, rows: int, columns: int) -> Grid:
    """Return the Grid with each block of `rows` by `columns` cells pooled into one cell; the last
    block may be smaller.

    Weights are added over the keys of a block and averaged over its queries, so that a row of the
    pooled grid still sums to 1, and get a new scale. Any other numbers are averaged.
    """
    if rows == columns == 1:
        return grid
    blocks = grid.cells.pooled(rows, columns, share=grid.share)
    cells = StoredCells(blocks.values, blocks.hidden)
    pooled = replace(
        grid,
        rows=grid.rows.in_blocks(rows),
        columns=grid.columns.in_blocks(columns),
        cells=cells,
        pool_note=_pooled_note(grid, rows, columns),
        cell_size=(rows * grid.cell_size[0], columns * grid.cell_size[1]),
    )
    if not grid.share:
        return pooled
    has_differences = grid.scale.kind == "diverging"
    scale = centred_scale(grid.scale.label, cells) if has_differences else weight_scale(cells)
    return replace(pooled, scale=scale)


def coarse_map(grid: Grid) -> Grid:
    """Return a map of blocks in at most TEXT_BLOCKS blocks on a side, as texts write it; any other
    grid comes back as it is.
    """
    if not grid.pool_note:
        return grid
    return pool_grid(grid, *(-(-count // TEXT_BLOCKS) for count in grid.cells.shape))


def block_size(count: int, least: int) -> int:
    """Return the smallest block size from `least` on that leaves no last block of under half a
    block, which would look pale; `least` where none up to a quarter more does.

    >>> block_size(36, 35), block_size(80, 2), block_size(10, 1)
    (36, 2, 1)
    """
    sizes = range(least, least + least // 4 + 2)
    return next((size for size in sizes if not 0 < count % size < size / 2), least)


def _pooled_note(grid: Grid, rows: int, columns: int) -> str:
    """Return what one cell stands for, such as `one cell = 2 × 2 tokens, averaged`; of blocks that
    are pooled again, too.
    """
    (height, width), units = grid.cell_size, (grid.rows.unit, grid.columns.unit)
    block = _block_text((rows * height, columns * width), units)
    if grid.share:
        return f"one cell = {block}: weights summed over keys, averaged over queries"
    of_blocks = f" over blocks of {_block_text(grid.cell_size, units)}" * (height * width > 1)
    how = f" ({grid.pool_note.partition(': ')[2]})" if grid.pool_note else ""
    return f"one cell = {block}, averaged{of_blocks}{how}"


def _block_text(size: tuple[int, int], units: tuple[str, str]) -> str:
    """Return the size of a block: `2 × 3 tokens`, or `2 tokens × 1 dimension`."""
    if units[0] == units[1]:
        return f"{size[0]:,} × {size[1]:,} {units[0]}s"
    return " × ".join(f"{count:,} {unit}{'s' * (count != 1)}"
                      for count, unit in zip(size, units, strict=True))  # fmt: skip


LOGARITHMIC_RATIO = 8  # of the highest value to the lowest, from which an axis is logarithmic


@dataclass(frozen=True)
class AxisSpan:
    """The range of an axis, linear or logarithmic."""

    low: float
    high: float
    logarithmic: bool

    def share(self, values: np.ndarray) -> np.ndarray:
        """Return how far along the axis each value lies, from 0 to 1; on a logarithmic axis lower
        values count as 0.
        """
        if self.logarithmic:
            values = np.log(np.maximum(values, self.low))
            return (values - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (values - self.low) / (self.high - self.low)


def horizontal_span(curves: Curves) -> AxisSpan:
    """Return the range of the x axis with a margin, logarithmic if all values are above 0 and the
    highest is at least LOGARITHMIC_RATIO times the lowest.
    """
    low, high = min(curves.x_values), max(curves.x_values)
    logarithmic = low > 0 and high / low >= LOGARITHMIC_RATIO
    if logarithmic:
        factor = (high / low) ** 0.04
        return AxisSpan(low / factor, high * factor, True)
    margin = (high - low) * 0.04
    return AxisSpan(low - (margin or 1), high + (margin or 1), False)


def vertical_span(curves: Curves) -> AxisSpan:
    """Return the range of the y axis: from 0 up, or logarithmic where a line is dashed and all
    values are above 0 and far apart.
    """
    ends = np.concatenate([end for line in curves.lines for end in (line.low, line.high)])
    ends = ends[~np.isnan(ends)]  # a line may have gaps
    low, high = (float(ends.min()), float(ends.max())) if ends.size else (0.0, 1.0)
    if any(line.dashed for line in curves.lines) and low > 0 and high / low >= LOGARITHMIC_RATIO:
        return AxisSpan(low / 1.3, high * 1.3, True)
    return AxisSpan(0.0, max(high, curves.reach) * 1.08 or 1.0, False)
