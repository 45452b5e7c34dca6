"""The sentence as one token reads it, and rankings: words in colour, sorted bars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from attnviz.renderers.terminal.ramps import Paint, glyphs, legend, painted
from attnviz.renderers.terminal.screen import BOLD, DIM, HIDDEN, Screen, sized, titled, wrapped
from attnviz.renderers.terminal.table import row_names, width_of
from attnviz.views.grids.axes import SUM_TO_ONE
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import cell_format, cell_text
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale
from attnviz.wording.words import counted

BARS_AT_ONCE, FEWEST_BARS = 20, 5
AROUND, AROUND_A_HEAD = 4, 5  # lines that are taken by other things
LONGEST_BAR = 40
LIFTED = 1 / 3  # of a scale, by which 0 is further from the colour of paper
EIGHTHS, FULL = " ▏▎▍▌▋▊▉", "█"


def reading(grid: Grid, screen: Screen, *, listed: bool = True) -> Iterator[Text]:
    """The sentence coloured by what one token reads, and a sorted list of bars, for each head."""
    yield Text(set_cell_size(grid.title, min(screen.room, cell_len(grid.title))), BOLD)
    yield from wrapped(_note(grid), screen)
    for row, name in enumerate(grid.rows.names):
        yield Text()
        if len(grid.rows) > 1:
            yield titled(name, off=grid.is_off(row))
        sentence = [] if screen.width is None else [*_sentence(grid, row, screen)]
        yield from sentence
        if listed or not sentence:
            yield from [Text()] * bool(sentence)
            yield from _bars(grid, row, screen, _at_once(grid, screen, len(sentence) + 1))
    yield from [Text()] * listed
    if screen.width is not None:
        yield from legend([grid], screen, on_paper(grid.scale))


def _note(grid: Grid) -> str:
    """The grid's own, in which no row is spoken of where none is seen."""
    of_each = " of each head" if len(grid.rows) > 1 else ""
    return grid.note.replace(SUM_TO_ONE, f"the weights{of_each} sum to 1")


def _at_once(grid: Grid, screen: Screen, above: int) -> int:
    """How many bars of a head are shown: as many as are seen with the others, if that is a few."""
    if screen.full or screen.width is None:
        return len(grid.columns)
    lines = (screen.rows - AROUND) // len(grid.rows) - above - AROUND_A_HEAD
    return max(FEWEST_BARS, min(BARS_AT_ONCE, lines))


def _sentence(grid: Grid, row: int, screen: Screen) -> Iterator[Text]:
    """The tokens as they stood in the text, each in the colour of its weight."""
    line = Text(end="")
    for column, label in enumerate(grid.columns.labels):
        word = _word(grid, row, column, label, screen)
        gap = " " if grid.columns.spaced[column] and line.plain else ""
        if line.cell_len + len(gap) + word.cell_len > screen.room:
            yield line
            line, gap = Text(end=""), ""
        line.append(gap)
        line.append_text(word)
    yield line


def _word(grid: Grid, row: int, column: int, label: str, screen: Screen) -> Text:
    label = sized(label, screen.room - 1) if cell_len(label) >= screen.room else label
    if grid.hidden[row, column]:
        return Text(label if screen.colored else label + HIDDEN, DIM)
    values = grid.values[row, column : column + 1]
    if not screen.colored:
        return Text(label + glyphs(values, grid.scale)[0])
    return Text(label, _paint(grid, row, values, screen).behind(0))


def _bars(grid: Grid, row: int, screen: Screen, at_once: int) -> Iterator[Text]:
    """What is read, the most read first: label, number, bar; and where bars begin and end."""
    values, form = grid.values[row], cell_format(grid, screen.decimals)
    order = [place for place in np.argsort(-values, kind="stable") if not grid.hidden[row, place]]
    listed = order[:at_once]
    yield from _listed(grid, row, [int(place) for place in listed], screen)
    if len(order) > len(listed):
        rest = float(values[order[len(listed) :]].sum())
        more = counted(len(order) - len(listed), "token")
        yield from wrapped(f"and {more} more, {form(rest)} together (--full shows all)", screen)
    masked = int(grid.hidden[row].sum())
    if masked:
        yield from wrapped(f"{counted(masked, 'token')} hidden by the mask", screen)


def _listed(grid: Grid, row: int, places: list[int], screen: Screen) -> Iterator[Text]:
    names, form = row_names(grid.columns), cell_format(grid, screen.decimals)
    width = width_of(names, screen)
    starts = [
        f"{sized(names[place], width - 1)} {form(float(grid.values[row, place]))}"
        for place in places
    ]
    before = max(map(cell_len, starts), default=0) + 1
    room = 0 if screen.width is None else min(screen.room - before, LONGEST_BAR)
    for place, start in zip(places, starts, strict=True):
        bar = bar_of(grid, (row, place), room, grid.scale.high, screen)
        yield Text(sized(start, before), end="").append_text(bar) if bar else Text(start)
    if room and places:
        end = f"{grid.scale.high:g}"
        yield Text(" " * before + "0" + end.rjust(room - 1, "─"), DIM)


def bar_of(grid: Grid, place: tuple[int, int], room: int, reach: float, screen: Screen) -> Text:
    """From 0, as long as the value, in its colour."""
    value = grid.values[place[0], place[1] : place[1] + 1]
    length = round(min(abs(float(value[0])) / reach, 1.0) * room * 8)  # however colours are bent
    bar = FULL * (length // 8) + EIGHTHS[length % 8].strip()
    if not screen.colored:
        return Text(bar)
    style = Style(color=_paint(grid, place[0], value, screen).color(0))
    return Text(bar, style)


def _paint(grid: Grid, row: int, values: np.ndarray, screen: Screen) -> Paint:
    return painted(values, on_paper(grid.scale), screen, off=grid.is_off(row))


def on_paper(scale: Scale) -> Scale:
    """Colours among words and on bars, of which the faintest must be told apart from paper."""
    if scale.kind == "diverging":
        return scale
    if scale.bend == "log":
        return replace(scale, low=scale.low * (scale.low / scale.high) ** LIFTED)
    return replace(scale, low=-LIFTED * scale.high)


FEWEST = 4  # rows, however small the screen
SHORTEST_BAR = 8
MARK = "│"
BETWEEN = 2  # columns, before what is said of a row


def ranked(each: Ranked, screen: Screen, most: int) -> Iterator[Text]:
    """The first of them, and how many more there are."""
    count = len(each.grid.rows)
    shown = count if screen.full or screen.width is None else min(count, most, BARS_AT_ONCE)
    yield from wrapped(each.grid.title, screen, BOLD)
    note = f"{MARK} = others" if each.marks and screen.width is not None else ""
    yield from wrapped(" · ".join(filter(None, (note, each.grid.note))), screen)
    yield from _rows(each, shown, screen)
    if count > shown:
        yield from wrapped(
            f"and {counted(count - shown, f'more {each.counts}')} (--full shows all)", screen
        )


def _rows(each: Ranked, shown: int, screen: Screen) -> Iterator[Text]:
    grid, write = each.grid, cell_format(each.grid, screen.decimals)
    names = row_names(grid.rows)
    wide = width_of(names[:shown], screen)
    values, hidden = grid.values[:, 0].tolist(), grid.hidden[:, 0].tolist()
    numbers = [cell_text(*pair, write, HIDDEN) for pair in zip(values, hidden, strict=True)]
    digits = max(map(cell_len, numbers[:shown]), default=0)
    room = _room_for_bars(each, shown, wide + digits + 1, screen)
    said = [each.said(row, write) for row in range(shown)]
    for row in range(shown):
        line = Text(f"{sized(names[row], wide)}{numbers[row]:>{digits}} ", end="")
        line.append_text(_bar(each, row, room, screen))
        yield line.append(_remark(said[row], room, screen.room - line.cell_len), DIM)


def _bar(each: Ranked, row: int, room: int, screen: Screen) -> Text:
    """As long as its number; the mark stands in it, or behind it. Nothing of what is hidden."""
    grid, mark = each.grid, each.mark(row)
    if not room or grid.hidden[row, 0]:
        return Text(" " * room, end="")
    bar = bar_of(grid, (row, 0), room, each.reach, screen)
    bar.pad_right(room - bar.cell_len)
    if mark is None:
        return bar
    place = min(int(mark * room), room - 1)
    colored = screen.colored and bar.plain[place] == FULL
    style = painted(grid.values[row, :1], on_paper(grid.scale), screen).behind(0)
    sign = Text(MARK, style if colored else "", end="")
    return Text("", end="").join([bar[:place], sign, bar[place + 1 :]])


def _room_for_bars(each: Ranked, shown: int, before: int, screen: Screen) -> int:
    """What the longest remark leaves, but for a few columns; none in a file."""
    if screen.width is None:
        return 0
    write = cell_format(each.grid, screen.decimals)
    told = max((cell_len(each.said(row, write)) for row in range(shown)), default=0)
    left = screen.room - before - told - (BETWEEN if told else 0)
    return max(min(left, LONGEST_BAR), min(SHORTEST_BAR, screen.room - before))


def _remark(text: str, room: int, left: int) -> str:
    """Behind the bar, as much as there is room for."""
    gap = " " * (BETWEEN if room else 1)
    if not text or left <= len(gap) + 1:
        return ""
    return gap + (text if cell_len(text) + len(gap) <= left else sized(text, left - len(gap)))
