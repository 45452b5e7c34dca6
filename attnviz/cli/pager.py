"""What is longer than the screen, in a pager, as git shows it."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

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
