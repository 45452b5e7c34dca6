"""Undoes unfinished work when a signal such as Ctrl-C ends the run.

An exception raised from a signal would be lost, or abort the process, in callbacks from C++ and in
finalizers. So the signal handler itself undoes the work and ends the process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from threading import current_thread, main_thread
from types import FrameType

ENDING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, kill, and a closed terminal


@dataclass
class _ExitState:
    """The actions to undo work, the newest last, and whether signals are delayed."""

    undo_actions: list[Callable[[], object]] = field(default_factory=list)
    delay_depth: int = 0  # number of nested `delay_signals` blocks
    waiting_signal: int | None = None  # the signal that arrived in such a block


_EXIT_STATE = _ExitState()


def exit_on_signals() -> None:
    """Have each ending signal undo unfinished work and end the process at once.

    A signal that the parent process had ignored stays ignored.
    """
    for name in ENDING_SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit_process)


def register_undo(undo: Callable[[], object]) -> None:
    _EXIT_STATE.undo_actions.append(undo)


def undo_everything() -> None:
    """Call and forget all undo actions, the newest first; their errors are ignored."""
    while _EXIT_STATE.undo_actions:
        with suppress(Exception):  # the process ends, so an error cannot be reported
            _EXIT_STATE.undo_actions.pop()()


@contextmanager
def undo_on_signal(undo: Callable[[], object]) -> Iterator[None]:
    """Have a signal during the `with` block call `undo` before the process ends."""
    _EXIT_STATE.undo_actions.append(undo)
    try:
        yield
    finally:
        _EXIT_STATE.undo_actions.remove(undo)


@contextmanager
def delay_signals() -> Iterator[None]:
    """Delay ending signals until the end of the `with` block, which must be short."""
    _EXIT_STATE.delay_depth += 1
    try:
        yield
    finally:
        _EXIT_STATE.delay_depth -= 1
        if _EXIT_STATE.waiting_signal is not None and not _EXIT_STATE.delay_depth:
            _exit_process(_EXIT_STATE.waiting_signal, None)


@contextmanager
def call_on_interrupt(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have Ctrl-C call a function inside the `with` block, whatever it does outside."""
    handler_before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler_before)


def raise_on_interrupt() -> AbstractContextManager[None]:
    """Let Ctrl-C raise KeyboardInterrupt inside the `with` block, whatever it does outside."""
    return call_on_interrupt(signal.default_int_handler)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Have the first Ctrl-C only be noted during the `with` block; a second one ends the run.

    Yields a function that returns whether Ctrl-C was pressed, so that the block can stop. Changes
    nothing where the parent process ignores Ctrl-C, and outside the main thread, where no signal
    can be handled.
    """
    signals_received: list[int] = []
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is signal.SIG_IGN or current_thread() is not main_thread():
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        signals_received.append(number)
        signal.signal(signal.SIGINT, previous_handler)

    with call_on_interrupt(note):
        yield lambda: bool(signals_received)


@contextmanager
def delay_interrupt() -> Iterator[None]:
    """Block Ctrl-C during the `with` block, so that Python's output is written completely.

    Handling the signal later is not enough: it would still interrupt the system call, and the rest
    of the buffer would be lost.
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
    """Handle a signal: undo unfinished work and end the process with 128 + `number`.

    In a `delay_signals` block, only note the signal.
    """
    if _EXIT_STATE.delay_depth:
        _EXIT_STATE.waiting_signal = number
        return
    undo_everything()
    os._exit(128 + number)
