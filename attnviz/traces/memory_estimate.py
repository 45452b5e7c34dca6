"""The memory that a plan takes, calculated before anything is computed.

Counted are all numbers that a Trace keeps, what is needed meanwhile (a mask, a softmax, matrices
that are drawn in float64), and the copies that showing and exporting make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from attnviz.attention import devices
from attnviz.attention.arithmetic import NUMBERS_AT_ONCE
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.plan import Plan
from attnviz.wording.words import counted

STEPS = 3  # scores, scaled scores and weights are kept,
COPIES = 2  # masking and softmax make a copy each,
FLOAT = 4  # bytes
SHOWN = 1  # byte for each cell of a head: whether it is hidden
DRAWN = 8  # bytes of a number that is drawn
SHOWING = 8  # bytes for each cell of what is on its way to a screen, a picture or a file
WALKED = 44  # bytes for each cell of a head: what the steps show beside what is kept
COMPARED = 32  # the same of a way that is compared: differences, and measures in float64
MOST_TOKENS = 10**9


@dataclass(frozen=True)
class Counts:
    """How many tokens read, and are read; and how wide their vectors are."""

    tokens: int
    keys: int
    memory: int  # tokens of a second sentence
    dim: int

    def of(self, tokens: int) -> Counts:
        """Of so many tokens, which read themselves."""
        return Counts(tokens, tokens, self.memory, self.dim)


@dataclass(frozen=True)
class Need:
    """Bytes that a Trace keeps, and those that are needed until it is there, and shown."""

    kept: int
    meanwhile: int

    @property
    def whole(self) -> int:
        return self.kept + self.meanwhile


def need_of(plan: Plan, counts: Counts, dtype: torch.dtype, *, by_row: bool = False) -> Need:
    """What a plan takes for so many tokens; less, if weights may be worked out `by_row`."""
    layers, heads = plan.settings.layers or 1, plan.variant.heads
    cells = counts.tokens * (counts.keys + counts.memory)
    matrices = _matrices(plan, counts.dim)
    vectors = _vectors(plan, counts)
    if by_row and plan.by_row(
        heads * counts.tokens * min(counts.keys, counts.memory or counts.keys)
    ):
        drawn = 2 * DRAWN * max([*matrices, counts.tokens * counts.dim])
        kept = layers * ((sum(matrices) + vectors) * dtype.itemsize + cells)
        return Need(kept, COPIES * cells + drawn)
    numbers = heads * cells * _steps(plan) + sum(matrices) + vectors
    exported = 4 if dtype is torch.bfloat16 else 0  # which NumPy has not: it gets a copy
    dropped = plan.variant.dropout > 0
    of_a_cell = 2 * DRAWN if dropped else COPIES * dtype.itemsize
    return Need(
        kept=layers * (numbers * (dtype.itemsize + exported) + cells * (1 + heads * SHOWN)),
        meanwhile=cells * (heads * of_a_cell + SHOWING)
        + _added(plan, counts) * dtype.itemsize
        + 2 * DRAWN * max([*matrices, counts.tokens * counts.dim]),
    )


def refuse_too_much(plan: Plan, counts: Counts, dtype: torch.dtype, device: torch.device) -> None:
    """Stop before memory is filled."""
    free = devices.free_memory(device)
    needed = need_of(plan, counts, dtype, by_row=True).whole
    if free is None or needed <= free:
        return
    fitting = longest(
        lambda tokens: need_of(plan, counts.of(tokens), dtype, by_row=True).whole, free
    )
    cells = plan.variant.heads * (plan.settings.layers or 1) * counts.tokens * counts.keys
    raise AttnvizError(
        f"{counted(counts.tokens, 'token')} make {cells:,} weights; all steps together take "
        f"{memory.size(needed)}, and {device} has {memory.size(free)} free",
        f"give at most about {fitting:,} tokens, fewer heads, or --dtype bfloat16"
        if fitting
        else "try a smaller --dim, --head-dim or --feed-forward",
    )


def refuse_ways(needs: Sequence[Need], cells: Sequence[int], tokens: int) -> None:
    """Stop before all ways of attending that are compared fill memory; each has cells of heads."""
    free = memory.free()
    most = max(each.meanwhile for each in needs)
    needed = sum(each.kept for each in needs) + most + COMPARED * sum(cells)
    if free is None or needed <= free:
        return
    raise AttnvizError(
        f"{len(needs)} ways of attending to {counted(tokens, 'token')} take {memory.size(needed)} "
        f"side by side, and there are {memory.size(free)} free",
        f"give at most about {int(tokens * (free / needed) ** 0.5):,} tokens, or fewer --values",
    )


def refuse_steps(cells: int, by_row: int) -> None:
    """Stop before the steps of a Trace fill memory, whose heads have so many cells.

    Of those that are worked out `by_row` there are no matrices yet, and steps ask for them.
    """
    free, needed = memory.free(), WALKED * cells + STEPS * FLOAT * by_row
    if free is not None and needed > free:
        raise AttnvizError(
            f"every number of the steps takes {memory.size(needed)}, and there are "
            f"{memory.size(free)} free",
            "give fewer tokens, or use attnviz run",
        )


def longest(needed: Callable[[int], int], free: int) -> int:
    """The largest number of tokens that there is room for.

    >>> longest(lambda tokens: 10 * tokens**2, 1000)
    10
    """
    fits, beyond = 0, MOST_TOKENS
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        fits, beyond = (middle, beyond) if needed(middle) <= free else (fits, middle)
    return fits


def _steps(plan: Plan) -> int:
    """How many numbers are kept of each cell of a head."""
    capped, given = plan.variant.soft_cap is not None, plan.matrices
    mixed = plan.variant.dropout > 0 or given.weights is not None
    return STEPS + mixed + capped + (given.mask is not None) + (plan.settings.positions == "alibi")


def _added(plan: Plan, counts: Counts) -> int:
    """How many numbers additive scores need at once, before they are added up: sums and tanh."""
    if not plan.variant.additive:
        return 0
    of_a_query = plan.variant.heads * counts.keys * (plan.width or 1)
    return 2 * max(NUMBERS_AT_ONCE, of_a_query) + plan.variant.heads * counts.tokens * counts.keys


def _matrices(plan: Plan, dim: int) -> list[int]:
    """How many numbers each matrix of a layer has."""
    heads, settings = plan.variant.heads, plan.settings
    made = heads * (2 * (plan.width or 0) + plan.value_width) if plan.variant.projected else 0
    joined = heads * plan.value_width if plan.variant.joined else 0
    attentions = 2 if settings.memory is not None else 1
    wide = plan.hidden_width(dim) if settings.feeds else 0
    return [dim * made, dim * joined] * attentions + [dim * wide] * 2


def _vectors(plan: Plan, counts: Counts) -> int:
    """How many numbers the vectors of a layer have."""
    heads, settings, dim = plan.variant.heads, plan.settings, counts.dim
    width = heads * (plan.width or 0) * (2 if settings.positions == "rotary" else 1)
    of_a_query = width + heads * plan.value_width + 2 * dim
    of_a_key = width + heads * plan.value_width + dim
    sublayers = settings.blocks + (settings.memory is not None) + settings.feeds
    wide = plan.hidden_width(dim) if settings.feeds else 0
    read = counts.keys + counts.memory
    return counts.tokens * (of_a_query + 5 * sublayers * dim + 2 * wide) + read * of_a_key
