"""A model while it learns, on one screen: heatmaps of all heads, their scores, and curves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attnviz.renderers.colors import find_theme
from attnviz.renderers.terminal.maps import arrange_maps, draw_maps, pool_to_fit
from attnviz.renderers.terminal.ramps import BLOCK_RAMP, legend_lines, paint_values
from attnviz.renderers.terminal.screen import (
    BOLD_STYLE,
    DIM_STYLE,
    GAP_COLUMNS,
    PLAIN_STYLE,
    Screen,
    fit_columns,
)
from attnviz.views.grids.glimpse import Glimpse, MeasureHistory
from attnviz.views.grids.grid import Grid
from attnviz.wording.numbers import share_text

SIDE_COLUMNS, MAX_SIDE_COLUMNS = 26, 36  # columns beside the maps, for scores and curves,
MIN_COLUMNS_WITH_SIDE, MIN_LINES_WITH_SIDE = 60, 8  # of a screen that has room for that
MAX_CURVE_LINES = 5  # lines
MIN_SCORE_COLUMNS = 5  # columns of a score, at least
BLOCKS_PER_LINE = len(BLOCK_RAMP)
SCORES_CAPTION = "each head's attention on:"  # over the scores

TextLines = list[Text]


def glimpse_lines(glimpse: Glimpse, screen: Screen) -> TextLines:
    """At most as many lines as the screen shows at once, and none is longer than it is wide."""
    heading_lines = list(_glimpse_heading(glimpse, screen))
    lines = [
        *heading_lines,
        *_glimpse_body(glimpse, screen, max(screen.rows - len(heading_lines), 1)),
    ]
    return [_truncate_line(line, screen.room) for line in lines[: screen.rows]]


def _glimpse_heading(glimpse: Glimpse, screen: Screen) -> Iterator[Text]:
    """What is learned; how far it is, and as much of the rest as one line has room for."""
    full_title = f"{glimpse.title}: {glimpse.about}"
    yield Text(full_title if cell_len(full_title) <= screen.room else glimpse.title, BOLD_STYLE)
    yield Text(_join_fitting(glimpse.status_parts, screen.room), DIM_STYLE)


def _join_fitting(parts: Iterable[str], room: int) -> str:
    """As much of what there is to say as one line has room for."""
    line = ""
    for part in parts:
        longer = f"{line} · {part}" if line else part
        if cell_len(longer) <= room:
            line = longer
    return line


def _glimpse_body(glimpse: Glimpse, screen: Screen, rows: int) -> TextLines:
    """Maps of all heads, with scores and curves beside or below them; else of some; else of one."""
    narrower = replace(screen, width=screen.room - SIDE_COLUMNS - GAP_COLUMNS)
    for layers in (glimpse.layers, *_fewer_heads(glimpse)):
        if screen.room >= MIN_COLUMNS_WITH_SIDE and rows >= MIN_LINES_WITH_SIDE:
            arrangement = arrange_maps(layers, narrower, rows)
            if arrangement:
                maps = list(draw_maps(layers, arrangement, narrower))
                map_columns = max(line.cell_len for line in maps) + GAP_COLUMNS
                side_screen = replace(
                    screen, width=min(screen.room - map_columns, MAX_SIDE_COLUMNS)
                )
                return list(
                    _join_side_by_side(maps, map_columns, _side_lines(glimpse, side_screen, rows))
                )
        for below in (list(_lines_below_maps(glimpse, screen)), [_numbers_line(glimpse, screen)]):
            arrangement = arrange_maps(layers, screen, rows - len(below))
            if arrangement:
                return [*draw_maps(layers, arrangement, screen), *below]
    below = [_numbers_line(glimpse, screen)] if rows > 1 else []
    layers = ((pool_to_fit(layers[0][0], screen, rows - len(below)),),)
    arrangement = arrange_maps(layers, screen, rows - len(below))
    return [*(draw_maps(layers, arrangement, screen) if arrangement else ()), *below]


def _numbers_line(glimpse: Glimpse, screen: Screen) -> Text:
    """The numbers alone, as many as one line has room for; the last of them matters most."""
    numbers = [f"{course.name} {course.value_text}" for course in glimpse.histories[::-1]]
    return Text(_join_fitting(numbers, screen.room) or glimpse.histories[-1].value_text)


def _fewer_heads(glimpse: Glimpse) -> Iterator[tuple[tuple[Grid, ...], ...]]:
    """The heads that do most of what is to be done, then the first of them alone."""
    all_heads = [head for heads in glimpse.layers for head in heads]
    best_heads = dict.fromkeys(_best_heads(glimpse.scores)) or {0: None}
    if len(all_heads) > len(best_heads) > 1:
        yield (tuple(all_heads[head_index] for head_index in sorted(best_heads)),)
    yield ((all_heads[next(iter(best_heads))],),)


def _best_heads(scores: Grid) -> list[int]:
    """Of each column the row that has most of it."""
    values = np.nan_to_num(scores.values)
    return [int(row) for row in values.argmax(0)] if values.size else []


def _join_side_by_side(left: TextLines, left_columns: int, right: TextLines) -> Iterator[Text]:
    for left_line, right_line in zip_longest(left, right, fillvalue=Text(end="")):
        line = left_line.copy()
        line.append(" " * (left_columns - line.cell_len))
        yield line.append_text(right_line)


def _side_lines(glimpse: Glimpse, screen: Screen, rows: int) -> TextLines:
    """Scores of heads, curves, and what the colours mean, as far as there is room."""
    curve_lines = 2 * len(glimpse.histories)  # lines of the lowest curves, with a line above each
    table = list(_score_table(glimpse.scores, screen, rows - curve_lines - 1))
    curve_height = min(MAX_CURVE_LINES, (rows - len(table) - 1) // len(glimpse.histories) - 1)
    curves = [
        [
            _course_label(each),
            *_curve_lines(glimpse, number, screen.room, max(curve_height, 1), screen),
        ]
        for number, each in enumerate(glimpse.histories)
    ]
    lines = [*table, *([Text()] if table else []), *(line for each in curves for line in each)]
    scale = list(legend_lines(glimpse.layers[0], screen))
    return [*lines, *([Text(), *scale] if len(lines) + 1 + len(scale) <= rows else [])]


def _course_label(course: MeasureHistory) -> Text:
    return Text.assemble((f"{course.name} ", DIM_STYLE), course.value_text, end="")


def _lines_below_maps(glimpse: Glimpse, screen: Screen) -> Iterator[Text]:
    """The same in a few lines: which head does most of what, and a low curve for each number."""
    scores = glimpse.scores
    best_sentences = [
        f"{name} {scores.rows.labels[row]} {share_text(float(scores.values[row, column]))}"
        for column, (name, row) in enumerate(
            zip(scores.columns.labels, _best_heads(scores), strict=True)
        )
    ]
    if best_sentences:
        yield Text(
            _join_fitting(best_sentences, screen.room)
            or _shorten_label(best_sentences[0], screen.room)
        )
    names = [_course_label(course) for course in glimpse.histories]
    start = min(max(name.cell_len for name in names) + 1, screen.room)
    for number, name in enumerate(names):
        name.truncate(start, pad=True)
        (curve,) = _curve_lines(
            glimpse, number, max(min(screen.room - start, SIDE_COLUMNS), 0), 1, screen
        )
        yield name.append_text(curve)


def _score_table(scores: Grid, screen: Screen, rows: int) -> Iterator[Text]:
    """Which head does what, with how much of its weight; of too many heads those that do most."""
    columns = range(len(scores.columns))
    if not columns or rows < 2:
        return
    if rows > len(scores.rows) + 1:
        yield _truncate_line(Text(SCORES_CAPTION, DIM_STYLE), screen.room)
        rows -= 1
    start = max(map(cell_len, scores.rows.labels)) + 1
    widths = _score_widths(scores.columns.labels, screen.room + 1 - start)
    line = Text(" " * start, DIM_STYLE)
    for name, width in zip(scores.columns.labels, widths, strict=True):
        line.append(fit_columns(_shorten_label(name, width - 1).rjust(width - 1), width - 1) + " ")
    yield _truncate_line(line, screen.room)
    paint = paint_values(np.nan_to_num(scores.values), scores.scale, screen)
    for row in _best_rows(scores, rows - 1):
        line = Text(fit_columns(scores.rows.labels[row], start), end="")
        for column, width in zip(columns, widths, strict=True):
            value = scores.values[row, column]
            text = "" if np.isnan(value) else share_text(float(value))
            style = paint.background_style((row, column)) if screen.colored else PLAIN_STYLE
            line.append(text.rjust(width - 1), style).append(" ")
        yield _truncate_line(line, screen.room)


def _score_widths(names: Sequence[str], room: int) -> list[int]:
    """As wide as names are, with a space behind each; where that is too wide, the widest less."""
    widths = [max(cell_len(name) + 1, MIN_SCORE_COLUMNS) for name in names]
    while sum(widths) > room and max(widths) > MIN_SCORE_COLUMNS:
        widths[widths.index(max(widths))] -= 1
    return widths


def _best_rows(scores: Grid, max_rows: int) -> list[int]:
    """Every head, or those with the highest scores."""
    order = np.argsort(-np.nan_to_num(scores.values).max(1), kind="stable")
    return sorted(int(row) for row in order[:max_rows])


def _curve_lines(
    glimpse: Glimpse, number: int, width: int, height: int, screen: Screen
) -> Iterator[Text]:
    """A number from the first step to the last, in blocks that stand on each other."""
    course, steps = glimpse.histories[number], glimpse.steps
    style = Style(color=find_theme(screen.theme).series[number]) if screen.colored else PLAIN_STYLE
    sampled_steps = np.linspace(0, steps[-1], min(width, len(steps)))  # it grows from the left
    values = course.values[np.searchsorted(steps, sampled_steps, side="right") - 1]
    shares = np.clip(values / course.highest, 0, 1)
    levels = np.maximum(np.nan_to_num(shares) * height * BLOCKS_PER_LINE, 1).round().astype(int)
    for line in reversed(range(height)):
        parts = np.clip(levels - line * BLOCKS_PER_LINE, 0, BLOCKS_PER_LINE)
        yield Text("".join(f" {BLOCK_RAMP}"[part] for part in parts), style)


def _truncate_line(line: Text, room: int) -> Text:
    line.truncate(room)
    return line


def _shorten_label(text: str, room: int) -> str:
    return text if cell_len(text) <= room else fit_columns(text, room).rstrip()
