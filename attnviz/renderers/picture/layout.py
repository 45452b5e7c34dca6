"""How large everything in a picture of panels is, and where it stands; all lengths are inches.

Labels shrink until they can no longer be read, then they thin out (every n-th, numbered). The
data itself is never cut. A page of a given size is filled; without one it is as large as the
panels want to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.renderers.picture.arrangement import Arranged, Shown, free
from attnviz.renderers.picture.bars import bar_labels, bar_marks, bar_space, bars_beside, scales_of
from attnviz.renderers.picture.charts import Chart, chart, chart_ticks
from attnviz.renderers.picture.frame import Captions, Frame, framed
from attnviz.renderers.picture.labels import column_title, labels_at, marks_at, row_title
from attnviz.renderers.picture.lettering import POINT, SLIDE, SMALLEST, Lettering, Size, lettering
from attnviz.renderers.picture.numbers import NUMBER_SHARE, longest_number, panel_of
from attnviz.renderers.picture.placed import Box, Layout, Mark, Panel, Words
from attnviz.renderers.picture.texts import Headings, headings, panel_words
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    Ticks,
    column_ticks,
    no_ticks,
    reach,
    row_ticks,
    style_of,
)
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.scales import Scale

DEFAULT_STYLE = PanelStyle()

FEW, FEW_STRETCH = 12, 4.0  # columns, whose cells may be wider
STRETCH, SQUEEZE = 2.6, 1.3  # of cells on a page of a given size: so wide or high may they become
LEAST = 1.2  # letters of a label: so high and so wide is a panel
SMALLER_LETTERS = (1.0, 0.85, 0.72, 0.6)
LOWEST_ROW = 0.17  # of vectors with very many dimensions
TITLE_BEYOND = 0.5  # of the gap beside a panel, its title may reach into it
WIDEST_GAP = 3.0  # times the usual one, where cells cannot become wider
GAP_BELOW = 0.5  # of the gap between two panels beside each other
CHART_HEIGHT = 0.72  # of its width
CHART_CELLS = 16  # as many cells of a grid count as much as a chart
MUCH_LARGER = 1.6  # times the cell: so large it must be, to be better than what is preferred
NATURAL_SHARE = 0.62  # of the letters of a slide: a picture of its own size is smaller
GROWING = 8  # rounds in which letters and page grow with each other
NATURAL_SHAPE = 1.5  # width by height of a picture that has no size given
NARROWEST, LOWEST = 4.6, 2.2


@dataclass(frozen=True, eq=False)
class PanelRows:
    """Panels in rows and columns, with the room that each row and column gives to labels."""

    arranged: Arranged
    style: PanelStyle
    headings: Headings
    row_ticks: tuple[Ticks, ...]
    column_ticks: tuple[Ticks, ...]
    width: float  # of the room for one panel, without its labels
    height: float

    @property
    def drawn(self) -> tuple[Shown, ...]:
        return self.arranged.panels

    @property
    def columns(self) -> int:
        return self.arranged.columns

    def places(self, row: int) -> range:
        """The panels of a row."""
        start = row * self.columns
        return range(start, min(start + self.columns, len(self.drawn)))

    def heading(self, row: int) -> float:
        """The room for titles above a row."""
        return self.headings.height(self.places(row))

    def label_width(self, column: int) -> float:
        """Of labels on the left; those beside an empty place stand in it."""
        places = range(column, len(self.drawn), self.columns)
        beside = [place for place in places if not (column and self.drawn[place - 1] is None)]
        return max((reach(self.row_ticks[place], self.style) for place in beside), default=0.0)

    def label_height(self, row: int) -> float:
        """Of labels below; those above an empty place stand in it."""
        below = self.drawn[(row + 1) * self.columns :]
        above = (
            place
            for number, place in enumerate(self.places(row))
            if number >= len(below) or below[number]
        )
        return max((reach(self.column_ticks[each], self.style) for each in above), default=0.0)

    @property
    def labels(self) -> Size:
        """What all labels and titles take of a page."""
        wide = sum(self.label_width(column) for column in range(self.columns))
        rows = range(self.arranged.rows)
        return wide, sum(self.label_height(row) + self.heading(row) for row in rows)

    @cached_property
    def sizes(self) -> list[Size]:
        return [_size(each, self.width, self.height, self.style) for each in self.drawn]

    @property
    def cell(self) -> float:
        """The area of the smallest cell."""
        areas = (
            width * height / (each.values.size if isinstance(each, Grid) else CHART_CELLS)
            for each, (width, height) in zip(self.drawn, self.sizes, strict=True)
            if each
        )
        preferred = MUCH_LARGER if self.arranged.preferred else 1.0
        return min(areas) * preferred * self.headings.worth(self.style)


@dataclass(frozen=True, eq=False)
class Filled:
    """A page with its frame, and the panels that are to fill it."""

    frame: Frame
    room: Box
    best: PanelRows

    @property
    def fits(self) -> bool:
        """Whether panels are at least as high and as wide as a label."""
        return min(self.best.width, self.best.height) >= LEAST * self.frame.letters.label * POINT


def lay_out(
    candidates: Sequence[Arranged], size: Size | None, captions: Captions, text_size: float = 1.0
) -> Layout:
    """Panels in rows and columns, as many of each as make the cells largest."""
    scales = scales_of(candidates[0].panels)
    if size is None:
        candidates, size, letters = natural(candidates, scales, captions, text_size)
        form = (1.0, 1.0) if size[0] < SLIDE[0] else (STRETCH, SQUEEZE)
        page = _filled(candidates, captions, size, letters, form)
    else:
        page = filled(candidates, size, captions, text_size)
    placed, right = _placed(page.best, page.room)
    around = tuple(page.frame.words())
    return replace(with_bars(placed, scales, right, page.frame.letters, around), size=size)


def filled(
    candidates: Sequence[Arranged], size: Size, captions: Captions, text_size: float
) -> Filled:
    """A page of a given size, in letters that are smaller where they leave panels no room."""
    for share in SMALLER_LETTERS:
        letters = lettering(size, text_size * share)
        page = _filled(candidates, captions, size, letters, (STRETCH, SQUEEZE))
        if page.fits:
            break
    return page


def _filled(
    candidates: Sequence[Arranged],
    captions: Captions,
    size: Size,
    letters: Lettering,
    form: tuple[float, float],
) -> Filled:
    frame = framed(captions, size, letters)
    left, bottom, width, height = frame.room
    bars = bar_space(scales_of(candidates[0].panels), letters)
    room = (left, bottom, max(width - bars, 0.5), height)
    return Filled(frame, room, settled(candidates, room, style_of(letters, size, *form)))


def labels_shown(page: Filled) -> int:
    """How many of the labels of its tokens a panel has, at least."""
    shown = (len(ticks.places) for ticks in (*page.best.row_ticks, *page.best.column_ticks))
    return min((count for count in shown if count), default=0)


def with_bars(
    placed: Layout,
    scales: Sequence[Scale],
    right: float,
    letters: Lettering,
    around: tuple[Words, ...] = (),
) -> Layout:
    """The same with the colour bars of its scales beside it."""
    bars = tuple(bars_beside(placed, scales, right, letters))
    words = (*around, *placed.words, *(each for bar in bars for each in bar_labels(bar, letters)))
    marks = (*placed.marks, *(mark for bar in bars for mark in bar_marks(bar)))
    return replace(placed, bars=bars, words=words, marks=marks)


def place(
    drawn: Sequence[Shown], room: Box, style: PanelStyle = DEFAULT_STYLE
) -> tuple[Layout, float]:
    """The panels in a part of a page, with their labels; and where the last one ends."""
    return _placed(settled(free(drawn), room, style), room)


def settled(candidates: Sequence[Arranged], room: Box, style: PanelStyle) -> PanelRows:
    """The panels as one of these ways sets them: the one with the largest cells."""
    return max((_settled(each, room, style) for each in candidates), key=lambda each: each.cell)


def _placed(best: PanelRows, room: Box) -> tuple[Layout, float]:
    boxes, right = _boxes(best, room)
    words, marks = tuple(_words(best, boxes, room)), tuple(_marks(best, boxes))
    panels, charts = tuple(_panels(best, boxes)), tuple(_charts(best, boxes))
    return Layout((room[2], room[3]), panels, charts, (), words, marks), right


def natural(
    candidates: Sequence[Arranged], scales: Sequence[Scale], captions: Captions, text_size: float
) -> tuple[list[Arranged], Size, Lettering]:
    """As large as the panels want to be: small ones for many heads, larger ones for many tokens.

    Letters grow with the page, for the whole of it will be shown on one slide; and it grows to
    the width of a slide, at most.
    """
    letters = Lettering().scaled(NATURAL_SHARE * text_size)
    sizes = [_page(each, scales, captions, letters) for each in candidates]
    best = min(range(len(sizes)), key=lambda place: _oddness(candidates[place], sizes[place]))
    chosen, size = [candidates[best]], sizes[best]
    for _ in range(GROWING):
        share = min(max(size[0] / SLIDE[0], NATURAL_SHARE), 1.0)
        letters = Lettering().scaled(share * text_size, at_least=SMALLEST * share)
        size = _page(chosen[0], scales, captions, letters)
    if size[0] <= SLIDE[0]:
        return chosen, size, letters
    return chosen, (SLIDE[0], min(max(size[1], SLIDE[1]), SLIDE[0])), letters


def _oddness(arranged: Arranged, size: Size) -> float:
    """How far a page is from the shape of a picture that one would choose."""
    preferred = math.log(MUCH_LARGER) if arranged.preferred else 0.0
    return abs(math.log(size[0] / size[1] / NATURAL_SHAPE)) - preferred


def _page(
    arranged: Arranged, scales: Sequence[Scale], captions: Captions, letters: Lettering
) -> Size:
    """The page that the panels want, with what stands around them."""
    style = style_of(letters, SLIDE, 1.0, 1.0)
    width, height = _natural_panel(arranged)
    found = _in_panels(arranged, width, height, style)
    labels_wide, labels_high = found.labels
    columns, rows = _columns_and_rows(found)
    wide = sum(columns) + labels_wide + style.gap * (len(columns) - 1)
    high = sum(rows) + labels_high + GAP_BELOW * style.gap * (len(rows) - 1)
    page = max(wide + bar_space(scales, letters) + 2 * letters.margin, NARROWEST)
    frame = framed(captions, (page, SLIDE[1]), letters)
    return page, max(high + SLIDE[1] - frame.room[3], LOWEST)


def _natural_panel(arranged: Arranged) -> Size:
    """How large a panel wants to be among so many."""
    columns, rows = arranged.columns, arranged.rows
    side = max(1.7, 4.4 / math.sqrt(max(rows, columns * 0.75)))
    grids = [each for each in arranged.panels if isinstance(each, Grid)]
    longest = max((len(grid.columns) for grid in grids), default=1)
    side = min(max(side, 0.115 * longest), max(side, 7.4 / math.sqrt(rows * columns)))
    return side, max(side * _natural_height(each) for each in arranged.panels if each)


def _natural_height(each: Grid | Curves) -> float:
    """The height of a panel as a part of its width, cells being about as high as wide."""
    if isinstance(each, Curves):
        return CHART_HEIGHT
    return min(1.0, max(0.2, len(each.rows) / len(each.columns)))


def _settled(arranged: Arranged, room: Box, style: PanelStyle) -> PanelRows:
    """Labels take room from panels, and panels give labels their size: settled in a few rounds."""
    columns, rows = arranged.columns, arranged.rows
    width, height = room[2] / columns, room[3] / rows
    for _ in range(4):
        found = _in_panels(arranged, width, height, style)
        labels_wide, labels_high = found.labels
        width = max((room[2] - style.gap * (columns - 1) - labels_wide) / columns, 0.1)
        height = max((room[3] - GAP_BELOW * style.gap * (rows - 1) - labels_high) / rows, 0.1)
    return replace(found, width=width, height=height)


def _in_panels(arranged: Arranged, width: float, height: float, style: PanelStyle) -> PanelRows:
    """The labels that panels of this size have."""
    rows, across = _ticks(arranged, width, height, style)
    titles = headings(arranged.panels, width + TITLE_BEYOND * style.gap, style)
    return PanelRows(arranged, style, titles, rows, across, width, height)


def _ticks(
    arranged: Arranged, width: float, height: float, style: PanelStyle
) -> tuple[tuple[Ticks, ...], tuple[Ticks, ...]]:
    """The labels of every panel; a neighbour's on the left, or below, serve for both."""
    drawn, columns = arranged.panels, arranged.columns
    ticks = []
    for place, each in enumerate(drawn):
        left = drawn[place - 1] if place % columns else None
        size = _size(each, width, height, style)
        rows, across = _ticks_of(each, left, _below(arranged, place), size, style)
        if place % columns and left is None:
            rows = replace(rows, title="")  # stands at the left of the rows above
        ticks.append((rows, across))
    of_rows, of_columns = zip(*ticks, strict=True)
    return of_rows, of_columns


def _below(arranged: Arranged, place: int) -> Shown:
    """The panel whose labels serve for one above it: beyond an empty place that it stands over."""
    drawn, columns = arranged.panels, arranged.columns
    under = range(place + columns, len(drawn), columns)
    found = next((drawn[each] for each in under if drawn[each]), None)
    if found is None and under and (place + 1) % columns:
        return drawn[under[0] + 1]
    return found


def _ticks_of(
    each: Shown, left: Shown, below: Shown, size: Size, style: PanelStyle
) -> tuple[Ticks, Ticks]:
    if each is None:
        return Ticks("", 1), Ticks("", 1)
    if isinstance(each, Curves):
        return chart_ticks(each, *size, style.label)
    beside = isinstance(left, Grid) and left.values.shape == each.values.shape
    same_rows = beside and isinstance(left, Grid) and left.rows == each.rows
    same_columns = isinstance(below, Grid) and below.columns == each.columns
    rows = no_ticks(each.rows)
    if not same_rows:
        rows = row_ticks(each.rows, size[1] / len(each.rows), style)
        if isinstance(left, Grid) and left.rows.title == each.rows.title:
            rows = replace(rows, title="")  # stands at the left of the row already
    if same_columns:
        return rows, no_ticks(each.columns)
    return rows, column_ticks(each.columns, size[0] / len(each.columns), style)


def _size(each: Shown, width: float, height: float, style: PanelStyle) -> Size:
    """How much of its room a panel takes: cells are about square where both sides count the same.

    On a page of many panels they may be wider, for then their numbers can be larger.
    """
    if each is None:
        return 0.0, 0.0
    if isinstance(each, Curves):
        return width, min(height, width * CHART_HEIGHT * style.squeeze)
    columns, rows = len(each.columns), len(each.rows)
    wide, high = width / columns, height / rows
    if each.rows.counts == each.columns.counts and rows > 1:
        stretch = style.stretch if style.stretch == 1 or columns > FEW else FEW_STRETCH
        return min(wide, high * stretch) * columns, min(high, wide * style.squeeze) * rows
    numbers = longest_number(each) * style.numbers / 10 / NUMBER_SHARE if style.numbers else 0.0
    widest = max(high * 1.6 * style.stretch * columns, 0.3 * width, numbers * columns)
    return min(width, widest), min(height, max(wide * max(style.squeeze, 1.2), LOWEST_ROW) * rows)


def _columns_and_rows(best: PanelRows) -> tuple[list[float], list[float]]:
    """How wide each column is, and how high each row."""
    sizes, count = best.sizes, best.columns
    columns = [
        max(_wide_enough(best, place) for place in range(column, len(sizes), count))
        for column in range(count)
    ]
    rows = [max(sizes[place][1] for place in best.places(row)) for row in range(best.arranged.rows)]
    return columns, rows


def _wide_enough(best: PanelRows, place: int) -> float:
    """The width of a panel, or that of its title where there is room for it."""
    title = best.headings.width(place) - TITLE_BEYOND * best.style.gap
    return max(best.sizes[place][0], min(title, best.width))


def _boxes(best: PanelRows, room: Box) -> tuple[list[Box], float]:
    """Panels from the left edge, in the middle of the height; and where they end."""
    columns, rows = _columns_and_rows(best)
    gap = best.style.gap
    label_widths = [best.label_width(column) for column in range(best.columns)]
    taken = sum(label_widths) + sum(columns)
    spare = (room[2] - taken) / max(len(columns) - 1, 1)
    spread = min(max(gap, spare), WIDEST_GAP * gap)
    lefts, right = _edges(label_widths, columns, [0.0] * len(columns), spread)
    indices = range(len(rows))
    tops, bottom = _edges(
        [best.heading(row) for row in indices],
        rows,
        [best.label_height(row) for row in indices],
        GAP_BELOW * gap,
    )
    top = room[1] + room[3] - max(0.0, (room[3] - bottom) / 2)
    boxes = []
    for place, (width, height) in enumerate(best.sizes):
        row, column = divmod(place, best.columns)
        boxes.append((room[0] + lefts[column], top - tops[row] - height, width, height))
    return boxes, room[0] + right


def _edges(
    before: Sequence[float], sizes: Sequence[float], after: Sequence[float], gap: float
) -> tuple[list[float], float]:
    """Where each of a row of boxes begins, and where the last one and its labels end."""
    starts, place = [], 0.0
    for room, size, room_behind in zip(before, sizes, after, strict=True):
        starts.append(place + room)
        place += room + size + room_behind + gap
    return starts, place - gap


def _words(best: PanelRows, boxes: Sequence[Box], room: Box) -> Iterator[Words]:
    """Titles above panels, labels beside and below, and what the sides are."""
    style, titles = best.style, best.headings
    for place, (each, box) in enumerate(zip(best.drawn, boxes, strict=True)):
        yield from panel_words(each, titles.lines[place], titles.size, box, style.smallest)
        rows, columns = best.row_ticks[place], best.column_ticks[place]
        untitled = replace(rows, title=""), replace(columns, title="")
        yield from labels_at(*untitled, box, style)
    yield from _row_titles(best, boxes, room)
    for row in range(best.arranged.rows):
        yield from _column_titles(best, boxes, best.places(row))


def _row_titles(best: PanelRows, boxes: Sequence[Box], room: Box) -> Iterator[Words]:
    """One for all rows that follow each other and are the same."""
    for column in range(best.columns):
        places = range(column, len(boxes), best.columns)
        for title, run in _runs([best.row_ticks[place].title for place in places]):
            among = [places[each] for each in run]
            span = (min(boxes[p][1] for p in among), max(boxes[p][1] + boxes[p][3] for p in among))
            right = min(boxes[p][0] for p in among) - max(best.row_ticks[p].extent for p in places)
            yield from row_title(title, right, span, best.style)


def _column_titles(best: PanelRows, boxes: Sequence[Box], places: range) -> Iterator[Words]:
    """One for all columns of a row that are the same."""
    for title, run in _runs([best.column_ticks[place].title for place in places]):
        among = [places[each] for each in run]
        span = (boxes[among[0]][0], boxes[among[-1]][0] + boxes[among[-1]][2])
        foot = min(boxes[p][1] - best.column_ticks[p].extent for p in among)
        yield from column_title(title, foot, span, best.style)


def _runs(titles: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Places that follow each other with the same title; places without one are passed over."""
    run: list[int] = []
    for place, title in enumerate(titles):
        if title and run and titles[run[0]] != title:
            yield titles[run[0]], run
            run = []
        run += [place] if title else []
    if run:
        yield titles[run[0]], run


def _marks(best: PanelRows, boxes: Sequence[Box]) -> Iterator[Mark]:
    for rows, columns, box in zip(best.row_ticks, best.column_ticks, boxes, strict=True):
        yield from marks_at(rows, columns, box)


def _panels(best: PanelRows, boxes: Sequence[Box]) -> Iterator[Panel]:
    for each, box in zip(best.drawn, boxes, strict=True):
        if isinstance(each, Grid):
            yield panel_of(each, box, best.style.number, best.style.smallest)


def _charts(best: PanelRows, boxes: Sequence[Box]) -> Iterator[Chart]:
    for each, box in zip(best.drawn, boxes, strict=True):
        if isinstance(each, Curves):
            yield chart(each, box)
