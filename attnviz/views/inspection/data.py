"""The numbers behind what is looked at: everything by name, and lines for spreadsheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import Map, MapSide
from attnviz.analysis.inspection.token_query import MapRow, TokenLink, TokenQuery
from attnviz.cells import FULL_SLICE
from attnviz.traces.archive import Contents, trace_contents
from attnviz.views.inspection.head_kinds import head_kinds_data, head_kinds_document
from attnviz.views.inspection.map_numbers import measure_name
from attnviz.views.view import TableData, TableLines, WordColumns
from attnviz.wording.commands import changed_options

LINK_HEADER = (
    "head",
    "most read",
    "weight",
    "others",
    "lift",
    "rank in its row",
    "weight of the most read",
    "others that attend to it most",
)
MAP_CHANGING_OPTIONS = (
    "hide_special",
    "hide_first",
    "words",
    "merge",
    "weigh",
)  # by which maps are others


def all_heads_data(inspection: Inspection) -> TableData:
    """What every head does."""
    heads_data = head_kinds_data(inspection)
    return TableData(partial(inspection_document, inspection), heads_data.header, heads_data.lines)


def maps_data(inspection: Inspection) -> TableData:
    """A line for each weight of the maps that are looked at."""
    lines = partial(_weight_lines, inspection.maps, inspection.looking)
    return TableData(
        partial(inspection_document, inspection), _weights_header(inspection.looking), lines
    )


def reading_data(inspection: Inspection, token_query: TokenQuery) -> TableData:
    """A line for each weight of one row: in all maps, and in their mean."""
    readings = [
        *token_query.map_rows,
        *([token_query.mean] if len(token_query.map_rows) > 1 else []),
    ]
    lines = partial(
        _weight_lines, [reading.map for reading in readings], token_query.options, token_query.row
    )
    return TableData(
        partial(_reading_document, inspection, readings),
        _weights_header(token_query.options),
        lines,
    )


def link_data(inspection: Inspection, link: TokenLink) -> TableData:
    """A line for each map, in their order."""
    return TableData(
        partial(_link_document, inspection, link), LINK_HEADER, partial(_link_lines, link)
    )


def inspection_document(inspection: Inspection) -> Contents:
    """Everything in the Trace, what was asked of it, and what came out."""
    looking = inspection.looking
    inspected: Contents = {"looking": changed_options(looking), **head_kinds_document(inspection)}
    if any(name in changed_options(looking) for name in MAP_CHANGING_OPTIONS):
        inspected["maps"] = [_map_document(attention_map) for attention_map in inspection.maps]
    return {**trace_contents(inspection.trace), "inspection": inspected}


def extended_document(inspection: Inspection, additions: Contents) -> Contents:
    """The same, and what else was found."""
    base = inspection_document(inspection)
    return {**base, "inspection": {**base["inspection"], **additions}}


def _reading_document(inspection: Inspection, readings: Sequence[MapRow]) -> Contents:
    columns = readings[0].map.columns
    rows = [{"head": reading.map.name, "weights": reading.patch.values[0]} for reading in readings]
    return extended_document(
        inspection, {"reading": {"keys": _side_document(columns), "heads": rows}}
    )


def _link_document(inspection: Inspection, link: TokenLink) -> Contents:
    attention_map = link.token_query.map_rows[0].map
    ranked = [
        {
            "head": map_link.map.name,
            "weight": map_link.weight,
            "others": map_link.others.mean if map_link.others.count else None,
            "lift": map_link.lift if map_link.sees else None,
            "rank in its row": map_link.rank,
            "most tokens attend to it": map_link.others.attend_most,
        }
        for map_link in link.ranked
    ]
    link_contents = {
        "from": attention_map.rows.numbers[link.token_query.row],
        "to": attention_map.columns.numbers[link.column],
        "ranked": ranked,
    }
    return extended_document(inspection, {"link": link_contents})


def _map_document(attention_map: Map) -> Contents:
    return {
        "name": attention_map.name,
        "rows": _side_document(attention_map.rows),
        "columns": _side_document(attention_map.columns),
        "weights": attention_map.cells.window(FULL_SLICE, FULL_SLICE).values,
    }


def _side_document(side: MapSide) -> Contents:
    return {"numbers": list(side.numbers), "labels": list(side.labels)}


def _weights_header(looking: InspectOptions) -> tuple[str, ...]:
    sides = ("query number", "query", "key number", "key")
    return ("head", *sides, measure_name(looking), "visible")


def _weight_lines(
    maps: Sequence[Map], looking: InspectOptions, row: int | None = None
) -> Iterator[TableLines]:
    """All keys of a query at once."""
    for attention_map in maps:
        keys = WordColumns(
            (tuple(map(str, attention_map.columns.numbers)), attention_map.columns.labels)
        )
        for query in range(len(attention_map.rows)) if row is None else [row]:
            patch = attention_map.cells.row(query)
            start = (
                attention_map.name,
                attention_map.rows.numbers[query],
                attention_map.rows.labels[query],
            )
            yield TableLines(start, keys, (patch.values[0], ~patch.hidden[0]))


def _link_lines(link: TokenLink) -> Iterator[TableLines]:
    """One for each map; of the last column how many of the others, as a share."""
    ranked, columns = link.ranked, link.ranked[0].map.columns
    top_keys = [map_link.map_row.most for map_link in ranked]
    words = WordColumns((
        tuple(map_link.map.name for map_link in ranked),
        tuple(f"{columns.numbers[key]} {columns.labels[key]}" for key in top_keys),
    ))  # fmt: skip
    numbers: tuple[list[float | None], ...] = (
        [map_link.weight for map_link in ranked],
        [map_link.others.mean if map_link.others.count else None for map_link in ranked],
        [map_link.lift if map_link.sees else None for map_link in ranked],
        [map_link.rank for map_link in ranked],
        [map_link.map_row.peak for map_link in ranked],
        [
            map_link.others.attend_most_count / map_link.others.count
            if map_link.others.count
            else None
            for map_link in ranked
        ],
    )
    yield TableLines((), words, numbers)
