"""The colours of terminal, picture and page: themes, and scales of colour.

Hue shows the sign, lightness the size: on light paper dark colours mean large values, on dark paper
light ones. Hidden cells are grey, which no weight is. Every palette is perceptually uniform (equal
steps look equal) and safe for colour-blind eyes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnviz.errors import refuse_unknown_name

if TYPE_CHECKING:
    # NumPy is imported where it is used: `attnviz --help` lists the palettes and needs no array.
    from jaxtyping import Float, Shaped, UInt8
    from numpy import ndarray

    from attnviz.views.grids.scales import Scale

    Colors = UInt8[ndarray, "*shape 3"]


@dataclass(frozen=True)
class Theme:
    """The colours around the data: of paper, letters, masked cells and lines."""

    paper: str
    ink: str
    faint: str  # axis titles, rules, captions
    hidden: str  # a masked cell
    hatch: str  # lines across a masked cell
    series: tuple[str, ...]  # lines of a chart
    heads: tuple[str, ...]  # lines of heads that are drawn together
    diverging: str  # anchors, as in a palette


@dataclass(frozen=True)
class Palette:
    """A sequence of colours from the lightest to the darkest: from 0 to 1 on light paper."""

    anchors: str  # equidistant colours, in hexadecimal
    on_dark: str = ""  # on dark paper, also from the lightest; empty: the anchors, from 1 to 0


def _style_colors(colors: str) -> tuple[str, ...]:
    """Return colours as style sheets write them: `c9800d` as `#c9800d`."""
    return tuple(f"#{color}" for color in colors.split())


THEMES = {
    "light": Theme(
        paper="#ffffff",
        ink="#1a1c20",
        faint="#5c626b",
        hidden="#e0e0e0",
        hatch="#bcbcbc",
        series=_style_colors("b3390b 0b62b3 4a7d12 7a2b56 2f818e 8050d0"),
        heads=_style_colors("0061d0 c9800d 710a00 14a69f a67cf7 bf2a17 7e4882 272c65"),
        diverging=(
            "004396 1858ab 346ebe 4f84cf 6c9bdc 8bb1e7 acc7ef cedef3 f3f3f3 f6d6cb f3baa7 "
            "ec9f84 e28463 d46a44 c45124 b13800 9d1f00"
        ),
    ),
    "dark": Theme(
        paper="#15171c",
        ink="#eceff4",
        faint="#a3abb8",
        hidden="#2c2c2c",
        hatch="#4e4e4e",
        series=_style_colors("ff9d57 6cc0ff a5d66f e07a94 8aa0ff e6e04a"),
        heads=_style_colors("018cf9 fe9d29 27d09e faec65 dc5417 b8b0ff 84fdff b069a5"),
        diverging=(
            "70c6ff 5cb0f4 4c9bda 4187be 3872a1 325f83 2e4b64 2a3946 262626 453226 633f25 "
            "804c25 9d5a26 b9692a d57a33 ee8d42 ffa156"
        ),
    ),
}

PALETTES = {
    "ocean": Palette(
        "e8fbfa caf1f2 ace5ec 8ed9e8 71cce4 54bee0 38afdb 1b9fd4 0090cd 0080c3 0070b7 "
        "0060aa 0e519a 164389 193576 192962 161e4e"
    ),
    "greys": Palette(  # which ends, on either paper, before the grey of hidden cells
        anchors=(
            "cacaca bdbdbd b1b1b1 a4a4a4 989898 8c8c8c 808080 747474 696969 5d5d5d 525252 "
            "484848 3d3d3d 333333 292929 1f1f1f 161616"
        ),
        on_dark=(
            "f7f7f7 ebebeb e0e0e0 d4d4d4 c9c9c9 bebebe b3b3b3 a8a8a8 9d9d9d 929292 888888 "
            "7e7e7e 737373 696969 5f5f5f 565656 4c4c4c"
        ),
    ),
    "viridis": Palette(
        "fde725 ece51b d8e219 c2df23 addc30 98d83e 84d44b 70cf57 5ec962 4ec36b 3fbc73 "
        "32b67a 28ae80 22a785 1fa088 1f988b 21918c 23898e 26828e 297a8e 2c728e 2f6b8e "
        "33638d 375b8d 3b528b 3e4989 424086 453781 472d7b 482374 48186a 470d60 440154"
    ),
    "cividis": Palette(
        "fee838 f9e03a f0d846 e7d150 dec958 d5c25e cdbb63 c4b468 bcae6c b4a76f aba072 "
        "a39a74 9b9476 938e78 8c8878 848279 7d7c78 767676 6f7073 686a71 61656f 5a5f6e "
        "535a6d 4b546c 434e6c 3b496c 32436d 273e6e 1a386f 053371 002e6a 00285b 00224e"
    ),
    "magma": Palette(
        "fcfdbf fcf0b2 fde2a3 fed395 fec488 feb67c fea772 fd9869 fc8961 f9795d f56b5c "
        "ef5d5e e75263 dc4869 d0416f c43c75 b73779 aa337d 9c2e7f 902a81 832681 762181 "
        "6a1c81 5d177f 51127c 440f76 36106b 29115a 1d1147 130d34 0a0822 030312 000004"
    ),
}
DEFAULT_PALETTE = "ocean"
LUMA_WEIGHTS = (0.2126, 0.7152, 0.0722)  # of red, green and blue
FADED_PAPER_SHARE = 0.35  # of the paper's colour in a head that is switched off
DEFAULT_THEME = "light"


def find_theme(name: str) -> Theme:
    """Return the theme of a name; refuse an unknown name."""
    refuse_unknown_name("theme", name, THEMES)
    return THEMES[name]


def color_anchors(palette: str, theme_name: str, kind: str) -> Float[ndarray, "anchor 3"]:
    """Return the anchor colours of a scale, from its low end to its high one, as RGB from 0 to 255.

    `kind` 'diverging' takes them from the theme, any other from the palette. Refuses unknown names.
    """
    import numpy as np

    refuse_unknown_name("colour map", palette, PALETTES)
    if kind == "diverging":
        anchors = find_theme(theme_name).diverging.split()
    elif theme_name == "dark":
        anchors = (PALETTES[palette].on_dark or PALETTES[palette].anchors).split()[::-1]
    else:
        anchors = PALETTES[palette].anchors.split()
    return np.array([list(bytes.fromhex(anchor)) for anchor in anchors], dtype=float)


def color_values(
    values: Shaped[ndarray, "*shape"], low: float, high: float, anchors: Float[ndarray, "anchor 3"]
) -> Colors:
    """Return the RGB colour of each value on the scale from `low` to `high`, between its anchors.

    Values beyond an end have the colour of that end.
    """
    import numpy as np

    shares = np.clip((values.astype(float) - low) / (high - low), 0, 1)
    positions, anchor_positions = shares * (len(anchors) - 1), np.arange(len(anchors))
    channels = [np.interp(positions, anchor_positions, anchors[:, channel]) for channel in range(3)]
    return np.asarray(np.stack(channels, axis=-1).round().astype(np.uint8))


def scale_colors(
    values: Shaped[ndarray, "*shape"], scale: Scale, palette: str, theme_name: str
) -> Colors:
    """Return the RGB colour of each value on a scale, in a palette on the paper of a theme."""
    return color_values(scale.shares(values), 0, 1, color_anchors(palette, theme_name, scale.kind))


def fade_colors(colors: Colors, theme_name: str) -> Colors:
    """Return the colours as greys mixed with the theme's paper, for heads that are switched off."""
    import numpy as np

    paper = np.array(list(bytes.fromhex(find_theme(theme_name).paper.removeprefix("#"))))
    grey = (colors @ LUMA_WEIGHTS)[..., None]
    mixed = FADED_PAPER_SHARE * paper + (1 - FADED_PAPER_SHARE) * grey
    return np.asarray(mixed.round().astype(np.uint8))


def needs_dark_ink(colors: Colors) -> Shaped[ndarray, "*shape"]:
    """Return for each colour whether black letters are easier to read on it than white ones.

    By WCAG's contrast ratio black is better above a luminance of 0.18. White is kept up to 0.2,
    since it reads better on saturated blue; its ratio never falls below 4.2.
    """
    import numpy as np

    channels = colors / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array(LUMA_WEIGHTS)
    return np.asarray(luminance > 0.2)
