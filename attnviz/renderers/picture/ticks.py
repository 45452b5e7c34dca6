"""The labels along the sides of a panel: how large, how turned, and which; all lengths are inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from matplotlib import rcParams
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

from attnviz.renderers.picture.lettering import POINT, Lettering, Size
from attnviz.views.grids.axes import Axis

LABEL, SMALLEST_LABEL = 10.0, 5.5  # points
LONGEST_LABEL = 24  # characters
MOST_BY_WORD = 64  # tokens: among more, each label that is left has its number
WIDEST_LABEL = 0.2  # of the width of a page
BESIDE = 0.5  # between a panel and its labels, in letters
LINE_SHARE = 0.92  # of its place a label may be high
SLANTED_PITCH = 1.75  # in letters: from one slanted label to the next
AXIS_TITLE = 1.35  # the room that the title of an axis takes, in its letters
MEASURED = 100.0  # large, for small letters are fitted to pixels and come out wider or narrower
THINNING = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class PanelStyle:
    """How panels are set: the letters around them and in them, in points, and the form of cells."""

    title: float = 10.0
    axis: float = 9.0
    label: float = LABEL  # at most,
    smallest: float = SMALLEST_LABEL  # and at least
    number: float = 10.0  # at most
    stretch: float = 1.0  # how many times as wide as high a cell may be that could be square,
    squeeze: float = 1.0  # and how many times as high as wide
    numbers: float = 0.0  # a column is at least as wide as its numbers are in letters of this size
    gap: float = 0.3  # inches between two panels
    widest_label: float = 10.0  # inches
    line: float = LINE_SHARE  # of its place a label may be high
    bare: bool = False  # panels have no labels

    @property
    def axis_room(self) -> float:
        return AXIS_TITLE * self.axis * POINT


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
    beside: float = BESIDE  # from the panel to them, in letters


def style_of(letters: Lettering, page: Size, stretch: float, squeeze: float) -> PanelStyle:
    """Panels on a page with these letters."""
    return PanelStyle(
        letters.title,
        letters.axis,
        letters.label,
        letters.smallest,
        letters.number,
        stretch,
        squeeze,
        gap=letters.label * POINT * 1.4,
        widest_label=page[0] * WIDEST_LABEL,
    )


def row_ticks(axis: Axis, pitch: float, style: PanelStyle) -> Ticks:
    ticks = _thinned(axis, pitch, style)
    extent = widest((*ticks.labels, *axis.reserved), ticks.size)
    return replace(ticks, extent=extent + BESIDE * ticks.size * POINT)


def column_ticks(axis: Axis, pitch: float, style: PanelStyle) -> Ticks:
    """Upright while the labels fit beside each other, else slanting, else standing on end.

    Labels that are no wider than high, as single letters are, would win nothing by being turned.
    """
    ticks = _thinned(axis, pitch, style)
    places, size = ticks.places, ticks.size
    step = pitch * (places[1] - places[0] if len(places) > 1 else 1)
    wide = widest(ticks.labels, size)
    beside, line = BESIDE * size * POINT, size * POINT
    if wide + 0.4 * line <= step or wide <= line <= step:
        return replace(ticks, extent=1.2 * line + beside)
    if step >= line * SLANTED_PITCH:
        return replace(ticks, angle=45, extent=wide * math.sqrt(0.5) + line + beside)
    return replace(ticks, angle=90, extent=wide + beside)


def _thinned(axis: Axis, pitch: float, style: PanelStyle) -> Ticks:
    """Every label, smaller if need be; or every n-th, with its number."""
    fitting = pitch / POINT * style.line
    if fitting >= style.smallest or len(axis) == 1:
        places, labels = range(len(axis)), _labels(axis)
        size = max(min(style.label, fitting), style.smallest)
    else:
        size = min(style.smallest * 1.2, style.label)
        step = next((n for n in THINNING if n * fitting >= size), len(axis))
        first = 0 if step == 2 or step >= len(axis) else step - 1
        names = axis.names if len(axis) > MOST_BY_WORD else _labels(axis)
        places = range(first, len(axis), step)
        labels = tuple(shortened(names[place]) for place in places)
    wide = widest((*labels, *axis.reserved), 1.0) or 1.0
    size = max(min(size, style.widest_label / wide), style.smallest)
    if widest(labels, size) > style.widest_label:
        labels = tuple(_cut_to(label, size, style.widest_label) for label in labels)
    return Ticks(axis.title, len(axis), tuple(places), labels, size)


def _cut_to(label: str, size: float, width: float) -> str:
    """A label that is too wide loses its end."""
    while len(label) > 2 and text_width(label, size) > width:
        label = label[: max(1, int(len(label) * 0.9) - 1)].rstrip("…") + "…"
    return label


@lru_cache(maxsize=64)  # asked for at every size of cells that is tried
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


def text_width(text: str, size: float) -> float:
    """The width of a line of text, in inches."""
    return _width_of(text, tuple(rcParams["font.family"])) * size / MEASURED * POINT


def widest(texts: tuple[str, ...], size: float) -> float:
    """The width of the widest of some lines, in inches."""
    return _widest(texts, tuple(rcParams["font.family"])) * size / MEASURED * POINT


@lru_cache(maxsize=512)
def _widest(texts: tuple[str, ...], families: tuple[str, ...]) -> float:
    return max((_width_of(text, families) for text in texts), default=0.0)


@lru_cache(maxsize=8192)
def _width_of(text: str, families: tuple[str, ...]) -> float:
    font = FontProperties(family=list(families), size=MEASURED)
    measure: Callable[..., tuple[float, float, float]] = _ruler().get_text_width_height_descent
    return measure(text, font, ismath=False)[0]


@lru_cache(maxsize=1)
def _ruler() -> RendererAgg:
    return RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call]
