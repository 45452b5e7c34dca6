"""Heads while they learn: tables of weights, and charts along the steps; in inches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product

import numpy as np

from attnviz.renderers.picture.boxes import Column, Space, grid_of
from attnviz.renderers.picture.charts import chart_ticks, curves_chart, x_value_text
from attnviz.renderers.picture.fit import first_fit
from attnviz.renderers.picture.items import Box, Items, Stroke, Words, cell_box
from attnviz.renderers.picture.matrix import CURVE_NAMES_GAP, build_panel
from attnviz.renderers.picture.page_frame import Drawing, Key, masked_key, scale_key
from attnviz.renderers.picture.panel_labels import (
    PanelStyle,
    Ticks,
    axis_items,
    column_ticks,
    column_title,
    panel_style,
    row_ticks,
    row_title,
)
from attnviz.renderers.picture.text import (
    BOLD,
    MIDDLE,
    POINT,
    SLIDE,
    Lettering,
    Size,
    fit_line,
    text_width,
    widest_line,
    wrap_parts,
)
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.view import Group, PanelRemark, PanelTitle

X_TITLE_GAP = 1.2  # between what the lower side counts and the middle of its first number
CHARTS_WIDTH_SHARE, CHARTS_HEIGHT_SHARE = 0.28, 0.3  # of a room: beside tables, or below them
LEAST_CHART_HEIGHT = 8.0  # of a label's letters
MAX_TABLES_ASPECT = 0.45  # of the width of a room: tables of a film that have charts beside them
CHARTS_BELOW, NATURAL_CHARTS = 2.3, 2.4  # inches: below the tables of a film; and of a slide
LARGEST_TABLE = 3.4  # inches, on a page that is as high as it wants
WIDEST_NAME = 5.5  # of a label's letters: what stands beside a row
STRETCH, LONGER = 1.5, 3.0  # times as wide as high: a cell of as many rows as columns, and others
TABLE_GAP, CHART_GAP = 0.7, 1.6  # between tables, and charts, in letters of a label
NAME_HEIGHT = 1.5  # of its letters: the room for a name over a table
MAX_TABLES_IN_ROW = 6  # tables, at most, that would be in several rows
FEWEST = 3  # columns, of a course that has more
NEARLY_LARGEST_SHARE = 0.8  # times the largest cell, where no way lets all tokens be named
RING_RADIUS, RING_LINE, RING_CORNERS = 0.8, 3.0, 49  # cells from its middle; points; corners
SIZE_ROUNDS = 4  # in which labels and tables find their sizes
FOOT, SHORT_FOOT = 2.2, 0.5  # in letters of an axis: below a chart, with its numbers or without
CHART_HEADING = 1.9  # in letters of a label: the room for the line above a chart
TITLE_PITCH = 1.4  # and what a title above that line adds
CHART_RIGHT = 1.0  # and what the last number below it needs beside it, at least


@dataclass(frozen=True, eq=False)
class TableGrid:
    """Tables of one size in rows and columns, with what stands around them."""

    group: Group
    letters: Lettering
    rows: Ticks
    columns: Ticks
    table_size: Size

    @property
    def style(self) -> PanelStyle:
        return panel_style(self.letters, SLIDE, 1.0, 1.0)

    @cached_property
    def grids(self) -> list[Grid]:
        return [panel for panel in self.group.panels if isinstance(panel, Grid)]

    @property
    def names_width(self) -> float:
        """The width of what stands beside the rows, with a gap; 0 if nothing does."""
        words = [word for name in self.group.row_titles for word in _row_title(name, self.letters)]
        widths = (text_width(word.text, word.size) * (BOLD if word.bold else 1) for word in words)
        gap = TABLE_GAP * self.letters.label * POINT
        return max(widths) + gap if words else 0.0

    @property
    def least_title_width(self) -> float:
        """The width in which the longest name over a table has room in the smallest letters."""
        names = tuple(title.text for title in self.group.panel_titles)
        return widest_line(names, self.letters.smallest) * BOLD

    @cached_property
    def column(self) -> Column:
        """The room of all tables: labels beside the first table of a row, and below the last of a
        column.
        """
        across, room = self.group.column_count, self.style.axis_title_height
        down = math.ceil(len(self.grids) / across)
        gap = TABLE_GAP * self.letters.label * POINT
        title_height = NAME_HEIGHT * self.letters.label * POINT if self.group.panel_titles else 0.0
        left, below = self.names_width + self.rows.extent + room, self.columns.extent + room
        all_named = len(self.group.panel_titles) == len(self.grids)  # has something over it
        spaces = [
            Space(
                *self.table_size,
                left=left if column == 0 else 0.0,
                right=max(self.least_title_width - self.table_size[0], 0.0),
                above=title_height if all_named or row == 0 else 0.0,
                below=below if row == down - 1 else 0.0,
            )
            for row, column in product(range(down), range(across))
        ]
        return grid_of(spaces, across, gap, gap)

    @property
    def cell_area(self) -> float:
        """The area of a cell, as far as it is square: what is only wide shows no more."""
        down, across = self.grids[0].values.shape
        side: float = min(self.table_size[0] / across, self.table_size[1] / down)
        return side * side

    def side_ticks(self, number: int) -> tuple[Ticks, Ticks]:
        """Return the labels of a table: on the left those of the first in a row, below of the last.

        `number` is the place of the table; others have none.
        """
        none, across = Ticks("", 0), self.group.column_count
        is_last = number + across >= len(self.grids)
        rows = self.rows.untitled if number % across == 0 else none
        return rows, self.columns.untitled if is_last else none

    def items(self, corner: tuple[float, float]) -> Items:
        """Yield the tables from this upper left corner, with labels, titles, names, and a ring
        around a cell.
        """
        boxes, letters = [*self.column.boxes(*corner)][: len(self.grids)], self.letters
        for number, (table, box) in enumerate(zip(self.grids, boxes, strict=True)):
            yield build_panel(table, box, letters.number, letters.smallest)
            yield from axis_items(*self.side_ticks(number), box, self.style)
        left, right = boxes[0][0], max(box[0] + box[2] for box in boxes)
        foot, top = min(box[1] for box in boxes), max(box[1] + box[3] for box in boxes)
        side, below = left - self.rows.extent, foot - self.columns.extent
        yield from row_title(self.rows.title, side, (foot, top), self.style)
        yield from column_title(self.columns.title, below, (left, right), self.style)
        yield from self._table_titles(boxes)
        yield from self._row_titles(boxes)
        if self.group.ringed_cell is not None:
            number, row, column = self.group.ringed_cell
            panel = build_panel(self.grids[number], boxes[number])
            yield _ring_around(cell_box(panel, row, column))

    def _table_titles(self, boxes: Sequence[Box]) -> Iterator[Words]:
        """Yield a name over each table, or over those of the first row, and numbers in their
        colours.
        """
        letters, names = self.letters, list(zip(self.group.panel_titles, boxes, strict=False))
        gap = TABLE_GAP * letters.label * POINT
        least = self.least_title_width
        titles = [_table_title(name, box, letters, least) for name, box in names]
        size = min((title.size for title in titles), default=letters.label)
        titles = [replace(title, size=size) for title in titles]
        ends = [text_width(f"{title.text} ", title.size) * BOLD for title in titles]
        rooms = [box[2] + gap / 2 - end for (_, box), end in zip(names, ends, strict=True)]
        numbers, size = _remark_texts([name.remarks for name, _ in names], rooms, letters)
        for title, end, texts in zip(titles, ends, numbers, strict=True):
            yield title
            x = title.x + end
            for text, series in texts:
                yield Words(text, x, title.y, size, series=series)
                x += text_width(f"{text} ", size)

    def _row_titles(self, boxes: Sequence[Box]) -> Iterator[Words]:
        """Yield the name of each row, with its remarks below it, around the middle of the row.

        Letters that cannot shrink lose remarks that have no room.
        """
        x = boxes[0][0] - self.rows.extent - self.style.axis_title_height - self.names_width
        gap, first_boxes = TABLE_GAP * self.letters.label * POINT, boxes[:: self.group.column_count]
        for name, (_, bottom, _, height) in zip(self.group.row_titles, first_boxes, strict=False):
            words = list(_row_title(name, self.letters))
            high = sum(word.size * POINT * NAME_HEIGHT for word in words)
            share = min((height + gap) / high, 1.0)
            if share < 1 and not self.letters.can_shrink:
                words, share = words[: max(int(len(words) * share), 1)], 1.0
                high = sum(word.size * POINT * NAME_HEIGHT for word in words)
            y = bottom + (height + high * share) / 2
            for word in words:
                size = word.size * share
                foot = y - size * POINT * (NAME_HEIGHT / 2 + MIDDLE)
                yield replace(word, x=x, y=foot, size=size)
                y -= size * POINT * NAME_HEIGHT


def largest_tables(group: Group, width: float, height: float, letters: Lettering) -> TableGrid:
    """Return the tables of a group, as large as a room lets them be with their labels.

    No cell is much wider than high, and none higher than wide.
    """
    tables = TableGrid(group, letters, Ticks("", 1), Ticks("", 1), (1.0, 1.0))
    table = tables.grids[0]
    rows, columns = table.values.shape
    stretch = STRETCH if table.rows.unit == table.columns.unit else LONGER
    down = math.ceil(len(tables.grids) / group.column_count)
    for _ in range(SIZE_ROUNDS):
        (whole_wide, whole_high), (table_wide, table_high) = tables.column.size, tables.table_size
        around_wide = whole_wide - table_wide * group.column_count
        around_high = whole_high - table_high * down
        wide = max((width - around_wide) / group.column_count, 0.1) / columns
        high = max((height - around_high) / down, 0.1) / rows
        wide, high = min(wide, high * stretch), min(high, wide)
        left = row_ticks(table.rows, high, tables.style)
        below = column_ticks(table.columns, wide, tables.style)
        tables = TableGrid(group, letters, left, below, (wide * columns, high * rows))
    return tables


@dataclass(frozen=True)
class TrainingDrawing(Drawing):
    """Charts on the right of the tables or below them, whatever makes cells larger."""

    groups: tuple[Group, ...]

    @property
    def tables(self) -> Group:
        return next(group for group in self.groups if group.kind == "course")

    @property
    def charts(self) -> list[Curves]:
        return [each for group in self.groups for each in group.panels if isinstance(each, Curves)]

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height at which tables fill the width, up to a limit, with charts below them;
        or that of tables which have charts beside them.
        """
        if not self.tables.row_titles and self.charts:
            return self._film_height(letters, width)
        tables = largest_tables(self.tables, width, SLIDE[0], letters)
        down = len(tables.column.parts)
        excess = max(tables.table_size[1] - LARGEST_TABLE, 0.0) * down
        below = NATURAL_CHARTS + CHART_GAP * letters.label * POINT if self.charts else 0.0
        height = tables.column.size[1] - excess + below
        best = self._best_course((0.0, 0.0, width, height), letters)
        if best.charts and best.charts[0][1][1] + best.charts[0][1][3] > height - 1e-6:
            least = len(self.charts) * LEAST_CHART_HEIGHT * letters.label * POINT  # beside tables
            return min(height, max(best.tables.column.size[1], least))
        return height

    def _film_height(self, letters: Lettering, width: float) -> float:
        """Return the height of a film: charts stand beside tables, where these are high enough;
        else below.
        """
        group, label = _row_choices(self.tables)[-1], letters.label * POINT
        wide = width * (1 - CHARTS_WIDTH_SHARE) - CHART_GAP * label
        beside_height = largest_tables(group, wide, SLIDE[0], letters).column.size[1]
        if beside_height >= len(self.charts) * LEAST_CHART_HEIGHT * label:
            return min(beside_height, MAX_TABLES_ASPECT * width)
        high = largest_tables(group, width, SLIDE[0], letters).column.size[1]
        return max(high / (1 - CHARTS_HEIGHT_SHARE), high + CHARTS_BELOW)

    def body(self, room: Box, letters: Lettering) -> Items:
        """Yield the tables and the charts of the best arrangement."""
        best = self._best_course(room, letters)
        yield from best.tables.items((room[0], room[1] + room[3]))
        yield from charts_items(best.charts, letters)

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return how many tokens the rows of a table name, if tables have all of the room."""
        return len(largest_tables(self.tables, room[2], room[3], letters).rows.positions)

    def keys(self) -> list[Key]:
        grids = [panel for panel in self.tables.panels if isinstance(panel, Grid)]
        scale = grids[0].scale
        hidden = [masked_key(scale)] if any(panel.cells.has_hidden for panel in grids) else []
        return [scale_key(scale), *hidden]

    def key_size(self, letters: Lettering) -> float:
        return letters.note

    def _best_course(self, room: Box, letters: Lettering) -> Course:
        """Return the first arrangement, from all rows and columns to fewer, that names all tokens.

        If none does, it is the first whose cells are nearly the largest. Rows with remarks, the
        first column and the last ones stay longest. Without names of rows the largest cells win.
        """
        tables = self.tables
        if not tables.row_titles:
            return max(self._courses(_row_choices(tables), room, letters), key=_cell_area)
        few = _rows_with_remark(tables, lambda remark: True)
        first = _rows_with_remark(tables, lambda remark: not remark.series)
        choices = [
            _even_columns(group, count)
            for group, fewest in ((tables, tables.column_count - 1), (few, FEWEST), (first, FEWEST))
            for count in range(tables.column_count, max(fewest, FEWEST) - 1, -1)
        ]
        ways = self._courses(choices or [tables], room, letters)
        all_named = [way for way in ways if len(way.tables.rows.positions) == way.tables.rows.count]
        least = NEARLY_LARGEST_SHARE * max(map(_cell_area, ways))
        return first_fit(all_named or ways, lambda way: bool(all_named) or _cell_area(way) > least)

    def _courses(self, choices: Sequence[Group], room: Box, letters: Lettering) -> list[Course]:
        """Return for each choice of tables the better arrangement: with charts beside or below
        them.
        """
        return [
            max(
                (way(group, self.charts, room, letters) for way in (_charts_beside, _charts_below)),
                key=_cell_area,
            )
            for group in choices
        ]


@dataclass(frozen=True, eq=False)
class Course:
    """Tables from the upper left corner of a room, and the charts of a training with
    their boxes.
    """

    tables: TableGrid
    charts: list[tuple[Curves, Box]]


def _cell_area(course: Course) -> float:
    return course.tables.cell_area


def _rows_with_remark(group: Group, counts: Callable[[PanelRemark], bool]) -> Group:
    """Return a group with those rows that have a remark for which `counts` is true; all, if none
    has.
    """
    rows = [row for row, name in enumerate(group.row_titles) if any(map(counts, name.remarks))]
    if not rows:
        return group
    panels = (
        group.panels[row * group.column_count : (row + 1) * group.column_count] for row in rows
    )
    titles = tuple(group.row_titles[row] for row in rows)
    return replace(group, panels=tuple(chain.from_iterable(panels)), row_titles=titles)


def _row_choices(group: Group) -> list[Group]:
    """Return a group as it is; and with all tables beside each other, if they are at most six."""
    count = len(group.panels)
    one_row = replace(group, column_count=count)
    return [group, *[one_row] * (group.column_count < count <= MAX_TABLES_IN_ROW)]


def _even_columns(group: Group, count: int) -> Group:
    """Return a group with `count` columns, evenly chosen: the first and the last are among them."""
    columns = np.linspace(0, group.column_count - 1, count).round().astype(int).tolist()
    starts = range(0, len(group.panels), group.column_count)
    panels = tuple(group.panels[start + column] for start in starts for column in columns)
    titles = tuple(group.panel_titles[column] for column in columns)
    return replace(group, panels=panels, column_count=count, panel_titles=titles)


def _charts_beside(group: Group, charts: list[Curves], room: Box, letters: Lettering) -> Course:
    """Return tables, and on the right charts below each other, in all the width that
    tables leave.
    """
    left, bottom, width, height = room
    gap = CHART_GAP * letters.label * POINT
    wide = width - (CHARTS_WIDTH_SHARE * width + gap if charts else 0.0)
    tables = largest_tables(group, wide, height, letters)
    start = left + tables.column.size[0] + gap
    boxes = stacked_boxes((start, bottom, left + width - start, height), len(charts), letters)
    return Course(tables, list(zip(charts, boxes, strict=True)))


def _charts_below(group: Group, charts: list[Curves], room: Box, letters: Lettering) -> Course:
    """Return tables, and below them charts in a row, in all the height that tables leave."""
    left, bottom, width, height = room
    label, count = letters.label * POINT, max(len(charts), 1)
    high = max(CHARTS_HEIGHT_SHARE * height, LEAST_CHART_HEIGHT * label) if charts else 0.0
    tables = largest_tables(group, width, height - high, letters)
    gap, high = CHART_GAP * label, height - tables.column.size[1] - 0.5 * CHART_GAP * label
    wide = (width - gap * (count - 1)) / count
    boxes = [(left + n * (wide + gap), bottom, wide, high) for n in range(len(charts))]
    return Course(tables, list(zip(charts, boxes, strict=True)))


def _ring_around(box: Box) -> Stroke:
    left, bottom, wide, high = box
    x, y = left + wide / 2, bottom + high / 2
    turns = np.linspace(0, 2 * np.pi, RING_CORNERS)
    across, up = x + RING_RADIUS * wide * np.cos(turns), y + RING_RADIUS * high * np.sin(turns)
    points = tuple(zip(across.tolist(), up.tolist(), strict=True))
    return Stroke(points, RING_LINE, series=0)


def _table_title(name: PanelTitle, box: Box, letters: Lettering, least: float) -> Words:
    """Return a name over its table, at least `least` inches wide, with room beside it for the
    numbers of its remarks.
    """
    left, bottom, width, height = box
    remarks_width = sum(text_width(f" {remark.share}", letters.smallest) for remark in name.remarks)
    room = max(width - remarks_width, width / 2, least) / BOLD
    text, size = fit_line(name.text, letters.label, letters.smallest, room)
    return Words(text, left, bottom + height + 0.45 * letters.label * POINT, size, bold=True)


def _remark_texts(
    remarks: Sequence[Sequence[PanelRemark]], rooms: Sequence[float], letters: Lettering
) -> tuple[list[list[tuple[str, int]]], float]:
    """Return the remarks of each table as texts with colours, and the one size of all, in points.

    Where whole remarks have no room (`rooms`, in inches), only their numbers come, or nothing.
    """
    choices = (
        [[(remark.text, remark.series) for remark in texts] for texts in remarks],
        [[(remark.share, remark.series) for remark in texts] for texts in remarks],
    )
    for choice in choices:
        widths = [sum(text_width(f"{text} ", 1.0) for text, _ in texts) for texts in choice]
        sizes = (room / max(wide, 1e-6) for wide, room in zip(widths, rooms, strict=True))
        size = min([letters.label, *sizes])
        if size >= letters.smallest - 1e-6:
            return choice, size
    return [[] for _ in remarks], letters.smallest


def _row_title(name: PanelTitle, letters: Lettering) -> Iterator[Words]:
    """Yield the name of a row and its remarks, as lines all at (0, 0): they have yet
    to be placed.
    """
    yield Words(name.text, 0.0, 0.0, letters.title, bold=True)
    room = WIDEST_NAME * letters.label * POINT
    for remark in name.remarks:
        for line in wrap_parts(remark.text.split(" "), " ", letters.label, room):
            text, size = fit_line(line, letters.label, letters.smallest, room)
            yield Words(text, 0.0, 0.0, size, series=remark.series)


def stacked_boxes(room: Box, count: int, letters: Lettering) -> list[Box]:
    """Return boxes below each other, from the top: the last is higher by the room for its numbers.

    So the charts in them are equally high.
    """
    left, bottom, width, height = room
    extra = (FOOT - SHORT_FOOT) * letters.axis * POINT
    each = (height - extra) / max(count, 1)
    boxes = [(left, bottom + extra + index * each, width, each) for index in range(1, count)]
    return [*reversed(boxes), *[(left, bottom, width, each + extra)][:count]]


def charts_items(charts: Sequence[tuple[Curves, Box]], letters: Lettering) -> Items:
    """Yield charts, each in its box; where they stand below each other, numbers below the last
    alone.

    All have the same room beside them, and names of curves in letters of one size.
    """
    lowest = min((box[1] for _, box in charts), default=0.0)
    foot = FOOT * letters.axis * POINT

    def numbers_width(curves: Curves, box: Box) -> float:
        high = max(box[3] - foot - _heading_height(curves, letters), 0.1)
        return chart_ticks(curves, box[2], high, letters.axis)[0].extent

    reach = max((numbers_width(*chart) for chart in charts), default=0.0)
    titles = (text_width(curves.x_title, letters.axis) for curves, _ in charts)
    reach = max(reach, max(titles, default=0.0) + X_TITLE_GAP * letters.axis * POINT)
    size = min((_names_size(*chart, letters) for chart in charts), default=letters.label)
    for curves, box in charts:
        yield from _chart_items(curves, box, reach, size, letters, numbered=box[1] == lowest)


def _chart_items(
    curves: Curves, box: Box, reach: float, size: float, letters: Lettering, *, numbered: bool
) -> Items:
    """Yield a chart in its box, with the numbers of its sides and the names of its curves.

    `reach` is the room for numbers on the left; `numbered` asks for those below, behind what they
    count.
    """
    left, bottom, width, height = box
    foot = (FOOT if numbered else SHORT_FOOT) * letters.axis * POINT
    last_half = text_width(x_value_text(curves.x_values[-1]), letters.axis) / 2
    wide = max(width - reach - max(CHART_RIGHT * letters.axis * POINT, last_half), 0.2)
    high = max(height - foot - _heading_height(curves, letters), 0.2)
    inner = left + reach, bottom + foot, wide, high
    rows, columns = (ticks.untitled for ticks in chart_ticks(curves, wide, high, letters.axis))
    if not numbered:
        columns = replace(columns, labels=("",) * len(columns.labels))
    sides = [*axis_items(rows, columns, inner, PanelStyle())]
    yield curves_chart(curves, inner)
    yield from sides
    names_width = width - CHART_RIGHT * letters.axis * POINT
    yield from _curve_names(curves, (left, inner[1], names_width, high), size, letters)
    numbers = [item for item in sides if isinstance(item, Words) and item.halign == "center"]
    if numbers:  # what the side counts, before its first number
        leftmost = min(numbers, key=lambda word: word.x)
        half = text_width(leftmost.text, leftmost.size) / 2
        x = leftmost.x - half - X_TITLE_GAP / 2 * letters.axis * POINT
        yield Words(curves.x_title, x, leftmost.y, letters.axis, faint=True, halign="right")


def _heading_height(curves: Curves, letters: Lettering) -> float:
    """Return the height of the names of curves above a chart, and of its title if it has one."""
    return CHART_HEADING * letters.label * POINT + (
        TITLE_PITCH * letters.label * POINT if curves.headed else 0.0
    )


def _names_size(curves: Curves, box: Box, letters: Lettering) -> float:
    """Return the size in points at which all names of curves stand in one line."""
    unit = sum(text_width(line.name, 1.0) for line in curves.lines)
    unit += CURVE_NAMES_GAP * POINT * (len(curves.lines) - 1)
    room = box[2] - CHART_RIGHT * letters.axis * POINT
    return max(min(letters.label, room / max(unit, 1e-6)), letters.smallest)


def _curve_names(curves: Curves, box: Box, size: float, letters: Lettering) -> Iterator[Words]:
    """Yield the name of each curve in its colour, in one line above the box of a chart and its
    numbers; above them its title, if it is `headed`.
    """
    left, y = box[0], box[1] + box[3] + 0.5 * letters.label * POINT
    end = left + box[2]
    if curves.headed:
        above = y + TITLE_PITCH * letters.label * POINT
        text, points = fit_line(curves.title, letters.label, letters.smallest, end - left)
        yield Words(text, left, above, points)
    for number, line in enumerate(curves.lines):
        text, points = fit_line(line.name, size, letters.smallest, max(end - left, 0.1))
        series = None if line.plain or line.dashed else number
        yield Words(text, left, y, points, series=series)
        left += text_width(text, points) + CURVE_NAMES_GAP * points * POINT
