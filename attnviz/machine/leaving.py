"""What is put right when a signal ends a run, at whatever moment: nothing half-done stays behind.

A signal that became an exception would be lost where nobody may raise one, in what C++ calls and
in what tidies up, or would end there in an abort. So the process leaves from the signal itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, kill, and a terminal that is closed


@dataclass
class _Leaving:
    """What there is to undo, the newest last; and whether somebody must not be disturbed."""

    undo: list[Callable[[], object]] = field(default_factory=list)
    undisturbed: int = 0
    waiting: int | None = None  # the signal that came meanwhile


_LEAVING = _Leaving()


def on_signals() -> None:
    """Leave at once at any of them, unless whoever started the process wants them ignored."""
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def in_the_end(undo: Callable[[], object]) -> None:
    """Call this before the process leaves, however it does."""
    _LEAVING.undo.append(undo)


def tidy() -> None:
    """All that is to be undone, the newest first."""
    while _LEAVING.undo:
        with suppress(Exception):  # nobody is there any more to be told
            _LEAVING.undo.pop()()


@contextmanager
def undoing(undo: Callable[[], object]) -> Iterator[None]:
    """While the block runs a signal calls this before the process leaves."""
    _LEAVING.undo.append(undo)
    try:
        yield
    finally:
        _LEAVING.undo.remove(undo)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A signal waits until the block has ended, which must not take long."""
    _LEAVING.undisturbed += 1
    try:
        yield
    finally:
        _LEAVING.undisturbed -= 1
        if _LEAVING.waiting is not None and not _LEAVING.undisturbed:
            _leave(_LEAVING.waiting, None)


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks whoever works in the block to come to an end; a second one ends the run.

    Whether it was asked says what this yields.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # whoever started the process wants it so
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def later() -> Iterator[None]:
    """Ctrl-C comes when the block has ended: what Python writes meanwhile would lose a part.

    A signal that is only heard later would break it off all the same, and what was left of it in
    a buffer would be gone.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave(number: int, frame: FrameType | None) -> None:
    if _LEAVING.undisturbed:
        _LEAVING.waiting = number
        return
    tidy()
    os._exit(128 + number)
