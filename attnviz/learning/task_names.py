"""TASKS: the tasks that come with attnviz, in teaching order; imports none of them."""

from __future__ import annotations

from dataclasses import dataclass

GRAMMAR_SUFFIX, PYTHON_SUFFIX = ".toml", ".py"
LINE_PIECES = {"words": "word", "chars": "character", "bytes": "byte", "gpt2": "piece"}


@dataclass(frozen=True)
class TaskRow:
    """One shipped task: what is learned, what the heatmap then shows, and where the task is
    defined."""

    about: str
    teaches: str
    watch: str  # the sentence whose attention is shown during training
    path: str  # a Python object or a file
    seconds: float  # the approximate training time on two cores
    usual_steps: int  # after about so many steps all answers are right with the default seed


TASKS = {
    "reverse": TaskRow(
        "eight letters, backwards",
        "every place reads the opposite one: the heatmap is an anti-diagonal",
        "a b c d e f g h",
        "attnviz.learning.shipped_tasks:reverse_task",
        1,
        20,
    ),
    "sort": TaskRow(
        "numbers from 1 to 20, in order",
        "every number reads the next larger one, wherever it is",
        "5 2 8 1 → 1 2 5 8",
        "attnviz.learning.shipped_tasks:sort_task",
        1,
        220,
    ),
    "induction": TaskRow(
        "a row of letters, twice",
        "one head reads the previous letter; above it others read what followed the same letter",
        "maplemaple",
        "attnviz.learning.shipped_tasks:induction_task",
        3,
        110,
    ),
    "agreement": TaskRow(
        "the form of a verb that agrees with its subject, whatever else comes before it",
        "the verb's place reads the subject, not the noun beside it",
        "the old keys near the small cabinet are",
        "tasks/agreement.toml",
        5,
        600,
    ),
    "pronouns": TaskRow(
        "he, she, it and they, each for what it refers to",
        "the pronoun reads the name or the thing that it refers to",
        "Tom slept near Ben and beside the car Anna waited . he",
        "tasks/pronouns.toml",
        5,
        1060,
    ),
    "brackets": TaskRow(
        "nested brackets of four kinds",
        "a closing bracket reads the one that it closes",
        "([]{<>})",
        "attnviz.learning.shipped_tasks:brackets_task",
        5,
        620,
    ),
}


def is_task_path(name: str) -> bool:
    return name.endswith((GRAMMAR_SUFFIX, PYTHON_SUFFIX)) or "/" in name
