"""The Views of a long text and of a part of it (--window), with exact rows of blocks.

Only the rows of a part are computed, some at a time; a part too large for the memory budget is read
as a map of blocks. A page of blocks has exact rows: what one token of each attends to; where there
are many heads, several rows of the map share a token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float

from attnviz.errors import AttnvizError, opt
from attnviz.heads.head import Head
from attnviz.tokens.text_part import parse_part, span_text
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.views.attention_facts import do_rows_sum_to_one
from attnviz.views.grids.axes import AXES_NOTE, ROW_SUM_NOTE
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.long_map import LongMap
from attnviz.views.grids.section import Section
from attnviz.views.heads.bars import (
    MOST_READ,
    most_read_bars,
    row_bars,
    row_table,
    without_passages,
)
from attnviz.views.heads.data import long_text_data, part_data, weights_budget
from attnviz.views.heads.explorer import explore_heads
from attnviz.views.heads.findings import (
    blind_queries_notes,
    headline_of,
    part_finding,
    query_text,
    row_finding,
    share_notes,
    whole_finding,
    whole_findings,
)
from attnviz.views.heads.grid import head_grid, long_map, measured_heads, profile_table, whole_head
from attnviz.views.heads.passages import paragraph_starts
from attnviz.views.notes import heads_off_notes
from attnviz.views.trace_choices import PICTURE_PARTS, TraceChoices, shared_fields
from attnviz.views.view import Excerpt, Group, View
from attnviz.wording.numbers import percent_text
from attnviz.wording.rules import Rule, check_rules
from attnviz.wording.words import as_sentence, counted

MAX_LONG_MAPS = 12  # heads of a picture with true axes; more are small maps
MORE_HINT = "(--full also shows numbers along the text, and the tokens that are read most)"

# Of a part of a text.
CELL_BYTES = 25  # of a part: weights and masks, and their copies in 64 bits while they are drawn
MAX_DRAWN = 512  # cells on each side of a picture
MAX_LABELLED = 60  # tokens on each side of a picture that labels them
MAX_EXPLORED_CELLS, MAX_EXPLORED_TOKENS = 2**18, 2000  # of a part that a page has cell by cell
WHOLE_TEXT = parse_part(":,:")

# Of exact rows.
MAX_KEYS = 10  # of a row that are listed
MAX_LISTED_KEYS = 6000  # of all rows and heads: about 400 kB in a page
CERTAIN = 1 - 1e-6  # a weight that is 100 %
MAX_HEADS = 12  # of which a page has rows
StepsOfRow = Callable[[int], tuple[str, tuple[Section, ...]]]

BESIDE_PART_RULES = tuple(
    Rule(
        "part",
        when,
        f"{{option:{{it.part}}}} shows a part of the weights, and {reason}",
        f"leave {opt[name]} out, or {{option:{{it.part}}}}",
    )
    for name, reason, when in (
        ("show", "{opt.show:{it.show_text}} asks for something else",
         lambda it: it.parts not in (None, PICTURE_PARTS)),
        ("as_", "{opt.as_:{it.as_}} draws whole texts",
         lambda it: it.as_ not in (None, "heatmap", "terminal")),
        ("predict", "{opt.predict} shows answers", lambda it: it.predict),
    )
)  # fmt: skip


def view_part(trace: Trace, choices: TraceChoices) -> View:
    """Return the View of a part of the weights of all heads, or of some; with a query, of its row.

    Refuses what is not shown of a part: other parts of the Trace, other ways to draw, answers.
    """
    check_rules(choices, BESIDE_PART_RULES)
    heads, log = heads_of_part(trace, choices), choices.log
    options: dict[str, object] = {"part": choices.part, "query": None, "log": log or None}
    if choices.query is None:
        finding, notes = part_finding(heads), tuple[str, ...]()
        screen, picture = _part_groups(heads, log=log)
    else:
        finding, notes = row_finding(heads[0]), tuple(share_notes(heads))
        finding = f"{heads[0].name}: {finding}" if len(heads) > 1 else finding
        screen = picture = [Group("readings", tuple(map(row_bars, heads)))]
        options["query"] = str(heads[0].rows.span[0] + 1)
    is_whole, block = choices.layer is None and choices.head is None, _page_blocks(heads)[0]
    return View(
        **shared_fields(trace, screen, without_passages(picture), options if is_whole else None),
        headline=f"{finding[:1].upper()}{finding[1:]}",
        closing=(*blind_queries_notes(heads), *notes, *heads_off_notes(trace)),
        as_screen=choices.as_ == "terminal",
        head_explorer=partial(_explore_parts, heads, log=log),
        query_steps=None if block == (1, 1) else exact_rows(heads, block[0]),
        data=part_data(trace, heads),
    )


def heads_of_part(trace: Trace, choices: TraceChoices) -> list[Head]:
    """Return the part of each chosen head, with blocks if all parts exceed the memory budget;
    the whole text if no part is chosen.

    A query must be one of those of the part, which then has its row alone.
    """
    part = WHOLE_TEXT if choices.part is None else parse_part(choices.part)
    queries = part.queries(len(trace.tokens))
    if choices.part is not None and choices.query is not None:
        position = part.find_query(trace.tokens, choices.query)
        queries = range(position, position + 1)
    heads = []
    for layer in trace.attention_layers:
        keys = part.keys(len(trace.keys_of(layer)), is_memory=layer.memory is not None)
        if not part.names_keys:
            keys = layer.mask_rule.keys_in_band(queries, len(keys))
        for head in range(layer.heads):
            if choices.layer in (None, layer.layer) and choices.head in (None, head):
                heads.append(whole_head(trace, layer, head).part(queries, keys))
    if not heads:
        raise AttnvizError(
            f"there is no layer {choices.layer} with a head {choices.head}", "both count from 0"
        )
    cells = sum(len(each.rows.span) * len(each.columns.span) for each in heads)
    if cells * CELL_BYTES <= weights_budget(trace):
        return heads
    weights = trace.layers[0].long_weights
    resolution = Settings.resolution if weights is None else weights.resolution
    return [_in_blocks(each, resolution) for each in heads]


def _in_blocks(head: Head, most: int) -> Head:
    return replace(head, rows=head.rows.in_blocks(most), columns=head.columns.in_blocks(most))


def _part_note(heads: Sequence[Head], starts: frozenset[int]) -> str:
    """Return how to read the maps of a part; `starts`: positions whose labels have a sign."""
    sums = ROW_SUM_NOTE
    if not all(each.has_all_keys for each in heads):
        sums = "; ".join(share_notes(heads))
    elif any(each.pool == "max" or not do_rows_sum_to_one(each.facts.cells) for each in heads):
        sums = ""
    sides = (heads[0].rows, heads[0].columns)
    shown = {*sides[0].span, *sides[1].span} if heads[0].block == (1, 1) else set[int]()
    return " · ".join(
        filter(None, (AXES_NOTE, sums, "¶ = a paragraph begins" * (not shown.isdisjoint(starts))))
    )


def _part_groups(heads: Sequence[Head], *, log: bool) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture: maps, and of one head what is read most.

    A picture that has no room for the labels of a head counts tokens, as that of a long text does.
    """
    head, is_one = heads[0], len(heads) == 1
    paragraphs = paragraph_starts(head.rows.tokens)

    def maps(most: int | None, starts: frozenset[int]) -> tuple[Grid, ...]:
        note = _part_note(heads, starts)
        grids = []
        for each in heads:
            block = each.block if most is None else each.blocks_for(most)
            title = "" if is_one else f"weights {each.name}"
            grids.append(
                head_grid(each, log=log, block=block, title=title, note=note, starts=starts)
            )
        return tuple(with_common_scales(grids))

    screen = [Group("weights", maps(None, frozenset(paragraphs)))]
    if is_one and len(head.rows.span) > 1 and len(head.columns.span) > MOST_READ:
        screen.append(Group("most read", (most_read_bars(head),)))
    if not is_one or max(len(head.rows.span), len(head.columns.span)) <= MAX_LABELLED:
        return screen, [Group("weights", maps(MAX_DRAWN, frozenset(paragraphs)))]
    [grid] = maps(MAX_DRAWN, frozenset())
    drawn_map = long_map(head, grid, paragraphs if head.reads_itself else ())
    return screen, [Group("weights", (drawn_map,))]


def _page_blocks(heads: Sequence[Head]) -> list[tuple[int, int]]:
    """Return how many queries and keys are in a cell on a page: one each, unless that is too many
    for it.
    """
    sides = max(len(side.span) for each in heads for side in (each.rows, each.columns))
    cells = sum(len(each.rows.span) * len(each.columns.span) for each in heads)
    is_small = cells <= MAX_EXPLORED_CELLS and sides <= MAX_EXPLORED_TOKENS
    return [each.block if is_small else each.blocks_for(MAX_DRAWN) for each in heads]


def _explore_parts(heads: Sequence[Head], *, log: bool) -> HeadExplorer:
    """Return the parts of all heads, for a reader of a page to choose from; a part of very many
    cells as a map of blocks.
    """
    blocks, starts = _page_blocks(heads), frozenset[int]()
    if blocks[0] == (1, 1):
        starts = frozenset(paragraph_starts(heads[0].rows.tokens))
    note = _part_note(heads, starts)
    return explore_heads(heads, log=log, blocks=blocks, note=note, starts=starts)


def view_long(trace: Trace, choices: TraceChoices) -> View:
    """Return the View of a Trace whose weights are computed only where they are shown; with a
    query, of its exact row. With `show`, all its weights are the data: writing them is refused
    where they exceed the memory budget.
    """
    heads, query, log = measured_heads(trace), choices.query, choices.log
    excerpt, typed, position = None, None, None
    if query is None:
        headline = headline_of(heads[0], whole_finding(heads[0]))
        screen, picture = map_groups(heads, log=log)
        excerpt = Excerpt(tuple(screen[:1]), MORE_HINT)
    else:
        position = trace.tokens.index(query, "query")
        rows, typed = [head.row(position) for head in heads], trace.tokens.as_typed(query)
        headline = headline_of(heads[0], row_finding(rows[0]))
        picture = [Group("readings", tuple(map(row_bars, rows)))]
        screen = [*picture, Group("along the text", tuple(map(row_table, rows)))]
    options = {"query": typed, "log": log or None, "as_": choices.as_, "show": choices.show_text}
    data = long_text_data(trace, heads)
    if choices.show is not None:
        data = part_data(trace, heads_of_part(trace, choices))
    return View(
        **shared_fields(trace, screen, without_passages(picture), options),
        headline=headline,
        excerpt=excerpt,
        closing=heads_off_notes(trace),
        as_screen=choices.as_ == "terminal",
        head_explorer=lambda: explore_heads(heads, query=position, log=log),
        query_steps=exact_rows(heads, heads[0].rows.size, position),
        data=data,
    )


def map_groups(heads: Sequence[Head], *, log: bool) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture: maps, numbers along the text of a single
    head, and what is read most.
    """
    grids = Group("weights", tuple(head_grid(head, log=log) for head in heads))
    most_read = Group("most read", (most_read_bars(heads[0]),))
    if len(heads) > MAX_LONG_MAPS:
        return [grids, most_read], [grids]
    if len(heads) > 1:
        return [grids, most_read], _several_maps(heads, log=log)
    [head], [grid] = heads, grids.panels
    assert isinstance(grid, Grid)
    picture = [Group("weights", (long_map(head, grid, paragraph_starts(head.columns.tokens)),))]
    return [grids, Group("along the text", (profile_table(head),)), most_read], picture


def _several_maps(heads: Sequence[Head], *, log: bool) -> list[Group]:
    """Return a group for each layer, with the long maps of its heads on one scale."""
    texts = {id(head.columns.tokens): head.columns.tokens for head in heads}
    starts = {text: paragraph_starts(tokens) for text, tokens in texts.items()}
    grids = with_common_scales([head_grid(head, log=log) for head in heads])
    groups: dict[str, list[LongMap]] = {}
    for head, grid in zip(heads, grids, strict=True):
        drawn_map = long_map(head, grid, starts[id(head.columns.tokens)])
        with_findings = replace(drawn_map, findings=whole_findings(head))
        groups.setdefault(head.layer.name, []).append(with_findings)
    return [Group(f"weights {name}", tuple(maps)) for name, maps in groups.items()]


def exact_rows(heads: Sequence[Head], height: int, query: int | None = None) -> StepsOfRow:
    """Return a function that gives the title and the exact rows, of each head, for a row of a map
    of `height` queries.

    Stored is the query whose largest weight, in any head, exceeds that of its neighbours; `query`:
    the position of one that is stored in any case.
    """
    weights = np.max([_largest_weights(head) for head in heads], axis=0)
    queries, heads = heads[0].rows.span, heads[:MAX_HEADS]
    rows = -(-len(queries) // height)
    step = height * max(1, -(-rows * len(heads) * MAX_KEYS // MAX_LISTED_KEYS))
    telling = np.where(weights < CERTAIN, weights, -1.0)  # an only key has all of the attention

    def steps_of_row(row: int) -> tuple[str, tuple[Section, ...]]:
        first = row * height // step * step
        span = queries[first : first + step]
        best = int(telling[first : first + step].argmax())
        position = span[best] if query is None or query not in span else query
        parts = [head.part(range(position, position + 1), head.columns.span) for head in heads]
        others = weights[first : first + step]
        about = ""
        if len(span) > 1 and position == span[best]:
            where = " in any head" if len(heads) > 1 else ""
            apart = ", apart from those with 100 %" if others.max() > others[best] else ""
            about = f"No other of {span_text(span)} has a larger weight{where}{apart}."
        name = f"{parts[0].name}: " if len(parts) > 1 else ""
        sections = tuple(_exact_row(part, about, is_only=len(parts) == 1) for part in parts)
        return as_sentence(f"{name}{row_finding(parts[0])}").removesuffix("."), sections

    return steps_of_row


def _largest_weights(head: Head) -> Float[np.ndarray, "query"]:
    return head.numbers("largest_weight") if head.is_measured else head.facts.largest


def _exact_row(part: Head, about: str, *, is_only: bool) -> Section:
    """Return the exact row of the only query of a part as a section: the keys with most weight."""
    bars = row_bars(part, MAX_KEYS)
    listed, title = float(bars.grid.values.sum()), f"What {query_text(part, part.rows.span[0])}"
    if listed:
        weights = counted(len(bars.grid.rows), "largest weight")
        about = f"{about} Its {weights} sum to {percent_text(listed)}."
    return Section(
        number="",
        name=f"row {part.name}",
        title=f"{title} attends to{'' if is_only else f' in {part.name}'}",
        about=about.strip(),
        remarks=() if listed else (as_sentence(row_finding(part)),),
        ranking=bars if listed else None,
    )
