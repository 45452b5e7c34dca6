"""What has a way of its own to be drawn, that is not cells in panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from attnviz.renderers.picture import arcs, equations, sentences
from attnviz.renderers.picture.lettering import Lettering
from attnviz.renderers.picture.placed import Box, Layout
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.view import Group


@dataclass(frozen=True)
class Drawing:
    """How large a page it wants to stand on, and its layout in a room."""

    width: float  # inches
    height: Callable[[Lettering, float], float]  # in some letters, in a room of some width
    place: Callable[[Box, Lettering], Layout]
    legible: Callable[[Box, Lettering], int]  # how much can be read there: labels, numbers


def drawing_of(groups: Sequence[Group]) -> Drawing | None:
    """The way of its own that all of these are drawn in, if there is one."""
    panels = [panel for group in groups for panel in group.panels]
    lines = [panel for panel in panels if isinstance(panel, Arcs)]
    if lines and len(lines) == len(panels):
        return Drawing(
            arcs.natural_width(lines),
            partial(arcs.natural_height, lines),
            partial(arcs.place, lines),
            partial(arcs.legible, lines),
        )
    read = [panel for panel in panels if isinstance(panel, Sentence)]
    if read and len(read) == len(panels):
        return Drawing(
            sentences.natural_width(read),
            partial(sentences.natural_height, read),
            partial(sentences.place, read),
            partial(sentences.legible, read),
        )
    if any(group.kind == "product" for group in groups):
        shown = [group for group in groups if group.panels]
        return Drawing(
            equations.natural_width(shown),
            partial(equations.natural_height, shown),
            partial(equations.place, shown),
            partial(equations.legible, shown),
        )
    return None
