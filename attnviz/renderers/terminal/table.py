"""One table in its chosen form, with its column headings and row names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Literal

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from attnviz.renderers.terminal.screen import (
    BOLD_STYLE,
    DIM_STYLE,
    GAP_COLUMNS,
    MASKED_SIGN,
    PLAIN_STYLE,
    Paint,
    Screen,
    block_glyphs,
    color_from_code,
    cut_columns,
    fit_columns,
    half_cell,
    joined_line,
    paint_values,
    title_text,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.number_formats import NumberFormat, cell_text
from attnviz.wording.words import bidi_isolated

MAX_TITLE_COLUMNS = 48
BORDER_SIGN, RULE_SIGN = "│", "─"  # between two parts of columns, or of rows
MAX_DOWNWARD_LETTERS = 12  # of a word that is written downwards
MIN_RULER_STEP = 5  # columns of blocks from one number to the next
MIN_NAME_COLUMNS = 15  # that names may take on the narrowest screen
MAX_PAIR_NAME_COLUMNS = 15  # of each of two names on one line
PAIR_SEPARATOR = " / "
HIDDEN_CODE, MISSING_CODE = -1, -2  # in place of the code of a colour, which is never negative


@dataclass(frozen=True)
class TableForm:
    """The form in which a table is drawn: its cells, their width, and the headings of its columns.

    Halves are cells half a line high, two rows on a line; beside them stand both names, or the
    range of both numbers.
    """

    cells: Literal["numbers", "blocks", "halves"]
    width: int
    heading: Literal["across", "down", "numbers"] = "numbers"
    has_pair_names: bool = False
    widths: tuple[int, ...] = ()  # of columns as wide as their own words; empty: all are `width`
    stacked_lines: int = 0  # of headings that are broken between their words

    def part(self, columns: slice) -> TableForm:
        return replace(self, widths=self.widths[columns])

    def width_of(self, column: int) -> int:
        return self.widths[column] if self.widths else self.width


@dataclass(frozen=True, eq=False)
class TerminalTable:
    """A grid in the form in which it is drawn, as a table for a screen.

    A table beside another of the same rows has no row names.
    """

    grid: Grid
    screen: Screen
    form: TableForm
    write: NumberFormat
    has_row_names: bool = True
    stands_alone: bool = True
    # The looks of cells so far, by their numbers; of halves, by the numbers of both.
    _known_styles: dict[int, Style] = field(default_factory=dict, init=False)
    _known_halves: dict[tuple[int, ...], tuple[str, Style]] = field(
        default_factory=dict, init=False
    )

    @property
    def width(self) -> int:
        title = min(cell_len(self._title_above), self.screen.room, MAX_TITLE_COLUMNS)
        return max(self.label_width + self.cells_width, title)

    @property
    def height(self) -> int:
        rule = self._border is not None
        return bool(self._title_above) + len(self._headings) + len(self.names) + rule

    @property
    def _border(self) -> int | None:
        """The row above which a rule is drawn; None if there is none, or rows share lines."""
        return None if self.form.cells == "halves" else self.grid.rows.border

    @property
    def title_excess(self) -> int:
        return self.width - self.label_width - self.cells_width

    @property
    def cells_width(self) -> int:
        return sum(map(self.form.width_of, range(len(self.grid.columns))))

    @cached_property
    def label_width(self) -> int:
        """The columns that row names take, with a space; 0 without them."""
        if not self.has_row_names:
            return 0
        if self.form.has_pair_names:
            return max(map(cell_len, self.names)) + 1
        return names_width(self.names, self.screen)

    @cached_property
    def names(self) -> list[str]:
        """The name beside each line of cells; beside two rows on a line both, or their range."""
        if self.form.cells != "halves":
            return row_names(self.grid.rows)
        return (pair_names if self.form.has_pair_names else range_names)(self.grid.rows)

    @cached_property
    def _headings(self) -> list[str]:
        columns, width, numbers = self.grid.columns, self.form.width, self.form.cells == "numbers"
        if self.form.heading == "across":
            widths = [*map(self.form.width_of, range(len(columns)))]
            stack_lines = self.form.stacked_lines
            if stack_lines:
                return headings_stacked(columns, widths, stack_lines)
            return headings_across(columns, widths)
        if self.form.heading == "down":
            return headings_down(columns, width, numbers=numbers)
        return (number_headings if numbers else ruler_headings)(columns, width)

    @property
    def _title_in_corner(self) -> bool:
        """Whether the title stands over the row names, which saves a line."""
        is_short = cell_len(self.grid.title) + GAP_COLUMNS <= self.label_width
        return self.stands_alone and is_short and self.form.cells == "halves"

    @property
    def _title_above(self) -> str:
        return "" if self._title_in_corner else self.grid.title

    @cached_property
    def _paint(self) -> Paint | None:
        """The colours of the cells; None without colours."""
        return self._paint_grid(is_off=False)

    @cached_property
    def _off_paint(self) -> Paint | None:
        """The colours of rows whose heads are switched off; None without colours."""
        return self._paint_grid(is_off=True)

    def _paint_grid(self, *, is_off: bool) -> Paint | None:
        """Return the colours of all cells, grey if `is_off`; None without colours."""
        scale = self.grid.scale
        if not self.screen.colored or scale.kind == "none":
            return None
        return paint_values(self.grid.values, scale, self.screen, is_off=is_off)

    def _paint_of(self, row: int) -> Paint | None:
        return self._off_paint if self.grid.is_off(row) else self._paint

    @cached_property
    def _codes(self) -> np.ndarray:
        """A number for each cell; cells with the same number look the same."""
        codes = np.zeros(self.grid.values.shape, dtype=np.int64)
        for row in range(len(codes)):
            paint = self._paint_of(row)
            codes[row] = 0 if paint is None else paint.codes[row]
        visible_codes = np.where(np.isnan(self.grid.values), MISSING_CODE, codes)
        return np.where(self.grid.hidden, HIDDEN_CODE, visible_codes)

    def lines(self) -> Iterator[Text]:
        """Yield the lines of the table: title, headings, then cells beside their names."""
        if self._title_above:
            width = min(self.width, cell_len(self._title_above))
            yield title_text(set_cell_size(self._title_above, width), is_off=self.grid.is_all_off)
        corner = self.grid.title if self._title_in_corner else ""
        for heading in self._headings:
            start = Text(set_cell_size(corner, self.label_width), end="")
            start.stylize(BOLD_STYLE)
            yield start.append(heading, DIM_STYLE)
            corner = ""
        for line, name in enumerate(self.names):
            if line == self._border:
                yield Text(" " * self.label_width + RULE_SIGN * self.cells_width, DIM_STYLE)
            yield self._line(line, name if self.has_row_names else "")

    def _line(self, line_number: int, name: str) -> Text:
        """Return one line of cells behind a name; `line_number` counts from the first cells."""
        start = fit_columns(name, self.label_width - 1) + " " if self.has_row_names else ""
        is_halved = self.form.cells == "halves"
        cells = self._halves(2 * line_number) if is_halved else self._cells(line_number)
        return joined_line([(start, PLAIN_STYLE), *cells])

    def _cells(self, row: int) -> Iterator[tuple[str, Style]]:
        """Yield the text and the style of each cell of a row, and of a border between them."""
        codes, known = self._codes[row].tolist(), self._known_styles
        for column, text in enumerate(self._texts(row)):
            style = known.get(codes[column])
            if style is None:
                style = known[codes[column]] = self._style(row, column)
            if column == self.grid.columns.border and text[1:]:
                yield BORDER_SIGN, style
                text = text[1:]
            yield text, style

    def _texts(self, row: int) -> Iterator[str]:
        """Yield the texts of a row's cells, as wide as their columns: numbers, or blocks."""
        values, hidden = self.grid.values[row], self.grid.hidden[row].tolist()
        width = self.form.width
        if self.form.cells == "numbers":
            for column, (value, masked) in enumerate(zip(values.tolist(), hidden, strict=True)):
                number = cell_text(value, masked, self.write, MASKED_SIGN)
                text = self.grid.text_with_word(row, column, number)
                yield _align_right(text, self.form.width_of(column))
            return
        cell_glyphs = [" "] * len(values) if self._paint else block_glyphs(values, self.grid.scale)
        for text, masked in zip(cell_glyphs, hidden, strict=True):
            yield MASKED_SIGN.ljust(width) if masked else text * width

    def _style(self, row: int, column: int) -> Style:
        """Return the style of a cell: dim if hidden, plain if NaN, else on its colour."""
        if self.grid.hidden[row, column]:
            return DIM_STYLE
        paint = self._paint_of(row)
        if paint is None or np.isnan(self.grid.values[row, column]):
            return PLAIN_STYLE
        return paint.background_style((row, column))

    def _halves(self, upper: int) -> Iterator[tuple[str, Style]]:
        """Yield the cells of row `upper` and the one below it, runs of equal cells as one text."""
        codes, known = self._codes[upper : upper + 2], self._known_halves
        changes = 1 + np.flatnonzero((codes[:, 1:] != codes[:, :-1]).any(axis=0))
        starts = [0, *changes.tolist()]
        ends = [*starts[1:], codes.shape[1]]
        pairs = zip(*codes[:, starts].tolist(), strict=True)
        for pair, start, end in zip(pairs, starts, ends, strict=True):
            cell = known.get(pair)
            if cell is None:
                cell = known[pair] = self._half(pair)
            glyph, style = cell
            yield glyph * (end - start), style

    def _half(self, codes: tuple[int, ...]) -> tuple[str, Style]:
        """Return one cell of two rows, in the colours of both or of the only visible one."""
        has_few = self.screen.colors in ("16", "256")
        colors = [None if c < 0 else color_from_code(c, has_few=has_few) for c in codes]
        return half_cell(colors, (MASKED_SIGN if HIDDEN_CODE in codes else " ", DIM_STYLE))


def headings_across(axis: Axis, widths: Sequence[int]) -> list[str]:
    """Return the labels over numbers, aligned on the right, as one line in a list."""
    words = zip(axis.labels, widths, strict=True)
    return ["".join(_align_right(bidi_isolated(label), width) for label, width in words)]


def headings_stacked(axis: Axis, widths: Sequence[int], height: int) -> list[str]:
    """Return labels over numbers, broken between words, on `height` lines."""
    names = [bidi_isolated(label).split() for label in axis.labels]
    padded_words = [[""] * (height - len(words)) + words for words in names]
    lines = zip(*padded_words, strict=True)
    return ["".join(map(_align_right, line, widths)) for line in lines]


def max_stack_lines(axis: Axis) -> int:
    return max((len(label.split()) for label in axis.labels), default=0)


def stacked_widths(axis: Axis) -> list[int]:
    return [max(map(cell_len, bidi_isolated(label).split()), default=0) for label in axis.labels]


def max_label_columns(axis: Axis) -> int:
    """Return the width of the widest label; 0 if any label is missing."""
    return max(map(cell_len, axis.labels), default=0) if all(axis.labels) else 0


def max_downward_lines(axis: Axis) -> int:
    return max((len(_downward_letters(label)) for label in axis.labels), default=0)


def headings_down(axis: Axis, width: int, *, numbers: bool) -> list[str]:
    """Return lines of labels written downwards, each ending over its column.

    `numbers`: the cells are numbers, and letters stand near their ends; else over their beginning.
    """
    words, height = [_downward_letters(label) for label in axis.labels], max_downward_lines(axis)
    padded_words = [[""] * (height - len(word)) + word for word in words]
    return [
        "".join(_place_letter(word[line], width, numbers) for word in padded_words)
        for line in range(height)
    ]


def ruler_headings(axis: Axis, width: int) -> list[str]:
    """Return one line of numbers over blocks: only every fifth or so, each above its own block.

    Of pooled columns (`81–160`) it is the first number.
    """
    line = ""
    step = max(MIN_RULER_STEP, math.ceil((max(map(len, axis.numbers)) + 1) / width))
    pooled = "–" in axis.numbers[0]  # 1, 81, 161; else 1, 5, 10
    for column in (0, *range(step if pooled else step - 1, len(axis), step)):
        number = axis.numbers[column].split("–")[0]
        start = column * width
        if start >= len(line) + bool(line) and start + len(number) <= len(axis) * width:
            line = line.ljust(start) + number
    return [line]


def number_headings(axis: Axis, width: int) -> list[str]:
    """Return a line of numbers over numbers, labels where there are none, aligned on the right."""
    return ["".join(f"{name:>{width}}" for name in axis.headings)]


def _downward_letters(label: str) -> list[str]:
    """Return a label's letters, with combining characters; of more than 12 the first and '…'.

    >>> _downward_letters("e\\u0301t"), _downward_letters("misunderstanding")[-2:]
    (['e\\u0301', 't'], ['a', '…'])
    """
    letters = list(_letter_clusters(label))
    if len(letters) > MAX_DOWNWARD_LETTERS:
        letters[MAX_DOWNWARD_LETTERS - 1 :] = ["…"]
    return letters


def _letter_clusters(label: str) -> Iterator[str]:
    """Yield the letters of a label, each with its combining characters."""
    letter = ""
    for character in label:
        if letter and cell_len(character):
            yield letter
            letter = ""
        letter += character
    yield letter


def _place_letter(letter: str, width: int, numbers: bool) -> str:
    """Return a letter one column before the end of a number, or at the beginning of a block.

    `numbers`: whether the cells below are numbers. `width`: that of a cell.
    """
    if numbers:
        return _align_right(bidi_isolated(letter), width - 1) + " "
    return bidi_isolated(letter) + " " * (width - cell_len(letter))


def _align_right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def row_names(axis: Axis) -> list[str]:
    """Return numbers aligned on the right, then labels: ` 3 learning`; labels without numbers."""
    width = max((len(number) for number in axis.numbers), default=0)
    if not width:
        return [*axis.labels]
    return [
        f"{number:>{width}} {bidi_isolated(label)}".rstrip()
        for number, label in zip(axis.numbers, axis.labels, strict=True)
    ]


def pair_names(axis: Axis) -> list[str]:
    """Return a name for each two rows, `1 The / 2 old`, each part cut to 15 columns."""
    names = [cut_columns(name, MAX_PAIR_NAME_COLUMNS) for name in row_names(axis)]
    width = max(map(cell_len, names[::2]), default=0)
    return [
        upper if lower is None else f"{fit_columns(upper, width)}{PAIR_SEPARATOR}{lower}"
        for upper, lower in zip_longest(names[::2], names[1::2])
    ]


def range_names(axis: Axis) -> list[str]:
    """Return the numbers of each two rows: `1–2`; without numbers, the first row's label."""
    names = []
    for upper in range(0, len(axis), 2):
        first, last = axis.numbers[upper], axis.numbers[min(upper + 1, len(axis) - 1)]
        if first and first != last:
            first = f"{first.split('–')[0]}–{last.split('–')[-1]}"
        names.append(first or axis.labels[upper])
    return names


def names_width(names: list[str], screen: Screen) -> int:
    """Return the columns for names: the longest and a space, at most a third of the screen."""
    widest = max(map(cell_len, names), default=0)
    return min(widest, max(screen.room // 3, MIN_NAME_COLUMNS)) + 1
