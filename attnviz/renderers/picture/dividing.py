"""A View on several pages, where one would be too full for its labels: `-o heads-{page}.png`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from operator import itemgetter

from attnviz.renderers import Look
from attnviz.renderers.picture.arrangement import arrangements
from attnviz.renderers.picture.drawings import drawing_of
from attnviz.renderers.picture.frame import Captions, framed
from attnviz.renderers.picture.glyphs import (
    captions_with_glyphs,
    groups_with_glyphs,
    hermetic,
    with_glyphs,
)
from attnviz.renderers.picture.image import captions_of, pooled
from attnviz.renderers.picture.layout import filled, labels_shown
from attnviz.renderers.picture.lettering import SLIDE, lettering
from attnviz.renderers.picture.pages import can_be_read
from attnviz.renderers.picture.stills import sums_at_once
from attnviz.views.grids.section import Section
from attnviz.views.view import Group, View, build_page


def pages(view: View, look: Look) -> list[View]:
    """As many pages as leave each panel the labels that it would have on a page of its own."""
    panels = view.picture.panels
    sections = [each for each in panels if isinstance(each, Section)]
    if sections and len(sections) == len(panels):
        groups = list(_sections_divided(sections, view, look))
        return [_page(view, [each], place, len(groups)) for place, each in enumerate(groups, 1)]
    if len(panels) == 1 or sections:
        return [view]
    count = len(_units(view.picture.groups))
    for most in dict.fromkeys(-(-count // number) for number in range(1, count + 1)):
        divided = list(_divided(view.picture.groups, most))
        if all(_as_on_its_own(groups, view, look) for groups in divided):
            break
    if len(divided) == 1:
        return [view]
    return [_page(view, groups, place, len(divided)) for place, groups in enumerate(divided, 1)]


def _sections_divided(sections: Sequence[Section], view: View, look: Look) -> Iterator[Group]:
    """As many steps on a page as can be read there; one alone in parts, if it has many sums."""
    size, together = look.size or SLIDE, list[Section]()
    captions = captions_of(view, look)
    with hermetic(view.picture.panels, captions):
        around = captions_with_glyphs(captions)
        for section in sections:
            longer = [*together, replace(section, moments=())]
            if together and not can_be_read(_as_drawn(longer), size, look, around):
                yield from _parts(together, look, around)
                together = longer[-1:]
            else:
                together = longer
        yield from _parts(together, look, around)


def _as_drawn(sections: Sequence[Section]) -> list[Section]:
    """In characters that can be drawn, and so measured."""
    drawn = map(with_glyphs, sections)
    return [each for each in drawn if isinstance(each, Section)]


def _parts(sections: list[Section], look: Look, captions: Captions) -> Iterator[Group]:
    """A page; or several, if it is of one step whose sums do not all fit."""
    if len(sections) > 1:
        yield Group("steps", tuple(sections))
        return
    (section,) = sections
    left = section.sums
    (drawn,) = _as_drawn(sections)
    most = max(sums_at_once(drawn, replace(look, size=look.size or SLIDE), captions), 1)
    for start in range(0, max(len(left), 1), most):
        yield Group("steps", (replace(section, sums=left[start : start + most]),))


def _as_on_its_own(groups: Sequence[Group], view: View, look: Look) -> bool:
    """Whether a page is as legible as its first equation, or panel, would be alone."""
    units = [unit for _, unit in _units(groups)]
    first = next((unit for unit in units if unit.kind == "product"), units[0])
    return len(units) == 1 or _labels(groups, view, look) >= _labels([first], view, look)


def _labels(groups: Sequence[Group], view: View, look: Look) -> int:
    captions = captions_of(view, look)
    with hermetic(view.picture.panels, captions):
        drawn = pooled(groups_with_glyphs(groups), look)
        size, around = look.size or SLIDE, captions_with_glyphs(captions)
        if drawing := drawing_of(drawn):
            letters = lettering(size, look.text_size)
            return drawing.legible(framed(around, size, letters).room, letters)
        return labels_shown(filled(arrangements(drawn), size, around, look.text_size))


def _divided(groups: Sequence[Group], most: int) -> Iterator[list[Group]]:
    """So many panels on a page, in their order, with what belongs below them."""
    units = _units(groups)
    for start in range(0, len(units), most):
        runs = groupby(units[start : start + most], key=itemgetter(0))
        yield [_together([unit for _, unit in run]) for _, run in runs]


def _units(groups: Sequence[Group]) -> list[tuple[int, Group]]:
    """What is never divided: a panel with what is below it, or all of an equation."""
    return [(place, unit) for place, group in enumerate(groups) for unit in _of_group(group)]


def _of_group(group: Group) -> Iterator[Group]:
    if group.kind == "product":
        yield group
        return
    for panel, below in zip_longest(group.panels, group.below):
        yield replace(group, panels=(panel,), below=() if below is None else (below,))


def _together(units: Sequence[Group]) -> Group:
    panels = tuple(panel for unit in units for panel in unit.panels)
    below = tuple(grid for unit in units for grid in unit.below)
    return replace(units[0], panels=panels, below=below)


def _page(view: View, groups: Sequence[Group], number: int, count: int) -> View:
    """One of several pages, which says so."""
    headline = f"{view.headline} ({number} of {count})"
    return replace(
        view, picture=build_page(groups, view.settings, view.picture.caveat), headline=headline
    )
