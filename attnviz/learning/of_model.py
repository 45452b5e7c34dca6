"""The task that a model has learned: by what the model says of itself, or as somebody names it."""

from __future__ import annotations

from attnviz.errors import AttnvizError
from attnviz.learning.asked import task_of
from attnviz.learning.names import TASKS
from attnviz.learning.task import Task
from attnviz.traces.models.card import Card


def task_of_model(card: Card, named: str | None = None) -> Task:
    """What it has learned, whose sentences it can be tried on."""
    called = f"the model '{card.name}'"
    if not card.vocabulary.answers:
        raise AttnvizError(
            f"{called} gives no answers, so switching off a head cannot cost it one",
            "see how its context vectors change: attnviz run TEXT, with the same --model and "
            "--without L0H0",
            about="model",
        )
    name = named or str(card.facts.get("task", ""))
    if named is None and name not in TASKS:
        raise AttnvizError(
            f"{called} does not say which sentences it can be tested on",
            f"name its task, such as --task {next(iter(TASKS))} or --task mine.toml; for lines of "
            "text, attnviz run TEXT --without L0H0 shows what a head does",
            about="model",
        )
    task = task_of(name)
    if task.vocabulary != card.vocabulary:
        raise AttnvizError(
            f"the task '{task.name}' has other words than those that {called} learned",
            "name the task that it learned",
            about="task",
        )
    return task
