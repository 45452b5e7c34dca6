"""Cells in other colours, without drawing a page again.

Of each pixel it is found out once how much of it belongs to its cell: by two pictures, one with
all cells at the low end of their scale, and one with all of them at the high end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Shaped

from attnviz.renderers import Look
from attnviz.renderers.colors import gradient, shade
from attnviz.renderers.picture.palettes import Pixels
from attnviz.renderers.picture.placed import Layout, Panel

Draw = Callable[[Layout], Pixels]
Picture = Float[np.ndarray, "down across 3"]
Color = Float[np.ndarray, "3"]


@dataclass(frozen=True, eq=False)
class Canvas:
    """The pixels of a panel: how much of each is of its cell, and which cell that is."""

    rows: slice
    columns: slice
    low: Float[np.ndarray, "down across 3"]  # the picture of cells at the low end
    share: Float[np.ndarray, "down across 1"]
    row: Shaped[np.ndarray, "down 1"]
    column: Shaped[np.ndarray, "1 across"]

    def painted(self, colors: Float[np.ndarray, "row column 3"], lowest: Color) -> Pixels:
        """With these colours in the cells."""
        return _packed(self.low + self.share * (colors[self.row, self.column] - lowest))


@dataclass(frozen=True, eq=False)
class Repainted:
    """A page on which only the colours of cells change."""

    canvases: tuple[Canvas, ...]
    look: Look

    def painted(self, picture: Pixels, layout: Layout) -> Pixels:
        """A picture with the cells of this layout, whatever was in them."""
        made = np.array(picture)
        for canvas, panel in zip(self.canvases, layout.panels, strict=True):
            lowest, _ = _ends(panel, self.look)
            colors = _colors(panel, self.look)
            made[canvas.rows, canvas.columns] = canvas.painted(colors, lowest)
        return made


def repainted(layout: Layout, look: Look, draw: Draw) -> Repainted:
    """What is found out of a layout by drawing it twice."""
    low, high = (_unpacked(draw(_with_all(layout, end))) for end in ("low", "high"))
    canvases = (_canvas(panel, layout, low, high, look) for panel in layout.panels)
    return Repainted(tuple(canvases), look)


def _with_all(layout: Layout, end: str) -> Layout:
    """With all cells at one end of their scale."""
    return replace(layout, panels=tuple(_at_an_end(panel, end) for panel in layout.panels))


def _at_an_end(panel: Panel, end: str) -> Panel:
    grid = panel.grid
    value = getattr(grid.scale, end)
    return replace(panel, grid=grid.with_values(np.full(grid.values.shape, value)))


def _canvas(panel: Panel, layout: Layout, low: Picture, high: Picture, look: Look) -> Canvas:
    (down, across, _), (left, bottom, width, height) = low.shape, panel.box
    pixels = across / layout.size[0]
    top = down - (bottom + height) * pixels  # counted from below, where a page ends at a pixel
    rows, row = _places(top, height * pixels, len(panel.grid.rows), down)
    columns, column = _places(left * pixels, width * pixels, len(panel.grid.columns), across)
    lowest, highest = _ends(panel, look)
    told = int(abs(highest - lowest).argmax())  # the channel that tells the two ends best
    part = low[rows, columns]
    share = (high[rows, columns] - part)[..., told] / (highest - lowest)[told]
    return Canvas(rows, columns, part, share[..., None], row[:, None], column[None, :])


def _places(
    start: float, length: float, count: int, most: int
) -> tuple[slice, Shaped[np.ndarray, "pixel"]]:
    """The pixels of one side of a panel, and at which of its cells each of them is."""
    part = slice(max(int(start) - 1, 0), min(int(start + length) + 2, most))
    shares = (np.arange(part.start, part.stop) + 0.5 - start) / length
    return part, np.clip((shares * count).astype(int), 0, count - 1)


def _ends(panel: Panel, look: Look) -> tuple[Color, Color]:
    """The colours of the two ends of its scale."""
    anchors = gradient(look.palette, look.theme, panel.grid.scale.kind)
    return anchors[0], anchors[-1]


def _colors(panel: Panel, look: Look) -> Float[np.ndarray, "row column 3"]:
    grid, anchors = panel.grid, gradient(look.palette, look.theme, panel.grid.scale.kind)
    values = np.nan_to_num(grid.values)
    colors: Float[np.ndarray, "row column 3"] = shade(
        grid.scale.shares(values), 0, 1, anchors
    ).astype(float)
    return colors


def _unpacked(pixels: Pixels) -> Picture:
    return np.stack([pixels >> 16, pixels >> 8 & 255, pixels & 255], axis=-1).astype(float)


def _packed(channels: Picture) -> Pixels:
    whole = np.clip(channels.round(), 0, 255).astype(np.uint32)
    packed: Pixels = whole[..., 0] << 16 | whole[..., 1] << 8 | whole[..., 2]
    return packed
