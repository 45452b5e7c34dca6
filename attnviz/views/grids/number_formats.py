"""How the numbers in the cells of a grid are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
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
MEASURE_DECIMALS = 3
SMALL_VALUES_BELOW = 0.1  # values all below it get more decimals, where `decimals` is not given
TINY_VALUES_BELOW = 0.001  # values all below it are written with powers of ten

HEAD_SUFFIX = re.compile(  # the end of a title
    r"( ·)? ((\w+ (cross )?)?heads? \d+(–\d+)?|\w*\d( cross )?H\d+)( \(off\))?$"
)

MINUS_INFINITY = "−∞"

NumberFormat = Callable[[float], str]


def cell_text(value: float, hidden: bool, number_format: NumberFormat, sign: str = "") -> str:
    """Return the text of a cell: `−∞`, else `sign` if the cell is masked, else the number; NaN is
    empty.

    >>> [cell_text(value, hidden, str, "·") for value, hidden in ((-inf, True), (2.0, True))]
    ['−∞', '·']
    """
    if value == -inf:
        return MINUS_INFINITY
    if hidden:
        return sign
    return "" if isnan(value) else number_format(value)


def masked_sign(grid: Grid, sign: str) -> str:
    """Return what is written in masked cells: `−∞` where every one holds −∞, else `sign`."""
    infinite = bool(np.isneginf(grid.values[grid.hidden]).all())
    return MINUS_INFINITY if infinite else sign


def cell_format(grid: Grid, decimals: int, panels_beside: Sequence[Grid] = ()) -> NumberFormat:
    """Return the function that writes the numbers of a grid: `.31` for a share, `-0.31` for a
    value.

    `decimals` counts where the grid has none of its own. `panels_beside` are the grids shown with
    it: the heads of one part are written in the same style.
    """
    digits = decimals if grid.decimals is None else grid.decimals
    if grid.scale.kind == "none":
        measure_decimals = MEASURE_DECIMALS if grid.decimals is None else grid.decimals
        is_whole = grid.values.dtype.kind in "iu"
        return str if is_whole else partial(fixed_text, digits=measure_decimals)
    if grid.share and grid.scale.kind == "diverging" and grid.scale.high < TINY_DIFFERENCE:
        return tiny_text
    if grid.share:
        return share_text if digits == 2 else f"{{:.{digits}f}}".format
    part_name = HEAD_SUFFIX.sub("", grid.title)
    heads = [panel for panel in panels_beside if HEAD_SUFFIX.sub("", panel.title) == part_name]
    return _value_format(grid, digits, heads or [grid])


def _value_format(grid: Grid, digits: int, heads: Sequence[Grid]) -> NumberFormat:
    """Return the function that writes numbers that are no shares: whole, with decimals, or with
    powers of ten, whichever suits all `heads` of one part.
    """
    reach, largest = grid.cells.reach, max(head.cells.reach for head in heads)
    has_decimals = grid.decimals is not None
    by_hand = grid.columns.has_named_dimensions  # numbers written by hand are whole
    if (has_decimals or by_hand) and all(
        head.values.size and _are_whole_numbers(head.values) for head in heads
    ):
        return lambda value: fixed_text(value, 0)
    if 0 < largest < (smallest_fixed_value(digits) if has_decimals else TINY_VALUES_BELOW):
        return lambda value: power_text(value, max(digits - 1, 0))
    # One decimal less for numbers from 100 on, none from 1000 on, unless decimals are given.
    reach = reach if reach < POWERS_OF_TEN_FROM else ordinary_reach(grid)
    decimals = digits if has_decimals else max(0, digits - max(0, len(str(int(reach))) - 2))
    if not has_decimals and 0 < largest < SMALL_VALUES_BELOW:  # as many digits, behind the zeros
        decimals = digits + (1 if largest >= SMALL_VALUES_BELOW / 10 else 2)
    return lambda value: (
        power_text(value, digits)
        if abs(value) >= POWERS_OF_TEN_FROM
        else fixed_text(value, decimals)
    )


def ordinary_reach(grid: Grid) -> float:
    """Return the largest absolute value below POWERS_OF_TEN_FROM, 0 if there is none; a mask may
    add -1e9 to scores.
    """
    distances = np.abs(grid.values.astype(float))
    return float(distances[distances < POWERS_OF_TEN_FROM].max(initial=0))


def _are_whole_numbers(values: CellValues) -> bool:
    """Return whether every finite number is whole and below MAX_WHOLE_NUMBER."""
    exact = values.astype(float)  # float16 cannot represent MAX_WHOLE_NUMBER
    finite = exact[np.isfinite(exact)]
    is_small = np.abs(finite).max(initial=0) < MAX_WHOLE_NUMBER
    return bool((finite == finite.round()).all() and is_small)
