"""Attention of some queries of one head, computed from tiles of keys × queries.

A tile's keys are its rows: sums and maxima over blocks of keys then run along whole rows of memory,
and both products are in the order that is fastest, which together costs less than a fused call.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.attention import fused_calls
from attnviz.attention.arithmetic import additive_similarity
from attnviz.attention.mask_rule import KeyIndex, KeyTile, MaskRule, index_positions

Pool = Literal["mean", "max"]
KEYS_PER_TILE = {"cpu": 512}  # 512 × 512 numbers fit into a processor's second cache
KEYS_PER_TILE_ELSEWHERE = 16_384
LEAST_LOGIT = -1e30  # instead of −∞, of which differences and products are no numbers
LEAST_SUM, LARGEST_SUM = 1e-20, 1e30  # of exponentials that 32 bits hold with all their digits


class RowResults(NamedTuple):
    """What the softmax of some queries gives."""

    contexts: Float[Tensor, "query value_width"]
    log_sums: Float[Tensor, "query"]
    pooled: Float[Tensor, "across query"] | None  # sums or maxima over blocks; None: a fused call


class RowStatistics(NamedTuple):
    """The statistics of some queries' weights; entropy and distance of rows that sum to 1."""

    entropy: Float[Tensor, "query"]
    largest_weight: Float[Tensor, "query"]
    largest_position: Int[Tensor, "query"]
    on_first: Float[Tensor, "query"]
    on_self: Float[Tensor, "query"]
    on_previous: Float[Tensor, "query"]
    mean_distance: Float[Tensor, "query"]
    received: Float[Tensor, "key"]
    by_distance: Float[Tensor, "distance_bin"]


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionHead:
    """One head's inputs, in 32 or 64 bits, and how its logits are computed."""

    queries: Float[Tensor, "query width"]
    keys: Float[Tensor, "key width"]
    values: Float[Tensor, "key value_width"]
    scale: float
    mask: MaskRule
    soft_cap: float | None
    slope: float | None  # is subtracted from a score for each token of distance
    added: list[Float[Tensor, "query key"]]  # matrices that are added to scores
    sink: Float[Tensor, ""] | None
    w_score: Float[Tensor, "width"] | None

    @property
    def device(self) -> torch.device:
        return self.queries.device

    @property
    def is_plain(self) -> bool:
        """Whether a logit is scale · query · key."""
        extras = (self.soft_cap, self.slope, self.w_score)
        return not self.added and all(extra is None for extra in extras)


class QueryBlock:
    """Some queries of a head, and memory for one tile of their logits, which is used again."""

    def __init__(self, head: AttentionHead, rows: slice) -> None:
        self.head, self.rows, self.count = head, rows, rows.stop - rows.start
        self.first = rows.start + head.mask.offset  # the position of the first query
        self.queries = (head.queries[rows] * head.scale).T.contiguous()
        self._buffer = self.queries.new_empty(0)

    def tiles(self, multiple: int, most: int | None = None) -> Iterator[KeyTile]:
        """Yield the tiles of keys that these queries may attend to."""
        device, keys = self.head.device, len(self.head.keys)
        most = most or KEYS_PER_TILE.get(device.type, KEYS_PER_TILE_ELSEWHERE)
        return self.head.mask.tiles(self.rows, keys, multiple=multiple, most=most, device=device)

    def logits(self, keys: KeyIndex, hidden: Tensor | None = None) -> Float[Tensor, "key query"]:
        """Return the input of the softmax, −∞ where `hidden`; the next call overwrites it."""
        head, chosen = self.head, self.head.keys[keys]
        if head.w_score is None:
            size = len(chosen) * self.count
            if len(self._buffer) < size:
                self._buffer = self.queries.new_empty(size)
            out = self._buffer[:size].view(-1, self.count)
            logits = torch.mm(chosen, self.queries, out=out)
        else:
            queries = head.queries[self.rows]
            scores = additive_similarity(queries[None], chosen[None], head.w_score)
            logits = scores[0].T.contiguous().mul_(head.scale)
        if head.soft_cap is not None:
            logits.div_(head.soft_cap).tanh_().mul_(head.soft_cap)
        if head.slope is not None:
            places = torch.arange(self.first, self.first + self.count, device=head.device)
            distance = (index_positions(keys, head.device)[:, None] - places).abs()
            logits.sub_(distance.to(logits), alpha=head.slope)
        for matrix in head.added:
            logits.add_(matrix[self.rows, keys].T)
        return logits if hidden is None else logits.masked_fill_(hidden, -inf)


class OnlineSoftmax:
    """A softmax over keys that come in parts: sums and contexts relative to the largest logit yet,
    or to 0 if it is not online.

    As in Milakov and Gimelshein, https://arxiv.org/abs/1805.02867
    """

    def __init__(
        self, head: AttentionHead, queries: int, across: int = 0, *, is_online: bool = True
    ) -> None:
        width = head.values.shape[1]
        self.largest = head.keys.new_full((queries,), LEAST_LOGIT if is_online else 0)
        self._state = head.keys.new_zeros(1 + width + across, queries)  # is rescaled at once
        self.sums, self.contexts = self._state[0], self._state[1 : 1 + width]
        self.pooled = self._state[1 + width :]
        if head.sink is not None:  # one more key, without a value
            if is_online:
                self.largest.copy_(head.sink)
            self.sums += (head.sink - self.largest).exp()

    def rescale(self, largest: Float[Tensor, "*query"], blocks: int = 0) -> Float[Tensor, "query"]:
        """Make all sums relative to the largest of these logits and of those before; return it.

        `blocks`: how many blocks of keys, from the first, can have been pooled.
        """
        largest = torch.maximum(self.largest, largest)
        fade = self.largest.sub_(largest).exp_()
        self._state[: 1 + len(self.contexts) + blocks].mul_(fade)
        self.largest = largest
        return largest

    def results(self) -> RowResults:
        """Return the contexts, the log-sum-exp and the pooled weights; 0 for a row without keys."""
        shares = torch.where(self.sums > 0, 1 / self.sums, 0)
        log_sums = self.largest + self.sums.log()
        return RowResults((self.contexts * shares).T, log_sums, self.pooled * shares)


def attend_by_tiles(head: AttentionHead, rows: slice, width: int, pool: Pool) -> RowResults:
    """Return contexts, log-sum-exp and pooled weights of the queries in `rows`.

    The exp of most logits can be computed as it is, which saves a fifth of the time. Where sums
    are too large or small for that, the block is computed again, relative to the largest logit.
    """
    block = QueryBlock(head, rows)
    softmax = _attend(block, width, pool, is_online=False)
    low, high = softmax.sums.aminmax()
    if not (low > LEAST_SUM and high < LARGEST_SUM and softmax.contexts.isfinite().all()):
        softmax = _attend(block, width, pool, is_online=True)
    return softmax.results()


def _attend(block: QueryBlock, width: int, pool: Pool, *, is_online: bool) -> OnlineSoftmax:
    """Return the softmax over all keys; unless it `is_online`, its sums are relative to 0."""
    head, values = block.head, block.head.values.T
    across = -(-len(head.keys) // width)
    softmax = OnlineSoftmax(head, block.count, across, is_online=is_online)
    for keys, hidden in block.tiles(width):
        tile, blocks = block.logits(keys, hidden), block_slice(keys, width)
        if is_online:
            tile.sub_(softmax.rescale(tile.amax(0), blocks.start))
        tile.exp_()
        softmax.contexts.addmm_(values[:, keys], tile)
        pool_rows(tile, width, pool, out=softmax.pooled[blocks])
        if pool == "max":
            softmax.sums += tile.sum(0)
    if pool == "mean":
        softmax.sums += softmax.pooled.sum(0)
    return softmax


def attend_by_fused_calls(head: AttentionHead, rows: slice) -> RowResults | None:
    """Return contexts and log-sum-exp of the queries in `rows`; None if no kernel computes them.

    Keys that only some of the queries may attend to are computed by tiles.
    """
    if not head.is_plain:
        return None
    block = QueryBlock(head, rows)
    softmax = OnlineSoftmax(head, block.count)
    for keys, hidden in block.tiles(1, most=len(head.keys)):
        if hidden is None:
            results = fused_calls.attend(block.queries.T, head.keys[keys], head.values[keys])
            if results is None:
                return None
            contexts, log_sums = results
            weight = (log_sums - softmax.rescale(log_sums)).exp()
            softmax.contexts += contexts.T * weight
            softmax.sums += weight
            continue
        tile = block.logits(keys, hidden)
        tile.sub_(softmax.rescale(tile.amax(0))).exp_()
        softmax.contexts.addmm_(head.values[keys].T, tile)
        softmax.sums += tile.sum(0)
    return softmax.results()._replace(pooled=None)


def describe_rows(
    head: AttentionHead,
    rows: slice,
    log_sums: Float[Tensor, "query"],
    edges: list[int],
    width: int,
    pool: Pool,
) -> tuple[RowStatistics, Float[Tensor, "across query"]]:
    """Return the statistics of the queries in `rows`, and their pooled weights.

    A weight is the exp of its logit minus the row's log-sum-exp. `edges`: of the bins of distance.
    """
    block = QueryBlock(head, rows)
    shift = log_sums.clamp(min=LEAST_LOGIT)
    received = shift.new_zeros(len(head.keys))
    sums, surprise, distance, largest = shift.new_zeros(4, block.count)
    on_first, on_self, on_previous = shift.new_zeros(3, block.count)
    position = torch.full_like(log_sums, -1, dtype=torch.int64)
    pooled = shift.new_zeros(-(-len(head.keys) // width), block.count)
    from_edges = shift.new_zeros(len(edges), dtype=summing_dtype(head.device))
    memory = shift.new_empty(0)
    for keys, hidden in block.tiles(width):
        start = keys.start - block.first  # how far the first key is after the first query
        logs = block.logits(keys, hidden).sub_(shift)
        if hidden is not None or head.added:
            logs.clamp_(min=LEAST_LOGIT)
        if len(memory) < logs.numel():
            memory = logs.new_empty(logs.numel())
        weights = torch.exp(logs, out=memory[: logs.numel()].view_as(logs))
        pool_rows(weights, width, pool, out=pooled[block_slice(keys, width)])
        received[keys] = by_key = weights.sum(1)
        surprise -= logs.mul_(weights).sum(0)
        _add_distances(sums, distance, weights, start)
        _add_from_edges(from_edges, weights, by_key, start, edges, head.mask.after)
        tile_largest = weights.amax(0)
        if len(larger := (tile_largest > largest).nonzero()[:, 0]):
            position[larger] = weights[:, larger].argmax(0) + keys.start
            largest = torch.maximum(largest, tile_largest)
        if keys.start == 0:
            on_first = weights[0].clone()
        _place_diagonal(on_self, weights, start)
        _place_diagonal(on_previous, weights, start + 1)
    shares = torch.where(sums > 0, 1 / sums, 0)
    statistics = RowStatistics(
        entropy=(surprise * shares + torch.where(sums > 0, sums.log(), 0)) / log(2),
        largest_weight=largest,
        largest_position=position,
        on_first=on_first,
        on_self=on_self,
        on_previous=on_previous,
        mean_distance=distance * shares,
        received=received,
        by_distance=(from_edges[:-1] - from_edges[1:]).clamp_(min=0),
    )
    return statistics, pooled


def _place_diagonal(
    chosen: Float[Tensor, "query"], weights: Float[Tensor, "key query"], first: int
) -> None:
    """Write a diagonal of weights into `chosen`, where their queries are.

    `first`: the number of the query on whose weight on the first key it begins.
    """
    diagonal = weights.diagonal(first)
    chosen[max(first, 0) : max(first, 0) + len(diagonal)] = diagonal


def _add_distances(
    sums: Float[Tensor, "query"],
    distances: Float[Tensor, "query"],
    weights: Float[Tensor, "key query"],
    start: int,
) -> None:
    """Add the weights to `sums`, and weight × distance to `distances`.

    `start`: how far the first key is after the first query. Where all keys are before the queries,
    or after them, distance is linear, and two sums are enough.
    """
    keys, count = weights.shape
    place = torch.arange(count, device=weights.device, dtype=weights.dtype)
    ahead = torch.arange(start, start + keys, device=weights.device, dtype=weights.dtype)
    before, after = (min(max(edge - start, 0), keys) for edge in (0, count))
    for part, sign in ((slice(before), 1), (slice(after, None), -1)):
        if len(ahead[part]):
            part_sums = weights[part].sum(0)
            sums += part_sums
            distances += sign * (place * part_sums - weights[part].T @ ahead[part])
    if before < after:
        own = weights[before:after]
        sums += own.sum(0)
        distances += (ahead[before:after, None] - place).abs_().mul_(own).sum(0)


def _add_from_edges(
    from_edges: Float[Tensor, "edge"],
    weights: Float[Tensor, "key query"],
    by_key: Float[Tensor, "key"],
    start: int,
    edges: list[int],
    after: int | None,
) -> None:
    """Add to each edge the weights whose key and query are at least so far apart.

    `start`: how far the first key is after the first query; `by_key`: the sums of the keys'
    weights, which are enough where all queries are on one side of an edge. In between is a
    triangle. `after`: of the mask.
    """
    keys, count = weights.shape
    total = by_key.sum()
    from_edges[0] += total
    # Keys before their queries, then keys after them.
    passed, reached = bisect(edges, 1 - keys - start), bisect(edges, count - 1 - start)
    from_edges[1:passed] += total
    for number in range(max(passed, 1), reached):
        first, last = (max(0, edge - start - edges[number]) for edge in (1, count))
        triangle = weights[first:last].triu(start + edges[number] + first)
        from_edges[number] += by_key[:first].sum() + triangle.sum()
    furthest = start + keys - 1 if after is None else min(start + keys - 1, after)
    passed, reached = bisect(edges, start - count + 1), bisect(edges, furthest)
    from_edges[1:passed] += total
    for number in range(max(passed, 1), reached):
        first, last = (max(0, edges[number] - start + edge) for edge in (0, count - 1))
        triangle = weights[first:last].tril(first + start - edges[number])
        from_edges[number] += by_key[last:].sum() + triangle.sum()


def summing_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype in which sums over a whole text are kept."""
    return torch.float32 if device.type == "mps" else torch.float64


def block_slice(keys: slice, width: int) -> slice:
    """Return which blocks of `width` keys hold these keys, which begin with a block."""
    return slice(keys.start // width, -(-keys.stop // width))


def pool_rows(
    cells: Float[Tensor, "row column"],
    height: int,
    pool: Pool = "mean",
    before: int = 0,
    out: Float[Tensor, "block column"] | None = None,
) -> Float[Tensor, "block column"]:
    """Return the sum (for a "mean") or the maximum of each block of `height` rows.

    `before`: how many rows of the first block are missing; the last may be smaller, too.
    """
    combine: Any = torch.amax if pool == "max" else torch.sum
    if not before and len(cells) % height == 0:
        blocks: Tensor = combine(cells.view(-1, height, cells.shape[1]), 1, out=out)
        return blocks
    first = min((height - before) % height, len(cells))
    stop = len(cells) - (len(cells) - first) % height
    parts = [cells[:first][None], cells[first:stop].unflatten(0, (-1, height)), cells[stop:][None]]
    return torch.cat([combine(part, 1) for part in parts if part.numel()], out=out)
