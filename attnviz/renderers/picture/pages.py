"""Pages: of tables, of one section in full, or of a card for each section.

`layout.py` places tables, `stills.py` one section; here is where each card stands. All lengths are
inches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.renderers import Look
from attnviz.renderers.picture.arrangement import arrangements
from attnviz.renderers.picture.cards import RULE, Card, card_of
from attnviz.renderers.picture.flow import Flow, draw_flow, flow
from attnviz.renderers.picture.frame import Captions, framed
from attnviz.renderers.picture.layout import lay_out
from attnviz.renderers.picture.lettering import Lettering, Size
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

SMALL_LETTERS = Lettering().scaled(0.5)
MARGIN = SMALL_LETTERS.margin


def page(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    """One picture of all that is drawn: of tables as ever, of sections with a card for each."""
    panels = [panel for group in groups for panel in group.panels]
    if not any(isinstance(each, Section) for each in panels):
        return lay_out(arrangements(_named(groups)), look.size, captions, look.text_size)
    if len(panels) == 1:
        sections = [each for each in panels if isinstance(each, Section)]
        return stills(sections, look, captions)[0]
    return _page_of_cards([card_of(each) for each in panels], look, captions)


def _named(groups: Sequence[Group]) -> list[Group]:
    """Groups whose grids have titles that say what others, and colour bars, do not."""
    panels = [panel for group in groups for panel in (*group.panels, *group.below)]
    grids = [each for each in panels if isinstance(each, Grid)]
    titles = without_what_all_say([g.title for g in grids], [g.scale.label for g in grids])
    named = iter([replace(g, title=title) for g, title in zip(grids, titles, strict=True)])
    return [
        replace(
            group,
            panels=tuple([next(named) if isinstance(p, Grid) else p for p in group.panels]),
            below=tuple([next(named) for _ in group.below]),
        )
        for group in groups
    ]


def _page_of_cards(cards: Sequence[Card], look: Look, captions: Captions) -> Layout:
    """On a slide where the cards fit on one, else on a page as large as they need."""
    if look.size:
        return _scaled_down_to(cards, captions, look.size)
    for size in PAGES:
        room = _room(captions, size)
        if _fits(flowing := flow(cards, room[2], 1.0), room):
            return _with_words(_fullest(cards, room, flowing), captions, size)
    return _grown(cards, captions)


def _room(captions: Captions, size: Size) -> Box:
    """What title and caption leave of a page."""
    left, bottom, width, height = framed(captions, size, SMALL_LETTERS).room
    return left, bottom, width, height - (RULE if captions.title else 0.0)


def _fits(flowing: Flow, room: Box) -> bool:
    return flowing.width <= room[2] + 1e-3 and flowing.height <= room[3] + 1e-3


def _fullest(cards: Sequence[Card], room: Box, flowing: Flow) -> Layout:
    """With cells as large as the page allows."""
    for times in GROWN:
        larger = flow(cards, room[2], times)
        if not _fits(larger, room):
            break
        flowing = larger
    return draw_flow(flowing, room)


def _scaled_down_to(cards: Sequence[Card], captions: Captions, size: Size) -> Layout:
    """Laid out on the smallest page of the same shape that holds everything."""
    factor, larger = 1.0, size
    while not _fits(flowing := flow(cards, (room := _room(captions, larger))[2], 1.0), room):
        factor *= STEP
        larger = size[0] * factor, size[1] * factor
    return scaled_down(_with_words(_fullest(cards, room, flowing), captions, larger), factor)


def _grown(cards: Sequence[Card], captions: Captions) -> Layout:
    """As high as is needed, on the first width on which that is not much higher than wide."""
    for width in WIDTHS:
        flowing = flow(cards, width - 2 * MARGIN, 1.0)
        around = HIGHEST - _room(captions, (width, HIGHEST))[3]
        size = width, flowing.height + around
        if size[1] <= width * UPRIGHT:
            break
    room = _room(captions, size)
    if size[1] > HIGHEST or not _fits(flowing, room):
        return _scaled_down_to(cards, captions, (WIDTHS[-1], HIGHEST))
    return _with_words(draw_flow(flowing, room), captions, size)


def _with_words(layout: Layout, captions: Captions, size: Size) -> Layout:
    """With the title of the page and its small print."""
    words = framed(captions, size, SMALL_LETTERS).words()
    return replace(layout, size=size, words=(*words, *layout.words))
