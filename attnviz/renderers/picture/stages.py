"""Tables in lines, with signs between them: how some become others. All lengths are inches.

The cells of all of them have one size, so that tables that are cut, or joined, can be recognised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.renderers.picture.labels import MIDDLE, labels_at, marks_at
from attnviz.renderers.picture.layout import STRETCH
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.numbers import panel_of
from attnviz.renderers.picture.placed import Box, Layout, Mark, Words, joined
from attnviz.renderers.picture.texts import OF_A_HEAD, fitted
from attnviz.renderers.picture.ticks import PanelStyle, Ticks, no_ticks, row_ticks, text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import APART, JOINED, Stages

TITLE = 1.6  # the room for a title, in its letters
BETWEEN = 0.8  # on each side of a sign, and between parts, in letters of the labels
BELOW = 0.9  # from one line to the next, in letters of the labels
SQUEEZE = 1.2  # times as high as wide cells may be


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


def _pieces(grids: Sequence[Grid], line: Sequence[int | str]) -> Iterator[Piece]:
    """The tables of a line; of some that are joined the first has the title of all."""
    signs = ["", *(sign for sign in line if isinstance(sign, str))]
    places = [place for place in line if isinstance(place, int)]
    for number, (place, sign) in enumerate(zip(places, signs, strict=True)):
        title, match = grids[place].title, OF_A_HEAD.match(grids[place].title)
        starts = [*signs, ""][number + 1] == JOINED
        if match and sign == JOINED:
            title = ""
        elif match:
            title = match["part"] if starts else match["rest"]
        yield Piece(grids[place], sign, title)


def _width_of_sign(sign: str, style: PanelStyle) -> float:
    between = BETWEEN * style.label * POINT
    if sign in ("", JOINED):
        return 0.0
    return between if sign == APART else 2 * between + text_width(sign, style.title * 1.2)


@dataclass(frozen=True, eq=False)
class _Setting:
    """Lines in a room."""

    lines: tuple[StageLine, ...]
    room: Box
    letters: Lettering

    @property
    def title(self) -> float:
        return TITLE * self.letters.label * POINT

    @property
    def gap(self) -> float:
        return BELOW * self.letters.label * POINT

    @cached_property
    def cell(self) -> tuple[float, float]:
        """How wide and high a cell is: labels take width, and are as large as rows are high."""
        rows = sum(line.rows for line in self.lines)
        taken = len(self.lines) * self.title + (len(self.lines) - 1) * self.gap
        high = max((self.room[3] - taken) / rows, 0.02)
        wide = min((self.room[2] - line.fixed(high)) / line.columns for line in self.lines)
        wide = min(max(wide, 0.01), STRETCH * high)
        return wide, min(high, SQUEEZE * wide)

    def layout(self) -> tuple[Layout, float]:
        wide, high = self.cell
        left, bottom, _, height = self.room
        taken = sum(self.title + line.rows * high for line in self.lines)
        gaps = len(self.lines) - 1
        spare = max((height - taken - gaps * self.gap) / (gaps + 1), 0.0) if gaps else 0.0
        top, drawn, right = bottom + height, [], left
        for line in self.lines:
            top -= self.title
            drawn.append(self._line(line, top))
            right = max(right, left + line.fixed(high) + line.columns * wide)
            top -= line.rows * high + self.gap + spare
        return joined(drawn), right

    def _line(self, line: StageLine, top: float) -> Layout:
        wide, high = self.cell
        middle, ticks = top - line.rows * high / 2, line.ticks(high)
        x, drawn = self.room[0] + ticks.extent, []
        for piece in line.pieces:
            sign = _width_of_sign(piece.sign, line.style)
            rows, columns = piece.grid.cells.shape
            box = (x + sign, middle - rows * high / 2, columns * wide, rows * high)
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
        """Each as small as its table, and those that are joined with it, want it to be."""
        words = []
        starts = [place for place, piece in enumerate(line.pieces) if piece.title]
        for start, stop in zip(starts, [*starts[1:], len(boxes)], strict=True):
            right = boxes[stop - 1][0] + boxes[stop - 1][2] + BETWEEN * line.style.label * POINT
            size, room = self.letters.label, right - boxes[start][0]
            text, size = fitted(line.pieces[start].title, size, self.letters.smallest, room)
            y = boxes[start][1] + boxes[start][3] + 0.45 * size * POINT
            words.append(Words(text, boxes[start][0], y, size))
        return Layout((0.0, 0.0), (), (), (), tuple(words), ())


def _sign(piece: Piece, x: float, middle: float, style: PanelStyle) -> Iterator[Words]:
    if piece.sign.strip() and piece.sign != JOINED:
        size = style.title * 1.2
        yield Words(piece.sign, x, middle - MIDDLE * size * POINT, size, across="center")
