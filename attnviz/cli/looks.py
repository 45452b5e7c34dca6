"""How pictures and terminals are to look: options, checked."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from attnviz.cli.showing import OutputOptions, PictureOptions
from attnviz.errors import AttnvizError, unknown
from attnviz.renderers import Look, colors

if TYPE_CHECKING:
    from rich.console import Console

    from attnviz.renderers.terminal.screen import Screen

SIZES = {"16:9": (10.0, 5.625), "4:3": (10.0, 7.5), "square": (7.5, 7.5)}
INCHES = (2.5, 40.0)
DPI = (30, 1200)
LARGEST_SIDE = 20_000  # pixels; a picture of 20,000 × 20,000 takes 1.6 GB to draw


def look_of(pictures: PictureOptions, seconds: float = Look.seconds) -> Look:
    """The options of a picture."""
    if pictures.theme is not None:
        colors.theme(pictures.theme)
    if pictures.colors not in colors.PALETTES:
        raise unknown("colour map", pictures.colors, colors.PALETTES)
    size = None if pictures.size is None else inches(pictures.size)
    _refuse_odd_dpi(pictures.dpi, size)
    return Look(
        theme=pictures.theme or colors.DEFAULT_THEME,
        palette=pictures.colors,
        size=size,
        dpi=pictures.dpi,
        seconds=seconds,
        transparent=pictures.transparent,
        numbers=pictures.numbers,
    )


def screen_of(console: Console, wanted: OutputOptions, pictures: PictureOptions) -> Screen:
    """What standard output can show: a width if it has one, colours if it has enough of them."""
    from attnviz.renderers.terminal.screen import Screen

    has_width = console.is_terminal or os.environ.get("COLUMNS", "0") != "0"
    return Screen(
        width=(console.width or 80) if has_width else None,
        colored=console.color_system in ("256", "truecolor") and not console.no_color,
        theme=pictures.theme or _theme_of_terminal(),
        palette=pictures.colors,
        numbers=pictures.numbers is not False,
        full=wanted.full,
    )


def inches(size: str) -> tuple[float, float]:
    """
    >>> inches("16:9"), inches("8x5")
    ((10.0, 5.625), (8.0, 5.0))
    """
    if size in SIZES:
        return SIZES[size]
    given = re.fullmatch(r"(\d+(?:\.\d+)?)[x×](\d+(?:\.\d+)?)", size)
    if not given:
        raise AttnvizError(
            f"there is no size '{size}'", f"try {', '.join(SIZES)}, or inches such as 8x5"
        )
    width, height = float(given[1]), float(given[2])
    if not all(INCHES[0] <= side <= INCHES[1] for side in (width, height)):
        raise AttnvizError(
            f"--size is {width:g} by {height:g} inches, and each must be from {INCHES[0]:g} to "
            f"{INCHES[1]:g}",
            "try --size 8x5",
        )
    return width, height


def _refuse_odd_dpi(dpi: int | None, size: tuple[float, float] | None) -> None:
    if dpi is None:
        return
    if not DPI[0] <= dpi <= DPI[1]:
        nearest = min(max(dpi, DPI[0]), DPI[1])
        raise AttnvizError(
            f"--dpi is {dpi}, and must be from {DPI[0]} to {DPI[1]}", f"try --dpi {nearest}"
        )
    if size and max(size) * dpi > LARGEST_SIDE:
        raise AttnvizError(
            f"{max(size):g} inches at {dpi} dpi are {max(size) * dpi:,.0f} pixels, and at most "
            f"{LARGEST_SIDE:,} can be drawn",
            f"try --dpi {int(LARGEST_SIDE / max(size))}",
        )


def _theme_of_terminal() -> str:
    """Some terminals say which colours they have: `COLORFGBG=0;15` is black on white."""
    background = os.environ.get("COLORFGBG", "").split(";")[-1]
    return "light" if background in ("7", "15") else "dark"
