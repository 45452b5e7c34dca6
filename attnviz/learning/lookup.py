"""Finds a task: by its name, in a file of one's own, or made from lines of text."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.errors import AttnvizError, unknown
from attnviz.learning.names import CUT, GRAMMAR, TASKS, is_path
from attnviz.machine import files
from attnviz.wording.commands import quoted
from attnviz.wording.keywords import of_its_kinds

if TYPE_CHECKING:
    from attnviz.learning.task import Task


OF_YOUR_OWN = "or a task of your own: a grammar, such as mine.toml (docs/learning.md)"


@of_its_kinds
def task_of(name: str) -> Task:
    """The task of this name, or of a person's own file; imported only now that it is wanted.

    >>> from attnviz import task_of
    >>> task_of("reverse").about
    'eight letters, backwards'
    """
    if is_path(name):
        files.refuse_missing(Path(name), "learn from")
        from attnviz.learning.own import own_task

        return own_task(Path(name))
    if name not in TASKS:
        error = unknown("task", name, TASKS, about="task")
        raise AttnvizError(str(error), f"{error.hint}; {OF_YOUR_OWN}", about="task")
    path = TASKS[name].path
    if path.endswith(GRAMMAR):
        from attnviz.learning.grammar_files import read

        return read(Path(__file__).parent / path)
    found: Task = pkgutil.resolve_name(path)
    return found


def task_asked(asked: Mapping[str, str]) -> Task:
    """The task that somebody asked for: by its name, or as a file of lines, so cut up."""
    if "task" in asked:
        return task_of(asked["task"])
    refuse_unknown_cut(asked["tokenizer"])
    files.refuse_missing(Path(asked["file"]), "learn from")
    from attnviz.learning.own import task_of_lines

    return task_of_lines(Path(asked["file"]), asked["tokenizer"])


def refuse_unknown_cut(tokenizer: str) -> None:
    if tokenizer not in CUT:
        raise unknown("way to cut lines up", tokenizer, CUT, about="tokenizer")


def task_of_folder(asked: Mapping[str, str], source: str, folder: Path) -> Task:
    """The task that a saved model goes on with, where nobody names it.

    Folders are handed on, and who names one trusts it with nothing: a grammar and lines are data
    that stand in it, and no other file is opened, and no Python run, because it says so.
    """
    name = asked.get("task", "")
    if name in TASKS:
        return task_of(name)
    if not source:
        raise _nothing_kept(asked, folder)
    try:
        if "file" in asked:
            refuse_unknown_cut(asked["tokenizer"])
            from attnviz.learning.own import task_of_lines

            return task_of_lines(Path(asked["file"]), asked["tokenizer"], source)
        from attnviz.learning.grammar_files import read

        return read(Path(name), source)
    except AttnvizError as error:
        raise error.told(f"the task that '{folder}' holds is damaged: {error}") from None


def _nothing_kept(asked: Mapping[str, str], folder: Path) -> AttnvizError:
    """That a task is not in the folder, and how it is named."""
    name = asked.get("task", asked.get("file", ""))
    again = f"{'' if 'task' in asked else '--file '}{quoted(name)} --from {quoted(str(folder))}"
    if "file" in asked or name.endswith(GRAMMAR):
        return AttnvizError(
            f"'{folder}' learns from {name}, and does not contain that file",
            f"give the file as well: attnviz learn {again}",
        )
    return AttnvizError(
        f"'{folder}' learns {name}, a Python file, and no Python is run just because a folder "
        "names it",
        f"if you trust that file, give it as well: attnviz learn {again}",
    )
