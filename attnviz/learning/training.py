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
from attnviz.learning.facts import with_facts
from attnviz.learning.learner import Learner, Passed, accuracies_of, apart, fresh, scores_of_heads
from attnviz.learning.lookup import task_of
from attnviz.learning.names import TASKS
from attnviz.learning.progress import Answer, Kept, Progress
from attnviz.learning.progress import Moment as Moment
from attnviz.learning.task import Examples, Task, examples_of
from attnviz.machine import memory
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.model import Model
from attnviz.traces.result import Showable
from attnviz.traces.settings import FEED_FORWARD, Settings, chosen_variant, head_width
from attnviz.wording.commands import quoted
from attnviz.wording.words import counted

HELD_OUT = 128  # sentences that the accuracy is measured on, if there are so many
BETWEEN_LOOKS = 10  # steps, once there have been many
LOOKS_GROW = 8  # a look follows after an eighth of the steps that there were

# What ended it: the accuracy that was wanted, the last step, Ctrl-C, or a loss that is no number.
Ended = Literal["accuracy", "steps", "interrupted", "nan"]


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
    ended: Ended


@contextmanager
def one_thread() -> Iterator[None]:
    """Models so small are learned fastest by one thread, whatever else the processors do.

    Sums are then added up in the same order, however many processors there are.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
        self.choices = decided(task, choices or Choices())
        self.watched = watched_in(task, self.settings, watch)
        training.refuse_too_much(task, self.settings, self.choices)
        self.device = device_of(self.settings)
        model = fresh(task, self.settings) if since is None else since.model
        self.model = model.like(torch.empty(0, device=self.device))
        self._learner = Learner(self.model, self.choices.rate or 0)
        self._batches = Batches(task, self.settings.seed, self.choices.batch or 1)
        self.moments: list[Moment] = []
        self.ended: Ended = "interrupted"
        self.stopped: Callable[[], bool] = lambda: False  # asked before every step
        self.step = 0
        self.seconds = 0.0
        self._good = self.model
        self._held_out = examples_of(task, self.settings.seed, HELD_OUT, held_out=True).on(
            self.device
        )
        self._kept_by_optimizer: Kept = {}
        if since is not None:
            self._go_on(since)

    def __iter__(self) -> Iterator[Moment]:
        """Each moment at which there is something new to look at, the first before any step."""
        losses: list[float] = []
        if not self.moments:
            yield self._look([self._learner.losses(self._batches.at(0).on(self.device)).item()])
        while not self.is_last(self.moments[-1]):
            if self.stopped():
                return  # as it was at the last moment: what it learned since is learned again
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
        self.ended = self._last_word

    def is_last(self, moment: Moment) -> bool:
        """Whether nothing follows this moment."""
        enough = moment.accuracy >= (self.choices.until or 0)
        return enough or moment.step >= (self.choices.steps or 0)

    @property
    def _last_word(self) -> Ended:
        """What ends it where nothing breaks it off."""
        right = self.moments[-1].accuracy >= (self.choices.until or 0)
        return "accuracy" if right else "steps"

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
            model=self._told,
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
            model=self._told,
            optimizer=self._kept_by_optimizer,
            moments=tuple(self.moments),
        )

    @property
    def _told(self) -> Model:
        """The last good model, with what it says of itself."""
        return with_facts(self._good, self.task, self.moments[-1].step)

    def _go_on(self, since: Progress) -> None:
        self.moments = [*since.moments]
        self.step, self.seconds = self.moments[-1].step, self.moments[-1].seconds
        self._kept_by_optimizer = since.optimizer
        self._learner.go_on(since.optimizer)
        if self.done:
            self.ended = self._last_word

    def _learn(self) -> float:
        with one_thread():
            loss = self._learner.learn(self._batches.at(self.step).on(self.device))
        self.step += 1
        return loss.item()

    def _is_time_to_look(self) -> bool:
        return self.step == next_look(self.moments[-1].step) or self.step == self.choices.steps

    @torch.no_grad()
    @one_thread()
    def _look(self, losses: list[float]) -> Moment:
        passed = self._learner.through(self._held_out.ids)
        watched = self._learner.through(torch.tensor(self.watched.ids, device=self.device))
        moment = Moment(
            step=self.step,
            seconds=self.seconds,
            loss=float(np.mean(losses)),
            accuracy=accuracies_of(passed, self._held_out).item(),
            scores=scores_of_heads(passed, self._held_out),
            answers=self._answers(watched),
            weights=tuple(apart(layer.attended.weights).numpy() for layer in watched.layers),
        )
        self.moments.append(moment)
        self._good = kept(self.model)
        self._kept_by_optimizer = self._learner.kept
        return moment

    def _answers(self, watched: Passed) -> tuple[Answer, ...]:
        """What is answered at the blanks of the sentence that is watched."""
        words = self.task.vocabulary
        likely = watched.logits.softmax(-1)
        return tuple(
            Answer(place, words.answers[int(likely[place].argmax())], float(likely[place].max()))
            for place in words.blanks(self.watched.ids)
        )


def device_of(settings: Settings) -> torch.device:
    """Where it is learned: models so small are fastest where nothing has to be copied."""
    if settings.device == "auto":
        return torch.device("cpu")
    return devices.choose(settings.device, settings.dtype)


def watched_in(task: Task, settings: Settings, text: str | None) -> Tokens:
    """The sentence that is drawn: one's own, or the task's."""
    if text is not None and not text.strip():
        raise AttnvizError(
            "there is no word in the sentence to watch",
            f"give one, or leave it out: --watch {quoted(task.watch)}",
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


def next_look(step: int) -> int:
    """When there is something new to see: at first after every step, then less and less often."""
    return step + min(BETWEEN_LOOKS, 1 + step // LOOKS_GROW)


def kept(model: Model) -> Model:
    """The model as it is now, whatever becomes of its parameters."""
    return model.with_parameters({name: apart(each) for name, each in model.parameters.items()})


def decided(task: Task, choices: Choices) -> Choices:
    """With the task's own where nobody chose."""
    named = {name: getattr(choices, name) for name in ("steps", "until", "batch", "rate")}
    return Choices(
        **{name: getattr(task, name) if each is None else each for name, each in named.items()}
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
    chosen = task if isinstance(task, Task) else task_of(task)
    training = Training(chosen, settings, choices, watch)
    for _ in training:
        pass
    return training.learned()


DRAWN_AT_ONCE = 4096  # sentences that are learned from before others are drawn


class Batches:
    """So many sentences for each step; which they are depends on the seed and the step alone."""

    def __init__(self, task: Task, seed: int, size: int) -> None:
        self._task, self._seed, self._size = task, seed, size
        self._steps = max(1, DRAWN_AT_ONCE // size)
        self._number = -1

    def at(self, step: int) -> Examples:
        """Those of a step, counted from 0."""
        number, place = divmod(step, self._steps)
        if number != self._number:
            seed = self._seed * 1_000_003 + number
            self._drawn = examples_of(self._task, seed, self._steps * self._size)
            self._number = number
        return self._drawn.part(slice(place * self._size, (place + 1) * self._size))


def stacked(several: Sequence[Examples]) -> Examples:
    """As many sentences of each of several models, side by side."""
    readings = several[0].readings
    return Examples(
        torch.stack([each.ids for each in several]),
        torch.stack([each.answers for each in several]),
        {name: torch.stack([each.readings[name] for each in several]) for name in readings},
    )


NUMBER = 4  # bytes
OF_A_PARAMETER = 10  # itself, its gradient, what AdamW keeps of it, copies, and while it is drawn
OF_A_WEIGHT = 8  # scores, scaled, masked, shares, and the gradients of these
OF_A_VECTOR = 24  # what a layer makes of a token, each as wide as its vector, and the gradients
OF_THE_INSIDE = 6  # the same, as wide as feed-forward


def refuse_too_much(task: Task, settings: Settings, choices: Choices) -> None:
    """Stop before memory is filled."""
    sentences = max(choices.batch or task.batch, 1)
    needed = NUMBER * (
        OF_A_PARAMETER * parameters(task, settings)
        + sentences * _of_a_sentence(task.longest, settings)
    )
    memory.refuse_more(
        needed,
        f"learning {task.name} with these settings",
        "learn from fewer sentences at once (--batch), or a smaller model (--dim, --layers)",
    )


def parameters(task: Task, settings: Settings) -> int:
    """How many numbers are learned, but for those of norms and biases, which are few."""
    variant, dim = chosen_variant(settings), settings.width
    width = head_width(settings, variant, dim)
    groups = variant.kv_heads or variant.heads
    of_attention = 2 * dim * width * (variant.heads + groups)
    of_feed_forward = 2 * dim * _inside(settings) if settings.feeds else 0
    words = task.vocabulary
    read = len(words.words) + len(words.answers) + task.longest
    return dim * read + (settings.layers or 1) * (of_attention + of_feed_forward)


def _of_a_sentence(tokens: int, settings: Settings) -> int:
    """How many numbers there are at once on its way through the model, and back."""
    variant = chosen_variant(settings)
    of_heads = variant.heads * head_width(settings, variant, settings.width)
    inside = OF_THE_INSIDE * _inside(settings) if settings.feeds else 0
    of_a_token = OF_A_VECTOR * max(settings.width, of_heads) + inside
    weights = OF_A_WEIGHT * variant.heads * tokens * tokens
    return (settings.layers or 1) * (weights + tokens * of_a_token)


def _inside(settings: Settings) -> int:
    return settings.feed_forward or FEED_FORWARD * settings.width
