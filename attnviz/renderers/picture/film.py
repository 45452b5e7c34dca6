"""The shots of a film: one page, on which numbers change, and nothing jumps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnviz.renderers import Look
from attnviz.renderers.picture.drawings import drawing_of
from attnviz.renderers.picture.frame import Captions, framed
from attnviz.renderers.picture.glyphs import captions_with_glyphs, groups_with_glyphs
from attnviz.renderers.picture.image import pooled
from attnviz.renderers.picture.lettering import lettering
from attnviz.renderers.picture.placed import Layout
from attnviz.views.view import View

FRAME = (12.8, 7.2)  # inches: 16:9
FIRST_SHARE, LAST_SHARE = 0.2, 0.8  # of the time of a film, that its ends are shown beside
SHORTEST = 0.04  # seconds


@dataclass(frozen=True, eq=False)
class Frame:
    layout: Layout
    seconds: float


def filmed(view: View, look: Look, captions: Captions) -> Iterator[Frame]:
    """A frame for each shot; all leave the room that the longest headline needs."""
    titles = [view.headline if view.titled else shot.title for shot in view.film]
    around = [captions_with_glyphs(replace(captions, title=title)) for title in titles]
    size = look.size or FRAME
    letters = lettering(look.size or FRAME, look.text_size)
    frames = [framed(each, size, letters) for each in around]
    room = min((frame.room for frame in frames), key=lambda room: room[3])
    each = max(look.seconds / len(frames), SHORTEST)
    ends = {0: FIRST_SHARE * look.seconds, len(frames) - 1: LAST_SHARE * look.seconds}
    for place, (shot, frame) in enumerate(zip(view.film, frames, strict=True)):
        groups = pooled(groups_with_glyphs(shot.groups), look)
        drawing = drawing_of(groups)
        assert drawing is not None, "a film of what has no page of its own"
        layout = drawing.place(room, letters)
        whole = replace(layout, size=size, words=(*layout.words, *frame.words()))
        yield Frame(whole, each + ends.get(place, 0.0))
