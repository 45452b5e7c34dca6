"""The numbers behind what is looked at: everything by name, and lines for spreadsheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.analysis.inspection.token_query import Asked, Link, Reading
from attnviz.cells import EVERYTHING
from attnviz.traces.archive import Contents, contents
from attnviz.views.inspection.heads import data_of_heads, document_of_heads
from attnviz.views.inspection.numbers import called
from attnviz.views.view import Data, Lines, Words
from attnviz.wording.commands import chosen

OF_A_LINK = (
    "head",
    "most read",
    "weight",
    "others",
    "lift",
    "rank in its row",
    "weight of the most read",
    "others that attend to it most",
)
CHANGING = ("hide_special", "hide_first", "words", "merge", "weigh")  # by which maps are others


def data_of_all(inspection: Inspection) -> Data:
    """What every head does."""
    of_heads = data_of_heads(inspection)
    return Data(partial(document, inspection), of_heads.header, of_heads.lines)


def data_of_maps(inspection: Inspection) -> Data:
    """A line for each weight of the maps that are looked at."""
    lines = partial(_lines, inspection.maps, inspection.looking)
    return Data(partial(document, inspection), _header(inspection.looking), lines)


def data_of_reading(inspection: Inspection, asked: Asked) -> Data:
    """A line for each weight of one row: in all maps, and in their mean."""
    found = [*asked.readings, *([asked.mean] if len(asked.readings) > 1 else [])]
    lines = partial(_lines, [each.map for each in found], asked.looking, asked.row)
    return Data(partial(_with_reading, inspection, found), _header(asked.looking), lines)


def data_of_link(inspection: Inspection, link: Link) -> Data:
    """A line for each map, in their order."""
    return Data(partial(_with_link, inspection, link), OF_A_LINK, partial(_lines_of_link, link))


def document(inspection: Inspection) -> Contents:
    """Everything in the Trace, what was asked of it, and what came out."""
    looking = inspection.looking
    asked: Contents = {"looking": chosen(looking), **document_of_heads(inspection)}
    if any(name in chosen(looking) for name in CHANGING):
        asked["maps"] = [_map(each) for each in inspection.maps]
    return {**contents(inspection.trace), "inspection": asked}


def with_more(inspection: Inspection, more: Contents) -> Contents:
    """The same, and what else was found."""
    made = document(inspection)
    return {**made, "inspection": {**made["inspection"], **more}}


def _with_reading(inspection: Inspection, found: Sequence[Reading]) -> Contents:
    columns = found[0].map.columns
    rows = [{"head": each.map.name, "weights": each.patch.values[0]} for each in found]
    return with_more(inspection, {"reading": {"keys": _side(columns), "heads": rows}})


def _with_link(inspection: Inspection, link: Link) -> Contents:
    found = link.asked.readings[0].map
    ranked = [
        {
            "head": each.map.name,
            "weight": each.weight,
            "others": each.others.mean if each.others.count else None,
            "lift": each.lift if each.sees else None,
            "rank in its row": each.rank,
            "most tokens attend to it": each.others.attend_most,
        }
        for each in link.ranked
    ]
    between = {
        "from": found.rows.numbers[link.asked.row],
        "to": found.columns.numbers[link.column],
        "ranked": ranked,
    }
    return with_more(inspection, {"link": between})


def _map(found: Map) -> Contents:
    return {
        "name": found.name,
        "rows": _side(found.rows),
        "columns": _side(found.columns),
        "weights": found.cells.window(EVERYTHING, EVERYTHING).values,
    }


def _side(side: Side) -> Contents:
    return {"numbers": list(side.numbers), "labels": list(side.labels)}


def _header(looking: Looking) -> tuple[str, ...]:
    sides = ("query number", "query", "key number", "key")
    return ("head", *sides, called(looking), "visible")


def _lines(maps: Sequence[Map], looking: Looking, row: int | None = None) -> Iterator[Lines]:
    """All keys of a query at once."""
    for found in maps:
        keys = Words((tuple(map(str, found.columns.numbers)), found.columns.labels))
        for place in range(len(found.rows)) if row is None else [row]:
            patch = found.cells.row(place)
            start = (found.name, found.rows.numbers[place], found.rows.labels[place])
            yield Lines(start, keys, (patch.values[0], ~patch.hidden[0]))


def _lines_of_link(link: Link) -> Iterator[Lines]:
    """One for each map; of the last column how many of the others, as a share."""
    ranked, columns = link.ranked, link.ranked[0].map.columns
    most = [each.reading.most for each in ranked]
    words = Words((
        tuple(each.map.name for each in ranked),
        tuple(f"{columns.numbers[place]} {columns.labels[place]}" for place in most),
    ))  # fmt: skip
    numbers: tuple[list[float | None], ...] = (
        [each.weight for each in ranked],
        [each.others.mean if each.others.count else None for each in ranked],
        [each.lift if each.sees else None for each in ranked],
        [each.rank for each in ranked],
        [each.reading.peak for each in ranked],
        [each.others.most / each.others.count if each.others.count else None for each in ranked],
    )
    yield Lines((), words, numbers)
