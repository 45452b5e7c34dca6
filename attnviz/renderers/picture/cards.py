"""A card on a page of many: its heading, its small print, and tables as large as they must be.

Nothing here is made to fit: a card says how much room it takes, and `flow.py` finds that room.
All lengths are inches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from attnviz.renderers.picture.bars import scales_of
from attnviz.renderers.picture.charts import chart, chart_ticks
from attnviz.renderers.picture.labels import labels_at, marks_at
from attnviz.renderers.picture.layout import CHART_HEIGHT
from attnviz.renderers.picture.numbers import NUMBER_SHARE, longest_number, panel_of
from attnviz.renderers.picture.placed import Bar, Box, Layout, Words, empty_layout, joined
from attnviz.renderers.picture.texts import BOLD, fitted, panel_titles, wrapped
from attnviz.renderers.picture.ticks import (
    POINT,
    PanelStyle,
    Ticks,
    column_ticks,
    no_ticks,
    reach,
    row_ticks,
    text_width,
)
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import Drawable, Section

HEADING, SMALLER_HEADING, SMALL = 10.0, 8.0, 6.5  # points
WIDEST_HEADING = 3.6  # a longer one is cut
ON_CARDS = PanelStyle(title=8.0, axis=7.0, label=8.5, stretch=1.6)
SMALLEST_TITLE = 5.5
POINTS = 7.0  # of the numbers in cells that have not grown
CELL_HEIGHT = 0.18  # that such a number wants
MOST_NUMBERED = 24  # cells on a side: of more the numbers are left out
FINE_CELL = 0.11  # such cells are so large,
LONGEST_SIDE = 8.0  # and smaller if there are very many
ID_HEIGHT, LONGEST_IDS = 0.13, 15.0  # ids are nothing but numbers, so that these must be read
CHART_WIDTH = 2.6
WORDS_ALONE = 1.5  # the width of a panel of words alone
RAGGED = 4  # so many tables stand in rows that are all full
SLACK = 0.95  # of the width: small letters that are fitted to pixels may come out wider
MOST_LINES = 2  # that a sentence may take in the small print
OUTSIDE_BRACKETS = re.compile(r" (?![^\[]*\])")  # so that `[4 × 3]` stays together
RULE = 0.07  # from a rule to the heading below it
TABLE_GAP, LINE_GAP = 0.22, 0.1  # between two tables
KEY = (0.45, 0.075)  # a colour bar that lies beside a heading
LEADING = 1.45  # from one line to the next


@dataclass(frozen=True, eq=False)
class Card:
    """What one card shows."""

    heading: str
    shapes: str
    formula: str
    about: str
    drawn: tuple[Grid | Curves, ...]


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
    grown: float
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


@dataclass(frozen=True, eq=False)
class Head:
    """What stands above the tables: the heading, keys to the colours, and the small print."""

    heading: str
    size: float
    scales: tuple[Scale, ...]
    lines: tuple[str, ...]

    @property
    def height(self) -> float:
        return RULE + (HEADING + len(self.lines) * SMALL * LEADING) * POINT + 0.1


def card_of(each: Drawable) -> Card:
    """A table that is alone on its card needs no title beside the card's."""
    if not isinstance(each, Section):
        return Card(each.title, "", "", "", (replace(each, title=""),))
    grids = [without_titles(grid) for grid in each.grids]
    if len(grids) == 1:
        grids = [replace(grids[0], title="")]
    return Card(each.heading, each.shapes, each.formula, each.about, tuple(_short_titles(grids)))


def without_titles(grid: Grid) -> Grid:
    """Only where both sides count the same must it be said which is which.

    Beside a row or two there is no room to say it.
    """
    alike = grid.rows.counts == grid.columns.counts
    rows = grid.rows if alike and len(grid.rows) > 2 else replace(grid.rows, title="")
    columns = grid.columns if alike else replace(grid.columns, title="")
    return replace(grid, rows=rows, columns=columns)


def _short_titles(grids: Sequence[Grid]) -> Iterator[Grid]:
    """Of `scaled scores H0` and `scaled scores H1` the end, if they are wider than their tables."""
    words = [grid.title.split() for grid in grids]
    alike = len({" ".join(each[:-1]) for each in words}) == 1 and all(len(w) > 1 for w in words)
    wide = any(text_width(grid.title, ON_CARDS.title) > _size(grid, 1.0, 1.0)[0] for grid in grids)
    for grid, each in zip(grids, words, strict=True):
        yield replace(grid, title=each[-1]) if alike and wide and len(grids) > 1 else grid


def least_width(card: Card) -> float:
    """What its words need, whatever its tables do."""
    heading = min(text_width(card.heading, SMALLER_HEADING * BOLD), WIDEST_HEADING)
    keys = max((_key_width(scale) for scale in scales_of(card.drawn)), default=0.0)
    return max(heading + keys, 0.0 if card.drawn else WORDS_ALONE)


@lru_cache(maxsize=4096)
def head(card: Card, width: float) -> Head:
    """As much as has its place in a panel of this width."""
    room = width - min(text_width(card.heading, SMALLER_HEADING * BOLD), WIDEST_HEADING)
    scales: list[Scale] = []
    for scale in reversed(scales_of(card.drawn)):
        room -= _key_width(scale)
        if room < -1e-6:
            break
        scales.append(scale)
    left = width - sum(map(_key_width, scales))
    heading, size = fitted(card.heading, HEADING, SMALLER_HEADING, left / BOLD)
    return Head(heading, size, tuple(scales), tuple(_small_print(card, width)))


def _small_print(card: Card, width: float) -> Iterator[str]:
    """The shapes; the formula and the sentence where they are short; or the sentence alone."""
    width *= SLACK
    about = wrapped(card.about.split(), " ", SMALL, width)
    if not card.drawn:
        yield from about
        return
    yield from wrapped(OUTSIDE_BRACKETS.split(card.shapes), " ", SMALL, width)
    if card.formula and text_width(card.formula, SMALL) <= width:
        yield card.formula
    if len(about) <= MOST_LINES:
        yield from about


@lru_cache(maxsize=4096)
def body(card: Card, across: int, grown: float, wider: float = 1.0) -> Body:
    """So many tables beside each other, their cells so many times as large as they must be."""
    drawn = card.drawn
    tables = (_table(drawn, place, across, (grown, wider)) for place in range(len(drawn)))
    return Body(tuple(tables), across, grown, _aligned(drawn, across))


def bodies(card: Card, grown: float) -> list[Body]:
    """In one row, in two, and so on to one column; as long as heads stand below each other."""
    made = [body(card, across, grown) for across in _arrangements(card.drawn)]
    return made or [Body((), 1, grown)]


def _arrangements(drawn: Sequence[Grid | Curves]) -> list[int]:
    """How many tables can stand beside each other."""
    count, heads = len(drawn), _heads(drawn)
    across = sorted({math.ceil(count / rows) for rows in range(1, count + 1)})
    if heads:
        return [each for each in across if each % heads == 0 or heads % each == 0]
    return [each for each in across if count > RAGGED or count % each == 0]


def _heads(drawn: Sequence[Grid | Curves]) -> int:
    """How many heads there are, if each table belongs to one."""
    ends = [each.title.rpartition(" ")[2] for each in drawn]
    return len(set(ends)) if all(re.fullmatch(r"H\d+", end) for end in ends) else 0


def _table(
    drawn: Sequence[Grid | Curves], place: int, across: int, larger: tuple[float, float]
) -> CardTable:
    """The labels of a neighbour on the left, or below, serve for both."""
    each = drawn[place]
    width, height = _size(each, *larger)
    if isinstance(each, Curves):
        rows, columns = chart_ticks(each, width)
        return CardTable(each, width, height, rows, columns, reach(rows, ON_CARDS), 0.15)
    alike = (_aligned(drawn, across) and across > 1) or _aligned([*drawn[place::across][:2]], 2)
    left = drawn[place - 1] if place % across else None
    below = drawn[place + across] if place + across < len(drawn) else None
    rows = row_ticks(each.rows, height / len(each.rows), ON_CARDS.label)
    columns = column_ticks(each.columns, width / len(each.columns), ON_CARDS.label)
    if isinstance(left, Grid) and left.rows == each.rows and left.values.shape == each.values.shape:
        rows = no_ticks(each.rows)
    if isinstance(below, Grid) and below.columns == each.columns and alike:
        columns = no_ticks(each.columns)
    return _with_reach(each, width, height, rows, columns)


def _aligned(drawn: Sequence[Grid | Curves], across: int) -> bool:
    """Narrow tables below wide ones would stand far apart."""
    widths = [round(_size(each, 1.0, 1.0)[0], 6) for each in drawn]
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


def _size(each: Grid | Curves, grown: float, wider: float) -> tuple[float, float]:
    if isinstance(each, Curves):
        return CHART_WIDTH * grown, CHART_WIDTH * grown * CHART_HEIGHT
    rows, columns = each.values.shape
    wide, high = _cell(each, rows, columns)
    if max(rows, columns) > MOST_NUMBERED:
        wider = 1.0
    if wider > 1 and each.rows.counts == each.columns.counts and rows > 1:
        wider = max(min(wider, ON_CARDS.stretch * high / wide), 1.0)
    return wide * grown * wider * columns, high * grown * rows


def _cell(grid: Grid, rows: int, columns: int) -> tuple[float, float]:
    """A cell that just holds its number; where there are very many, a small one without it."""
    number = longest_number(grid) * POINTS / 10 / NUMBER_SHARE
    if grid.scale.kind == "none":
        return number, CELL_HEIGHT if rows <= MOST_NUMBERED else min(ID_HEIGHT, LONGEST_IDS / rows)
    square = grid.rows.counts == grid.columns.counts and rows > 1
    if max(rows, columns) <= MOST_NUMBERED:
        return number, max(CELL_HEIGHT, number / ON_CARDS.stretch) if square else CELL_HEIGHT
    wide, high = (min(FINE_CELL, LONGEST_SIDE / count) for count in (columns, rows))
    if square:
        return min(wide, high), min(wide, high)
    # A few rows or columns beside very many can be a little larger.
    return (
        wide if columns > MOST_NUMBERED else 1.5 * FINE_CELL,
        high if rows > MOST_NUMBERED else CELL_HEIGHT,
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


def draw_card(card: Card, made: Body, left: float, top: float, width: float) -> Layout:
    """A card: a rule, the heading with the keys to its colours, the small print, the tables."""
    above = head(card, width)
    keys = tuple(_keys(above, left + width, top))
    words = (*_heading(above, left, top), *(word for key in keys for word in _key_words(key)))
    rule = ((left, top), (left + width, top))
    frame = replace(empty_layout(), bars=keys, words=words, marks=(rule,))
    return joined([frame, *_drawn_tables(made, left, top - above.height)])


def _drawn_tables(made: Body, left: float, top: float) -> Iterator[Layout]:
    for row, columns in zip(made.rows, made.columns, strict=True):
        top -= made.title
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
    panels = (panel_of(each, box),) if isinstance(each, Grid) else ()
    charts = (chart(each, box),) if isinstance(each, Curves) else ()
    marks = tuple(marks_at(table.rows, table.columns, box))
    return Layout((0.0, 0.0), panels, charts, (), words, marks)


def _heading(above: Head, left: float, top: float) -> Iterator[Words]:
    y = top - RULE - HEADING * POINT
    yield Words(above.heading, left, y, above.size, bold=True)
    for line in above.lines:
        y -= SMALL * POINT * LEADING
        yield Words(line, left, y, SMALL, faint=True)


def _keys(above: Head, right: float, top: float) -> Iterator[Bar]:
    """Colour bars that lie at the right end of the heading."""
    y = top - RULE - HEADING * POINT
    for scale in above.scales:
        high = text_width(_ends(scale)[1], SMALL)
        yield Bar(scale, (right - high - 0.04 - KEY[0], y, *KEY))
        right -= _key_width(scale)


def _key_width(scale: Scale) -> float:
    return sum(text_width(end, SMALL) for end in _ends(scale)) + KEY[0] + 0.2


def _ends(scale: Scale) -> tuple[str, str]:
    return f"{scale.low:g}", f"{'≥ ' if scale.beyond else ''}{scale.high:g}"


def _key_words(key: Bar) -> Iterator[Words]:
    """The two ends of a scale, on either side of its bar."""
    left, bottom, width, _ = key.box
    low, high = _ends(key.scale)
    yield Words(low, left - 0.04, bottom, SMALL, faint=True, across="right")
    yield Words(high, left + width + 0.04, bottom, SMALL, faint=True)
