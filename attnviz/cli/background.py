"""Whether a terminal is light or dark: from its variables, or by asking it."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TextIO

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.machine import exit_handling
from attnviz.renderers.colors import THEMES

THEME_VARIABLE = "ATTNVIZ_THEME"
# What is your background (OSC 11)? And what are you (DA1)? Every terminal answers the second, which
# tells that no answer to the first will come.
BACKGROUND_QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
BACKGROUND_ANSWER = re.compile(rb"\x1b\]11;(?:rgba?:)?#?([0-9a-fA-F/]+)(?:\x07|\x1b\\)")
DEVICE_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
BLACK_CONSOLE = "linux"  # answers no question, and is black
ANSWER_SECONDS = 0.05  # a later answer is ignored,
LATE_ANSWER_SECONDS = 0.5  # and discarded if it comes in this time
_SILENT_TERMINALS = ExitStack()  # of terminals that still owe an answer, and do not echo until then
LUMINANCE_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue


def terminal_theme() -> str:
    """Return the name of the theme for the terminal: 'light' or 'dark'.

    It is the variable ATTNVIZ_THEME (an unknown name in it is refused), else what the terminal
    answers when it is asked for its background, else that of COLORFGBG, else 'dark' on the
    console of Linux and 'light' elsewhere.
    """
    theme_name = os.environ.get(THEME_VARIABLE)
    if theme_name:
        return _check_theme(theme_name)
    for find in (_is_terminal_light, _is_colorfgbg_light):
        is_light = find()
        if is_light is not None:
            return "light" if is_light else "dark"
    is_console = os.environ.get("TERM") == BLACK_CONSOLE
    return "dark" if is_console else "light"  # as pictures are


def _check_theme(name: str) -> str:
    """Return a name of a theme from ATTNVIZ_THEME; refuse an unknown one."""
    if name not in THEMES:
        error = unknown_name_error("theme", name, THEMES)
        raise AttnvizError(f"{THEME_VARIABLE}: {error}", error.hint)
    return name


def _is_colorfgbg_light() -> bool | None:
    """Return whether COLORFGBG has a light background, as `0;15` does; None if it has none."""
    background = os.environ.get("COLORFGBG", "").split(";")[-1]
    return background in ("7", "15") if background.isdigit() else None


def _is_terminal_light() -> bool | None:
    """Return whether the background is light, by asking the terminal; None without an answer."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return None
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        return None
    try:
        return is_light_background(_ask_terminal(sys.stdin.fileno(), sys.stdout.fileno()))
    except OSError:  # the terminal has gone
        return None


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def is_light_background(answer: bytes) -> bool | None:
    """Return whether a terminal's answer holds a light colour; None if it holds no colour.

    >>> answers = b"\\x1b]11;rgb:ffff/ffff/dddd\\x1b\\\\", b"\\x1b]11;rgb:1e/1e/1e\\x07"
    >>> [is_light_background(answer) for answer in answers]
    [True, False]
    """
    match = BACKGROUND_ANSWER.search(answer)
    channels = match[1].decode().split("/") if match else []
    if len(channels) == 1 and len(channels[0]) in (6, 12):
        digits = len(channels[0]) // 3
        channels = [channels[0][start : start + digits] for start in range(0, 3 * digits, digits)]
    if len(channels) < 3 or not all(channels[:3]):
        return None
    shares = [int(channel, 16) / int("f" * len(channel), 16) for channel in channels[:3]]
    return sum(w * share for w, share in zip(LUMINANCE_WEIGHTS, shares, strict=True)) > 0.5


def _ask_terminal(terminal_input: int, terminal_output: int) -> bytes:
    """Ask the terminal for its background; return what it answers within a twentieth of a second.

    Nothing is asked, and b'' returned, in a background process, which touching the terminal would
    stop, or if there is typed input. An incomplete answer is discarded later.
    """
    if os.tcgetpgrp(terminal_input) != os.getpgrp():
        return b""
    with ExitStack() as cleanup:
        drop_input = cleanup.enter_context(_without_echo(terminal_input))
        if select.select([terminal_input], [], [], 0)[0]:
            return b""  # typed ahead, for whoever reads next
        os.write(terminal_output, BACKGROUND_QUESTION)
        answer = _read_answer(terminal_input, ANSWER_SECONDS)
        if not DEVICE_ANSWER.search(answer):
            deadline = time.monotonic() + LATE_ANSWER_SECONDS
            cleanup.callback(_discard_late_answer, terminal_input, deadline, drop_input)
            _SILENT_TERMINALS.enter_context(cleanup.pop_all())
        return answer


def discard_late_answers() -> None:
    """Discard answers that terminals still owe, and restore the echo, before others read input."""
    _SILENT_TERMINALS.close()


def _discard_late_answer(terminal: int, deadline: float, drop_input: Callable[[], None]) -> None:
    """Read until the terminal's last answer or `deadline`; without it, call `drop_input`.

    That drops all typed input. A terminal that has gone is no error.
    """
    with suppress(OSError):  # the terminal has gone
        if not DEVICE_ANSWER.search(_read_answer(terminal, deadline - time.monotonic())):
            drop_input()


@contextmanager
def silent_terminal() -> Iterator[None]:
    """Keep a terminal from echoing what is typed while the block runs; the input is kept."""
    with ExitStack() as cleanup:
        if os.name == "posix" and _is_terminal(sys.stdin):
            terminal = sys.stdin.fileno()
            if os.tcgetpgrp(terminal) == os.getpgrp():  # a process in the background may not
                cleanup.enter_context(_without_echo(terminal))
        yield


@contextmanager
def _without_echo(terminal: int) -> Iterator[Callable[[], None]]:
    """Let a terminal deliver keys at once and without echo; yield a function that drops its input.

    The terminal's attributes are restored, whatever happens.
    """
    import termios  # which Windows lacks

    attributes_before = termios.tcgetattr(terminal)
    silent_attributes = termios.tcgetattr(terminal)
    silent_attributes[3] &= ~(termios.ECHO | termios.ICANON)
    silent_attributes[3] |= termios.NOFLSH  # or Ctrl-C would discard output not yet on the screen
    silent_attributes[6][termios.VMIN], silent_attributes[6][termios.VTIME] = 1, 0
    restore_attributes = partial(termios.tcsetattr, terminal, termios.TCSANOW, attributes_before)
    with exit_handling.undo_on_signal(restore_attributes):
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, silent_attributes)
            yield lambda: termios.tcflush(terminal, termios.TCIFLUSH)
        finally:
            restore_attributes()


def _read_answer(terminal: int, seconds: float) -> bytes:
    """Return what the terminal sends, up to its last answer, for at most so many seconds."""
    deadline, answer = time.monotonic() + seconds, b""
    while not DEVICE_ANSWER.search(answer):
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0 or not select.select([terminal], [], [], seconds_left)[0]:
            break
        received = os.read(terminal, 1024)
        if not received:
            break
        answer += received
    return answer
