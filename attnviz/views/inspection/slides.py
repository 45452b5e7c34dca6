"""Which of very many heads have a slide of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Flag
from attnviz.views.inspection.heads import flags_of
from attnviz.views.inspection.heatmap import heatmaps
from attnviz.views.view import Excerpt, Group

FEW = 16  # heads: each has a slide of its own; of more those alone that do most of something
REST = "--layer 0, or --head 0, makes a slide for each of its heads"


def slides_of(inspection: Inspection, overview: Group) -> Excerpt:
    """All heads small, and the heads that do most of each kind."""
    flags, count = flags_of(inspection), len(inspection.maps)
    shown = range(count) if count <= FEW else dict.fromkeys(each.map for each in flags)
    grids = heatmaps(inspection, [inspection.maps[place] for place in shown])
    titled = [_titled(grid, place, flags) for grid, place in zip(grids, shown, strict=True)]
    groups = (overview, Group("weights", tuple(titled)))
    return Excerpt(groups, "" if count <= FEW else _rest(len(shown), count))


def _titled(grid: Grid, place: int, flags: Sequence[Flag]) -> Grid:
    """`L4H7 · previous token .98`: what a head does more than all others."""
    most = [f"{each.kind} {each.number}" for each in flags if each.map == place]
    return replace(grid, title=" · ".join((grid.title, *most)))


def _rest(shown: int, count: int) -> str:
    """How many have one, and how others would get one."""
    which = "no head" if not shown else f"{shown} of {count} heads, those that do most of something"
    return f"slides of their own: {which}; {REST}"
