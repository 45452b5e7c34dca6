"""Panels in rows and columns: which stand side by side, how large, with which labels.

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
from attnviz.renderers.picture.boxes import Column, Space, grid_of
from attnviz.renderers.picture.charts import X_VALUE_SHARES, chart_ticks
from attnviz.renderers.picture.items import MIN_NUMBER_POINTS, Box
from attnviz.renderers.picture.matrix import (
    NUMBER_WIDTH,
    PanelHeadings,
    fit_headings,
    longest_number,
    panel_title,
    title_lines,
)
from attnviz.renderers.picture.panel_labels import (
    LABELS_GAP,
    PanelStyle,
    Ticks,
    column_ticks,
    labels_extent,
    no_ticks,
    row_ticks,
)
from attnviz.renderers.picture.text import POINT, Size, text_width
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Section, panel_table
from attnviz.views.view import Group

MAX_COLUMNS = 16  # panels in a row
STRIP_ROWS = 4  # of words, at most, that stand in a strip
MIN_CHARTS_ACROSS = 4  # that many charts stand beside each other
Content = Grid | Curves | None  # what has a panel of its own; None leaves its place empty
FEW_COLUMNS, FEW_STRETCH = 12, 4.0  # columns, whose cells may be wider
LOWEST_ROW = 0.17  # of vectors with very many dimensions
TITLE_OVERHANG = 0.5  # of the gap beside a panel, its title may reach into it
ROW_GAP_SHARE = 0.5  # of the gap between two panels beside each other
CHART_ASPECT, MAX_CHART_ASPECT = 0.72, 1.4  # of its width; and on a page of a given size
STRIP_HEIGHT = 1.8  # of its letters: how high a row of words is
CHART_CELLS = 16  # as many cells of a grid count as much as a chart
MAX_SQUARE_PANELS = 4  # panels, whose cells are square;
TWO_PANELS_STRETCH = 1.3  # those of two are at most so many times as wide as high
# Times the usual gap; of its place a label may be high
SQUARE_PANELS_GAP, SQUARE_PANELS_LINE = 0.45, 0.97
PREFERENCE_FACTOR = 1.6  # times the cell: so large it must be, to be better than what is preferred
RAGGED_WORTH = 0.75  # of the worth of rows of panels that are all full
LAYER_AND_HEAD = re.compile(r"(?P<layer>L\d+)(?P<head>H\d+)")


@dataclass(frozen=True, eq=False)
class PanelOrder:
    """Panels row by row, and how many there are in one."""

    panels: tuple[Content, ...]
    columns: int
    preferred: bool = False  # to others that are not much larger

    @property
    def rows(self) -> int:
        return math.ceil(len(self.panels) / self.columns)


def panel_orders(groups: Sequence[Group]) -> list[PanelOrder]:
    """Return the possible arrangements of groups; charts stand in rows of their own, below.

    Refuses groups without any panel.
    """
    nonempty = [group for group in groups if group.panels]
    if not nonempty:
        raise AttnvizError("there is nothing to draw", "show some part of the result")
    if nonempty[0].kind == "free":
        *earlier, last = nonempty
        if earlier and is_strip(*_panel_contents([last])):
            strip = _panel_contents([last])
            orders = possible_orders(_panel_contents(earlier), _alike_per_layer(earlier))
            return [_append_strip(order, strip) for order in orders]
        return possible_orders(_panel_contents(nonempty), _alike_per_layer(nonempty))
    first, *others = nonempty
    charts = _panel_contents(others)
    if first.kind == "table":
        return [_append_charts(table, table.column_count, charts) for table in _table_shapes(first)]
    if charts:
        first = replace(first, below=())  # what charts tell of differences, they tell better
    return [_append_charts(first, columns, charts) for columns in _column_choices(first, charts)]


def possible_orders(panels: Sequence[Content], per_layer: int = 0) -> list[PanelOrder]:
    """Return panels in rows of any length; rows of as many panels as a layer has are preferred.

    With `per_layer` above 0, only rows that hold whole layers, or whole parts of one, are
    possible.
    """
    return [
        PanelOrder(tuple(panels), columns, columns == per_layer)
        for columns in _possible_columns(len(panels))
        if not per_layer or columns % per_layer == 0 or per_layer % columns == 0
    ]


def is_strip(*panels: Content) -> bool:
    """Return whether all are a few rows of words, which stand in a strip below the other panels."""
    contents = [each for each in panels if each]
    return bool(contents) and all(
        isinstance(each, Grid) and each.words and len(each.rows) <= STRIP_ROWS for each in contents
    )


def _append_strip(order: PanelOrder, strip: Sequence[Content]) -> PanelOrder:
    """Return the rows above, filled up with empty places, and the strip in a row of its own."""
    free_places = order.rows * order.columns - len(order.panels)
    panels = [*order.panels, *([None] * free_places), *strip]
    panels += [None] * (-len(panels) % order.columns)
    return PanelOrder(tuple(panels), order.columns)


def panels_per_layer(groups: Sequence[Group]) -> int:
    """Return how many panels each layer has, where there are several with as many each; else 0."""
    counts = {len(group.panels) for group in groups}
    return min(counts) if len(groups) > 1 and len(counts) == 1 else 0


def _alike_per_layer(groups: Sequence[Group]) -> int:
    """Return how many panels each layer has, if all are grids of one shape; else 0."""
    shapes = {panel.cells.shape for panel in _panel_contents(groups) if isinstance(panel, Grid)}
    return panels_per_layer(groups) if len(shapes) == 1 else 0


def _column_choices(group: Group, charts: Sequence[Content]) -> list[int]:
    """Return the possible numbers of panels in a row for a group that has these charts below it.

    Panels of a pair that have one row each stand below each other, key by key; with charts all of a
    pair stand in one row.
    """
    rows = [panel for panel in group.panels if isinstance(panel, Grid) and len(panel.rows) == 1]
    if group.kind == "pair" and not charts and len(rows) == len(group.panels):
        return [1]
    if group.kind == "pair" and charts:
        return [max(len(group.panels), len(charts))]
    counts = _possible_columns(max(len(group.panels), len(charts)))
    return [count for count in counts if count >= min(len(charts), MIN_CHARTS_ACROSS)]


def _table_shapes(table: Group) -> Iterator[Group]:
    """Yield a table as it is, and on its side; and each with several of its rows in one."""
    rows = (table.panels[start :: table.column_count] for start in range(table.column_count))
    panels, row_count = tuple(chain.from_iterable(rows)), len(table.panels) // table.column_count
    for shape in (table, replace(table, panels=panels, column_count=row_count)):
        height = len(panels) // shape.column_count
        for joined_rows in range(1, height + 1):
            if height % joined_rows == 0 and shape.column_count * joined_rows <= max(
                MAX_COLUMNS, shape.column_count
            ):
                yield replace(shape, column_count=shape.column_count * joined_rows)


def _possible_columns(count: int) -> list[int]:
    """Return the numbers of columns that leave the fewest places free for their number of rows."""
    rows = {math.ceil(count / columns) for columns in range(1, min(count, MAX_COLUMNS) + 1)}
    return sorted({math.ceil(count / row_count) for row_count in rows})


def _append_charts(group: Group, columns: int, charts: Sequence[Content]) -> PanelOrder:
    """Return the rows of a group, and rows of charts below, all filled up with empty places."""
    rows = list(_rows_with_below(group, columns))
    starts = range(0, len(charts), columns)
    rows += [charts[start : start + columns] for start in starts]
    full_rows = ([*row, *([None] * (columns - len(row)))] for row in rows)
    return PanelOrder(tuple(chain.from_iterable(full_rows)), columns)


def _rows_with_below(group: Group, columns: int) -> Iterator[Sequence[Content]]:
    """Yield rows of panels, and below each the row of what belongs to it.

    The first row is the one that is not full, so that labels stand below the last row alone.
    """
    panels = _panel_contents([group])
    for start in range(-(-len(panels) % columns), len(panels), columns):
        part = slice(max(start, 0), start + columns)
        yield panels[part]
        row_below = group.below[part]
        if any(row_below):
            yield row_below


def _panel_contents(groups: Sequence[Group]) -> list[Content]:
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

    order: PanelOrder
    style: PanelStyle
    headings: PanelHeadings
    row_ticks: tuple[Ticks, ...]
    column_ticks: tuple[Ticks, ...]
    width: float  # of the room for one panel, without its labels
    height: float

    @property
    def contents(self) -> tuple[Content, ...]:
        """The panels row by row, None for an empty place."""
        return self.order.panels

    @property
    def columns(self) -> int:
        return self.order.columns

    def indices(self, row: int) -> range:
        start = row * self.columns
        return range(start, min(start + self.columns, len(self.contents)))

    @cached_property
    def sizes(self) -> list[Size]:
        """The width and the height of each panel, without its labels."""
        widths = [_panel_room_width(content, self.width, self.columns) for content in self.contents]
        pairs = zip(self.contents, widths, strict=True)
        return [_panel_size(content, width, self.height, self.style) for content, width in pairs]

    @cached_property
    def spaces(self) -> list[Space]:
        """The room of each panel with its labels and title; those beside or above an empty place
        use that.

        A title may widen its column where there is room; a strip of words does not.
        """
        spaces, columns, contents = [], self.columns, self.contents
        for index, (width, height) in enumerate(self.sizes):
            beside_empty = index % columns and contents[index - 1] is None
            left = 0.0 if beside_empty else labels_extent(self.row_ticks[index], self.style)
            lower = index + columns
            above_empty = lower < len(contents) and contents[lower] is None
            below = 0.0 if above_empty else labels_extent(self.column_ticks[index], self.style)
            title = self.headings.width(index) - TITLE_OVERHANG * self.style.gap
            right = max(min(title, self.width) - width, 0.0)
            if is_strip(contents[index]) and columns > 1:
                width = right = 0.0
            above = self.headings.height(self.indices(index // columns))
            spaces.append(Space(width, height, left, above, right, below, middle=0.0))
        return spaces

    @property
    def labels_size(self) -> Size:
        """The width and the height that all labels and titles take."""
        columns = [self.spaces[start :: self.columns] for start in range(self.columns)]
        rows = [[self.spaces[p] for p in self.indices(row)] for row in range(self.order.rows)]
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
        return grid_of(spaces, self.columns, gap, ROW_GAP_SHARE * self.style.gap)

    @property
    def cell(self) -> float:
        """The area of the smallest cell, by which arrangements are compared.

        It counts as larger if the arrangement is preferred, and as smaller with small or broken
        titles, or with a last row that is not full.
        """
        areas = (
            width * height / (content.values.size if isinstance(content, Grid) else CHART_CELLS)
            for content, (width, height) in zip(self.contents, self.sizes, strict=True)
            if content and not is_strip(content)
        )
        preferred = PREFERENCE_FACTOR if self.order.preferred else 1.0
        full = 1.0 if len(self.contents) % self.columns == 0 else RAGGED_WORTH
        return min(areas, default=1.0) * preferred * full * self.headings.worth(self.style)


def best_panel_rows(candidates: Sequence[PanelOrder], room: Box, style: PanelStyle) -> PanelRows:
    """Return the panels in that of some arrangements which has the largest cells in a room.

    A few heads over the same tokens get square cells.
    """
    if heads := _square_head_count(candidates[0].panels):
        stretch = min(style.stretch, TWO_PANELS_STRETCH if heads == 2 else 1.0)
        gap = SQUARE_PANELS_GAP * style.gap
        style = replace(style, stretch=stretch, squeeze=1.0, gap=gap, line=SQUARE_PANELS_LINE)
    return max((_fitted_rows(each, room, style) for each in candidates), key=lambda each: each.cell)


def _square_head_count(panels: Sequence[Content]) -> int:
    """Return how many grids these are, if they are two to four of one shape and kind; else 0.

    Their rows and columns must both be tokens (or count the same), and no chart may be among them.
    Their cells are square, or nearly so: letters are then as large on both sides, and as many heads
    stand in a row as makes them largest.
    """
    grids = [panel for panel in panels if isinstance(panel, Grid)]
    kinds = {(panel.cells.shape, panel.scale.label) for panel in grids}
    square = all(len(g.rows) > 1 and g.rows.unit == g.columns.unit for g in grids)
    is_few = len(kinds) == 1 and square and 1 < len(grids) <= MAX_SQUARE_PANELS
    return len(grids) if is_few and not any(isinstance(panel, Curves) for panel in panels) else 0


def _fitted_rows(order: PanelOrder, room: Box, style: PanelStyle) -> PanelRows:
    """Return panels as large as labels leave them room: a few rounds, for labels depend on their
    size.
    """
    columns, rows = order.columns, order.rows
    strips = [_strip_height(panel, style) for panel in order.panels if is_strip(panel)]
    width, height = room[2] / columns, room[3] / rows
    for _ in range(4):
        layout = build_panel_rows(order, width, height, style)
        labels_wide, labels_high = layout.labels_size
        labels_high += ROW_GAP_SHARE * style.gap * (rows - 1) + sum(strips)
        width = max((room[2] - style.gap * (columns - 1) - labels_wide) / columns, 0.1)
        height = max((room[3] - labels_high) / max(rows - len(strips), 1), 0.1)
    return replace(layout, width=width, height=height)


def build_panel_rows(
    order: PanelOrder, width: float, height: float, style: PanelStyle
) -> PanelRows:
    """Return panels for which there is this width and height, with labels and titles that fit.

    In a style without labels, names of layers stand beside rows, if each row is of one layer.
    """
    layers: list[str] = []
    if style.bare:
        order, layers = with_layer_names(order)
    rows, across = _all_ticks(order, width, height, style)
    if layers:
        layer_rows = [
            layer_ticks(rows[0].title, layers[index // order.columns], style)
            if index % order.columns == 0
            else ticks
            for index, ticks in enumerate(rows)
        ]
        rows = tuple(layer_rows)
    titles = _panel_headings(order, width + TITLE_OVERHANG * style.gap, style)
    return PanelRows(order, style, titles, rows, across, width, height)


def _panel_headings(order: PanelOrder, room: float, style: PanelStyle) -> PanelHeadings:
    """Return titles, each with `room` inches; that of a strip has a whole row, and makes no other
    smaller.
    """
    strips = [is_strip(panel) for panel in order.panels]
    if all(strips):
        return fit_headings(order.panels, room, style)
    pairs = list(zip(order.panels, strips, strict=True))
    titles = fit_headings([None if strip else panel for panel, strip in pairs], room, style)
    lines = (
        tuple(title_lines(panel_title(panel), titles.size, room * order.columns)) if strip else line
        for (panel, strip), line in zip(pairs, titles.lines, strict=True)
    )
    return replace(titles, lines=tuple(lines))


def _panel_room_width(panel: Content, width: float, columns: int) -> float:
    return width * columns if is_strip(panel) else width


def _all_ticks(
    order: PanelOrder, width: float, height: float, style: PanelStyle
) -> tuple[tuple[Ticks, ...], tuple[Ticks, ...]]:
    """Return the labels of rows, and those of columns, of every panel; none where a neighbour's
    serve.
    """
    panels, columns = order.panels, order.columns
    ticks = []
    for index, panel in enumerate(panels):
        left = panels[index - 1] if index % columns else None
        size = _panel_size(panel, _panel_room_width(panel, width, columns), height, style)
        rows, across = _panel_ticks(panel, left, _panel_below(order, index), size, style)
        if index % columns and left is None:
            rows = replace(rows, title="")  # stands at the left of the rows above
        ticks.append((rows, across))
    all_rows, all_columns = zip(*ticks, strict=True)
    return all_rows, all_columns


def _panel_below(order: PanelOrder, index: int) -> Content:
    """Return the panel whose labels serve for one above it: beyond an empty place that it stands
    over.
    """
    panels, columns = order.panels, order.columns
    lower_indices = range(index + columns, len(panels), columns)
    panel = next((panels[lower] for lower in lower_indices if panels[lower]), None)
    if panel is None and lower_indices and (index + 1) % columns:
        return panels[lower_indices[0] + 1]
    return panel


def _panel_ticks(
    panel: Content, left: Content, below: Content, size: Size, style: PanelStyle
) -> tuple[Ticks, Ticks]:
    """Return the labels of rows and of columns of a panel beside `left` and above `below`.

    Rows or columns that equal a neighbour's have none.
    """
    if panel is None:
        return Ticks("", 1), Ticks("", 1)
    if isinstance(panel, Curves):
        return chart_ticks(panel, *size, style.label, X_VALUE_SHARES)
    same_shape = isinstance(left, Grid) and left.values.shape == panel.values.shape
    same_rows = same_shape and isinstance(left, Grid) and left.rows == panel.rows
    same_columns = isinstance(below, Grid) and below.columns == panel.columns
    if style.bare:
        return replace(no_ticks(panel.rows), title="" if left else panel.rows.title), no_ticks(
            panel.columns
        )
    rows = no_ticks(panel.rows)
    if not same_rows:
        rows = row_ticks(panel.rows, size[1] / len(panel.rows), style)
        if isinstance(left, Grid) and left.rows.title == panel.rows.title:
            rows = replace(rows, title="")  # stands at the left of the row already
    if same_columns:
        return rows, no_ticks(panel.columns)
    return rows, column_ticks(panel.columns, size[0] / len(panel.columns), style)


def _panel_size(panel: Content, width: float, height: float, style: PanelStyle) -> Size:
    """Return how much of its room a panel takes.

    Cells are about square where rows and columns count the same, such as tokens. On a page of many
    panels they may be wider, for then their numbers can be larger.
    """
    if panel is None:
        return 0.0, 0.0
    if isinstance(panel, Curves):
        highest = CHART_ASPECT if style.squeeze == 1 else MAX_CHART_ASPECT
        return width, min(height, width * highest)
    columns, rows = len(panel.columns), len(panel.rows)
    wide, high = width / columns, height / rows
    if panel.rows.unit == panel.columns.unit and rows > 1:
        stretch = style.stretch if style.stretch == 1 or columns > FEW_COLUMNS else FEW_STRETCH
        return min(wide, high * stretch) * columns, min(high, wide * style.squeeze) * rows
    if is_strip(panel):
        words = longest_number(panel) * style.number / 10 / NUMBER_WIDTH * columns
        return min(width, words), min(height, _strip_height(panel, style))
    words = longest_number(panel) * MIN_NUMBER_POINTS / 10 / NUMBER_WIDTH if panel.words else 0.0
    widest = max(high * 1.6 * style.stretch * columns, 0.3 * width, words * columns)
    return min(width, widest), min(height, max(wide * max(style.squeeze, 1.2), LOWEST_ROW) * rows)


def _strip_height(panel: Content, style: PanelStyle) -> float:
    return STRIP_HEIGHT * style.number * POINT * len(panel.rows) if isinstance(panel, Grid) else 0.0


def with_layer_names(order: PanelOrder) -> tuple[PanelOrder, list[str]]:
    """Return panels with `H3` above the first row alone; and `L0`, `L1`, … to stand beside the
    rows.

    Where panels are no heads of layers, or rows no layers, they keep their titles, and the list is
    empty.
    """
    matches = [LAYER_AND_HEAD.fullmatch(panel_title(panel)) for panel in order.panels]
    rows = [
        matches[start : start + order.columns] for start in range(0, len(matches), order.columns)
    ]
    layers = [{match["layer"] for match in row if match} for row in rows]
    if not all(matches) or any(len(names) > 1 for names in layers):
        return order, []
    heads = [match["head"] if match else "" for match in rows[0]]
    titles = [*heads, *[""] * (len(matches) - len(heads))]
    panels = tuple(
        replace(panel, title=title) if isinstance(panel, Grid) else panel
        for panel, title in zip(order.panels, titles, strict=True)
    )
    return replace(order, panels=panels), [next(iter(names)) for names in layers]


def layer_ticks(title: str, name: str, style: PanelStyle) -> Ticks:
    extent = text_width(name, style.smallest) + LABELS_GAP * style.smallest * POINT
    return Ticks(title, 1, (0,), (name,), style.smallest, 0, extent)
