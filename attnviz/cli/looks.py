"""How pictures and terminals are to look: options, checked."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from attnviz.cli.showing import OutputOptions, PictureOptions
from attnviz.errors import AttnvizError, unknown
from attnviz.renderers import Look
from attnviz.renderers.look import (
    DPI,
    INCHES,
    LABEL_ON_A_SLIDE,
    LARGEST_SIDE,
    TEXT_SIZES,
    refuse_odd_points,
)

if TYPE_CHECKING:
    from rich.console import Console

    from attnviz.renderers.terminal.screen import Colors, Screen

COLORS: dict[str, Colors] = {  # of a terminal, as rich calls them
    "standard": "16",
    "windows": "16",
    "256": "256",
    "truecolor": "truecolor",
}
WIDTH = 80  # of what goes through a pipe
SIZES = {"16:9": (13.333, 7.5), "4:3": (13.333, 10.0), "square": (10.0, 10.0)}
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
        text_size=1.0 if pictures.text_size is None else times(pictures.text_size),
        footnote=pictures.footnote,
    )


def screen_of(console: Console, wanted: OutputOptions, pictures: PictureOptions) -> Screen:
    """What standard output can show: how much at once, if somebody looks at it, and in colour."""
    from attnviz.cli.background import theme_of_terminal
    from attnviz.renderers.terminal.screen import Screen

    colors = "none" if console.no_color else COLORS.get(console.color_system or "", "none")
    return Screen(
        width=_width(console, wanted),
        height=console.height if sys.stdout.isatty() else None,
        colors=colors,
        theme=pictures.theme or ("dark" if colors == "none" else theme_of_terminal()),
        palette=pictures.colors,
        numbers=pictures.numbers,
        full=wanted.full,
    )


def _width(console: Console, wanted: OutputOptions) -> int | None:
    """Of a terminal its own; of a pipe what COLUMNS says, or 80, or none where all is wanted."""
    said = os.environ.get("COLUMNS", "")
    if console.is_terminal or (said.isdigit() and int(said)):
        return console.width or WIDTH
    return None if wanted.full else WIDTH


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
    ((13.333, 7.5), (8.0, 5.0))
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


def times(text_size: str) -> float:
    """How many times as large as usual letters are to be.

    >>> times("medium"), times("36")
    (1.0, 2.0)
    """
    if text_size in TEXT_SIZES:
        return TEXT_SIZES[text_size] / LABEL_ON_A_SLIDE
    if not re.fullmatch(r"\d+(\.\d+)?(pt)?", text_size):
        raise unknown("text size", text_size, [*TEXT_SIZES, "points such as 20"])
    points = float(text_size.removesuffix("pt"))
    refuse_odd_points(points)
    return points / LABEL_ON_A_SLIDE
