"""Screen: the size and colours of where lines are printed, and helpers for lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped, UInt8
from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Span, Text

from attnviz.renderers.colors import (
    DEFAULT_PALETTE,
    fade_colors,
    needs_dark_ink,
    scale_colors,
)
from attnviz.views.grids.grid import OFF_SUFFIX, Grid
from attnviz.views.grids.scales import Scale
from attnviz.wording.numbers import short_text

MASKED_SIGN = "·"
MIN_SCREEN_COLUMNS = 24
GAP_COLUMNS = 3  # between two things side by side
UNBROKEN_WORD = re.compile(r"[^ \n]+")  # 64 % is one word, by its no-break space
BOLD_STYLE, DIM_STYLE, PLAIN_STYLE = Style(bold=True), Style(dim=True), Style()
STRUCK_STYLE = Style(dim=True, strike=True)

ColorDepth = Literal["none", "16", "256", "truecolor"]


@dataclass(frozen=True)
class Screen:
    """The properties of a terminal, pipe or file that lines of text are made for.

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
        """The columns that a line may take: at least 24; practically unlimited in a file."""
        return 10**9 if self.width is None else max(self.width, MIN_SCREEN_COLUMNS)

    @property
    def rows(self) -> int:
        """The lines that can be seen at once, without that of the prompt.

        Without a height they are practically unlimited.
        """
        return 10**9 if self.height is None else max(self.height - 1, 1)

    @property
    def colored(self) -> bool:
        return self.colors != "none"

    @property
    def decimals(self) -> int:
        """The decimals of numbers: four in a file, else two."""
        return 4 if self.width is None else 2


def wrap_note(note: str, screen: Screen, style: Style = DIM_STYLE) -> Iterator[Text]:
    """Yield a note in lines of at most the screen's width, broken between words.

    A longer word is cut. The default style is dim.
    """
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
    """Return a bold title; a head's name that is switched off is grey and struck through."""
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
    """Yield lines (at least one) and a note: on the last of them if it fits, else below."""
    *others, last = lines
    yield from others
    if last.cell_len + GAP_COLUMNS + cell_len(note) <= screen.room:
        yield last.copy().append(" " * GAP_COLUMNS).append(note, DIM_STYLE)
    else:
        yield last
        yield from wrap_note(note, screen)


def fit_columns(text: str, width: int) -> str:
    """Return the text padded to `width` columns, or cut to them with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def cut_columns(text: str, width: int) -> str:
    """Return the text, cut to `width` columns with an ellipsis if it is wider."""
    return fit_columns(text, min(cell_len(text), width))


def joined_line(parts: Iterable[tuple[str, Style]]) -> Text:
    """Return texts, each in its style, as one line; appending one after the other takes longer."""
    texts: list[str] = []
    spans: list[Span] = []
    start, end, running = 0, 0, PLAIN_STYLE
    for text, style in parts:
        if style is not running:
            if running and end > start:
                spans.append(Span(start, end, running))
            start, running = end, style
        texts.append(text)
        end += len(text)
    if running and end > start:
        spans.append(Span(start, end, running))
    return Text("".join(texts), spans=spans, end="")


def line_segments(line: Text, console: Console) -> list[Segment]:
    """Return the parts of a line as rich's segments, each in its own style, else in the line's."""
    line_style = line.style if isinstance(line.style, Style) else Style()
    ends = [0, *(end for span in line.spans for end in (span.start, span.end)), len(line)]
    if all(isinstance(span.style, Style) for span in line.spans) and ends == sorted(ends):
        return list(_disjoint_segments(line, line_style))  # rich takes five times as long
    return [Segment(part.text, part.style or line_style) for part in line.render(console)]


def _disjoint_segments(line: Text, line_style: Style) -> Iterator[Segment]:
    """Yield the parts of a line whose spans follow one another."""
    text, done = line.plain, 0
    for start, end, style in line.spans:
        if start > done:
            yield Segment(text[done:start], line_style)
        if end > start:
            assert isinstance(style, Style)
            yield Segment(text[start:end], line_style + style if line_style else style)
        done = max(done, end)
    if done < len(text):
        yield Segment(text[done:], line_style)


BLOCK_RAMP = "▁▂▃▄▅▆▇█"
UPPER_HALF_BLOCK, LOWER_HALF_BLOCK = "▀", "▄"
LEGEND_COLUMNS, NARROW_LEGEND_COLUMNS = 16, 8  # on a usual and on a narrow screen
INKS_BY_DEPTH = {
    "16": (Color.from_ansi(0), Color.from_ansi(15)),
    "256": (Color.from_ansi(16), Color.from_ansi(231)),
    "truecolor": (Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)),
}

# In no scale: half a cell in this colour is seen on any weight.
MARKER_COLORS = {"16": 13, "256": 201}
PALETTE_WITHOUT_GREEN = "magma"  # which has magenta itself
GREEN_MARKER_COLORS = {"16": 10, "256": 46}

CellIndex = int | tuple[int, ...]
FewColors = Literal["16", "256"]
ColorNumbers = tuple[int, ...]
StyledText = tuple[str, Style]


@dataclass(frozen=True, eq=False)
class Paint:
    """The colours of an array of values: in RGB, and on a screen with few colours by number."""

    rgb: UInt8[np.ndarray, "*shape 3"]
    dark_ink: Bool[np.ndarray, "*shape"]
    inks: tuple[Color, Color]  # for letters: dark and light
    numbers: Int[np.ndarray, "*shape"] | None = None

    @cached_property
    def codes(self) -> Int[np.ndarray, "*shape"]:
        """A number for each value, equal where the colours are."""
        if self.numbers is not None:
            return self.numbers
        return np.asarray(self.rgb.astype(np.int64) @ np.array([65536, 256, 1]))

    def color(self, index: CellIndex) -> Color:
        return color_from_code(int(self.codes[index]), has_few=self.numbers is not None)

    def background_style(self, index: CellIndex) -> Style:
        """Return the style of letters on the colour of a value, in legible black or white."""
        ink = self.inks[0 if self.dark_ink[index] else 1]
        return color_style(ink, self.color(index))


def color_from_code(code: int, *, has_few: bool) -> Color:
    """Return the colour of a number in `Paint.codes`; `has_few`: the screen has 16 or 256 of
    them.
    """
    if has_few:
        return _ansi_color(code)
    return _rgb_color(code >> 16, code >> 8 & 255, code & 255)


# Cached, since rich is slow.
_ansi_color = lru_cache(maxsize=4096)(Color.from_ansi)
_rgb_color = lru_cache(maxsize=4096)(Color.from_rgb)


def paint_values(
    values: Shaped[np.ndarray, "*shape"], scale: Scale, screen: Screen, *, is_off: bool = False
) -> Paint:
    """Return the colours of values on a screen; NaN has the colour of 0.

    `is_off`: the head is switched off, and its weights are grey.
    """
    filled_values = np.nan_to_num(values)
    if screen.colors in ("16", "256"):
        palette = "greys" if is_off else screen.palette
        color_numbers = np.array(ramp_numbers(screen.colors, palette, screen.theme, scale.kind))
        steps = (scale.shares(filled_values) * len(color_numbers)).astype(int)
        numbers = color_numbers[np.minimum(steps, len(color_numbers) - 1)]
        rgb = terminal_rgb(numbers)
        return Paint(rgb, needs_dark_ink(rgb), INKS_BY_DEPTH[screen.colors], numbers)
    rgb = scale_colors(filled_values, scale, screen.palette, screen.theme)
    rgb = fade_colors(rgb, screen.theme) if is_off else rgb
    return Paint(rgb, needs_dark_ink(rgb), INKS_BY_DEPTH["truecolor"])


def legend_lines(
    grids: Sequence[Grid], screen: Screen, colors: Scale | None = None
) -> Iterator[Text]:
    """Yield the legend of the first grid's scale: `weight 0 ▁▂▃▄▅▆▇█ 1   · hidden`.

    `colors`: the scale that its colours are taken from, if it is another. The sign for hidden cells
    is explained only if a grid has some.
    """
    line = scale_line(grids[0].scale, screen, colors=colors)
    has_masked = any(grid.cells.has_hidden for grid in grids)
    masked = Text(f"{MASKED_SIGN} hidden", DIM_STYLE, end="") if has_masked else Text(end="")
    if masked and line.cell_len + GAP_COLUMNS + masked.cell_len > screen.room:
        yield line
        yield masked
    else:
        yield line.append(" " * GAP_COLUMNS).append_text(masked) if masked else line


def scale_line(
    scale: Scale,
    screen: Screen,
    *,
    colors: Scale | None = None,
    ramp: str = BLOCK_RAMP,
    width: int = LEGEND_COLUMNS,
) -> Text:
    """Return a scale from end to end; one that is not linear shows the number at its middle.

    Without colours it is made of the letters of `ramp`; else it is `width` columns wide. `colors`:
    a scale that the colours are taken from in its place.
    """
    low = f"{'≤ ' if scale.covers_smaller else ''}{scale.low:g}"
    line = Text.assemble((f"{scale.label} {low} ", DIM_STYLE), end="")
    ramp_text = _ramp_text(scale, colors or scale, screen, ramp, width)
    if scale.bend == "straight":
        line.append_text(ramp_text)
    else:
        middle = len(ramp_text) // 2
        number = float(scale.values_at(np.array(0.5)))
        line.append_text(ramp_text[:middle]).append(f" {short_text(number)} ", DIM_STYLE)
        line.append_text(ramp_text[middle:])
    return line.append(f" {'≥ ' if scale.is_exceeded else ''}{scale.high:g}", DIM_STYLE)


def _ramp_text(scale: Scale, colors: Scale, screen: Screen, ramp: str, max_columns: int) -> Text:
    """Return the cells of a scale in its colours; without colours the letters of `ramp`.

    There are `max_columns` cells, fewer on a narrow screen. `colors`: the scale with the colours.
    """
    if not screen.colored:
        return Text(ramp, end="")
    width = max_columns if screen.room >= 40 else NARROW_LEGEND_COLUMNS
    paint = paint_values(scale.values_at(np.linspace(0, 1, width)), colors, screen)
    return Text.assemble(
        *((" ", paint.background_style(column)) for column in range(width)), end=""
    )


def block_glyphs(values: np.ndarray, scale: Scale) -> list[str]:
    """Return a block for each value, the higher the larger the value; a space for NaN."""
    shares = scale.shares(np.nan_to_num(values))
    steps = np.minimum((shares * len(BLOCK_RAMP)).astype(int), len(BLOCK_RAMP) - 1)
    return [
        " " if empty else BLOCK_RAMP[step]
        for step, empty in zip(steps, np.isnan(values), strict=True)
    ]


@lru_cache(maxsize=32768)  # pairs of colours: a head in half blocks has a thousand
def color_style(color: Color, behind: Color | None) -> Style:
    return Style.from_color(color, behind)


def half_cell(colors: Sequence[Color | None], empty: StyledText) -> StyledText:
    """Return a cell whose halves have these colours, the upper one first.

    A half is left out where it has None, or no colour is given; without both it is `empty`.
    """
    upper, lower = (*colors, None)[:2]
    if upper is not None:
        return UPPER_HALF_BLOCK, color_style(upper, lower)
    return empty if lower is None else (LOWER_HALF_BLOCK, color_style(lower, None))


def marker_color(screen: Screen) -> Color:
    """Return the colour that marks half a cell: magenta, or green where magenta is in the scale."""
    is_green = screen.palette == PALETTE_WITHOUT_GREEN
    if screen.colors in ("16", "256"):
        return _ansi_color((GREEN_MARKER_COLORS if is_green else MARKER_COLORS)[screen.colors])
    return _rgb_color(0, 255, 0) if is_green else _rgb_color(255, 0, 255)


# From the darkest to the lightest: from 0 to 1 on dark paper.
SEQUENTIAL_RAMPS: Mapping[FewColors, Mapping[str, ColorNumbers]] = {
    "256": {
        "ocean": (17, 18, 19, 25, 32, 38, 44, 116, 195),
        "greys": (235, 237, 239, 241, 243, 245, 247, 249, 251),
        "viridis": (53, 55, 24, 30, 36, 77, 149, 190, 226),
        "cividis": (17, 18, 239, 60, 243, 101, 143, 179, 185, 227),
        "magma": (17, 53, 90, 126, 168, 203, 209, 216, 222, 229),
    },
    # Without black and white: not every terminal with few colours says which one its paper is.
    "16": {
        "ocean": (4, 12, 6, 14),
        "greys": (8, 7),
        "viridis": (4, 2, 10, 11),
        "cividis": (4, 8, 3, 11),
        "magma": (5, 9, 11),
    },
}
# From the lowest value to the highest, with 0 in the middle.
DIVERGING_RAMPS: Mapping[FewColors, Mapping[str, ColorNumbers]] = {
    "256": {
        "dark": (117, 74, 32, 25, 19, 234, 52, 94, 166, 208, 215),
        "light": (19, 25, 32, 74, 153, 255, 223, 209, 166, 160, 88),
    },
    "16": {"dark": (14, 6, 4, 0, 1, 3, 11), "light": (4, 6, 14, 15, 11, 3, 1)},
}

# xterm's first 16 colours; rich knows the others, which are the same in every terminal.
SYSTEM_COLORS = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
    "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)


def ramp_numbers(depth: FewColors, palette: str, theme: str, kind: str) -> ColorNumbers:
    """Return a scale's colours as numbers of the terminal's, from its lowest value to its highest.

    `depth`: '16' or '256' colours. `kind` 'diverging' does not depend on the palette.
    """
    if kind == "diverging":
        return DIVERGING_RAMPS[depth][theme]
    numbers = SEQUENTIAL_RAMPS[depth][palette]
    return numbers if theme == "dark" else numbers[::-1]


def terminal_rgb(numbers: Int[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape 3"]:
    """Return the red, green and blue of the terminal's colour numbers, as xterm shows them."""
    table = np.array([_xterm_rgb(number) for number in range(256)], dtype=np.uint8)
    return np.asarray(table[numbers])


def _xterm_rgb(number: int) -> tuple[int, int, int]:
    """Return the red, green and blue of a terminal's colour number from 0 to 255.

    >>> _xterm_rgb(17), _xterm_rgb(255), _xterm_rgb(4)
    ((0, 0, 95), (238, 238, 238), (0, 0, 238))
    """
    if number < 16:
        red, green, blue = bytes.fromhex(SYSTEM_COLORS.split()[number])
    else:
        red, green, blue = Color.from_ansi(number).get_truecolor()
    return red, green, blue
