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

from attnviz.errors import AttnvizError, unknown
from attnviz.machine import leaving
from attnviz.renderers.colors import THEMES

VARIABLE = "ATTNVIZ_THEME"
# What is your background (OSC 11)? And what are you (DA1)? Every terminal answers the second, so
# that nobody waits for an answer to the first that will not come.
QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
ANSWER = re.compile(rb"\x1b\]11;(?:rgba?:)?#?([0-9a-fA-F/]+)(?:\x07|\x1b\\)")
LAST_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
PATIENCE = 0.05  # seconds, after which nothing counts
LINGERING = 0.5  # after which a late answer is no longer waited for, to be taken away
_UNANSWERED = ExitStack()  # terminals that still owe an answer, and are silent until they gave it
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue, as eyes weigh them


def theme_of_terminal() -> str:
    """ATTNVIZ_THEME, else what the terminal answers, else COLORFGBG, else light."""
    said = os.environ.get(VARIABLE)
    if said:
        return _known(said)
    for find in (_answered, _in_colorfgbg):
        light = find()
        if light is not None:
            return "light" if light else "dark"
    return "light"  # as pictures are


def _known(name: str) -> str:
    if name not in THEMES:
        error = unknown("theme", name, THEMES)
        raise AttnvizError(f"{VARIABLE}: {error}", error.hint)
    return name


def _in_colorfgbg() -> bool | None:
    """Some terminals say which colours they have: `COLORFGBG=0;15` is black on white."""
    background = os.environ.get("COLORFGBG", "").split(";")[-1]
    return background in ("7", "15") if background.isdigit() else None


def _answered() -> bool | None:
    """Whether its background is light; None if it does not say, or cannot be asked."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return None
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        return None
    try:
        return light(_asked(sys.stdin.fileno(), sys.stdout.fileno()))
    except OSError:  # it has gone
        return None


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def light(answer: bytes) -> bool | None:
    """
    >>> light(b"\\x1b]11;rgb:ffff/ffff/dddd\\x1b\\\\"), light(b"\\x1b]11;rgb:1e/1e/1e\\x07")
    (True, False)
    """
    found = ANSWER.search(answer)
    channels = found[1].decode().split("/") if found else []
    if len(channels) == 1 and len(channels[0]) in (6, 12):
        part = len(channels[0]) // 3
        channels = [channels[0][start : start + part] for start in range(0, 3 * part, part)]
    if len(channels) < 3 or not all(channels[:3]):
        return None
    shares = [int(channel, 16) / int("f" * len(channel), 16) for channel in channels[:3]]
    return sum(weight * each for weight, each in zip(LUMINANCE, shares, strict=True)) > 0.5


def _asked(ours: int, theirs: int) -> bytes:
    """What the terminal answers in time; nothing where somebody is typing, or who waits behind.

    A process in the background must not touch the terminal, or it is stopped.
    """
    if os.tcgetpgrp(ours) != os.getpgrp():
        return b""
    with ExitStack() as until:
        drop = until.enter_context(_unheard(ours))
        if select.select([ours], [], [], 0)[0]:
            return b""  # typed ahead, and not for us to take
        os.write(theirs, QUESTION)
        answer = _read(ours, PATIENCE)
        if not LAST_ANSWER.search(answer):
            until.callback(_take_away, ours, time.monotonic() + LINGERING, drop)
            _UNANSWERED.enter_context(until.pop_all())
        return answer


def settle() -> None:
    """Take away what a terminal answers too late, before anybody else reads what is typed."""
    _UNANSWERED.close()


def _take_away(terminal: int, until: float, drop: Callable[[], None]) -> None:
    with suppress(OSError):  # it has gone
        if not LAST_ANSWER.search(_read(terminal, until - time.monotonic())):
            drop()


@contextmanager
def silent() -> Iterator[None]:
    """While the block runs a terminal shows nothing of what is typed, and keeps it."""
    if os.name != "posix" or not _is_terminal(sys.stdin):
        yield
        return
    ours = sys.stdin.fileno()
    if os.tcgetpgrp(ours) != os.getpgrp():  # in the background, whence nobody may touch it
        yield
        return
    with _unheard(ours):
        yield


@contextmanager
def _unheard(terminal: int) -> Iterator[Callable[[], None]]:
    """A terminal that shows nothing of what comes in, and hands it on at once.

    Whatever happens it is afterwards as it was before; without the input that is left, if it is
    to be dropped.
    """
    import termios  # which there is not everywhere

    before = termios.tcgetattr(terminal)
    silent = termios.tcgetattr(terminal)
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    silent[3] |= termios.NOFLSH  # or Ctrl-C would throw away what is on its way to the screen
    silent[6][termios.VMIN], silent[6][termios.VTIME] = 1, 0
    as_before = partial(termios.tcsetattr, terminal, termios.TCSANOW, before)
    with leaving.undoing(as_before):
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, silent)
            yield lambda: termios.tcflush(terminal, termios.TCIFLUSH)
        finally:
            as_before()


def _read(terminal: int, seconds: float) -> bytes:
    """What comes in so many seconds, until the last answer."""
    until, answer = time.monotonic() + seconds, b""
    while not LAST_ANSWER.search(answer):
        left = until - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            break
        new = os.read(terminal, 1024)
        if not new:
            break
        answer += new
    return answer
