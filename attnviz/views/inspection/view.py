"""An Inspection as a View: which parts are shown, in which order, and on which slides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.token_query import Asked, asked_of, link_of
from attnviz.traces.source import command_of, source_of
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import Drawable
from attnviz.views.headline import headline
from attnviz.views.inspection.data import (
    data_of_all,
    data_of_link,
    data_of_maps,
    data_of_reading,
)
from attnviz.views.inspection.explored import explored_of_inspection
from attnviz.views.inspection.heads import flags_of, heads_table, sentences_on, title_of_head
from attnviz.views.inspection.heatmap import heatmaps, on_weighing, overview_of
from attnviz.views.inspection.link_sentences import (
    left_out_of_a_picture,
    on_link,
    on_little,
    on_ranking,
    on_reading,
    on_rollout,
    on_sinks,
    on_what_is_left_out,
)
from attnviz.views.inspection.reading import parts_of, parts_of_link
from attnviz.views.notes import closing_notes, without_heads
from attnviz.views.prediction import best_answers
from attnviz.views.reading import arcs_of
from attnviz.views.settings_line import settings_line
from attnviz.views.view import FINDINGS, Data, Excerpt, Group, Name, View, page_of
from attnviz.wording.commands import Command, chosen
from attnviz.wording.words import sentence

ROLLOUT = "In the rollout, "  # so begins what is said of the only map that there is
LONGEST = 100  # tokens of a sentence that stands on a screen beside what was asked for


@dataclass(frozen=True, eq=False)
class Shown:
    """What is shown, and what there is to say of it."""

    groups: tuple[Group, ...]
    data: Data
    headline: str = ""
    told: tuple[str, ...] = ()
    excerpt: Excerpt | None = None
    picture: tuple[Group, ...] = ()  # if it is a choice of them
    below: str = ""  # a picture: what it comes to, where that is not drawn
    slides: Callable[[], Excerpt] | None = None  # what has one of its own, if not each of those

    @property
    def drawn(self) -> list[Group]:
        """What a picture shows, in which no panel repeats what stands over all."""
        return [_untitled(each, self.headline) for each in self.picture or self.groups]


def view(inspection: Inspection, *, command: Command | None = None) -> View:
    """What was asked for: an overview and what the heads do, or the maps of some."""
    trace = inspection.trace
    line = settings_line(trace)
    shown = _with_ends(_as_lines(_shown(inspection), inspection, command), inspection)
    title = headline(trace)
    below = " · ".join(filter(None, (shown.below, left_out_of_a_picture(inspection))))
    return View(
        title=title,
        headline=shown.headline or title,
        settings=line,
        screen=page_of(shown.groups, line),
        picture=page_of(shown.drawn, line, below),
        excerpt=shown.excerpt,
        closing=(
            *shown.told,
            *map(sentence, on_weighing(inspection)),
            *map(sentence, closing_notes(trace, names=("given weights", "heads off"))),
            *map(sentence, what_comes_of_it(inspection)),
        ),
        explored=partial(explored_of_inspection, inspection),
        slides=shown.slides,
        data=shown.data,
        provenance=trace.provenance,
        command=command or _command(inspection),
    )


def _command(inspection: Inspection) -> Command | None:
    """The one that would show the same."""
    made = command_of("inspect", source_of(inspection.trace))
    return made and made.also(**chosen(inspection.looking))


def _untitled(group: Group, headline: str) -> Group:
    alone = headline.startswith(ROLLOUT) and len(group.panels) == 1
    panels = (_without_title(each, headline, alone=alone) for each in group.panels)
    return replace(group, panels=tuple(panels))


def _without_title(panel: Drawable, title: str, *, alone: bool) -> Drawable:
    if not isinstance(panel, Sentence | Grid):
        return panel
    if not alone and _titled(panel).casefold() != title.casefold():
        return panel
    if isinstance(panel, Sentence):
        return replace(panel, grid=replace(panel.grid, title=""))
    return replace(panel, title="")


def _titled(panel: Sentence | Grid) -> str:
    return panel.grid.title if isinstance(panel, Sentence) else panel.title


def _shown(inspection: Inspection) -> Shown:
    looking = inspection.looking
    if looking.by == "effect":
        return _by_effect(inspection)
    if looking.source is not None:
        return _link(inspection)
    if looking.query is not None:
        return _query(inspection, looking.query)
    if looking.layer is None and looking.head is None and len(inspection.maps) > 1:
        return _heads(inspection)
    return _maps(inspection)


def _as_lines(shown: Shown, inspection: Inspection, command: Command | None) -> Shown:
    """With a picture of lines between words, if it is asked for: a group for each layer."""
    looking, command = inspection.looking, command or _command(inspection)
    if looking.as_ != "arcs":
        return shown
    row = None if looking.query is None else asked_of(inspection, looking.query).row
    layers: dict[str, list[Grid]] = {}
    alone: dict[str, str] = {}
    for each, grid in zip(inspection.maps, heatmaps(inspection), strict=True):
        layers.setdefault(each.layer.name if each.layer else "", []).append(grid)
        if command and each.layer:
            one = command.also(layer=each.layer.layer, head=each.head, as_="arcs")
            alone[grid.title] = one.line
    groups = [Group(f"weights {name}", tuple(grids)) for name, grids in layers.items()]
    return replace(shown, picture=tuple(arcs_of(groups, row, alone)))


def _maps(inspection: Inspection) -> Shown:
    """The heads of a layer, or a head in all layers, in full; or a single map."""
    weights, data = Group("weights", tuple(heatmaps(inspection))), data_of_maps(inspection)
    if inspection.looking.merge is not None:
        found = inspection.maps[0]
        rolled = inspection.looking.merge == "rollout"
        title = on_rollout(found) if rolled else f"{found.name[0].upper()}{found.name[1:]}"
        return Shown((weights,), data, title, _left_out(inspection))
    said = sentences_on(inspection)
    told = (*said, *_left_out(inspection))
    if len(inspection.maps) == 1:
        return Shown((weights,), data, title_of_head(inspection, 0), told)
    rest = Excerpt((_overview(inspection),), "--full shows every weight")
    return Shown((weights,), data, _over(said), told, rest)


def _over(said: Sequence[str]) -> str:
    """The last of some sentences, to stand over a picture."""
    return said[-1].removesuffix(".") if said else ""


def _overview(inspection: Inspection) -> Group:
    return Group("all heads", (overview_of(inspection, flags_of(inspection)),))


def _heads(inspection: Inspection) -> Shown:
    """All heads, small, and which of them do what."""
    table, said = heads_table(inspection), sentences_on(inspection)
    small, data = _overview(inspection), data_of_all(inspection)
    told = (*said[1:], *_left_out(inspection))  # the first says what the overview does
    slides = partial(slides_of, inspection, small)
    if table is None:
        return Shown((small,), data, told=told, slides=slides)
    every = (small, Group("what heads do", (table,)))
    rest = Excerpt((small,), "--full shows which others do what")
    return Shown(every, data, _over(said), told, rest, (small,), slides=slides)


def _by_effect(inspection: Inspection) -> Shown:
    """All heads, the one first without which most changes."""
    from attnviz.views.inspection.effects import data_of_effects, effects_ranked, on_effects

    first, *rest = on_effects(inspection)
    groups = (Group("effects", (effects_ranked(inspection),)),)
    told = tuple(map(sentence, (first, *rest)))
    return Shown(groups, data_of_effects(inspection), _over(told[:1]), told)


def _with_ends(shown: Shown, inspection: Inspection) -> Shown:
    """With what is answered, if that is asked for; and what becomes of vectors without heads."""
    ends, said = ends_of(inspection), what_comes_of_it(inspection)
    excerpt = shown.excerpt and replace(shown.excerpt, groups=(*shown.excerpt.groups, *ends))
    whole = replace(shown, groups=(*shown.groups, *ends), excerpt=excerpt)
    drawn, below = shown.picture or shown.groups, " · ".join(said)
    if ends and any(isinstance(panel, Overview) for group in drawn for panel in group.panels):
        return replace(whole, picture=drawn_ends(inspection), headline=said[0])
    beside = ends if inspection.looking.predict and _are_grids(drawn) else ()
    return replace(whole, picture=(*drawn, *beside), below=below)


def _are_grids(groups: Sequence[Group]) -> bool:
    """Whether a table has room beside them: nothing of them has a page of its own."""
    return all(isinstance(panel, Grid) for group in groups for panel in group.panels)


def _link(inspection: Inspection) -> Shown:
    link = link_of(inspection)
    said = on_link(link)
    told = (*on_ranking(link), *on_little(link))
    sentences = (*map(sentence, told), *_left_out(inspection, link.asked))
    data = data_of_link(inspection, link)
    every = parts_of_link(link)
    few = [each for each in every if isinstance(each, Ranked) or len(each.grid.columns) <= LONGEST]
    screen, picture = (Group("link", tuple(parts)) for parts in (few or every, every))
    return Shown((screen,), data, said, sentences, picture=(picture,))


def _query(inspection: Inspection, wanted: str) -> Shown:
    asked = asked_of(inspection, wanted)
    parts = parts_of(asked)
    data = data_of_reading(inspection, asked)
    told = (*map(sentence, on_sinks(asked)), *_left_out(inspection, asked))
    return Shown((Group("reading", parts),), data, on_reading(asked), told)


def _left_out(inspection: Inspection, asked: Asked | None = None) -> tuple[str, ...]:
    return tuple(map(sentence, on_what_is_left_out(inspection, asked)))


def ends_of(inspection: Inspection) -> tuple[Group, ...]:
    """Tables of answers, where they are asked for; and of vectors, where heads are off."""
    trace = inspection.trace
    answers = best_answers(trace) if inspection.looking.predict else None
    vectors = None
    if trace.prediction is None and trace.outputs is not None:
        from attnviz.views.vector_shift import moved_table

        vectors = moved_table(trace)
    named = {"prediction": answers, "moved": vectors}
    return tuple(Group(name, (table,)) for name, table in named.items() if table is not None)


def drawn_ends(inspection: Inspection) -> tuple[Group, ...]:
    """The same, to be drawn by themselves: vectors as bars."""
    from attnviz.views.vector_shift import moved_ranked

    bars = moved_ranked(inspection.trace)
    answers = [each for each in ends_of(inspection) if each.name == "prediction"]
    return tuple(answers) or (() if bars is None else (Group("moved", (bars,)),))


def what_comes_of_it(inspection: Inspection) -> tuple[str, ...]:
    """What is answered, where that is asked for, or heads are off; or what becomes of vectors."""
    trace = inspection.trace
    answers = inspection.looking.predict or without_heads(trace)
    return closing_notes(trace, names=[*["answers"] * bool(answers), "shifted vectors"])


FEW = 16  # heads: each has a slide of its own; of more those alone that do most of something
REST = "--layer 0, or --head 0, makes a slide for each of its heads"


def slides_of(inspection: Inspection, overview: Group) -> Excerpt:
    """All heads small, and the heads that do most of each kind."""
    flags, count = flags_of(inspection), len(inspection.maps)
    shown = range(count) if count <= FEW else dict.fromkeys(each.map for each in flags)
    grids = heatmaps(inspection, [inspection.maps[place] for place in shown])
    titles = tuple(Name(title_of_head(inspection, place)) for place in shown)
    groups = (overview, Group(FINDINGS, tuple(grids), over=titles))
    return Excerpt(groups, "" if count <= FEW else _rest(len(shown), count))


def _rest(shown: int, count: int) -> str:
    """How many have one, and how others would get one."""
    which = "none" if not shown else f"{shown} of {count} heads, the strongest of each kind"
    return f"heads with slides of their own: {which}; {REST}"
