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
from attnviz.renderers.terminal.screen import (
    BLOCK_RAMP,
    BOLD_STYLE,
    DIM_STYLE,
    GAP_COLUMNS,
    PLAIN_STYLE,
    Screen,
    cut_columns,
    fit_columns,
    legend_lines,
    paint_values,
)
from attnviz.renderers.terminal.small_maps import arrange_maps, draw_maps, pool_to_fit
from attnviz.views.grids.glimpse import Glimpse, MeasureHistory
from attnviz.views.grids.grid import Grid
from attnviz.wording.numbers import share_text

SIDE_COLUMNS, MAX_SIDE_COLUMNS = 26, 36  # for scores and curves beside the maps,
MIN_COLUMNS_WITH_SIDE, MIN_LINES_WITH_SIDE = 60, 8  # on a screen of at least this size
MAX_CURVE_LINES = 5
MIN_SCORE_COLUMNS = 5
BLOCKS_PER_LINE = len(BLOCK_RAMP)
SCORES_CAPTION = "each head's attention on:"

TextLines = list[Text]


def glimpse_lines(glimpse: Glimpse, screen: Screen) -> TextLines:
    heading = list(_glimpse_heading(glimpse, screen))
    lines = [*heading, *_glimpse_body(glimpse, screen, max(screen.rows - len(heading), 1))]
    return [_truncate_line(line, screen.room) for line in lines[: screen.rows]]


def _glimpse_heading(glimpse: Glimpse, screen: Screen) -> Iterator[Text]:
    """Yield what is learned, on a line, and as much of the status as fits on the next."""
    full_title = f"{glimpse.title}: {glimpse.about}"
    yield Text(full_title if cell_len(full_title) <= screen.room else glimpse.title, BOLD_STYLE)
    yield Text(_join_fitting(glimpse.status_parts, screen.room), DIM_STYLE)


def _join_fitting(parts: Iterable[str], room: int) -> str:
    """Join the parts that fit on a line of `room` columns, ' · ' between; leave out others."""
    line = ""
    for part in parts:
        longer = f"{line} · {part}" if line else part
        if cell_len(longer) <= room:
            line = longer
    return line


def _glimpse_body(glimpse: Glimpse, screen: Screen, rows: int) -> TextLines:
    """Return in `rows` lines maps of all heads, of the best or of one, with scores and curves.

    They stand beside the maps, else below them; without room, one map is pooled above the numbers.
    """
    narrower = replace(screen, width=screen.room - SIDE_COLUMNS - GAP_COLUMNS)
    for layers in (glimpse.layers, *_fewer_heads(glimpse)):
        if screen.room >= MIN_COLUMNS_WITH_SIDE and rows >= MIN_LINES_WITH_SIDE:
            arrangement = arrange_maps(layers, narrower, rows)
            if arrangement:
                maps = list(draw_maps(layers, arrangement, narrower))
                map_columns = max(line.cell_len for line in maps) + GAP_COLUMNS
                side_columns = min(screen.room - map_columns, MAX_SIDE_COLUMNS)
                side = _side_lines(glimpse, replace(screen, width=side_columns), rows)
                return list(_join_side_by_side(maps, map_columns, side))
        for below in (list(_lines_below_maps(glimpse, screen)), [_numbers_line(glimpse, screen)]):
            arrangement = arrange_maps(layers, screen, rows - len(below))
            if arrangement:
                return [*draw_maps(layers, arrangement, screen), *below]
    below = [_numbers_line(glimpse, screen)] if rows > 1 else []
    layers = ((pool_to_fit(layers[0][0], screen, rows - len(below)),),)
    arrangement = arrange_maps(layers, screen, rows - len(below))
    return [*(draw_maps(layers, arrangement, screen) if arrangement else ()), *below]


def _numbers_line(glimpse: Glimpse, screen: Screen) -> Text:
    """Return the last value of each measure, as far as they fit on a line.

    The last measure comes first, as the most important one.
    """
    numbers = [f"{history.name} {history.value_text}" for history in glimpse.histories[::-1]]
    return Text(_join_fitting(numbers, screen.room) or glimpse.histories[-1].value_text)


def _fewer_heads(glimpse: Glimpse) -> Iterator[tuple[tuple[Grid, ...], ...]]:
    """Yield smaller choices of heads: those with the highest score in a column, then one of them.

    Each choice is one layer of heads.
    """
    all_heads = [head for heads in glimpse.layers for head in heads]
    best_heads = dict.fromkeys(_best_heads(glimpse.scores)) or {0: None}
    if len(all_heads) > len(best_heads) > 1:
        yield (tuple(all_heads[head_index] for head_index in sorted(best_heads)),)
    yield ((all_heads[next(iter(best_heads))],),)


def _best_heads(scores: Grid) -> list[int]:
    values = np.nan_to_num(scores.values)
    return [int(row) for row in values.argmax(0)] if values.size else []


def _join_side_by_side(left: TextLines, left_columns: int, right: TextLines) -> Iterator[Text]:
    """Yield lines on the left padded to `left_columns`, each followed by one on the right."""
    for left_line, right_line in zip_longest(left, right, fillvalue=Text(end="")):
        line = left_line.copy()
        line.append(" " * (left_columns - line.cell_len))
        yield line.append_text(right_line)


def _side_lines(glimpse: Glimpse, screen: Screen, rows: int) -> TextLines:
    """Return what stands beside maps: scores of heads, curves and legend, as far as they fit."""
    curve_lines = 2 * len(glimpse.histories)  # for curves of one line, each below its name
    table = list(_score_table(glimpse.scores, screen, rows - curve_lines - 1))
    curve_height = min(MAX_CURVE_LINES, (rows - len(table) - 1) // len(glimpse.histories) - 1)
    lines = [*table, *([Text()] if table else [])]
    for number, history in enumerate(glimpse.histories):
        lines.append(_history_label(history))
        lines += _curve_lines(glimpse, number, screen.room, max(curve_height, 1), screen)
    scale = list(legend_lines(glimpse.layers[0], screen))
    return [*lines, *([Text(), *scale] if len(lines) + 1 + len(scale) <= rows else [])]


def _history_label(history: MeasureHistory) -> Text:
    return Text.assemble((f"{history.name} ", DIM_STYLE), history.value_text, end="")


def _lines_below_maps(glimpse: Glimpse, screen: Screen) -> Iterator[Text]:
    """Yield a line with the best head for each score, then a one-line curve for each measure."""
    scores = glimpse.scores
    best_heads = zip(scores.columns.labels, _best_heads(scores), strict=True)
    best_texts = [
        f"{name} {scores.rows.labels[row]} {share_text(float(scores.values[row, column]))}"
        for column, (name, row) in enumerate(best_heads)
    ]
    if best_texts:
        room = screen.room
        yield Text(_join_fitting(best_texts, room) or cut_columns(best_texts[0], room))
    names = [_history_label(history) for history in glimpse.histories]
    start = min(max(name.cell_len for name in names) + 1, screen.room)
    for number, name in enumerate(names):
        name.truncate(start, pad=True)
        width = max(min(screen.room - start, SIDE_COLUMNS), 0)
        (curve,) = _curve_lines(glimpse, number, width, 1, screen)
        yield name.append_text(curve)


def _score_table(scores: Grid, screen: Screen, rows: int) -> Iterator[Text]:
    """Yield the scores of heads as a table of at most `rows` lines; nothing for fewer than two.

    Of too many heads it has those with the highest scores.
    """
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
        line.append(fit_columns(cut_columns(name, width - 1).rjust(width - 1), width - 1) + " ")
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
    """Return the width of each column of scores: that of its name and a space, at least five.

    The widest are narrowed until all fit into `room` columns.
    """
    widths = [max(cell_len(name) + 1, MIN_SCORE_COLUMNS) for name in names]
    while sum(widths) > room and max(widths) > MIN_SCORE_COLUMNS:
        widths[widths.index(max(widths))] -= 1
    return widths


def _best_rows(scores: Grid, max_rows: int) -> list[int]:
    """Return in order the indices of at most `max_rows` heads: those with the highest scores."""
    order = np.argsort(-np.nan_to_num(scores.values).max(1), kind="stable")
    return sorted(int(row) for row in order[:max_rows])


def _curve_lines(
    glimpse: Glimpse, number: int, width: int, height: int, screen: Screen
) -> Iterator[Text]:
    """Yield the history of measure `number` as blocks of letters, `height` lines high."""
    history, steps = glimpse.histories[number], glimpse.steps
    style = Style(color=find_theme(screen.theme).series[number]) if screen.colored else PLAIN_STYLE
    sampled_steps = np.linspace(0, steps[-1], min(width, len(steps)))  # a curve grows to the right
    values = history.values[np.searchsorted(steps, sampled_steps, side="right") - 1]
    shares = np.clip(values / history.highest, 0, 1)
    levels = np.maximum(np.nan_to_num(shares) * height * BLOCKS_PER_LINE, 1).round().astype(int)
    for line in reversed(range(height)):
        parts = np.clip(levels - line * BLOCKS_PER_LINE, 0, BLOCKS_PER_LINE)
        yield Text("".join(f" {BLOCK_RAMP}"[part] for part in parts), style)


def _truncate_line(line: Text, room: int) -> Text:
    """Cut a line to `room` columns, in place, and return it."""
    line.truncate(room)
    return line
