"""Panels in rows and columns: which are beside each other, how large, and with which labels.

All lengths are inches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from attnviz.errors import AttnvizError
from attnviz.renderers.picture.boxes import Column, Space, grid
from attnviz.renderers.picture.charts import chart_ticks
from attnviz.renderers.picture.items import SMALLEST_NUMBER, Box
from attnviz.renderers.picture.matrix import (
    NUMBER_SHARE,
    PanelHeadings,
    fit_headings,
    longest_number,
    panel_title,
)
from attnviz.renderers.picture.panel_labels import (
    BESIDE_LABELS,
    PanelStyle,
    Ticks,
    column_ticks,
    labels_reach,
    no_ticks,
    row_ticks,
)
from attnviz.renderers.picture.text import POINT, Size, text_width, wrap_parts
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Section, panel_table
from attnviz.views.view import Group

MAX_COLUMNS = 16  # panels in a row
STRIP_ROWS = 4  # of words, at most, that stand in a strip
PANELS_BESIDE = 4  # that many charts stand beside each other
Content = Grid | Curves | None  # what has a panel of its own; None leaves its place empty
FEW_COLUMNS, FEW_STRETCH = 12, 4.0  # columns, whose cells may be wider
LOWEST_ROW = 0.17  # of vectors with very many dimensions
TITLE_BEYOND = 0.5  # of the gap beside a panel, its title may reach into it
GAP_BELOW = 0.5  # of the gap between two panels beside each other
CHART_HEIGHT, HIGHEST_CHART = 0.72, 1.4  # of its width; and on a page of a given size
STRIP_ROW = 1.8  # of its letters: how high a row of words is
CHART_CELLS = 16  # as many cells of a grid count as much as a chart
MAX_SQUARE_PANELS = 4  # panels, whose cells are square;
TWO_STRETCH = 1.3  # those of two are at most so many times as wide as high
# Times the usual gap; of its place a label may be high
SQUARE_PANELS_GAP, SQUARE_PANELS_LINE = 0.45, 0.97
MUCH_LARGER = 1.6  # times the cell: so large it must be, to be better than what is preferred
LAYER_AND_HEAD = re.compile(r"(?P<layer>L\d+)(?P<head>H\d+)")


@dataclass(frozen=True, eq=False)
class PanelOrder:
    """Panels row by row, and how many there are in one."""

    panels: tuple[Content, ...]
    columns: int
    preferred: bool = False  # to others that are not much larger

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.ceil(len(self.panels) / self.columns)


def panel_orders(groups: Sequence[Group]) -> list[PanelOrder]:
    """Return the possible arrangements of groups; charts stand in rows of their own, below.

    Refuses groups without any panel.
    """
    drawn = [group for group in groups if group.panels]
    if not drawn:
        raise AttnvizError("there is nothing to draw", "show some part of the result")
    if drawn[0].kind == "free":
        *above, last = drawn
        if above and is_strip(*_own_panels([last])):
            strip = _own_panels([last])
            ways = any_columns(_own_panels(above), _per_layer(above))
            return [_append_strip(each, strip) for each in ways]
        return any_columns(_own_panels(drawn), _per_layer(drawn))
    first, *others = drawn
    charts = _own_panels(others)
    if first.kind == "table":
        return [_append_charts(table, table.column_count, charts) for table in _table_shapes(first)]
    if charts:
        first = replace(first, below=())  # what charts tell of differences, they tell better
    return [_append_charts(first, columns, charts) for columns in _columns_of(first, charts)]


def any_columns(panels: Sequence[Content], in_a_layer: int = 0) -> list[PanelOrder]:
    """Return panels in rows of any length; rows of as many panels as a layer has are preferred.

    With `in_a_layer` above 0, only rows that hold whole layers, or whole parts of one, are
    possible.
    """
    return [
        PanelOrder(tuple(panels), columns, columns == in_a_layer)
        for columns in _possible_columns(len(panels))
        if not in_a_layer or columns % in_a_layer == 0 or in_a_layer % columns == 0
    ]


def is_strip(*panels: Content) -> bool:
    """Return whether all are a few rows of words, which stand in a strip below the other panels."""
    contents = [each for each in panels if each]
    return bool(contents) and all(
        isinstance(each, Grid) and each.words and len(each.rows) <= STRIP_ROWS for each in contents
    )


def _append_strip(above: PanelOrder, strip: Sequence[Content]) -> PanelOrder:
    """Return the rows above, filled up with empty places, and the strip in a row of its own."""
    free_places = above.rows * above.columns - len(above.panels)
    panels = [*above.panels, *([None] * free_places), *strip]
    panels += [None] * (-len(panels) % above.columns)
    return PanelOrder(tuple(panels), above.columns)


def _per_layer(groups: Sequence[Group]) -> int:
    """Return how many panels each layer has, where there are several, all alike; else 0."""
    alike = {len(group.panels) for group in groups}
    shapes = {each.cells.shape for each in _own_panels(groups) if isinstance(each, Grid)}
    return min(alike) if len(groups) > 1 and len(alike) == len(shapes) == 1 else 0


def _columns_of(group: Group, charts: Sequence[Content]) -> list[int]:
    """Return the possible numbers of panels in a row for a group that has these charts below it.

    Panels of a pair that have one row each stand below each other, key by key; with charts all of a
    pair stand in one row.
    """
    rows = [each for each in group.panels if isinstance(each, Grid) and len(each.rows) == 1]
    if group.kind == "pair" and not charts and len(rows) == len(group.panels):
        return [1]
    if group.kind == "pair":
        return (
            [max(len(group.panels), len(charts))]
            if charts
            else _possible_columns(len(group.panels))
        )
    possible = _possible_columns(max(len(group.panels), len(charts)))
    return [count for count in possible if count >= min(len(charts), PANELS_BESIDE)]


def _table_shapes(table: Group) -> Iterator[Group]:
    """Yield a table as it is, and on its side; and each with several of its rows in one."""
    rows = (table.panels[start :: table.column_count] for start in range(table.column_count))
    panels, high = tuple(chain.from_iterable(rows)), len(table.panels) // table.column_count
    for each in (table, replace(table, panels=panels, column_count=high)):
        height = len(panels) // each.column_count
        for together in range(1, height + 1):
            if height % together == 0 and each.column_count * together <= max(
                MAX_COLUMNS, each.column_count
            ):
                yield replace(each, column_count=each.column_count * together)


def _possible_columns(count: int) -> list[int]:
    """Return the numbers of columns that leave the fewest places free for their number of rows."""
    rows = {math.ceil(count / columns) for columns in range(1, min(count, MAX_COLUMNS) + 1)}
    return sorted({math.ceil(count / each) for each in rows})


def _append_charts(group: Group, columns: int, charts: Sequence[Content]) -> PanelOrder:
    """Return the rows of a group, and rows of charts below, all filled up with empty places."""
    rows = list(_rows_with_below(group, columns))
    starts = range(0, len(charts), columns)
    rows += [charts[start : start + columns] for start in starts]
    filled = ([*row, *([None] * (columns - len(row)))] for row in rows)
    return PanelOrder(tuple(chain.from_iterable(filled)), columns)


def _rows_with_below(group: Group, columns: int) -> Iterator[Sequence[Content]]:
    """Yield rows of panels, and below each the row of what belongs to it.

    The first row is the one that is not full, so that labels stand below the last row alone.
    """
    panels = _own_panels([group])
    for start in range(-(-len(panels) % columns), len(panels), columns):
        part = slice(max(start, 0), start + columns)
        yield panels[part]
        below = group.below[part]
        if any(below):
            yield below


def _own_panels(groups: Sequence[Group]) -> list[Content]:
    """Return what has a panel of its own in these groups; sections and overviews are left out."""
    panels = (panel for group in groups for panel in group.panels)
    return [
        panel if isinstance(panel, Curves) else panel_table(panel)
        for panel in panels
        if not isinstance(panel, (Section, Overview))
    ]


@dataclass(frozen=True, eq=False)
class PanelRows:
    """Panels in rows and columns, with their labels and titles, and the room for one panel."""

    arranged: PanelOrder
    style: PanelStyle
    headings: PanelHeadings
    row_ticks: tuple[Ticks, ...]
    column_ticks: tuple[Ticks, ...]
    width: float  # of the room for one panel, without its labels
    height: float

    @property
    def drawn(self) -> tuple[Content, ...]:
        """The panels row by row, None for an empty place."""
        return self.arranged.panels

    @property
    def columns(self) -> int:
        """The number of panels in a row."""
        return self.arranged.columns

    def places(self, row: int) -> range:
        """Return the places of the panels of a row."""
        start = row * self.columns
        return range(start, min(start + self.columns, len(self.drawn)))

    @cached_property
    def sizes(self) -> list[Size]:
        """The width and the height of each panel, without its labels."""
        wide = [_panel_room(each, self.width, self.columns) for each in self.drawn]
        pairs = zip(self.drawn, wide, strict=True)
        return [_panel_size(each, width, self.height, self.style) for each, width in pairs]

    @cached_property
    def spaces(self) -> list[Space]:
        """The room of each panel with its labels and title; those beside or above an empty place
        use that.

        A title may widen its column where there is room; a strip of words does not.
        """
        spaces, columns, contents = [], self.columns, self.drawn
        for place, (width, height) in enumerate(self.sizes):
            beside_empty = place % columns and contents[place - 1] is None
            left = 0.0 if beside_empty else labels_reach(self.row_ticks[place], self.style)
            under = place + columns
            above_empty = under < len(contents) and contents[under] is None
            below = 0.0 if above_empty else labels_reach(self.column_ticks[place], self.style)
            title = self.headings.width(place) - TITLE_BEYOND * self.style.gap
            right = max(min(title, self.width) - width, 0.0)
            if is_strip(contents[place]) and columns > 1:
                width = right = 0.0
            above = self.headings.height(self.places(place // columns))
            spaces.append(Space(width, height, left, above, right, below, middle=0.0))
        return spaces

    @property
    def labels(self) -> Size:
        """The width and the height that all labels and titles take."""
        columns = [self.spaces[start :: self.columns] for start in range(self.columns)]
        rows = [[self.spaces[p] for p in self.places(row)] for row in range(self.arranged.rows)]
        wide = sum(max(space.left for space in column) for column in columns)
        return wide, sum(max(s.above for s in row) + max(s.below for s in row) for row in rows)

    def column(self, gap: float) -> Column:
        """Return the rows of panels, with this gap between two panels of a row.

        A row keeps the height of its highest panel plus that of its highest labels, also where
        these belong to different panels: so frames of a film have one height.
        """
        spaces: list[Space] = []
        for start in range(0, len(self.spaces), self.columns):
            row = self.spaces[start : start + self.columns]
            height, below = max(s.height for s in row), max(s.below for s in row)
            spaces += (replace(s, below=below + height - s.height) for s in row)
        return grid(spaces, self.columns, gap, GAP_BELOW * self.style.gap)

    @property
    def cell(self) -> float:
        """The area of the smallest cell, by which arrangements are compared.

        It counts as larger if the arrangement is preferred, and as smaller with small or broken
        titles.
        """
        areas = (
            width * height / (each.values.size if isinstance(each, Grid) else CHART_CELLS)
            for each, (width, height) in zip(self.drawn, self.sizes, strict=True)
            if each and not is_strip(each)
        )
        preferred = MUCH_LARGER if self.arranged.preferred else 1.0
        return min(areas, default=1.0) * preferred * self.headings.worth(self.style)


def best_panel_rows(candidates: Sequence[PanelOrder], room: Box, style: PanelStyle) -> PanelRows:
    """Return the panels in that of some arrangements which has the largest cells in a room.

    A few heads over the same tokens get square cells.
    """
    if heads := _few_square_heads(candidates[0].panels):
        stretch = min(style.stretch, TWO_STRETCH if heads == 2 else 1.0)
        gap = SQUARE_PANELS_GAP * style.gap
        style = replace(style, stretch=stretch, squeeze=1.0, gap=gap, line=SQUARE_PANELS_LINE)
    return max((_fitted_rows(each, room, style) for each in candidates), key=lambda each: each.cell)


def _few_square_heads(panels: Sequence[Content]) -> int:
    """Return how many grids these are, if they are two to four of one shape and kind; else 0.

    Their rows and columns must both be tokens (or count the same), and no chart may be among them.
    Their cells are square, or nearly so: letters are then as large on both sides, and as many heads
    stand in a row as makes them largest.
    """
    grids = [each for each in panels if isinstance(each, Grid)]
    alike = {(each.cells.shape, each.scale.label) for each in grids}
    square = all(len(g.rows) > 1 and g.rows.unit == g.columns.unit for g in grids)
    few = len(alike) == 1 and square and 1 < len(grids) <= MAX_SQUARE_PANELS
    return len(grids) if few and not any(isinstance(each, Curves) for each in panels) else 0


def _fitted_rows(arranged: PanelOrder, room: Box, style: PanelStyle) -> PanelRows:
    """Return panels as large as labels leave them room: a few rounds, for labels depend on their
    size.
    """
    columns, rows = arranged.columns, arranged.rows
    strips = [_strip_height(each, style) for each in arranged.panels if is_strip(each)]
    width, height = room[2] / columns, room[3] / rows
    for _ in range(4):
        found = rows_of_panels(arranged, width, height, style)
        labels_wide, labels_high = found.labels
        labels_high += GAP_BELOW * style.gap * (rows - 1) + sum(strips)
        width = max((room[2] - style.gap * (columns - 1) - labels_wide) / columns, 0.1)
        height = max((room[3] - labels_high) / max(rows - len(strips), 1), 0.1)
    return replace(found, width=width, height=height)


def rows_of_panels(
    arranged: PanelOrder, width: float, height: float, style: PanelStyle
) -> PanelRows:
    """Return panels for which there is this width and height, with labels and titles that fit.

    In a style without labels, names of layers stand beside rows, if each row is of one layer.
    """
    layers: list[str] = []
    if style.bare:
        arranged, layers = with_layer_names(arranged)
    rows, across = _all_ticks(arranged, width, height, style)
    if layers:
        beside = [
            layer_ticks(rows[0].title, layers[place // arranged.columns], style)
            if place % arranged.columns == 0
            else ticks
            for place, ticks in enumerate(rows)
        ]
        rows = tuple(beside)
    titles = _panel_headings(arranged, width + TITLE_BEYOND * style.gap, style)
    return PanelRows(arranged, style, titles, rows, across, width, height)


def _panel_headings(arranged: PanelOrder, room: float, style: PanelStyle) -> PanelHeadings:
    """Return titles, each with `room` inches; that of a strip has a whole row, and makes no other
    smaller.
    """
    strips = [is_strip(each) for each in arranged.panels]
    if all(strips):
        return fit_headings(arranged.panels, room, style)
    pairs = list(zip(arranged.panels, strips, strict=True))
    titles = fit_headings([None if strip else each for each, strip in pairs], room, style)
    lines = (
        tuple(wrap_parts(panel_title(each).split(" "), " ", titles.size, room * arranged.columns))
        if strip
        else line
        for (each, strip), line in zip(pairs, titles.lines, strict=True)
    )
    return replace(titles, lines=tuple(lines))


def _panel_room(each: Content, width: float, columns: int) -> float:
    """Return the width that a panel may have: a strip has all of its row."""
    return width * columns if is_strip(each) else width


def _all_ticks(
    arranged: PanelOrder, width: float, height: float, style: PanelStyle
) -> tuple[tuple[Ticks, ...], tuple[Ticks, ...]]:
    """Return the labels of rows, and those of columns, of every panel; none where a neighbour's
    serve.
    """
    drawn, columns = arranged.panels, arranged.columns
    ticks = []
    for place, each in enumerate(drawn):
        left = drawn[place - 1] if place % columns else None
        size = _panel_size(each, _panel_room(each, width, columns), height, style)
        rows, across = _panel_ticks(each, left, _panel_below(arranged, place), size, style)
        if place % columns and left is None:
            rows = replace(rows, title="")  # stands at the left of the rows above
        ticks.append((rows, across))
    of_rows, of_columns = zip(*ticks, strict=True)
    return of_rows, of_columns


def _panel_below(arranged: PanelOrder, place: int) -> Content:
    """Return the panel whose labels serve for one above it: beyond an empty place that it stands
    over.
    """
    drawn, columns = arranged.panels, arranged.columns
    under = range(place + columns, len(drawn), columns)
    found = next((drawn[each] for each in under if drawn[each]), None)
    if found is None and under and (place + 1) % columns:
        return drawn[under[0] + 1]
    return found


def _panel_ticks(
    each: Content, left: Content, below: Content, size: Size, style: PanelStyle
) -> tuple[Ticks, Ticks]:
    """Return the labels of rows and of columns of a panel beside `left` and above `below`.

    Rows or columns that equal a neighbour's have none.
    """
    if each is None:
        return Ticks("", 1), Ticks("", 1)
    if isinstance(each, Curves):
        return chart_ticks(each, *size, style.label)
    beside = isinstance(left, Grid) and left.values.shape == each.values.shape
    same_rows = beside and isinstance(left, Grid) and left.rows == each.rows
    same_columns = isinstance(below, Grid) and below.columns == each.columns
    if style.bare:
        return replace(no_ticks(each.rows), title="" if left else each.rows.title), no_ticks(
            each.columns
        )
    rows = no_ticks(each.rows)
    if not same_rows:
        rows = row_ticks(each.rows, size[1] / len(each.rows), style)
        if isinstance(left, Grid) and left.rows.title == each.rows.title:
            rows = replace(rows, title="")  # stands at the left of the row already
    if same_columns:
        return rows, no_ticks(each.columns)
    return rows, column_ticks(each.columns, size[0] / len(each.columns), style)


def _panel_size(each: Content, width: float, height: float, style: PanelStyle) -> Size:
    """Return how much of its room a panel takes.

    Cells are about square where rows and columns count the same, such as tokens. On a page of many
    panels they may be wider, for then their numbers can be larger.
    """
    if each is None:
        return 0.0, 0.0
    if isinstance(each, Curves):
        highest = CHART_HEIGHT if style.squeeze == 1 else HIGHEST_CHART
        return width, min(height, width * highest)
    columns, rows = len(each.columns), len(each.rows)
    wide, high = width / columns, height / rows
    if each.rows.unit == each.columns.unit and rows > 1:
        stretch = style.stretch if style.stretch == 1 or columns > FEW_COLUMNS else FEW_STRETCH
        return min(wide, high * stretch) * columns, min(high, wide * style.squeeze) * rows
    if is_strip(each):
        words = longest_number(each) * style.number / 10 / NUMBER_SHARE * columns
        return min(width, words), min(height, _strip_height(each, style))
    letters = max(style.numbers, SMALLEST_NUMBER) if each.words else style.numbers
    numbers = longest_number(each) * letters / 10 / NUMBER_SHARE if letters else 0.0
    widest = max(high * 1.6 * style.stretch * columns, 0.3 * width, numbers * columns)
    return min(width, widest), min(height, max(wide * max(style.squeeze, 1.2), LOWEST_ROW) * rows)


def _strip_height(each: Content, style: PanelStyle) -> float:
    """Return the height of a few rows of words; 0 for what is no grid."""
    return STRIP_ROW * style.number * POINT * len(each.rows) if isinstance(each, Grid) else 0.0


def with_layer_names(arranged: PanelOrder) -> tuple[PanelOrder, list[str]]:
    """Return panels with `H3` above the first row alone; and `L0`, `L1`, … to stand beside the
    rows.

    Where panels are no heads of layers, or rows no layers, they keep their titles, and the list is
    empty.
    """
    found = [LAYER_AND_HEAD.fullmatch(panel_title(each)) for each in arranged.panels]
    rows = [
        found[start : start + arranged.columns] for start in range(0, len(found), arranged.columns)
    ]
    layers = [{match["layer"] for match in row if match} for row in rows]
    if not all(found) or any(len(names) > 1 for names in layers):
        return arranged, []
    above = [match["head"] if match else "" for match in rows[0]]
    titles = [*above, *[""] * (len(found) - len(above))]
    panels = tuple(
        replace(each, title=title) if isinstance(each, Grid) else each
        for each, title in zip(arranged.panels, titles, strict=True)
    )
    return replace(arranged, panels=panels), [next(iter(names)) for names in layers]


def layer_ticks(title: str, name: str, style: PanelStyle) -> Ticks:
    """Return the name of a layer as the only label beside its row, with the title of the rows."""
    extent = text_width(name, style.smallest) + BESIDE_LABELS * style.smallest * POINT
    return Ticks(title, 1, (0,), (name,), style.smallest, 0, extent)
