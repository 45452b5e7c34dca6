"""What stands where in a picture: panels, charts, bars, lines and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Shaped

from attnviz.renderers.picture.charts import Chart
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale

Box = tuple[float, float, float, float]  # left, bottom, width, height
Place = tuple[float, float]
Mark = tuple[Place, Place]

SMALLEST_NUMBER = 5.5  # points


@dataclass(frozen=True, eq=False)
class Panel:
    grid: Grid
    box: Box
    numbers: np.ndarray  # what stands in the cells,
    fitting: float  # and how large, in points, it could be
    smallest: float = SMALLEST_NUMBER

    @property
    def number_size(self) -> float:
        """0 if the numbers could not be read."""
        return self.fitting if self.numbers.size and self.fitting >= self.smallest else 0.0


@dataclass(frozen=True)
class Tint:
    """A number in the colour that its scale has for it; None is what a mask hides."""

    scale: Scale
    value: float | None
    off: bool = False  # of a head that is switched off

    @property
    def share(self) -> float:
        """How far along the scale it lies, from 0 to 1."""
        if self.value is None or self.value != self.value:
            return 0.0
        part = (self.value - self.scale.low) / (self.scale.high - self.scale.low)
        return min(max(part, 0.0), 1.0)


@dataclass(frozen=True)
class Block:
    """A rectangle: filled where it has a tint, with a line around it where it is outlined.

    One that has the colour of a line in a chart is filled with it, or outlined in it.
    """

    box: Box
    tint: Tint | None = None
    outlined: float = 0.0  # points
    faint: bool = False  # the line around it
    series: int | None = None  # has the colour of this line


@dataclass(frozen=True)
class Arc:
    """A bent line: from its first point to its last, drawn towards the two between them."""

    points: tuple[Place, Place, Place, Place]
    width: float  # points
    tint: Tint


@dataclass(frozen=True)
class Words:
    """A line of text at a place of its own."""

    text: str
    x: float
    y: float
    size: float
    bold: bool = False
    faint: bool = False
    struck: bool = False  # has a line through it
    angle: int = 0
    across: str = "left"  # which end of the text stands at x,
    along: str = "baseline"  # and which height of it at y
    series: int | None = None  # has the colour of this line of a chart
    over: Tint | None = None  # stands on this colour, and must be read there;
    inside: int | None = None  # or on that of this line of a chart


@dataclass(frozen=True)
class Stroke:
    """A line through some places; an arrow, if it has a head."""

    points: tuple[Place, ...]
    width: float  # points
    series: int | None = None  # has the colour of this line of a chart; else it is faint
    dashed: bool = False
    head: float = 0.0  # how long the head at its end is


@dataclass(frozen=True, eq=False)
class Maps:
    """Small maps on one scale, of cells without numbers: where each stands, and what it holds."""

    scale: Scale
    boxes: tuple[Box, ...]
    values: Shaped[np.ndarray, "map row column"]
    hidden: Bool[np.ndarray, "map row column"]


@dataclass(frozen=True)
class Bar:
    """A colour bar: a scale from one end to the other."""

    scale: Scale
    box: Box


@dataclass(frozen=True, eq=False)
class Layout:
    size: tuple[float, float]
    panels: tuple[Panel, ...]
    charts: tuple[Chart, ...]
    bars: tuple[Bar, ...]
    words: tuple[Words, ...]
    marks: tuple[Mark, ...]
    strokes: tuple[Stroke, ...] = ()
    arcs: tuple[Arc, ...] = ()  # below everything else, the last one on top
    blocks: tuple[Block, ...] = ()  # above them
    maps: tuple[Maps, ...] = ()  # below them all

    def fraction(self, box: Box) -> Box:
        """A box as matplotlib wants it: in parts of the figure."""
        (left, bottom, width, height), (whole_width, whole_height) = box, self.size
        return left / whole_width, bottom / whole_height, width / whole_width, height / whole_height


def empty_layout() -> Layout:
    """A page with nothing on it."""
    return Layout((0.0, 0.0), (), (), (), (), ())


def joined(layouts: Sequence[Layout]) -> Layout:
    """Everything that stands in any of them, on one page."""
    return Layout(
        (0.0, 0.0),
        tuple(panel for each in layouts for panel in each.panels),
        tuple(chart for each in layouts for chart in each.charts),
        tuple(bar for each in layouts for bar in each.bars),
        tuple(words for each in layouts for words in each.words),
        tuple(mark for each in layouts for mark in each.marks),
        tuple(stroke for each in layouts for stroke in each.strokes),
        tuple(arc for each in layouts for arc in each.arcs),
        tuple(block for each in layouts for block in each.blocks),
        tuple(maps for each in layouts for maps in each.maps),
    )


def scaled_down(layout: Layout, factor: float) -> Layout:
    """The same on a smaller page, letters and all: every length is divided by the factor."""
    if factor == 1:
        return layout
    return Layout(
        (layout.size[0] / factor, layout.size[1] / factor),
        tuple(_smaller_panel(panel, factor) for panel in layout.panels),
        tuple(replace(each, box=_smaller_box(each.box, factor)) for each in layout.charts),
        tuple(replace(bar, box=_smaller_box(bar.box, factor)) for bar in layout.bars),
        tuple(
            replace(word, x=word.x / factor, y=word.y / factor, size=word.size / factor)
            for word in layout.words
        ),
        tuple(
            ((x / factor, y / factor), (to_x / factor, to_y / factor))
            for (x, y), (to_x, to_y) in layout.marks
        ),
        tuple(_smaller_stroke(stroke, factor) for stroke in layout.strokes),
        tuple(_smaller_arc(arc, factor) for arc in layout.arcs),
        tuple(
            replace(block, box=_smaller_box(block.box, factor), outlined=block.outlined / factor)
            for block in layout.blocks
        ),
        tuple(
            replace(maps, boxes=tuple(_smaller_box(each, factor) for each in maps.boxes))
            for maps in layout.maps
        ),
    )


def _smaller_stroke(stroke: Stroke, factor: float) -> Stroke:
    points = tuple((x / factor, y / factor) for x, y in stroke.points)
    return replace(stroke, points=points, width=stroke.width / factor, head=stroke.head / factor)


def _smaller_arc(arc: Arc, factor: float) -> Arc:
    first, second, third, last = ((x / factor, y / factor) for x, y in arc.points)
    return replace(arc, points=(first, second, third, last), width=arc.width / factor)


def _smaller_panel(panel: Panel, factor: float) -> Panel:
    return replace(
        panel,
        box=_smaller_box(panel.box, factor),
        fitting=panel.fitting / factor,
        smallest=panel.smallest / factor,
    )


def _smaller_box(box: Box, factor: float) -> Box:
    left, bottom, width, height = box
    return left / factor, bottom / factor, width / factor, height / factor
