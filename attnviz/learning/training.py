"""Training: a model, step by step, and what can be seen of it on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnviz.learning.choices import Choices as Choices
from attnviz.learning.fresh import fresh
from attnviz.learning.moment import Moment as Moment
from attnviz.learning.progress import Kept, Progress
from attnviz.learning.task import NOTHING, Examples, Task, examples_of
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.forward import Passed, plan_of, through
from attnviz.traces.models.model import Model
from attnviz.traces.settings import Settings
from attnviz.traces.showing import Showable

DRAWN_AT_ONCE = 4096  # sentences that are learned from before others are drawn
HELD_OUT = 256  # sentences that the accuracy is measured on
BETWEEN_LOOKS = 10  # steps, once there have been many
LOOKS_GROW = 8  # a look follows after an eighth of the steps that there were

# What ended it: the accuracy that was wanted, the last step, Ctrl-C, or a loss that is no number.
Ended = Literal["accuracy", "steps", "interrupted", "nan"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned(Showable):
    """A model that learned, and how it came to it."""

    task: Task
    settings: Settings
    choices: Choices  # as they turned out: no None
    watched: Tokens
    model: Model
    moments: tuple[Moment, ...]  # the first before any step
    ended: Ended


class Training:
    """A model while it learns: `for moment in training: …`, then `training.learned()`."""

    def __init__(
        self,
        task: Task,
        settings: Settings | None = None,
        choices: Choices | None = None,
        watch: str | None = None,
        since: Progress | None = None,
    ) -> None:
        self.task = task
        self.settings = settings or task.settings
        self.choices = _decided(task, choices or Choices())
        self.watched = task.vocabulary.cut(watch or task.watch)
        self.model = fresh(task, self.settings) if since is None else since.model
        self.plan = plan_of(self.model, training=True)
        self.moments: list[Moment] = []
        self.ended: Ended = "interrupted"
        self.step = 0
        self.seconds = 0.0
        self._good = self.model
        self._held_out = examples_of(task, self.settings.seed, HELD_OUT, held_out=True)
        self._parameters = {
            name: each.requires_grad_() for name, each in self.model.parameters.items()
        }
        self._optimizer = torch.optim.AdamW(self._parameters.values(), lr=self.choices.rate or 0)
        self._kept_by_optimizer: Kept = {}
        if since is not None:
            self._go_on(since)

    def __iter__(self) -> Iterator[Moment]:
        """Each moment at which there is something new to look at, the first before any step."""
        losses: list[float] = []
        if not self.moments:
            yield self._look([self._loss(self._batch()).item()])
        while not self.is_last(self.moments[-1]):
            started = time.perf_counter()
            losses.append(self._learn())
            self.seconds += time.perf_counter() - started
            if not np.isfinite(losses[-1]):
                self.ended = "nan"
                return
            if self._is_time_to_look():
                moment = self._look(losses)
                losses = []
                yield moment
        right = self.moments[-1].accuracy >= (self.choices.until or 0)
        self.ended = "accuracy" if right else "steps"

    def is_last(self, moment: Moment) -> bool:
        """Whether nothing follows this moment."""
        enough = moment.accuracy >= (self.choices.until or 0)
        return enough or moment.step >= (self.choices.steps or 0)

    def learned(self) -> Learned:
        """What was learned so far."""
        return Learned(
            task=self.task,
            settings=self.settings,
            choices=self.choices,
            watched=self.watched,
            model=self._good,
            moments=tuple(self.moments),
            ended=self.ended,
        )

    def progress(self, asked: Mapping[str, str]) -> Progress:
        """How far it has come, for files; `asked` says where the task is from."""
        return Progress(
            asked=asked,
            watch=self.watched.text,
            choices=self.choices,
            model=self._good,
            optimizer=self._kept_by_optimizer,
            moments=tuple(self.moments),
        )

    def _go_on(self, since: Progress) -> None:
        self.moments = [*since.moments]
        self.step, self.seconds = self.moments[-1].step, self.moments[-1].seconds
        self._kept_by_optimizer = since.optimizer
        for name, kept_of_it in since.optimizer.items():
            if kept_of_it:  # nothing before the first step
                tensors = {kind: each.clone() for kind, each in kept_of_it.items()}
                self._optimizer.state[self._parameters[name]] = tensors

    def _batch(self) -> Examples:
        """The sentences of this step; which they are depends on the seed and the step alone."""
        batch = self.choices.batch or 1
        at_once = max(1, DRAWN_AT_ONCE // batch)
        number, place = divmod(self.step, at_once)
        if place == 0 or not hasattr(self, "_drawn"):
            seed = self.settings.seed * 1_000_003 + number
            self._drawn = examples_of(self.task, seed, at_once * batch)
        return self._drawn.part(slice(place * batch, (place + 1) * batch))

    def _learn(self) -> float:
        loss = self._loss(self._batch())
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.step += 1
        return loss.item()

    def _loss(self, examples: Examples) -> Tensor:
        logits = self._through(examples).logits
        return functional.cross_entropy(
            logits.flatten(0, -2), examples.answers.flatten(), ignore_index=NOTHING
        )

    def _through(self, examples: Examples) -> Passed:
        return through(self.model, self.plan, examples.ids)

    def _is_time_to_look(self) -> bool:
        last = self.moments[-1].step
        after = min(BETWEEN_LOOKS, 1 + last // LOOKS_GROW)
        return self.step >= last + after or self.step == self.choices.steps

    @torch.no_grad()
    def _look(self, losses: list[float]) -> Moment:
        passed = self._through(self._held_out)
        watched = through(self.model, self.plan, torch.tensor(self.watched.ids))
        moment = Moment(
            step=self.step,
            seconds=self.seconds,
            loss=float(np.mean(losses)),
            accuracy=accuracy(passed, self._held_out),
            scores=scores_of_heads(passed, self._held_out),
            weights=tuple(layer.attended.weights.numpy().copy() for layer in watched.layers),
        )
        self.moments.append(moment)
        self._good = kept(self.model)
        self._kept_by_optimizer = {
            name: {kind: each.clone() for kind, each in self._optimizer.state[parameter].items()}
            for name, parameter in self._parameters.items()
        }
        return moment


def kept(model: Model) -> Model:
    """The model as it is now, whatever becomes of its parameters."""
    return model.with_parameters(
        {name: each.detach().clone() for name, each in model.parameters.items()}
    )


def accuracy(passed: Passed, examples: Examples) -> float:
    """How many of the answers that are asked for are right."""
    asked = examples.answers != NOTHING
    right = (passed.logits.argmax(-1) == examples.answers) & asked
    return (right.sum() / asked.sum()).item()


def scores_of_heads(
    passed: Passed, examples: Examples
) -> dict[str, Float[np.ndarray, "layer head"]]:
    """Of each reading: how much weight each head puts on what it should read then, on average."""
    return {
        name: np.stack([_score(layer.attended.weights, read) for layer in passed.layers])
        for name, read in examples.readings.items()
    }


def _score(weights: Float[Tensor, "sentence head query key"], read: Tensor) -> np.ndarray:
    there = read != NOTHING
    chosen = read.clamp(min=0)[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    put = weights.gather(-1, chosen).squeeze(-1) * there[:, None]
    found: np.ndarray = (put.sum((0, 2)) / there.sum()).numpy()
    return found


def _decided(task: Task, choices: Choices) -> Choices:
    """With the task's own where nobody chose."""
    named = {name: getattr(choices, name) for name in ("steps", "until", "batch", "rate")}
    return Choices(
        **{name: getattr(task, name) if each is None else each for name, each in named.items()}
    )


def learn(
    task: Task,
    settings: Settings | None = None,
    choices: Choices | None = None,
    watch: str | None = None,
) -> Learned:
    """A task, learned to its end: `learn(task_of("reverse")).model`."""
    training = Training(task, settings, choices, watch)
    for _ in training:
        pass
    return training.learned()
