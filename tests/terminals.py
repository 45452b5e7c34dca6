"""A terminal of one's own: a command runs on it, and it answers as it is told."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence

ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def shown_on_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    answer: Callable[[bytes], bytes] = lambda shown: b"",
    size: tuple[int, int] = (24, 80),
    typed: bytes = b"",
) -> tuple[str, int]:
    """What a command shows on a terminal of so many lines and columns, and its exit status.

    `answer` is called with what was shown so far, whenever there is more, and says what the
    terminal sends back.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    os.write(ours, typed)
    running = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **ENVIRONMENT, **environment},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        os.write(ours, answer(shown))
    status = running.wait(timeout=30)
    os.close(ours)
    return shown.decode(errors="replace"), status


def once(reply: bytes, asked: bytes, after: float = 0.0) -> Callable[[bytes], bytes]:
    """An answer to the first time that something is shown, at once or some seconds later."""
    left = [reply]

    def answer(shown: bytes) -> bytes:
        if asked in shown and left:
            time.sleep(after)
            return left.pop()
        return b""

    return answer
