"""One table in its chosen form, with its column headings and row names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Literal

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from attnviz.renderers.terminal import table
from attnviz.renderers.terminal.ramps import Paint, glyphs, painted
from attnviz.renderers.terminal.screen import BOLD, DIM, GAP, HIDDEN, PLAIN, Screen, sized, titled
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import Write, cell_text
from attnviz.wording.words import isolated

LONGEST_TITLE = 48
UPPER, LOWER = "▀", "▄"
BORDER, RULE = "│", "─"  # where something else begins


@dataclass(frozen=True)
class Form:
    """How a table is drawn: what its cells are, how wide, and what stands over its columns.

    Halves are cells half a line high, two rows in a line; they have `pairs` of names, or the
    numbers that a line spans.
    """

    cells: Literal["numbers", "blocks", "halves"]
    width: int
    heading: Literal["across", "down", "numbers"] = "numbers"
    pairs: bool = False
    widths: tuple[int, ...] = ()  # of columns that are as wide as their words
    stacked: int = 0  # lines of names that are broken between their words

    def part(self, columns: slice) -> Form:
        """The same for some of the columns."""
        return replace(self, widths=self.widths[columns])

    def width_of(self, column: int) -> int:
        return self.widths[column] if self.widths else self.width


@dataclass(frozen=True, eq=False)
class Table:
    """A grid in its form; one that stands beside another of the same rows needs no names.

    `alone` is one that has nothing beside it.
    """

    grid: Grid
    screen: Screen
    form: Form
    write: Write
    named: bool = True
    alone: bool = True

    @property
    def width(self) -> int:
        title = min(cell_len(self._title_above), self.screen.room, LONGEST_TITLE)
        return max(self.label_width + self.cells_width, title)

    @property
    def height(self) -> int:
        rule = self._border is not None
        return bool(self._title_above) + len(self._headings) + len(self.names) + rule

    @property
    def _border(self) -> int | None:
        """The line of cells over which a rule is drawn; none can be between halves."""
        return None if self.form.cells == "halves" else self.grid.rows.border

    @property
    def beyond(self) -> int:
        """How much wider it is than its names and cells: so wide is its title."""
        return self.width - self.label_width - self.cells_width

    @property
    def cells_width(self) -> int:
        return sum(map(self.form.width_of, range(len(self.grid.columns))))

    @cached_property
    def label_width(self) -> int:
        if not self.named:
            return 0
        if self.form.pairs:
            return max(map(cell_len, self.names)) + 1
        return width_of(self.names, self.screen)

    @cached_property
    def names(self) -> list[str]:
        """What stands beside each line of cells."""
        if self.form.cells != "halves":
            return row_names(self.grid.rows)
        return (pair_names if self.form.pairs else range_names)(self.grid.rows)

    @cached_property
    def _headings(self) -> list[str]:
        columns, width, numbers = self.grid.columns, self.form.width, self.form.cells == "numbers"
        if self.form.heading == "across":
            widths = [*map(self.form.width_of, range(len(columns)))]
            stacks = self.form.stacked
            return (
                table.stacked(columns, widths, stacks) if stacks else table.across(columns, widths)
            )
        if self.form.heading == "down":
            return table.down(columns, width, numbers=numbers)
        return (table.numbered if numbers else table.ruler)(columns, width)

    @property
    def _title_in_corner(self) -> bool:
        """Where lines are dear, the title of a map that stands alone stands over its names."""
        short = cell_len(self.grid.title) + GAP <= self.label_width
        return self.alone and short and self.form.cells == "halves"

    @property
    def _title_above(self) -> str:
        return "" if self._title_in_corner else self.grid.title

    @cached_property
    def _paint(self) -> Paint | None:
        return self._painted(off=False)

    @cached_property
    def _faded(self) -> Paint | None:
        """The colours of rows whose heads are switched off."""
        return self._painted(off=True)

    def _painted(self, *, off: bool) -> Paint | None:
        scale = self.grid.scale
        if not self.screen.colored or scale.kind == "none":
            return None
        return painted(self.grid.values, scale, self.screen, off=off)

    def _paint_of(self, row: int) -> Paint | None:
        return self._faded if self.grid.is_off(row) else self._paint

    @cached_property
    def _empty(self) -> np.ndarray:
        return np.asarray(np.isnan(self.grid.values))

    def lines(self) -> Iterator[Text]:
        if self._title_above:
            width = min(self.width, cell_len(self._title_above))
            yield titled(set_cell_size(self._title_above, width), off=self.grid.whole_off)
        corner = self.grid.title if self._title_in_corner else ""
        for heading in self._headings:
            start = Text(set_cell_size(corner, self.label_width), end="")
            start.stylize(BOLD)
            yield start.append(heading, DIM)
            corner = ""
        for line, name in enumerate(self.names):
            if line == self._border:
                yield Text(" " * self.label_width + RULE * self.cells_width, DIM)
            yield self._line(line, name if self.named else "")

    def _line(self, place: int, name: str) -> Text:
        line = Text(sized(name, self.label_width - 1) + " " if self.named else "", end="")
        if self.form.cells == "halves":
            return self._halves(line, 2 * place)
        for column, text in enumerate(self._texts(place)):
            style = self._style(place, column)
            if column == self.grid.columns.border and text[1:]:
                line.append(BORDER, style)
                text = text[1:]
            line.append(text, style)
        return line

    def _texts(self, row: int) -> Iterator[str]:
        values, hidden = self.grid.values[row], self.grid.hidden[row].tolist()
        width = self.form.width
        if self.form.cells == "numbers":
            for column, (value, masked) in enumerate(zip(values.tolist(), hidden, strict=True)):
                number = cell_text(value, masked, self.write, HIDDEN)
                text, wide = self.grid.worded(row, column, number), self.form.width_of(column)
                yield " " * (wide - cell_len(text)) + text
            return
        shown = [" "] * len(values) if self._paint else glyphs(values, self.grid.scale)
        for text, masked in zip(shown, hidden, strict=True):
            yield HIDDEN.ljust(width) if masked else text * width

    def _style(self, row: int, column: int) -> Style:
        if self.grid.hidden[row, column]:
            return DIM
        paint = self._paint_of(row)
        if paint is None or self._empty[row, column]:
            return PLAIN
        return paint.behind((row, column))

    def _halves(self, line: Text, upper: int) -> Text:
        rows = [row for row in (upper, upper + 1) if row < len(self.grid.rows)]
        for column in range(len(self.grid.columns)):
            line.append(*self._half(rows, column))
        return line

    def _half(self, rows: list[int], column: int) -> tuple[str, Style]:
        """Two cells in one place: the ink of the upper half, or of the lower if it is alone."""
        hidden = [bool(self.grid.hidden[row, column]) for row in rows]
        seen = [
            row
            for row, masked in zip(rows, hidden, strict=True)
            if not masked and not self._empty[row, column]
        ]
        if not seen:
            return HIDDEN if any(hidden) else " ", DIM
        paints = [(row, self._paint_of(row)) for row in seen]
        colors = [paint.color((row, column)) for row, paint in paints if paint is not None]
        if len(seen) == 2:
            return UPPER, Style(color=colors[0], bgcolor=colors[1])
        return UPPER if seen == rows[:1] else LOWER, Style(color=colors[0])


LONGEST_DOWN = 12  # letters of a word that is written downwards
APART = 5  # columns of blocks from one number to the next, at least


def across(axis: Axis, widths: Sequence[int]) -> list[str]:
    """Words over numbers, where each has room."""
    words = zip(axis.labels, widths, strict=True)
    return ["".join(_on_the_right(isolated(label), width) for label, width in words)]


def stacked(axis: Axis, widths: Sequence[int], height: int) -> list[str]:
    """Names of several words over numbers, each broken between its words, in so many lines."""
    names = [isolated(label).split() for label in axis.labels]
    ends = [[""] * (height - len(words)) + words for words in names]
    lines = zip(*ends, strict=True)
    return ["".join(map(_on_the_right, line, widths)) for line in lines]


def tallest_stack(axis: Axis) -> int:
    """How many lines such names take."""
    return max((len(label.split()) for label in axis.labels), default=0)


def widths_of_words(axis: Axis) -> list[int]:
    """How wide each name is, broken between its words."""
    return [max(map(cell_len, isolated(label).split()), default=0) for label in axis.labels]


def widest_word(axis: Axis) -> int:
    """0 if the places have no words."""
    return max(map(cell_len, axis.labels), default=0) if all(axis.labels) else 0


def tallest_word(axis: Axis) -> int:
    """How many lines words take that are written downwards."""
    return max((len(_letters(label)) for label in axis.labels), default=0)


def down(axis: Axis, width: int, *, numbers: bool) -> list[str]:
    """Words written downwards, each ending over its column."""
    words, height = [_letters(label) for label in axis.labels], tallest_word(axis)
    ends = [[""] * (height - len(word)) + word for word in words]
    return ["".join(_placed(word[line], width, numbers) for word in ends) for line in range(height)]


def ruler(axis: Axis, width: int) -> list[str]:
    """Numbers over blocks, each beginning above its own, as many as find room."""
    line = ""
    step = max(APART, math.ceil((max(map(len, axis.numbers)) + 1) / width))
    pooled = "–" in axis.numbers[0]  # 1, 81, 161; else 1, 5, 10
    for place in (0, *range(step if pooled else step - 1, len(axis), step)):
        number = axis.numbers[place].split("–")[0]
        start = place * width
        if start >= len(line) + bool(line) and start + len(number) <= len(axis) * width:
            line = line.ljust(start) + number
    return [line]


def numbered(axis: Axis, width: int) -> list[str]:
    """Numbers over numbers; labels where there are none."""
    return ["".join(f"{name:>{width}}" for name in axis.headings)]


def _letters(label: str) -> list[str]:
    """What is seen as one letter each, the last one a sign that there are more.

    >>> _letters("am"), _letters("e\\u0301t"), _letters("misunderstanding")[-2:]
    (['a', 'm'], ['e\\u0301', 't'], ['a', '…'])
    """
    letters = list(_clusters(label))
    return letters if len(letters) <= LONGEST_DOWN else [*letters[: LONGEST_DOWN - 1], "…"]


def _clusters(label: str) -> Iterator[str]:
    letter = ""
    for character in label:
        if letter and cell_len(character):
            yield letter
            letter = ""
        letter += character
    yield letter


def _placed(letter: str, width: int, numbers: bool) -> str:
    """In the middle of a number, at the beginning of a block."""
    if numbers:
        return _on_the_right(isolated(letter), width - 1) + " "
    return isolated(letter) + " " * (width - cell_len(letter))


def _on_the_right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


SHORTEST_THIRD = 15  # columns that names may take on the narrowest screen
LONGEST_OF_PAIR = 15  # columns of each of two names in one line
BETWEEN = " / "


def row_names(axis: Axis) -> list[str]:
    """Numbers aligned on their right, then labels: ` 3 learning`."""
    width = max((len(number) for number in axis.numbers), default=0)
    if not width:
        return [*axis.labels]
    return [
        f"{number:>{width}} {isolated(label)}".rstrip()
        for number, label in zip(axis.numbers, axis.labels, strict=True)
    ]


def pair_names(axis: Axis) -> list[str]:
    """Two rows in a line, the upper and the lower: `1 The / 2 old`."""
    names = [_shortened(name) for name in row_names(axis)]
    width = max(map(cell_len, names[::2]), default=0)
    return [
        upper if lower is None else f"{sized(upper, width)}{BETWEEN}{lower}"
        for upper, lower in zip_longest(names[::2], names[1::2])
    ]


def range_names(axis: Axis) -> list[str]:
    """The numbers of two rows in a line: `1–2`; of rows that have none, the upper's name."""
    return list(_ranges(axis))


def _ranges(axis: Axis) -> Iterator[str]:
    for upper in range(0, len(axis), 2):
        first, last = axis.numbers[upper], axis.numbers[min(upper + 1, len(axis) - 1)]
        if not first or first == last:
            yield first or axis.labels[upper]
        else:
            yield f"{first.split('–')[0]}–{last.split('–')[-1]}"


def width_of(names: list[str], screen: Screen) -> int:
    """As wide as the longest name, at most a third of the screen, and a space behind it."""
    widest = max(map(cell_len, names), default=0)
    return min(widest, max(screen.room // 3, SHORTEST_THIRD)) + 1


def _shortened(name: str) -> str:
    return name if cell_len(name) <= LONGEST_OF_PAIR else sized(name, LONGEST_OF_PAIR)
