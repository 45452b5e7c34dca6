"""What a model keeps of how it learned: the task, how right it is, and what its heads do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from attnviz.learning.moment import Moment
from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.model import Model

DOES = 0.5  # of its weight, from which on a head is said to do something: more than all else
DIGITS = 4  # of shares, so that a config can be read


def with_facts(model: Model, task: Task, moment: Moment, held_out: Examples) -> Model:
    """The same model with what can be said of it at this moment."""
    doing = dict(_doing(task, moment))
    facts = {
        "task": task.name,
        "asked": task.asked,
        "steps": moment.step,
        "accuracy": round(moment.accuracy, DIGITS),
        "sentences": len(held_out.ids),
        "tokens": _lengths(held_out),
        "scores": {head: round(score, DIGITS) for head, (_, score) in doing.items()},
    }
    heads = {head: reading.does for head, (reading, _) in doing.items()}
    return replace(model, heads=heads, facts=facts)


def _doing(task: Task, moment: Moment) -> Iterator[tuple[str, tuple[Reading, float]]]:
    """Of each head what it does most, and with how much of its weight, if that is most of it."""
    layers, heads = next(iter(moment.scores.values())).shape if moment.scores else (0, 0)
    for layer in range(layers):
        for head in range(heads):
            scores = {each: float(moment.scores[each.name][layer, head]) for each in task.readings}
            best = max(scores, key=lambda each: (scores[each] >= DOES, scores[each]))
            if scores[best] >= DOES:
                yield f"L{layer}H{head}", (best, scores[best])


def _lengths(examples: Examples) -> list[int]:
    """From the shortest sentence to the longest, each as far as anything is asked in it."""
    places = torch.arange(1, examples.ids.shape[-1] + 1)
    last = ((examples.answers != NOTHING) * places).amax(-1)
    return [int(last.min()), int(last.max())]
