"""Pages: tables, one section in full, or cards in rows like words in a paragraph.

`layout.py` places tables, `stills.py` one section; here is where each card stands. All lengths are
inches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TypeGuard

from attnviz.errors import warn_with_note
from attnviz.renderers import Look
from attnviz.renderers.picture.arrangement import arrangements
from attnviz.renderers.picture.card_tables import SMALLEST, Body, bodies, body
from attnviz.renderers.picture.cards import (
    RULE,
    Card,
    card_of,
    draw_card,
    head,
    height_of_foot,
    least_width,
    thin,
)
from attnviz.renderers.picture.drawings import Drawing, drawing_of
from attnviz.renderers.picture.frame import Captions, Frame, framed
from attnviz.renderers.picture.items import Box, Layout, joined, scaled_down
from attnviz.renderers.picture.layout import lay_out
from attnviz.renderers.picture.lettering import SLIDE, Size, lettering
from attnviz.renderers.picture.stills import stills, text_sizes
from attnviz.renderers.picture.texts import without_what_all_say
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.view import Group

HIGHEST = 40.0  # of a page that grows
UPRIGHT = 1.6  # times as high as wide it may be, before it shows less
STEP = 1.1  # by which letters shrink until everything fits
FEW = 6  # cards, of which as few as possible stand beside each other
GROWN = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.3, 2.6, 3.0, 3.5)  # times as large as they must be: cells
LARGER = (1.8, 1.6, 1.4, 1.25, 1.1, 1.0)  # times as large as they must be: letters
LARGER_ON_PAGES = 1.4  # there can be more pages
SUMS = (40, 24, 16, 12, 8, 5, 3)  # lines of sums on a card: as many as there is room for
TOO_FULL = (
    "the arithmetic of so many steps does not fit on one page: -o steps-{page}.png makes as many "
    "pages as needed"
)
TOO_WIDE = (
    "the numbers of some tables do not fit on one page: -o steps-{page}.png makes as many pages "
    "as needed"
)
CROWDED = (
    "with so much on one page there is no room for {lost}: -o heads-{{page}}.png makes as many "
    "pages as needed"
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
    drawing.refuse(frame.room, letters)
    layout = drawing.place(frame.room, letters)
    if lost := drawing.crowded(frame.room, letters):
        warn_with_note(CROWDED.format(lost=lost))
    return replace(layout, size=size, words=(*layout.words, *frame.words()))


def _named(groups: Sequence[Group]) -> list[Group]:
    """Groups whose grids have titles that say what others, and colour bars, do not."""
    panels = [panel for group in groups for panel in group.all_panels]
    grids = [each for each in panels if _is_of_numbers(each)]
    titles = without_what_all_say([g.title for g in grids], [g.scale.label for g in grids])
    named = iter([replace(g, title=title) for g, title in zip(grids, titles, strict=True)])
    return [
        replace(
            group,
            panels=tuple([next(named) if _is_of_numbers(p) else p for p in group.panels]),
            below=tuple([each and next(named) for each in group.below]),
        )
        for group in groups
    ]


def _is_of_numbers(panel: Drawable) -> TypeGuard[Grid]:
    """And not of words: what those are is said by nothing but their title."""
    return isinstance(panel, Grid) and not panel.words


def _page_of_cards(cards: Sequence[Card], look: Look, captions: Captions) -> Layout:
    """On a slide where the cards fit on one, else on a page that is higher."""
    size = look.size or SLIDE
    frames = [_framed(captions, size, each) for each in text_sizes(look.text_size)]
    if look.size is None:
        readable = _readable(cards, frames[0], SUMS[:-1])
        return readable or _grown(cards, frames[0], captions)
    return next(filter(None, (_readable(cards, each, SUMS) for each in frames)), None) or (
        _thinned(cards, frames)
    )


def _framed(captions: Captions, size: Size, text_size: float) -> Frame:
    """Where letters of cards are larger than they must be, if those around them are."""
    letters = lettering(size, text_size)
    least = letters.smallest * max(text_size, 1.0)
    return framed(captions, size, replace(letters, smallest=least))


def can_be_read(sections: Sequence[Section], size: Size, look: Look, captions: Captions) -> bool:
    """Whether sections have room together on a page of this size, in letters that can be read."""
    cards = _with([card_of(each) for each in sections], SUMS[0], plain=True)
    frame = _framed(captions, size, look.text_size)
    return _have_room(cards, frame, LARGER_ON_PAGES * frame.letters.smallest / SMALLEST)


def _readable(cards: Sequence[Card], frame: Frame, sums: Sequence[int]) -> Layout | None:
    """In letters that can be read, large ones if they have room; rather with more of the sums."""
    least = frame.letters.smallest / SMALLEST
    ways = [_with(cards, most, plain=plain) for most, plain in product(sums, (False, True))]
    if not _have_room(ways[-1], frame, least):
        return None
    best = next(each for each in ways if _have_room(each, frame, least))
    # Small cells become larger before letters do.
    factors = (least * larger for larger in (LARGER[-1:] if best[0].fine else LARGER))
    return _fill_page(best, frame, next(each for each in factors if _have_room(best, frame, each)))


def _have_room(cards: Sequence[Card], frame: Frame, factor: float) -> bool:
    """Whether all of them stand on the page, everything being so many times as large."""
    room = _room(frame, factor)
    return _fits(flow(cards, room[2], 1.0), room)


def _thinned(cards: Sequence[Card], frames: Sequence[Frame]) -> Layout:
    """Without sums; with colours in place of numbers; in smaller letters if it must be so."""
    warn_with_note(TOO_FULL)
    without_numbers = [thin(card) for card in cards]
    without_keys = [replace(card, keyed=False) for card in without_numbers]
    ways = product((cards, without_numbers, without_keys), frames)
    readable = (_readable(each, frame, [0]) for each, frame in ways)
    return next(filter(None, readable), None) or _smaller(_with(without_keys, 0), frames[-1])


def _smaller(cards: Sequence[Card], frame: Frame) -> Layout:
    """In the largest letters that let everything stand on the page."""
    factor = frame.letters.smallest / SMALLEST
    while not _have_room(cards, frame, factor):
        factor /= STEP
    return _fill_page(cards, frame, factor)


def _with(cards: Sequence[Card], most: int, *, plain: bool = False) -> list[Card]:
    """With so many lines of sums on each; plain ones have no small print."""
    return [replace(card, most=most, plain=plain or card.fine) for card in cards]


def _fill_page(cards: Sequence[Card], frame: Frame, factor: float) -> Layout:
    """The cards, with everything so many times as large and cells larger where they can be.

    As few of them as possible stand beside each other, if there are few: that makes them wide.
    """
    room, count = _room(frame, factor), len(cards)
    numbers = range(1 if count <= FEW else count, count + 1)
    beside = next(each for each in numbers if _fits(flow(cards, room[2], 1.0, each), room))
    larger = (flow(cards, room[2], times, beside) for times in GROWN)
    *_, best = (each for each in larger if _fits(each, room))
    return _around(scaled_down(draw_flow(best, room), 1 / factor), frame)


def _room(frame: Frame, factor: float) -> Box:
    """What is left for cards that will be so many times as large."""
    left, bottom, width, height = (length / factor for length in frame.room)
    return left, bottom, width, height - (RULE if frame.above else 0.0)


def _fits(flowing: Flow, room: Box) -> bool:
    return flowing.width <= room[2] + 1e-3 and flowing.height <= room[3] + 1e-3


def _grown(cards: Sequence[Card], frame: Frame, captions: Captions) -> Layout:
    """A page as wide as a slide, and as high as its cards need: without what makes it too high."""
    width, factor = frame.size[0], frame.letters.smallest / SMALLEST
    room = _room(frame, factor)[2]
    cards = _narrow(cards, room)
    around = HIGHEST - _room(framed(captions, (width, HIGHEST), frame.letters), factor)[3] * factor
    for most, plain in ((SUMS[-2], False), (SUMS[-2], True), (0, True)):
        made = _with(cards, most, plain=plain)
        height = flow(made, room, 1.0).height * factor + around
        if height <= width * UPRIGHT:
            break
    higher = framed(captions, (width, min(height, HIGHEST)), frame.letters)
    if height <= HIGHEST and _have_room(made, higher, factor):
        return _fill_page(made, higher, factor)
    thinned = _with([thin(card) for card in cards], 0, plain=True)
    height = min(flow(thinned, room, 1.0).height * factor + around, HIGHEST)
    return _thinned(cards, [framed(captions, (width, height), frame.letters)])


def _narrow(cards: Sequence[Card], width: float) -> list[Card]:
    """Colours in place of numbers where those make a card wider than the page."""
    narrow = [each if flow([each], width, 1.0).width <= width else thin(each) for each in cards]
    if any(each.fine and not card.fine for each, card in zip(narrow, cards, strict=True)):
        warn_with_note(TOO_WIDE)
    return narrow


def _around(layout: Layout, frame: Frame) -> Layout:
    """With the title of the page and its small print."""
    return replace(layout, size=frame.size, words=(*frame.words(), *layout.words))


MOST_BESIDE = 100  # cards in a row
CARD_GAP, ROW_GAP = 0.18, 0.12  # between two cards
WIDEST_ROW_GAP = 0.4  # where there is room to spare
WIDTHS_OF_SUMS = (0.22, 0.26, 0.3, 0.36, 0.45, 0.6)  # of the page: so wide may cards with sums be
WIDER = 4.0  # times, at most, that cells become so as to fill a row;
UPRIGHT_PAGE = 1.6  # so many give labels room beside each other, which makes cards lower


@dataclass(frozen=True, eq=False)
class Piece:
    """A card in its place in a row."""

    card: Card
    body: Body
    width: float

    @cached_property
    def height(self) -> float:
        below = height_of_foot(self.card, self.width)
        return head(self.card, self.width).height + self.body.height + below


Choice = Sequence[Piece]  # one card in several arrangements, of which one is drawn
Row = list[Piece]


@dataclass(frozen=True, eq=False)
class Flow:
    """All cards, in rows of one width."""

    rows: tuple[tuple[Piece, ...], ...]

    @property
    def heights(self) -> list[float]:
        return [_height(row) for row in self.rows]

    @property
    def height(self) -> float:
        return sum(self.heights) + ROW_GAP * (len(self.rows) - 1)

    @property
    def width(self) -> float:
        return max(_width(row) for row in self.rows)


def flow(cards: Sequence[Card], width: float, grown: float, beside: int = MOST_BESIDE) -> Flow:
    """The lowest of all ways to set the cards in rows, at most so many beside each other."""
    choices = [_choice(card, width, grown) for card in cards]
    return _stretch_rows(_lowest(choices, width, beside), width)


def _lowest(choices: Sequence[Choice], width: float, beside: int) -> list[Row]:
    """For each number of cards from the first on the lowest rows, made from those of fewer."""
    best: list[tuple[float, list[Row]]] = [(0.0, [])]
    for stop in range(1, len(choices) + 1):
        ways = []
        for start in reversed(range(max(stop - beside, 0), stop)):
            row = _row(choices[start:stop], width)
            if start < stop - 1 and _width(row) > width + 1e-6:
                break
            height, before = best[start]
            ways.append((height + _height(row) + ROW_GAP, [*before, row]))
        best.append(min(ways, key=lambda way: round(way[0], 3)))
    return best[-1][1]


def _row(choices: Sequence[Choice], width: float) -> Row:
    """The lowest row of these cards that is no wider than this; else the narrowest."""
    heights = sorted({piece.height for choice in choices for piece in choice})
    for height in heights:
        row = [_narrowest(choice, height) for choice in choices]
        if _height(row) <= height and _width(row) <= width + 1e-6:
            return row
    return [min(choice, key=lambda piece: piece.width) for choice in choices]


def _choice(card: Card, width: float, grown: float) -> list[Piece]:
    """With its tables beside or below each other; and wider, if sums would be broken often."""
    narrow, wide, large = (
        [_piece(card, each) for each in bodies(card.drawn, (grown, wider), card.fine)]
        for wider in (1 / grown, UPRIGHT_PAGE / grown, 1.0)
    )
    lower = [
        piece for piece, other in zip(wide, narrow, strict=True) if piece.height < other.height
    ]
    made = [*narrow, *lower, *(large if grown > 1 else ())]
    if not (card.sums and card.most):
        return made
    widths = [_rounded_up(each * width) for each in WIDTHS_OF_SUMS]
    return made + [
        replace(piece, width=each)
        for piece in (narrow[-1], *lower[-1:])
        for each in widths
        if each > piece.width
    ]


def _piece(card: Card, tables: Body) -> Piece:
    return Piece(card, tables, _rounded_up(max(tables.width, least_width(card))))


def _rounded_up(width: float) -> float:
    """To a twentieth, so that much is alike and need not be found out again."""
    return math.ceil(width * 20 - 1e-6) / 20


def _narrowest(choice: Choice, height: float) -> Piece:
    """Of the ways to set a card those that are low enough, or else the lowest."""
    low = [piece for piece in choice if piece.height <= height]
    return min(low or choice, key=lambda piece: (piece.width if low else 0, piece.height))


def _height(row: Sequence[Piece]) -> float:
    return max(piece.height for piece in row)


def _width(row: Sequence[Piece]) -> float:
    return sum(piece.width for piece in row) + CARD_GAP * (len(row) - 1)


def _stretch_rows(rows: Sequence[Sequence[Piece]], width: float) -> Flow:
    """Rows made as wide as the page, each card by as much, but for those of words alone."""
    filled = []
    for row in rows:
        growing = [piece for piece in row if piece.body.tables] or row
        more = max((width - _width(row)) / len(growing), 0.0)
        filled.append(tuple([_widened(piece, more if piece in growing else 0.0) for piece in row]))
    return Flow(tuple(filled))


def _widened(piece: Piece, more: float) -> Piece:
    """A card with more room; it goes to the cells, as long as they do not become too wide."""
    width = math.floor((piece.width + more) * 100 + 1e-6) / 100
    if not piece.body.tables:
        return Piece(piece.card, piece.body, width)
    spare = width - piece.body.width
    first, (grown, before) = piece.body, piece.body.larger
    wider = math.floor(min(before * (1 + spare / first.cells), WIDER) * 10) / 10
    if wider > before:
        larger = body(piece.card.drawn, first.across, (grown, wider), piece.card.fine)
        if larger.width <= width:
            return Piece(piece.card, larger, width)
    return Piece(piece.card, first, width)


def draw_flow(flowing: Flow, room: Box) -> Layout:
    """The cards from the top of the room; what is left of it goes between the rows."""
    left, bottom, _, height = room
    top = bottom + height
    spare = max(height - flowing.height, 0.0) / len(flowing.rows)
    gap = min(ROW_GAP + spare, WIDEST_ROW_GAP)
    drawn = []
    for row, high in zip(flowing.rows, flowing.heights, strict=True):
        x = left
        for piece in row:
            drawn.append(draw_card(piece.card, piece.body, x, top, piece.width))
            x += piece.width + CARD_GAP
        top -= high + gap
    return joined(drawn)
