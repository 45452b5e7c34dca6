"""The labels on the left of a panel and below it, each at its place."""

from __future__ import annotations

from collections.abc import Iterator

from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.placed import Box, Mark, Words
from attnviz.renderers.picture.ticks import BESIDE, PanelStyle, Ticks, text_width

MIDDLE, ASCENT = 0.36, 0.8  # of a letter's size: from its foot to its middle, and to its head
MARK = 0.035


def labels_at(rows: Ticks, columns: Ticks, box: Box, style: PanelStyle) -> Iterator[Words]:
    """The labels on the left of a panel and below it, and the titles of its two axes."""
    left, bottom, width, height = box
    x = left - BESIDE * 0.7 * rows.size * POINT
    for place, label in zip(rows.places, rows.labels, strict=True):
        y = bottom + height * (1 - (place + 0.5) / rows.count)
        yield Words(label, x, y - rows.size * POINT * MIDDLE, rows.size, across="right")
    yield from _below(columns, box)
    yield from row_title(rows.title, left - rows.extent, (bottom, bottom + height), style)
    foot = bottom - columns.extent
    yield from column_title(columns.title, foot, (left, left + width), style)


def _below(columns: Ticks, box: Box) -> Iterator[Words]:
    left, bottom, width, _ = box
    angle, size = columns.angle, columns.size
    across, along = {0: ("center", "baseline"), 45: ("right", "top"), 90: ("right", "center")}[
        angle
    ]
    line = size * POINT
    y = bottom - columns.beside * 0.7 * line - (line * ASCENT if angle == 0 else 0)
    for place, label in zip(columns.places, columns.labels, strict=True):
        x = left + width * (place + 0.5) / columns.count
        yield Words(label, x, y, size, angle=angle, across=across, along=along)


def row_title(
    text: str, right: float, span: tuple[float, float], style: PanelStyle
) -> Iterator[Words]:
    """What the rows between two heights are, written upwards, on the left of this place."""
    fitting, size = _fitted(text, span[1] - span[0], style)
    if fitting:
        x, y = right - 0.3 * style.axis * POINT, sum(span) / 2
        yield Words(fitting, x, y, size, faint=True, angle=90, across="center", along="bottom")


def column_title(
    text: str, top: float, span: tuple[float, float], style: PanelStyle
) -> Iterator[Words]:
    """What the columns between two places are, below this height."""
    fitting, size = _fitted(text, span[1] - span[0], style)
    if fitting:
        y = top - 0.25 * style.axis * POINT
        yield Words(fitting, sum(span) / 2, y, size, faint=True, across="center", along="top")


def _fitted(text: str, room: float, style: PanelStyle) -> tuple[str, float]:
    """As it is, in smaller letters, without what stands in brackets; or not at all."""
    for shorter in (text, text.partition(" (")[0]):
        size = min(style.axis, style.axis * room / max(text_width(shorter, style.axis), 1e-6))
        if size >= style.smallest:
            return shorter, size
    return "", style.axis


def marks_at(rows: Ticks, columns: Ticks, box: Box) -> Iterator[Mark]:
    """Where not every place has a label, a short line shows which place a label belongs to."""
    left, bottom, width, height = box
    if len(rows.places) < rows.count:
        for place in rows.places:
            y = bottom + height * (1 - (place + 0.5) / rows.count)
            yield (left - MARK, y), (left, y)
    if len(columns.places) < columns.count:
        for place in columns.places:
            x = left + width * (place + 0.5) / columns.count
            yield (x, bottom - MARK), (x, bottom)
