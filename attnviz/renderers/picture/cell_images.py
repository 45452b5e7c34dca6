"""Cells as pixels: of a map of very many, and of very many small maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from PIL import Image

from attnviz.renderers.picture.placed import Box


class CellImage(Artist):
    """Cells as pixels that fill their axes: what imshow does, in a quarter of its time."""

    def __init__(self, rgb: np.ndarray) -> None:
        super().__init__()
        self._rgb = rgb

    def draw(self, renderer: Any) -> None:
        assert self.axes is not None
        scale = renderer.get_image_magnification()
        left, bottom, width, height = self.axes.bbox.bounds
        pixels = scaled(self._rgb, round(width * scale), round(height * scale))
        opaque = np.full((*pixels.shape[:2], 1), 255, dtype=np.uint8)
        context = renderer.new_gc()
        # Renderers count rows from the bottom.
        renderer.draw_image(context, left, bottom, np.concatenate([pixels, opaque], 2)[::-1])
        context.restore()


def scaled(rgb: np.ndarray, width: int, height: int) -> np.ndarray:
    """An image of cells in so many pixels: large cells keep their edges, small ones are blended."""
    rows, columns = rgb.shape[:2]
    if width >= 4 * columns and height >= 4 * rows:
        down = (np.arange(height) * rows) // height
        across = (np.arange(width) * columns) // width
        cells: np.ndarray = rgb[down][:, across]
        return cells
    times = (math.ceil(2 * height / rows), math.ceil(2 * width / columns))
    larger = rgb.repeat(times[0], axis=0).repeat(times[1], axis=1)
    blended = Image.fromarray(larger).resize((width, height), Image.Resampling.BOX)
    return np.asarray(blended, dtype=np.uint8)


class MapImages(Artist):
    """Small maps, as one image with nothing between them: hundreds of images would take long."""

    def __init__(self, boxes: Sequence[Box], rgb: np.ndarray) -> None:
        """Boxes are parts of the figure; of each map there are the colours of its cells."""
        super().__init__()
        self._boxes, self._rgb = np.array(boxes), rgb

    def draw(self, renderer: Any) -> None:
        figure = self.get_figure(root=True)
        assert figure is not None
        scale = renderer.get_image_magnification()
        sizes = np.tile((figure.bbox.width, figure.bbox.height), 2)
        left, bottom, wide, high = (self._boxes * sizes * scale).round().astype(int).T
        right, top = left + wide, bottom + high
        pixels = np.zeros((top.max() - bottom.min(), right.max() - left.min(), 4), dtype=np.uint8)
        for place, rgb in enumerate(self._rgb):
            rows = slice(top.max() - top[place], top.max() - bottom[place])
            columns = slice(left[place] - left.min(), right[place] - left.min())
            pixels[rows, columns, :3] = scaled(rgb, int(wide[place]), int(high[place]))
            pixels[rows, columns, 3] = 255
        context = renderer.new_gc()
        renderer.draw_image(context, left.min() / scale, bottom.min() / scale, pixels[::-1])
        context.restore()
