"""What one token attends to: in its sentence, in a second one, and as lines between words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

import numpy as np

from attnviz.cells import FULL_SLICE, StoredCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.facts import do_rows_sum_to_one
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.axes import (
    ALL_MASKED_TEXT,
    LINE_SUM_NOTE,
    ROW_SUM_NOTE,
    SINGLE_ROW_SUM_NOTE,
    Axis,
)
from attnviz.views.grids.grid import OFF_SUFFIX, Grid
from attnviz.views.grids.scales import bar_scale
from attnviz.views.view import READINGS_GROUP, Group
from attnviz.wording.words import and_list, bidi_isolated


def query_readings(trace: Trace, query: int) -> list[Grid]:
    """A row for each head: the sentence itself, and a second one if there is one."""
    own_reading = _query_reading(trace, trace.layers, query)
    cross_layers = [layer.cross for layer in trace.layers if layer.cross]
    return (
        [own_reading, _query_reading(trace, cross_layers, query)] if cross_layers else [own_reading]
    )


def _query_reading(trace: Trace, layers: Sequence[Layer], query: int) -> Grid:
    heads = [
        (
            f"{attention_head_name(trace, layer, head)}{OFF_SUFFIX * (head in layer.off)}",
            layer.weights.cells("mixing", head).row(query),
        )
        for layer in layers
        for head in range(layer.heads)
    ]
    hidden = np.concatenate([row.hidden for _, row in heads])
    cells = StoredCells(np.concatenate([row.values for _, row in heads]), hidden)
    memory_suffix = " in the memory" if layers[0].memory is not None else ""
    by_softmax = all(layer.attended.mixed_by == "softmax" for layer in layers)
    sum_note = ROW_SUM_NOTE if by_softmax and do_rows_sum_to_one(cells) else ""
    return Grid(
        f"what {quoted_token(trace.tokens, query)} reads{memory_suffix}",
        Axis("head", "head", tuple(name for name, _ in heads), ("",) * len(heads)),
        token_axis("key (is read)", trace.keys_of(layers[0])),
        cells,
        bar_scale(cells),
        note=_blind_query_note(layers, query) or sum_note,
        share=True,
        off=tuple(head in layer.off for layer in layers for head in range(layer.heads)),
    )


def _blind_query_note(layers: Sequence[Layer], query: int) -> str:
    """That it reads nothing, in all heads or in some; empty where it reads something in each."""
    heads = [(layer, head) for layer in layers for head in range(layer.heads)]
    is_blind = [query in layer.empty_rows(head) for layer, head in heads]
    if not any(is_blind) or all(is_blind):
        return f"it reads {ALL_MASKED_TEXT}" if any(is_blind) else ""
    pairs = zip(heads, is_blind, strict=True)
    names = [f"{layer.name}H{head}" for (layer, head), head_is_blind in pairs if head_is_blind]
    return f"in {and_list(names)} it reads {ALL_MASKED_TEXT}"


def attention_head_name(trace: Trace, layer: Layer, head: int) -> str:
    """`head 3` of one attention; `L0H3` of several, and `L0 cross H3` of a second sentence."""
    if has_single_attention(trace):
        return f"head {head}"
    return f"{layer.name}{' ' if layer.memory is not None else ''}H{head}"


def has_single_attention(trace: Trace) -> bool:
    """Whether a sentence is attended to once."""
    return len(trace.attentions) == 1


def quoted_token(tokens: Tokens, position: int) -> str:
    """`"it"`, and `"it" (3)` where the word occurs more than once."""
    label = tokens.labels[position]
    number = f" ({position + 1})" if tokens.labels.count(label) > 1 else ""
    return f'"{bidi_isolated(label)}"{number}'


def token_axis(title: str, tokens: Tokens, border: int | None = None) -> Axis:
    """A place for each token: its number and its label."""
    numbers = tuple(str(number) for number in range(1, len(tokens) + 1))
    special = tuple(position in tokens.special for position in range(len(tokens)))
    return Axis(title, "token", tokens.labels, numbers, tokens.spaced, border, special)


def generation_start(trace: Trace, tokens: Tokens) -> int | None:
    """Where what the model wrote itself begins, of tokens that it goes on from."""
    return trace.prompt if tokens is trace.tokens else None


def arcs_groups(
    groups: Sequence[Group], query: int | None, commands: Mapping[str, str] = MappingProxyType({})
) -> list[Group]:
    """The same weights as lines, all of them or those of one token.

    `commands`: for the title of each table, the command that draws it alone.
    """
    is_single = sum(len(group.panels) for group in groups) == 1
    return [
        replace(group, panels=tuple(_group_arcs(group, query, commands, is_single=is_single)))
        for group in groups
    ]


def _group_arcs(
    group: Group, query: int | None, commands: Mapping[str, str], *, is_single: bool
) -> Iterator[Arcs]:
    for panel in group.panels:
        if isinstance(panel, Grid):
            titled_grid = replace(
                panel, title="" if is_single else panel.title, note=_sum_note(panel, LINE_SUM_NOTE)
            )
            yield Arcs(titled_grid, query, commands.get(panel.title, ""))


def sentence_groups(trace: Trace, query: int) -> list[Group]:
    """The sentence as one token reads it, once for each head; a group for each layer."""
    own_reading, *cross_readings = query_readings(trace, query)
    rows = [
        *(Sentence(row, query) for row in _single_row_grids(own_reading)),
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
    """What a token reads, under a headline that says so: titles only tell two sentences apart."""
    own_title, *other_titles = (row.title for row in rows)
    panel_titles = [
        "in its own sentence" if other_titles else "",
        *(title.removeprefix(own_title) for title in other_titles),
    ]
    panels = (
        replace(row, title=title.strip()) for row, title in zip(rows, panel_titles, strict=True)
    )
    return Group(READINGS_GROUP, tuple(panels))


def _sum_note(grid: Grid, sum_note: str) -> str:
    """The part of a table's note that also holds where no rows are visible."""
    if ROW_SUM_NOTE in grid.note:
        return sum_note
    return " · ".join(part for part in grid.note.split(" · ") if ALL_MASKED_TEXT in part)


def _single_row_grids(grid: Grid) -> list[Grid]:
    """Each row as a grid of its own, under the name of its head."""
    rows = (grid.part(slice(row, row + 1), FULL_SLICE) for row in range(len(grid.rows)))
    note = _sum_note(grid, SINGLE_ROW_SUM_NOTE)
    return [replace(row, title=row.rows.names[0], note=note) for row in rows]
