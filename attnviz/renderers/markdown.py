"""Grids and sections as Markdown, as GitHub shows it: nothing cut, nothing pooled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attnviz.renderers import Look
from attnviz.renderers.terminal.maps import overview_lines
from attnviz.renderers.terminal.screen import Screen
from attnviz.renderers.wrapping import align_sums
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.numbers import NumberFormat, cell_format, cell_text, masked_sign
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.section import Drawable, Section, panel_table
from attnviz.views.view import View

MASKED_CELL = "·"

# What has a meaning anywhere in a line, and what has one only at its beginning: `1.`, `-`, `+`.
MARKDOWN_CHARACTERS = re.compile(r"[\\`*_{}\[\]#|~!]")
LINE_START_MARKUP = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")
# GitHub looks for these in the finished text, where a backslash is gone: `$x$`, `:smile:`.
LATE_ESCAPES = {"$": "<span>&#36;</span>", ":": "<span>:</span>"}
EMOJI_START = re.compile(r":(?=[\w+-]+:)")
HTML_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def md(view: View, look: Look) -> list[bytes]:
    """A page of headings and tables, its parts an empty line apart."""
    title = f"# {escape_markdown(view.overhead)}" if view.overhead else ""
    parts = [title, escape_markdown(view.screen.caption)]
    nontabular_kinds = Section | Overview
    grids = [
        panel_table(each) for each in view.screen.panels if not isinstance(each, nontabular_kinds)
    ]
    for each in view.screen.panels:
        parts += _panel_markdown(each, grids)
    parts += [escape_markdown(each) for each in view.notes]
    return [("\n\n".join(part for part in parts if part) + "\n").encode()]


def _panel_markdown(panel: Drawable, grids: Sequence[Grid]) -> Iterator[str]:
    """What is drawn, in the way of its kind."""
    if isinstance(panel, Section):
        return _section_markdown(panel)
    if isinstance(panel, Overview):
        return _overview_markdown(panel)
    return (
        _ranking_markdown(panel)
        if isinstance(panel, RankedBars)
        else _grid_markdown(panel_table(panel), grids)
    )


def escape_markdown(text: str) -> str:
    """Text that shows as itself, whatever it holds.

    >>> escape_markdown("a|b <c> $x$")
    'a\\\\|b &lt;c&gt; <span>&#36;</span>x<span>&#36;</span>'
    """
    text = " ".join(text.split())
    escaped_text = LINE_START_MARKUP.sub(
        lambda start: f"{start[0]}\\", MARKDOWN_CHARACTERS.sub(r"\\\g<0>", text)
    )
    html_text = "".join(HTML_ENTITIES.get(character, character) for character in escaped_text)
    html_text = EMOJI_START.sub(LATE_ESCAPES[":"], html_text)
    return html_text.replace("$", LATE_ESCAPES["$"])


def _section_markdown(section: Section) -> Iterator[str]:
    yield f"## {escape_markdown(section.heading)}"
    yield escape_markdown(section.about)
    yield _inline_code(section.shapes)
    yield f"$$\n{section.tex}\n$$" if section.tex else _inline_code(section.formula)
    for grid in section.grids:
        yield f"**{escape_markdown(grid.title)}**" if len(section.grids) > 1 else ""
        yield _markdown_table(grid, section.grids)
    yield from dict.fromkeys(map(_grid_note, section.grids))
    yield _code_block(list(align_sums(section.sums)))
    yield "\n".join(f"- {escape_markdown(remark)}" for remark in section.remarks)


def _grid_markdown(grid: Grid, grids: Sequence[Grid]) -> Iterator[str]:
    yield f"## {escape_markdown(grid.title)}"
    yield _markdown_table(grid, grids)
    yield _grid_note(grid)


def _ranking_markdown(ranked: RankedBars) -> Iterator[str]:
    """A row for each, with what there is to say of it in the last column."""
    grid, write = ranked.grid, cell_format(ranked.grid, 2)
    rows = zip(grid.rows.names, range(len(grid.rows)), ranked.remarks, strict=True)
    yield f"## {escape_markdown(grid.title)}"
    yield "\n".join([
        _markdown_row(["", *map(escape_markdown, grid.columns.names), ""]),
        _markdown_row([":--", *["--:"] * len(grid.columns), ":--"]),
        *(_markdown_row([escape_markdown(n), *_markdown_cells(grid, row, write), escape_markdown(remark)]) for n, row, remark in rows),
    ])  # fmt: skip
    yield _grid_note(grid)


def _overview_markdown(overview_panel: Overview) -> Iterator[str]:
    """Its maps in letters of shade, as a text has them."""
    yield f"## {escape_markdown(overview_panel.title)}"
    yield _code_block(
        [line.plain.rstrip() for line in overview_lines(overview_panel, Screen(None))]
    )


def _grid_note(grid: Grid) -> str:
    mask_note = (
        f"{masked_sign(grid, MASKED_CELL)} = hidden by the mask" if grid.cells.has_hidden else ""
    )
    note = ". ".join(part for part in (grid.note, mask_note) if part)
    return f"*{escape_markdown(note)}*" if note else ""


def _inline_code(text: str) -> str:
    """Text between backticks, more of them than there are in it."""
    if not text:
        return ""
    ticks = "`" * (_longest_backtick_run(text) + 1)
    space = " " if "`" in text else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _code_block(lines: Sequence[str]) -> str:
    """Lines as they are, behind a fence that none of them can close."""
    if not lines:
        return ""
    text = "\n".join(lines)
    fence = "`" * max(3, _longest_backtick_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest_backtick_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _markdown_table(grid: Grid, grids: Sequence[Grid]) -> str:
    """A row for each row, its name first; numbers stand on the right."""
    names = [escape_markdown(name) for name in grid.columns.names]
    lines = [_markdown_row(["", *names]), _markdown_row([":--", *["--:"] * len(names)])]
    write = cell_format(grid, 2, grids)
    for row, name in enumerate(grid.rows.names):
        lines.append(_markdown_row([escape_markdown(name), *_markdown_cells(grid, row, write)]))
    return "\n".join(lines)


def _markdown_cells(grid: Grid, row: int, write: NumberFormat) -> Iterator[str]:
    values, hidden = grid.values[row].tolist(), grid.hidden[row].tolist()
    for column, (value, masked) in enumerate(zip(values, hidden, strict=True)):
        number = cell_text(value, masked, write, MASKED_CELL)
        yield escape_markdown(grid.text_with_word(row, column, number)) if grid.words else number


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
