"""The heads of a page: what there is to choose from, as JSON, and a block of bytes for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnviz.cells import Whole
from attnviz.renderers.page.packing import Packed, bits_of, packed, whole
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explored import Explored, HeadMap, common
from attnviz.views.grids.scales import Scale, logarithmic


def packed_heads(explored: Explored) -> tuple[dict[str, Any], dict[str, str]]:
    """What a page has to know of its heads; and, by name, the blocks that it unpacks."""
    sides = list({id(side): side for each in explored.heads for side in _sides(each)}.values())
    places = {id(side): place for place, side in enumerate(sides)}
    cells = sum(len(each.reads) * len(each.read) for each in explored.heads)
    bits, blocks, heads = bits_of(cells), dict[str, str](), []
    scales: dict[str, list[Scale]] = {}
    for number, each in enumerate(explored.heads):
        tables = _tables(each, bits)
        patch = whole(each.weights)
        values = np.where(patch.hidden, 0, patch.values)
        scales.setdefault(each.measure, []).append(each.scale(Whole(values, patch.hidden)))
        blocks |= {f"{kind}-{number}": table.block for kind, table in tables.items()}
        heads.append({
            "name": each.name,
            "place": each.place,
            "reads": places[id(each.reads)],
            "read": places[id(each.read)],
            "share": each.share,
            "scale": list(scales).index(each.measure),
            **{kind: table.about for kind, table in tables.items()},
        })  # fmt: skip
    return _about(explored, sides, heads, list(map(common, scales.values()))), blocks


def _about(
    explored: Explored, sides: list[Axis], heads: list[dict[str, Any]], scales: list[Scale]
) -> dict[str, Any]:
    keys = max((len(side) for side in sides), default=1)
    return {
        "scales": [_scale(each, keys) for each in scales],
        "heads": heads,
        "sides": list(map(_side, sides)),
        "rows": explored.rows.headings,
        "columns": explored.columns.headings,
        "rowsAre": explored.rows.counts,
        "columnsAre": explored.columns.counts,
        "query": explored.query,
        "first": explored.first,
        "log": explored.log,
        "note": explored.note,
        "flags": [
            {"head": each.map, "kind": each.kind, "short": each.short, "number": each.number}
            for each in explored.flags
        ],
    }


def _tables(each: HeadMap, bits: int) -> dict[str, Packed]:
    tables = {"weights": packed(whole(each.weights), bits)}
    if each.scores is not None:
        tables["scores"] = packed(whole(each.scores), bits)
    return tables


def _sides(each: HeadMap) -> tuple[Axis, Axis]:
    return each.reads, each.read


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
