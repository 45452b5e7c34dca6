"""A list of bars with labels and numbers, in as many columns as there is room for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnviz.renderers.picture.items import Block, Box, Items, Tint, Words
from attnviz.renderers.picture.text import (
    MIDDLE,
    PAPER_NOTE,
    POINT,
    fit_line,
    text_width,
    widest_line,
)

LOWEST_BAR_ROW = 1.45  # the lowest row, in letters
REMARK_HEIGHT = 1.5  # what a remark below its bar adds to it
BAR_COLUMNS_GAP = 1.5  # letters
BAR_GAP = 0.5  # letters on either side of a bar
BAR_HEIGHT_SHARE, THICKEST_BAR = 0.66, 3.2  # of the height of a row; letters
MARK_WIDTH, MARK_SHARE = 3.0, 1.3  # of a line across a bar: points, and in heights of the bar
MARK_SERIES = 0  # among those of lines
# Of the letters of a row; and from a bar to the foot of a remark below it
REMARK, REMARK_LINE = PAPER_NOTE, 1.2
TRACK_LINE = 0.8  # points: the line around the whole scale
INTERVAL_LINE = 0.9  # points


@dataclass(frozen=True)
class BarRow:
    """A bar, as a share of the longest one, with its label, its number and perhaps a remark.

    With an interval the bar of a negative share goes to the left of 0.
    """

    label: str
    number: str
    tint: Tint
    share: float
    remark: str = ""
    mark: float | None = None  # a share at which a line crosses the bar
    interval: tuple[float, float] | None = None  # shares between which a line lies on the bar


@dataclass(frozen=True)
class BarList:
    """Rows of bars in letters of one size: as many as there is room for, and a count
    of the others.
    """

    rows: tuple[BarRow, ...]
    size: float  # points
    width: float  # of a column
    lines: int  # of a column
    # What is said of all rows from a number on, longest first
    remainder_texts: Callable[[int], Sequence[str]]
    columns: int = 1
    tracked: bool = False  # the number of a bar stands behind its longest possible length
    framed: bool = False  # a line around it shows how long a bar could be
    most_rows: int | None = None  # so many rows are worth showing at most; None: all
    remarks_below: bool = False  # else beside the bars
    reserved_labels: tuple[str, ...] = ()  # of other frames of a film, which need room too

    @property
    def unit(self) -> float:
        """The size of a letter, in inches."""
        return self.size * POINT

    @property
    def shown_rows(self) -> tuple[BarRow, ...]:
        """All rows worth showing; or, if not all have room, one fewer than there is room for, as a
        line counts the others.
        """
        capacity = self.lines * self.columns
        rows = self.rows[: self.most_rows]
        needed = len(rows) + (len(rows) < len(self.rows))
        return rows if needed <= capacity else rows[: max(capacity - 1, 0)]

    @property
    def remainder_text(self) -> str:
        """The line that counts the rows that are not shown; empty if all are.

        It is the longest text that fits a column, else the shortest one.
        """
        if len(self.shown_rows) == len(self.rows):
            return ""
        texts = self.remainder_texts(len(self.shown_rows))
        fitting = (text for text in texts if text_width(text, self.size) <= self.width)
        return next(fitting, texts[-1])

    @property
    def height(self) -> float:
        """The least height of a column, in inches."""
        return self.lines * LOWEST_BAR_ROW * self.unit

    @property
    def label_width(self) -> float:
        return widest_line((*[row.label for row in self.rows], *self.reserved_labels), self.size)

    @property
    def number_width(self) -> float:
        return widest_line(tuple([row.number for row in self.rows]), self.size)

    @property
    def bar_start(self) -> float:
        numbers = 0.0 if self.tracked else self.number_width + BAR_GAP * self.unit
        return self.label_width + BAR_GAP * self.unit + numbers

    @property
    def bar_length(self) -> float:
        """The length of the longest bar: the width of a column less labels, numbers and remarks."""
        behind = self.number_width if self.tracked else 0.0
        if not (self.tracked or self.remarks_below):
            behind = widest_line(tuple([row.remark for row in self.shown_rows]), REMARK * self.size)
        return self.width - self.bar_start - BAR_GAP * self.unit - behind

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The shares at the left and right end of all bars: 0 and 1, or what intervals need."""
        spans = [
            (min(row.share, row.interval[0]), max(row.share, row.interval[1]))
            for row in self.shown_rows
            if row.interval is not None
        ]
        if not spans:
            return 0.0, 1.0
        low, high = min(0.0, *(span[0] for span in spans)), max(0.0, *(span[1] for span in spans))
        return (low, high) if high > low else (0.0, 1.0)

    def items(self, left: float, top: float, height: float, highest: float) -> Items:
        """Yield the drawing of all shown rows from this upper left corner, spread over `height`.

        No row is higher than `highest` letters; a line at the end counts the rows that have no
        room.
        """
        if not self.lines:
            return
        high = min(max(height / self.lines, LOWEST_BAR_ROW * self.unit), highest * self.unit)
        columns, feet = range(self.columns), [top - (n + 1) * high for n in range(self.lines)]
        lefts = [left + column * (self.width + BAR_COLUMNS_GAP * self.unit) for column in columns]
        boxes = [(x, foot, self.width, high) for x in lefts for foot in feet]
        for row, box in zip(self.shown_rows, boxes, strict=False):
            yield from self._row_items(row, box)
        if self.remainder_text:
            x, bottom, _, _ = boxes[len(self.shown_rows)]
            y = bottom + high / 2 - MIDDLE * self.unit
            yield Words(self.remainder_text, x, y, self.size, faint=True)

    def _row_items(self, row: BarRow, box: Box) -> Items:
        """Yield one row in its box: the bar, its outline and mark if it has them, label, number and
        remark.
        """
        left, bottom, width, high = box
        unit, start, long = self.unit, left + self.bar_start, self.bar_length
        remark_height = REMARK_HEIGHT * unit if self.remarks_below else 0.0
        thick = min((high - remark_height) * BAR_HEIGHT_SHARE, THICKEST_BAR * unit)
        middle = bottom + (high + remark_height) / 2
        foot, size = middle - MIDDLE * unit, self.size * REMARK
        low, high = self.ends

        def place(share: float) -> float:
            """Return where a share of the longest bar ends, in inches."""
            return start + long * (share - low) / (high - low)

        first, last = sorted((place(0.0), place(row.share)))
        yield Block((first, middle - thick / 2, last - first, thick), row.tint)
        if row.interval is not None:
            start_line, end_line = map(place, row.interval)
            yield from interval_mark(start_line, end_line, middle, thick)
        if self.framed:
            yield Block((start, middle - thick / 2, long, thick), outlined=TRACK_LINE, faint=True)
        if row.mark is not None:
            yield bar_mark(place(row.mark), middle, thick)
        number_end = left + width if self.tracked else start - BAR_GAP * unit
        yield Words(row.label, left, foot, self.size)
        yield Words(row.number, number_end, foot, self.size, halign="right")
        if row.remark:
            x = start if self.remarks_below else start + long + BAR_GAP * unit
            under_bar = middle - thick / 2 - size * POINT * REMARK_LINE
            text, points = fit_line(row.remark, size, size, left + width - x + BAR_GAP * unit)
            yield Words(text, x, under_bar if self.remarks_below else foot, points, faint=True)


def bar_mark(x: float, middle: float, thick: float) -> Block:
    """Return a short upright line across a bar that is `thick` inches high, centred on
    (x, middle).
    """
    wide, high = MARK_WIDTH * POINT, MARK_SHARE * thick
    return Block((x - wide / 2, middle - high / 2, wide, high), series=MARK_SERIES)


def interval_mark(low: float, high: float, middle: float, thick: float) -> Iterator[Block]:
    """Yield a line from `low` to `high` on a bar that is `thick` inches high, and its two ends."""
    yield Block((low, middle, high - low, 0.0), outlined=INTERVAL_LINE)
    for x in (low, high):
        yield Block((x, middle - thick / 4, 0.0, thick / 2), outlined=INTERVAL_LINE)


def count_bar_lines(height: float, size: float, extra: float = 0.0) -> int:
    """Return how many rows fit in a height, in letters of `size` points; `extra` letters are added
    to each.
    """
    return max(int(height / ((LOWEST_BAR_ROW + extra) * size * POINT) + 1e-6), 0)


def bar_columns_and_lines(rows: int, lines: int, max_columns: int) -> tuple[int, int]:
    """Return in how many columns, and in how many lines of each, so many rows stand.

    Columns are at most `max_columns`, and as few as hold all rows if each has room for `lines`.
    """
    columns = min(max(math.ceil(rows / max(lines, 1)), 1), max_columns)
    return columns, min(lines, math.ceil(rows / columns))
