"""Which heads of a model matter: how many of its answers are right without each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from attnviz.learning.facts import sentences_to_try, task_of_model
from attnviz.learning.learner import (
    Passed,
    accuracies_of,
    losses_of,
    plan_of,
    scores_of_heads,
    through,
)
from attnviz.learning.task import NOTHING, Examples, Task
from attnviz.traces.early_checks import refuse_ranking
from attnviz.traces.from_text import trace_of
from attnviz.traces.models.model import Model
from attnviz.traces.models.shipped import model_of
from attnviz.traces.result import Showable
from attnviz.traces.settings import HeadPlace, Settings, name_of
from attnviz.traces.source import Source
from attnviz.traces.trace import Provenance, Trace


@dataclass(frozen=True)
class Tried:
    """How a model does on sentences that it did not learn from."""

    accuracy: float  # of the answers that are asked for
    loss: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Head:
    """One head: how the model does without it, and what it reads."""

    place: HeadPlace
    without: Tried
    scores: Mapping[str, float]  # of each reading: the mean weight on it

    @property
    def name(self) -> str:
        return name_of(*self.place)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranking(Showable):
    """The heads of a model, first the one without which most answers are lost."""

    model: Model
    task: Task
    sentences: int
    answers: int  # that are asked for in them
    whole: Tried  # with all heads
    heads: tuple[Head, ...]
    none: Tried  # without any
    base: Trace  # the model on the sentence that the task watches

    @property
    def provenance(self) -> Provenance:
        """What made it: the model, and the task that it was tried on."""
        made = self.base.provenance
        return replace(made, settings={**made.settings, "task": self.task.name})

    def lost(self, head: Head) -> float:
        """The share of answers that is right with it, and wrong without."""
        return self.whole.accuracy - head.without.accuracy


def rank(model: str | Path | Model, task: str | Task | None = None) -> Ranking:
    """The heads of a model by what is lost without each.

    >>> from attnviz import rank
    >>> rank("agreement").view().headline
    'Switching off L0H0 costs 16\\xa0% of the verbs; any other head at most 5\\xa0%'
    """
    name = model.name if isinstance(model, Model) else str(model)
    if not isinstance(model, Model):
        refuse_ranking(name)
    found = model if isinstance(model, Model) else model_of(name)
    known = task if isinstance(task, Task) else task_of_model(found, task)
    layers, heads = _counts(found)
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    examples = sentences_to_try(known, found)
    with torch.no_grad():
        passed = _through(found, examples)
        scores = scores_of_heads(passed, examples)
        tried = [
            Head(
                place=place,
                without=_tried(_through(found, examples, [place]), examples),
                scores={name: float(each[place]) for name, each in scores.items()},
            )
            for place in places
        ]
        none = _tried(_through(found, examples, places), examples)
    return Ranking(
        model=found,
        task=known,
        sentences=len(examples.ids),
        answers=int((examples.answers != NOTHING).sum()),
        whole=_tried(passed, examples),
        heads=tuple(sorted(tried, key=lambda each: (each.without.accuracy, -each.without.loss))),
        none=none,
        base=trace_of(Source(known.watch, Settings(model=name), found.matrices, model=found)),
    )


def _through(model: Model, examples: Examples, off: Sequence[HeadPlace] = ()) -> Passed:
    """What the model makes of the sentences, with some of its heads off."""
    plan = plan_of(model, training=True)
    without = ",".join(name_of(*place) for place in off) or None
    settings = replace(plan.settings, without=without)
    return through(model, replace(plan, settings=settings), examples.ids)


def _tried(passed: Passed, examples: Examples) -> Tried:
    accuracy = float(accuracies_of(passed, examples))
    return Tried(accuracy, float(losses_of(passed, examples)))


def _counts(model: Model) -> tuple[int, int]:
    """How many layers there are, and how many heads each has."""
    return model.settings.layers or 1, plan_of(model).variant.heads
