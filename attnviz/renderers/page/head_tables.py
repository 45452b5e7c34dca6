"""The stored numbers of each head of a page: whole tables, or blocks for long texts."""

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
    pack_table,
    pack_thumbnails,
    thumbnail_cells,
)
from attnviz.renderers.page.vector_tables import pack_vectors
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, common_scale
from attnviz.views.grids.scales import Scale, logarithmic_scale
from attnviz.wording.numbers import power_text

HeadInput = TypeVar("HeadInput")
MAX_HEADS_BYTES = 18_000_000  # of all heads: 24 MB of base64
MAX_PACKED_CELLS = 2**27  # more cells never fit in these bytes
ESTIMATE_TOLERANCE = 1.05  # of estimates: packing is tried if they exceed the limit by 5 %
SAMPLED_HEADS = 4  # by which the size of all is estimated
MAX_CELLS_IN_MEMORY = 2**20  # of a head
MAX_THREADS = 4  # each has the numbers of a head in memory
BLOCKS_BYTE_SHARE, QUERY_BYTE_SHARE = 0.35, 0.2  # of all bytes; the rest is for other rows
SAMPLED_CELLS = 2**20  # of a head, by which its size is estimated
SAFE_BYTE_SHARE = 0.97  # of the bytes left, since sizes are estimates


def pack_heads(
    explorer: HeadExplorer, *, vectors: bool | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the page's script needs of all heads: a description, and blocks of bytes by name.

    The blocks are compressed, and in base64. `vectors`: whether queries and keys are stored; None:
    if they fit.
    """
    heads = pack_each_head(explorer)
    weight_bytes = sum(head.size for head in heads)
    in_blocks = "kept" in heads[0].about
    reason = "each cell is a block of tokens" if in_blocks else explorer.without_vectors
    packed = pack_vectors(() if in_blocks else explorer.heads, weight_bytes, reason, vectors)
    tables = {
        f"{kind}-{number}": table
        for number, head in enumerate(heads)
        for kind, table in head.tables.items()
    }
    tables["thumbnails"] = pack_thumbnails([head.small for head in heads])
    accuracy = " · ".join(filter(None, (accuracy_note(tables), packed.note)))
    tables |= packed.tables
    masks = {mask: n for n, mask in enumerate(dict.fromkeys(t.mask_bits for t in tables.values()))}
    blocks = {name: encode_base64(table.block) for name, table in tables.items()}
    blocks |= {f"mask-{n}": encode_base64(compress_bits(mask)) for mask, n in masks.items() if mask}
    about = _heads_description(explorer, heads, tables, masks)
    for index, facts in packed.about.items():
        about["heads"][index]["vectors"] = facts
    return {**about, "accuracy": accuracy, "exactness": packed.exactness}, blocks


def pack_each_head(explorer: HeadExplorer) -> list[PackedHead]:
    """Return all heads, in as many bits for a number as fit into the page.

    Heads of a long text, which do not fit, are pooled into blocks of tokens, with some single rows.
    """
    cells = sum(math.prod(head.weights.shape) for head in explorer.heads)
    finest = bits_per_number(cells)
    for bits in [finest] if finest > COARSE_BITS else range(COARSE_BITS, COARSEST_BITS - 1, -1):
        if cells <= MAX_PACKED_CELLS and _may_fit(explorer.heads, bits):
            keep = partial(pack_whole_head, bits=bits)
            heads = take_within_bytes(pack_in_order(explorer.heads, keep), MAX_HEADS_BYTES)
            if heads is not None:
                return heads
    return pack_heads_in_blocks(explorer, MAX_HEADS_BYTES)


def _may_fit(heads: Sequence[HeadMap], bits: int) -> bool:
    """Return whether all heads probably fit into the page, judging by some rows of some heads."""
    if bits > COARSE_BITS:
        return True
    sampled_heads = heads[:: max(1, len(heads) // SAMPLED_HEADS)][:SAMPLED_HEADS]
    sampled_cells = sum(math.prod(head.weights.shape) for head in sampled_heads)
    size = sum(estimate_row_bytes(head, bits) for head in sampled_heads)
    max_size = MAX_HEADS_BYTES * sampled_cells * ESTIMATE_TOLERANCE
    return size * sum(math.prod(head.weights.shape) for head in heads) <= max_size


def _heads_description(
    explorer: HeadExplorer,
    page_heads: Sequence[PackedHead],
    tables: Mapping[str, PackedTable],
    masks: Mapping[bytes, int],
) -> dict[str, Any]:
    """Return the facts about all heads that the page's script reads, as JSON data.

    `masks`: a number for each distinct mask of hidden cells.
    """
    axes_by_id = {id(axis): axis for head in explorer.heads for axis in _head_axes(head)}
    axes = list(dict.fromkeys(axes_by_id.values()))
    blocks = blocks_note(explorer.heads[0], page_heads[0]) if "kept" in page_heads[0].about else ""
    return {
        "heads": _head_descriptions(explorer, page_heads, axes),
        "tables": {
            name: {**table.about, "mask": masks[table.mask_bits] if table.mask_bits else None}
            for name, table in tables.items()
        },
        **_scale_descriptions(explorer, page_heads),
        "sides": list(map(_describe_axis, axes)),
        "rows": explorer.rows.headings,
        "columns": explorer.columns.headings,
        "rowsAre": explorer.rows.unit,
        "columnsAre": explorer.columns.unit,
        **{name: getattr(explorer, name) for name in ("query", "key", "first", "log")},
        "titles": explorer.row_titles,
        "note": " · ".join(filter(None, (explorer.note, blocks))),
        "flags": [
            {"head": flag.map_index, "kind": flag.kind, "short": flag.short, "number": flag.number}
            for flag in explorer.flags
        ],
        "generated": [
            {"row": row, "name": name, "chance": chance} for row, name, chance in explorer.generated
        ],
        **({"passages": explorer.passages} if explorer.passages else {}),
    }


def _head_descriptions(
    explorer: HeadExplorer, page_heads: Sequence[PackedHead], axes: Sequence[Axis]
) -> list[dict[str, Any]]:
    """Return the facts about each head as JSON data; axes are given by index in `axes`."""
    axis_numbers = {
        id(axis): axes.index(axis) for head in explorer.heads for axis in _head_axes(head)
    }
    measures = _distinct_measures(explorer)
    return [
        {
            "name": head.name,
            "place": head.chooser_cell,
            "reads": axis_numbers[id(head.query_axis)],
            "read": axis_numbers[id(head.key_axis)],
            "share": head.share,
            "off": head.off,
            "without": head.without_vectors,
            "note": head.note,
            "pair": head.pair,
            "paired": head.paired_positions,
            "scale": measures.index(head.measure),
            "small": list(packed_head.small.values.shape),
            **packed_head.about,
        }
        for head, packed_head in zip(explorer.heads, page_heads, strict=True)
    ]


def accuracy_note(tables: Mapping[str, PackedTable]) -> str:
    """Return a note on the largest error of the page's numbers; empty if they are exact."""
    inexact = [table for name, table in tables.items() if name != "thumbnails" and table.error]
    if not inexact:
        return ""
    bits, error = min(table.bits for table in inexact), max(table.error for table in inexact)
    scores = any(table.slack is not None for table in inexact)
    return (
        f"numbers are stored in {bits} bits, with an error of {power_text(error, 1)} at "
        f"most{'; scores are computed from them' if scores else ''}"
    )


def _distinct_measures(explorer: HeadExplorer) -> list[str]:
    return list(dict.fromkeys(head.measure for head in explorer.heads))


def _scale_descriptions(explorer: HeadExplorer, page_heads: Sequence[PackedHead]) -> dict[str, Any]:
    """Return the colour scales of cells, single rows and thumbnails, one of each per measure."""
    scales = _scales_by_measure(explorer, [head.scale for head in page_heads])
    row_scales = [head.row_scale or head.scale for head in page_heads]
    small_scales = [head.small_scale for head in page_heads]
    return {
        "scale": scales[0],
        "scales": scales,
        "rowScales": _scales_by_measure(explorer, row_scales),
        "smallScales": _scales_by_measure(explorer, small_scales),
    }


def _scales_by_measure(explorer: HeadExplorer, scales: Sequence[Scale]) -> list[dict[str, Any]]:
    """Return for each measure the scale common to all of its heads, as JSON data."""
    keys = max(len(head.key_axis) for head in explorer.heads)
    pairs = list(zip(explorer.heads, scales, strict=True))
    return [
        _describe_scale(
            common_scale([scale for head, scale in pairs if head.measure == measure]), keys
        )
        for measure in _distinct_measures(explorer)
    ]


def _describe_scale(scale: Scale, keys: int) -> dict[str, Any]:
    """Return a scale as JSON data: its label, ends and kind, and where its logarithm begins.

    `keys`: the most keys of a head, on which that beginning depends.
    """
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
    """Return the labels, numbers and other facts of an axis, as JSON data."""
    names = ("labels", "numbers", "spaced", "special", "border")
    fields = {name: getattr(axis, name) for name in names}
    return {"title": axis.title, "counts": axis.unit, **fields}


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedHead:
    """A head as a page stores it: packed tables, thumbnail, and scales of colour."""

    tables: Mapping[str, PackedTable]
    scale: Scale
    row_scale: Scale | None = None  # of single rows, if cells stand for blocks of tokens
    small: StoredCells  # the thumbnail
    small_scale: Scale
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(table.block) for table in self.tables.values())


def pack_whole_head(head: HeadMap, bits: int) -> PackedHead:
    """Return a head with all its numbers in `bits` bits; only 32 bits store scores of their own.

    Otherwise scores are computed from the weights.
    """
    weights = load_small_cells(head.weights)
    tables = {"weights": pack_table(weights, bits, head.scores)}
    if head.scores is not None and bits == EXACT_BITS:
        tables["scores"] = pack_table(head.scores, bits)
    return _packed_head(head, weights, tables)


def _packed_head(
    head: HeadMap, cells: Cells, tables: Mapping[str, PackedTable], **about: int
) -> PackedHead:
    """Return a head with these tables, and with the thumbnail and the scales of its cells."""
    small = thumbnail_cells(cells, share=head.share)
    scale, small_scale = visible_scale(head, cells), visible_scale(head, small)
    return PackedHead(tables=tables, scale=scale, small=small, small_scale=small_scale, about=about)


def load_small_cells(cells: Cells) -> Cells:
    """Read a table into memory, as it is read several times; return a very large one as it is."""
    return cells.stored() if math.prod(cells.shape) <= MAX_CELLS_IN_MEMORY else cells


def visible_scale(head: HeadMap, cells: Cells) -> Scale:
    """Return the colour scale of a head for the finite numbers of `cells` that are not hidden."""
    return head.scale(MappedCells(cells, _mask_unseen))


def _mask_unseen(patch: Patch) -> Patch:
    """Return the patch with numbers that are not finite set to 0 and hidden."""
    is_visible = ~patch.hidden & np.isfinite(patch.values)
    return Patch(np.where(is_visible, patch.values, 0), ~is_visible)


def pack_in_order(
    inputs: Sequence[HeadInput], keep: Callable[[HeadInput], PackedHead]
) -> Iterator[PackedHead]:
    """Yield `keep(input)` for each input, in order, a few computed at once in threads.

    If the caller stops early, what has not begun is cancelled.
    """
    threads = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1))
    try:
        yield from threads.map(keep, inputs)
    finally:
        threads.shutdown(cancel_futures=True)


def take_within_bytes(heads: Iterable[PackedHead], size: int) -> list[PackedHead] | None:
    """Return all heads as a list; None as soon as their tables exceed `size` bytes."""
    taken_heads, bytes_left = [], size
    for head in heads:
        taken_heads.append(head)
        bytes_left -= head.size
        if bytes_left < 0:
            return None
    return taken_heads


def pack_heads_in_blocks(explorer: HeadExplorer, size: int) -> list[PackedHead]:
    """Return all heads pooled into blocks of tokens, with some single rows, in about `size` bytes.

    The row of the followed token, if there is one, is among the rows, in as many bits as fit.
    """
    heads = explorer.heads
    cells = _block_side(heads, BLOCKS_BYTE_SHARE * size)
    blocks = list(pack_in_order(heads, partial(_pack_head_in_blocks, cells=cells)))
    bits = _query_row_bits(explorer, QUERY_BYTE_SHARE * size)
    bytes_left = size - sum(block.size for block in blocks) - _query_row_bytes(explorer, bits)
    row_bytes = sum(estimate_row_bytes(head, COARSE_BITS) for head in heads)
    step = math.ceil(row_bytes / max(SAFE_BYTE_SHARE * bytes_left, 1))
    add_rows = partial(_add_rows, query=explorer.query, bits=bits, step=step)
    return list(pack_in_order(list(zip(heads, blocks, strict=True)), add_rows))


def blocks_note(head: HeadMap, packed_head: PackedHead) -> str:
    """Return a note: what one cell stands for, and which rows the page has token by token."""
    about, row_count = packed_head.about, head.weights.shape[0]
    step, count = about["kept"][-1]["step"], about["kept"][-1]["count"]
    added = "weights added over the keys, averaged over the queries"
    return (
        f"one cell = {about['tall']} × {about['wide']} {head.query_axis.unit}s: "
        f"{added if head.share else 'averaged'} · token by token one row in {step} "
        f"({count:,} of {row_count:,}), the last among them"
        f"{', and the chosen one' if len(about['kept']) > 1 else ''}"
    )


def _block_side(heads: Sequence[HeadMap], size: float) -> int:
    """Return at how many blocks on a side all heads fit into `size` bytes.

    A visible block takes a byte.
    """
    shares = (1 - head.weights.stored(_sampled_rows(head)).hidden.mean() for head in heads)
    return max(1, math.isqrt(int(size / max(sum(shares), 1e-9))))


def _query_row_bits(explorer: HeadExplorer, size: float) -> int:
    """Return the most bits with which the query's rows fit; 0 if none do, or without a query."""
    if explorer.query is None:
        return 0
    choices = (EXACT_BITS, FINE_BITS, COARSE_BITS)
    return next((bits for bits in choices if _query_row_bytes(explorer, bits) <= size), 0)


def _query_row_bytes(explorer: HeadExplorer, bits: int) -> int:
    """Return the bytes of one row of every head, before compression."""
    return sum(head.weights.shape[1] for head in explorer.heads) * bits // 8


def estimate_row_bytes(head: HeadMap, bits: int) -> float:
    """Return about how many bytes all rows of a head take, judging by some of them."""
    _, table = _pack_rows(head, _sampled_rows(head), bits)
    return len(table.block) * head.weights.shape[0] / max(table.shape[0], 1)


def _sampled_rows(head: HeadMap) -> slice:
    """Return a slice: all rows of a small head, evenly spaced rows of a large one."""
    step = max(1, math.prod(head.weights.shape) // SAMPLED_CELLS)
    return slice(step // 2, None, step)


def _pack_head_in_blocks(head: HeadMap, cells: int) -> PackedHead:
    """Return a head pooled into at most `cells` blocks on a side."""
    block_height, block_width = (block_side(count, cells) for count in head.weights.shape)
    pooled = head.weights.pooled(block_height, block_width, share=head.share)
    blocks = StoredCells(pooled.values, pooled.hidden)
    tables = {"weights": pack_table(blocks, COARSE_BITS)}
    return _packed_head(head, blocks, tables, tall=block_height, wide=block_width)


def _add_rows(
    pair: tuple[HeadMap, PackedHead], query: int | None, bits: int, step: int
) -> PackedHead:
    """Return a head in blocks with single rows: the query's, then every `step`-th up to the last.

    `pair`: the head, and the head packed in blocks. `bits`: of the query's row; 0 leaves it out.
    """
    head, packed_head = pair
    row_count = head.weights.shape[0]
    rows = [(range((row_count - 1) % step, row_count, step), COARSE_BITS)]
    if bits and query is not None and query < row_count:
        rows.insert(0, (range(query, row_count, row_count), bits))
    slices = [(slice(spaced.start, None, spaced.step), width) for spaced, width in rows]
    packed_rows = [_pack_rows(head, row_slice, width) for row_slice, width in slices]
    kept = [{"first": each.start, "step": each.step, "count": len(each)} for each, _ in rows]
    row_tables = {f"kept{number}": table for number, (_, table) in enumerate(packed_rows)}
    return replace(
        packed_head,
        tables={**packed_head.tables, **row_tables},
        row_scale=visible_scale(head, packed_rows[-1][0]),
        about={**packed_head.about, "kept": kept},
    )


def _pack_rows(head: HeadMap, row_slice: slice, bits: int) -> tuple[StoredCells, PackedTable]:
    """Return some rows of a head's weights in memory, and the same rows packed.

    Scores, if the head has any, are packed with them.
    """
    rows = head.weights.stored(row_slice)
    scores = None if head.scores is None else head.scores.stored(row_slice)
    return rows, pack_table(rows, bits, scores)
