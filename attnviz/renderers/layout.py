"""How large everything in a picture is, and where it stands; all lengths are inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered). The
data itself is never cut.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

from attnviz.grids import Axis, Grid, Scale, cell_format
from attnviz.renderers import Look

Box = tuple[float, float, float, float]  # left, bottom, width, height

POINT = 1 / 72
LABEL, SMALLEST_LABEL = 10.0, 5.5  # points
NUMBER, SMALLEST_NUMBER = 10.0, 5.5
LONGEST_LABEL = 24  # characters
TITLE, PANEL_TITLE, CAPTION = 13.0, 10.0, 7.0
MARGIN = 0.22
AXIS_TITLE = 0.26  # what the title of an axis takes beside its labels
PANEL_GAP = 0.3
AXIS_TITLE_SIZE, BAR_LABEL = 9.0, 8.0
BAR_PLACES = (0.0, 0.5, 1.0)
BAR_WIDTH, BAR_SPACE = 0.13, 0.85  # a colour bar, and all that belongs to it
THINNING = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Ticks:
    """The labels of one side of a panel: which places have one, how large and how turned."""

    title: str
    count: int
    places: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    size: float = LABEL
    angle: int = 0
    extent: float = 0.0  # how far the labels reach away from the panel


@dataclass(frozen=True, eq=False)
class Panel:
    grid: Grid
    box: Box
    numbers: np.ndarray  # what stands in the cells,
    number_size: float  # in points; 0 if it does not fit


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
    bars: tuple[Bar, ...]
    words: tuple[Words, ...]
    marks: tuple[Mark, ...]

    def fraction(self, box: Box) -> Box:
        """A box as matplotlib wants it: in parts of the figure."""
        (left, bottom, width, height), (whole_width, whole_height) = box, self.size
        return left / whole_width, bottom / whole_height, width / whole_width, height / whole_height


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Panels in rows and columns, with the room that each row and column gives to labels."""

    grids: tuple[Grid, ...]
    columns: int
    row_ticks: tuple[Ticks, ...]
    column_ticks: tuple[Ticks, ...]
    width: float  # of the room for one panel, without its labels
    height: float

    @property
    def rows(self) -> int:
        return math.ceil(len(self.grids) / self.columns)

    def label_width(self, column: int) -> float:
        return max(_reach(ticks) for ticks in self.row_ticks[column :: self.columns])

    def label_height(self, row: int) -> float:
        start = row * self.columns
        return max(_reach(ticks) for ticks in self.column_ticks[start : start + self.columns])


def lay_out(grids: Sequence[Grid], look: Look) -> Layout:
    """Panels in rows and columns, so many of each as make the cells largest."""
    scales = tuple(dict.fromkeys(grid.scale for grid in grids if grid.scale.kind != "none"))
    size = look.size or _natural_size(grids, look, scales)
    caption = _caption_lines(look, size)
    room = _room(size, look, len(caption), scales)
    tried = [_arranged(tuple(grids), columns, room) for columns in range(1, len(grids) + 1)]
    best = max(tried, key=_smallest_panel)
    boxes, right = _boxes(best, room)
    panels = tuple(_panel(grid, box) for grid, box in zip(best.grids, boxes, strict=True))
    bars = tuple(_bars(boxes, scales, right))
    ticks = list(zip(best.row_ticks, best.column_ticks, boxes, strict=True))
    words = (
        *_titles(panels, size, look),
        *(words for rows, columns, box in ticks for words in _labels_at(rows, columns, box)),
        *(words for bar in bars for words in _bar_labels(bar)),
        *_caption(caption, size),
    )
    marks = (
        *(mark for rows, columns, box in ticks for mark in _marks(rows, columns, box)),
        *(mark for bar in bars for mark in _bar_marks(bar)),
    )
    return Layout(size, panels, bars, words, marks)


def text_width(text: str, size: float) -> float:
    """The width of a line of text, in inches."""
    return _width_in_points(text, tuple(FontProperties().get_family())) * size / 10 * POINT


@lru_cache(maxsize=8192)
def _width_in_points(text: str, families: tuple[str, ...]) -> float:
    font = FontProperties(family=list(families), size=10)
    measure: Callable[..., tuple[float, float, float]] = _ruler().get_text_width_height_descent
    return measure(text, font, ismath=False)[0]


@lru_cache(maxsize=1)
def _ruler() -> RendererAgg:
    return RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call]


def _natural_size(
    grids: Sequence[Grid], look: Look, scales: Sequence[Scale]
) -> tuple[float, float]:
    """As large as the panels want to be: small ones for many heads, larger ones for many tokens."""
    count = len(grids)
    columns = min(count, math.ceil(math.sqrt(count * 1.6)))
    rows = math.ceil(count / columns)
    side = max(1.7, 4.4 / math.sqrt(max(rows, columns * 0.75)))
    longest = max(len(grid.columns) for grid in grids)
    side = min(max(side, 0.115 * longest), max(side, 7.4 / math.sqrt(rows * columns)))
    heights = [side * _natural_height(grid) for grid in grids]
    labels = 2 * AXIS_TITLE + max(_longest_label(grid.rows) for grid in grids)
    width = columns * (side + PANEL_GAP) + labels + (BAR_SPACE if scales else 0) + 2 * MARGIN
    below = AXIS_TITLE + max(_longest_label(grid.columns) for grid in grids)
    height = rows * (max(heights) + PANEL_GAP) + below + 2 * MARGIN + 0.7
    return max(width, 4.6), max(height, 2.2)


def _natural_height(grid: Grid) -> float:
    """The height of a panel as a part of its width, cells being about as high as wide."""
    if grid.rows.counts == grid.columns.counts:
        return len(grid.rows) / len(grid.columns)
    return min(1.0, max(0.2, len(grid.rows) / len(grid.columns)))


def _longest_label(axis: Axis) -> float:
    """The width of the widest label, which is among those with the most characters."""
    longest = sorted(_labels(axis), key=len)[-8:]
    return max((text_width(label, LABEL) for label in longest), default=0.1)


def _room(
    size: tuple[float, float], look: Look, caption_lines: int, scales: Sequence[Scale]
) -> Box:
    """What title, caption and colour bars leave to the panels."""
    width = size[0] - 2 * MARGIN - (BAR_SPACE if scales else 0)
    below = MARGIN + caption_lines * CAPTION * POINT * 1.4 + (0.06 if caption_lines else 0)
    above = MARGIN + (TITLE * POINT * 1.5 if look.title else 0)
    return MARGIN, below, max(width, 0.5), max(size[1] - below - above, 0.5)


def _arranged(grids: tuple[Grid, ...], columns: int, room: Box) -> Arrangement:
    """Labels take room from panels, and panels give labels their size: settled in a few rounds."""
    rows = math.ceil(len(grids) / columns)
    gaps_wide = (columns - 1) * PANEL_GAP
    gaps_high = (rows - 1) * PANEL_GAP + rows * PANEL_TITLE * POINT * 1.7
    width, height = room[2] / columns, room[3] / rows
    for _ in range(3):
        row_ticks, column_ticks = _ticks(grids, columns, width, height)
        made = Arrangement(grids, columns, row_ticks, column_ticks, width, height)
        labels_wide = sum(made.label_width(column) for column in range(columns))
        labels_high = sum(made.label_height(row) for row in range(rows))
        width = max((room[2] - gaps_wide - labels_wide) / columns, 0.1)
        height = max((room[3] - gaps_high - labels_high) / rows, 0.1)
    return replace(made, width=width, height=height)


def _ticks(
    grids: tuple[Grid, ...], columns: int, width: float, height: float
) -> tuple[tuple[Ticks, ...], tuple[Ticks, ...]]:
    """The labels of every panel; a neighbour's on the left, or below, serve for both."""
    row_ticks, column_ticks = [], []
    for place, grid in enumerate(grids):
        wide, high = _cells(grid, width, height)
        left = grids[place - 1] if place % columns else None
        below = grids[place + columns] if place + columns < len(grids) else None
        same_rows = left is not None and _shape(left) == _shape(grid) and left.rows == grid.rows
        same_columns = below is not None and below.columns == grid.columns
        row_ticks.append(_no_ticks(grid.rows) if same_rows else _row_ticks(grid.rows, high))
        column_ticks.append(
            _no_ticks(grid.columns) if same_columns else _column_ticks(grid.columns, wide)
        )
    return tuple(row_ticks), tuple(column_ticks)


def _shape(grid: Grid) -> tuple[int, ...]:
    return grid.values.shape


def _cells(grid: Grid, width: float, height: float) -> tuple[float, float]:
    """The width and height of one cell: square where both sides count the same things."""
    wide, high = width / len(grid.columns), height / len(grid.rows)
    if grid.rows.counts == grid.columns.counts:
        return min(wide, high), min(wide, high)
    return (
        min(wide, max(high * 1.6, 0.3 * width / len(grid.columns))),
        min(high, max(wide * 1.2, 0.1 * height / len(grid.rows))),
    )


def _smallest_panel(arrangement: Arrangement) -> float:
    sizes = (_cells(grid, arrangement.width, arrangement.height) for grid in arrangement.grids)
    return min(wide * high for wide, high in sizes)


def _no_ticks(axis: Axis) -> Ticks:
    return Ticks("", len(axis))


def _reach(ticks: Ticks) -> float:
    """How much room labels and the title of their axis take."""
    return ticks.extent + (AXIS_TITLE if ticks.title else 0.0)


def _row_ticks(axis: Axis, pitch: float) -> Ticks:
    places, labels, size = _thinned(axis, pitch)
    extent = max((text_width(label, size) for label in labels), default=0.0) + 0.07
    return Ticks(axis.title, len(axis), places, labels, size, 0, extent)


def _column_ticks(axis: Axis, pitch: float) -> Ticks:
    """Upright while the labels fit beside each other, else slanting, else standing on end."""
    places, labels, size = _thinned(axis, pitch)
    step = pitch * (places[1] - places[0] if len(places) > 1 else 1)
    widest = max((text_width(label, size) for label in labels), default=0.0)
    if widest <= step * 0.92:
        return Ticks(axis.title, len(axis), places, labels, size, 0, size * POINT * 1.2 + 0.05)
    if step >= size * POINT * 1.9:
        slanted = widest * math.sqrt(0.5) + size * POINT + 0.05
        return Ticks(axis.title, len(axis), places, labels, size, 45, slanted)
    return Ticks(axis.title, len(axis), places, labels, size, 90, widest + 0.08)


def _thinned(axis: Axis, pitch: float) -> tuple[tuple[int, ...], tuple[str, ...], float]:
    """Every label, smaller if need be; or every n-th, with its number."""
    largest = pitch / POINT * 0.92
    if largest >= SMALLEST_LABEL or len(axis) == 1:
        return tuple(range(len(axis))), _labels(axis), max(min(LABEL, largest), SMALLEST_LABEL)
    size = SMALLEST_LABEL + 1
    step = next((n for n in THINNING if n * largest >= size), len(axis))
    start = 0 if step == 2 else step - 1
    places, names = tuple(range(start, len(axis), step)), axis.names
    return places, tuple(_shortened(names[place]) for place in places), size


def _labels(axis: Axis) -> tuple[str, ...]:
    """The words alone; with their numbers where a word stands more than once."""
    times = Counter(axis.labels)
    return tuple(
        _shortened(name if times[label] > 1 or not label else label)
        for name, label in zip(axis.names, axis.labels, strict=True)
    )


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _boxes(made: Arrangement, room: Box) -> tuple[list[Box], float]:
    """Panels from the top left, all of them in the middle of the room; and where they end."""
    shapes = [_cells(grid, made.width, made.height) for grid in made.grids]
    sizes = [
        (wide * len(grid.columns), high * len(grid.rows))
        for grid, (wide, high) in zip(made.grids, shapes, strict=True)
    ]
    heading = PANEL_TITLE * POINT * 1.7
    lefts, right = _edges(
        [made.label_width(column) for column in range(made.columns)],
        max(width for width, _ in sizes),
        [0.0] * made.columns,
    )
    tops, bottom = _edges(
        [heading] * made.rows,
        max(height for _, height in sizes),
        [made.label_height(row) for row in range(made.rows)],
    )
    start = room[0] + max(0.0, (room[2] - right) / 2)
    top = room[1] + room[3] - max(0.0, (room[3] - bottom) / 2)
    boxes = [
        (
            start + lefts[place % made.columns],
            top - tops[place // made.columns] - height,
            width,
            height,
        )
        for place, (width, height) in enumerate(sizes)
    ]
    return boxes, start + right


def _edges(
    before: Sequence[float], size: float, after: Sequence[float]
) -> tuple[list[float], float]:
    """Where each of a row of boxes begins, and where the last one and its labels end."""
    starts, place = [], 0.0
    for room, room_behind in zip(before, after, strict=True):
        starts.append(place + room)
        place += room + size + room_behind + PANEL_GAP
    return starts, place - PANEL_GAP


def _labels_at(rows: Ticks, columns: Ticks, box: Box) -> Iterator[Words]:
    """The labels on the left of a panel and below it, and the titles of its two axes."""
    left, bottom, width, height = box
    for place, label in zip(rows.places, rows.labels, strict=True):
        y = bottom + height * (1 - (place + 0.5) / rows.count)
        yield Words(label, left - 0.05, y, rows.size, across="right", along="center_baseline")
    across, along = {0: ("center", "top"), 45: ("right", "top"), 90: ("right", "center")}[
        columns.angle
    ]
    for place, label in zip(columns.places, columns.labels, strict=True):
        x = left + width * (place + 0.5) / columns.count
        yield Words(
            label, x, bottom - 0.05, columns.size, angle=columns.angle, across=across, along=along
        )
    if rows.title:
        yield Words(
            rows.title, left - rows.extent - 0.08, bottom + height / 2, AXIS_TITLE_SIZE,
            faint=True, angle=90, across="center", along="bottom",
        )  # fmt: skip
    if columns.title:
        yield Words(
            columns.title, left + width / 2, bottom - columns.extent - 0.06, AXIS_TITLE_SIZE,
            faint=True, across="center", along="top",
        )  # fmt: skip


def _marks(rows: Ticks, columns: Ticks, box: Box) -> Iterator[Mark]:
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


def _bar_labels(bar: Bar) -> Iterator[Words]:
    """The name of a scale above its bar, and its ends and its middle beside it."""
    left, bottom, width, height = bar.box
    yield Words(bar.scale.label, left, bottom + height + 0.09, BAR_LABEL)
    for share in BAR_PLACES:
        number = bar.scale.low + share * (bar.scale.high - bar.scale.low)
        text = f"≥ {number:g}" if bar.scale.beyond and share == 1 else f"{number:g}"
        y = bottom + height * share
        yield Words(text, left + width + 0.06, y, BAR_LABEL, along="center_baseline")


def _bar_marks(bar: Bar) -> Iterator[Mark]:
    left, bottom, width, height = bar.box
    for share in BAR_PLACES:
        y = bottom + height * share
        yield (left + width, y), (left + width + 0.03, y)


def _panel(grid: Grid, box: Box) -> Panel:
    numbers = _numbers(grid)
    longest = max((text_width(text, 10) for text in _longest(numbers)), default=0.0)
    wide, high = box[2] / len(grid.columns), box[3] / len(grid.rows)
    size = min(NUMBER, 10 * wide * 0.74 / longest if longest else 0, high / POINT * 0.62)
    return Panel(grid, box, numbers, size if size >= SMALLEST_NUMBER else 0)


def _numbers(grid: Grid) -> np.ndarray:
    """What stands in the cells, if there are few enough for it ever to fit."""
    if grid.values.size > 2500:
        return np.empty((0, 0), dtype=object)
    written = np.vectorize(cell_format(grid, 2), otypes=[object])
    numbers: np.ndarray = written(grid.values.astype(object))
    return numbers


def _longest(numbers: np.ndarray) -> Iterator[str]:
    longest = max((len(text) for text in numbers.flat), default=0)
    return (text for text in dict.fromkeys(numbers.flat) if len(text) == longest)


def _bars(boxes: Sequence[Box], scales: Sequence[Scale], right: float) -> Iterator[Bar]:
    """One colour bar below the other, beside the panels."""
    top = max(bottom + height for _, bottom, _, height in boxes)
    each = (top - min(bottom for _, bottom, _, _ in boxes)) / max(len(scales), 1)
    height = max(min(each - 0.45, 2.4), 0.4)
    for number, scale in enumerate(scales):
        yield Bar(scale, (right + 0.2, top - number * each - height - 0.1, BAR_WIDTH, height))


def _titles(panels: Sequence[Panel], size: tuple[float, float], look: Look) -> Iterator[Words]:
    if look.title:
        text, points = _fitted(look.title, TITLE, 8.0, size[0] - 2 * MARGIN)
        yield Words(text, MARGIN, size[1] - MARGIN - TITLE * POINT, points, bold=True)
    for panel in panels:
        left, bottom, width, height = panel.box
        heading = " · ".join(part for part in (panel.grid.title, panel.grid.pooled) if part)
        text, points = _fitted(heading, PANEL_TITLE, 6.0, width + PANEL_GAP * 0.8)
        yield Words(text, left, bottom + height + 0.07, points)


def _fitted(text: str, size: float, smallest: float, room: float) -> tuple[str, float]:
    """A line made smaller until it fits, and then shorter."""
    fitting = min(size, size * room / max(text_width(text, size), 1e-6))
    while fitting < smallest and len(text) > 1 and text_width(text, smallest) > room:
        text = text[: max(1, int(len(text) * 0.95) - 1)].rstrip("…") + "…"
        if len(text) <= 2:
            break
    return text, max(fitting, smallest)


def _caption_lines(look: Look, size: tuple[float, float]) -> list[str]:
    lines = [""]
    for part in look.caption.split(" · ") if look.caption else ():
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and text_width(longer, CAPTION) > size[0] - 2 * MARGIN:
            lines.append(part)
        else:
            lines[-1] = longer
    return [line for line in lines if line]


def _caption(lines: Sequence[str], size: tuple[float, float]) -> Iterator[Words]:
    for number, line in enumerate(reversed(lines)):
        yield Words(
            line, MARGIN, MARGIN * 0.7 + number * CAPTION * POINT * 1.4, CAPTION, faint=True
        )
