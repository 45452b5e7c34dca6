"""An Inspection as a View: which parts of it are shown, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.analysis.inspection.asked import asked_of, link_of
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.views.data import data_of
from attnviz.views.headline import headline
from attnviz.views.inspection.heatmap import heatmaps
from attnviz.views.inspection.reading import parts_of, parts_of_link
from attnviz.views.inspection.told import MERGED, on_link, on_little, on_what_is_left_out
from attnviz.views.inspection.weighing import on_weighing
from attnviz.views.settings_line import settings_line
from attnviz.views.switched_off import note_on_heads
from attnviz.views.view import Group, View, page_of
from attnviz.wording.commands import Command
from attnviz.wording.words import sentence


@dataclass(frozen=True, eq=False)
class Shown:
    """What is shown, and what there is to say of it."""

    groups: tuple[Group, ...]
    headline: str = ""
    told: tuple[str, ...] = ()


def view(inspection: Inspection, *, command: Command | None = None) -> View:
    """What was asked for: an overview and what the heads do, or the maps of some."""
    trace, looking = inspection.trace, inspection.looking
    line = settings_line(trace)
    shown = _shown(inspection)
    title = headline(trace)
    of_several = (MERGED[looking.merge],) if looking.merge else ()
    page = page_of(shown.groups, line)
    return View(
        title=title,
        headline=sentence(shown.headline)
        if shown.headline in shown.told
        else shown.headline or title,
        settings=line,
        screen=page,
        picture=page,
        closing=tuple(
            map(
                sentence,
                (*shown.told, *on_weighing(inspection), *of_several, *note_on_heads(trace)),
            )
        ),
        data=data_of(trace),
        provenance=trace.provenance,
        command=command,
    )


def _shown(inspection: Inspection) -> Shown:
    looking = inspection.looking
    if looking.source is not None:
        return _link(inspection)
    if looking.query is not None:
        return _query(inspection, looking.query)
    told = tuple(on_what_is_left_out(inspection))
    return Shown((Group("weights", tuple(heatmaps(inspection))),), told=told)


def _link(inspection: Inspection) -> Shown:
    link = link_of(inspection)
    said = on_link(link)
    told = (said, *on_little(link), *on_what_is_left_out(inspection))
    return Shown((Group("link", parts_of_link(link)),), said, told)


def _query(inspection: Inspection, wanted: str) -> Shown:
    asked = asked_of(inspection, wanted)
    parts = parts_of(asked)
    told = tuple(on_what_is_left_out(inspection))
    return Shown((Group("reading", parts),), parts[0].grid.title, told)
