"""A page filled with panels: how large each one is, and where it stands; in inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered). The
data itself is never cut. A page of a given size is filled; without one it is as large as the
panels want to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnviz.errors import AttnvizError, opt, warn_with_note
from attnviz.renderers import PAGE_PLACEHOLDER
from attnviz.renderers.look import SLIDE_LABEL_POINTS, USUAL_TEXT, TextSize
from attnviz.renderers.picture.charts import curves_chart
from attnviz.renderers.picture.items import Box, Chart, Item, Items, Layout, Panel, Stroke, Words
from attnviz.renderers.picture.matrix import (
    bars_width,
    build_panel,
    color_scales,
    panel_title_words,
    scale_bars,
)
from attnviz.renderers.picture.page_frame import Captions, Frame, make_frame
from attnviz.renderers.picture.panel_labels import (
    axis_items,
    column_title,
    panel_style,
    row_title,
)
from attnviz.renderers.picture.panel_rows import (
    CHART_ASPECT,
    PREFERENCE_FACTOR,
    PanelOrder,
    PanelRows,
    best_panel_rows,
    build_panel_rows,
)
from attnviz.renderers.picture.text import (
    POINT,
    SLIDE,
    SMALLEST_POINTS,
    Lettering,
    Size,
    lettering,
    paper_lettering,
)
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import Scale

STRETCH, SQUEEZE = 2.6, 1.3  # of cells on a page of a given size: so wide or high may they become
LEAST_SIDE = 1.2  # letters of a label: so high and so wide is a panel
LETTER_SHARES = (1.0, 0.85, 0.72, 0.6)
NO_LABELS_NOTE = (
    "there is no room for labels of {points:g} points on {inches}: panels stand without them; a "
    f"larger {opt.size} or fewer heads make room"
)
EASY_NUMBERS = 1.2  # times the smallest letters: below, only marked cells have numbers
BARE_PANELS_GAP = 0.4  # of the usual gap, between panels without labels
NATURAL_SCALE = 0.62  # of the letters of a slide: a picture of its own size is smaller
GROWING_ROUNDS = 8  # rounds in which letters and page grow with each other
NATURAL_ASPECT = 1.5  # width by height of a picture that has no size given
MAX_NAMED_ROWS, NAMED_ROW = 36, 0.115  # rows of a table that all have a name; inches
NARROWEST_PAGE, LOWEST_PAGE = 4.6, 2.2
WIDEST_PANEL_GAP = 3.0  # times the usual one, where cells cannot become wider


class NoRoomError(AttnvizError):
    """A page that has no room for letters in points; `larger` is a size that has."""

    def __init__(self, points: float, size: Size, larger: Size | None = None) -> None:
        room = (
            f"it has room from {opt.size:{larger[0]:.2g}x{larger[1]:.2g}} on; or " if larger else ""
        )
        super().__init__(
            f"there is no room for letters of {points:g} points on {inches_text(size)}",
            f"{room}try letters of fewer points, or a part of the result",
        )


@dataclass(frozen=True, eq=False)
class FilledPage:
    """A page with its frame, and the panels that are to fill it."""

    frame: Frame
    room: Box
    rows: PanelRows

    @property
    def fits(self) -> bool:
        """Whether panels are at least 1.2 letters of a label high and wide."""
        return (
            min(self.rows.width, self.rows.height) >= LEAST_SIDE * self.frame.letters.label * POINT
        )


def lay_out(
    candidates: Sequence[PanelOrder],
    size: Size | None,
    captions: Captions,
    text: TextSize = USUAL_TEXT,
) -> Layout:
    """Return a page with panels in that of some arrangements which makes the cells largest.

    With a size of None the page is as large as its panels want; a note says if letters had to be
    smaller.
    """
    scales = color_scales(candidates[0].panels)
    if size is None:
        candidates, size, letters = natural_page(candidates, scales, captions, text)
        cell_form = (1.0, 1.0) if size[0] < SLIDE[0] else (STRETCH, SQUEEZE)
        page = _filled_page(candidates, captions, size, letters, cell_form)
    else:
        page = fill_page(candidates, size, captions, text)
        if text.points is None:
            note_smaller_letters(page.frame.letters, size, text)
        elif not page.fits:
            raise NoRoomError(text.points, size)
        elif page.rows.style.bare:
            warn_with_note(NO_LABELS_NOTE.format(points=text.points, inches=inches_text(size)))
    items, right = place_panels(page.rows, page.room)
    right = min(right, page.room[0] + page.room[2])  # where a title reaches beyond its panel
    bars = scale_bars(items, scales, right, page.frame.span, page.frame.letters)
    return Layout(size, (*page.frame.words(), *items, *bars))


def inches_text(size: Size) -> str:
    """Return a size in words: `3.3 by 2.5 inches`."""
    return f"{size[0]:.3g} by {size[1]:.3g} inches"


def note_smaller_letters(letters: Lettering, size: Size, text: TextSize) -> None:
    """Note that labels had to be smaller than asked for on a page of this size, if they are."""
    usual, actual = lettering(size, text).label, letters.label
    if actual < usual - 0.01:
        points = SLIDE_LABEL_POINTS * text.factor
        note = (
            f"there is no room for labels of {points:g} points: they are drawn at "
            f"{points * actual / usual:.0f}; {PAGE_PLACEHOLDER} in the name of a file makes "
            "several pages"
        )
        warn_with_note(note)


def fill_page(
    candidates: Sequence[PanelOrder], size: Size, captions: Captions, text: TextSize
) -> FilledPage:
    """Return a page of a given size, in letters that are smaller where they leave panels no room.

    If even small ones do, panels stand without their labels. Letters in points become no smaller.
    """
    cell_form, pages = (STRETCH, SQUEEZE), list[FilledPage]()
    for share in LETTER_SHARES if text.points is None else LETTER_SHARES[:1]:
        letters = lettering(size, text.scaled(share))
        page = _filled_page(candidates, captions, size, letters, cell_form)
        pages += [page] if page.fits else []
        if page.fits and page.rows.headings.on_one_line:
            return page
    if pages:
        return pages[0]
    return _filled_page(candidates, captions, size, letters, cell_form, bare=True)


def _filled_page(
    candidates: Sequence[PanelOrder],
    captions: Captions,
    size: Size,
    letters: Lettering,
    cell_form: tuple[float, float],
    *,
    bare: bool = False,
) -> FilledPage:
    """Return a page in these letters with the best of some arrangements.

    `cell_form` is how many times as wide, and as high, cells may be; `bare` panels have no labels.
    """
    frame = make_frame(captions, size, letters)
    left, bottom, width, height = frame.room
    bars = bars_width(color_scales(candidates[0].panels), letters)
    room = (left, bottom, max(width - bars, 0.5), height)
    style = panel_style(letters, size, *cell_form)
    if bare:
        style = replace(style, bare=True, title=style.smallest, gap=BARE_PANELS_GAP * style.gap)
    return FilledPage(frame, room, best_panel_rows(candidates, room, style))


def least_label_count(page: FilledPage) -> int:
    counts = (len(ticks.positions) for ticks in (*page.rows.row_ticks, *page.rows.column_ticks))
    return min((count for count in counts if count), default=0)


def natural_page(
    candidates: Sequence[PanelOrder], scales: Sequence[Scale], captions: Captions, text: TextSize
) -> tuple[list[PanelOrder], Size, Lettering]:
    """Return the best arrangement, a page as large as the panels want to be, and its letters.

    Panels are small for many heads, larger for many tokens. Letters grow with the page, for the
    whole of it will be shown on one slide; and it grows to the width of a slide, at most.
    """
    letters = _natural_letters(NATURAL_SCALE, text)
    sizes = [_natural_size(order, scales, captions, letters) for order in candidates]
    best = min(range(len(sizes)), key=lambda index: _shape_penalty(candidates[index], sizes[index]))
    orders, size = [candidates[best]], sizes[best]
    for _ in range(GROWING_ROUNDS):
        share = min(max(size[0] / SLIDE[0], NATURAL_SCALE), 1.0)
        letters = _natural_letters(share, text)
        size = _natural_size(orders[0], scales, captions, letters)
    if size[0] <= SLIDE[0]:
        return orders, size, letters
    return orders, (SLIDE[0], min(max(size[1], SLIDE[1]), SLIDE[0])), letters


def _natural_letters(share: float, text: TextSize) -> Lettering:
    """Return letters for a page that has `share` of the width of a slide; points stay points."""
    if text.points is not None:
        return paper_lettering(text.points)
    return Lettering().scaled(share * text.factor, at_least=SMALLEST_POINTS * share)


def _shape_penalty(order: PanelOrder, size: Size) -> float:
    """Return how far a page is from a shape of 1.5 to 1, as a logarithm; less if it is
    preferred, and more if its last row is not full.
    """
    ragged = len(order.panels) % order.columns > 0
    preferred = math.log(PREFERENCE_FACTOR) * (order.preferred - ragged)
    return abs(math.log(size[0] / size[1] / NATURAL_ASPECT)) - preferred


def _natural_size(
    order: PanelOrder, scales: Sequence[Scale], captions: Captions, letters: Lettering
) -> Size:
    """Return the natural size of a page, with the labels and words around its panels."""
    style = panel_style(letters, SLIDE, 1.0, 1.0)
    width, height = _natural_panel_size(order)
    panels = build_panel_rows(order, width, height, style)
    wide, high = panels.column(style.gap).size
    page_width = max(wide + bars_width(scales, letters) + 2 * letters.margin, NARROWEST_PAGE)
    frame = make_frame(captions, (page_width, SLIDE[1]), letters)
    return page_width, max(high + SLIDE[1] - frame.room[3], LOWEST_PAGE)


def _natural_panel_size(order: PanelOrder) -> Size:
    """Return the natural size of a panel: smaller among many, larger for many columns."""
    columns, rows = order.columns, order.rows
    side = max(1.7, 4.4 / math.sqrt(max(rows, columns * 0.75)))
    grids = [panel for panel in order.panels if isinstance(panel, Grid)]
    longest = max((len(grid.columns) for grid in grids), default=1)
    side = min(max(side, 0.115 * longest), max(side, 7.4 / math.sqrt(rows * columns)))
    shapes = (
        CHART_ASPECT if isinstance(panel, Curves) else len(panel.rows) / len(panel.columns)
        for panel in order.panels
        if panel
    )
    height = side * max(min(max(shape, 0.2), 1.0) for shape in shapes)
    tables = (len(grid.rows) for grid in grids if grid.rows.unit != grid.columns.unit)
    most_rows = max((rows for rows in tables if rows <= MAX_NAMED_ROWS), default=0)
    return side, max(height, NAMED_ROW * most_rows)


def place_panels(panels: PanelRows, room: Box) -> tuple[list[Item], float]:
    """Return the panels with titles and labels at their places in a room, and where the last of
    them ends.
    """
    boxes, right = _boxes_in_room(panels, room)
    return [*_panel_items(panels, boxes), *_panel_texts(panels, boxes, room)], right


def _boxes_in_room(panels: PanelRows, room: Box) -> tuple[list[Box], float]:
    """Return the boxes of panels, from the left edge, in the middle of the height; and where they
    end.
    """
    gap, wide = panels.style.gap, panels.column(0.0).size[0]
    spare = (room[2] - wide) / max(panels.columns - 1, 1)
    column = panels.column(min(max(gap, spare), WIDEST_PANEL_GAP * gap))
    top = room[1] + room[3] - max(0.0, (room[3] - column.size[1]) / 2)
    corners = column.boxes(room[0], top)
    boxes = [(*corner[:2], *size) for corner, size in zip(corners, panels.sizes, strict=True)]
    titles = (box[0] + panels.headings.width(index) for index, box in enumerate(boxes))
    return boxes, max(room[0] + column.size[0], *titles)


def _panel_texts(panels: PanelRows, boxes: Sequence[Box], room: Box) -> Iterator[Words | Stroke]:
    """Yield titles above panels, labels beside and below, and the titles of axes."""
    style, titles = panels.style, panels.headings
    for index, (content, box) in enumerate(zip(panels.contents, boxes, strict=True)):
        curves, end = _curves_to_name(panels, boxes, index)
        yield from panel_title_words(
            content, titles.lines[index], titles.size, box, style.smallest, curves, end - box[0]
        )
        rows, columns = panels.row_ticks[index], panels.column_ticks[index]
        yield from axis_items(rows.untitled, columns.untitled, box, style)
    yield from _row_titles(panels, boxes, room)
    for row in range(panels.order.rows):
        yield from _column_titles(panels, boxes, panels.indices(row))


def _curves_to_name(
    panels: PanelRows, boxes: Sequence[Box], index: int
) -> tuple[list[tuple[int, Curve]], float]:
    """Return the curves that a chart names for all charts of its row, and where the last one ends.

    Only the first chart of a row has some; for any other panel the list is empty.
    """
    row = panels.indices(index // panels.columns)
    charts = [chart for chart in row if isinstance(panels.contents[chart], Curves)]
    if not charts or index != charts[0]:
        return [], boxes[index][0]
    by_name: dict[str, tuple[int, Curve]] = {}
    for chart in charts:
        curves = panels.contents[chart]
        assert isinstance(curves, Curves)
        for number, line in enumerate(curves.lines):
            if line.name != curves.title:
                by_name.setdefault(line.name, (number, line))
    end = boxes[charts[-1]][0] + boxes[charts[-1]][2]
    return list(by_name.values()), end


def _row_titles(panels: PanelRows, boxes: Sequence[Box], room: Box) -> Iterator[Words]:
    """Yield one title for all consecutive rows of panels that share it."""
    for column in range(panels.columns):
        places = range(column, len(boxes), panels.columns)
        for title, run in _title_runs([panels.row_ticks[index].title for index in places]):
            part = [places[position] for position in run]
            span = (min(boxes[p][1] for p in part), max(boxes[p][1] + boxes[p][3] for p in part))
            right = min(boxes[p][0] for p in part) - max(panels.row_ticks[p].extent for p in places)
            yield from row_title(title, right, span, panels.style)


def _column_titles(panels: PanelRows, boxes: Sequence[Box], indices: range) -> Iterator[Words]:
    """Yield one title for all adjacent columns that share it, in the row of these places."""
    for title, run in _title_runs([panels.column_ticks[index].title for index in indices]):
        part = [indices[position] for position in run]
        span = (boxes[part[0]][0], boxes[part[-1]][0] + boxes[part[-1]][2])
        foot = min(boxes[p][1] - panels.column_ticks[p].extent for p in part)
        yield from column_title(title, foot, span, panels.style)


def _title_runs(titles: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each title with the places that follow each other with it; places without one are
    skipped.
    """
    run: list[int] = []
    for index, title in enumerate(titles):
        if title and run and titles[run[0]] != title:
            yield titles[run[0]], run
            run = []
        run += [index] if title else []
    if run:
        yield titles[run[0]], run


def _panel_items(panels: PanelRows, boxes: Sequence[Box]) -> Items:
    """Yield each panel as cells or as a chart in its box; empty places are passed over.

    Grids of one shape on one scale have numbers of one size, or none.
    """
    items: list[Chart | Panel] = []
    fitting: dict[tuple[object, ...], float] = {}
    for content, box in zip(panels.contents, boxes, strict=True):
        if isinstance(content, Curves):
            items.append(curves_chart(content, box))
        elif content:
            panel = build_panel(content, box, panels.style.number, panels.style.smallest)
            key = (content.scale, content.cells.shape)
            fitting[key] = min(panel.fitting, fitting.get(key, panel.fitting))
            items.append(panel)
    has_marks = any(isinstance(item, Panel) and item.grid.marks for item in items)
    for item in items:
        if isinstance(item, Panel):
            item = replace(item, fitting=fitting[item.grid.scale, item.grid.cells.shape])
            if has_marks and 0 < item.number_size < EASY_NUMBERS * panels.style.smallest:
                item = replace(item, numbers=_marked_numbers(item))
        yield item


def _marked_numbers(panel: Panel) -> np.ndarray:
    """Return the numbers of marked cells alone: many small ones would hide what is marked."""
    numbers = np.full_like(panel.numbers, "")
    for row, start, end in panel.grid.marks:
        numbers[row, start:end] = panel.numbers[row, start:end]
    return numbers
