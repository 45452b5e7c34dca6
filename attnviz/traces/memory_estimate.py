"""The memory that a plan takes, calculated before anything is computed.

Counted are all numbers that a Trace keeps, what is needed meanwhile (a mask, a softmax, matrices
that are drawn in float64), and the copies that showing and exporting make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from attnviz.attention import devices
from attnviz.attention.arithmetic import ADDITIVE_NUMBERS_AT_ONCE
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.plan import Plan
from attnviz.wording.words import counted

STAGES_KEPT_PER_CELL = 3  # scores, scaled scores and weights are kept,
TEMPORARY_COPIES = 2  # masking and softmax make a copy each,
FLOAT32_BYTES = 4  # bytes
HIDDEN_FLAG_BYTES = 1  # byte for each cell of a head: whether it is hidden
DRAWN_NUMBER_BYTES = 8  # bytes of a number that is drawn
OUTPUT_CELL_BYTES = 8  # bytes for each cell of what is on its way to a screen, a picture or a file
STEPS_CELL_BYTES = 44  # bytes for each cell of a head: what the steps show beside what is kept
COMPARISON_CELL_BYTES = (
    32  # the same of a way that is compared: differences, and measures in float64
)
MAX_TOKENS = 10**9


@dataclass(frozen=True)
class TraceSizes:
    """How many tokens read, and are read; and how wide their vectors are."""

    tokens: int
    keys: int
    memory: int  # tokens of a second sentence
    dim: int

    def with_tokens(self, tokens: int) -> TraceSizes:
        """Of so many tokens, which read themselves."""
        return TraceSizes(tokens, tokens, self.memory, self.dim)


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a Trace keeps, and those that are needed until it is there, and shown."""

    kept_bytes: int
    temporary_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.kept_bytes + self.temporary_bytes


def estimate_memory(
    plan: Plan, counts: TraceSizes, dtype: torch.dtype, *, by_row: bool = False
) -> MemoryEstimate:
    """What a plan takes for so many tokens; less, if weights may be worked out `by_row`."""
    layers, heads = plan.settings.layers or 1, plan.variant.heads
    cells = counts.tokens * (counts.keys + counts.memory)
    matrices = _matrix_sizes(plan, counts.dim)
    vectors = _vector_numbers(plan, counts)
    if by_row and plan.computes_by_row(
        heads * counts.tokens * min(counts.keys, counts.memory or counts.keys)
    ):
        drawing_bytes = 2 * DRAWN_NUMBER_BYTES * max([*matrices, counts.tokens * counts.dim])
        stored_bytes = layers * ((sum(matrices) + vectors) * dtype.itemsize + cells)
        return MemoryEstimate(stored_bytes, TEMPORARY_COPIES * cells + drawing_bytes)
    numbers = heads * cells * _numbers_per_cell(plan) + sum(matrices) + vectors
    export_bytes = 4 if dtype is torch.bfloat16 else 0  # which NumPy has not: it gets a copy
    has_dropout = plan.variant.dropout > 0
    cell_bytes = 2 * DRAWN_NUMBER_BYTES if has_dropout else TEMPORARY_COPIES * dtype.itemsize
    return MemoryEstimate(
        kept_bytes=layers
        * (numbers * (dtype.itemsize + export_bytes) + cells * (1 + heads * HIDDEN_FLAG_BYTES)),
        temporary_bytes=cells * (heads * cell_bytes + OUTPUT_CELL_BYTES)
        + _additive_score_numbers(plan, counts) * dtype.itemsize
        + 2 * DRAWN_NUMBER_BYTES * max([*matrices, counts.tokens * counts.dim]),
    )


def refuse_oversized_trace(
    plan: Plan, counts: TraceSizes, dtype: torch.dtype, device: torch.device
) -> None:
    """Stop before memory is filled."""
    free = devices.free_memory(device)
    needed_bytes = estimate_memory(plan, counts, dtype, by_row=True).total_bytes
    if free is None or needed_bytes <= free:
        return
    fitting_tokens = max_fitting_tokens(
        lambda tokens: (
            estimate_memory(plan, counts.with_tokens(tokens), dtype, by_row=True).total_bytes
        ),
        free,
    )
    cells = plan.variant.heads * (plan.settings.layers or 1) * counts.tokens * counts.keys
    raise AttnvizError(
        f"{counted(counts.tokens, 'token')} make {cells:,} weights; all steps together take "
        f"{memory.format_size(needed_bytes)}, and {device} has {memory.format_size(free)} free",
        f"give at most about {fitting_tokens:,} tokens, fewer heads, or --dtype bfloat16"
        if fitting_tokens
        else "try a smaller --dim, --head-dim or --feed-forward",
    )


def refuse_oversized_comparison(
    estimates: Sequence[MemoryEstimate], cells: Sequence[int], tokens: int
) -> None:
    """Stop before all ways of attending that are compared fill memory; each has cells of heads."""
    free = memory.free_bytes()
    largest_temporary = max(estimate.temporary_bytes for estimate in estimates)
    needed_bytes = (
        sum(estimate.kept_bytes for estimate in estimates)
        + largest_temporary
        + COMPARISON_CELL_BYTES * sum(cells)
    )
    if free is None or needed_bytes <= free:
        return
    raise AttnvizError(
        f"{len(estimates)} ways of attending to {counted(tokens, 'token')} take {memory.format_size(needed_bytes)} "
        f"side by side, and there are {memory.format_size(free)} free",
        f"give at most about {int(tokens * (free / needed_bytes) ** 0.5):,} tokens, or fewer --values",
    )


def refuse_oversized_steps(cells: int, row_wise_cells: int) -> None:
    """Stop before the steps of a Trace fill memory, whose heads have so many cells.

    Of those that are worked out `row_wise_cells` there are no matrices yet, and steps ask for them.
    """
    free, needed_bytes = (
        memory.free_bytes(),
        STEPS_CELL_BYTES * cells + STAGES_KEPT_PER_CELL * FLOAT32_BYTES * row_wise_cells,
    )
    if free is not None and needed_bytes > free:
        raise AttnvizError(
            f"every number of the steps takes {memory.format_size(needed_bytes)}, and there are "
            f"{memory.format_size(free)} free",
            "give fewer tokens, or use attnviz run",
        )


def max_fitting_tokens(bytes_needed: Callable[[int], int], free: int) -> int:
    """The largest number of tokens that there is room for.

    >>> max_fitting_tokens(lambda tokens: 10 * tokens**2, 1000)
    10
    """
    fits, beyond = 0, MAX_TOKENS
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        fits, beyond = (middle, beyond) if bytes_needed(middle) <= free else (fits, middle)
    return fits


def _numbers_per_cell(plan: Plan) -> int:
    """How many numbers are kept of each cell of a head."""
    has_soft_cap, matrices = plan.variant.soft_cap is not None, plan.matrices
    has_other_mixture = plan.variant.dropout > 0 or matrices.weights is not None
    return (
        STAGES_KEPT_PER_CELL
        + has_other_mixture
        + has_soft_cap
        + (matrices.mask is not None)
        + (plan.settings.positions == "alibi")
    )


def _additive_score_numbers(plan: Plan, counts: TraceSizes) -> int:
    """How many numbers additive scores need at once, before they are added up: sums and tanh."""
    if not plan.variant.additive:
        return 0
    query_numbers = plan.variant.heads * counts.keys * (plan.width or 1)
    return (
        2 * max(ADDITIVE_NUMBERS_AT_ONCE, query_numbers)
        + plan.variant.heads * counts.tokens * counts.keys
    )


def _matrix_sizes(plan: Plan, dim: int) -> list[int]:
    """How many numbers each matrix of a layer has."""
    heads, settings = plan.variant.heads, plan.settings
    projected_width = (
        heads * (2 * (plan.width or 0) + plan.value_width) if plan.variant.projected else 0
    )
    joined_width = heads * plan.value_width if plan.variant.joined else 0
    attentions = 2 if settings.memory is not None else 1
    hidden_width = plan.hidden_width(dim) if settings.feeds else 0
    return [dim * projected_width, dim * joined_width] * attentions + [dim * hidden_width] * 2


def _vector_numbers(plan: Plan, counts: TraceSizes) -> int:
    """How many numbers the vectors of a layer have."""
    heads, settings, dim = plan.variant.heads, plan.settings, counts.dim
    width = heads * (plan.width or 0) * (2 if settings.positions == "rotary" else 1)
    query_numbers = width + heads * plan.value_width + 2 * dim
    key_numbers = width + heads * plan.value_width + dim
    sublayers = settings.blocks + (settings.memory is not None) + settings.feeds
    hidden_width = plan.hidden_width(dim) if settings.feeds else 0
    read_tokens = counts.keys + counts.memory
    return (
        counts.tokens * (query_numbers + 5 * sublayers * dim + 2 * hidden_width)
        + read_tokens * key_numbers
    )
