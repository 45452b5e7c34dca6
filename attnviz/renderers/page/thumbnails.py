"""Every head small, in one block of bytes: an overview opens before any head is unpacked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from attnviz.cells import Cells, Changed, Patch, Whole
from attnviz.renderers.page.packing import COARSE, Packed, packed, whole
from attnviz.views.grids.pooling import block_size

FINEST = 32  # cells on a side


def small(cells: Cells, *, share: bool) -> Whole:
    """A table as it is, or in blocks: what is read of each is added, where rows are divided up."""
    high, wide = (block_of(count, FINEST) for count in cells.shape)
    if high == wide == 1:
        return whole(cells)
    blocks = Changed(cells, _nothing_hidden).pooled(high, wide, share=share)
    return Whole(blocks.values, blocks.hidden)


def _nothing_hidden(patch: Patch) -> Patch:
    """With 0 where a cell is hidden."""
    return Patch(np.where(patch.hidden, 0, patch.values), patch.hidden)


def block_of(count: int, most: int) -> int:
    """How many places stand together where there is room for so many cells."""
    return 1 if count <= most else block_size(count, math.ceil(count / most))


def together(patches: Sequence[Whole]) -> Packed:
    """A row for each of them, cell after cell; what one is shorter than another is hidden."""
    longest = max(patch.values.size for patch in patches)
    values = np.zeros((len(patches), longest), dtype=np.float32)
    hidden = np.ones((len(patches), longest), dtype=bool)
    for row, patch in enumerate(patches):
        known = ~patch.hidden & np.isfinite(patch.values)
        values[row, : known.size] = np.where(known, patch.values, 0).ravel()
        hidden[row, : known.size] = ~known.ravel()
    return packed(Whole(values, hidden), COARSE)
