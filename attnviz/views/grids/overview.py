"""Overview: a small map of each of many heads, layers in rows, all on one scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Shaped

from attnviz.cells import unmasked_cells
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.scales import (
    Scale,
    ScaleBend,
    centred_scale,
    logarithmic_scale,
    round_up,
    weight_scale,
)
from attnviz.wording.numbers import short_text

MAX_CELLS_PER_SIDE = 64  # cells on a side: of more nothing could be told apart
COLOR_SCALE_NOTES: dict[ScaleBend, str] = {
    "straight": "",
    "root": "colours by square root",
    "log": "colours by logarithm",
}

MapValues = Float[np.ndarray, "map query key"]
MapMask = Bool[np.ndarray, "map query key"]
TokenCounts = Shaped[np.ndarray, "place"]


@dataclass(frozen=True)
class Flag:
    """What is said of one map: what its head does more than any other."""

    map_index: int  # which of them
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
    values: MapValues
    hidden: MapMask
    query_axis: Axis  # the sides of every map: who reads,
    key_axis: Axis  # and what is read
    tokens_per_row: Shaped[np.ndarray, "query"]  # how many tokens a row stands for,
    tokens_per_column: Shaped[np.ndarray, "key"]  # and a column
    measure: str = "weight"
    share: bool = True  # rows sum to 1
    bend: ScaleBend = "root"
    note: str = ""
    flags: tuple[Flag, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """How many cells a map is high and wide."""
        _, high, wide = self.values.shape
        return high, wide

    @cached_property
    def has_masked_cells(self) -> bool:
        """Whether any cell is hidden."""
        return bool(self.hidden.any())

    @cached_property
    def scale(self) -> Scale:
        """One for all maps: as far as weights can go, or as what there is does."""
        cells = unmasked_cells(np.where(self.hidden, 0, self.values).reshape(-1, self.shape[1]))
        low, high = cells.extent
        if low < 0:
            scale = centred_scale(self.measure, cells)
        elif self.share:
            scale = replace(weight_scale(cells), label=self.measure)
        else:
            scale = Scale(self.measure, 0.0, round_up(high))
        if self.bend == "log" and low >= 0:
            return logarithmic_scale(scale, self.shape[1])
        return replace(scale, bend=self.bend)

    @property
    def pooled(self) -> str:
        """What one cell stands for, if that is several tokens, or parts of some."""
        queries_per_cell, keys_per_cell = (
            float(self.tokens_per_row.max()),
            float(self.tokens_per_column.max()),
        )
        if queries_per_cell == keys_per_cell == 1:
            return ""
        queries, keys = (
            _count_phrase(queries_per_cell, "query", "queries"),
            _count_phrase(keys_per_cell, "key", "keys"),
        )
        return f"one cell = mean of {queries}, sum of {keys}"

    def pooled_to(self, max_rows: int, max_columns: int) -> Overview:
        """The same in maps of at most so many cells, each of as many tokens as any other.

        What a token reads, and what is read of it, is parted between the cells that it stands in.
        """
        row_shares, column_shares = (
            _cell_shares(self.tokens_per_row, max_rows),
            _cell_shares(self.tokens_per_column, max_columns),
        )
        if (row_shares.shape[1], column_shares.shape[1]) == self.shape:
            return self
        query_means = (row_shares / row_shares.sum(0)).T.astype(self.values.dtype)
        key_shares = (column_shares / column_shares.sum(1, keepdims=True)).astype(self.values.dtype)
        visible_counts = (row_shares > 0).T.astype(float) @ ~self.hidden @ (column_shares > 0)
        return replace(
            self,
            values=query_means @ self.values @ key_shares,
            hidden=visible_counts == 0,
            tokens_per_row=row_shares.sum(0),
            tokens_per_column=column_shares.sum(0),
        )

    def maps_in_layer(self, layer: int) -> Iterator[tuple[int, int]]:
        """The maps of a layer, each with the column that it stands in."""
        for map_index, (row, column) in enumerate(self.places):
            if row == layer:
                yield map_index, column


def _cell_shares(tokens: TokenCounts, max_cells: int) -> Float[np.ndarray, "place cell"]:
    """How much of each place is in each of at most so many cells, which are equally long.

    >>> _cell_shares(np.ones(3), 2).tolist(), _cell_shares(np.ones(1), 9).tolist()
    ([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], [[1.0]])
    """
    if len(tokens) <= max_cells:
        return np.diag(tokens).astype(float)
    token_ends, total = np.cumsum(tokens), tokens.sum()
    cell_ends = np.arange(max(max_cells, 1) + 1) * total / max(max_cells, 1)
    latest_start = np.maximum((token_ends - tokens)[:, None], cell_ends[None, :-1])
    earliest_end = np.minimum(token_ends[:, None], cell_ends[None, 1:])
    return np.asarray(np.maximum(earliest_end - latest_start, 0))


def _count_phrase(number: float, singular: str, plural: str) -> str:
    """
    >>> _count_phrase(1, "key", "keys"), _count_phrase(5.3, "key", "keys"), _count_phrase(0.5, "key", "keys")
    ('1 key', 'about 5 keys', '0.5 keys')
    """
    if number < 2 or number == round(number):  # parts of a token are not rounded away
        return f"{short_text(number)} {singular if number == 1 else plural}"
    return f"about {short_text(round(number))} {plural}"
