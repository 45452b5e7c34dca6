"""Layout and its items: panels, charts, bars, lines, words, with places; in inches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Shaped

from attnviz.views.grids.grid import Curve, Grid
from attnviz.views.grids.scales import Scale

Box = tuple[float, float, float, float]  # left, bottom, width, height
Point = tuple[float, float]
MIN_NUMBER_POINTS = 5.5  # points
MARK_OUTLINE = 2.5  # points: around cells that a title or a product is about
HAIRLINE = 0.5  # points, at every scale: the line that ties a label to its place
LENGTHS = ("x", "y", "size", "width", "head", "outlined", "fitting", "smallest")  # fields of items


@dataclass(frozen=True, eq=False)
class Panel:
    """A grid in a box, with the texts in its cells and the size that these can have."""

    grid: Grid
    box: Box
    numbers: np.ndarray  # what stands in the cells,
    fitting: float  # and how large, in points, it could be
    smallest: float = MIN_NUMBER_POINTS

    @property
    def number_size(self) -> float:
        """The size of the texts in the cells, in points; 0 if there are none or if they would be
        too small.
        """
        return self.fitting if self.numbers.size and self.fitting >= self.smallest else 0.0


@dataclass(frozen=True)
class Tint:
    """A number in the colour that its scale gives it; a value of None is a cell that a
    mask hides.
    """

    scale: Scale
    value: float | None
    is_off: bool = False  # of a head that is switched off

    @property
    def share(self) -> float:
        """How far along the scale the number lies, from 0 to 1; 0 if it is hidden or
        not a number.
        """
        if self.value is None or self.value != self.value:
            return 0.0
        part = (self.value - self.scale.low) / (self.scale.high - self.scale.low)
        return min(max(part, 0.0), 1.0)


def cell_tint(grid: Grid, row: int, column: int) -> Tint:
    """Return the colour of a cell, with whether a mask hides it and whether its row's
    head is off.
    """
    value = None if grid.hidden[row, column] else float(grid.values[row, column])
    return Tint(grid.scale, value, grid.is_off(row))


@dataclass(frozen=True)
class Block:
    """A rectangle: filled if it has a tint, and with a line around it if `outlined` is above 0.

    One with a `series` has the colour of that line of a chart: as its outline if it is outlined,
    else as its filling.
    """

    box: Box
    tint: Tint | None = None
    outlined: float = 0.0  # points
    faint: bool = False  # the line around it
    series: int | None = None  # has the colour of this line
    head: int | None = None  # the line around it has the colour of this head


@dataclass(frozen=True)
class Arc:
    """A Bézier curve with two control points."""

    points: tuple[Point, Point, Point, Point]
    width: float  # points
    tint: Tint


@dataclass(frozen=True)
class Words:
    """A line of text at a position of its own."""

    text: str
    x: float
    y: float
    size: float
    bold: bool = False
    faint: bool = False
    struck: bool = False  # has a line through it
    angle: int = 0
    halign: str = "left"  # which end of the text stands at x,
    valign: str = "baseline"  # and which height of it at y
    series: int | None = None  # has the colour of this line of a chart
    background: Tint | None = None  # stands on this colour, and must be read there;


@dataclass(frozen=True)
class Stroke:
    """A line through some points; an arrow, if it has a head."""

    points: tuple[Point, ...]
    width: float = HAIRLINE  # points
    series: int | None = None  # has the colour of this line of a chart; else it is faint
    dashed: bool = False
    head: float = 0.0  # how long the head at its end is


@dataclass(frozen=True, eq=False)
class Maps:
    """Small maps on one scale, of cells without numbers: the box of each, its values and hidden
    cells.
    """

    scale: Scale
    boxes: tuple[Box, ...]
    values: Shaped[np.ndarray, "map row column"]
    hidden: Bool[np.ndarray, "map row column"]


@dataclass(frozen=True)
class ColorBar:
    """A colour bar: a scale from one end to the other."""

    scale: Scale
    box: Box


@dataclass(frozen=True, eq=False)
class Trail:
    """A curve with a band around it, in shares (0 to 1) of the width and the height of a chart."""

    number: int
    x: np.ndarray
    line: Curve
    marked: bool  # at each of its places


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves in a box."""

    box: tuple[float, float, float, float]
    trails: tuple[Trail, ...]


Item = Panel | Chart | ColorBar | Words | Stroke | Arc | Block | Maps
Items = Iterator[Item]
Kind = TypeVar("Kind", Panel, Chart, ColorBar, Words, Stroke, Arc, Block, Maps)


@dataclass(frozen=True, eq=False)
class Layout:
    """A page, and all items on it; which of them are drawn above others depends on their kinds."""

    size: tuple[float, float]
    items: tuple[Item, ...]

    def items_of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        return tuple(item for item in self.items if isinstance(item, kind))

    @property
    def words(self) -> tuple[Words, ...]:
        return self.items_of(Words)

    @property
    def panels(self) -> tuple[Panel, ...]:
        return self.items_of(Panel)


def cell_box(panel: Panel, row: int, column: int) -> Box:
    (left, bottom, width, height), (down, across) = panel.box, panel.grid.values.shape
    wide, high = width / across, height / down
    return left + column * wide, bottom + height - (row + 1) * high, wide, high


def panel_boxes(items: Iterable[Item]) -> list[Box]:
    return [item.box for item in items if isinstance(item, Panel | Chart)]


def scale_item(item: Item, scale: float) -> Item:
    """Return an item for a page `scale` times as large: positions, boxes, letters and lines, except
    that hairlines keep their width.
    """
    changes: dict[str, Any] = {
        name: value * scale
        for name, value in vars(item).items()
        if name in LENGTHS and value != HAIRLINE
    }
    if isinstance(item, Arc | Stroke):
        changes["points"] = tuple((x * scale, y * scale) for x, y in item.points)
    elif isinstance(item, Maps):
        changes["boxes"] = tuple(tuple(side * scale for side in box) for box in item.boxes)
    elif not isinstance(item, Words):
        changes["box"] = tuple(side * scale for side in item.box)
    return replace(item, **changes)
