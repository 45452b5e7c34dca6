"""Weights as lines between words, and as sentences in colour: what pictures draw of them."""

from __future__ import annotations

from dataclasses import replace

from attnviz.cells import EVERYTHING
from attnviz.traces.trace import Trace
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.grid import Grid
from attnviz.views.reading import readings
from attnviz.views.view import Group


def with_arcs(group: Group, query: int | None) -> Group:
    """The same weights as lines, all of them or those of one token."""
    arcs = (Arcs(each, query) for each in group.panels if isinstance(each, Grid))
    return replace(group, panels=tuple(arcs))


def sentences(trace: Trace, query: int) -> Group:
    """The sentence as one token reads it, once for each head."""
    own, *crossed = readings(trace, query)
    panels = [
        *(Sentence(row, query) for row in _heads(own)),
        *(Sentence(row, None) for grid in crossed for row in _heads(grid)),
    ]
    if len(panels) == 1:
        panels = [replace(each, grid=replace(each.grid, title="")) for each in panels]
    return Group("readings", tuple(panels))


def _heads(grid: Grid) -> list[Grid]:
    """Each row as a grid of its own, under the name of its head."""
    rows = (grid.part(slice(row, row + 1), EVERYTHING) for row in range(len(grid.rows)))
    return [replace(row, title=row.rows.names[0]) for row in rows]
