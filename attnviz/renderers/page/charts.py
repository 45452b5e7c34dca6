"""Curves as SVG in a page: lines and bands in the colours of its themes, letters that are text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.renderers.colors import DEFAULT_THEME, theme
from attnviz.renderers.page.tags import NONE, Markup, tag, together
from attnviz.renderers.spans import Span, side_across, side_along
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import Curve, Curves

WIDE, HIGH = 480, 250  # of a drawing,
LEFT, TOP, RIGHT, BOTTOM = 48, 10, 468, 206  # and of the box in it
MOST_NUMBERS = 5  # along the left side, about
MOST_POWERS = 6
APART = 44  # from one number below the box to the next, at least
SERIES = len(theme(DEFAULT_THEME).series)  # colours of lines
MARKED = 24  # places: more are a line without a mark at each


def chart(curves: Curves) -> Markup:
    """A box with its lines; their names stand above it, its title at the top."""
    across, along = side_across(curves), side_along(curves)
    drawing = tag(
        "svg",
        *_left(along),
        *_below(curves, across),
        *(_band(curves, line, number, across, along) for number, line in enumerate(curves.lines)),
        *(_line(curves, line, number, across, along) for number, line in enumerate(curves.lines)),
        viewBox=f"0 0 {WIDE} {HIGH}",
        role="img",
        aria_label=describe([curves]),
    )
    names = [_name(line, number) for number, line in enumerate(curves.lines)]
    legend = tag("ul", *names, class_="legend")
    return together([tag("figcaption", curves.title), legend, drawing])


def _name(line: Curve, number: int) -> Markup:
    """The name of a line beside a piece of it."""
    piece = tag("path", d="M1 6H23", class_=_class(line, number))
    swatch = tag("svg", piece, viewBox="0 0 24 12", class_="swatch", aria_hidden="true")
    return tag("li", swatch, line.name)


def _class(line: Curve, number: int) -> str:
    color = "line plain" if line.plain else f"line line-{number % SERIES}"
    return f"{color} dashed" if line.dashed else color


def _x(span: Span, places: np.ndarray) -> list[float]:
    return (LEFT + span.share(places) * (RIGHT - LEFT)).tolist()  # type: ignore[no-any-return]


def _y(span: Span, values: np.ndarray) -> list[float]:
    return (BOTTOM - span.share(values) * (BOTTOM - TOP)).tolist()  # type: ignore[no-any-return]


def _points(curves: Curves, values: np.ndarray, across: Span, along: Span) -> list[list[str]]:
    """The points of a line, in pieces: where a number is missing there is a gap."""
    reached = slice(curves.until)
    pairs = zip(
        _x(across, np.array(curves.places[reached])), _y(along, values[reached]), strict=True
    )
    pieces: list[list[str]] = [[]]
    for x, y in pairs:
        if math.isnan(y):
            pieces.append([])
        else:
            pieces[-1].append(f"{x:.1f} {y:.1f}")
    return [each for each in pieces if each]


def _line(curves: Curves, line: Curve, number: int, across: Span, along: Span) -> Markup:
    pieces = _points(curves, line.middle, across, along)
    drawn = tag("path", d="".join(f"M{'L'.join(each)}" for each in pieces),
                class_=_class(line, number))  # fmt: skip
    if line.dashed or len(curves.places) > MARKED:
        return drawn
    ends = [point.split() for each in pieces for point in each]
    dots = [tag("circle", cx=x, cy=y, r=3, class_=_class(line, number)) for x, y in ends]
    return together([drawn, *dots])


def _band(curves: Curves, line: Curve, number: int, across: Span, along: Span) -> Markup:
    """What lies between the low and the high end of a line, where these are apart."""
    if np.array_equal(line.low, line.high, equal_nan=True):
        return NONE
    pieces = zip(
        _points(curves, line.low, across, along),
        _points(curves, line.high, across, along),
        strict=False,
    )
    areas = "".join(f"M{'L'.join([*low, *high[::-1]])}Z" for low, high in pieces)
    return tag("path", d=areas, class_=f"band {_class(line, number)}")


def _left(along: Span) -> Iterator[Markup]:
    for number in round_numbers(along):
        (y,) = _y(along, np.array([number]))
        yield tag("path", d=f"M{LEFT} {y:.1f}H{RIGHT}", class_="rule")
        yield tag("text", f"{number:g}", x=LEFT - 7, y=f"{y + 4:.1f}", class_="left")


def _below(curves: Curves, across: Span) -> Iterator[Markup]:
    """Places that were measured, while their numbers stand apart; and what they count."""
    places = list(curves.named or curves.places)
    for place, x in _with_room(places, _x(across, np.array(places))):
        yield tag("text", f"{place:g}", x=f"{x:.1f}", y=BOTTOM + 18, class_="below")
    middle = (LEFT + RIGHT) / 2
    yield tag("text", curves.across, x=f"{middle:g}", y=HIGH - 6, class_="below")


def _with_room(places: Sequence[float], x: Sequence[float]) -> list[tuple[float, float]]:
    """The last place and the first, and then all others that have room beside these."""
    chosen: list[tuple[float, float]] = []
    pairs = list(zip(places, x, strict=True))
    for pair in (*pairs[-1:], *pairs[:-1]):
        if all(abs(pair[1] - other) >= APART for _, other in chosen):
            chosen.append(pair)
    return sorted(chosen)


def round_numbers(span: Span) -> list[float]:
    """A few round numbers inside a span.

    >>> round_numbers(Span(0.0, 1.08, False)), round_numbers(Span(0.5, 300.0, True))
    ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 10.0, 100.0])
    """
    if span.logarithmic:
        return _powers(span)
    rough = (span.high - span.low) / MOST_NUMBERS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * (1 - 1e-9))
    first, last = math.ceil(span.low / step), math.floor(span.high / step)
    return [float(f"{step * place:.12g}") for place in range(first, last + 1)]


def _powers(span: Span) -> list[float]:
    """Powers of ten; between them 2 and 5, where there are hardly any."""
    ends = math.floor(math.log10(span.low)), math.ceil(math.log10(span.high))
    step = max(1, math.ceil((ends[1] - ends[0]) / MOST_POWERS))
    between = (1, 2, 5) if span.high / span.low < 100 else (1,)
    numbers = [each * 10.0**power for power in range(*ends, step) for each in between]
    return [number for number in numbers if span.low <= number <= span.high]
