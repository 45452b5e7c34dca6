"""Colour bars: one for each scale, beside the panels, with its name and its ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.renderers.picture.items import Bar, Layout, Mark, Words
from attnviz.renderers.picture.lettering import POINT, Lettering, typeset
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.scales import Scale

PLACES = (0.0, 0.5, 1.0)
# In letters of the labels beside it:
BAR_WIDTH, BEFORE, BEHIND = 1.0, 1.2, 0.4  # a colour bar, and the room on either side
LOWEST, HIGHEST, NAME = 3.0, 22.0, 2.6  # of a bar; and of its name above it,
NAME_LETTERS = 0.8  # of the letters of its ends
LEADING = 1.1  # which may have several lines


def scales_of(drawn: Sequence[Grid | Curves | None]) -> tuple[Scale, ...]:
    """Each scale of colour once; where words stand in cells, their numbers stand there too."""
    grids = [each for each in drawn if isinstance(each, Grid) and not each.words]
    return tuple(dict.fromkeys(grid.scale for grid in grids if grid.scale.kind != "none"))


def bar_space(scales: Sequence[Scale], letters: Lettering) -> float:
    """The width that colour bars take, with what is written at them."""
    if not scales:
        return 0.0
    letter = letters.axis * POINT
    ends = max(text_width(text, letters.axis) for scale in scales for text in _numbers(scale))
    size = _name_size(letters)
    names = max(text_width(line, size) for each in scales for line in _name(each))
    return BEFORE * letter + max(names, (BAR_WIDTH + BEHIND) * letter + ends)


def letters_of_bars(
    placed: Layout, scales: Sequence[Scale], foot: float, letters: Lettering
) -> Lettering:
    """The same letters; smaller ones where all bars would reach below a foot of the page."""
    each = (_top(placed) - foot) / max(len(scales), 1)
    fitting = each / ((LOWEST + _name_height(scales)) * POINT)
    return replace(letters, axis=min(letters.axis, max(fitting, letters.smallest)))


def _name_height(scales: Sequence[Scale]) -> float:
    """Room above each bar, in letters: a name may have several lines."""
    return NAME + LEADING * (max((len(_name(each)) for each in scales), default=1) - 1)


def _top(placed: Layout) -> float:
    boxes = [*(panel.box for panel in placed.panels), *(chart.box for chart in placed.charts)]
    return max(bottom + height for _, bottom, _, height in boxes)


def bars_beside(
    placed: Layout, scales: Sequence[Scale], right: float, letters: Lettering
) -> Iterator[Bar]:
    """One colour bar below the other, from the top of the panels on."""
    letter = letters.axis * POINT
    boxes = [*(panel.box for panel in placed.panels), *(chart.box for chart in placed.charts)]
    top, name = _top(placed), _name_height(scales)
    lowest = (LOWEST + name) * letter
    each = max((top - min(bottom for _, bottom, _, _ in boxes)) / max(len(scales), 1), lowest)
    height = min(each - name * letter, HIGHEST * letter)
    for number, scale in enumerate(scales):
        foot = top - number * each - height - (name - NAME + 0.8) * letter
        yield Bar(scale, (right + BEFORE * letter, foot, BAR_WIDTH * letter, height))


def bar_labels(bar: Bar, letters: Lettering) -> Iterator[Words]:
    """The name of a scale above its bar, and its ends and its middle beside it."""
    left, bottom, width, height = bar.box
    letter = letters.axis * POINT
    for place, line in enumerate(reversed(_name(bar.scale))):
        y = bottom + height + (0.75 + LEADING * place) * letter
        yield Words(line, left, y, _name_size(letters))
    x = left + width + BEHIND * letter
    for share, text in zip(PLACES, _numbers(bar.scale), strict=True):
        yield Words(text, x, bottom + height * share, letters.axis, along="center_baseline")


def bar_marks(bar: Bar) -> Iterator[Mark]:
    left, bottom, width, height = bar.box
    for share in PLACES:
        y = bottom + height * share
        yield (left + width, y), (left + 1.2 * width, y)


def _name_size(letters: Lettering) -> float:
    return max(NAME_LETTERS * letters.axis, min(letters.smallest, letters.axis))


def _name(scale: Scale) -> list[str]:
    """A word a line: bars are narrow."""
    return scale.name.split()


def _numbers(scale: Scale) -> list[str]:
    """What stands at the low end, in the middle and at the high end."""
    digits = "g" if scale.bend == "straight" else ".2g"
    numbers = [f"{number:{digits}}" for number in scale.values_at(np.array(PLACES)).tolist()]
    numbers[0] = f"≤ {numbers[0]}" if scale.covers_smaller else numbers[0]
    numbers[-1] = f"≥ {numbers[-1]}" if scale.is_exceeded else numbers[-1]
    return [typeset(number) for number in numbers]
