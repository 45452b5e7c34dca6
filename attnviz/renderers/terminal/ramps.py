"""Colour scales on a screen: truecolor, 256 and 16 colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped, UInt8
from rich.color import Color
from rich.style import Style
from rich.text import Text

from attnviz.renderers.colors import faded, gradient, needs_dark_ink, shade
from attnviz.renderers.terminal.screen import DIM, GAP, HIDDEN, Screen
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale
from attnviz.wording.numbers import short_text

RAMP = "▁▂▃▄▅▆▇█"
LEGEND = 16  # columns of colour in a legend, and on a narrow screen
NARROW_LEGEND = 8

INKS = {
    "16": (Color.from_ansi(0), Color.from_ansi(15)),
    "256": (Color.from_ansi(16), Color.from_ansi(231)),
    "truecolor": (Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)),
}

Place = int | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Paint:
    """The colours of some values: as they look, and by number where a screen has only a few."""

    looks: UInt8[np.ndarray, "*shape 3"]
    dark_ink: Bool[np.ndarray, "*shape"]
    inks: tuple[Color, Color]  # for letters: a dark one and a light one
    numbers: Int[np.ndarray, "*shape"] | None = None

    def color(self, place: Place) -> Color:
        if self.numbers is not None:
            return _numbered(int(self.numbers[place]))
        red, green, blue = self.looks[place].tolist()
        return _of_channels(red, green, blue)

    def behind(self, place: Place) -> Style:
        """The colour behind letters, and ink that can be read on it."""
        ink = self.inks[0 if self.dark_ink[place] else 1]
        return _style(ink, self.color(place))


def painted(
    values: Shaped[np.ndarray, "*shape"], scale: Scale, screen: Screen, *, off: bool = False
) -> Paint:
    """The colour of each value on a screen; an empty cell has that of 0, and is not to be shown.

    What a head would read that is switched `off` is grey.
    """
    filled = np.nan_to_num(values)
    if screen.colors in ("16", "256"):
        palette = "greys" if off else screen.palette
        few = np.array(ramp(screen.colors, palette, screen.theme, scale.kind))
        steps = (scale.shares(filled) * len(few)).astype(int)
        numbers = few[np.minimum(steps, len(few) - 1)]
        seen = looks(numbers)
        return Paint(seen, needs_dark_ink(seen), INKS[screen.colors], numbers)
    anchors = gradient(screen.palette, screen.theme, scale.kind)
    seen = shade(scale.shares(filled), 0, 1, anchors)
    seen = faded(seen, screen.theme) if off else seen
    return Paint(seen, needs_dark_ink(seen), INKS["truecolor"])


def legend(grids: Sequence[Grid], screen: Screen, colors: Scale | None = None) -> Iterator[Text]:
    """The scale from one end to the other: `weight 0 ▁▂▃▄▅▆▇█ 1   · hidden`.

    `colors` is what its colours were taken from, if it was another scale.
    """
    line = scale_line(grids[0].scale, screen, colors=colors)
    hides = any(grid.cells.hides for grid in grids)
    masked = Text(f"{HIDDEN} hidden", DIM, end="") if hides else Text(end="")
    if masked and line.cell_len + GAP + masked.cell_len > screen.room:
        yield line
        yield masked
    else:
        yield line.append(" " * GAP).append_text(masked) if masked else line


def scale_line(
    scale: Scale,
    screen: Screen,
    *,
    colors: Scale | None = None,
    ramp: str = RAMP,
    width: int = LEGEND,
) -> Text:
    """A scale without more; where it is bent the number in its middle tells by how much."""
    low = f"{'≤ ' if scale.below else ''}{scale.low:g}"
    line = Text.assemble((f"{scale.label} {low} ", DIM), end="")
    halves = _ramp(scale, colors or scale, screen, ramp, width)
    if scale.bend == "straight":
        line.append_text(halves)
    else:
        middle = len(halves) // 2
        number = float(scale.at(np.array(0.5)))
        line.append_text(halves[:middle]).append(f" {short_text(number)} ", DIM)
        line.append_text(halves[middle:])
    return line.append(f" {'≥ ' if scale.beyond else ''}{scale.high:g}", DIM)


def _ramp(scale: Scale, colors: Scale, screen: Screen, ramp: str, most: int) -> Text:
    if not screen.colored:
        return Text(ramp, end="")
    width = most if screen.room >= 40 else NARROW_LEGEND
    paint = painted(scale.at(np.linspace(0, 1, width)), colors, screen)
    return Text.assemble(*((" ", paint.behind(place)) for place in range(width)), end="")


def glyphs(values: np.ndarray, scale: Scale) -> list[str]:
    """Without colour: the larger the value, the higher the block; none in an empty cell."""
    shares = scale.shares(np.nan_to_num(values))
    steps = np.minimum((shares * len(RAMP)).astype(int), len(RAMP) - 1)
    return [
        " " if empty else RAMP[step] for step, empty in zip(steps, np.isnan(values), strict=True)
    ]


@lru_cache(maxsize=4096)
def _numbered(number: int) -> Color:
    return Color.from_ansi(number)


@lru_cache(maxsize=4096)
def _of_channels(red: int, green: int, blue: int) -> Color:
    return Color.from_rgb(red, green, blue)


@lru_cache(maxsize=4096)
def _style(ink: Color, behind: Color) -> Style:
    return Style(color=ink, bgcolor=behind)


Few = Literal["16", "256"]
Ramp = tuple[int, ...]

# From the darkest to the lightest, which is from 0 to 1 on dark paper.
SEQUENTIAL: Mapping[Few, Mapping[str, Ramp]] = {
    "256": {
        "ocean": (17, 18, 19, 25, 32, 38, 44, 116, 195),
        "greys": (235, 237, 239, 241, 243, 245, 247, 249, 251),
        "viridis": (53, 55, 24, 30, 36, 77, 149, 190, 226),
        "cividis": (17, 18, 239, 60, 243, 101, 143, 179, 185, 227),
        "magma": (17, 53, 90, 126, 168, 203, 209, 216, 222, 229),
    },
    "16": {
        "ocean": (0, 4, 6, 14, 15),
        "greys": (0, 8, 7, 15),
        "viridis": (4, 2, 10, 11),
        "cividis": (4, 8, 3, 11),
        "magma": (0, 5, 9, 11, 15),
    },
}
# From the most below 0 to the most above, 0 in the middle.
DIVERGING: Mapping[Few, Mapping[str, Ramp]] = {
    "256": {
        "dark": (117, 74, 32, 25, 19, 234, 52, 94, 166, 208, 215),
        "light": (19, 25, 32, 74, 153, 255, 223, 209, 166, 160, 88),
    },
    "16": {"dark": (14, 6, 4, 0, 1, 3, 11), "light": (4, 6, 14, 15, 11, 3, 1)},
}

# What xterm shows for the first 16; the others are six levels of red, green and blue, and greys.
SYSTEM = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
    "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
LEVELS = (0, 95, 135, 175, 215, 255)
GREYS = 232  # the number of the first


def ramp(few: Few, palette: str, theme: str, kind: str) -> Ramp:
    """The numbers of a scale of colour, from its lowest value to its highest."""
    if kind == "diverging":
        return DIVERGING[few][theme]
    numbers = SEQUENTIAL[few][palette]
    return numbers if theme == "dark" else numbers[::-1]


def looks(numbers: Int[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape 3"]:
    """Red, green and blue of a terminal's colours, as xterm shows them."""
    table = np.array([_look(number) for number in range(256)], dtype=np.uint8)
    seen: UInt8[np.ndarray, "*shape 3"] = table[numbers]
    return seen


def _look(number: int) -> tuple[int, int, int]:
    """
    >>> _look(17), _look(255), _look(4)
    ((0, 0, 95), (238, 238, 238), (0, 0, 238))
    """
    if number < 16:
        red, green, blue = bytes.fromhex(SYSTEM.split()[number])
        return red, green, blue
    if number >= GREYS:
        grey = 8 + 10 * (number - GREYS)
        return grey, grey, grey
    place = number - 16
    return LEVELS[place // 36], LEVELS[place // 6 % 6], LEVELS[place % 6]
