"""Curves as lines in a box: where each point lies, and which numbers stand along the sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib import ticker

from attnviz.renderers.picture.items import Chart, Trail
from attnviz.renderers.picture.panel_labels import BESIDE_LABELS, Ticks
from attnviz.renderers.picture.text import POINT, text_width, typeset
from attnviz.views.grids.grid import AxisSpan, Curves, horizontal_span, vertical_span

NUMBERS_BELOW = 1.0  # from a chart to the numbers below it, which stand clear of those on its left
NUMBER_PITCH = 1.3  # from one number to the next, in letters
CHART_STEPS = 1000  # of a side, between which numbers are placed
ROUND_STEPS = (1, 2, 2.5, 5, 10)  # steps from one number to the next, times a power of ten
MAX_MARKED_PLACES = 24  # places: more are a line without a mark at each
MAX_POWERS = 6  # of ten, beside a logarithmic scale


def curves_chart(curves: Curves, box: tuple[float, float, float, float]) -> Chart:
    """Return the curves as lines in `box`, with each point as a share (0 to 1) of its two sides.

    Only points that are reached already are drawn; lines that are not dashed have a mark at each
    point, unless the curves have more than 24 of them.
    """
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
        marked = not line.dashed and len(curves.x_values) <= MAX_MARKED_PLACES
        trails.append(Trail(number, x, low, middle, high, line.dashed, line.plain, marked))
    return Chart(box, tuple(trails))


def chart_ticks(curves: Curves, width: float, height: float, size: float) -> tuple[Ticks, Ticks]:
    """Return the numbers on the left of a chart and those below it, in letters of `size` points.

    Round numbers stand on the left; below stand those x values (or x ticks) that have room.
    Positions are counted in thousandths of each side.
    """
    across, along = horizontal_span(curves), vertical_span(curves)
    rows = _numbers_apart(_round_numbers_in(along), along, height / (NUMBER_PITCH * size * POINT))
    names = tuple(typeset(f"{number:g}") for number in rows)
    beside = BESIDE_LABELS * size * POINT
    reach = max(text_width(name, size) for name in names) + beside
    left = Ticks(
        "",
        CHART_STEPS,
        tuple(CHART_STEPS - 1 - _chart_step(along, number) for number in rows),
        names,
        size,
        0,
        reach,
    )
    places = _places_with_room(curves.x_ticks or curves.x_values, across, width, size)
    below = Ticks(
        curves.x_title,
        CHART_STEPS,
        tuple(_chart_step(across, place) for place in places),
        tuple(f"{place:g}" for place in places),
        size,
        0,
        (1.2 + NUMBERS_BELOW) * size * POINT,
        NUMBERS_BELOW,
    )
    return left, below


def _round_numbers_in(span: AxisSpan) -> list[float]:
    """Return a few round numbers inside a span; on a logarithmic scale, powers of ten or 1, 2, 5
    times one.
    """
    locator: ticker.Locator = ticker.MaxNLocator(nbins=4, steps=ROUND_STEPS)
    if span.logarithmic:
        within = (1, 2, 5) if span.high / span.low < 1000 else (1,)
        locator = ticker.LogLocator(subs=within, numticks=MAX_POWERS)
    numbers = locator.tick_values(span.low, span.high)
    return [number for number in numbers if span.low <= number <= span.high]


def _places_with_room(
    places: Sequence[float], span: AxisSpan, width: float, size: float
) -> list[float]:
    """Return, sorted, the x values whose numbers do not overlap on a side of `width` inches.

    The last value is kept first, then the others from the first one on.
    """
    chosen: list[float] = []
    for place in (*places[-1:], *places[:-1]):
        if all(_stand_apart(place, other, span, width, size) for other in chosen):
            chosen.append(place)
    return sorted(chosen)


def _stand_apart(one: float, other: float, span: AxisSpan, width: float, size: float) -> bool:
    """Return whether two x values can both be written below a side of `width` inches."""
    first, second = (float(span.share(np.array(each))) * width for each in (one, other))
    half = (text_width(f"{one:g}", size) + text_width(f"{other:g}", size)) / 2
    return abs(first - second) >= half + 0.4 * size * POINT


def _numbers_apart(numbers: Sequence[float], span: AxisSpan, most: float) -> list[float]:
    """Return, sorted, the numbers that do not overlap where `most` lines of text have room.

    Numbers that are 0 or a power of ten are kept first, and larger before smaller ones.
    """
    chosen: list[float] = []
    for number in sorted(numbers, key=lambda each: (_is_odd_number(each), -each)):
        place = float(span.share(np.array(number)))
        if all(abs(float(span.share(np.array(each))) - place) * most >= 1 for each in chosen):
            chosen.append(number)
    return sorted(chosen)


def _is_odd_number(number: float) -> bool:
    """Return whether a number is neither 0 nor plus or minus a power of ten."""
    return number != 0 and not math.log10(abs(number)).is_integer()


def _chart_step(span: AxisSpan, number: float) -> int:
    """Return the position of a number along a side, in thousandths from 0 on."""
    return round(float(span.share(np.array(number))) * CHART_STEPS - 0.5)
