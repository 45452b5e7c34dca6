"""How pictures and terminals are to look: options, checked."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from attnviz.cli.showing import OutputOptions, PictureOptions
from attnviz.errors import AttnvizError
from attnviz.renderers import Look
from attnviz.renderers.look import DPI, INCHES, LARGEST_SIDE

if TYPE_CHECKING:
    from rich.console import Console

    from attnviz.renderers.terminal.screen import Screen

SIZES = {"16:9": (10.0, 5.625), "4:3": (10.0, 7.5), "square": (7.5, 7.5)}
SLIDE = 40 / 3  # inches: how wide a slide is
LARGEST_INCH = 100  # two larger numbers are pixels


def look_of(pictures: PictureOptions, seconds: float = Look.seconds) -> Look:
    """The options of a picture."""
    size, dpi = size_and_dpi(pictures.size, pictures.dpi)
    return Look(
        theme=Look.theme if pictures.theme is None else pictures.theme,
        palette=pictures.colors,
        size=size,
        dpi=dpi,
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


def size_and_dpi(
    size: str | None, dpi: int | None
) -> tuple[tuple[float, float] | None, int | None]:
    """A size in inches, and pixels to an inch; of a size in pixels both, for a page as a slide is.

    >>> size_and_dpi("1920x1080", None), size_and_dpi("1920x1080", 96), size_and_dpi("8x5", None)
    (((13.333333333333334, 7.5), 144), ((20.0, 11.25), 96), ((8.0, 5.0), None))
    """
    if size is None:
        return None, dpi
    width, height = inches(size)
    if min(width, height) <= LARGEST_INCH:
        return (width, height), dpi
    return _of_pixels(width, height, dpi)


def _of_pixels(width: float, height: float, dpi: int | None) -> tuple[tuple[float, float], int]:
    """A picture of so many pixels: as wide as a slide, unless it is said how dense they are."""
    if max(width, height) > LARGEST_SIDE:
        raise AttnvizError(
            f"--size is {width:g} by {height:g} pixels, and at most {LARGEST_SIDE:,} can be drawn",
            "try --size 1920x1080",
        )
    dense = dpi or min(max(round(width / SLIDE), DPI[0]), DPI[1])
    size = (width / dense, height / dense)
    if not all(INCHES[0] <= side <= INCHES[1] for side in size):
        raise AttnvizError(
            f"{width:g} by {height:g} pixels at {dense} dpi are {size[0]:.3g} by {size[1]:.3g} "
            f"inches, and each must be from {INCHES[0]:g} to {INCHES[1]:g}",
            "try --size 1920x1080" if dpi is None else "leave --dpi out",
        )
    return size, dense


def inches(size: str) -> tuple[float, float]:
    """
    Numbers that are too large for inches are pixels, and stay what they are.

    >>> inches("16:9"), inches("8x5")
    ((10.0, 5.625), (8.0, 5.0))
    """
    if size in SIZES:
        return SIZES[size]
    given = re.fullmatch(r"(\d+(?:\.\d+)?)[x×](\d+(?:\.\d+)?)", size)
    if not given:
        raise AttnvizError(
            f"there is no size '{size}'",
            f"try {', '.join(SIZES)}, inches such as 8x5, or pixels such as 1920x1080",
        )
    return float(given[1]), float(given[2])


def _theme_of_terminal() -> str:
    """Some terminals say which colours they have: `COLORFGBG=0;15` is black on white."""
    background = os.environ.get("COLORFGBG", "").split(";")[-1]
    return "light" if background in ("7", "15") else "dark"
