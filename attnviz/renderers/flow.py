"""Panels in rows, one after another like words in a paragraph; all lengths are inches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnviz.renderers.blocks import Block, Body, bodies, body, draw_block, head, least_width
from attnviz.renderers.layout import Box, Layout, joined

BLOCK_GAP, ROW_GAP = 0.28, 0.12  # between two panels
WIDEST_ROW_GAP = 0.4  # where there is room to spare
MOST_HEIGHTS = 10  # of panels, that are tried
FILLED = (1.0, 0.94, 0.88, 0.8, 0.7)  # of a row, at most: rows that are alike look better
WIDER = 1.4  # times, that cells become so as to fill a row


@dataclass(frozen=True, eq=False)
class Piece:
    """A block in its place in a row."""

    block: Block
    body: Body
    width: float

    @property
    def height(self) -> float:
        return head(self.block, self.width).height + self.body.height


@dataclass(frozen=True, eq=False)
class Flow:
    """All panels, in rows of one width."""

    rows: tuple[tuple[Piece, ...], ...]

    @property
    def heights(self) -> list[float]:
        return [max(piece.height for piece in row) for row in self.rows]

    @property
    def height(self) -> float:
        return sum(self.heights) + ROW_GAP * (len(self.rows) - 1)

    @property
    def width(self) -> float:
        return max(_width(row) for row in self.rows)


def flow(blocks: Sequence[Block], width: float, grown: float, columns: int | None) -> Flow:
    """The lowest of all ways to set the blocks in rows; one too wide only where none is not."""
    made = [_filled(rows, width) for rows in _ways(blocks, width, grown, columns)]
    return min(made, key=lambda each: (max(each.width, width + 1e-6), round(each.height, 3)))


def _ways(
    blocks: Sequence[Block], width: float, grown: float, columns: int | None
) -> Iterator[list[list[Piece]]]:
    """Blocks up to some height, each as narrow as that allows, in rows more or less full."""
    choices = [[_piece(block, each) for each in bodies(block, grown)] for block in blocks]
    heights = sorted({round(piece.height, 3) for choice in choices for piece in choice})
    for height in heights[:: math.ceil(len(heights) / MOST_HEIGHTS)]:
        pieces = [_narrowest(choice, height, width) for choice in choices]
        if columns:
            yield [pieces[start : start + columns] for start in range(0, len(pieces), columns)]
            continue
        yield from (_in_rows(pieces, width * share) for share in FILLED)


def _piece(block: Block, made: Body) -> Piece:
    return Piece(block, made, _rounded_up(max(made.width, least_width(block))))


def _rounded_up(width: float) -> float:
    """To a twentieth, so that much is alike and need not be found out again."""
    return math.ceil(width * 20 - 1e-6) / 20


def _narrowest(choice: Sequence[Piece], height: float, width: float) -> Piece:
    able = [piece for piece in choice if piece.width <= width]
    if not able:
        return min(choice, key=lambda piece: piece.width)
    low = [piece for piece in able if piece.height <= height + 1e-3]
    if not low:
        return min(able, key=lambda piece: piece.height)
    return min(low, key=lambda piece: (piece.width, piece.height))


def _in_rows(pieces: Sequence[Piece], most: float) -> list[list[Piece]]:
    rows: list[list[Piece]] = []
    for piece in pieces:
        if rows and _width([*rows[-1], piece]) <= most + 1e-6:
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return rows


def _width(row: Sequence[Piece]) -> float:
    return sum(piece.width for piece in row) + BLOCK_GAP * (len(row) - 1)


def _filled(rows: Sequence[Sequence[Piece]], width: float) -> Flow:
    """Rows made as wide as the page, each panel by the same share."""
    made = []
    for row in rows:
        gaps = BLOCK_GAP * (len(row) - 1)
        share = max((width - gaps) / (_width(row) - gaps), 1.0)
        made.append(tuple(_widened(piece, share) for piece in row))
    return Flow(tuple(made))


def _widened(piece: Piece, share: float) -> Piece:
    """A panel with more room; it goes to the cells, as long as they do not become too wide."""
    width = math.floor(piece.width * share * 100 + 1e-6) / 100
    if not piece.body.tables:
        return Piece(piece.block, piece.body, width)
    spare = width - piece.body.width
    wider = math.floor(min(1 + spare / piece.body.cells, WIDER) * 10) / 10
    first = piece.body
    made = body(piece.block, first.across, first.grown, wider) if wider > 1 else first
    return Piece(piece.block, made if made.width <= width else first, width)


def draw_flow(made: Flow, room: Box) -> Layout:
    """The panels from the top of the room; what is left of it goes between the rows."""
    left, bottom, _, height = room
    top = bottom + height
    spare = max(height - made.height, 0.0) / len(made.rows)
    gap = min(ROW_GAP + spare, WIDEST_ROW_GAP)
    drawn = []
    for row, high in zip(made.rows, made.heights, strict=True):
        x = left
        for piece in row:
            drawn.append(draw_block(piece.block, piece.body, x, top, piece.width))
            x += piece.width + BLOCK_GAP
        top -= high + gap
    return joined(drawn)
