"""Charts of a page as SVG: curves, and two vectors as arrows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.renderers.colors import DEFAULT_THEME, theme
from attnviz.renderers.page.tags import NONE, Markup, tag, together
from attnviz.renderers.spans import Span, side_across, side_along
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import Curve, Curves
from attnviz.views.grids.section import Plane

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


WIDTH, HEIGHT, EDGE = 320, 200, 16
HEAD = 9.0  # how long the head of an arrow is
ARROWS_APART = 6.0  # between two arrows on one line
LINE = 18.0  # from one line of words to the next


def arrows(plane: Plane) -> Markup:
    """Both of them, with their names and lengths, and the angle between them."""
    tips = plane.tips
    low, high = min(0.0, tips[1][0]), max(tip[0] for tip in tips)
    top = max(tip[1] for tip in tips)
    wide = (WIDTH - 2 * EDGE) / ((high - low) or 1)
    unit = min(wide, (HEIGHT - 2 * EDGE) / top) if top else wide
    start = EDGE - low * unit, max(HEIGHT / 4, top * unit + EDGE)
    lines = [_arrow(series, tip, start, unit, plane) for series, tip in enumerate(tips)]
    said = [f"{each.name}: length {each.written}" for each in plane.arrows]
    words = [*said, f"angle {plane.angle}" if plane.angle else ""]
    rows = [_words(words, place, start[1]) for place in range(len(words))]
    high_in_all = start[1] + LINE * (len(rows) + 1)
    return tag(
        "svg",
        *lines,
        *rows,
        viewBox=f"0 0 {WIDTH} {high_in_all:.0f}",
        width=WIDTH,
        role="img",
        aria_label=", ".join(part for part in (plane.title, *words) if part),
    )


def _arrow(
    series: int, tip: tuple[float, float], start: tuple[float, float], unit: float, plane: Plane
) -> Markup:
    """A line with a head; on one line the second stands a little above the first."""
    x, y = start[0], start[1] - (ARROWS_APART if series and plane.on_a_line else 0)
    across, up = tip[0] * unit, tip[1] * unit
    turn = math.atan2(up, across)
    ends = [(x + across - HEAD * math.cos(turn + way), y - up + HEAD * math.sin(turn + way))
            for way in (0.4, -0.4)]  # fmt: skip
    head = "".join(f"M{x + across:.1f} {y - up:.1f}L{a:.1f} {b:.1f}" for a, b in ends)
    drawn = f"M{x:.1f} {y:.1f}L{x + across:.1f} {y - up:.1f}{head if any(tip) else ''}"
    return tag("path", d=drawn, class_=f"arrow line-{series}")


def _words(words: list[str], place: int, below: float) -> Markup:
    kind = f"word-{place}" if place < 2 else None
    return tag("text", words[place], x=EDGE, y=f"{below + LINE * (place + 1.2):.0f}", class_=kind)
