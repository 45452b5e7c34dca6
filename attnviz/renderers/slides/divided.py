"""What stands on which slide: first everything together, then each head, way or step alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from attnviz.renderers.picture.texts import without_what_all_say
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.view import FINDINGS, Group, View, page_of

MOST = 40  # that stand alone: more slides nobody would show
LEFT_OUT = "{left} of {count} panels have no slide of their own and are only on the first one"
BETWEEN = " · "
NAMED = "  "  # behind the letter that an equation has for a matrix


@dataclass(frozen=True, eq=False)
class Slide:
    """A View whose picture, headline and caption have a slide."""

    view: View
    left_out: str = ""  # what has none, and how it would get one
    kind: str = ""  # of what it shows: what is of one kind stands in one place


def divided(view: View) -> list[Slide]:
    """A slide for each step; or for all panels together, and then for each of them."""
    sections = view.sections
    if sections and len(sections) == len(view.picture.panels):
        return [Slide(_of_step(view, each), kind=each.name) for each in sections]
    parts = [part for part in _parts(view.alone.groups) if not _is_shown(part, view)]
    if not parts:
        return [Slide(view, view.alone.rest)]
    shown = parts[:MOST]
    first = Slide(view, view.alone.rest or _left_out(len(parts)))
    return [first, *map(partial(_alone, view), shown, _titles(view, shown))]


def _is_shown(part: Group, view: View) -> bool:
    """Whether it is all that there is on the first slide already."""
    drawn = view.picture.panels
    return len(drawn) == len(part.panels) and all(map(_are_alike, drawn, part.panels))


def _are_alike(one: Drawable, other: Drawable) -> bool:
    """Of overviews there is but one; and what a picture shows is shown as it is."""
    return one is other or (isinstance(one, Overview) and isinstance(other, Overview))


def _left_out(count: int) -> str:
    return LEFT_OUT.format(left=count - MOST, count=count) if count > MOST else ""


def _of_step(view: View, section: Section) -> View:
    step = view.of_section(section)
    own = BETWEEN.join((view.headline, section.heading))
    return replace(step, headline=own) if view.titled else step


def _parts(groups: Sequence[Group]) -> Iterator[Group]:
    return (part for group in groups for part in _of_group(group))


def _of_group(group: Group) -> Iterator[Group]:
    """Each panel, and what stands below it; an equation is one, and a course none."""
    if group.kind == "product":
        yield group
    elif group.kind != "course":
        for panel, below, over in zip_longest(group.panels, group.below, group.over):
            yield Group(group.name, (panel,), over=(over,) if over else ())
            if below is not None:
                titled = replace(below, title=f"{_title(panel)} {below.title}")
                yield Group(group.name, (titled,))


def _titles(view: View, parts: Sequence[Group]) -> list[str]:
    """The finding in each; else what all are, and each is beside the others, counted if alike.

    Somebody's own title stands over all.
    """
    names = without_what_all_say([_title(part.panels[-1]) for part in parts], [""])
    titles = [
        part.over[0].text
        if part.name == FINDINGS and not view.titled
        else BETWEEN.join(filter(None, (_over(view, part), name)))
        for part, name in zip(parts, names, strict=True)
    ]
    counts, seen = Counter([view.headline, *titles]), Counter([view.headline])
    told = []
    for title in titles:
        seen[title] += 1
        told.append(f"{title} ({seen[title]})" if counts[title] > 1 else title)
    return told


def _over(view: View, part: Group) -> str:
    """What all are; of what one token reads the headline says it, and of an equation what it is."""
    said = view.titled or view.title in view.headline or part.kind == "product"
    return view.headline if said or isinstance(part.panels[-1], Sentence | Ranked) else view.title


def _title(panel: Drawable) -> str:
    """Of the last matrix of an equation what it is, without its letter."""
    if isinstance(panel, Sentence):
        return panel.grid.title or "the sentence"
    if isinstance(panel, Arcs | Ranked):
        return panel.grid.title
    return panel.title.rpartition(NAMED)[2]


def _alone(view: View, part: Group, title: str) -> Slide:
    """One of them, under a title of its own."""
    page = page_of([part], view.settings, view.picture.caveat)
    return Slide(replace(view, picture=page, headline=title), kind=part.name)
