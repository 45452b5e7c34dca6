"""learn(): trains a model step by step; its batches, and the memory it needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from attnviz.attention import devices
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError, opt
from attnviz.learning import learner
from attnviz.learning.choices import ChoiceKeywords, Choices
from attnviz.learning.lookup import task_of
from attnviz.learning.progress import Answer, Moment, OptimizerState, Progress
from attnviz.learning.task import Examples, Task, draw_examples
from attnviz.learning.task_names import TASKS
from attnviz.learning.training_facts import add_training_facts
from attnviz.machine import memory
from attnviz.options.option import shared
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.model import Model
from attnviz.traces.result import Showable
from attnviz.traces.settings import Settings, chosen_variant, head_width
from attnviz.wording.commands import shell_quote
from attnviz.wording.keywords import replace_choices, with_checked_arguments
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

HELD_OUT_SENTENCES = 128  # sentences that accuracy is measured on, if there are so many
MAX_KEPT_PARAMETERS = 30_000  # of a model, at every moment
MAX_STEPS_BETWEEN_MOMENTS = 10
MOMENT_INTERVAL_DIVISOR = 8  # the next moment comes after an eighth of the steps so far
SENTENCES_PER_DRAW = 4096
BYTES_PER_FLOAT32 = 4
# How many copies of such an array there are at once during training.
COPIES_PER_PARAMETER = 10  # itself, gradient, AdamW's state, copies, and while it is drawn
COPIES_PER_WEIGHT = 8  # scores, scaled, masked, weights, and their gradients
COPIES_PER_VECTOR = 24  # a layer's activations as wide as the vectors, and their gradients
COPIES_PER_INNER_VECTOR = 6  # activations as wide as the feed-forward layer

# Why it ended: the target accuracy, the last step, Ctrl-C, or a loss of NaN or infinity.
EndReason = Literal["accuracy", "steps", "interrupted", "nan"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Learned(Showable):
    """A trained model and the history of its training."""

    task: Task
    asked: Mapping[str, str]  # the request for the task: {"task": NAME}
    settings: Settings
    choices: Choices  # complete: no field is None
    watched: Tokens
    model: Model
    moments: tuple[Moment, ...]  # the first before any step
    held_out: int  # the number of sentences that accuracy and scores are measured on
    ended: EndReason


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run torch in one thread: fastest for small models, and sums have the same order anywhere."""
    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)


class Training:
    """A model in training: `for moment in training: …`, then `training.learned()`.

    `since` continues a saved training, `watch` is the sentence whose attention is recorded (the
    task's by default), and `asked` the request that the task came from.
    """

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
        refuse_training_memory(task, self.settings, self.choices)
        self.device = training_device(self.settings)
        model = learner.new_model(task, self.settings) if since is None else since.model
        self.model = model.like(torch.empty(0, device=self.device))
        self._learner = learner.Learner(self.model, self.choices.rate or 0)
        self._batches = Batches(task, self.settings.seed, self.choices.batch or 1)
        self.moments: list[Moment] = []
        self.ended: EndReason = "interrupted"
        self.stopped: Callable[[], bool] = lambda: False  # called before every step
        self.step = 0
        self.seconds = 0.0
        self._last_good_model = self.model
        held_out = draw_examples(task, self.settings.seed, HELD_OUT_SENTENCES, held_out=True)
        self._held_out = held_out.on(self.device)
        self._optimizer_state: OptimizerState = {}
        if since is not None:
            self._restore_progress(since)

    def __iter__(self) -> Iterator[Moment]:
        """Train, and yield the moments when the model is measured, the first before any step.

        Ends at the target accuracy, after the last step, when `stopped()` is true, or with a loss
        of NaN or infinity.
        """
        losses: list[float] = []
        if not self.moments:
            first_batch = self._batches.batch_of_step(0).on(self.device)
            yield self._measure_moment([self._learner.losses(first_batch).item()])
        while not self.is_last(self.moments[-1]):
            if self.stopped():
                return  # the steps since the last moment are lost, and repeated when it continues
            started = time.perf_counter()
            losses.append(self._learn())
            self.seconds += time.perf_counter() - started
            if not np.isfinite(losses[-1]):
                self.ended = "nan"
                return
            if self.step in (next_moment_step(self.moments[-1].step), self.choices.steps):
                moment = self._measure_moment(losses)
                losses = []
                yield moment
        self.ended = self._end_reason

    def is_last(self, moment: Moment) -> bool:
        is_accurate = moment.accuracy >= (self.choices.until or 0)
        return is_accurate or moment.step >= (self.choices.steps or 0)

    @property
    def _end_reason(self) -> EndReason:
        is_accurate = self.moments[-1].accuracy >= (self.choices.until or 0)
        return "accuracy" if is_accurate else "steps"

    @property
    def done(self) -> bool:
        return bool(self.moments) and self.is_last(self.moments[-1])

    @property
    def variant(self) -> Variant:
        return self._learner.plan.variant

    def learned(self) -> Learned:
        """Return the result of the training so far, with the model of the last moment."""
        return shared(
            self,
            Learned,
            model=self._model_with_facts,
            moments=tuple(self.moments),
            held_out=len(self._held_out.ids),
        )

    def progress(self) -> Progress:
        """Return the state of the training at its last moment, for saving."""
        return shared(
            self,
            Progress,
            source="" if self.asked.get("task") in TASKS else self.task.source,
            watch=self.watched.text,
            model=self._model_with_facts,
            optimizer=self._optimizer_state,
            moments=tuple(self.moments),
        )

    @property
    def _model_with_facts(self) -> Model:
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

    @torch.no_grad()
    @single_threaded()
    def _measure_moment(self, losses: list[float]) -> Moment:
        """Measure the model, append the moment to `moments` and return it; its loss is the mean of
        `losses`. Also keeps a copy of the model and of the optimizer's state."""
        passed = self._learner.run(self._held_out.ids)
        watched_pass = self._learner.run(torch.tensor(self.watched.ids, device=self.device))
        model = copy_model(self.model)
        count = sum(parameter.numel() for parameter in model.parameters.values())
        moment = Moment(
            step=self.step,
            seconds=self.seconds,
            loss=float(np.mean(losses)),
            accuracy=learner.share_correct(passed, self._held_out).item(),
            scores=learner.reading_scores(passed, self._held_out),
            answers=self._answers(watched_pass),
            weights=tuple(
                learner.copy_to_cpu(layer.attended.weights).numpy() for layer in watched_pass.layers
            ),
            parameters={name: each.numpy() for name, each in model.parameters.items()}
            if count <= MAX_KEPT_PARAMETERS
            else None,
        )
        self.moments.append(moment)
        self._last_good_model = model
        self._optimizer_state = self._learner.optimizer_state
        return moment

    def _answers(self, watched_pass: learner.ForwardPass) -> tuple[Answer, ...]:
        words, shares = self.task.vocabulary, watched_pass.logits.softmax(-1)
        return tuple(
            Answer(index, words.answers[int(shares[index].argmax())], float(shares[index].max()))
            for index in words.blanks(self.watched.ids)
        )


def training_device(settings: Settings) -> torch.device:
    """Return the device to train on; "auto" is the CPU, which is fastest for such small models."""
    if settings.device == "auto":
        return torch.device("cpu")
    return devices.choose_device(settings.device, settings.dtype)


def watched_tokens(task: Task, settings: Settings, text: str | None) -> Tokens:
    """Return the tokens of the sentence to watch: of the user's `text`, or for None of the task's
    sentence. Refuses an empty text, unknown words, and more tokens than learned positions."""
    if text is not None and not text.strip():
        raise AttnvizError(
            "there is no word in the sentence to watch",
            f"give one, or leave it out: {opt.watch:{shell_quote(task.watch)}}",
            about="watch",
        )
    tokens = task.vocabulary.cut(task.watch if text is None else text)
    if settings.positions == "learned" and len(tokens) > task.longest:
        raise AttnvizError(
            f"the sentence to watch has {counted(len(tokens), 'token')}, but the model only "
            f"learns positions for {task.longest}",
            f"give a shorter one, or positions that are not learned: {opt.positions:rotary}",
            about="watch",
        )
    return tokens


def next_moment_step(step: int) -> int:
    """Return the step of the next moment: at first after every step, then at growing intervals."""
    return step + min(MAX_STEPS_BETWEEN_MOMENTS, 1 + step // MOMENT_INTERVAL_DIVISOR)


def copy_model(model: Model) -> Model:
    """Return a copy of the model on the CPU, whose parameters further training does not change."""
    copies = {name: learner.copy_to_cpu(parameter) for name, parameter in model.parameters.items()}
    return model.with_parameters(copies)


def complete_choices(task: Task, choices: Choices) -> Choices:
    own = {name: getattr(task, name) for name in ("steps", "until", "batch", "rate")}
    return Choices(**own | {name: each for name, each in vars(choices).items() if each is not None})


@with_checked_arguments
def learn(
    task: Task | str,
    settings: Settings | None = None,
    choices: Choices | None = None,
    watch: str | None = None,
    **changes: Unpack[ChoiceKeywords],
) -> Learned:
    """Train a model on a task, or on the task with this name, and return the result.

    Training ends when the model is accurate, or after the last step. `settings` and `choices`
    default to those of the task, and `watch` to the sentence of the task whose attention is
    recorded; keywords replace fields of the choices. Refuses a training that needs more memory
    than there is.

    >>> from attnviz import learn
    >>> learned = learn("sort", steps=5)
    >>> learned.moments[-1].step, learned.model.name
    (5, 'sort')
    """
    task = task if isinstance(task, Task) else task_of(task)
    training = Training(task, settings, replace_choices(choices or Choices(), changes), watch)
    for _ in training:
        pass
    return training.learned()


class Batches:
    """The sentences for each training step, which depend on the seed and the step alone."""

    def __init__(self, task: Task, seed: int, size: int) -> None:
        self._task, self._seed, self._size = task, seed, size
        self._steps = max(1, SENTENCES_PER_DRAW // size)
        self._number = -1

    def batch_of_step(self, step: int) -> Examples:
        """Return the sentences to train on in a step, counted from 0; any step can be read at any
        time."""
        number, batch_number = divmod(step, self._steps)
        if number != self._number:
            seed = self._seed * 1_000_003 + number
            self._drawn = draw_examples(self._task, seed, self._steps * self._size)
            self._number = number
        return self._drawn.part(slice(batch_number * self._size, (batch_number + 1) * self._size))


def stack_examples(examples_by_model: Sequence[Examples]) -> Examples:
    """Return the examples of several models as one, with a first axis of models."""
    readings = [examples.readings for examples in examples_by_model]
    return Examples(
        torch.stack([examples.ids for examples in examples_by_model]),
        torch.stack([examples.answers for examples in examples_by_model]),
        {name: torch.stack([by_name[name] for by_name in readings]) for name in readings[0]},
    )


def refuse_training_memory(task: Task, settings: Settings, choices: Choices) -> None:
    """Refuse a training that by estimate needs more memory than there is."""
    sentences = max(choices.batch or task.batch, 1)
    needed_bytes = BYTES_PER_FLOAT32 * (
        COPIES_PER_PARAMETER * parameter_count(task, settings)
        + sentences * _numbers_per_sentence(task.longest, settings)
    )
    memory.refuse_too_little_memory(
        needed_bytes,
        f"learning {task.name} with these settings",
        f"learn from fewer sentences at once ({opt.batch}), or a smaller model ({opt.dim}, "
        f"{opt.layers})",
    )


def parameter_count(task: Task, settings: Settings) -> int:
    """Return the number of the model's parameters, leaving out the few of norms and biases."""
    variant, dim = chosen_variant(settings), settings.width
    width = head_width(settings, variant, dim)
    groups = variant.kv_heads or variant.heads
    attention_count = 2 * dim * width * (variant.heads + groups)
    feed_forward_count = 2 * dim * settings.hidden_width if settings.has_feed_forward else 0
    words = task.vocabulary
    vocabulary_rows = len(words.words) + len(words.answers) + task.longest
    return dim * vocabulary_rows + (settings.layers or 1) * (attention_count + feed_forward_count)


def _numbers_per_sentence(tokens: int, settings: Settings) -> int:
    """Return the estimated number of activations and gradients in memory at once for one
    sentence."""
    variant = chosen_variant(settings)
    heads_width = variant.heads * head_width(settings, variant, settings.width)
    inner_numbers = (
        COPIES_PER_INNER_VECTOR * settings.hidden_width if settings.has_feed_forward else 0
    )
    numbers_per_token = COPIES_PER_VECTOR * max(settings.width, heads_width) + inner_numbers
    weights = COPIES_PER_WEIGHT * variant.heads * tokens * tokens
    return (settings.layers or 1) * (weights + tokens * numbers_per_token)
