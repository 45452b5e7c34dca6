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
from attnviz.analysis.aspects import LEARNED, LEARNERS, refuse_learning_by, values_of
from attnviz.attention.variants import VARIANTS
from attnviz.learning.learner import Learner, accuracies_of, fresh, side_by_side
from attnviz.learning.lookup import task_of
from attnviz.learning.task import Examples, Task, examples_of
from attnviz.learning.training import HELD_OUT, Batches, Choices, decided, next_look, stacked
from attnviz.traces.early_checks import refuse_settings
from attnviz.traces.from_text import trace_of
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, chosen_variant, head_width
from attnviz.traces.source import Source
from attnviz.traces.trace import Provenance, Trace
from attnviz.wording.commands import Command
from attnviz.wording.keywords import of_its_kinds

NUMBERS_AT_ONCE = 2**21  # of what one layer makes of the sentences of a step
# So wide are heads where it is asked what scaling is for: as in GPT-3 and Llama. Queries and keys
# of N(0, 1) then have scores that spread by √128, which is 11.
WIDE = 128

Steps = Callable[[Sequence[int]], Iterable[int]]  # the same steps, with somebody told of each
OfSeeds = Float[np.ndarray, "seed"]


@dataclass(frozen=True, eq=False)
class Beginning:
    """What the first layer is like before any step: the mean over sentences, seed by seed."""

    queries: OfSeeds  # the spread of their numbers
    keys: OfSeeds
    scores: OfSeeds  # the spread of what the softmax is taken of
    gradient: OfSeeds  # how much of one the softmax passes on; near 0 it has saturated


@dataclass(frozen=True, eq=False, kw_only=True)
class Way:
    """One way to learn: `loss` and `accuracy` have a row for each look, a column for each seed."""

    name: str
    settings: Settings
    width: int  # of a head
    beginning: Beginning
    loss: Float[np.ndarray, "look seed"]  # the mean since the look before
    accuracy: Float[np.ndarray, "look seed"]  # on sentences that are held out

    def reached(self, steps: Int[np.ndarray, "look"], until: float) -> OfSeeds:
        """After how many steps each seed has this accuracy for the first time; ∞: it never has."""
        there = self.accuracy >= until
        found: OfSeeds = np.where(there.any(0), steps[there.argmax(0)], np.inf)
        return found

    @property
    def lost(self) -> int:
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
    ways: tuple[Way, ...]
    base: Trace  # the first way before any step, of the sentence that the task watches
    command: Command | None = None  # the one that would make it, where there is one

    @property
    def until(self) -> float:
        """How much is right where it counts as learned."""
        return right_enough(self.task, self.choices)

    @property
    def provenance(self) -> Provenance:
        """What made it: the settings that all ways have in common, and how they are taught."""
        taught = {"task": self.task.name, "by": self.by, "repeats": len(self.seeds)}
        made = self.base.provenance
        settings = {**asdict(self.settings), **taught, **self.choices.in_a_file}
        return replace(made, settings=settings, command=None, seed=self.seeds[0])

    @property
    def last(self) -> int:
        """How many steps there were."""
        return int(self.steps[-1])

    def reached(self, way: Way) -> OfSeeds:
        """After how many steps each seed of a way has learned it; ∞: it never has."""
        return way.reached(self.steps, self.until)


@of_its_kinds
def compare_learning(
    task: Task | str,
    settings: Settings | None = None,
    *,
    by: str = "scale",
    values: Sequence[object] | None = None,
    repeats: int = LEARNERS,
    choices: Choices | None = None,
    named: str | None = None,
    track: Steps = lambda steps: steps,
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
    base, found = settings or own_settings(task, by), decided(task, choices or Choices())
    names = chosen_ways(by, values, base, repeats)
    chosen = [LEARNED[by].choose(base, name) for name in names]
    seeds = range(base.seed, base.seed + repeats)
    ways = [_Learning(task, each, found, seeds) for each in chosen]
    steps = _learned(ways, found, track)
    asked = {
        "by": None if by == "scale" else by,
        "values": None if values is None else ",".join(names),
        "repeats": None if repeats == LEARNERS else repeats,
    }
    return Learning(
        by=by,
        task=task,
        settings=base,
        choices=found,
        seeds=seeds,
        steps=np.array(steps),
        ways=tuple(each.way(name) for name, each in zip(names, ways, strict=True)),
        base=_before_any_step(task, chosen[0]),
        command=_command(named or task.name, asked, _chosen(task, by, base, found)),
    )


def own_settings(task: Task, by: str) -> Settings:
    """The task's own; with wide heads where it is asked what scaling is for."""
    return with_wide_heads(task.settings) if by == "scale" else task.settings


def with_wide_heads(settings: Settings) -> Settings:
    """As wide as the reason for scaling takes heads to be; embeddings that are compared are not."""
    projected = VARIANTS[settings.variant].projected
    return replace(settings, head_dim=WIDE) if projected else settings


def chosen_ways(
    by: str, values: Sequence[object] | None, settings: Settings, repeats: int
) -> tuple[str, ...]:
    """The values that are compared, once it is sure that each can be learned with."""
    refuse_learning_by(by, repeats)
    names = values_of(LEARNED[by], values, settings)
    for name in names:
        refuse_settings(LEARNED[by].choose(settings, name))
    return names


class _Learning:
    """One way while it is learned: every seed at once, or in groups that memory has room for."""

    def __init__(self, task: Task, settings: Settings, choices: Choices, seeds: range) -> None:
        self.settings = settings
        self.losses: list[OfSeeds] = []  # since the last look
        self.loss: list[OfSeeds] = []
        self.accuracy: list[OfSeeds] = []
        together = _together(task, settings, choices.batch or 1)
        groups = [seeds[first : first + together] for first in range(0, len(seeds), together)]
        self.groups = [_Group(task, settings, choices, group) for group in groups]

    def learn(self, step: int) -> None:
        """One step of every seed."""
        self.losses.append(_joined(group.learn(step) for group in self.groups))

    def look(self) -> OfSeeds:
        """How much each seed gets right by now."""
        before = self.losses or [_joined(group.loss() for group in self.groups)]
        self.loss.append(np.mean(before, axis=0))
        self.accuracy.append(_joined(group.accuracy() for group in self.groups))
        self.losses = []
        return self.accuracy[-1]

    def way(self, name: str) -> Way:
        """What came of it."""
        return Way(
            name=name,
            settings=self.settings,
            width=self.groups[0].learner.plan.width or 1,
            beginning=Beginning(
                *(
                    _joined(getattr(group.beginning, each.name) for group in self.groups)
                    for each in fields(Beginning)
                )
            ),
            loss=np.stack(self.loss),
            accuracy=np.stack(self.accuracy),
        )


class _Group:
    """Models of some seeds side by side, with the sentences that each would have alone."""

    def __init__(self, task: Task, settings: Settings, choices: Choices, seeds: range) -> None:
        models = [fresh(task, replace(settings, seed=seed)) for seed in seeds]
        self.learner = Learner(side_by_side(models), choices.rate or 0)
        self.batches = [Batches(task, seed, choices.batch or 1) for seed in seeds]
        held_out = [examples_of(task, seed, HELD_OUT, held_out=True) for seed in seeds]
        self.held_out = stacked(held_out)
        self.beginning = self._beginning()

    def learn(self, step: int) -> Tensor:
        return self.learner.learn(self._batch(step))

    @torch.no_grad()
    def loss(self) -> Tensor:
        """Before any step."""
        return self.learner.losses(self._batch(0))

    @torch.no_grad()
    def accuracy(self) -> Tensor:
        return accuracies_of(self.learner.through(self.held_out.ids), self.held_out)

    def _batch(self, step: int) -> Examples:
        return stacked([each.at(step) for each in self.batches])

    @torch.no_grad()
    def _beginning(self) -> Beginning:
        first = self.learner.through(self.held_out.ids).layers[0]
        assert first.queries is not None
        assert first.keys is not None
        logits = first.attended.logits.double()[..., first.visible]
        return Beginning(
            queries=_of_seeds(first.queries.double().std((-2, -1), correction=0)),
            keys=_of_seeds(first.keys.double().std((-2, -1), correction=0)),
            scores=_of_seeds(logits.std(-1, correction=0)),
            gradient=_of_seeds(measures.gradient(first.attended.weights.double())),
        )


def right_enough(task: Task, choices: Choices) -> float:
    """What is wanted, or what the task wants, where nothing ends before the last step."""
    return task.until if choices.until in (None, math.inf) else choices.until


def _learned(ways: Sequence[_Learning], choices: Choices, track: Steps) -> list[int]:
    """All ways, step by step; after which of them somebody looked."""
    looked, last = [0], choices.steps or 0
    accuracies = [way.look() for way in ways]
    for step in track(range(1, last + 1)):
        for way in ways:
            way.learn(step - 1)
        if step not in (next_look(looked[-1]), last):
            continue
        looked.append(step)
        accuracies = [way.look() for way in ways]
        if all((each >= (choices.until or 0)).all() for each in accuracies):
            break
    return looked


def _command(task: str, asked: Mapping[str, Any], chosen: Mapping[str, Any]) -> Command:
    """The command that learns the same."""
    wanted = {name: each for name, each in asked.items() if each is not None}
    return Command(name="compare", options={"learn": task, **wanted, **chosen})


def _chosen(task: Task, by: str, settings: Settings, choices: Choices) -> dict[str, Any]:
    """What differs from the task's own, as options of a command."""
    own, every = vars(task.settings), choices.until == math.inf  # which --steps alone stands for
    options = {name: each for name, each in vars(settings).items() if each != own[name]}
    if by == "scale" and settings.head_dim is None:
        options["dim"] = settings.width  # or heads would be wide
    if settings == own_settings(task, by):
        options = {}
    taught = {name: each for name, each in asdict(choices).items() if each != getattr(task, name)}
    if every:
        taught = {name: each for name, each in taught.items() if name != "until"}
        taught["steps"] = choices.steps
    return {**options, **taught}


def _before_any_step(task: Task, settings: Settings) -> Trace:
    model = fresh(task, settings)
    return trace_of(Source(task.watch, Settings(model=task.name), model.matrices, model=model))


def _together(task: Task, settings: Settings, batch: int) -> int:
    """How many seeds are learned in one batch."""
    variant = chosen_variant(settings)
    width = head_width(settings, variant, settings.width)
    wide = max(variant.heads * width, 0 if settings.attention_only else 4 * settings.width)
    scores = variant.heads * task.longest
    return max(1, NUMBERS_AT_ONCE // (batch * task.longest * max(wide, scores)))


def _of_seeds(numbers: Float[Tensor, "seed ..."]) -> OfSeeds:
    found: OfSeeds = numbers.flatten(1).mean(1).numpy()
    return found


def _joined(parts: Iterable[Tensor | OfSeeds]) -> OfSeeds:
    return np.concatenate([np.asarray(each, dtype=np.float64) for each in parts])
