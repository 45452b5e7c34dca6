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

from attnviz.cells import Cells, MappedCells, Patch, StoredCells
from attnviz.renderers.page.packing import (
    COARSE_BITS,
    COARSEST_BITS,
    EXACT_BITS,
    FINE_BITS,
    PackedTable,
    bits_per_number,
    block_side,
    compress_bits,
    encode_base64,
    load_cells,
    pack_table,
    pack_thumbnails,
    thumbnail_cells,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, common_scale
from attnviz.views.grids.scales import Scale, logarithmic_scale
from attnviz.wording.numbers import power_text

MAX_HEADS_BYTES = 18_000_000  # bytes of all heads together, which are 24 MB of base64
MAX_PACKED_CELLS = 2**27  # so many never come to so few bytes
ESTIMATE_TOLERANCE = 1.05  # as near as this it is tried
SAMPLED_HEADS = 4  # heads, by which it is judged whether all have room


def pack_heads(explored: HeadExplorer) -> tuple[dict[str, Any], dict[str, str]]:
    """What a page has to know of its heads; and, by name, the blocks that it unpacks."""
    heads = pack_each_head(explored)
    tables = {
        f"{kind}-{number}": table
        for number, each in enumerate(heads)
        for kind, table in each.tables.items()
    }
    tables["thumbnails"] = pack_thumbnails([each.small for each in heads])
    masks = {each: n for n, each in enumerate(dict.fromkeys(t.seen for t in tables.values()))}
    blocks = {name: encode_base64(table.block) for name, table in tables.items()}
    blocks |= {f"mask-{n}": encode_base64(compress_bits(each)) for each, n in masks.items() if each}
    return _heads_description(explored, heads, tables, masks), blocks


def pack_each_head(explored: HeadExplorer) -> list[PackedHead]:
    """All of each head, with as many bits as have room; or of a long text blocks, and some rows."""
    cells = sum(map(_cell_count, explored.heads))
    finest = bits_per_number(cells)
    for bits in [finest] if finest > COARSE_BITS else range(COARSE_BITS, COARSEST_BITS - 1, -1):
        if cells <= MAX_PACKED_CELLS and _may_fit(explored.heads, bits):
            keep = partial(pack_whole_head, bits=bits)
            heads = take_within_bytes(pack_in_order(explored.heads, keep), MAX_HEADS_BYTES)
            if heads is not None:
                return heads
    return pack_heads_in_blocks(explored, MAX_HEADS_BYTES)


def _may_fit(heads: Sequence[HeadMap], bits: int) -> bool:
    """Whether all are likely to have room, as some rows of some of them have."""
    if bits > COARSE_BITS:
        return True
    sampled_heads = heads[:: max(1, len(heads) // SAMPLED_HEADS)][:SAMPLED_HEADS]
    sizes = sum(estimate_row_bytes(head, bits) for head in sampled_heads)
    return (
        sizes * sum(map(_cell_count, heads))
        <= MAX_HEADS_BYTES * sum(map(_cell_count, sampled_heads)) * ESTIMATE_TOLERANCE
    )


def _cell_count(head: HeadMap) -> int:
    rows, columns = head.weights.shape
    return rows * columns


def _heads_description(
    explored: HeadExplorer,
    page_heads: Sequence[PackedHead],
    tables: Mapping[str, PackedTable],
    masks: Mapping[bytes, int],
) -> dict[str, Any]:
    axes_by_id = {id(side): side for each in explored.heads for side in _head_axes(each)}.values()
    sides = list(dict.fromkeys(axes_by_id))
    return {
        "heads": _head_descriptions(explored, page_heads, sides),
        "tables": {
            name: {**table.about, "mask": masks[table.seen] if table.seen else None}
            for name, table in tables.items()
        },
        **_scale_descriptions(explored, page_heads),
        "sides": list(map(_describe_axis, sides)),
        "rows": explored.rows.headings,
        "columns": explored.columns.headings,
        "rowsAre": explored.rows.unit,
        "columnsAre": explored.columns.unit,
        "query": explored.query,
        "key": explored.key,
        "first": explored.first,
        "log": explored.log,
        "note": _explorer_note(explored, page_heads),
        "accuracy": accuracy_note(tables),
        "flags": [
            {"head": each.map_index, "kind": each.kind, "short": each.short, "number": each.number}
            for each in explored.flags
        ],
    }


def _head_descriptions(
    explored: HeadExplorer, page_heads: Sequence[PackedHead], sides: Sequence[Axis]
) -> list[dict[str, Any]]:
    axis_numbers = {
        id(side): sides.index(side) for each in explored.heads for side in _head_axes(each)
    }
    measures = _distinct_measures(explored)
    return [
        {
            "name": each.name,
            "place": each.chooser_cell,
            "reads": axis_numbers[id(each.query_axis)],
            "read": axis_numbers[id(each.key_axis)],
            "share": each.share,
            "off": each.off,
            "note": each.note,
            "pair": each.pair,
            "paired": each.paired_positions,
            "scale": measures.index(each.measure),
            "small": list(packed_head.small.values.shape),
            **packed_head.about,
        }
        for each, packed_head in zip(explored.heads, page_heads, strict=True)
    ]


def accuracy_note(tables: Mapping[str, PackedTable]) -> str:
    """How far numbers of a page are from the ones they stand for; nothing where they are these."""
    inexact_tables = [
        table for name, table in tables.items() if name != "thumbnails" and table.error
    ]
    if not inexact_tables:
        return ""
    bits, error = (
        min(table.bits for table in inexact_tables),
        max(table.error for table in inexact_tables),
    )
    scores = any(table.slack is not None for table in inexact_tables)
    return (
        f"numbers are stored in {bits} bits, with an error of {power_text(error, 1)} at "
        f"most{'; scores are computed from them' if scores else ''}"
    )


def _explorer_note(explored: HeadExplorer, page_heads: Sequence[PackedHead]) -> str:
    blocks = blocks_note(explored.heads[0], page_heads[0]) if "kept" in page_heads[0].about else ""
    return " · ".join(filter(None, (explored.note, blocks)))


def _distinct_measures(explored: HeadExplorer) -> list[str]:
    return list(dict.fromkeys(head.measure for head in explored.heads))


def _scale_descriptions(explored: HeadExplorer, page_heads: Sequence[PackedHead]) -> dict[str, Any]:
    """Of cells, of rows, of thumbnails: each one for all heads whose numbers have one name."""
    cell_scales = _scales_by_measure(explored, [packed_head.scale for packed_head in page_heads])
    return {
        "scale": cell_scales[0],
        "scales": cell_scales,
        "rowScales": _scales_by_measure(
            explored, [packed_head.row_scale or packed_head.scale for packed_head in page_heads]
        ),
        "smallScales": _scales_by_measure(
            explored, [packed_head.small_scale for packed_head in page_heads]
        ),
    }


def _scales_by_measure(explored: HeadExplorer, scales: Sequence[Scale]) -> list[dict[str, Any]]:
    keys = max(len(each.key_axis) for each in explored.heads)
    pairs = list(zip(explored.heads, scales, strict=True))
    return [
        _describe_scale(
            common_scale([scale for head, scale in pairs if head.measure == measure]), keys
        )
        for measure in _distinct_measures(explored)
    ]


def _describe_scale(scale: Scale, keys: int) -> dict[str, Any]:
    """What colours stand for; and where they begin if they are of logarithms."""
    return {
        "label": scale.label,
        "low": scale.low,
        "high": scale.high,
        "kind": scale.kind,
        "beyond": scale.is_exceeded,
        "logLow": logarithmic_scale(scale, keys).low,
    }


def _head_axes(head: HeadMap) -> tuple[Axis, Axis]:
    return head.query_axis, head.key_axis


def _describe_axis(axis: Axis) -> dict[str, Any]:
    return {
        "title": axis.title,
        "counts": axis.unit,
        "labels": axis.labels,
        "numbers": axis.numbers,
        "spaced": axis.spaced,
        "special": axis.special,
        "border": axis.border,
    }


HeadInput = TypeVar("HeadInput")
MAX_CELLS_IN_MEMORY = 2**20  # cells of a head
MAX_THREADS = 4  # at most: each has the numbers of a head in memory


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedHead:
    """A head, as a page has it."""

    tables: Mapping[str, PackedTable]
    scale: Scale  # what the colours of its cells stand for,
    row_scale: Scale | None = None  # those of single rows, where cells stand for blocks of tokens,
    small: StoredCells
    small_scale: Scale  # and those of the head in few cells
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(table.block) for table in self.tables.values())


def pack_whole_head(head: HeadMap, bits: int) -> PackedHead:
    """All its numbers; scores as they are where weights are, else what makes them of weights."""
    weights = load_small_cells(head.weights)
    tables = {"weights": pack_table(weights, bits, head.scores)}
    if head.scores is not None and bits == EXACT_BITS:
        tables["scores"] = pack_table(head.scores, bits)
    thumbnail = thumbnail_cells(weights, share=head.share)
    return PackedHead(
        tables=tables,
        scale=scale_of_seen(head, weights),
        small=thumbnail,
        small_scale=scale_of_seen(head, thumbnail),
    )


def load_small_cells(cells: Cells) -> Cells:
    """A table that is gone through several times: in memory, but for a very large one."""
    rows, columns = cells.shape
    return load_cells(cells) if rows * columns <= MAX_CELLS_IN_MEMORY else cells


def scale_of_seen(head: HeadMap, cells: Cells) -> Scale:
    """What colours stand for, of numbers of a head that are seen."""
    return head.scale(MappedCells(cells, _mask_unseen))


def _mask_unseen(patch: Patch) -> Patch:
    seen = ~patch.hidden & np.isfinite(patch.values)
    return Patch(np.where(seen, patch.values, 0), ~seen)


def pack_in_order(
    inputs: Sequence[HeadInput], keep: Callable[[HeadInput], PackedHead]
) -> Iterator[PackedHead]:
    """Each in its order, a few of them at once: whoever wants no more ends the rest."""
    threads = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1))
    try:
        yield from threads.map(keep, inputs)
    finally:
        threads.shutdown(cancel_futures=True)


def take_within_bytes(heads: Iterable[PackedHead], size: int) -> list[PackedHead] | None:
    """All of them; none if they come to more bytes."""
    taken_heads, bytes_left = [], size
    for head in heads:
        taken_heads.append(head)
        bytes_left -= head.size
        if bytes_left < 0:
            return None
    return taken_heads


BLOCKS_BYTE_SHARE, QUERY_BYTE_SHARE = 0.35, 0.2  # of all bytes, at most; the rest is for other rows
SAMPLED_CELLS = 2**20  # cells, by which it is judged how many bytes all of them need
SAFE_BYTE_SHARE = 0.97  # of the bytes that are left, if they are judged well


@dataclass(frozen=True)
class SpacedRows:
    """Some rows of a head, and with how many bits they are kept."""

    first: int
    step: int
    bits: int = COARSE_BITS

    @property
    def row_slice(self) -> slice:
        return slice(self.first, None, self.step)

    def describe_rows(self, head: HeadMap) -> dict[str, int]:
        count = len(range(self.first, head.weights.shape[0], self.step))
        return {"first": self.first, "step": self.step, "count": count}


def pack_heads_in_blocks(explored: HeadExplorer, size: int) -> list[PackedHead]:
    """Every head, in about so many bytes altogether."""
    heads = explored.heads
    cells = _block_side(heads, BLOCKS_BYTE_SHARE * size)
    blocks = list(pack_in_order(heads, partial(_pack_head_in_blocks, cells=cells)))
    bits = _query_row_bits(explored, QUERY_BYTE_SHARE * size)
    bytes_left = size - sum(each.size for each in blocks) - _query_row_bytes(explored, bits)
    row_bytes = sum(estimate_row_bytes(each, COARSE_BITS) for each in heads)
    step = math.ceil(row_bytes / max(SAFE_BYTE_SHARE * bytes_left, 1))
    pairs = list(zip(heads, blocks, strict=True))
    return list(
        pack_in_order(pairs, partial(_add_rows, query=explored.query, bits=bits, step=step))
    )


def blocks_note(head: HeadMap, packed_head: PackedHead) -> str:
    """What one cell is, and of which tokens the page has more."""
    about, row_count = packed_head.about, head.weights.shape[0]
    spread_rows = about["kept"][-1]
    chosen_row_text = " and the chosen one" if len(about["kept"]) > 1 else ""
    averaging_text = (
        "weights added over the keys, averaged over the queries" if head.share else "averaged"
    )
    return (
        f"one cell = {about['tall']} × {about['wide']} {head.query_axis.unit}s: {averaging_text} · token by "
        f"token one row in {spread_rows['step']} ({spread_rows['count']:,} of {row_count:,}), the last among "
        f"them,{chosen_row_text}"
    ).removesuffix(",")


def _block_side(heads: Sequence[HeadMap], size: float) -> int:
    """A cell that is not hidden has a byte."""
    seen = (1 - load_cells(head.weights, _sampled_rows(head)).hidden.mean() for head in heads)
    return max(1, math.isqrt(int(size / max(sum(seen), 1e-9))))


def _query_row_bits(explored: HeadExplorer, size: float) -> int:
    """As many as have room; 0 where nothing is asked for, or no row has room."""
    if explored.query is None:
        return 0
    fitting = (
        bits
        for bits in (EXACT_BITS, FINE_BITS, COARSE_BITS)
        if _query_row_bytes(explored, bits) <= size
    )
    return next(fitting, 0)


def _query_row_bytes(explored: HeadExplorer, bits: int) -> int:
    return sum(head.weights.shape[1] for head in explored.heads) * bits // 8


def estimate_row_bytes(head: HeadMap, bits: int) -> float:
    """What a head needs, as some of its rows do."""
    _, table = _pack_rows(head, _sampled_rows(head), bits)
    return len(table.block) * head.weights.shape[0] / max(table.shape[0], 1)


def _sampled_rows(head: HeadMap) -> slice:
    """Rows that are looked at: all of a small head, and evenly spread ones of a large one."""
    rows, columns = head.weights.shape
    step = max(1, rows * columns // SAMPLED_CELLS)
    return slice(step // 2, None, step)


def _pack_head_in_blocks(head: HeadMap, cells: int) -> PackedHead:
    """A head in at most so many cells on a side."""
    block_height, block_width = (block_side(count, cells) for count in head.weights.shape)
    pooled = head.weights.pooled(block_height, block_width, share=head.share)
    blocks = StoredCells(pooled.values, pooled.hidden)
    thumbnail = thumbnail_cells(blocks, share=head.share)
    return PackedHead(
        tables={"weights": pack_table(blocks, COARSE_BITS)},
        scale=scale_of_seen(head, blocks),
        small=thumbnail,
        small_scale=scale_of_seen(head, thumbnail),
        about={"tall": block_height, "wide": block_width},
    )


def _add_rows(
    pair: tuple[HeadMap, PackedHead], query: int | None, bits: int, step: int
) -> PackedHead:
    """A head in blocks, and rows of it: the one that is asked for, then every so many."""
    head, packed_head = pair
    row_count = head.weights.shape[0]
    rows = [SpacedRows((row_count - 1) % step, step)]
    if bits and query is not None and query < row_count:
        rows.insert(0, SpacedRows(query, row_count, bits))
    packed_rows = [
        _pack_rows(head, spaced_rows.row_slice, spaced_rows.bits) for spaced_rows in rows
    ]
    return replace(
        packed_head,
        tables={
            **packed_head.tables,
            **{f"kept{number}": table for number, (_, table) in enumerate(packed_rows)},
        },
        row_scale=scale_of_seen(head, packed_rows[-1][0]),
        about={
            **packed_head.about,
            "kept": [spaced_rows.describe_rows(head) for spaced_rows in rows],
        },
    )


def _pack_rows(head: HeadMap, row_slice: slice, bits: int) -> tuple[StoredCells, PackedTable]:
    rows = load_cells(head.weights, row_slice)
    scores = None if head.scores is None else load_cells(head.scores, row_slice)
    return rows, pack_table(rows, bits, scores)
