"""Chooses how a page is drawn: tables, one section in full, or cards in rows.

`panels.py` places tables, `section.py` one section; here is where each card stands. All lengths
are inches.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, TypeGuard

from attnviz.errors import AttnvizError, opt, warn_with_note
from attnviz.renderers import PAGE_PLACEHOLDER, Look
from attnviz.renderers.look import TextSize
from attnviz.renderers.picture.arcs import ArcsDrawing
from attnviz.renderers.picture.cards import (
    CARD_POINTS,
    RULE,
    Card,
    TableBlock,
    card_head,
    card_items,
    foot_height,
    least_card_width,
    make_card,
    table_block,
    table_blocks,
    thin_card,
)
from attnviz.renderers.picture.equation import EquationDrawing
from attnviz.renderers.picture.items import Box, Items, Layout, scale_item
from attnviz.renderers.picture.long_map import LongMapDrawing
from attnviz.renderers.picture.matrix import distinct_titles
from attnviz.renderers.picture.page_frame import (
    Captions,
    Drawing,
    Frame,
    make_frame,
    words_have_room,
)
from attnviz.renderers.picture.panel_rows import panel_orders, panels_per_layer
from attnviz.renderers.picture.panels import NoRoomError, inches_text, lay_out
from attnviz.renderers.picture.ranking import RankingDrawing, draw_sentences
from attnviz.renderers.picture.section import section_pages, smaller_text_sizes
from attnviz.renderers.picture.small_maps import HeadsDrawing
from attnviz.renderers.picture.text import SLIDE, Size, lettering
from attnviz.renderers.picture.training_page import TrainingDrawing
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.long_map import LongMap
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable, Section
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.views.view import Group
from attnviz.wording.words import counted

LARGER_PAGES = (1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0)  # times as large, tried until one has room
HIGHEST_PAGE = 40.0  # of a page that grows
UPRIGHT_ASPECT = 1.6  # times as high as wide it may be, before it shows less
SHRINKING_STEP = 1.1  # by which letters shrink until everything fits
FEW_CARDS = 6  # cards, of which as few as possible stand beside each other
# Times as large as they must be: cells
CELL_SCALES = 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.3, 2.6, 3.0, 3.5
LETTER_SCALES = (1.8, 1.6, 1.4, 1.25, 1.1, 1.0)  # times as large as they must be: letters
MANY_PAGES_SCALE = 1.4  # there can be more pages
SUM_LINE_COUNTS = (40, 24, 16, 12, 8, 5, 3)  # lines of sums on a card: as many as there is room for
TOO_FULL_NOTE = (
    "the arithmetic of so many steps does not fit on one page: "
    f"{opt.out:steps-{PAGE_PLACEHOLDER}.png} makes as many pages as needed"
)
TOO_WIDE_NOTE = (
    f"the numbers of some tables do not fit on one page: {opt.out:steps-{PAGE_PLACEHOLDER}.png} "
    "makes as many pages as needed"
)

MAX_CARDS_IN_ROW = 100  # cards in a row
CARD_GAP, ROW_GAP = 0.18, 0.12  # between two cards
WIDEST_ROW_GAP = 0.4  # where there is room to spare
SUMS_CARD_WIDTHS = (0.22, 0.26, 0.3, 0.36, 0.45, 0.6)  # of the page: so wide may cards with sums be
MAX_CELL_GROWTH = 4.0  # times, at most, that cells become so as to fill a row;
UPRIGHT_CELL_GROWTH = 1.6  # so many give labels room beside each other, which makes cards lower


def page_layout(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    """Return the layout of a picture: a drawing, tables, one section, or a card for
    each section.

    Refuses a page without room for letters in points, and says how large it has to be.
    """
    if look.points is None or look.size is None:
        return _layout(groups, look, captions)
    try:
        return _layout_with_room(groups, look, captions)
    except NoRoomError:
        sizes = (_with_room(groups, look, captions, times) for times in LARGER_PAGES)
        larger = next(filter(None, sizes), None)
        raise NoRoomError(look.points, look.size, larger) from None


def _with_room(
    groups: Sequence[Group], look: Look, captions: Captions, times: float
) -> Size | None:
    """Return a page `times` as large if it has room for letters in points, else None."""
    assert look.size is not None
    size = (times * look.size[0], times * look.size[1])
    with suppress(NoRoomError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _layout_with_room(groups, replace(look, size=size), captions)
        return size
    return None


def _layout_with_room(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    """Return the layout of a picture; refuse one whose words overlap or leave the page."""
    layout = _layout(groups, look, captions)
    if look.points and not words_have_room(layout):
        raise NoRoomError(look.points, layout.size)
    return layout


def _layout(groups: Sequence[Group], look: Look, captions: Captions) -> Layout:
    panels = [panel for group in groups for panel in group.panels]
    if drawing := build_drawing(groups):
        return _drawing_layout(drawing, look, captions)
    if not any(isinstance(each, Section) for each in panels):
        titled_groups = _titled_groups(groups, captions.title)
        return lay_out(panel_orders(titled_groups), look.size, captions, look.text)
    if len(panels) == 1:
        sections = [each for each in panels if isinstance(each, Section)]
        return section_pages(sections, look, captions)[0]
    return _page_of_cards([make_card(each) for each in panels], look, captions)


def _drawing_layout(drawing: Drawing, look: Look, captions: Captions) -> Layout:
    """Return a page with a drawing, headline and captions, as high as it wants if no size is given.

    Refuses what nobody could read there; a note names what has no room.
    """
    like_a_slide = drawing.width, drawing.width * SLIDE[1] / SLIDE[0]
    letters = lettering(look.size or like_a_slide, look.text)
    size = look.size
    if size is None:
        room = make_frame(captions, (drawing.width, HIGHEST_PAGE), letters).room
        size = drawing.width, HIGHEST_PAGE - room[3] + drawing.height(letters, room[2])
    frame = make_frame(captions, size, letters)
    drawing.refuse(frame.room, letters)
    if lost := drawing.crowded_out_text(frame.room, letters):
        warn_with_note(
            f"with so much on one page there is no room for {lost}: "
            f"{opt.out:heads-{PAGE_PLACEHOLDER}.png} makes as many pages as needed"
        )
    return Layout(size, (*drawing.items(frame.room, letters), *frame.words()))


def _titled_groups(groups: Sequence[Group], headline: str) -> list[Group]:
    """Return groups whose grids have titles without what is common to all, or said by
    colour bars; a single one has none if the headline names it.
    """
    panels = [panel for group in groups for panel in group.all_panels]
    grids = [each for each in panels if _has_numbers(each)]
    titles = distinct_titles([g.title for g in grids], [g.scale.label for g in grids])
    if len(panels) == 1 and titles and titles[0] in re.split(r"[\s:,]+", headline):
        titles = [""]
    titled_grids = iter([replace(g, title=title) for g, title in zip(grids, titles, strict=True)])

    def titled(panel: Drawable) -> Drawable:
        return next(titled_grids) if _has_numbers(panel) else panel

    return [group.with_panels(titled) for group in groups]


def _has_numbers(panel: Drawable) -> TypeGuard[Grid]:
    """Return whether a panel is a grid of numbers; a grid of words needs its title."""
    return isinstance(panel, Grid) and not panel.words


def _page_of_cards(cards: Sequence[Card], look: Look, captions: Captions) -> Layout:
    """Return a slide with all cards where they fit on one, else a page that is higher.

    On a page of a size that is given, cards lose sums and numbers, and letters shrink.
    """
    size = look.size or SLIDE
    frames = [_cards_frame(captions, size, each) for each in smaller_text_sizes(look.text)]
    if look.size and look.points:
        return _paper_page(cards, frames[0], look.points)
    if look.size is None:
        readable = _readable_page(cards, frames[0], SUM_LINE_COUNTS[:-1])
        return readable or _grown_page(cards, frames[0], captions)
    return next(
        filter(None, (_readable_page(cards, each, SUM_LINE_COUNTS) for each in frames)), None
    ) or (_thinned_page(cards, frames))


def _paper_page(cards: Sequence[Card], frame: Frame, points: float) -> Layout:
    """Return the cards with no letters smaller than these points: without sums and numbers, if
    those have no room. Refuses a page that has no room for the cards.
    """
    thin_cards = [replace(thin_card(card), fits_keys=False) for card in cards]
    for variant, sums in ((cards, SUM_LINE_COUNTS), (thin_cards, SUM_LINE_COUNTS[-1:])):
        if page := _readable_page(variant, frame, sums):
            return page
    raise AttnvizError(
        f"{counted(len(cards), 'step')} have no room on {inches_text(frame.size)} in letters of "
        f"{points:g} points",
        "choose one of them by its name, such as softmax; a file called steps-{page}.pdf makes as "
        "many pages as needed",
    )


def _cards_frame(captions: Captions, size: Size, text: TextSize) -> Frame:
    """Return a frame whose least size of letters grows with a larger text size."""
    letters = lettering(size, text)
    least = letters.smallest * (max(text.factor, 1.0) if text.points is None else 1.0)
    return make_frame(captions, size, replace(letters, smallest=least))


def sections_fit(sections: Sequence[Section], size: Size, look: Look, captions: Captions) -> bool:
    """Return whether sections have room together on a page of this size, in letters that can be
    read.
    """
    cards = _with_sums([make_card(section) for section in sections], SUM_LINE_COUNTS[0], plain=True)
    frame = _cards_frame(captions, size, look.text)
    return _have_room(cards, frame, MANY_PAGES_SCALE * frame.letters.smallest / CARD_POINTS)


def _readable_page(cards: Sequence[Card], frame: Frame, sums: Sequence[int]) -> Layout | None:
    """Return the cards in letters that can be read, large ones if they have room; else None.

    `sums` are the numbers of lines of sums to try, and more of them are better than larger letters.
    """
    least = frame.letters.smallest / CARD_POINTS
    ways = [_with_sums(cards, most, plain=plain) for most, plain in product(sums, (False, True))]
    if not _have_room(ways[-1], frame, least):
        return None
    best = next(each for each in ways if _have_room(each, frame, least))
    # Small cells become larger before letters do.
    factors = (least * larger for larger in (LETTER_SCALES[-1:] if best[0].fine else LETTER_SCALES))
    return _cards_page(best, frame, next(each for each in factors if _have_room(best, frame, each)))


def _have_room(cards: Sequence[Card], frame: Frame, factor: float) -> bool:
    room = _cards_room(frame, factor)
    return _flow_fits(flow_cards(cards, room[2], 1.0), room)


def _thinned_page(cards: Sequence[Card], frames: Sequence[Frame]) -> Layout:
    """Return a page without sums, then without numbers and keys, at last in smaller letters.

    A note says so.
    """
    warn_with_note(TOO_FULL_NOTE)
    without_numbers = [thin_card(card) for card in cards]
    without_keys = [replace(card, fits_keys=False) for card in without_numbers]
    choices = product((cards, without_numbers, without_keys), frames)
    pages = (_readable_page(variant, frame, [0]) for variant, frame in choices)
    return next(filter(None, pages), None) or _shrunk_page(_with_sums(without_keys, 0), frames[-1])


def _shrunk_page(cards: Sequence[Card], frame: Frame) -> Layout:
    """Return the cards in the largest letters that let everything stand on the page,
    however small.
    """
    factor = frame.letters.smallest / CARD_POINTS
    while not _have_room(cards, frame, factor):
        factor /= SHRINKING_STEP
    return _cards_page(cards, frame, factor)


def _with_sums(cards: Sequence[Card], max_lines: int, *, plain: bool = False) -> list[Card]:
    """Return cards with at most so many lines of sums on each; plain ones have no small print."""
    return [replace(card, max_lines=max_lines, plain=plain or card.fine) for card in cards]


def _cards_page(cards: Sequence[Card], frame: Frame, factor: float) -> Layout:
    """Return the cards, with everything `factor` times as large and cells larger where they can be.

    As few of them as possible stand beside each other, if there are few: that makes them wide.
    """
    room, count = _cards_room(frame, factor), len(cards)
    numbers = range(1 if count <= FEW_CARDS else count, count + 1)
    max_in_row = next(
        each for each in numbers if _flow_fits(flow_cards(cards, room[2], 1.0, each), room)
    )
    flows = (flow_cards(cards, room[2], times, max_in_row) for times in CELL_SCALES)
    *_, best = (each for each in flows if _flow_fits(each, room))
    cards_in_place = (scale_item(item, factor) for item in flow_items(best, room))
    return Layout(frame.size, (*frame.words(), *cards_in_place))


def _cards_room(frame: Frame, factor: float) -> Box:
    """Return what is left for cards that will be `factor` times as large, in inches before that."""
    left, bottom, width, height = (length / factor for length in frame.room)
    return left, bottom, width, height - (RULE if frame.lines_above else 0.0)


def _flow_fits(flow: CardFlow, room: Box) -> bool:
    return flow.width <= room[2] + 1e-3 and flow.height <= room[3] + 1e-3


def _grown_page(cards: Sequence[Card], frame: Frame, captions: Captions) -> Layout:
    """Return a page as wide as a slide, and as high as its cards need: without what makes it too
    high.
    """
    width, factor = frame.size[0], frame.letters.smallest / CARD_POINTS
    room = _cards_room(frame, factor)[2]
    cards = _narrow_cards(cards, room)
    highest_frame = make_frame(captions, (width, HIGHEST_PAGE), frame.letters)
    frame_height = HIGHEST_PAGE - _cards_room(highest_frame, factor)[3] * factor
    for max_lines, plain in ((SUM_LINE_COUNTS[-2], False), (SUM_LINE_COUNTS[-2], True), (0, True)):
        variant = _with_sums(cards, max_lines, plain=plain)
        height = flow_cards(variant, room, 1.0).height * factor + frame_height
        if height <= width * UPRIGHT_ASPECT:
            break
    grown_frame = make_frame(captions, (width, min(height, HIGHEST_PAGE)), frame.letters)
    if height <= HIGHEST_PAGE and _have_room(variant, grown_frame, factor):
        return _cards_page(variant, grown_frame, factor)
    thin_cards = _with_sums([thin_card(card) for card in cards], 0, plain=True)
    height = min(flow_cards(thin_cards, room, 1.0).height * factor + frame_height, HIGHEST_PAGE)
    return _thinned_page(cards, [make_frame(captions, (width, height), frame.letters)])


def _narrow_cards(cards: Sequence[Card], width: float) -> list[Card]:
    """Return cards, with colours in place of numbers where those make a card wider than the page.

    A note says so.
    """
    narrow = [
        each if flow_cards([each], width, 1.0).width <= width else thin_card(each) for each in cards
    ]
    if any(each.fine and not card.fine for each, card in zip(narrow, cards, strict=True)):
        warn_with_note(TOO_WIDE_NOTE)
    return narrow


@dataclass(frozen=True, eq=False)
class CardBox:
    """A card in one of its arrangements: with its tables so placed, and of this width."""

    card: Card
    body: TableBlock
    width: float

    @cached_property
    def height(self) -> float:
        foot = foot_height(self.card, self.width)
        return card_head(self.card, self.width).height + self.body.height + foot


CardChoices = Sequence[CardBox]  # one card in several arrangements, of which one is drawn
CardRow = list[CardBox]


@dataclass(frozen=True, eq=False)
class CardFlow:
    """All cards, in rows of one width."""

    rows: tuple[tuple[CardBox, ...], ...]

    @property
    def heights(self) -> list[float]:
        return [_cards_height(row) for row in self.rows]

    @property
    def height(self) -> float:
        return sum(self.heights) + ROW_GAP * (len(self.rows) - 1)

    @property
    def width(self) -> float:
        return max(_cards_width(row) for row in self.rows)


def flow_cards(
    cards: Sequence[Card], width: float, growth: float, max_in_row: int = MAX_CARDS_IN_ROW
) -> CardFlow:
    """Return the lowest arrangement of cards in rows, at most `max_in_row` beside each other.

    Cells are `growth` times as large as they must be; rows are stretched to `width`.
    """
    choices = [_card_choices(card, width, growth) for card in cards]
    return _stretch_rows(_lowest_rows(choices, width, max_in_row), width)


def _lowest_rows(choices: Sequence[CardChoices], width: float, max_in_row: int) -> list[CardRow]:
    """Return the rows of cards, in their order, that are lowest together.

    They are found for each number of cards from the first on, made from those of fewer.
    """
    best: list[tuple[float, list[CardRow]]] = [(0.0, [])]
    for stop in range(1, len(choices) + 1):
        candidates = []
        for start in reversed(range(max(stop - max_in_row, 0), stop)):
            row = _lowest_row(choices[start:stop], width)
            if start < stop - 1 and _cards_width(row) > width + 1e-6:
                break
            height, rows = best[start]
            candidates.append((height + _cards_height(row) + ROW_GAP, [*rows, row]))
        best.append(min(candidates, key=lambda candidate: round(candidate[0], 3)))
    return best[-1][1]


def _lowest_row(choices: Sequence[CardChoices], width: float) -> CardRow:
    """Return the lowest row of these cards that is no wider than `width`; else the narrowest."""
    heights = sorted({piece.height for choice in choices for piece in choice})
    for height in heights:
        row = [_narrowest_choice(choice, height) for choice in choices]
        if _cards_height(row) <= height and _cards_width(row) <= width + 1e-6:
            return row
    return [min(choice, key=lambda piece: piece.width) for choice in choices]


def _card_choices(card: Card, width: float, growth: float) -> list[CardBox]:
    """Return a card with its tables beside or below each other; and wider, if it has
    sums to break.
    """
    narrow, wide, large = (
        [_card_box(card, each) for each in table_blocks(card.panels, (growth, wider), card.fine)]
        for wider in (1 / growth, UPRIGHT_CELL_GROWTH / growth, 1.0)
    )
    lower = [
        piece for piece, other in zip(wide, narrow, strict=True) if piece.height < other.height
    ]
    choices = [*narrow, *lower, *(large if growth > 1 else ())]
    if not (card.sums and card.max_lines):
        return choices
    widths = [_round_up_width(each * width) for each in SUMS_CARD_WIDTHS]
    return choices + [
        replace(piece, width=each)
        for piece in (narrow[-1], *lower[-1:])
        for each in widths
        if each > piece.width
    ]


def _card_box(card: Card, tables: TableBlock) -> CardBox:
    return CardBox(card, tables, _round_up_width(max(tables.width, least_card_width(card))))


def _round_up_width(width: float) -> float:
    """Return a width, rounded up to a twentieth of an inch, so that cached sizes can
    be used again.
    """
    return math.ceil(width * 20 - 1e-6) / 20


def _narrowest_choice(choice: CardChoices, height: float) -> CardBox:
    """Return the narrowest arrangement of a card that is at most `height` high, or
    else the lowest.
    """
    low = [piece for piece in choice if piece.height <= height]
    return min(low or choice, key=lambda piece: (piece.width if low else 0, piece.height))


def _cards_height(row: Sequence[CardBox]) -> float:
    return max(piece.height for piece in row)


def _cards_width(row: Sequence[CardBox]) -> float:
    return sum(piece.width for piece in row) + CARD_GAP * (len(row) - 1)


def _stretch_rows(rows: Sequence[Sequence[CardBox]], width: float) -> CardFlow:
    """Return rows made as wide as the page, each card by as much, but for those of words alone."""
    stretched_rows = []
    for row in rows:
        growing = [piece for piece in row if piece.body.tables] or row
        extra = max((width - _cards_width(row)) / len(growing), 0.0)
        stretched_rows.append(
            tuple([_widened_card(piece, extra if piece in growing else 0.0) for piece in row])
        )
    return CardFlow(tuple(stretched_rows))


def _widened_card(piece: CardBox, extra: float) -> CardBox:
    """Return a card `extra` inches wider; its cells grow with it, as long as they do not become too
    wide.
    """
    card, tables = piece.card, piece.body
    width = math.floor((piece.width + extra) * 100 + 1e-6) / 100
    if tables.tables:
        (growth, widening), spare = tables.growth, width - tables.width
        most = min(widening * (1 + spare / tables.cells_width), MAX_CELL_GROWTH)
        if (wider := math.floor(most * 10) / 10) > widening:
            larger = table_block(card.panels, tables.across, (growth, wider), card.fine)
            tables = larger if larger.width <= width else tables
    return CardBox(card, tables, width)


def flow_items(flow: CardFlow, room: Box) -> Items:
    """Yield the cards from the top of the room; what is left of it goes between the rows."""
    left, bottom, _, height = room
    top = bottom + height
    spare = max(height - flow.height, 0.0) / len(flow.rows)
    gap = min(ROW_GAP + spare, WIDEST_ROW_GAP)
    for row, high in zip(flow.rows, flow.heights, strict=True):
        x = left
        for piece in row:
            yield from card_items(piece.card, piece.body, x, top, piece.width)
            x += piece.width + CARD_GAP
        top -= high + gap


# By the types that all panels have: a function of the panels, and of how many each layer has.
DRAWINGS: tuple[tuple[tuple[type, ...], Callable[[Any, int], Drawing]], ...] = (
    ((Overview,), lambda panels, per_layer: HeadsDrawing(panels[0])),
    ((LongMap,), LongMapDrawing),
    ((Arcs,), ArcsDrawing),
    ((Sentence,), draw_sentences),
    ((Sentence, RankedBars), lambda panels, per_layer: RankingDrawing(panels)),
)


def build_drawing(groups: Sequence[Group]) -> Drawing | None:
    """Return the drawing of these groups; None if they are panels or sections."""
    panels, per_layer = tuple(p for group in groups for p in group.panels), panels_per_layer(groups)
    if panels and isinstance(panels[0], LongMap) and groups[0].kind == "table":
        per_layer = groups[0].column_count
    for types, draw in DRAWINGS if panels else ():
        if all(isinstance(panel, types) for panel in panels):
            return draw(panels, per_layer)
    kinds = {group.kind for group in groups}
    if "course" in kinds:
        return TrainingDrawing(tuple(groups))
    if "product" in kinds:
        return EquationDrawing(tuple(group for group in groups if group.panels))
    return None
