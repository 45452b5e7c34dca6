"""A ranking on a screen: names, numbers and bars, the largest first, and a few words about each."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from attnviz.renderers.terminal.ramps import painted
from attnviz.renderers.terminal.row_names import row_names, width_of
from attnviz.renderers.terminal.screen import BOLD, DIM, HIDDEN, Screen, sized, wrapped
from attnviz.renderers.terminal.sentence import BARS_AT_ONCE, FULL, LONGEST_BAR, bar_of, on_paper
from attnviz.views.grids.numbers import cell_format, cell_text
from attnviz.views.grids.ranked import Ranked
from attnviz.wording.words import counted

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
