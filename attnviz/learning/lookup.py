"""Finds a task: by name, in a user's file, or made from lines of text."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, cmd, refuse_unknown_name, unknown_name_error
from attnviz.learning.task_names import (
    GRAMMAR_SUFFIX,
    LINE_PIECES,
    PYTHON_SUFFIX,
    TASKS,
    is_task_path,
)
from attnviz.machine import files
from attnviz.wording.keywords import with_checked_arguments

if TYPE_CHECKING:
    from attnviz.learning.task import Task

OWN_TASK_HINT = "or a task of your own: a grammar, such as mine.toml (docs/learning.md)"
PYTHON_TASK_HINT = "attnviz.learn(Task(…)) trains on a task of your own (docs/learning.md)"


@with_checked_arguments
def task_of(name: str) -> Task:
    """Return the shipped task with this name, or the task in a user's file, such as `mine.toml`.

    Refuses unknown names, and files that are missing or no grammar; Python files are never run.
    The module of a task is imported only on the first use.

    >>> task_of("reverse").about
    'eight letters, backwards'
    """
    if is_task_path(name):
        return _task_of_grammar(Path(name))
    if name not in TASKS:
        error = unknown_name_error("task", name, TASKS, about="task")
        raise AttnvizError(str(error), f"{error.hint}; {OWN_TASK_HINT}", about="task")
    path = TASKS[name].path
    if path.endswith(GRAMMAR_SUFFIX):
        from attnviz.learning.grammar_files import read_grammar_task

        return read_grammar_task(Path(__file__).parent / path)
    task: Task = pkgutil.resolve_name(path)
    return task


def _task_of_grammar(path: Path) -> Task:
    """Return the task of a user's grammar; refuse other files, above all Python files."""
    if path.suffix == PYTHON_SUFFIX:
        raise AttnvizError(
            f"'{path}' is a Python file, and Python files are not run",
            f"in Python, {PYTHON_TASK_HINT}; or write a grammar, such as mine.toml, or lines: "
            f"{cmd.learn:--file lines.txt}",
        )
    files.refuse_missing_file(path, "learn from")
    if path.suffix != GRAMMAR_SUFFIX:
        raise AttnvizError(
            f"'{path}' is not a task: its name does not end in {GRAMMAR_SUFFIX}",
            "give a grammar; docs/learning.md has a complete one",
        )
    from attnviz.learning.grammar_files import read_grammar_task

    return read_grammar_task(path)


def requested_task(request: Mapping[str, str]) -> Task:
    """Return the task of a request: {"task": NAME}, or {"file": …, "tokenizer": …} for lines of
    text."""
    if "task" in request:
        return task_of(request["task"])
    return _task_of_lines(request)


def _task_of_lines(request: Mapping[str, str], source: str | None = None) -> Task:
    """Return the task of a file of lines, or of its text `source` if that was read before.

    Refuses a missing file, and a tokenizer that lines cannot be cut with.
    """
    tokenizer, path = request["tokenizer"], Path(request["file"])
    refuse_unknown_name("way to cut lines up", tokenizer, LINE_PIECES, about="tokenizer")
    if source is None:
        files.refuse_missing_file(path, "learn from")
    from attnviz.learning.line_tasks import task_of_lines

    return task_of_lines(path, tokenizer, source)


def task_of_saved_model(request: Mapping[str, str], source: str, folder: Path) -> Task:
    """Return the task with which a saved model continues, if the user gives none.

    A folder may come from a stranger: its grammar or lines (`source`) are read as data, but it
    cannot make attnviz open another file or run Python. Refuses damaged tasks, and tasks that were
    written in Python.
    """
    name = request.get("task", "")
    if name in TASKS:
        return task_of(name)
    if "task" in request and not name.endswith(GRAMMAR_SUFFIX):
        raise AttnvizError(
            f"'{folder}' learns '{name}', a task written in Python, which no folder holds",
            f"in Python, {PYTHON_TASK_HINT}",
        )
    try:
        if "file" in request:
            return _task_of_lines(request, source)
        from attnviz.learning.grammar_files import read_grammar_task

        return read_grammar_task(Path(name), source)
    except AttnvizError as error:
        raise error.with_problem(f"the task that '{folder}' holds is damaged: {error}") from None
