"""What lines of text are for: how large a screen is, and which colours it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from attnviz.renderers.colors import DEFAULT_PALETTE
from attnviz.views.grids.grid import OFF

HIDDEN = "·"
NARROWEST = 24
GAP = 3  # columns between two things that stand side by side
WORD = re.compile(r"[^ \n]+")  # which no line is broken in: 64 % is one
BOLD, DIM, PLAIN = Style(bold=True), Style(dim=True), Style()
STRUCK = Style(dim=True, strike=True)

Colors = Literal["none", "16", "256", "truecolor"]


@dataclass(frozen=True)
class Screen:
    """What the lines are for.

    Without a width (a file) nothing is cut or pooled; without a height (a pipe) there is no end
    below.
    """

    width: int | None
    height: int | None = None
    colors: Colors = "none"
    theme: str = "dark"
    palette: str = DEFAULT_PALETTE
    numbers: bool | None = None  # in the cells of maps; None: while they fit
    full: bool = False

    @property
    def room(self) -> int:
        return 10**9 if self.width is None else max(self.width, NARROWEST)

    @property
    def rows(self) -> int:
        """How many lines can be seen at once, the one of the prompt left out."""
        return 10**9 if self.height is None else max(self.height - 1, 1)

    @property
    def colored(self) -> bool:
        return self.colors != "none"

    @property
    def decimals(self) -> int:
        return 4 if self.width is None else 2


def wrapped(note: str, screen: Screen, style: Style = DIM) -> Iterator[Text]:
    """A note in lines of at most the screen's width, broken between words."""
    line = ""
    for word in WORD.findall(note):
        longer = f"{line} {word}".strip()
        if line and cell_len(longer) > screen.room:
            yield Text(line, style)
            longer = word
        line = set_cell_size(longer, min(cell_len(longer), screen.room))
    if line:
        yield Text(line, style)


def titled(title: str, *, off: bool) -> Text:
    """A title; the name of a head that is switched off is grey and struck through."""
    if not off:
        return Text(title, BOLD)
    name, sign, rest = title.partition(OFF)
    return Text.assemble((name, STRUCK), (f"{sign}{rest}", DIM))


def apart(blocks: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """Blocks of lines with an empty line between them."""
    for number, block in enumerate(blocks):
        if number:
            yield Text()
        yield from block


def ending(lines: Sequence[Text], note: str, screen: Screen) -> Iterator[Text]:
    """Lines and a note after them: behind the last of them, if there is room."""
    *others, last = lines
    yield from others
    if last.cell_len + GAP + cell_len(note) <= screen.room:
        yield last.copy().append(" " * GAP).append(note, DIM)
    else:
        yield last
        yield from wrapped(note, screen)


def sized(text: str, width: int) -> str:
    """The text in so many columns, filled up or, with a sign of it, cut."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def segments(line: Text, console: Console) -> list[Segment]:
    """The parts of a line, each in its style; one without parts has that of the line."""
    whole = line.style if isinstance(line.style, Style) else Style()
    return [Segment(each.text, each.style or whole) for each in line.render(console)]
