"""What has a way of its own to be drawn, that is not cells in panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from attnviz.renderers.picture import (
    arcs,
    bar_lists,
    equations,
    sentences,
    thumbnails,
    training_page,
)
from attnviz.renderers.picture.items import Box, Layout
from attnviz.renderers.picture.lettering import SLIDE, Lettering
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.view import Group


@dataclass(frozen=True)
class Drawing:
    """How large a page it wants to stand on, and its layout in a room."""

    width: float  # inches
    height: Callable[[Lettering, float], float]  # in some letters, in a room of some width
    place: Callable[[Box, Lettering], Layout]
    legible: Callable[[Box, Lettering], int]  # how much can be read there: labels, numbers
    crowded: Callable[[Box, Lettering], str]  # what has no room there, but would on several pages
    refuse: Callable[[Box, Lettering], None] = lambda room, letters: None  # what nobody could read


def drawing_of(groups: Sequence[Group]) -> Drawing | None:
    """The way of its own that all of these are drawn in, if there is one."""
    panels, layer = [panel for group in groups for panel in group.panels], in_a_layer(groups)
    overviews = [panel for panel in panels if isinstance(panel, Overview)]
    if overviews and len(overviews) == len(panels):
        return _of_overview(overviews[0])
    lines = [panel for panel in panels if isinstance(panel, Arcs)]
    if lines and len(lines) == len(panels):
        return _of_arcs(lines, layer)
    read = [panel for panel in panels if isinstance(panel, Sentence)]
    if read and len(read) == len(panels):
        return _of_sentences(read, layer)
    listed = [panel for panel in panels if isinstance(panel, Sentence | RankedBars)]
    if listed and len(listed) == len(panels):
        return _of_rankings(listed)
    if any(group.kind == "course" for group in groups):
        return _of_course(groups)
    if any(group.kind == "product" for group in groups):
        return _of_products([group for group in groups if group.panels])
    return None


def _of_overview(drawn: Overview) -> Drawing:
    return Drawing(
        SLIDE[0],
        partial(thumbnails.natural_height, drawn),
        partial(thumbnails.place, drawn),
        partial(thumbnails.legible, drawn),
        lambda room, letters: "",
    )


def _of_arcs(lines: Sequence[Arcs], layer: int) -> Drawing:
    return Drawing(
        arcs.natural_width(lines),
        partial(arcs.natural_height, lines, layer),
        partial(arcs.place, lines, layer),
        partial(arcs.legible, lines, layer),
        partial(arcs.crowded, lines, layer),
        partial(arcs.refuse, lines),
    )


def _of_sentences(read: Sequence[Sentence], layer: int) -> Drawing:
    return Drawing(
        sentences.natural_width(read),
        partial(sentences.natural_height, read, layer),
        partial(sentences.place, read, layer),
        partial(sentences.legible, read, layer),
        partial(sentences.crowded, read, layer),
    )


def _of_rankings(drawn: Sequence[Sentence | RankedBars]) -> Drawing:
    """Sentences and rankings: what has no room is counted, so that no page is in need of others."""
    return Drawing(
        bar_lists.natural_width(drawn),
        partial(bar_lists.natural_height, drawn),
        partial(bar_lists.place, drawn),
        partial(bar_lists.legible, drawn),
        lambda room, letters: "",
    )


def _of_course(groups: Sequence[Group]) -> Drawing:
    """How a model came to it: as wide as a slide, and never in need of several pages."""
    return Drawing(
        SLIDE[0],
        partial(training_page.natural_height, groups),
        partial(training_page.place, groups),
        partial(training_page.legible, groups),
        lambda room, letters: "",
    )


def _of_products(shown: Sequence[Group]) -> Drawing:
    return Drawing(
        equations.natural_width(shown),
        partial(equations.natural_height, shown),
        partial(equations.place, shown),
        partial(equations.legible, shown),
        partial(equations.crowded, shown),
    )


def in_a_layer(groups: Sequence[Group]) -> int:
    """How many panels each layer has, where there are several with as many each; else 0."""
    counts = {len(group.panels) for group in groups}
    return min(counts) if len(groups) > 1 and len(counts) == 1 else 0
