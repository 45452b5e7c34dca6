"""Panels in rows and columns, and very many heads: their size in inches, and their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.renderers.picture.arrangement import Arranged, Shown, is_strip
from attnviz.renderers.picture.charts import chart_ticks
from attnviz.renderers.picture.items import SMALLEST_NUMBER, Box
from attnviz.renderers.picture.lettering import POINT, Size
from attnviz.renderers.picture.numbers import NUMBER_SHARE, longest_number
from attnviz.renderers.picture.texts import Headings, headings, title_of, wrapped
from attnviz.renderers.picture.ticks import (
    BESIDE,
    PanelStyle,
    Ticks,
    column_ticks,
    no_ticks,
    reach,
    row_ticks,
    text_width,
)
from attnviz.views.grids.grid import Curves, Grid

FEW, FEW_STRETCH = 12, 4.0  # columns, whose cells may be wider
LOWEST_ROW = 0.17  # of vectors with very many dimensions
TITLE_BEYOND = 0.5  # of the gap beside a panel, its title may reach into it
GAP_BELOW = 0.5  # of the gap between two panels beside each other
CHART_HEIGHT, HIGHEST_CHART = 0.72, 1.4  # of its width; and on a page of a given size
STRIP_ROW = 1.8  # of its letters: how high a row of words is
CHART_CELLS = 16  # as many cells of a grid count as much as a chart
FEW_SQUARES = 4  # panels, whose cells are square;
TWO_STRETCH = 1.3  # those of two are at most so many times as wide as high
SQUARES_GAP, SQUARES_LINE = 0.45, 0.97  # times the usual gap; of its place a label may be high
MUCH_LARGER = 1.6  # times the cell: so large it must be, to be better than what is preferred


@dataclass(frozen=True, eq=False)
class PanelRows:
    """Panels in rows and columns, with the room that each row and column gives to labels."""

    arranged: Arranged
    style: PanelStyle
    headings: Headings
    row_ticks: tuple[Ticks, ...]
    column_ticks: tuple[Ticks, ...]
    width: float  # of the room for one panel, without its labels
    height: float

    @property
    def drawn(self) -> tuple[Shown, ...]:
        return self.arranged.panels

    @property
    def columns(self) -> int:
        return self.arranged.columns

    def places(self, row: int) -> range:
        """The panels of a row."""
        start = row * self.columns
        return range(start, min(start + self.columns, len(self.drawn)))

    def heading(self, row: int) -> float:
        """The room for titles above a row."""
        return self.headings.height(self.places(row))

    def label_width(self, column: int) -> float:
        """Of labels on the left; those beside an empty place stand in it."""
        places = range(column, len(self.drawn), self.columns)
        beside = [place for place in places if not (column and self.drawn[place - 1] is None)]
        return max((reach(self.row_ticks[place], self.style) for place in beside), default=0.0)

    def label_height(self, row: int) -> float:
        """Of labels below; those above an empty place stand in it."""
        below = self.drawn[(row + 1) * self.columns :]
        above = (
            place
            for number, place in enumerate(self.places(row))
            if number >= len(below) or below[number]
        )
        return max((reach(self.column_ticks[each], self.style) for each in above), default=0.0)

    @property
    def labels(self) -> Size:
        """What all labels and titles take of a page."""
        wide = sum(self.label_width(column) for column in range(self.columns))
        rows = range(self.arranged.rows)
        return wide, sum(self.label_height(row) + self.heading(row) for row in rows)

    @cached_property
    def sizes(self) -> list[Size]:
        wide = [_room_of(each, self.width, self.columns) for each in self.drawn]
        pairs = zip(self.drawn, wide, strict=True)
        return [_size(each, width, self.height, self.style) for each, width in pairs]

    @property
    def cell(self) -> float:
        """The area of the smallest cell."""
        areas = (
            width * height / (each.values.size if isinstance(each, Grid) else CHART_CELLS)
            for each, (width, height) in zip(self.drawn, self.sizes, strict=True)
            if each and not is_strip(each)
        )
        preferred = MUCH_LARGER if self.arranged.preferred else 1.0
        return min(areas, default=1.0) * preferred * self.headings.worth(self.style)


def settled(candidates: Sequence[Arranged], room: Box, style: PanelStyle) -> PanelRows:
    """The panels as one of these ways sets them: the one with the largest cells."""
    if heads := _few_heads(candidates[0].panels):
        stretch = min(style.stretch, TWO_STRETCH if heads == 2 else 1.0)
        gap = SQUARES_GAP * style.gap
        style = replace(style, stretch=stretch, squeeze=1.0, gap=gap, line=SQUARES_LINE)
    return max((_settled(each, room, style) for each in candidates), key=lambda each: each.cell)


def _few_heads(panels: Sequence[Shown]) -> int:
    """How many heads these are, if they are a few that read the same tokens; else 0.

    Their cells are square, or nearly so: letters are then as large on both sides, and as many
    heads stand in a row as makes them largest.
    """
    grids = [each for each in panels if isinstance(each, Grid)]
    alike = {(each.cells.shape, each.scale.label) for each in grids}
    square = all(len(g.rows) > 1 and g.rows.unit == g.columns.unit for g in grids)
    few = len(alike) == 1 and square and 1 < len(grids) <= FEW_SQUARES
    return len(grids) if few and not any(isinstance(each, Curves) for each in panels) else 0


def _settled(arranged: Arranged, room: Box, style: PanelStyle) -> PanelRows:
    """Labels take room from panels, and panels give labels their size: settled in a few rounds."""
    columns, rows = arranged.columns, arranged.rows
    strips = [_strip_height(each, style) for each in arranged.panels if is_strip(each)]
    width, height = room[2] / columns, room[3] / rows
    for _ in range(4):
        found = in_panels(arranged, width, height, style)
        labels_wide, labels_high = found.labels
        labels_high += GAP_BELOW * style.gap * (rows - 1) + sum(strips)
        width = max((room[2] - style.gap * (columns - 1) - labels_wide) / columns, 0.1)
        height = max((room[3] - labels_high) / max(rows - len(strips), 1), 0.1)
    return replace(found, width=width, height=height)


def in_panels(arranged: Arranged, width: float, height: float, style: PanelStyle) -> PanelRows:
    """The labels that panels of this size have."""
    layers: list[str] = []
    if style.bare:
        arranged, layers = named_once(arranged)
    rows, across = _ticks(arranged, width, height, style)
    if layers:
        beside = [
            layer_ticks(rows[0].title, layers[place // arranged.columns], style)
            if place % arranged.columns == 0
            else ticks
            for place, ticks in enumerate(rows)
        ]
        rows = tuple(beside)
    titles = _headings(arranged, width + TITLE_BEYOND * style.gap, style)
    return PanelRows(arranged, style, titles, rows, across, width, height)


def _headings(arranged: Arranged, room: float, style: PanelStyle) -> Headings:
    """Titles; that of a strip has the room of a row, and makes no other smaller."""
    strips = [is_strip(each) for each in arranged.panels]
    if all(strips):
        return headings(arranged.panels, room, style)
    pairs = list(zip(arranged.panels, strips, strict=True))
    titles = headings([None if strip else each for each, strip in pairs], room, style)
    lines = (
        tuple(wrapped(title_of(each).split(" "), " ", titles.size, room * arranged.columns))
        if strip
        else line
        for (each, strip), line in zip(pairs, titles.lines, strict=True)
    )
    return replace(titles, lines=tuple(lines))


def _room_of(each: Shown, width: float, columns: int) -> float:
    """The width that a panel may have: a strip has all of its row."""
    return width * columns if is_strip(each) else width


def _ticks(
    arranged: Arranged, width: float, height: float, style: PanelStyle
) -> tuple[tuple[Ticks, ...], tuple[Ticks, ...]]:
    """The labels of every panel; a neighbour's on the left, or below, serve for both."""
    drawn, columns = arranged.panels, arranged.columns
    ticks = []
    for place, each in enumerate(drawn):
        left = drawn[place - 1] if place % columns else None
        size = _size(each, _room_of(each, width, columns), height, style)
        rows, across = _ticks_of(each, left, _below(arranged, place), size, style)
        if place % columns and left is None:
            rows = replace(rows, title="")  # stands at the left of the rows above
        ticks.append((rows, across))
    of_rows, of_columns = zip(*ticks, strict=True)
    return of_rows, of_columns


def _below(arranged: Arranged, place: int) -> Shown:
    """The panel whose labels serve for one above it: beyond an empty place that it stands over."""
    drawn, columns = arranged.panels, arranged.columns
    under = range(place + columns, len(drawn), columns)
    found = next((drawn[each] for each in under if drawn[each]), None)
    if found is None and under and (place + 1) % columns:
        return drawn[under[0] + 1]
    return found


def _ticks_of(
    each: Shown, left: Shown, below: Shown, size: Size, style: PanelStyle
) -> tuple[Ticks, Ticks]:
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


def _size(each: Shown, width: float, height: float, style: PanelStyle) -> Size:
    """How much of its room a panel takes: cells are about square where both sides count the same.

    On a page of many panels they may be wider, for then their numbers can be larger.
    """
    if each is None:
        return 0.0, 0.0
    if isinstance(each, Curves):
        highest = CHART_HEIGHT if style.squeeze == 1 else HIGHEST_CHART
        return width, min(height, width * highest)
    columns, rows = len(each.columns), len(each.rows)
    wide, high = width / columns, height / rows
    if each.rows.unit == each.columns.unit and rows > 1:
        stretch = style.stretch if style.stretch == 1 or columns > FEW else FEW_STRETCH
        return min(wide, high * stretch) * columns, min(high, wide * style.squeeze) * rows
    if is_strip(each):
        return min(width, _widest_strip(each, style)), min(height, _strip_height(each, style))
    letters = max(style.numbers, SMALLEST_NUMBER) if each.words else style.numbers
    numbers = longest_number(each) * letters / 10 / NUMBER_SHARE if letters else 0.0
    widest = max(high * 1.6 * style.stretch * columns, 0.3 * width, numbers * columns)
    return min(width, widest), min(height, max(wide * max(style.squeeze, 1.2), LOWEST_ROW) * rows)


def _strip_height(each: Shown, style: PanelStyle) -> float:
    """Of a few rows of words."""
    return STRIP_ROW * style.number * POINT * len(each.rows) if isinstance(each, Grid) else 0.0


def _widest_strip(each: Grid, style: PanelStyle) -> float:
    """All that its words can take in letters as large as numbers are."""
    return longest_number(each) * style.number / 10 / NUMBER_SHARE * len(each.columns)


def columns_and_rows(best: PanelRows) -> tuple[list[float], list[float]]:
    """How wide each column is, and how high each row."""
    sizes, count = best.sizes, best.columns
    columns = [
        max(_wide_enough(best, place) for place in range(column, len(sizes), count))
        for column in range(count)
    ]
    rows = [max(sizes[place][1] for place in best.places(row)) for row in range(best.arranged.rows)]
    return columns, rows


def _wide_enough(best: PanelRows, place: int) -> float:
    """The width of a panel, or that of its title where there is room; no strip widens a column."""
    if is_strip(best.drawn[place]) and best.columns > 1:
        return 0.0
    title = best.headings.width(place) - TITLE_BEYOND * best.style.gap
    return max(best.sizes[place][0], min(title, best.width))


OF_A_LAYER = re.compile(r"(?P<layer>L\d+)(?P<head>H\d+)")


def named_once(arranged: Arranged) -> tuple[Arranged, list[str]]:
    """Panels with `H3` above the first row alone; and `L0`, `L1`, … beside the rows.

    Where panels are no heads of layers, or rows no layers, they keep their titles.
    """
    found = [OF_A_LAYER.fullmatch(title_of(each)) for each in arranged.panels]
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
    """The name of a layer beside its row."""
    extent = text_width(name, style.smallest) + BESIDE * style.smallest * POINT
    return Ticks(title, 1, (0,), (name,), style.smallest, 0, extent)
