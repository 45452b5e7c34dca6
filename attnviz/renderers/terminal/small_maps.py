"""Small heatmaps of many heads, arranged on a screen, and what they show in lines.

During a training they are redrawn many times a second; so the arrangement is computed first, and
once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from string import ascii_letters

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attnviz.renderers.terminal.screen import (
    BOLD_STYLE,
    DIM_STYLE,
    GAP_COLUMNS,
    MASKED_SIGN,
    PLAIN_STYLE,
    Paint,
    Screen,
    StyledText,
    block_glyphs,
    cut_columns,
    fit_columns,
    half_cell,
    paint_values,
    scale_line,
    title_text,
    wrap_note,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import OFF_SUFFIX, Grid, pool_grid
from attnviz.views.grids.overview import COLOR_SCALE_NOTES, Overview
from attnviz.wording.words import bidi_isolated

MAX_NAME_COLUMNS, PAIR_NAME_COLUMNS = 10, 5  # of a row's name; of each name on a line of two rows
MAP_GAPS = 3, 2, 1  # columns between two maps, the best first
UNLIMITED_LINES = 10**9
SHADE_BLOCKS = " ░▒▓█"
FILE_COLUMNS = 80
MIN_MAP_COLUMNS, MIN_MAP_LINES = 3, 2
FLAG_GAP = 3  # columns between two flags on a line
OVERVIEW_LEGEND_COLUMNS = 8
MAX_PIPE_LINES = 60  # of all maps where nothing says how high a screen is
LETTERS_NOTE = (
    f"letter = what stands out most in a head ({MASKED_SIGN} nothing), then the number of such "
    "heads and the strongest of them"
)
NARROW_SCREEN_COLUMNS = 40  # a narrower screen has short names
EMPTY_LETTER, HIDDEN_LETTER = (" ", PLAIN_STYLE), (MASKED_SIGN, DIM_STYLE)

HeadGrids = Sequence[Grid]


@dataclass(frozen=True)
class MapForm:
    """The form in which maps are drawn: the width of a cell, whether two rows share a line, labels.

    `has_column_letters`: words of one letter stand over the columns. `has_column_numbers`: the
    numbers of the row names stand over the columns, of the first maps alone. `cell_lines`: how many
    lines a cell takes, unless two rows share a line.
    """

    cell_columns: int
    halves: bool = False
    has_row_names: bool = False
    has_column_letters: bool = False
    gap: int = MAP_GAPS[0]
    has_column_numbers: bool = False
    cell_lines: int = 1

    def columns(self, grid: Grid) -> int:
        """Return how many columns of the screen a map takes, without row names."""
        return self.cell_columns * len(grid.columns)

    def lines(self, grid: Grid) -> int:
        """Return how many lines a map takes, with its title."""
        rows = len(grid.rows)
        cell_lines = (rows + 1) // 2 if self.halves else rows * self.cell_lines
        return 1 + self.has_column_letters + cell_lines


@dataclass(frozen=True)
class MapArrangement:
    """The form of maps, and which of them stand side by side."""

    form: MapForm
    rows: tuple[tuple[int, ...], ...]  # indices of heads
    has_blank_lines: bool = False  # between two rows of maps


def arrange_maps(layers: Sequence[HeadGrids], screen: Screen, lines: int) -> MapArrangement | None:
    """Return the best arrangement in which all maps fit into `lines` lines; None if there is none.

    All maps have the shape of the first. A layer has one row of maps or several; else all heads
    follow one another.
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
    """Yield (forms, groups of heads, most rows of maps), the best choice first.

    Heads of two groups never stand in one row. Forms with row names come before those without.
    """
    named_forms, bare_forms = (
        [form for form in forms if form.has_row_names == names] for names in (True, False)
    )
    for some_forms in (named_forms, bare_forms):
        yield some_forms, layers, len(layers)
        yield some_forms, layers, sum(map(len, layers))
    for some_forms in (named_forms, bare_forms):
        yield some_forms, all_heads, sum(map(len, layers))


def _map_forms(grid: Grid, screen: Screen) -> Iterator[MapForm]:
    """Yield the forms of maps, from the one that shows most to the one that needs least room."""
    letters = all(cell_len(label) == 1 for label in grid.columns.labels)
    longest_number = max(map(len, grid.columns.numbers), default=0)
    sizes = [(2, False), (1, True), (1, False)] if screen.colored else [(2, False), (1, False)]
    for gap in MAP_GAPS:
        for cell_columns, halves in sizes:
            for has_names in (True, False):
                if has_names and not (letters or halves) and 0 < longest_number < cell_columns:
                    yield MapForm(cell_columns, halves, has_names, gap=gap, has_column_numbers=True)
                for over in (True, False) if letters else (False,):
                    yield MapForm(cell_columns, halves, has_names, over, gap)


def _split_into_rows(
    heads: Sequence[int], form: MapForm, grid: Grid, screen: Screen
) -> Iterator[tuple[int, ...]]:
    """Yield rows of maps, about equally long; one empty row if not even one map fits.

    A row holds the indices of its heads.
    """
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
    all_heads = [head for heads in layers for head in heads]
    for number, row in enumerate(arrangement.rows):
        if number and arrangement.has_blank_lines:
            yield Text(end="")
        form = arrangement.form
        names = _line_names(all_heads[0].rows, form) if form.has_row_names else []
        if number:
            form = replace(form, has_column_numbers=False)
        yield from _map_row_lines([all_heads[head] for head in row], form, screen, names)


def pool_to_fit(grid: Grid, screen: Screen, lines: int) -> Grid:
    """Return the grid pooled into square blocks, as small as one map in so many lines can show."""
    room_for_rows = 2 * (lines - 1) if screen.colored else lines - 1
    fitting_cells = max(min(room_for_rows, screen.room), 1)
    size = max(1, -(-len(grid.columns) // fitting_cells))
    return replace(pool_grid(grid, size, size), scale=grid.scale)


def map_name_width(rows: Axis, form: MapForm) -> int:
    """Return the columns that row names take beside maps: the longest, and a space."""
    return max(map(cell_len, _line_names(rows, form))) + 1


@lru_cache(maxsize=64)
def _line_names(rows: Axis, form: MapForm) -> list[str]:
    """Return the name beside each line of a map; beside two rows in one line, both names."""
    words = [
        bidi_isolated(label or number)
        for label, number in zip(rows.labels, rows.numbers, strict=True)
    ]
    if form.has_column_numbers:
        words = [f"{number} {word}" for number, word in zip(rows.numbers, words, strict=True)]
    if not form.halves:
        return [cut_columns(word, MAX_NAME_COLUMNS) for word in words]
    words = [cut_columns(word, PAIR_NAME_COLUMNS) for word in words]
    return ["/".join(words[first : first + 2]) for first in range(0, len(words), 2)]


def _map_row_lines(
    heads: HeadGrids, form: MapForm, screen: Screen, names: Sequence[str]
) -> Iterator[Text]:
    """Yield the lines of maps side by side: titles, letters or numbers of columns, and cells.

    `names`: the name beside each line, or none.
    """
    start = max(map(cell_len, names), default=-1) + 1
    width = form.columns(heads[0])
    yield _map_title_line(heads, start, width, form.gap)
    if form.has_column_letters or form.has_column_numbers:
        columns = heads[0].columns
        names_above = columns.labels if form.has_column_letters else columns.numbers
        letters = "".join(name.ljust(form.cell_columns) for name in names_above)
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


def _map_title_line(heads: HeadGrids, start: int, width: int, gap: int) -> Text:
    """Return a line with the titles of maps side by side, each cut to `width` columns, or to the
    beginning of the next one.

    The first may begin over the row names, which take `start` columns. `gap`: columns between maps.
    What is too wide is first without `(off)`: such a name is struck through.
    """
    line = Text(end="")
    for number, head in enumerate(heads):
        room = (width if number else start + width) + gap - 1
        name = head.title if cell_len(head.title) <= room else head.title.removesuffix(OFF_SUFFIX)
        title = fit_columns(cut_columns(name, room), room)
        line.append(" " if number else "")
        line.append_text(title_text(title, is_off=head.is_all_off))
    line.rstrip()
    return line


def _map_lines(grid: Grid, form: MapForm, screen: Screen) -> Iterator[Text]:
    """Yield the lines of each row of a map, in blocks of colour, or of several heights without; in
    the middle of a hidden cell stands a sign.
    """
    sign = MASKED_SIGN.rjust((form.cell_columns + 1) // 2).ljust(form.cell_columns)
    empty = " " * form.cell_columns
    paint = _paint_map(grid, screen) if screen.colored else None
    for row, hidden in enumerate(grid.hidden.tolist()):
        cell_glyphs = [" "] * len(hidden) if paint else block_glyphs(grid.values[row], grid.scale)
        places = [(row, column) for column in range(len(hidden))]
        styles = [paint.background_style(place) if paint else PLAIN_STYLE for place in places]
        texts = [glyph * form.cell_columns for glyph in cell_glyphs]
        visible = list(zip(texts, styles, strict=True))
        for number in range(form.cell_lines):
            hidden_cell = (sign if number == form.cell_lines // 2 else empty), DIM_STYLE
            cells = (hidden_cell if hidden[at] else cell for at, cell in enumerate(visible))
            yield _append_cells(Text(end=""), cells)


def _append_cells(line: Text, cells: Iterable[StyledText]) -> Text:
    """Append cells to a line, in place, with those that are alike side by side as one text."""
    for (text, style), alike in groupby(cells):
        line.append(text * sum(1 for _ in alike), style)
    return line


def _paint_map(grid: Grid, screen: Screen) -> Paint:
    return paint_values(grid.values, grid.scale, screen, is_off=grid.is_all_off)


def _half_line_rows(grid: Grid, screen: Screen) -> Iterator[Text]:
    """Yield the lines of a map with two rows on a line, in the halves of half blocks."""
    paint = _paint_map(grid, screen)
    for upper in range(0, len(grid.rows), 2):
        cells = _half_cells(paint, grid.hidden[upper : upper + 2], (upper,), HIDDEN_LETTER)
        yield _append_cells(Text(end=""), cells)


def _half_cells(
    paint: Paint, hidden: np.ndarray, upper: tuple[int, ...], empty: StyledText
) -> Iterator[StyledText]:
    """Yield the cells of two rows on a line, the upper of which is at the index `upper`.

    A hidden half is left out, and what has none is `empty`.
    """
    *start, row = upper
    for column, masks in enumerate(zip(*hidden.tolist(), strict=True)):
        indices = ((*start, row + half, column) for half in range(len(masks)))
        colors = [None if mask else paint.color(i) for mask, i in zip(masks, indices, strict=True)]
        yield half_cell(colors, empty)


def overview_lines(
    overview: Overview, screen: Screen, lines: int = UNLIMITED_LINES
) -> Iterator[Text]:
    """Yield the small maps of all heads, what the heads do, the legend and notes.

    The maps are pooled to take at most `lines` lines. If they are too many for that at their least
    size, a letter for the kind of each head takes their place.
    """
    if screen.height is None and screen.width is not None and not screen.full:
        lines = min(lines, MAX_PIPE_LINES)
    smallest = overview.pooled_to(MIN_MAP_LINES, MIN_MAP_COLUMNS)
    for short in (False, True):
        lines_below = [
            *_flag_lines(overview, screen, short=short),
            *_overview_notes(smallest, screen),
        ]
        sheet = _largest_sheet(overview, screen, lines - len(lines_below))
        if sheet.height + len(lines_below) <= lines:
            break
    else:
        if letters := list(_letter_lines(overview, screen, lines)):
            yield from letters
            return
    yield from sheet.text()
    yield from _flag_lines(sheet.overview, screen, short=short)
    yield from _overview_notes(sheet.overview, screen)


def _letter_lines(overview: Overview, screen: Screen, lines: int) -> Iterator[Text]:
    """Yield a letter for the kind of each head, layers side by side, and how many heads are of each
    kind; the letters of a kind that most heads have are dim.

    Nothing if no kinds are known, or the heads of a layer do not fit on a line.
    """
    if not (overview.flags and overview.kinds):
        return
    layers, heads = overview.rows.labels, overview.columns.labels
    start = max(map(cell_len, layers)) + 1
    row, column = overview.map_cells[overview.flags[0].map_index]
    one_head = f"--layer {layers[row].lstrip('L')} --head {heads[column].lstrip('H')}"
    notes = [LETTERS_NOTE, f"{one_head} shows one head"]
    notes += ["--full draws a map of each"] if screen.height is None else []
    legend = [*_kind_lines(overview, screen), *wrap_note(" · ".join(notes), screen)]
    for width in (2, 1):
        layers_per_line = (screen.room + GAP_COLUMNS) // (start + width * len(heads) + GAP_COLUMNS)
        if layers_per_line and -(-len(layers) // layers_per_line) + 1 + len(legend) <= lines:
            break
    if not layers_per_line:
        return
    height = -(-len(layers) // layers_per_line)
    numbers = "".join(label[-width:].lstrip("H").ljust(width) for label in heads)
    gap, count = " " * GAP_COLUMNS, -(-len(layers) // height)
    heading = f"{'H'.ljust(start)}{numbers}"
    yield Text(gap.join([heading] * count).rstrip(), DIM_STYLE)
    for first in range(height):
        line = Text(end="")
        for layer in range(first, len(layers), height):
            line.append(gap if layer > first else "").append(layers[layer].ljust(start))
            numbers_by_column = {column: index for index, column in overview.maps_in_layer(layer)}
            for column in range(len(heads)):
                letter, style = _kind_letter(overview, numbers_by_column.get(column))
                line.append(letter, style).append(" " * (width - 1))
        line.rstrip()
        yield line
    yield Text()
    yield from legend


def _kind_letter(overview: Overview, index: int | None) -> StyledText:
    """Return the letter of a head's kind: bold for the strongest head of the kind."""
    kind = None if index is None else overview.kinds[index]
    if kind is None:
        return (" " if index is None else MASKED_SIGN), DIM_STYLE
    flag = overview.flags[kind]
    is_common = 2 * flag.count > len(overview.kinds)
    style = DIM_STYLE if is_common else PLAIN_STYLE
    return ascii_letters[kind], BOLD_STYLE if index == flag.map_index else style


def _kind_lines(overview: Overview, screen: Screen) -> Iterator[Text]:
    """Yield how many heads are of each kind, and the strongest: `b itself 4 (L11H6 .92)`."""
    texts = []
    for letter, flag in zip(ascii_letters, overview.flags, strict=False):
        kind = flag.short if '"' in flag.kind else flag.kind  # each may attend to another token
        name = overview.names[flag.map_index]
        what = f" {kind} {flag.count} ({name} {flag.number})"
        texts.append(Text.assemble((letter, BOLD_STYLE), what))
    yield from _joined_texts(texts, screen.room, FLAG_GAP)


def _overview_notes(overview: Overview, screen: Screen) -> Iterator[Text]:
    """Yield the notes below the maps: how to read them, how they were pooled, what is hidden."""
    hidden = "blank = hidden" if overview.has_masked_cells else ""
    parts = (overview.note, COLOR_SCALE_NOTES[overview.bend], overview.pool_note, hidden)
    return wrap_note(" · ".join(filter(None, parts)), screen)


def _flag_lines(overview: Overview, screen: Screen, *, short: bool) -> Iterator[Text]:
    """Yield the flags, `a previous token L0H2 .97   b next token …`, and the scale of colours.

    `short`: with short names and smaller gaps.
    """
    room = FILE_COLUMNS if screen.width is None else screen.room
    gap = FLAG_GAP - short
    flags = _flag_texts(overview, short or room < NARROW_SCREEN_COLUMNS)
    scale = scale_line(overview.scale, screen, ramp=SHADE_BLOCKS, width=OVERVIEW_LEGEND_COLUMNS)
    yield from _joined_texts((*flags, scale), room, gap)


def _joined_texts(texts: Iterable[Text], room: int, gap: int) -> Iterator[Text]:
    """Yield lines of texts with a gap between them, each text cut to the room."""
    line = Text(end="")
    for text in texts:
        text.truncate(room)
        if line and line.cell_len + gap + text.cell_len > room:
            yield line
            line = Text(end="")
        line.append(" " * gap if line else "").append_text(text)
    yield line


def _flag_texts(overview: Overview, short: bool) -> Iterator[Text]:
    """Yield the text of each flag: a letter, what the head does, its name and the number."""
    for letter, flag in zip(ascii_letters, overview.flags, strict=False):
        name, kind = overview.names[flag.map_index], flag.short if short else flag.kind
        yield Text.assemble(
            (letter, BOLD_STYLE), f" {kind} ", (name, BOLD_STYLE), f" {flag.number}"
        )


def _largest_sheet(overview: Overview, screen: Screen, lines: int) -> MapSheet:
    """Return the largest maps that fit into `lines` lines; at a least size they may take more."""
    start = max(map(cell_len, overview.rows.labels), default=0) + 1
    room = (FILE_COLUMNS if screen.width is None else screen.room) - start
    maps_per_line, (grid_rows, grid_columns) = _maps_per_line(overview, room), overview.shape
    columns = min(max(room // maps_per_line - 1, 1), grid_columns)
    parts = math.ceil(len(overview.columns) / maps_per_line)
    fitting_lines = (lines // parts - 1 - bool(overview.groups)) // len(overview.rows)
    wanted_rows = max(1, min(grid_rows, round(columns * grid_rows / grid_columns)))
    full_lines = (
        math.ceil((wanted_rows + 1) / 2) if screen.colored else math.ceil(wanted_rows / 2) + 1
    )
    layer_lines = min(full_lines, max(fitting_lines, MIN_MAP_LINES))
    has_blank_line = screen.colored or full_lines <= fitting_lines
    rows = 2 * layer_lines - 1 if screen.colored else layer_lines - has_blank_line
    pitch = min(max(columns, *map(cell_len, overview.columns.labels)) + 1, room // maps_per_line)
    return MapSheet(
        overview.pooled_to(rows, columns), screen, start, maps_per_line, pitch, layer_lines
    )


def _maps_per_line(overview: Overview, room: int) -> int:
    """Return how many maps stand on a line: all heads of a layer, or equal parts of them."""
    heads = len(overview.columns)
    fitting_maps = max(room // (min(MIN_MAP_COLUMNS, overview.shape[1]) + 1), 1)
    return math.ceil(heads / math.ceil(heads / fitting_maps))


@dataclass(frozen=True, eq=False)
class MapSheet:
    """The maps of all heads, a row for each layer; a cell is a letter wide, and half a line high.

    Without colours it is a whole line high. Of wide layers, parts stand below each other.
    """

    overview: Overview
    screen: Screen
    name_columns: int  # of the names of layers
    maps_per_line: int
    columns_per_map: int
    lines_per_layer: int

    @property
    def height(self) -> int:
        parts = math.ceil(len(self.overview.columns) / self.maps_per_line)
        lines_of_layers = self.lines_per_layer * len(self.overview.rows)
        return parts * (1 + bool(self.overview.groups) + lines_of_layers)

    def text(self) -> Iterator[Text]:
        """Yield the lines of the sheet: for each part of the heads, headings and all layers."""
        columns = range(len(self.overview.columns))
        parts = [
            columns[first : first + self.maps_per_line] for first in columns[:: self.maps_per_line]
        ]
        for part in parts:
            yield from self._headings(part)
            for layer in range(len(self.overview.rows)):
                yield from self._layer(layer, part)

    def _headings(self, part: range) -> Iterator[Text]:
        """Yield the names of heads, and above them the groups that share keys and values.

        `part`: the columns of the sheet that stand on a line.
        """
        groups = self.overview.groups
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
        labels = (self.overview.columns.labels[column] for column in part)
        heads = "".join(fit_columns(label, self.columns_per_map - 1) + " " for label in labels)
        yield Text(" " * self.name_columns + heads.rstrip(), DIM_STYLE)

    def _layer(self, layer: int, part: range) -> Iterator[Text]:
        """Yield the lines of one layer: its name, and the maps of its heads in `part`."""
        numbers_by_column = {
            column: number for number, column in self.overview.maps_in_layer(layer)
        }
        for line_number in range(self.lines_per_layer):
            name = self.overview.rows.labels[layer] if line_number == 0 else ""
            line = Text(fit_columns(name, self.name_columns), end="")
            for column in part:
                number = numbers_by_column.get(column)
                letters = [] if number is None else list(self._letters(number, line_number))
                letters += [EMPTY_LETTER] * (self.columns_per_map - len(letters))
                if line_number == 0 and number in self._tags:
                    letters[self.overview.shape[1] - 1] = self._tag(number)
                _append_cells(line, letters)
            line.rstrip()
            yield line

    @cached_property
    def _tags(self) -> dict[int, str]:
        """The letter of each map with a flag, by the map's index; of several the first."""
        flags = [*zip(ascii_letters, self.overview.flags, strict=False)]
        return {flag.map_index: letter for letter, flag in reversed(flags)}

    def _tag(self, number: int) -> StyledText:
        """Return the letter of a flagged map, for its top right cell, in that cell's colour."""
        cell = number, 0, self.overview.shape[1] - 1
        if not self.screen.colored or self.overview.hidden[cell]:
            return self._tags[number], BOLD_STYLE
        return self._tags[number], BOLD_STYLE + self._paint.background_style(cell)

    @cached_property
    def _paint(self) -> Paint:
        return paint_values(self.overview.values, self.overview.scale, self.screen)

    @cached_property
    def _shades(self) -> np.ndarray:
        """The letter of shade of each cell of all maps; a space for hidden ones."""
        shares = self.overview.scale.shares(np.nan_to_num(self.overview.values))
        steps = np.minimum((shares * len(SHADE_BLOCKS)).astype(int), len(SHADE_BLOCKS) - 1)
        return np.array(list(SHADE_BLOCKS))[np.where(self.overview.hidden, 0, steps)]

    def _letters(self, number: int, line_number: int) -> Iterator[StyledText]:
        """Return the styled letters of one line of the map of head `number`."""
        if not self.screen.colored:
            shades = self._shades[number, line_number : line_number + 1].flat
            return ((letter, PLAIN_STYLE) for letter in shades)
        upper = 2 * line_number
        hidden = self.overview.hidden[number, upper : upper + 2]
        return _half_cells(self._paint, hidden, (number, upper), EMPTY_LETTER)
