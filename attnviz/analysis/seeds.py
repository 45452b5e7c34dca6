"""Many seeds at once: their scores, worked out together, in groups that memory has room for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention import devices
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import placed
from attnviz.traces.layers import Scored, score
from attnviz.traces.plan import Plan, planned
from attnviz.traces.settings import refuse_odd_rotary
from attnviz.traces.source import Source, embed
from attnviz.vectors.drawn import Seeds

NUMBERS_AT_ONCE = 2**20  # of one projection: memory that is used again and not asked for anew
CELLS_AT_ONCE = 2**21  # of their scores, which are measured in float64
MOST_REPEATS = 100_000
MOST_NUMBERS = 10**11  # that are worked out for a comparison: half an hour of one core
MEASURING = 20  # numbers are drawn in the time in which one score is measured
BAND = (0.1, 0.9)  # between these quantiles lie 8 of 10 seeds

REPEATS = 20


@dataclass(frozen=True)
class Step:
    """A value, and the seeds that are drawn for it together."""

    place: int
    seeds: range


Track = Callable[[Sequence[Step]], Iterable[Step]]


def refuse_odd_repeats(repeats: int) -> None:
    if not 1 <= repeats <= MOST_REPEATS:
        problem = f"--repeats is {repeats}, and must be from 1 to {MOST_REPEATS:,}"
        raise AttnvizError(problem, f"try --repeats {min(max(repeats, 1), MOST_REPEATS)}")


def quantiles(numbers: Float[Tensor, "seed"]) -> tuple[float, float, float]:
    """The band that 8 of 10 seeds lie in, and their median between its ends."""
    low, middle, high = np.quantile(numbers.double().numpy(), [BAND[0], 0.5, BAND[1]]).tolist()
    return low, middle, high


def plan_of(source: Source, dim: int, seeds: Seeds | None = None) -> Plan:
    plan = planned(source.settings, source.matrices, dim, seeds=seeds)
    refuse_odd_rotary(source.settings, plan.width)
    return plan


def groups_of_seeds(plans: Sequence[Plan], tokens: Sequence[int], repeats: int) -> list[Step]:
    """Groups of seeds, as many together as keep projections and scores in bounds."""
    _refuse_endless(sum(map(_work, plans, tokens)), repeats)
    steps = []
    for place, (plan, count) in enumerate(zip(plans, tokens, strict=True)):
        first, last = plan.settings.seed, plan.settings.seed + repeats
        numbers = plan.settings.width * plan.variant.heads * (plan.width or 1)
        cells = plan.variant.heads * count**2
        together = max(1, min(NUMBERS_AT_ONCE // numbers, CELLS_AT_ONCE // cells))
        for start in range(first, last, together):
            steps.append(Step(place, range(start, min(start + together, last))))
    return steps


def _work(plan: Plan, tokens: int) -> int:
    """How many numbers are drawn for one seed; scores count as what is drawn meanwhile."""
    width, heads = plan.settings.width, plan.variant.heads
    drawn = width * (tokens + 2 * heads * (plan.width or 1))
    return drawn + MEASURING * heads * tokens**2


def _refuse_endless(work: int, repeats: int) -> None:
    """Stop before hours are spent."""
    if work * repeats > MOST_NUMBERS:
        fitting = MOST_NUMBERS // work
        raise AttnvizError(
            f"--repeats {repeats} takes as long as drawing {work * repeats:,} numbers; the limit "
            f"is {MOST_NUMBERS:,}",
            f"try --repeats {fitting}, fewer --values, or a shorter text"
            if fitting
            else "try fewer --values, or a shorter text",
        )


def scored(source: Source, tokens: Tokens, seeds: range) -> tuple[Plan, Scored]:
    """What is planned, and the scores of every seed, in float32."""
    settings = source.settings
    device = devices.choose(settings.device, settings.dtype)
    drawn = Seeds(tuple(seeds), several=True)
    vectors = embed(tokens, source, drawn).to(device, torch.float32)
    plan = plan_of(source, vectors.shape[-1], drawn)
    inputs = placed(vectors.expand(len(seeds), -1, -1), plan)
    return plan, score(plan, "", inputs, inputs, own=True)
