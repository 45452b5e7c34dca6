"""MaskRule: which keys each query may attend to, for one tile of keys at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from attnviz.attention.variants import Variant

ROWS_OF_MATRIX = 256  # that are counted at once


class KeyTile(NamedTuple):
    """Some of the keys that some queries may attend to."""

    keys: slice
    visible: Float[Tensor, "key query"] | None  # 1 or 0; None: every query sees every key


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskRule:
    """A band of keys around each query's position, a matrix, or both; without them, all keys."""

    before: int | None = None  # keys at most so far before a query are visible; None: all
    after: int | None = None  # the same after it; 0: causal
    offset: int = 0  # the position of the first query, if the queries are the last of more tokens
    matrix: Bool[Tensor, "*#head query key"] | None = None  # only keys where it is True are visible

    @classmethod
    def of_variant(cls, variant: Variant) -> MaskRule:
        reach = None if variant.window is None else variant.window - 1
        return cls(before=reach, after=0 if variant.causal else reach)

    def for_head(self, head: int) -> MaskRule:
        return replace(self, matrix=select_head(self.matrix, head))

    def keys_in_band(self, queries: range, keys: int) -> range:
        """Return so many keys without those at either end that the band hides from all of these
        queries; all of them if that leaves none."""
        first = 0 if self.before is None else max(0, queries[0] + self.offset - self.before)
        last = keys if self.after is None else queries[-1] + self.offset + self.after + 1
        inside = range(first, min(keys, last))
        return inside or range(keys)

    def hides_any(self, queries: int, keys: int, device: torch.device) -> bool:
        """Return whether any of so many keys is hidden from a query; of a band, that is one of two
        corners of the matrix.
        """
        if self.matrix is not None:
            return not bool(self.matrix.all())
        rows = self.visible_rows(range(0, queries, max(1, queries - 1)), keys, device)
        return not bool(rows[:, :: max(1, keys - 1)].all())

    def visible(
        self, queries: int, keys: int, device: torch.device
    ) -> Bool[Tensor, "*#head query key"]:
        """Return, as a matrix, which of so many keys each query may attend to."""
        if self.matrix is not None:
            return self.matrix
        return ~self.hidden(slice(0, queries), slice(0, keys), device).T

    def visible_rows(
        self, rows: range, keys: int, device: torch.device
    ) -> Bool[Tensor, "query key"]:
        """Return which of so many keys the queries in `rows`, of any step, have in their band."""
        return _band_rows(self.before, self.after, self.offset, rows, keys, device)

    def hidden(self, rows: slice, keys: slice, device: torch.device) -> Bool[Tensor, "key query"]:
        """Return, for one head, which of these keys are hidden from the queries in `rows`."""
        visible = _band(*self._place_in_band(rows, keys), torch.bool, device)
        return ~(visible if self.matrix is None else visible & self.matrix[rows, keys].T)

    def visible_counts(self, queries: int, keys: int, device: torch.device) -> Int[Tensor, "query"]:
        """Return, for one head, how many of so many keys each query may attend to."""
        if self.matrix is None:
            first, stop = self._bands(queries, keys, device)
            return (stop - first).clamp(min=0)
        parts = [
            keys - self.hidden(rows, slice(0, keys), device).sum(0) for rows in _row_parts(queries)
        ]
        return torch.cat(parts)

    def readers(
        self, queries: int, keys: int, device: torch.device
    ) -> tuple[Int[Tensor, "key"], Float[Tensor, "key"]]:
        """Return, for one head, how many queries may attend to each key; and the sum of the weights
        that it gets if each query attends evenly to all keys that it may attend to.
        """
        counts = self.visible_counts(queries, keys, device)
        even = torch.where(counts > 0, 1 / counts.clamp(min=1).double(), 0)
        sums = torch.zeros(2, keys + 1, dtype=torch.float64, device=device)
        if self.matrix is not None:
            for rows in _row_parts(queries):
                visible = (~self.hidden(rows, slice(0, keys), device)).double()
                sums[0, :-1] += visible.sum(1)
                sums[1, :-1] += visible @ even[rows]
        else:  # each query adds to the sums from its first key on, and no more from behind its last
            first, stop = self._bands(queries, keys, device)
            for row, added in zip(sums, ((counts > 0).double(), even), strict=True):
                row.index_add_(0, first, added).index_add_(0, stop, -added)
            sums = sums.cumsum(1).clamp(min=0)
        readers = sums[0, :-1].round().long()
        return readers, sums[1, :-1] * (readers > 0)

    def _bands(
        self, queries: int, keys: int, device: torch.device
    ) -> tuple[Int[Tensor, "query"], Int[Tensor, "query"]]:
        """Return the first visible key of each query, and the key behind its last one."""
        places = torch.arange(queries, device=device) + self.offset
        first = torch.zeros_like(places) if self.before is None else places - self.before
        stop = torch.full_like(places, keys) if self.after is None else places + self.after + 1
        return first.clamp(0, keys), stop.clamp(0, keys)

    def tiles(
        self, rows: slice, keys: int, *, multiple: int, most: int, like: Float[Tensor, "*any"]
    ) -> Iterator[KeyTile]:
        """Yield tiles of the keys, for one head, without those that are hidden from all `rows`.

        Each has at most `most` keys, or `multiple` if that is more, and begins at a multiple of
        `multiple`. Where the band ends, tiles are as small as possible, to build small masks.
        """
        most = max(1, most // multiple) * multiple
        for start, stop, inside in self._key_ranges(rows, keys, multiple):
            for first in range(start, stop, most):
                tile = slice(first, min(first + most, stop))
                visible = None
                if not inside:
                    visible = _stored_band(
                        *self._place_in_band(rows, tile), like.dtype, like.device
                    )
                if self.matrix is not None:
                    cells = self.matrix[rows, tile].T.to(like)
                    visible = cells if visible is None else cells.mul_(visible)
                    seen = int(visible.count_nonzero())
                    if not seen:
                        continue
                    visible = None if seen == visible.numel() else visible
                yield KeyTile(tile, visible)

    def key_range(self, rows: slice, keys: int, multiple: int) -> slice:
        """Return the keys of all tiles: the rest is hidden from all `rows`."""
        ranges = self._key_ranges(rows, keys, multiple)
        return slice(ranges[0][0], max(ranges[0][0], ranges[-1][1]))

    def _place_in_band(
        self, rows: slice, keys: slice
    ) -> tuple[tuple[int, int], int | None, int | None]:
        """Return the numbers of keys and queries, and between which diagonals keys are visible."""
        ahead = keys.start - rows.start - self.offset  # of the first query is the first key
        size = keys.stop - keys.start, rows.stop - rows.start
        lowest = None if self.after is None else ahead - self.after
        highest = None if self.before is None else ahead + self.before
        return size, lowest, highest

    def _key_ranges(self, rows: slice, keys: int, multiple: int) -> list[tuple[int, int, bool]]:
        """Return the ranges of keys in the band of some of the queries, cut at multiples.

        The third number is whether the range is in the band of all of them.
        """
        first, last = rows.start + self.offset, rows.stop - 1 + self.offset
        starts = [0, 0] if self.before is None else [first - self.before, last - self.before]
        stops = [keys, keys]
        if self.after is not None:
            stops = [first + self.after + 1, last + self.after + 1]
        some_start, all_start = (min(max(start, 0), keys) for start in starts)
        all_stop, some_stop = (min(max(stop, 0), keys) for stop in stops)
        some_start -= some_start % multiple
        some_stop = min(some_stop + -some_stop % multiple, keys)
        all_start += -all_start % multiple
        if all_stop < keys:
            all_stop -= all_stop % multiple
        if all_start >= all_stop:
            return [(some_start, some_stop, False)]
        bounds = pairwise((some_start, all_start, all_stop, some_stop))
        return [(start, stop, number == 1) for number, (start, stop) in enumerate(bounds)]

    def hidden_blocks(
        self, queries: int, keys: int, height: int, width: int, device: torch.device
    ) -> Bool[Tensor, "*#head down across"]:
        """Return which blocks of `height` × `width` cells are hidden as a whole."""
        down, across = (
            torch.arange(0, size, step, device=device)
            for size, step in ((queries, height), (keys, width))
        )
        # How far the keys of a block are after its queries: the least and the most.
        places = down + self.offset
        least = across - (places + height - 1).clamp(max=queries - 1 + self.offset)[:, None]
        most = (across + width - 1).clamp(max=keys - 1) - places[:, None]
        hidden = torch.zeros_like(least, dtype=torch.bool)
        if self.before is not None:
            hidden |= most < -self.before
        if self.after is not None:
            hidden |= least > self.after
        if self.matrix is None:
            return hidden
        matrices = self.matrix if self.matrix.ndim == 3 else self.matrix[None]
        rules = (replace(self, matrix=matrix) for matrix in matrices)
        return torch.stack([rule._hidden_in_matrix(hidden, height, width) for rule in rules])

    def _hidden_in_matrix(
        self, outside: Bool[Tensor, "down across"], height: int, width: int
    ) -> Bool[Tensor, "down across"]:
        """Return which blocks of one head's matrix are hidden; `outside`: by the band alone."""
        assert self.matrix is not None
        queries, keys = self.matrix.shape
        hidden = outside.clone()
        for number, row in enumerate(hidden):
            rows = slice(number * height, min((number + 1) * height, queries))
            by_key = self.hidden(rows, slice(0, keys), outside.device).all(1)
            padding = by_key.new_ones(-keys % width)
            row |= torch.cat([by_key, padding]).view(-1, width).all(1)
        return hidden


def _row_parts(queries: int) -> list[slice]:
    """Return all queries in parts, whose rows of a matrix are counted at once."""
    starts = range(0, queries, ROWS_OF_MATRIX)
    return [slice(start, min(start + ROWS_OF_MATRIX, queries)) for start in starts]


@lru_cache(maxsize=2)  # as all heads and most layers have the same
def _band_rows(
    before: int | None, after: int | None, offset: int, rows: range, keys: int, device: torch.device
) -> Bool[Tensor, "query key"]:
    """Return which of so many keys are in the band of the queries in `rows`."""
    places = torch.arange(rows.start, rows.stop, rows.step, device=device, dtype=torch.int32)
    ahead = torch.arange(keys, device=device, dtype=torch.int32) - (places + offset)[:, None]
    visible = torch.ones_like(ahead, dtype=torch.bool)
    if before is not None:
        visible &= ahead >= -before
    if after is not None:
        visible &= ahead <= after
    return visible


def select_head(
    matrix: Shaped[Tensor, "*#head query key"] | None, head: int
) -> Shaped[Tensor, "query key"] | None:
    """Return one head's matrix, from one for all heads or one for each; None stays None."""
    if matrix is None or matrix.ndim == 2:
        return matrix
    return matrix[min(head, len(matrix) - 1)]


def _band(
    size: tuple[int, int],
    lowest: int | None,
    highest: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Shaped[Tensor, "key query"]:
    """Return a matrix that is 1 between two diagonals, and on them, and 0 elsewhere."""
    cells = torch.ones(size, dtype=dtype, device=device)
    if lowest is not None:
        cells = cells.triu_(lowest)
    return cells if highest is None else cells.tril_(highest)


# Most blocks of queries have the same; nobody may write into what it returns.
_stored_band = lru_cache(maxsize=8)(_band)
