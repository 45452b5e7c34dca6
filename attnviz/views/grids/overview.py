"""Overview: a small map of each of many heads, layers in rows, all on one scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Shaped

from attnviz.cells import unmasked
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.scales import Bend, Scale, centred, logarithmic, rounded_up, weight_scale
from attnviz.wording.numbers import short_text

FINEST = 64  # cells on a side: of more nothing could be told apart
BENDS: dict[Bend, str] = {
    "straight": "",
    "root": "colours by square root",
    "log": "colours by logarithm",
}

Values = Float[np.ndarray, "map query key"]
Hidden = Bool[np.ndarray, "map query key"]
Counts = Shaped[np.ndarray, "place"]


@dataclass(frozen=True)
class Flag:
    """What is said of one map: what its head does more than any other."""

    map: int  # which of them
    kind: str  # first token (sink)
    short: str  # first
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
    tall: Shaped[np.ndarray, "query"]  # how many tokens a row stands for,
    wide: Shaped[np.ndarray, "key"]  # and a column
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
        if self.bend == "log" and low >= 0:
            return logarithmic(found, self.shape[1])
        return replace(found, bend=self.bend)

    @property
    def pooled(self) -> str:
        """What one cell stands for, if that is several tokens, or parts of some."""
        tall, wide = float(self.tall.max()), float(self.wide.max())
        if tall == wide == 1:
            return ""
        queries, keys = _counted(tall, "query", "queries"), _counted(wide, "key", "keys")
        return f"one cell = mean of {queries}, sum of {keys}"

    def grained(self, high: int, wide: int) -> Overview:
        """The same in maps of at most so many cells, each of as many tokens as any other.

        What a token reads, and what is read of it, is parted between the cells that it stands in.
        """
        down, across = _parts(self.tall, high), _parts(self.wide, wide)
        if (down.shape[1], across.shape[1]) == self.shape:
            return self
        means = (down / down.sum(0)).T.astype(self.values.dtype)
        shares = (across / across.sum(1, keepdims=True)).astype(self.values.dtype)
        seen = (down > 0).T.astype(float) @ ~self.hidden @ (across > 0)
        return replace(
            self,
            values=means @ self.values @ shares,
            hidden=seen == 0,
            tall=down.sum(0),
            wide=across.sum(0),
        )

    def row(self, layer: int) -> Iterator[tuple[int, int]]:
        """The maps of a layer, each with the column that it stands in."""
        for number, (row, column) in enumerate(self.places):
            if row == layer:
                yield number, column


def _parts(tokens: Counts, most: int) -> Float[np.ndarray, "place cell"]:
    """How much of each place is in each of at most so many cells, which are equally long.

    >>> _parts(np.ones(3), 2).tolist(), _parts(np.ones(1), 9).tolist()
    ([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], [[1.0]])
    """
    if len(tokens) <= most:
        return np.diag(tokens).astype(float)
    ends, total = np.cumsum(tokens), tokens.sum()
    cells = np.arange(max(most, 1) + 1) * total / max(most, 1)
    latest_start = np.maximum((ends - tokens)[:, None], cells[None, :-1])
    earliest_end = np.minimum(ends[:, None], cells[None, 1:])
    return np.asarray(np.maximum(earliest_end - latest_start, 0))


def _counted(number: float, one: str, several: str) -> str:
    """
    >>> _counted(1, "key", "keys"), _counted(5.3, "key", "keys"), _counted(0.5, "key", "keys")
    ('1 key', 'about 5 keys', '0.5 keys')
    """
    if number < 2 or number == round(number):  # parts of a token are not rounded away
        return f"{short_text(number)} {one if number == 1 else several}"
    return f"about {short_text(round(number))} {several}"
