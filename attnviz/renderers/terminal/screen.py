"""The screen that lines of text are for: its size and colours, and helpers for lines."""

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
from attnviz.views.grids.grid import OFF_SUFFIX

MASKED_SIGN = "·"
MIN_SCREEN_COLUMNS = 24
GAP_COLUMNS = 3  # between two things side by side
UNBROKEN_WORD = re.compile(r"[^ \n]+")  # 64 % is one word, by its no-break space
BOLD_STYLE, DIM_STYLE, PLAIN_STYLE = Style(bold=True), Style(dim=True), Style()
STRUCK_STYLE = Style(dim=True, strike=True)

ColorDepth = Literal["none", "16", "256", "truecolor"]


@dataclass(frozen=True)
class Screen:
    """What lines of text are for: a terminal, a pipe or a file.

    A file has no width: nothing is cut or pooled. A pipe has no height.
    """

    width: int | None
    height: int | None = None
    colors: ColorDepth = "none"
    theme: str = "dark"
    palette: str = DEFAULT_PALETTE
    numbers: bool | None = None  # in the cells of maps; None: if they fit
    full: bool = False

    @property
    def room(self) -> int:
        return 10**9 if self.width is None else max(self.width, MIN_SCREEN_COLUMNS)

    @property
    def rows(self) -> int:
        """How many lines can be seen at once, without that of the prompt."""
        return 10**9 if self.height is None else max(self.height - 1, 1)

    @property
    def colored(self) -> bool:
        return self.colors != "none"

    @property
    def decimals(self) -> int:
        return 4 if self.width is None else 2


def wrap_note(note: str, screen: Screen, style: Style = DIM_STYLE) -> Iterator[Text]:
    """Yield a note in lines of at most the screen's width, broken between words."""
    line = ""
    for word in UNBROKEN_WORD.findall(note):
        longer = f"{line} {word}".strip()
        if line and cell_len(longer) > screen.room:
            yield Text(line, style)
            longer = word
        line = set_cell_size(longer, min(cell_len(longer), screen.room))
    if line:
        yield Text(line, style)


def title_text(title: str, *, is_off: bool) -> Text:
    """Return a bold title; the name of a head that is switched off is grey and struck through."""
    if not is_off:
        return Text(title, BOLD_STYLE)
    name, sign, rest = title.partition(OFF_SUFFIX)
    return Text.assemble((name, STRUCK_STYLE), (f"{sign}{rest}", DIM_STYLE))


def join_blocks(blocks: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """Yield the lines of all blocks, with an empty line between two blocks."""
    for number, block in enumerate(blocks):
        if number:
            yield Text()
        yield from block


def append_note(lines: Sequence[Text], note: str, screen: Screen) -> Iterator[Text]:
    """Yield lines and a note after them, on the last of them if there is room."""
    *others, last = lines
    yield from others
    if last.cell_len + GAP_COLUMNS + cell_len(note) <= screen.room:
        yield last.copy().append(" " * GAP_COLUMNS).append(note, DIM_STYLE)
    else:
        yield last
        yield from wrap_note(note, screen)


def fit_columns(text: str, width: int) -> str:
    """Return the text padded to so many columns, or cut with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def line_segments(line: Text, console: Console) -> list[Segment]:
    """Return the parts of a line, each in its own style, else in that of the line."""
    line_style = line.style if isinstance(line.style, Style) else Style()
    return [Segment(part.text, part.style or line_style) for part in line.render(console)]
