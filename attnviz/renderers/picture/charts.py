"""Curves as lines in a box: where each point lies, and which numbers stand along the sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import ticker

from attnviz.renderers.picture.lettering import POINT, typeset
from attnviz.renderers.picture.ticks import BESIDE, Ticks, text_width
from attnviz.renderers.spans import AxisSpan, horizontal_span, vertical_span
from attnviz.views.grids.grid import Curves

BELOW = 1.0  # from a chart to the numbers below it, which stand clear of those on its left
LINE = 1.3  # from one number to the next, in letters
STEPS = 1000  # of a side, between which numbers are placed
ROUND = (1, 2, 2.5, 5, 10)  # steps from one number to the next, times a power of ten
MARKED = 24  # places: more are a line without a mark at each
MOST_POWERS = 6  # of ten, beside a logarithmic scale


@dataclass(frozen=True, eq=False)
class Trail:
    """A line in parts of its box, from 0 to 1 on either side."""

    number: int
    x: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray
    dashed: bool
    plain: bool
    marked: bool  # at each of its places


@dataclass(frozen=True, eq=False)
class Chart:
    box: tuple[float, float, float, float]
    trails: tuple[Trail, ...]


def chart(curves: Curves, box: tuple[float, float, float, float]) -> Chart:
    across, along, reached = (
        horizontal_span(curves),
        vertical_span(curves),
        slice(curves.reached_count),
    )
    x = across.share(np.array(curves.x_values[reached]))
    trails = []
    for number, line in enumerate(curves.lines):
        lines = (line.low, line.middle, line.high)
        low, middle, high = (along.share(each[reached]) for each in lines)
        marked = not line.dashed and len(curves.x_values) <= MARKED
        trails.append(Trail(number, x, low, middle, high, line.dashed, line.plain, marked))
    return Chart(box, tuple(trails))


def chart_ticks(curves: Curves, width: float, height: float, size: float) -> tuple[Ticks, Ticks]:
    """Round numbers on the left; below, places that were measured; in letters of a size."""
    across, along = horizontal_span(curves), vertical_span(curves)
    rows = _apart(_numbers(along), along, height / (LINE * size * POINT))
    names = tuple(typeset(f"{number:g}") for number in rows)
    beside = BESIDE * size * POINT
    reach = max(text_width(name, size) for name in names) + beside
    left = Ticks(
        "",
        STEPS,
        tuple(STEPS - 1 - _step(along, number) for number in rows),
        names,
        size,
        0,
        reach,
    )
    places = _with_room(curves.x_ticks or curves.x_values, across, width, size)
    below = Ticks(
        curves.x_title,
        STEPS,
        tuple(_step(across, place) for place in places),
        tuple(f"{place:g}" for place in places),
        size,
        0,
        (1.2 + BELOW) * size * POINT,
        BELOW,
    )
    return left, below


def _numbers(span: AxisSpan) -> list[float]:
    """A few round numbers inside a span."""
    locator: ticker.Locator = ticker.MaxNLocator(nbins=4, steps=ROUND)
    if span.logarithmic:
        within = (1, 2, 5) if span.high / span.low < 1000 else (1,)
        locator = ticker.LogLocator(subs=within, numticks=MOST_POWERS)
    numbers = locator.tick_values(span.low, span.high)
    return [number for number in numbers if span.low <= number <= span.high]


def _with_room(places: Sequence[float], span: AxisSpan, width: float, size: float) -> list[float]:
    """The places whose numbers do not run into each other; the last and the first before others."""
    chosen: list[float] = []
    for place in (*places[-1:], *places[:-1]):
        if all(_clear(place, other, span, width, size) for other in chosen):
            chosen.append(place)
    return sorted(chosen)


def _clear(one: float, other: float, span: AxisSpan, width: float, size: float) -> bool:
    """Whether the numbers of two places stand apart."""
    first, second = (float(span.share(np.array(each))) * width for each in (one, other))
    half = (text_width(f"{one:g}", size) + text_width(f"{other:g}", size)) / 2
    return abs(first - second) >= half + 0.4 * size * POINT


def _apart(numbers: Sequence[float], span: AxisSpan, most: float) -> list[float]:
    """Those that do not run into each other; powers of ten and every second one first."""
    chosen: list[float] = []
    for number in sorted(numbers, key=lambda each: (_odd(each), -each)):
        place = float(span.share(np.array(number)))
        if all(abs(float(span.share(np.array(each))) - place) * most >= 1 for each in chosen):
            chosen.append(number)
    return sorted(chosen)


def _odd(number: float) -> bool:
    """Whether it is neither 0 nor a power of ten."""
    return number != 0 and not math.log10(abs(number)).is_integer()


def _step(span: AxisSpan, number: float) -> int:
    return round(float(span.share(np.array(number))) * STEPS - 0.5)
