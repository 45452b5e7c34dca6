"""Pages: of tables, of one section in full, or of a card for each section.

`layout.py` places tables; here is where each section stands, and what is written around its
tables. All lengths are inches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice

import numpy as np

from attnviz.renderers import Look
from attnviz.renderers.picture.arrangement import arrangements, free
from attnviz.renderers.picture.bars import bar_space, scales_of
from attnviz.renderers.picture.cards import RULE, Card, card_of, without_titles
from attnviz.renderers.picture.drawings import Drawing, drawing_of
from attnviz.renderers.picture.flow import Flow, draw_flow, flow
from attnviz.renderers.picture.frame import Captions, Line, framed, stacked
from attnviz.renderers.picture.layout import lay_out, natural, place, with_bars
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering, Size, lettering
from attnviz.renderers.picture.numbers import numbered_as
from attnviz.renderers.picture.placed import Box, Layout, empty_layout, scaled_down
from attnviz.renderers.picture.texts import BOLD, fitted, without_what_all_say, wrapped
from attnviz.renderers.picture.ticks import PanelStyle, text_width
from attnviz.renderers.wrapping import broken
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.views.view import Group
from attnviz.wording.sums import Sum

PAGES = ((12.8, 7.2), (16.0, 9.0), (19.2, 10.8))  # the first on which everything fits
WIDTHS, HIGHEST = (16.0, 19.2, 24.0), 40.0  # of a page that grows
UPRIGHT = 1.25  # times as high as wide it may be, before it becomes wider
STEP = 1.1  # by which a page grows until everything fits
GROWN = (1.1, 1.2, 1.3, 1.45, 1.6, 1.8)  # times as large as they must be cells become

SMALL_LETTERS = Lettering().scaled(0.5)
MARGIN = SMALL_LETTERS.margin
ALONE = PanelStyle(stretch=1.6, numbers=8.0)
LARGE_HEADING, ABOUT, FORMULA, OVERLINE = 16.0, 10.5, 9.0, 8.0  # of a section with its own page
SUM_SIZES = (13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0)
SIZES_UNBROKEN = 5  # of these: a sum in letters of 9 points on one line, rather than on two
LONGEST = 1000  # letters: more never stand on one line
NARROW = 0.3  # of its size is the width of a letter, at least, in a line of many
SUMS_SHARE = 0.36  # of the page's height, at most
NARROWEST = 6.4


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


def stills(sections: Sequence[Section], look: Look, captions: Captions) -> list[Layout]:
    """A page for each section, all laid out alike: what they share stands in one place."""
    size = look.size or _natural_size(sections, captions)
    heads = [list(_head(section, captions.title, size[0])) for section in sections]
    frame = framed(replace(captions, title=""), size, SMALL_LETTERS)
    top = size[1] - MARGIN - max(_height(head) for head in heads)
    bottom = frame.room[1]
    sums = _sums(sections, size[0] - 2 * MARGIN, (top - bottom) * SUMS_SHARE)
    middle = bottom + max(_height(lines) for lines in sums)
    room = (MARGIN, middle + 0.1, size[0] - 2 * MARGIN, max(top - middle - 0.2, 0.5))
    pages = []
    for head, tables, lines in zip(heads, _alike(sections, room), sums, strict=True):
        words = (
            *stacked(head, MARGIN, size[1] - MARGIN),
            *tables.words,
            *stacked(lines, MARGIN, middle),
        )
        words = (*words, *frame.words())
        pages.append(replace(tables, size=size, words=words))
    return pages


def _natural_size(sections: Sequence[Section], captions: Captions) -> Size:
    """As large as the tables want to be, and as what is written around them needs."""
    every = [each.grids for each in sections if each.grids]
    sizes = [natural(free(grids), scales_of(grids), Captions(), 1.0)[1] for grids in every]
    width = max([NARROWEST, *(width for width, _ in sizes)])
    tables = max((height for _, height in sizes), default=1.0)
    head = max(_height(list(_head(section, captions.title, width))) for section in sections)
    sums = _sums(sections, width - 2 * MARGIN, tables * SUMS_SHARE / (1 - SUMS_SHARE))
    return width, tables + head + max(_height(lines) for lines in sums)


def _head(section: Section, title: str, width: float) -> Iterator[Line]:
    """What the step is, in lines from the top of the page."""
    room = width - 2 * MARGIN
    if title:
        yield Line(*fitted(title, OVERLINE, 6.0, room), faint=True)
    yield Line(*fitted(section.heading, LARGE_HEADING, 9.0, room / BOLD), bold=True)
    for line in wrapped(section.about.split(), " ", ABOUT, room):
        yield Line(line, ABOUT)
    parts = [part for part in (section.formula, section.shapes) if part]
    for line in wrapped(parts, "     ", FORMULA, room):
        yield Line(*fitted(line, FORMULA, 6.0, room), faint=True)


def _height(lines: Sequence[Line]) -> float:
    return sum(line.height for line in lines)


def _sums(sections: Sequence[Section], width: float, height: float) -> list[list[Line]]:
    """The sums of each section, as large as lets those of all fit; if none does, the first ones.

    A size at which no sum has to be broken is better than a larger one.
    """
    every = [each.text for section in sections for each in section.sums]
    longest = sorted(every, key=len)[-8:]  # the widest is among those with the most letters
    widest = max((text_width(text[:LONGEST], 1.0) for text in longest), default=0.0)
    unbroken = [size for size in SUM_SIZES[:SIZES_UNBROKEN] if widest * size <= width]
    for size in (*unbroken, *SUM_SIZES):
        most = int(height / Line("", size).height)
        written = [_broken(section.sums, size, width, most) for section in sections]
        if max(map(len, written)) <= most:
            break
    return [[Line(text, size) for text in _cut(lines, max(most, 1))] for lines in written]


def _broken(sums: Sequence[Sum], size: float, width: float, most: int) -> list[str]:
    """The lines of sums, but no more of them than show that there are too many."""

    def fits(line: str) -> bool:
        # To measure thousands of letters takes long, and they never fit.
        return len(line) * size * POINT * NARROW <= width and text_width(line, size) <= width

    lines = (line for each in sums for line in broken(each.text, fits))
    return list(islice(lines, most + 1))


def _cut(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], "…"]


def _alike(sections: Sequence[Section], room: Box) -> list[Layout]:
    """The tables of each, with numbers written as if all cells were filled in all of them."""
    placed = [_tables(_several(section.tables), room) for section in sections]
    shapes = {tuple(panel.grid.values.shape for panel in each.panels) for each in placed}
    if len(shapes) > 1 or len(placed) == 1:
        return placed
    together = zip(*([panel.grid for panel in each.panels] for each in placed), strict=True)
    full = [reduce(_fuller, grids) for grids in together]
    return [replace(each, panels=tuple(map(numbered_as, each.panels, full))) for each in placed]


def _fuller(grid: Grid, other: Grid) -> Grid:
    empty = np.isnan(grid.values)
    return grid.with_values(np.where(empty, other.values, grid.values))


def _several(grids: Sequence[Grid]) -> Sequence[Grid]:
    """Of several tables on one page only those parts that are needed."""
    return grids if len(grids) == 1 else [without_titles(grid) for grid in grids]


def _tables(grids: Sequence[Grid], room: Box) -> Layout:
    """Tables with the colour bars of their scales beside them."""
    if not grids:
        return empty_layout()
    scales = scales_of(grids)
    left, bottom, width, height = room
    beside = bar_space(scales, SMALL_LETTERS)
    placed, right = place(grids, (left, bottom, width - beside, height), ALONE)
    return with_bars(placed, scales, right, SMALL_LETTERS)


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
