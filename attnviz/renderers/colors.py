"""One scale of colour for terminal, picture and page.

Hue says the sign, lightness the size; what is hidden has a look of its own. Every palette is
perceptual (equal steps look equal) and safe for colour-blind eyes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attnviz.errors import unknown

if TYPE_CHECKING:
    # NumPy is imported where it is used: `attnviz --help` lists the palettes and needs no array.
    from jaxtyping import Float, Shaped, UInt8
    from numpy import ndarray

    Colors = UInt8[ndarray, "*shape 3"]


@dataclass(frozen=True)
class Theme:
    """The colours around the data."""

    paper: str
    ink: str
    faint: str  # axis titles, rules, captions
    hidden: str  # a cell that is masked, and
    hatch: str  # the lines across it
    series: tuple[str, ...]  # lines of a chart
    diverging: str  # anchors, as in a palette


@dataclass(frozen=True)
class Palette:
    """A sequence of colours from the smallest value to the largest.

    One that begins with paper is turned round on dark paper, so that 0 is always near it.
    """

    anchors: str  # red, green and blue of each in hexadecimal, equally far apart
    begins_with_paper: bool = False
    # What is masked, by theme, where the theme's own grey could be taken for a weight.
    hidden: Mapping[str, str] = field(default_factory=dict)


THEMES = {
    "light": Theme(
        paper="#ffffff",
        ink="#1a1c20",
        faint="#5c626b",
        hidden="#e0e0e0",
        hatch="#bcbcbc",
        series=("#b3390b", "#0b62b3", "#4a7d12"),
        diverging=(
            "004396 1858ab 346ebe 4f84cf 6c9bdc 8bb1e7 acc7ef cedef3 f3f3f3 f6d6cb f3baa7 "
            "ec9f84 e28463 d46a44 c45124 b13800 9d1f00"
        ),
    ),
    "dark": Theme(
        paper="#15171c",
        ink="#eceff4",
        faint="#a3abb8",
        hidden="#2a2c31",
        hatch="#4a4e57",
        series=("#ff9d57", "#6cc0ff", "#a5d66f"),
        diverging=(
            "70c6ff 5cb0f4 4c9bda 4187be 3872a1 325f83 2e4b64 2a3946 262626 453226 633f25 "
            "804c25 9d5a26 b9692a d57a33 ee8d42 ffa156"
        ),
    ),
}

PALETTES = {
    "ocean": Palette(
        (
            "e8fbfa caf1f2 ace5ec 8ed9e8 71cce4 54bee0 38afdb 1b9fd4 0090cd 0080c3 0070b7 "
            "0060aa 0e519a 164389 193576 192962 161e4e"
        ),
        begins_with_paper=True,
    ),
    "greys": Palette(
        (
            "f7f7f7 e7e7e7 d7d7d7 c7c7c7 b8b8b8 a8a8a8 999999 8b8b8b 7c7c7c 6e6e6e 606060 "
            "535353 464646 393939 2d2d2d 212121 161616"
        ),
        begins_with_paper=True,
        hidden={"light": "#f3e0b5", "dark": "#4a3a1c"},
    ),
    "viridis": Palette(
        (
            "440154 470d60 48186a 482374 472d7b 453781 424086 3e4989 3b528b 375b8d 33638d "
            "2f6b8e 2c728e 297a8e 26828e 23898e 21918c 1f988b 1fa088 22a785 28ae80 32b67a "
            "3fbc73 4ec36b 5ec962 70cf57 84d44b 98d83e addc30 c2df23 d8e219 ece51b fde725"
        ),
    ),
    "cividis": Palette(
        (
            "00224e 00285b 002e6a 053371 1a386f 273e6e 32436d 3b496c 434e6c 4b546c 535a6d "
            "5a5f6e 61656f 686a71 6f7073 767676 7d7c78 848279 8c8878 938e78 9b9476 a39a74 "
            "aba072 b4a76f bcae6c c4b468 cdbb63 d5c25e dec958 e7d150 f0d846 f9e03a fee838"
        ),
    ),
    "magma": Palette(
        (
            "000004 030312 0a0822 130d34 1d1147 29115a 36106b 440f76 51127c 5d177f 6a1c81 "
            "762181 832681 902a81 9c2e7f aa337d b73779 c43c75 d0416f dc4869 e75263 ef5d5e "
            "f56b5c f9795d fc8961 fd9869 fea772 feb67c fec488 fed395 fde2a3 fcf0b2 fcfdbf"
        ),
    ),
}
DEFAULT_PALETTE = "ocean"
DEFAULT_THEME = "light"


def theme(name: str) -> Theme:
    if name not in THEMES:
        raise unknown("theme", name, THEMES)
    return THEMES[name]


def hidden_color(palette: str, theme_name: str) -> str:
    return PALETTES[palette].hidden.get(theme_name, theme(theme_name).hidden)


def gradient(palette: str, theme_name: str, kind: str) -> Float[ndarray, "anchor 3"]:
    """The anchors of a scale of colour, as red, green and blue from 0 to 255."""
    import numpy as np

    if palette not in PALETTES:
        raise unknown("colour map", palette, PALETTES)
    if kind == "diverging":
        anchors = theme(theme_name).diverging.split()
    else:
        anchors = PALETTES[palette].anchors.split()
        if PALETTES[palette].begins_with_paper and theme_name == "dark":
            anchors.reverse()
    return np.array([list(bytes.fromhex(anchor)) for anchor in anchors], dtype=float)


def shade(
    values: Shaped[ndarray, "*shape"],
    low: float,
    high: float,
    anchors: Float[ndarray, "anchor 3"],
) -> Colors:
    """The colour of each value; what lies beyond either end has the colour of that end."""
    import numpy as np

    share = np.clip((values.astype(float) - low) / (high - low), 0, 1)
    place, at = share * (len(anchors) - 1), np.arange(len(anchors))
    channels = [np.interp(place, at, anchors[:, channel]) for channel in range(3)]
    colors: Colors = np.stack(channels, axis=-1).round().astype(np.uint8)
    return colors


def needs_dark_ink(colors: Colors) -> Shaped[ndarray, "*shape"]:
    """Whether black is easier to read on a colour than white.

    By WCAG's contrast ratio black wins above a luminance of 0.18. White is kept a little longer,
    since it reads better on saturated blue; its ratio never falls below 4.2.
    """
    import numpy as np

    part = colors / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    luminance: Float[ndarray, "*shape"] = linear @ np.array([0.2126, 0.7152, 0.0722])
    dark: Shaped[ndarray, "*shape"] = np.greater(luminance, 0.2)
    return dark
