"""rank(): the accuracy of a small model on its task with each head switched off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path

import torch
from torch.nn import Module

from attnviz.errors import model_error
from attnviz.learning import learner
from attnviz.learning.task import NO_TOKEN, Examples, Task
from attnviz.learning.training_facts import task_for_model, test_sentences
from attnviz.traces.early_checks import refuse_ranking_trained
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import Source
from attnviz.traces.models.model import Model
from attnviz.traces.models.shipped import load_model
from attnviz.traces.result import NamedHead, RanksHeads, Rows, Showable
from attnviz.traces.settings import HeadId, Settings, format_head_id
from attnviz.traces.trace import Provenance, Trace
from attnviz.traces.trained.model_in_memory import name_model
from attnviz.wording.keywords import with_checked_arguments
from attnviz.wording.numbers import percent_text

NORMAL_QUANTILE = 1.96  # of 97.5 %


@dataclass(frozen=True)
class TrialResult:
    """A model's accuracy and mean loss on test sentences."""

    accuracy: float
    loss: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RankedHead(NamedHead):
    """One head: the model's result without it, and its mean weight on the keys of each reading."""

    without: TrialResult
    interval: tuple[float, float] = (nan, nan)  # 95 %, of the accuracy lost, over sentences
    scores: Mapping[str, float]  # by reading: the mean weight on the keys it names

    def __repr__(self) -> str:
        """Return a line like `<L0H0: 84 % right without it>`."""
        return f"<{self.name}: {percent_text(self.without.accuracy)} right without it>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranking(RanksHeads, Showable):
    """The heads of a model, starting with the one whose ablation costs most accuracy."""

    model: Model
    task: Task
    sentences: int
    answers: int  # how many the sentences ask for
    with_all_heads: TrialResult
    heads: tuple[RankedHead, ...]
    with_no_heads: TrialResult  # all are switched off
    even_scores: Mapping[str, float] = field(default_factory=dict)  # by reading: of even attention
    base: Trace  # the model on the sentence that the task watches

    @property
    def provenance(self) -> Provenance:
        """The base trace's provenance, and the task."""
        provenance = self.base.provenance
        return replace(provenance, settings={**provenance.settings, "task": self.task.name})

    @property
    def ranking(self) -> Rows[RankedHead]:
        """The heads, starting with the one whose ablation costs most accuracy."""
        return Rows(self.heads)

    def accuracy_lost(self, head: RankedHead) -> float:
        """Return the whole model's accuracy minus its accuracy without this head; negative if it
        improves."""
        return self.with_all_heads.accuracy - head.without.accuracy


@with_checked_arguments
def rank(model: str | Path | Model | Module, task: str | Task | None = None) -> Ranking:
    """Rank the heads of a model by the accuracy on test sentences without each, the lowest first.

    `task` gives the test sentences; by default it is the task that the model learned. Refuses
    trained transformers, models that give no answers, and a task with another vocabulary.

    >>> rank("agreement").view().headline
    'Switching off L0H0 costs 16\\xa0% of the verbs; any other head at most 5\\xa0%'
    """
    if isinstance(model, Module):
        raise model_error(
            f"the model '{name_model(model)}' is in memory, but rank only takes models that "
            "learned a task of attnviz",
            "see the effect of each head on a text: inspect(text, model=model, "
            'tokenizer=tokenizer, by="effect")',
        )
    name = model.name if isinstance(model, Model) else str(model)
    if not isinstance(model, Model):
        refuse_ranking_trained(name)
        model = load_model(name)
    task = task if isinstance(task, Task) else task_for_model(model, task)
    layers, heads = model.settings.layers or 1, learner.model_plan(model).variant.heads
    head_ids = [(layer, head) for layer in range(layers) for head in range(heads)]
    examples = test_sentences(task, model)
    with torch.no_grad():
        whole_pass = _pass_without_heads(model, examples)
        scores = learner.reading_scores(whole_pass, examples)
        passes = (
            (head_id, _pass_without_heads(model, examples, [head_id])) for head_id in head_ids
        )
        ranked = [
            RankedHead(
                head_id=head_id,
                without=_measure_trial(passed, examples),
                interval=_interval_of_loss(whole_pass, passed, examples),
                scores={reading: float(by_head[head_id]) for reading, by_head in scores.items()},
            )
            for head_id, passed in passes
        ]
        none = _measure_trial(_pass_without_heads(model, examples, head_ids), examples)
    return Ranking(
        model=model,
        task=task,
        sentences=len(examples.ids),
        answers=int((examples.answers != NO_TOKEN).sum()),
        with_all_heads=_measure_trial(whole_pass, examples),
        heads=tuple(sorted(ranked, key=lambda head: (head.without.accuracy, -head.without.loss))),
        with_no_heads=none,
        even_scores=learner.even_reading_scores(whole_pass, examples),
        base=trace_source(Source(task.watch, Settings(model=name), model.matrices, model=model)),
    )


def _pass_without_heads(
    model: Model, examples: Examples, off: Sequence[HeadId] = ()
) -> learner.ForwardPass:
    """Return the forward pass of the model on the examples, with the heads `off` switched off: (0,
    1) is L0H1."""
    plan = learner.model_plan(model, training=True)
    without = ",".join(format_head_id(*head_id) for head_id in off) or None
    settings = replace(plan.settings, without=without)
    return learner.run_learner_model(model, replace(plan, settings=settings), examples.ids)


def _measure_trial(passed: learner.ForwardPass, examples: Examples) -> TrialResult:
    accuracy = float(learner.share_correct(passed, examples))
    return TrialResult(accuracy, float(learner.mean_losses(passed, examples)))


def _interval_of_loss(
    whole: learner.ForwardPass, without: learner.ForwardPass, examples: Examples
) -> tuple[float, float]:
    """Return the ends of the 95 % interval of the accuracy that is lost, over sentences; there are
    enough of them for a normal distribution."""
    right, kept = (learner.correct_answers(passed, examples).sum(-1) for passed in (whole, without))
    answers_per_sentence = float((examples.answers != NO_TOKEN).sum()) / len(right)
    lost = (right - kept).double() / answers_per_sentence
    mean, error = float(lost.mean()), float(lost.std()) / len(lost) ** 0.5
    return mean - NORMAL_QUANTILE * error, mean + NORMAL_QUANTILE * error
