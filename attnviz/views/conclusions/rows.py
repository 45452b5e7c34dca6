"""What there is to know of rows of attention weights, however many: asked for band by band."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.cells import Cells, Patch
from attnviz.views.facts import ROUNDING

APART = 0.005  # by how much a weight must exceed all others to be the one that is named


@dataclass(frozen=True)
class Link:
    """The largest weight of a head, and the next."""

    query: int
    key: int
    weight: float
    next: float


@dataclass(frozen=True, eq=False)
class Rows:
    """What there is to know of some rows of weights, looked up in one pass over their cells."""

    cells: Cells

    @cached_property
    def _facts(self) -> tuple[_Facts, ...]:
        first, found = 0, []
        for band in self.cells.bands():
            found.append(_Facts(band, first))
            first += len(band.values)
        return tuple(found)

    @property
    def whole(self) -> bool:
        """Whether every row that attends to anything sums to 1."""
        return all(each.whole for each in self._facts)

    @property
    def blind(self) -> bool:
        """Whether no row attends to anything."""
        return all(bool((each.seen == 0).all()) for each in self._facts)

    @property
    def chosen(self) -> int:
        """How many rows may attend to more than one token."""
        return sum(int((each.seen > 1).sum()) for each in self._facts)

    @property
    def uneven(self) -> float:
        """How far a weight is from an even share of its row, as a part of that share."""
        return max((each.uneven for each in self._facts), default=0.0)

    @property
    def itself(self) -> float:
        """How much of its attention each token gives itself, at least."""
        return min((each.itself for each in self._facts), default=0.0)

    @property
    def mirrored(self) -> float:
        """The same of the token at the mirrored place: of the last one the first gives it."""
        return min((each.mirrored for each in self._facts), default=0.0)

    @cached_property
    def strongest(self) -> Link | None:
        """The largest weight of rows that have a choice: who sees one token gives it everything."""
        links = [link for each in self._facts if (link := each.strongest)]
        if not links:
            return None
        best = max(links, key=lambda link: link.weight)
        rest = [link.weight for link in links if link is not best]
        return Link(best.query, best.key, best.weight, max([best.next, *rest]))

    def near(self, weight: float, most: int) -> list[tuple[int, int]]:
        """The query and the key of each weight that is hardly less, of rows that have a choice.

        Nothing if there are more than `most`: where weights are even, that would be all of them.
        """
        links: list[tuple[int, int]] = []
        for each in self._facts:
            close = (each.values >= weight - APART) & (each.seen > 1)[:, None]
            if len(links) + int(close.sum()) > most:
                return []
            links += [(each.first + int(row), int(key)) for row, key in np.argwhere(close)]
        return links

    @cached_property
    def favourites(self) -> Counter[int]:
        """By key: how many rows with a choice attend to it more than to any other."""
        return sum((each.favourites for each in self._facts), Counter())


class _Facts:
    """The same of a band of rows."""

    def __init__(self, band: Patch, first: int) -> None:
        self.values = np.where(band.hidden, 0.0, np.nan_to_num(band.values)).astype(np.float64)
        self.visible, self.first = ~band.hidden, first
        self.seen = self.visible.sum(1)
        sums = self.values.sum(1)[self.seen > 0]
        self.whole = bool((abs(sums - 1) < ROUNDING).all())

    @property
    def uneven(self) -> float:
        off = abs(self.values * self.seen[:, None] - 1)[self.visible]
        return float(off.max(initial=0.0))

    @property
    def itself(self) -> float:
        return float(self.values.diagonal(self.first).min(initial=1.0))

    @property
    def mirrored(self) -> float:
        rows, last = np.arange(len(self.values)), self.values.shape[1] - 1
        return float(self.values[rows, last - self.first - rows].min(initial=1.0))

    @property
    def strongest(self) -> Link | None:
        places = np.flatnonzero(self.seen > 1)
        if not len(places):
            return None
        values = self.values[places].ravel()
        next_, best = np.partition(values, -2)[-2:]
        row, key = divmod(int(values.argmax()), self.values.shape[1])
        return Link(self.first + int(places[row]), key, float(best), float(next_))

    @property
    def favourites(self) -> Counter[int]:
        values = self.values[self.seen > 1]
        if not len(values):
            return Counter()
        next_, best = np.partition(values, -2, axis=1)[:, -2:].T
        return Counter(values.argmax(1)[best - next_ > APART].tolist())
