"""Where title, picture and caption of a slide stand, in inches from its top left corner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attnviz.renderers.picture.lettering import Lettering, Size
from attnviz.renderers.slides.words import Words

EDGE = 0.75  # of the margin that stays free above a title and below a caption

Place = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True)
class Places:
    """Of a slide of some size. A picture reaches from edge to edge, with its own margins."""

    size: Size
    title: Place
    caption: Place
    above: float  # where the title ends,
    below: float  # and how far from the foot of the slide the caption begins

    @property
    def picture(self) -> Place:
        """All between them: a picture has air around what it shows."""
        return 0.0, self.above, self.size[0], self.size[1] - self.above - self.below

    @property
    def room(self) -> Place:
        """For a caption alone, where nothing is drawn."""
        left, top, width, height = self.caption
        start = self.above + self.title[1]
        return left, start, width, top + height - start


def places_for(words: Iterable[Words], size: Size, letters: Lettering) -> Places:
    """The same on several slides, so that nothing jumps where one follows another."""
    every = list(words)
    title = max(each.title.height for each in every)
    caption = max(each.height for each in every)
    margin = letters.margin
    edge, width = EDGE * margin, size[0] - 2 * margin
    foot = size[1] - edge - caption
    return Places(
        size,
        (margin, edge, width, title),
        (margin, foot, width, caption),
        edge + title,
        size[1] - foot,
    )
