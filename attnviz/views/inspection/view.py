"""An Inspection as a View: which parts of it are shown, and in which order."""

from __future__ import annotations

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.views.data import data_of
from attnviz.views.headline import headline
from attnviz.views.inspection.heatmap import heatmaps
from attnviz.views.inspection.overview import overview_of
from attnviz.views.settings_line import settings_line
from attnviz.views.view import Group, View, page_of
from attnviz.wording.commands import Command


def view(inspection: Inspection, *, command: Command | None = None) -> View:
    """What was asked for: an overview and what the heads do, or the maps of some."""
    trace = inspection.trace
    line = settings_line(trace)
    groups = [Group("heads", (overview_of(inspection),))]
    if inspection.looking.head is not None:
        groups = [Group("weights", tuple(heatmaps(inspection)))]
    return View(
        title=headline(trace),
        headline=headline(trace),
        settings=line,
        screen=page_of(groups, line),
        picture=page_of(groups, line),
        data=data_of(trace),
        provenance=trace.provenance,
        command=command,
    )
