"""What a model keeps about its training: the task, its accuracy, and what its heads do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from attnviz.errors import AttnvizError
from attnviz.learning.learner import accuracies_of, plan_of, scores_of_heads, through
from attnviz.learning.lookup import task_of
from attnviz.learning.names import TASKS
from attnviz.learning.task import NOTHING, Examples, Reading, Task, examples_of
from attnviz.traces.models.card import Card
from attnviz.traces.models.model import Model

DOES = 0.5  # of its weight, from which on a head is said to do something: more than all else
DIGITS = 4  # of shares, so that a config can be read
SENTENCES = 1000  # that a model is tried on
FEWEST = 50  # of very large models, or very long sentences
NUMBERS = 2**24  # weights, and numbers of vectors, that there may be at once for more than these


@torch.no_grad()
def with_facts(model: Model, task: Task, step: int) -> Model:
    """The same model with what can be said of it after so many steps."""
    tried = sentences_to_try(task, model)
    passed = through(model, plan_of(model, training=True), tried.ids)
    doing = dict(_doing(task, scores_of_heads(passed, tried)))
    facts = {
        "task": task.name,
        "asked": task.asked,
        "steps": step,
        "accuracy": round(accuracies_of(passed, tried).item(), DIGITS),
        "sentences": len(tried.ids),
        "tokens": _lengths(tried),
        "scores": {head: round(score, DIGITS) for head, (_, score) in doing.items()},
    }
    heads = {head: reading.does for head, (reading, _) in doing.items()}
    return replace(model, heads=heads, facts=facts)


def sentences_to_try(task: Task, model: Model) -> Examples:
    """Sentences that nothing was learned from; fewer of very long ones, or of a large model."""
    layers, plan = model.settings.layers or 1, plan_of(model)
    heads, width = plan.variant.heads, plan.width or 1
    of_a_token = heads * task.longest + max(heads * width, model.settings.width)
    fitting = NUMBERS // (layers * task.longest * of_a_token)
    count = max(FEWEST, min(SENTENCES, fitting))
    return examples_of(task, model.settings.seed, count, held_out=True)


def _doing(
    task: Task, found: Mapping[str, Float[np.ndarray, "layer head"]]
) -> Iterator[tuple[str, tuple[Reading, float]]]:
    """Of each head what it does most, and with how much of its weight, if that is most of it."""
    layers, heads = next(iter(found.values())).shape if found else (0, 0)
    for layer in range(layers):
        for head in range(heads):
            scores = {each: float(found[each.name][layer, head]) for each in task.readings}
            best = max(scores, key=lambda each: (scores[each] >= DOES, scores[each]))
            if scores[best] >= DOES:
                yield f"L{layer}H{head}", (best, scores[best])


def _lengths(examples: Examples) -> list[int]:
    """From the shortest sentence to the longest, each as far as anything is asked in it."""
    places = torch.arange(1, examples.ids.shape[-1] + 1)
    last = ((examples.answers != NOTHING) * places).amax(-1)
    return [int(last.min()), int(last.max())]


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
