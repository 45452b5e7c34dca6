"""Lines of words for people: what was found, and on standard error what there is to note."""

from __future__ import annotations

import sys
import textwrap
from contextlib import suppress
from shutil import get_terminal_size

import typer

from attnviz.wording.printable import printable

SHORTEST_LINE = 20  # columns, in which words are still worth keeping whole

ENDLESS, INDENT = 10**6, "    "


def tell(line: str, *, start: str = "", color: str | None = None) -> None:
    """A line; behind a word, if it starts with one, in lines that stand below each other.

    A full disk behind standard error changes nothing of what was done.
    """
    text = printable(line)
    with suppress(OSError, ValueError):
        if start:
            typer.secho(start, err=True, nl=False, fg=color, color=color is not None)
            text = _broken(text, len(start))
        typer.echo(text, err=True)


def say(line: str, *, err: bool = False) -> None:
    """A line of a result, in several where a screen, or COLUMNS, is narrower; a pipe is not."""
    text, room = printable(line), get_terminal_size((ENDLESS, 1)).columns
    lines = textwrap.wrap(
        text, room, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
    )
    typer.echo("\n".join(lines if len(text) > room >= SHORTEST_LINE else [text]), err=err)


def _broken(text: str, start: int) -> str:
    """Where somebody looks at it, in lines that end between words, below each other."""
    room = get_terminal_size().columns - start
    if not sys.stderr.isatty() or room < SHORTEST_LINE or len(text) <= room:
        return text
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * start).join(lines)
