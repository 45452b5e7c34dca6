"""A row of letters, twice: induction."""

from __future__ import annotations

import torch

from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
FEWEST, MOST = 4, 12
LONGEST = 2 * MOST


def draw(seed, count, held_out):
    g = torch.Generator().manual_seed(2 * seed + held_out)
    drawn = torch.rand(count, len(LETTERS), generator=g).argsort(1)[:, :MOST]
    many = torch.randint(FEWEST, MOST + 1, (count, 1), generator=g)
    pos = torch.arange(LONGEST).expand(count, LONGEST)
    none = torch.full_like(pos, NOTHING)
    there = pos < 2 * many
    ids = torch.where(there, drawn.gather(1, pos % many), 0)
    asked = (pos >= many) & (pos < 2 * many - 1)
    answers = torch.where(asked, drawn.gather(1, (pos + 1) % many), none)
    after = torch.where(asked, pos - many + 1, none)
    previous = torch.where(there & (pos > 0), pos - 1, none)
    return Examples(ids, answers, {"previous token": previous, "what followed": after})


task = Task(
    name="induction",
    about="",
    teaches="",
    asked="letter",
    vocabulary=Vocabulary(tokenizer="words", words=LETTERS, answers=LETTERS, predicts="next"),
    draw=draw,
    readings=(
        Reading("previous token", "reads the token before it"),
        Reading("what followed", "reads what followed the same letter before"),
    ),
    watch="k d w a p k d w a p",
    settings=Settings(
        variant="multi-head",
        heads=4,
        dim=64,
        layers=2,
        norm="pre",
        attention_only=True,
        positions="learned",
    ),
    longest=LONGEST,
    steps=3000,
    batch=64,
    rate=0.003,
    seconds=20,
)
