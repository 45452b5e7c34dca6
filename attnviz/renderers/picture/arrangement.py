"""Which panels stand beside each other, and which below: the groups of a View in rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from attnviz.errors import AttnvizError
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable, Section, panel_table
from attnviz.views.view import Group

WIDEST = 16  # panels in a row
STRIP_ROWS = 4  # of words, at most, that stand in a strip
PANELS_BESIDE = 4  # that many charts stand beside each other

Shown = Grid | Curves | None  # what has a panel of its own; None leaves its place empty


@dataclass(frozen=True, eq=False)
class Arranged:
    """Panels row by row, and how many there are in one."""

    panels: tuple[Shown, ...]
    columns: int
    preferred: bool = False  # to others that are not much larger

    @property
    def rows(self) -> int:
        return math.ceil(len(self.panels) / self.columns)


def arrangements(groups: Sequence[Group]) -> list[Arranged]:
    """The ways to set groups that have panels; charts stand in rows of their own, below."""
    shown = [group for group in groups if group.panels]
    if not shown:
        raise AttnvizError("there is nothing to draw", "show some part of the result")
    if shown[0].kind == "free":
        *above, last = shown
        if above and is_strip(*_panels([last])):
            strip = _panels([last])
            ways = free(_panels(above), _in_a_layer(above))
            return [_with_strip(each, strip) for each in ways]
        return free(_panels(shown), _in_a_layer(shown))
    first, *others = shown
    charts = _panels(others)
    if first.kind == "table":
        return [_with_charts(table, table.column_count, charts) for table in _tables(first)]
    if charts:
        first = replace(first, below=())  # what charts tell of differences, they tell better
    return [_with_charts(first, columns, charts) for columns in _columns_of(first, charts)]


def free(panels: Sequence[Shown], in_a_layer: int = 0) -> list[Arranged]:
    """In rows of any length; rows of as many panels as a layer has are preferred."""
    return [
        Arranged(tuple(panels), columns, columns == in_a_layer)
        for columns in _possible(len(panels))
        if not in_a_layer or columns % in_a_layer == 0 or in_a_layer % columns == 0
    ]


def is_strip(*panels: Shown) -> bool:
    """Whether all are a few rows of words: they stand below what they come from, no higher."""
    shown = [each for each in panels if each]
    return bool(shown) and all(
        isinstance(each, Grid) and each.words and len(each.rows) <= STRIP_ROWS for each in shown
    )


def _with_strip(above: Arranged, strip: Sequence[Shown]) -> Arranged:
    """Rows that are full, and the strip in one of its own."""
    free_places = above.rows * above.columns - len(above.panels)
    panels = [*above.panels, *([None] * free_places), *strip]
    panels += [None] * (-len(panels) % above.columns)
    return Arranged(tuple(panels), above.columns)


def _in_a_layer(groups: Sequence[Group]) -> int:
    """How many panels each layer has, where there are several, all alike; else 0."""
    alike = {len(group.panels) for group in groups}
    shapes = {each.cells.shape for each in _panels(groups) if isinstance(each, Grid)}
    return min(alike) if len(groups) > 1 and len(alike) == len(shapes) == 1 else 0


def _columns_of(group: Group, charts: Sequence[Shown]) -> list[int]:
    """How many panels may stand in a row: all of a pair, for which there is nothing to wrap.

    Rows of one token stand below each other, key by key.
    """
    if group.kind == "pair" and not charts and all(_is_row(each) for each in group.panels):
        return [1]
    if group.kind == "pair":
        return [max(len(group.panels), len(charts))] if charts else _possible(len(group.panels))
    possible = _possible(max(len(group.panels), len(charts)))
    return [count for count in possible if count >= min(len(charts), PANELS_BESIDE)]


def _is_row(panel: Drawable) -> bool:
    return isinstance(panel, Grid) and len(panel.rows) == 1 < len(panel.columns)


def _tables(table: Group) -> Iterator[Group]:
    """A table as it is, and on its side; or with several of its rows in one."""
    rows = (table.panels[start :: table.column_count] for start in range(table.column_count))
    panels, high = tuple(chain.from_iterable(rows)), len(table.panels) // table.column_count
    for each in (table, replace(table, panels=panels, column_count=high)):
        height = len(panels) // each.column_count
        for together in range(1, height + 1):
            if height % together == 0 and each.column_count * together <= max(
                WIDEST, each.column_count
            ):
                yield replace(each, column_count=each.column_count * together)


def _possible(count: int) -> list[int]:
    """Numbers of columns that leave the fewest places free for their number of rows."""
    rows = {math.ceil(count / columns) for columns in range(1, min(count, WIDEST) + 1)}
    return sorted({math.ceil(count / each) for each in rows})


def _with_charts(group: Group, columns: int, charts: Sequence[Shown]) -> Arranged:
    rows = list(_rows(group, columns))
    starts = range(0, len(charts), columns)
    rows += [charts[start : start + columns] for start in starts]
    filled = ([*row, *([None] * (columns - len(row)))] for row in rows)
    return Arranged(tuple(chain.from_iterable(filled)), columns)


def _rows(group: Group, columns: int) -> Iterator[Sequence[Shown]]:
    """Rows of panels, and below each what belongs to it.

    The first row is the one that is not full, so that labels stand below the last row alone.
    """
    panels = _panels([group])
    for start in range(-(-len(panels) % columns), len(panels), columns):
        part = slice(max(start, 0), start + columns)
        yield panels[part]
        below = group.below[part]
        if any(below):
            yield below


def _panels(groups: Sequence[Group]) -> list[Shown]:
    """Those that have a panel of their own, as sections and overviews have not."""
    panels = (panel for group in groups for panel in group.panels)
    return [
        panel if isinstance(panel, Curves) else panel_table(panel)
        for panel in panels
        if not isinstance(panel, (Section, Overview))
    ]
