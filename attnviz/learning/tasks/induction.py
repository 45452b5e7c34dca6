"""A row of letters, twice: two layers, of which one looks back and the other makes use of it."""

from __future__ import annotations

from functools import partial

import torch

from attnviz.learning import drawing
from attnviz.learning.drawing import Rows
from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
FEWEST, MOST = 4, 12  # letters, before they come again
LONGEST = 2 * MOST


def draw(seed: int, count: int, held_out: bool) -> Examples:
    """Different letters, and the same once more; how many there are, no place can know."""
    letters = partial(drawing.distinct, symbols=len(LETTERS), fewest=FEWEST, most=MOST)
    return examples(drawing.rows(letters, seed, count, held_out))


def examples(letters: Rows) -> Examples:
    """The second time each letter but the last is asked for the one after it."""
    many = (letters != NOTHING).sum(1, keepdim=True)
    place = torch.arange(LONGEST).expand(len(letters), LONGEST)
    there = place < 2 * many
    asked = (place >= many) & (place + 1 < 2 * many)
    return Examples(
        letters.gather(1, place % many).where(there, 0),
        letters.gather(1, (place + 1) % many).where(asked, NOTHING),
        {
            "previous token": (place - 1).where(there, NOTHING),  # the first has none: -1
            "what followed": (place + 1 - many).where(asked, NOTHING),
        },
    )


task = Task(
    name="induction",
    about="a row of letters, twice",
    teaches="one head reads the previous letter; above it others read what followed the same "
    "letter",
    asked="letter",
    vocabulary=Vocabulary(tokenizer="chars", words=LETTERS, answers=LETTERS, predicts="next"),
    draw=draw,
    readings=(
        Reading("previous token", "reads the previous letter"),
        Reading("what followed", "reads what followed the same letter before"),
    ),
    watch="maplemaple",
    settings=Settings(
        variant="multi-head",
        dim=64,
        heads=4,
        layers=2,
        norm="pre",
        positions="rotary",
        attention_only=True,
    ),
    longest=LONGEST,
    steps=1000,
    rate=0.01,
    seconds=3,
)
