"""What one token attends to: in its sentence, in a second one, and as lines between words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

import numpy as np

from attnviz.cells import EVERYTHING, Whole
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.facts import sums_to_one
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.axes import LINES_SUM, NOTHING, ROW_SUMS, SUM_TO_ONE, Axis
from attnviz.views.grids.grid import OFF, Grid
from attnviz.views.grids.scales import bar_scale
from attnviz.views.view import READINGS, Group
from attnviz.wording.words import isolated, listed


def readings(trace: Trace, query: int) -> list[Grid]:
    """A row for each head: the sentence itself, and a second one if there is one."""
    own = _reading(trace, trace.layers, query)
    crossed = [layer.cross for layer in trace.layers if layer.cross]
    return [own, _reading(trace, crossed, query)] if crossed else [own]


def _reading(trace: Trace, layers: Sequence[Layer], query: int) -> Grid:
    heads = [
        (
            f"{name_of_head(trace, layer, head)}{OFF * (head in layer.off)}",
            layer.weights.cells("mixing", head).row(query),
        )
        for layer in layers
        for head in range(layer.heads)
    ]
    hidden = np.concatenate([row.hidden for _, row in heads])
    cells = Whole(np.concatenate([row.values for _, row in heads]), hidden)
    of = " in the memory" if layers[0].memory is not None else ""
    by_softmax = all(layer.attended.mixed_by == "softmax" for layer in layers)
    whole = SUM_TO_ONE if by_softmax and sums_to_one(cells) else ""
    return Grid(
        f"what {in_quotes(trace.tokens, query)} reads{of}",
        Axis("head", "head", tuple(name for name, _ in heads), ("",) * len(heads)),
        token_axis("key (is read)", trace.keys_of(layers[0])),
        cells,
        bar_scale(cells),
        note=_note_on_query(layers, query) or whole,
        share=True,
        off=tuple(head in layer.off for layer in layers for head in range(layer.heads)),
    )


def _note_on_query(layers: Sequence[Layer], query: int) -> str:
    """That it reads nothing, in all heads or in some; empty where it reads something in each."""
    heads = [(layer, head) for layer in layers for head in range(layer.heads)]
    blind = [query in layer.blind_rows(head) for layer, head in heads]
    if not any(blind) or all(blind):
        return f"it reads {NOTHING}" if any(blind) else ""
    pairs = zip(heads, blind, strict=True)
    names = [f"{layer.name}H{head}" for (layer, head), none in pairs if none]
    return f"in {listed(names)} it reads {NOTHING}"


def name_of_head(trace: Trace, layer: Layer, head: int) -> str:
    """`head 3` of one attention; `L0H3` of several, and `L0 cross H3` of a second sentence."""
    if alone(trace):
        return f"head {head}"
    return f"{layer.name}{' ' if layer.memory is not None else ''}H{head}"


def alone(trace: Trace) -> bool:
    """Whether a sentence is attended to once."""
    return len(trace.attentions) == 1


def in_quotes(tokens: Tokens, place: int) -> str:
    """`"it"`, and `"it" (3)` where the word occurs more than once."""
    label = tokens.labels[place]
    number = f" ({place + 1})" if tokens.labels.count(label) > 1 else ""
    return f'"{isolated(label)}"{number}'


def token_axis(title: str, tokens: Tokens, border: int | None = None) -> Axis:
    """A place for each token: its number and its label."""
    numbers = tuple(str(number) for number in range(1, len(tokens) + 1))
    special = tuple(place in tokens.special for place in range(len(tokens)))
    return Axis(title, "token", tokens.labels, numbers, tokens.spaced, border, special)


def written_from(trace: Trace, tokens: Tokens) -> int | None:
    """Where what the model wrote itself begins, of tokens that it goes on from."""
    return trace.prompt if tokens is trace.tokens else None


def arcs_of(
    groups: Sequence[Group], query: int | None, commands: Mapping[str, str] = MappingProxyType({})
) -> list[Group]:
    """The same weights as lines, all of them or those of one token.

    `commands`: for the title of each table, the command that draws it alone.
    """
    alone = sum(len(group.panels) for group in groups) == 1
    return [
        replace(group, panels=tuple(_arcs(group, query, commands, alone=alone))) for group in groups
    ]


def _arcs(
    group: Group, query: int | None, commands: Mapping[str, str], *, alone: bool
) -> Iterator[Arcs]:
    for each in group.panels:
        if isinstance(each, Grid):
            named = replace(each, title="" if alone else each.title, note=_note(each, LINES_SUM))
            yield Arcs(named, query, commands.get(each.title, ""))


def sentences(trace: Trace, query: int) -> list[Group]:
    """The sentence as one token reads it, once for each head; a group for each layer."""
    own, *crossed = readings(trace, query)
    rows = [
        *(Sentence(row, query) for row in _heads(own)),
        *(Sentence(row, None) for grid in crossed for row in _heads(grid)),
    ]
    if len(rows) == 1:
        rows = [replace(each, grid=replace(each.grid, title="")) for each in rows]
    left = iter(rows)
    layers = [*trace.layers, *(layer.cross for layer in trace.layers if layer.cross)]
    return [Group(f"readings {layer.name}", tuple(islice(left, layer.heads))) for layer in layers]


def untitled(rows: Sequence[Grid]) -> Group:
    """What a token reads, under a headline that says so: titles only tell two sentences apart."""
    whole, *others = (row.title for row in rows)
    beyond = ["in its own sentence" if others else "", *(t.removeprefix(whole) for t in others)]
    panels = (replace(row, title=t.strip()) for row, t in zip(rows, beyond, strict=True))
    return Group(READINGS, tuple(panels))


def _note(grid: Grid, shares: str) -> str:
    """The part of a table's note that also holds where no rows are visible."""
    if SUM_TO_ONE in grid.note:
        return shares
    return " · ".join(part for part in grid.note.split(" · ") if NOTHING in part)


def _heads(grid: Grid) -> list[Grid]:
    """Each row as a grid of its own, under the name of its head."""
    rows = (grid.part(slice(row, row + 1), EVERYTHING) for row in range(len(grid.rows)))
    note = _note(grid, ROW_SUMS)
    return [replace(row, title=row.rows.names[0], note=note) for row in rows]
