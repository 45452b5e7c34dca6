"""Numbers, in order: a head that finds the next larger one."""

from __future__ import annotations

import torch

from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

NUMBERS = tuple(map(str, range(1, 31)))
ARROW = "→"
FEWEST, MOST = 3, 8
LONGEST = 2 * MOST + 1


def draw(seed, count, held_out):
    g = torch.Generator().manual_seed(2 * seed + held_out)
    drawn = torch.rand(count, len(NUMBERS), generator=g).argsort(1)[:, :MOST]
    many = torch.randint(FEWEST, MOST + 1, (count, 1), generator=g)
    place = torch.arange(MOST)
    there = place < many
    beyond = len(NUMBERS) + 1
    masked = drawn.where(there, torch.full_like(drawn, beyond))
    ordered, where = masked.sort(1)
    # layout: numbers [0, n), arrow n, ordered n+1 .. 2n
    pos = torch.arange(LONGEST).expand(count, LONGEST)
    ids = torch.zeros(count, LONGEST, dtype=torch.long)
    after = (pos - many - 1).clamp(0, MOST - 1)
    ids = torch.where(pos < many, drawn.gather(1, pos.clamp(max=MOST - 1)), ids)
    ids = torch.where(pos == many, torch.full_like(ids, len(NUMBERS)), ids)
    ids = torch.where((pos > many) & (pos <= 2 * many), ordered.gather(1, after), ids)
    nxt = (pos - many).clamp(0, MOST - 1)
    asked = (pos >= many) & (pos < 2 * many)
    none = torch.full_like(ids, NOTHING)
    answers = torch.where(asked, ordered.gather(1, nxt), none)
    reads = torch.where(asked, where.gather(1, nxt), none)
    return Examples(ids, answers, {"next larger": reads})


task = Task(
    name="sort",
    about="",
    teaches="",
    asked="number",
    vocabulary=Vocabulary(
        tokenizer="words", words=(*NUMBERS, ARROW), answers=NUMBERS, predicts="next", asks=ARROW
    ),
    draw=draw,
    readings=(Reading("next larger", "reads the next larger number"),),
    watch="5 2 8 1 → 1 2 5 8",
    settings=Settings(variant="causal", dim=32, layers=1, norm="pre", attention_only=True),
    longest=LONGEST,
    steps=1000,
    batch=64,
    rate=0.01,
    seconds=5,
)
