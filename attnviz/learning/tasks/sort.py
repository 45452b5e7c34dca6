"""Numbers, in order: a head finds the next larger one, wherever it stands."""

from __future__ import annotations

from functools import partial

import torch

from attnviz.learning import drawing
from attnviz.learning.drawing import Rows
from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

NUMBERS = tuple(map(str, range(1, 21)))
ARROW = "→"
FEWEST, MOST = 3, 6  # numbers to be sorted
LONGEST = 2 * MOST + 1


def draw(seed: int, count: int, held_out: bool) -> Examples:
    """Different numbers, an arrow, and the same in order: "5 2 8 1 → 1 2 5 8".

    Numbers that are held out are so in every order.
    """
    numbers = partial(drawing.distinct, symbols=len(NUMBERS), fewest=FEWEST, most=MOST)
    return examples(drawing.rows(numbers, seed, count, held_out, lambda each: each.sort(1).values))


def examples(numbers: Rows) -> Examples:
    """From the arrow on each place is asked for the next larger number, and has to find it."""
    many = (numbers != NOTHING).sum(1, keepdim=True)
    ordered, stand = numbers.where(numbers != NOTHING, len(NUMBERS)).sort(1)
    place = torch.arange(LONGEST).expand(len(numbers), LONGEST)
    after = place - many  # 0 at the arrow
    rank = after.clamp(0, MOST - 1)
    ids = numbers.gather(1, place.clamp(max=MOST - 1))
    ids = ids.where(after != 0, len(NUMBERS))
    ids = ids.where(after <= 0, ordered.gather(1, (after - 1).clamp(0, MOST - 1)))
    asked = (after >= 0) & (after < many)
    return Examples(
        ids.where(after <= many, 0),
        ordered.gather(1, rank).where(asked, NOTHING),
        {"next larger": stand.gather(1, rank).where(asked, NOTHING)},
    )


task = Task(
    name="sort",
    about="numbers from 1 to 20, in order",
    teaches="every number reads the next larger one, wherever it is",
    asked="number",
    vocabulary=Vocabulary(
        tokenizer="words",
        words=(*NUMBERS, ARROW),
        answers=NUMBERS,
        predicts="next",
        spelled={">": ARROW, ":": ARROW},
        asks=ARROW,
    ),
    draw=draw,
    readings=(Reading("next larger", "reads the next larger number"),),
    watch="5 2 8 1 → 1 2 5 8",
    settings=Settings(variant="causal", dim=32, layers=1, norm="pre", attention_only=True),
    longest=LONGEST,
    steps=1000,
    rate=0.005,
    seconds=1,
)
