"""RowChanges: how the rows of layers of a long text differ, read tile by tile."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis.measures import HeadRows, LargestChange, partial_divergence
from attnviz.attention.tiles import (
    LEAST_LOGIT,
    BlockGrid,
    QueryBlock,
    TileMemory,
    attend_by_tiles,
    least_exponent,
    summing_dtype,
)
from attnviz.traces.long_weights import LongWeights, report_progress
from attnviz.wording.words import with_summary

COMPARED_CELLS, LEAST_COMPARED_KEYS = 2**19, 64  # in a tile
Tile = Float[Tensor, "head key query"]


@with_summary
@dataclass(frozen=True, eq=False)
class RowChanges:
    """How the rows of an alternative differ from those of the reference; of the mean over heads if
    their numbers of heads differ.
    """

    moved: HeadRows  # the share of a row's weight that is on other keys: half the sum of |changes|
    divergence: HeadRows  # Jensen-Shannon divergence, in bits
    largest: LargestChange


@torch.no_grad()
def compare_long_rows(
    base: LongWeights, others: Sequence[LongWeights], rows: slice | None = None
) -> list[RowChanges]:
    """Return how the rows of each of `others` differ from those of `base`, for all queries or those
    in `rows`, in one pass over the tiles of all of them.
    """
    blocks = base.attention.row_blocks() if rows is None else [rows]
    first, queries = blocks[0].start, blocks[-1].stop - blocks[0].start
    totals = [_ChangeTotals(base, other, first, queries) for other in others]
    for block in blocks:
        sides = [_TileSource(each, block, is_summarized=rows is None) for each in (base, *others)]
        for keys in _shared_tiles(sides):
            [tile, *other_tiles] = [side.weights(keys) for side in sides]
            for total, other_tile in zip(totals, other_tiles, strict=True):
                total.add(tile, other_tile.to(tile.device), block, keys)
        for total, side in zip(totals, sides[1:], strict=True):
            total.leave_out([sides[0].is_blind, side.is_blind], block)
        report_progress(queries, block.stop - first)
    return [total.changes() for total in totals]


class _TileSource:
    """Weights of some queries of one layer, in all heads, a tile of keys at a time."""

    def __init__(self, weights: LongWeights, rows: slice, *, is_summarized: bool) -> None:
        attention = weights.attention
        heads = [attention.head(number) for number in range(attention.shape[0])]
        memory, keys = TileMemory(threading.Event()), attention.shape[2]
        whole_row = BlockGrid(rows.stop - rows.start, keys, "mean")
        self.blocks = [QueryBlock(head, rows, memory) for head in heads]
        self.log_sums = [
            weights.summary.log_sums[number, rows]
            if is_summarized
            else attend_by_tiles(block, whole_row).log_sums
            for number, block in enumerate(self.blocks)
        ]
        self.is_blind = torch.stack([sums.isneginf() for sums in self.log_sums])
        tiles = [tile.keys for block in self.blocks for tile in block.tiles(1)]
        self.start = min((keys.start for keys in tiles), default=0)
        self.stop = max((keys.stop for keys in tiles), default=0)

    def weights(self, keys: slice) -> Tile:
        weights = []
        for block, log_sums in zip(self.blocks, self.log_sums, strict=True):
            head, logits = block.head, block.logits(keys).sub_(log_sums.clamp(min=LEAST_LOGIT))
            hidden = head.mask.hidden(block.rows, keys, head.device)
            for matrix in head.added:
                hidden |= matrix[block.rows, keys].T.isneginf()
            weights.append(logits.clamp_(min=least_exponent(logits)).exp().masked_fill_(hidden, 0))
        return torch.stack(weights)


def _shared_tiles(sides: Sequence[_TileSource]) -> Iterator[slice]:
    """Yield slices of the keys that any of the queries attends to in any side."""
    start, stop = min(side.start for side in sides), max(side.stop for side in sides)
    cells = max(len(side.blocks) for side in sides) * sides[0].blocks[0].count
    step = max(LEAST_COMPARED_KEYS, COMPARED_CELLS // cells)
    for first in range(start, stop, step):
        yield slice(first, min(first + step, stop))


class _ChangeTotals:
    """The changes from one layer's weights to another's, added up over tiles."""

    def __init__(self, base: LongWeights, other: LongWeights, first: int, queries: int) -> None:
        self.is_by_head = base.heads == other.heads
        heads = base.heads if self.is_by_head else 1
        device = base.attention.device
        dtype = summing_dtype(device)
        self.first = first
        self.moved, self.divergence = torch.zeros(2, heads, queries, dtype=dtype, device=device)
        self.largest_size, self.largest = 0.0, LargestChange(None, first, 0, 0.0, 0.0)

    def add(self, before: Tile, after: Tile, rows: slice, keys: slice) -> None:
        if not self.is_by_head:
            before, after = before.mean(0, keepdim=True), after.mean(0, keepdim=True)
        place = slice(rows.start - self.first, rows.stop - self.first)
        sizes = (after - before).abs_()
        self.moved[:, place] += sizes.sum(1) / 2
        self.divergence[:, place] += partial_divergence(
            before.transpose(1, 2), after.transpose(1, 2)
        )
        if (size := float(sizes.max())) > self.largest_size:
            head, cell = divmod(int(sizes.argmax()), sizes[0].numel())
            key, query = divmod(cell, sizes.shape[-1])
            self.largest_size = size
            self.largest = LargestChange(
                None if len(sizes) == 1 else head,
                query + rows.start,
                key + keys.start,
                float(before[head, key, query]),
                float(after[head, key, query]),
            )

    def leave_out(self, is_blind: Sequence[Bool[Tensor, "head query"]], rows: slice) -> None:
        """Leave out the rows in which one of the two attends to nothing, in any head if means of
        heads are compared.
        """
        first, second = (
            each if self.is_by_head else each.any(0, keepdim=True) for each in is_blind
        )
        place = slice(rows.start - self.first, rows.stop - self.first)
        for total in (self.moved, self.divergence):
            total[:, place].masked_fill_(first | second.to(first.device), torch.nan)

    def changes(self) -> RowChanges:
        divergence = self.divergence.clamp(0, 1)
        return RowChanges(self.moved.clamp(max=1).cpu(), divergence.cpu(), self.largest)
