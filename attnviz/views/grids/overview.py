"""Overview: a small map of each of many heads, layers in rows, all on one scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from attnviz.cells import unmasked
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.scales import Bend, Scale, centred, rounded_up, weight_scale

FINEST = 64  # cells on a side: of more nothing could be told apart
BENDS: dict[Bend, str] = {
    "straight": "",
    "root": "colours by the square root",
    "log": "colours by the logarithm",
}

Values = Float[np.ndarray, "map query key"]
Hidden = Bool[np.ndarray, "map query key"]
Starts = Int[np.ndarray, "place"]


@dataclass(frozen=True)
class Flag:
    """What is said of one map: what its head does more than any other."""

    map: int  # which of them
    kind: str  # previous token
    number: str  # how much of it: .98


@dataclass(frozen=True, eq=False, kw_only=True)
class Overview:
    """Who reads whom in each of many heads.

    A cell may stand for several tokens: then it holds what each query of its block reads, in the
    mean, of all keys of its block, so that rows of weights still sum to 1.
    """

    title: str
    rows: Axis  # a place for each layer,
    columns: Axis  # and one for each head
    groups: tuple[int, ...] = ()  # of each column, which heads of keys and values it reads
    names: tuple[str, ...]  # of each map: L4H7
    places: tuple[tuple[int, int], ...]  # in which row and column it stands
    values: Values
    hidden: Hidden
    reads: Axis  # the sides of every map: who reads,
    read: Axis  # and what is read
    tall: Int[np.ndarray, "query"]  # how many tokens a row stands for,
    wide: Int[np.ndarray, "key"]  # and a column
    measure: str = "weight"
    share: bool = True  # rows sum to 1
    bend: Bend = "root"
    note: str = ""
    flags: tuple[Flag, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """How many cells a map is high and wide."""
        _, high, wide = self.values.shape
        return high, wide

    @cached_property
    def hides(self) -> bool:
        """Whether any cell is hidden."""
        return bool(self.hidden.any())

    @cached_property
    def scale(self) -> Scale:
        """One for all maps: as far as weights can go, or as what there is does."""
        cells = unmasked(np.where(self.hidden, 0, self.values).reshape(-1, self.shape[1]))
        low, high = cells.extent
        if low < 0:
            found = centred(self.measure, cells)
        elif self.share:
            found = replace(weight_scale(cells), label=self.measure)
        else:
            found = Scale(self.measure, 0.0, rounded_up(high))
        return replace(found, bend=self.bend)

    @property
    def pooled(self) -> str:
        """What one cell stands for, if that is several."""
        tall, wide = _span(self.tall), _span(self.wide)
        if (tall, wide) == ("1", "1"):
            return ""
        queries, keys = "query" if tall == "1" else "queries", "key" if wide == "1" else "keys"
        read = "the mean of what they read of them"
        return f"one cell = {tall} {queries} × {wide} {keys}: {read}"

    def grained(self, high: int, wide: int) -> Overview:
        """The same in maps of at most so many cells."""
        down, across = _starts(len(self.tall), high), _starts(len(self.wide), wide)
        if (len(down), len(across)) == self.shape:
            return self
        tall = np.add.reduceat(self.tall, down)
        shares = self.tall / np.repeat(tall, _lengths(down, len(self.tall)))
        rows = np.add.reduceat(self.values * shares[None, :, None], down, axis=1)
        return replace(
            self,
            values=np.add.reduceat(rows, across, axis=2),
            hidden=_all_hidden(_all_hidden(self.hidden, down, 1), across, 2),
            tall=tall,
            wide=np.add.reduceat(self.wide, across),
        )

    def row(self, layer: int) -> Iterator[tuple[int, int]]:
        """The maps of a layer, each with the column that it stands in."""
        for number, (row, column) in enumerate(self.places):
            if row == layer:
                yield number, column


def _starts(count: int, most: int) -> Starts:
    """Where each of so many blocks begins, which are about as long as each other.

    >>> _starts(15, 4).tolist(), _starts(3, 9).tolist()
    ([0, 3, 7, 11], [0, 1, 2])
    """
    blocks = max(1, min(count, most))
    return np.arange(blocks) * count // blocks


def _lengths(starts: Starts, count: int) -> Int[np.ndarray, "place"]:
    return np.diff(np.append(starts, count))


def _all_hidden(hidden: Hidden, starts: Starts, axis: int) -> Hidden:
    found: Hidden = np.logical_and.reduceat(hidden, starts, axis=axis)
    return found


def _span(counts: Int[np.ndarray, "place"]) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low}–{high}"
