"""How the numbers of a grid are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import inf, isnan

import numpy as np

from attnviz.cells import Values
from attnviz.views.grids.grid import Grid
from attnviz.wording.numbers import LARGE, fixed_text, power_text, share_text, smallest, tiny_text

LARGEST_WHOLE = 1e6
TINY_DIFFERENCE = 0.01  # shares that differ by less are written with powers of ten
OF_MEASURES = 3  # digits behind the point, of what is measured
SMALL = 0.1  # values all below are written so, too, where nobody said how many digits

HEAD = re.compile(
    r"( ·)? ((\w+ (cross )?)?heads? \d+(–\d+)?|\w*\d( cross )?H\d+)( \(off\))?$"
)  # the end of a title

MINUS_INFINITY = "−∞"

Write = Callable[[float], str]


def cell_text(value: float, hidden: bool, write: Write, sign: str = "") -> str:
    """What stands in a cell: −∞ wherever it is; else a sign of what is hidden; else the number.

    >>> [cell_text(value, hidden, str, "·") for value, hidden in ((-inf, True), (2.0, True))]
    ['−∞', '·']
    """
    if value == -inf:
        return MINUS_INFINITY
    if hidden:
        return sign
    return "" if isnan(value) else write(value)


def sign_of_hidden(grid: Grid, sign: str) -> str:
    """What is written where something is hidden: a sign, or the −∞ that became of it."""
    infinite = bool(np.isneginf(grid.values[grid.hidden]).all())
    return MINUS_INFINITY if infinite else sign


def cell_format(grid: Grid, decimals: int, beside: Sequence[Grid] = ()) -> Write:
    """How the numbers of a grid are written: `.31` for a share, `-0.31` for a value.

    `beside` are grids that it is shown with: heads of one part are written in one way.
    """
    digits = decimals if grid.decimals is None else grid.decimals
    if grid.scale.kind == "none":
        behind = OF_MEASURES if grid.decimals is None else grid.decimals
        return str if grid.values.dtype.kind in "iu" else f"{{:.{behind}f}}".format
    if grid.share and grid.scale.kind == "diverging" and grid.scale.high < TINY_DIFFERENCE:
        return tiny_text
    if grid.share:
        return share_text if digits == 2 else f"{{:.{digits}f}}".format
    heads = [each for each in beside if _part_of(each) == _part_of(grid)]
    return _format_of_values(grid, digits, heads or [grid])


def _part_of(grid: Grid) -> str:
    """What its numbers are, whichever head they are of: `scores` of `scores · head 1`."""
    return HEAD.sub("", grid.title)


def _format_of_values(grid: Grid, digits: int, heads: Sequence[Grid]) -> Write:
    reach, largest = grid.cells.reach, max(each.cells.reach for each in heads)
    asked = grid.decimals is not None
    by_hand = grid.columns.named  # what people write by hand is whole, and stays so
    if (asked or by_hand) and all(each.values.size and _whole(each.values) for each in heads):
        return lambda value: fixed_text(value, 0)
    if 0 < largest < (smallest(digits) if asked else SMALL):
        return lambda value: power_text(value, max(digits - 1, 0))
    # Fewer behind 100, none behind 1000, unless somebody said how many.
    reach = reach if reach < LARGE else ordinary_reach(grid)
    behind = digits if asked else max(0, digits - max(0, len(str(int(reach))) - 2))
    return lambda value: (
        power_text(value, digits) if abs(value) >= LARGE else fixed_text(value, behind)
    )


def ordinary_reach(grid: Grid) -> float:
    """The furthest from 0 of what is written without powers of ten; a mask may add -1e9."""
    away = np.abs(grid.values.astype(float))
    return float(away[np.isfinite(away) & (away < LARGE)].max(initial=0))


def _whole(values: Values) -> bool:
    """Whether there is nothing behind any point."""
    exact = values.astype(float)  # a million is more than float16 can be compared with
    filled = exact[np.isfinite(exact)]
    return bool((filled == filled.round()).all() and np.abs(filled).max(initial=0) < LARGEST_WHOLE)
