"""Weights as lines between words, and as sentences in colour: what pictures draw of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from attnviz.cells import EVERYTHING
from attnviz.traces.trace import Trace
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.axes import LINES_SUM, NOTHING, ROW_SUMS, SUM_TO_ONE
from attnviz.views.grids.grid import Grid
from attnviz.views.reading import readings
from attnviz.views.view import READINGS, Group


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
