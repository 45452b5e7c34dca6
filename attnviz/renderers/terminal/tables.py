"""Grids as tables, in the form that fits.

Numbers in the cells, else blocks of colour, else halves of them, else cells that stand for
several, with a line that says so. What fits is what a screen shows at once: its width, and its
height where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest

from rich.cells import cell_len
from rich.text import Text

from attnviz.cells import EVERYTHING
from attnviz.renderers.terminal.ramps import legend
from attnviz.renderers.terminal.screen import DIM, GAP, HIDDEN, Screen, apart, wrapped
from attnviz.renderers.terminal.table import (
    Form,
    Table,
    tallest_stack,
    tallest_word,
    widest_word,
    widths_of_words,
)
from attnviz.views.grids.grid import Grid, block_size, pool, same_scale
from attnviz.views.grids.numbers import cell_format, ordinary_reach, sign_of_hidden
from attnviz.wording.numbers import LARGE
from attnviz.wording.words import counted

ROWS_AT_ONCE = 40  # of vectors, of which a text of 2,000 tokens has 2,000
LISTED = 40  # tokens that the columns stand for
BETWEEN_TITLES = 2  # columns, of tables that are narrower than their titles
MOST_LINES = 2  # that list the tokens of rows
ABOVE = 5  # lines over the tables, which stay on the screen where words are written downwards
LONGEST_FITTED = 16  # letters of a word, where each column is as wide as its own
LONGEST_ACROSS = 11  # letters of a word that stands over numbers
FEW_ROWS = 2  # are drawn in full height

BLOCKS = 24  # on a side: with fewer, nothing is to be seen any more
GROWTH = 1.1  # of blocks that are still too small

Rows = list[list[Table]]  # tables side by side, and rows of them one below the other


def tables(grids: Sequence[Grid], screen: Screen) -> Iterator[Text]:
    for number, alike in enumerate(_alike(grids)):
        if number:
            yield Text()
        yield from _drawn(alike, fit(alike, screen), screen)


def _drawn(alike: Sequence[Grid], rows: Rows, screen: Screen) -> Iterator[Text]:
    """Tables, and how to read them; without a line between, where that keeps both in sight.

    Of tables that are longer than the screen the beginning is seen, and so is what explains them.
    """
    body = list(apart([list(_beside(tables)) for tables in rows]))
    footer = list(_footer(alike, rows))
    if footer and len(body) + len(footer) > screen.rows:
        yield from apart([footer, body])
        return
    yield from body
    if footer and len(body) + 1 + len(footer) <= screen.rows:
        yield Text()
    yield from footer


def fit(alike: Sequence[Grid], screen: Screen) -> Rows:
    """The tables that show grids of one kind: one for each, or several for a wide one."""
    if alike[0].columns.counts != "token":
        made = [table for grid in alike for table in _vectors(grid, alike, screen)]
        return [_level(row) for row in _packed(made, screen)]
    return _chosen(alike, screen) or _pooled(alike, replace(screen, numbers=False))


def _chosen(alike: Sequence[Grid], screen: Screen) -> Rows | None:
    """The first form in which everything is seen at once; else the one that takes fewest lines."""
    possible = [
        (form, rows)
        for form in _forms(alike, screen)
        if (rows := _in_form(alike, form, screen)) is not None
    ]
    if not possible:
        return None
    if screen.numbers and possible[0][0].cells == "numbers":
        possible = [pair for pair in possible if pair[0].cells == "numbers"]
    heights = [_height(alike, rows) for _, rows in possible]
    for (form, rows), height in zip(possible, heights, strict=True):
        if height <= screen.rows - (ABOVE if form.heading == "down" else 0):
            return rows
    return possible[heights.index(min(heights))][1]


def _forms(alike: Sequence[Grid], screen: Screen) -> Iterator[Form]:
    """From the one that says most to the one that needs least."""
    first = alike[0]
    words = 0 if screen.width is None else widest_word(first.columns)
    downwards = words > 0 and (len(first.rows) > 1 or tallest_word(first.columns) == 1)
    if screen.numbers is not False:
        width = max(_number_width(grid, alike, screen) for grid in alike)
        if 0 < words <= LONGEST_ACROSS:
            yield Form("numbers", max(width, words + 1), "across")
        if 0 < words <= LONGEST_FITTED:
            own = tuple(max(width, cell_len(label) + 1) for label in first.columns.labels)
            yield Form("numbers", width, "across", widths=own)
        if downwards:
            yield Form("numbers", width, "down")
        yield Form("numbers", width)
    if downwards:
        yield Form("blocks", 2, "down")
    yield Form("blocks", 2)
    if screen.colored and len(first.rows) > FEW_ROWS and first.scale.kind != "none":
        if any(first.rows.labels):
            yield Form("halves", 1, pairs=True)
        yield Form("halves", 1)
    yield Form("blocks", 1)


def _in_form(alike: Sequence[Grid], form: Form, screen: Screen) -> Rows | None:
    """Grids in this form, if there is room; words are written across if that parts no heads."""
    made = [Table(grid, screen, form, cell_format(grid, screen.decimals, alike)) for grid in alike]
    if any(table.label_width + table.cells_width > screen.room for table in made):
        return None
    rows = _packed(made, screen)
    return None if form.heading == "across" and len(rows) > 1 else rows


def _height(alike: Sequence[Grid], rows: Rows) -> int:
    """How many lines are taken, with those on how to read them."""
    high = sum(max(table.height for table in tables) for tables in rows)
    return high + len(rows) - 1 + len(list(_footer(alike, rows)))


def _pooled(alike: Sequence[Grid], screen: Screen) -> Rows:
    """Blocks of cells, as small as fits: in width, and in height while there are many blocks."""
    count, size = len(alike[0].columns), _smallest_block(alike, screen)
    while True:
        size = block_size(count, size)
        high = size if alike[0].rows.counts == "token" else 1
        rows = _chosen(same_scale([pool(grid, high, size) for grid in alike]), screen)
        larger = math.ceil(size * GROWTH)
        if rows and (count / larger < BLOCKS or _height(alike, rows) <= screen.rows):
            return rows
        size = larger


def _smallest_block(alike: Sequence[Grid], screen: Screen) -> int:
    """No smaller ones can fit; names that span more are longer, so that larger ones may not."""
    across = math.ceil(len(alike[0].columns) / screen.room)
    lines = 2 * max(screen.rows - ABOVE, 1) if screen.colored else len(alike[0].rows)
    return max(across, math.ceil(len(alike[0].rows) / lines))


def _vectors(grid: Grid, alike: Sequence[Grid], screen: Screen) -> list[Table]:
    write = cell_format(grid, screen.decimals, alike)  # of all columns, whichever are shown
    shown = grid if screen.full or screen.width is None else grid.part(slice(ROWS_AT_ONCE))
    form = Form("numbers", _number_width(grid, alike, screen))
    room = screen.room - Table(shown, screen, form, write).label_width
    if grid.columns.named:
        form = _form_of_names(grid, _widest_number(grid, alike, screen), room)
    parts = list(_parts(form, len(grid.columns), room))
    return [
        Table(shown.part(EVERYTHING, part), screen, form.part(part), write)
        for part in (parts if screen.full else parts[:1])
    ]


def _form_of_names(grid: Grid, number: int, room: int) -> Form:
    """Names of dimensions over their numbers; downwards, where that shows more of them."""
    widths = tuple(max(number, width + 1) for width in widths_of_words(grid.columns))
    if sum(widths) > room:
        return Form("numbers", number, "down")
    return Form("numbers", number, "across", widths=widths, stacked=tallest_stack(grid.columns))


def _parts(form: Form, count: int, room: int) -> Iterator[slice]:
    """The columns that there is room for at once, then the next; one at least."""
    start, taken = 0, 0
    for column in range(count):
        if column > start and taken + form.width_of(column) > room:
            yield slice(start, column)
            start, taken = column, 0
        taken += form.width_of(column)
    yield slice(start, count)


def _number_width(grid: Grid, alike: Sequence[Grid], screen: Screen) -> int:
    """The widest number, or the widest name of a column, and a space before it."""
    heads = [cell_len(head) for head in grid.columns.headings]
    names = heads[-1:] if grid.columns.numbers[-1] else heads
    return max(_widest_number(grid, alike, screen), 1 + max(names))


def _widest_number(grid: Grid, alike: Sequence[Grid], screen: Screen) -> int:
    """As it is written, and a space before it."""
    lowest, highest = grid.cells.extent
    extreme = -max(-lowest, highest) if lowest < 0 else highest
    write = cell_format(grid, screen.decimals, alike)
    widest = len(write(extreme))
    if abs(extreme) >= LARGE:  # a shorter number, with powers of ten
        widest = max(widest, len(write(-ordinary_reach(grid))))
    words = max((1 + cell_len(word) for row in grid.words for word in row), default=0)
    return 1 + max(words + widest, 2)


def _alike(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Runs of grids of one kind, such as the weights of all heads."""
    runs: list[list[Grid]] = []
    for grid in grids:
        if runs and _is_like(runs[-1][0], grid):
            runs[-1].append(grid)
        else:
            runs.append([grid])
    return runs


def _is_like(first: Grid, grid: Grid) -> bool:
    """Of one kind are the same columns; and vectors of heads that name their numbers otherwise."""
    if first.note != grid.note:
        return False
    named = first.columns.named and grid.columns.named
    return first.columns == grid.columns or (named and first.rows == grid.rows)


def _packed(made: Sequence[Table], screen: Screen) -> Rows:
    """Tables in rows: side by side while they fit, with the names of their rows on the left."""
    rows: Rows = []
    for table in made:
        if rows and screen.width is not None:
            first = replace(rows[-1][0], alone=False)
            beside = replace(table, alone=False, named=first.grid.rows != table.grid.rows)
            row = [first, *rows[-1][1:], beside]
            if sum(each.width + GAP for each in row) - GAP <= screen.room:
                rows[-1] = row
                continue
        rows.append([table])
    return rows


def _level(row: Sequence[Table]) -> list[Table]:
    """With names over their columns in as many lines, so that rows stand beside rows."""
    lines = max(table.form.stacked for table in row)
    return [
        replace(table, form=replace(table.form, stacked=lines)) if table.form.stacked else table
        for table in row
    ]


def _beside(tables: Sequence[Table]) -> Iterator[Text]:
    """The tables of one row, line by line; below a shorter one there is nothing."""
    starts = _starts(tables)
    for parts in zip_longest(*(table.lines() for table in tables), fillvalue=Text(end="")):
        line = Text(end="")
        for start, part in zip(starts, parts, strict=True):
            line.append(" " * (start - line.cell_len))
            line.append_text(part)
        yield line


def _starts(tables: Sequence[Table]) -> list[int]:
    """Where each begins: as far from the cells before it as all others, if there is room."""
    widest = max(table.beyond for table in tables)
    for gap in (widest + GAP, max(GAP, widest + BETWEEN_TITLES)):
        apart = [table.width - table.beyond + gap for table in tables]
        if sum(apart[:-1]) + tables[-1].width <= tables[0].screen.room:
            return [0, *accumulate(apart[:-1])]
    return [0, *accumulate(table.width + GAP for table in tables[:-1])]


def _footer(alike: Sequence[Grid], rows: Rows) -> Iterator[Text]:
    """How to read the tables above, what was pooled, and how much more there is."""
    grid, table = alike[0], rows[0][0]
    screen, numbers = table.screen, table.form.cells == "numbers"
    yield from wrapped(grid.note, screen)
    if table.form.heading == "numbers":
        yield from wrapped(_other_tokens(grid), screen)
        yield from _tokens_of_rows(table)
    yield from wrapped(table.grid.pooled, screen)
    if not numbers:
        yield from legend([each.grid for tables in rows for each in tables], screen)
    elif hiding := [each for each in alike if each.cells.hides]:
        masked = grid.columns.counts == "token"
        sign = sign_of_hidden(hiding[0], HIDDEN)
        yield Text(f"{sign} = {'hidden by the mask' if masked else 'no value'}", DIM)
    missing = _missing(grid, table)
    if missing and not screen.full:
        yield from wrapped(f"and {missing} more (--full shows all)", screen)


def _other_tokens(grid: Grid) -> str:
    """What the numbers over the columns stand for, where no rows say so."""
    if grid.columns.counts != "token" or grid.rows.counts != "token":
        return ""
    if set(grid.columns.names) <= set(grid.rows.names) or len(grid.columns) > LISTED:
        return ""
    return f"columns: {' · '.join(grid.columns.names)}"


def _tokens_of_rows(table: Table) -> list[Text]:
    """What the numbers beside halves stand for, where a line or two can say so."""
    halves = table.form.cells == "halves" and not table.form.pairs
    if not halves or table.grid.pooled or not any(table.grid.rows.labels):
        return []
    told = list(wrapped(" · ".join(table.grid.rows.names), table.screen))
    return told if len(told) <= MOST_LINES else []


def _missing(grid: Grid, table: Table) -> str:
    if table.grid.pooled:
        return ""
    counts = (
        (len(grid.columns) - len(table.grid.columns), grid.columns.counts),
        (len(grid.rows) - len(table.grid.rows), grid.rows.counts),
    )
    return " and ".join(counted(number, noun) for number, noun in counts if number)
