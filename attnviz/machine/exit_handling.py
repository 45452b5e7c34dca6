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

ENDING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, kill, and a terminal that is closed


@dataclass
class _ExitState:
    """What there is to undo, the newest last; and whether somebody must not be disturbed."""

    undo_actions: list[Callable[[], object]] = field(default_factory=list)
    delay_depth: int = 0
    waiting_signal: int | None = None  # the signal that came meanwhile


_EXIT_STATE = _ExitState()


def exit_on_signals() -> None:
    """Leave at once at any of them, unless whoever started the process wants them ignored."""
    for name in ENDING_SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit_process)


def register_undo(undo: Callable[[], object]) -> None:
    """Call this before the process leaves, however it does."""
    _EXIT_STATE.undo_actions.append(undo)


def undo_everything() -> None:
    """All that is to be undone, the newest first."""
    while _EXIT_STATE.undo_actions:
        with suppress(Exception):  # nobody is there any more to be told
            _EXIT_STATE.undo_actions.pop()()


@contextmanager
def undo_on_signal(undo: Callable[[], object]) -> Iterator[None]:
    """While the block runs a signal calls this before the process leaves."""
    _EXIT_STATE.undo_actions.append(undo)
    try:
        yield
    finally:
        _EXIT_STATE.undo_actions.remove(undo)


@contextmanager
def delay_signals() -> Iterator[None]:
    """A signal waits until the block has ended, which must not take long."""
    _EXIT_STATE.delay_depth += 1
    try:
        yield
    finally:
        _EXIT_STATE.delay_depth -= 1
        if _EXIT_STATE.waiting_signal is not None and not _EXIT_STATE.delay_depth:
            _exit_process(_EXIT_STATE.waiting_signal, None)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks whoever works in the block to come to an end; a second one ends the run.

    Whether it was asked says what this yields.
    """
    signals_received: list[int] = []
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is signal.SIG_IGN:  # whoever started the process wants it so
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        signals_received.append(number)
        signal.signal(signal.SIGINT, previous_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(signals_received)
    finally:
        signal.signal(signal.SIGINT, previous_handler)


@contextmanager
def delay_interrupt() -> Iterator[None]:
    """Ctrl-C comes when the block has ended: what Python writes meanwhile would lose a part.

    A signal that is only heard later would break it off all the same, and what was left of it in
    a buffer would be gone.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _exit_process(number: int, frame: FrameType | None) -> None:
    if _EXIT_STATE.delay_depth:
        _EXIT_STATE.waiting_signal = number
        return
    undo_everything()
    os._exit(128 + number)
