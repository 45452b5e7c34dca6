"""Attention of some queries of one head, computed from tiles of keys × queries.

A tile's keys are its rows: sums and maxima over blocks of keys then run along whole rows of memory,
and both products are in the order that is fastest, which together costs less than a fused call.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, log
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.attention import fused_calls
from attnviz.attention.arithmetic import additive_similarity
from attnviz.attention.mask_rule import KeyTile, MaskRule

Pool = Literal["mean", "max"]
KEYS_PER_TILE = {"cpu": 384}  # 384 × 384 numbers fit into a processor's second cache
KEYS_PER_TILE_ELSEWHERE = 16_384
LEAST_LOGIT = -1e30  # of rows without keys: differences of −∞ are no numbers
KEYS_OF_SEARCH = 32
LARGEST_BOUND = 60.0  # of logits: 32 bits hold sums of their exponentials with all digits


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
    def is_product(self) -> bool:
        """Whether a logit is scale · query · key, perhaps with a soft cap."""
        return not self.added and self.slope is None and self.w_score is None

    @cached_property
    def longest_key(self) -> float:
        """The largest norm of a key."""
        return float(self.keys.norm(dim=1).max())


class QueryBlock:
    """Some queries of a head, and memory for one tile of their logits, which is used again."""

    def __init__(self, head: AttentionHead, rows: slice) -> None:
        self.head, self.rows, self.count = head, rows, rows.stop - rows.start
        self.first = rows.start + head.mask.offset  # the position of the first query
        self.queries = (head.queries[rows] * head.scale).T.contiguous()
        self._memory = self.queries.new_empty(0)

    @property
    def logit_bound(self) -> float:
        """A number that no logit exceeds, of either sign; ∞ if that is not known."""
        head = self.head
        if not head.is_product:
            return inf
        bound = float(self.queries.norm(dim=0).max()) * head.longest_key
        if head.soft_cap is not None:
            bound = min(bound, head.soft_cap)
        return bound if head.sink is None else max(bound, abs(float(head.sink)))

    def tiles(self, multiple: int, most: int | None = None) -> Iterator[KeyTile]:
        """Yield the tiles of keys that these queries may attend to; a score of −∞ hides, too."""
        device, keys = self.head.device, len(self.head.keys)
        most = most or KEYS_PER_TILE.get(device.type, KEYS_PER_TILE_ELSEWHERE)
        for tile in self.head.mask.tiles(
            self.rows, keys, multiple=multiple, most=most, device=device
        ):
            hidden = tile.hidden
            for matrix in self.head.added:
                infinite = matrix[self.rows, tile.keys].T.isneginf()
                if infinite.any():
                    hidden = infinite if hidden is None else hidden | infinite
            yield KeyTile(tile.keys, hidden)

    def logits(self, keys: slice) -> Float[Tensor, "key query"]:
        """Return the input of the softmax, before masking; the next call overwrites it."""
        head, chosen = self.head, self.head.keys[keys]
        if head.w_score is None:
            size = len(chosen) * self.count
            if len(self._memory) < size:
                self._memory = self.queries.new_empty(size)
            logits = torch.mm(chosen, self.queries, out=self._memory[:size].view(-1, self.count))
        else:
            queries = head.queries[self.rows]
            scores = additive_similarity(queries[None], chosen[None], head.w_score)
            logits = scores[0].T.contiguous().mul_(head.scale)
        if head.soft_cap is not None:
            logits.div_(head.soft_cap).tanh_().mul_(head.soft_cap)
        if head.slope is not None:
            distance = _distances(len(chosen), self.count, keys.start - self.first, head.device)
            logits.sub_(distance.to(logits), alpha=head.slope)
        for matrix in head.added:
            logits.add_(matrix[self.rows, keys].T)
        return logits


class PartialSoftmax:
    """A softmax over keys that come in parts: sums and contexts relative to the largest logit yet,
    or to 0 if logits are bounded, which saves a fifth of the time.

    As in Milakov and Gimelshein, https://arxiv.org/abs/1805.02867
    """

    def __init__(self, block: QueryBlock, across: int = 0) -> None:
        head, width = block.head, block.head.values.shape[1]
        self.is_bounded = block.logit_bound <= LARGEST_BOUND
        start = 0 if self.is_bounded else LEAST_LOGIT
        self.largest = head.keys.new_full((block.count,), start)
        self._state = head.keys.new_zeros(1 + width + across, block.count)  # is rescaled at once
        self.sums, self.contexts = self._state[0], self._state[1 : 1 + width]
        self.pooled = self._state[1 + width :]
        if head.sink is not None:  # one more key, without a value
            if not self.is_bounded:
                self.largest.copy_(head.sink)
            self.sums += (head.sink - self.largest).exp()

    def rescale(self, largest: Float[Tensor, "query"], blocks: int = 0) -> None:
        """Make all sums relative to the largest of these logits and of those before.

        `blocks`: how many blocks of keys, from the first, can have been pooled.
        """
        largest = torch.maximum(self.largest, largest)
        fade = self.largest.sub_(largest).exp_()
        self._state[: 1 + len(self.contexts) + blocks].mul_(fade)
        self.largest = largest

    def add(
        self,
        logits: Float[Tensor, "key query"],
        hidden: Bool[Tensor, "key query"] | None,
        values: Float[Tensor, "key value_width"],
        blocks: int = 0,
    ) -> Float[Tensor, "key query"]:
        """Add a tile to the contexts; return its exponentials, computed in place."""
        if not self.is_bounded:
            if hidden is not None:
                logits.masked_fill_(hidden, -inf)
            self.rescale(logits.amax(0), blocks)
            logits.sub_(self.largest).clamp_(min=least_exponent(logits))
        logits.exp_()
        if hidden is not None:
            logits.masked_fill_(hidden, 0)
        self.contexts.addmm_(values.T, logits)
        return logits

    def results(self) -> RowResults:
        """Return the contexts, the log-sum-exp and the pooled weights; 0 for a row without keys."""
        shares = torch.where(self.sums > 0, 1 / self.sums, 0)
        log_sums = self.largest + self.sums.log()
        return RowResults((self.contexts * shares).T, log_sums, self.pooled * shares)


def attend_by_tiles(head: AttentionHead, rows: slice, width: int, pool: Pool) -> RowResults:
    """Return contexts, log-sum-exp and pooled weights of the queries in `rows`."""
    block = QueryBlock(head, rows)
    softmax = PartialSoftmax(block, -(-len(head.keys) // width))
    for keys, hidden in block.tiles(width):
        blocks = block_slice(keys, width)
        tile = softmax.add(block.logits(keys), hidden, head.values[keys], blocks.start)
        pool_rows(tile, width, pool, out=softmax.pooled[blocks])
        if pool == "max":
            softmax.sums += tile.sum(0)
    if pool == "mean":
        softmax.sums += softmax.pooled.sum(0)
    return softmax.results()


def attend_by_fused_calls(head: AttentionHead, rows: slice) -> RowResults | None:
    """Return contexts and log-sum-exp of the queries in `rows`; None if no kernel computes them.

    Keys that only some of the queries may attend to are computed by tiles.
    """
    if not head.is_product or head.soft_cap is not None:
        return None
    block = QueryBlock(head, rows)
    softmax = PartialSoftmax(block)
    for keys, hidden in block.tiles(1, most=len(head.keys)):
        if hidden is not None:
            softmax.sums += softmax.add(block.logits(keys), hidden, head.values[keys]).sum(0)
            continue
        results = fused_calls.attend(block.queries.T, head.keys[keys], head.values[keys])
        if results is None:
            return None
        contexts, log_sums = results
        if not softmax.is_bounded:
            softmax.rescale(log_sums)
        weight = (log_sums - softmax.largest).exp()
        softmax.contexts += contexts.T * weight
        softmax.sums += weight
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
    surprise, largest = shift.new_zeros(2, block.count)
    on_first, on_self, on_previous = shift.new_zeros(3, block.count)
    position = torch.full_like(log_sums, -1, dtype=torch.int64)
    pooled = shift.new_zeros(-(-len(head.keys) // width), block.count)
    totals = _DistanceTotals(shift, edges)
    memory = shift.new_empty(0)
    for keys, hidden in block.tiles(width):
        start = keys.start - block.first  # how far the first key is after the first query
        logs = block.logits(keys).sub_(shift).clamp_(min=least_exponent(shift))
        if len(memory) < logs.numel():
            memory = logs.new_empty(logs.numel())
        weights = torch.exp(logs, out=memory[: logs.numel()].view_as(logs))
        if hidden is not None:
            weights.masked_fill_(hidden, 0)
            logs.masked_fill_(hidden, 0)
        pool_rows(weights, width, pool, out=pooled[block_slice(keys, width)])
        received[keys] = by_key = weights.sum(1)
        surprise -= logs.mul_(weights).sum(0)
        totals.add(weights, by_key, start)
        _update_largest(largest, position, weights, keys.start)
        if keys.start == 0:
            on_first = weights[0].clone()
        _place_diagonal(on_self, weights, start)
        _place_diagonal(on_previous, weights, start + 1)
    sums, from_edges = totals.sums, totals.from_edges
    shares = torch.where(sums > 0, 1 / sums, 0)
    statistics = RowStatistics(
        entropy=(surprise * shares + torch.where(sums > 0, sums.log(), 0)) / log(2),
        largest_weight=largest,
        largest_position=position,
        on_first=on_first,
        on_self=on_self,
        on_previous=on_previous,
        mean_distance=totals.distances * shares,
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


def _update_largest(
    largest: Float[Tensor, "query"],
    position: Int[Tensor, "query"],
    weights: Float[Tensor, "key query"],
    start: int,
) -> None:
    """Replace the largest weights so far, and their keys, where these are larger.

    torch's own maximum with indices takes as long as a product of matrices: so the maxima of some
    keys each are compared, and then those keys searched for the few queries whose largest it is.
    """
    blocks = pool_rows(weights, KEYS_OF_SEARCH, "max")
    larger = (blocks.amax(0) > largest).nonzero()[:, 0]
    if len(larger):
        found, block = blocks[:, larger].max(0)
        keys = block * KEYS_OF_SEARCH + torch.arange(KEYS_OF_SEARCH, device=larger.device)[:, None]
        keys.clamp_(max=len(weights) - 1)
        largest[larger] = found
        position[larger] = keys[0] + weights[keys, larger].argmax(0) + start


class _DistanceTotals:
    """Sums by distance over all keys: of weights, of weight × distance, and from each edge on.

    Where all keys are before the queries, or after them, distance is linear, and needs two sums.
    Of an edge that only some of those pairs have reached, these are a triangle.
    """

    def __init__(self, like: Float[Tensor, "query"], edges: list[int]) -> None:
        self.edges = edges
        self.sums, self.distances = torch.zeros_like(like), torch.zeros_like(like)
        self.from_edges = like.new_zeros(len(edges), dtype=summing_dtype(like.device))

    def add(
        self, weights: Float[Tensor, "key query"], by_key: Float[Tensor, "key"], start: int
    ) -> None:
        """Add a tile of weights, and their sums for each key.

        `start`: how far the first key is after the first query.
        """
        keys, count = weights.shape
        before, after = (min(max(edge - start, 0), keys) for edge in (0, count))
        if before:
            self._add_others(weights[:before], by_key[:before], start, sign=1)
        if after < keys:
            self._add_others(weights[after:], by_key[after:], start + after, sign=-1)
        if before < after:
            own = weights[before:after]
            self.sums += own.sum(0)
            distances = _distances(len(own), count, start + before, own.device)
            self.distances += distances.to(own).mul_(own).sum(0)
            bins = _distance_bins(len(own), count, start + before, own.device)
            in_bins = torch.bincount(bins, own.flatten(), minlength=len(self.edges))
            self.from_edges += in_bins.to(self.from_edges).flip(0).cumsum(0).flip(0)

    def _add_others(
        self,
        weights: Float[Tensor, "key query"],
        by_key: Float[Tensor, "key"],
        start: int,
        sign: Literal[1, -1],
    ) -> None:
        """Add keys that are all before the queries (`sign` 1) or all after them (−1)."""
        keys, count = weights.shape
        place = torch.arange(count, device=weights.device, dtype=weights.dtype)
        ahead = torch.arange(start, start + keys, device=weights.device, dtype=weights.dtype)
        sums = weights.sum(0)
        self.sums += sums
        self.distances += sign * (place * sums - weights.T @ ahead)
        ends = (
            (1 - start - keys, count - 1 - start)
            if sign > 0
            else (start - count + 1, start + keys - 1)
        )
        passed, reached = (bisect(self.edges, end) for end in ends)
        self.from_edges[:passed] += by_key.sum()
        for number in range(passed, reached):
            edge = self.edges[number]
            if sign > 0:
                first, last = (max(0, end - start - edge) for end in (1, count))
                triangle = weights[first:last].triu(start + edge + first)
                whole = by_key[:first]
            else:
                first, last = (max(0, edge - start + end) for end in (0, count - 1))
                triangle = weights[first:last].tril(first + start - edge)
                whole = by_key[last:]
            self.from_edges[number] += whole.sum() + triangle.sum()


def _distances(
    keys: int, queries: int, start: int, device: torch.device
) -> Int[Tensor, "key query"]:
    """Return the distances of keys and queries; the first key is `start` after the first query."""
    ahead = torch.arange(start, start + keys, device=device, dtype=torch.int32)
    return (ahead[:, None] - torch.arange(queries, device=device, dtype=torch.int32)).abs_()


@lru_cache(maxsize=4)  # as most blocks of queries have the same
def _distance_bins(
    keys: int, queries: int, start: int, device: torch.device
) -> Int[Tensor, "cell"]:
    """Return the number of each cell's bin, which is that of bits in its distance."""
    distances = _distances(keys, queries, start, device)
    return torch.frexp(distances.flatten().float()).exponent.long()


def least_exponent(like: Float[Tensor, "*any"]) -> float:
    """Return the least number whose exp is not denormal: processors take up to 200 times as long
    for those that are, and for those that underflow."""
    return log(torch.finfo(like.dtype).tiny)


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
    whole = cells[first:stop].reshape(-1, height, cells.shape[1])
    parts = [cells[:first][None], whole, cells[stop:][None]]
    return torch.cat([combine(part, 1) for part in parts if part.numel()], out=out)
