"""What one token reads: its sentence in colour, and what is read most, where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.patterns import sampled_queries
from attnviz.analysis.inspection.token_query import MapLink, MapRow, TokenLink, TokenQuery
from attnviz.cells import StoredCells
from attnviz.views.facts import do_rows_sum_to_one
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.axes import SINGLE_ROW_SUM_NOTE, Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.scales import Scale
from attnviz.views.inspection.heatmap import map_captions, side_axis
from attnviz.views.inspection.map_numbers import (
    format_map_value,
    head_name,
    measure_name,
    row_scale,
    side_label,
    unit_name,
)

ALL_ZERO_REMARK = "all are 0"
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


def reading_parts(token_query: TokenQuery) -> tuple[Sentence | RankedBars, ...]:
    """Of one map the sentence; of several that of their mean, and what is read most in which."""
    if len(token_query.map_rows) == 1:
        return (coloured_sentence(token_query, token_query.mean, listed=True),)
    colours = coloured_sentence(token_query, token_query.mean)
    scale = replace(
        colours.grid.scale, is_exceeded=abs(token_query.by_peak[0].peak) > colours.grid.scale.high
    )
    colours = replace(colours, grid=replace(colours.grid, scale=scale))
    return (colours, ranked_tokens(token_query, scale), ranked_heads(token_query, scale))


def link_parts(link: TokenLink) -> tuple[Sentence | RankedBars, ...]:
    """The sentence in the map that links the two most, and all maps ranked."""
    first_reading = link.ranked[0].map_row
    if len(link.ranked) == 1:
        return (coloured_sentence(link.token_query, first_reading, listed=True),)
    colours = coloured_sentence(link.token_query, first_reading)
    return (ranked_link_heads(link, colours.grid.scale), colours)


def coloured_sentence(
    token_query: TokenQuery, reading: MapRow, *, listed: bool = False
) -> Sentence:
    """The words, each in the colour of how much is read of it."""
    attention_map, looking = reading.map, token_query.options
    cells = StoredCells(reading.patch.values, reading.patch.hidden)
    is_rollout = looking.merge == "rollout"  # whose caption is long enough
    sums_note = (
        SINGLE_ROW_SUM_NOTE
        if listed and not is_rollout and attention_map.share and do_rows_sum_to_one(cells)
        else ""
    )
    verb = "draws on" if is_rollout else "attends to"
    grid = Grid(
        f"what {side_label(attention_map.rows, token_query.row)} {verb} in {map_phrase(reading)}",
        plain_axis("head", [head_name(attention_map)]),
        side_axis("key (is read)", attention_map.columns),
        cells,
        row_scale(reading.patch.values[0], looking),
        note=" · ".join(filter(None, (sums_note, *map_captions(looking, [attention_map])))),
        share=looking.weigh == "weight",
    )
    return Sentence(grid, token_query.own_column, listed)


def ranked_tokens(token_query: TokenQuery, scale: Scale) -> RankedBars:
    """What is read most in the mean of all maps, and in which of them most."""
    columns, mean = token_query.map_rows[0].map.columns, token_query.mean
    values = mean.patch.values[0]
    visible_keys = [key for key in np.argsort(-np.abs(values), kind="stable") if mean.sees(key)]
    top_readings = [token_query.strongest(key) for key in visible_keys]
    axis = side_axis("key (is read)", columns)
    names = Axis(
        "",
        "token",
        tuple(axis.labels[key] for key in visible_keys),
        tuple(axis.numbers[key] for key in visible_keys),
    )
    remarks = [
        f"{_top_map_text(token_query, key, reading)}: {format_map_value(reading.weight(key), token_query.options)}"
        for key, reading in zip(visible_keys, top_readings, strict=True)
    ]
    title = f"its mean {measure_name(token_query.options)}"
    numbers = [float(values[key]) for key in visible_keys]
    return _ranked_bars(title, names, numbers, remarks, token_query.options, scale)


def _top_map_text(token_query: TokenQuery, key: int, top_reading: MapRow) -> str:
    """The map that reads most of a token; or how many do, where several read as much."""
    equal_count = sum(
        reading.weight(key) == top_reading.weight(key) for reading in token_query.map_rows
    )
    if equal_count == len(token_query.map_rows) > 1:
        return "as much in all"
    return f"most in {head_name(top_reading.map) if equal_count == 1 else f'{equal_count} heads'}"


def ranked_heads(token_query: TokenQuery, scale: Scale) -> RankedBars:
    """The maps by how much they read of one token."""
    columns = token_query.map_rows[0].map.columns
    remarks = [
        f"to {side_label(columns, reading.most)}" if reading.peak else ALL_ZERO_REMARK
        for reading in token_query.by_peak
    ]
    return _ranked_bars(
        f"its largest {measure_name(token_query.options)} in each head",
        _heads_axis(token_query.by_peak),
        [reading.peak for reading in token_query.by_peak],
        remarks,
        token_query.options,
        scale,
    )


def ranked_link_heads(link: TokenLink, scale: Scale) -> RankedBars:
    """The maps by how much they link two tokens, each with what other tokens give the same key."""
    attention_map, looking = link.ranked[0].map, link.options
    query_name, key_name = (
        side_label(attention_map.rows, link.token_query.row),
        side_label(attention_map.columns, link.column),
    )
    other_means = [
        map_link.others.mean if map_link.sees and map_link.others.count else np.nan
        for map_link in link.ranked
    ]
    return _ranked_bars(
        f"attention from {query_name} to {key_name} in each head",
        _heads_axis([map_link.map_row for map_link in link.ranked]),
        [map_link.weight for map_link in link.ranked],
        [rank_remark(map_link, looking) for map_link in link.ranked],
        looking,
        scale,
        hidden=[not map_link.sees for map_link in link.ranked],
        other_values=other_means,
        note=" · ".join(_ranking_notes(link, key_name)),
    )


def _ranking_notes(link: TokenLink, key_name: str) -> Iterator[str]:
    """What the ranking goes by, and which the other tokens are."""
    looking, rows = link.options, link.ranked[0].map.rows
    measure, units = measure_name(looking), f"{unit_name(looking)}s"
    if looking.rank == "weight":
        yield f"sorted by {measure}"
    elif looking.weigh == "gradient":
        yield f"sorted by the distance of {measure} from others"
    else:
        yield f"sorted by {measure} − others"
    special = f", nor special {units}" * any(rows.special)
    step = sampled_queries(len(rows)).step
    sample = f"every {ordinal(step)} of the other {units}" if step > 1 else f"the other {units}"
    yield f"others = mean {measure} that {sample} give {key_name} (not {key_name} itself{special})"


def rank_remark(map_link: MapLink, looking: InspectOptions) -> str:
    """What is to be said of a link in a map: `2nd; [SEP] gets .31`."""
    if not map_link.sees:
        return "hidden by the mask"
    if not map_link.map_row.peak:
        return ALL_ZERO_REMARK
    if map_link.others.attend_most:
        return f"most {unit_name(looking)}s attend to it"
    if map_link.rank == 1:
        return "its strongest link"
    top_key = side_label(map_link.map.columns, map_link.map_row.most)
    return f"{ordinal(map_link.rank or 0)}; {top_key} gets {format_map_value(map_link.map_row.peak, looking)}"


def ordinal(number: int) -> str:
    """
    >>> ordinal(2), ordinal(11), ordinal(22)
    ('2nd', '11th', '22nd')
    """
    last_digit = number % 10 if number % 100 // 10 != 1 else 0
    return f"{number}{ORDINALS.get(last_digit, 'th')[-2:]}"


def _ranked_bars(
    title: str,
    rows: Axis,
    numbers: Sequence[float],
    remarks: Sequence[str],
    looking: InspectOptions,
    scale: Scale,
    hidden: Sequence[bool] | None = None,
    other_values: Sequence[float] = (),
    note: str = "",
) -> RankedBars:
    names = [measure_name(looking), f"other {unit_name(looking)}s"]
    columns = [numbers, other_values] if len(other_values) else [numbers]
    values = np.array(columns, dtype=float).T
    is_hidden = np.zeros(len(values), bool) if hidden is None else np.array(hidden)
    grid = Grid(
        title,
        rows,
        plain_axis("column", names[: len(columns)]),
        StoredCells(values, np.repeat(is_hidden[:, None], len(columns), axis=1)),
        scale,
        note=note,
        share=looking.weigh == "weight",
    )
    return RankedBars(grid, tuple(remarks))


def _heads_axis(readings: Sequence[MapRow]) -> Axis:
    names = [head_name(reading.map) for reading in readings]
    return plain_axis("head", names)


def map_phrase(reading: MapRow) -> str:
    """`L5H11`, `the mean of 72 heads`."""
    name = head_name(reading.map)
    return f"the {name}" if reading.map.merged_maps else name
