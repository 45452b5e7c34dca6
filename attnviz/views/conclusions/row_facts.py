"""RowFacts: facts about rows of weights, computed from bands of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnviz.cells import Cells, Patch
from attnviz.views.attention_facts import TWO_DIGIT_TOLERANCE

MIN_CLEAR_LEAD = 0.005  # over all other weights, for a weight that is named alone


@dataclass(frozen=True)
class StrongestLink:
    """The query and key of a head's largest weight, that weight, and the second largest weight."""

    query: int
    key: int
    weight: float
    next_weight: float


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Facts about all rows of one head's weights; its cells are read once and in bands."""

    cells: Cells

    @cached_property
    def _facts(self) -> tuple[_BandFacts, ...]:
        first_row, band_facts = 0, []
        for band in self.cells.bands():
            band_facts.append(_BandFacts(band, first_row))
            first_row += len(band.values)
        return tuple(band_facts)

    @property
    def rows_sum_to_one(self) -> bool:
        """Whether every row with a visible key sums to 1, to two digits."""
        return all(band.rows_sum_to_one for band in self._facts)

    @property
    def rows_are_blind(self) -> bool:
        return all(bool((band.visible_counts == 0).all()) for band in self._facts)

    @property
    def rows_with_choice(self) -> int:
        return sum(int((band.visible_counts > 1).sum()) for band in self._facts)

    @property
    def unevenness(self) -> float:
        """The largest deviation of a visible weight from its row's even share, as a part of it."""
        return max((band.unevenness for band in self._facts), default=0.0)

    @property
    def least_self_weight(self) -> float:
        return min((band.least_self_weight for band in self._facts), default=0.0)

    @property
    def least_mirrored_weight(self) -> float:
        """The smallest weight given to the mirrored position, as by the first token to the last."""
        return min((band.least_mirrored_weight for band in self._facts), default=0.0)

    @cached_property
    def strongest_link(self) -> StrongestLink | None:
        """The largest weight among rows with more than one visible key; None without such a row."""
        links = [link for band in self._facts if (link := band.strongest_link)]
        if not links:
            return None
        best = max(links, key=lambda link: link.weight)
        next_weight = max([best.next_weight, *(each.weight for each in links if each is not best)])
        return replace(best, next_weight=next_weight)

    def links_near(self, weight: float, max_links: int) -> list[tuple[int, int]]:
        """Return query and key of each weight that is at least `weight` or hardly smaller.

        Only rows with more than one visible key count. The list is empty if there are more than
        `max_links`: then weights are about even.
        """
        links: list[tuple[int, int]] = []
        for band in self._facts:
            close = (band.values >= weight - MIN_CLEAR_LEAD) & (band.visible_counts > 1)[:, None]
            if len(links) + int(close.sum()) > max_links:
                return []
            links += [(band.first_row + int(row), int(key)) for row, key in np.argwhere(close)]
        return links

    @cached_property
    def favourite_keys(self) -> Counter[int]:
        """How many rows attend most to each key, by a clear lead.

        Only rows with more than one visible key count.
        """
        return sum((band.favourite_keys for band in self._facts), Counter())


class _BandFacts:
    """The facts about one band of rows, which begins at row `first_row` of the whole matrix.

    Hidden weights and NaN count as 0.
    """

    def __init__(self, band: Patch, first_row: int) -> None:
        self.values = np.where(band.hidden, 0.0, np.nan_to_num(band.values)).astype(np.float64)
        self.visible, self.first_row = ~band.hidden, first_row
        self.visible_counts = self.visible.sum(1)
        sums = self.values.sum(1)[self.visible_counts > 0]
        self.rows_sum_to_one = bool((abs(sums - 1) < TWO_DIGIT_TOLERANCE).all())

    @property
    def unevenness(self) -> float:
        """The largest deviation of a visible weight from its row's even share, as a part of it."""
        deviations = abs(self.values * self.visible_counts[:, None] - 1)[self.visible]
        return float(deviations.max(initial=0.0))

    @property
    def least_self_weight(self) -> float:
        """The smallest weight on the diagonal of the whole matrix; 1 if the band has none of it."""
        return float(self.values.diagonal(self.first_row).min(initial=1.0))

    @property
    def least_mirrored_weight(self) -> float:
        """The smallest weight on the other diagonal of the whole matrix."""
        rows, last = np.arange(len(self.values)), self.values.shape[1] - 1
        return float(self.values[rows, last - self.first_row - rows].min(initial=1.0))

    @property
    def strongest_link(self) -> StrongestLink | None:
        """The largest weight among rows with more than one visible key; None without such a row."""
        choice_rows = np.flatnonzero(self.visible_counts > 1)
        if not len(choice_rows):
            return None
        values = self.values[choice_rows].ravel()
        next_, best = np.partition(values, -2)[-2:]
        row, key = divmod(int(values.argmax()), self.values.shape[1])
        return StrongestLink(self.first_row + int(choice_rows[row]), key, float(best), float(next_))

    @property
    def favourite_keys(self) -> Counter[int]:
        """How many rows with more than one visible key attend most to each key, by a clear lead."""
        values = self.values[self.visible_counts > 1]
        if not len(values):
            return Counter()
        next_, best = np.partition(values, -2, axis=1)[:, -2:].T
        return Counter(values.argmax(1)[best - next_ > MIN_CLEAR_LEAD].tolist())
