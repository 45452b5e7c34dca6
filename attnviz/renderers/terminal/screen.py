"""What lines of text are for: how wide a screen is, and which colours it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.style import Style
from rich.text import Text

from attnviz.renderers.colors import DEFAULT_PALETTE

HIDDEN = "·"
NARROWEST = 24
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


def wrapped(note: str, screen: Screen, style: Style = DIM) -> Iterator[Text]:
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


def apart(blocks: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """Blocks of lines with an empty line between them."""
    for number, block in enumerate(blocks):
        if number:
            yield Text()
        yield from block


def sized(text: str, width: int) -> str:
    """The text in so many columns, filled up or, with a sign of it, cut."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


@lru_cache(maxsize=4096)
def cell_style(red: int, green: int, blue: int, dark_ink: bool) -> Style:
    ink = Color.from_rgb(0, 0, 0) if dark_ink else Color.from_rgb(255, 255, 255)
    return Style(color=ink, bgcolor=Color.from_rgb(red, green, blue))
