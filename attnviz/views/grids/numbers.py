"""How the numbers of a grid are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import inf, isnan

import numpy as np

from attnviz.cells import CellValues
from attnviz.views.grids.grid import Grid
from attnviz.wording.numbers import (
    POWERS_OF_TEN_FROM,
    fixed_text,
    power_text,
    share_text,
    smallest_fixed_value,
    tiny_text,
)

MAX_WHOLE_NUMBER = 1e6
TINY_DIFFERENCE = 0.01  # shares that differ by less are written with powers of ten
MEASURE_DECIMALS = 3  # digits behind the point, of what is measured
SMALL_VALUES_BELOW = 0.1  # values all below are written so, too, where nobody said how many digits

HEAD_SUFFIX = re.compile(
    r"( ·)? ((\w+ (cross )?)?heads? \d+(–\d+)?|\w*\d( cross )?H\d+)( \(off\))?$"
)  # the end of a title

MINUS_INFINITY = "−∞"

NumberFormat = Callable[[float], str]


def cell_text(value: float, hidden: bool, number_format: NumberFormat, sign: str = "") -> str:
    """What stands in a cell: −∞ wherever it is; else a sign of what is hidden; else the number.

    >>> [cell_text(value, hidden, str, "·") for value, hidden in ((-inf, True), (2.0, True))]
    ['−∞', '·']
    """
    if value == -inf:
        return MINUS_INFINITY
    if hidden:
        return sign
    return "" if isnan(value) else number_format(value)


def masked_sign(grid: Grid, sign: str) -> str:
    """What is written where something is hidden: a sign, or the −∞ that became of it."""
    infinite = bool(np.isneginf(grid.values[grid.hidden]).all())
    return MINUS_INFINITY if infinite else sign


def cell_format(grid: Grid, decimals: int, panels_beside: Sequence[Grid] = ()) -> NumberFormat:
    """How the numbers of a grid are written: `.31` for a share, `-0.31` for a value.

    `panels_beside` are grids that it is shown with: heads of one part are written in one way.
    """
    digits = decimals if grid.decimals is None else grid.decimals
    if grid.scale.kind == "none":
        measure_decimals = MEASURE_DECIMALS if grid.decimals is None else grid.decimals
        return str if grid.values.dtype.kind in "iu" else f"{{:.{measure_decimals}f}}".format
    if grid.share and grid.scale.kind == "diverging" and grid.scale.high < TINY_DIFFERENCE:
        return tiny_text
    if grid.share:
        return share_text if digits == 2 else f"{{:.{digits}f}}".format
    heads = [
        panel for panel in panels_beside if _title_without_head(panel) == _title_without_head(grid)
    ]
    return _value_format(grid, digits, heads or [grid])


def _title_without_head(grid: Grid) -> str:
    """What its numbers are, whichever head they are of: `scores` of `scores · head 1`."""
    return HEAD_SUFFIX.sub("", grid.title)


def _value_format(grid: Grid, digits: int, heads: Sequence[Grid]) -> NumberFormat:
    reach, largest = grid.cells.reach, max(head.cells.reach for head in heads)
    has_decimals = grid.decimals is not None
    by_hand = grid.columns.has_named_dimensions  # what people write by hand is whole, and stays so
    if (has_decimals or by_hand) and all(
        head.values.size and _are_whole_numbers(head.values) for head in heads
    ):
        return lambda value: fixed_text(value, 0)
    if 0 < largest < (smallest_fixed_value(digits) if has_decimals else SMALL_VALUES_BELOW):
        return lambda value: power_text(value, max(digits - 1, 0))
    # Fewer behind 100, none behind 1000, unless somebody said how many.
    reach = reach if reach < POWERS_OF_TEN_FROM else ordinary_reach(grid)
    decimals = digits if has_decimals else max(0, digits - max(0, len(str(int(reach))) - 2))
    return lambda value: (
        power_text(value, digits)
        if abs(value) >= POWERS_OF_TEN_FROM
        else fixed_text(value, decimals)
    )


def ordinary_reach(grid: Grid) -> float:
    """The furthest from 0 of what is written without powers of ten; a mask may add -1e9."""
    distances = np.abs(grid.values.astype(float))
    return float(
        distances[np.isfinite(distances) & (distances < POWERS_OF_TEN_FROM)].max(initial=0)
    )


def _are_whole_numbers(values: CellValues) -> bool:
    """Whether there is nothing behind any point."""
    exact = values.astype(float)  # a million is more than float16 can be compared with
    finite = exact[np.isfinite(exact)]
    return bool(
        (finite == finite.round()).all() and np.abs(finite).max(initial=0) < MAX_WHOLE_NUMBER
    )
