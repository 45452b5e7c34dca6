"""Colour bars: one for each scale, beside the panels, with its name and its ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnviz.renderers.picture.placed import Bar, Layout, Mark, Words
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.scales import Scale

LABEL = 8.0  # points
PLACES = (0.0, 0.5, 1.0)
BAR_WIDTH, BAR_SPACE = 0.13, 0.85  # a colour bar, and all that belongs to it


def scales_of(drawn: Sequence[Grid | Curves | None]) -> tuple[Scale, ...]:
    """Each scale of colour once."""
    grids = [each for each in drawn if isinstance(each, Grid)]
    return tuple(dict.fromkeys(grid.scale for grid in grids if grid.scale.kind != "none"))


def bars_beside(placed: Layout, scales: Sequence[Scale], right: float) -> Iterator[Bar]:
    """One colour bar below the other, beside the panels."""
    boxes = [*(panel.box for panel in placed.panels), *(chart.box for chart in placed.charts)]
    top = max(bottom + height for _, bottom, _, height in boxes)
    each = (top - min(bottom for _, bottom, _, _ in boxes)) / max(len(scales), 1)
    height = max(min(each - 0.45, 2.4), 0.4)
    for number, scale in enumerate(scales):
        yield Bar(scale, (right + 0.2, top - number * each - height - 0.1, BAR_WIDTH, height))


def bar_labels(bar: Bar) -> Iterator[Words]:
    """The name of a scale above its bar, and its ends and its middle beside it."""
    left, bottom, width, height = bar.box
    yield Words(bar.scale.label, left, bottom + height + 0.09, LABEL)
    for share in PLACES:
        number = bar.scale.low + share * (bar.scale.high - bar.scale.low)
        text = f"≥ {number:g}" if bar.scale.beyond and share == 1 else f"{number:g}"
        y = bottom + height * share
        yield Words(text, left + width + 0.06, y, LABEL, along="center_baseline")


def bar_marks(bar: Bar) -> Iterator[Mark]:
    left, bottom, width, height = bar.box
    for share in PLACES:
        y = bottom + height * share
        yield (left + width, y), (left + width + 0.03, y)
