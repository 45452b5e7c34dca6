"""Grids as lines of text: coloured cells on a terminal, glyphs without colour, numbers in a pipe.

The form follows from what fits: numbers in the cells, else blocks two columns wide, else one
column wide, else cells that stand for several, with a line that says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby, zip_longest

import numpy as np
from jaxtyping import UInt8
from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.style import Style
from rich.text import Text

from attnviz.renderers import Look
from attnviz.renderers.colors import DEFAULT_PALETTE, gradient, needs_dark_ink, shade
from attnviz.renderers.wrapping import broken
from attnviz.views.grids.grids import (
    Axis,
    Curves,
    Drawable,
    Grid,
    Scale,
    Section,
    block_size,
    cell_format,
    filled,
    isolated,
    only,
    pool,
)

RAMP = "▁▂▃▄▅▆▇█"
HIDDEN = "·"
GAP = 3  # columns between two tables that stand side by side
LONGEST_TITLE = 32
ROWS_AT_ONCE = 40  # of vectors, of which a text of 2,000 tokens has 2,000
BARS_AT_ONCE = 20
NARROWEST = 24
LISTED = 40  # tokens of another text, that the columns stand for

BOLD, DIM, PLAIN = Style(bold=True), Style(dim=True), Style()


@dataclass(frozen=True)
class Screen:
    """What the lines are for. Without a width (a pipe, a file) nothing is cut or pooled."""

    width: int | None
    colored: bool = False
    theme: str = "dark"
    palette: str = DEFAULT_PALETTE
    numbers: bool = True
    full: bool = False

    @property
    def room(self) -> int:
        return 10**9 if self.width is None else max(self.width, NARROWEST)

    @property
    def decimals(self) -> int:
        return 4 if self.width is None else 2


@dataclass(frozen=True, eq=False)
class Table:
    """A grid in the form that fits: with numbers in its cells or as blocks."""

    grid: Grid
    screen: Screen
    label_width: int
    cell_width: int
    write: Callable[[float], str] | None  # how its numbers are written; None for blocks

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
        for row, name in enumerate(_row_names(self.grid.rows)):
            yield self._row(row, name)

    def _header(self) -> str:
        if self.numbers:
            return "".join(f"{name:>{self.cell_width}}" for name in self.grid.columns.headings)
        return _ruler(self.grid.columns, self.cell_width)

    def _row(self, row: int, name: str) -> Text:
        line = Text(_sized(name, self.label_width - 1) + " ", end="")
        texts = self._texts(row)
        if not self.screen.colored or self.grid.scale.kind == "none":
            return line.append("".join(texts))
        for column, text in enumerate(texts):
            line.append(text, self._style(row, column))
        return line

    def _texts(self, row: int) -> list[str]:
        values, hidden = self.grid.values[row], self.grid.hidden[row]
        if self.write is not None:
            texts, width = (
                [_written(value, self.write) for value in values.tolist()],
                self.cell_width,
            )
            return [
                f"{HIDDEN if masked else text:>{width}}"
                for text, masked in zip(texts, hidden.tolist(), strict=True)
            ]
        glyphs = [" "] * len(values) if self.screen.colored else _glyphs(values, self.grid.scale)
        return [
            (HIDDEN if masked else glyph).ljust(self.cell_width, HIDDEN if masked else glyph)
            for glyph, masked in zip(glyphs, hidden.tolist(), strict=True)
        ]

    def _style(self, row: int, column: int) -> Style:
        if self.grid.hidden[row, column]:
            return DIM
        if self.empty[row, column]:
            return PLAIN
        red, green, blue = self.colors[row, column].tolist()
        return _cell_style(red, green, blue, bool(self.dark_ink[row, column]))


def lines(drawn: Sequence[Drawable], screen: Screen) -> Iterator[Text]:
    """Grids one below the other, or side by side while they are alike and fit; curves as tables.

    A section has its heading above its grids, and its sums below them.
    """
    runs = groupby((each for each in drawn if each), lambda each: isinstance(each, Section))
    blocks: list[list[Text]] = []
    for _, run in runs:
        together = list(run)
        sections = [each for each in together if isinstance(each, Section)]
        grids = [_table(each) for each in together if not isinstance(each, Section)]
        blocks += [list(_section(section, screen)) for section in sections]
        blocks += [list(_tables(grids, screen))] if grids else []
    yield from _apart(blocks)


def txt(drawn: Sequence[Drawable], look: Look) -> bytes:
    """The terminal's tables in full: no colour, nothing cut, nothing pooled."""
    screen = Screen(None, numbers=look.numbers is not False)
    heading = [Text(line) for line in (look.title, look.caption) if line]
    body = [*heading, Text(), *lines(drawn, screen), *closing(look.closing, screen)]
    made = "\n".join(line.plain.rstrip() for line in body)
    return f"{made.strip()}\n".encode()


def fit(grid: Grid, screen: Screen) -> list[Table]:
    """The tables that show a grid on this screen: one, or several for all of a wide one."""
    if grid.columns.counts == "token":
        return [_fit_tokens(grid, screen)]
    return _fit_vectors(grid, screen)


def heading(title: str, settings: str, screen: Screen) -> Iterator[Text]:
    """What was done, and the settings that the numbers hang on."""
    yield Text(title, BOLD)
    yield from _wrapped(settings, screen)
    yield Text()


def closing(notes: Sequence[str], screen: Screen) -> Iterator[Text]:
    """What there is to say after the tables, a paragraph for each note."""
    if notes:
        yield Text()
    for note in notes:
        yield from _wrapped(note, screen, PLAIN)


def reading(grid: Grid, screen: Screen) -> Iterator[Text]:
    """The sentence coloured by what one token reads, and a sorted list of bars, for each head."""
    yield Text(set_cell_size(grid.title, min(screen.room, cell_len(grid.title))), BOLD)
    yield from _wrapped(grid.note, screen)
    for row, name in enumerate(grid.rows.names):
        yield Text()
        if len(grid.rows) > 1:
            yield Text(name, BOLD)
        if screen.width is not None:
            yield from _sentence(grid, row, screen)
            yield Text()
        yield from _bars(grid, row, screen)
    yield Text()
    if screen.width is not None:
        yield from _legend(grid, screen)


def _table(each: Grid | Curves) -> Grid:
    return each.table if isinstance(each, Curves) else each


def _section(section: Section, screen: Screen) -> Iterator[Text]:
    """What the step is; its tables; its sums; and what else there is to say."""
    remarks = [line for remark in section.remarks for line in _wrapped(remark, screen)]
    sums = [line for each in section.sums for line in _sum(each, screen)]
    tables = list(_tables(section.tables, screen))
    yield from _apart(
        [part for part in (list(_opening(section, screen)), tables, sums, remarks) if part]
    )


def _opening(section: Section, screen: Screen) -> Iterator[Text]:
    yield from _section_heading(section, screen)
    yield from _wrapped(section.about, screen, PLAIN)
    if section.formula:
        yield Text()
        yield from _sum(section.formula, screen)


def _section_heading(section: Section, screen: Screen) -> Iterator[Text]:
    """Number and title, and on the same line, while there is room, the shapes."""
    line = Text(section.heading, BOLD, end="")
    line.append(f"   {section.shapes}" if section.shapes else "", DIM)
    if line.cell_len <= screen.room:
        yield line
    else:
        yield from _wrapped(section.heading, screen, BOLD)
        yield from _wrapped(section.shapes, screen)


def _sum(text: str, screen: Screen) -> list[Text]:
    indent = "    " if screen.room >= 40 else "  "
    return [Text(line) for line in broken(text, lambda line: cell_len(line) <= screen.room, indent)]


def _tables(grids: Sequence[Grid], screen: Screen) -> Iterator[Text]:
    for number, alike in enumerate(_alike(grids)):
        if number:
            yield Text()
        fitted = [table for grid in alike for table in fit(grid, screen)]
        blocks = [list(_beside(tables)) for tables in _packed(fitted, screen)]
        blocks.append(list(_footer(alike[0], fitted[0])))
        yield from _apart([block for block in blocks if block])


def _fit_tokens(grid: Grid, screen: Screen) -> Table:
    label_width = _label_width(grid.rows, screen)
    room = screen.room - label_width
    width = _number_width(grid, screen)
    if screen.numbers and len(grid.columns) * width <= room:
        return Table(grid, screen, label_width, width, cell_format(grid, screen.decimals))
    for width in (2, 1):
        if len(grid.columns) * width <= room:
            return Table(grid, screen, label_width, width, None)
    return _fit_pooled(grid, replace(screen, numbers=False), math.ceil(len(grid.columns) / room))


def _fit_pooled(grid: Grid, screen: Screen, size: int) -> Table:
    """Blocks of cells, as small as fits; labels that name a block are longer, so look again."""
    while True:
        size = block_size(len(grid.columns), size)
        pooled = pool(grid, size if grid.rows.counts == "token" else 1, size)
        if len(pooled.columns) + _label_width(pooled.rows, screen) <= screen.room:
            return _fit_tokens(pooled, screen)
        size += 1


def _fit_vectors(grid: Grid, screen: Screen) -> list[Table]:
    label_width, width = _label_width(grid.rows, screen), _number_width(grid, screen)
    at_once = max(1, (screen.room - label_width) // width)
    shown = grid if screen.full or screen.width is None else _rows(grid, slice(ROWS_AT_ONCE))
    starts = range(0, len(grid.columns), at_once) if screen.full else range(1)
    write = cell_format(grid, screen.decimals)  # of all columns, whichever are shown together
    return [
        Table(_columns(shown, slice(start, start + at_once)), screen, label_width, width, write)
        for start in starts
    ]


def _columns(grid: Grid, part: slice) -> Grid:
    return replace(
        grid,
        columns=only(grid.columns, part),
        values=grid.values[:, part],
        hidden=grid.hidden[:, part],
    )


def _rows(grid: Grid, part: slice) -> Grid:
    return replace(
        grid, rows=only(grid.rows, part), values=grid.values[part], hidden=grid.hidden[part]
    )


def _number_width(grid: Grid, screen: Screen) -> int:
    """The widest number, or the widest name of a column, and a space before it."""
    numbers = filled(grid.values)
    lowest, highest = numbers.min(initial=0).item(), numbers.max(initial=0).item()
    extreme = -max(-lowest, highest) if lowest < 0 else highest
    widest = len(cell_format(grid, screen.decimals)(extreme))
    heads = [cell_len(head) for head in grid.columns.headings]
    return 1 + max(widest, *(heads[-1:] if grid.columns.numbers[-1] else heads), 2)


def _label_width(axis: Axis, screen: Screen) -> int:
    """As wide as the longest name, at most a third of the screen, and a space behind it."""
    widest = max((cell_len(name) for name in _row_names(axis)), default=0)
    return min(widest, max(screen.room // 3, 15)) + 1


def _row_names(axis: Axis) -> list[str]:
    """Numbers aligned on their right, then labels: ` 3 learning`."""
    width = max((len(number) for number in axis.numbers), default=0)
    if not width:
        return [*axis.labels]
    return [
        f"{number:>{width}} {isolated(label)}".rstrip()
        for number, label in zip(axis.numbers, axis.labels, strict=True)
    ]


def _sized(text: str, width: int) -> str:
    """The text in so many columns, filled up or, with a sign of it, cut."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


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


def _written(value: float, write: Callable[[float], str]) -> str:
    """A number, or nothing in a cell that is not yet filled."""
    return "" if value != value else write(value)


def _glyphs(values: np.ndarray, scale: Scale) -> list[str]:
    """Without colour: the larger the value, the higher the block; none in an empty cell."""
    share = np.clip((np.nan_to_num(values) - scale.low) / (scale.high - scale.low), 0, 1)
    steps = np.minimum((share * len(RAMP)).astype(int), len(RAMP) - 1)
    return [
        " " if empty else RAMP[step] for step, empty in zip(steps, np.isnan(values), strict=True)
    ]


def _alike(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Runs of grids of one kind, such as the weights of all heads."""
    runs: list[list[Grid]] = []
    for grid in grids:
        if runs and (runs[-1][0].note, runs[-1][0].columns) == (grid.note, grid.columns):
            runs[-1].append(grid)
        else:
            runs.append([grid])
    return runs


def _packed(tables: Sequence[Table], screen: Screen) -> list[list[Table]]:
    """Tables in rows: side by side while they fit, and never in a pipe."""
    rows: list[list[Table]] = []
    for table in tables:
        used = sum(other.width + GAP for other in rows[-1]) if rows else 0
        if rows and screen.width is not None and used + table.width <= screen.room:
            rows[-1].append(table)
        else:
            rows.append([table])
    return rows


def _beside(tables: Sequence[Table]) -> Iterator[Text]:
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


def _apart(blocks: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """Blocks of lines with an empty line between them."""
    for number, block in enumerate(blocks):
        if number:
            yield Text()
        yield from block


def _footer(grid: Grid, table: Table) -> Iterator[Text]:
    """How to read the tables above, what was pooled, and how much more there is."""
    screen = table.screen
    yield from _wrapped(grid.note, screen)
    yield from _wrapped(_other_tokens(grid), screen)
    yield from _wrapped(table.grid.pooled, screen)
    if not table.numbers:
        yield from _legend(table.grid, screen)
    elif grid.hidden.any():
        masked = grid.columns.counts == "token"
        yield Text(f"{HIDDEN} = {'hidden by the mask' if masked else 'there is none'}", DIM)
    missing = _missing(grid, table)
    if missing and not screen.full:
        yield from _wrapped(f"and {missing} more (--full shows all)", screen)


def _other_tokens(grid: Grid) -> str:
    """What the numbers over the columns stand for, where the rows are of another text."""
    if grid.columns.counts != "token" or grid.rows.counts != "token":
        return ""
    if set(grid.rows.names) <= set(grid.columns.names) or len(grid.columns) > LISTED:
        return ""
    return f"columns: {' · '.join(grid.columns.names)}"


def _missing(grid: Grid, table: Table) -> str:
    if table.grid.pooled:
        return ""
    counts = (
        (len(grid.columns) - len(table.grid.columns), grid.columns.counts),
        (len(grid.rows) - len(table.grid.rows), grid.rows.counts),
    )
    return " and ".join(_counted(number, noun) for number, noun in counts if number)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number > 1 else ''}"


def _legend(grid: Grid, screen: Screen) -> Iterator[Text]:
    """The scale from one end to the other: `weight 0 ▁▂▃▄▅▆▇█ 1   · hidden`."""
    scale = grid.scale
    line = Text(f"{scale.label} {scale.low:g} ", DIM, end="")
    line.append_text(_ramp(scale, screen))
    line.append(f" {'≥ ' if scale.beyond else ''}{scale.high:g}", DIM)
    masked = Text(f"{HIDDEN} hidden", DIM, end="") if grid.hidden.any() else Text(end="")
    if masked and line.cell_len + GAP + masked.cell_len > screen.room:
        yield line
        yield masked
    else:
        yield line.append(" " * GAP).append_text(masked) if masked else line


def _ramp(scale: Scale, screen: Screen) -> Text:
    if not screen.colored:
        return Text(RAMP, end="")
    steps = np.linspace(scale.low, scale.high, 16 if screen.room >= 40 else 8)
    colors = shade(steps, scale.low, scale.high, gradient(screen.palette, screen.theme, scale.kind))
    styles = [_cell_style(*color, True) for color in colors.tolist()]
    return Text.assemble(*((" ", style) for style in styles), end="")


def _sentence(grid: Grid, row: int, screen: Screen) -> Iterator[Text]:
    """The tokens as they stood in the text, each in the colour of its weight."""
    line = Text(end="")
    for column, label in enumerate(grid.columns.labels):
        word = _word(grid, row, column, label, screen)
        gap = " " if grid.columns.spaced[column] and line.plain else ""
        if line.cell_len + len(gap) + word.cell_len > screen.room:
            yield line
            line, gap = Text(end=""), ""
        line.append(gap)
        line.append_text(word)
    yield line


def _word(grid: Grid, row: int, column: int, label: str, screen: Screen) -> Text:
    label = set_cell_size(label, screen.room - 1) if cell_len(label) >= screen.room else label
    if grid.hidden[row, column]:
        return Text(label if screen.colored else label + HIDDEN, DIM)
    value = grid.values[row, column]
    if not screen.colored:
        return Text(label + _glyphs(value[None], grid.scale)[0])
    scale = grid.scale
    color = shade(value, scale.low, scale.high, gradient(screen.palette, screen.theme, scale.kind))
    red, green, blue = color.tolist()
    return Text(label, _cell_style(red, green, blue, bool(needs_dark_ink(color))))


def _bars(grid: Grid, row: int, screen: Screen) -> Iterator[Text]:
    """What is read, the most read first: label, number, bar."""
    values, names = grid.values[row], _row_names(grid.columns)
    order = [place for place in np.argsort(-values, kind="stable") if not grid.hidden[row, place]]
    listed = order if screen.full or screen.width is None else order[:BARS_AT_ONCE]
    label_width = _label_width(grid.columns, screen)
    form = cell_format(grid, screen.decimals)
    room = min(screen.room - label_width - 5, 40)
    for place in listed:
        value = float(values[place])
        line = _sized(names[place], label_width - 1) + " " + form(value)
        bar = "" if screen.width is None else " " + _bar(value / max(values.max(), 1e-9) * room)
        yield Text((line + bar).rstrip())
    if len(order) > len(listed):
        rest = float(values[order[len(listed) :]].sum())
        more = _counted(len(order) - len(listed), "token")
        yield from _wrapped(f"and {more} more, {form(rest)} together (--full shows all)", screen)
    masked = int(grid.hidden[row].sum())
    if masked:
        yield from _wrapped(f"{_counted(masked, 'token')} hidden by the mask", screen)


def _bar(length: float) -> str:
    whole, part = divmod(round(length * 8), 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[part].strip()


def _wrapped(note: str, screen: Screen, style: Style = DIM) -> Iterator[Text]:
    """A note in lines of at most the screen's width, broken between words."""
    line = ""
    for word in note.split():
        longer = f"{line} {word}".strip()
        if line and cell_len(longer) > screen.room:
            yield Text(line, style)
            longer = word
        line = set_cell_size(longer, min(cell_len(longer), screen.room))
    if line:
        yield Text(line, style)


@lru_cache(maxsize=4096)
def _cell_style(red: int, green: int, blue: int, dark_ink: bool) -> Style:
    ink = Color.from_rgb(0, 0, 0) if dark_ink else Color.from_rgb(255, 255, 255)
    return Style(color=ink, bgcolor=Color.from_rgb(red, green, blue))
