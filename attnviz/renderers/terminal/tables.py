"""Grids as tables, in the form that fits.

Numbers in the cells, else blocks two columns wide, else one column wide, else cells that stand
for several, with a line that says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

import numpy as np
from jaxtyping import UInt8
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from attnviz.cells import EVERYTHING
from attnviz.renderers.colors import gradient, needs_dark_ink, shade
from attnviz.renderers.terminal.ramps import GAP, glyphs, legend
from attnviz.renderers.terminal.screen import (
    BOLD,
    DIM,
    HIDDEN,
    PLAIN,
    Screen,
    apart,
    cell_style,
    sized,
    wrapped,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import Write, cell_format, cell_text, sign_of_hidden
from attnviz.views.grids.pooling import block_size, pool
from attnviz.wording.words import counted, isolated

LONGEST_TITLE = 32
ROWS_AT_ONCE = 40  # of vectors, of which a text of 2,000 tokens has 2,000
LISTED = 40  # tokens of another text, that the columns stand for


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A grid in the form that fits: with numbers in its cells or as blocks."""

    grid: Grid
    screen: Screen
    label_width: int
    cell_width: int
    write: Write | None  # how its numbers are written; None for blocks

    @property
    def numbers(self) -> bool:
        return self.write is not None

    @property
    def width(self) -> int:
        cells = self.label_width + len(self.grid.columns) * self.cell_width
        return max(cells, min(cell_len(self.grid.title), self.screen.room, LONGEST_TITLE))

    @cached_property
    def colors(self) -> UInt8[np.ndarray, "row column 3"]:
        scale = self.grid.scale
        anchors = gradient(self.screen.palette, self.screen.theme, scale.kind)
        return shade(np.nan_to_num(self.grid.values), scale.low, scale.high, anchors)

    @cached_property
    def empty(self) -> np.ndarray:
        return np.asarray(np.isnan(self.grid.values))

    @cached_property
    def dark_ink(self) -> np.ndarray:
        return needs_dark_ink(self.colors)

    def lines(self) -> Iterator[Text]:
        if self.grid.title:
            width = min(self.width, cell_len(self.grid.title))
            yield Text(set_cell_size(self.grid.title, width), BOLD)
        yield Text(" " * self.label_width + self._header(), DIM)
        for row, name in enumerate(row_names(self.grid.rows)):
            yield self._row(row, name)

    def _header(self) -> str:
        if self.numbers:
            return "".join(f"{name:>{self.cell_width}}" for name in self.grid.columns.headings)
        return _ruler(self.grid.columns, self.cell_width)

    def _row(self, row: int, name: str) -> Text:
        line = Text(sized(name, self.label_width - 1) + " ", end="")
        texts = self._texts(row)
        if not self.screen.colored or self.grid.scale.kind == "none":
            return line.append("".join(texts))
        for column, text in enumerate(texts):
            line.append(text, self._style(row, column))
        return line

    def _texts(self, row: int) -> list[str]:
        values, hidden = self.grid.values[row], self.grid.hidden[row]
        if self.write is not None:
            cells = zip(values.tolist(), hidden.tolist(), strict=True)
            texts = [cell_text(value, masked, self.write, HIDDEN) for value, masked in cells]
            return [f"{text:>{self.cell_width}}" for text in texts]
        shown = [" "] * len(values) if self.screen.colored else glyphs(values, self.grid.scale)
        return [
            (HIDDEN if masked else glyph).ljust(self.cell_width, HIDDEN if masked else glyph)
            for glyph, masked in zip(shown, hidden.tolist(), strict=True)
        ]

    def _style(self, row: int, column: int) -> Style:
        if self.grid.hidden[row, column]:
            return DIM
        if self.empty[row, column]:
            return PLAIN
        red, green, blue = self.colors[row, column].tolist()
        return cell_style(red, green, blue, bool(self.dark_ink[row, column]))


def tables(grids: Sequence[Grid], screen: Screen) -> Iterator[Text]:
    for number, alike in enumerate(_alike(grids)):
        if number:
            yield Text()
        fitted = [table for grid in alike for table in fit(grid, screen)]
        blocks = [list(_beside(tables)) for tables in _packed(fitted, screen)]
        blocks.append(list(_footer(alike[0], fitted[0])))
        yield from apart([block for block in blocks if block])


def fit(grid: Grid, screen: Screen) -> list[FittedTable]:
    """The tables that show a grid on this screen: one, or several for all of a wide one."""
    if grid.columns.counts == "token":
        return [_fit_tokens(grid, screen)]
    return _fit_vectors(grid, screen)


def _fit_tokens(grid: Grid, screen: Screen) -> FittedTable:
    label_width = label_width_of(grid.rows, screen)
    room = screen.room - label_width
    width = _number_width(grid, screen)
    if screen.numbers and len(grid.columns) * width <= room:
        return FittedTable(grid, screen, label_width, width, cell_format(grid, screen.decimals))
    for width in (2, 1):
        if len(grid.columns) * width <= room:
            return FittedTable(grid, screen, label_width, width, None)
    return _fit_pooled(grid, replace(screen, numbers=False), math.ceil(len(grid.columns) / room))


def _fit_pooled(grid: Grid, screen: Screen, size: int) -> FittedTable:
    """Blocks of cells, as small as fits; labels that name a block are longer, so look again."""
    while True:
        size = block_size(len(grid.columns), size)
        pooled = pool(grid, size if grid.rows.counts == "token" else 1, size)
        if len(pooled.columns) + label_width_of(pooled.rows, screen) <= screen.room:
            return _fit_tokens(pooled, screen)
        size += 1


def _fit_vectors(grid: Grid, screen: Screen) -> list[FittedTable]:
    label_width, width = label_width_of(grid.rows, screen), _number_width(grid, screen)
    at_once = max(1, (screen.room - label_width) // width)
    shown = grid if screen.full or screen.width is None else grid.part(slice(ROWS_AT_ONCE))
    starts = range(0, len(grid.columns), at_once) if screen.full else range(1)
    write = cell_format(grid, screen.decimals)  # of all columns, whichever are shown together
    return [
        FittedTable(
            shown.part(EVERYTHING, slice(start, start + at_once)), screen, label_width, width, write
        )
        for start in starts
    ]


def _number_width(grid: Grid, screen: Screen) -> int:
    """The widest number, or the widest name of a column, and a space before it."""
    lowest, highest = grid.cells.extent
    extreme = -max(-lowest, highest) if lowest < 0 else highest
    widest = len(cell_format(grid, screen.decimals)(extreme))
    heads = [cell_len(head) for head in grid.columns.headings]
    return 1 + max(widest, *(heads[-1:] if grid.columns.numbers[-1] else heads), 2)


def label_width_of(axis: Axis, screen: Screen) -> int:
    """As wide as the longest name, at most a third of the screen, and a space behind it."""
    widest = max((cell_len(name) for name in row_names(axis)), default=0)
    return min(widest, max(screen.room // 3, 15)) + 1


def row_names(axis: Axis) -> list[str]:
    """Numbers aligned on their right, then labels: ` 3 learning`."""
    width = max((len(number) for number in axis.numbers), default=0)
    if not width:
        return [*axis.labels]
    return [
        f"{number:>{width}} {isolated(label)}".rstrip()
        for number, label in zip(axis.numbers, axis.labels, strict=True)
    ]


def _ruler(axis: Axis, cell_width: int) -> str:
    """Numbers over blocks, each beginning above its own, as many as find room."""
    line = ""
    step = max(5, math.ceil((max(map(len, axis.numbers)) + 1) / cell_width))
    for place in (0, *range(step - 1, len(axis), step)):
        number = axis.numbers[place].split("–")[0]
        start = place * cell_width
        if start >= len(line) + bool(line) and start + len(number) <= len(axis) * cell_width:
            line = line.ljust(start) + number
    return line


def _alike(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Runs of grids of one kind, such as the weights of all heads."""
    runs: list[list[Grid]] = []
    for grid in grids:
        if runs and (runs[-1][0].note, runs[-1][0].columns) == (grid.note, grid.columns):
            runs[-1].append(grid)
        else:
            runs.append([grid])
    return runs


def _packed(tables: Sequence[FittedTable], screen: Screen) -> list[list[FittedTable]]:
    """Tables in rows: side by side while they fit, and never in a pipe."""
    rows: list[list[FittedTable]] = []
    for table in tables:
        used = sum(other.width + GAP for other in rows[-1]) if rows else 0
        if rows and screen.width is not None and used + table.width <= screen.room:
            rows[-1].append(table)
        else:
            rows.append([table])
    return rows


def _beside(tables: Sequence[FittedTable]) -> Iterator[Text]:
    """The tables of one row, line by line; below a shorter one there is nothing."""
    for parts in zip_longest(*(table.lines() for table in tables), fillvalue=Text(end="")):
        line = Text(end="")
        for place, (table, part) in enumerate(zip(tables, parts, strict=True)):
            if place:
                line.append(" " * GAP)
            line.append_text(part)
            if table is not tables[-1]:
                line.append(" " * (table.width - part.cell_len))
        yield line


def _footer(grid: Grid, table: FittedTable) -> Iterator[Text]:
    """How to read the tables above, what was pooled, and how much more there is."""
    screen = table.screen
    yield from wrapped(grid.note, screen)
    yield from wrapped(_other_tokens(grid), screen)
    yield from wrapped(table.grid.pooled, screen)
    if not table.numbers:
        yield from legend(table.grid, screen)
    elif grid.cells.hides:
        masked = grid.columns.counts == "token"
        sign = sign_of_hidden(table.grid, HIDDEN)
        yield Text(f"{sign} = {'hidden by the mask' if masked else 'there is none'}", DIM)
    missing = _missing(grid, table)
    if missing and not screen.full:
        yield from wrapped(f"and {missing} more (--full shows all)", screen)


def _other_tokens(grid: Grid) -> str:
    """What the numbers over the columns stand for, where the rows are of another text."""
    if grid.columns.counts != "token" or grid.rows.counts != "token":
        return ""
    if set(grid.rows.names) <= set(grid.columns.names) or len(grid.columns) > LISTED:
        return ""
    return f"columns: {' · '.join(grid.columns.names)}"


def _missing(grid: Grid, table: FittedTable) -> str:
    if table.grid.pooled:
        return ""
    counts = (
        (len(grid.columns) - len(table.grid.columns), grid.columns.counts),
        (len(grid.rows) - len(table.grid.rows), grid.rows.counts),
    )
    return " and ".join(counted(number, noun) for number, noun in counts if number)
