"""The maps of single heads, as grids."""

from __future__ import annotations

from dataclasses import replace

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.views.facts import sums_to_one
from attnviz.views.grids.axes import AXES_NOTE, SUM_TO_ONE, Axis
from attnviz.views.grids.grid import Grid, same_scale
from attnviz.views.inspection.captions import captions_of
from attnviz.views.inspection.numbers import called, head_name, scale_of


def heatmaps(inspection: Inspection) -> list[Grid]:
    """A grid for each map, all on one scale."""
    grids = [grid_of(each, inspection.looking) for each in inspection.maps]
    whole = all(each.share and sums_to_one(each.cells) for each in inspection.maps)
    notes = (AXES_NOTE, SUM_TO_ONE if whole else "", *captions_of(inspection.looking))
    note = " · ".join(filter(None, notes))
    return same_scale([replace(each, note=note) for each in grids])


def grid_of(found: Map, looking: Looking) -> Grid:
    of = "" if looking.weigh == "weight" else f" {called(looking).partition(' ')[2]}"
    return Grid(
        head_name(found) if found.of else f"weights{of} {head_name(found)}",
        axis_of("query (reads)", found.rows),
        axis_of("key (is read)", found.columns),
        found.cells,
        scale_of(found.cells, looking),
        share=looking.weigh == "weight" and looking.merge != "max",
    )


def axis_of(title: str, side: Side) -> Axis:
    """A place for each token, or word, numbered as in the sentence."""
    return Axis(title, "token", side.labels, tuple(map(str, side.numbers)), side.spaced)
