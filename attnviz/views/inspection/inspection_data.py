"""The numbers of an Inspection as JSON data and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from attnviz.analysis.inspection.inspect_options import (
    HIDE_OPTIONS,
    UNITS_BY_OPTION,
    InspectOptions,
)
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.token_query import (
    MapLink,
    MapRow,
    TokenLink,
    TokenQuery,
    command_options,
)
from attnviz.cells import FULL_SLICE
from attnviz.heads.head import Head
from attnviz.heads.side import Side
from attnviz.traces.archive import Contents, trace_contents
from attnviz.views.heads.data import KEY_COLUMNS
from attnviz.views.inspection.head_kinds import head_kinds_data, head_kinds_document, nan_to_none
from attnviz.views.inspection.map_numbers import measure_name
from attnviz.views.view import (
    HEAD_COLUMNS,
    TableData,
    TableLines,
    WordColumns,
    head_cells,
    head_columns,
    named_head_document,
)
from attnviz.wording.numbers import number_or_none

LINK_HEADER = (
    *HEAD_COLUMNS,
    "most read",
    "weight",
    "others",
    "base",
    "lift",
    "rank in its row",
    "weight of the most read",
    "others that attend to it most",
)
MAP_CHANGING_OPTIONS = (*HIDE_OPTIONS, *UNITS_BY_OPTION, "part", "merge", "weigh")


def all_heads_data(inspection: Inspection) -> TableData:
    heads_data = head_kinds_data(inspection)
    return TableData(
        "inspection", partial(inspection_document, inspection), heads_data.header, heads_data.lines
    )


def maps_data(inspection: Inspection) -> TableData:
    header, lines = _weights_header(inspection.options), partial(_weight_lines, inspection.maps)
    return TableData("inspection", partial(inspection_document, inspection), header, lines)


def reading_data(inspection: Inspection, token_query: TokenQuery) -> TableData:
    """Return the weights of one query, as JSON data and as a table with one line per weight, each
    beside the mean weight that other tokens give the same key, and its base rate.

    The query's row in each map; if there are several maps, also its row in their mean.
    """
    readings = [*token_query.map_rows]
    if len(readings) > 1:
        readings.append(token_query.mean)
    header = (*_weights_header(token_query.options), "others", "base")
    lines = partial(_row_lines, readings)
    return TableData("inspection", partial(_reading_document, inspection, readings), header, lines)


def link_data(inspection: Inspection, link: TokenLink) -> TableData:
    document = partial(_link_document, inspection, link)
    return TableData("inspection", document, LINK_HEADER, partial(_link_lines, link))


def inspection_document(inspection: Inspection) -> Contents:
    """Return the Trace, the options that were changed, and what kind each head is, as JSON data.

    The maps are included only if an option changes them, such as --merge or --words.
    """
    options = command_options(inspection.trace, inspection.options)
    inspected: Contents = {"looking": options, **head_kinds_document(inspection)}
    if any(name in options for name in MAP_CHANGING_OPTIONS):
        inspected["maps"] = [_map_document(attention_map) for attention_map in inspection.maps]
    return {**trace_contents(inspection.trace), "inspection": inspected}


def extended_document(inspection: Inspection, additions: Contents) -> Contents:
    base = inspection_document(inspection)
    return {**base, "inspection": {**base["inspection"], **additions}}


def _reading_document(inspection: Inspection, readings: Sequence[MapRow]) -> Contents:
    rows = [
        {
            **named_head_document(reading.map.name),
            "weights": reading.patch.values[0],
            "others": nan_to_none(reading.other_weights),
            "base": nan_to_none(reading.base_weights),
        }
        for reading in readings
    ]
    contents = {"keys": _side_document(readings[0].map.columns), "heads": rows}
    return extended_document(inspection, {"reading": contents})


def _link_document(inspection: Inspection, link: TokenLink) -> Contents:
    """Return the Inspection as JSON data, with the link's weight and rank in each map.

    Maps that hide the key have neither lift nor rank.
    """
    attention_map = link.token_query.map_rows[0].map
    ranked = [
        {
            **named_head_document(map_link.map.name),
            **_link_numbers(map_link),
            "most tokens attend to it": map_link.others.attend_most,
        }
        for map_link in link.ranked_links
    ]
    query = attention_map.rows.numbers[link.token_query.row]
    key = attention_map.columns.numbers[link.column]
    return extended_document(inspection, {"link": {"from": query, "to": key, "ranked": ranked}})


def _link_numbers(link: MapLink) -> dict[str, float | None]:
    """Return the numbers of a link in one map; None where there is none."""
    return {
        "weight": link.weight,
        "others": link.others.mean if link.others.count else None,
        "base": number_or_none(link.base),
        "lift": link.lift if link.sees else None,
        "rank in its row": link.rank,
    }


def _map_document(attention_map: Head) -> Contents:
    return {
        "name": attention_map.name,
        "rows": _side_document(attention_map.rows),
        "columns": _side_document(attention_map.columns),
        "weights": attention_map.cells.window(FULL_SLICE, FULL_SLICE).values,
    }


def _side_document(side: Side) -> Contents:
    return {"numbers": list(side.numbers), "labels": list(side.labels)}


def _weights_header(looking: InspectOptions) -> tuple[str, ...]:
    return (*HEAD_COLUMNS, *KEY_COLUMNS, measure_name(looking), "visible")


def _weight_lines(maps: Sequence[Head]) -> Iterator[TableLines]:
    """Yield a table's lines, the keys of one query at a time, for all rows of each map."""
    for attention_map in maps:
        for query in range(len(attention_map.rows)):
            yield _query_lines(MapRow(attention_map, query))


def _row_lines(readings: Sequence[MapRow]) -> Iterator[TableLines]:
    """Yield a table's lines for one query in each map, with the mean weights of other tokens
    and the base rates."""
    for reading in readings:
        lines = _query_lines(reading)
        means = nan_to_none(reading.other_weights), nan_to_none(reading.base_weights)
        yield replace(lines, numbers=(*lines.numbers, *means))


def _query_lines(reading: MapRow) -> TableLines:
    """Return the lines of one query in a map: a line for each key, with its weight."""
    rows, columns, query = reading.map.rows, reading.map.columns, reading.row
    keys = WordColumns((tuple(map(str, columns.numbers)), columns.labels))
    start: tuple[str | int, ...] = (
        *head_cells(reading.map.name),
        rows.numbers[query],
        rows.labels[query],
    )
    return TableLines(start, keys, (reading.patch.values[0], ~reading.patch.hidden[0]))


def _link_lines(token_link: TokenLink) -> Iterator[TableLines]:
    """Yield all lines of a link's table at once, one per map in ranked order.

    The last column is the share of other tokens that attend most to the link's key.
    """
    ranked, columns = token_link.ranked_links, token_link.ranked_links[0].map.columns
    top_keys = [link.map_row.top_column for link in ranked]
    words = WordColumns((
        *head_columns(link.map.name for link in ranked),
        tuple(f"{columns.numbers[key]} {columns.labels[key]}" for key in top_keys),
    ))  # fmt: skip
    others = [link.others for link in ranked]
    numbers = map(list, zip(*(_link_numbers(link).values() for link in ranked), strict=True))
    peaks = [link.map_row.peak for link in ranked]
    most = [each.attend_most_count / each.count if each.count else None for each in others]
    yield TableLines((), words, (*numbers, peaks, most))
