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
from attnviz.renderers.picture.arrangement import Arranged, Shown, free
from attnviz.renderers.picture.bars import (
    bar_labels,
    bar_marks,
    bar_space,
    bars_beside,
    letters_of_bars,
    scales_of,
)
from attnviz.renderers.picture.charts import Chart, chart
from attnviz.renderers.picture.frame import Captions, Frame, framed
from attnviz.renderers.picture.items import Box, Layout, Mark, Panel, Words
from attnviz.renderers.picture.lettering import POINT, SLIDE, SMALLEST, Lettering, Size, lettering
from attnviz.renderers.picture.numbers import panel_of
from attnviz.renderers.picture.panel_rows import (
    CHART_HEIGHT,
    GAP_BELOW,
    MUCH_LARGER,
    PanelRows,
    columns_and_rows,
    in_panels,
    settled,
)
from attnviz.renderers.picture.texts import (
    column_title,
    labels_at,
    marks_at,
    panel_words,
    row_title,
)
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    style_of,
)
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import Scale

DEFAULT_STYLE = PanelStyle()
STRETCH, SQUEEZE = 2.6, 1.3  # of cells on a page of a given size: so wide or high may they become
LEAST = 1.2  # letters of a label: so high and so wide is a panel
SMALLER_LETTERS = (1.0, 0.85, 0.72, 0.6)
BARE_GAP = 0.4  # of the usual gap, between panels without labels
NATURAL_SHARE = 0.62  # of the letters of a slide: a picture of its own size is smaller
GROWING = 8  # rounds in which letters and page grow with each other
NATURAL_SHAPE = 1.5  # width by height of a picture that has no size given
NARROWEST, LOWEST = 4.6, 2.2


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
        _tell_of_smaller_letters(page, size, text_size)
    drawn, right = placed(page.best, page.room)
    around = tuple(page.frame.words())
    return replace(
        with_bars(drawn, scales, right, page.room[1], page.frame.letters, around), size=size
    )


def _tell_of_smaller_letters(page: Filled, size: Size, text_size: float) -> None:
    wanted, found = lettering(size, text_size).label, page.frame.letters.label
    if found < wanted - 0.01:
        points = SLIDE_LABEL_POINTS * text_size
        note = (
            f"there is no room for labels of {points:g} points: they are drawn at "
            f"{points * found / wanted:.0f}; {PAGE_PLACEHOLDER} in the name of a file makes several pages"
        )
        warn_with_note(note)


def filled(
    candidates: Sequence[Arranged], size: Size, captions: Captions, text_size: float
) -> Filled:
    """A page of a given size, in letters that are smaller where they leave panels no room.

    Where even small ones do, panels stand without their labels.
    """
    form, possible = (STRETCH, SQUEEZE), list[Filled]()
    for share in SMALLER_LETTERS:
        letters = lettering(size, text_size * share)
        page = _filled(candidates, captions, size, letters, form)
        possible += [page] if page.fits else []
        if page.fits and page.best.headings.whole:
            return page
    if possible:
        return possible[0]
    return _filled(candidates, captions, size, letters, form, bare=True)


def _filled(
    candidates: Sequence[Arranged],
    captions: Captions,
    size: Size,
    letters: Lettering,
    form: tuple[float, float],
    *,
    bare: bool = False,
) -> Filled:
    frame = framed(captions, size, letters)
    left, bottom, width, height = frame.room
    bars = bar_space(scales_of(candidates[0].panels), letters)
    room = (left, bottom, max(width - bars, 0.5), height)
    style = style_of(letters, size, *form)
    if bare:
        style = replace(style, bare=True, title=style.smallest, gap=BARE_GAP * style.gap)
    return Filled(frame, room, settled(candidates, room, style))


def labels_shown(page: Filled) -> int:
    """How many of the labels of its tokens a panel has, at least."""
    shown = (len(ticks.places) for ticks in (*page.best.row_ticks, *page.best.column_ticks))
    return min((count for count in shown if count), default=0)


def with_bars(
    drawn: Layout,
    scales: Sequence[Scale],
    right: float,
    foot: float,
    letters: Lettering,
    around: tuple[Words, ...] = (),
) -> Layout:
    """The same with the colour bars of its scales beside it, which end above a foot."""
    letters = letters_of_bars(drawn, scales, foot, letters)
    bars = tuple(bars_beside(drawn, scales, right, letters))
    words = (*around, *drawn.words, *(each for bar in bars for each in bar_labels(bar, letters)))
    marks = (*drawn.marks, *(mark for bar in bars for mark in bar_marks(bar)))
    return replace(drawn, bars=bars, words=words, marks=marks)


def place(
    drawn: Sequence[Shown], room: Box, style: PanelStyle = DEFAULT_STYLE
) -> tuple[Layout, float]:
    """The panels in a part of a page, with their labels; and where the last one ends."""
    return placed(settled(free(drawn), room, style), room)


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
    found = in_panels(arranged, width, height, style)
    labels_wide, labels_high = found.labels
    columns, rows = columns_and_rows(found)
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


WIDEST_GAP = 3.0  # times the usual one, where cells cannot become wider


def placed(best: PanelRows, room: Box) -> tuple[Layout, float]:
    """The panels at their places in a room, and where the last of them ends."""
    boxes, right = _boxes(best, room)
    words, marks = tuple(_words(best, boxes, room)), tuple(_marks(best, boxes))
    panels, charts = tuple(_panels(best, boxes)), tuple(_charts(best, boxes))
    return Layout((room[2], room[3]), panels, charts, (), words, marks), right


def _boxes(best: PanelRows, room: Box) -> tuple[list[Box], float]:
    """Panels from the left edge, in the middle of the height; and where they end."""
    columns, rows = columns_and_rows(best)
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
    titles = (box[0] + best.headings.width(place) for place, box in enumerate(boxes))
    return boxes, max(room[0] + right, *titles)


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
        names, end = _named_lines(best, boxes, place)
        yield from panel_words(
            each, titles.lines[place], titles.size, box, style.smallest, names, end - box[0]
        )
        rows, columns = best.row_ticks[place], best.column_ticks[place]
        untitled = replace(rows, title=""), replace(columns, title="")
        yield from labels_at(*untitled, box, style)
    yield from _row_titles(best, boxes, room)
    for row in range(best.arranged.rows):
        yield from _column_titles(best, boxes, best.places(row))


def _named_lines(
    best: PanelRows, boxes: Sequence[Box], place: int
) -> tuple[list[tuple[int, Curve]], float]:
    """The lines of all charts of a row, which the first of them names; and where its last ends."""
    row = best.places(place // best.columns)
    charts = [each for each in row if isinstance(best.drawn[each], Curves)]
    if not charts or place != charts[0]:
        return [], boxes[place][0]
    named: dict[str, tuple[int, Curve]] = {}
    for each in charts:
        shown = best.drawn[each]
        assert isinstance(shown, Curves)
        for number, line in enumerate(shown.lines):
            if line.name != shown.title:
                named.setdefault(line.name, (number, line))
    end = boxes[charts[-1]][0] + boxes[charts[-1]][2]
    return list(named.values()), end


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
