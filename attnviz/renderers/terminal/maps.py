"""Small heatmaps of many heads, arranged on a screen, and what they show in lines.

They are drawn anew many times in a second, so that how is reckoned first, and only then drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from string import ascii_letters

import numpy as np
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text

from attnviz.renderers.terminal.ramps import Paint, glyphs, painted, scale_line
from attnviz.renderers.terminal.screen import BOLD, DIM, HIDDEN, PLAIN, Screen, sized, wrapped
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid, pool
from attnviz.views.grids.overview import BENDS, Overview
from attnviz.wording.words import isolated

LONGEST_NAME, SHORTEST_NAME = 10, 5  # columns of a word beside a row; of two beside half lines
UPPER, LOWER = "▀", "▄"
GAPS = 3, 2, 1  # columns between two maps; where they are dear

Heads = Sequence[Grid]


@dataclass(frozen=True)
class Form:
    """How maps are drawn: how wide a cell is, whether it is half a line high, what stands around.

    `letters` are words of one letter over the columns; `numbered` are columns by the numbers that
    stand before the names of rows, over the first maps alone.
    """

    wide: int
    halves: bool = False
    named: bool = False
    letters: bool = False
    gap: int = GAPS[0]
    numbered: bool = False

    def columns(self, grid: Grid) -> int:
        return self.wide * len(grid.columns)

    def lines(self, grid: Grid) -> int:
        rows = len(grid.rows)
        return 1 + self.letters + ((rows + 1) // 2 if self.halves else rows)


@dataclass(frozen=True)
class Arranged:
    """Maps in a form, and which stand side by side."""

    form: Form
    rows: tuple[tuple[int, ...], ...]  # places among all heads
    apart: bool = False  # whether a line stands between two rows of them


def arranged(layers: Sequence[Heads], screen: Screen, lines: int) -> Arranged | None:
    """The first way in which all maps find room; None if there is none.

    A layer is a row, or several; or all heads stand one after another.
    """
    grid, counts = layers[0][0], [len(heads) for heads in layers]
    places = [range(sum(counts[:layer]), sum(counts[: layer + 1])) for layer in range(len(counts))]
    every = [range(sum(counts))]
    for forms, parts, most in _ways(list(_forms(grid, screen)), places, every):
        for form in forms:
            rows = [row for part in parts for row in _beside(part, form, grid, screen)]
            high = len(rows) * form.lines(grid) + form.numbered
            if len(rows) <= most and all(rows) and high <= lines:
                return Arranged(form, tuple(rows), high + len(rows) - 1 <= lines)
    return None


def _ways(
    forms: Sequence[Form], layers: Sequence[range], every: Sequence[range]
) -> Iterator[tuple[Sequence[Form], Sequence[range], int]]:
    """Forms, which heads go together, and how many rows there may be: the best first."""
    named, bare = ([each for each in forms if each.named == names] for names in (True, False))
    for some in (named, bare):
        yield some, layers, len(layers)
        yield some, layers, sum(map(len, layers))
    for some in (named, bare):
        yield some, every, sum(map(len, layers))


def _forms(grid: Grid, screen: Screen) -> Iterator[Form]:
    """From the one that says most to the one that needs least."""
    letters = all(cell_len(label) == 1 for label in grid.columns.labels)
    sizes = [(2, False), (1, True), (1, False)] if screen.colored else [(2, False), (1, False)]
    for gap in GAPS:
        for wide, halves in sizes:
            for named in (True, False):
                if named and not (letters or halves) and _fits_numbers(grid, wide):
                    yield Form(wide, halves, named, gap=gap, numbered=True)
                for over in (True, False) if letters else (False,):
                    yield Form(wide, halves, named, over, gap)


def _fits_numbers(grid: Grid, wide: int) -> bool:
    """Whether the numbers of columns can be told apart."""
    longest = max(map(len, grid.columns.numbers), default=0)
    return 0 < longest < wide


def _beside(
    places: Sequence[int], form: Form, grid: Grid, screen: Screen
) -> Iterator[tuple[int, ...]]:
    """Rows of maps, each as long as the others; an empty one if not even one map finds room."""
    room = screen.room - (name_width(grid.rows, form) if form.named else 0) + form.gap
    most = room // (form.columns(grid) + form.gap)
    if most < 1:
        yield ()
        return
    rows = -(-len(places) // most)
    each = -(-len(places) // rows)
    for start in range(0, len(places), each):
        yield tuple(places[start : start + each])


def drawn(layers: Sequence[Heads], how: Arranged, screen: Screen) -> Iterator[Text]:
    """The maps in their places."""
    every = [head for heads in layers for head in heads]
    for number, row in enumerate(how.rows):
        if number and how.apart:
            yield Text(end="")
        form = how.form if not number else replace(how.form, numbered=False)
        names = _names(every[0].rows, how.form) if how.form.named else []
        yield from _row([every[place] for place in row], form, screen, names)


def smaller(grid: Grid, screen: Screen, lines: int) -> Grid:
    """Blocks of cells, so large that one map finds room."""
    high = 2 * (lines - 1) if screen.colored else lines - 1
    fitting = max(min(high, screen.room), 1)
    size = max(1, -(-len(grid.columns) // fitting))
    return replace(pool(grid, size, size), scale=grid.scale)


def name_width(rows: Axis, form: Form) -> int:
    """As wide as the longest name, and a space behind it."""
    return max(map(cell_len, _names(rows, form))) + 1


@lru_cache(maxsize=64)
def _names(rows: Axis, form: Form) -> list[str]:
    """The word of each line; of half lines those of both."""
    words = [
        isolated(label or number) for label, number in zip(rows.labels, rows.numbers, strict=True)
    ]
    if form.numbered:
        words = [f"{number} {word}" for number, word in zip(rows.numbers, words, strict=True)]
    if not form.halves:
        return [_cut(word, LONGEST_NAME) for word in words]
    words = [_cut(word, SHORTEST_NAME) for word in words]
    return ["/".join(words[first : first + 2]) for first in range(0, len(words), 2)]


def _cut(word: str, most: int) -> str:
    return word if cell_len(word) <= most else sized(word, most)


def _row(heads: Heads, form: Form, screen: Screen, names: Sequence[str]) -> Iterator[Text]:
    """Maps side by side, line by line."""
    start = max(map(cell_len, names), default=-1) + 1
    width = form.columns(heads[0])
    yield _titles([head.title for head in heads], start, width, form.gap)
    if form.letters or form.numbered:
        over = heads[0].columns.labels if form.letters else heads[0].columns.numbers
        letters = "".join(label.ljust(form.wide) for label in over)
        yield Text(" " * start + (" " * form.gap).join([letters] * len(heads)), DIM, end="")
    maps = [
        list(_halves(head, screen) if form.halves else _lines(head, form, screen)) for head in heads
    ]
    for place in range(len(maps[0])):
        line = Text(sized(names[place], start) if names else "", end="")
        for number, lines in enumerate(maps):
            line.append(" " * form.gap if number else "")
            line.append_text(lines[place])
        yield line


def _titles(titles: Sequence[str], start: int, width: int, gap: int) -> Text:
    """Over each map its name, as far as there is room; the first may begin over the names."""
    first, *others = titles
    line = sized(_cut(first, start + width), start + width)
    for title in others:
        line += " " * gap + sized(_cut(title, width), width)
    return Text(line.rstrip(), BOLD, end="")


def _lines(grid: Grid, form: Form, screen: Screen) -> Iterator[Text]:
    """A line for each row, in blocks of colour, or of some height."""
    paint = painted(grid.values, grid.scale, screen) if screen.colored else None
    for row, hidden in enumerate(grid.hidden.tolist()):
        shown = [" "] * len(hidden) if paint else glyphs(grid.values[row], grid.scale)
        line = Text(end="")
        for (masked, glyph, style), cells in groupby(
            (
                (masked, HIDDEN if masked else shown[column], _style(paint, row, column, masked))
                for column, masked in enumerate(hidden)
            )
        ):
            count = sum(1 for _ in cells)
            text = (glyph.ljust(form.wide) if masked else glyph * form.wide) * count
            line.append(text, style)
        yield line


def _style(paint: Paint | None, row: int, column: int, masked: bool) -> Style:
    if masked:
        return DIM
    return Style() if paint is None else paint.behind((row, column))


def _halves(grid: Grid, screen: Screen) -> Iterator[Text]:
    """Two rows in a line: the upper half of a cell in one colour, the lower in another."""
    paint = painted(grid.values, grid.scale, screen)
    hidden, rows = grid.hidden.tolist(), len(grid.rows)
    for upper in range(0, rows, 2):
        line = Text(end="")
        pair = [row for row in (upper, upper + 1) if row < rows]
        cells = (_half(paint, pair, column, hidden) for column in range(len(grid.columns)))
        for (glyph, style), alike in groupby(cells):
            line.append(glyph * sum(1 for _ in alike), style)
        yield line


def _half(
    paint: Paint, pair: Sequence[int], column: int, hidden: Sequence[Sequence[bool]]
) -> tuple[str, Style]:
    seen = [row for row in pair if not hidden[row][column]]
    if not seen:
        return HIDDEN, DIM
    colors = [paint.color((row, column)) for row in seen]
    if len(seen) == 2:
        return UPPER, ink(colors[0], colors[1])
    return (UPPER if seen[0] == pair[0] else LOWER), ink(colors[0], None)


@lru_cache(maxsize=4096)
def ink(color: Color, behind: Color | None) -> Style:
    return Style(color=color, bgcolor=behind)


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
