"""Heads of long texts: blocks of tokens as one cell each, and single rows as they are.

As many rows as there is room for, evenly spread and the last among them; and the one that is
asked for, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnviz.cells import EVERYTHING, Patch
from attnviz.renderers.page.keeping import Kept, in_turn, scale_of
from attnviz.renderers.page.packing import COARSE, EXACT, FINE, Packed, packed
from attnviz.renderers.page.thumbnails import block_of, small
from attnviz.views.grids.explored import Explored, HeadMap
from attnviz.wording.words import counted

FOR_BLOCKS, FOR_ASKED = 0.3, 0.2  # of all bytes, at most; the rest is for rows
LOOKED_AT = 32  # rows, by which it is judged how much a mask hides


@dataclass(frozen=True)
class Room:
    """How much of each head has room."""

    cells: int  # on a side, of blocks
    step: int  # from one row that is kept to the next
    asked: int | None  # the row that is asked for,
    bits: int  # and those of each of its numbers

    def blocks(self, head: HeadMap) -> tuple[int, int]:
        """How many queries and keys one cell stands for."""
        high, wide = head.weights.shape
        return block_of(high, self.cells), block_of(wide, self.cells)

    def rows(self, head: HeadMap) -> list[tuple[slice, int]]:
        """Which rows are kept, and with how many bits."""
        high = head.weights.shape[0]
        spread = slice((high - 1) % self.step, high, self.step), COARSE
        if self.asked is None or self.asked >= high or not self.bits:
            return [spread]
        return [(slice(self.asked, self.asked + 1), self.bits), spread]


def kept_in_blocks(explored: Explored, size: int) -> list[Kept]:
    """Every head, in about so many bytes altogether."""
    room = room_for(explored, size)
    return list(in_turn(explored.heads, lambda head: _kept(head, room)))


def room_for(explored: Explored, size: int) -> Room:
    """How the bytes of a page are shared out: a code has one, whatever else is known of it."""
    seen = [_seen(each) for each in explored.heads]
    widths = [each.weights.shape[1] * part for each, part in zip(explored.heads, seen, strict=True)]
    cells = math.isqrt(int(FOR_BLOCKS * size / max(sum(seen), 1e-9)))
    fits = (bits for bits in (EXACT, FINE, COARSE) if sum(widths) * bits / 8 <= FOR_ASKED * size)
    bits = next(fits, 0) if explored.query is not None else 0
    left = size * (1 - FOR_BLOCKS) - sum(widths) * bits / 8
    numbers = sum(w * each.weights.shape[0] for w, each in zip(widths, explored.heads, strict=True))
    return Room(max(cells, 1), math.ceil(numbers / left), explored.query, bits)


def note_on_blocks(explored: Explored, kept: Sequence[Kept]) -> str:
    """What one cell is, and of which tokens the page has more."""
    about, head = kept[0].about, explored.heads[0]
    spread, high = about["kept"][-1], head.weights.shape[0]
    how = "weights added over the keys, averaged over the queries" if head.share else "averaged"
    return (
        f"one cell = {about['tall']} × {about['wide']} {head.reads.counts}s: {how} · "
        f"{counted(spread['count'], 'row')} of {high:,} kept token by token: "
        f"every {spread['step']}th, the last"
        f"{' and the one that is asked for' if len(about['kept']) > 1 else ''}"
    )


def _seen(head: HeadMap) -> float:
    """How much of a head is not hidden, as far as some of its rows show."""
    step = max(1, head.weights.shape[0] // LOOKED_AT)
    return float(1 - head.weights.window(slice(step // 2, None, step), EVERYTHING).hidden.mean())


def _kept(head: HeadMap, room: Room) -> Kept:
    tall, wide = room.blocks(head)
    blocks = head.weights.pooled(tall, wide, share=head.share)
    rows = [(places, *_rows(head, places, bits)) for places, bits in room.rows(head)]
    few = small(blocks, share=head.share)
    return Kept(
        tables={
            "weights": packed(blocks, COARSE),
            **{f"kept-{number}": table for number, (_, _, table) in enumerate(rows)},
        },
        scale=scale_of(head, blocks),
        of_rows=scale_of(head, rows[-1][1]),
        small=few,
        of_small=scale_of(head, few),
        about={
            "tall": tall,
            "wide": wide,
            "kept": [_about(places, head.weights.shape[0]) for places, *_ in rows],
        },
    )


def _rows(head: HeadMap, places: slice, bits: int) -> tuple[Patch, Packed]:
    """Some rows as they are, and packed."""
    patch = head.weights.window(places, EVERYTHING)
    scores = None if head.scores is None else head.scores.window(places, EVERYTHING)
    return patch, packed(patch, bits, scores)


def _about(places: slice, rows: int) -> dict[str, Any]:
    first, last, step = places.indices(rows)
    return {"first": first, "step": step, "count": len(range(first, last, step))}
