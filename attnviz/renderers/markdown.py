"""Grids and sections as GitHub's Markdown; nothing is cut, and only maps of blocks are pooled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attnviz.renderers import Look
from attnviz.renderers.terminal.screen import Screen
from attnviz.renderers.terminal.small_maps import overview_lines
from attnviz.renderers.wrapping import align_sums
from attnviz.views.grids.grid import Grid, coarse_map
from attnviz.views.grids.number_formats import NumberFormat, cell_format, cell_text, masked_sign
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable, Section, panel_table
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.view import View

MASKED_CELL = "·"
MARKDOWN_CHARACTERS = re.compile(r"[\\`*_{}\[\]#|~!]")
LINE_START_MARKUP = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")  # `1.`, `-` and `+` of lists
# GitHub finds `$x$` and `:smile:` after Markdown has removed the backslashes.
LATE_ESCAPES = {"$": "<span>&#36;</span>", ":": "<span>:</span>"}
EMOJI_START = re.compile(r":(?=[\w+-]+:)")
HTML_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def md(view: View, look: Look) -> list[bytes]:
    """Return the view as a Markdown file: headings, tables in full and notes."""
    title = f"# {escape_markdown(view.heading)}" if view.heading else ""
    parts = [title, escape_markdown(view.screen.caption)]
    panels = view.screen.panels
    grids = [panel_table(panel) for panel in panels if not isinstance(panel, Section | Overview)]
    for panel in panels:
        parts += _panel_markdown(panel, grids)
    parts += map(escape_markdown, view.notes)
    return [("\n\n".join(part for part in parts if part) + "\n").encode()]


def _panel_markdown(panel: Drawable, grids: Sequence[Grid]) -> Iterator[str]:
    """Yield the paragraphs of a panel; `grids`: all tables, whose numbers are written alike."""
    if isinstance(panel, Section):
        return _section_markdown(panel)
    if isinstance(panel, Overview):
        return _overview_markdown(panel)
    if isinstance(panel, RankedBars):
        return _ranking_markdown(panel)
    return _grid_markdown(panel_table(panel), grids)


def escape_markdown(text: str) -> str:
    """Return a text, its whitespace single spaces, in which nothing is taken for Markdown or HTML.

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
    """Yield the heading, the table and the note of a grid; a map of blocks in larger blocks."""
    grid = coarse_map(grid)
    yield f"## {escape_markdown(grid.title)}" if grid.title else ""
    yield _markdown_table(grid, grids)
    yield _grid_note(grid)


def _ranking_markdown(ranked: RankedBars) -> Iterator[str]:
    """Yield a heading, a table with a row for each bar and its remark last, and the note."""
    grid, write = ranked.grid, cell_format(ranked.grid, 2)
    lines = [["", *map(escape_markdown, grid.columns.names), ""]]
    lines.append([":--", *["--:"] * len(grid.columns), ":--"])
    for row, (name, remark) in enumerate(zip(grid.rows.names, ranked.remarks, strict=True)):
        cells = _markdown_cells(grid, row, write)
        lines.append([escape_markdown(name), *cells, escape_markdown(remark)])
    yield f"## {escape_markdown(grid.title)}"
    yield "\n".join(map(_markdown_row, lines))
    yield _grid_note(grid)


def _overview_markdown(overview: Overview) -> Iterator[str]:
    yield f"## {escape_markdown(overview.title)}"
    yield _code_block([line.plain.rstrip() for line in overview_lines(overview, Screen(None))])


def _grid_note(grid: Grid) -> str:
    """Return in italics a grid's note, and how hidden cells are written; empty without either."""
    sign = masked_sign(grid, MASKED_CELL)
    mask_note = f"{sign} = hidden by the mask" if grid.cells.has_hidden else ""
    note = ". ".join(filter(None, (grid.note, grid.pool_note, mask_note)))
    return f"*{escape_markdown(note)}*" if note else ""


def _inline_code(text: str) -> str:
    """Return a text as code, between more backticks than any run in the text; empty stays empty."""
    if not text:
        return ""
    ticks = "`" * (_longest_backtick_run(text) + 1)
    space = " " if "`" in text else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _code_block(lines: Sequence[str]) -> str:
    """Return lines as a code block, behind a fence that none can close; empty without lines."""
    if not lines:
        return ""
    text = "\n".join(lines)
    fence = "`" * max(3, _longest_backtick_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest_backtick_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _markdown_table(grid: Grid, grids: Sequence[Grid]) -> str:
    """Return a grid as a Markdown table, with row names first and numbers aligned on the right."""
    names = [escape_markdown(name) for name in grid.columns.names]
    lines = [_markdown_row(["", *names]), _markdown_row([":--", *["--:"] * len(names)])]
    write = cell_format(grid, 2, grids)
    for row, name in enumerate(grid.rows.names):
        lines.append(_markdown_row([escape_markdown(name), *_markdown_cells(grid, row, write)]))
    return "\n".join(lines)


def _markdown_cells(grid: Grid, row: int, write: NumberFormat) -> Iterator[str]:
    """Yield the texts of the cells of one row; hidden ones have a sign. `write` writes numbers."""
    values, hidden = grid.values[row].tolist(), grid.hidden[row].tolist()
    for column, (value, masked) in enumerate(zip(values, hidden, strict=True)):
        number = cell_text(value, masked, write, MASKED_CELL)
        yield escape_markdown(grid.text_with_word(row, column, number)) if grid.words else number


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
