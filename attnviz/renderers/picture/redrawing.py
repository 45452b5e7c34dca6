"""What is new in a layout, so that of two frames that are nearly alike only that is drawn again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.renderers.picture.items import Box, Layout, Panel, Words
from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.texts import BOLD
from attnviz.renderers.picture.ticks import text_width

EDGE = 0.02  # inches around a cell, that its lines reach into
WIDER = 1.1  # times its width a line of text may become where letters are set on coarse pixels
MARK = 0.05  # and around a chart, that its marks do
BELOW, ABOVE = 0.4, 1.2  # of a letter's size: how far a line of text reaches from its foot


def only_new(before: Layout, layout: Layout) -> tuple[Layout, list[Box]] | None:
    """Just so much of a layout as stands in the boxes where it is new; None if it is all new."""
    if _frame(before) != _frame(layout):
        return None
    changed = set(before.words) ^ set(layout.words)
    if any(word.angle for word in changed):
        return None
    bands = [_band(word, layout) for word in changed]
    if any(_meet(panel.box, band) for panel in layout.panels for band in bands):
        return None  # words that move over cells
    cells = [_new_cells(*pair) for pair in zip(before.panels, layout.panels, strict=True)]
    pairs = list(zip(layout.panels, cells, strict=True))
    words = tuple(word for word in layout.words if any(_touches(word, band) for band in bands))
    boxes = [*bands, *(box for panel, new in pairs for box in _boxes(panel, new))]
    panels = tuple(
        replace(panel, numbers=_only(panel, new))
        for panel, new in pairs
        if any(_meet(panel.box, box) for box in boxes)
    )
    bars = tuple(bar for bar in layout.bars if any(_meet(bar.box, box) for box in boxes))
    return replace(layout, words=words, panels=panels, bars=bars), boxes


def beside_cells(before: Layout, layout: Layout) -> tuple[Layout, list[Box]]:
    """The charts of a layout and its new words, in their boxes; its panels stay as they are."""
    changed = set(before.words) ^ set(layout.words)
    boxes = [*map(_around, changed), *(_with_marks(each.box) for each in layout.charts)]
    words = tuple(word for word in layout.words if any(_meet(_around(word), box) for box in boxes))
    return replace(layout, panels=(), bars=(), words=words), boxes


def _around(word: Words) -> Box:
    """A line of text that is read from left to right, from where it begins."""
    size = word.size * POINT
    start = {"left": 0.0, "center": 0.5, "right": 1.0}[word.across]
    width = text_width(word.text, word.size) * (BOLD if word.bold else 1.0) * WIDER
    if word.angle:
        reach = width + size
        return word.x - reach, word.y - reach, 2 * reach, 2 * reach
    left, wide = word.x - start * width - size / 2, width + size
    return left, word.y - BELOW * size, wide, (BELOW + ABOVE) * size


def _with_marks(box: Box) -> Box:
    left, bottom, width, height = box
    return left - MARK, bottom - MARK, width + 2 * MARK, height + 2 * MARK


def _frame(layout: Layout) -> tuple[object, ...]:
    """All that has to be the same."""
    shapes = [(panel.box, panel.number_size, panel.grid.values.shape) for panel in layout.panels]
    scales = [panel.grid.scale for panel in layout.panels]
    drawn = layout.bars, layout.marks, layout.charts, layout.strokes
    return layout.size, *drawn, shapes, scales


def _band(word: Words, layout: Layout) -> Box:
    """The height of a line of text, from one side of the page to the other."""
    size = word.size * POINT
    return 0.0, word.y - BELOW * size, layout.size[0], (BELOW + ABOVE) * size


def _touches(word: Words, band: Box) -> bool:
    reach = text_width(word.text, word.size) if word.angle else word.size * POINT * ABOVE
    return word.y - reach < band[1] + band[3] and band[1] < word.y + reach


def _meet(one: Box, other: Box) -> bool:
    return all(
        one[side] <= other[side] + other[side + 2] and other[side] <= one[side] + one[side + 2]
        for side in (0, 1)
    )


def _new_cells(before: Panel, panel: Panel) -> np.ndarray:
    one, other = before.grid, panel.grid
    same = (one.values == other.values) | (np.isnan(one.values) & np.isnan(other.values))
    new: np.ndarray = ~same | (one.hidden != other.hidden)
    return new


def _only(panel: Panel, cells: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(cells, panel.numbers, "")) if panel.numbers.size else panel.numbers


def _boxes(panel: Panel, cells: np.ndarray) -> Iterator[Box]:
    left, bottom, width, height = panel.box
    down, across = cells.shape
    wide, high = width / across, height / down
    for row, column in np.argwhere(cells).tolist():
        x, y = left + column * wide, bottom + height - (row + 1) * high
        yield x - EDGE, y - EDGE, wide + 2 * EDGE, high + 2 * EDGE


def with_patches(
    picture: np.ndarray, drawn: np.ndarray, boxes: Sequence[Box], inches: float
) -> np.ndarray:
    """A picture with these boxes of another one, of a page that is so many inches high."""
    patched = np.array(picture)
    pixels = picture.shape[0] / inches
    for left, bottom, width, height in boxes:
        top = max(int((inches - bottom - height) * pixels), 0)
        rows = slice(top, max(int((inches - bottom) * pixels) + 1, 0))
        columns = slice(max(int(left * pixels), 0), max(int((left + width) * pixels) + 1, 0))
        patched[rows, columns] = drawn[rows, columns]
    return patched
