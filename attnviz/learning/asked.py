"""The task that somebody asks for: by its name, as a file of one's own, or as lines of text."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.errors import unknown
from attnviz.learning.names import CUT, GRAMMAR, TASKS, is_path
from attnviz.machine import files

if TYPE_CHECKING:
    from attnviz.learning.task import Task


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
        raise unknown("task", name, TASKS, about="task")
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
    tokenizer = asked["tokenizer"]
    if tokenizer not in CUT:
        raise unknown("way to cut lines up", tokenizer, CUT, about="tokenizer")
    files.refuse_missing(Path(asked["file"]), "learn from")
    from attnviz.learning.lines import task_of_lines

    return task_of_lines(Path(asked["file"]), tokenizer)
