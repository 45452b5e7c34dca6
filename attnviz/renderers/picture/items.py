"""What stands where in a picture: panels, charts, bars, lines and words; in inches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Shaped

from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale

Box = tuple[float, float, float, float]  # left, bottom, width, height
Place = tuple[float, float]
SMALLEST_NUMBER = 5.5  # points
HAIRLINE = 0.5  # points, at every scale: the line that ties a label to its place
LENGTHS = ("x", "y", "size", "width", "head", "outlined", "fitting", "smallest")  # fields of items


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


def tint_of(grid: Grid, row: int, column: int) -> Tint:
    """The colour of a cell."""
    value = None if grid.hidden[row, column] else float(grid.values[row, column])
    return Tint(grid.scale, value, grid.is_off(row))


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
    """A Bézier curve with two control points."""

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
    """A line through some points; an arrow, if it has a head."""

    points: tuple[Place, ...]
    width: float = HAIRLINE  # points
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
class Trail:
    """A line in parts of its box, from 0 to 1 on either side."""

    number: int
    x: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray
    dashed: bool
    plain: bool
    marked: bool  # at each of its places


@dataclass(frozen=True, eq=False)
class Chart:
    box: tuple[float, float, float, float]
    trails: tuple[Trail, ...]


Item = Panel | Chart | Bar | Words | Stroke | Arc | Block | Maps
Items = Iterator[Item]
Kind = TypeVar("Kind", Panel, Chart, Bar, Words, Stroke, Arc, Block, Maps)


@dataclass(frozen=True, eq=False)
class Layout:
    """A page, and all items on it; which of them are drawn above others depends on their kinds."""

    size: tuple[float, float]
    items: tuple[Item, ...]

    def all(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """The items of one kind, in their order."""
        return tuple(item for item in self.items if isinstance(item, kind))

    @property
    def words(self) -> tuple[Words, ...]:
        return self.all(Words)

    @property
    def panels(self) -> tuple[Panel, ...]:
        return self.all(Panel)


def cell_box(panel: Panel, row: int, column: int) -> Box:
    """Where a cell of a panel stands."""
    (left, bottom, width, height), (down, across) = panel.box, panel.grid.values.shape
    wide, high = width / across, height / down
    return left + column * wide, bottom + height - (row + 1) * high, wide, high


def panel_boxes(items: Iterable[Item]) -> list[Box]:
    """Where panels and charts stand."""
    return [item.box for item in items if isinstance(item, Panel | Chart)]


def scale_item(item: Item, scale: float) -> Item:
    """The same item on a page that is so many times as large: points, boxes, and all lengths."""
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
