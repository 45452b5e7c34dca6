"""A Task: what there is to learn, in words and examples, and what its heads should come to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

NO_TOKEN = -1  # in place of an answer where none is asked for, and of a token to be read


@dataclass(frozen=True, eq=False)
class Examples:
    """Sentences as ids, with the answers that are asked for; shorter ones are filled up behind.

    `readings` say, of each thing that a head may come to do, which token a token reads then.

    >>> from attnviz import task_of
    >>> task_of("sort").draw(1, 3, False).part(slice(2)).ids.shape  # seed, how many, held out
    torch.Size([2, 13])
    """

    ids: Int[Tensor, "sentence token"]
    answers: Int[Tensor, "sentence token"]  # NOTHING where nothing is asked
    readings: Mapping[str, Int[Tensor, "sentence token"]]  # NOTHING where there is none to read

    def part(self, rows: slice) -> Examples:
        """Some of the sentences."""
        readings = {name: reading[rows] for name, reading in self.readings.items()}
        return Examples(self.ids[rows], self.answers[rows], readings)

    def on(self, device: torch.device) -> Examples:
        """The same where a model learns from them."""
        readings = {name: reading.to(device) for name, reading in self.readings.items()}
        return Examples(self.ids.to(device), self.answers.to(device), readings)


@dataclass(frozen=True)
class Reading:
    """Something that a head may come to do, which `Examples.readings` has under the same name.

    >>> from attnviz import Reading
    >>> Reading("subject", "reads the subject").does
    'reads the subject'
    """

    name: str  # "subject": over a column of scores
    does: str  # "reads the subject": what is said of the head that does it


# Sentences out of a seed: so many; of those that are learned from, or of those that are held out,
# of which there may be fewer.
DrawExamples = Callable[[int, int, bool], Examples]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What there is to learn. The settings are those of the model that learns it well.

    >>> from attnviz import task_of
    >>> task_of("agreement").watch, task_of("agreement").settings.heads
    ('the old keys near the small cabinet are', 2)
    """

    name: str
    about: str  # what is done, in one sentence
    teaches: str  # what is to be seen
    asked: str  # what is counted by the accuracy: "verb", in "every verb is right"
    vocabulary: Vocabulary
    draw: DrawExamples  # (seed, count, held_out)
    readings: tuple[Reading, ...]
    watch: str  # the sentence that is drawn
    settings: Settings
    longest: int  # the most tokens of a sentence
    steps: int = 1000
    until: float = 0.999  # this accuracy ends it
    batch: int = 64
    rate: float = 0.003
    seconds: float = 10.0  # about how long it takes, on two cores
    source: str = ""  # the grammar, or the lines, that it was read from


def draw_examples(task: Task, seed: int, count: int, *, held_out: bool = False) -> Examples:
    """Sentences of a task, each seed others; what is held out is never learned from."""
    return task.draw(seed, count, held_out)
