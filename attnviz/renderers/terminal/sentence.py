"""A sentence as one token reads it, and rankings: coloured words, sorted bars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from attnviz.renderers.terminal.screen import (
    BOLD_STYLE,
    DIM_STYLE,
    MASKED_SIGN,
    Screen,
    block_glyphs,
    cut_columns,
    fit_columns,
    legend_lines,
    paint_values,
    title_text,
    wrap_note,
)
from attnviz.renderers.terminal.table import names_width, row_names
from attnviz.views.grids.axes import ROW_SUM_NOTE
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.number_formats import cell_format, cell_text
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.wording.words import counted

MAX_BARS, MIN_BARS = 20, 5
LINES_AROUND_SENTENCE, LINES_AROUND_HEAD = 4, 5
MIN_BAR_COLUMNS, MAX_BAR_COLUMNS = 8, 40
PAPER_CONTRAST_SHARE = 1 / 3  # of a scale, added below 0 so that 0 differs from the paper
NEWLINE_SIGN = "↵"
EIGHTH_BLOCKS, FULL_BLOCK = " ▏▎▍▌▋▊▉", "█"
MIN_RANKED_ROWS = 4  # however low the screen
BAR_MARK = "│"
REMARK_GAP = 2  # columns before a row's remark


def sentence_lines(
    grid: Grid, screen: Screen, *, with_bars: bool = True, is_whole_text: bool = False
) -> Iterator[Text]:
    """Yield, for each head, the sentence coloured by its weights, and a sorted list of bars.

    `grid`: a row for each head. `with_bars`: without, bars stand only where the sentence cannot: in
    a file. `is_whole_text`: lines are broken where the text breaks them.
    """
    if grid.title:
        yield Text(set_cell_size(grid.title, min(screen.room, cell_len(grid.title))), BOLD_STYLE)
    yield from wrap_note(_sentence_note(grid), screen)
    for row, name in enumerate(grid.rows.names):
        yield from [Text()] * (not is_whole_text)
        if len(grid.rows) > 1:
            yield title_text(name, is_off=grid.is_off(row))
        sentence = [*_colored_sentence(grid, row, screen, breaks_lines=is_whole_text)]
        yield from sentence
        if with_bars or not sentence:
            yield from [Text()] * bool(sentence)
            max_bars = _bars_per_head(grid, screen, len(sentence) + 1)
            yield from _weight_bars(grid, row, screen, max_bars)
    yield from [Text()] * with_bars
    if screen.width is not None:
        yield from legend_lines([grid], screen, scale_on_paper(grid.scale))


def _sentence_note(grid: Grid) -> str:
    """Return the grid's note, with 'the weights' in place of rows, since none is shown."""
    of_each_head = " of each head" if len(grid.rows) > 1 else ""
    return grid.note.replace(ROW_SUM_NOTE, f"the weights{of_each_head} sum to 1")


def _bars_per_head(grid: Grid, screen: Screen, above: int) -> int:
    """Return how many bars a head gets: as many as fit, from 5 to 20; all in a file or with --full.

    `above`: the lines over the bars of a head.
    """
    if screen.full or screen.width is None:
        return len(grid.columns)
    lines = (screen.rows - LINES_AROUND_SENTENCE) // len(grid.rows) - above - LINES_AROUND_HEAD
    return max(MIN_BARS, min(MAX_BARS, lines))


def _colored_sentence(
    grid: Grid, row: int, screen: Screen, *, breaks_lines: bool
) -> Iterator[Text]:
    """Yield the tokens as in the text, wrapped to the screen, each in the colour of its weight.

    `breaks_lines`: where the text does, too. In a file there is no sentence.
    """
    if screen.width is None:
        return
    line, labels = Text(end=""), grid.columns.labels
    colors = scale_on_paper(grid.scale)
    words = colored_words(grid, row, range(len(labels)), screen, colors)
    for column, (label, word) in enumerate(zip(labels, words, strict=True)):
        gap = " " if grid.columns.spaced[column] and line.plain else ""
        if line.cell_len + len(gap) + word.cell_len > screen.room:
            yield line
            line, gap = Text(end=""), ""
        line.append(gap)
        line.append_text(word)
        ends_line = breaks_lines and label.endswith(NEWLINE_SIGN)
        if ends_line and labels[column + 1 : column + 2] != (NEWLINE_SIGN,):
            yield line
            line = Text(end="")
    if line:
        yield line


def colored_words(
    grid: Grid, row: int, columns: range, screen: Screen, colors: Scale
) -> Iterator[Text]:
    """Yield tokens in the colours of their weights; without colours with a block behind each.

    A hidden token is dim, or has a dot behind it. `colors`: the scale of the colours.
    """
    patch = grid.cells.window(slice(row, row + 1), slice(columns.start, columns.stop))
    values, hidden = patch.values[0], patch.hidden[0] | np.isneginf(patch.values[0])
    paint = None
    if screen.colored:
        paint = paint_values(values, colors, screen, is_off=grid.is_off(row))
    glyphs = [] if screen.colored else block_glyphs(values, grid.scale)
    for index, column in enumerate(columns):
        label = cut_columns(grid.columns.labels[column], screen.room - 1)
        if hidden[index]:
            yield Text(label if screen.colored else label + MASKED_SIGN, DIM_STYLE)
        elif paint is None:
            yield Text(label + glyphs[index])
        else:
            yield Text(label, paint.background_style(index))


def _weight_bars(grid: Grid, row: int, screen: Screen, max_bars: int) -> Iterator[Text]:
    """Yield the `max_bars` most read tokens with numbers and bars, and what the others add up to.

    Hidden tokens are only counted.
    """
    values, write_number = grid.values[row], cell_format(grid, screen.decimals)
    order = [int(c) for c in np.argsort(-values, kind="stable") if not grid.hidden[row, c]]
    others = order[max_bars:]
    yield from _bar_rows(grid, row, order[:max_bars], screen)
    if others:
        weight_text = write_number(float(values[others].sum()))
        others_text = f"{counted(len(others), 'token')} more, {weight_text} together"
        yield from wrap_note(f"and {others_text} (--full shows all)", screen)
    if masked := int(grid.hidden[row].sum()):
        yield from wrap_note(f"{counted(masked, 'token')} hidden by the mask", screen)


def _bar_rows(grid: Grid, row: int, columns: list[int], screen: Screen) -> Iterator[Text]:
    """Yield a line for each token (index in `columns`): name, number, bar; then the axis below."""
    names, write_number = row_names(grid.columns), cell_format(grid, screen.decimals)
    width = names_width(names, screen)
    starts = [
        f"{fit_columns(names[column], width - 1)} {write_number(float(grid.values[row, column]))}"
        for column in columns
    ]
    columns_before = max(map(cell_len, starts), default=0) + 1
    room = 0 if screen.width is None else min(screen.room - columns_before, MAX_BAR_COLUMNS)
    for column, start in zip(columns, starts, strict=True):
        bar = value_bar(grid, (row, column), room, grid.scale.high, screen)
        line = Text(fit_columns(start, columns_before), end="").append_text(bar)
        yield line if bar else Text(start)
    if room and columns:
        end = f"{grid.scale.high:g}"
        yield Text(" " * columns_before + "0" + end.rjust(room - 1, "─"), DIM_STYLE)


def value_bar(grid: Grid, cell: tuple[int, int], room: int, reach: float, screen: Screen) -> Text:
    """Return a bar from 0 in the value's colour, `room` columns long if the value is `reach`.

    `cell`: the row and column of the value in the grid. The bar shows its size, without the sign.
    """
    value = grid.values[cell[0], cell[1] : cell[1] + 1]
    length = round(min(abs(float(value[0])) / reach, 1.0) * room * 8)  # on a linear scale always
    bar = FULL_BLOCK * (length // 8) + EIGHTH_BLOCKS[length % 8].strip()
    if not screen.colored:
        return Text(bar)
    colors = scale_on_paper(grid.scale)
    paint = paint_values(value, colors, screen, is_off=grid.is_off(cell[0]))
    return Text(bar, Style(color=paint.color(0)))


def scale_on_paper(scale: Scale) -> Scale:
    """Return the scale with a lower low end, so that its faintest colour differs from the paper.

    A diverging scale comes back as it is.
    """
    if scale.kind == "diverging":
        return scale
    if scale.bend == "log":
        return replace(scale, low=scale.low * (scale.low / scale.high) ** PAPER_CONTRAST_SHARE)
    return replace(scale, low=-PAPER_CONTRAST_SHARE * scale.high)


def ranking_lines(ranking: RankedBars, screen: Screen, max_rows: int) -> Iterator[Text]:
    """Yield the title and note of a ranking, its first bars, and how many more there are.

    At most `max_rows` bars, and 20, are shown; all with --full or in a file.
    """
    count = len(ranking.grid.rows)
    row_count = count if screen.full or screen.width is None else min(count, max_rows, MAX_BARS)
    yield from wrap_note(ranking.grid.title, screen, BOLD_STYLE)
    note = ranking.grid.note
    if ranking.mark_title and screen.width is not None:
        # A note that says what others are goes on after the sign.
        mark = f"{BAR_MARK} =" if note.startswith("others = ") else f"{BAR_MARK} = others ·"
        note = f"{mark} {note}".removesuffix(" · ")
    yield from wrap_note(note, screen)
    yield from _ranking_lines(ranking, row_count, screen)
    if count > row_count:
        yield from wrap_note(
            f"and {counted(count - row_count, f'more {ranking.unit}')} (--full shows all)", screen
        )


def _ranking_lines(ranking: RankedBars, row_count: int, screen: Screen) -> Iterator[Text]:
    """Yield a line for each of the first bars: name, number, bar and remark."""
    grid, write = ranking.grid, cell_format(ranking.grid, screen.decimals)
    names = row_names(grid.rows)
    name_columns = names_width(names[:row_count], screen)
    values, hidden = grid.values[:, 0].tolist(), grid.hidden[:, 0].tolist()
    numbers = [cell_text(*pair, write, MASKED_SIGN) for pair in zip(values, hidden, strict=True)]
    digits = max(map(cell_len, numbers[:row_count]), default=0)
    remarks = [ranking.remark_text(row, write) for row in range(row_count)]
    room = _room_for_bars(remarks, name_columns + digits + 1, screen)
    for row in range(row_count):
        line = Text(f"{fit_columns(names[row], name_columns)}{numbers[row]:>{digits}} ", end="")
        line.append_text(_ranking_bar(ranking, row, room, screen))
        yield line.append(
            _fitting_remark(remarks[row], room, screen.room - line.cell_len), DIM_STYLE
        )


def _ranking_bar(ranking: RankedBars, row: int, room: int, screen: Screen) -> Text:
    """Return a bar `room` columns wide, with its mark in or behind it; spaces if hidden."""
    grid, mark = ranking.grid, ranking.mark_length(row)
    if not room or grid.hidden[row, 0]:
        return Text(" " * room, end="")
    bar = value_bar(grid, (row, 0), room, ranking.full_length, screen)
    bar.pad_right(room - bar.cell_len)
    if mark is None:
        return bar
    mark_column = min(int(mark * room), room - 1)
    colored = screen.colored and bar.plain[mark_column] == FULL_BLOCK
    paint = paint_values(grid.values[row, :1], scale_on_paper(grid.scale), screen)
    sign = Text(BAR_MARK, paint.background_style(0) if colored else "", end="")
    return Text("", end="").join([bar[:mark_column], sign, bar[mark_column + 1 :]])


def _room_for_bars(remarks: list[str], columns_before: int, screen: Screen) -> int:
    """Return the columns that names, numbers and the longest remark leave for bars; 0 in a file.

    Bars have a few columns at least, and 40 at most.
    """
    if screen.width is None:
        return 0
    remark_columns = max(map(cell_len, remarks), default=0)
    free_columns = screen.room - columns_before
    bar_columns = free_columns - remark_columns - (REMARK_GAP if remark_columns else 0)
    return max(min(bar_columns, MAX_BAR_COLUMNS), min(MIN_BAR_COLUMNS, free_columns))


def _fitting_remark(text: str, room: int, columns_left: int) -> str:
    """Return a remark behind a gap, cut to `columns_left`; empty if it is, or has no room.

    `room`: the columns of bars; without bars the gap is a single space.
    """
    gap = " " * (REMARK_GAP if room else 1)
    if not text or columns_left <= len(gap) + 1:
        return ""
    return gap + cut_columns(text, columns_left - len(gap))
