"""The sentence as one token reads it: its words in colour, and a sorted list of bars."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from attnviz.renderers.colors import gradient, needs_dark_ink, shade
from attnviz.renderers.terminal.ramps import glyphs, legend
from attnviz.renderers.terminal.screen import BOLD, DIM, HIDDEN, Screen, cell_style, sized, wrapped
from attnviz.renderers.terminal.tables import label_width_of, row_names
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import cell_format
from attnviz.wording.words import counted

BARS_AT_ONCE = 20


def reading(grid: Grid, screen: Screen) -> Iterator[Text]:
    """The sentence coloured by what one token reads, and a sorted list of bars, for each head."""
    yield Text(set_cell_size(grid.title, min(screen.room, cell_len(grid.title))), BOLD)
    yield from wrapped(grid.note, screen)
    for row, name in enumerate(grid.rows.names):
        yield Text()
        if len(grid.rows) > 1:
            yield Text(name, BOLD)
        if screen.width is not None:
            yield from _sentence(grid, row, screen)
            yield Text()
        yield from _bars(grid, row, screen)
    yield Text()
    if screen.width is not None:
        yield from legend(grid, screen)


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
    label = set_cell_size(label, screen.room - 1) if cell_len(label) >= screen.room else label
    if grid.hidden[row, column]:
        return Text(label if screen.colored else label + HIDDEN, DIM)
    value = grid.values[row, column]
    if not screen.colored:
        return Text(label + glyphs(value[None], grid.scale)[0])
    scale = grid.scale
    color = shade(value, scale.low, scale.high, gradient(screen.palette, screen.theme, scale.kind))
    red, green, blue = color.tolist()
    return Text(label, cell_style(red, green, blue, bool(needs_dark_ink(color))))


def _bars(grid: Grid, row: int, screen: Screen) -> Iterator[Text]:
    """What is read, the most read first: label, number, bar."""
    values, names = grid.values[row], row_names(grid.columns)
    order = [place for place in np.argsort(-values, kind="stable") if not grid.hidden[row, place]]
    listed = order if screen.full or screen.width is None else order[:BARS_AT_ONCE]
    label_width = label_width_of(grid.columns, screen)
    form = cell_format(grid, screen.decimals)
    room = min(screen.room - label_width - 5, 40)
    for place in listed:
        value = float(values[place])
        line = sized(names[place], label_width - 1) + " " + form(value)
        bar = "" if screen.width is None else " " + _bar(value / max(values.max(), 1e-9) * room)
        yield Text((line + bar).rstrip())
    if len(order) > len(listed):
        rest = float(values[order[len(listed) :]].sum())
        more = counted(len(order) - len(listed), "token")
        yield from wrapped(f"and {more} more, {form(rest)} together (--full shows all)", screen)
    masked = int(grid.hidden[row].sum())
    if masked:
        yield from wrapped(f"{counted(masked, 'token')} hidden by the mask", screen)


def _bar(length: float) -> str:
    whole, part = divmod(round(length * 8), 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[part].strip()
