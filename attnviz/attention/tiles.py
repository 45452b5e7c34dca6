"""Attention of some queries of one head, computed from tiles of keys × queries.

A tile's keys are its rows: sums and maxima over blocks of keys then run along whole rows of memory,
and both products are in the order that is fastest, which together costs less than a fused call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf, log
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.attention import fused_calls
from attnviz.attention.arithmetic import additive_similarity
from attnviz.attention.mask_rule import KeyIndex, KeyTile, MaskRule, index_positions

Pool = Literal["mean", "max"]
KEYS_PER_TILE = {"cpu": 1024}  # 128 × 1024 numbers fit into a processor's second cache
KEYS_PER_TILE_ELSEWHERE = 16_384
LEAST_LOGIT = -1e30  # instead of −∞, of which differences and products are no numbers


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
    """A softmax over keys that come in parts: sums and contexts relative to the largest logit yet.

    As in Milakov and Gimelshein, https://arxiv.org/abs/1805.02867
    """

    def __init__(self, head: AttentionHead, queries: int, across: int) -> None:
        width = head.values.shape[1]
        self.largest = head.keys.new_full((queries,), LEAST_LOGIT)
        self._state = head.keys.new_zeros(1 + width + across, queries)  # is rescaled at once
        self.sums, self.contexts = self._state[0], self._state[1 : 1 + width]
        self.pooled = self._state[1 + width :]
        if head.sink is not None:  # one more key, without a value
            self.largest.copy_(head.sink)
            self.sums += 1

    def rescale(self, largest: Float[Tensor, "query"], blocks: int = 0) -> Float[Tensor, "query"]:
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
    """Return contexts, log-sum-exp and pooled weights of the queries in `rows`."""
    block, values = QueryBlock(head, rows), head.values.T
    softmax = OnlineSoftmax(head, block.count, -(-len(head.keys) // width))
    for keys, hidden in block.tiles(width):
        tile, blocks = block.logits(keys, hidden), block_slice(keys, width)
        tile.sub_(softmax.rescale(tile.amax(0), blocks.start)).exp_()
        softmax.contexts.addmm_(values[:, keys], tile)
        pooled = pool_rows(tile, width, pool)
        softmax.pooled[blocks] = pooled
        softmax.sums += (pooled if pool == "mean" else tile).sum(0)
    return softmax.results()


def attend_by_fused_calls(head: AttentionHead, rows: slice) -> RowResults | None:
    """Return contexts and log-sum-exp of the queries in `rows`; None if no kernel computes them.

    Keys that only some of the queries may attend to are computed by tiles.
    """
    if not head.is_plain:
        return None
    block = QueryBlock(head, rows)
    softmax = OnlineSoftmax(head, block.count, 0)
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
    position = torch.full_like(log_sums, -1, dtype=torch.int64)
    pooled = shift.new_zeros(-(-len(head.keys) // width), block.count)
    for keys, hidden in block.tiles(width):
        logs = block.logits(keys, hidden).sub_(shift).clamp_(min=LEAST_LOGIT)
        weights = logs.exp()
        pooled[block_slice(keys, width)] = pool_rows(weights, width, pool)
        received[keys] = weights.sum(1)
        sums += weights.sum(0)
        tile_largest, index = weights.max(0)
        position = torch.where(tile_largest > largest, index + keys.start, position)
        largest = torch.maximum(largest, tile_largest)
        distance += _summed_distances(weights, index_positions(keys, head.device) - block.first)
        surprise -= logs.mul_(weights).sum(0)
    diagonals = _Diagonals(block, shift, edges)
    shares = torch.where(sums > 0, 1 / sums, 0)
    statistics = RowStatistics(
        entropy=(surprise * shares + torch.where(sums > 0, sums.log(), 0)) / log(2),
        largest_weight=largest,
        largest_position=position,
        on_first=diagonals.on_first,
        on_self=diagonals.at_distance(0),
        on_previous=diagonals.at_distance(1),
        mean_distance=(distance + diagonals.correction()) * shares,
        received=received,
        by_distance=diagonals.by_distance(received),
    )
    return statistics, pooled


def _summed_distances(
    weights: Float[Tensor, "key query"], ahead: Int[Tensor, "key"]
) -> Float[Tensor, "query"]:
    """Return the sums of weight × distance, with a minus for later keys among the queries' own.

    `ahead`: how far each key is after the first of the queries. Keys before the queries, and those
    after them, need only two sums each, as the distance is linear there.
    """
    queries = torch.arange(weights.shape[1], device=weights.device)
    sign = torch.where(ahead < len(queries), 1, -1)
    sums = torch.stack([sign, sign * ahead]).to(weights) @ weights
    return sums[0] * queries - sums[1]


class _Diagonals:
    """The weights around some diagonals: where a bin of distances begins, for some queries.

    For each such distance there is a square of as many keys as queries; in the one on the query's
    side of it, key number a and query number b are `distance + b − a` apart.
    """

    def __init__(self, block: QueryBlock, shift: Float[Tensor, "query"], edges: list[int]) -> None:
        head, count = block.head, block.count
        steps = torch.tensor(edges[:-1], device=head.device)
        starts = torch.cat([block.first - steps, block.first + steps[1:]])
        if head.mask.after == 0:
            starts = starts[: len(steps)]
        keys = starts[:, None] + torch.arange(count, device=head.device)
        outside = (keys < 0) | (keys >= len(head.keys))
        index = torch.cat([keys.new_zeros(1), keys.clamp(0, len(head.keys) - 1).flatten()])
        hidden = head.mask.hidden(block.rows, index, head.device)
        weights = block.logits(index, hidden).sub_(shift).exp_()
        self.on_first = weights[0]
        self.squares = weights[1:].view(*keys.shape, count).masked_fill_(outside[:, :, None], 0)
        self.starts, self.steps = starts, steps

    def at_distance(self, number: int) -> Float[Tensor, "query"]:
        """Return each query's weight on the key at a bin's first distance before it."""
        return self.squares[number].diagonal()

    def correction(self) -> Float[Tensor, "query"]:
        """Return what `_summed_distances` leaves out: 2 × weight × distance of later own keys."""
        queries = torch.arange(self.squares.shape[-1], device=self.squares.device)
        later = (queries[:, None] - queries).clamp_(min=0)
        return 2 * (self.squares[0] * later).sum(0)

    def by_distance(self, received: Float[Tensor, "key"]) -> Float[Tensor, "distance_bin"]:
        """Return the sum of all weights in each bin of distances.

        It is the difference of the sums from one bin on, and from the next. `received`: of these
        queries only.
        """
        precise = partial(torch.Tensor.to, dtype=summing_dtype(received.device))
        before = torch.cat([received.new_zeros(1), precise(received).cumsum(0)])
        bins, count = len(self.steps), self.squares.shape[-1]
        starts = self.starts.clamp(0, len(received))
        at_least = before[starts[:bins]] + precise(self.squares[:bins].triu()).sum((1, 2))
        if len(starts) > bins:
            stops = (self.starts[bins:] + count).clamp(0, len(received))
            at_least[1:] += before[-1] - before[stops]
            at_least[1:] += precise(self.squares[bins:].tril()).sum((1, 2))
        at_least[0] = before[-1]
        return (at_least - torch.cat([at_least[1:], at_least.new_zeros(1)])).clamp_(min=0)


def summing_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype in which sums over a whole text are kept."""
    return torch.float32 if device.type == "mps" else torch.float64


def block_slice(keys: slice, width: int) -> slice:
    """Return which blocks of `width` keys hold these keys, which begin with a block."""
    return slice(keys.start // width, -(-keys.stop // width))


def pool_rows(
    cells: Float[Tensor, "row column"], height: int, pool: Pool = "mean", before: int = 0
) -> Float[Tensor, "block column"]:
    """Return the sum (for a "mean") or the maximum of each block of `height` rows.

    `before`: how many rows of the first block are missing; the last may be smaller, too.
    """
    reduce = torch.amax if pool == "max" else torch.sum
    if not before and len(cells) % height == 0:
        return reduce(cells.view(-1, height, cells.shape[1]), 1)
    first = min((height - before) % height, len(cells))
    stop = len(cells) - (len(cells) - first) % height
    parts = [cells[:first][None], cells[first:stop].unflatten(0, (-1, height)), cells[stop:][None]]
    pooled = [reduce(part, 1) for part in parts if part.numel()]
    return pooled[0] if len(pooled) == 1 else torch.cat(pooled)
