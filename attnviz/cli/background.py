"""Whether a terminal is light or dark: what somebody said, what it answers, what it says itself."""

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
# What is your background (OSC 11)? And what are you (DA1)? Every terminal answers the second, so
# that nobody waits for an answer to the first that will not come.
BACKGROUND_QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
BACKGROUND_ANSWER = re.compile(rb"\x1b\]11;(?:rgba?:)?#?([0-9a-fA-F/]+)(?:\x07|\x1b\\)")
DEVICE_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
ANSWER_SECONDS = 0.05  # seconds, after which nothing counts
LATE_ANSWER_SECONDS = 0.5  # after which a late answer is no longer waited for, to be taken away
_UNANSWERED = ExitStack()  # terminals that still owe an answer, and are silent until they gave it
LUMINANCE_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue, as eyes weigh them


def terminal_theme() -> str:
    """ATTNVIZ_THEME, else what the terminal answers, else COLORFGBG, else light."""
    theme_name = os.environ.get(THEME_VARIABLE)
    if theme_name:
        return _check_theme(theme_name)
    for find in (_is_terminal_light, _is_colorfgbg_light):
        is_light = find()
        if is_light is not None:
            return "light" if is_light else "dark"
    return "light"  # as pictures are


def _check_theme(name: str) -> str:
    if name not in THEMES:
        error = unknown_name_error("theme", name, THEMES)
        raise AttnvizError(f"{THEME_VARIABLE}: {error}", error.hint)
    return name


def _is_colorfgbg_light() -> bool | None:
    """Some terminals say which colours they have: `COLORFGBG=0;15` is black on white."""
    background = os.environ.get("COLORFGBG", "").split(";")[-1]
    return background in ("7", "15") if background.isdigit() else None


def _is_terminal_light() -> bool | None:
    """Whether its background is light; None if it does not say, or cannot be asked."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return None
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        return None
    try:
        return is_light_background(_ask_terminal(sys.stdin.fileno(), sys.stdout.fileno()))
    except OSError:  # it has gone
        return None


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def is_light_background(answer: bytes) -> bool | None:
    """
    >>> is_light_background(b"\\x1b]11;rgb:ffff/ffff/dddd\\x1b\\\\"), is_light_background(b"\\x1b]11;rgb:1e/1e/1e\\x07")
    (True, False)
    """
    match = BACKGROUND_ANSWER.search(answer)
    channels = match[1].decode().split("/") if match else []
    if len(channels) == 1 and len(channels[0]) in (6, 12):
        digits = len(channels[0]) // 3
        channels = [channels[0][start : start + digits] for start in range(0, 3 * digits, digits)]
    if len(channels) < 3 or not all(channels[:3]):
        return None
    shares = [int(channel, 16) / int("f" * len(channel), 16) for channel in channels[:3]]
    return (
        sum(weight * share for weight, share in zip(LUMINANCE_WEIGHTS, shares, strict=True)) > 0.5
    )


def _ask_terminal(terminal_input: int, terminal_output: int) -> bytes:
    """What the terminal answers in time; nothing where somebody is typing, or who waits behind.

    A process in the background must not touch the terminal, or it is stopped.
    """
    if os.tcgetpgrp(terminal_input) != os.getpgrp():
        return b""
    with ExitStack() as cleanup:
        drop_input = cleanup.enter_context(_without_echo(terminal_input))
        if select.select([terminal_input], [], [], 0)[0]:
            return b""  # typed ahead, and not for us to take
        os.write(terminal_output, BACKGROUND_QUESTION)
        answer = _read_answer(terminal_input, ANSWER_SECONDS)
        if not DEVICE_ANSWER.search(answer):
            cleanup.callback(
                _discard_late_answer,
                terminal_input,
                time.monotonic() + LATE_ANSWER_SECONDS,
                drop_input,
            )
            _UNANSWERED.enter_context(cleanup.pop_all())
        return answer


def discard_late_answers() -> None:
    """Take away what a terminal answers too late, before anybody else reads what is typed."""
    _UNANSWERED.close()


def _discard_late_answer(terminal: int, deadline: float, drop_input: Callable[[], None]) -> None:
    with suppress(OSError):  # it has gone
        if not DEVICE_ANSWER.search(_read_answer(terminal, deadline - time.monotonic())):
            drop_input()


@contextmanager
def silent_terminal() -> Iterator[None]:
    """While the block runs a terminal shows nothing of what is typed, and keeps it."""
    if os.name != "posix" or not _is_terminal(sys.stdin):
        yield
        return
    terminal = sys.stdin.fileno()
    if os.tcgetpgrp(terminal) != os.getpgrp():  # in the background, whence nobody may touch it
        yield
        return
    with _without_echo(terminal):
        yield


@contextmanager
def _without_echo(terminal: int) -> Iterator[Callable[[], None]]:
    """A terminal that shows nothing of what comes in, and hands it on at once.

    Whatever happens it is afterwards as it was before; without the input that is left, if it is
    to be dropped.
    """
    import termios  # which there is not everywhere

    attributes_before = termios.tcgetattr(terminal)
    silent_attributes = termios.tcgetattr(terminal)
    silent_attributes[3] &= ~(termios.ECHO | termios.ICANON)
    silent_attributes[3] |= (
        termios.NOFLSH
    )  # or Ctrl-C would throw away what is on its way to the screen
    silent_attributes[6][termios.VMIN], silent_attributes[6][termios.VTIME] = 1, 0
    restore_attributes = partial(termios.tcsetattr, terminal, termios.TCSANOW, attributes_before)
    with exit_handling.undo_on_signal(restore_attributes):
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, silent_attributes)
            yield lambda: termios.tcflush(terminal, termios.TCIFLUSH)
        finally:
            restore_attributes()


def _read_answer(terminal: int, seconds: float) -> bytes:
    """What comes in so many seconds, until the last answer."""
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
