"""Grids and sections as Markdown, as GitHub shows it: nothing cut, nothing pooled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attnviz.renderers import Look
from attnviz.renderers.terminal.maps import overview
from attnviz.renderers.terminal.screen import Screen
from attnviz.renderers.wrapping import aligned
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import Write, cell_format, cell_text, sign_of_hidden
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import Drawable, Section, table_of
from attnviz.views.view import View

HIDDEN = "·"

# What has a meaning anywhere in a line, and what has one only at its beginning: `1.`, `-`, `+`.
MARKUP = re.compile(r"[\\`*_{}\[\]#|~!]")
AT_THE_START = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")
# GitHub looks for these in the finished text, where a backslash is gone: `$x$`, `:smile:`.
LOOKED_FOR_LATER = {"$": "<span>&#36;</span>", ":": "<span>:</span>"}
EMOJI = re.compile(r":(?=[\w+-]+:)")
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def md(view: View, look: Look) -> list[bytes]:
    """A page of headings and tables, its parts an empty line apart."""
    title = f"# {escaped(view.overhead)}" if view.overhead else ""
    parts = [title, escaped(view.screen.caption)]
    apart = Section | Overview
    grids = [table_of(each) for each in view.screen.panels if not isinstance(each, apart)]
    for each in view.screen.panels:
        parts += _part(each, grids)
    parts += [escaped(each) for each in view.notes]
    return [("\n\n".join(part for part in parts if part) + "\n").encode()]


def _part(each: Drawable, beside: Sequence[Grid]) -> Iterator[str]:
    """What is drawn, in the way of its kind."""
    if isinstance(each, Section):
        return _section(each)
    if isinstance(each, Overview):
        return _overview(each)
    return _ranking(each) if isinstance(each, Ranked) else _plain(table_of(each), beside)


def escaped(text: str) -> str:
    """Text that shows as itself, whatever it holds.

    >>> escaped("a|b <c> $x$")
    'a\\\\|b &lt;c&gt; <span>&#36;</span>x<span>&#36;</span>'
    """
    text = " ".join(text.split())
    marked = AT_THE_START.sub(lambda start: f"{start[0]}\\", MARKUP.sub(r"\\\g<0>", text))
    shown = "".join(ENTITIES.get(character, character) for character in marked)
    shown = EMOJI.sub(LOOKED_FOR_LATER[":"], shown)
    return shown.replace("$", LOOKED_FOR_LATER["$"])


def _section(section: Section) -> Iterator[str]:
    yield f"## {escaped(section.heading)}"
    yield escaped(section.about)
    yield _code(section.shapes)
    yield f"$$\n{section.tex}\n$$" if section.tex else _code(section.formula)
    for grid in section.grids:
        yield f"**{escaped(grid.title)}**" if len(section.grids) > 1 else ""
        yield _table(grid, section.grids)
    yield from dict.fromkeys(map(_note, section.grids))
    yield _fenced(list(aligned(section.sums)))
    yield "\n".join(f"- {escaped(remark)}" for remark in section.remarks)


def _plain(grid: Grid, beside: Sequence[Grid]) -> Iterator[str]:
    yield f"## {escaped(grid.title)}"
    yield _table(grid, beside)
    yield _note(grid)


def _ranking(ranked: Ranked) -> Iterator[str]:
    """A row for each, with what there is to say of it in the last column."""
    grid, write = ranked.grid, cell_format(ranked.grid, 2)
    rows = zip(grid.rows.names, range(len(grid.rows)), ranked.remarks, strict=True)
    yield f"## {escaped(grid.title)}"
    yield "\n".join([
        _line(["", *map(escaped, grid.columns.names), ""]),
        _line([":--", *["--:"] * len(grid.columns), ":--"]),
        *(_line([escaped(n), *_cells(grid, row, write), escaped(said)]) for n, row, said in rows),
    ])  # fmt: skip
    yield _note(grid)


def _overview(drawn: Overview) -> Iterator[str]:
    """Its maps in letters of shade, as a text has them."""
    yield f"## {escaped(drawn.title)}"
    yield _fenced([line.plain.rstrip() for line in overview(drawn, Screen(None))])


def _note(grid: Grid) -> str:
    hidden = f"{sign_of_hidden(grid, HIDDEN)} = hidden by the mask" if grid.cells.hides else ""
    note = ". ".join(part for part in (grid.note, hidden) if part)
    return f"*{escaped(note)}*" if note else ""


def _code(text: str) -> str:
    """Text between backticks, more of them than there are in it."""
    if not text:
        return ""
    ticks = "`" * (_longest_run(text) + 1)
    space = " " if "`" in text else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _fenced(lines: Sequence[str]) -> str:
    """Lines as they are, behind a fence that none of them can close."""
    if not lines:
        return ""
    text = "\n".join(lines)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _table(grid: Grid, beside: Sequence[Grid]) -> str:
    """A row for each row, its name first; numbers stand on the right."""
    names = [escaped(name) for name in grid.columns.names]
    lines = [_line(["", *names]), _line([":--", *["--:"] * len(names)])]
    write = cell_format(grid, 2, beside)
    for row, name in enumerate(grid.rows.names):
        lines.append(_line([escaped(name), *_cells(grid, row, write)]))
    return "\n".join(lines)


def _cells(grid: Grid, row: int, write: Write) -> Iterator[str]:
    values, hidden = grid.values[row].tolist(), grid.hidden[row].tolist()
    for column, (value, masked) in enumerate(zip(values, hidden, strict=True)):
        number = cell_text(value, masked, write, HIDDEN)
        yield escaped(grid.worded(row, column, number)) if grid.words else number


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
