"""The labels along the sides of a panel: how large, how turned, and which; all lengths are inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from matplotlib import rcParams
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

from attnviz.views.grids.axes import Axis

POINT = 1 / 72
LABEL, SMALLEST_LABEL = 10.0, 5.5  # points
LONGEST_LABEL = 24  # characters
AXIS_TITLE = 0.26  # what the title of an axis takes beside its labels, in letters of 9 points
MEASURED = 100.0  # large, for small letters are fitted to pixels and come out wider or narrower
THINNING = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class PanelStyle:
    """How panels are set: the largest letters around them, in points, and the form of cells."""

    title: float = 10.0
    axis: float = 9.0
    label: float = LABEL
    stretch: float = 1.0  # how many times as wide as high a cell may be that could be square
    numbers: float = 0.0  # a column is at least as wide as its numbers are in letters of this size

    @property
    def axis_room(self) -> float:
        return AXIS_TITLE * self.axis / 9


@dataclass(frozen=True)
class Ticks:
    """The labels of one side of a panel: which places have one, how large and how turned."""

    title: str
    count: int
    places: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    size: float = LABEL
    angle: int = 0
    extent: float = 0.0  # how far the labels reach away from the panel


def row_ticks(axis: Axis, pitch: float, largest: float = LABEL) -> Ticks:
    places, labels, size = _thinned(axis, pitch, largest)
    extent = max((text_width(label, size) for label in labels), default=0.0) + 0.07
    return Ticks(axis.title, len(axis), places, labels, size, 0, extent)


def column_ticks(axis: Axis, pitch: float, largest: float = LABEL) -> Ticks:
    """Upright while the labels fit beside each other, else slanting, else standing on end."""
    places, labels, size = _thinned(axis, pitch, largest)
    step = pitch * (places[1] - places[0] if len(places) > 1 else 1)
    widest = max((text_width(label, size) for label in labels), default=0.0)
    if widest <= step * 0.92:
        return Ticks(axis.title, len(axis), places, labels, size, 0, size * POINT * 1.2 + 0.05)
    if step >= size * POINT * 1.9:
        slanted = widest * math.sqrt(0.5) + size * POINT + 0.05
        return Ticks(axis.title, len(axis), places, labels, size, 45, slanted)
    return Ticks(axis.title, len(axis), places, labels, size, 90, widest + 0.08)


def _thinned(
    axis: Axis, pitch: float, largest: float
) -> tuple[tuple[int, ...], tuple[str, ...], float]:
    """Every label, smaller if need be; or every n-th, with its number."""
    fitting = pitch / POINT * 0.92
    if fitting >= SMALLEST_LABEL or len(axis) == 1:
        return tuple(range(len(axis))), _labels(axis), max(min(largest, fitting), SMALLEST_LABEL)
    size = SMALLEST_LABEL + 1
    step = next((n for n in THINNING if n * fitting >= size), len(axis))
    start = 0 if step == 2 else step - 1
    places, names = tuple(range(start, len(axis), step)), axis.names
    return places, tuple(shortened(names[place]) for place in places), size


def _labels(axis: Axis) -> tuple[str, ...]:
    """The words alone; with their numbers where a word stands more than once."""
    times = Counter(axis.labels)
    return tuple(
        shortened(name if times[label] > 1 or not label else label)
        for name, label in zip(axis.names, axis.labels, strict=True)
    )


def shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def no_ticks(axis: Axis) -> Ticks:
    return Ticks("", len(axis))


def reach(ticks: Ticks, style: PanelStyle) -> float:
    """How much room labels and the title of their axis take."""
    return ticks.extent + (style.axis_room if ticks.title else 0.0)


def longest_label(axis: Axis) -> float:
    """The width of the widest label, which is among those with the most characters."""
    longest = sorted(_labels(axis), key=len)[-8:]
    return max((text_width(label, LABEL) for label in longest), default=0.1)


def text_width(text: str, size: float) -> float:
    """The width of a line of text, in inches."""
    return _width_of(text, tuple(rcParams["font.family"])) * size / MEASURED * POINT


@lru_cache(maxsize=8192)
def _width_of(text: str, families: tuple[str, ...]) -> float:
    font = FontProperties(family=list(families), size=MEASURED)
    measure: Callable[..., tuple[float, float, float]] = _ruler().get_text_width_height_descent
    return measure(text, font, ismath=False)[0]


@lru_cache(maxsize=1)
def _ruler() -> RendererAgg:
    return RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call]
