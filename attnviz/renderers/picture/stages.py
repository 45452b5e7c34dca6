"""Rows of tables with signs between them: how one becomes the next; in inches.

The cells of a line have one width, so that tables that are cut, or joined, can be recognised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnviz.renderers.picture.items import Box, Item, Items, Words, panel_boxes
from attnviz.renderers.picture.matrix import PART_OF_HEAD, build_panel, largest_cell, product_marks
from attnviz.renderers.picture.panel_labels import (
    PanelStyle,
    Ticks,
    axis_items,
    column_ticks,
    no_ticks,
    row_ticks,
)
from attnviz.renderers.picture.panel_rows import LOWEST_ROW
from attnviz.renderers.picture.text import MIDDLE, POINT, Lettering, fit_line, text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import JOINED_TABLES, SEPARATE_TABLES, Stages

TITLE_HEIGHT = 1.5  # the room for a title, in its letters
LINE_START = "start"  # of a line: there is no sign before its first table
PRODUCT_SIGNS = (LINE_START, "·", "=")
SIGN_GAP = 0.8  # on each side of a sign, and between parts, in letters of the labels
LINES_GAP = 0.6  # from one line to the next, in letters of the labels
STRETCH, SQUEEZE = 2.6, 1.2  # times as wide as high, and as high as wide, cells may be
LABELS_SHARE = 0.25  # of a room's height, at most, for the labels of columns
MAX_FULL_ROWS = 5  # tables with more of them are little higher
# Of the height of a line, at most, to which rows of one of its tables grow
LINE_SHARE_OF_ROWS = 0.8


@dataclass(frozen=True, eq=False)
class StagePiece:
    """A table in a line, the sign before it, and its title; empty if a joined table before it has
    one.
    """

    grid: Grid
    sign: str  # before it
    title: str


@dataclass(frozen=True, eq=False)
class StageLine:
    """A line of tables; the labels of its rows stand beside the first of them."""

    pieces: tuple[StagePiece, ...]
    style: PanelStyle

    @property
    def rows(self) -> int:
        return max(len(piece.grid.rows) for piece in self.pieces)

    @property
    def columns(self) -> int:
        return sum(len(piece.grid.columns) for piece in self.pieces)

    def ticks(self, height: float) -> Ticks:
        """Return the labels of the first table's rows, each `height` inches high; none without
        names.
        """
        axis = self.pieces[0].grid.rows
        has_names = any(axis.labels)
        return row_ticks(axis, height, self.style).untitled if has_names else no_ticks(axis)

    def ticks_below(self, piece: StagePiece, width: float) -> Ticks:
        """Return the labels of the columns of a table, each `width` inches wide."""
        return column_ticks(piece.grid.columns, width, self.style).untitled

    def fixed_width(self, height: float) -> float:
        """Return the width of the labels and signs beside its cells, if a row is `height` inches
        high.
        """
        return self.ticks(height).extent + sum(
            _stage_sign_width(piece.sign, self.style) for piece in self.pieces
        )


def stage_items(
    grids: Sequence[Grid], stages: Stages, room: Box, style: PanelStyle, letters: Lettering
) -> tuple[list[Item], float]:
    """Return the lines of tables below each other, as large as the room lets them be; and the right
    end.
    """
    lines = [StageLine(tuple(_stage_pieces(grids, line)), style) for line in stages]
    return _StageRoom(tuple(lines), room, letters).layout()


def rows_per_line(grids: Sequence[Grid], stages: Stages) -> list[int]:
    tables = [[grids[index] for index in line if isinstance(index, int)] for line in stages]
    return [max(len(grid.rows) for grid in line) for line in tables]


def _stage_pieces(grids: Sequence[Grid], line: Sequence[int | str]) -> Iterator[StagePiece]:
    """Yield the tables of a line, each with so much of its title as tells it from its neighbours.

    The line holds places in `grids` with signs between them, such as `=`.
    """
    signs = [LINE_START, *(sign for sign in line if isinstance(sign, str))]
    tables = [grids[index] for index in line if isinstance(index, int)]
    parts = [_title_parts(grid.title) for grid in tables]
    one_head = len({part for part, head in parts if head}) == 1
    for number, (grid, sign, (part, head)) in enumerate(zip(tables, signs, parts, strict=True)):
        previous = parts[number - 1] if number else ("", "")
        if not head or [*signs, LINE_START][number + 1] == JOINED_TABLES:
            title = part
        elif one_head:
            title = head
        else:
            title = f"{head}: {part}" if previous[1] != head else part
        yield StagePiece(grid, sign, "" if head and sign == JOINED_TABLES else title)


def _title_parts(title: str) -> tuple[str, str]:
    """Return what a table shows and of which head, such as ('queries', 'head 0'); else its title
    and ''.
    """
    match = PART_OF_HEAD.match(title)
    return (match["part"], match["rest"]) if match else (title, "")


def _stage_sign_width(sign: str, style: PanelStyle) -> float:
    """Return the inches that a sign takes with the gaps around it; 0 before a first or a joined
    table.
    """
    between = SIGN_GAP * style.label * POINT
    if sign in (LINE_START, JOINED_TABLES):
        return 0.0
    if sign == SEPARATE_TABLES:
        return between
    return 2 * between + text_width(sign, _stage_sign_size(sign, style))


def _stage_sign_size(sign: str, style: PanelStyle) -> float:
    return style.title * (2.0 if sign == "·" else 1.2)


@dataclass(frozen=True, eq=False)
class _StageRoom:
    """The layout of lines of tables in a room: how large cells are, and where each table stands."""

    lines: tuple[StageLine, ...]
    room: Box
    letters: Lettering

    @property
    def title_height(self) -> float:
        return TITLE_HEIGHT * self.letters.axis * POINT

    @property
    def line_gap(self) -> float:
        return LINES_GAP * self.letters.label * POINT

    def _width(self, line: StageLine, share: float) -> float:
        """Return the width of a cell of a line whose cells are at most `share` inches high: what
        labels and signs leave, up to a multiple of its height.
        """
        wide = self.room[2] / line.columns
        for _ in range(3):
            free = self.room[2] - line.fixed_width(
                self._cell_height(line.pieces[0].grid, line, wide)
            )
            wide = min(
                max(free / line.columns, 0.01), STRETCH * share * line.rows / self._row_part(line)
            )
        return wide

    def _row_part(self, line: StageLine) -> int:
        """Return how many rows of usual height a line counts as: its own number, up to five."""
        return min(line.rows, MAX_FULL_ROWS)

    @cached_property
    def limits(self) -> list[float]:
        """The greatest height of a cell in each line; a line of very many rows has lower ones."""
        used_height = len(self.lines) * self.title_height + (len(self.lines) - 1) * self.line_gap
        used_height += self._labels_height
        parts = [self._row_part(line) for line in self.lines]
        unit = max((self.room[3] - used_height) / sum(parts), 0.02)
        return [unit * part / line.rows for part, line in zip(parts, self.lines, strict=True)]

    @property
    def _labels_height(self) -> float:
        """The room below a single line for the labels of its columns; of many lines none have."""
        if len(self.lines) > 1:
            return 0.0
        [line] = self.lines
        narrow = self.room[2] / (line.columns + len(line.pieces))
        extents = [line.ticks_below(piece, narrow).extent for piece in line.pieces]
        return min(max(extents), LABELS_SHARE * self.room[3])

    def _row_height(self, line: StageLine, wide: float) -> float:
        share = self.limits[self.lines.index(line)]
        return min(share, max(SQUEEZE * wide, LOWEST_ROW))

    def _cell_height(self, grid: Grid, line: StageLine, wide: float) -> float:
        """Return the height of the cells of one table: as in its line, higher beside a table of
        many rows.
        """
        high, most = self._row_height(line, wide), max(SQUEEZE * wide, LOWEST_ROW)
        tall = line.rows * high
        return max(
            high, min(LINE_SHARE_OF_ROWS * tall / len(grid.rows), tall / self._row_part(line), most)
        )

    def layout(self) -> tuple[list[Item], float]:
        """Return all items, lines spread over the height of the room, and where the last panel
        ends.
        """
        _, bottom, _, height = self.room
        widths = map(self._width, self.lines, self.limits)
        pairs = list(zip(self.lines, widths, strict=True))
        heights = [line.rows * self._row_height(line, wide) for line, wide in pairs]
        gaps = len(self.lines) - 1
        used_height = sum(heights) + len(self.lines) * self.title_height + gaps * self.line_gap
        spare = max((height - used_height) / (gaps + 1), 0.0) if gaps else 0.0
        top, items = bottom + height, list[Item]()
        for (line, wide), high in zip(pairs, heights, strict=True):
            top -= self.title_height
            items += self._line_items(line, wide, top - high / 2)
            top -= high + self.line_gap + spare
        return items, max(box[0] + box[2] for box in panel_boxes(items))

    def _line_items(self, line: StageLine, wide: float, middle: float) -> Items:
        """Yield the tables of a line, centred at the height `middle`, with labels, signs and
        titles.
        """
        ticks = line.ticks(self._cell_height(line.pieces[0].grid, line, wide))
        x, boxes = self.room[0] + ticks.extent, list[Box]()
        for piece in line.pieces:
            sign = _stage_sign_width(piece.sign, line.style)
            rows, columns = piece.grid.cells.shape
            tall = rows * self._cell_height(piece.grid, line, wide)
            box = (x + sign, middle - tall / 2, columns * wide, tall)
            yield build_panel(piece.grid, box, self.letters.number, self.letters.smallest)
            yield from _stage_sign(piece, x + sign / 2, middle, line.style)
            below = line.ticks_below(piece, wide)
            if len(self.lines) > 1 or box[1] - below.extent < self.room[1]:
                below = no_ticks(piece.grid.columns)
            beside = ticks if piece is line.pieces[0] else no_ticks(piece.grid.rows)
            yield from axis_items(beside, below, box, line.style)
            boxes.append(box)
            x += sign + columns * wide
        yield from self._title_words(line, boxes)
        grids, signs = zip(*((piece.grid, piece.sign) for piece in line.pieces), strict=True)
        cell = largest_cell(grids[-1])
        if len(self.lines) == 1 and signs == PRODUCT_SIGNS and cell:
            shapes = [grid.cells.shape for grid in grids]
            yield from product_marks([*zip(boxes, shapes, strict=True)], *cell)

    def _title_words(self, line: StageLine, boxes: Sequence[Box]) -> Iterator[Words]:
        """Yield a title above each table, or the first of those that are joined; short where room
        is.
        """
        titles = [piece.title for piece in line.pieces]
        starts = [index for index, title in enumerate(titles) if title]
        stops = [*starts[1:], len(boxes)]
        between = 0.7 * SIGN_GAP * line.style.label * POINT
        rooms = [
            boxes[stop - 1][0] + boxes[stop - 1][2] + between - boxes[start][0]
            for start, stop in zip(starts, stops, strict=True)
        ]
        texts = _fitted_titles([titles[start] for start in starts], rooms, self.letters)
        for (text, size), start in zip(texts, starts, strict=True):
            x, y, _, height = boxes[start]
            yield Words(text, x, y + height + 0.4 * size * POINT, size)


def _fitted_titles(
    titles: Sequence[str], rooms: Sequence[float], letters: Lettering
) -> list[tuple[str, float]]:
    """Return titles with their size in points, the same for all; `head 1` as `1` to save room.

    If even these are too wide, each is cut at the smallest size.
    """
    short = [title.removeprefix("head ") for title in titles]
    for texts in (titles, short):
        pairs = zip(texts, rooms, strict=True)
        size = min(room / max(text_width(title, 1.0), 1e-6) for title, room in pairs)
        if size >= letters.smallest:
            return [(title, min(size, letters.axis)) for title in texts]
    pairs = zip(short, rooms, strict=True)
    return [fit_line(title, letters.smallest, letters.smallest, room) for title, room in pairs]


def _stage_sign(piece: StagePiece, x: float, middle: float, style: PanelStyle) -> Iterator[Words]:
    """Yield the sign before a table, centred at (x, middle); nothing if no sign is drawn there."""
    if piece.sign not in (LINE_START, JOINED_TABLES, SEPARATE_TABLES):
        size = _stage_sign_size(piece.sign, style)
        yield Words(piece.sign, x, middle - MIDDLE * size * POINT, size, halign="center")
