"""Eight letters, backwards: the smallest task that attention is made for."""

from __future__ import annotations

import torch

from attnviz.learning import drawing
from attnviz.learning.drawing import Rows
from attnviz.learning.task import Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

LETTERS = tuple("abcdefghij")
LENGTH = 8


def draw(seed: int, count: int, held_out: bool) -> Examples:
    """Letters at random, any of them as often as it comes."""
    ids = drawing.rows(_letters, seed, count, held_out)
    opposite = torch.arange(LENGTH - 1, -1, -1).expand(count, LENGTH)
    return Examples(ids, ids.flip(1), {"opposite": opposite})


def _letters(random: torch.Generator, count: int) -> Rows:
    return torch.randint(len(LETTERS), (count, LENGTH), generator=random)


task = Task(
    name="reverse",
    about="eight letters, backwards",
    teaches="every place reads the opposite one: the heatmap is an anti-diagonal",
    asked="letter",
    vocabulary=Vocabulary(tokenizer="words", words=LETTERS, answers=LETTERS, predicts="here"),
    draw=draw,
    readings=(Reading("opposite", "reads the opposite letter"),),
    watch="a b c d e f g h",
    settings=Settings(
        variant="scaled", dim=32, layers=1, norm="pre", positions="learned", attention_only=True
    ),
    longest=LENGTH,
    steps=400,
    batch=64,
    rate=0.01,
    seconds=1,
)
