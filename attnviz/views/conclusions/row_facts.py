"""RowFacts: facts about rows of weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from attnviz.cells import Cells, CellValues, Patch
from attnviz.views.attention_facts import TWO_DIGIT_TOLERANCE

MIN_CLEAR_LEAD = 0.005  # over all other weights, for a weight that is named alone


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Facts about all rows of one head's weights, or about one; its cells are read once.

    A row has a choice if more than one key is visible.
    """

    cells: Cells
    first_row: int = 0  # of the head

    @cached_property
    def _patch(self) -> Patch:
        """All weights, read in bands; hidden ones and NaN are 0."""
        bands = [*self.cells.bands()]
        values, hidden = (np.concatenate([getattr(band, name) for band in bands])
                          for name in ("values", "hidden"))  # fmt: skip
        return Patch(np.where(hidden, 0.0, np.nan_to_num(values)), hidden)

    @cached_property
    def _visible_counts(self) -> Int[np.ndarray, "row"]:
        return np.asarray((~self._patch.hidden).sum(1))

    def weights_of(self, query: int) -> CellValues:
        return np.asarray(self._patch.values[query - self.first_row])

    def visible_keys(self, query: int) -> list[int]:
        keys: list[int] = np.flatnonzero(~self._patch.hidden[query - self.first_row]).tolist()
        return keys

    @cached_property
    def rows_sum_to_one(self) -> bool:
        """Whether every row with a visible key sums to 1, to two digits."""
        sums = self._patch.values.sum(1, dtype=np.float64)[self._visible_counts > 0]
        return bool((abs(sums - 1) < TWO_DIGIT_TOLERANCE).all())

    @property
    def rows_are_blind(self) -> bool:
        return bool((self._visible_counts == 0).all())

    @property
    def rows_with_choice(self) -> int:
        return int((self._visible_counts > 1).sum())

    @cached_property
    def unevenness(self) -> float:
        """The largest deviation of a visible weight from its row's even share, as a part of it."""
        deviations = abs(self._patch.values * self._visible_counts[:, None] - 1)
        return float(deviations.max(initial=0.0, where=~self._patch.hidden))

    def least_own_weight(self, *, mirrored: bool) -> float:
        """Return the smallest weight that a token gives itself, or the mirrored position, as the
        first token the last.
        """
        values = self._patch.values[:, ::-1] if mirrored else self._patch.values
        return float(values.diagonal().min(initial=1.0))

    @cached_property
    def favourites(self) -> Int[np.ndarray, "row"]:
        """The key to which each row attends most, by a clear lead; -1 where there is no choice or
        no such key.
        """
        values = self._patch.values
        if values.shape[1] < 2:
            return np.full(len(values), -1)
        next_, best = np.partition(values, -2, axis=1)[:, -2:].T
        is_clear = (best - next_ > MIN_CLEAR_LEAD) & (self._visible_counts > 1)
        return np.where(is_clear, values.argmax(1), -1)
