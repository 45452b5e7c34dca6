"""Task: what a model learns, its examples, and what its heads should attend to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings
from attnviz.wording.keywords import built_by, with_checked_fields
from attnviz.wording.words import with_summary

NO_TOKEN = -1  # no answer is asked for here, or there is no token to attend to
TWO_LAYERS = Settings(  # of most tasks
    variant="multi-head", dim=32, heads=2, layers=2, norm="pre", positions="learned"
)


@built_by('task_of("reverse").draw(1, 64, False)')
@dataclass(frozen=True, eq=False)
class Examples:
    """Sentences as token ids with the answers wanted; shorter sentences are padded at the end.

    `readings`: for each thing that a head may learn, the position that each token then attends to.

    >>> from attnviz.learning.lookup import task_of
    >>> task_of("sort").draw(1, 3, False).part(slice(2)).ids.shape  # seed, how many, held out
    torch.Size([2, 13])
    """

    ids: Int[Tensor, "sentence token"]
    answers: Int[Tensor, "sentence token"]  # NO_TOKEN where nothing is asked
    readings: Mapping[str, Int[Tensor, "sentence token"]]  # or NO_TOKEN

    def part(self, rows: slice) -> Examples:
        """Return the examples of some of the sentences, with their answers and readings."""
        readings = {name: reading[rows] for name, reading in self.readings.items()}
        return Examples(self.ids[rows], self.answers[rows], readings)

    def on(self, device: torch.device) -> Examples:
        """Return the examples with all tensors on a device."""
        readings = {name: reading.to(device) for name, reading in self.readings.items()}
        return Examples(self.ids.to(device), self.answers.to(device), readings)


@with_checked_fields
@dataclass(frozen=True)
class Reading:
    """Something that a head may learn, with the name it has in `Examples.readings`.

    >>> Reading("subject", "reads the subject").does
    'reads the subject'
    """

    name: str  # "subject": the title of a column of scores
    does: str  # "reads the subject": describes a head that does it


# Draws `count` sentences with a seed; there may be fewer held-out ones. (seed, count, held_out)
DrawExamples = Callable[[int, int, bool], Examples]


@with_summary
@with_checked_fields
@dataclass(frozen=True, kw_only=True)
class Task:
    """What a model learns, with the settings of a model that learns it well.

    >>> from attnviz.learning.lookup import task_of
    >>> task_of("agreement").watch, task_of("agreement").settings.heads
    ('the old keys near the small cabinet are', 2)
    """

    name: str
    about: str  # the task in one sentence
    teaches: str  # what the heatmap then shows
    answer_noun: str  # what the accuracy counts: "verb", in "every verb is right"
    vocabulary: Vocabulary
    draw: DrawExamples
    readings: tuple[Reading, ...]
    watch: str  # the sentence whose attention is shown during training
    settings: Settings
    longest: int  # the most tokens of a sentence
    steps: int = 1000
    until: float = 0.999  # this accuracy ends training
    batch: int = 64
    rate: float = 0.003
    seconds: float = 10.0  # the approximate training time on two cores
    source: str = ""  # the text of the grammar or lines that it was read from


def draw_examples(task: Task, seed: int, count: int, *, held_out: bool = False) -> Examples:
    """Draw `count` sentences of a task with a seed; held-out ones are never trained on.

    There may be fewer held-out sentences than `count`.
    """
    return task.draw(seed, count, held_out)
