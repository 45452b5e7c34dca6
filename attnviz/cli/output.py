"""Views to the terminal and to files: what was wanted, and what to say about it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.cli import background
from attnviz.cli.messages import tell, while_working
from attnviz.cli.output_options import OutputOptions, PictureOptions, look_of, screen_of
from attnviz.errors import AttnvizError, unknown
from attnviz.machine import files
from attnviz.machine.writing import refuse_paths
from attnviz.renderers import FORMATS, PAGE, STEP, Look, refuse_uninstalled
from attnviz.renderers.look import refuse_small_slides

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from attnviz.views.view import View


def refuse_undeliverable(
    wanted: OutputOptions, pictures: PictureOptions, suffixes: Sequence[str]
) -> None:
    """Refuse what cannot be delivered before anything is computed."""
    files.allow(wanted.limit)
    for path in wanted.out:
        files.refuse_folder(path)
        if not path.suffix and path.name in suffixes:
            raise AttnvizError(
                f"'{path}' has no name before its suffix", f"try -o heatmap{path.name}"
            )
        if path.suffix.lower() not in suffixes:
            raise unknown("format for", str(path.suffix or path), suffixes)
        refuse_uninstalled(path.suffix.lower())
        _refuse_several_decks(path)
        _refuse_pages_of_text(path)
    refuse_paths(wanted.out)
    look = look_of(pictures)
    if any(FORMATS[path.suffix.lower()].kind == "slides" for path in wanted.out):
        refuse_small_slides(look.size)


def _refuse_pages_of_text(path: Path) -> None:
    if PAGE in path.name and FORMATS[path.suffix.lower()].kind != "picture":
        raise AttnvizError(
            f"{PAGE} stands for the pages of a picture, and '{path}' is not a picture",
            f"try -o {path.with_suffix('.png')}",
        )


def _refuse_several_decks(path: Path) -> None:
    """A slide for each is what one file has already."""
    odd = [each for each in (STEP, PAGE) if each in path.name]
    if odd and FORMATS[path.suffix.lower()].kind == "slides":
        raise AttnvizError(
            f"'{path}' is one file with all slides: {odd[0]} has no meaning in its name",
            f"try -o slides{path.suffix}",
        )


def deliver(
    view: View, wanted: OutputOptions, pictures: PictureOptions, seconds: float = Look.seconds
) -> None:
    """A view where it was wanted: files, JSON, or tables."""
    if pictures.title is not None:
        view = replace(view, title=pictures.title, headline=pictures.title, titled=True)
    if wanted.out:
        write(view, wanted, look_of(pictures, seconds))
    if wanted.json:
        print_json(view)
    elif not wanted.out:
        print_tables(view, wanted, pictures)


def write(view: View, wanted: OutputOptions, look: Look) -> None:
    """Files, and on standard error their names."""
    from attnviz.renderers import saving

    with while_working("writing", quiet=wanted.quiet):
        written, notes = saving.write(view, wanted.out, look)
    told = [*(f"note: {note}" for note in notes), *(f"wrote {path}" for path in written)]
    for line in [] if wanted.quiet else told:
        tell(line)


def print_json(view: View) -> None:
    """As bytes: JSON is UTF-8, whatever the terminal is."""
    from attnviz.renderers import chunks

    sys.stdout.flush()
    for chunk in chunks(view, ".json"):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def print_tables(view: View, wanted: OutputOptions, pictures: PictureOptions) -> None:
    from rich.console import Console

    from attnviz.renderers.terminal.lines import heading, printed

    console = Console(highlight=False, markup=False, emoji=False)
    try:
        screen = screen_of(console, wanted, pictures)
        lines = printed(view, screen, quiet=wanted.quiet)
        # The heading may leave the screen at its top, and nobody need turn a page for it.
        above = 0 if wanted.quiet else len(list(heading(view, screen)))
        if len(lines) - above > screen.rows and not wanted.no_pager:
            first = printed(view, screen, quiet=wanted.quiet, conclusion_first=True)
            if _paged(console, first):
                return
        _print(console, lines)
    finally:
        background.settle()


def _paged(console: Console, lines: Iterable[Text]) -> bool:
    from attnviz.cli.messages import page

    background.settle()  # or a late answer would be taken for keys
    with console.capture() as text:
        _print(console, lines)
    return page(text.get())


def _print(console: Console, lines: Iterable[Text]) -> None:
    if console.is_terminal:
        for line in lines:
            console.print(line, crop=False, no_wrap=True, overflow="ignore", end="\n")
        return
    for line in lines:
        sys.stdout.write(line.plain.rstrip() + "\n")
