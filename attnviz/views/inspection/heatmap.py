"""The maps of single heads, as grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map, Side
from attnviz.views.facts import sums_to_one
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, SUM_TO_ONE, Axis
from attnviz.views.grids.grid import Grid, same_scale
from attnviz.views.inspection.captions import captions_of
from attnviz.views.inspection.numbers import called, head_name, rollout_scale, scale_of

LOST = "rows sum to less than 1: the rest goes to the model's attention sinks, which are not tokens"


def heatmaps(inspection: Inspection, only: Sequence[Map] | None = None) -> list[Grid]:
    """A grid for each map, or for some, all on one scale."""
    prompt, maps = inspection.trace.prompt, inspection.maps if only is None else only
    grids = [grid_of(each, inspection.looking, prompt) for each in maps]
    whole = all(each.share and sums_to_one(each.cells) for each in maps)
    borders = any(each.rows.border is not None for each in grids)
    sums = SUM_TO_ONE if whole else _sink(inspection)
    if inspection.looking.merge == "rollout":
        sums = ""  # its caption is long enough
    notes = (AXES_NOTE, sums, GOES_ON if borders else "")
    note = " · ".join(filter(None, (*notes, *captions_of(inspection.looking, maps))))
    return same_scale([replace(each, note=note) for each in grids])


def _sink(inspection: Inspection) -> str:
    """What rows lose where nothing that is looked at leaves out, or weighs, any of them."""
    maps, looking = inspection.maps, inspection.looking
    layers = (each.layer for one in maps for each in (one, *one.of) if each.layer is not None)
    sinks = any(layer.attended.sink is not None for layer in layers)
    hides = looking.hide_special or looking.hide_first
    return LOST if sinks and not hides and all(each.share for each in maps) else ""


def grid_of(found: Map, looking: Looking, prompt: int | None = None) -> Grid:
    """A map; with a line where what the model wrote begins, after so many tokens."""
    scale = rollout_scale if looking.merge == "rollout" else scale_of
    of = "" if looking.weigh == "weight" else f" {called(looking).partition(' ')[2]}"
    return Grid(
        head_name(found) if found.of else f"weights{of} {head_name(found)}",
        axis_of("query (reads)", found.rows, prompt),
        axis_of("key (is read)", found.columns, prompt),
        found.cells,
        scale(found, looking),
        share=looking.weigh == "weight" and looking.merge != "max",
    )


def axis_of(title: str, side: Side, prompt: int | None = None) -> Axis:
    """A place for each token, or word, numbered as in the sentence."""
    numbers = tuple(map(str, side.numbers))
    border = _border(side, prompt)
    return Axis(title, "token", side.labels, numbers, side.spaced, border, side.special)


def _border(side: Side, prompt: int | None) -> int | None:
    """The first place that stands for what the model wrote; none where all or nothing is."""
    before = 0 if prompt is None else sum(group[0] < prompt for group in side.groups)
    return before if 0 < before < len(side) else None
