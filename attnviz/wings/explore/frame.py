"""build_frame: the lines of the screen from a subject and a place, without a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text

from attnviz.renderers.terminal.lines import panel_lines
from attnviz.renderers.terminal.screen import (
    BOLD_STYLE,
    DIM_STYLE,
    LOWER_HALF_BLOCK,
    MASKED_SIGN,
    PLAIN_STYLE,
    UPPER_HALF_BLOCK,
    Screen,
    color_style,
    fit_columns,
    marker_color,
    scale_line,
    wrap_note,
)
from attnviz.renderers.terminal.sentence import colored_words
from attnviz.renderers.terminal.small_maps import MapArrangement, MapForm, draw_maps
from attnviz.renderers.terminal.table import (
    PAIR_SEPARATOR,
    TableForm,
    TerminalTable,
    max_downward_lines,
    max_label_columns,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.number_formats import cell_format
from attnviz.views.settings_line import PART_SEPARATOR
from attnviz.wings.explore.keys import KEYS, keys_of_pane, last_line_words
from attnviz.wings.explore.place import FAR, Place
from attnviz.wings.explore.subject import SMALL_MAP_SIDE, Subject, recall

MOUSE_NOTE = (
    "The mouse works, too: click a cell, a word, a head, the name of a row or column, or a key in "
    "the last line; turn the wheel."
)
MIN_SIZE = 60, 16  # columns and lines
MAX_MESSAGE_LINES = 4  # a longer one is cut
ZOOMS = 3  # half blocks, blocks, numbers
SHARE_COLUMNS, NUMBER_COLUMNS = 5, 8  # of a weight; of a number that may be larger
MAX_ACROSS_COLUMNS = 11  # of words over numbers
MAX_SENTENCE_LINES = 3  # on a low screen as many of them as the matrix leaves free, at least 1
MORE_BEFORE, MORE_AFTER = "… ", " …"  # where words of the sentence are out of sight
SENTENCE_MARGIN = len(MORE_BEFORE) + len(MORE_AFTER)
TALL_MATRIX_LINES = 36  # of a matrix that does not fit; lines beyond these go to the sentence
MAX_KEPT_DRAWINGS = 96
MAP_GAP, WIDE_MAP_SIDE = 2, 8  # columns between small maps; the largest always with wide cells
# Rows and columns of small maps, at most; the last ones only where all heads fit
MAP_SIDES = 64, 32, SMALL_MAP_SIDE, 12, 8, 6, 5, 4
MAX_CELL_LINES = 8  # of a cell of a small map
MARK_STYLE, NUMBER_STYLE = Style(reverse=True, bold=True), Style(underline=True, bold=True)
HEADING_NUMBER = re.compile(r"\d+(–\d+)?")
QUERY_STYLE, KEY_STYLE = Style(underline=True), Style(bold=True)  # in the sentence

Drawing = TypeVar("Drawing")


@dataclass(frozen=True)
class MatrixLayout:
    """How the cells of a matrix are drawn, and how many rows and columns are in sight."""

    form: TableForm
    names: tuple[str, ...]  # beside each line of all rows
    label_width: int
    heading_lines: int
    rows: int
    columns: int

    @property
    def rows_per_line(self) -> int:
        return 2 if self.form.cells == "halves" else 1


@dataclass(frozen=True)
class SheetLayout:
    """How small maps of all heads are arranged, and which rows of them are in sight."""

    form: MapForm
    side: int  # how many rows and columns a map has at most
    map_columns: int  # of the screen
    per_row: int
    lines_per_row: int
    first_row: int
    rows: int

    def heads_in_sight(self, count: int) -> range:
        first = self.first_row * self.per_row
        return range(first, min(first + self.rows * self.per_row, count))

    def head_at(self, line: int, column: int) -> int:
        row = self.first_row + line // self.lines_per_row
        return row * self.per_row + column // (self.map_columns + self.form.gap)


@dataclass(frozen=True, eq=False)
class Frame:
    """The lines of a screen; `body`: which of them are the pane between head and foot."""

    lines: tuple[Text, ...]
    body: range = range(0)
    sentence: range = range(0)


def is_too_small(screen: Screen) -> bool:
    return (screen.width or 0) < MIN_SIZE[0] or (screen.height or 0) < MIN_SIZE[1]


def build_frame(
    subject: Subject,
    place: Place,
    screen: Screen,
    notice: Sequence[Text] = (),
    last: Sequence[Text] = (),
) -> Frame:
    """Return the screen that shows a place; `notice` stands where the numbers of the cell stand,
    `last` where the keys stand. What needs more lines than these takes them from the pane.
    """
    width = screen.room
    if is_too_small(screen):
        return Frame(tuple(_too_small_lines(screen)))
    heading = "Keys" if place.pane == "keys" else subject.finding(place)
    title = _cut(Text(heading, BOLD_STYLE, end=""), width)
    head = [title, _about(subject, place, screen)]
    sentence = [] if place.pane == "keys" else _sentence_lines(subject, place, screen)
    keys = last_line(last_line_words(place.pane, width, subject.abilities))
    foot = [*_foot(subject, place, notice, width), *(last or [keys])]
    first = len(head) + len(sentence)
    room = body_height(subject, place, screen)
    lines = (screen.height or 0) - first - len(foot)
    body = _body_lines(subject, place, screen, room)[:lines]
    body += [Text(end="")] * (lines - len(body))
    return Frame(
        (*head, *sentence, *body, *foot), range(first, first + lines), range(len(head), first)
    )


def body_height(subject: Subject, place: Place, screen: Screen) -> int:
    """Return how many lines the pane has between what stands above and below it."""
    sentence = 0 if place.pane == "keys" else len(sentence_rows(subject, place, screen)) + 1
    foot = 2 + bool(subject.answer_line)
    return max((screen.height or 0) - 2 - sentence - foot, 1)


def _too_small_lines(screen: Screen) -> Iterator[Text]:
    """Yield a sentence on the size that is needed, as far as it fits."""
    columns, lines = MIN_SIZE
    words = f"attnviz explore needs {columns} columns and {lines} lines; q quits"
    width = max(screen.width or 1, 1)
    for line in textwrap.wrap(words, width, break_long_words=False):
        yield _cut(Text(line, end=""), width)


def _about(subject: Subject, place: Place, screen: Screen) -> Text:
    """Return which head it is, which heads are in sight, what was changed, and as many settings as
    there is room for.
    """
    count = len(subject.explorer.heads)
    names = [f"{subject.name(place.head)}, one of {count} heads"] if count > 1 else []
    if place.pane == "overview":
        heads = sheet_layout(subject, place, screen).heads_in_sight(count)
        if len(heads) < count:
            names.append(f"heads {heads.start + 1}–{heads.stop} in sight")
    if subject.changes:
        names.append(f"changed: {subject.changes}")
    line = Text(_parts_that_fit((*names, *subject.about), screen.room, len(names)), end="")
    line.stylize(DIM_STYLE, len(PART_SEPARATOR.join(names)))
    return _cut(line, screen.room)


def _parts_that_fit(parts: Sequence[str], width: int, least: int) -> str:
    """Return the first parts that fit into `width` columns, at least `least` of them, and an
    ellipsis where some are left out.

    >>> _parts_that_fit(["scaled", "causal", "4 tokens"], 20, least=1)
    'scaled · causal …'
    """
    lines = (
        PART_SEPARATOR.join(parts[:count]) + MORE_AFTER * (count < len(parts))
        for count in range(len(parts), least, -1)
    )
    shortest = PART_SEPARATOR.join(parts[:least]) + MORE_AFTER
    return next((line for line in lines if cell_len(line) <= width), shortest)


def _cut(line: Text, width: int) -> Text:
    """Return a line cut to a width, with an ellipsis where something is missing."""
    if line.cell_len > width:
        line.truncate(width, overflow="ellipsis")
    return line


def message_lines(message: str, screen: Screen, style: Style = PLAIN_STYLE) -> list[Text]:
    """Return a message in as many lines as it needs; the rest of a very long one is cut."""
    lines = list(wrap_note(message, screen, style))
    if len(lines) > MAX_MESSAGE_LINES:
        last = Text(f"{lines[MAX_MESSAGE_LINES - 1].plain} …", style)
        lines[MAX_MESSAGE_LINES - 1 :] = [_cut(last, screen.room)]
    return lines


def _foot(subject: Subject, place: Place, notice: Sequence[Text], width: int) -> Iterator[Text]:
    """Yield the numbers of the cell, or a notice in their place, and the model's answer."""
    is_about_cell = place.pane != "keys"
    numbers = subject.cell_line(place, width) if is_about_cell else ""
    yield from notice or [_cut(Text(numbers, end=""), width)]
    if subject.answer_line:
        yield _cut(Text(subject.answer_line, BOLD_STYLE, end=""), width)


def last_line(keys: Iterable[tuple[str, str]]) -> Text:
    """Return keys, each with a word on what it does."""
    line = Text(end="")
    for label, word in keys:
        line.append("  " if line else "").append(label, BOLD_STYLE).append(f" {word}", DIM_STYLE)
    return line


def _kind(screen: Screen) -> tuple[object, ...]:
    """Return what drawings depend on of a screen; not its height."""
    return screen.width, screen.colors, screen.theme, screen.palette


def _drawing(subject: Subject, key: object, draw: Callable[[], Drawing]) -> Drawing:
    """Return a drawing that is kept with the subject, drawn if it is not there yet."""
    kept_drawing: Drawing = recall(subject.drawn, key, MAX_KEPT_DRAWINGS, draw)
    return kept_drawing


# The sentence: what the query reads, as the colours of the words.


def sentence_rows(subject: Subject, place: Place, screen: Screen) -> list[range]:
    """Return the words of each line of the sentence that is in sight: that of the query is."""
    axis = subject.explorer.heads[place.head].key_axis
    key = "words", id(axis), _kind(screen)
    rows = _drawing(subject, key, lambda: list(_pack_words(axis, screen)))
    lines = _sentence_room(subject, screen)
    at = next((row for row, words in enumerate(rows) if place.query in words), 0)
    first = max(0, min(at - lines // 2, len(rows) - lines))
    return rows[first : first + lines]


def _sentence_room(subject: Subject, screen: Screen) -> int:
    """Return how many lines the sentence may take: more than one where others would be empty."""
    around = 4 + 2 + bool(subject.answer_line)  # title, settings, legend, headings; the foot
    room, rows = (screen.height or 0) - around, subject.shape[0]
    lines = rows if rows < room else -(-rows // 2)
    return max(1, min(MAX_SENTENCE_LINES, room - min(lines, TALL_MATRIX_LINES)))


def _pack_words(axis: Axis, screen: Screen) -> Iterator[range]:
    """Yield the positions of the words on each line, as many as fit on it."""
    start, used, room = 0, 0, screen.room - SENTENCE_MARGIN
    for position, label in enumerate(axis.labels):
        columns = min(cell_len(label) + (not screen.colored), room)
        gap = bool(axis.spaced and axis.spaced[position] and position > start)
        if position > start and used + gap + columns > room:
            yield range(start, position)
            start, used, gap = position, 0, False
        used += gap + columns
    yield range(start, len(axis))


def _sentence_lines(subject: Subject, place: Place, screen: Screen) -> list[Text]:
    """Return the words in the colours of what the query reads, and the scale of these colours."""
    grid = subject.grid(place.head)
    lines = []
    is_same_text = grid.rows.labels == grid.columns.labels
    cut = replace(screen, width=screen.room - SENTENCE_MARGIN)
    rows = sentence_rows(subject, place, screen)
    for words in rows:
        line = Text(MORE_BEFORE if words.start and words is rows[0] else "", end="")
        colored = colored_words(grid, place.query, words, cut, grid.scale)
        for position, word in zip(words, colored, strict=True):
            if position > words.start and grid.columns.spaced[position : position + 1] == (True,):
                line.append(" ")
            if position == place.query and is_same_text:
                word.stylize(QUERY_STYLE)
            if position == place.key:
                word.stylize(KEY_STYLE)
            line.append_text(word)
        lines.append(line)
    if rows[-1].stop < len(grid.columns):
        lines[-1].append(MORE_AFTER)
    if place.pane == "arithmetic":
        return [*lines, Text(end="")]
    legend = scale_line(grid.scale, screen)
    if grid.cells.has_hidden:
        legend.append(f"   {MASKED_SIGN} hidden", DIM_STYLE)
    marks = "underlined: query   bold: key" if is_same_text else "bold: key"
    return [*lines, _cut(legend.append(f"   {marks}", DIM_STYLE), screen.room)]


# The panes.


def _body_lines(subject: Subject, place: Place, screen: Screen, lines: int) -> list[Text]:
    if place.pane == "matrix":
        return _matrix_lines(subject, place, screen)
    if place.pane == "overview":
        return _sheet_lines(subject, place, screen)
    whole = long_lines(subject, place, screen)
    first = max(0, min(place.scroll, len(whole) - lines))
    return whole[first : first + lines]


def long_lines(subject: Subject, place: Place, screen: Screen) -> list[Text]:
    """Return all lines of a pane that scrolls: the arithmetic of a cell, or the keys."""
    if place.pane == "keys":
        return list(_keys_lines(subject, place, screen))
    key = "arithmetic", place.head, place.query, place.key, _kind(screen)
    endless = replace(screen, height=None, full=True)
    return _drawing(subject, key, lambda: list(panel_lines(subject.arithmetic(place), endless)))


def _keys_lines(subject: Subject, place: Place, screen: Screen) -> Iterator[Text]:
    width = max(cell_len(key.label) for key in KEYS) + 3
    for key in keys_of_pane(place.below, subject.abilities):
        label = f"  {fit_columns(key.label, width)}"
        yield _cut(Text.assemble((label, BOLD_STYLE), key.does, end=""), screen.room)
    yield Text(end="")
    yield from wrap_note(MOUSE_NOTE, screen, PLAIN_STYLE)


# The matrix of one head.


def matrix_layout(subject: Subject, place: Place, screen: Screen) -> MatrixLayout:
    """Return how the matrix of a place is drawn: with `zoom`, else as large as all of it fits."""
    lines = body_height(subject, place, screen)
    key = "layout", place.head, place.zoom, _kind(screen), lines

    def choose() -> MatrixLayout:
        """Return the first layout in which all of the matrix is in sight, else that of blocks."""
        grid = subject.grid(place.head)
        zooms = [place.zoom] if place.zoom is not None else [*reversed(range(ZOOMS))]
        choices = [_layout_of_zoom(subject, grid, zoom, screen, lines) for zoom in zooms]
        shape = grid.cells.shape
        fitting = [each for each in choices if each.rows >= shape[0] and each.columns >= shape[1]]
        return fitting[0] if fitting else choices[min(1, len(choices) - 1)]

    return _drawing(subject, key, choose)


def _layout_of_zoom(
    subject: Subject, grid: Grid, zoom: int, screen: Screen, lines: int
) -> MatrixLayout:
    """Return the layout of a zoom: 0 half blocks, 1 blocks, 2 numbers."""
    form = _form_of_zoom(subject, grid, zoom, screen)
    halves = form.cells == "halves"
    names = _names_of_rows(subject, grid, screen, form)
    label_width = cell_len(names[0])
    columns = min((screen.room - label_width) // form.width, len(grid.columns))
    line_count = -(-len(grid.rows) // 2) if halves else len(grid.rows)
    headings = 1
    down = max_downward_lines(grid.columns) if any(grid.columns.labels) else FAR
    has_room = form.width > 1 and down + line_count <= lines and columns == len(grid.columns)
    if form.heading == "numbers" and has_room:
        form, headings = replace(form, heading="down"), down
    rows = min((lines - headings) * (2 if halves else 1), len(grid.rows))
    return MatrixLayout(form, names, label_width, headings, rows, max(columns, 1))


def _form_of_zoom(subject: Subject, grid: Grid, zoom: int, screen: Screen) -> TableForm:
    """Return the form of the cells: half a line high only where there are colours."""
    if zoom == 0:
        has_names = any(grid.rows.labels)
        if screen.colored:
            return TableForm("halves", 1, has_pair_names=has_names)
        return TableForm("blocks", 1)
    if zoom == 1:
        return TableForm("blocks", 2)
    number = SHARE_COLUMNS if grid.share else NUMBER_COLUMNS
    words = max_label_columns(grid.columns)
    names = _names_of_rows(subject, grid, screen, TableForm("numbers", number))
    label_width = cell_len(names[0])
    across = max(number, words + 1)
    if 0 < words <= MAX_ACROSS_COLUMNS and label_width + across * len(grid.columns) <= screen.room:
        return TableForm("numbers", across, "across")
    return TableForm("numbers", number)


def _names_of_rows(
    subject: Subject, grid: Grid, screen: Screen, form: TableForm
) -> tuple[str, ...]:
    """Return the name beside each line of all rows, all equally wide, with a space."""
    key = "names", id(grid.rows.labels), form.cells, form.has_pair_names, _kind(screen)

    def write_names() -> tuple[str, ...]:
        table = TerminalTable(grid, screen, form, str)
        return tuple(f"{fit_columns(name, table.label_width - 1)} " for name in table.names)

    return _drawing(subject, key, write_names)


def _matrix_lines(subject: Subject, place: Place, screen: Screen) -> list[Text]:
    """Return the part of the matrix that is in sight, with the cell, its row and column marked.

    Rows are kept, so that only those that come into sight are drawn.
    """
    layout = matrix_layout(subject, place, screen)
    step = layout.rows_per_line
    key = "rows", place.head, place.left, layout.form, layout.columns, _kind(screen)
    row_lines = _drawing(subject, key, dict[int, Text])
    end = min(place.top + layout.rows, len(layout.names) * step)
    wanted = range(place.top, end, step)
    missing = [row for row in wanted if row not in row_lines]
    if missing:
        rows = range(missing[0], missing[-1] + step, step)
        row_lines |= zip(rows, _draw_rows(subject, place, screen, rows), strict=True)
    headings = _headings(subject, place, screen)
    lines = [*headings, *(row_lines[row] for row in wanted)]
    return _mark_cell(lines, subject, place, layout, marker_color(screen))


def _draw_rows(subject: Subject, place: Place, screen: Screen, rows: range) -> Iterator[Text]:
    """Yield the lines of some rows, of the columns in sight, behind their names."""
    layout, grid = matrix_layout(subject, place, screen), subject.grid(place.head)
    part = grid.part(slice(rows.start, rows.stop), _columns_in_sight(place, layout))
    write = cell_format(grid, screen.decimals)
    table = TerminalTable(part, screen, layout.form, write, has_row_names=False)
    for row, line in zip(rows, [*table.lines()][layout.heading_lines :], strict=True):
        name = layout.names[row // layout.rows_per_line]
        yield Text(name, end="").append_text(line)


def _headings(subject: Subject, place: Place, screen: Screen) -> list[Text]:
    """Return the lines above the columns in sight."""
    layout, grid = matrix_layout(subject, place, screen), subject.grid(place.head)
    key = "headings", place.head, place.left, layout.form, layout.columns, _kind(screen)

    def draw() -> list[Text]:
        part = grid.part(slice(0, 1), _columns_in_sight(place, layout))
        table = TerminalTable(part, screen, layout.form, str, has_row_names=False)
        above = islice(table.lines(), layout.heading_lines)
        return [Text(" " * layout.label_width, end="").append_text(line) for line in above]

    return _drawing(subject, key, draw)


def _columns_in_sight(place: Place, layout: MatrixLayout) -> slice:
    return slice(place.left, place.left + layout.columns)


def _mark_cell(
    lines: list[Text], subject: Subject, place: Place, layout: MatrixLayout, color: Color
) -> list[Text]:
    """Return the lines with the name of the row, the heading of the column and the cell marked.

    `color`: that of the marker on half a cell.
    """
    width = layout.form.width
    column = (place.key - place.left) * width
    row = layout.heading_lines + (place.query - place.top) // layout.rows_per_line
    name_of_column = subject.grid(place.head).columns.headings[place.key]
    for number in range(layout.heading_lines):
        lines[number] = _mark_heading(lines[number], layout, column, name_of_column)
    line = lines[row].copy()
    name = layout.names[place.query // layout.rows_per_line]
    own_number = subject.grid(place.head).rows.numbers[place.query]
    line.stylize(MARK_STYLE, *_name_part(name, own_number, is_lower=_is_lower(place, layout)))
    first = len(name) + column  # in letters: those of names may be wide
    if layout.form.cells == "numbers":
        blanks = width - len(line.plain[first : first + width].lstrip())
        line.stylize(NUMBER_STYLE, first + blanks, first + width)
        line = _with_sign(line, first + blanks - 1, "▸")
    elif layout.form.cells == "halves":
        line = _with_marked_half(line, first, color, is_lower=_is_lower(place, layout))
    else:
        line = _with_sign(line, first, "[]" if width == 2 else "╳")
    lines[row] = line
    return lines


def _is_lower(place: Place, layout: MatrixLayout) -> bool:
    """Return whether the query is the second of two rows on a line."""
    return (place.query - place.top) % layout.rows_per_line == 1


def _name_part(name: str, number: str, *, is_lower: bool) -> tuple[int, int]:
    """Return where the name of one row begins and ends in a name of two: `1 the / 2 old`.

    A range of two numbers, `1–2`, has no such part, and is marked as a whole.
    """
    end = len(name.rstrip())
    lower = re.compile(rf"{PAIR_SEPARATOR} *{re.escape(number)} " if is_lower else PAIR_SEPARATOR)
    found = [*lower.finditer(name)][-1:]
    if not found:
        return 0, end
    start = found[0].start()
    return (start + len(PAIR_SEPARATOR), end) if is_lower else (0, start)


def _with_marked_half(line: Text, at: int, color: Color, *, is_lower: bool) -> Text:
    """Return a line with half of a cell in the marker's colour, and the other half as it was."""
    upper, lower = _half_colors(line, at)
    block, other = (LOWER_HALF_BLOCK, upper) if is_lower else (UPPER_HALF_BLOCK, lower)
    half = Text(block, color_style(color, other), end="")
    marked = Text(end="").append_text(line[:at]).append_text(half)
    return marked.append_text(line[at + 1 :])


def _half_colors(line: Text, at: int) -> tuple[Color | None, Color | None]:
    """Return the colours of the upper and the lower half of a cell; None where there is none."""
    styles = (span.style for span in line.spans if span.start <= at < span.end)
    style = next((each for each in styles if isinstance(each, Style)), PLAIN_STYLE)
    if line.plain[at] == UPPER_HALF_BLOCK:
        return style.color, style.bgcolor
    return None, style.color if line.plain[at] == LOWER_HALF_BLOCK else None


def _mark_heading(heading: Text, layout: MatrixLayout, column: int, number: str) -> Text:
    """Return a line above the matrix with what stands over a column marked.

    On a line with only some numbers, that of the column takes the place of those nearby.
    """
    line = heading.copy()
    start, width = layout.label_width + column, layout.form.width
    if layout.form.heading == "numbers" and layout.form.cells != "numbers":
        start = min(start, layout.label_width + layout.columns * width - len(number))
        near = range(start - 1, start + len(number) + 1)
        line = Text(HEADING_NUMBER.sub(partial(_blank_near, near), line.plain), DIM_STYLE, end="")
        line.pad_right(max(0, start + len(number) - line.cell_len))
        return _with_sign(line, start, number, MARK_STYLE)
    line.pad_right(max(0, start + width - line.cell_len))
    first, end = (_letter_index(line.plain, each) for each in (start, start + width))
    if line.plain[first:end].strip():
        line.stylize(MARK_STYLE, first, end)
    return line


def _letter_index(text: str, column: int) -> int:
    """Return the index of the letter at a column of the screen; some letters take two.

    >>> _letter_index("日本 ab", 4)
    2
    """
    at = 0
    for index, letter in enumerate(text):
        if at >= column:
            return index
        at += cell_len(letter)
    return len(text)


def _blank_near(near: range, found: re.Match[str]) -> str:
    """Return spaces in place of a number that begins or ends in a range of columns."""
    is_near = found.start() < near.stop and found.end() > near.start
    return " " * len(found[0]) if is_near else found[0]


def _with_sign(line: Text, first: int, sign: str, style: Style = BOLD_STYLE) -> Text:
    """Return a line with letters replaced, in the colours that were there."""
    marked = line[:first]
    before = line[first : first + len(sign)]
    middle = Text(sign, end="")
    for span in before.spans:
        middle.stylize(span.style, span.start, span.end)
    middle.stylize(style)
    return marked.append_text(middle).append_text(line[first + len(sign) :])


def cell_at(
    subject: Subject, place: Place, screen: Screen, line: int, column: int
) -> tuple[int | None, int | None]:
    """Return the query and the key at a line and a column of the matrix: on the name of a row no
    key, above a column no query, and neither beside the matrix.
    """
    layout = matrix_layout(subject, place, screen)
    row = (line - layout.heading_lines) * layout.rows_per_line
    key = (column - layout.label_width) // layout.form.width
    is_row = 0 <= row < min(layout.rows, subject.grid(place.head).cells.shape[0] - place.top)
    has_key = column >= layout.label_width and key < layout.columns
    if is_row and column < layout.label_width:
        query = place.top + row
        return query + _is_lower_name(subject, place, layout, query, column), None
    if not has_key:
        return None, None
    return (place.top + row if is_row else None), place.left + key if is_row or row < 0 else None


def _is_lower_name(
    subject: Subject, place: Place, layout: MatrixLayout, query: int, column: int
) -> bool:
    """Return whether a column of the names of two rows on a line is in that of the second."""
    numbers = subject.grid(place.head).rows.numbers
    if layout.rows_per_line == 1 or query + 1 >= len(numbers):
        return False
    name = layout.names[query // layout.rows_per_line]
    start = _name_part(name, numbers[query + 1], is_lower=True)[0]
    return start > 0 and column >= cell_len(name[:start])


# All heads as small maps.


def sheet_layout(subject: Subject, place: Place, screen: Screen) -> SheetLayout:
    """Return how small maps are arranged: a layer on a row, where its heads fit side by side.

    They are as large as all heads fit; where not even the smallest ones do, some larger ones are in
    sight.
    """
    room = body_height(subject, place, screen)
    layouts = [
        _layout_of_maps(subject, place, screen, form, side, room)
        for form, side in _sheet_forms(subject, screen)
    ]
    count = len(subject.explorer.heads)
    larger = [each for each in layouts if each.side >= SMALL_MAP_SIDE] or layouts[-1:]
    return next((each for each in layouts if each.rows * each.per_row >= count), larger[-1])


def _sheet_forms(subject: Subject, screen: Screen) -> Iterator[tuple[MapForm, int]]:
    """Yield the forms of small maps, each with the most rows and columns, from the largest."""
    whole = max(subject.shape)
    if whole <= MAP_SIDES[0]:
        tallest = MAX_CELL_LINES if screen.colored else 1  # else heights of blocks show weights
        for lines in range(tallest, 0, -1):
            yield MapForm(2 * lines, gap=MAP_GAP, cell_lines=lines), whole
    if whole > WIDE_MAP_SIDE:
        for side in dict.fromkeys(min(whole, each) for each in MAP_SIDES):
            yield MapForm(1, halves=screen.colored, gap=MAP_GAP), side


def _layout_of_maps(
    subject: Subject, place: Place, screen: Screen, form: MapForm, side: int, room: int
) -> SheetLayout:
    """Return the arrangement of maps of a form in `room` lines, with the chosen head in sight."""
    block = subject.block_size(side)
    rows, columns = (-(-count // block) for count in subject.shape)
    map_columns = form.cell_columns * columns
    per_row, count = (screen.room + MAP_GAP) // (map_columns + MAP_GAP), len(subject.cells)
    in_layer = max(cell[1] for cell in subject.cells) + 1
    all_rows = -(-count // min(max(1, per_row), in_layer))
    per_row = in_layer if in_layer <= per_row else -(-count // all_rows)  # rows equally long
    lines = 1 + (-(-rows // 2) if form.halves else rows * form.cell_lines)
    if all_rows * (lines + 1) - 1 <= room:
        lines += 1
    in_sight = (room + 1) // lines if map_columns <= screen.room else 0
    in_sight = max(1, in_sight)
    first = max(0, min(place.head // per_row - in_sight // 2, all_rows - in_sight))
    return SheetLayout(form, side, map_columns, per_row, lines, first, in_sight)


def _sheet_lines(subject: Subject, place: Place, screen: Screen) -> list[Text]:
    """Return small maps of the heads in sight; the name of the chosen one is marked."""
    layout = sheet_layout(subject, place, screen)
    lines: list[Text] = []
    in_sight = layout.heads_in_sight(len(subject.explorer.heads))
    for start in range(0, len(in_sight), layout.per_row):
        heads = in_sight[start : start + layout.per_row]
        key = "sheet", heads, layout.form, layout.side, layout.lines_per_row, _kind(screen)
        draw = partial(_row_of_maps, subject, heads, screen, layout)
        part = list(_drawing(subject, key, draw))
        if place.head in heads:
            part[0] = _mark_name(part[0], subject, place.head, heads.index(place.head), layout)
        lines += part
    return lines


def _row_of_maps(
    subject: Subject, heads: Sequence[int], screen: Screen, layout: SheetLayout
) -> list[Text]:
    """Return the lines of small maps side by side, with an empty line below if there is room."""
    grids = [subject.small_map(head, layout.side) for head in heads]
    arrangement = MapArrangement(layout.form, (tuple(range(len(grids))),))
    lines = list(draw_maps((grids,), arrangement, screen))
    return lines + [Text(end="")] * (layout.lines_per_row - len(lines))


def _mark_name(line: Text, subject: Subject, head: int, at: int, layout: SheetLayout) -> Text:
    start = at * (layout.map_columns + layout.form.gap)
    end = start + min(layout.map_columns + layout.form.gap - 1, cell_len(subject.name(head)))
    marked = line.copy()
    marked.stylize(MARK_STYLE, start, end)
    return marked
