"""Lines for people: notes, a progress bar, and long texts in a pager."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from shutil import get_terminal_size
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

import typer

from attnviz.machine import leaving
from attnviz.wording.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress


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


LESS = "less -FRX"
NO_PAGERS = ("", "cat")
KILLED = 128  # and above: what a shell answers of a command that a signal has ended


@contextmanager
def paged() -> Iterator[None]:
    """What is printed meanwhile, in a pager if somebody looks at a screen that is too small."""
    if not sys.stdout.isatty():
        yield
        return
    text = io.StringIO()
    try:
        with redirect_stdout(text):
            yield
    finally:
        told = text.getvalue()
        if told.count("\n") < shutil.get_terminal_size().lines or not page(told):
            sys.stdout.write(told)


def page(text: str) -> bool:
    """Show a text in PAGER, else in less; False if there is none, or it failed."""
    command = os.environ.get("PAGER", LESS).strip()
    if command in NO_PAGERS or (command == LESS and shutil.which("less") is None):
        return False
    # Ctrl-C is for the pager, which is still there: whoever left would take its terminal along.
    # What is ignored the pager would ignore, too; a function of ours it does not inherit.
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        running = subprocess.Popen(
            command,
            shell=True,  # PAGER is a line for a shell, as everywhere
            stdin=subprocess.PIPE,
            env=_environment(),
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
        )
        running.communicate(text)  # a reader who quits early has had enough
    finally:
        signal.signal(signal.SIGINT, before)
    return bool(interrupts) or not 0 < running.returncode < KILLED


def _environment() -> dict[str, str]:
    """For a pager that is named without options: leave what fits, show colours, clear nothing."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    characters = {"LESSCHARSET": "utf-8"} if utf8 else {}
    return {"LESS": "FRX", "LV": "-c", **characters, **os.environ}


Step = TypeVar("Step")
PATIENCE = 1.0  # seconds, after which somebody wants to know what takes so long


def with_bar(steps: Sequence[Step], *, told: str, quiet: bool) -> Iterable[Step]:
    """The steps, with a bar that goes when they are done."""
    if quiet or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, told, console=Console(stderr=True), transient=True)


@contextmanager
def while_working(told: str, *, quiet: bool) -> Iterator[None]:
    """What is done in the block, and for how long, if it takes a while; it goes in the end."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    lines: list[Progress] = []

    def show() -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        console = Console(stderr=True)
        lines.append(Progress(*columns, console=console, transient=True, redirect_stdout=False))
        lines[0].add_task(told, total=None)
        lines[0].start()

    def hide() -> None:
        for line in lines:
            line.stop()  # and shows the cursor again

    patience = Timer(PATIENCE, show)
    patience.start()
    try:
        with leaving.undoing(hide):
            yield
    finally:
        patience.cancel()
        patience.join()
        hide()
