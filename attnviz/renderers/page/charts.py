"""Charts of a page as SVG: curves, and two vectors as arrows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.renderers.colors import DEFAULT_THEME, find_theme
from attnviz.renderers.page.tags import NO_MARKUP, Markup, join_markup, tag
from attnviz.views.grids.description import describe
from attnviz.views.grids.grid import AxisSpan, Curve, Curves, horizontal_span, vertical_span
from attnviz.views.grids.section import Plane

DRAWING_WIDTH, DRAWING_HEIGHT = 480, 250
BOX_LEFT, BOX_TOP, BOX_RIGHT, BOX_BOTTOM = 48, 10, 468, 206
ROUND_NUMBER_COUNT = 5  # along the left side, about
MAX_POWERS = 6
MIN_LABEL_DISTANCE = 44  # between short numbers below the box
SERIES_COLOR_COUNT = len(find_theme(DEFAULT_THEME).series)
MAX_MARKED_POINTS = 24  # a line of more points has no marks
ARROWS_WIDTH, ARROWS_HEIGHT, ARROWS_MARGIN = 320, 200, 16
ARROW_HEAD_LENGTH = 9.0
ARROW_DISTANCE = 6.0  # between two arrows in one direction
WORD_LINE_HEIGHT = 18.0
MAX_NAMED_ENDS, MAX_END_LETTERS = 8, 18  # names that have room beside the ends of the lines
NAME_DISTANCE, LETTER_WIDTH = 21.0, 9.5  # of the letters of a narrow page
LEADER_WIDTH = 16  # from the end of a line to its name


def chart_markup(curves: Curves) -> Markup:
    """Return a figure of curves: title, names of the lines, and a box with axes and lines.

    A few short names stand at the ends of their lines, others in a legend.
    """
    across, along = horizontal_span(curves), vertical_span(curves)
    lines = list(enumerate(curves.lines))
    names_at_ends = list(_names_at_ends(curves, across, along))
    longest = max((len(line.name) for line in curves.lines), default=0)
    names_width = round(LEADER_WIDTH + longest * LETTER_WIDTH) if names_at_ends else 0
    drawing = tag(
        "svg",
        *_left_axis(along),
        *_bottom_axis(curves, across),
        *(_band_markup(curves, line, number, across, along) for number, line in lines),
        *(_line_markup(curves, line, number, across, along) for number, line in lines),
        *names_at_ends,
        viewBox=f"0 0 {DRAWING_WIDTH + names_width} {DRAWING_HEIGHT}",
        role="img",
        aria_label=describe([curves]),
    )
    if names_at_ends:
        return join_markup([tag("figcaption", curves.title), drawing])
    names = [_legend_item(line, number) for number, line in lines]
    legend = tag("ul", *names, class_="legend")
    return join_markup([tag("figcaption", curves.title), legend, drawing])


def _legend_item(line: Curve, number: int) -> Markup:
    """Return a line's name beside a short piece of it, as an item of the legend.

    `number`: its index among the lines, for its colour.
    """
    piece = tag("path", d="M1 6H23", class_=_line_class(line, number))
    swatch = tag("svg", piece, viewBox="0 0 24 12", class_="swatch", aria_hidden="true")
    return tag("li", swatch, line.name)


def _names_at_ends(curves: Curves, across: AxisSpan, along: AxisSpan) -> Iterator[Markup]:
    """Yield the name of each line beside its end, with a leader in its colour; nothing where a
    line is alone, does not reach the right end, or has no room for its name.
    """
    lines = curves.lines
    ends = np.array([line.middle[-1] for line in lines])
    fits = all(len(line.name) <= MAX_END_LETTERS for line in lines)
    is_whole = curves.reached_count in (None, len(curves.x_values)) and np.isfinite(ends).all()
    if not (1 < len(lines) <= MAX_NAMED_ENDS and fits and is_whole):
        return
    (x,) = _x_coordinates(across, np.array(curves.x_values[-1:]))
    heights = _y_coordinates(along, ends)
    for number, (line, y, name_y) in enumerate(zip(lines, heights, spaced(heights), strict=True)):
        leader = f"M{x:.1f} {y:.1f}L{BOX_RIGHT + LEADER_WIDTH - 4} {name_y:.1f}"
        yield tag("path", d=leader, class_=f"{_line_class(line, number)} leader")
        yield tag("text", line.name, x=BOX_RIGHT + LEADER_WIDTH, y=f"{name_y + 4:.1f}")


def spaced(heights: Sequence[float]) -> list[float]:
    """Return the heights of names, in the box and NAME_DISTANCE apart at least, near these.

    >>> spaced([100.0, 200.0, 205.0])
    [100.0, 185.0, 206.0]
    """
    order = np.argsort(heights, kind="stable")
    steps = np.arange(len(heights)) * NAME_DISTANCE
    lowest = BOX_BOTTOM - steps[::-1]
    downwards = np.maximum.accumulate(np.sort(heights) - steps) + steps
    placed = np.empty(len(heights))
    placed[order] = np.minimum(downwards, lowest)
    return placed.tolist()  # type: ignore[no-any-return]


def _line_class(line: Curve, number: int) -> str:
    color = "line plain" if line.plain else f"line line-{number % SERIES_COLOR_COUNT}"
    return f"{color} dashed" if line.dashed else color


def _x_coordinates(span: AxisSpan, x_values: np.ndarray) -> list[float]:
    """Return where x values stand in the drawing, from the left edge, in its units."""
    return (BOX_LEFT + span.share(x_values) * (BOX_RIGHT - BOX_LEFT)).tolist()  # type: ignore[no-any-return]


def _y_coordinates(span: AxisSpan, values: np.ndarray) -> list[float]:
    """Return where y values stand in the drawing, from the top edge, in its units."""
    return (BOX_BOTTOM - span.share(values) * (BOX_BOTTOM - BOX_TOP)).tolist()  # type: ignore[no-any-return]


def _line_pieces(
    curves: Curves, values: np.ndarray, across: AxisSpan, along: AxisSpan
) -> list[list[str]]:
    """Return the points of a line, as 'x y' texts, in pieces between missing numbers.

    `across`, `along`: the ranges of the x and the y axis. Points not yet reached are left out.
    """
    x_coordinates = _x_coordinates(across, np.array(curves.x_values[: curves.reached_count]))
    y_coordinates = _y_coordinates(along, values[: curves.reached_count])
    pieces: list[list[str]] = [[]]
    for x, y in zip(x_coordinates, y_coordinates, strict=True):
        if math.isnan(y):
            pieces.append([])
        else:
            pieces[-1].append(f"{x:.1f} {y:.1f}")
    return [piece for piece in pieces if piece]


def _line_markup(
    curves: Curves, line: Curve, number: int, across: AxisSpan, along: AxisSpan
) -> Markup:
    """Return a line as a path; a line of few points, unless dashed, has a dot at each.

    `number`: its index among the lines, for its colour. `across`, `along`: the ranges of both axes.
    """
    pieces = _line_pieces(curves, line.middle, across, along)
    line_class = _line_class(line, number)
    path = tag("path", d="".join(f"M{'L'.join(piece)}" for piece in pieces), class_=line_class)
    if line.dashed or len(curves.x_values) > MAX_MARKED_POINTS:
        return path
    points = [point.split() for piece in pieces for point in piece]
    dots = [tag("circle", cx=x, cy=y, r=3, class_=line_class) for x, y in points]
    return join_markup([path, *dots])


def _band_markup(
    curves: Curves, line: Curve, number: int, across: AxisSpan, along: AxisSpan
) -> Markup:
    """Return the area between a line's low and high values; nothing if they are equal.

    `number`: its index among the lines, for its colour. `across`, `along`: the ranges of both axes.
    """
    if np.array_equal(line.low, line.high, equal_nan=True):
        return NO_MARKUP
    lows, highs = (_line_pieces(curves, end, across, along) for end in (line.low, line.high))
    pieces = zip(lows, highs, strict=False)
    areas = "".join(f"M{'L'.join([*low, *high[::-1]])}Z" for low, high in pieces)
    return tag("path", d=areas, class_=f"band {_line_class(line, number)}")


def _left_axis(along: AxisSpan) -> Iterator[Markup]:
    """Yield a rule and a number for each round number of the y axis."""
    for number in round_numbers(along):
        (y,) = _y_coordinates(along, np.array([number]))
        yield tag("path", d=f"M{BOX_LEFT} {y:.1f}H{BOX_RIGHT}", class_="rule")
        yield tag("text", f"{number:g}", x=BOX_LEFT - 7, y=f"{y + 4:.1f}", class_="left")


def _bottom_axis(curves: Curves, across: AxisSpan) -> Iterator[Markup]:
    """Yield the x values that have room below the box, and the title of the x axis."""
    x_values = list(curves.x_ticks or curves.x_values)
    for x_value, x in _spaced_labels(x_values, _x_coordinates(across, np.array(x_values))):
        yield tag("text", f"{x_value:g}", x=f"{x:.1f}", y=BOX_BOTTOM + 18, class_="below")
    middle = (BOX_LEFT + BOX_RIGHT) / 2
    yield tag("text", curves.x_title, x=f"{middle:g}", y=DRAWING_HEIGHT - 6, class_="below")


def _spaced_labels(x_values: Sequence[float], x: Sequence[float]) -> list[tuple[float, float]]:
    """Return (x value, coordinate) labels that have room: the last, the first, then others.

    They come back in ascending order.
    """
    labels: list[tuple[float, float]] = []
    longest = max((len(f"{x_value:g}") for x_value in x_values), default=0)
    distance = max(MIN_LABEL_DISTANCE, (longest + 1) * LETTER_WIDTH)
    pairs = list(zip(x_values, x, strict=True))
    for pair in (*pairs[-1:], *pairs[:-1]):
        if all(abs(pair[1] - other) >= distance for _, other in labels):
            labels.append(pair)
    return sorted(labels)


def round_numbers(span: AxisSpan) -> list[float]:
    """Return a few round numbers in the range of an axis; powers of ten on a logarithmic one.

    >>> [round_numbers(AxisSpan(*ends)) for ends in ((0.0, 1.08, False), (0.5, 300.0, True))]
    [[0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 10.0, 100.0]]
    """
    if span.logarithmic:
        return _round_powers(span)
    rough_step = (span.high - span.low) / ROUND_NUMBER_COUNT
    power = 10.0 ** math.floor(math.log10(rough_step))
    steps = (power * factor for factor in (1, 2, 2.5, 5, 10))
    step = next(step for step in steps if step >= rough_step * (1 - 1e-9))
    first, last = math.ceil(span.low / step), math.floor(span.high / step)
    return [float(f"{step * multiple:.12g}") for multiple in range(first, last + 1)]


def _round_powers(span: AxisSpan) -> list[float]:
    """Return powers of ten in the range, with 2 and 5 between them if there are hardly any."""
    ends = math.floor(math.log10(span.low)), math.ceil(math.log10(span.high))
    step = max(1, math.ceil((ends[1] - ends[0]) / MAX_POWERS))
    factors = (1, 2, 5) if span.high / span.low < 100 else (1,)
    numbers = [factor * 10.0**power for power in range(*ends, step) for factor in factors]
    return [number for number in numbers if span.low <= number <= span.high]


def arrows_markup(plane: Plane) -> Markup:
    """Return a drawing of two vectors as arrows, with names, lengths and the angle between them."""
    tips, (low, _, lowest, top) = plane.tips, plane.extent
    unit = plane.unit_in(ARROWS_WIDTH - 2 * ARROWS_MARGIN, ARROWS_HEIGHT - 2 * ARROWS_MARGIN)
    start = ARROWS_MARGIN - low * unit, max(ARROWS_HEIGHT / 4, top * unit + ARROWS_MARGIN)
    foot = start[1] - lowest * unit
    lines = [_arrow_markup(series, tip, start, unit, plane) for series, tip in enumerate(tips)]
    length_captions = [f"{arrow.name}: length {arrow.length_text}" for arrow in plane.arrows]
    angle = f"angle {plane.angle}, projection {plane.projection}" if plane.angle else ""
    words = [*length_captions, angle]
    rows = [_arrow_caption(words, number, foot) for number in range(len(words))]
    total_height = foot + WORD_LINE_HEIGHT * (len(rows) + 1)
    return tag(
        "svg",
        *lines,
        *rows,
        viewBox=f"0 0 {ARROWS_WIDTH} {total_height:.0f}",
        width=ARROWS_WIDTH,
        role="img",
        aria_label=", ".join(part for part in (plane.title, *words) if part),
    )


def _arrow_markup(
    series: int, tip: tuple[float, float], start: tuple[float, float], unit: float, plane: Plane
) -> Markup:
    """Return one arrow; of two in one direction the second is a little higher.

    `series`: 0 or 1, its colour. `unit`: drawing units for a length of 1.
    """
    x, y = start[0], start[1] - (ARROW_DISTANCE if series and plane.on_a_line else 0)
    across, up = tip[0] * unit, tip[1] * unit
    turn = math.atan2(up, across)
    head = ""
    for angle in (turn + 0.4, turn - 0.4):
        end_x = x + across - ARROW_HEAD_LENGTH * math.cos(angle)
        end_y = y - up + ARROW_HEAD_LENGTH * math.sin(angle)
        head += f"M{x + across:.1f} {y - up:.1f}L{end_x:.1f} {end_y:.1f}"
    path = f"M{x:.1f} {y:.1f}L{x + across:.1f} {y - up:.1f}{head if any(tip) else ''}"
    return tag("path", d=path, class_=f"arrow line-{series}")


def _arrow_caption(words: list[str], number: int, top: float) -> Markup:
    """Return line `number` of the words below the arrows, in the arrow's colour if it has one."""
    class_name = f"word-{number}" if number < 2 else None
    return tag(
        "text",
        words[number],
        x=ARROWS_MARGIN,
        y=f"{top + WORD_LINE_HEIGHT * (number + 1.2):.0f}",
        class_=class_name,
    )
