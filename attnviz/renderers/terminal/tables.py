"""Chooses the form of each Grid (numbers, blocks of colour, pooled), side by side.

The form is numbers in the cells, else blocks of colour, else half blocks, else cells that stand for
several, with a note that says so. A form fits if a screen shows all of it at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest

from rich.cells import cell_len
from rich.text import Text

from attnviz.cells import FULL_SLICE
from attnviz.renderers.terminal.screen import (
    DIM_STYLE,
    GAP_COLUMNS,
    MASKED_SIGN,
    Screen,
    join_blocks,
    legend_lines,
    wrap_note,
)
from attnviz.renderers.terminal.table import (
    TableForm,
    TerminalTable,
    max_downward_lines,
    max_label_columns,
    max_stack_lines,
    stacked_widths,
)
from attnviz.views.grids.grid import Grid, block_size, pool_grid, with_common_scales
from attnviz.views.grids.number_formats import cell_format, masked_sign, ordinary_reach
from attnviz.wording.numbers import POWERS_OF_TEN_FROM
from attnviz.wording.words import counted

MAX_VECTOR_ROWS = 40  # a text of 2,000 tokens has 2,000 vectors
MAX_COLUMN_TOKENS = 40  # listed in a note
TITLE_GAP = 2  # columns, between tables that are narrower than their titles
WIDE_RATIO, MAX_WIDE_ROWS = 4, 128  # of columns to rows in a wide map, and its rows
MAX_ROW_TOKEN_LINES = 2  # of the note that lists the tokens of rows
LINES_ABOVE_TABLES = 5  # that stay in sight above headings written downwards
MAX_FITTED_LETTERS = 16  # of a heading, if each column is as wide as its own
MAX_ACROSS_LETTERS = 11  # of a heading, if all columns are as wide as the widest
FULL_HEIGHT_ROWS = 2  # so few rows are not drawn as halves
LIST_ROWS = 7  # of words with their numbers, in one table
MIN_POOLED_BLOCKS = 24  # on a side: fewer show too little
BLOCK_GROWTH = 1.1

TableRows = list[list[TerminalTable]]  # tables side by side, and rows of them one below the other


def table_lines(grids: Sequence[Grid], screen: Screen) -> Iterator[Text]:
    """Yield the lines of grids as tables, and below each run of one kind how to read it."""
    for number, run in enumerate(_runs_of_one_kind(grids)):
        if number:
            yield Text()
        yield from _tables_with_footer(run, fit_tables(run, screen), screen)


def _tables_with_footer(grids: Sequence[Grid], rows: TableRows, screen: Screen) -> Iterator[Text]:
    """Yield tables, then how to read them, without an empty line if only so both fit.

    Of tables longer than the screen the beginning is in sight, so the notes come first.
    """
    body = list(join_blocks([list(_row_of_tables(tables)) for tables in rows]))
    footer = list(_tables_footer(grids, rows))
    if footer and len(body) + len(footer) > screen.rows:
        yield from join_blocks([footer, body])
        return
    yield from body
    if footer and len(body) + 1 + len(footer) <= screen.rows:
        yield Text()
    yield from footer


def fit_tables(grids: Sequence[Grid], screen: Screen) -> TableRows:
    """Return the tables, in rows side by side, for grids of one kind: one for each.

    Wide vectors are cut, or with --full divided into several tables; maps of tokens are pooled if
    they do not fit.
    """
    if grids[0].columns.unit != "token":
        vector_tables = [table for grid in grids for table in _vector_tables(grid, grids, screen)]
        return [_level_headings(row) for row in _pack_side_by_side(vector_tables, screen)]
    rows = _choose_form(grids, screen)
    if grids[0].is_list and not (rows and _has_words_over_numbers(rows[0][0].form)):
        return _pack_side_by_side(list(_tables_as_lists(grids, screen)), screen)
    return rows or _pool_tables(grids, replace(screen, numbers=False))


def _has_words_over_numbers(form: TableForm) -> bool:
    return form.cells == "numbers" and form.heading == "across"


def _tables_as_lists(grids: Sequence[Grid], screen: Screen) -> Iterator[TerminalTable]:
    """Yield the rows of grids as columns beside the words, a few words in each table."""
    for grid in map(Grid.turned, grids):
        for start in range(0, len(grid.rows), LIST_ROWS):
            part = grid.part(slice(start, start + LIST_ROWS))
            words = f"tokens {part.rows.numbers[0]}–{part.rows.numbers[-1]}"
            part = replace(part, title=words) if start else part
            width = max(_number_columns(part, grids, screen), max_label_columns(part.columns) + 1)
            form = TableForm("numbers", width, "across")
            yield TerminalTable(part, screen, form, cell_format(part, screen.decimals, grids))


def _choose_form(grids: Sequence[Grid], screen: Screen) -> TableRows | None:
    """Return the tables in the first form that fits the screen, else in the lowest form.

    None: all forms are too wide. With --numbers only numbers are chosen, if they are possible.
    """
    possible_forms = [
        (form, rows)
        for form in _table_forms(grids, screen)
        if (rows := _tables_in_form(grids, form, screen)) is not None
    ]
    if not possible_forms:
        return None
    if screen.numbers and possible_forms[0][0].cells == "numbers":
        possible_forms = [pair for pair in possible_forms if pair[0].cells == "numbers"]
    heights = [_tables_height(grids, rows) for _, rows in possible_forms]
    for (form, rows), height in zip(possible_forms, heights, strict=True):
        if height <= screen.rows - (LINES_ABOVE_TABLES if form.heading == "down" else 0):
            return rows
    return possible_forms[heights.index(min(heights))][1]


def _table_forms(grids: Sequence[Grid], screen: Screen) -> Iterator[TableForm]:
    """Yield the possible forms, from the one that shows most to the one that needs least room."""
    first = grids[0]
    words = 0 if screen.width is None else max_label_columns(first.columns)
    downwards = words > 0 and (len(first.rows) > 1 or max_downward_lines(first.columns) == 1)
    if screen.numbers is not False:
        width = max(_number_columns(grid, grids, screen) for grid in grids)
        if 0 < words <= MAX_ACROSS_LETTERS:
            yield TableForm("numbers", max(width, words + 1), "across")
        if 0 < words <= MAX_FITTED_LETTERS:
            column_widths = tuple(max(width, cell_len(label) + 1) for label in first.columns.labels)
            yield TableForm("numbers", width, "across", widths=column_widths)
        if downwards:
            yield TableForm("numbers", width, "down")
        yield TableForm("numbers", width)
    if downwards:
        yield TableForm("blocks", 2, "down")
    yield TableForm("blocks", 2)
    if screen.colored and len(first.rows) > FULL_HEIGHT_ROWS and first.scale.kind != "none":
        if any(first.rows.labels):
            yield TableForm("halves", 1, has_pair_names=True)
        yield TableForm("halves", 1)
    yield TableForm("blocks", 1)


def _tables_in_form(grids: Sequence[Grid], form: TableForm, screen: Screen) -> TableRows | None:
    """Return the tables in a form; None if one is too wide, or labels across would part heads."""
    form_tables = [
        TerminalTable(grid, screen, form, cell_format(grid, screen.decimals, grids))
        for grid in grids
    ]
    if any(table.label_width + table.cells_width > screen.room for table in form_tables):
        return None
    rows = _pack_side_by_side(form_tables, screen)
    return None if form.heading == "across" and len(rows) > 1 else rows


def _tables_height(grids: Sequence[Grid], rows: TableRows) -> int:
    line_count = sum(max(table.height for table in tables) for tables in rows)
    return line_count + len(rows) - 1 + len(list(_tables_footer(grids, rows)))


def _pool_tables(grids: Sequence[Grid], screen: Screen) -> TableRows:
    """Return tables of pooled grids, with the smallest blocks that fit the width.

    If many blocks are left, larger ones are taken until the height fits, too; the rows of a wide
    map stay as they are, up to MAX_WIDE_ROWS.
    """
    count, size = len(grids[0].columns), _smallest_block(grids, screen)
    row_count, is_of_tokens = len(grids[0].rows), grids[0].rows.unit == "token"
    is_wide = is_of_tokens and row_count * WIDE_RATIO <= count
    if is_wide:
        size = math.ceil(count / screen.room)
    while True:
        size = block_size(count, size)
        block_height = size if is_of_tokens else 1
        if is_wide:
            block_height = min(size, math.ceil(row_count / MAX_WIDE_ROWS))
        rows = _choose_form(
            with_common_scales([pool_grid(grid, block_height, size) for grid in grids]), screen
        )
        larger = math.ceil(size * BLOCK_GROWTH)
        if rows and (
            is_wide
            or count / larger < MIN_POOLED_BLOCKS
            or _tables_height(grids, rows) <= screen.rows
        ):
            return rows
        size = larger


def _smallest_block(grids: Sequence[Grid], screen: Screen) -> int:
    """Return how many tokens a block has at least: smaller ones cannot fit, larger ones may not."""
    across = math.ceil(len(grids[0].columns) / screen.room)
    lines = 2 * max(screen.rows - LINES_ABOVE_TABLES, 1) if screen.colored else len(grids[0].rows)
    return max(across, math.ceil(len(grids[0].rows) / lines))


def _vector_tables(grid: Grid, grids: Sequence[Grid], screen: Screen) -> list[TerminalTable]:
    """Return the tables of one grid of vectors: cut to 40 rows and to the columns that fit.

    With --full all rows, and a table for each part of the columns; in a file everything in one.
    """
    write = cell_format(grid, screen.decimals, grids)  # the same whichever columns are shown
    shown_grid = grid if screen.full or screen.width is None else _some_rows(grid)
    form = TableForm("numbers", _number_columns(grid, grids, screen))
    room = screen.room - TerminalTable(shown_grid, screen, form, write).label_width
    if grid.columns.has_named_dimensions:
        form = _dimension_names_form(grid, _widest_number(grid, grids, screen), room)
    parts = list(_column_parts(form, len(grid.columns), room))
    return [
        TerminalTable(shown_grid.part(FULL_SLICE, part), screen, form.part(part), write)
        for part in (parts if screen.full else parts[:1])
    ]


def _some_rows(grid: Grid) -> Grid:
    """Return the first 40 rows of a grid, or the last 40 if its last rows matter most."""
    rows = slice(-MAX_VECTOR_ROWS, None) if grid.keeps_last else slice(MAX_VECTOR_ROWS)
    return grid.part(rows)


def _dimension_names_form(grid: Grid, number: int, room: int) -> TableForm:
    """Return the form for named dimensions: names across, or downwards if they do not fit.

    `number`: the width of the widest number. `room`: the columns for cells.
    """
    widths = tuple(max(number, width + 1) for width in stacked_widths(grid.columns))
    if sum(widths) > room:
        return TableForm("numbers", number, "down")
    return TableForm(
        "numbers", number, "across", widths=widths, stacked_lines=max_stack_lines(grid.columns)
    )


def _column_parts(form: TableForm, count: int, room: int) -> Iterator[slice]:
    """Yield slices of the columns, each with as many as fit into `room`, at least one."""
    start, taken_columns = 0, 0
    for column in range(count):
        if column > start and taken_columns + form.width_of(column) > room:
            yield slice(start, column)
            start, taken_columns = column, 0
        taken_columns += form.width_of(column)
    yield slice(start, count)


def _number_columns(grid: Grid, grids: Sequence[Grid], screen: Screen) -> int:
    """Return the width of the widest number or column heading, with a space before it."""
    heads = [cell_len(head) for head in grid.columns.headings]
    names = heads[-1:] if grid.columns.numbers[-1] else heads
    return max(_widest_number(grid, grids, screen), 1 + max(names))


def _widest_number(grid: Grid, grids: Sequence[Grid], screen: Screen) -> int:
    """Return the width of the widest number as it is written, with a space before it.

    `grids`: tables whose numbers are written alike.
    """
    lowest, highest = grid.cells.extent
    extreme = -max(-lowest, highest) if lowest < 0 else highest
    write = cell_format(grid, screen.decimals, grids)
    widest = len(write(extreme))
    if abs(extreme) >= POWERS_OF_TEN_FROM:  # it is written short, as a power of ten
        widest = max(widest, len(write(-ordinary_reach(grid))))
    words = max((1 + cell_len(word) for row in grid.words for word in row), default=0)
    return 1 + max(words + widest, 2)


def _runs_of_one_kind(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Return consecutive grids of one kind together, such as the weights of all heads."""
    runs: list[list[Grid]] = []
    for grid in grids:
        if not runs or not _is_same_kind(runs[-1][0], grid):
            runs.append([])
        runs[-1].append(grid)
    return runs


def _is_same_kind(first: Grid, grid: Grid) -> bool:
    """Return whether two grids have the same note and columns, so that they are shown together.

    Vectors may also differ in the names of their dimensions, if their rows are the same.
    """
    if first.note != grid.note:
        return False
    both_named = first.columns.has_named_dimensions and grid.columns.has_named_dimensions
    return first.columns == grid.columns or (both_named and first.rows == grid.rows)


def _pack_side_by_side(single_tables: Sequence[TerminalTable], screen: Screen) -> TableRows:
    """Return rows of tables, side by side while they fit; one per row in a file.

    A table has row names only if its rows differ from those of the first in its row.
    """
    rows: TableRows = []
    for table in single_tables:
        if rows and screen.width is not None:
            first = replace(rows[-1][0], stands_alone=False)
            next_table = replace(
                table, stands_alone=False, has_row_names=first.grid.rows != table.grid.rows
            )
            row = [first, *rows[-1][1:], next_table]
            if sum(row_table.width + GAP_COLUMNS for row_table in row) - GAP_COLUMNS <= screen.room:
                rows[-1] = row
                continue
        rows.append([table])
    return rows


def _level_headings(row: Sequence[TerminalTable]) -> list[TerminalTable]:
    """Return the tables of a row; headings broken between words get equally many lines."""
    lines = max(table.form.stacked_lines for table in row)
    return [
        replace(table, form=replace(table.form, stacked_lines=lines))
        if table.form.stacked_lines
        else table
        for table in row
    ]


def _row_of_tables(tables: Sequence[TerminalTable]) -> Iterator[Text]:
    """Yield the lines of tables side by side; below a lower table is empty space."""
    starts = _table_starts(tables)
    for parts in zip_longest(*(table.lines() for table in tables), fillvalue=Text(end="")):
        line = Text(end="")
        for start, part in zip(starts, parts, strict=True):
            line.append(" " * (start - line.cell_len))
            line.append_text(part)
        yield line


def _table_starts(tables: Sequence[TerminalTable]) -> list[int]:
    """Return the column where each table begins, at equal gaps between their cells if these fit.

    Titles may be wider than cells; otherwise gaps are counted from titles.
    """
    widest = max(table.title_excess for table in tables)
    for gap in (widest + GAP_COLUMNS, max(GAP_COLUMNS, widest + TITLE_GAP)):
        distances = [table.width - table.title_excess + gap for table in tables]
        if sum(distances[:-1]) + tables[-1].width <= tables[0].screen.room:
            return [0, *accumulate(distances[:-1])]
    return [0, *accumulate(table.width + GAP_COLUMNS for table in tables[:-1])]


def _tables_footer(grids: Sequence[Grid], rows: TableRows) -> Iterator[Text]:
    """Yield how to read the tables: notes, legend, what was pooled, and how much is left out."""
    grid, table = grids[0], rows[0][0]
    screen, numbers = table.screen, table.form.cells == "numbers"
    yield from wrap_note(grid.note, screen)
    if table.form.heading == "numbers":
        yield from wrap_note(_column_tokens_note(grid), screen)
        yield from _row_tokens_note(table)
    yield from wrap_note(table.grid.pool_note, screen)
    if not numbers:
        yield from legend_lines([shown.grid for tables in rows for shown in tables], screen)
    elif masked_grids := [masked for masked in grids if masked.cells.has_hidden]:
        is_masked = grid.columns.unit == "token"
        sign = masked_sign(masked_grids[0], MASKED_SIGN)
        yield Text(f"{sign} = {'hidden by the mask' if is_masked else 'no value'}", DIM_STYLE)
    missing = _missing_count_text(grid, table)
    if missing and not (screen.full or grid.is_list):
        yield from wrap_note(f"and {missing} (--full shows all)", screen)


def _column_tokens_note(grid: Grid) -> str:
    """Return the tokens of the columns as a note; empty if rows name them, or they are too many."""
    if grid.columns.unit != "token" or grid.rows.unit != "token":
        return ""
    if set(grid.columns.names) <= set(grid.rows.names) or len(grid.columns) > MAX_COLUMN_TOKENS:
        return ""
    return f"columns: {' · '.join(grid.columns.names)}"


def _row_tokens_note(table: TerminalTable) -> list[Text]:
    """Return a note with the tokens of rows that are shown as ranges of numbers only; else [].

    Nor is there one if it takes more than two lines, or the table is pooled.
    """
    halves = table.form.cells == "halves" and not table.form.has_pair_names
    if not halves or table.grid.pool_note or not any(table.grid.rows.labels):
        return []
    note_lines = list(wrap_note(" · ".join(table.grid.rows.names), table.screen))
    return note_lines if len(note_lines) <= MAX_ROW_TOKEN_LINES else []


def _missing_count_text(grid: Grid, table: TerminalTable) -> str:
    """Return how many columns and rows a table leaves out: '24 more dimensions and 8 more tokens';
    of a matrix between dimensions '24 more columns and 8 more rows'; '8 earlier tokens' where the
    last are shown.

    Empty if none, or if the table is pooled.
    """
    if table.grid.pool_note:
        return ""
    units = grid.columns.unit, grid.rows.unit
    counts = (len(grid.columns) - len(table.grid.columns), len(grid.rows) - len(table.grid.rows))
    if all(counts) and units[0] == units[1]:
        units = "column", "row"
    kinds = "more", "earlier" if grid.keeps_last else "more"
    return " and ".join(
        counted(number, f"{kind} {noun}")
        for number, kind, noun in zip(counts, kinds, units, strict=True)
        if number
    )
