"""Brackets of four kinds, one in another: a closing one has to find the one that it closes."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.learning import drawing
from attnviz.learning.drawing import Rows
from attnviz.learning.task import NOTHING, Examples, Reading, Task
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

OPENING, CLOSING = tuple("([{<"), tuple(")]}>")
CLOSES = len(OPENING)  # the id of every closing bracket: which one it is, is what is asked
ASKS = "?"
FEWEST, MOST = 2, 8  # pairs
LONGEST = 2 * MOST
GOES_ON = 0.7


def draw(seed: int, count: int, held_out: bool) -> Examples:
    """Brackets that close what was opened last: one in another, and one behind the other."""
    return examples(drawing.rows(_brackets, seed, count, held_out))


def _brackets(random: torch.Generator, count: int) -> Rows:
    """Ids, with NOTHING behind the last pair. Seven of ten open, or close, as the one before did.

    By a coin six of ten would close the bracket just before them, and little would be to find.
    """
    left = 2 * torch.randint(FEWEST, MOST + 1, (count,), generator=random)
    kinds = torch.randint(CLOSES, (count, LONGEST), generator=random)
    goes_on = torch.rand(count, LONGEST, generator=random) < GOES_ON
    depth, found = torch.zeros_like(left), torch.full((count, LONGEST), NOTHING)
    opens = torch.ones(count, dtype=torch.bool)
    for place in range(LONGEST):
        opens = (opens == goes_on[:, place]) | (depth == 0)
        opens &= depth < left  # as many are left as have to be closed
        found[:, place] = kinds[:, place].where(opens, CLOSES).where(left > 0, NOTHING)
        depth += torch.where(opens, 1, -1)
        left -= 1
    return found


def examples(brackets: Rows) -> Examples:
    """A closing bracket is asked for its kind: that of the last one that is still open."""
    opened = _opened(brackets)
    closes = brackets == CLOSES
    return Examples(
        brackets.clamp(min=0),
        brackets.gather(1, opened).where(closes, NOTHING),
        {"its opening": opened.where(closes, NOTHING)},
    )


def _opened(brackets: Rows) -> Int[Tensor, "row symbol"]:
    """Where the bracket stands that each closes: the last before it that is as deep inside."""
    closes: Bool[Tensor, "row symbol"] = brackets == CLOSES
    opens = (brackets != CLOSES) & (brackets != NOTHING)
    depth = opens.long().cumsum(1) - closes.long().cumsum(1) + closes.long()
    place = torch.arange(brackets.shape[1])
    may = opens[:, None, :] & (depth[:, None, :] == depth[:, :, None])
    before = may & (place[None, :] < place[:, None])
    return torch.where(before, place, 0).amax(-1)


task = Task(
    name="brackets",
    about="nested brackets of four kinds",
    teaches="a closing bracket reads the one that it closes",
    asked="closing bracket",
    vocabulary=Vocabulary(
        tokenizer="words",
        words=(*OPENING, ASKS),
        answers=CLOSING,
        predicts="here",
        spelled=dict.fromkeys(CLOSING, ASKS),
        asks=ASKS,
    ),
    draw=draw,
    readings=(Reading("its opening", "reads the bracket that it closes"),),
    watch="([]{<>})",
    settings=Settings(
        variant="multi-head", dim=32, heads=2, layers=2, norm="pre", positions="learned"
    ),
    longest=LONGEST,
    steps=4000,
    rate=0.005,
    seconds=5,
)
