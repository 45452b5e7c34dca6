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

from attnviz.renderers.terminal.ramps import Paint, block_glyphs, paint_values, scale_line
from attnviz.renderers.terminal.screen import (
    BOLD_STYLE,
    DIM_STYLE,
    MASKED_SIGN,
    PLAIN_STYLE,
    Screen,
    fit_columns,
    wrap_note,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid, pool_grid
from attnviz.views.grids.overview import COLOR_SCALE_NOTES, Overview
from attnviz.wording.words import bidi_isolated

MAX_NAME_COLUMNS, PAIR_NAME_COLUMNS = (
    10,
    5,
)  # columns of a word beside a row; of two beside half lines
UPPER_HALF_BLOCK, LOWER_HALF_BLOCK = "▀", "▄"
MAP_GAPS = 3, 2, 1  # columns between two maps; where they are dear

HeadGrids = Sequence[Grid]


@dataclass(frozen=True)
class MapForm:
    """How maps are drawn: how wide a cell is, whether it is half a line high, what stands around.

    `letters` are words of one letter over the columns; `numbered` are columns by the numbers that
    stand before the names of rows, over the first maps alone.
    """

    cell_columns: int
    halves: bool = False
    has_row_names: bool = False
    has_column_letters: bool = False
    gap: int = MAP_GAPS[0]
    has_column_numbers: bool = False

    def columns(self, grid: Grid) -> int:
        return self.cell_columns * len(grid.columns)

    def lines(self, grid: Grid) -> int:
        rows = len(grid.rows)
        return 1 + self.has_column_letters + ((rows + 1) // 2 if self.halves else rows)


@dataclass(frozen=True)
class MapArrangement:
    """Maps in a form, and which stand side by side."""

    form: MapForm
    rows: tuple[tuple[int, ...], ...]  # places among all heads
    has_blank_lines: bool = False  # whether a line stands between two rows of them


def arrange_maps(layers: Sequence[HeadGrids], screen: Screen, lines: int) -> MapArrangement | None:
    """The first way in which all maps find room; None if there is none.

    A layer is a row, or several; or all heads stand one after another.
    """
    grid, counts = layers[0][0], [len(heads) for heads in layers]
    heads_by_layer = [
        range(sum(counts[:layer]), sum(counts[: layer + 1])) for layer in range(len(counts))
    ]
    all_heads = [range(sum(counts))]
    for forms, parts, max_rows in _arrangement_choices(
        list(_map_forms(grid, screen)), heads_by_layer, all_heads
    ):
        for form in forms:
            rows = [row for part in parts for row in _split_into_rows(part, form, grid, screen)]
            line_count = len(rows) * form.lines(grid) + form.has_column_numbers
            if len(rows) <= max_rows and all(rows) and line_count <= lines:
                return MapArrangement(form, tuple(rows), line_count + len(rows) - 1 <= lines)
    return None


def _arrangement_choices(
    forms: Sequence[MapForm], layers: Sequence[range], all_heads: Sequence[range]
) -> Iterator[tuple[Sequence[MapForm], Sequence[range], int]]:
    """Forms, which heads go together, and how many rows there may be: the best first."""
    named_forms, bare_forms = (
        [form for form in forms if form.has_row_names == names] for names in (True, False)
    )
    for some_forms in (named_forms, bare_forms):
        yield some_forms, layers, len(layers)
        yield some_forms, layers, sum(map(len, layers))
    for some_forms in (named_forms, bare_forms):
        yield some_forms, all_heads, sum(map(len, layers))


def _map_forms(grid: Grid, screen: Screen) -> Iterator[MapForm]:
    """From the one that says most to the one that needs least."""
    letters = all(cell_len(label) == 1 for label in grid.columns.labels)
    sizes = [(2, False), (1, True), (1, False)] if screen.colored else [(2, False), (1, False)]
    for gap in MAP_GAPS:
        for cell_columns, halves in sizes:
            for has_names in (True, False):
                if (
                    has_names
                    and not (letters or halves)
                    and _has_room_for_numbers(grid, cell_columns)
                ):
                    yield MapForm(cell_columns, halves, has_names, gap=gap, has_column_numbers=True)
                for over in (True, False) if letters else (False,):
                    yield MapForm(cell_columns, halves, has_names, over, gap)


def _has_room_for_numbers(grid: Grid, cell_columns: int) -> bool:
    """Whether the numbers of columns can be told apart."""
    longest = max(map(len, grid.columns.numbers), default=0)
    return 0 < longest < cell_columns


def _split_into_rows(
    heads: Sequence[int], form: MapForm, grid: Grid, screen: Screen
) -> Iterator[tuple[int, ...]]:
    """Rows of maps, each as long as the others; an empty one if not even one map finds room."""
    room = screen.room - (map_name_width(grid.rows, form) if form.has_row_names else 0) + form.gap
    maps_per_row = room // (form.columns(grid) + form.gap)
    if maps_per_row < 1:
        yield ()
        return
    rows = -(-len(heads) // maps_per_row)
    row_length = -(-len(heads) // rows)
    for start in range(0, len(heads), row_length):
        yield tuple(heads[start : start + row_length])


def draw_maps(
    layers: Sequence[HeadGrids], arrangement: MapArrangement, screen: Screen
) -> Iterator[Text]:
    """The maps in their places."""
    all_heads = [head for heads in layers for head in heads]
    for number, row in enumerate(arrangement.rows):
        if number and arrangement.has_blank_lines:
            yield Text(end="")
        form = (
            arrangement.form if not number else replace(arrangement.form, has_column_numbers=False)
        )
        names = (
            _line_names(all_heads[0].rows, arrangement.form)
            if arrangement.form.has_row_names
            else []
        )
        yield from _map_row_lines(
            [all_heads[head_index] for head_index in row], form, screen, names
        )


def pool_to_fit(grid: Grid, screen: Screen, lines: int) -> Grid:
    """Blocks of cells, so large that one map finds room."""
    room_for_rows = 2 * (lines - 1) if screen.colored else lines - 1
    fitting_cells = max(min(room_for_rows, screen.room), 1)
    size = max(1, -(-len(grid.columns) // fitting_cells))
    return replace(pool_grid(grid, size, size), scale=grid.scale)


def map_name_width(rows: Axis, form: MapForm) -> int:
    """As wide as the longest name, and a space behind it."""
    return max(map(cell_len, _line_names(rows, form))) + 1


@lru_cache(maxsize=64)
def _line_names(rows: Axis, form: MapForm) -> list[str]:
    """The word of each line; of half lines those of both."""
    words = [
        bidi_isolated(label or number)
        for label, number in zip(rows.labels, rows.numbers, strict=True)
    ]
    if form.has_column_numbers:
        words = [f"{number} {word}" for number, word in zip(rows.numbers, words, strict=True)]
    if not form.halves:
        return [_cut_word(word, MAX_NAME_COLUMNS) for word in words]
    words = [_cut_word(word, PAIR_NAME_COLUMNS) for word in words]
    return ["/".join(words[first : first + 2]) for first in range(0, len(words), 2)]


def _cut_word(word: str, max_columns: int) -> str:
    return word if cell_len(word) <= max_columns else fit_columns(word, max_columns)


def _map_row_lines(
    heads: HeadGrids, form: MapForm, screen: Screen, names: Sequence[str]
) -> Iterator[Text]:
    """Maps side by side, line by line."""
    start = max(map(cell_len, names), default=-1) + 1
    width = form.columns(heads[0])
    yield _map_titles([head.title for head in heads], start, width, form.gap)
    if form.has_column_letters or form.has_column_numbers:
        column_names = (
            heads[0].columns.labels if form.has_column_letters else heads[0].columns.numbers
        )
        letters = "".join(label.ljust(form.cell_columns) for label in column_names)
        yield Text(" " * start + (" " * form.gap).join([letters] * len(heads)), DIM_STYLE, end="")
    maps = [
        list(_half_line_rows(head, screen) if form.halves else _map_lines(head, form, screen))
        for head in heads
    ]
    for line_number in range(len(maps[0])):
        line = Text(fit_columns(names[line_number], start) if names else "", end="")
        for number, lines in enumerate(maps):
            line.append(" " * form.gap if number else "")
            line.append_text(lines[line_number])
        yield line


def _map_titles(titles: Sequence[str], start: int, width: int, gap: int) -> Text:
    """Over each map its name, as far as there is room; the first may begin over the names."""
    first, *others = titles
    line = fit_columns(_cut_word(first, start + width), start + width)
    for title in others:
        line += " " * gap + fit_columns(_cut_word(title, width), width)
    return Text(line.rstrip(), BOLD_STYLE, end="")


def _map_lines(grid: Grid, form: MapForm, screen: Screen) -> Iterator[Text]:
    """A line for each row, in blocks of colour, or of some height."""
    paint = paint_values(grid.values, grid.scale, screen) if screen.colored else None
    for row, hidden in enumerate(grid.hidden.tolist()):
        cell_glyphs = [" "] * len(hidden) if paint else block_glyphs(grid.values[row], grid.scale)
        line = Text(end="")
        for (masked, glyph, style), cells in groupby(
            (
                (
                    masked,
                    MASKED_SIGN if masked else cell_glyphs[column],
                    _map_cell_style(paint, row, column, masked),
                )
                for column, masked in enumerate(hidden)
            )
        ):
            count = sum(1 for _ in cells)
            text = (glyph.ljust(form.cell_columns) if masked else glyph * form.cell_columns) * count
            line.append(text, style)
        yield line


def _map_cell_style(paint: Paint | None, row: int, column: int, masked: bool) -> Style:
    if masked:
        return DIM_STYLE
    return Style() if paint is None else paint.background_style((row, column))


def _half_line_rows(grid: Grid, screen: Screen) -> Iterator[Text]:
    """Two rows in a line: the upper half of a cell in one colour, the lower in another."""
    paint = paint_values(grid.values, grid.scale, screen)
    hidden, rows = grid.hidden.tolist(), len(grid.rows)
    for upper in range(0, rows, 2):
        line = Text(end="")
        pair = [row for row in (upper, upper + 1) if row < rows]
        cells = (
            _half_line_cell(paint, pair, column, hidden) for column in range(len(grid.columns))
        )
        for (glyph, style), alike in groupby(cells):
            line.append(glyph * sum(1 for _ in alike), style)
        yield line


def _half_line_cell(
    paint: Paint, pair: Sequence[int], column: int, hidden: Sequence[Sequence[bool]]
) -> tuple[str, Style]:
    visible_rows = [row for row in pair if not hidden[row][column]]
    if not visible_rows:
        return MASKED_SIGN, DIM_STYLE
    colors = [paint.color((row, column)) for row in visible_rows]
    if len(visible_rows) == 2:
        return UPPER_HALF_BLOCK, color_style(colors[0], colors[1])
    return (UPPER_HALF_BLOCK if visible_rows[0] == pair[0] else LOWER_HALF_BLOCK), color_style(
        colors[0], None
    )


@lru_cache(maxsize=4096)
def color_style(color: Color, behind: Color | None) -> Style:
    return Style(color=color, bgcolor=behind)


UNLIMITED_LINES = 10**9
SHADE_BLOCKS = " ░▒▓█"
FILE_COLUMNS = 80  # columns of a text that is not for a screen
MIN_MAP_COLUMNS, MIN_MAP_LINES = 3, 2  # of a map
FLAG_GAP = 3  # columns between two flags in a line
OVERVIEW_LEGEND_COLUMNS = 8  # columns of colour
NARROW_SCREEN_COLUMNS = 40  # columns: in fewer words are short
EMPTY_LETTER = " ", PLAIN_STYLE

StyledLetter = tuple[str, Style]


def overview_lines(
    overview_panel: Overview, screen: Screen, lines: int = UNLIMITED_LINES
) -> Iterator[Text]:
    """Maps under the names of their heads, which does most of what, and what colours mean."""
    smallest = overview_panel.pooled_to(MIN_MAP_LINES, MIN_MAP_COLUMNS)
    for short in (False, True):
        lines_below = [
            *_flag_lines(overview_panel, screen, short=short),
            *_overview_notes(smallest, screen),
        ]
        sheet = _largest_sheet(overview_panel, screen, lines - len(lines_below))
        if sheet.height + len(lines_below) <= lines:
            break
    yield from sheet.text()
    yield from _flag_lines(sheet.overview_panel, screen, short=short)
    yield from _overview_notes(sheet.overview_panel, screen)


def _overview_notes(overview_panel: Overview, screen: Screen) -> Iterator[Text]:
    hidden = "blank = hidden" if overview_panel.has_masked_cells else ""
    parts = (
        overview_panel.note,
        COLOR_SCALE_NOTES[overview_panel.bend],
        overview_panel.pooled,
        hidden,
    )
    return wrap_note(" · ".join(filter(None, parts)), screen)


def _flag_lines(overview_panel: Overview, screen: Screen, *, short: bool) -> Iterator[Text]:
    """`a previous token L0H2 .97   b next token …`, and the colours behind them."""
    room = FILE_COLUMNS if screen.width is None else screen.room
    gap = FLAG_GAP - short
    line = Text(end="")
    for flag_text in (
        *_flag_texts(overview_panel, short or room < NARROW_SCREEN_COLUMNS),
        _overview_scale(overview_panel, screen),
    ):
        flag_text.truncate(room)
        if line and line.cell_len + gap + flag_text.cell_len > room:
            yield line
            line = Text(end="")
        line.append(" " * gap if line else "").append_text(flag_text)
    yield line


def _overview_scale(overview_panel: Overview, screen: Screen) -> Text:
    return scale_line(
        overview_panel.scale, screen, ramp=SHADE_BLOCKS, width=OVERVIEW_LEGEND_COLUMNS
    )


def _flag_texts(overview_panel: Overview, short: bool) -> Iterator[Text]:
    for letter, flag in zip(ascii_letters, overview_panel.flags, strict=False):
        name, kind = overview_panel.names[flag.map_index], flag.short if short else flag.kind
        yield Text.assemble(
            (letter, BOLD_STYLE), f" {kind} ", (name, BOLD_STYLE), f" {flag.number}"
        )


def _largest_sheet(overview_panel: Overview, screen: Screen, lines: int) -> MapSheet:
    """The largest maps that find room; wide enough ones, however many lines that takes."""
    start = max(map(cell_len, overview_panel.rows.labels), default=0) + 1
    room = (FILE_COLUMNS if screen.width is None else screen.room) - start
    maps_per_line, (grid_rows, grid_columns) = (
        _maps_per_line(overview_panel, room),
        overview_panel.shape,
    )
    columns = min(max(room // maps_per_line - 1, 1), grid_columns)
    parts = math.ceil(len(overview_panel.columns) / maps_per_line)
    fitting_lines = (lines // parts - 1 - bool(overview_panel.groups)) // len(overview_panel.rows)
    wanted_rows = max(1, min(grid_rows, round(columns * grid_rows / grid_columns)))
    full_lines = (
        math.ceil((wanted_rows + 1) / 2) if screen.colored else math.ceil(wanted_rows / 2) + 1
    )
    layer_lines = min(full_lines, max(fitting_lines, MIN_MAP_LINES))
    has_blank_line = screen.colored or full_lines <= fitting_lines
    rows = 2 * layer_lines - 1 if screen.colored else layer_lines - has_blank_line
    pitch = min(
        max(columns, *map(cell_len, overview_panel.columns.labels)) + 1, room // maps_per_line
    )
    return MapSheet(
        overview_panel.pooled_to(rows, columns), screen, start, maps_per_line, pitch, layer_lines
    )


def _maps_per_line(overview_panel: Overview, room: int) -> int:
    """All heads of a layer, or as many as leave a map some columns; each line about as long."""
    heads = len(overview_panel.columns)
    fitting_maps = max(room // (min(MIN_MAP_COLUMNS, overview_panel.shape[1]) + 1), 1)
    return math.ceil(heads / math.ceil(heads / fitting_maps))


@dataclass(frozen=True, eq=False)
class MapSheet:
    """Maps in rows and columns; a cell of each is a letter wide, and a half or a whole high."""

    overview_panel: Overview
    screen: Screen
    name_columns: int  # columns of the names of layers
    maps_per_line: int  # maps beside each other
    columns_per_map: int  # columns from one to the next
    lines_per_layer: int  # from a layer to the next

    @property
    def height(self) -> int:
        """How many lines it takes."""
        parts = math.ceil(len(self.overview_panel.columns) / self.maps_per_line)
        return parts * (
            1
            + bool(self.overview_panel.groups)
            + self.lines_per_layer * len(self.overview_panel.rows)
        )

    def text(self) -> Iterator[Text]:
        columns = range(len(self.overview_panel.columns))
        parts = [
            columns[first : first + self.maps_per_line] for first in columns[:: self.maps_per_line]
        ]
        for part in parts:
            yield from self._headings(part)
            for layer in range(len(self.overview_panel.rows)):
                yield from self._layer(layer, part)

    def _headings(self, part: range) -> Iterator[Text]:
        """The names of heads; over them those of the keys and values that several share."""
        groups = self.overview_panel.groups
        if groups:
            names = groupby(part, lambda column: groups[column])
            spans = [
                (f"kv {group}", self.columns_per_map * len(list(columns)))
                for group, columns in names
            ]
            group_headings = "".join(
                fit_columns(f"{name} ".ljust(wide - 1, "─"), wide - 1) + " " for name, wide in spans
            )
            yield Text(" " * self.name_columns + group_headings.rstrip(), DIM_STYLE)
        labels = (self.overview_panel.columns.labels[column] for column in part)
        heads = "".join(fit_columns(label, self.columns_per_map - 1) + " " for label in labels)
        yield Text(" " * self.name_columns + heads.rstrip(), DIM_STYLE)

    def _layer(self, layer: int, part: range) -> Iterator[Text]:
        numbers_by_column = {
            column: number for number, column in self.overview_panel.maps_in_layer(layer)
        }
        for line_number in range(self.lines_per_layer):
            name = self.overview_panel.rows.labels[layer] if line_number == 0 else ""
            line = Text(fit_columns(name, self.name_columns), end="")
            for column in part:
                number = numbers_by_column.get(column)
                letters = [] if number is None else list(self._letters(number, line_number))
                letters += [EMPTY_LETTER] * (self.columns_per_map - len(letters))
                if line_number == 0 and number in self._tags:
                    letters[self.overview_panel.shape[1] - 1] = self._tag(number)
                for (letter, style), alike in groupby(letters):
                    line.append(letter * len(list(alike)), style)
            line.rstrip()
            yield line

    @cached_property
    def _tags(self) -> dict[int, str]:
        """The letters of the maps of which something is said; of one of several, the first."""
        flags = [*zip(ascii_letters, self.overview_panel.flags, strict=False)]
        return {flag.map_index: letter for letter, flag in reversed(flags)}

    def _tag(self, number: int) -> StyledLetter:
        """The letter of a map, in its last cell above: between two maps it could be of either."""
        cell = number, 0, self.overview_panel.shape[1] - 1
        is_colored = self.screen.colored and not self.overview_panel.hidden[cell]
        return self._tags[number], BOLD_STYLE + self._paint.background_style(
            cell
        ) if is_colored else BOLD_STYLE

    @cached_property
    def _paint(self) -> Paint:
        return paint_values(self.overview_panel.values, self.overview_panel.scale, self.screen)

    @cached_property
    def _shades(self) -> np.ndarray:
        shares = self.overview_panel.scale.shares(np.nan_to_num(self.overview_panel.values))
        steps = np.minimum((shares * len(SHADE_BLOCKS)).astype(int), len(SHADE_BLOCKS) - 1)
        return np.array(list(SHADE_BLOCKS))[np.where(self.overview_panel.hidden, 0, steps)]

    def _letters(self, number: int, line_number: int) -> Iterator[StyledLetter]:
        """One line of a map."""
        map_rows, map_columns = self.overview_panel.shape
        if not self.screen.colored:
            yield from (
                (letter, PLAIN_STYLE)
                for letter in self._shades[number, line_number : line_number + 1].flat
            )
            return
        rows = [row for row in (2 * line_number, 2 * line_number + 1) if row < map_rows]
        hidden = self.overview_panel.hidden[number, 2 * line_number : 2 * line_number + 2].tolist()
        for column in range(map_columns):
            visible_rows = [
                row for row, masked in zip(rows, hidden, strict=True) if not masked[column]
            ]
            colors = [self._paint.color((number, row, column)) for row in visible_rows]
            if len(colors) == 2:
                yield UPPER_HALF_BLOCK, color_style(*colors)
            elif colors:
                yield (
                    UPPER_HALF_BLOCK if visible_rows == rows[:1] else LOWER_HALF_BLOCK,
                    color_style(colors[0], None),
                )
            else:
                yield EMPTY_LETTER
