"""The tasks that come with attnviz, in the order of a course; named, not imported."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.errors import unknown

if TYPE_CHECKING:
    from attnviz.learning.task import Task

GRAMMAR = ".toml"  # what the name of a grammar's file ends in


@dataclass(frozen=True)
class Row:
    """One task: what is learned, what is to be seen, and where it is."""

    about: str
    teaches: str
    path: str
    seconds: float  # about, on two cores


TASKS = {
    "reverse": Row(
        "eight letters, backwards",
        "every place reads the one opposite: the heatmap is an anti-diagonal",
        "attnviz.learning.tasks.reverse:task",
        1,
    ),
    "sort": Row(
        "numbers from 1 to 20, in order",
        "every number reads the next larger one, wherever it stands",
        "attnviz.learning.tasks.sort:task",
        1,
    ),
    "induction": Row(
        "a row of letters, twice",
        "one head reads the letter before; above it others read what followed the same letter",
        "attnviz.learning.tasks.induction:task",
        3,
    ),
    "agreement": Row(
        "a verb in the form that its subject asks for, whatever else stands before it",
        "the verb's place reads the subject, and not the noun beside it",
        "tasks/agreement.toml",
        5,
    ),
    "brackets": Row(
        "brackets of four kinds, one in another",
        "a closing bracket reads the one that it closes",
        "attnviz.learning.tasks.brackets:task",
        7,
    ),
}


def task_of(name: str) -> Task:
    """The task of this name, imported only now that it is wanted."""
    if name not in TASKS:
        raise unknown("task", name, TASKS, about="task")
    row = TASKS[name]
    if row.path.endswith(GRAMMAR):
        from attnviz.learning.grammar_files import read

        return read(Path(__file__).parent / row.path)
    found: Task = pkgutil.resolve_name(row.path)
    return found
