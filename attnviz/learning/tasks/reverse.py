"""Eight letters, backwards: the smallest task that attention is made for."""

from __future__ import annotations

import torch

from attnviz.learning.task import Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

LETTERS = tuple("abcdefghij")
LENGTH = 8


def draw(seed: int, count: int, held_out: bool) -> Examples:
    """Letters at random; those held out are other rows of the same huge number of them."""
    generator = torch.Generator().manual_seed(2 * seed + held_out)
    ids = torch.randint(len(LETTERS), (count, LENGTH), generator=generator)
    opposite = torch.arange(LENGTH - 1, -1, -1).expand(count, LENGTH)
    return Examples(ids, ids.flip(1), {"opposite": opposite})


task = Task(
    name="reverse",
    about="eight letters, backwards",
    teaches="every place reads the one opposite: the heatmap is an anti-diagonal",
    asked="letter",
    vocabulary=Vocabulary(tokenizer="words", words=LETTERS, answers=LETTERS, predicts="here"),
    draw=draw,
    readings=(Reading("opposite", "reads the letter opposite"),),
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
