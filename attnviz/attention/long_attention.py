"""Attention over long texts, computed without a matrix of queries × keys.

Contexts, a map of blocks, statistics and exact rows take memory that grows with the length.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.attention import arithmetic, fused_calls
from attnviz.attention.mask_rule import MaskRule, select_head
from attnviz.attention.tiles import (
    AttentionHead,
    BlockGrid,
    QueryBlock,
    RowResults,
    RowStatistics,
    TileMemory,
    attend_by_fused_calls,
    attend_by_tiles,
    describe_rows,
    summing_dtype,
)
from attnviz.cells import FULL_SLICE
from attnviz.options.values import Pool
from attnviz.wording.words import with_summary

ROWS_AT_ONCE = {"cpu": 768}
ROWS_AT_ONCE_ELSEWHERE = 512
CELLS_OF_ROWS = 2**22  # of one head, while exact rows are computed
CELLS_FOR_THREADS = 2**22  # a smaller head is done before threads have begun
Progress = Callable[[int], object]  # is told how many queries are done, in all heads


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class LongAttention:
    """What attention is computed from. Half precision is computed in 32 bits."""

    queries: Float[Tensor, "head query width"]
    keys: Float[Tensor, "group key width"]
    values: Float[Tensor, "group key value_width"]
    scale: float
    mask: MaskRule
    soft_cap: float | None = None
    slopes: Float[Tensor, "head"] | None = None  # of ALiBi: subtracted per token of distance
    bias: Float[Tensor, "*#head query key"] | None = None  # added to scores by positions
    mask_scores: Float[Tensor, "*#head query key"] | None = None  # added to scores by a mask
    sink: Float[Tensor, "head"] | None = None  # scores of a key without a value
    w_score: Float[Tensor, "out"] | None = None  # of additive scores, for all heads side by side

    @property
    def shape(self) -> tuple[int, int, int]:
        return (*self.queries.shape[:2], self.keys.shape[1])

    @property
    def device(self) -> torch.device:
        return self.queries.device

    def rows(
        self, rows: slice, columns: slice = FULL_SLICE, *, heads: Sequence[int] | None = None
    ) -> Float[Tensor, "head row column"]:
        """Return the exact weights of some queries on some keys.

        The softmax runs over all keys that a query may attend to.
        """
        count, queries, keys = self.shape
        start, stop, _ = rows.indices(queries)
        chosen = [*(range(count) if heads is None else heads)]
        width = len(range(keys)[columns])
        dtype = _precision(self.queries)
        weights = self.queries.new_empty(len(chosen), max(stop - start, 0), width, dtype=dtype)
        step, memory = max(1, CELLS_OF_ROWS // keys), TileMemory(threading.Event())
        for number, head in enumerate(self.head(each) for each in chosen):
            for first in range(start, stop, step):
                part, place = slice(first, min(first + step, stop)), first - start
                every = slice(0, keys)
                visible = ~head.mask.hidden(part, every, self.device).T
                logits = QueryBlock(head, part, memory).logits(every).T[None]
                sink = None if head.sink is None else head.sink[None]
                rows_of_weights = arithmetic.attention_weights(logits, visible, sink)[0]
                weights[number, place : place + step] = rows_of_weights[:, columns]
        return weights

    def summarize(
        self, choice: SummaryChoice, progress: Progress | None = None
    ) -> AttentionSummary:
        """Return the contexts, a map in blocks, and statistics."""
        return summarize_part(self, self.row_blocks(), choice, progress)

    def row_blocks(self) -> list[slice]:
        """Return the queries in blocks that are computed at once, which parts can be dealt."""
        step = ROWS_AT_ONCE.get(self.device.type, ROWS_AT_ONCE_ELSEWHERE)
        queries = self.queries.shape[1]
        return [slice(first, min(first + step, queries)) for first in range(0, queries, step)]

    def distance_edges(self) -> list[int]:
        """Return where the bins of distances begin, and where the last one ends.

        They double (0, 1, 2, 4, 8 …): one for each power of two tells the neighbour from the
        sentence and the page, and 18 bins are enough for 100,000 tokens.
        """
        _, queries, keys = self.shape
        furthest = max(queries - 1 + self.mask.offset, keys - 1 - self.mask.offset, 1)
        return [0, *(2**power for power in range(furthest.bit_length() + 1))]

    def head(self, number: int) -> AttentionHead:
        """Return the inputs of one head, in the precision in which it is computed."""
        heads, group = len(self.queries), len(self.keys)
        shared = number * group // heads
        dtype = _precision(self.queries)
        w_score = None if self.w_score is None else self.w_score.view(heads, -1)[number]
        added = (select_head(matrix, number) for matrix in (self.bias, self.mask_scores))
        vectors = (self.queries[number], self.keys[shared], self.values[shared])
        queries, keys, values = (part.detach().to(dtype).contiguous() for part in vectors)
        return AttentionHead(
            queries=queries,
            keys=keys,
            values=values,
            scale=self.scale,
            mask=self.mask.for_head(number),
            soft_cap=self.soft_cap,
            slope=None if self.slopes is None else float(self.slopes[number]),
            added=[matrix.detach() for matrix in added if matrix is not None],
            sink=None if self.sink is None else self.sink[number].detach().to(dtype),
            w_score=None if w_score is None else w_score.detach().to(dtype),
        )


class SummaryChoice(NamedTuple):
    """What is measured: blocks on a side of the map, how they pool, statistics, which heads."""

    resolution: int = 512
    pool: Pool = "mean"
    statistics: bool = True
    heads: Sequence[int] | None = None


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionSummary:
    """What long attention gives: a row without visible keys has 0 everywhere, and position −1.

    A part of it has 0 for the queries that are not in it, and its sums are of its own queries.
    """

    contexts: Float[Tensor, "head query value_width"]
    log_sums: Float[Tensor, "head query"]  # logarithm of the sum of exponentials
    pooled: Float[Tensor, "head down across"]  # share of a block of keys, mean of its queries; max
    hidden: Bool[Tensor, "*#head down across"]  # the whole block is
    row_height: int  # queries per block
    column_width: int  # keys per block
    pool: Pool
    entropy: Float[Tensor, "head query"] | None = None  # in bits
    largest_weight: Float[Tensor, "head query"] | None = None
    largest_position: Int[Tensor, "head query"] | None = None
    on_first: Float[Tensor, "head query"] | None = None  # weight on the first key
    on_self: Float[Tensor, "head query"] | None = None
    on_previous: Float[Tensor, "head query"] | None = None
    mean_distance: Float[Tensor, "head query"] | None = None  # in tokens
    received: Float[Tensor, "head key"] | None = None  # sum of all queries' weights on a key
    by_distance: Float[Tensor, "head distance_bin"] | None = None  # share, mean of all queries
    distance_edges: list[int] | None = None  # bin number i is from edge i to before edge i + 1


def summarize_part(
    attention: LongAttention,
    blocks: Sequence[slice],
    choice: SummaryChoice,
    progress: Progress | None = None,
) -> AttentionSummary:
    """Return the part of a summary that is of some blocks of queries: the sum of all parts is the
    summary, but for the largest weights of blocks, of which the larger ones count."""
    height, width = (max(1, -(-size // choice.resolution)) for size in attention.shape[1:])
    grid = BlockGrid(height, width, choice.pool)
    bins = len(attention.distance_edges()) - 1 if choice.statistics else 0
    chosen = [*(range(len(attention.queries)) if choice.heads is None else choice.heads)]
    part = _empty_part(attention, choice, len(chosen), height, width)
    done = 0
    for number, head_number in enumerate(chosen):
        head = attention.head(head_number)
        memory = TileMemory(threading.Event())
        compute = partial(_compute_rows, head, grid, bins, memory)
        in_order = _in_threads(compute, blocks, head, memory)
        for rows, results in zip(blocks, in_order, strict=True):
            _place_block(part, number, rows, *results)
            done += rows.stop - rows.start
            if progress is not None:
                progress(done)
    return part


def _empty_part(
    attention: LongAttention, choice: SummaryChoice, heads: int, height: int, width: int
) -> AttentionSummary:
    """Return a part of a summary without any query."""
    _, queries, keys = attention.shape
    dtype = _precision(attention.queries)
    precise = summing_dtype(attention.device)
    new = partial(attention.queries.new_zeros, dtype=dtype)
    down, across = -(-queries // height), -(-keys // width)
    hidden = attention.mask.hidden_blocks(queries, keys, height, width, attention.device)
    if hidden.ndim == 3 and choice.heads is not None and len(hidden) > 1:
        hidden = hidden[[*choice.heads]]
    edges = attention.distance_edges()
    statistics = {}
    if choice.statistics:
        by_query = [
            name for name in RowStatistics._fields if name not in ("received", "by_distance")
        ]
        statistics = {name: new(heads, queries) for name in by_query}
        statistics["largest_position"] = new(heads, queries, dtype=torch.int64)
        statistics["received"] = new(heads, keys, dtype=precise)
        statistics["by_distance"] = new(heads, len(edges) - 1, dtype=precise)
    return AttentionSummary(
        contexts=new(heads, queries, attention.values.shape[-1]),
        log_sums=new(heads, queries),
        pooled=new(heads, down, across, dtype=precise),
        hidden=hidden,
        row_height=height,
        column_width=width,
        pool=choice.pool,
        distance_edges=edges if choice.statistics else None,
        **statistics,
    )


@torch.no_grad()
def _compute_rows(
    head: AttentionHead, grid: BlockGrid, bins: int, memory: TileMemory, rows: slice
) -> tuple[RowResults, RowStatistics | None]:
    """Return what one head computes for some queries; without `bins` of distance, no statistics."""
    block, results = QueryBlock(head, rows, memory), None
    if bins and fused_calls.is_faster_than_tiles(head.device):
        results = attend_by_fused_calls(block)
    if results is None:
        results = attend_by_tiles(block, grid)
    if not bins:
        return results, None
    return describe_rows(block, results, grid, bins)


def _place_block(
    part: AttentionSummary,
    number: int,
    rows: slice,
    results: RowResults,
    statistics: RowStatistics | None,
) -> None:
    """Write what was computed for some queries of a head into a summary, or add it."""
    part.contexts[number, rows] = results.contexts
    part.log_sums[number, rows] = results.log_sums
    height, queries = part.row_height, part.contexts.shape[1]
    blocks = results.pooled
    assert blocks is not None
    down = slice(rows.start // height, rows.start // height + len(blocks))
    pooled = part.pooled[number, down]
    if part.pool == "max":
        torch.maximum(pooled, blocks.to(pooled), out=pooled)
    else:
        starts = torch.arange(down.start, down.stop, device=pooled.device) * height
        pooled += blocks / (queries - starts).clamp(max=height)[:, None]
    for name, values in {} if statistics is None else statistics._asdict().items():
        target = getattr(part, name)[number]
        if name == "received":
            target += values
        elif name == "by_distance":
            target += values / queries
        else:
            target[rows] = values


def _in_threads(
    compute: Callable[[slice], tuple[RowResults, RowStatistics | None]],
    blocks: Sequence[slice],
    head: AttentionHead,
    memory: TileMemory,
) -> Iterator[tuple[RowResults, RowStatistics | None]]:
    """Yield the results of all blocks in order, computed by as many threads as torch may use.

    Each thread computes a block of its own: splitting the operations on one tile, as torch does,
    costs more than it saves. Ctrl-C waits for the tiles that have begun.
    """
    threads = torch.get_num_threads()
    small = len(head.queries) * len(head.keys) < CELLS_FOR_THREADS
    if threads == 1 or small or head.device.type != "cpu":
        yield from map(compute, blocks)
        return
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(compute, blocks)
    finally:
        memory.stopped.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # the initializer also sets that of threads begun later


def _precision(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
