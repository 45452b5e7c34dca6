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

NATURAL = (10.0, 5.625)  # inches: how wide a page is at most, and what its letters are meant for


@dataclass(frozen=True)
class Drawing:
    """How large its page wants to be, of some width at most; and its layout in a room."""

    natural_size: Callable[[Lettering, float], tuple[float, float]]
    place: Callable[[Box, Lettering], Layout]


def drawing_of(groups: Sequence[Group]) -> Drawing | None:
    """The way of its own that all of these are drawn in, if there is one."""
    panels = [panel for group in groups for panel in group.panels]
    lines = [panel for panel in panels if isinstance(panel, Arcs)]
    if lines and len(lines) == len(panels):
        return Drawing(partial(arcs.natural_size, lines), partial(arcs.place, lines))
    read = [panel for panel in panels if isinstance(panel, Sentence)]
    if read and len(read) == len(panels):
        return Drawing(partial(sentences.natural_size, read), partial(sentences.place, read))
    if any(group.kind == "product" for group in groups):
        shown = [group for group in groups if group.panels]
        return Drawing(partial(equations.natural_size, shown), partial(equations.place, shown))
    return None
