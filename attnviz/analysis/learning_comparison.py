"""compare_learning(): trainings with several settings, on the same examples and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

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
from attnviz.learning.choices import ChoiceKeywords, Choices
from attnviz.learning.learner import Learner, new_model, share_correct, stack_models
from attnviz.learning.lookup import task_of
from attnviz.learning.task import Examples, Task, draw_examples
from attnviz.learning.training import (
    HELD_OUT_SENTENCES,
    Batches,
    complete_choices,
    next_moment_step,
    stack_examples,
)
from attnviz.traces.early_checks import refuse_impossible_settings
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import Source
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, chosen_variant, head_width
from attnviz.traces.trace import Provenance, Trace
from attnviz.wording.commands import Command
from attnviz.wording.keywords import replace_choices, with_checked_arguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

TRAINING_NUMBERS_AT_ONCE = 2**21  # activations of one layer for all sentences of a step
# The head width when scaled and unscaled are compared, as in GPT-3 and Llama: with queries and
# keys of N(0, 1) the standard deviation of scores is √128 ≈ 11.
WIDE_HEAD_WIDTH = 128

StepTracker = Callable[[Sequence[int]], Iterable[int]]  # yields the steps and reports progress
NumberBySeed = Float[np.ndarray, "seed"]


@dataclass(frozen=True, eq=False)
class Beginning:
    """Measures of the first layer before any training step: means over sentences, one number per
    seed."""

    queries: NumberBySeed  # the standard deviation of their numbers
    keys: NumberBySeed
    scores: NumberBySeed  # the standard deviation of the logits
    gradient: NumberBySeed  # the norm of the softmax's Jacobian; near 0 it has saturated


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningWay:
    """How a task was learned with one value of the compared setting; a look is one evaluation."""

    name: str
    settings: Settings
    width: int  # of a head
    beginning: Beginning
    loss: Float[np.ndarray, "look seed"]  # the mean since the previous look
    accuracy: Float[np.ndarray, "look seed"]  # on held-out sentences

    @property
    def diverged_seed_count(self) -> int:
        return int((~np.isfinite(self.loss)).any(0).sum())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Learning(Showable):
    """A comparison of how a task is learned with several values of one setting."""

    by: str
    task: Task
    settings: Settings  # shared by all alternatives, apart from what is compared
    choices: Choices  # complete: no field is None
    seeds: range
    steps: Int[np.ndarray, "look"]
    ways: tuple[LearningWay, ...]
    base: Trace  # the first alternative, untrained, on the sentence that the task watches
    command: Command | None = None  # which repeats this comparison

    @property
    def until(self) -> float:
        """The accuracy at which the task counts as learned, from 0 to 1: the task's own one if
        models are trained for all steps."""
        until = self.choices.until
        return self.task.until if until is None or until == math.inf else until

    @property
    def provenance(self) -> Provenance:
        """The base trace's provenance with the shared settings and the training choices."""
        facts = {"task": self.task.name, "by": self.by, "repeats": len(self.seeds)}
        settings = {**asdict(self.settings), **facts, **self.choices.in_a_file}
        return replace(self.base.provenance, settings=settings, command=None, seed=self.seeds[0])

    @property
    def last(self) -> int:
        """The number of the last training step at which models were evaluated."""
        return int(self.steps[-1])

    def reached(self, way: LearningWay) -> NumberBySeed:
        """Return for each seed of a compared alternative the step at which it learned the task; ∞
        if never."""
        is_reached = way.accuracy >= self.until
        steps: NumberBySeed
        steps = np.where(is_reached.any(0), self.steps[is_reached.argmax(0)], np.inf)
        return steps


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
    **changes: Unpack[ChoiceKeywords],
) -> Learning:
    """Train a model for each value and seed on the same sentences, and compare how they learn.

    `by` is the setting that is varied, and the `settings` default to the task's. Training ends when
    every model has learned the task, and after `steps` in any case. Keywords replace fields of the
    choices. `named` is what the command calls the task, if that is not its name.

    >>> from attnviz import compare_learning
    >>> found = compare_learning("sort", by="scale", repeats=2, steps=3)
    >>> [way.name for way in found.ways]
    ['unscaled', 'scaled']
    """
    task = task_of(task) if isinstance(task, str) else task
    base = settings or default_learning_settings(task, by)
    choices = complete_choices(task, replace_choices(choices or Choices(), changes))
    names = choose_ways(by, values, base, repeats)
    settings_by_way = [TRAINING_ASPECTS[by].choose(base, name) for name in names]
    seeds = range(base.seed, base.seed + repeats)
    ways = [_WayInTraining(task, chosen, choices, seeds) for chosen in settings_by_way]
    steps = _train_all_ways(ways, choices, track)
    model = new_model(task, settings_by_way[0])
    options = {
        "by": None if by == "scale" else by,
        "values": None if values is None else ",".join(names),
        "repeats": None if repeats == DEFAULT_TRAINING_SEEDS else repeats,
    }
    return Learning(
        by=by,
        task=task,
        settings=base,
        choices=choices,
        seeds=seeds,
        steps=np.array(steps),
        ways=tuple(way.finished_way(name) for name, way in zip(names, ways, strict=True)),
        base=trace_source(
            Source(task.watch, Settings(model=task.name), model.matrices, model=model)
        ),
        command=Command(
            name="compare",
            options={
                "learn": named or task.name,
                **{name: value for name, value in options.items() if value is not None},
                **_changed_options(task, by, base, choices),
            },
        ),
    )


def default_learning_settings(task: Task, by: str) -> Settings:
    return with_wide_heads(task.settings) if by == "scale" else task.settings


def with_wide_heads(settings: Settings) -> Settings:
    projected = VARIANTS[settings.variant].projected
    return replace(settings, head_dim=WIDE_HEAD_WIDTH) if projected else settings


def choose_ways(
    by: str, values: Sequence[object] | None, settings: Settings, repeats: int
) -> tuple[str, ...]:
    """Return the given values of the setting `by` as texts, or its default ones.

    Refuses a setting that training cannot be compared by, too many seeds (`repeats`), and values
    that cannot be trained.
    """
    refuse_learning_by(by, repeats)
    names = list_aspect_values(TRAINING_ASPECTS[by], values, settings)
    for name in names:
        refuse_impossible_settings(TRAINING_ASPECTS[by].choose(settings, name))
    return names


class _WayInTraining:
    """One compared alternative during training: all its seeds, in groups that fit in memory."""

    def __init__(self, task: Task, settings: Settings, choices: Choices, seeds: range) -> None:
        self.settings = settings
        self.recent_losses: list[NumberBySeed] = []  # since the last look
        self.loss: list[NumberBySeed] = []
        self.accuracy: list[NumberBySeed] = []
        size = _seeds_per_batch(task, settings, choices.batch or 1)
        groups = [seeds[first : first + size] for first in range(0, len(seeds), size)]
        self.groups = [_SeedGroup(task, settings, choices, group) for group in groups]

    def learn(self, step: int) -> None:
        """Train every seed's model for one step, the step with this number from 0, and record the
        losses."""
        self.recent_losses.append(_join_seeds(group.learn(step) for group in self.groups))

    def record_look(self) -> NumberBySeed:
        """Record the mean loss since the last evaluation and the accuracy, and return each seed's
        accuracy. Before any step the loss is that of the first batch."""
        losses = self.recent_losses or [_join_seeds(group.loss() for group in self.groups)]
        self.loss.append(np.mean(losses, axis=0))
        self.accuracy.append(_join_seeds(group.accuracy() for group in self.groups))
        self.recent_losses = []
        return self.accuracy[-1]

    def finished_way(self, name: str) -> LearningWay:
        """Return what was recorded so far as the result of the alternative called `name`."""
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
    """The models of some seeds trained side by side, each on the sentences of its own seed."""

    def __init__(self, task: Task, settings: Settings, choices: Choices, seeds: range) -> None:
        models = [new_model(task, replace(settings, seed=seed)) for seed in seeds]
        self.learner = Learner(stack_models(models), choices.rate or 0)
        self.batches = [Batches(task, seed, choices.batch or 1) for seed in seeds]
        held_out = [draw_examples(task, seed, HELD_OUT_SENTENCES, held_out=True) for seed in seeds]
        self.held_out = stack_examples(held_out)
        self.beginning = self._beginning()

    def learn(self, step: int) -> Tensor:
        """Train each model on its batch of this step, and return the losses before the update."""
        return self.learner.learn(self._batch(step))

    @torch.no_grad()
    def loss(self) -> Tensor:
        return self.learner.losses(self._batch(0))

    @torch.no_grad()
    def accuracy(self) -> Tensor:
        return share_correct(self.learner.run(self.held_out.ids), self.held_out)

    def _batch(self, step: int) -> Examples:
        return stack_examples([batches.batch_of_step(step) for batches in self.batches])

    @torch.no_grad()
    def _beginning(self) -> Beginning:
        """Return the measures of the first layer of the untrained models on their held-out
        sentences."""
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


def _train_all_ways(
    ways: Sequence[_WayInTraining], choices: Choices, track: StepTracker
) -> list[int]:
    """Train all alternatives in parallel, and return the steps at which they were evaluated.

    Ends early when all seeds of all alternatives reach the accuracy `choices.until`.
    """
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


def _changed_options(task: Task, by: str, settings: Settings, choices: Choices) -> dict[str, Any]:
    """Return the settings and choices that differ from the task's own, as options of a command.

    Settings that the command would choose by itself for `by` are left out.
    """
    defaults = asdict(task.settings)
    options = {name: value for name, value in asdict(settings).items() if value != defaults[name]}
    if by == "scale" and settings.head_dim is None:
        options["dim"] = settings.width  # without it heads would be wide
    if settings == default_learning_settings(task, by):
        options = {}
    choice_items = vars(choices).items()
    training = {name: value for name, value in choice_items if value != getattr(task, name)}
    if choices.until == math.inf:  # which --steps alone stands for
        training.pop("until", None)
        training["steps"] = choices.steps
    return {**options, **training}


def _seeds_per_batch(task: Task, settings: Settings, batch: int) -> int:
    """Return how many seeds can be trained at once within TRAINING_NUMBERS_AT_ONCE."""
    variant = chosen_variant(settings)
    width = head_width(settings, variant, settings.width)
    widest = max(variant.heads * width, 0 if settings.attention_only else 4 * settings.width)
    scores = variant.heads * task.longest
    return max(1, TRAINING_NUMBERS_AT_ONCE // (batch * task.longest * max(widest, scores)))


def _mean_by_seed(numbers: Float[Tensor, "seed ..."]) -> NumberBySeed:
    return numbers.flatten(1).mean(1).numpy()


def _join_seeds(parts: Iterable[Tensor | NumberBySeed]) -> NumberBySeed:
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
