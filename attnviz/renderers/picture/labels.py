"""The labels on the left of a panel and below it, each at its place."""

from __future__ import annotations

from collections.abc import Iterator

from attnviz.renderers.picture.placed import Box, Mark, Words
from attnviz.renderers.picture.ticks import POINT, PanelStyle, Ticks

MIDDLE, ASCENT = 0.36, 0.8  # of a letter's size: from its foot to its middle, and to its head
BESIDE = 0.05  # inches between a panel and its labels
MARK = 0.035


def labels_at(rows: Ticks, columns: Ticks, box: Box, style: PanelStyle) -> Iterator[Words]:
    """The labels on the left of a panel and below it, and the titles of its two axes."""
    left, bottom, width, height = box
    for place, label in zip(rows.places, rows.labels, strict=True):
        y = bottom + height * (1 - (place + 0.5) / rows.count)
        yield Words(label, left - BESIDE, y - rows.size * POINT * MIDDLE, rows.size, across="right")
    angle, size = columns.angle, columns.size
    across, along = {0: ("center", "baseline"), 45: ("right", "top"), 90: ("right", "center")}[
        angle
    ]
    y = bottom - BESIDE - (size * POINT * ASCENT if angle == 0 else 0)
    for place, label in zip(columns.places, columns.labels, strict=True):
        x = left + width * (place + 0.5) / columns.count
        yield Words(label, x, y, size, angle=angle, across=across, along=along)
    if rows.title:
        yield Words(
            rows.title, left - rows.extent - 0.08, bottom + height / 2, style.axis,
            faint=True, angle=90, across="center", along="bottom",
        )  # fmt: skip
    if columns.title:
        yield Words(
            columns.title, left + width / 2, bottom - columns.extent - 0.06, style.axis,
            faint=True, across="center", along="top",
        )  # fmt: skip


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
