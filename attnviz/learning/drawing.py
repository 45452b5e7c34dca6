"""Rows of symbols at random; some are held out, by what stands in them, and never learned from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnviz.learning.task import NOTHING

Rows = Int[Tensor, "row symbol"]
HELD_OUT = 8  # one row of so many
PRIME = 2**31 - 1
FACTOR = 1_000_003


def rows(
    draw: Callable[[torch.Generator, int], Rows],
    seed: int,
    count: int,
    held_out: bool,
    same: Callable[[Rows], Rows] = lambda drawn: drawn,
) -> Rows:
    """As many as are wanted of those that are held out, or of the others.

    Rows that `same` makes equal are held out together: the same numbers in another order.
    """
    random = torch.Generator().manual_seed(seed)
    found: list[Rows] = []
    while sum(map(len, found)) < count:
        drawn = draw(random, count * HELD_OUT if held_out else count + count // HELD_OUT)
        found.append(drawn[are_held_out(same(drawn)) == held_out])
    return torch.cat(found)[:count]


def are_held_out(drawn: Rows) -> Bool[Tensor, "row"]:
    """Which rows are: a number is made of all that stands in each, and one in eight has it."""
    number = torch.zeros(len(drawn), dtype=torch.long)
    for symbols in drawn.unbind(1):
        number = (number * FACTOR + symbols + 1) % PRIME
    return number % HELD_OUT == 0


def distinct(random: torch.Generator, count: int, symbols: int, fewest: int, most: int) -> Rows:
    """Rows of different symbols, some longer and some shorter; NOTHING follows those."""
    drawn = torch.rand(count, symbols, generator=random).argsort(1)[:, :most]
    many = torch.randint(fewest, most + 1, (count, 1), generator=random)
    return drawn.where(torch.arange(most) < many, NOTHING)
