"""Grids of more cells than there is room for, in blocks of cells."""

from __future__ import annotations

from dataclasses import replace

from attnviz.cells import Whole
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred, weight_scale


def pool(grid: Grid, rows: int, columns: int) -> Grid:
    """The grid in blocks of `rows` by `columns` cells, each drawn as one; the last may be smaller.

    A row that is divided up stays so: weights are added over the keys of a block and averaged
    over its queries, so that a row of the pooled grid still sums to 1. Anything else is averaged.
    """
    if rows == columns == 1:
        return grid
    blocks = grid.cells.pooled(rows, columns, share=grid.share)
    cells = Whole(blocks.values, blocks.hidden)
    pooled = replace(
        grid,
        rows=grid.rows.in_blocks(rows),
        columns=grid.columns.in_blocks(columns),
        cells=cells,
        pooled=_what_was_pooled(grid, rows, columns),
    )
    if not grid.share:
        return pooled
    differences = grid.scale.kind == "diverging"
    scale = centred(grid.scale.label, cells) if differences else weight_scale(cells)
    return replace(pooled, scale=scale)


def block_size(count: int, smallest: int) -> int:
    """The first size that leaves no short last block, which would look as if nobody read it.

    >>> block_size(36, 35), block_size(80, 2), block_size(10, 1)
    (36, 2, 1)
    """
    sizes = range(smallest, smallest + smallest // 4 + 2)
    return next((size for size in sizes if not 0 < count % size < size / 2), smallest)


def _what_was_pooled(grid: Grid, rows: int, columns: int) -> str:
    block = f"{rows} × {columns} {grid.rows.counts}s"
    if grid.share:
        return f"one cell = {block}: weights summed over keys, averaged over queries"
    return f"one cell = {block}, averaged"
