"""A process that has imported what commands import, and forks to run each: a start costs seconds.

Nothing is computed here before it forks, so each command starts as one of its own would. A line
of standard input is a folder, a file for both streams or a terminal, the words of the command, and
its environment if that is not this process's own.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import matplotlib.figure
import torch

from attnviz import __main__ as program
from attnviz.analysis import comparison, head_accuracy
from attnviz.analysis.inspection import inspection
from attnviz.learning import training
from attnviz.views import trace
from attnviz.views.steps import walk
from tests import LONGEST

IMPORTED = (matplotlib.figure, torch, comparison, head_accuracy, inspection, training, trace, walk)
OF_A_SHELL = set("|&;<>$`*~\\")


class Warm:
    """Commands, run by such a process one after another."""

    def __init__(self) -> None:
        words = [sys.executable, "-m", "tests.warm"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
        )
        self.unread_output = b""  # of its standard output

    def __call__(self, command: str, folder: Path) -> str:
        """What a command prints, both streams."""
        printed = folder / ".printed"
        self.start(shlex.split(command)[1:], printed, folder)
        self.status()
        text = printed.read_text("utf-8")
        printed.unlink()
        return text

    def start(
        self,
        words: Sequence[str],
        output: Path,
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """The number of a process that runs a command, once its streams are open."""
        assert self.process.stdin is not None
        order = [str(folder), str(output), list(words), environment and dict(environment)]
        self.process.stdin.write(f"{json.dumps(order)}\n".encode())
        return self._number(LONGEST)

    def status(self, timeout: float = LONGEST) -> int:
        """With which status it has ended."""
        return self._number(timeout)

    def _number(self, timeout: float) -> int:
        """The next line that it writes; two of them may have come at once."""
        assert self.process.stdout is not None
        while b"\n" not in self.unread_output:
            assert select.select([self.process.stdout], [], [], timeout)[0]
            self.unread_output += os.read(self.process.stdout.fileno(), 4096)
        line, _, self.unread_output = self.unread_output.partition(b"\n")
        return int(line)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LONGEST)


@cache
def warm_process() -> Warm:
    """The process of this run of tests, started when the first test needs it."""
    process = Warm()
    atexit.register(process.close)
    return process


def restore_signals() -> None:
    """For a new process: tests in the background, or under nohup, ignore some, and pass that on."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def can_run(command: str) -> bool:
    """Whether it is a command of attnviz alone, and no shell is needed for it."""
    return command.startswith("attnviz ") and not OF_A_SHELL & set(command)


def _run(folder: str, output: str, words: list[str], environment: dict[str, str] | None) -> None:
    os.chdir(folder)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    terminal = output.startswith("/dev/")
    if terminal:
        os.setsid()  # so that the terminal that is opened is this process's own
        restore_signals()
    stream = os.open(output, os.O_RDWR | os.O_CREAT)
    print(os.getpid(), flush=True)
    for number in range(0 if terminal else 1, 3):
        os.dup2(stream, number)
    if terminal:  # which cannot be read from and written to as pipes are
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    sys.argv = ["attnviz", *words]
    program.main()  # which leaves the process


def _serve() -> None:
    for line in sys.stdin:
        if not (child := os.fork()):
            _run(*json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
