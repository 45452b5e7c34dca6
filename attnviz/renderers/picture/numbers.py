"""The numbers in the cells of a panel, and how large they can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from attnviz.renderers.picture.items import SMALLEST_NUMBER, Box, Panel
from attnviz.renderers.picture.lettering import POINT, typeset
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import NumberFormat, cell_format, cell_text

NUMBER = 10.0  # points
NUMBER_SHARE = 0.8  # of the width of a cell, at most,
HEIGHT_SHARE = 0.7  # and of its height
MOST_NUMBERED = 2500  # cells: among more no number can be read
GRIDS = 512  # more than there are on a page of many heads, of which each is asked for in turn


def panel_of(
    grid: Grid, box: Box, largest: float = NUMBER, smallest: float = SMALLEST_NUMBER
) -> Panel:
    """A panel with the numbers of its cells, in letters between two sizes."""
    wide, high = box[2] / len(grid.columns), box[3] / len(grid.rows)
    fitting = 10 * wide * NUMBER_SHARE / longest_number(grid), high / POINT * HEIGHT_SHARE
    # What has no colours, or words in its cells, is nothing without them, however small.
    least = 0.0 if grid.scale.kind == "none" or grid.words else smallest
    return Panel(grid, box, _numbers(grid), min(largest, *fitting), least)


def numbered_as(panel: Panel, full: Grid, largest: float = NUMBER) -> Panel:
    """A panel whose numbers are written as if all of its cells were filled."""
    numbers = _written(panel.grid, cell_format(full, 2))
    return replace(panel, numbers=numbers, fitting=panel_of(full, panel.box, largest).fitting)


@lru_cache(maxsize=GRIDS)  # asked for again and again while panels find their places
def longest_number(grid: Grid) -> float:
    """The width of the longest number of a grid, in letters of 10 points."""
    numbers = _numbers(grid)
    texts = {*numbers.flat} if grid.words else _longest(numbers)
    widths = (text_width(text, 10) for text in texts)
    return max(widths, default=0.0) or text_width("−0.00", 10)


@lru_cache(maxsize=GRIDS)
def _numbers(grid: Grid) -> np.ndarray:
    return _written(grid, cell_format(grid, 2))


def _written(grid: Grid, write: NumberFormat) -> np.ndarray:
    """What stands in the cells, if there are few enough for it ever to fit."""
    if grid.values.size > MOST_NUMBERED:
        return np.empty((0, 0), dtype=object)
    numbers = np.empty(grid.values.shape, dtype=object)
    for place, value in np.ndenumerate(grid.values):
        number = typeset(cell_text(value.item(), bool(grid.hidden[place]), write))
        numbers[place] = grid.text_with_word(place[0], place[1], number)
    return numbers


def _longest(numbers: np.ndarray) -> Iterator[str]:
    longest = max((len(text) for text in numbers.flat), default=0)
    return (text for text in dict.fromkeys(numbers.flat) if len(text) == longest)
