"""The heads of a page: what there is to choose from, as JSON, and a block of bytes for each."""

from __future__ import annotations

from typing import Any

from attnviz.renderers.page.packing import Packed, bits_of, packed, whole
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explored import Explored, HeadMap


def packed_heads(explored: Explored) -> tuple[dict[str, Any], dict[str, str]]:
    """What a page has to know of its heads; and, by name, the blocks that it unpacks."""
    sides = list({id(side): side for each in explored.heads for side in _sides(each)}.values())
    places = {id(side): place for place, side in enumerate(sides)}
    cells = sum(len(each.reads) * len(each.read) for each in explored.heads)
    bits, blocks, heads = bits_of(cells), dict[str, str](), []
    for number, each in enumerate(explored.heads):
        tables = _tables(each, bits)
        blocks |= {f"{kind}-{number}": table.block for kind, table in tables.items()}
        heads.append({
            "name": each.name,
            "place": each.place,
            "reads": places[id(each.reads)],
            "read": places[id(each.read)],
            "share": each.share,
            **{kind: table.about for kind, table in tables.items()},
        })  # fmt: skip
    return _about(explored, sides, heads), blocks


def _about(explored: Explored, sides: list[Axis], heads: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "heads": heads,
        "sides": list(map(_side, sides)),
        "rows": explored.rows.headings,
        "columns": explored.columns.headings,
        "rowsAre": explored.rows.counts,
        "columnsAre": explored.columns.counts,
        "measure": explored.measure,
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
