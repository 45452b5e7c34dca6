"""Runs a program as Python would, to its end."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from attnviz.errors import AttnvizError
from attnviz.machine import files

INTERRUPTED_STATUS = 130  # as of any command that Ctrl-C ends
OWN_FILES = (str(Path(__file__).parent), runpy.__file__, "<frozen runpy>")
MODE_FILES = ("torch/_compile.py", "torch/_ops.py", "torch/_dynamo/eval_frame.py")  # call modes


@dataclass(frozen=True)
class Program:
    """A file or a module, with the words after it, which are its own."""

    name: str
    arguments: tuple[str, ...]
    is_module: bool

    def refuse_missing(self) -> None:
        """Refuse a file that is not there, or a module that cannot be found."""
        if self.is_module:
            sys.path.insert(0, str(Path.cwd()))
            try:
                runpy._get_module_details(self.name)  # type: ignore[attr-defined]
            except ImportError as error:
                raise AttnvizError(
                    f"there is no module '{self.name}' to run: {error}",
                    "give a name as after python -m, or a file without -m",
                ) from None
        else:
            main = Path(self.name, "__main__.py")
            path = main if main.is_file() else Path(self.name)
            files.refuse_missing_file(path, "run (a module comes after -m)")

    def run(self) -> None:
        """Run it as `python PROGRAM …` or `python -m PROGRAM …` would."""
        sys.argv = [self.name, *self.arguments]
        if self.is_module:
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
            return
        path = Path(self.name).resolve()
        if path.is_file():  # else a folder, which is put there as it is run
            sys.path.insert(0, str(path.parent))
        runpy.run_path(os.path.abspath(self.name), run_name="__main__")  # noqa: PTH100


def run_to_end(program: Program, before_exit: Callable[[], object]) -> int:
    """Run a program, and return its exit status; call `before_exit` if it ends in os._exit.

    Its traceback is printed as Python prints it, without the lines of attnviz.
    """
    leave, process = os._exit, os.getpid()

    def call_first(status: int) -> NoReturn:
        os._exit = leave
        if os.getpid() == process:  # else a process that the program started, as to load data
            before_exit()
            sys.stdout.flush()
            sys.stderr.flush()
        leave(status)

    os._exit = call_first
    try:
        program.run()
    except SystemExit as ending:
        return _exit_status(ending)
    except BaseException as error:  # whatever the program raises is the program's
        _print_traceback(error)
        return INTERRUPTED_STATUS if isinstance(error, KeyboardInterrupt) else 1
    finally:
        os._exit = leave
    return 0


def _exit_status(ending: SystemExit) -> int:
    """Return the status of sys.exit(…); a text is printed, and means 1, as in Python."""
    if ending.code is None or isinstance(ending.code, int):
        return ending.code or 0
    print(ending.code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException) -> None:
    """Print a traceback with the lines of the program and of what it called alone."""
    entries, entry = [], error.__traceback__
    while entry is not None:
        file = entry.tb_frame.f_code.co_filename
        if not file.startswith(OWN_FILES) and not file.endswith(MODE_FILES):
            entries.append(entry)
        entry = entry.tb_next
    lines: TracebackType | None = None
    for each in reversed(entries):
        each.tb_next = lines
        lines = each
    sys.excepthook(type(error), error.with_traceback(lines), lines)
