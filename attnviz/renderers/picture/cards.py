"""A card on a page of many: one section as heading, small print and tables.

Nothing here is made to fit: a card says how much room it takes. All lengths are inches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice

from attnviz.renderers.picture.charts import chart_ticks, curves_chart
from attnviz.renderers.picture.items import Box, ColorBar, Items, Stroke, Words
from attnviz.renderers.picture.matrix import (
    CACHED_GRIDS,
    NUMBER_WIDTH,
    build_panel,
    color_scales,
    longest_number,
    one_line_title_words,
    panel_title,
)
from attnviz.renderers.picture.panel_labels import (
    PanelStyle,
    Ticks,
    axis_items,
    column_ticks,
    labels_extent,
    no_ticks,
    row_ticks,
)
from attnviz.renderers.picture.panel_rows import CHART_ASPECT, FEW_STRETCH
from attnviz.renderers.picture.text import (
    BOLD,
    POINT,
    Size,
    cached_by_font,
    fit_line,
    fits_width,
    text_width,
    wrap_parts,
)
from attnviz.renderers.wrapping import break_sum
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import Drawable, Section, panel_table
from attnviz.wording.numbers import typeset

CARD_POINTS = 8.0  # points: with nothing smaller a page can be enlarged until all can be read
CARD_STYLE = PanelStyle(
    title=8.5, axis=8.0, label=8.5, smallest=CARD_POINTS, number=12.0, stretch=2.4
)
SMALLEST_TITLE = CARD_POINTS
CELL_POINTS = CARD_POINTS  # of the numbers in cells that have not grown
CELL_HEIGHT = 0.19  # that such a number wants
WIDE_NUMBER = "−0.00"
MAX_NUMBERED_SIDE = 24  # cells on a side: of more the numbers are left out
# Inches: cells of very many, those of a matrix of numbers, and the height of those of words
FINE_CELL, FINE_MATRIX_CELL, FINE_ROW_HEIGHT = 0.122, 0.1, 0.15
TALLEST_CARD_CELL = 1.1  # times as high as wide a cell can be
LONGEST_TABLE_SIDE = 8.0  # and smaller if there are very many
ID_HEIGHT, LONGEST_IDS = 0.13, 15.0  # ids are nothing but numbers, so that these must be read
CHART_WIDTH = 2.6
MAX_EVEN_TABLES = 4  # so many tables stand in rows that are all full
TABLES_GAP, TABLE_ROW_GAP = 0.12, 0.1  # between two tables
HEAD_AT_END = re.compile(r"(?:^|head | )(\d+)$")
CardPanels = tuple[Grid | Curves, ...]
# How many times as large cells are, and how many times as wide then
CellGrowth = tuple[float, float]
HEADING_POINTS, SMALLER_HEADING, PRINT_POINTS = 11.0, 9.0, CARD_POINTS  # points
SUM_POINTS, SUMS_GAP = CARD_POINTS, 0.06  # points; inches between tables and sums
WIDEST_HEADING = 3.6  # a longer one is cut
WORDS_CARD_WIDTH = 1.5  # the width of a panel of words alone
NARROWEST_SUMS, LONG_SUM_LETTERS = 3.0, 80  # inches; letters
WIDTH_SLACK = 0.95  # of the width: small letters that are fitted to pixels may come out wider
MAX_SENTENCE_LINES = 2  # that a sentence may take in the small print
OUTSIDE_BRACKETS = re.compile(r" (?![^\[]*\])")  # so that `[4 × 3]` stays together
RULE = 0.07  # from a rule to the heading below it
CARD_KEY_SIZE = (0.45, 0.075)  # a colour bar that lies beside a heading
CARD_LEADING, SUMS_LEADING = 1.45, 1.3  # from one line to the next


@dataclass(frozen=True, eq=False)
class CardTable:
    """A table in its size, and how far its labels reach beyond it."""

    content: Grid | Curves
    width: float
    height: float
    rows: Ticks
    columns: Ticks
    left: float
    right: float

    @property
    def width_from_edge(self) -> float:
        """The width from the left edge of its cells, above which its title starts."""
        return max(self.width + self.right, text_width(panel_title(self.content), SMALLEST_TITLE))


TableColumn = tuple[CardTable, ...]


@dataclass(frozen=True, eq=False)
class TableBlock:
    """The tables of a card in rows and columns."""

    tables: tuple[CardTable, ...]
    across: int
    growth: CellGrowth
    aligned: bool = True  # else each row goes its own way

    @property
    def title_height(self) -> float:
        """The room for a title above each table; 0 if none has one."""
        has_titles = any(table.content.title for table in self.tables)
        return CARD_STYLE.title * POINT * 1.7 if has_titles else 0.0

    @property
    def rows(self) -> list[tuple[CardTable, ...]]:
        starts = range(0, len(self.tables), self.across)
        return [self.tables[start : start + self.across] for start in starts]

    @property
    def columns(self) -> list[list[TableColumn]]:
        """For each row the tables that stand below each other in each of its columns."""
        if not self.aligned:
            return [[(table,) for table in row] for row in self.rows]
        across = range(min(self.across, len(self.tables)))
        return [[self.tables[start :: self.across] for start in across]] * len(self.rows)

    @property
    def width(self) -> float:
        rows = (sum(map(_column_width, row)) + TABLES_GAP * (len(row) - 1) for row in self.columns)
        return max(rows, default=0.0)

    @property
    def height(self) -> float:
        """The height of all rows, with titles, labels and gaps; 0 without tables."""
        if not self.tables:
            return 0.0
        heights = (self.title_height + _table_row_height(row) for row in self.rows)
        return sum(heights) + TABLE_ROW_GAP * len(self.rows)

    @property
    def cells_width(self) -> float:
        """The part of the width that grows with the cells."""
        rows = (sum(max(table.width for table in column) for column in row) for row in self.columns)
        return max(rows, default=0.0)


@cached_by_font(4096)
def table_block(
    panels: CardPanels, across: int, growth: CellGrowth, fine: bool = False
) -> TableBlock:
    """Return tables in rows of `across`, with cells that are larger than they must be.

    `growth` is how many times as large, and how many times as wide then. `fine` tables have small
    cells without numbers.
    """
    sizes = [table_size(panel, *growth, fine=fine) for panel in panels]
    content = tuple(map(_with_short_axes, panels)) if fine else panels
    tables = (_card_table(content, index, across, sizes[index]) for index in range(len(panels)))
    return TableBlock(tuple(tables), across, growth, _can_align(panels, across))


@lru_cache(maxsize=CACHED_GRIDS)  # the same one again, of which it is known what its numbers need
def _with_short_axes(panel: Grid | Curves) -> Grid | Curves:
    """Return a table without titles of axes, its rows with words alone and its columns with numbers
    alone.

    Rows without words keep their numbers, columns without words theirs as well; a chart stays as it
    is.
    """
    if isinstance(panel, Curves):
        return panel
    blanks = ("",) * len(panel.rows)
    rows = replace(
        panel.rows, title="", numbers=panel.rows.numbers if any(panel.rows.labels) else blanks
    )
    blanks = ("",) * len(panel.columns)
    numbers = panel.columns.numbers if any(panel.columns.labels) else blanks
    columns = replace(panel.columns, title="", labels=blanks, numbers=numbers)
    return replace(panel, rows=rows, columns=columns)


def table_blocks(panels: CardPanels, growth: CellGrowth, fine: bool = False) -> list[TableBlock]:
    """Return the tables of a card in every possible arrangement, from one column to one row.

    Heads are kept below each other. For no tables it is one empty block.
    """
    blocks = [table_block(panels, across, growth, fine) for across in _columns_to_try(panels)]
    return blocks or [TableBlock((), 1, growth)]


def _columns_to_try(panels: Sequence[Grid | Curves]) -> list[int]:
    """Return the possible numbers of tables beside each other.

    If each table is of a head, a row holds whole sets of heads, or equal parts of one. Otherwise up
    to four tables stand only in rows that are all full.
    """
    count, heads = len(panels), _head_count(panels)
    across = sorted({math.ceil(count / rows) for rows in range(1, count + 1)})
    if heads:
        return [n for n in across if n % heads == 0 or heads % n == 0]
    return [n for n in across if count > MAX_EVEN_TABLES or count % n == 0]


def _head_count(panels: Sequence[Grid | Curves]) -> int:
    """Return how many heads there are, if the title of each table ends with one; else 0."""
    matches = [HEAD_AT_END.search(panel.title) for panel in panels]
    return len({match[1] for match in matches if match}) if all(matches) else 0


def _card_table(panels: Sequence[Grid | Curves], index: int, across: int, size: Size) -> CardTable:
    """Return the table at a place with its labels; a neighbour's, left or below, may serve for
    both.
    """
    item = panels[index]
    width, height = size
    if isinstance(item, Curves):
        rows, columns = chart_ticks(item, width, height, CARD_STYLE.label)
        return CardTable(item, width, height, rows, columns, labels_extent(rows, CARD_STYLE), 0.15)
    aligned = (_can_align(panels, across) and across > 1) or _can_align(
        [*panels[index::across][:2]], 2
    )
    left = panels[index - 1] if index % across else None
    below = panels[index + across] if index + across < len(panels) else None
    rows = _ticks_or_none(row_ticks, item.rows, height)
    columns = _ticks_or_none(column_ticks, item.columns, width)
    if isinstance(left, Grid) and left.rows == item.rows and left.values.shape == item.values.shape:
        rows = no_ticks(item.rows)
    if isinstance(below, Grid) and below.columns == item.columns and aligned:
        columns = no_ticks(item.columns)
    return _labelled_table(item, width, height, rows, columns)


def _ticks_or_none(make_ticks: Callable[..., Ticks], axis: Axis, length: float) -> Ticks:
    """Return the labels of an axis of `length` inches; none if its positions have no names."""
    return make_ticks(axis, length / len(axis), CARD_STYLE) if any(axis.names) else no_ticks(axis)


def _can_align(panels: Sequence[Grid | Curves], across: int) -> bool:
    """Return whether tables of one column have equal widths: others would stand far apart."""
    widths = [round(table_size(panel, 1.0, 1.0)[0], 6) for panel in panels]
    return across == 1 or all(len(set(widths[start::across])) == 1 for start in range(across))


def _labelled_table(
    grid: Grid, width: float, height: float, rows: Ticks, columns: Ticks
) -> CardTable:
    """Return a table with room for its labels and for titles of its axes.

    That of the rows is left out if it is longer than the table is high; that of the columns may
    reach beyond.
    """
    if text_width(rows.title, CARD_STYLE.axis) > height + 0.1:
        rows = replace(rows, title="")
    overhang = max((text_width(columns.title, CARD_STYLE.axis) - width) / 2, 0.0)
    pitch = width / columns.count
    starts = [
        _label_overhang(label, columns) - pitch * (position + 0.5)
        for position, label in zip(columns.positions, columns.labels, strict=True)
    ]
    left = max([labels_extent(rows, CARD_STYLE), overhang, *starts])
    return CardTable(grid, width, height, rows, columns, left, max(overhang, 0.02))


def _label_overhang(label: str, ticks: Ticks) -> float:
    """Return how far a label below a table reaches to the left of its place."""
    width, line = text_width(label, ticks.size), ticks.size * POINT
    return {0: width / 2, 45: width * math.sqrt(0.5) + 0.3 * line, 90: 0.6 * line}[ticks.angle]


def table_size(panel: Grid | Curves, growth: float, widening: float, *, fine: bool = False) -> Size:
    """Return the width and the height of a table, `growth` times as large as it must be.

    It is `widening` times as wide then; large tables and charts are not, square ones only up to a
    limit. `fine` makes cells small, for colours without numbers.
    """
    if isinstance(panel, Curves):
        return CHART_WIDTH * growth, CHART_WIDTH * growth * CHART_ASPECT
    rows, columns = panel.values.shape
    max_side = 0 if fine else MAX_NUMBERED_SIDE
    wide, high = _table_cell(panel, rows, columns, max_side)
    if max(rows, columns) > MAX_NUMBERED_SIDE:
        widening = min(widening, 1.0)
    if widening > 1 and panel.rows.unit == panel.columns.unit and rows > 1:
        widening = max(min(widening, FEW_STRETCH * high / wide), 1.0)
    width = wide * growth * widening
    return width * columns, max(min(high * growth, TALLEST_CARD_CELL * width), high) * rows


def _table_cell(grid: Grid, rows: int, columns: int, max_side: int) -> tuple[float, float]:
    """Return the size of a cell that just holds its number; a small one without it in large tables.

    Those have more than `max_side` rows or columns.
    """
    number = longest_number(grid) * CELL_POINTS / 10 / NUMBER_WIDTH + 1e-6
    if grid.scale.kind == "none":
        return number, CELL_HEIGHT if rows <= MAX_NUMBERED_SIDE else min(
            ID_HEIGHT, LONGEST_IDS / rows
        )
    same_unit = grid.rows.unit == grid.columns.unit
    square = same_unit and rows > 1
    if same_unit:  # weights stand beside scores, and should be as large
        number = max(number, text_width(WIDE_NUMBER, CELL_POINTS) / NUMBER_WIDTH)
    if max(rows, columns) <= max_side:
        return number, max(CELL_HEIGHT, number / CARD_STYLE.stretch) if square else CELL_HEIGHT
    fine = FINE_CELL if max_side or any(grid.rows.labels) else FINE_MATRIX_CELL
    wide, high = (min(fine, LONGEST_TABLE_SIDE / count) for count in (columns, rows))
    if square:
        return min(wide, high), min(wide, high)
    # A few rows or columns beside very many can be a little larger.
    return (
        wide if columns > MAX_NUMBERED_SIDE or not max_side else 1.5 * FINE_CELL,
        high if rows > MAX_NUMBERED_SIDE else CELL_HEIGHT if max_side else FINE_ROW_HEIGHT,
    )


def _column_width(tables: Sequence[CardTable]) -> float:
    return max(table.left for table in tables) + max(table.width_from_edge for table in tables)


def _table_row_height(tables: Sequence[CardTable]) -> float:
    return max(table.height + labels_extent(table.columns, CARD_STYLE) for table in tables)


def table_items(tables: TableBlock, left: float, top: float) -> Items:
    for row, columns in zip(tables.rows, tables.columns, strict=True):
        top, x = top - tables.title_height, left
        for table, column in zip(row, columns, strict=False):
            edge = x + max(other.left for other in column)
            box = (edge, top - table.height, table.width, table.height)
            yield from _card_table_items(table, box)
            x += _column_width(column) + TABLES_GAP
        top -= _table_row_height(row) + TABLE_ROW_GAP


def _card_table_items(table: CardTable, box: Box) -> Items:
    content, room = table.content, table.width_from_edge + TABLES_GAP * 0.6
    if isinstance(content, Curves):
        yield curves_chart(content, box)
    else:
        yield build_panel(content, box, CARD_STYLE.number, CARD_POINTS)
    yield from one_line_title_words(content, box, CARD_STYLE.title, SMALLEST_TITLE, room)
    yield from axis_items(table.rows, table.columns, box, CARD_STYLE)


@dataclass(frozen=True, eq=False)
class Card:
    """What one card shows, and how much of its sums and small print."""

    heading: str
    shapes: str
    formula: str
    about: str
    panels: CardPanels
    sums: tuple[str, ...] = ()
    max_lines: int = 0  # lines of sums
    plain: bool = False  # whether it goes without its small print,
    fine: bool = False  # and has small cells, whose colours take the place of numbers
    fits_keys: bool = True  # whether it is always wide enough for a key to its colours


@dataclass(frozen=True, eq=False)
class CardHead:
    """What stands above the tables: the heading, keys to the colours, and the small print."""

    heading: str
    size: float
    scales: tuple[Scale, ...]
    lines: tuple[str, ...]

    @property
    def height(self) -> float:
        """The height from the rule to the tables, in inches."""
        return RULE + (HEADING_POINTS + len(self.lines) * PRINT_POINTS * CARD_LEADING) * POINT + 0.1


def make_card(drawable: Drawable) -> Card:
    """Return the card of a section, a table or a chart.

    A single table has no title of its own, as the card has one; sums wait until a number of lines
    is set.
    """
    assert not isinstance(drawable, Overview), "a page with one is no page of cards"
    if not isinstance(drawable, Section):
        content = drawable if isinstance(drawable, Curves) else panel_table(drawable)
        return Card(content.title, "", "", "", (replace(content, title=""),))
    grids = [without_axis_titles(grid) for grid in drawable.grids]
    if len(grids) == 1:
        grids = [replace(grids[0], title="")]
    panels, sums = tuple(_shortened_titles(grids)), tuple(line.text for line in drawable.sums)
    return Card(
        drawable.list_heading, drawable.shapes, drawable.formula, drawable.about, panels, sums
    )


def without_axis_titles(grid: Grid) -> Grid:
    """Return a grid that keeps titles of axes only if rows and columns count the same, as tokens.

    Even then one or two rows have no title, for beside them there is no room.
    """
    same_unit = grid.rows.unit == grid.columns.unit
    rows = grid.rows if same_unit and len(grid.rows) > 2 else replace(grid.rows, title="")
    columns = grid.columns if same_unit else replace(grid.columns, title="")
    return replace(grid, rows=rows, columns=columns)


def _shortened_titles(grids: Sequence[Grid]) -> Iterator[Grid]:
    """Yield tables; of `scores · head 0` and `scores · head 1` the end alone, if one
    is too wide.
    """
    parts = [grid.title.rpartition(" · ") for grid in grids]
    same_start = len({start for start, _, _ in parts}) == 1 and all(start for start, _, _ in parts)
    too_wide = any(
        text_width(grid.title, CARD_STYLE.title) > table_size(grid, 1.0, 1.0)[0] for grid in grids
    )
    for grid, (_, _, end) in zip(grids, parts, strict=True):
        yield replace(grid, title=end) if same_start and too_wide and len(grids) > 1 else grid


def thin_card(card: Card) -> Card:
    """Return a card as small as one can be that has its tables, in colours without numbers."""
    parts = [grid.title.rpartition(" · ") for grid in card.panels]
    starts = {start for start, _, _ in parts if start}
    titles = [end for _, _, end in parts]
    if len(starts) > 1:
        previous_starts = ["", *(start for start, _, _ in parts)]
        short = [end.removeprefix("head ") for end in titles]
        titles = [
            end if start == previous else f"{start} {end}".strip()
            for previous, (start, _, _), end in zip(previous_starts, parts, short, strict=False)
        ]
    panels = (replace(grid, title=title) for grid, title in zip(card.panels, titles, strict=True))
    return replace(card, panels=tuple(panels), plain=True, fine=True)


def least_card_width(card: Card) -> float:
    """Return the least width for the heading, its keys and the sums, whatever the tables need."""
    heading = min(text_width(card.heading, SMALLER_HEADING * BOLD), WIDEST_HEADING)
    scales = color_scales(card.panels) if card.fits_keys else ()
    keys = max((_scale_key_width(scale) for scale in scales), default=0.0)
    return max(heading + keys, _least_sums_width(card), 0.0 if card.panels else WORDS_CARD_WIDTH)


def _least_sums_width(card: Card) -> float:
    """Return a width at which the sums are not broken all the time; 0 if none are shown."""
    if not card.max_lines:
        return 0.0
    if any(len(text) > LONG_SUM_LETTERS for text in card.sums):  # to measure them would take long
        return NARROWEST_SUMS
    longest = max((text_width(text, SUM_POINTS) for text in card.sums), default=0.0)
    return min(longest / WIDTH_SLACK, NARROWEST_SUMS)


@cached_by_font(4096)
def card_head(card: Card, width: float) -> CardHead:
    """Return the head of a card of this width: the heading, and as many keys as have room."""
    room = width - min(text_width(card.heading, SMALLER_HEADING * BOLD), WIDEST_HEADING)
    scales: list[Scale] = []
    for scale in reversed(color_scales(card.panels)):
        room -= _scale_key_width(scale)
        if room < -1e-6:
            break
        scales.append(scale)
    spare = width - sum(map(_scale_key_width, scales))
    heading, size = fit_line(card.heading, HEADING_POINTS, SMALLER_HEADING, spare / BOLD + 1e-6)
    lines = () if card.plain and card.panels else tuple(_small_print_lines(card, width))
    return CardHead(heading, size, tuple(scales), lines)


def _small_print_lines(card: Card, width: float) -> Iterator[str]:
    """Yield the shapes; the formula and the sentence where they are short; or the sentence alone.

    It is alone on a card without tables.
    """
    width *= WIDTH_SLACK
    about = wrap_parts(card.about.split(), " ", PRINT_POINTS, width)
    if not card.panels:
        yield from about
        return
    yield from wrap_parts(OUTSIDE_BRACKETS.split(card.shapes), " ", PRINT_POINTS, width)
    if card.formula and text_width(card.formula, PRINT_POINTS) <= width:
        yield card.formula
    if len(about) <= MAX_SENTENCE_LINES:
        yield from about


@cached_by_font(4096)
def card_foot(card: Card, width: float) -> tuple[str, ...]:
    """Return the lines of the first sums, as many as the card may show, and how many are left.

    If not even one has room, it is its beginning, and `…`.
    """
    lines: list[str] = []
    fits = partial(fits_width, size=SUM_POINTS, width=width * WIDTH_SLACK)
    for index, text in enumerate(card.sums if card.max_lines else ()):
        parts = list(islice(break_sum(text, fits), card.max_lines + 1))
        is_last = index + 1 == len(card.sums)
        if len(lines) + len(parts) > card.max_lines - (not is_last):
            count = len(card.sums) - index
            return (*lines, f"… and {count} more") if lines else (*parts[: card.max_lines - 1], "…")
        lines += parts
    return tuple(lines)


def foot_height(card: Card, width: float) -> float:
    lines = card_foot(card, width)
    return len(lines) * SUM_POINTS * POINT * SUMS_LEADING + (SUMS_GAP if lines else 0.0)


def card_items(card: Card, tables: TableBlock, left: float, top: float, width: float) -> Items:
    """Yield a card: rule, heading with keys to its colours, small print, tables, and sums."""
    head = card_head(card, width)
    yield Stroke(((left, top), (left + width, top)))
    yield from _card_heading_words(head, left, top)
    yield from _head_key_items(head, left + width, top)
    y = top - head.height - tables.height - SUMS_GAP
    for line in card_foot(card, width):
        y -= SUM_POINTS * POINT * SUMS_LEADING
        yield Words(line, left, y + 0.3 * SUM_POINTS * POINT, SUM_POINTS)
    yield from table_items(tables, left, top - head.height)


def _card_heading_words(head: CardHead, left: float, top: float) -> Iterator[Words]:
    y = top - RULE - HEADING_POINTS * POINT
    yield Words(head.heading, left, y, head.size, bold=True)
    for line in head.lines:
        y -= PRINT_POINTS * POINT * CARD_LEADING
        yield Words(line, left, y, PRINT_POINTS, faint=True)


def _head_key_items(head: CardHead, right: float, top: float) -> Items:
    """Yield a bar for each scale, between its two ends, from the right on."""
    y = top - RULE - HEADING_POINTS * POINT
    for scale in head.scales:
        low, high = _scale_ends(scale)
        left = right - text_width(high, PRINT_POINTS) - 0.04 - CARD_KEY_SIZE[0]
        yield ColorBar(scale, (left, y, *CARD_KEY_SIZE))
        yield Words(low, left - 0.04, y, PRINT_POINTS, faint=True, halign="right")
        yield Words(high, left + CARD_KEY_SIZE[0] + 0.04, y, PRINT_POINTS, faint=True)
        right -= _scale_key_width(scale)


def _scale_key_width(scale: Scale) -> float:
    return sum(text_width(end, PRINT_POINTS) for end in _scale_ends(scale)) + CARD_KEY_SIZE[0] + 0.2


def _scale_ends(scale: Scale) -> tuple[str, str]:
    """Return the low and the high end of a scale as texts; ≥ before a high one that is exceeded."""
    return typeset(f"{scale.low:g}"), typeset(f"{'≥ ' if scale.is_exceeded else ''}{scale.high:g}")
