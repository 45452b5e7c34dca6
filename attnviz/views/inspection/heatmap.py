"""The maps of single heads, as grids."""

from __future__ import annotations

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.views.grids.axes import AXES_NOTE, SUM_TO_ONE, Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import weight_scale


def heatmaps(inspection: Inspection) -> list[Grid]:
    """A grid for each map."""
    return [grid_of(each) for each in inspection.maps]


def grid_of(found: Map) -> Grid:
    return Grid(
        f"weights {found.name}",
        axis_of("query (reads)", found.rows),
        axis_of("key (is read)", found.columns),
        found.cells,
        weight_scale(found.cells),
        note=f"{AXES_NOTE} · {SUM_TO_ONE}" if found.share else AXES_NOTE,
        share=True,
    )


def axis_of(title: str, side: Side) -> Axis:
    """A place for each token, or word, numbered as in the sentence."""
    numbers = tuple(str(place) for place in range(1, len(side) + 1))
    spaced = tuple(side.tokens.spaced[group[0]] for group in side.groups)
    return Axis(title, "token", side.labels, numbers, spaced)
