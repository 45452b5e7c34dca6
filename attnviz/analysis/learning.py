"""Models that learn in several ways, side by side: the same sentences, the same seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis import measures
from attnviz.analysis.aspects import (
    DEFAULT_TRAINING_SEEDS,
    TRAINING_ASPECTS,
    list_aspect_values,
    refuse_learning_by,
)
from attnviz.attention.variants import VARIANTS
from attnviz.learning.learner import Learner, new_model, share_correct, stack_models
from attnviz.learning.lookup import task_of
from attnviz.learning.task import Examples, Task, draw_examples
from attnviz.learning.training import (
    HELD_OUT_SENTENCES,
    Batches,
    Choices,
    complete_choices,
    next_moment_step,
    stack_examples,
)
from attnviz.traces.early_checks import refuse_impossible_settings
from attnviz.traces.from_text import trace_source
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, chosen_variant, head_width
from attnviz.traces.source import Source
from attnviz.traces.trace import Provenance, Trace
from attnviz.wording.commands import Command
from attnviz.wording.keywords import with_checked_arguments

TRAINING_NUMBERS_AT_ONCE = 2**21  # of what one layer makes of the sentences of a step
# So wide are heads where it is asked what scaling is for: as in GPT-3 and Llama. Queries and keys
# of N(0, 1) then have scores that spread by √128, which is 11.
WIDE_HEAD_WIDTH = 128

StepTracker = Callable[[Sequence[int]], Iterable[int]]  # the same steps, with somebody told of each
NumberBySeed = Float[np.ndarray, "seed"]


@dataclass(frozen=True, eq=False)
class Beginning:
    """What the first layer is like before any step: the mean over sentences, seed by seed."""

    queries: NumberBySeed  # the spread of their numbers
    keys: NumberBySeed
    scores: NumberBySeed  # the spread of what the softmax is taken of
    gradient: NumberBySeed  # how much of one the softmax passes on; near 0 it has saturated


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningWay:
    """One way to learn: `loss` and `accuracy` have a row for each look, a column for each seed."""

    name: str
    settings: Settings
    width: int  # of a head
    beginning: Beginning
    loss: Float[np.ndarray, "look seed"]  # the mean since the look before
    accuracy: Float[np.ndarray, "look seed"]  # on sentences that are held out

    def reached(self, steps: Int[np.ndarray, "look"], until: float) -> NumberBySeed:
        """After how many steps each seed has this accuracy for the first time; ∞: it never has."""
        is_reached = self.accuracy >= until
        first_steps: NumberBySeed = np.where(is_reached.any(0), steps[is_reached.argmax(0)], np.inf)
        return first_steps

    @property
    def diverged_seed_count(self) -> int:
        """In how many seeds the loss is no number any more."""
        return int((~np.isfinite(self.loss)).any(0).sum())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Learning(Showable):
    """Ways to learn a task, and how each of them went."""

    by: str
    task: Task
    settings: Settings  # which all have in common, but for what is compared
    choices: Choices  # no None
    seeds: range
    steps: Int[np.ndarray, "look"]  # after which somebody looked
    ways: tuple[LearningWay, ...]
    base: Trace  # the first way before any step, of the sentence that the task watches
    command: Command | None = None  # the one that would make it, where there is one

    @property
    def until(self) -> float:
        """How much is right where it counts as learned."""
        return target_accuracy(self.task, self.choices)

    @property
    def provenance(self) -> Provenance:
        """What made it: the settings that all ways have in common, and how they are taught."""
        training_facts = {"task": self.task.name, "by": self.by, "repeats": len(self.seeds)}
        base_provenance = self.base.provenance
        settings = {**asdict(self.settings), **training_facts, **self.choices.in_a_file}
        return replace(base_provenance, settings=settings, command=None, seed=self.seeds[0])

    @property
    def last(self) -> int:
        """How many steps there were."""
        return int(self.steps[-1])

    def reached(self, way: LearningWay) -> NumberBySeed:
        """After how many steps each seed of a way has learned it; ∞: it never has."""
        return way.reached(self.steps, self.until)


@with_checked_arguments
def compare_learning(
    task: Task | str,
    settings: Settings | None = None,
    *,
    by: str = "scale",
    values: Sequence[object] | None = None,
    repeats: int = DEFAULT_TRAINING_SEEDS,
    choices: Choices | None = None,
    named: str | None = None,
    track: StepTracker = lambda steps: steps,
) -> Learning:
    """A task, learned in each way from the same sentences, as many times as there are seeds.

    It ends when every seed of every way has learned it, and after `choices.steps` in any case.
    `named` is what a command calls the task, if that is not its name.

    >>> from attnviz import Choices, compare_learning
    >>> found = compare_learning("sort", by="scale", repeats=2, choices=Choices(steps=3))
    >>> [each.name for each in found.ways]
    ['unscaled', 'scaled']
    """
    task = task_of(task) if isinstance(task, str) else task
    base, decided_choices = (
        settings or default_learning_settings(task, by),
        complete_choices(task, choices or Choices()),
    )
    names = choose_ways(by, values, base, repeats)
    settings_by_way = [TRAINING_ASPECTS[by].choose(base, name) for name in names]
    seeds = range(base.seed, base.seed + repeats)
    ways = [_WayInTraining(task, each, decided_choices, seeds) for each in settings_by_way]
    steps = _train_all_ways(ways, decided_choices, track)
    options = {
        "by": None if by == "scale" else by,
        "values": None if values is None else ",".join(names),
        "repeats": None if repeats == DEFAULT_TRAINING_SEEDS else repeats,
    }
    return Learning(
        by=by,
        task=task,
        settings=base,
        choices=decided_choices,
        seeds=seeds,
        steps=np.array(steps),
        ways=tuple(each.finished_way(name) for name, each in zip(names, ways, strict=True)),
        base=_untrained_trace(task, settings_by_way[0]),
        command=_learning_command(
            named or task.name, options, _changed_options(task, by, base, decided_choices)
        ),
    )


def default_learning_settings(task: Task, by: str) -> Settings:
    """The task's own; with wide heads where it is asked what scaling is for."""
    return with_wide_heads(task.settings) if by == "scale" else task.settings


def with_wide_heads(settings: Settings) -> Settings:
    """As wide as the reason for scaling takes heads to be; embeddings that are compared are not."""
    projected = VARIANTS[settings.variant].projected
    return replace(settings, head_dim=WIDE_HEAD_WIDTH) if projected else settings


def choose_ways(
    by: str, values: Sequence[object] | None, settings: Settings, repeats: int
) -> tuple[str, ...]:
    """The values that are compared, once it is sure that each can be learned with."""
    refuse_learning_by(by, repeats)
    names = list_aspect_values(TRAINING_ASPECTS[by], values, settings)
    for name in names:
        refuse_impossible_settings(TRAINING_ASPECTS[by].choose(settings, name))
    return names


class _WayInTraining:
    """One way while it is learned: every seed at once, or in groups that memory has room for."""

    def __init__(self, task: Task, settings: Settings, choices: Choices, seeds: range) -> None:
        self.settings = settings
        self.recent_losses: list[NumberBySeed] = []  # since the last look
        self.loss: list[NumberBySeed] = []
        self.accuracy: list[NumberBySeed] = []
        seeds_at_once = _seeds_per_batch(task, settings, choices.batch or 1)
        groups = [
            seeds[first : first + seeds_at_once] for first in range(0, len(seeds), seeds_at_once)
        ]
        self.groups = [_SeedGroup(task, settings, choices, group) for group in groups]

    def learn(self, step: int) -> None:
        """One step of every seed."""
        self.recent_losses.append(_join_seeds(group.learn(step) for group in self.groups))

    def record_look(self) -> NumberBySeed:
        """How much each seed gets right by now."""
        losses = self.recent_losses or [_join_seeds(group.loss() for group in self.groups)]
        self.loss.append(np.mean(losses, axis=0))
        self.accuracy.append(_join_seeds(group.accuracy() for group in self.groups))
        self.recent_losses = []
        return self.accuracy[-1]

    def finished_way(self, name: str) -> LearningWay:
        """What came of it."""
        return LearningWay(
            name=name,
            settings=self.settings,
            width=self.groups[0].learner.plan.width or 1,
            beginning=Beginning(
                *(
                    _join_seeds(getattr(group.beginning, measure.name) for group in self.groups)
                    for measure in fields(Beginning)
                )
            ),
            loss=np.stack(self.loss),
            accuracy=np.stack(self.accuracy),
        )


class _SeedGroup:
    """Models of some seeds side by side, with the sentences that each would have alone."""

    def __init__(self, task: Task, settings: Settings, choices: Choices, seeds: range) -> None:
        models = [new_model(task, replace(settings, seed=seed)) for seed in seeds]
        self.learner = Learner(stack_models(models), choices.rate or 0)
        self.batches = [Batches(task, seed, choices.batch or 1) for seed in seeds]
        held_out = [draw_examples(task, seed, HELD_OUT_SENTENCES, held_out=True) for seed in seeds]
        self.held_out = stack_examples(held_out)
        self.beginning = self._beginning()

    def learn(self, step: int) -> Tensor:
        return self.learner.learn(self._batch(step))

    @torch.no_grad()
    def loss(self) -> Tensor:
        """Before any step."""
        return self.learner.losses(self._batch(0))

    @torch.no_grad()
    def accuracy(self) -> Tensor:
        return share_correct(self.learner.run(self.held_out.ids), self.held_out)

    def _batch(self, step: int) -> Examples:
        return stack_examples([batches.batch_of_step(step) for batches in self.batches])

    @torch.no_grad()
    def _beginning(self) -> Beginning:
        first = self.learner.run(self.held_out.ids).layers[0]
        assert first.queries is not None
        assert first.keys is not None
        logits = first.attended.logits.double()[..., first.visible]
        return Beginning(
            queries=_mean_by_seed(first.queries.double().std((-2, -1), correction=0)),
            keys=_mean_by_seed(first.keys.double().std((-2, -1), correction=0)),
            scores=_mean_by_seed(logits.std(-1, correction=0)),
            gradient=_mean_by_seed(measures.softmax_gradient_size(first.attended.weights.double())),
        )


def target_accuracy(task: Task, choices: Choices) -> float:
    """What is wanted, or what the task wants, where nothing ends before the last step."""
    return task.until if choices.until in (None, math.inf) else choices.until


def _train_all_ways(
    ways: Sequence[_WayInTraining], choices: Choices, track: StepTracker
) -> list[int]:
    """All ways, step by step; after which of them somebody looked."""
    look_steps, last_step = [0], choices.steps or 0
    accuracies = [way.record_look() for way in ways]
    for step in track(range(1, last_step + 1)):
        for way in ways:
            way.learn(step - 1)
        if step not in (next_moment_step(look_steps[-1]), last_step):
            continue
        look_steps.append(step)
        accuracies = [way.record_look() for way in ways]
        if all((accuracy >= (choices.until or 0)).all() for accuracy in accuracies):
            break
    return look_steps


def _learning_command(
    task: str, options: Mapping[str, Any], changed_options: Mapping[str, Any]
) -> Command:
    """The command that learns the same."""
    given_options = {name: value for name, value in options.items() if value is not None}
    return Command(name="compare", options={"learn": task, **given_options, **changed_options})


def _changed_options(task: Task, by: str, settings: Settings, choices: Choices) -> dict[str, Any]:
    """What differs from the task's own, as options of a command."""
    task_settings, runs_all_steps = (
        vars(task.settings),
        choices.until == math.inf,
    )  # which --steps alone stands for
    options = {
        name: value for name, value in vars(settings).items() if value != task_settings[name]
    }
    if by == "scale" and settings.head_dim is None:
        options["dim"] = settings.width  # or heads would be wide
    if settings == default_learning_settings(task, by):
        options = {}
    training_options = {
        name: value for name, value in asdict(choices).items() if value != getattr(task, name)
    }
    if runs_all_steps:
        training_options = {
            name: value for name, value in training_options.items() if name != "until"
        }
        training_options["steps"] = choices.steps
    return {**options, **training_options}


def _untrained_trace(task: Task, settings: Settings) -> Trace:
    model = new_model(task, settings)
    return trace_source(Source(task.watch, Settings(model=task.name), model.matrices, model=model))


def _seeds_per_batch(task: Task, settings: Settings, batch: int) -> int:
    """How many seeds are learned in one batch."""
    variant = chosen_variant(settings)
    width = head_width(settings, variant, settings.width)
    widest = max(variant.heads * width, 0 if settings.attention_only else 4 * settings.width)
    scores = variant.heads * task.longest
    return max(1, TRAINING_NUMBERS_AT_ONCE // (batch * task.longest * max(widest, scores)))


def _mean_by_seed(numbers: Float[Tensor, "seed ..."]) -> NumberBySeed:
    means: NumberBySeed = numbers.flatten(1).mean(1).numpy()
    return means


def _join_seeds(parts: Iterable[Tensor | NumberBySeed]) -> NumberBySeed:
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
