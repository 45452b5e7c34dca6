"""How a number is computed, in a film: what it is made of is ringed, and it moves into its cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnviz.renderers.picture.placed import Box, Layout, Panel, Stroke, Words
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.section import Part, Section

WAY = (0.35, 0.7)  # so far on its way to its cell a number is shown
RING = 3.0  # points: the line around what a number is made of, and around its cell
SIGNS = (" = ", " ≈ ")


def computed(moments: Sequence[Section], layouts: Sequence[Layout]) -> Iterator[list[Layout]]:
    """For each moment a layout without the number, some with it on its way, and the last."""
    before: Layout | None = None
    for moment, layout in zip(moments, layouts, strict=True):
        new = _new_cells(before, layout)
        pooled = any(panel.grid.pooled for panel in layout.panels)
        shown = moment.made_of and not pooled and new.any()
        yield list(_moving(moment, layout, new)) if shown else [layout]
        before = layout


def _new_cells(before: Layout | None, layout: Layout) -> np.ndarray:
    """Which cells of the last panel are filled now, and were not; no mask hides them."""
    if not layout.panels:
        return np.zeros((0, 0), dtype=bool)
    grid = layout.panels[-1].grid
    new: np.ndarray = ~np.isnan(grid.values) & ~grid.hidden
    if before is None or before.panels[-1].grid.values.shape != new.shape:
        return new
    return np.asarray(new & np.isnan(before.panels[-1].grid.values))


def _moving(moment: Section, layout: Layout, new: np.ndarray) -> Iterator[Layout]:
    *others, target = layout.panels
    rings = tuple(_ring(_box(layout.panels[part[0]], part)) for part in moment.made_of)
    cell = _around(target, new)
    empty = replace(
        target,
        grid=target.grid.with_values(np.where(new, np.nan, target.grid.values)),
        numbers=np.where(new, "", target.numbers) if target.numbers.size else target.numbers,
    )
    unfilled = replace(layout, panels=(*others, empty), strokes=rings)
    number = _result(moment, layout)
    if number is not None:
        line, result = number
        rest = tuple(word for word in layout.words if word is not line)
        start = line.text.removesuffix(result.text)
        words = (*rest, replace(line, text=start.rstrip().rstrip("=≈").rstrip()))
        yield replace(unfilled, words=words)
        unfilled = replace(unfilled, strokes=(*rings, _ring(cell)))
        yield unfilled
        middle = cell[0] + cell[2] / 2, cell[1] + cell[3] / 2
        for share in WAY:
            x = result.x + share * (middle[0] - result.x)
            y = result.y + share * (middle[1] - result.y)
            flying = replace(result, x=x, y=y, bold=True)
            yield replace(unfilled, words=(*words, flying))
    yield replace(layout, strokes=(_ring(cell),))


def _result(moment: Section, layout: Layout) -> tuple[Words, Words] | None:
    """The last line of a sum, and the number that it ends with, where that stands."""
    for total in moment.sums:
        for line in layout.words:
            if total.result and any(line.text.endswith(f"{s}{total.result}") for s in SIGNS):
                before = text_width(line.text.removesuffix(total.result), line.size)
                middle = line.x + before + text_width(total.result, line.size) / 2
                return line, replace(line, text=total.result, x=middle, across="center")
    return None


def _box(panel: Panel, part: Part) -> Box:
    _, row, column = part
    new = np.zeros(panel.grid.values.shape, dtype=bool)
    new[slice(None) if row is None else row, slice(None) if column is None else column] = True
    return _around(panel, new)


def _around(panel: Panel, cells: np.ndarray) -> Box:
    """The box that holds some cells of a panel."""
    rows, columns = (np.flatnonzero(cells.any(axis=axis)) for axis in (1, 0))
    left, bottom, width, height = panel.box
    wide, high = width / cells.shape[1], height / cells.shape[0]
    foot = bottom + height - (rows[-1] + 1) * high
    size = (columns[-1] + 1 - columns[0]) * wide, (rows[-1] + 1 - rows[0]) * high
    return left + float(columns[0]) * wide, float(foot), float(size[0]), float(size[1])


def _ring(box: Box) -> Stroke:
    left, bottom, width, height = box
    right, top = left + width, bottom + height
    corners = (left, bottom), (right, bottom), (right, top), (left, top)
    return Stroke((*corners, corners[0], corners[1]), RING, series=1)
