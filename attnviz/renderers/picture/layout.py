"""How large everything in a picture of panels is, and where it stands; all lengths are inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered). The
data itself is never cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attnviz.renderers.picture.arrangement import Arranged, Shown
from attnviz.renderers.picture.bars import BAR_SPACE, bar_labels, bar_marks, bars_beside, scales_of
from attnviz.renderers.picture.charts import Chart, chart, chart_ticks
from attnviz.renderers.picture.labels import labels_at, marks_at
from attnviz.renderers.picture.numbers import NUMBER_SHARE, longest_number, panel_of
from attnviz.renderers.picture.placed import Box, Layout, Panel
from attnviz.renderers.picture.texts import (
    CAPTION,
    MARGIN,
    TITLE,
    TITLE_LEADING,
    Captions,
    caption_lines,
    caption_words,
    panel_titles,
    title_lines,
    title_words,
)
from attnviz.renderers.picture.ticks import (
    AXIS_TITLE,
    POINT,
    PanelStyle,
    Ticks,
    column_ticks,
    longest_label,
    no_ticks,
    reach,
    row_ticks,
)
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.scales import Scale

DEFAULT_STYLE = PanelStyle()

Size = tuple[float, float]

PANEL_GAP = 0.3
LOWEST_ROW = 0.17  # of vectors with very many dimensions
CHART_HEIGHT = 0.72  # of its width


@dataclass(frozen=True, eq=False)
class PanelRows:
    """Panels in rows and columns, with the room that each row and column gives to labels."""

    drawn: tuple[Shown, ...]
    columns: int
    style: PanelStyle
    heading: float  # the room for the title above each panel
    row_ticks: tuple[Ticks, ...]
    column_ticks: tuple[Ticks, ...]
    width: float  # of the room for one panel, without its labels
    height: float

    @property
    def rows(self) -> int:
        return math.ceil(len(self.drawn) / self.columns)

    def label_width(self, column: int) -> float:
        return max(reach(ticks, self.style) for ticks in self.row_ticks[column :: self.columns])

    def label_height(self, row: int) -> float:
        start = row * self.columns
        return max(
            reach(ticks, self.style) for ticks in self.column_ticks[start : start + self.columns]
        )


def lay_out(arranged: Arranged, size: Size | None, captions: Captions) -> Layout:
    """Panels in rows and columns, as many of each as make the cells largest."""
    scales = scales_of(arranged.panels)
    size = size or natural_size(arranged, scales)
    caption, title = caption_lines(captions.small_print, size), title_lines(captions.title, size)
    room = room_between(size, len(title), len(caption), scales)
    placed, right = place(arranged.panels, room, arranged.columns)
    bars = tuple(bars_beside(placed, scales, right))
    words = (
        *title_words(title, size),
        *placed.words,
        *(words for bar in bars for words in bar_labels(bar)),
        *caption_words(caption, size),
    )
    marks = (*placed.marks, *(mark for bar in bars for mark in bar_marks(bar)))
    return replace(placed, size=size, bars=bars, words=words, marks=marks)


def place(
    drawn: Sequence[Shown],
    room: Box,
    columns: int | None = None,
    style: PanelStyle = DEFAULT_STYLE,
    centred: bool = True,
) -> tuple[Layout, float]:
    """The panels in a part of a page, with their labels; and where the last one ends."""
    counts = [columns] if columns else range(1, len(drawn) + 1)
    arranged = (_arranged(tuple(drawn), count, room, style) for count in counts)
    best = max(arranged, key=_smallest_panel)
    boxes, right = _boxes(best, room, centred)
    ticks = list(zip(best.row_ticks, best.column_ticks, boxes, strict=True))
    words = (
        *(
            words
            for each, box in zip(drawn, boxes, strict=True)
            for words in panel_titles(each, box, style.title, 6.0, box[2] + PANEL_GAP * 0.6)
        ),
        *(words for rows, columns, box in ticks for words in labels_at(rows, columns, box, style)),
    )
    marks = tuple(mark for rows, columns, box in ticks for mark in marks_at(rows, columns, box))
    panels, charts = tuple(_panels(best, boxes)), tuple(_charts(best, boxes))
    return Layout((room[2], room[3]), panels, charts, (), words, marks), right


def natural_size(arranged: Arranged, scales: Sequence[Scale]) -> Size:
    """As large as the panels want to be: small ones for many heads, larger ones for many tokens."""
    drawn, count = arranged.panels, len(arranged.panels)
    columns = arranged.columns or min(count, math.ceil(math.sqrt(count * 1.6)))
    rows = math.ceil(count / columns)
    side = max(1.7, 4.4 / math.sqrt(max(rows, columns * 0.75)))
    grids = [each for each in drawn if isinstance(each, Grid)]
    longest = max((len(grid.columns) for grid in grids), default=1)
    side = min(max(side, 0.115 * longest), max(side, 7.4 / math.sqrt(rows * columns)))
    high = max(side * _natural_height(each) for each in drawn if each)
    beside = 2 * AXIS_TITLE + max((longest_label(grid.rows) for grid in grids), default=0.3)
    width = columns * (side + PANEL_GAP) + beside + (BAR_SPACE if scales else 0) + 2 * MARGIN
    below = AXIS_TITLE + max((longest_label(grid.columns) for grid in grids), default=0.3)
    height = rows * (high + PANEL_GAP) + below + 2 * MARGIN + 0.7
    return max(width, 4.6), max(height, 2.2)


def _natural_height(each: Grid | Curves) -> float:
    """The height of a panel as a part of its width, cells being about as high as wide."""
    if isinstance(each, Curves):
        return CHART_HEIGHT
    return min(1.0, max(0.2, len(each.rows) / len(each.columns)))


def room_between(
    size: tuple[float, float], title_lines: int, caption_lines: int, scales: Sequence[Scale]
) -> Box:
    """What title, caption and colour bars leave to the panels."""
    width = size[0] - 2 * MARGIN - (BAR_SPACE if scales else 0)
    below = MARGIN + caption_lines * CAPTION * POINT * 1.4 + (0.06 if caption_lines else 0)
    above = MARGIN + title_lines * TITLE * POINT * TITLE_LEADING
    return MARGIN, below, max(width, 0.5), max(size[1] - below - above, 0.5)


def _arranged(drawn: tuple[Shown, ...], columns: int, room: Box, style: PanelStyle) -> PanelRows:
    """Labels take room from panels, and panels give labels their size: settled in a few rounds."""
    rows = math.ceil(len(drawn) / columns)
    gaps_wide = (columns - 1) * PANEL_GAP
    titled = any(each and each.title for each in drawn)
    heading = style.title * POINT * 1.7 if titled else 0.0
    gaps_high = (rows - 1) * PANEL_GAP + rows * heading
    width, height = room[2] / columns, room[3] / rows
    for _ in range(3):
        ticks = _ticks(drawn, columns, width, height, style)
        settled = PanelRows(drawn, columns, style, heading, *ticks, width, height)
        labels_wide = sum(settled.label_width(column) for column in range(columns))
        labels_high = sum(settled.label_height(row) for row in range(rows))
        width = max((room[2] - gaps_wide - labels_wide) / columns, 0.1)
        height = max((room[3] - gaps_high - labels_high) / rows, 0.1)
    return replace(settled, width=width, height=height)


def _ticks(
    drawn: tuple[Shown, ...], columns: int, width: float, height: float, style: PanelStyle
) -> tuple[tuple[Ticks, ...], tuple[Ticks, ...]]:
    """The labels of every panel; a neighbour's on the left, or below, serve for both."""
    ticks = []
    for place, each in enumerate(drawn):
        left = drawn[place - 1] if place % columns else None
        below = drawn[place + columns] if place + columns < len(drawn) else None
        ticks.append(_ticks_of(each, left, below, style.label, *_size(each, width, height, style)))
    rows, across = zip(*ticks, strict=True)
    return rows, across


def _ticks_of(
    each: Shown, left: Shown, below: Shown, label: float, width: float, height: float
) -> tuple[Ticks, Ticks]:
    if each is None:
        return Ticks("", 1), Ticks("", 1)
    if isinstance(each, Curves):
        return chart_ticks(each, width)
    beside = isinstance(left, Grid) and left.values.shape == each.values.shape
    same_rows = beside and isinstance(left, Grid) and left.rows == each.rows
    same_columns = isinstance(below, Grid) and below.columns == each.columns
    return (
        no_ticks(each.rows) if same_rows else row_ticks(each.rows, height / len(each.rows), label),
        no_ticks(each.columns)
        if same_columns
        else column_ticks(each.columns, width / len(each.columns), label),
    )


def _size(each: Shown, width: float, height: float, style: PanelStyle) -> tuple[float, float]:
    """How much of its room a panel takes: cells are square where both sides count the same.

    On a page of many panels they may be wider, for then their numbers can be larger.
    """
    if each is None:
        return 0.0, 0.0
    if isinstance(each, Curves):
        return width, min(height, width * CHART_HEIGHT)
    columns, rows = len(each.columns), len(each.rows)
    wide, high = width / columns, height / rows
    if each.rows.counts == each.columns.counts and rows > 1:
        return min(wide, high * style.stretch) * columns, min(wide, high) * rows
    numbers = longest_number(each) * style.numbers / 10 / NUMBER_SHARE if style.numbers else 0.0
    return (
        min(width, max(high * 1.6 * columns, 0.3 * width, numbers * columns)),
        min(height, max(wide * 1.2 * rows, LOWEST_ROW * rows)),
    )


def _smallest_panel(settled: PanelRows) -> float:
    """The area of the smallest cell, a chart counting as one of four by four."""
    sizes = [
        (each, _size(each, settled.width, settled.height, settled.style))
        for each in settled.drawn
        if each
    ]
    return min(
        width * high / (each.values.size if isinstance(each, Grid) else 16)
        for each, (width, high) in sizes
    )


def _boxes(settled: PanelRows, room: Box, centred: bool) -> tuple[list[Box], float]:
    """Panels from the top left, or all of them in the middle of the room; and where they end."""
    sizes = [_size(each, settled.width, settled.height, settled.style) for each in settled.drawn]
    lefts, right = _edges(
        [settled.label_width(column) for column in range(settled.columns)],
        [max(width for width, _ in sizes)] * settled.columns,
        [0.0] * settled.columns,
    )
    rows = [
        sizes[start : start + settled.columns] for start in range(0, len(sizes), settled.columns)
    ]
    tops, bottom = _edges(
        [settled.heading] * settled.rows,
        [max(height for _, height in row) for row in rows],
        [settled.label_height(row) for row in range(settled.rows)],
    )
    start = room[0] + (max(0.0, (room[2] - right) / 2) if centred else 0.0)
    top = room[1] + room[3] - (max(0.0, (room[3] - bottom) / 2) if centred else 0.0)
    boxes = []
    for place, (width, height) in enumerate(sizes):
        row, column = divmod(place, settled.columns)
        boxes.append((start + lefts[column], top - tops[row] - height, width, height))
    return boxes, start + right


def _edges(
    before: Sequence[float], sizes: Sequence[float], after: Sequence[float]
) -> tuple[list[float], float]:
    """Where each of a row of boxes begins, and where the last one and its labels end."""
    starts, place = [], 0.0
    for room, size, room_behind in zip(before, sizes, after, strict=True):
        starts.append(place + room)
        place += room + size + room_behind + PANEL_GAP
    return starts, place - PANEL_GAP


def _panels(settled: PanelRows, boxes: Sequence[Box]) -> Iterator[Panel]:
    for each, box in zip(settled.drawn, boxes, strict=True):
        if isinstance(each, Grid):
            yield panel_of(each, box)


def _charts(settled: PanelRows, boxes: Sequence[Box]) -> Iterator[Chart]:
    for each, box in zip(settled.drawn, boxes, strict=True):
        if isinstance(each, Curves):
            yield chart(each, box)
