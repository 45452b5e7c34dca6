"""Very many heads on a screen: a map of a few blocks for each, a few lines for a layer.

A cell is half a line high, two of them in a letter; without colours it is a letter of shade.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from string import ascii_letters

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attnviz.renderers.terminal.maps import LOWER, UPPER, ink
from attnviz.renderers.terminal.ramps import Paint, painted, scale_line
from attnviz.renderers.terminal.screen import BOLD, DIM, PLAIN, Screen, sized, wrapped
from attnviz.views.grids.overview import BENDS, Overview

ENDLESS = 10**9
SHADES = " ░▒▓█"
ORDINARY = 80  # columns of a text that is not for a screen
NARROWEST, FEWEST_LINES = 3, 2  # of a map
BETWEEN = 3  # columns between two flags in a line
LEGEND = 8  # columns of colour
NARROW = 40  # columns: in fewer words are short
NOTHING = " ", PLAIN

Letter = tuple[str, Style]


def overview(drawn: Overview, screen: Screen, lines: int = ENDLESS) -> Iterator[Text]:
    """Maps under the names of their heads, which does most of what, and what colours mean."""
    smallest = drawn.grained(FEWEST_LINES, NARROWEST)
    for short in (False, True):
        below = [*_told(drawn, screen, short=short), *_notes(smallest, screen)]
        sheet = _sheet(drawn, screen, lines - len(below))
        if sheet.height + len(below) <= lines:
            break
    yield from sheet.text()
    yield from _told(sheet.drawn, screen, short=short)
    yield from _notes(sheet.drawn, screen)


def _notes(drawn: Overview, screen: Screen) -> Iterator[Text]:
    hidden = "blank = hidden" if drawn.hides else ""
    parts = (drawn.note, BENDS[drawn.bend], drawn.pooled, hidden)
    return wrapped(" · ".join(filter(None, parts)), screen)


def _told(drawn: Overview, screen: Screen, *, short: bool) -> Iterator[Text]:
    """`a previous token L0H2 .97   b next token …`, and the colours behind them."""
    room = ORDINARY if screen.width is None else screen.room
    between = BETWEEN - short
    line = Text(end="")
    for told in (*_flags(drawn, short or room < NARROW), _scale(drawn, screen)):
        told.truncate(room)
        if line and line.cell_len + between + told.cell_len > room:
            yield line
            line = Text(end="")
        line.append(" " * between if line else "").append_text(told)
    yield line


def _scale(drawn: Overview, screen: Screen) -> Text:
    return scale_line(drawn.scale, screen, ramp=SHADES, width=LEGEND)


def _flags(drawn: Overview, short: bool) -> Iterator[Text]:
    for letter, flag in zip(ascii_letters, drawn.flags, strict=False):
        name, kind = drawn.names[flag.map], flag.short if short else flag.kind
        yield Text.assemble((letter, BOLD), f" {kind} ", (name, BOLD), f" {flag.number}")


def _sheet(drawn: Overview, screen: Screen, lines: int) -> Sheet:
    """The largest maps that find room; wide enough ones, however many lines that takes."""
    start = max(map(cell_len, drawn.rows.labels), default=0) + 1
    room = (ORDINARY if screen.width is None else screen.room) - start
    across, (high, wide) = _across(drawn, room), drawn.shape
    columns = min(max(room // across - 1, 1), wide)
    parts = math.ceil(len(drawn.columns) / across)
    most = (lines // parts - 1 - bool(drawn.groups)) // len(drawn.rows)
    wanted = max(1, min(high, round(columns * high / wide)))
    full = math.ceil((wanted + 1) / 2) if screen.colored else math.ceil(wanted / 2) + 1
    found = min(full, max(most, FEWEST_LINES))
    parted = screen.colored or full <= most
    rows = 2 * found - 1 if screen.colored else found - parted
    pitch = min(max(columns, *map(cell_len, drawn.columns.labels)) + 1, room // across)
    return Sheet(drawn.grained(rows, columns), screen, start, across, pitch, found)


def _across(drawn: Overview, room: int) -> int:
    """All heads of a layer, or as many as leave a map some columns; each line about as long."""
    heads = len(drawn.columns)
    most = max(room // (min(NARROWEST, drawn.shape[1]) + 1), 1)
    return math.ceil(heads / math.ceil(heads / most))


@dataclass(frozen=True, eq=False)
class Sheet:
    """Maps in rows and columns; a cell of each is a letter wide, and a half or a whole high."""

    drawn: Overview
    screen: Screen
    start: int  # columns of the names of layers
    across: int  # maps beside each other
    pitch: int  # columns from one to the next
    lines: int  # from a layer to the next

    @property
    def height(self) -> int:
        """How many lines it takes."""
        parts = math.ceil(len(self.drawn.columns) / self.across)
        return parts * (1 + bool(self.drawn.groups) + self.lines * len(self.drawn.rows))

    def text(self) -> Iterator[Text]:
        columns = range(len(self.drawn.columns))
        parts = [columns[first : first + self.across] for first in columns[:: self.across]]
        for part in parts:
            yield from self._headings(part)
            for layer in range(len(self.drawn.rows)):
                yield from self._layer(layer, part)

    def _headings(self, part: range) -> Iterator[Text]:
        """The names of heads; over them those of the keys and values that several share."""
        groups = self.drawn.groups
        if groups:
            names = groupby(part, lambda column: groups[column])
            spans = [(f"kv {group}", self.pitch * len(list(columns))) for group, columns in names]
            over = "".join(
                sized(f"{name} ".ljust(wide - 1, "─"), wide - 1) + " " for name, wide in spans
            )
            yield Text(" " * self.start + over.rstrip(), DIM)
        labels = (self.drawn.columns.labels[column] for column in part)
        heads = "".join(sized(label, self.pitch - 1) + " " for label in labels)
        yield Text(" " * self.start + heads.rstrip(), DIM)

    def _layer(self, layer: int, part: range) -> Iterator[Text]:
        at = {column: number for number, column in self.drawn.row(layer)}
        for place in range(self.lines):
            name = self.drawn.rows.labels[layer] if place == 0 else ""
            line = Text(sized(name, self.start), end="")
            for column in part:
                number = at.get(column)
                letters = [] if number is None else list(self._letters(number, place))
                letters += [NOTHING] * (self.pitch - len(letters))
                if place == 0 and number in self._tags:
                    letters[self.drawn.shape[1] - 1] = self._tag(number)
                for (letter, style), alike in groupby(letters):
                    line.append(letter * len(list(alike)), style)
            line.rstrip()
            yield line

    @cached_property
    def _tags(self) -> dict[int, str]:
        """The letters of the maps of which something is said; of one of several, the first."""
        flags = [*zip(ascii_letters, self.drawn.flags, strict=False)]
        return {flag.map: letter for letter, flag in reversed(flags)}

    def _tag(self, number: int) -> Letter:
        """The letter of a map, in its last cell above: between two maps it could be of either."""
        cell = number, 0, self.drawn.shape[1] - 1
        shown = self.screen.colored and not self.drawn.hidden[cell]
        return self._tags[number], BOLD + self._paint.behind(cell) if shown else BOLD

    @cached_property
    def _paint(self) -> Paint:
        return painted(self.drawn.values, self.drawn.scale, self.screen)

    @cached_property
    def _shades(self) -> np.ndarray:
        shares = self.drawn.scale.shares(np.nan_to_num(self.drawn.values))
        steps = np.minimum((shares * len(SHADES)).astype(int), len(SHADES) - 1)
        return np.array(list(SHADES))[np.where(self.drawn.hidden, 0, steps)]

    def _letters(self, number: int, place: int) -> Iterator[Letter]:
        """One line of a map."""
        high, wide = self.drawn.shape
        if not self.screen.colored:
            yield from ((letter, PLAIN) for letter in self._shades[number, place : place + 1].flat)
            return
        rows = [row for row in (2 * place, 2 * place + 1) if row < high]
        hidden = self.drawn.hidden[number, 2 * place : 2 * place + 2].tolist()
        for column in range(wide):
            seen = [row for row, masked in zip(rows, hidden, strict=True) if not masked[column]]
            colors = [self._paint.color((number, row, column)) for row in seen]
            if len(colors) == 2:
                yield UPPER, ink(*colors)
            elif colors:
                yield UPPER if seen == rows[:1] else LOWER, ink(colors[0], None)
            else:
                yield NOTHING
