"""What a command prints on a terminal, as an SVG for a page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from attnviz.errors import shorten_text
from attnviz.renderers.colors import Theme, find_theme
from attnviz.renderers.look import Look
from attnviz.renderers.terminal.lines import view_lines
from attnviz.renderers.terminal.screen import BOLD_STYLE, Screen, line_segments, wrap_note
from attnviz.views.view import View
from attnviz.wording.commands import Command

SVG_COLUMNS = 80
SVG_CELL_WIDTH, SVG_CELL_HEIGHT, SVG_LETTER_SIZE = 8.4, 19.0, 14.0  # in pixels
SVG_MARGIN = 18.0
MAX_ARGUMENT_LETTERS = 320  # of a text in the command
BLOCKS = {"▀": (0.0, 0.5), "▄": (0.5, 0.5), "█": (0.0, 1.0)}  # top and height, in those of a cell
SVG_FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(view: View, look: Look) -> list[bytes]:
    """Return an SVG file of what the command prints on a terminal of 80 columns.

    The command stands above it.
    """
    screen = Screen(
        SVG_COLUMNS, colors="truecolor", theme=look.theme, palette=look.colors, numbers=look.numbers
    )
    lines = [*_prompt_lines(view.command, screen), *view_lines(view, screen)]
    return [terminal_svg(lines, find_theme(look.theme), _svg_metadata(view)).encode()]


def _prompt_lines(command: Command | None, screen: Screen) -> list[Text]:
    """Return the command at a prompt, without --as and without most of a long text, and an empty
    line; [] without a command.
    """
    if command is None:
        return []
    if command.argument is not None:
        command = replace(command, argument=shorten_text(command.argument, MAX_ARGUMENT_LETTERS))
    options = {name: value for name, value in command.options.items() if name != "as_"}
    return [*wrap_note(f"$ {replace(command, options=options).line}", screen, BOLD_STYLE), Text()]


def terminal_svg(lines: Sequence[Text], colors: Theme, words: Sequence[str] = ()) -> str:
    """Return an SVG of lines as a terminal shows them; `colors`: of paper and letters.

    `words`: elements of metadata, already as SVG.
    """
    width = 2 * SVG_MARGIN + SVG_COLUMNS * SVG_CELL_WIDTH
    height = 2 * SVG_MARGIN + len(lines) * SVG_CELL_HEIGHT
    console = Console(width=SVG_COLUMNS, color_system="truecolor", force_terminal=True)
    elements: list[str] = []
    for row, line in enumerate(lines):
        top = SVG_MARGIN + row * SVG_CELL_HEIGHT
        elements += _line_elements(line_segments(line, console), top, colors)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}"'
        f' font-family="{SVG_FONTS}" font-size="{SVG_LETTER_SIZE:g}">'
    )
    paper = (
        f'<rect width="100%" height="100%" rx="8" fill="{colors.paper}" stroke="{colors.hidden}"/>'
    )
    return "\n".join([opening, *words, paper, *elements, "</svg>\n"])


def _svg_metadata(view: View) -> list[str]:
    """Return SVG elements for the headline, the description and the provenance that a view has."""
    texts_by_tag = {
        "title": view.headline,
        "desc": view.screen.description,
        "metadata": view.provenance_text,
    }
    return [f"<{tag}>{html.escape(text)}</{tag}>" for tag, text in texts_by_tag.items() if text]


def _line_elements(segments: Sequence[Segment], top: float, colors: Theme) -> Iterator[str]:
    """Yield the SVG elements of one line, `top` pixels from the top: colours behind, letters."""
    column = 0
    for segment in segments:
        style, text = segment.style or Style(), segment.text.rstrip("\n")
        column_count = cell_len(text)
        left = SVG_MARGIN + column * SVG_CELL_WIDTH
        if style.bgcolor is not None:
            yield _rectangle(left, top, column_count, SVG_CELL_HEIGHT, _hex_color(style.bgcolor))
        yield from _text_elements(text, style, left, top, colors)
        column += column_count


def _hex_color(color: Color) -> str:
    red, green, blue = color.get_truecolor()
    return f"#{red:02x}{green:02x}{blue:02x}"


def _rectangle(left: float, top: float, columns: int, height: float, color: str) -> str:
    """Return an SVG rectangle, `columns` cells of the terminal wide and `height` pixels high."""
    # Slightly larger than its cells, or the paper would show through between two of them.
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{columns * SVG_CELL_WIDTH + 0.3:.1f}" '
        f'height="{height + 0.3:.1f}" fill="{color}"/>'
    )


def _text_elements(
    text: str, style: Style, left: float, top: float, colors: Theme
) -> Iterator[str]:
    """Yield letters as SVG text, and block characters as rectangles, which fit in any font."""
    ink = colors.faint if style.dim else colors.ink
    if style.color is not None:
        ink = _hex_color(style.color)
    if text and not text.strip(text[0]) and text[0] in BLOCKS:
        start, high = (share * SVG_CELL_HEIGHT for share in BLOCKS[text[0]])
        yield _rectangle(left, top + start, cell_len(text), high, ink)
    elif text.strip():
        start = len(text) - len(text.lstrip())
        word = text.strip()
        weight = ' font-weight="bold"' if style.bold else ""
        x, baseline = left + start * SVG_CELL_WIDTH, top + 0.74 * SVG_CELL_HEIGHT
        yield (
            f'<text x="{x:.1f}" y="{baseline:.1f}" fill="{ink}"{weight} '
            f'textLength="{cell_len(word) * SVG_CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs" '
            f'xml:space="preserve">{html.escape(word)}</text>'
        )
