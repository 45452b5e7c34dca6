"""What one token attends to (--query): in its sentence, in a second one, or as arcs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from types import MappingProxyType

import numpy as np

from attnviz.cells import FULL_SLICE, StoredCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.attention_facts import do_rows_sum_to_one
from attnviz.views.grids.axes import (
    ALL_MASKED_TEXT,
    LINE_SUM_NOTE,
    ROW_SUM_NOTE,
    SINGLE_ROW_SUM_NOTE,
    Axis,
    titled_axis,
)
from attnviz.views.grids.grid import OFF_SUFFIX, Grid
from attnviz.views.grids.scales import bar_scale
from attnviz.views.grids.words_and_bars import Arcs, Sentence
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.view import READINGS_GROUP, Group
from attnviz.wording.words import and_list


def query_readings(trace: Trace, query: int) -> list[Grid]:
    """Return a table of the weights of one token (position `query`), a row for each head: first for
    its own sentence, then for a second one if layers attend to one.
    """
    cross_layers = [layer.cross for layer in trace.layers if layer.cross]
    groups = [trace.layers, cross_layers] if cross_layers else [trace.layers]
    return [_query_reading(trace, layers, query) for layers in groups]


def _query_reading(trace: Trace, layers: Sequence[Layer], query: int) -> Grid:
    """Return the table of the weights of one token, a row for each head of these layers."""
    heads = [(layer, head) for layer in layers for head in range(layer.heads)]
    rows = [layer.weights.cells("mixing", head).row(query) for layer, head in heads]
    names = [
        f"{attention_head_name(trace, layer, head)}{OFF_SUFFIX * (head in layer.off)}"
        for layer, head in heads
    ]
    hidden = np.concatenate([row.hidden for row in rows])
    cells = StoredCells(np.concatenate([row.values for row in rows]), hidden)
    memory_suffix = " in the memory" if layers[0].memory is not None else ""
    by_softmax = all(layer.attended.mixed_by == "softmax" for layer in layers)
    sum_note = ROW_SUM_NOTE if by_softmax and do_rows_sum_to_one(cells) else ""
    return Grid(
        f"what {quoted_token(trace.tokens, query)} reads{memory_suffix}",
        titled_axis("head", names),
        token_axis("key (is read)", trace.keys_of(layers[0])),
        cells,
        bar_scale(cells),
        note=_blind_query_note(heads, query) or sum_note,
        share=True,
        off=tuple(head in layer.off for layer, head in heads),
    )


def _blind_query_note(heads: Sequence[tuple[Layer, int]], query: int) -> str:
    """Return in which heads every key is masked for the query; empty if in none."""
    is_blind = [query in layer.empty_rows(head) for layer, head in heads]
    if not any(is_blind) or all(is_blind):
        return f"it reads {ALL_MASKED_TEXT}" if any(is_blind) else ""
    pairs = zip(heads, is_blind, strict=True)
    names = [f"{layer.name}H{head}" for (layer, head), head_is_blind in pairs if head_is_blind]
    return f"in {and_list(names)} it reads {ALL_MASKED_TEXT}"


def attention_head_name(trace: Trace, layer: Layer, head: int) -> str:
    """Return `head 3` in a trace with a single attention, else `L0H3`, or `L0 cross H3` for
    attention to a second sentence.
    """
    if has_single_attention(trace):
        return f"head {head}"
    return layer.head_name(head)


def has_single_attention(trace: Trace) -> bool:
    return len(trace.attention_layers) == 1


def token_axis(title: str, tokens: Tokens, border: int | None = None) -> Axis:
    """Return an axis with the number (from 1) and the label of each token; a line is drawn before
    position `border`.
    """
    numbers = tuple(str(number) for number in range(1, len(tokens) + 1))
    special = tuple(position in tokens.special for position in range(len(tokens)))
    return Axis(title, "token", tokens.labels, numbers, tokens.spaced, border, special)


def generation_start(trace: Trace, tokens: Tokens) -> int | None:
    """Return the position of the first generated token; None if nothing was generated or these are
    not the trace's own tokens.
    """
    return trace.prompt if tokens is trace.tokens else None


def arcs_groups(
    groups: Sequence[Group], query: int | None, commands: Mapping[str, str] = MappingProxyType({})
) -> list[Group]:
    """Return the groups with each table of weights drawn as lines between words, for all tokens or
    for one query; other panels are left out.

    `commands` has, for the title of a table, the command that draws it alone. A single panel loses
    its title.
    """
    is_single = sum(len(group.panels) for group in groups) == 1
    return [
        replace(group, panels=tuple(_group_arcs(group, query, commands, is_single=is_single)))
        for group in groups
    ]


def _group_arcs(
    group: Group, query: int | None, commands: Mapping[str, str], *, is_single: bool
) -> Iterator[Arcs]:
    """Yield an Arcs for each Grid of the group; with `is_single` it has no title."""
    for panel in group.panels:
        if isinstance(panel, Grid):
            title, note = "" if is_single else panel.title, _sum_note(panel, LINE_SUM_NOTE)
            grid = replace(panel, title=title, note=note)
            yield Arcs(grid, query, commands.get(panel.title, ""))


def sentence_groups(trace: Trace, query: int, commands: Sequence[str] = ()) -> list[Group]:
    """Return a group for each layer, with the sentence coloured by what one token attends to, once
    for each head.

    Layers that attend to a second sentence add groups of that one. A single panel has no title.
    `commands` draw each head alone, if there are any.
    """
    own_reading, *cross_readings = query_readings(trace, query)
    rows = [
        *(
            Sentence(row, query, single_command=command or "")
            for row, command in zip_longest(_single_row_grids(own_reading), commands)
        ),
        *(Sentence(row, None) for grid in cross_readings for row in _single_row_grids(grid)),
    ]
    if len(rows) == 1:
        rows = [replace(sentence, grid=replace(sentence.grid, title="")) for sentence in rows]
    remaining_sentences = iter(rows)
    layers = [*trace.layers, *(layer.cross for layer in trace.layers if layer.cross)]
    return [
        Group(f"readings {layer.name}", tuple(islice(remaining_sentences, layer.heads)))
        for layer in layers
    ]


def untitled_readings(rows: Sequence[Grid]) -> Group:
    """Return one group of these tables of one token, for below a headline that quotes it: titles
    only tell the sentences apart.
    """
    own_title = "in its own sentence" if len(rows) > 1 else ""
    titles = [own_title, *(row.title.removeprefix(rows[0].title) for row in rows[1:])]
    pairs = zip(rows, titles, strict=True)
    return Group(READINGS_GROUP, tuple(replace(row, title=title.strip()) for row, title in pairs))


def _sum_note(grid: Grid, sum_note: str) -> str:
    """Return `sum_note` if the grid's note says that rows sum to 1, else what that note says about
    masked rows.
    """
    if ROW_SUM_NOTE in grid.note:
        return sum_note
    return " · ".join(part for part in grid.note.split(" · ") if ALL_MASKED_TEXT in part)


def _single_row_grids(grid: Grid) -> list[Grid]:
    """Return each row as a Grid of its own, with the head as title."""
    rows = (grid.part(slice(row, row + 1), FULL_SLICE) for row in range(len(grid.rows)))
    note = _sum_note(grid, SINGLE_ROW_SUM_NOTE)
    return [replace(row, title=row.rows.names[0], note=note) for row in rows]
