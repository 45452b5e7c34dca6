"""Where the panels of rows and columns stand, with all that is written at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnviz.renderers.picture.charts import Chart, chart
from attnviz.renderers.picture.labels import column_title, labels_at, marks_at, row_title
from attnviz.renderers.picture.numbers import panel_of
from attnviz.renderers.picture.panel_rows import GAP_BELOW, PanelRows, columns_and_rows
from attnviz.renderers.picture.placed import Box, Layout, Mark, Panel, Words
from attnviz.renderers.picture.texts import panel_words
from attnviz.views.grids.grid import Curve, Curves, Grid

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
