"""Heads of long texts: blocks of tokens as one cell each, and single rows as they are.

As many rows as there is room for, evenly spread, and the last among them; and the one that is
asked for, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from attnviz.cells import Whole
from attnviz.renderers.page.keeping import Kept, in_turn, scale_of
from attnviz.renderers.page.packing import COARSE, EXACT, FINE, Packed, packed, whole
from attnviz.renderers.page.thumbnails import block_of, small
from attnviz.views.grids.explored import Explored, HeadMap

FOR_BLOCKS, FOR_ASKED = 0.35, 0.2  # of all bytes, at most; the rest is for other rows
LOOKED_AT = 2**20  # cells, by which it is judged how many bytes all of them need
CLOSE = 0.97  # of the bytes that are left, if they are judged well


@dataclass(frozen=True)
class Rows:
    """Some rows of a head, and with how many bits they are kept."""

    first: int
    step: int
    bits: int = COARSE

    @property
    def places(self) -> slice:
        return slice(self.first, None, self.step)

    def about(self, head: HeadMap) -> dict[str, int]:
        count = len(range(self.first, head.weights.shape[0], self.step))
        return {"first": self.first, "step": self.step, "count": count}


def kept_in_blocks(explored: Explored, size: int) -> list[Kept]:
    """Every head, in about so many bytes altogether."""
    heads = explored.heads
    cells = _cells_on_a_side(heads, FOR_BLOCKS * size)
    blocks = list(in_turn(heads, partial(_blocks, cells=cells)))
    bits = _bits_of_asked(explored, FOR_ASKED * size)
    left = size - sum(each.size for each in blocks) - _size_of_asked(explored, bits)
    needed = sum(bytes_of_all_rows(each, COARSE) for each in heads)
    step = math.ceil(needed / max(CLOSE * left, 1))
    pairs = list(zip(heads, blocks, strict=True))
    return list(in_turn(pairs, partial(_with_rows, asked=explored.query, bits=bits, step=step)))


def note_on_blocks(head: HeadMap, kept: Kept) -> str:
    """What one cell is, and of which tokens the page has more."""
    about, high = kept.about, head.weights.shape[0]
    spread = about["kept"][-1]
    also = " and the chosen one" if len(about["kept"]) > 1 else ""
    how = "weights added over the keys, averaged over the queries" if head.share else "averaged"
    return (
        f"one cell = {about['tall']} × {about['wide']} {head.reads.counts}s: {how} · token by "
        f"token one row in {spread['step']} ({spread['count']:,} of {high:,}), the last among "
        f"them,{also}"
    ).removesuffix(",")


def _cells_on_a_side(heads: Sequence[HeadMap], size: float) -> int:
    """A cell that is not hidden has a byte."""
    seen = (1 - whole(each.weights, _every(each)).hidden.mean() for each in heads)
    return max(1, math.isqrt(int(size / max(sum(seen), 1e-9))))


def _bits_of_asked(explored: Explored, size: float) -> int:
    """As many as have room; 0 where nothing is asked for, or no row has room."""
    if explored.query is None:
        return 0
    fitting = (bits for bits in (EXACT, FINE, COARSE) if _size_of_asked(explored, bits) <= size)
    return next(fitting, 0)


def _size_of_asked(explored: Explored, bits: int) -> int:
    return sum(each.weights.shape[1] for each in explored.heads) * bits // 8


def bytes_of_all_rows(head: HeadMap, bits: int) -> float:
    """What a head needs, as some of its rows do."""
    _, table = _packed_rows(head, _every(head), bits)
    return len(table.block) * head.weights.shape[0] / max(table.shape[0], 1)


def _every(head: HeadMap) -> slice:
    """Rows that are looked at: all of a small head, and evenly spread ones of a large one."""
    rows, columns = head.weights.shape
    step = max(1, rows * columns // LOOKED_AT)
    return slice(step // 2, None, step)


def _blocks(head: HeadMap, cells: int) -> Kept:
    """A head in at most so many cells on a side."""
    tall, wide = (block_of(count, cells) for count in head.weights.shape)
    pooled = head.weights.pooled(tall, wide, share=head.share)
    blocks = Whole(pooled.values, pooled.hidden)
    few = small(blocks, share=head.share)
    return Kept(
        tables={"weights": packed(blocks, COARSE)},
        scale=scale_of(head, blocks),
        small=few,
        of_small=scale_of(head, few),
        about={"tall": tall, "wide": wide},
    )


def _with_rows(pair: tuple[HeadMap, Kept], asked: int | None, bits: int, step: int) -> Kept:
    """A head in blocks, and rows of it: the one that is asked for, then every so many."""
    head, kept = pair
    high = head.weights.shape[0]
    rows = [Rows((high - 1) % step, step)]
    if bits and asked is not None and asked < high:
        rows.insert(0, Rows(asked, high, bits))
    made = [_packed_rows(head, each.places, each.bits) for each in rows]
    return replace(
        kept,
        tables={
            **kept.tables,
            **{f"kept{number}": table for number, (_, table) in enumerate(made)},
        },
        of_rows=scale_of(head, made[-1][0]),
        about={**kept.about, "kept": [each.about(head) for each in rows]},
    )


def _packed_rows(head: HeadMap, places: slice, bits: int) -> tuple[Whole, Packed]:
    rows = whole(head.weights, places)
    scores = None if head.scores is None else whole(head.scores, places)
    return rows, packed(rows, bits, scores)
