"""Curves as lines in a box: places of points, and numbers along the sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib import ticker

from attnviz.renderers.picture.items import Chart, Trail
from attnviz.renderers.picture.panel_labels import LABELS_GAP, Ticks
from attnviz.renderers.picture.text import POINT, text_width
from attnviz.views.grids.grid import AxisSpan, Curves, horizontal_span, vertical_span
from attnviz.wording.numbers import typeset

NUMBERS_GAP = 1.0  # from a chart to the numbers below it, which stand clear of those on its left
NUMBER_PITCH = 1.3  # from one number to the next, in letters
CHART_STEPS = 1000  # of a side, between which numbers are placed
X_VALUE_SHARES = (1.0, 0.85, 0.7)  # of the letters of labels, if more x values then have room
ROUND_STEPS = (1, 2, 2.5, 5, 10)  # steps from one number to the next, times a power of ten
MAX_MARKED_X_VALUES = 24  # places: more are a line without a mark at each
LARGEST_IN_FULL = 1e9  # of whole x values
MAX_POWERS = 6  # of ten, beside a logarithmic scale


def curves_chart(curves: Curves, box: tuple[float, float, float, float]) -> Chart:
    """Return the curves as lines in `box`, with each point as a share (0 to 1) of its two sides.

    Only points that are reached already are drawn; lines that are not dashed have a mark at each
    point, unless the curves have more than 24 of them.
    """
    x_span, y_span = horizontal_span(curves), vertical_span(curves)
    reached = slice(curves.reached_count)
    x = x_span.share(np.array(curves.x_values[reached]))
    trails = []
    for number, line in enumerate(curves.lines):
        bounds = (line.low, line.middle, line.high)
        low, middle, high = (y_span.share(values[reached]) for values in bounds)
        marked = not line.dashed and len(curves.x_values) <= MAX_MARKED_X_VALUES
        trails.append(Trail(number, x, replace(line, low=low, middle=middle, high=high), marked))
    return Chart(box, tuple(trails))


def chart_ticks(
    curves: Curves,
    width: float,
    height: float,
    size: float,
    x_value_shares: Sequence[float] = (1.0,),
) -> tuple[Ticks, Ticks]:
    """Return the numbers on the left of a chart and those below it, in letters of `size` points.

    Round numbers stand on the left; below stand those x values (or x ticks) that have room.
    Positions are counted in thousandths of each side. The x values may be in smaller letters
    (`x_value_shares`) in which more have room.
    """
    x_span, y_span = horizontal_span(curves), vertical_span(curves)
    round_numbers = _round_numbers(y_span, whole=curves.counts)
    rows = _spaced_numbers(round_numbers, y_span, height / (NUMBER_PITCH * size * POINT))
    names = tuple(typeset(f"{number:g}") for number in rows)
    places = tuple(CHART_STEPS - 1 - _chart_position(y_span, number) for number in rows)
    extent = max(text_width(name, size) for name in names) + LABELS_GAP * size * POINT
    left = Ticks("", CHART_STEPS, places, names, size, extent=extent)
    x_values = curves.x_ticks or curves.x_values
    sizes = [size * share for share in x_value_shares]
    spaced = [_spaced_values(x_values, x_span, width, each) for each in sizes]
    values = max(spaced, key=len)  # the first of several, in the largest letters
    values_size = sizes[spaced.index(values)]
    places = tuple(_chart_position(x_span, value) for value in values)
    below = Ticks(
        curves.x_title, CHART_STEPS, places, tuple(map(x_value_text, values)), values_size
    )
    extent = (1.2 + NUMBERS_GAP) * size * POINT
    return left, replace(below, extent=extent, gap=NUMBERS_GAP)


def _round_numbers(span: AxisSpan, *, whole: bool) -> list[float]:
    """Return a few round numbers inside a span, with `whole` only whole ones; on a logarithmic
    scale, powers of ten or 1, 2, 5 times one.
    """
    locator: ticker.Locator = ticker.MaxNLocator(nbins=4, steps=ROUND_STEPS, integer=whole)
    if span.logarithmic:
        factors = (1, 2, 5) if span.high / span.low < 1000 else (1,)
        locator = ticker.LogLocator(subs=factors, numticks=MAX_POWERS)
    numbers = locator.tick_values(span.low, span.high)
    return [number for number in numbers if span.low <= number <= span.high]


def _spaced_values(
    values: Sequence[float], span: AxisSpan, width: float, size: float
) -> list[float]:
    """Return, sorted, the x values whose numbers do not overlap on a side of `width` inches.

    The last value is kept first, then the others from the first one on.
    """
    chosen: list[float] = []
    for value in (*values[-1:], *values[:-1]):
        if all(_can_both_fit(value, other, span, width, size) for other in chosen):
            chosen.append(value)
    return sorted(chosen)


def x_value_text(value: float) -> str:
    """Return what stands below a chart at an x value: a whole one in full.

    >>> x_value_text(1e6), x_value_text(0.25), x_value_text(1e12)
    ('1,000,000', '0.25', '1e+12')
    """
    in_full = value.is_integer() and abs(value) < LARGEST_IN_FULL
    return f"{value:,.0f}" if in_full else f"{value:g}"


def _can_both_fit(one: float, other: float, span: AxisSpan, width: float, size: float) -> bool:
    """Return whether two x values can both be written below a side of `width` inches."""
    first, second = (float(span.share(np.array(value))) * width for value in (one, other))
    half = (text_width(x_value_text(one), size) + text_width(x_value_text(other), size)) / 2
    return abs(first - second) >= half + 0.4 * size * POINT


def _spaced_numbers(numbers: Sequence[float], span: AxisSpan, lines: float) -> list[float]:
    """Return, sorted, the numbers that do not overlap where `lines` lines of text have room.

    Numbers that are 0 or a power of ten are kept first, and larger before smaller ones.
    """
    chosen: list[float] = []
    for number in sorted(numbers, key=lambda other: (_is_no_power_of_ten(other), -other)):
        share = float(span.share(np.array(number)))
        if all(abs(float(span.share(np.array(other))) - share) * lines >= 1 for other in chosen):
            chosen.append(number)
    return sorted(chosen)


def _is_no_power_of_ten(number: float) -> bool:
    return number != 0 and not math.log10(abs(number)).is_integer()


def _chart_position(span: AxisSpan, number: float) -> int:
    """Return the position of a number along a side, in thousandths from 0 on."""
    return round(float(span.share(np.array(number))) * CHART_STEPS - 0.5)
