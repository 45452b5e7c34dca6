"""Training: a model step by step, its batches, and the memory that it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from attnviz.attention import devices
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.learning import training
from attnviz.learning.choices import Choices as Choices
from attnviz.learning.facts import add_training_facts
from attnviz.learning.learner import (
    ForwardPass,
    Learner,
    copy_to_cpu,
    new_model,
    reading_scores,
    share_correct,
)
from attnviz.learning.lookup import task_of
from attnviz.learning.names import TASKS
from attnviz.learning.progress import Answer, OptimizerState, Progress
from attnviz.learning.progress import Moment as Moment
from attnviz.learning.task import Examples, Task, draw_examples
from attnviz.machine import memory
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.model import Model
from attnviz.traces.result import Showable
from attnviz.traces.settings import FEED_FORWARD_FACTOR, Settings, chosen_variant, head_width
from attnviz.wording.commands import shell_quoted
from attnviz.wording.words import counted

HELD_OUT_SENTENCES = 128  # sentences that the accuracy is measured on, if there are so many
MAX_STEPS_BETWEEN_MOMENTS = 10  # steps, once there have been many
MOMENT_INTERVAL_DIVISOR = 8  # a look follows after an eighth of the steps that there were

# What ended it: the accuracy that was wanted, the last step, Ctrl-C, or a loss that is no number.
EndReason = Literal["accuracy", "steps", "interrupted", "nan"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Learned(Showable):
    """A model that learned, and how it came to it."""

    task: Task
    asked: Mapping[str, str]  # where it is from, as options of the command line
    settings: Settings
    choices: Choices  # as they turned out: no None
    watched: Tokens
    model: Model
    moments: tuple[Moment, ...]  # the first before any step
    held_out: int  # sentences that accuracy and scores are measured on
    ended: EndReason


@contextmanager
def single_threaded() -> Iterator[None]:
    """Models so small are learned fastest by one thread, whatever else the processors do.

    Sums are then added up in the same order, however many processors there are.
    """
    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)


class Training:
    """A model while it learns: `for moment in training: …`, then `training.learned()`."""

    def __init__(
        self,
        task: Task,
        settings: Settings | None = None,
        choices: Choices | None = None,
        watch: str | None = None,
        since: Progress | None = None,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        self.task = task
        self.asked = asked or {"task": task.name}
        self.settings = settings or task.settings
        self.choices = complete_choices(task, choices or Choices())
        self.watched = watched_tokens(task, self.settings, watch)
        training.refuse_training_memory(task, self.settings, self.choices)
        self.device = training_device(self.settings)
        model = new_model(task, self.settings) if since is None else since.model
        self.model = model.like(torch.empty(0, device=self.device))
        self._learner = Learner(self.model, self.choices.rate or 0)
        self._batches = Batches(task, self.settings.seed, self.choices.batch or 1)
        self.moments: list[Moment] = []
        self.ended: EndReason = "interrupted"
        self.stopped: Callable[[], bool] = lambda: False  # asked before every step
        self.step = 0
        self.seconds = 0.0
        self._last_good_model = self.model
        self._held_out = draw_examples(
            task, self.settings.seed, HELD_OUT_SENTENCES, held_out=True
        ).on(self.device)
        self._optimizer_state: OptimizerState = {}
        if since is not None:
            self._restore_progress(since)

    def __iter__(self) -> Iterator[Moment]:
        """Each moment at which there is something new to look at, the first before any step."""
        losses: list[float] = []
        if not self.moments:
            yield self._measure_moment(
                [self._learner.losses(self._batches.batch_of_step(0).on(self.device)).item()]
            )
        while not self.is_last(self.moments[-1]):
            if self.stopped():
                return  # as it was at the last moment: what it learned since is learned again
            started = time.perf_counter()
            losses.append(self._learn())
            self.seconds += time.perf_counter() - started
            if not np.isfinite(losses[-1]):
                self.ended = "nan"
                return
            if self._is_moment_due():
                moment = self._measure_moment(losses)
                losses = []
                yield moment
        self.ended = self._end_reason

    def is_last(self, moment: Moment) -> bool:
        """Whether nothing follows this moment."""
        is_accurate = moment.accuracy >= (self.choices.until or 0)
        return is_accurate or moment.step >= (self.choices.steps or 0)

    @property
    def _end_reason(self) -> EndReason:
        """What ends it where nothing breaks it off."""
        is_accurate = self.moments[-1].accuracy >= (self.choices.until or 0)
        return "accuracy" if is_accurate else "steps"

    @property
    def done(self) -> bool:
        """Whether there is nothing left to learn."""
        return bool(self.moments) and self.is_last(self.moments[-1])

    @property
    def variant(self) -> Variant:
        """How the model attends."""
        return self._learner.plan.variant

    def learned(self) -> Learned:
        """What was learned so far."""
        return Learned(
            task=self.task,
            asked=self.asked,
            settings=self.settings,
            choices=self.choices,
            watched=self.watched,
            model=self._model_with_facts,
            moments=tuple(self.moments),
            held_out=len(self._held_out.ids),
            ended=self.ended,
        )

    def progress(self) -> Progress:
        """How far it has come, for files."""
        return Progress(
            asked=self.asked,
            source="" if self.asked.get("task") in TASKS else self.task.source,
            watch=self.watched.text,
            choices=self.choices,
            model=self._model_with_facts,
            optimizer=self._optimizer_state,
            moments=tuple(self.moments),
        )

    @property
    def _model_with_facts(self) -> Model:
        """The last good model, with what it says of itself."""
        return add_training_facts(self._last_good_model, self.task, self.moments[-1].step)

    def _restore_progress(self, progress: Progress) -> None:
        self.moments = [*progress.moments]
        self.step, self.seconds = self.moments[-1].step, self.moments[-1].seconds
        self._optimizer_state = progress.optimizer
        self._learner.restore_optimizer(progress.optimizer)
        if self.done:
            self.ended = self._end_reason

    def _learn(self) -> float:
        with single_threaded():
            loss = self._learner.learn(self._batches.batch_of_step(self.step).on(self.device))
        self.step += 1
        return loss.item()

    def _is_moment_due(self) -> bool:
        return (
            self.step == next_moment_step(self.moments[-1].step) or self.step == self.choices.steps
        )

    @torch.no_grad()
    @single_threaded()
    def _measure_moment(self, losses: list[float]) -> Moment:
        passed = self._learner.run(self._held_out.ids)
        watched_pass = self._learner.run(torch.tensor(self.watched.ids, device=self.device))
        moment = Moment(
            step=self.step,
            seconds=self.seconds,
            loss=float(np.mean(losses)),
            accuracy=share_correct(passed, self._held_out).item(),
            scores=reading_scores(passed, self._held_out),
            answers=self._answers(watched_pass),
            weights=tuple(
                copy_to_cpu(layer.attended.weights).numpy() for layer in watched_pass.layers
            ),
        )
        self.moments.append(moment)
        self._last_good_model = copy_model(self.model)
        self._optimizer_state = self._learner.optimizer_state
        return moment

    def _answers(self, watched_pass: ForwardPass) -> tuple[Answer, ...]:
        """What is answered at the blanks of the sentence that is watched."""
        words = self.task.vocabulary
        likely = watched_pass.logits.softmax(-1)
        return tuple(
            Answer(
                position,
                words.answers[int(likely[position].argmax())],
                float(likely[position].max()),
            )
            for position in words.blanks(self.watched.ids)
        )


def training_device(settings: Settings) -> torch.device:
    """Where it is learned: models so small are fastest where nothing has to be copied."""
    if settings.device == "auto":
        return torch.device("cpu")
    return devices.choose_device(settings.device, settings.dtype)


def watched_tokens(task: Task, settings: Settings, text: str | None) -> Tokens:
    """The sentence that is drawn: one's own, or the task's."""
    if text is not None and not text.strip():
        raise AttnvizError(
            "there is no word in the sentence to watch",
            f"give one, or leave it out: --watch {shell_quoted(task.watch)}",
            about="watch",
        )
    tokens = task.vocabulary.cut(task.watch if text is None else text)
    if settings.positions == "learned" and len(tokens) > task.longest:
        raise AttnvizError(
            f"the sentence to watch has {counted(len(tokens), 'token')}, but the model only "
            f"learns positions for {task.longest}",
            "give a shorter one, or positions that are not learned: --positions rotary",
            about="watch",
        )
    return tokens


def next_moment_step(step: int) -> int:
    """When there is something new to see: at first after every step, then less and less often."""
    return step + min(MAX_STEPS_BETWEEN_MOMENTS, 1 + step // MOMENT_INTERVAL_DIVISOR)


def copy_model(model: Model) -> Model:
    """The model as it is now, whatever becomes of its parameters."""
    return model.with_parameters(
        {name: copy_to_cpu(parameter) for name, parameter in model.parameters.items()}
    )


def complete_choices(task: Task, choices: Choices) -> Choices:
    """With the task's own where nobody chose."""
    chosen_values = {name: getattr(choices, name) for name in ("steps", "until", "batch", "rate")}
    return Choices(
        **{
            name: getattr(task, name) if value is None else value
            for name, value in chosen_values.items()
        }
    )


def learn(
    task: Task | str,
    settings: Settings | None = None,
    choices: Choices | None = None,
    watch: str | None = None,
) -> Learned:
    """A task, or one by its name, learned to its end.

    >>> from attnviz import Choices, learn
    >>> learned = learn("sort", choices=Choices(steps=5))
    >>> learned.moments[-1].step, learned.model.name
    (5, 'sort')
    """
    chosen_task = task if isinstance(task, Task) else task_of(task)
    training = Training(chosen_task, settings, choices, watch)
    for _ in training:
        pass
    return training.learned()


SENTENCES_PER_DRAW = 4096  # sentences that are learned from before others are drawn


class Batches:
    """So many sentences for each step; which they are depends on the seed and the step alone."""

    def __init__(self, task: Task, seed: int, size: int) -> None:
        self._task, self._seed, self._size = task, seed, size
        self._steps = max(1, SENTENCES_PER_DRAW // size)
        self._number = -1

    def batch_of_step(self, step: int) -> Examples:
        """Those of a step, counted from 0."""
        number, batch_number = divmod(step, self._steps)
        if number != self._number:
            seed = self._seed * 1_000_003 + number
            self._drawn = draw_examples(self._task, seed, self._steps * self._size)
            self._number = number
        return self._drawn.part(slice(batch_number * self._size, (batch_number + 1) * self._size))


def stack_examples(examples_by_model: Sequence[Examples]) -> Examples:
    """As many sentences of each of several models, side by side."""
    readings = examples_by_model[0].readings
    return Examples(
        torch.stack([examples.ids for examples in examples_by_model]),
        torch.stack([examples.answers for examples in examples_by_model]),
        {
            name: torch.stack([examples.readings[name] for examples in examples_by_model])
            for name in readings
        },
    )


BYTES_PER_FLOAT32 = 4  # bytes
COPIES_PER_PARAMETER = (
    10  # itself, its gradient, what AdamW keeps of it, copies, and while it is drawn
)
COPIES_PER_WEIGHT = 8  # scores, scaled, masked, shares, and the gradients of these
COPIES_PER_VECTOR = (
    24  # what a layer makes of a token, each as wide as its vector, and the gradients
)
COPIES_PER_INNER_VECTOR = 6  # the same, as wide as feed-forward


def refuse_training_memory(task: Task, settings: Settings, choices: Choices) -> None:
    """Stop before memory is filled."""
    sentences = max(choices.batch or task.batch, 1)
    needed_bytes = BYTES_PER_FLOAT32 * (
        COPIES_PER_PARAMETER * parameter_count(task, settings)
        + sentences * _numbers_per_sentence(task.longest, settings)
    )
    memory.refuse_too_little_memory(
        needed_bytes,
        f"learning {task.name} with these settings",
        "learn from fewer sentences at once (--batch), or a smaller model (--dim, --layers)",
    )


def parameter_count(task: Task, settings: Settings) -> int:
    """How many numbers are learned, but for those of norms and biases, which are few."""
    variant, dim = chosen_variant(settings), settings.width
    width = head_width(settings, variant, dim)
    groups = variant.kv_heads or variant.heads
    attention_count = 2 * dim * width * (variant.heads + groups)
    feed_forward_count = 2 * dim * _feed_forward_width(settings) if settings.feeds else 0
    words = task.vocabulary
    vocabulary_rows = len(words.words) + len(words.answers) + task.longest
    return dim * vocabulary_rows + (settings.layers or 1) * (attention_count + feed_forward_count)


def _numbers_per_sentence(tokens: int, settings: Settings) -> int:
    """How many numbers there are at once on its way through the model, and back."""
    variant = chosen_variant(settings)
    heads_width = variant.heads * head_width(settings, variant, settings.width)
    inner_numbers = COPIES_PER_INNER_VECTOR * _feed_forward_width(settings) if settings.feeds else 0
    numbers_per_token = COPIES_PER_VECTOR * max(settings.width, heads_width) + inner_numbers
    weights = COPIES_PER_WEIGHT * variant.heads * tokens * tokens
    return (settings.layers or 1) * (weights + tokens * numbers_per_token)


def _feed_forward_width(settings: Settings) -> int:
    return settings.feed_forward or FEED_FORWARD_FACTOR * settings.width
