"""Cards in rows, one after another like words in a paragraph; all lengths are inches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.renderers.picture.card_tables import Body, bodies, body
from attnviz.renderers.picture.cards import Card, draw_card, head, height_of_foot, least_width
from attnviz.renderers.picture.placed import Box, Layout, joined

MOST_BESIDE = 100  # cards in a row
CARD_GAP, ROW_GAP = 0.18, 0.12  # between two cards
WIDEST_ROW_GAP = 0.4  # where there is room to spare
WIDTHS_OF_SUMS = (0.22, 0.26, 0.3, 0.36, 0.45, 0.6)  # of the page: so wide may cards with sums be
WIDER = 4.0  # times, at most, that cells become so as to fill a row;
UPRIGHT = 1.6  # so many give labels room beside each other, which makes cards lower


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
    return _filled(_lowest(choices, width, beside), width)


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
        for wider in (1 / grown, UPRIGHT / grown, 1.0)
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


def _filled(rows: Sequence[Sequence[Piece]], width: float) -> Flow:
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
