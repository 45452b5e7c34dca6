"""A terminal as a picture: what a command prints there, as an SVG for a page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from attnviz.renderers.colors import Theme, theme
from attnviz.renderers.look import Look
from attnviz.renderers.provenance import provenance_of
from attnviz.renderers.terminal.lines import printed
from attnviz.renderers.terminal.screen import BOLD, Screen, segments, wrapped

if TYPE_CHECKING:
    from attnviz.views.view import View
    from attnviz.wording.commands import Command

COLUMNS = 80  # of the terminal that is drawn
WIDE, HIGH, LETTER = 8.4, 19.0, 14.0  # a cell, and the letters in it, in pixels
MARGIN = 18.0
HALF = "▀"  # the upper half of a cell in one colour, the lower in another
LOWER = "▄"  # the lower half alone
FULL = "█"
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(view: View, look: Look) -> list[bytes]:
    """What the command prints on a terminal of 80 columns, below the command itself."""
    screen = Screen(
        COLUMNS, colors="truecolor", theme=look.theme, palette=look.palette, numbers=look.numbers
    )
    lines = [*_typed(view.command, screen), *printed(view, screen)]
    return [picture(lines, theme(look.theme), _words(view)).encode()]


def _typed(command: Command | None, screen: Screen) -> list[Text]:
    """The command at its prompt, as one would type it to see the same."""
    if command is None:
        return []
    options = {name: value for name, value in command.options.items() if name != "as_"}
    return [*wrapped(f"$ {replace(command, options=options).line}", screen, BOLD), Text()]


def picture(lines: Sequence[Text], colors: Theme, words: Sequence[str] = ()) -> str:
    """Lines in the cells of a terminal; `words` say to machines what is to be seen."""
    width, height = 2 * MARGIN + COLUMNS * WIDE, 2 * MARGIN + len(lines) * HIGH
    console = Console(width=COLUMNS, color_system="truecolor", force_terminal=True)
    drawn = [
        each
        for row, line in enumerate(lines)
        for each in _line(segments(line, console), MARGIN + row * HIGH, colors)
    ]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}"'
        f' font-family="{FONTS}" font-size="{LETTER:g}">'
    )
    paper = (
        f'<rect width="100%" height="100%" rx="8" fill="{colors.paper}" stroke="{colors.hidden}"/>'
    )
    return "\n".join([opening, *words, paper, *drawn, "</svg>\n"])


def _words(view: View) -> list[str]:
    """Title, description and what made it."""
    told = {
        "title": view.headline,
        "desc": view.screen.description,
        "metadata": provenance_of(view),
    }
    return [f"<{tag}>{html.escape(text)}</{tag}>" for tag, text in told.items() if text]


def _line(segments: Sequence[Segment], top: float, colors: Theme) -> Iterator[str]:
    column = 0
    for segment in segments:
        style, text = segment.style or Style(), segment.text.rstrip("\n")
        wide = cell_len(text)
        left = MARGIN + column * WIDE
        if style.bgcolor is not None:
            yield _rectangle(left, top, wide, HIGH, _hexadecimal(style.bgcolor))
        yield from _text(text, style, left, top, colors)
        column += wide


def _hexadecimal(color: Color) -> str:
    red, green, blue = color.get_truecolor()
    return f"#{red:02x}{green:02x}{blue:02x}"


def _rectangle(left: float, top: float, columns: int, height: float, color: str) -> str:
    # A hair wider than its cells, or the paper would shine through between two of them.
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{columns * WIDE + 0.3:.1f}" '
        f'height="{height + 0.3:.1f}" fill="{color}"/>'
    )


def _text(text: str, style: Style, left: float, top: float, colors: Theme) -> Iterator[str]:
    """Letters as text; blocks as rectangles, which meet whatever font there is."""
    ink = colors.faint if style.dim else colors.ink
    if style.color is not None:
        ink = _hexadecimal(style.color)
    if text and not text.strip(text[0]) and text[0] in HALF + LOWER + FULL:
        high = HIGH if text[0] == FULL else HIGH / 2
        start = top + HIGH / 2 if text[0] == LOWER else top
        yield _rectangle(left, start, cell_len(text), high, ink)
    elif text.strip():
        start = len(text) - len(text.lstrip())
        word = text.strip()
        weight = ' font-weight="bold"' if style.bold else ""
        yield (
            f'<text x="{left + start * WIDE:.1f}" y="{top + 0.74 * HIGH:.1f}" fill="{ink}"{weight} '
            f'textLength="{cell_len(word) * WIDE:.1f}" lengthAdjust="spacingAndGlyphs" '
            f'xml:space="preserve">{html.escape(word)}</text>'
        )
