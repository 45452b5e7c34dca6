"""The heads of a page: what there is to choose from, as JSON, and blocks of bytes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attnviz.renderers.page.keeping import Kept, in_turn, kept_whole, within
from attnviz.renderers.page.long import bytes_of_all_rows, kept_in_blocks, note_on_blocks
from attnviz.renderers.page.packing import (
    COARSE,
    COARSEST,
    Packed,
    bits_of,
    compressed_bits,
    text_of,
)
from attnviz.renderers.page.thumbnails import together
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
