"""The heads of a page: what is kept of each, whole or in blocks for long texts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from attnviz.cells import Cells, Changed, Patch, Whole
from attnviz.renderers.page.packing import (
    COARSE,
    COARSEST,
    EXACT,
    FINE,
    Packed,
    bits_of,
    block_of,
    compressed_bits,
    packed,
    small,
    text_of,
    together,
    whole,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explored import Explored, HeadMap, common
from attnviz.views.grids.scales import Scale, logarithmic
from attnviz.wording.numbers import power_text

ROOM = 18_000_000  # bytes of all heads together, which are 24 MB of base64
MOST_CELLS = 2**27  # so many never come to so few bytes
CLOSE = 1.05  # as near as this it is tried
SAMPLE = 4  # heads, by which it is judged whether all have room


def packed_heads(explored: Explored) -> tuple[dict[str, Any], dict[str, str]]:
    """What a page has to know of its heads; and, by name, the blocks that it unpacks."""
    kept = kept_heads(explored)
    tables = {
        f"{kind}-{number}": table
        for number, each in enumerate(kept)
        for kind, table in each.tables.items()
    }
    tables["thumbnails"] = together([each.small for each in kept])
    masks = {each: n for n, each in enumerate(dict.fromkeys(t.seen for t in tables.values()))}
    blocks = {name: text_of(table.block) for name, table in tables.items()}
    blocks |= {f"mask-{n}": text_of(compressed_bits(each)) for each, n in masks.items() if each}
    return _about(explored, kept, tables, masks), blocks


def kept_heads(explored: Explored) -> list[Kept]:
    """All of each head, with as many bits as have room; or of a long text blocks, and some rows."""
    cells = sum(map(_cells, explored.heads))
    finest = bits_of(cells)
    for bits in [finest] if finest > COARSE else range(COARSE, COARSEST - 1, -1):
        if cells <= MOST_CELLS and _may_fit(explored.heads, bits):
            keep = partial(kept_whole, bits=bits)
            kept = within(in_turn(explored.heads, keep), ROOM)
            if kept is not None:
                return kept
    return kept_in_blocks(explored, ROOM)


def _may_fit(heads: Sequence[HeadMap], bits: int) -> bool:
    """Whether all are likely to have room, as some rows of some of them have."""
    if bits > COARSE:
        return True
    some = heads[:: max(1, len(heads) // SAMPLE)][:SAMPLE]
    sizes = sum(bytes_of_all_rows(each, bits) for each in some)
    return sizes * sum(map(_cells, heads)) <= ROOM * sum(map(_cells, some)) * CLOSE


def _cells(head: HeadMap) -> int:
    rows, columns = head.weights.shape
    return rows * columns


def _about(
    explored: Explored,
    kept: Sequence[Kept],
    tables: Mapping[str, Packed],
    masks: Mapping[bytes, int],
) -> dict[str, Any]:
    each_once = {id(side): side for each in explored.heads for side in _sides(each)}.values()
    sides = list(dict.fromkeys(each_once))
    return {
        "heads": _heads(explored, kept, sides),
        "tables": {
            name: {**table.about, "mask": masks[table.seen] if table.seen else None}
            for name, table in tables.items()
        },
        **_all_scales(explored, kept),
        "sides": list(map(_side, sides)),
        "rows": explored.rows.headings,
        "columns": explored.columns.headings,
        "rowsAre": explored.rows.counts,
        "columnsAre": explored.columns.counts,
        "query": explored.query,
        "key": explored.key,
        "first": explored.first,
        "log": explored.log,
        "note": _note(explored, kept),
        "accuracy": accuracy(tables),
        "flags": [
            {"head": each.map, "kind": each.kind, "short": each.short, "number": each.number}
            for each in explored.flags
        ],
    }


def _heads(explored: Explored, kept: Sequence[Kept], sides: Sequence[Axis]) -> list[dict[str, Any]]:
    places = {id(side): sides.index(side) for each in explored.heads for side in _sides(each)}
    measures = _measures(explored)
    return [
        {
            "name": each.name,
            "place": each.place,
            "reads": places[id(each.reads)],
            "read": places[id(each.read)],
            "share": each.share,
            "off": each.off,
            "note": each.note,
            "pair": each.pair,
            "paired": each.paired,
            "scale": measures.index(each.measure),
            "small": list(one.small.values.shape),
            **one.about,
        }
        for each, one in zip(explored.heads, kept, strict=True)
    ]


def accuracy(tables: Mapping[str, Packed]) -> str:
    """How far numbers of a page are from the ones they stand for; nothing where they are these."""
    rough = [each for name, each in tables.items() if name != "thumbnails" and each.error]
    if not rough:
        return ""
    bits, error = min(each.bits for each in rough), max(each.error for each in rough)
    scores = any(each.slack is not None for each in rough)
    return (
        f"numbers are stored in {bits} bits, with an error of {power_text(error, 1)} at "
        f"most{'; scores are computed from them' if scores else ''}"
    )


def _note(explored: Explored, kept: Sequence[Kept]) -> str:
    blocks = note_on_blocks(explored.heads[0], kept[0]) if "kept" in kept[0].about else ""
    return " · ".join(filter(None, (explored.note, blocks)))


def _measures(explored: Explored) -> list[str]:
    return list(dict.fromkeys(each.measure for each in explored.heads))


def _all_scales(explored: Explored, kept: Sequence[Kept]) -> dict[str, Any]:
    """Of cells, of rows, of thumbnails: each one for all heads whose numbers have one name."""
    of_cells = _scales(explored, [each.scale for each in kept])
    return {
        "scale": of_cells[0],
        "scales": of_cells,
        "rowScales": _scales(explored, [each.of_rows or each.scale for each in kept]),
        "smallScales": _scales(explored, [each.of_small for each in kept]),
    }


def _scales(explored: Explored, scales: Sequence[Scale]) -> list[dict[str, Any]]:
    keys = max(len(each.read) for each in explored.heads)
    pairs = list(zip(explored.heads, scales, strict=True))
    return [
        _scale(common([scale for head, scale in pairs if head.measure == measure]), keys)
        for measure in _measures(explored)
    ]


def _scale(scale: Scale, keys: int) -> dict[str, Any]:
    """What colours stand for; and where they begin if they are of logarithms."""
    return {
        "label": scale.label,
        "low": scale.low,
        "high": scale.high,
        "kind": scale.kind,
        "beyond": scale.beyond,
        "logLow": logarithmic(scale, keys).low,
    }


def _sides(each: HeadMap) -> tuple[Axis, Axis]:
    return each.reads, each.read


def _side(axis: Axis) -> dict[str, Any]:
    return {
        "title": axis.title,
        "counts": axis.counts,
        "labels": axis.labels,
        "numbers": axis.numbers,
        "spaced": axis.spaced,
        "special": axis.special,
        "border": axis.border,
    }


Anything = TypeVar("Anything")
AT_HAND = 2**20  # cells of a head
THREADS = 4  # at most: each has the numbers of a head in memory


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept:
    """A head, as a page has it."""

    tables: Mapping[str, Packed]
    scale: Scale  # what the colours of its cells stand for,
    of_rows: Scale | None = None  # those of single rows, where cells stand for blocks of tokens,
    small: Whole
    of_small: Scale  # and those of the head in few cells
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(each.block) for each in self.tables.values())


def kept_whole(head: HeadMap, bits: int) -> Kept:
    """All its numbers; scores as they are where weights are, else what makes them of weights."""
    weights = at_hand(head.weights)
    tables = {"weights": packed(weights, bits, head.scores)}
    if head.scores is not None and bits == EXACT:
        tables["scores"] = packed(head.scores, bits)
    few = small(weights, share=head.share)
    return Kept(
        tables=tables, scale=scale_of(head, weights), small=few, of_small=scale_of(head, few)
    )


def at_hand(cells: Cells) -> Cells:
    """A table that is gone through several times: in memory, but for a very large one."""
    rows, columns = cells.shape
    return whole(cells) if rows * columns <= AT_HAND else cells


def scale_of(head: HeadMap, cells: Cells) -> Scale:
    """What colours stand for, of numbers of a head that are seen."""
    return head.scale(Changed(cells, _seen))


def _seen(patch: Patch) -> Patch:
    seen = ~patch.hidden & np.isfinite(patch.values)
    return Patch(np.where(seen, patch.values, 0), ~seen)


def in_turn(each: Sequence[Anything], keep: Callable[[Anything], Kept]) -> Iterator[Kept]:
    """Each in its order, a few of them at once: whoever wants no more ends the rest."""
    threads = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1))
    try:
        yield from threads.map(keep, each)
    finally:
        threads.shutdown(cancel_futures=True)


def within(kept: Iterable[Kept], size: int) -> list[Kept] | None:
    """All of them; none if they come to more bytes."""
    found, left = [], size
    for each in kept:
        found.append(each)
        left -= each.size
        if left < 0:
            return None
    return found


FOR_BLOCKS, FOR_ASKED = 0.35, 0.2  # of all bytes, at most; the rest is for other rows
LOOKED_AT = 2**20  # cells, by which it is judged how many bytes all of them need
SAFE_SHARE = 0.97  # of the bytes that are left, if they are judged well


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
    step = math.ceil(needed / max(SAFE_SHARE * left, 1))
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
