"""The labels of a panel's rows and columns: which, how large, how turned, where.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered). All
lengths are inches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from attnviz.renderers.picture.items import Box, Stroke, Words
from attnviz.renderers.picture.text import (
    ASCENT,
    MIDDLE,
    POINT,
    Lettering,
    Size,
    cached_by_font,
    shorten_label,
    text_width,
    widest_line,
)
from attnviz.views.grids.axes import Axis

LABEL_POINTS, SMALLEST_LABEL_POINTS = 10.0, 5.5  # points
MAX_WORD_LABELS = 64  # tokens: among more, each label that is left has its number
WIDEST_LABEL_SHARE = 0.2  # of the width of a page
LABELS_GAP = 0.5  # between a panel and its labels, in letters
LABEL_HEIGHT_SHARE = 0.92  # of its place a label may be high
SLANTED_PITCH = 1.75  # in letters: from one slanted label to the next
AXIS_TITLE_HEIGHT = 1.35  # the room that the title of an axis takes, in its letters
THINNING_STEPS = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
MARK_LENGTH = 0.035
Span = tuple[float, float]  # the two ends of a side, the left or lower one first
MAX_KEPT_TICKS = 256  # widths of cells are tried while their height, and so its labels, stay


@dataclass(frozen=True)
class PanelStyle:
    """The style of panels: sizes of letters in points, and the shape of cells."""

    title: float = 10.0
    axis: float = 9.0
    label: float = LABEL_POINTS  # at most,
    smallest: float = SMALLEST_LABEL_POINTS  # and at least
    number: float = 10.0  # at most
    stretch: float = 1.0  # how many times as wide as high a cell may be that could be square,
    squeeze: float = 1.0  # and how many times as high as wide
    gap: float = 0.3  # inches between two panels
    widest_label: float = 10.0  # inches
    line: float = LABEL_HEIGHT_SHARE  # of its place a label may be high
    bare: bool = False  # panels have no labels

    @property
    def axis_title_height(self) -> float:
        return AXIS_TITLE_HEIGHT * self.axis * POINT


@dataclass(frozen=True)
class Ticks:
    """The labels of the rows or of the columns of a panel: their positions, texts,
    size and angle.
    """

    title: str
    count: int
    positions: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    size: float = LABEL_POINTS
    angle: int = 0
    extent: float = 0.0  # how far the labels reach away from the panel
    gap: float = LABELS_GAP  # from the panel to them, in letters

    @cached_property
    def untitled(self) -> Ticks:
        return replace(self, title="") if self.title else self


def panel_style(letters: Lettering, page: Size, stretch: float, squeeze: float) -> PanelStyle:
    """Return the style of panels on a page, with letters of these sizes and cells of this shape."""
    return PanelStyle(
        letters.title,
        letters.axis,
        letters.label,
        letters.smallest,
        letters.number,
        stretch,
        squeeze,
        gap=letters.label * POINT * 1.4,
        widest_label=page[0] * WIDEST_LABEL_SHARE,
    )


@cached_by_font(MAX_KEPT_TICKS)
def row_ticks(axis: Axis, pitch: float, style: PanelStyle) -> Ticks:
    """Return the labels of the rows of a panel, in which a row is `pitch` inches high."""
    ticks = _fitting_labels(axis, pitch, style)
    extent = widest_line((*ticks.labels, *axis.reserved_labels), ticks.size)
    return replace(ticks, extent=extent + LABELS_GAP * ticks.size * POINT)


@cached_by_font(MAX_KEPT_TICKS)
def column_ticks(axis: Axis, pitch: float, style: PanelStyle) -> Ticks:
    """Return labels for below a panel: level if they fit side by side, else slanted, else upright.

    A column is `pitch` inches wide. Labels that are no wider than high, as single letters are,
    would win nothing by being turned.
    """
    ticks = _fitting_labels(axis, pitch, style)
    positions, size = ticks.positions, ticks.size
    step = pitch * (positions[1] - positions[0] if len(positions) > 1 else 1)
    wide = widest_line(ticks.labels, size)
    gap, line = LABELS_GAP * size * POINT, size * POINT
    if wide + 0.4 * line <= step or wide <= line <= step:
        return replace(ticks, extent=1.2 * line + gap)
    if step >= line * SLANTED_PITCH:
        return replace(ticks, angle=45, extent=wide * math.sqrt(0.5) + line + gap)
    return replace(ticks, angle=90, extent=wide + gap)


def _fitting_labels(axis: Axis, pitch: float, style: PanelStyle) -> Ticks:
    """Return every label of an axis, smaller if need be; or every n-th, with its number; or the
    first and the last.

    A position has `pitch` inches. Labels wider than the style allows shrink, and then lose their
    ends.
    """
    fitting_size = pitch / POINT * style.line
    if fitting_size >= style.smallest or len(axis) == 1:
        positions, labels = range(len(axis)), _word_labels(axis)
        size = max(min(style.label, fitting_size), style.smallest)
    else:
        size = min(style.smallest * 1.2, style.label)
        step = next((n for n in THINNING_STEPS if n * fitting_size >= size), len(axis))
        counts_from_0 = axis.labels[0].endswith("0")  # L0, H0: the fifth label is no round one
        first = 0 if step == 2 or step >= len(axis) or counts_from_0 else step - 1
        names = axis.names if len(axis) > MAX_WORD_LABELS else _word_labels(axis)
        positions = range(first, len(axis), step)
        if len(positions) == 1 and (len(axis) - 1) * fitting_size >= size:
            positions = range(0, len(axis), len(axis) - 1)
        labels = tuple(shorten_label(names[position]) for position in positions)
    wide = widest_line((*labels, *axis.reserved_labels), 1.0) or 1.0
    size = max(min(size, style.widest_label / wide), style.smallest)
    if widest_line(labels, size) > style.widest_label:
        labels = tuple(_cut_label(label, size, style.widest_label) for label in labels)
    return Ticks(axis.title, len(axis), tuple(positions), labels, size)


def _cut_label(label: str, size: float, width: float) -> str:
    """Return a label, with `…` in place of its end if it is wider than `width` inches."""
    while len(label) > 2 and text_width(label, size) > width:
        label = label[: max(1, int(len(label) * 0.9) - 1)].rstrip("…") + "…"
    return label


@lru_cache(maxsize=64)  # asked for at every size of cells that is tried
def _word_labels(axis: Axis) -> tuple[str, ...]:
    """Return the words of an axis alone; with their numbers where a word stands more than once, and
    all with theirs if that is so of most.
    """
    counts = Counter(axis.labels)
    all_numbered = 2 * sum(counts[label] > 1 for label in axis.labels) > len(axis)
    return tuple(
        shorten_label(name if all_numbered or counts[label] > 1 or not label else label)
        for name, label in zip(axis.names, axis.labels, strict=True)
    )


def no_ticks(axis: Axis) -> Ticks:
    return Ticks("", len(axis))


def labels_extent(ticks: Ticks, style: PanelStyle) -> float:
    """Return the inches that labels and the title of their axis take beside a panel,
    or below it.
    """
    return ticks.extent + (style.axis_title_height if ticks.title else 0.0)


def axis_items(
    rows: Ticks, columns: Ticks, box: Box, style: PanelStyle
) -> Iterator[Words | Stroke]:
    """Yield the labels on the left of a panel and below it, and the titles of its two axes.

    If some positions have no label, a short line shows which position a label belongs to.
    """
    left, bottom, width, height = box
    x = left - LABELS_GAP * 0.7 * rows.size * POINT
    for position, label in zip(rows.positions, rows.labels, strict=True):
        y = bottom + height * (1 - (position + 0.5) / rows.count)
        yield Words(label, x, y - rows.size * POINT * MIDDLE, rows.size, halign="right")
        if len(rows.positions) < rows.count:
            yield Stroke(((left - MARK_LENGTH, y), (left, y)))
    yield from _column_labels(columns, box)
    yield from row_title(rows.title, left - rows.extent, (bottom, bottom + height), style)
    foot = bottom - columns.extent
    yield from column_title(columns.title, foot, (left, left + width), style)


def _column_labels(columns: Ticks, box: Box) -> Iterator[Words | Stroke]:
    """Yield the labels below a panel, and short lines to their columns if some have no label."""
    left, bottom, width, _ = box
    angle, size = columns.angle, columns.size
    across, along = {0: ("center", "baseline"), 45: ("right", "top"), 90: ("right", "center")}[
        angle
    ]
    line = size * POINT
    y = bottom - columns.gap * 0.7 * line - (line * ASCENT if angle == 0 else 0)
    for position, label in zip(columns.positions, columns.labels, strict=True):
        x = left + width * (position + 0.5) / columns.count
        if label:
            yield Words(label, x, y, size, angle=angle, halign=across, valign=along)
        if len(columns.positions) < columns.count:
            yield Stroke(((x, bottom - MARK_LENGTH), (x, bottom)))


def row_title(text: str, right: float, span: Span, style: PanelStyle) -> Iterator[Words]:
    """Yield the title of the rows, upright, left of `right`, in the middle of `span`.

    `span` is the lower and the upper end. The title shrinks, or loses what is in brackets, to fit;
    nothing comes if it cannot.
    """
    title, size = _fitted_axis_title(text, span[1] - span[0], style)
    if title:
        x, y = right - 0.3 * style.axis * POINT, sum(span) / 2
        yield Words(title, x, y, size, faint=True, angle=90, halign="center", valign="bottom")


def column_title(text: str, top: float, span: Span, style: PanelStyle) -> Iterator[Words]:
    """Yield the title of the columns, below `top`, in the middle of `span`.

    `span` is the left and the right end. The title shrinks, or loses what is in brackets, to fit;
    nothing comes if it cannot.
    """
    title, size = _fitted_axis_title(text, span[1] - span[0], style)
    if title:
        y = top - 0.25 * style.axis * POINT
        yield Words(title, sum(span) / 2, y, size, faint=True, halign="center", valign="top")


def _fitted_axis_title(text: str, room: float, style: PanelStyle) -> tuple[str, float]:
    """Return the title of an axis and its size in points: as it is, smaller, or without brackets.

    The title is empty if it cannot be read in `room` inches.
    """
    for title in (text, text.partition(" (")[0]):
        size = min(style.axis, style.axis * room / max(text_width(title, style.axis), 1e-6))
        if size >= style.smallest:
            return title, size
    return "", style.axis
