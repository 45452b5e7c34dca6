"""How pictures and terminals are to look: options, checked."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from attnviz.cli.showing import OutputOptions, PictureOptions
from attnviz.errors import AttnvizError, unknown
from attnviz.renderers import Look
from attnviz.renderers.look import LABEL_ON_A_SLIDE, TEXT_SIZES

if TYPE_CHECKING:
    from rich.console import Console

    from attnviz.renderers.terminal.screen import Screen

SIZES = {"16:9": (13.333, 7.5), "4:3": (13.333, 10.0), "square": (10.0, 10.0)}


def look_of(pictures: PictureOptions, seconds: float = Look.seconds) -> Look:
    """The options of a picture."""
    return Look(
        theme=Look.theme if pictures.theme is None else pictures.theme,
        palette=pictures.colors,
        size=None if pictures.size is None else inches(pictures.size),
        dpi=pictures.dpi,
        seconds=seconds,
        transparent=pictures.transparent,
        numbers=pictures.numbers,
        text_size=1.0 if pictures.text_size is None else times(pictures.text_size),
        footnote=pictures.footnote,
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
    ((13.333, 7.5), (8.0, 5.0))
    """
    if size in SIZES:
        return SIZES[size]
    given = re.fullmatch(r"(\d+(?:\.\d+)?)[x×](\d+(?:\.\d+)?)", size)
    if not given:
        raise AttnvizError(
            f"there is no size '{size}'", f"try {', '.join(SIZES)}, or inches such as 8x5"
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
    return float(text_size.removesuffix("pt")) / LABEL_ON_A_SLIDE


def _theme_of_terminal() -> str:
    """Some terminals say which colours they have: `COLORFGBG=0;15` is black on white."""
    background = os.environ.get("COLORFGBG", "").split(";")[-1]
    return "light" if background in ("7", "15") else "dark"
