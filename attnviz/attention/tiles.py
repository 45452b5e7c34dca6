"""Attention of some queries of one head, computed from tiles of keys × queries.

A tile's keys are its rows: sums and maxima over blocks of keys then run along whole rows of memory,
and both products are in the order that is fastest, which together costs less than a fused call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, log
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.attention import fused_calls
from attnviz.attention.arithmetic import additive_similarity
from attnviz.attention.mask_rule import KeyTile, MaskRule

Pool = Literal["mean", "max"]
Tile = Float[Tensor, "key query"]
ByQuery = Float[Tensor, "*any query"]
KEYS_PER_TILE = {"cpu": 384}  # for 768 queries: smaller tiles wait for Python, larger for memory
KEYS_PER_TILE_ELSEWHERE = 16_384
LEAST_LOGIT = -1e30  # of rows without keys: differences of −∞ are no numbers
KEYS_OF_SEARCH = 32
FAR_ABOVE = 20.0  # a logit the reference: sums are e^20 times as large then
LARGEST_BOUND = 60.0  # of logits: 32 bits hold sums of their exponentials with all digits


class BlockGrid(NamedTuple):
    """The blocks of a map."""

    height: int  # queries per block
    width: int  # keys per block
    pool: Pool


class RowResults(NamedTuple):
    """What the softmax of some queries gives."""

    contexts: Float[Tensor, "query value_width"]
    log_sums: Float[Tensor, "query"]
    totals: Float[Tensor, "query"]  # sums of weights: 1, with a sink less, and 0 without keys
    pooled: Float[Tensor, "down across"] | None  # only of visible keys; None: by a fused call


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
    def logit_bounds(self) -> Float[Tensor, "query"] | None:
        """Numbers that no logit of a query exceeds, of either sign; None if they are not known."""
        if not self.is_product:
            return None
        longest_key = self.keys.norm(dim=1).max()
        bounds: Tensor = self.queries.norm(dim=1) * (abs(self.scale) * longest_key)
        if self.soft_cap is not None:
            bounds.clamp_(max=self.soft_cap)
        return bounds if self.sink is None else bounds.clamp_(min=self.sink.abs())

    @cached_property
    def values_by_key(self) -> Float[Tensor, "value_width key"]:
        return self.values.T


class TileMemory(threading.local):
    """Memory that each thread uses again: to get it from the system takes as long as an exp.

    Once `stopped` is set, no thread begins another tile, and results are of no use.
    """

    def __init__(self, stopped: threading.Event) -> None:
        self.stopped = stopped
        self._numbers: dict[str, Tensor] = {}
        self._matrices: dict[str, Tensor] = {}

    def take(
        self, name: str, like: Float[Tensor, "*any"], rows: int, columns: int
    ) -> Float[Tensor, "row column"]:
        """Return a matrix of any numbers, which is in the same place as the last of that name."""
        matrix = self._matrices.get(name)
        if matrix is None or matrix.shape != (rows, columns):
            numbers = self._numbers.get(name)
            if numbers is None or len(numbers) < rows * columns:
                numbers = self._numbers[name] = like.new_empty(rows * columns)
            matrix = self._matrices[name] = numbers[: rows * columns].view(rows, columns)
        return matrix


class QueryBlock:
    """Some queries of a head."""

    def __init__(self, head: AttentionHead, rows: slice, memory: TileMemory) -> None:
        self.head, self.rows, self.count = head, rows, rows.stop - rows.start
        self.first = rows.start + head.mask.offset  # the position of the first query
        self.queries = (head.queries[rows] * head.scale).T.contiguous()
        self.memory = memory

    @cached_property
    def logit_bound(self) -> float:
        """A number that no logit exceeds, of either sign; ∞ if that is not known."""
        bounds = self.head.logit_bounds
        return inf if bounds is None else float(bounds[self.rows].max())

    def tiles(self, multiple: int, most: int | None = None) -> Iterator[KeyTile]:
        """Yield the tiles of keys that these queries may attend to; a score of −∞ hides, too."""
        keys = len(self.head.keys)
        most = most or KEYS_PER_TILE.get(self.head.device.type, KEYS_PER_TILE_ELSEWHERE)
        for tile in self.head.mask.tiles(
            self.rows, keys, multiple=multiple, most=most, like=self.queries
        ):
            if self.memory.stopped.is_set():
                return
            visible = tile.visible
            for matrix in self.head.added:
                infinite = matrix[self.rows, tile.keys].T.isneginf()
                if infinite.any():
                    finite = (~infinite).to(self.queries)
                    visible = finite if visible is None else finite.mul_(visible)
            yield KeyTile(tile.keys, visible)

    def key_range(self, multiple: int) -> slice:
        """Return the keys that are in tiles."""
        return self.head.mask.key_range(self.rows, len(self.head.keys), multiple)

    def logits(self, keys: slice) -> Tile:
        """Return the input of the softmax, before masking; the next call overwrites it."""
        head, chosen = self.head, self.head.keys[keys]
        if head.w_score is None:
            memory = self.memory.take("logits", self.queries, len(chosen), self.count)
            logits = torch.mm(chosen, self.queries, out=memory)
        else:
            queries = head.queries[self.rows]
            scores = additive_similarity(queries[None], chosen[None], head.w_score)
            logits = scores[0].T.contiguous().mul_(head.scale)
        if head.soft_cap is not None:
            logits.div_(head.soft_cap).tanh_().mul_(head.soft_cap)
        if head.slope is not None:
            logits.sub_(self._distances(keys), alpha=head.slope)
        for matrix in head.added:
            logits.add_(matrix[self.rows, keys].T)
        return logits

    def _distances(self, keys: slice) -> Tile:
        new = partial(torch.arange, device=self.head.device, dtype=self.queries.dtype)
        ahead = new(keys.start - self.first, keys.stop - self.first)
        return ahead[:, None].sub(new(0, self.count)).abs_()


class PooledRows:
    """Sums or maxima of weights over blocks of keys, for each query."""

    def __init__(self, block: QueryBlock, grid: BlockGrid) -> None:
        self.rows, self.grid = block.rows, grid
        keys = block.key_range(grid.width)  # which begin with a block
        self.across = slice(keys.start // grid.width, -(-keys.stop // grid.width))
        self.every = -(-len(block.head.keys) // grid.width)
        blocks = self.across.stop - self.across.start
        self.cells = block.memory.take("pooled", block.queries, blocks, block.count).zero_()

    def add(self, weights: Tile, keys: slice) -> None:
        """Add a tile, which begins with a block."""
        first = keys.start // self.grid.width - self.across.start
        blocks = slice(first, first + -(-len(weights) // self.grid.width))
        pool_keys(weights, self.grid.width, self.grid.pool, out=self.cells[blocks])

    def by_block(self, shares: Float[Tensor, "query"]) -> Float[Tensor, "down across"]:
        """Return the sums or maxima over blocks of queries, each times its share."""
        height, rows = self.grid.height, self.rows
        places = torch.arange(rows.start, rows.stop, device=shares.device)
        down = places // height - rows.start // height
        blocks = shares.new_zeros((rows.stop - 1) // height - rows.start // height + 1, self.every)
        within = blocks[:, self.across]
        if self.grid.pool == "mean":
            members = shares.new_zeros(len(blocks), len(down))
            within += members.scatter_(0, down[None], shares[None]) @ self.cells.T
        else:
            cells = (self.cells * shares).T
            within.scatter_reduce_(0, down[:, None].expand(cells.shape), cells, "amax")
        return blocks


class PartialSoftmax:
    """A softmax over keys that come in parts: sums and contexts are relative to a reference for
    each query, which is a large logit, or 0 if logits are bounded, which saves a fifth of the time.

    As in Milakov and Gimelshein, https://arxiv.org/abs/1805.02867, but the reference is replaced
    only where a logit exceeds it by far, which is seldom after the first tile.
    """

    def __init__(self, block: QueryBlock) -> None:
        head, width = block.head, block.head.values.shape[1]
        self.sink = head.sink  # one more key, without a value
        self.is_bounded = block.logit_bound <= LARGEST_BOUND
        start = 0 if self.is_bounded else LEAST_LOGIT
        self.reference = head.keys.new_full((block.count,), start)
        if self.sink is not None and not self.is_bounded:
            self.reference.copy_(self.sink)
        self.sums = head.keys.new_zeros(block.count)
        self.contexts = head.keys.new_zeros(width, block.count)

    def rescale(self, largest: Float[Tensor, "query"], *others: ByQuery) -> None:
        """Make all sums, and `others`, relative to these logits where they are far larger."""
        if not (largest > self.reference + FAR_ABOVE).any():
            return
        reference = torch.maximum(self.reference, largest)
        fade = (self.reference - reference).exp_()
        for sums in (self.sums, self.contexts, *others):
            sums.mul_(fade)
        self.reference = reference

    def add(
        self,
        logits: Tile,
        visible: Tile | None,
        values: Float[Tensor, "value_width key"],
        *others: ByQuery,
    ) -> Tile:
        """Add a tile to the contexts; return its exponentials, computed in place.

        `others`: what is relative to the reference, too.
        """
        if not self.is_bounded:
            if visible is not None:
                logits.add_(visible - 1, alpha=-LEAST_LOGIT)
            self.rescale(logits.amax(0), *others)
            logits.sub_(self.reference).clamp_(min=least_exponent(logits))
        logits.exp_()
        if visible is not None:
            logits.mul_(visible)
        self.contexts.addmm_(values, logits)
        return logits

    def results(self, pooled: PooledRows | None = None) -> RowResults:
        """Return the contexts, the log-sum-exp and the pooled weights; 0 for a row without keys."""
        sums = self.sums
        if self.sink is not None:
            sums = sums + (self.sink - self.reference).exp()
        shares = torch.where(sums > 0, 1 / sums, 0)
        return RowResults(
            contexts=(self.contexts * shares).T,
            log_sums=self.reference + sums.log(),
            totals=self.sums * shares,
            pooled=None if pooled is None else pooled.by_block(shares),
        )


def attend_by_tiles(block: QueryBlock, grid: BlockGrid) -> RowResults:
    """Return contexts, log-sum-exp and pooled weights of some queries."""
    softmax, pooled = PartialSoftmax(block), PooledRows(block, grid)
    for keys, visible in block.tiles(grid.width):
        values = block.head.values_by_key[:, keys]
        weights = softmax.add(block.logits(keys), visible, values, pooled.cells)
        pooled.add(weights, keys)
        if grid.pool == "max":
            softmax.sums += weights.sum(0)
    if grid.pool == "mean":
        softmax.sums = pooled.cells.sum(0)
    return softmax.results(pooled)


def attend_by_fused_calls(block: QueryBlock) -> RowResults | None:
    """Return contexts and log-sum-exp of some queries; None if no kernel computes them.

    Keys that only some of the queries may attend to are computed by tiles.
    """
    head = block.head
    if not head.is_product or head.soft_cap is not None:
        return None
    softmax = PartialSoftmax(block)
    for keys, visible in block.tiles(1, most=len(head.keys)):
        if visible is not None:
            values = head.values_by_key[:, keys]
            softmax.sums += softmax.add(block.logits(keys), visible, values).sum(0)
            continue
        results = fused_calls.attend(block.queries.T, head.keys[keys], head.values[keys])
        if results is None:
            return None
        contexts, log_sums = results
        if not softmax.is_bounded:
            softmax.rescale(log_sums)
        weight = (log_sums - softmax.reference).exp()
        softmax.contexts += contexts.T * weight
        softmax.sums += weight
    return softmax.results()


def describe_rows(
    block: QueryBlock, results: RowResults, grid: BlockGrid, bins: int
) -> tuple[RowResults, RowStatistics]:
    """Return the results of some queries, with pooled weights, and their statistics.

    A weight is the exp of its logit minus the row's log-sum-exp. `bins`: how many, of distance.
    """
    log_sums = results.log_sums
    shift = torch.where(log_sums.isneginf(), 0, log_sums)
    least = least_exponent(shift)
    is_bounded = block.logit_bound + float(shift.abs().max()) < -least
    sums = _StatisticSums(block, bins)
    pooled = PooledRows(block, grid) if results.pooled is None else None
    for keys, visible in block.tiles(grid.width):
        logs = block.logits(keys).sub_(shift)
        if not is_bounded:
            logs.clamp_(min=least, max=0)  # what is hidden may be larger than all that is visible
        count = len(logs)
        padded = block.memory.take("weights", logs, count + -count % KEYS_OF_SEARCH, block.count)
        weights = torch.exp(logs, out=padded[:count])
        if len(padded) > count:
            padded[count:] = 0
        if visible is not None:
            weights.mul_(visible)
        if pooled is not None:
            pooled.add(weights, keys)
        sums.add(weights, logs, padded.view(-1, KEYS_OF_SEARCH, block.count), keys)
    if pooled is not None:
        results = results._replace(pooled=pooled.by_block(torch.ones_like(shift)))
    return results, sums.statistics(results.totals)


class _StatisticSums:
    """What the statistics of some queries are computed from."""

    def __init__(self, block: QueryBlock, bins: int) -> None:
        new = partial(block.queries.new_zeros, block.count)
        self.first = block.first
        self.received = block.queries.new_zeros(len(block.head.keys))
        self.surprise, self.largest = new(), new()
        self.position = new(dtype=torch.int64) - 1
        self.on_first, self.on_self, self.on_previous = new(), new(), new()
        self.distances = _DistanceSums(block, bins)

    def add(
        self, weights: Tile, logs: Tile, in_blocks: Float[Tensor, "block key query"], keys: slice
    ) -> None:
        """Add a tile of weights; their logarithms are overwritten.

        `in_blocks`: the same weights, with zeros for keys that the last block lacks.
        """
        self._update_largest(in_blocks, keys.start)
        self.received[keys] = by_key = weights.sum(1)
        start = keys.start - self.first  # how far the first key is after the first query
        self.distances.add(weights, by_key, start)
        if keys.start == 0:
            self.on_first = weights[0].clone()
        for chosen, first in ((self.on_self, start), (self.on_previous, start + 1)):
            if -len(weights) < first < len(chosen):
                diagonal = weights.diagonal(first)
                chosen[max(first, 0) : max(first, 0) + len(diagonal)] = diagonal
        self.surprise -= logs.mul_(weights).sum(0)

    def _update_largest(self, weights: Float[Tensor, "block key query"], start: int) -> None:
        """Replace the largest weights so far, and their keys, where these are larger.

        torch's own maximum with indices takes as long as a product of matrices: so the maxima of
        blocks are compared, and a block is searched for the few queries whose largest is there.
        """
        tops = weights.amax(1)
        larger = (tops.amax(0) > self.largest).nonzero()[:, 0]
        if len(larger):
            self.largest[larger], blocks = tops.index_select(1, larger).max(0)
            within = weights[blocks, :, larger].argmax(1)
            self.position[larger] = start + blocks * KEYS_OF_SEARCH + within

    def statistics(self, totals: Float[Tensor, "query"]) -> RowStatistics:
        """Return the statistics; `totals`: sums of weights."""
        shares = torch.where(totals > 0, 1 / totals, 0)
        log_totals = torch.where(totals > 0, totals.log(), 0)
        return RowStatistics(
            entropy=(self.surprise * shares + log_totals) / log(2),
            largest_weight=self.largest,
            largest_position=self.position,
            on_first=self.on_first,
            on_self=self.on_self,
            on_previous=self.on_previous,
            mean_distance=self.distances.by_query(totals) * shares,
            received=self.received,
            by_distance=self.distances.by_bin,
        )


class _DistanceSums:
    """Sums of weights by distance, and for each query the sum of weight × distance.

    Where all keys are before the queries, or all after them, a distance is the difference of two
    positions, and its sum takes two sums: of weights, and of weight × position.
    """

    def __init__(self, block: QueryBlock, bins: int) -> None:
        self.memory, self.has_keys_after = block.memory, block.head.mask.after != 0
        self.by_bin = block.queries.new_zeros(bins, dtype=summing_dtype(block.head.device))
        self.on_later = block.queries.new_zeros(block.count)
        self.signed_moment = block.queries.new_zeros(block.count)

    def add(self, weights: Tile, by_key: Float[Tensor, "key"], start: int) -> None:
        """Add a tile of weights, and their sums for each key.

        `start`: how far the first key is after the first query. Bins double: the number of one is
        that of the bits of its distances.
        """
        keys, count = weights.shape
        least, most = start - count + 1, start + keys - 1
        first_bin, last_bin = sorted(abs(end).bit_length() for end in (least, most))
        if first_bin == last_bin and (least > 0) == (most > 0):
            self.by_bin[last_bin] += by_key.sum()
        else:
            distances = torch.arange(-most, 1 - least, device=weights.device)
            bins = torch.frexp(distances.to(self.by_bin)).exponent.long()
            self.by_bin.index_add_(0, bins, self._sum_diagonals(weights).to(self.by_bin))
        if most <= 0 or not self.has_keys_after:
            self._add_moment(weights, start, 1)
        elif least >= 0:
            self._add_moment(weights, start, -1)
        else:
            before = weights.triu(start)
            self._add_moment(before, start, 1)
            self._add_moment(weights - before, start, -1)

    def _add_moment(self, weights: Tile, start: int, sign: int) -> None:
        end = start + len(weights)
        ahead = torch.arange(start, end, dtype=weights.dtype, device=weights.device)
        self.signed_moment.addmv_(weights.T, ahead, alpha=sign)
        if sign < 0:
            self.on_later += weights.sum(0)

    def _sum_diagonals(self, weights: Tile) -> Float[Tensor, "diagonal"]:
        """Return the sums of all diagonals, from the last key's first query on.

        If the rows of a matrix are read as one number longer, each is moved to the left by one
        more number than the row before it, and diagonals become columns.
        """
        keys, queries = weights.shape
        longer = keys + queries
        padded = self.memory.take("diagonals", weights, keys + 1, longer - 1)
        padded[:, : keys - 1] = 0
        padded[:keys, keys - 1 :] = weights
        return padded.flatten()[: keys * longer].view(keys, longer).sum(0)[:-1]

    def by_query(self, totals: Float[Tensor, "query"]) -> Float[Tensor, "query"]:
        """Return the sums of weight × distance; `totals`: sums of weights."""
        places = torch.arange(len(totals), device=totals.device, dtype=totals.dtype)
        return places * (totals - 2 * self.on_later) - self.signed_moment


def least_exponent(like: Float[Tensor, "*any"]) -> float:
    """Return the least number whose exp is not denormal: processors take up to 200 times as long
    for those that are, and for those that underflow."""
    return log(torch.finfo(like.dtype).tiny)


def summing_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype in which sums over a whole text are kept."""
    return torch.float32 if device.type == "mps" else torch.float64


def pool_keys(weights: Tile, width: int, pool: Pool, out: Float[Tensor, "block query"]) -> None:
    """Write the sum, for a mean, or the maximum of each block of keys; the last may be smaller."""
    combine: Any = torch.amax if pool == "max" else torch.sum
    blocks, rest = divmod(len(weights), width)
    if not rest:
        combine(weights.view(blocks, width, -1), 1, out=out)
        return
    if blocks:
        combine(weights[:-rest].view(blocks, width, -1), 1, out=out[:blocks])
    combine(weights[-rest:], 0, out=out[blocks])
