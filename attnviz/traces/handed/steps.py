"""Weights that a model handed back step by step, while it wrote: put together to one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError

Heads = Float[Tensor, "head query key"]
OF_BEAMS = "; if these are beams, give all outputs of generate(), which say how beams are reordered"
Steps = Sequence[Mapping[int, Float[Tensor, "item head query key"]]]


@dataclass(frozen=True)
class Chosen:
    """Which item of a batch it is, from 1, and of how many."""

    item: int = 1
    items: int = 1

    @property
    def place(self) -> int:
        return self.item - 1


def chosen(item: int | None, items: int, hint: str = "") -> Chosen:
    """The only item there is, or the one that is asked for."""
    if item is None and items > 1:
        raise AttnvizError(
            f"the weights are a batch of {items}, and only one item can be shown",
            f"give item=1 to item={items}{hint}",
            about="item",
        )
    if item is not None and not 1 <= item <= items:
        raise AttnvizError(
            f"item is {item}, but the batch has {items}",
            f"give item=1 to item={items}" if items > 1 else "leave item out",
            about="item",
        )  # fmt: skip
    return Chosen(item or 1, items)


def followed(steps: Steps, item: int | None, beams: Any) -> tuple[Chosen, list[int]]:
    """Which of a batch, and where in it that is at each step: beams change places as they go."""
    if beams is None:
        which = chosen(item, len(next(iter(steps[0].values()))), OF_BEAMS)
        return which, [which.place] * len(steps)
    which = chosen(item, len(beams))
    lines = [int(each) for each in beams[which.place]][: len(steps)]
    return which, [line for line in lines if line >= 0]  # below 0: it had come to its end


def stitched(parts: Sequence[Heads], *, across: bool) -> Heads:
    """A row for each token that was read, and 0 for keys that were not there yet.

    Each part has rows for the tokens that are new; without a cache, for those before, too.
    """
    if across:
        return torch.cat([*parts], dim=-2)
    done, rows = 0, []
    for step, part in enumerate(parts):
        count = part.shape[-2] - done if _starts_anew(part, done) else part.shape[-2]
        done += count
        rows.append(_on_the_left(part[:, -count:], done, step))
    found = torch.zeros(len(rows[0]), done, done, dtype=rows[0].dtype)
    first = 0
    for each in rows:
        last = first + each.shape[-2]
        found[:, first:last, :last] = each
        first = last
    return found


def _starts_anew(part: Heads, done: int) -> bool:
    """Whether it has rows for all tokens, as without a cache."""
    queries, keys = part.shape[-2:]
    return done > 0 and queries == keys and queries > done


def _on_the_left(part: Heads, done: int, step: int) -> Heads:
    """With a column for each token so far: a cache may have room for more, or for fewer."""
    keys = part.shape[-1]
    if keys < done:  # the first tokens have left a window
        return torch.nn.functional.pad(part, (done - keys, 0))
    if part[..., done:].any():
        raise AttnvizError(
            f"step {step} reads {keys} keys, but there are {done} tokens by then",
            "give keys, the tokens that are read, if these are not the ones that read",
            about="keys",
        )
    return part[..., :done]
