"""A pseudo-terminal on which a command runs, and that replies to its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rich.cells import cell_len
from rich.console import Console

from tests import LONGEST
from tests.warm import restore_signals, warm_process

ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def run_on_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    answer: Callable[[bytes], bytes] = lambda output: b"",
    size: tuple[int, int] = (24, 80),
    typed: bytes = b"",
) -> tuple[str, int]:
    """The output of a command on a terminal of `size` lines and columns, and its exit status.

    `answer` is called with what was shown so far, whenever there is more, and says what the
    terminal sends back.
    """
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    os.write(controller, typed)
    whole_environment = {**os.environ, **ENVIRONMENT, **environment}
    try:
        process = _start_command(list(command), terminal, whole_environment)
    finally:
        os.close(terminal)
    output, deadline = b"", time.monotonic() + LONGEST
    try:
        while select.select([controller], [], [], max(0, deadline - time.monotonic()))[0]:
            assert time.monotonic() < deadline, output[-1000:]
            try:
                output += os.read(controller, 4096)
            except OSError:  # the other end is closed
                break
            os.write(controller, answer(output))
        status = process.wait(timeout=LONGEST)
    finally:
        process.kill()  # which does nothing to one that has ended
        os.close(controller)
    return output.decode(errors="replace"), status


class TerminalProcess(Protocol):
    """A command on a terminal, in a process of its own or in a fork of the warm one."""

    def wait(self, timeout: float) -> int: ...

    def kill(self) -> None: ...


@dataclass
class ForkedProcess:
    """A fork of the warm process, whose status that process tells once."""

    number: int
    status: int | None = None

    def wait(self, timeout: float) -> int:
        if self.status is None:
            self.status = warm_process().status(timeout)
        return self.status

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.number, signal.SIGKILL)
            self.wait(timeout=LONGEST)


def _start_command(
    command: list[str], terminal: int, environment: dict[str, str]
) -> TerminalProcess:
    if command[:3] == [sys.executable, "-m", "attnviz"]:
        path = Path(os.ttyname(terminal))
        return ForkedProcess(warm_process().start(command[3:], path, Path.cwd(), environment))
    return subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        start_new_session=True,
        preexec_fn=_set_up_child,
    )


def _set_up_child() -> None:
    restore_signals()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def reply_once(reply: bytes, prompt: bytes, after: float = 0.0) -> Callable[[bytes], bytes]:
    """An `answer` that replies once, `after` seconds after `prompt` first appears."""
    unsent_replies = [reply]

    def answer(output: bytes) -> bytes:
        if prompt in output and unsent_replies:
            time.sleep(after)
            return unsent_replies.pop()
        return b""

    return answer


CONSOLE = Console()
CODES = re.compile(
    r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\\\)|([\r\n])|(.)", re.S
)


@dataclass
class Screen:
    """What stands on a terminal after all that was written to it, line by line from the first.

    `broken` counts lines that went on in the next, for want of room; `beyond` how often the cursor
    was to go above what is seen, and `hidden` is whether it is out of sight.
    """

    rows: int
    columns: int
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    broken: int = 0
    beyond: int = 0
    hidden: bool = False
    waiting: bool = False  # for the end of a frame that it shows as a whole

    def write(self, text: str) -> Screen:
        for number, kind, control, letter in CODES.findall(text):
            if kind:
                self._obey(number, kind)
            elif control == "\r":
                self.column = 0
            elif control == "\n":
                self._next_line()
            elif letter and letter != "\x1b":
                self._put(letter)
        return self

    @property
    def text(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.lines]

    def _obey(self, number: str, kind: str) -> None:
        distance = int(number) if number.isdigit() else 1
        if kind == "A":
            top = max(len(self.lines) - self.rows, 0)
            self.beyond += self.row - distance < top
            self.row = max(self.row - distance, top)
        elif kind == "K" and number == "2":
            self.lines[self.row] = []
        elif kind in "lh" and number == "?25":
            self.hidden = kind == "l"
        elif kind in "lh" and number == "?2026":
            assert (kind == "l") == self.waiting, "frames begin and end in turn"
            self.waiting = kind == "h"
        else:
            assert kind == "m" or (number, kind) in {("0", "J"), ("", "J")}, (number, kind)

    def _next_line(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _put(self, letter: str) -> None:
        wide = cell_len(letter)
        if self.column + wide > self.columns:
            self.broken += 1
            self._next_line()
            self.column = 0
        line = self.lines[self.row]
        line.extend([" "] * (self.column + wide - len(line)))
        if wide:
            line[self.column : self.column + wide] = [letter, *[""] * (wide - 1)]
        self.column += wide
