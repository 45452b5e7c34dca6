"""Notes, a progress bar, and long texts in a pager."""

from __future__ import annotations

import datetime
import io
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from shutil import get_terminal_size
from threading import Timer
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import typer

from attnviz.machine import exit_handling
from attnviz.wording.printable import printable_text

if TYPE_CHECKING:
    from rich.progress import Progress


MIN_WRAP_COLUMNS = 20  # narrower terminals break words
UNLIMITED_COLUMNS, CONTINUATION_INDENT = 10**6, "    "
DEFAULT_PAGER = "less -FRX"
NO_PAGERS = ("", "cat")
KILLED_STATUS = 128  # and above: a shell's exit status for a command that a signal ended
SECONDS_BEFORE_TIMER = 1.0
BAR_WIDTH = 10  # columns of a terminal, which has to hold the numbers beside it
StepItem = TypeVar("StepItem")


def print_message(line: str, *, prefix: str = "", color: str | None = None) -> None:
    """Print a line on standard error; behind a `prefix` it is wrapped to the terminal.

    `color` is that of the prefix. An error of writing, such as a full disk, is ignored: it must not
    change the result.
    """
    text = printable_text(line)
    with suppress(OSError, ValueError):
        if prefix:
            typer.secho(prefix, err=True, nl=False, fg=color, color=color is not None)
            text = _wrap_message(text, len(prefix))
        typer.echo(text, err=True)


def print_result_line(line: str, *, err: bool = False) -> None:
    """Print a line, wrapped to the terminal or to COLUMNS; a pipe gets one line.

    It goes to standard output, with `err` to standard error.
    """
    text, columns = printable_text(line), get_terminal_size((UNLIMITED_COLUMNS, 1)).columns
    lines = textwrap.wrap(
        text,
        columns,
        subsequent_indent=CONTINUATION_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    typer.echo("\n".join(lines if len(text) > columns >= MIN_WRAP_COLUMNS else [text]), err=err)


def _wrap_message(text: str, indent: int) -> str:
    """Return a message, wrapped between words if standard error is a terminal too narrow for it.

    Further lines are indented by `indent` columns, the width of the prefix.
    """
    columns = get_terminal_size().columns - indent
    if not sys.stderr.isatty() or columns < MIN_WRAP_COLUMNS or len(text) <= columns:
        return text
    lines = textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines)


@contextmanager
def paged_output() -> Iterator[None]:
    """Show in a pager what the block prints, if it is longer than the terminal.

    Elsewhere than on a terminal, or without a pager, it is printed as usual.
    """
    if not sys.stdout.isatty():
        yield
        return
    text = io.StringIO()
    try:
        with redirect_stdout(text):
            yield
    finally:
        output_text = text.getvalue()
        if output_text.count("\n") < shutil.get_terminal_size().lines or not show_in_pager(
            output_text
        ):
            sys.stdout.write(output_text)


def show_in_pager(text: str) -> bool:
    """Show a text in the command PAGER, else in less; return whether that worked.

    False: there is no pager, PAGER is empty or cat, or it failed; the caller prints the text.
    """
    command = os.environ.get("PAGER", DEFAULT_PAGER).strip()
    if command in NO_PAGERS or (command == DEFAULT_PAGER and shutil.which("less") is None):
        return False
    # Ctrl-C is for the pager: if this process ended, it would take the pager's terminal along.
    # A child inherits SIG_IGN and would ignore Ctrl-C, too; it does not inherit a function.
    interrupts: list[int] = []
    with exit_handling.call_on_interrupt(lambda number, frame: interrupts.append(number)):
        process = subprocess.Popen(
            command,
            shell=True,  # PAGER is a command line, as for other programs
            stdin=subprocess.PIPE,
            env=_pager_environment(),
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
        )
        process.communicate(text)  # which ignores a broken pipe: the reader quit early
    return bool(interrupts) or not 0 < process.returncode < KILLED_STATUS


def _pager_environment() -> dict[str, str]:
    """Return this process's variables, with defaults that make less and lv quit early and colour.

    The process's own values of these variables stay.
    """
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    characters = {"LESSCHARSET": "utf-8"} if utf8 else {}
    return {"LESS": "FRX", "LV": "-c", **characters, **os.environ}


def with_progress_bar(
    steps: Iterable[StepItem], *, label: str, quiet: bool, total: int | None = None
) -> Iterable[StepItem]:
    """Return the steps; on a terminal they draw a progress bar, which vanishes at the end.

    `total`: how many there are, if they have no length.
    """
    if isinstance(steps, Sized):
        total = len(steps)
    if quiet or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(steps, label, total=total, console=console, transient=True)


@contextmanager
def printing_new_text(*, quiet: bool) -> Iterator[None]:
    """Print on a terminal what a model generates inside the block, word by word as it comes."""
    terminal = sys.stderr  # transformers is silenced while it generates, and sys.stderr replaced
    if quiet or not terminal.isatty():
        yield
        return
    from attnviz.traces.trained.forward_pass import streaming_new_text

    words: list[str] = []

    def show(text: str) -> None:
        """Print the next words, after a heading before the first."""
        if not words:
            terminal.write("the model writes:" + " " * (not text.startswith(" ")))
        words.append(text)
        terminal.write("\n".join(map(printable_text, text.split("\n"))))
        terminal.flush()

    try:
        with streaming_new_text(show):
            yield
    finally:
        if words:
            terminal.write("\n\n")


@contextmanager
def showing_row_progress(*, quiet: bool) -> Iterator[None]:
    """Show on a terminal how many rows of a long text's weights are measured, and the time left."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from attnviz.traces.long_weights import reporting_progress

    reports: list[RowReport] = []  # the first and the last one of the layer that is measured
    bars: list[Progress] = []  # a short text has none

    with ExitStack() as stack:

        def show(total: int, done: int) -> None:
            """Show a line from the second report of a layer on, when its speed is known."""
            if not reports or done < reports[-1].done:
                reports[:] = [RowReport(done, time.monotonic())] * 2
                return
            if not bars:
                bars.append(stack.enter_context(text_progress_bar()))
                bars[0].add_task("")
            reports[1] = RowReport(done, time.monotonic())
            speed = (done - reports[0].done) / max(reports[1].time - reports[0].time, 1e-3)
            left = datetime.timedelta(seconds=round((total - done) / max(speed, 1e-3)))
            about = f"{done:,} of {total:,} rows of weights · {speed:,.0f}/s · {left} left"
            [bar], [task] = bars, bars[0].task_ids
            bar.update(task, total=total, completed=done, description=about)

        with reporting_progress(show):
            yield


class RowReport(NamedTuple):
    """How many rows were done at a time."""

    done: int
    time: float


@contextmanager
def text_progress_bar() -> Iterator[Progress]:
    """Yield a narrow bar with a line of text beside it, on standard error; it vanishes in the end,
    and when a signal ends the program.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(BAR_WIDTH), TextColumn("{task.description}")
    console = Console(file=sys.stderr)  # which is replaced while transformers is silenced
    bar = Progress(*columns, console=console, transient=True)
    with bar, exit_handling.undo_on_signal(bar.stop):
        yield bar


@contextmanager
def with_timer(label: str, *, quiet: bool) -> Iterator[None]:
    """Show a label and the elapsed time on a terminal while the block runs, if that takes 1 s."""
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
        lines[0].add_task(label, total=None)
        lines[0].start()

    def hide() -> None:
        for line in lines:
            line.stop()  # and shows the cursor again

    patience = Timer(SECONDS_BEFORE_TIMER, show)
    patience.start()
    try:
        with exit_handling.undo_on_signal(hide):
            yield
    finally:
        patience.cancel()
        patience.join()
        hide()
