"""What there is to know of rows of attention weights, however many: asked for band by band."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.cells import Cells, Patch
from attnviz.views.facts import TWO_DIGIT_TOLERANCE

MIN_CLEAR_LEAD = 0.005  # by how much a weight must exceed all others to be the one that is named


@dataclass(frozen=True)
class StrongestLink:
    """The largest weight of a head, and the next."""

    query: int
    key: int
    weight: float
    next_weight: float


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What there is to know of some rows of weights, looked up in one pass over their cells."""

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
        """Whether every row that attends to anything sums to 1."""
        return all(band.rows_sum_to_one for band in self._facts)

    @property
    def rows_are_blind(self) -> bool:
        """Whether no row attends to anything."""
        return all(bool((band.visible_counts == 0).all()) for band in self._facts)

    @property
    def rows_with_choice(self) -> int:
        """How many rows may attend to more than one token."""
        return sum(int((band.visible_counts > 1).sum()) for band in self._facts)

    @property
    def unevenness(self) -> float:
        """How far a weight is from an even share of its row, as a part of that share."""
        return max((band.unevenness for band in self._facts), default=0.0)

    @property
    def least_self_weight(self) -> float:
        """How much of its attention each token gives itself, at least."""
        return min((band.least_self_weight for band in self._facts), default=0.0)

    @property
    def least_mirrored_weight(self) -> float:
        """The same of the token at the mirrored place: of the last one the first gives it."""
        return min((band.least_mirrored_weight for band in self._facts), default=0.0)

    @cached_property
    def strongest_link(self) -> StrongestLink | None:
        """The largest weight of rows that have a choice: who sees one token gives it everything."""
        links = [link for band in self._facts if (link := band.strongest_link)]
        if not links:
            return None
        best = max(links, key=lambda link: link.weight)
        other_weights = [link.weight for link in links if link is not best]
        return StrongestLink(
            best.query, best.key, best.weight, max([best.next_weight, *other_weights])
        )

    def links_near(self, weight: float, max_links: int) -> list[tuple[int, int]]:
        """The query and the key of each weight that is hardly less, of rows that have a choice.

        Nothing if there are more than `max_links`: where weights are even, that would be all of them.
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
        """By key: how many rows with a choice attend to it more than to any other."""
        return sum((band.favourite_keys for band in self._facts), Counter())


class _BandFacts:
    """The same of a band of rows."""

    def __init__(self, band: Patch, first_row: int) -> None:
        self.values = np.where(band.hidden, 0.0, np.nan_to_num(band.values)).astype(np.float64)
        self.visible, self.first_row = ~band.hidden, first_row
        self.visible_counts = self.visible.sum(1)
        sums = self.values.sum(1)[self.visible_counts > 0]
        self.rows_sum_to_one = bool((abs(sums - 1) < TWO_DIGIT_TOLERANCE).all())

    @property
    def unevenness(self) -> float:
        deviations = abs(self.values * self.visible_counts[:, None] - 1)[self.visible]
        return float(deviations.max(initial=0.0))

    @property
    def least_self_weight(self) -> float:
        return float(self.values.diagonal(self.first_row).min(initial=1.0))

    @property
    def least_mirrored_weight(self) -> float:
        rows, last = np.arange(len(self.values)), self.values.shape[1] - 1
        return float(self.values[rows, last - self.first_row - rows].min(initial=1.0))

    @property
    def strongest_link(self) -> StrongestLink | None:
        choice_rows = np.flatnonzero(self.visible_counts > 1)
        if not len(choice_rows):
            return None
        values = self.values[choice_rows].ravel()
        next_, best = np.partition(values, -2)[-2:]
        row, key = divmod(int(values.argmax()), self.values.shape[1])
        return StrongestLink(self.first_row + int(choice_rows[row]), key, float(best), float(next_))

    @property
    def favourite_keys(self) -> Counter[int]:
        values = self.values[self.visible_counts > 1]
        if not len(values):
            return Counter()
        next_, best = np.partition(values, -2, axis=1)[:, -2:].T
        return Counter(values.argmax(1)[best - next_ > MIN_CLEAR_LEAD].tolist())
