"""Results to the terminal and to files; the one place that prints or writes them."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer

from attnviz import colors
from attnviz.cli.options import SUFFIXES, Output, Pictures
from attnviz.errors import AttnvizError, unknown
from attnviz.exports import EXPORTS
from attnviz.renderers import Look
from attnviz.tokens import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from attnviz.grids import Grid
    from attnviz.renderers.terminal import Screen
    from attnviz.tracing import Trace

SIZES = {"16:9": (10.0, 5.625), "4:3": (10.0, 7.5), "square": (7.5, 7.5)}
INCHES = (1.0, 40.0)
DPI = (30, 1200)
LARGEST_SIDE = 20_000  # pixels; a picture of 20,000 × 20,000 takes 1.6 GB to draw
ON_SCREEN = ("weights", "context")
IN_A_PICTURE = ("weights",)


def check(wanted: Output, pictures: Pictures) -> None:
    """Refuse what cannot be delivered before anything is computed."""
    from attnviz import files

    for path in wanted.out:
        files.refuse_folder(path)
        if path.suffix.lower() not in SUFFIXES:
            raise unknown("format for", str(path.suffix or path), SUFFIXES)
        files.check(path)
    look(pictures)


def look(pictures: Pictures, words: Look | None = None) -> Look:
    """The options of a picture, checked; its words are given."""
    if pictures.theme is not None:
        colors.theme(pictures.theme)
    if pictures.colors not in colors.PALETTES:
        raise unknown("colour map", pictures.colors, colors.PALETTES)
    size = inches(pictures.size) if pictures.size else None
    if not DPI[0] <= pictures.dpi <= DPI[1]:
        nearest = min(max(pictures.dpi, DPI[0]), DPI[1])
        raise AttnvizError(
            f"--dpi is {pictures.dpi}, and must be from {DPI[0]} to {DPI[1]}",
            f"try --dpi {nearest}",
        )
    if size and max(size) * pictures.dpi > LARGEST_SIDE:
        raise AttnvizError(
            f"{max(size):g} inches at {pictures.dpi} dpi are {max(size) * pictures.dpi:,.0f} "
            f"pixels, and at most {LARGEST_SIDE:,} can be drawn",
            f"try --dpi {int(LARGEST_SIDE / max(size))}",
        )
    return replace(
        words or Look(),
        theme=pictures.theme or colors.DEFAULT_THEME,
        palette=pictures.colors,
        size=size,
        dpi=pictures.dpi,
        transparent=pictures.transparent,
        numbers=pictures.numbers,
        title=_title(pictures, words),
    )


def _title(pictures: Pictures, words: Look | None) -> str:
    if pictures.title is not None:
        return printable(pictures.title)
    return words.title if words else ""


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


def shown(wanted: Output, default: Sequence[str]) -> list[str]:
    """The names after --show; those of the default where it was not given."""
    if wanted.show is None:
        return list(default)
    return [name.strip() for name in wanted.show.split(",") if name.strip()]


def query_position(trace: Trace, wanted: Output) -> int | None:
    from attnviz import grids

    grids.check_shown(shown(wanted, ON_SCREEN))
    return None if wanted.query is None else grids.find_query(trace.tokens, wanted.query)


def print_tables(trace: Trace, query: int | None, wanted: Output, pictures: Pictures) -> None:
    from rich.console import Console

    from attnviz import grids
    from attnviz.renderers import terminal

    console = Console(highlight=False, markup=False, emoji=False)
    screen = _screen(console, wanted, pictures)
    if not wanted.quiet:
        _print(console, terminal.heading(grids.headline(trace), grids.settings_line(trace), screen))
    if query is not None:
        _print(console, terminal.reading(grids.reading(trace, query), screen))
    else:
        _print(console, terminal.lines(grids.draw(trace, shown(wanted, ON_SCREEN)), screen))


def print_json(trace: Trace) -> None:
    from attnviz.exports.document import json as chunks

    for chunk in chunks(trace):
        sys.stdout.write(chunk.decode())


def print_checks(trace: Trace, wanted: Output) -> None:
    """The self-checks; a check that fails is a bug of ours, and the exit status says so."""
    from attnviz.checks import verify

    checks = verify(trace)
    for each in checks:
        typer.echo(f"{'✓' if each.passed else '✗'} {each.claim}: {each.found}", err=wanted.json)
    if not all(each.passed for each in checks):
        raise typer.Exit(1)


def write(trace: Trace, query: int | None, wanted: Output, pictures: Pictures) -> None:
    """Every file that was asked for, all of them or none."""
    from attnviz import files

    made = list(dict.fromkeys(wanted.out))
    with warnings.catch_warnings(record=True) as noted, files.Together() as together:
        for path in made:
            together.write(path, _chunks(trace, query, path.suffix.lower(), wanted, pictures))
    notes = dict.fromkeys(f"note: {warning.message}" for warning in noted)
    for line in [*notes, *(f"wrote {path}" for path in made)] if not wanted.quiet else ():
        typer.echo(line, err=True)


def _chunks(
    trace: Trace, query: int | None, suffix: str, wanted: Output, pictures: Pictures
) -> Iterable[bytes]:
    if suffix in EXPORTS:
        from attnviz import exports

        return exports.named(suffix)(trace)
    from attnviz import grids, renderers

    default = ON_SCREEN if suffix == ".txt" else IN_A_PICTURE
    drawn: list[Grid] = (
        grids.draw(trace, shown(wanted, default))
        if query is None
        else [grids.reading(trace, query)]
    )
    words = Look(
        title=grids.headline(trace),
        caption=grids.caption(trace, drawn),
        description=grids.describe(drawn),
        provenance=json.dumps(asdict(trace.provenance), ensure_ascii=False),
    )
    return [renderers.render(drawn, suffix, look(pictures, words))]


def _screen(console: Console, wanted: Output, pictures: Pictures) -> Screen:
    """What standard output can show: a width if it has one, colours if it has enough of them."""
    from attnviz.renderers.terminal import Screen

    has_width = console.is_terminal or "COLUMNS" in os.environ
    return Screen(
        width=console.width if has_width else None,
        colored=console.color_system in ("256", "truecolor") and not console.no_color,
        theme=pictures.theme or _theme_of_terminal(),
        palette=pictures.colors,
        numbers=pictures.numbers is not False,
        full=wanted.full,
    )


def _theme_of_terminal() -> str:
    """Some terminals say which colours they have: `COLORFGBG=0;15` is black on white."""
    background = os.environ.get("COLORFGBG", "").split(";")[-1]
    return "light" if background in ("7", "15") else "dark"


def _print(console: Console, lines: Iterable[Text]) -> None:
    if console.is_terminal:
        for line in lines:
            console.print(line, crop=False, no_wrap=True, overflow="ignore", end="\n")
        return
    for line in lines:
        sys.stdout.write(line.plain.rstrip() + "\n")
