"""Finds a task: by its name, in a file of one's own, or made from lines of text."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.learning.names import GRAMMAR_SUFFIX, LINE_PIECES, TASKS, is_task_path
from attnviz.machine import files
from attnviz.wording.commands import shell_quoted
from attnviz.wording.keywords import with_checked_arguments

if TYPE_CHECKING:
    from attnviz.learning.task import Task


OWN_TASK_HINT = "or a task of your own: a grammar, such as mine.toml (docs/learning.md)"


@with_checked_arguments
def task_of(name: str) -> Task:
    """The task of this name, or of a person's own file; imported only now that it is wanted.

    >>> from attnviz import task_of
    >>> task_of("reverse").about
    'eight letters, backwards'
    """
    if is_task_path(name):
        files.refuse_missing_file(Path(name), "learn from")
        from attnviz.learning.own_tasks import own_task

        return own_task(Path(name))
    if name not in TASKS:
        error = unknown_name_error("task", name, TASKS, about="task")
        raise AttnvizError(str(error), f"{error.hint}; {OWN_TASK_HINT}", about="task")
    path = TASKS[name].path
    if path.endswith(GRAMMAR_SUFFIX):
        from attnviz.learning.grammar_files import read_grammar_task

        return read_grammar_task(Path(__file__).parent / path)
    task: Task = pkgutil.resolve_name(path)
    return task


def requested_task(request: Mapping[str, str]) -> Task:
    """The task that somebody asked for: by its name, or as a file of lines, so cut up."""
    if "task" in request:
        return task_of(request["task"])
    refuse_unknown_cut(request["tokenizer"])
    files.refuse_missing_file(Path(request["file"]), "learn from")
    from attnviz.learning.own_tasks import task_of_lines

    return task_of_lines(Path(request["file"]), request["tokenizer"])


def refuse_unknown_cut(tokenizer: str) -> None:
    if tokenizer not in LINE_PIECES:
        raise unknown_name_error("way to cut lines up", tokenizer, LINE_PIECES, about="tokenizer")


def task_of_saved_model(request: Mapping[str, str], source: str, folder: Path) -> Task:
    """The task that a saved model goes on with, where nobody names it.

    Folders are handed on, and who names one trusts it with nothing: a grammar and lines are data
    that stand in it, and no other file is opened, and no Python run, because it says so.
    """
    name = request.get("task", "")
    if name in TASKS:
        return task_of(name)
    if not source:
        raise _missing_task_error(request, folder)
    try:
        if "file" in request:
            refuse_unknown_cut(request["tokenizer"])
            from attnviz.learning.own_tasks import task_of_lines

            return task_of_lines(Path(request["file"]), request["tokenizer"], source)
        from attnviz.learning.grammar_files import read_grammar_task

        return read_grammar_task(Path(name), source)
    except AttnvizError as error:
        raise error.with_problem(f"the task that '{folder}' holds is damaged: {error}") from None


def _missing_task_error(request: Mapping[str, str], folder: Path) -> AttnvizError:
    """That a task is not in the folder, and how it is named."""
    name = request.get("task", request.get("file", ""))
    command_end = f"{'' if 'task' in request else '--file '}{shell_quoted(name)} --from {shell_quoted(str(folder))}"
    if "file" in request or name.endswith(GRAMMAR_SUFFIX):
        return AttnvizError(
            f"'{folder}' learns from {name}, and does not contain that file",
            f"give the file as well: attnviz learn {command_end}",
        )
    return AttnvizError(
        f"'{folder}' learns {name}, a Python file, and no Python is run just because a folder "
        "names it",
        f"if you trust that file, give it as well: attnviz learn {command_end}",
    )
