"""Heads while they learn: tables, and charts along the same steps; lengths in inches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from attnviz.renderers.picture import keys
from attnviz.renderers.picture.charts import chart, chart_ticks
from attnviz.renderers.picture.items import (
    Box,
    Layout,
    Panel,
    Stroke,
    Words,
    empty_layout,
    joined,
)
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering
from attnviz.renderers.picture.numbers import panel_of
from attnviz.renderers.picture.texts import (
    BETWEEN_NAMES,
    BOLD,
    MIDDLE,
    column_title,
    fitted,
    labels_at,
    marks_at,
    row_title,
    wrapped,
)
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    Ticks,
    column_ticks,
    row_ticks,
    style_of,
    text_width,
)
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.view import Group, PanelRemark, PanelTitle

CHARTS_WIDE, CHARTS_HIGH = 0.28, 0.3  # of a room: beside tables, or below them
LOWEST_CHARTS = 8.0  # of a label's letters
HIGHEST_BESIDE = 0.45  # of the width of a room: tables of a film that have charts beside them
CHARTS_BELOW = 2.3  # inches: the charts of a film, below its tables
NATURAL_CHARTS = 2.4  # inches, on a page as wide as a slide
LARGEST_TABLE = 3.4  # inches, on a page that is as high as it wants
WIDEST_NAME = 5.5  # of a label's letters: what stands beside a row
STRETCH, LONGER = 1.5, 3.0  # times as wide as high: a cell of as many rows as columns, and others
GAP = 0.7  # between two tables, in letters of a label
AIR = 1.6  # between tables and charts
ABOVE = 1.5  # of its letters: the room for what stands over a table
IN_A_ROW = 6  # tables, at most, that would be in several rows
FEWEST = 3  # columns, of a course that has more
LITTLE_SMALLER = 0.8  # times the largest cell, where no way lets all tokens be named
RING, RING_LINE, ROUND_POINTS = 0.8, 3.0, 49  # cells from its middle; points; corners
ROUNDS = 4  # in which labels and tables find their sizes


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of one size in rows and columns, with the room that is left for each."""

    group: Group
    letters: Lettering
    style: PanelStyle
    rows: Ticks
    columns: Ticks
    width: float  # of one table
    height: float

    @property
    def grids(self) -> list[Grid]:
        return [each for each in self.group.panels if isinstance(each, Grid)]

    @property
    def down(self) -> int:
        return math.ceil(len(self.grids) / self.group.column_count)

    @property
    def gap(self) -> float:
        return GAP * self.letters.label * POINT

    @property
    def named(self) -> float:
        """The width of what stands beside the rows."""
        words = [word for each in self.group.row_titles for word in _beside(each, self.letters)]
        widths = (text_width(each.text, each.size) * (BOLD if each.bold else 1) for each in words)
        return max(widths, default=0.0) + (self.gap if words else 0.0)

    @property
    def over(self) -> float:
        """The height of what stands over a table."""
        return ABOVE * self.letters.label * POINT if self.group.panel_titles else 0.0

    @property
    def over_each(self) -> bool:
        """Whether something stands over every table, and not over the first row alone."""
        return len(self.group.panel_titles) == len(self.grids)

    @property
    def named_all(self) -> bool:
        """Whether every token has its name beside its row."""
        return len(self.rows.places) == self.rows.count

    @property
    def labels(self) -> tuple[float, float]:
        """What the labels on the left, and those below, take."""
        room = self.style.axis_room
        return self.rows.extent + room, self.columns.extent + room

    @property
    def around(self) -> tuple[float, float]:
        """What all but the tables takes of the width, and of the height."""
        beside, below = self.labels
        headings = self.over * (self.down if self.over_each else 1)
        wide = self.named + beside + self.gap * (self.group.column_count - 1)
        return wide, below + headings + self.gap * (self.down - 1)

    @property
    def size(self) -> tuple[float, float]:
        """All of it."""
        wide, high = self.around
        return wide + self.width * self.group.column_count, high + self.height * self.down

    @property
    def cell(self) -> float:
        """The area of a cell, as far as it is square: what is only wide shows no more."""
        grid = self.grids[0]
        return min(self.width / len(grid.columns), self.height / len(grid.rows)) ** 2

    def box(self, place: int, corner: tuple[float, float]) -> Box:
        """Where a table stands, in a room with this upper left corner."""
        row, column = divmod(place, self.group.column_count)
        left = corner[0] + self.named + self.labels[0] + column * (self.width + self.gap)
        headings = self.over * (row + 1 if self.over_each else 1)
        top = corner[1] - headings - row * (self.height + self.gap)
        return left, top - self.height, self.width, self.height


def in_room(group: Group, width: float, height: float, letters: Lettering) -> Tables:
    """The tables as large as a room lets them be: cells are about square where that is wanted."""
    style = style_of(letters, SLIDE, 1.0, 1.0)
    found = Tables(group, letters, style, Ticks("", 1), Ticks("", 1), 1.0, 1.0)
    for _ in range(ROUNDS):
        grid, (wide, high) = found.grids[0], found.around
        across = max((width - wide) / group.column_count, 0.1)
        down = max((height - high) / found.down, 0.1)
        found = _of_size(found, *_in_shape(grid, across, down))
        rows = row_ticks(grid.rows, found.height / len(grid.rows), style)
        columns = column_ticks(grid.columns, found.width / len(grid.columns), style)
        found = replace(found, rows=rows, columns=columns)
    return found


def _of_size(tables: Tables, width: float, height: float) -> Tables:
    return replace(tables, width=width, height=height)


def _in_shape(grid: Grid, width: float, height: float) -> tuple[float, float]:
    """So much of a room that no cell is much wider than high, and none higher than wide."""
    rows, columns = len(grid.rows), len(grid.columns)
    stretch = STRETCH if grid.rows.unit == grid.columns.unit else LONGER
    wide, high = width / columns, height / rows
    return min(wide, high * stretch) * columns, min(high, wide) * rows


@dataclass(frozen=True, eq=False)
class Course:
    """Tables and charts, where each has its place in a room."""

    tables: Tables
    charts: tuple[tuple[Curves, Box], ...]
    corner: tuple[float, float]


def place(groups: Sequence[Group], room: Box, letters: Lettering) -> Layout:
    """Charts on the right of the tables or below them, whatever makes cells larger."""
    left, bottom, width, height = room
    key = keys.height(_keys(groups), width, letters.note)
    best = _best(groups, (left, bottom + key, width, height - key), letters)
    legend = keys.drawn(_keys(groups), (left, bottom, width, key), letters.note)
    return joined([_drawn(best), charted(best.charts, letters), legend])


def _best(groups: Sequence[Group], room: Box, letters: Lettering) -> Course:
    """All rows and columns, where tokens can be named; else those that tell most."""
    tables = _tables(groups)
    if not tables.row_titles:
        ways = [_largest([each, *_others(groups)], room, letters) for each in _in_rows(tables)]
        return max(ways, key=lambda each: each.tables.cell)
    few, first = _telling(tables, lambda told: True), _telling(tables, lambda told: not told.series)
    wanted = [
        _of_columns(rows, count)
        for rows, fewest in ((tables, tables.column_count - 1), (few, FEWEST), (first, FEWEST))
        for count in range(tables.column_count, max(fewest, FEWEST) - 1, -1)
    ]
    ways = [_largest([each, *_others(groups)], room, letters) for each in wanted or [tables]]
    largest = max(each.tables.cell for each in ways)
    full = (each for each in ways if each.tables.cell > LITTLE_SMALLER * largest)
    return next((each for each in ways if each.tables.named_all), None) or next(full)


def _largest(groups: Sequence[Group], room: Box, letters: Lettering) -> Course:
    ways = [way(groups, room, letters) for way in (_beside_tables, _below_tables)]
    return max(ways, key=lambda each: each.tables.cell)


def _telling(group: Group, counts: Callable[[PanelRemark], bool]) -> Group:
    """The rows of which there is more to tell, and such as counts; all, where there are none."""
    kept = [row for row, name in enumerate(group.row_titles) if any(map(counts, name.remarks))]
    if not kept:
        return group
    panels = (
        group.panels[row * group.column_count : (row + 1) * group.column_count] for row in kept
    )
    return replace(
        group,
        panels=tuple(chain.from_iterable(panels)),
        row_titles=tuple(group.row_titles[row] for row in kept),
    )


def _in_rows(group: Group) -> list[Group]:
    """As it is; or all beside each other, if they are few."""
    count = len(group.panels)
    return (
        [group, replace(group, column_count=count)]
        if group.column_count < count <= IN_A_ROW
        else [group]
    )


def _of_columns(group: Group, count: int) -> Group:
    """So many columns, the last ones and the first."""
    kept = [0, *range(group.column_count - count + 1, group.column_count)]
    rows = range(0, len(group.panels), group.column_count)
    panels = tuple(group.panels[row + column] for row in rows for column in kept)
    return replace(
        group,
        panels=panels,
        column_count=count,
        panel_titles=tuple(group.panel_titles[each] for each in kept),
    )


def _beside_tables(groups: Sequence[Group], room: Box, letters: Lettering) -> Course:
    """One chart below the other, in all the width that tables leave."""
    left, bottom, width, height = room
    charts, air = _charts(groups), AIR * letters.label * POINT
    wide = width - (CHARTS_WIDE * width + air if charts else 0.0)
    tables = in_room(_tables(groups), wide, height, letters)
    start = left + tables.size[0] + air
    boxes = stacked((start, bottom, left + width - start, height), len(charts), letters)
    return Course(tables, tuple(zip(charts, boxes, strict=True)), (left, bottom + height))


def _below_tables(groups: Sequence[Group], room: Box, letters: Lettering) -> Course:
    """Charts in a row."""
    left, bottom, width, height = room
    charts, air = _charts(groups), AIR * letters.label * POINT
    high = max(CHARTS_HIGH * height, LOWEST_CHARTS * letters.label * POINT) if charts else 0.0
    tables = in_room(_tables(groups), width, height - high, letters)
    count = max(len(charts), 1)
    each = (width - air * (count - 1)) / count
    high = height - tables.size[1] - 0.5 * air
    boxes = [(left + place * (each + air), bottom, each, high) for place in range(len(charts))]
    return Course(tables, tuple(zip(charts, boxes, strict=True)), (left, bottom + height))


def _tables(groups: Sequence[Group]) -> Group:
    return next(group for group in groups if group.kind == "course")


def _others(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if group.kind != "course"]


def _charts(groups: Sequence[Group]) -> list[Curves]:
    return [each for group in groups for each in group.panels if isinstance(each, Curves)]


def _keys(groups: Sequence[Group]) -> list[keys.Key]:
    """What the colours mean, and what is hatched."""
    grids = [each for each in _tables(groups).panels if isinstance(each, Grid)]
    hides = any(each.cells.has_hidden for each in grids)
    scale = grids[0].scale
    return [keys.of_scale(scale), *([keys.of_hidden(scale)] if hides else [])]


def _drawn(course: Course) -> Layout:
    tables = course.tables
    boxes = [tables.box(place, course.corner) for place in range(len(tables.grids))]
    words = (*_labels(tables, boxes), *_names_over(tables, boxes), *_names_beside(tables, boxes))
    panels = tuple(_panel(grid, box, tables) for grid, box in zip(tables.grids, boxes, strict=True))
    marks = tuple(
        mark for place, box in enumerate(boxes) for mark in marks_at(*_sides(tables, place), box)
    )
    return replace(
        empty_layout(), panels=panels, words=words, marks=marks, strokes=tuple(_ring(tables, boxes))
    )


def _ring(tables: Tables, boxes: Sequence[Box]) -> Iterator[Stroke]:
    """Around the cell that matters."""
    if tables.group.ringed_cell is None:
        return
    place, row, column = tables.group.ringed_cell
    grid, (left, bottom, width, height) = tables.grids[place], boxes[place]
    wide, high = width / len(grid.columns), height / len(grid.rows)
    x, y = left + (column + 0.5) * wide, bottom + height - (row + 0.5) * high
    turns = np.linspace(0, 2 * np.pi, ROUND_POINTS)
    points = tuple(
        (x + RING * wide * float(np.cos(turn)), y + RING * high * float(np.sin(turn)))
        for turn in turns
    )
    yield Stroke(points, RING_LINE, series=0)


def _panel(grid: Grid, box: Box, tables: Tables) -> Panel:
    return panel_of(grid, box, tables.letters.number, tables.letters.smallest)


def _sides(tables: Tables, place: int) -> tuple[Ticks, Ticks]:
    """The labels of a table: on the left those of the first in a row, below those of the last."""
    none = Ticks("", 0)
    last = place + tables.group.column_count >= len(tables.grids)
    rows = replace(tables.rows, title="") if place % tables.group.column_count == 0 else none
    return rows, replace(tables.columns, title="") if last else none


def _labels(tables: Tables, boxes: Sequence[Box]) -> Iterator[Words]:
    """Of the tables, and what their sides are, once for all."""
    for place, box in enumerate(boxes):
        yield from labels_at(*(_sides(tables, place)), box, tables.style)
    left, right = boxes[0][0], max(box[0] + box[2] for box in boxes)
    foot, top = min(box[1] for box in boxes), max(box[1] + box[3] for box in boxes)
    style = tables.style
    yield from row_title(tables.rows.title, left - tables.rows.extent, (foot, top), style)
    yield from column_title(
        tables.columns.title, foot - tables.columns.extent, (left, right), style
    )


def _names_over(tables: Tables, boxes: Sequence[Box]) -> Iterator[Words]:
    """A name over each table, or over those of the first row; what more there is, in its colour."""
    letters, named = tables.letters, list(zip(tables.group.panel_titles, boxes, strict=False))
    heads = [_head(name, box, letters) for name, box in named]
    ends = [text_width(f"{head.text} ", head.size) * BOLD for head in heads]
    rooms = [box[2] + tables.gap / 2 - end for (_, box), end in zip(named, ends, strict=True)]
    told, size = _told_beside([name.remarks for name, _ in named], rooms, letters)
    for head, end, more in zip(heads, ends, told, strict=True):
        yield head
        x = head.x + end
        for text, series in more:
            yield Words(text, x, head.y, size, series=series)
            x += text_width(f"{text} ", size)


def _head(name: PanelTitle, box: Box, letters: Lettering) -> Words:
    """A name over its table, with room beside it for the numbers that are told."""
    left, bottom, width, height = box
    least = sum(text_width(f" {told.share}", letters.smallest) for told in name.remarks)
    room = max(width - least, width / 2) / BOLD
    text, size = fitted(name.text, letters.label, letters.smallest, room)
    return Words(text, left, bottom + height + 0.45 * letters.label * POINT, size, bold=True)


def _told_beside(
    more: Sequence[Sequence[PanelRemark]], rooms: Sequence[float], letters: Lettering
) -> tuple[list[list[tuple[str, int]]], float]:
    """What more there is, over all tables alike: where there is no room for it, numbers alone."""
    ways = (
        [[(told.text, told.series) for told in each] for each in more],
        [[(told.share, told.series) for told in each] for each in more],
    )
    for way in ways:
        pairs = zip(way, rooms, strict=True)
        size = min((_beside_each_other(each, room, letters) for each, room in pairs), default=1.0)
        if size >= letters.smallest - 1e-6:
            return way, size
    return [[] for _ in more], letters.smallest


def _beside_each_other(texts: Sequence[tuple[str, int]], room: float, letters: Lettering) -> float:
    """How large letters can be."""
    wide = sum(text_width(f"{text} ", letters.label) for text, _ in texts)
    return letters.label * min(1.0, room / wide if wide else 1.0)


def _names_beside(tables: Tables, boxes: Sequence[Box]) -> Iterator[Words]:
    """The name of each row, and what more there is below it, around the middle of its height."""
    first = boxes[:: tables.group.column_count]
    for name, (left, bottom, _, height) in zip(tables.group.row_titles, first, strict=False):
        words = list(_beside(name, tables.letters))
        high = sum(each.size * POINT * ABOVE for each in words)
        share = min((height + tables.gap) / high, 1.0)
        x, y = left - tables.labels[0] - tables.named, bottom + (height + high * share) / 2
        for each in words:
            size = each.size * share
            yield replace(each, x=x, y=y - size * POINT * (ABOVE / 2 + MIDDLE), size=size)
            y -= size * POINT * ABOVE


def _beside(name: PanelTitle, letters: Lettering) -> Iterator[Words]:
    """Lines that have yet to find their place: its name, and below it what more there is."""
    yield Words(name.text, 0.0, 0.0, letters.title, bold=True)
    room = WIDEST_NAME * letters.label * POINT
    for told in name.remarks:
        for line in wrapped(told.text.split(" "), " ", letters.label, room):
            text, size = fitted(line, letters.label, letters.smallest, room)
            yield Words(text, 0.0, 0.0, size, series=told.series)


def natural_height(groups: Sequence[Group], letters: Lettering, width: float) -> float:
    """So high that tables fill the width, with charts below them."""
    tables, charts, air = _tables(groups), _charts(groups), AIR * letters.label * POINT
    key = keys.height(_keys(groups), width, letters.note)
    if not tables.row_titles and charts:
        return key + _height_of_a_film(_in_rows(tables)[-1], len(charts), letters, width)
    found = in_room(tables, width, SLIDE[0], letters)
    beyond = max(found.height - LARGEST_TABLE, 0.0) * found.down
    return key + found.size[1] - beyond + (NATURAL_CHARTS + air if charts else 0.0)


def _height_of_a_film(tables: Group, charts: int, letters: Lettering, width: float) -> float:
    """Charts stand beside tables, where these are high enough for them; else below."""
    lowest = LOWEST_CHARTS * letters.label * POINT
    wide = width * (1 - CHARTS_WIDE) - AIR * letters.label * POINT
    beside = in_room(tables, wide, SLIDE[0], letters).size[1]
    if beside >= charts * lowest:
        return min(beside, HIGHEST_BESIDE * width)
    high = in_room(tables, width, SLIDE[0], letters).size[1]
    return max(high / (1 - CHARTS_HIGH), high + CHARTS_BELOW)


def legible(groups: Sequence[Group], room: Box, letters: Lettering) -> int:
    """How many of its tokens a table names."""
    return len(in_room(_tables(groups), room[2], room[3], letters).rows.places)


FOOT, SHORT_FOOT = 2.2, 0.5  # in letters of an axis: below a chart, with its numbers or without
HEADING = 1.9  # in letters of a label: the room for the line above a chart
RIGHT = 1.0  # and what the last number below it needs beside it


def stacked(room: Box, count: int, letters: Lettering) -> list[Box]:
    """Boxes below each other, in which charts are equally high: the last has numbers below it."""
    left, bottom, width, height = room
    more = (FOOT - SHORT_FOOT) * letters.axis * POINT
    each = (height - more) / max(count, 1)
    boxes = [(left, bottom + more + place * each, width, each) for place in range(1, count)]
    return [*reversed(boxes), *[(left, bottom, width, each + more)][:count]]


def charted(charts: Sequence[tuple[Curves, Box]], letters: Lettering) -> Layout:
    """Each in its box; where they stand below each other, the numbers below the last one alone."""
    lowest = min((box[1] for _, box in charts), default=0.0)
    left = max((_ticks(each, box, letters)[0].extent for each, box in charts), default=0.0)
    size = min((_size_of_names(*each, letters) for each in charts), default=letters.label)
    return joined([
        _charted(curves, box, (left, size), letters, numbered=box[1] == lowest)
        for curves, box in charts
    ])  # fmt: skip


def _ticks(curves: Curves, box: Box, letters: Lettering) -> tuple[Ticks, Ticks]:
    return chart_ticks(curves, box[2], max(box[3] - _around(letters), 0.1), letters.axis)


def _around(letters: Lettering) -> float:
    """What stands above a chart and below it."""
    return (HEADING * letters.label + FOOT * letters.axis) * POINT


def _charted(
    curves: Curves, box: Box, alike: tuple[float, float], letters: Lettering, *, numbered: bool
) -> Layout:
    """What all are alike in is the room beside them, and how large the names of curves are."""
    (left, bottom, width, height), (beside, size) = box, alike
    foot = (FOOT if numbered else SHORT_FOOT) * letters.axis * POINT
    wide = max(width - beside - RIGHT * letters.axis * POINT, 0.2)
    high = max(height - foot - HEADING * letters.label * POINT, 0.2)
    inner = left + beside, bottom + foot, wide, high
    rows, columns = chart_ticks(curves, wide, high, letters.axis)
    rows, columns = replace(rows, title=""), replace(columns, title="")
    shown = columns if numbered else Ticks("", 0)
    words = [
        *labels_at(rows, shown, inner, PanelStyle()),
        *_named(curves, left, inner, size, letters),
    ]
    if numbered:
        words += _side(curves.x_title, [word for word in words if word.across == "center"], letters)
    return replace(
        empty_layout(),
        charts=(chart(curves, inner),),
        words=tuple(words),
        marks=tuple(marks_at(rows, columns, inner)),
    )


def _size_of_names(curves: Curves, box: Box, letters: Lettering) -> float:
    """How large they are where all stand in one line."""
    unit = sum(text_width(line.name, 1.0) for line in curves.lines)
    unit += BETWEEN_NAMES * POINT * (len(curves.lines) - 1)
    room = box[2] - RIGHT * letters.axis * POINT
    return max(min(letters.label, room / max(unit, 1e-6)), letters.smallest)


def _named(
    curves: Curves, left: float, box: Box, size: float, letters: Lettering
) -> Iterator[Words]:
    """Each curve in its colour, in one line from where the numbers beside the chart begin."""
    y = box[1] + box[3] + 0.5 * letters.label * POINT
    end = box[0] + box[2]
    for number, line in enumerate(curves.lines):
        text, points = fitted(line.name, size, letters.smallest, max(end - left, 0.1))
        series = None if line.plain or line.dashed else number
        yield Words(text, left, y, points, series=series)
        left += text_width(text, points) + BETWEEN_NAMES * points * POINT


def _side(name: str, numbers: Sequence[Words], letters: Lettering) -> Iterator[Words]:
    """What the side counts, before its first number."""
    first = min(numbers, key=lambda word: word.x, default=None)
    if first is not None:
        x = first.x - text_width(first.text, first.size) / 2 - 0.6 * letters.axis * POINT
        yield Words(name, x, first.y, letters.axis, faint=True, across="right")
