"""Writes views to the terminal, to files and as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from attnviz.cli import background
from attnviz.cli.messages import print_message, with_timer
from attnviz.errors import AttnvizError, opt, unknown_name_error
from attnviz.machine import environment, files
from attnviz.machine.atomic_files import refuse_unwritable_paths
from attnviz.options.option import shared
from attnviz.options.output import DeliveryOptions, OutputOptions, PictureOptions
from attnviz.renderers import FORMATS, PAGE_PLACEHOLDER, STEP_PLACEHOLDER, Look, refuse_uninstalled
from attnviz.renderers.look import refuse_small_slides, size_and_dpi
from attnviz.wording.commands import Command, changed_options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from attnviz.renderers.terminal.screen import ColorDepth, Screen
    from attnviz.traces.result import Showable
    from attnviz.views.view import View

COLORS_BY_SYSTEM: dict[str, ColorDepth] = {  # by rich's names of a terminal's colours
    "standard": "16",
    "windows": "16",
    "256": "256",
    "truecolor": "truecolor",
}
PIPE_COLUMNS = 80


def refuse_undeliverable(options: DeliveryOptions, suffixes: Sequence[str]) -> None:
    """Refuse outputs that cannot be written, before anything is computed; set the limit of files.

    That is: folders, formats not among `suffixes` or not installed, misused {step} and {page},
    paths that cannot be written, a look that cannot be drawn, and slides that are too small.
    """
    files.set_size_limit(options.limit)
    if not environment.is_first_process():  # it writes nothing, perhaps on another machine
        return
    for path in options.out:
        files.refuse_folder(path)
        if not path.suffix and path.name in suffixes:
            raise AttnvizError(
                f"'{path}' has no name before its suffix", f"try {opt.out:heatmap{path.name}}"
            )
        if path.suffix.lower() not in suffixes:
            raise unknown_name_error("format for", str(path.suffix or path), suffixes)
        refuse_uninstalled(path.suffix.lower())
        _refuse_misplaced_placeholders(path)
    if options.transparent and any(path.suffix.lower() == ".gif" for path in options.out):
        raise AttnvizError(
            "the frames of a film have a background: each covers those before it",
            f"leave {opt.transparent} out, or write a picture: {opt.out:x.png}",
            about="transparent",
        )
    refuse_unwritable_paths(options.out)
    look = look_from_options(options)
    if any(FORMATS[path.suffix.lower()].kind == "slides" for path in options.out):
        refuse_small_slides(look.size)


def _refuse_misplaced_placeholders(path: Path) -> None:
    """Refuse {step} and {page} in the name of a slide deck, which holds all slides in one file, and
    {page} in that of a file that is no picture.
    """
    kind = FORMATS[path.suffix.lower()].kind
    placeholders = [p for p in (STEP_PLACEHOLDER, PAGE_PLACEHOLDER) if p in path.name]
    if placeholders and kind == "slides":
        raise AttnvizError(
            f"'{path}' is one file with all slides: {placeholders[0]} has no meaning in its name",
            f"try {opt.out:slides{path.suffix}}",
        )
    if PAGE_PLACEHOLDER in path.name and kind != "picture":
        raise AttnvizError(
            f"{PAGE_PLACEHOLDER} stands for the pages of a picture, and '{path}' is not a picture",
            f"try {opt.out:{path.with_suffix('.png')}}",
        )


def deliver_view(view: View, options: DeliveryOptions, seconds: float = Look.seconds) -> None:
    """Write a view to the files of --out, print it as JSON with --json, else print its tables.

    --title replaces the title and the headline. `seconds`: how long an animation shows each step.
    """
    view = view.with_title(options.title)
    if options.out:
        write_view_files(view, options, look_from_options(options, seconds))
    if options.json:
        print_json(view)
    elif not options.out:
        print_tables(view, options)


def deliver_result(result: Showable, command: Command, options: DeliveryOptions) -> None:
    """Deliver the view of a result that `command` makes again."""
    line = command.with_options(**changed_options(options, DeliveryOptions)).line
    deliver_view(result.view_for_command(command=command, line=line), options)


def write_view_files(
    view: View,
    outputs: OutputOptions,
    look: Look,
    remarks: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the files of --out, and print their paths and notes on standard error; after a path
    stands in brackets what `remarks` has for its suffix.
    """
    from attnviz.renderers import saving

    with with_timer("writing", quiet=outputs.quiet):
        paths, notes = saving.write_files(view, outputs.out, look)
    if not outputs.quiet:
        for note in notes:
            print_message(f"note: {note}")
        for path in paths:
            remark = remarks.get(path.suffix.lower())
            print_message(f"wrote {path} ({remark})" if remark else f"wrote {path}")


def print_json(view: View) -> None:
    """Print a view as JSON: bytes in UTF-8, whatever the terminal's encoding is."""
    from attnviz.renderers import render_chunks

    sys.stdout.flush()
    for chunk in render_chunks(view, ".json"):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def print_tables(view: View, options: DeliveryOptions) -> None:
    """Print a view as tables; in a pager if it is longer than the terminal, unless --no-pager."""
    from rich.console import Console

    from attnviz.renderers.terminal.lines import heading_lines, view_lines

    console = Console(highlight=False, markup=False, emoji=False)
    try:
        screen = screen_from_options(console, options)
        lines = view_lines(view, screen, quiet=options.quiet)
        # The heading may scroll off the top of the screen; that alone is no reason for a pager.
        heading_count = 0 if options.quiet else len(list(heading_lines(view, screen)))
        if len(lines) - heading_count > screen.rows and not options.no_pager:
            pager_lines = view_lines(view, screen, quiet=options.quiet, conclusion_first=True)
            if _print_paged(console, pager_lines):
                return
        print_lines(console, lines)
    finally:
        background.discard_late_answers()


def _print_paged(console: Console, lines: Iterable[Text]) -> bool:
    """Show lines in a pager, with their colours; return whether that worked."""
    from attnviz.cli.messages import show_in_pager

    background.discard_late_answers()  # the pager would take a late answer for keys
    with console.capture() as text:
        print_lines(console, lines)
    return show_in_pager(text.get())


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines: with colours on a terminal, as plain text without trailing spaces elsewhere."""
    if console.is_terminal:
        for line in lines:
            console.print(line, crop=False, no_wrap=True, overflow="ignore", end="\n")
        return
    for line in lines:
        sys.stdout.write(line.plain.rstrip() + "\n")


def look_from_options(pictures: PictureOptions, seconds: float = Look.seconds) -> Look:
    """Return the Look of the pictures; refuse sizes and colours that cannot be drawn.

    `seconds`: how long an animation shows each step.
    """
    size, dpi = size_and_dpi(pictures.size, pictures.dpi)
    given = {name: value for name, value in vars(pictures).items() if value is not None}
    looks = {name: given[name] for name in Look.__dataclass_fields__ if name in given}
    return Look(**looks | {"size": size, "dpi": dpi, "seconds": seconds})


def screen_from_options(console: Console, options: DeliveryOptions) -> Screen:
    """Return the Screen for standard output: its columns, lines, colours and theme.

    The theme is --theme, else that of the terminal, which is asked; dark if there are no colours.
    """
    from attnviz.renderers.terminal.screen import Screen

    system = "" if console.no_color else console.color_system or ""
    colors = COLORS_BY_SYSTEM.get(system, "none")
    return shared(
        options,
        Screen,
        width=_screen_columns(console, full=options.full),
        height=console.height if sys.stdout.isatty() else None,
        colors=colors,
        theme=options.theme or ("dark" if colors == "none" else background.terminal_theme()),
        palette=options.colors,
    )


def _screen_columns(console: Console, *, full: bool) -> int | None:
    """Return the width for lines of text: that of the terminal, or COLUMNS; 80 for a pipe.

    None, which cuts nothing, for a pipe with --full.
    """
    columns_variable = os.environ.get("COLUMNS", "")
    if console.is_terminal or (columns_variable.isdigit() and int(columns_variable)):
        return console.width or PIPE_COLUMNS
    return None if full else PIPE_COLUMNS
