"""Pages: of tables, of one section in full, or of a card for each section.

`layout.py` places tables, `stills.py` one section; here is where each card stands. All lengths are
inches.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

from attnviz.errors import Note
from attnviz.renderers import Look
from attnviz.renderers.picture.arrangement import arrangements
from attnviz.renderers.picture.card_tables import SMALLEST
from attnviz.renderers.picture.cards import RULE, Card, card_of
from attnviz.renderers.picture.drawings import Drawing, drawing_of
from attnviz.renderers.picture.flow import Flow, draw_flow, flow
from attnviz.renderers.picture.frame import Captions, Frame, framed
from attnviz.renderers.picture.layout import lay_out
from attnviz.renderers.picture.lettering import SLIDE, Lettering, Size, lettering
from attnviz.renderers.picture.placed import Box, Layout, scaled_down
from attnviz.renderers.picture.stills import stills
from attnviz.renderers.picture.texts import without_what_all_say
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.views.view import Group

PAGES = ((12.8, 7.2), (16.0, 9.0), (19.2, 10.8))  # the first on which everything fits
WIDTHS, HIGHEST = (16.0, 19.2, 24.0), 40.0  # of a page that grows
UPRIGHT = 1.25  # times as high as wide it may be, before it becomes wider
STEP = 1.1  # by which a page grows until everything fits
GROWN = (1.1, 1.2, 1.3, 1.45, 1.6, 1.8)  # times as large as they must be cells become

NATURAL = Lettering().scaled(0.72)  # letters around cards on a page that has no size given
SUMS = (24, 16, 12, 8, 5, 3)  # lines of sums on a card: as many as there is room for
LARGER = (1.4, 1.25, 1.1, 1.0)  # times as large as they must be letters are, if there is room
TOO_FULL = (
    "so many steps have no room for their arithmetic on one page: -o steps-{page}.png makes as "
    "many pages as they need"
)
CROWDED = (
    "so much on one page leaves no room for {lost}: -o heads-{{page}}.png makes as many pages as "
    "they need"
)


def page(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    """One picture of all that is drawn: of tables as ever, of sections with a card for each."""
    panels = [panel for group in groups for panel in group.panels]
    if drawing := drawing_of(groups):
        return _of_its_own(drawing, look, captions)
    if not any(isinstance(each, Section) for each in panels):
        return lay_out(arrangements(_named(groups)), look.size, captions, look.text_size)
    if len(panels) == 1:
        sections = [each for each in panels if isinstance(each, Section)]
        return stills(sections, look, captions)[0]
    return _page_of_cards([card_of(each) for each in panels], look, captions)


def _of_its_own(drawing: Drawing, look: Look, captions: Captions) -> Layout:
    """What has a way of its own to be drawn, between the words around every page."""
    like_a_slide = drawing.width, drawing.width * SLIDE[1] / SLIDE[0]
    letters = lettering(look.size or like_a_slide, look.text_size)
    size = look.size
    if size is None:
        room = framed(captions, (drawing.width, HIGHEST), letters).room
        size = drawing.width, HIGHEST - room[3] + drawing.height(letters, room[2])
    frame = framed(captions, size, letters)
    layout = drawing.place(frame.room, letters)
    if lost := drawing.crowded(frame.room, letters):
        warnings.warn(Note(CROWDED.format(lost=lost)), stacklevel=2)
    return replace(layout, size=size, words=(*layout.words, *frame.words()))


def _named(groups: Sequence[Group]) -> list[Group]:
    """Groups whose grids have titles that say what others, and colour bars, do not."""
    panels = [panel for group in groups for panel in group.all]
    grids = [each for each in panels if isinstance(each, Grid)]
    titles = without_what_all_say([g.title for g in grids], [g.scale.label for g in grids])
    named = iter([replace(g, title=title) for g, title in zip(grids, titles, strict=True)])
    return [
        replace(
            group,
            panels=tuple([next(named) if isinstance(p, Grid) else p for p in group.panels]),
            below=tuple([each and next(named) for each in group.below]),
        )
        for group in groups
    ]


def _page_of_cards(cards: Sequence[Card], look: Look, captions: Captions) -> Layout:
    """On a slide where the cards fit on one, else on a page as large as they need."""
    if look.size:
        frame = framed(captions, look.size, lettering(look.size, look.text_size))
        return _readable(cards, frame, SUMS) or _thinned(cards, frame)
    letters = NATURAL.scaled(look.text_size)
    for size in PAGES:
        frame = framed(captions, size, letters)
        for most in SUMS:
            if filled := _filled(_with_sums(cards, most), frame, look.text_size):
                return filled
    return _grown(_with_sums(cards, SUMS[-2]), captions, letters, look.text_size)


def can_be_read(sections: Sequence[Section], size: Size, look: Look, captions: Captions) -> bool:
    """Whether sections have room together on a page of this size, in letters that can be read."""
    frame = framed(captions, size, lettering(size, look.text_size))
    return _readable([card_of(each) for each in sections], frame, SUMS[:-1]) is not None


def _readable(cards: Sequence[Card], frame: Frame, sums: Sequence[int]) -> Layout | None:
    """In letters that can be read, large ones if they have room; rather with more of the sums."""
    least = frame.letters.smallest / SMALLEST
    for most in sums:
        for larger in LARGER:
            if filled := _filled(_with_sums(cards, most), frame, least * larger):
                return filled
    return None


def _thinned(cards: Sequence[Card], frame: Frame) -> Layout:
    """Without sums; with colours in place of numbers; in smaller letters if it must be so."""
    warnings.warn(Note(TOO_FULL), stacklevel=2)
    thin = [replace(card, fine=True) for card in cards]
    return (
        _readable(cards, frame, [0])
        or _readable(thin, frame, [0])
        or _smaller(_with_sums(thin, 0), frame)
    )


def _smaller(cards: Sequence[Card], frame: Frame) -> Layout:
    """In the largest letters that let everything stand on the page."""
    factor = frame.letters.smallest / SMALLEST
    while not (layout := _filled(cards, frame, factor)):
        factor /= STEP
    return layout


def _with_sums(cards: Sequence[Card], most: int) -> list[Card]:
    return [replace(card, most=most) for card in cards]


def _filled(cards: Sequence[Card], frame: Frame, factor: float) -> Layout | None:
    """The cards, with everything so many times as large and cells larger where they can be."""
    room = _room(frame, factor)
    if not _fits(flowing := flow(cards, room[2], 1.0), room):
        return None
    for times in GROWN:
        larger = flow(cards, room[2], times)
        if not _fits(larger, room):
            break
        flowing = larger
    return _around(scaled_down(draw_flow(flowing, room), 1 / factor), frame)


def _room(frame: Frame, factor: float) -> Box:
    """What is left for cards that will be so many times as large."""
    left, bottom, width, height = (length / factor for length in frame.room)
    return left, bottom, width, height - (RULE if frame.above else 0.0)


def _fits(flowing: Flow, room: Box) -> bool:
    return flowing.width <= room[2] + 1e-3 and flowing.height <= room[3] + 1e-3


def _grown(cards: Sequence[Card], captions: Captions, letters: Lettering, factor: float) -> Layout:
    """As high as is needed, on the first width on which that is not much higher than wide."""
    for width in WIDTHS:
        flowing = flow(cards, (width - 2 * letters.margin) / factor, 1.0)
        around = HIGHEST - factor * _room(framed(captions, (width, HIGHEST), letters), factor)[3]
        size = width, flowing.height * factor + around
        if size[1] <= width * UPRIGHT:
            break
    frame = framed(captions, (width, min(size[1], HIGHEST)), letters)
    room = _room(frame, factor)
    if size[1] > HIGHEST or not _fits(flowing, room):
        return _smaller(cards, frame)
    return _around(scaled_down(draw_flow(flowing, room), 1 / factor), frame)


def _around(layout: Layout, frame: Frame) -> Layout:
    """With the title of the page and its small print."""
    return replace(layout, size=frame.size, words=(*frame.words(), *layout.words))
