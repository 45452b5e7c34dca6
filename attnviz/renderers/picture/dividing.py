"""A View on several pages, where one would be too full for its labels: `-o heads-{page}.png`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from operator import itemgetter

from attnviz.renderers import Look
from attnviz.renderers.picture.arrangement import arrangements
from attnviz.renderers.picture.glyphs import captions_with_glyphs, groups_with_glyphs, hermetic
from attnviz.renderers.picture.image import captions_of, pooled
from attnviz.renderers.picture.layout import filled, labels_shown
from attnviz.renderers.picture.lettering import SLIDE
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.view import Group, View, page_of


def pages(view: View, look: Look) -> list[View]:
    """As many pages as leave each panel the labels that it would have on a page of its own."""
    panels = view.picture.panels
    if len(panels) == 1 or any(isinstance(each, Section) for each in panels):
        return [view]
    alone = _labels(next(_divided(view.picture.groups, 1)), view, look)
    count = sum(len(group.panels) for group in view.picture.groups)
    for number in range(1, count + 1):
        divided = list(_divided(view.picture.groups, -(-count // number)))
        if all(_labels(groups, view, look) >= alone for groups in divided):
            break
    if len(divided) == 1:
        return [view]
    return [_page(view, groups, place, len(divided)) for place, groups in enumerate(divided, 1)]


def _labels(groups: Sequence[Group], view: View, look: Look) -> int:
    captions = captions_of(view, look)
    with hermetic(view.picture.panels, captions):
        candidates = arrangements(pooled(groups_with_glyphs(groups), look))
        size = look.size or SLIDE
        around = captions_with_glyphs(captions)
        return labels_shown(filled(candidates, size, around, look.text_size))


def _divided(groups: Sequence[Group], most: int) -> Iterator[list[Group]]:
    """So many panels on a page, in their order, with what belongs below them."""
    flat = [
        (place, panel, below)
        for place, group in enumerate(groups)
        for panel, below in zip_longest(group.panels, group.below)
    ]
    for start in range(0, len(flat), most):
        runs = groupby(flat[start : start + most], key=itemgetter(0))
        yield [_part(groups[place], list(run)) for place, run in runs]


def _part(group: Group, run: Sequence[tuple[int, Drawable, Grid | None]]) -> Group:
    below = tuple(grid for _, _, grid in run if grid is not None)
    return replace(group, panels=tuple(panel for _, panel, _ in run), below=below)


def _page(view: View, groups: Sequence[Group], number: int, count: int) -> View:
    """One of several pages, which says so."""
    headline = f"{view.headline} ({number} of {count})"
    return replace(view, picture=page_of(groups, view.settings), headline=headline)
