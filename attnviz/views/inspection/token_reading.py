"""What one token attends to: a sentence coloured by weight, and ranked bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.patterns import sampled_queries
from attnviz.analysis.inspection.token_query import MapLink, MapRow, TokenLink, TokenQuery
from attnviz.cells import StoredCells
from attnviz.views.attention_facts import do_rows_sum_to_one
from attnviz.views.grids.axes import SINGLE_ROW_SUM_NOTE, Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.views.heads.grid import side_axis
from attnviz.views.inspection.heatmap import map_captions
from attnviz.views.inspection.map_numbers import (
    format_map_value,
    head_name,
    measure_name,
    row_scale,
    side_label,
)
from attnviz.wording.numbers import share_text

ALL_ZERO_REMARK = "all are 0"
LIFT_ORDER_NOTE = "sorted by weight − others"
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


def reading_parts(token_query: TokenQuery) -> tuple[Sentence | RankedBars, ...]:
    """Return the sentence, coloured by the query's weights in the one map that is shown.

    Of several maps it is coloured by the one that the title names, or by their mean, and bars of
    the keys and of the maps follow.
    """
    if len(token_query.map_rows) == 1:
        return (coloured_sentence(token_query, token_query.mean, listed=True),)
    shown = token_query.peaks[0].map_row if token_query.names_head else token_query.mean
    sentence = coloured_sentence(token_query, shown)
    scale = sentence.grid.scale
    scale = replace(scale, is_exceeded=abs(token_query.by_peak[0].peak) > scale.high)
    sentence = replace(sentence, grid=replace(sentence.grid, scale=scale))
    return (sentence, ranked_tokens(token_query, scale), ranked_heads(token_query, scale))


def link_parts(link: TokenLink) -> tuple[Sentence | RankedBars, ...]:
    """Return bars of a link's weight in all maps, and the sentence coloured by the first of them.

    For a single map, return only the sentence.
    """
    first_reading = link.ranked_links[0].map_row
    if len(link.ranked_links) == 1:
        return (coloured_sentence(link.token_query, first_reading, listed=True),)
    sentence = coloured_sentence(link.token_query, first_reading)
    return (ranked_link_heads(link, sentence.grid.scale), sentence)


def coloured_sentence(
    token_query: TokenQuery, reading: MapRow, *, listed: bool = False
) -> Sentence:
    """Return the sentence, each token coloured by its weight from the query in one map.

    `listed` also lists the weights and notes that they sum to 1, if they do.
    """
    attention_map, looking = reading.map, token_query.options
    cells = StoredCells(reading.patch.values, reading.patch.hidden)
    is_rollout = looking.merge == "rollout"  # whose caption is long enough
    has_sum_note = (
        listed and not is_rollout and attention_map.are_shares and do_rows_sum_to_one(cells)
    )
    sum_note = SINGLE_ROW_SUM_NOTE if has_sum_note else ""
    verb = "draws on" if is_rollout else "attends to"
    grid = Grid(
        f"what {side_label(attention_map.rows, token_query.row)} {verb} in {map_phrase(reading)}",
        plain_axis("head", [head_name(attention_map)]),
        side_axis("key (is read)", attention_map.columns),
        cells,
        row_scale(reading.patch.values[0], looking),
        note=" · ".join(filter(None, (sum_note, *map_captions(looking, [attention_map])))),
        share=looking.weigh == "weight",
    )
    return Sentence(grid, token_query.own_column, listed)


def ranked_tokens(token_query: TokenQuery, scale: Scale) -> RankedBars:
    """Return bars of the keys by mean weight, the largest first and hidden keys left out; with
    `ranks_by_lift` by mean lift, beside the mean from other tokens.

    A remark beside each names the map that gives the key the most, or the largest lift.
    """
    looking, mean, by_lift = token_query.options, token_query.mean, token_query.ranks_by_lift
    values = mean.patch.values[0]
    sizes = mean.lifts if by_lift else np.abs(values)
    keys = [key for key in np.argsort(-sizes, kind="stable") if mean.sees(key)]
    axis = side_axis("key (is read)", token_query.map_rows[0].map.columns)
    labels, numbers = (tuple(texts[key] for key in keys) for texts in (axis.labels, axis.numbers))
    remarks = []
    for key in keys:
        reading = token_query.strongest(key)
        weight = format_map_value(reading.weight(key), looking)
        where = head_name(reading.map) if by_lift else _top_map_text(token_query, key, reading)
        remarks.append(f"{where}: {weight}")
        if not np.isnan(reading.base_weights[key]):
            mean_weight = float(reading.base_weights[key])
            is_weight = looking.weigh == "weight"
            base = share_text(mean_weight) if is_weight else format_map_value(mean_weight, looking)
            remarks[-1] += f" (others {base})"
    title, weights = f"its mean {measure_name(looking)}", [float(values[key]) for key in keys]
    rows = Axis("", "token", labels, numbers)
    note, others = _others_note(token_query, "the key"), list[float]()
    if by_lift:
        note = f"{note} · {LIFT_ORDER_NOTE} · largest in the named head"
        others = [float(mean.base_weights[key]) for key in keys]
    return ranked_bars(
        title, rows, weights, remarks, looking, scale, other_values=others, note=note
    )


def _top_map_text(token_query: TokenQuery, key: int, top_reading: MapRow) -> str:
    """Return the map with a key's largest weight, `most in L3H1`, or how many maps share it."""
    equal_count = sum(each.weight(key) == top_reading.weight(key) for each in token_query.map_rows)
    if equal_count == len(token_query.map_rows) > 1:
        return "as much in all"
    return f"most in {head_name(top_reading.map) if equal_count == 1 else f'{equal_count} heads'}"


def ranked_heads(token_query: TokenQuery, scale: Scale) -> RankedBars:
    """Return bars of the maps by the query's largest weight in each, with the key that gets it;
    with `ranks_by_lift` by its largest lift.

    What others are is said beside the keys.
    """
    columns, links = token_query.map_rows[0].map.columns, token_query.peaks
    by_lift = token_query.ranks_by_lift
    return ranked_bars(
        "what it attends to more than others do, in each head"
        if by_lift
        else f"its largest {measure_name(token_query.options)} in each head",
        _heads_axis([link.map_row for link in links]),
        [link.weight for link in links],
        [
            f"to {side_label(columns, link.column)}" if link.map_row.peak else ALL_ZERO_REMARK
            for link in links
        ],
        token_query.options,
        scale,
        other_values=[link.base if link.map_row.peak else np.nan for link in links],
        note=f"{LIFT_ORDER_NOTE} · {_left_out_note(token_query)}" if by_lift else "",
    )


def _left_out_note(token_query: TokenQuery) -> str:
    """Return to which keys no head's largest lift is looked for."""
    units, columns = token_query.options.unit, token_query.map_rows[0].map.columns
    is_special = columns.special[token_query.sink_keys[0]]
    sinks = f"special {units}s" if is_special else f"the first {units}"
    return f"itself and {sinks} left out"


def ranked_link_heads(link: TokenLink, scale: Scale) -> RankedBars:
    """Return bars of the maps by the weight of a link, beside the mean from other tokens."""
    attention_map, looking, ranked = link.ranked_links[0].map, link.options, link.ranked_links
    query_name = side_label(attention_map.rows, link.token_query.row)
    key_name = side_label(attention_map.columns, link.column)
    return ranked_bars(
        f"attention from {query_name} to {key_name} in each head",
        _heads_axis([head.map_row for head in ranked]),
        [head.weight for head in ranked],
        [rank_remark(head, looking) for head in ranked],
        looking,
        scale,
        hidden=[not head.sees for head in ranked],
        other_values=[head.base if head.sees else np.nan for head in ranked],
        note=" · ".join(_ranking_notes(link, key_name)),
    )


def _ranking_notes(link: TokenLink, key_name: str) -> Iterator[str]:
    """Yield by what the maps are sorted, and which tokens count as others."""
    looking, measure = link.options, measure_name(link.options)
    if looking.rank == "weight":
        yield f"sorted by {measure}"
    elif looking.weigh == "gradient":
        yield f"sorted by the distance of {measure} from others"
    else:
        yield LIFT_ORDER_NOTE
    yield _others_note(link.token_query, key_name)


def _others_note(token_query: TokenQuery, key_name: str) -> str:
    """Return a note that says what others are: the tokens whose mean weight for a key is given, or
    at the same distance."""
    looking, rows = token_query.options, token_query.map_rows[0].map.rows
    measure, units = measure_name(looking), f"{looking.unit}s"
    special = " (no special tokens)" * any(rows.special)
    step = sampled_queries(len(rows)).step
    sample = f"every {ordinal(step)} of the other {units}" if step > 1 else f"other {units}"
    has_distance = looking.weigh != "gradient" and token_query.own_column is not None
    distance = ", or at its distance, if more" * has_distance
    return f"others = mean {measure} from {sample} to {key_name}{distance}{special}"


def rank_remark(map_link: MapLink, looking: InspectOptions) -> str:
    """Return a remark on the link's rank in its row: `2nd; [SEP] gets .31`, `its strongest link`.

    If the key is hidden, or if most tokens attend to it, the remark states that instead.
    """
    if not map_link.sees:
        return "hidden by the mask"
    if not map_link.map_row.peak:
        return ALL_ZERO_REMARK
    if map_link.others.attend_most:
        return f"most {looking.unit}s attend to it"
    if map_link.rank == 1:
        return "its strongest link"
    top_key = side_label(map_link.map.columns, map_link.map_row.top_column)
    peak = format_map_value(map_link.map_row.peak, looking)
    return f"{ordinal(map_link.rank or 0)}; {top_key} gets {peak}"


def ordinal(number: int) -> str:
    """Return a number with its English suffix.

    >>> ordinal(2), ordinal(11), ordinal(22)
    ('2nd', '11th', '22nd')
    """
    last_digit = number % 10 if number % 100 // 10 != 1 else 0
    return f"{number}{ORDINALS.get(last_digit, 'th')[-2:]}"


def ranked_bars(
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
    """Return bars for `numbers`, one per row, each with a remark; the order is that given.

    `hidden` marks rows that the mask hides; `other_values` are drawn beside the bars as a second
    column.
    """
    names = [measure_name(looking), f"other {looking.unit}s"]
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
    return plain_axis("head", [head_name(reading.map) for reading in readings])


def map_phrase(reading: MapRow) -> str:
    """Return a map's name in a sentence: `L5H11`, or of merged maps `the mean of 72 heads`."""
    name = reading.map.name
    return f"the {name}" if reading.map.merged_heads else name
