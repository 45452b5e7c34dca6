"""Estimates the memory that a plan takes, before anything is computed.

Counts all numbers that a Trace keeps, temporary ones (masks, softmax, matrices drawn in float64),
and the copies that rendering and exporting make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from attnviz.attention import devices
from attnviz.attention.arithmetic import ADDITIVE_NUMBERS_AT_ONCE
from attnviz.attention.long_attention import ROWS_AT_ONCE, ROWS_AT_ONCE_ELSEWHERE
from attnviz.attention.tiles import KEYS_PER_TILE, KEYS_PER_TILE_ELSEWHERE
from attnviz.errors import AttnvizError, warn_with_note
from attnviz.machine import memory
from attnviz.machine.memory import memory_budget
from attnviz.traces.plan import Plan
from attnviz.traces.settings import Settings
from attnviz.wording.surfaces import cmd, opt, phrase
from attnviz.wording.words import counted

# A cell is one pair of query and key in one head.
STAGES_KEPT_PER_CELL = 3  # scores, scaled scores and weights
TEMPORARY_COPIES = 2  # of masking and softmax
FLOAT32_BYTES = 4
HIDDEN_FLAG_BYTES = 1
DRAWN_NUMBER_BYTES = 8
NUMBERS_OF_TOKEN = 10  # that are measured of each token of a long text, in each head
OUTPUT_CELL_BYTES = 8  # on the way to a screen, a picture or a file
STEPS_CELL_BYTES = 44  # which the steps show beside what a Trace keeps
COMPARISON_CELL_BYTES = 32  # differences and measures, in float64
MAX_TOKENS = 10**9


@dataclass(frozen=True)
class TraceSizes:
    """The number of queries, keys and memory tokens, and the width of an embedding."""

    tokens: int
    keys: int
    memory: int  # tokens of a second sentence
    dim: int

    def with_tokens(self, tokens: int) -> TraceSizes:
        return TraceSizes(tokens, tokens, self.memory, self.dim)


@dataclass(frozen=True)
class MemoryEstimate:
    """The bytes that a Trace keeps, and those needed only to compute and to show it."""

    kept_bytes: int
    temporary_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.kept_bytes + self.temporary_bytes


def estimate_memory(
    plan: Plan, counts: TraceSizes, dtype: torch.dtype, *, streams: bool = False
) -> MemoryEstimate:
    """Return the bytes that the Trace of a plan takes, with copies for showing and exporting it.

    If it `streams` its weights, it keeps a map of blocks and some numbers for each token instead.
    """
    layers, heads = plan.settings.layers or 1, plan.variant.heads
    cells = 0 if streams else counts.tokens * (counts.keys + counts.memory)
    summaries = heads * (plan.settings.resolution**2 + NUMBERS_OF_TOKEN * counts.keys)
    matrices = _matrix_sizes(plan, counts.dim)
    vectors = _vector_numbers(plan, counts)
    drawing_bytes = 2 * DRAWN_NUMBER_BYTES * max([*matrices, counts.tokens * counts.dim])
    numbers = heads * cells * _numbers_per_cell(plan) + sum(matrices) + vectors
    export_bytes = FLOAT32_BYTES if dtype is torch.bfloat16 else 0  # NumPy has no bfloat16
    has_dropout = plan.variant.dropout > 0
    cell_bytes = 2 * DRAWN_NUMBER_BYTES if has_dropout else TEMPORARY_COPIES * dtype.itemsize
    return MemoryEstimate(
        kept_bytes=layers
        * (numbers * (dtype.itemsize + export_bytes) + cells * (1 + heads * HIDDEN_FLAG_BYTES))
        + streams * layers * summaries * DRAWN_NUMBER_BYTES,
        temporary_bytes=cells * (heads * cell_bytes + OUTPUT_CELL_BYTES)
        + _additive_score_numbers(plan, counts) * dtype.itemsize
        + drawing_bytes,
    )


def streams_weights(
    plan: Plan,
    counts: TraceSizes,
    dtype: torch.dtype,
    device: torch.device,
    *,
    needs_matrices: bool = False,
) -> bool:
    """Return whether the weights of a Trace are computed only where they are shown: if that is
    asked for, or they would take more than the memory budget.

    Refuses a Trace whose weights have to be in memory, and do not fit.
    """
    settings = plan.settings
    reason = "a comparison needs all of them at once" if needs_matrices else unstreamed_reason(plan)
    if settings.stream and reason:
        raise _unstreamed_error(reason)
    free = devices.free_memory(device)
    whole, streamed = (
        estimate_memory(plan, counts, dtype, streams=each).total_bytes for each in (False, True)
    )
    budget = memory_budget(settings.memory_budget, free)
    exceeds_budget = not reason and whole - streamed > budget
    streams = settings.stream or exceeds_budget
    if exceeds_budget and settings.memory_budget is not None:
        _refuse_budget_below_tile(settings.memory_budget, budget, counts, dtype, device)
    needed = streamed if streams else whole
    if free is None or needed <= free:
        if exceeds_budget and not settings.stream:
            warn_with_note(_streaming_note(counts, whole, settings.resolution))
        return streams
    fitting_tokens = max_fitting_tokens(
        lambda count: (
            estimate_memory(plan, counts.with_tokens(count), dtype, streams=streams).total_bytes
        ),
        free,
    )
    cells = plan.variant.heads * (plan.settings.layers or 1) * counts.tokens * counts.keys
    raise AttnvizError(
        f"{counted(counts.tokens, 'token')} make {cells:,} weights; all steps together take "
        f"{memory.format_size(needed)}, and {device} has {memory.format_size(free)} free",
        f"give at most about {fitting_tokens:,} tokens, fewer heads, or {opt.dtype:bfloat16}"
        if fitting_tokens
        else f"try a smaller {opt.dim}, {opt.head_dim} or {opt.feed_forward}",
    )


def _refuse_budget_below_tile(
    typed: str, budget: int, counts: TraceSizes, dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse a memory budget that has no room for the weights that are computed at once."""
    rows = min(ROWS_AT_ONCE.get(device.type, ROWS_AT_ONCE_ELSEWHERE), counts.tokens)
    keys = min(KEYS_PER_TILE.get(device.type, KEYS_PER_TILE_ELSEWHERE), counts.keys)
    least = rows * keys * max(dtype.itemsize, FLOAT32_BYTES)
    if budget < least:
        kilobytes = -(-least // memory.UNITS["KB"])
        raise AttnvizError(
            f"{opt.memory_budget:is {typed}}, and one tile of {rows} × {keys} weights takes "
            f"{kilobytes:,} KB",
            f"try {opt.memory_budget:{kilobytes}KB}, or more",
            about="memory_budget",
        )


def _unstreamed_error(reason: str) -> AttnvizError:
    """Return the error that --stream is given, and something needs all weights in memory."""
    streaming = phrase("streaming", f"{opt.stream} computes")
    return AttnvizError(
        f"{streaming} weights where they are shown, and {reason}",
        f"leave {opt.stream} out",
        about="stream",
    )


def _streaming_note(counts: TraceSizes, needed: int, resolution: int, least: str = "") -> str:
    """Return a note that weights are computed where they are shown, and what a block stands for,
    or `least` stands for where small maps are pooled further.
    """
    sides = (max(1, -(-count // resolution)) for count in (counts.tokens, counts.keys))
    return (
        f"all weights of {counts.tokens:,} tokens would take {memory.format_size(needed)}: they "
        "are computed only where they are shown, and a block of the map stands for "
        f"{least}{' × '.join(f'{side:,}' for side in sides)} tokens ({opt.memory_budget} keeps "
        "more of them)"
    )


@dataclass(frozen=True)
class TrainedSizes:
    """What the memory of a trained model's attention depends on."""

    layers: int  # that are kept
    heads: int  # of a layer
    queries: int
    keys: int
    token_numbers: int  # that a layer keeps of each token: its vectors


def trained_streaming_note(
    settings: Settings, sizes: TrainedSizes, dtype: torch.dtype, device: torch.device
) -> str | None:
    """Return a note that a trained model's weights are measured while it runs, and computed only
    where they are shown, as they would take more than the memory budget; empty if that is asked
    for, and None if it is not so.

    Refuses a text whose vectors do not fit.
    """
    free, heads = devices.free_memory(device), sizes.layers * sizes.heads
    whole = heads * sizes.queries * sizes.keys * FLOAT32_BYTES
    exceeds_budget = whole > memory_budget(settings.memory_budget, free)
    if not settings.stream and not exceeds_budget:
        return None
    tokens = max(sizes.queries, sizes.keys)
    token_bytes = sizes.layers * sizes.token_numbers * dtype.itemsize
    map_bytes = heads * min(settings.resolution, tokens) ** 2 * DRAWN_NUMBER_BYTES
    needed = tokens * token_bytes + map_bytes
    if free is not None and needed > free:
        fitting = max(0, free - map_bytes) // token_bytes
        raise AttnvizError(
            f"the vectors of {counted(tokens, 'token')} in {counted(sizes.layers, 'layer')} and "
            f"the maps of {counted(heads, 'head')} take {memory.format_size(needed)}, and {device} "
            f"has {memory.format_size(free)} free",
            f"give {f'at most about {fitting:,} tokens, or ' * bool(fitting)}one layer: "
            f"{opt.layer:0}",
        )
    if settings.stream:
        return ""
    counts = TraceSizes(sizes.queries, sizes.keys, 0, 0)
    return _streaming_note(counts, whole, settings.resolution, "at least ")


def unstreamed_reason(plan: Plan) -> str:
    """Return why a Trace needs all its weights in memory; empty if it does not."""
    reasons = {
        "the scores are given": plan.matrices.scores is not None,
        "a mask of numbers is given": plan.matrices.mask is not None,
        "the weights are given": plan.matrices.weights is not None,
        "dropout needs all of them at once": plan.variant.dropout > 0,
        "a mistake needs all of them at once": bool(plan.mistake),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


@dataclass(frozen=True)
class StreamedEstimate:
    """What a Trace takes if its weights are computed where they are shown, and why they cannot be
    (`reason`; empty: they can).
    """

    memory: MemoryEstimate
    counts: TraceSizes
    cells: int  # weights of one layer
    reason: str


def streams_comparison(
    estimates: Sequence[tuple[MemoryEstimate, StreamedEstimate]], settings: Settings, reason: str
) -> bool:
    """Return whether the weights of compared Traces are computed only where they are shown: if that
    is asked for, or they would take more than the memory budget together.

    `reason`: why they cannot be, if what is compared is the reason. Refuses Traces that do not fit
    in the free memory together.
    """
    reason = next(filter(None, (reason, *(each.reason for _, each in estimates))), "")
    if settings.stream and reason:
        raise _unstreamed_error(reason)
    free, counts = memory.free_bytes(), estimates[0][1].counts
    cell_bytes = COMPARISON_CELL_BYTES * sum(streamed.cells for _, streamed in estimates)
    whole = _bytes_together([whole for whole, _ in estimates]) + cell_bytes
    streamed = _bytes_together([streamed.memory for _, streamed in estimates])
    exceeds_budget = whole - streamed > memory_budget(settings.memory_budget, free)
    streams = settings.stream or (exceeds_budget and not reason)
    needed = streamed if streams else whole
    if free is None or needed <= free:
        if streams and not settings.stream:
            warn_with_note(_streaming_note(counts, whole, settings.resolution))
        return streams
    fitting_tokens = int(counts.tokens * (free / needed) ** (1 if streams else 0.5))
    unstreamed = f" ({reason})" if reason else ""
    raise AttnvizError(
        f"{len(estimates)} ways of attending to {counted(counts.tokens, 'token')} take "
        f"{memory.format_size(needed)} side by side{unstreamed}, and there are "
        f"{memory.format_size(free)} free",
        f"give at most about {fitting_tokens:,} tokens, or fewer {opt.values}",
    )


def _bytes_together(estimates: Sequence[MemoryEstimate]) -> int:
    """Return the bytes of Traces that are computed one after another, and kept."""
    kept = sum(estimate.kept_bytes for estimate in estimates)
    return kept + max(estimate.temporary_bytes for estimate in estimates)


def refuse_oversized_steps(cells: int, row_wise_cells: int) -> None:
    """Refuse to show the steps of a Trace with `cells` weights if they do not fit in memory.

    `row_wise_cells` of them have been computed by row so far, and the steps need whole matrices.
    """
    row_wise_bytes = STAGES_KEPT_PER_CELL * FLOAT32_BYTES * row_wise_cells
    free, needed_bytes = memory.free_bytes(), STEPS_CELL_BYTES * cells + row_wise_bytes
    if free is not None and needed_bytes > free:
        raise AttnvizError(
            f"every number of the steps takes {memory.format_size(needed_bytes)}, and there are "
            f"{memory.format_size(free)} free",
            f"give fewer tokens, or use {cmd.run}",
        )


def max_fitting_tokens(bytes_needed: Callable[[int], int], free: int) -> int:
    """Return the largest number of tokens whose `bytes_needed` are at most `free`; 0 if none fits.

    >>> max_fitting_tokens(lambda tokens: 10 * tokens**2, 1000)
    10
    """
    fits, beyond = 0, MAX_TOKENS
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        fits, beyond = (middle, beyond) if bytes_needed(middle) <= free else (fits, middle)
    return fits


def _numbers_per_cell(plan: Plan) -> int:
    """Return how many numbers a Trace keeps for each query and key of a head: 3 to 7."""
    has_other_mixture = plan.variant.dropout > 0 or plan.matrices.weights is not None
    has_soft_cap, has_mask = plan.variant.soft_cap is not None, plan.matrices.mask is not None
    has_bias = plan.settings.positions == "alibi"
    return STAGES_KEPT_PER_CELL + has_other_mixture + has_soft_cap + has_mask + has_bias


def _additive_score_numbers(plan: Plan, counts: TraceSizes) -> int:
    """Return how many temporary numbers additive scoring needs; 0 for dot products."""
    if not plan.variant.additive:
        return 0
    heads = plan.variant.heads
    query_numbers = heads * counts.keys * (plan.width or 1)
    return 2 * max(ADDITIVE_NUMBERS_AT_ONCE, query_numbers) + heads * counts.tokens * counts.keys


def _matrix_sizes(plan: Plan, dim: int) -> list[int]:
    """Return how many numbers each matrix of a layer has, taking w_query, w_key and w_value as one.

    Those of cross-attention are included if there is a second sentence.
    """
    heads, settings, variant = plan.variant.heads, plan.settings, plan.variant
    projected_width = variant.projected * heads * (2 * (plan.width or 0) + plan.value_width)
    joined_width = variant.joined * heads * plan.value_width
    attentions = 2 if settings.memory is not None else 1
    hidden_width = plan.hidden_width(dim) if settings.has_feed_forward else 0
    return [dim * projected_width, dim * joined_width] * attentions + [dim * hidden_width] * 2


def _vector_numbers(plan: Plan, counts: TraceSizes) -> int:
    """Return how many numbers all vectors of a layer have together: inputs, queries, keys, values,
    context vectors, and vectors of a block.
    """
    heads, settings, dim = plan.variant.heads, plan.settings, counts.dim
    width = heads * (plan.width or 0) * (2 if settings.positions == "rotary" else 1)
    query_numbers = width + heads * plan.value_width + 2 * dim
    key_numbers = width + heads * plan.value_width + dim
    sublayers = settings.has_blocks + (settings.memory is not None) + settings.has_feed_forward
    hidden_width = plan.hidden_width(dim) if settings.has_feed_forward else 0
    token_numbers = query_numbers + 5 * sublayers * dim + 2 * hidden_width
    return counts.tokens * token_numbers + (counts.keys + counts.memory) * key_numbers
