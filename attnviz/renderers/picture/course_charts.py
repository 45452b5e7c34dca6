"""Charts beside a course: all along the same steps, each under one line that names its curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnviz.renderers.picture.charts import chart, chart_ticks
from attnviz.renderers.picture.labels import labels_at, marks_at
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.placed import Box, Layout, Words, empty_layout, joined
from attnviz.renderers.picture.texts import BETWEEN_NAMES, fitted
from attnviz.renderers.picture.ticks import PanelStyle, Ticks, text_width
from attnviz.views.grids.grid import Curves

FOOT, SHORT_FOOT = 2.2, 0.5  # in letters of an axis: below a chart, with its numbers or without
HEADING = 1.9  # in letters of a label: the room for the line above a chart
RIGHT = 1.0  # and what the last number below it needs beside it


def stacked(room: Box, count: int, letters: Lettering) -> list[Box]:
    """Boxes below each other, in which charts are equally high: the last has numbers below it."""
    left, bottom, width, height = room
    more = (FOOT - SHORT_FOOT) * letters.axis * POINT
    each = (height - more) / max(count, 1)
    boxes = [(left, bottom + more + place * each, width, each) for place in range(1, count)]
    return [*reversed(boxes), *[(left, bottom, width, each + more)][:count]]


def charted(charts: Sequence[tuple[Curves, Box]], letters: Lettering) -> Layout:
    """Each in its box; where they stand below each other, the numbers below the last one alone."""
    lowest = min((box[1] for _, box in charts), default=0.0)
    left = max((_ticks(each, box, letters)[0].extent for each, box in charts), default=0.0)
    size = min((_size_of_names(*each, letters) for each in charts), default=letters.label)
    return joined([
        _charted(curves, box, (left, size), letters, numbered=box[1] == lowest)
        for curves, box in charts
    ])  # fmt: skip


def _ticks(curves: Curves, box: Box, letters: Lettering) -> tuple[Ticks, Ticks]:
    return chart_ticks(curves, box[2], max(box[3] - _around(letters), 0.1), letters.axis)


def _around(letters: Lettering) -> float:
    """What stands above a chart and below it."""
    return (HEADING * letters.label + FOOT * letters.axis) * POINT


def _charted(
    curves: Curves, box: Box, alike: tuple[float, float], letters: Lettering, *, numbered: bool
) -> Layout:
    """What all are alike in is the room beside them, and how large the names of curves are."""
    (left, bottom, width, height), (beside, size) = box, alike
    foot = (FOOT if numbered else SHORT_FOOT) * letters.axis * POINT
    wide = max(width - beside - RIGHT * letters.axis * POINT, 0.2)
    high = max(height - foot - HEADING * letters.label * POINT, 0.2)
    inner = left + beside, bottom + foot, wide, high
    rows, columns = chart_ticks(curves, wide, high, letters.axis)
    rows, columns = replace(rows, title=""), replace(columns, title="")
    shown = columns if numbered else Ticks("", 0)
    words = [
        *labels_at(rows, shown, inner, PanelStyle()),
        *_named(curves, left, inner, size, letters),
    ]
    if numbered:
        words += _side(curves.across, [word for word in words if word.across == "center"], letters)
    return replace(
        empty_layout(),
        charts=(chart(curves, inner),),
        words=tuple(words),
        marks=tuple(marks_at(rows, columns, inner)),
    )


def _size_of_names(curves: Curves, box: Box, letters: Lettering) -> float:
    """How large they are where all stand in one line."""
    unit = sum(text_width(line.name, 1.0) for line in curves.lines)
    unit += BETWEEN_NAMES * POINT * (len(curves.lines) - 1)
    room = box[2] - RIGHT * letters.axis * POINT
    return max(min(letters.label, room / max(unit, 1e-6)), letters.smallest)


def _named(
    curves: Curves, left: float, box: Box, size: float, letters: Lettering
) -> Iterator[Words]:
    """Each curve in its colour, in one line from where the numbers beside the chart begin."""
    y = box[1] + box[3] + 0.5 * letters.label * POINT
    end = box[0] + box[2]
    for number, line in enumerate(curves.lines):
        text, points = fitted(line.name, size, letters.smallest, max(end - left, 0.1))
        series = None if line.plain or line.dashed else number
        yield Words(text, left, y, points, series=series)
        left += text_width(text, points) + BETWEEN_NAMES * points * POINT


def _side(name: str, numbers: Sequence[Words], letters: Lettering) -> Iterator[Words]:
    """What the side counts, before its first number."""
    first = min(numbers, key=lambda word: word.x, default=None)
    if first is not None:
        x = first.x - text_width(first.text, first.size) / 2 - 0.6 * letters.axis * POINT
        yield Words(name, x, first.y, letters.axis, faint=True, across="right")
