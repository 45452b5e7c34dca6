"""Which panels stand beside each other, and which below: the groups of a View in rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.errors import AttnvizError
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.section import Section, table_of
from attnviz.views.view import Group

PANELS_IN_A_ROW = 5
PAIR, PAIR_WITH_CHARTS = 3, 4  # panels in the row of two alternatives and their difference

Shown = Grid | Curves | None  # what has a panel of its own; None leaves its place empty


@dataclass(frozen=True, eq=False)
class Arranged:
    """Panels row by row, and how many there are in one; None: as many as make them largest."""

    panels: tuple[Shown, ...]
    columns: int | None = None


def arranged(groups: Sequence[Group], size: tuple[float, float] | None) -> Arranged:
    """The groups that have panels; charts stand in a row of their own below the others."""
    shown = [group for group in groups if group.panels]
    if not shown:
        raise AttnvizError("there is nothing to draw", "show some part of the result")
    first, *others = shown
    charts = _panels(others)
    if first.kind == "free":
        return Arranged((*_panels([first]), *charts))
    wide = columns(first, len(charts), size)
    in_a_row = wide or len(first.panels)
    above = _in_rows(first, in_a_row)
    if charts:
        above += [None] * (-len(above) % in_a_row)
        charts += [None] * (-len(charts) % in_a_row)
    return Arranged((*above, *charts), wide)


def columns(group: Group, charts: int, size: tuple[float, float] | None) -> int | None:
    """How many panels stand in a row; None leaves it to whoever draws them.

    Of its own size a picture has rows of at most five panels, as long as each other; of a given
    one as many as let the panels come out as large as they can.
    """
    if group.kind == "pair":
        return PAIR_WITH_CHARTS if charts else (None if size else PAIR)
    count = len(group.panels)
    least = max(charts, 1)
    if size is None:
        rows = math.ceil(count / PANELS_IN_A_ROW)
        return max(least, math.ceil(count / rows))
    room = size
    possible = range(least, max(count, least) + 1)
    return max(possible, key=lambda wide: _side(count, wide, charts, room))


def _side(count: int, columns: int, charts: int, size: tuple[float, float]) -> float:
    """About how large a panel becomes, in inches: rows also hold labels, a page also a title."""
    rows = 2 * math.ceil(count / columns) + (1 if charts else 0)
    return min(size[0] / columns, (size[1] - 1) / rows - 0.6)


def _in_rows(group: Group, columns: int) -> list[Shown]:
    """Rows of panels, and below each what belongs to it; the last is filled up."""
    panels = _panels([group])
    if not group.below:
        return panels
    rows: list[Shown] = []
    for start in range(0, len(panels), columns):
        part = slice(start, start + columns)
        missing = [None] * (columns - len(panels[part]))
        rows += [*panels[part], *missing, *group.below[part], *missing]
    return rows


def _panels(groups: Sequence[Group]) -> list[Shown]:
    """Those that have a panel of their own, as sections have not."""
    panels = (panel for group in groups for panel in group.panels)
    return [
        panel if isinstance(panel, Curves) else table_of(panel)
        for panel in panels
        if not isinstance(panel, Section)
    ]
