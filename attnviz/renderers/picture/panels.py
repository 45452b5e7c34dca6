"""The layout of panels: how large everything is, and where each panel stands; in inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered). The
data itself is never cut. A page of a given size is filled; without one it is as large as the
panels want to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attnviz.errors import warn_with_note
from attnviz.renderers import PAGE_PLACEHOLDER
from attnviz.renderers.look import SLIDE_LABEL_POINTS
from attnviz.renderers.picture.charts import curves_chart
from attnviz.renderers.picture.items import Box, Item, Items, Layout, Stroke, Words
from attnviz.renderers.picture.matrix import (
    bars_width,
    color_scales,
    panel_of,
    panel_title_words,
    scale_bars,
)
from attnviz.renderers.picture.page_frame import Captions, Frame, make_frame
from attnviz.renderers.picture.panel_labels import (
    PanelStyle,
    axis_items,
    column_title,
    panel_style,
    row_title,
)
from attnviz.renderers.picture.panel_rows import (
    CHART_HEIGHT,
    MUCH_LARGER,
    Content,
    PanelOrder,
    PanelRows,
    any_columns,
    best_panel_rows,
    rows_of_panels,
)
from attnviz.renderers.picture.text import POINT, SLIDE, SMALLEST, Lettering, Size, lettering
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import Scale

DEFAULT_STYLE = PanelStyle()
STRETCH, SQUEEZE = 2.6, 1.3  # of cells on a page of a given size: so wide or high may they become
LEAST_PANEL = 1.2  # letters of a label: so high and so wide is a panel
SMALLER_LETTERS = (1.0, 0.85, 0.72, 0.6)
BARE_PANELS_GAP = 0.4  # of the usual gap, between panels without labels
NATURAL_SHARE = 0.62  # of the letters of a slide: a picture of its own size is smaller
GROWING_ROUNDS = 8  # rounds in which letters and page grow with each other
NATURAL_SHAPE = 1.5  # width by height of a picture that has no size given
NARROWEST_PAGE, LOWEST_PAGE = 4.6, 2.2
WIDEST_PANEL_GAP = 3.0  # times the usual one, where cells cannot become wider


@dataclass(frozen=True, eq=False)
class FilledPage:
    """A page with its frame, and the panels that are to fill it."""

    frame: Frame
    room: Box
    best: PanelRows

    @property
    def fits(self) -> bool:
        """Whether panels are at least 1.2 letters of a label high and wide."""
        return (
            min(self.best.width, self.best.height) >= LEAST_PANEL * self.frame.letters.label * POINT
        )


def lay_out(
    candidates: Sequence[PanelOrder], size: Size | None, captions: Captions, text_size: float = 1.0
) -> Layout:
    """Return a page with panels in that of some arrangements which makes the cells largest.

    With a size of None the page is as large as its panels want; a note says if letters had to be
    smaller.
    """
    scales = color_scales(candidates[0].panels)
    if size is None:
        candidates, size, letters = natural_page(candidates, scales, captions, text_size)
        form = (1.0, 1.0) if size[0] < SLIDE[0] else (STRETCH, SQUEEZE)
        page = _filled_page(candidates, captions, size, letters, form)
    else:
        page = fill_page(candidates, size, captions, text_size)
        _note_smaller_letters(page, size, text_size)
    drawn, right = place_panels(page.best, page.room)
    bars = scale_bars(drawn, scales, right, page.room[1], page.frame.letters)
    return Layout(size, (*page.frame.words(), *drawn, *bars))


def _note_smaller_letters(page: FilledPage, size: Size, text_size: float) -> None:
    """Note that labels had to be smaller than usual on a page of this size, if they are."""
    usual, actual = lettering(size, text_size).label, page.frame.letters.label
    if actual < usual - 0.01:
        points = SLIDE_LABEL_POINTS * text_size
        note = (
            f"there is no room for labels of {points:g} points: they are drawn at "
            f"{points * actual / usual:.0f}; {PAGE_PLACEHOLDER} in the name of a file makes "
            "several pages"
        )
        warn_with_note(note)


def fill_page(
    candidates: Sequence[PanelOrder], size: Size, captions: Captions, text_size: float
) -> FilledPage:
    """Return a page of a given size, in letters that are smaller where they leave panels no room.

    If even small ones do, panels stand without their labels.
    """
    form, possible = (STRETCH, SQUEEZE), list[FilledPage]()
    for share in SMALLER_LETTERS:
        letters = lettering(size, text_size * share)
        page = _filled_page(candidates, captions, size, letters, form)
        possible += [page] if page.fits else []
        if page.fits and page.best.headings.whole:
            return page
    if possible:
        return possible[0]
    return _filled_page(candidates, captions, size, letters, form, bare=True)


def _filled_page(
    candidates: Sequence[PanelOrder],
    captions: Captions,
    size: Size,
    letters: Lettering,
    form: tuple[float, float],
    *,
    bare: bool = False,
) -> FilledPage:
    """Return a page in these letters with the best of some arrangements.

    `form` is how many times as wide, and as high, cells may be; `bare` panels have no labels.
    """
    frame = make_frame(captions, size, letters)
    left, bottom, width, height = frame.room
    bars = bars_width(color_scales(candidates[0].panels), letters)
    room = (left, bottom, max(width - bars, 0.5), height)
    style = panel_style(letters, size, *form)
    if bare:
        style = replace(style, bare=True, title=style.smallest, gap=BARE_PANELS_GAP * style.gap)
    return FilledPage(frame, room, best_panel_rows(candidates, room, style))


def count_labels(page: FilledPage) -> int:
    """Return the least number of labels on any side of a panel that has some; 0 if none has."""
    counts = (len(ticks.places) for ticks in (*page.best.row_ticks, *page.best.column_ticks))
    return min((count for count in counts if count), default=0)


def panels_in_room(
    drawn: Sequence[Content], room: Box, style: PanelStyle = DEFAULT_STYLE
) -> tuple[list[Item], float]:
    """Return the panels in a part of a page, with their labels; and where the last one ends."""
    return place_panels(best_panel_rows(any_columns(drawn), room, style), room)


def natural_page(
    candidates: Sequence[PanelOrder], scales: Sequence[Scale], captions: Captions, text_size: float
) -> tuple[list[PanelOrder], Size, Lettering]:
    """Return the best arrangement, a page as large as the panels want to be, and its letters.

    Panels are small for many heads, larger for many tokens. Letters grow with the page, for the
    whole of it will be shown on one slide; and it grows to the width of a slide, at most.
    """
    letters = Lettering().scaled(NATURAL_SHARE * text_size)
    sizes = [_natural_size(each, scales, captions, letters) for each in candidates]
    best = min(range(len(sizes)), key=lambda place: _odd_shape(candidates[place], sizes[place]))
    chosen, size = [candidates[best]], sizes[best]
    for _ in range(GROWING_ROUNDS):
        share = min(max(size[0] / SLIDE[0], NATURAL_SHARE), 1.0)
        letters = Lettering().scaled(share * text_size, at_least=SMALLEST * share)
        size = _natural_size(chosen[0], scales, captions, letters)
    if size[0] <= SLIDE[0]:
        return chosen, size, letters
    return chosen, (SLIDE[0], min(max(size[1], SLIDE[1]), SLIDE[0])), letters


def _odd_shape(arranged: PanelOrder, size: Size) -> float:
    """Return how far a page is from a shape of 1.5 to 1, as a logarithm; less if it is
    preferred.
    """
    preferred = math.log(MUCH_LARGER) if arranged.preferred else 0.0
    return abs(math.log(size[0] / size[1] / NATURAL_SHAPE)) - preferred


def _natural_size(
    arranged: PanelOrder, scales: Sequence[Scale], captions: Captions, letters: Lettering
) -> Size:
    """Return the natural size of a page, with the labels and words around its panels."""
    style = panel_style(letters, SLIDE, 1.0, 1.0)
    width, height = _natural_panel(arranged)
    found = rows_of_panels(arranged, width, height, style)
    wide, high = found.column(style.gap).size
    page = max(wide + bars_width(scales, letters) + 2 * letters.margin, NARROWEST_PAGE)
    frame = make_frame(captions, (page, SLIDE[1]), letters)
    return page, max(high + SLIDE[1] - frame.room[3], LOWEST_PAGE)


def _natural_panel(arranged: PanelOrder) -> Size:
    """Return the natural size of a panel: smaller among many, larger for many columns."""
    columns, rows = arranged.columns, arranged.rows
    side = max(1.7, 4.4 / math.sqrt(max(rows, columns * 0.75)))
    grids = [each for each in arranged.panels if isinstance(each, Grid)]
    longest = max((len(grid.columns) for grid in grids), default=1)
    side = min(max(side, 0.115 * longest), max(side, 7.4 / math.sqrt(rows * columns)))
    shapes = (
        CHART_HEIGHT if isinstance(each, Curves) else len(each.rows) / len(each.columns)
        for each in arranged.panels
        if each
    )
    return side, side * max(min(max(shape, 0.2), 1.0) for shape in shapes)


def place_panels(best: PanelRows, room: Box) -> tuple[list[Item], float]:
    """Return the panels with titles and labels at their places in a room, and where the last of
    them ends.
    """
    boxes, right = _panel_boxes_in(best, room)
    return [*_panel_or_chart(best, boxes), *_panel_texts(best, boxes, room)], right


def _panel_boxes_in(best: PanelRows, room: Box) -> tuple[list[Box], float]:
    """Return the boxes of panels, from the left edge, in the middle of the height; and where they
    end.
    """
    gap, wide = best.style.gap, best.column(0.0).size[0]
    spare = (room[2] - wide) / max(best.columns - 1, 1)
    column = best.column(min(max(gap, spare), WIDEST_PANEL_GAP * gap))
    top = room[1] + room[3] - max(0.0, (room[3] - column.size[1]) / 2)
    corners = column.place(room[0], top)
    boxes = [(*corner[:2], *size) for corner, size in zip(corners, best.sizes, strict=True)]
    titles = (box[0] + best.headings.width(place) for place, box in enumerate(boxes))
    return boxes, max(room[0] + column.size[0], *titles)


def _panel_texts(best: PanelRows, boxes: Sequence[Box], room: Box) -> Iterator[Words | Stroke]:
    """Yield titles above panels, labels beside and below, and the titles of axes."""
    style, titles = best.style, best.headings
    for place, (each, box) in enumerate(zip(best.drawn, boxes, strict=True)):
        names, end = _named_lines(best, boxes, place)
        yield from panel_title_words(
            each, titles.lines[place], titles.size, box, style.smallest, names, end - box[0]
        )
        rows, columns = best.row_ticks[place], best.column_ticks[place]
        untitled = replace(rows, title=""), replace(columns, title="")
        yield from axis_items(*untitled, box, style)
    yield from _row_titles(best, boxes, room)
    for row in range(best.arranged.rows):
        yield from _column_titles(best, boxes, best.places(row))


def _named_lines(
    best: PanelRows, boxes: Sequence[Box], place: int
) -> tuple[list[tuple[int, Curve]], float]:
    """Return the curves that a chart names for all charts of its row, and where the last one ends.

    Only the first chart of a row has some; for any other panel the list is empty.
    """
    row = best.places(place // best.columns)
    charts = [each for each in row if isinstance(best.drawn[each], Curves)]
    if not charts or place != charts[0]:
        return [], boxes[place][0]
    by_name: dict[str, tuple[int, Curve]] = {}
    for each in charts:
        curves = best.drawn[each]
        assert isinstance(curves, Curves)
        for number, line in enumerate(curves.lines):
            if line.name != curves.title:
                by_name.setdefault(line.name, (number, line))
    end = boxes[charts[-1]][0] + boxes[charts[-1]][2]
    return list(by_name.values()), end


def _row_titles(best: PanelRows, boxes: Sequence[Box], room: Box) -> Iterator[Words]:
    """Yield one title for all consecutive rows of panels that share it."""
    for column in range(best.columns):
        places = range(column, len(boxes), best.columns)
        for title, run in _title_runs([best.row_ticks[place].title for place in places]):
            among = [places[each] for each in run]
            span = (min(boxes[p][1] for p in among), max(boxes[p][1] + boxes[p][3] for p in among))
            right = min(boxes[p][0] for p in among) - max(best.row_ticks[p].extent for p in places)
            yield from row_title(title, right, span, best.style)


def _column_titles(best: PanelRows, boxes: Sequence[Box], places: range) -> Iterator[Words]:
    """Yield one title for all adjacent columns that share it, in the row of these places."""
    for title, run in _title_runs([best.column_ticks[place].title for place in places]):
        among = [places[each] for each in run]
        span = (boxes[among[0]][0], boxes[among[-1]][0] + boxes[among[-1]][2])
        foot = min(boxes[p][1] - best.column_ticks[p].extent for p in among)
        yield from column_title(title, foot, span, best.style)


def _title_runs(titles: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each title with the places that follow each other with it; places without one are
    skipped.
    """
    run: list[int] = []
    for place, title in enumerate(titles):
        if title and run and titles[run[0]] != title:
            yield titles[run[0]], run
            run = []
        run += [place] if title else []
    if run:
        yield titles[run[0]], run


def _panel_or_chart(best: PanelRows, boxes: Sequence[Box]) -> Items:
    """Yield each panel as cells or as a chart in its box; empty places are passed over."""
    for each, box in zip(best.drawn, boxes, strict=True):
        if isinstance(each, Curves):
            yield curves_chart(each, box)
        elif each:
            yield panel_of(each, box, best.style.number, best.style.smallest)
