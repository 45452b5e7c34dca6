"""Upright bars, a row of them below the other, over the same names; all lengths are inches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnviz.renderers.picture.items import Block, Box, Layout, Stroke, Tint, Words, empty_layout
from attnviz.renderers.picture.lettering import POINT, Lettering, typeset
from attnviz.renderers.picture.texts import BOLD, fitted
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.section import ColumnChart, ColumnChartRow

LINE = 1.35  # from one line of text to the next, in letters
BESIDE = 0.8  # of a letter: between the names of rows, the bars, and the sums
GAP = 0.7  # of a letter: between two rows
BAR = 0.56  # of the room of a column
WIDEST_BAR = 5.0  # letters
THIN = 1.0  # points
SHARE = 0.94  # of its room a label takes at most
LEAST_ROW = 4.2  # letters: two numbers, a bar between them, and the gap to the next row
LEVEL, UPRIGHT = (0, "center", "baseline"), (90, "right", "center")
SMALL = 0.75  # of the letters of labels: smaller names stand upright
HIDDEN = 0.6  # of a line: how high a bar is drawn for what a mask hides
EMPTY = 0.08  # of a row: where nothing in it is above 0


def place_columns(columns: ColumnChart, room: Box, letters: Lettering) -> Layout:
    """All rows are of one height; a name stands below its column.

    Letters are smaller where numbers and names would leave no room for the bars.
    """
    needed = (len(columns.rows) * LEAST_ROW + LINE + GAP) * letters.label * POINT
    share = min(1.0, room[3] / needed)
    return _Drawing(columns, room, letters.scaled(share)).layout()


@dataclass(frozen=True)
class _Drawing:
    columns: ColumnChart
    room: Box
    letters: Lettering

    @property
    def letter(self) -> float:
        return self.letters.label * POINT

    @property
    def left(self) -> float:
        """Where the bars begin: behind the names of the rows."""
        widest = max(BOLD * text_width(row.name, self.letters.label) for row in self.columns.rows)
        return self.room[0] + widest + BESIDE * self.letter

    @property
    def step(self) -> float:
        """The room of one column."""
        totals = [text_width(row.total, self.letters.axis) for row in self.columns.rows]
        right = self.room[0] + self.room[2] - max(totals) - BESIDE * self.letter
        return (right - self.left) / len(self.columns.names)

    def middle(self, place: int) -> float:
        return self.left + (place + 0.5) * self.step

    def layout(self) -> Layout:
        rows = self.columns.rows
        below = self._names_height + GAP * self.letter
        high = (self.room[3] - below) / len(rows) - GAP * self.letter
        blocks: list[Block] = []
        words = [*self._names()]
        strokes: list[Stroke] = []
        for place, row in enumerate(rows):
            top = self.room[1] + self.room[3] - place * (high + GAP * self.letter)
            drawn = _Row(self, row, top, high)
            blocks += drawn.blocks()
            words += drawn.words()
            strokes.append(drawn.line())
        return replace(
            empty_layout(), blocks=tuple(blocks), words=tuple(words), strokes=tuple(strokes)
        )

    @property
    def _upright(self) -> bool:
        """Whether the names are too long to stand beside each other in large letters."""
        return self.small_enough(self.columns.names) < SMALL * self.letters.label

    @property
    def name_size(self) -> float:
        if self._upright:
            return min(self.letters.label, SHARE * self.step / POINT)
        return self.small_enough(self.columns.names)

    def small_enough(self, texts: tuple[str, ...]) -> float:
        """The size in which each of these has room in its column."""
        widest = max((text_width(typeset(text), 1.0) for text in texts), default=0.0)
        return min(self.letters.label, SHARE * self.step / max(widest, 1e-9))

    @property
    def number_size(self) -> float:
        return self.small_enough(
            tuple(text for row in self.columns.rows for text in row.value_texts)
        )

    @property
    def _names_height(self) -> float:
        if not self._upright:
            return LINE * self.letter
        return max(text_width(name, self.name_size) for name in self.columns.names)

    def _names(self) -> Iterator[Words]:
        foot = self.room[1] + (self._names_height if self._upright else 0.35 * self.letter)
        angle, across, along = UPRIGHT if self._upright else LEVEL
        for place, name in enumerate(self.columns.names):
            x = self.middle(place)
            yield Words(name, x, foot, self.name_size, angle=angle, across=across, along=along)


@dataclass(frozen=True)
class _Row:
    """One row: its bars stand on a line, or hang from it where they are below 0."""

    drawing: _Drawing
    row: ColumnChartRow
    top: float
    height: float

    @property
    def size(self) -> float:
        return self.drawing.number_size

    @property
    def _reach(self) -> tuple[float, float]:
        """The lowest and the highest number, 0 being between them."""
        values = [value for value in self.row.values if value is not None]
        return min(0.0, *values, 0.0), max(0.0, *values, 0.0)

    @property
    def _unit(self) -> float:
        """Inches of 1: numbers need a line above the bars, and below those that hang."""
        low, high = self._reach
        lines = 1 + (low < 0)
        return max(self.height - lines * self._line, 0.1) / ((high - low) or 1.0)

    @property
    def _line(self) -> float:
        return LINE * self.size * POINT

    @property
    def zero(self) -> float:
        low, high = self._reach
        if not high - low:
            return self.top - self.height * (1 - EMPTY)
        return self.top - self._line - high * self._unit

    def blocks(self) -> Iterator[Block]:
        wide = min(BAR * self.drawing.step, WIDEST_BAR * self.drawing.letter)
        for place, value in enumerate(self.row.values):
            if value is None:
                box = (self.drawing.middle(place) - wide / 2, self.zero, wide, HIDDEN * self._line)
                yield Block(box, Tint(self.row.scale, None))
            elif value:
                long = abs(value) * self._unit
                foot = self.zero - (long if value < 0 else 0.0)
                left = self.drawing.middle(place) - wide / 2
                yield Block((left, foot, wide, long), Tint(self.row.scale, value), outlined=THIN)

    def line(self) -> Stroke:
        left, step = self.drawing.left, self.drawing.step
        right = left + step * len(self.row.values)
        return Stroke(((left, self.zero), (right, self.zero)), THIN)

    def words(self) -> Iterator[Words]:
        drawing, letters = self.drawing, self.drawing.letters
        size = self.size * POINT
        for place, (value, text) in enumerate(
            zip(self.row.values, self.row.value_texts, strict=True)
        ):
            end = self.zero + (HIDDEN * self._line if value is None else value * self._unit)
            y = end - 1.05 * size if value is not None and value < 0 else end + 0.3 * size
            x, hidden = drawing.middle(place), value is None
            yield Words(typeset(text), x, y, self.size, across="center", faint=hidden)
        y = self.zero + 0.25 * drawing.letter
        yield Words(self.row.name, drawing.room[0], y, letters.label, bold=True)
        right = drawing.left + drawing.step * len(self.row.values) + BESIDE * drawing.letter
        total, points = fitted(
            self.row.total,
            letters.axis,
            letters.smallest,
            drawing.room[0] + drawing.room[2] - right,
        )
        if total:
            yield Words(total, right, y, points, faint=True)
