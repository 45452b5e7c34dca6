"""The tables of a card, in rows and columns, each as large as it must be. Lengths are inches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from attnviz.renderers.picture.charts import chart, chart_ticks
from attnviz.renderers.picture.items import Box, Layout
from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.numbers import GRIDS, NUMBER_SHARE, longest_number, panel_of
from attnviz.renderers.picture.panel_rows import CHART_HEIGHT, FEW_STRETCH
from attnviz.renderers.picture.texts import labels_at, marks_at, panel_titles
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    Ticks,
    column_ticks,
    no_ticks,
    reach,
    row_ticks,
    text_width,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Curves, Grid

SMALLEST = 8.0  # points: with nothing smaller a page can be enlarged until all can be read
ON_CARDS = PanelStyle(title=8.5, axis=8.0, label=8.5, smallest=SMALLEST, number=12.0, stretch=2.4)
SMALLEST_TITLE = SMALLEST
POINTS = SMALLEST  # of the numbers in cells that have not grown
CELL_HEIGHT = 0.19  # that such a number wants
USUAL_NUMBER = "−0.00"
MOST_NUMBERED = 24  # cells on a side: of more the numbers are left out
FINE_CELL, FINE_MATRIX, FINE_ROW = (
    0.122,
    0.1,
    0.15,
)  # such cells are so large, those of words so high,
TALLEST = 1.1  # times as high as wide a cell can be
LONGEST_SIDE = 8.0  # and smaller if there are very many
ID_HEIGHT, LONGEST_IDS = 0.13, 15.0  # ids are nothing but numbers, so that these must be read
CHART_WIDTH = 2.6
RAGGED = 4  # so many tables stand in rows that are all full
TABLE_GAP, LINE_GAP = 0.12, 0.1  # between two tables

OF_A_HEAD = re.compile(r"(?:^|head | )(\d+)$")

Drawn = tuple[Grid | Curves, ...]
Larger = tuple[float, float]  # how many times as large cells are, and how many times as wide then


@dataclass(frozen=True, eq=False)
class CardTable:
    """A table in its size, and how far its labels reach beyond it."""

    shown: Grid | Curves
    width: float
    height: float
    rows: Ticks
    columns: Ticks
    left: float
    right: float

    @property
    def below(self) -> float:
        return reach(self.columns, ON_CARDS)


Columns = tuple[CardTable, ...]


@dataclass(frozen=True, eq=False)
class Body:
    """The tables of a card in rows and columns."""

    tables: tuple[CardTable, ...]
    across: int
    larger: Larger
    aligned: bool = True  # else each row goes its own way

    @property
    def rows(self) -> list[tuple[CardTable, ...]]:
        starts = range(0, len(self.tables), self.across)
        return [self.tables[start : start + self.across] for start in starts]

    @property
    def columns(self) -> list[list[Columns]]:
        """For each row the tables that stand below each other in each of its columns."""
        if not self.aligned:
            return [[(table,) for table in row] for row in self.rows]
        across = range(min(self.across, len(self.tables)))
        return [[self.tables[start :: self.across] for start in across]] * len(self.rows)

    @property
    def title(self) -> float:
        """The room for a title above each table."""
        return (
            ON_CARDS.title * POINT * 1.7 if any(each.shown.title for each in self.tables) else 0.0
        )

    @property
    def width(self) -> float:
        rows = (sum(map(_column_width, row)) + TABLE_GAP * (len(row) - 1) for row in self.columns)
        return max(rows, default=0.0)

    @property
    def height(self) -> float:
        if not self.tables:
            return 0.0
        return sum(self.title + _row_height(row) for row in self.rows) + LINE_GAP * len(self.rows)

    @property
    def cells(self) -> float:
        """So much of the width becomes more when cells become wider."""
        rows = (sum(max(each.width for each in column) for column in row) for row in self.columns)
        return max(rows, default=0.0)


@lru_cache(maxsize=4096)
def body(drawn: Drawn, across: int, larger: Larger, fine: bool = False) -> Body:
    """So many tables beside each other, their cells so many times as large as they must be."""
    sizes = [size_of(each, *larger, fine=fine) for each in drawn]
    shown = tuple(map(_words_alone, drawn)) if fine else drawn
    tables = (_table(shown, place, across, sizes[place]) for place in range(len(drawn)))
    return Body(tuple(tables), across, larger, _aligned(drawn, across))


@lru_cache(maxsize=GRIDS)  # the same one again, of which it is known what its numbers need
def _words_alone(each: Grid | Curves) -> Grid | Curves:
    """A table whose rows have words, if they are tokens, and whose columns their numbers."""
    if isinstance(each, Curves):
        return each
    none = ("",) * len(each.rows)
    rows = replace(
        each.rows, title="", numbers=each.rows.numbers if any(each.rows.labels) else none
    )
    none = ("",) * len(each.columns)
    numbers = each.columns.numbers if any(each.columns.labels) else none
    columns = replace(each.columns, title="", labels=none, numbers=numbers)
    return replace(each, rows=rows, columns=columns)


def bodies(drawn: Drawn, larger: Larger, fine: bool = False) -> list[Body]:
    """In one column, in two, and so on to one row; as long as heads stand below each other."""
    several = [body(drawn, across, larger, fine) for across in _arrangements(drawn)]
    return several or [Body((), 1, larger)]


def _arrangements(drawn: Sequence[Grid | Curves]) -> list[int]:
    """How many tables can stand beside each other."""
    count, heads = len(drawn), _heads(drawn)
    across = sorted({math.ceil(count / rows) for rows in range(1, count + 1)})
    if heads:
        return [each for each in across if each % heads == 0 or heads % each == 0]
    return [each for each in across if count > RAGGED or count % each == 0]


def _heads(drawn: Sequence[Grid | Curves]) -> int:
    """How many heads there are, if each table belongs to one."""
    found = [OF_A_HEAD.search(each.title) for each in drawn]
    return len({match[1] for match in found if match}) if all(found) else 0


def _table(
    drawn: Sequence[Grid | Curves], place: int, across: int, size: tuple[float, float]
) -> CardTable:
    """The labels of a neighbour on the left, or below, serve for both."""
    each = drawn[place]
    width, height = size
    if isinstance(each, Curves):
        rows, columns = chart_ticks(each, width, height, ON_CARDS.label)
        return CardTable(each, width, height, rows, columns, reach(rows, ON_CARDS), 0.15)
    alike = (_aligned(drawn, across) and across > 1) or _aligned([*drawn[place::across][:2]], 2)
    left = drawn[place - 1] if place % across else None
    below = drawn[place + across] if place + across < len(drawn) else None
    rows = _ticks(row_ticks, each.rows, height)
    columns = _ticks(column_ticks, each.columns, width)
    if isinstance(left, Grid) and left.rows == each.rows and left.values.shape == each.values.shape:
        rows = no_ticks(each.rows)
    if isinstance(below, Grid) and below.columns == each.columns and alike:
        columns = no_ticks(each.columns)
    return _with_reach(each, width, height, rows, columns)


def _ticks(make: Callable[..., Ticks], axis: Axis, length: float) -> Ticks:
    """None where nothing is left to say."""
    return make(axis, length / len(axis), ON_CARDS) if any(axis.names) else no_ticks(axis)


def _aligned(drawn: Sequence[Grid | Curves], across: int) -> bool:
    """Narrow tables below wide ones would stand far apart."""
    widths = [round(size_of(each, 1.0, 1.0)[0], 6) for each in drawn]
    return across == 1 or all(len(set(widths[start::across])) == 1 for start in range(across))


def _with_reach(grid: Grid, width: float, height: float, rows: Ticks, columns: Ticks) -> CardTable:
    """An axis has a title only where this is no longer than its side."""
    if text_width(rows.title, ON_CARDS.axis) > height + 0.1:
        rows = replace(rows, title="")
    beyond = max((text_width(columns.title, ON_CARDS.axis) - width) / 2, 0.0)
    pitch = width / columns.count
    starts = [
        _leans(label, columns) - pitch * (place + 0.5)
        for place, label in zip(columns.places, columns.labels, strict=True)
    ]
    left = max([reach(rows, ON_CARDS), beyond, *starts])
    return CardTable(grid, width, height, rows, columns, left, max(beyond, 0.02))


def _leans(label: str, ticks: Ticks) -> float:
    """How far a label below a table reaches to the left of its place."""
    width, line = text_width(label, ticks.size), ticks.size * POINT
    return {0: width / 2, 45: width * math.sqrt(0.5) + 0.3 * line, 90: 0.6 * line}[ticks.angle]


def size_of(
    each: Grid | Curves, grown: float, wider: float, *, fine: bool = False
) -> tuple[float, float]:
    if isinstance(each, Curves):
        return CHART_WIDTH * grown, CHART_WIDTH * grown * CHART_HEIGHT
    rows, columns = each.values.shape
    most = 0 if fine else MOST_NUMBERED
    wide, high = _cell(each, rows, columns, most)
    if max(rows, columns) > MOST_NUMBERED:
        wider = min(wider, 1.0)
    if wider > 1 and each.rows.unit == each.columns.unit and rows > 1:
        wider = max(min(wider, FEW_STRETCH * high / wide), 1.0)
    width = wide * grown * wider
    return width * columns, max(min(high * grown, TALLEST * width), high) * rows


def _cell(grid: Grid, rows: int, columns: int, most: int) -> tuple[float, float]:
    """A cell that just holds its number; where there are very many, a small one without it."""
    number = longest_number(grid) * POINTS / 10 / NUMBER_SHARE + 1e-6
    if grid.scale.kind == "none":
        return number, CELL_HEIGHT if rows <= MOST_NUMBERED else min(ID_HEIGHT, LONGEST_IDS / rows)
    alike = grid.rows.unit == grid.columns.unit
    square = alike and rows > 1
    if alike:  # weights stand beside scores, and should be as large
        number = max(number, text_width(USUAL_NUMBER, POINTS) / NUMBER_SHARE)
    if max(rows, columns) <= most:
        return number, max(CELL_HEIGHT, number / ON_CARDS.stretch) if square else CELL_HEIGHT
    fine = FINE_CELL if most or any(grid.rows.labels) else FINE_MATRIX
    wide, high = (min(fine, LONGEST_SIDE / count) for count in (columns, rows))
    if square:
        return min(wide, high), min(wide, high)
    # A few rows or columns beside very many can be a little larger.
    return (
        wide if columns > MOST_NUMBERED or not most else 1.5 * FINE_CELL,
        high if rows > MOST_NUMBERED else CELL_HEIGHT if most else FINE_ROW,
    )


def _column_width(tables: Sequence[CardTable]) -> float:
    return max(each.left for each in tables) + max(_from_its_edge(each) for each in tables)


def _from_its_edge(table: CardTable) -> float:
    """From the left edge of its cells, above which its title starts."""
    return max(table.width + table.right, text_width(_title(table), SMALLEST_TITLE))


def _title(table: CardTable) -> str:
    pooled = table.shown.pooled if isinstance(table.shown, Grid) else ""
    return " · ".join(part for part in (table.shown.title, pooled) if part)


def _row_height(tables: Sequence[CardTable]) -> float:
    return max(each.height + each.below for each in tables)


def draw_tables(tables: Body, left: float, top: float) -> Iterator[Layout]:
    for row, columns in zip(tables.rows, tables.columns, strict=True):
        top -= tables.title
        start = left
        for table, column in zip(row, columns, strict=False):
            edge = start + max(each.left for each in column)
            yield _drawn(table, (edge, top - table.height, table.width, table.height))
            start += _column_width(column) + TABLE_GAP
        top -= _row_height(row) + LINE_GAP


def _drawn(table: CardTable, box: Box) -> Layout:
    each = table.shown
    room = _from_its_edge(table) + TABLE_GAP * 0.6
    words = (
        *panel_titles(each, box, ON_CARDS.title, SMALLEST_TITLE, room),
        *labels_at(table.rows, table.columns, box, ON_CARDS),
    )
    panels = (panel_of(each, box, ON_CARDS.number, SMALLEST),) if isinstance(each, Grid) else ()
    charts = (chart(each, box),) if isinstance(each, Curves) else ()
    marks = tuple(marks_at(table.rows, table.columns, box))
    return Layout((0.0, 0.0), panels, charts, (), words, marks)
