"""An Inspection as a View: which parts of it are shown, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attnviz.analysis.inspection.asked import asked_of, link_of
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.views.data import data_of
from attnviz.views.grids.arcs import Sentence
from attnviz.views.headline import headline
from attnviz.views.inspection.effects import effects_ranked, on_effects
from attnviz.views.inspection.heads import flags_of, heads_table, sentences_on
from attnviz.views.inspection.heatmap import heatmaps
from attnviz.views.inspection.overview import overview_of
from attnviz.views.inspection.reading import parts_of, parts_of_link
from attnviz.views.inspection.told import (
    MERGED,
    on_link,
    on_little,
    on_others,
    on_what_is_left_out,
)
from attnviz.views.inspection.weighing import on_weighing
from attnviz.views.moved import moved, moved_table
from attnviz.views.prediction import answered, best_answers
from attnviz.views.settings_line import settings_line
from attnviz.views.switched_off import note_on_heads
from attnviz.views.view import Excerpt, Group, View, page_of
from attnviz.wording.commands import Command
from attnviz.wording.words import sentence


@dataclass(frozen=True, eq=False)
class Shown:
    """What is shown, and what there is to say of it."""

    groups: tuple[Group, ...]
    headline: str = ""
    told: tuple[str, ...] = ()
    excerpt: Excerpt | None = None


def view(inspection: Inspection, *, command: Command | None = None) -> View:
    """What was asked for: an overview and what the heads do, or the maps of some."""
    trace, looking = inspection.trace, inspection.looking
    line = settings_line(trace)
    shown = _with_ends(_shown(inspection), inspection)
    title = headline(trace)
    of_several = (sentence(MERGED[looking.merge]),) if looking.merge else ()
    picture = page_of([_untitled(each, shown.headline) for each in shown.groups], line)
    return View(
        title=title,
        headline=shown.headline or title,
        settings=line,
        screen=page_of(shown.groups, line),
        picture=picture,
        excerpt=shown.excerpt,
        closing=(
            *shown.told,
            *map(sentence, on_weighing(inspection)),
            *of_several,
            *map(sentence, (*note_on_heads(trace), *_what_comes_of_it(inspection))),
        ),
        data=data_of(trace),
        provenance=trace.provenance,
        command=command,
    )


def _untitled(group: Group, headline: str) -> Group:
    """In a picture a sentence need not repeat what stands over all."""
    panels = [
        replace(each, grid=replace(each.grid, title=""))
        if isinstance(each, Sentence) and each.grid.title == headline
        else each
        for each in group.panels
    ]
    return replace(group, panels=tuple(panels))


def _shown(inspection: Inspection) -> Shown:
    looking = inspection.looking
    if looking.by == "effect":
        return _by_effect(inspection)
    if looking.source is not None:
        return _link(inspection)
    if looking.query is not None:
        return _query(inspection, looking.query)
    if len(inspection.maps) > 1:
        return _heads(inspection)
    told = _left_out(inspection)
    return Shown((Group("weights", tuple(heatmaps(inspection))),), told=told)


def _heads(inspection: Inspection) -> Shown:
    """All heads, small, and which of them do what."""
    table, said = heads_table(inspection), sentences_on(inspection)
    small = Group("all heads", (overview_of(inspection, flags_of(inspection)),))
    told = (*said[1:], *_left_out(inspection))  # the first says what the overview does
    if table is None:
        return Shown((small,), told=told)
    every = (small, Group("what heads do", (table,)))
    return Shown(every, said[-1], told, Excerpt((small,), "--full shows which others do what"))


def _with_ends(shown: Shown, inspection: Inspection) -> Shown:
    """With what is answered, if that is asked for; and what becomes of vectors without heads."""
    trace = inspection.trace
    answers = (best_answers(trace),) if inspection.looking.predict else ()
    table = moved_table(trace) if trace.prediction is None else None
    found = [
        Group(name, panels)
        for name, panels in (("prediction", answers), ("moved", (table,) if table else ()))
        if panels
    ]
    return replace(shown, groups=(*shown.groups, *found))


def _what_comes_of_it(inspection: Inspection) -> tuple[str, ...]:
    """What is answered, where that is asked for, or changes; or what becomes of vectors."""
    trace = inspection.trace
    changed = any(layer.off for layer in trace.layers)
    said = answered(trace) if inspection.looking.predict or changed else ()
    return (*said, *moved(trace))


def _by_effect(inspection: Inspection) -> Shown:
    """All heads, the one first without which most changes."""
    first, *rest = map(sentence, on_effects(inspection))
    told = (first, *rest)
    return Shown((Group("effects", (effects_ranked(inspection),)),), first, told)


def _link(inspection: Inspection) -> Shown:
    link = link_of(inspection)
    said = on_link(link)
    told = (f"{said}{on_others(link)}", *on_little(link))
    sentences = (*map(sentence, told), *_left_out(inspection))
    return Shown((Group("link", parts_of_link(link)),), said, sentences)


def _query(inspection: Inspection, wanted: str) -> Shown:
    asked = asked_of(inspection, wanted)
    parts = parts_of(asked)
    return Shown((Group("reading", parts),), parts[0].grid.title, _left_out(inspection))


def _left_out(inspection: Inspection) -> tuple[str, ...]:
    return tuple(map(sentence, on_what_is_left_out(inspection)))
