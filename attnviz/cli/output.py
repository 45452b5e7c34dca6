"""Results to the terminal and to files; the one place that prints or writes them."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attnviz.cli.groups import Output, Pictures
from attnviz.errors import AttnvizError, Note, unknown
from attnviz.renderers import RENDERERS, Look, colors
from attnviz.tokens.tokens import printable
from attnviz.views.view import Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from attnviz.renderers.terminal.lines import Screen
    from attnviz.views.grids.grids import Drawable

SIZES = {"16:9": (10.0, 5.625), "4:3": (10.0, 7.5), "square": (7.5, 7.5)}
INCHES = (2.5, 40.0)
DPI = (30, 1200)
STEP = "{step}"  # in the name of a file: one for each step
AS_ON_SCREEN = (".txt", ".md")  # everything that the terminal shows, not the choice for a picture
LARGEST_SIDE = 20_000  # pixels; a picture of 20,000 × 20,000 takes 1.6 GB to draw


def check(wanted: Output, pictures: Pictures, exports: Sequence[str]) -> None:
    """Refuse what cannot be delivered before anything is computed."""
    from attnviz import files

    suffixes = [*RENDERERS, *exports]
    for path in wanted.out:
        files.refuse_folder(path)
        if not path.suffix and path.name in suffixes:
            raise AttnvizError(
                f"'{path}' has no name before its suffix", f"try -o heatmap{path.name}"
            )
        if path.suffix.lower() not in suffixes:
            raise unknown("format for", str(path.suffix or path), suffixes)
        files.check(path)
    look(pictures)


def look(pictures: Pictures, words: Look | None = None) -> Look:
    """The options of a picture, checked; its words are given."""
    if pictures.theme is not None:
        colors.theme(pictures.theme)
    if pictures.colors not in colors.PALETTES:
        raise unknown("colour map", pictures.colors, colors.PALETTES)
    size = None if pictures.size is None else inches(pictures.size)
    _check_dpi(pictures.dpi, size)
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


def _check_dpi(dpi: int | None, size: tuple[float, float] | None) -> None:
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


def print_result(result: Result, wanted: Output, pictures: Pictures) -> None:
    """The result where it was wanted: files, JSON, or tables."""
    if wanted.out:
        write(result, wanted, pictures)
    if wanted.json:
        sys.stdout.flush()
        for chunk in result.exports[".json"]():  # as bytes: JSON is UTF-8, whatever the terminal is
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    elif not wanted.out:
        print_tables(result, wanted, pictures)


def print_tables(result: Result, wanted: Output, pictures: Pictures) -> None:
    from rich.console import Console
    from rich.text import Text

    from attnviz.renderers.terminal import lines as terminal

    console = Console(highlight=False, markup=False, emoji=False)
    screen = _screen(console, wanted, pictures)
    if not wanted.quiet:
        _print(console, terminal.heading(result.title, result.settings, screen))
    for number, reading in enumerate(result.readings):
        _print(console, [Text()] if number else [])
        _print(console, terminal.reading(reading, screen))
    if not result.readings:
        _print(console, terminal.lines(result.screen(), screen))
    _print(console, terminal.closing(result.closing, screen))


def write(result: Result, wanted: Output, pictures: Pictures) -> None:
    """Every file that was asked for, all of them or none."""
    from attnviz import files

    made = list(dict.fromkeys(wanted.out))
    with warnings.catch_warnings(record=True) as noted, files.Together() as together:
        warnings.simplefilter("always", Note)
        written = [each for path in made for each in _files(result, path)]
        for path, one in written:
            together.write(path, _chunks(one, path.suffix.lower(), pictures))
    notes = dict.fromkeys(
        f"note: {warning.message}" for warning in noted if issubclass(warning.category, Note)
    )
    for line in [*notes, *(f"wrote {path}" for path, _ in written)] if not wanted.quiet else ():
        typer.echo(printable(line), err=True)


def _files(result: Result, path: Path) -> Iterator[tuple[Path, Result]]:
    """One file; or one for each step, where its name has a place for it: `steps-{step}.png`."""
    if STEP not in str(path) or not result.steps:
        yield path, result
        return
    for section in result.steps:
        number = re.sub(r"^\d\b|^\d(?=\D)", r"0\g<0>", section.number)
        named = Path(str(path).replace(STEP, f"{number}-{section.name}"))
        alone = partial(list["Drawable"], [replace(section, moments=())])
        yield named, replace(result, screen=alone, picture=alone, picture_title=section.heading)


def _chunks(result: Result, suffix: str, pictures: Pictures) -> Iterable[bytes]:
    if suffix in result.exports:
        return result.exports[suffix]()
    from attnviz import renderers
    from attnviz.views.grids import grids

    drawn = result.screen() if suffix in AS_ON_SCREEN else result.picture()
    words = Look(
        title=result.picture_title or result.title,
        caption=result.caption(drawn),
        description=grids.describe(drawn),
        provenance=json.dumps(result.provenance and asdict(result.provenance), ensure_ascii=False),
        columns=result.columns,
        closing=tuple(result.closing),
        seconds=result.seconds,
    )
    return [renderers.render(drawn, suffix, look(pictures, words))]


def _screen(console: Console, wanted: Output, pictures: Pictures) -> Screen:
    """What standard output can show: a width if it has one, colours if it has enough of them."""
    from attnviz.renderers.terminal.lines import Screen

    has_width = console.is_terminal or os.environ.get("COLUMNS", "0") != "0"
    return Screen(
        width=(console.width or 80) if has_width else None,
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
