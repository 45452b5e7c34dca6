"""Tables in lines, with signs between them: how some become others. All lengths are inches.

The cells of a line have one width, so that tables that are cut, or joined, can be recognised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.renderers.picture.items import Box, Layout, Mark, Words, joined
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.numbers import panel_of
from attnviz.renderers.picture.panel_rows import LOWEST_ROW
from attnviz.renderers.picture.texts import MIDDLE, OF_A_HEAD, fitted, labels_at, marks_at
from attnviz.renderers.picture.ticks import PanelStyle, Ticks, no_ticks, row_ticks, text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import JOINED_TABLES, SEPARATE_TABLES, Stages

TITLE = 1.5  # the room for a title, in its letters
START = "start"  # of a line: there is no sign before its first table
BETWEEN = 0.8  # on each side of a sign, and between parts, in letters of the labels
BELOW = 0.6  # from one line to the next, in letters of the labels
STRETCH, SQUEEZE = 2.6, 1.2  # times as wide as high, and as high as wide, cells may be
MANY_ROWS = 5  # tables with more of them are little higher
LOWEST_SHARE = 0.8  # of the height of a line, at most, to which rows of one of its tables grow


@dataclass(frozen=True, eq=False)
class Piece:
    """A table at its place in a line; after another that it is joined with nothing stands."""

    grid: Grid
    sign: str  # before it
    title: str


@dataclass(frozen=True, eq=False)
class StageLine:
    """A line of tables, whose first has the names of its rows beside it."""

    pieces: tuple[Piece, ...]
    style: PanelStyle

    @property
    def rows(self) -> int:
        return max(len(piece.grid.rows) for piece in self.pieces)

    @property
    def columns(self) -> int:
        return sum(len(piece.grid.columns) for piece in self.pieces)

    def ticks(self, height: float) -> Ticks:
        axis = self.pieces[0].grid.rows
        named = any(axis.labels)
        return row_ticks(replace(axis, title=""), height, self.style) if named else no_ticks(axis)

    def fixed(self, height: float) -> float:
        """The width of all that is no cell."""
        return self.ticks(height).extent + sum(
            _width_of_sign(piece.sign, self.style) for piece in self.pieces
        )


def place_stages(
    grids: Sequence[Grid], stages: Stages, room: Box, style: PanelStyle, letters: Lettering
) -> tuple[Layout, float]:
    """The lines one below the other, as large as the room lets them be; and where they end."""
    lines = [StageLine(tuple(_pieces(grids, line)), style) for line in stages]
    return _Setting(tuple(lines), room, letters).layout()


def rows_of_lines(grids: Sequence[Grid], stages: Stages) -> list[int]:
    """How many rows the highest table of each line has."""
    shown = [[grids[place] for place in line if isinstance(place, int)] for line in stages]
    return [max(len(grid.rows) for grid in line) for line in shown]


def _pieces(grids: Sequence[Grid], line: Sequence[int | str]) -> Iterator[Piece]:
    """The tables of a line, each with so much of its title as tells it from its neighbours."""
    signs = [START, *(sign for sign in line if isinstance(sign, str))]
    shown = [grids[place] for place in line if isinstance(place, int)]
    parts = [_parts(grid.title) for grid in shown]
    of_one = len({part for part, head in parts if head}) == 1
    for number, (grid, sign, (part, head)) in enumerate(zip(shown, signs, parts, strict=True)):
        before = parts[number - 1] if number else ("", "")
        if not head or [*signs, START][number + 1] == JOINED_TABLES:
            title = part
        elif of_one:
            title = head
        else:
            title = f"{head}: {part}" if before[1] != head else part
        yield Piece(grid, sign, "" if head and sign == JOINED_TABLES else title)


def _parts(title: str) -> tuple[str, str]:
    """What a table shows, and of which head, if it is of one."""
    match = OF_A_HEAD.match(title)
    return (match["part"], match["rest"]) if match else (title, "")


def _width_of_sign(sign: str, style: PanelStyle) -> float:
    between = BETWEEN * style.label * POINT
    if sign in (START, JOINED_TABLES):
        return 0.0
    return (
        between
        if sign == SEPARATE_TABLES
        else 2 * between + text_width(sign, _size_of_sign(sign, style))
    )


def _size_of_sign(sign: str, style: PanelStyle) -> float:
    return style.title * (2.0 if sign == "·" else 1.2)


@dataclass(frozen=True, eq=False)
class _Setting:
    """Lines in a room."""

    lines: tuple[StageLine, ...]
    room: Box
    letters: Lettering

    @property
    def title(self) -> float:
        return TITLE * self.letters.axis * POINT

    @property
    def gap(self) -> float:
        return BELOW * self.letters.label * POINT

    @cached_property
    def wide(self) -> list[float]:
        """How wide a cell of each line is: labels take width, and have their size from the rows."""
        return [
            self._wide(line, share) for line, share in zip(self.lines, self.shares, strict=True)
        ]

    def _wide(self, line: StageLine, share: float) -> float:
        wide = self.room[2] / line.columns
        for _ in range(3):
            left = self.room[2] - line.fixed(self._cell(line.pieces[0].grid, line, wide))
            wide = min(
                max(left / line.columns, 0.01), STRETCH * share * line.rows / self._few(line)
            )
        return wide

    def _few(self, line: StageLine) -> int:
        """So many rows of the usual height are as high as all of a line."""
        return min(line.rows, MANY_ROWS)

    @cached_property
    def shares(self) -> list[float]:
        """How high a cell of each line can be: one of very many rows takes less for each."""
        taken = len(self.lines) * self.title + (len(self.lines) - 1) * self.gap
        parts = [self._few(line) for line in self.lines]
        unit = max((self.room[3] - taken) / sum(parts), 0.02)
        return [unit * part / line.rows for part, line in zip(parts, self.lines, strict=True)]

    def _high(self, line: StageLine, wide: float) -> float:
        """How high most cells of a line are."""
        share = self.shares[self.lines.index(line)]
        return min(share, max(SQUEEZE * wide, LOWEST_ROW))

    def _cell(self, grid: Grid, line: StageLine, wide: float) -> float:
        """As high as all in its line; higher beside one of many rows, which are less high."""
        high, most = self._high(line, wide), max(SQUEEZE * wide, LOWEST_ROW)
        tall = line.rows * high
        return max(high, min(LOWEST_SHARE * tall / len(grid.rows), tall / self._few(line), most))

    def layout(self) -> tuple[Layout, float]:
        _, bottom, _, height = self.room
        pairs = list(zip(self.lines, self.wide, strict=True))
        tall = [line.rows * self._high(line, wide) for line, wide in pairs]
        gaps = len(self.lines) - 1
        taken = sum(tall) + len(self.lines) * self.title + gaps * self.gap
        spare = max((height - taken) / (gaps + 1), 0.0) if gaps else 0.0
        top, drawn = bottom + height, []
        for (line, wide), high in zip(pairs, tall, strict=True):
            top -= self.title
            drawn.append(self._line(line, wide, top - high / 2))
            top -= high + self.gap + spare
        whole = joined(drawn)
        return whole, max(panel.box[0] + panel.box[2] for panel in whole.panels)

    def _line(self, line: StageLine, wide: float, middle: float) -> Layout:
        ticks = line.ticks(self._cell(line.pieces[0].grid, line, wide))
        x, drawn = self.room[0] + ticks.extent, []
        for piece in line.pieces:
            sign = _width_of_sign(piece.sign, line.style)
            rows, columns = piece.grid.cells.shape
            tall = rows * self._cell(piece.grid, line, wide)
            box = (x + sign, middle - tall / 2, columns * wide, tall)
            words = [*_sign(piece, x + sign / 2, middle, line.style)]
            marks: list[Mark] = []
            if piece is line.pieces[0]:
                none = no_ticks(piece.grid.columns)
                words += labels_at(ticks, none, box, line.style)
                marks += marks_at(ticks, none, box)
            panel = panel_of(piece.grid, box, self.letters.number, self.letters.smallest)
            drawn.append(Layout((0.0, 0.0), (panel,), (), (), tuple(words), tuple(marks)))
            x += sign + columns * wide
        return joined([*drawn, self._titles(line, [each.panels[0].box for each in drawn])])

    def _titles(self, line: StageLine, boxes: Sequence[Box]) -> Layout:
        """Above each table, or the first of those that are joined; short where room is."""
        titles = [piece.title for piece in line.pieces]
        starts = [place for place, title in enumerate(titles) if title]
        stops = [*starts[1:], len(boxes)]
        between = 0.7 * BETWEEN * line.style.label * POINT
        rooms = [
            boxes[stop - 1][0] + boxes[stop - 1][2] + between - boxes[start][0]
            for start, stop in zip(starts, stops, strict=True)
        ]
        named = _named([titles[start] for start in starts], rooms, self.letters)
        words = [
            Words(text, x, y + height + 0.4 * size * POINT, size)
            for (text, size), (x, y, _, height) in zip(
                named, (boxes[start] for start in starts), strict=True
            )
        ]
        return Layout((0.0, 0.0), (), (), (), tuple(words), ())


def _named(
    titles: Sequence[str], rooms: Sequence[float], letters: Lettering
) -> list[tuple[str, float]]:
    """All titles in letters of one size; `head 1` as `1` where there is less room."""
    short = [title.removeprefix("head ") for title in titles]
    for each in (titles, short):
        pairs = zip(each, rooms, strict=True)
        size = min(room / max(text_width(title, 1.0), 1e-6) for title, room in pairs)
        if size >= letters.smallest:
            return [(title, min(size, letters.axis)) for title in each]
    pairs = zip(short, rooms, strict=True)
    return [fitted(title, letters.smallest, letters.smallest, room) for title, room in pairs]


def _sign(piece: Piece, x: float, middle: float, style: PanelStyle) -> Iterator[Words]:
    if piece.sign not in (START, JOINED_TABLES, SEPARATE_TABLES):
        size = _size_of_sign(piece.sign, style)
        yield Words(piece.sign, x, middle - MIDDLE * size * POINT, size, across="center")
