"""Nested brackets of several kinds: a closing one reads its opening one."""

from __future__ import annotations

import torch

from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

OPENING = tuple("([{<")
CLOSING = tuple(")]}>")
LONGEST = 16
FEWEST = 2


def draw(seed, count, held_out):
    g = torch.Generator().manual_seed(2 * seed + held_out)
    pairs = torch.randint(FEWEST, LONGEST // 2 + 1, (count,), generator=g)
    coin = torch.rand(count, LONGEST, generator=g)
    kinds = torch.randint(len(OPENING), (count, LONGEST), generator=g)
    ids = torch.zeros(count, LONGEST, dtype=torch.long)
    answers = torch.full_like(ids, NOTHING)
    reads = torch.full_like(ids, NOTHING)
    opening_at = torch.zeros(count, LONGEST + 1, dtype=torch.long)  # of each depth
    depth = torch.zeros(count, dtype=torch.long)
    opened = depth.clone()
    rows = torch.arange(count)
    for t in range(LONGEST):
        there = t < 2 * pairs
        left = 2 * pairs - t
        may_open = opened < pairs
        may_close = depth > 0
        # chance uniform over Dyck words: (d+2)(left-d)/(2 left (d+1)) hmm
        p = (depth + 2) * (left - depth) / (2 * left.clamp(min=1) * (depth + 1))
        opens = there & may_open & ((coin[:, t] < p) | ~may_close)
        closes = there & ~opens
        depth = depth + opens.long()
        opened += opens.long()
        opening_at[rows[opens], depth[opens]] = t
        ids[opens, t] = kinds[opens, t]
        ids[closes, t] = len(OPENING)
        at = opening_at[rows, depth]
        reads[closes, t] = at[closes]
        answers[closes, t] = ids[rows, at][closes]
        depth = depth - closes.long()
    return Examples(ids, answers, {"its opening": reads})


task = Task(
    name="brackets",
    about="",
    teaches="",
    asked="closing bracket",
    vocabulary=Vocabulary(
        tokenizer="words",
        words=(*OPENING, ")"),
        answers=CLOSING,
        predicts="here",
        spelled=dict.fromkeys(CLOSING[1:], ")"),
    ),
    draw=draw,
    readings=(Reading("its opening", "reads its opening bracket"),),
    watch="( [ ] { < > } )",
    settings=Settings(
        variant="multi-head", heads=2, dim=32, layers=2, norm="pre", positions="learned"
    ),
    longest=LONGEST,
    steps=3000,
    batch=64,
    rate=0.003,
    seconds=20,
)
