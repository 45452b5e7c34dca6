"""How large everything in a picture is, and where it stands; all lengths are inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered). The
data itself is never cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from attnviz.renderers import Look
from attnviz.renderers.picture.charts import Chart, chart, chart_ticks
from attnviz.renderers.picture.ticks import (
    AXIS_TITLE,
    POINT,
    Manner,
    Ticks,
    column_ticks,
    longest_label,
    no_ticks,
    reach,
    row_ticks,
    text_width,
)
from attnviz.views.grids.grids import Curves, Grid, Scale, cell_format

MANNER = Manner()

Shown = Grid | Curves | None  # what has a panel of its own; None leaves its place empty
Box = tuple[float, float, float, float]  # left, bottom, width, height

NUMBER, SMALLEST_NUMBER = 10.0, 5.5
NUMBER_SHARE = 0.74  # of the width of a cell, at most
TITLE, CAPTION = 13.0, 7.0
ROOM_FOR_CAPTION = 3.5  # a smaller picture goes without small print
SMALLER_TITLE = 10.5
TITLE_LEADING = 1.5  # from one line of a title to the next
MIDDLE, ASCENT = 0.36, 0.8  # of a letter's size: from its foot to its middle, and to its head
SMALLEST_TITLE = 7.0  # of a chart, that shares its line with the names of the lines
BOLD = 1.15  # bold letters are so much wider
MARGIN = 0.22
PANEL_GAP = 0.3
LOWEST_ROW = 0.17  # of vectors with very many dimensions
CHART_HEIGHT = 0.72  # of its width
BAR_LABEL, SERIES_LABEL = 8.0, 8.0
BAR_PLACES = (0.0, 0.5, 1.0)
BAR_WIDTH, BAR_SPACE = 0.13, 0.85  # a colour bar, and all that belongs to it


@dataclass(frozen=True, eq=False)
class Panel:
    grid: Grid
    box: Box
    numbers: np.ndarray  # what stands in the cells,
    fitting: float  # and how large, in points, it could be
    smallest: float = SMALLEST_NUMBER

    @property
    def number_size(self) -> float:
        """0 if the numbers could not be read."""
        return self.fitting if self.numbers.size and self.fitting >= self.smallest else 0.0


@dataclass(frozen=True)
class Words:
    """A line of text at a place of its own."""

    text: str
    x: float
    y: float
    size: float
    bold: bool = False
    faint: bool = False
    angle: int = 0
    across: str = "left"  # which end of the text stands at x,
    along: str = "baseline"  # and which height of it at y
    series: int | None = None  # has the colour of this line of a chart


@dataclass(frozen=True)
class Bar:
    """A colour bar: a scale from one end to the other."""

    scale: Scale
    box: Box


Mark = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Layout:
    size: tuple[float, float]
    panels: tuple[Panel, ...]
    charts: tuple[Chart, ...]
    bars: tuple[Bar, ...]
    words: tuple[Words, ...]
    marks: tuple[Mark, ...]

    def fraction(self, box: Box) -> Box:
        """A box as matplotlib wants it: in parts of the figure."""
        (left, bottom, width, height), (whole_width, whole_height) = box, self.size
        return left / whole_width, bottom / whole_height, width / whole_width, height / whole_height


def joined(layouts: Sequence[Layout]) -> Layout:
    """Everything that stands in any of them, on one page."""
    return Layout(
        (0.0, 0.0),
        tuple(panel for each in layouts for panel in each.panels),
        tuple(chart for each in layouts for chart in each.charts),
        tuple(bar for each in layouts for bar in each.bars),
        tuple(words for each in layouts for words in each.words),
        tuple(mark for each in layouts for mark in each.marks),
    )


def shrunk(layout: Layout, times: float) -> Layout:
    """The same on a page so many times as small, letters and all."""
    if times == 1:
        return layout
    return Layout(
        (layout.size[0] / times, layout.size[1] / times),
        tuple(_smaller_panel(panel, times) for panel in layout.panels),
        tuple(replace(each, box=_smaller_box(each.box, times)) for each in layout.charts),
        tuple(replace(bar, box=_smaller_box(bar.box, times)) for bar in layout.bars),
        tuple(
            replace(word, x=word.x / times, y=word.y / times, size=word.size / times)
            for word in layout.words
        ),
        tuple(
            ((x / times, y / times), (to_x / times, to_y / times))
            for (x, y), (to_x, to_y) in layout.marks
        ),
    )


def _smaller_panel(panel: Panel, times: float) -> Panel:
    return replace(
        panel,
        box=_smaller_box(panel.box, times),
        fitting=panel.fitting / times,
        smallest=panel.smallest / times,
    )


def _smaller_box(box: Box, times: float) -> Box:
    left, bottom, width, height = box
    return left / times, bottom / times, width / times, height / times


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Panels in rows and columns, with the room that each row and column gives to labels."""

    drawn: tuple[Shown, ...]
    columns: int
    manner: Manner
    heading: float  # the room for the title above each panel
    row_ticks: tuple[Ticks, ...]
    column_ticks: tuple[Ticks, ...]
    width: float  # of the room for one panel, without its labels
    height: float

    @property
    def rows(self) -> int:
        return math.ceil(len(self.drawn) / self.columns)

    def label_width(self, column: int) -> float:
        return max(reach(ticks, self.manner) for ticks in self.row_ticks[column :: self.columns])

    def label_height(self, row: int) -> float:
        start = row * self.columns
        return max(
            reach(ticks, self.manner) for ticks in self.column_ticks[start : start + self.columns]
        )


def lay_out(drawn: Sequence[Shown], look: Look) -> Layout:
    """Panels in rows and columns, so many of each as make the cells largest."""
    scales = scales_of(drawn)
    size = look.size or natural_size(drawn, look, scales)
    caption = caption_lines(look, size) if min(size) >= ROOM_FOR_CAPTION else []
    title = title_lines(look, size)
    room = room_between(size, len(title), len(caption), scales)
    placed, right = place(drawn, room, look.columns)
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
    manner: Manner = MANNER,
    centred: bool = True,
) -> tuple[Layout, float]:
    """The panels in a part of a page, with their labels; and where the last one ends."""
    counts = [columns] if columns else range(1, len(drawn) + 1)
    arranged = (_arranged(tuple(drawn), count, room, manner) for count in counts)
    best = max(arranged, key=_smallest_panel)
    boxes, right = _boxes(best, room, centred)
    ticks = list(zip(best.row_ticks, best.column_ticks, boxes, strict=True))
    words = (
        *(
            words
            for each, box in zip(drawn, boxes, strict=True)
            for words in panel_titles(each, box, manner.title, 6.0, box[2] + PANEL_GAP * 0.6)
        ),
        *(words for rows, columns, box in ticks for words in labels_at(rows, columns, box, manner)),
    )
    marks = tuple(mark for rows, columns, box in ticks for mark in marks_at(rows, columns, box))
    panels, charts = tuple(_panels(best, boxes)), tuple(_charts(best, boxes))
    return Layout((room[2], room[3]), panels, charts, (), words, marks), right


def scales_of(drawn: Sequence[Shown]) -> tuple[Scale, ...]:
    """Each scale of colour once."""
    grids = [each for each in drawn if isinstance(each, Grid)]
    return tuple(dict.fromkeys(grid.scale for grid in grids if grid.scale.kind != "none"))


def natural_size(
    drawn: Sequence[Shown], look: Look, scales: Sequence[Scale]
) -> tuple[float, float]:
    """As large as the panels want to be: small ones for many heads, larger ones for many tokens."""
    count = len(drawn)
    columns = look.columns or min(count, math.ceil(math.sqrt(count * 1.6)))
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


def _arranged(drawn: tuple[Shown, ...], columns: int, room: Box, manner: Manner) -> Arrangement:
    """Labels take room from panels, and panels give labels their size: settled in a few rounds."""
    rows = math.ceil(len(drawn) / columns)
    gaps_wide = (columns - 1) * PANEL_GAP
    titled = any(each and each.title for each in drawn)
    heading = manner.title * POINT * 1.7 if titled else 0.0
    gaps_high = (rows - 1) * PANEL_GAP + rows * heading
    width, height = room[2] / columns, room[3] / rows
    for _ in range(3):
        ticks = _ticks(drawn, columns, width, height, manner)
        made = Arrangement(drawn, columns, manner, heading, *ticks, width, height)
        labels_wide = sum(made.label_width(column) for column in range(columns))
        labels_high = sum(made.label_height(row) for row in range(rows))
        width = max((room[2] - gaps_wide - labels_wide) / columns, 0.1)
        height = max((room[3] - gaps_high - labels_high) / rows, 0.1)
    return replace(made, width=width, height=height)


def _ticks(
    drawn: tuple[Shown, ...], columns: int, width: float, height: float, manner: Manner
) -> tuple[tuple[Ticks, ...], tuple[Ticks, ...]]:
    """The labels of every panel; a neighbour's on the left, or below, serve for both."""
    ticks = []
    for place, each in enumerate(drawn):
        left = drawn[place - 1] if place % columns else None
        below = drawn[place + columns] if place + columns < len(drawn) else None
        ticks.append(
            _ticks_of(each, left, below, manner.label, *_size(each, width, height, manner))
        )
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


def _size(each: Shown, width: float, height: float, manner: Manner) -> tuple[float, float]:
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
        return min(wide, high * manner.stretch) * columns, min(wide, high) * rows
    numbers = longest_number(each) * manner.numbers / 10 / NUMBER_SHARE if manner.numbers else 0.0
    return (
        min(width, max(high * 1.6 * columns, 0.3 * width, numbers * columns)),
        min(height, max(wide * 1.2 * rows, LOWEST_ROW * rows)),
    )


def _smallest_panel(made: Arrangement) -> float:
    """The area of the smallest cell, a chart counting as one of four by four."""
    sizes = [
        (each, _size(each, made.width, made.height, made.manner)) for each in made.drawn if each
    ]
    return min(
        width * high / (each.values.size if isinstance(each, Grid) else 16)
        for each, (width, high) in sizes
    )


def _boxes(made: Arrangement, room: Box, centred: bool) -> tuple[list[Box], float]:
    """Panels from the top left, or all of them in the middle of the room; and where they end."""
    sizes = [_size(each, made.width, made.height, made.manner) for each in made.drawn]
    lefts, right = _edges(
        [made.label_width(column) for column in range(made.columns)],
        [max(width for width, _ in sizes)] * made.columns,
        [0.0] * made.columns,
    )
    rows = [sizes[start : start + made.columns] for start in range(0, len(sizes), made.columns)]
    tops, bottom = _edges(
        [made.heading] * made.rows,
        [max(height for _, height in row) for row in rows],
        [made.label_height(row) for row in range(made.rows)],
    )
    start = room[0] + (max(0.0, (room[2] - right) / 2) if centred else 0.0)
    top = room[1] + room[3] - (max(0.0, (room[3] - bottom) / 2) if centred else 0.0)
    boxes = []
    for place, (width, height) in enumerate(sizes):
        row, column = divmod(place, made.columns)
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


def _panels(made: Arrangement, boxes: Sequence[Box]) -> Iterator[Panel]:
    for each, box in zip(made.drawn, boxes, strict=True):
        if isinstance(each, Grid):
            yield panel_of(each, box)


def _charts(made: Arrangement, boxes: Sequence[Box]) -> Iterator[Chart]:
    for each, box in zip(made.drawn, boxes, strict=True):
        if isinstance(each, Curves):
            yield chart(each, box)


def labels_at(rows: Ticks, columns: Ticks, box: Box, manner: Manner) -> Iterator[Words]:
    """The labels on the left of a panel and below it, and the titles of its two axes."""
    left, bottom, width, height = box
    for place, label in zip(rows.places, rows.labels, strict=True):
        y = bottom + height * (1 - (place + 0.5) / rows.count)
        yield Words(label, left - 0.05, y - rows.size * POINT * MIDDLE, rows.size, across="right")
    angle, size = columns.angle, columns.size
    across, along = {0: ("center", "baseline"), 45: ("right", "top"), 90: ("right", "center")}[
        angle
    ]
    y = bottom - 0.05 - (size * POINT * ASCENT if angle == 0 else 0)
    for place, label in zip(columns.places, columns.labels, strict=True):
        x = left + width * (place + 0.5) / columns.count
        yield Words(label, x, y, size, angle=angle, across=across, along=along)
    if rows.title:
        yield Words(
            rows.title, left - rows.extent - 0.08, bottom + height / 2, manner.axis,
            faint=True, angle=90, across="center", along="bottom",
        )  # fmt: skip
    if columns.title:
        yield Words(
            columns.title, left + width / 2, bottom - columns.extent - 0.06, manner.axis,
            faint=True, across="center", along="top",
        )  # fmt: skip


def marks_at(rows: Ticks, columns: Ticks, box: Box) -> Iterator[Mark]:
    """Where not every place has a label, a short line shows which place a label belongs to."""
    left, bottom, width, height = box
    if len(rows.places) < rows.count:
        for place in rows.places:
            y = bottom + height * (1 - (place + 0.5) / rows.count)
            yield (left - 0.035, y), (left, y)
    if len(columns.places) < columns.count:
        for place in columns.places:
            x = left + width * (place + 0.5) / columns.count
            yield (x, bottom - 0.035), (x, bottom)


def bar_labels(bar: Bar) -> Iterator[Words]:
    """The name of a scale above its bar, and its ends and its middle beside it."""
    left, bottom, width, height = bar.box
    yield Words(bar.scale.label, left, bottom + height + 0.09, BAR_LABEL)
    for share in BAR_PLACES:
        number = bar.scale.low + share * (bar.scale.high - bar.scale.low)
        text = f"≥ {number:g}" if bar.scale.beyond and share == 1 else f"{number:g}"
        y = bottom + height * share
        yield Words(text, left + width + 0.06, y, BAR_LABEL, along="center_baseline")


def bar_marks(bar: Bar) -> Iterator[Mark]:
    left, bottom, width, height = bar.box
    for share in BAR_PLACES:
        y = bottom + height * share
        yield (left + width, y), (left + width + 0.03, y)


def panel_of(grid: Grid, box: Box) -> Panel:
    wide, high = box[2] / len(grid.columns), box[3] / len(grid.rows)
    size = min(NUMBER, 10 * wide * NUMBER_SHARE / longest_number(grid), high / POINT * 0.62)
    # What has no colours is nothing without its numbers, however small.
    smallest = 0.0 if grid.scale.kind == "none" else SMALLEST_NUMBER
    return Panel(grid, box, _numbers(grid), size, smallest)


def numbered_as(panel: Panel, full: Grid) -> Panel:
    """A panel whose numbers are written as if all of its cells were filled."""
    numbers = _written(panel.grid, cell_format(full, 2))
    return replace(panel, numbers=numbers, fitting=panel_of(full, panel.box).fitting)


@lru_cache(maxsize=128)  # asked for again and again while panels find their places
def longest_number(grid: Grid) -> float:
    """The width of the longest number of a grid, in letters of 10 points."""
    widths = (text_width(text, 10) for text in _longest(_numbers(grid)))
    return max(widths, default=0.0) or text_width("-0.00", 10)


@lru_cache(maxsize=128)
def _numbers(grid: Grid) -> np.ndarray:
    return _written(grid, cell_format(grid, 2))


def _written(grid: Grid, write: Callable[[float], str]) -> np.ndarray:
    """What stands in the cells, if there are few enough for it ever to fit."""
    if grid.values.size > 2500:
        return np.empty((0, 0), dtype=object)
    numbers = np.empty(grid.values.shape, dtype=object)
    for place, value in np.ndenumerate(grid.values):
        numbers[place] = "" if np.isnan(value) else write(value.item())
    return numbers


def _longest(numbers: np.ndarray) -> Iterator[str]:
    longest = max((len(text) for text in numbers.flat), default=0)
    return (text for text in dict.fromkeys(numbers.flat) if len(text) == longest)


def bars_beside(placed: Layout, scales: Sequence[Scale], right: float) -> Iterator[Bar]:
    """One colour bar below the other, beside the panels."""
    boxes = [*(panel.box for panel in placed.panels), *(chart.box for chart in placed.charts)]
    top = max(bottom + height for _, bottom, _, height in boxes)
    each = (top - min(bottom for _, bottom, _, _ in boxes)) / max(len(scales), 1)
    height = max(min(each - 0.45, 2.4), 0.4)
    for number, scale in enumerate(scales):
        yield Bar(scale, (right + 0.2, top - number * each - height - 0.1, BAR_WIDTH, height))


def title_lines(look: Look, size: tuple[float, float]) -> list[str]:
    """A title that is too long for one line, even if it is smaller, goes on in the next."""
    room = size[0] - 2 * MARGIN
    if text_width(look.title, SMALLER_TITLE * BOLD) <= room:
        return [look.title] if look.title else []
    return wrapped(look.title.split(" "), " ", TITLE * BOLD, room)


def title_words(lines: Sequence[str], size: tuple[float, float]) -> Iterator[Words]:
    for number, line in enumerate(lines):
        y = size[1] - MARGIN - TITLE * POINT * (1 + number * TITLE_LEADING)
        text, points = fitted(line, TITLE, 6.0, (size[0] - 2 * MARGIN) / BOLD)
        yield Words(text, MARGIN, y, points, bold=True)


def panel_titles(
    each: Shown, box: Box, size: float, smallest: float, room: float
) -> Iterator[Words]:
    """What stands above a panel: its title, and of a chart the names of its lines."""
    if isinstance(each, Grid):
        heading = " · ".join(part for part in (each.title, each.pooled) if part)
        if heading:
            yield _panel_title(heading, box, room, size, smallest)
    elif each is not None:
        names = list(_names_of_lines(each, box))
        left = min((name.x for name in names), default=box[0] + box[2])
        yield _panel_title(each.title, box, left - box[0] - 0.04, size, smallest)
        yield from names


def _panel_title(text: str, box: Box, room: float, size: float, smallest: float) -> Words:
    fitting, points = fitted(text, size, smallest, room)
    return Words(fitting, box[0], box[1] + box[3] + 0.07, points)


def _names_of_lines(curves: Curves, box: Box) -> Iterator[Words]:
    """The lines' names in the lines' colours, from the right end of the title's line.

    Where there is no room for all beside the title, only what other charts have not: the dashed.
    """
    names = [f"- - {line.name}" if line.dashed else line.name for line in curves.lines]
    widths = [text_width(name, SERIES_LABEL) + 0.1 for name in names]
    fits = sum(widths) + text_width(curves.title, SMALLEST_TITLE) < box[2]
    right = box[0] + box[2] + 0.1
    for number, line in reversed(list(enumerate(curves.lines))):
        if fits or line.dashed:
            right -= widths[number]
            series = None if line.dashed else number
            yield Words(names[number], right, box[1] + box[3] + 0.07, SERIES_LABEL, series=series)


def fitted(text: str, size: float, smallest: float, room: float) -> tuple[str, float]:
    """A line made smaller until it fits, and then shorter."""
    fitting = min(size, size * room / max(text_width(text, size), 1e-6))
    while fitting < smallest and len(text) > 1 and text_width(text, smallest) > room:
        text = text[: max(1, int(len(text) * 0.95) - 1)].rstrip("…") + "…"
        if len(text) <= 2:
            break
    return text, max(fitting, smallest)


def caption_lines(look: Look, size: tuple[float, float]) -> list[str]:
    return wrapped(look.caption.split(" · "), " · ", CAPTION, size[0] - 2 * MARGIN)


def wrapped(parts: Sequence[str], between: str, points: float, room: float) -> list[str]:
    """Parts in as many lines as they need, broken between them."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}{between}{part}" if lines[-1] else part
        if lines[-1] and text_width(longer, points) > room:
            lines.append(part)
        else:
            lines[-1] = longer
    return [line for line in lines if line]


def caption_words(lines: Sequence[str], size: tuple[float, float]) -> Iterator[Words]:
    for number, line in enumerate(reversed(lines)):
        yield Words(
            line, MARGIN, MARGIN * 0.7 + number * CAPTION * POINT * 1.4, CAPTION, faint=True
        )
