"""The View of a part of a text (--window): exact weights, however long the text.

Only the rows of the part are computed, some at a time; a part too large for the memory budget is
read as a map of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.tokens.text_part import TextPart, parse_part, span_text
from attnviz.traces.early_checks import refuse_oversized_data
from attnviz.traces.inputs import build_source, source_command
from attnviz.traces.long_weights import LongWeights
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Layer, Trace
from attnviz.views.attention_facts import do_rows_sum_to_one
from attnviz.views.even_spread import FINDING_RATIO, even_words
from attnviz.views.exact_rows import exact_rows
from attnviz.views.grids.axes import ALL_MASKED_TEXT, AXES_NOTE, ROW_SUM_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.long_map import LongMap
from attnviz.views.headline import attention_headline
from attnviz.views.long_text import (
    EQUAL_TOLERANCE,
    MOST_READ,
    LongHead,
    axis_of_words,
    label_at,
    paragraph_starts,
    quoted_label,
    without_passages,
)
from attnviz.views.notes import heads_off_notes, random_numbers_caveat
from attnviz.views.part_of_head import CELLS_AT_ONCE, PartOfHead
from attnviz.views.settings_line import settings_line
from attnviz.views.trace_data import WEIGHT_COLUMNS
from attnviz.views.view import (
    Group,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
    head_cells,
)
from attnviz.wording.numbers import percent_text

CELL_BYTES = 25  # of a part: weights and masks, and their copies in 64 bits while they are drawn
MAX_DRAWN = 512  # cells on each side of a picture
MAX_LABELLED = 60  # tokens on each side of a picture that labels them
MAX_EXPLORED_CELLS, MAX_EXPLORED_TOKENS = 2**18, 2000  # of a part that a page has cell by cell
MAIN_SHARE = 0.2  # of the attention of several queries: a key that receives it is the finding
PARAGRAPH_NOTE = "¶ = a paragraph begins"


def view_part(
    trace: Trace,
    typed: str,
    query: int | str | None = None,
    *,
    layer: int | str | None = None,
    head: int | str | None = None,
    log: bool = False,
    as_screen: bool = False,
) -> View:
    """Return the View of a part of the weights of all heads, or of some; with a query, of its row.

    `typed`: the tokens that read and those that are read, as in `1200:1300,1:400`.
    """
    part = parse_part(typed)
    heads = _heads_of_part(trace, part, query, (layer, head))
    settings, caveat = settings_line(trace), random_numbers_caveat(trace, ("weights",))
    if query is None:
        finding = part_finding(heads)
        screen, picture = _part_groups(heads, log=log)
    else:
        finding = heads[0].row_finding()
        screen = picture = [Group("readings", tuple(each.row_bars() for each in heads))]
    if query is not None and len(heads) > 1:
        finding = f"{heads[0].name}: {finding}"
    options = {
        "part": typed,
        "query": None if query is None else str(heads[0].queries[0] + 1),
        "log": log or None,
    }
    is_whole, block = layer is None and head is None, _page_blocks(heads)[0]
    return View(
        title=attention_headline(trace),
        headline=f"{finding[:1].upper()}{finding[1:]}",
        settings=settings,
        screen=build_page(screen, settings, caveat),
        picture=build_page(without_passages(picture), settings, caveat),
        closing=(
            *_blind_queries_notes(heads),
            *(_share_notes(heads) if query is not None else ()),
            *heads_off_notes(trace),
        ),
        as_screen=as_screen,
        head_explorer=partial(_explore_parts, heads, log=log),
        query_steps=None if block == (1, 1) else exact_rows(heads, block[0]),
        data=part_data(heads),
        provenance=trace.provenance,
        command=source_command("run", build_source(trace), **options) if is_whole else None,
    )


def _heads_of_part(
    trace: Trace,
    part: TextPart,
    query: int | str | None,
    chosen: tuple[int | str | None, int | str | None],
) -> list[PartOfHead]:
    """Return the part of each chosen head, with blocks if all parts exceed the memory budget.

    A query must be one of those of the part, which then has its row alone.
    """
    queries = part.queries(len(trace.tokens))
    if query is not None:
        position = part.find_query(trace.tokens, query)
        queries = range(position, position + 1)
    heads = []
    for layer in trace.attention_layers:
        keys = part.keys(len(trace.keys_of(layer)), is_memory=layer.memory is not None)
        if not part.names_keys:
            keys = _visible_keys(layer, queries, len(keys))
        for head in range(layer.heads):
            if chosen[0] in (None, layer.layer) and chosen[1] in (None, head):
                heads.append(PartOfHead(LongHead(trace, layer, head), queries, keys))
    if not heads:
        raise AttnvizError(
            f"there is no layer {chosen[0]} with a head {chosen[1]}", "both count from 0"
        )
    cells = sum(len(each.queries) * len(each.keys) for each in heads)
    if cells * CELL_BYTES <= weights_budget(trace):
        return heads
    weights = trace.layers[0].weights
    resolution = weights.resolution if isinstance(weights, LongWeights) else Settings.resolution
    return [replace(each, block=each.map_block(resolution)) for each in heads]


def _visible_keys(layer: Layer, queries: range, count: int) -> range:
    """Return the keys of a layer without those at either end that its mask, if it is a band, hides
    from all these queries; all of them if that leaves none.
    """
    rule = layer.mask_rule
    first = 0 if rule.before is None else max(0, queries[0] + rule.offset - rule.before)
    last = count if rule.after is None else min(count, queries[-1] + rule.offset + rule.after + 1)
    return range(first, last) if first < last else range(count)


def with_all_weights(view: View, trace: Trace) -> View:
    """Return the View of a long text with all its weights as data; writing them is refused where
    they exceed the memory budget.
    """
    heads = _heads_of_part(trace, parse_part(":,:"), None, (None, None))
    command = None if view.command is None else view.command.with_options(show="weights")
    return replace(view, data=part_data(heads), command=command)


def part_finding(heads: Sequence[PartOfHead]) -> str:
    """Return a sentence on what stands out in a part: a key that much of the attention goes to, or
    else the largest weight; of several heads, in the one with the largest weight.
    """
    active = [each for each in heads if not each.is_off] or heads
    head = max(active, key=lambda each: each.weights.largest.max())
    weights, readers, keys = head.weights, span_text(head.queries), span_text(head.keys)
    where = f"in {head.name}, " if len(heads) > 1 else ""
    if not any(each.weights.visible.any() for each in heads):
        whom = "any token" if head.has_all_keys else keys
        return f"{readers} cannot attend to {whom}: every key shown is masked"
    top = int(weights.received.argmax())
    is_single = np.isclose(weights.received, weights.received[top], rtol=1e-6).sum() == 1
    share, even = (float(shares[top]) for shares in head.received_shares)
    is_much = is_single and share >= MAIN_SHARE and share >= FINDING_RATIO * even
    if is_much and len(head.queries) > 1:
        key = f"{quoted_label(head.whole.keys, head.keys[top])} (token {head.keys[top] + 1:,})"
        receives = f"receives {percent_text(share)} of the attention of {readers}"
        return f"{where}{key} {receives}, {even_words(share, even)}"
    return f"{where}{_largest_weight_text(head)}"


def _largest_weight_text(head: PartOfHead) -> str:
    """Return which weight of the part is the largest, where a query sees more than one key."""
    weights = head.weights
    has_choice = weights.all_visible > 1
    rows = has_choice if has_choice.any() else weights.all_visible > 0
    largest = np.where(rows, weights.largest, -1.0)
    top = int(largest.argmax())
    is_top = rows & np.isclose(weights.largest, largest[top], rtol=EQUAL_TOLERANCE, atol=0)
    ties = int(weights.ties[is_top].sum())
    is_limited = bool((weights.largest[~rows] > largest[top]).any())
    choice = "where more than one key is visible, " * is_limited
    of = span_text(head.queries) + f" on {span_text(head.keys)}" * (not head.has_all_keys)
    share = percent_text(float(largest[top]), 1)
    query, key = head.queries[top], head.keys[int(weights.largest_key[top])]
    pair = f"{head.reader_text(query)} to {head.key_text(query, key)}"
    even = even_words(float(largest[top]), head.even_weight(top))
    start = f"{choice}the largest weight of {of} is {share}"
    if ties > 1:
        return f"{start}, for {ties:,} pairs of tokens, {pair} ({even}) among them"
    return f"{start}: {pair}, {even}"


def _share_notes(heads: Sequence[PartOfHead]) -> Iterator[str]:
    """Yield which share of the queries' attention lies in the part: of several heads, from the
    least to the most."""
    limited = [each for each in heads if not each.has_all_keys and each.weights.totals.any()]
    if not limited:
        return
    shares = sorted((each.share, each.name) for each in limited)
    texts = list(dict.fromkeys(percent_text(share) for share, _ in (shares[0], shares[-1])))
    if len(texts) > 1:
        texts = [f"{percent_text(share)} ({name})" for share, name in (shares[0], shares[-1])]
    yield (
        f"{' to '.join(texts)} of the attention of {span_text(limited[0].queries)} goes to "
        f"{span_text(limited[0].keys)}; the softmax runs over all keys"
    )


def _blind_queries_notes(heads: Sequence[PartOfHead]) -> Iterator[str]:
    """Yield of how many queries every key of the text is masked, in all heads or in the first."""
    counts = [int((each.weights.all_visible == 0).sum()) for each in heads]
    if not any(counts):
        return
    head = heads[int(np.argmax(counts))]
    where = f"in {head.name}, " if len(heads) > 1 else ""
    number = f"{max(counts):,} {'queries attend' if max(counts) > 1 else 'query attends'}"
    yield f"{where}{number} to {ALL_MASKED_TEXT}"


def _part_note(heads: Sequence[PartOfHead], starts: frozenset[int]) -> str:
    """Return how to read the maps of a part; `starts`: positions whose labels have a sign."""
    sums = ROW_SUM_NOTE
    if not all(each.has_all_keys for each in heads):
        sums = "; ".join(_share_notes(heads))
    elif any(each.pool == "max" or not do_rows_sum_to_one(each.weights.cells) for each in heads):
        sums = ""
    shown = {*heads[0].queries} | {*heads[0].keys} if heads[0].block == (1, 1) else frozenset()
    return " · ".join(
        filter(None, (AXES_NOTE, sums, PARAGRAPH_NOTE * (not shown.isdisjoint(starts))))
    )


def _part_groups(heads: Sequence[PartOfHead], *, log: bool) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture: maps, and of one head what is read most.

    A picture that has no room for the labels of a head counts tokens, as that of a long text does.
    """
    trace = heads[0].whole.trace
    paragraphs = paragraph_starts(trace.tokens)
    starts = frozenset(paragraphs)
    name = "" if len(heads) == 1 else "weights "

    def maps(most: int | None, starts: frozenset[int]) -> tuple[Grid, ...]:
        note = _part_note(heads, starts)
        blocks = [each.block if most is None else each.map_block(most) for each in heads]
        grids = [
            head.grid(starts, note, block, log=log, title=f"{name}{head.name}" if name else "")
            for head, block in zip(heads, blocks, strict=True)
        ]
        return tuple(with_common_scales(grids))

    head = heads[0]
    screen = [Group("weights", maps(None, starts))]
    if len(heads) == 1 and len(head.queries) > 1 and len(head.keys) > MOST_READ:
        screen.append(Group("most read", (head.most_read_bars(),)))
    if len(heads) > 1 or max(len(head.queries), len(head.keys)) <= MAX_LABELLED:
        return screen, [Group("weights", maps(MAX_DRAWN, starts))]
    block = head.map_block(MAX_DRAWN)
    long_map = LongMap(
        grid=maps(MAX_DRAWN, frozenset())[0],
        row_tokens=head.queries,
        column_tokens=head.keys,
        profiles=head.profiles(block[0]),
        paragraphs=paragraphs if head.whole.keys is trace.tokens else (),
    )
    return screen, [Group("weights", (long_map,))]


def _page_blocks(heads: Sequence[PartOfHead]) -> list[tuple[int, int]]:
    """Return how many queries and keys are in a cell on a page: one each, unless that is too many
    for it.
    """
    sides = max(len(side) for each in heads for side in (each.queries, each.keys))
    cells = sum(len(each.queries) * len(each.keys) for each in heads)
    is_whole = cells <= MAX_EXPLORED_CELLS and sides <= MAX_EXPLORED_TOKENS
    return [each.block if is_whole else each.map_block(MAX_DRAWN) for each in heads]


def _explore_parts(heads: Sequence[PartOfHead], *, log: bool) -> HeadExplorer:
    """Return the parts of all heads, for a reader of a page to choose from; a part of very many
    cells as a map of blocks.
    """
    blocks = _page_blocks(heads)
    starts = frozenset[int]()
    if blocks[0] == (1, 1):
        starts = frozenset(paragraph_starts(heads[0].whole.trace.tokens))
    explored, note = list[tuple[str, str, HeadMap]](), ""
    axes_by_sides = dict[object, tuple[Axis, Axis]]()
    for each, block in zip(heads, blocks, strict=True):
        grid = each.grid(starts, "", block, log=log, title="")
        sides_of_head = (id(each.whole.keys), each.keys, block)
        query_axis, key_axis = axes_by_sides.setdefault(
            sides_of_head, (axis_of_words(grid.rows), axis_of_words(grid.columns))
        )
        if query_axis.numbers == key_axis.numbers and each.whole.keys is each.whole.trace.tokens:
            key_axis = query_axis  # both sides are one
        head_map = HeadMap(
            name=each.name,
            query_axis=query_axis,
            key_axis=key_axis,
            weights=grid.cells,
            share=grid.share and each.has_all_keys,
            off=each.is_off,
        )
        explored.append((each.whole.layer.name, f"H{each.whole.head}", head_map))
        note = grid.pool_note
    note = " · ".join(filter(None, (_part_note(heads, starts), note)))
    return arrange_heads(explored, log=log, note=note)


def weights_budget(trace: Trace) -> int:
    budget: str | None = trace.provenance.settings.get("memory_budget")
    return memory.memory_budget(budget, memory.free_bytes())


def part_data(heads: Sequence[PartOfHead]) -> TableData:
    """Return all weights of a part as data, with a line of the table for each; refused where they
    exceed the memory budget.
    """
    return TableData(
        "window", partial(_part_contents, heads), WEIGHT_COLUMNS, partial(_part_lines, heads)
    )


def _refuse_oversized_part(heads: Sequence[PartOfHead]) -> None:
    budget = weights_budget(heads[0].whole.trace)
    refuse_oversized_data(len(heads), len(heads[0].queries), len(heads[0].keys), budget)


def _part_contents(heads: Sequence[PartOfHead]) -> Mapping[str, Any]:
    """Return the weights of a part as JSON data with arrays: numbers of tokens count from 1."""
    _refuse_oversized_part(heads)
    parts: dict[str, dict[str, Any]] = {}
    for each in heads:
        trace, keys = each.whole.trace, each.whole.keys
        weights = replace(each, block=(1, 1)).weights
        described = {
            "first_query": each.queries[0] + 1,
            "first_key": each.keys[0] + 1,
            "queries": [label_at(trace.tokens, position) for position in each.queries],
            "keys": [label_at(keys, position) for position in each.keys],
        }
        part = parts.setdefault(each.whole.layer.name, {**described, "heads": []})
        part["heads"].append({
            "head": each.whole.head,
            "weights": weights.cells.values,
            "visible": ~weights.cells.hidden,
            "weight_on_shown_keys": weights.shown,
            "weight_on_all_keys": weights.totals,
        })  # fmt: skip
    return {"parts": parts}


def _part_lines(heads: Sequence[PartOfHead]) -> Iterator[TableLines]:
    _refuse_oversized_part(heads)
    for each in heads:
        trace, keys = each.whole.trace, each.whole.keys
        numbers = tuple(str(position + 1) for position in each.keys)
        words = WordColumns((numbers, tuple(label_at(keys, position) for position in each.keys)))
        head_start = head_cells(each.whole.layer.head_name(each.whole.head))
        step = max(1, CELLS_AT_ONCE // len(keys))
        for first in range(each.queries.start, each.queries.stop, step):
            rows = slice(first, min(first + step, each.queries.stop))
            band = each.all_cells.window(rows, slice(each.keys.start, each.keys.stop))
            for row, (values, hidden) in enumerate(zip(band.values, band.hidden, strict=True)):
                label = label_at(trace.tokens, first + row)
                start: tuple[str | int, ...] = (*head_start, first + row + 1, label)
                yield TableLines(start, words, (values, ~hidden))
