"""Base rates of a weight: what others give the same key, or give at the same distance.

A weight says little alone: a head may give one key as much from every token, or give the token
before each as much. Special tokens and the first, to which heads attend that find nothing else, are
no example of a distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from attnviz.cells import CELLS_PER_BAND, FULL_SLICE, Cells, Patch


class Examples(NamedTuple):
    """The weights of some queries that count as examples, 0 where they do not, and which do."""

    values: Float[np.ndarray, "query key"]
    counted: Bool[np.ndarray, "query key"]


class Sums(NamedTuple):
    """The sum of the examples, and their number, for each key or each distance."""

    totals: Float[np.ndarray, "place"]
    counts: Float[np.ndarray, "place"]


@dataclass(frozen=True, eq=False)
class BaseWeights:
    """What other queries give, on average, for each weight of a map; NaN where none can."""

    cells: Cells
    counted: Bool[np.ndarray, "query"]  # without special tokens
    own_columns: Int[np.ndarray, "query"]  # where each query is among the keys; -1: nowhere
    special_keys: Bool[np.ndarray, "key"]
    step: int = 1  # every so many queries of a long text are read

    def of_same_key(self, rows: slice) -> Float[np.ndarray, "query key"]:
        """Return the mean weight that other queries than each of `rows` give each key; a key's own
        token does not count."""
        examples = self._examples_of_keys(rows)
        totals, counts = self._sums[0]
        return _means(totals - examples.values, counts - examples.counted)

    def at_same_distance(self, rows: slice) -> Float[np.ndarray, "query key"]:
        """Return the mean weight that other queries give the key which is as far before or after
        them."""
        examples = self._examples_of_distances(rows)
        places = self._distances(rows)
        totals, counts = self._sums[1]
        means = _means(totals[places] - examples.values, counts[places] - examples.counted)
        means[self.own_columns[rows] < 0] = np.nan
        return means

    def larger(self, rows: slice) -> Float[np.ndarray, "query key"]:
        """Return the larger of both means: what a weight must exceed to say something of its own
        query and key."""
        return np.asarray(np.fmax(self.of_same_key(rows), self.at_same_distance(rows)))

    @cached_property
    def _sums(self) -> tuple[Sums, Sums]:
        """The sums for each key, and for each distance."""
        keys = len(self.special_keys)
        key_sums, distance_sums = (
            Sums(np.zeros(size), np.zeros(size)) for size in (keys, 2 * keys)
        )
        for rows in self._bands():
            patch = self.cells.window(rows, FULL_SLICE)
            values, counted = self._examples_of_keys(rows, patch)
            np.add(key_sums.totals, values.sum(0), out=key_sums.totals)
            np.add(key_sums.counts, counted.sum(0), out=key_sums.counts)
            places = self._distances(rows).ravel()
            for sums, examples in zip(
                distance_sums, self._examples_of_distances(rows, patch), strict=True
            ):
                np.add(sums, np.bincount(places, examples.ravel(), 2 * keys), out=sums)
        return key_sums, distance_sums

    def _bands(self) -> Iterator[slice]:
        rows_at_once = max(1, CELLS_PER_BAND // max(1, len(self.special_keys))) * self.step
        for start in range(0, len(self.counted), rows_at_once):
            yield slice(start, start + rows_at_once, self.step)

    def _examples_of_keys(self, rows: slice, patch: Patch | None = None) -> Examples:
        own = np.arange(len(self.special_keys)) == self.own_columns[rows, None]
        return self._examples(rows, ~own, patch)

    def _examples_of_distances(self, rows: slice, patch: Patch | None = None) -> Examples:
        is_sink = self.special_keys | (np.arange(len(self.special_keys)) == 0)
        return self._examples(rows, (self.own_columns[rows, None] >= 0) & ~is_sink, patch)

    def _examples(
        self, rows: slice, counted: Bool[np.ndarray, "query key"], patch: Patch | None
    ) -> Examples:
        """Return the weights of rows that are examples: of queries that are read and count, and
        keys that they can see, and that are among `counted`."""
        patch = patch or self.cells.window(rows, FULL_SLICE)
        is_read = self.counted[rows] & (np.arange(len(self.counted))[rows] % self.step == 0)
        counted = counted & is_read[:, None] & ~patch.hidden
        return Examples(np.where(counted, patch.values, 0).astype(float), counted)

    def _distances(self, rows: slice) -> Int[np.ndarray, "query key"]:
        """Return for each weight the place of its distance among all distances."""
        keys = len(self.special_keys)
        return np.asarray(np.arange(keys) - self.own_columns[rows, None] + keys - 1)


def _means(
    totals: Float[np.ndarray, "query key"], counts: Float[np.ndarray, "query key"]
) -> Float[np.ndarray, "query key"]:
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
