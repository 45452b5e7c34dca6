"""Which boxes of two similar frames differ: only those are drawn again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.renderers.picture.items import (
    Box,
    Chart,
    ColorBar,
    Item,
    Layout,
    Panel,
    Stroke,
    Words,
    cell_box,
)
from attnviz.renderers.picture.text import BOLD, POINT, text_width

CELL_EDGE = 0.02  # inches around a cell, that its lines reach into
# Times its width a line of text may become where letters are set on coarse pixels
COARSE_WIDTH = 1.1
CHART_EDGE = 0.05  # and around a chart, that its marks do
# Of a letter's size: how far a line of text reaches from its foot
DESCENT_SHARE, ASCENT_SHARE = 0.4, 1.2


def changed_parts(previous: Layout, layout: Layout) -> tuple[Layout, list[Box]] | None:
    """Return a layout of only the items to draw again, and the boxes in which `layout` is new.

    None comes back if all must be drawn again: if anything but words and values of cells differs,
    or if turned words or words over a panel changed.
    """
    if _fixed_parts(previous) != _fixed_parts(layout):
        return None
    changed_words = set(previous.words) ^ set(layout.words)
    if any(word.angle for word in changed_words):
        return None
    bands = [_line_band(word, layout) for word in changed_words]
    if any(_boxes_meet(panel.box, band) for panel in layout.panels for band in bands):
        return None  # words that move over cells
    cells = [_changed_cells(*pair) for pair in zip(previous.panels, layout.panels, strict=True)]
    pairs = list(zip(layout.panels, cells, strict=True))
    boxes = [*bands, *(box for panel, new in pairs for box in _new_cell_boxes(panel, new))]
    items: list[Item] = [
        replace(
            panel, numbers=np.where(new, panel.numbers, "") if panel.numbers.size else panel.numbers
        )
        for panel, new in pairs
        if any(_boxes_meet(panel.box, box) for box in boxes)
    ]
    for item in layout.items:
        if isinstance(item, Words):
            items += [item] if any(_words_touch(item, band) for band in bands) else []
        elif isinstance(item, ColorBar):
            items += [item] if any(_boxes_meet(item.box, box) for box in boxes) else []
        elif not isinstance(item, Panel):
            items.append(item)
    return replace(layout, items=tuple(items)), boxes


def parts_beside_cells(previous: Layout, layout: Layout) -> tuple[Layout, list[Box]]:
    """Return a layout with neither panels nor colour bars, and the boxes in which to draw it.

    The boxes are those of all charts and of the words that one of the two layouts has alone; words
    outside of these boxes are left out.
    """
    changed_words = set(previous.words) ^ set(layout.words)
    boxes = [
        *map(_words_box, changed_words),
        *(_grown_box(chart.box, CHART_EDGE) for chart in layout.items_of(Chart)),
    ]
    selection = (
        any(_boxes_meet(_words_box(item), box) for box in boxes)
        if isinstance(item, Words)
        else not isinstance(item, Panel | ColorBar)
        for item in layout.items
    )
    return replace(layout, items=tuple(itertools.compress(layout.items, selection))), boxes


def _words_box(word: Words) -> Box:
    """Return the box around a line of text; of turned text, a square that holds it in any
    direction.
    """
    size = word.size * POINT
    start = {"left": 0.0, "center": 0.5, "right": 1.0}[word.halign]
    width = text_width(word.text, word.size) * (BOLD if word.bold else 1.0) * COARSE_WIDTH
    if word.angle:
        reach = width + size
        return word.x - reach, word.y - reach, 2 * reach, 2 * reach
    left, wide = word.x - start * width - size / 2, width + size
    return left, word.y - DESCENT_SHARE * size, wide, (DESCENT_SHARE + ASCENT_SHARE) * size


def _grown_box(box: Box, edge: float) -> Box:
    left, bottom, width, height = box
    return left - edge, bottom - edge, width + 2 * edge, height + 2 * edge


def _fixed_parts(layout: Layout) -> tuple[object, ...]:
    """Return what must be equal in two layouts if only words and cells are to be drawn again:
    sizes, scales, bars, charts and lines.
    """
    shapes = [(panel.box, panel.number_size, panel.grid.values.shape) for panel in layout.panels]
    scales = [panel.grid.scale for panel in layout.panels]
    lines = layout.items_of(ColorBar), layout.items_of(Chart), layout.items_of(Stroke)
    return layout.size, *lines, shapes, scales


def _line_band(word: Words, layout: Layout) -> Box:
    size = word.size * POINT
    return 0.0, word.y - DESCENT_SHARE * size, layout.size[0], (DESCENT_SHARE + ASCENT_SHARE) * size


def _words_touch(word: Words, band: Box) -> bool:
    """Return whether words may reach into the height of a box; how far they reach across is
    ignored.
    """
    reach = text_width(word.text, word.size) if word.angle else word.size * POINT * ASCENT_SHARE
    return word.y - reach < band[1] + band[3] and band[1] < word.y + reach


def _boxes_meet(one: Box, other: Box) -> bool:
    """Return whether two boxes overlap or touch each other."""
    return all(
        one[side] <= other[side] + other[side + 2] and other[side] <= one[side] + one[side + 2]
        for side in (0, 1)
    )


def _changed_cells(previous: Panel, panel: Panel) -> np.ndarray:
    """Return, for each cell, whether its value or its being hidden differs; two empty cells are
    equal.
    """
    one, other = previous.grid, panel.grid
    same = (one.values == other.values) | (np.isnan(one.values) & np.isnan(other.values))
    return np.asarray(~same | (one.hidden != other.hidden))


def _new_cell_boxes(panel: Panel, cells: np.ndarray) -> Iterator[Box]:
    for row, column in np.argwhere(cells).tolist():
        yield _grown_box(cell_box(panel, row, column), CELL_EDGE)


def with_patches(
    picture: np.ndarray, new_picture: np.ndarray, boxes: Sequence[Box], inches: float
) -> np.ndarray:
    """Return a copy of `picture` with the pixels of `new_picture` inside these boxes.

    Boxes are in inches from the lower left of a page that is `inches` high.
    """
    patched = np.array(picture)
    pixels = picture.shape[0] / inches
    for left, bottom, width, height in boxes:
        top = max(int((inches - bottom - height) * pixels), 0)
        rows = slice(top, max(int((inches - bottom) * pixels) + 1, 0))
        columns = slice(max(int(left * pixels), 0), max(int((left + width) * pixels) + 1, 0))
        patched[rows, columns] = new_picture[rows, columns]
    return patched
