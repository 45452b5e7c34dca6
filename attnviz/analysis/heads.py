"""Which heads of a model matter: how many of its answers are right without each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from attnviz.learning.facts import task_for_model, test_sentences
from attnviz.learning.learner import (
    ForwardPass,
    mean_losses,
    model_plan,
    reading_scores,
    run_learner_model,
    share_correct,
)
from attnviz.learning.task import NO_TOKEN, Examples, Task
from attnviz.traces.early_checks import refuse_ranking_trained
from attnviz.traces.from_text import trace_source
from attnviz.traces.models.model import Model
from attnviz.traces.models.shipped import load_model
from attnviz.traces.result import Showable
from attnviz.traces.settings import HeadId, Settings, format_head_id
from attnviz.traces.source import Source
from attnviz.traces.trace import Provenance, Trace


@dataclass(frozen=True)
class TrialResult:
    """How a model does on sentences that it did not learn from."""

    accuracy: float  # of the answers that are asked for
    loss: float


@dataclass(frozen=True, eq=False, kw_only=True)
class RankedHead:
    """One head: how the model does without it, and what it reads."""

    head_id: HeadId
    without: TrialResult
    scores: Mapping[str, float]  # of each reading: the mean weight on it

    @property
    def name(self) -> str:
        return format_head_id(*self.head_id)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranking(Showable):
    """The heads of a model, first the one without which most answers are lost."""

    model: Model
    task: Task
    sentences: int
    answers: int  # that are asked for in them
    whole: TrialResult  # with all heads
    heads: tuple[RankedHead, ...]
    none: TrialResult  # without any
    base: Trace  # the model on the sentence that the task watches

    @property
    def provenance(self) -> Provenance:
        """What made it: the model, and the task that it was tried on."""
        base_provenance = self.base.provenance
        return replace(
            base_provenance, settings={**base_provenance.settings, "task": self.task.name}
        )

    def accuracy_lost(self, head: RankedHead) -> float:
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
        refuse_ranking_trained(name)
    loaded_model = model if isinstance(model, Model) else load_model(name)
    known_task = task if isinstance(task, Task) else task_for_model(loaded_model, task)
    layers, heads = _layer_and_head_counts(loaded_model)
    head_ids = [(layer, head) for layer in range(layers) for head in range(heads)]
    examples = test_sentences(known_task, loaded_model)
    with torch.no_grad():
        whole_pass = _pass_without_heads(loaded_model, examples)
        scores = reading_scores(whole_pass, examples)
        ranked_heads = [
            RankedHead(
                head_id=head_id,
                without=_measure_trial(
                    _pass_without_heads(loaded_model, examples, [head_id]), examples
                ),
                scores={name: float(each[head_id]) for name, each in scores.items()},
            )
            for head_id in head_ids
        ]
        none = _measure_trial(_pass_without_heads(loaded_model, examples, head_ids), examples)
    return Ranking(
        model=loaded_model,
        task=known_task,
        sentences=len(examples.ids),
        answers=int((examples.answers != NO_TOKEN).sum()),
        whole=_measure_trial(whole_pass, examples),
        heads=tuple(
            sorted(ranked_heads, key=lambda each: (each.without.accuracy, -each.without.loss))
        ),
        none=none,
        base=trace_source(
            Source(
                known_task.watch, Settings(model=name), loaded_model.matrices, model=loaded_model
            )
        ),
    )


def _pass_without_heads(
    model: Model, examples: Examples, off: Sequence[HeadId] = ()
) -> ForwardPass:
    """What the model makes of the sentences, with some of its heads off."""
    plan = model_plan(model, training=True)
    without = ",".join(format_head_id(*head_id) for head_id in off) or None
    settings = replace(plan.settings, without=without)
    return run_learner_model(model, replace(plan, settings=settings), examples.ids)


def _measure_trial(passed: ForwardPass, examples: Examples) -> TrialResult:
    accuracy = float(share_correct(passed, examples))
    return TrialResult(accuracy, float(mean_losses(passed, examples)))


def _layer_and_head_counts(model: Model) -> tuple[int, int]:
    """How many layers there are, and how many heads each has."""
    return model.settings.layers or 1, model_plan(model).variant.heads
