"""A process that has imported what commands import, and forks to run each: a start costs seconds.

Nothing is computed here before it forks, so each command starts as one of its own would. A line
of standard input is a folder, a file for both streams, and the words of the command.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib.figure
import torch

from attnviz import __main__ as program
from attnviz.analysis import comparison, heads
from attnviz.analysis.inspection import inspection
from attnviz.learning import training
from attnviz.views import trace
from attnviz.views.steps import walk
from tests import LONGEST

IMPORTED = (matplotlib.figure, torch, comparison, heads, inspection, training, trace, walk)
OF_A_SHELL = set("|&;<>$`*~\\")


class Warm:
    """Commands, run by such a process one after another."""

    def __init__(self, environment: dict[str, str]) -> None:
        words = [sys.executable, "-m", "tests.warm"]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def __call__(self, command: str, folder: Path) -> str:
        """What a command prints, both streams."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        printed = folder / ".printed"
        asked = [str(folder), str(printed), shlex.split(command)[1:]]
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        assert select.select([self.process.stdout], [], [], LONGEST)[0], command
        self.process.stdout.readline()
        text = printed.read_text("utf-8")
        printed.unlink()
        return text

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LONGEST)


def can_run(command: str) -> bool:
    """Whether it is a command of attnviz alone, and no shell is needed for it."""
    return command.startswith("attnviz ") and not OF_A_SHELL & set(command)


def _run(folder: str, printed: str, words: list[str]) -> None:
    os.chdir(folder)
    written = os.open(printed, os.O_WRONLY | os.O_CREAT)
    os.dup2(written, 1)
    os.dup2(written, 2)
    sys.argv = ["attnviz", *words]
    program.main()  # which leaves the process


def _serve() -> None:
    for line in sys.stdin:
        if not (child := os.fork()):
            _run(*json.loads(line))
        os.waitpid(child, 0)
        print("done", flush=True)


if __name__ == "__main__":
    _serve()
