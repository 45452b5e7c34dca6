"""Overview: a small map of each of many heads, layers in rows, on one scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Shaped

from attnviz.cells import unmasked_cells
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.scales import Scale, ScaleBend, logarithmic_scale, measure_scale
from attnviz.wording.numbers import short_text
from attnviz.wording.words import with_summary

MAX_CELLS_PER_SIDE = 64  # more cells could not be told apart
COLOR_SCALE_NOTES: dict[ScaleBend, str] = {
    "straight": "",
    "root": "colours by square root",
    "log": "colours by logarithm",
}

TokenCounts = Shaped[np.ndarray, "place"]


@dataclass(frozen=True)
class Flag:
    """A mark at one map: the head of this map does something more than any other head."""

    map_index: int
    kind: str  # "first token (sink)"
    short: str  # "first"
    number: str  # ".98": how much of the attention it takes
    count: int = 0  # how many heads are of this kind


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class Overview:
    """Small maps of the weights of many heads.

    A cell may stand for several tokens: it then holds what the queries of its block give, on
    average, to all keys of its block together, so that rows of weights still sum to 1.
    """

    title: str
    rows: Axis  # a position for each layer
    columns: Axis  # a position for each head
    groups: tuple[int, ...] = ()  # for each column, the index of its key-value head
    names: tuple[str, ...]  # of each map, such as L4H7
    map_cells: tuple[tuple[int, int], ...]  # the row and column of each map
    values: Float[np.ndarray, "map query key"]
    hidden: Bool[np.ndarray, "map query key"]
    query_axis: Axis  # of every map
    key_axis: Axis
    tokens_per_row: Shaped[np.ndarray, "query"]  # how many tokens each row stands for
    tokens_per_column: Shaped[np.ndarray, "key"]
    measure: str = "weight"
    share: bool = True  # rows sum to 1
    bend: ScaleBend = "root"
    note: str = ""
    flags: tuple[Flag, ...] = ()
    kinds: tuple[int | None, ...] = ()  # for each map, the index of the flag of its kind

    @property
    def shape(self) -> tuple[int, int]:
        _, high, wide = self.values.shape
        return high, wide

    @cached_property
    def has_masked_cells(self) -> bool:
        return bool(self.hidden.any())

    @cached_property
    def scale(self) -> Scale:
        """The one colour scale of all maps, bent as `bend` says, but never logarithmic for negative
        numbers.
        """
        cells = unmasked_cells(np.where(self.hidden, 0, self.values).reshape(-1, self.shape[1]))
        scale = measure_scale(self.measure, cells, share=self.share)
        if self.bend == "log" and cells.extent[0] >= 0:
            return logarithmic_scale(scale, self.shape[1])
        return replace(scale, bend=self.bend)

    @property
    def pool_note(self) -> str:
        """What one cell stands for, `one cell = mean of 2 queries, sum of 2 keys`; empty where each
        cell is one query and one key.
        """
        queries, keys = float(self.tokens_per_row.max()), float(self.tokens_per_column.max())
        if queries == keys == 1:
            return ""
        queries_text = _count_phrase(queries, "query", "queries")
        return f"one cell = mean of {queries_text}, sum of {_count_phrase(keys, 'key', 'keys')}"

    def pooled_to(self, max_rows: int, max_columns: int) -> Overview:
        """Return the Overview with every map pooled to at most `max_rows` by `max_columns` cells of
        equal size; unchanged if maps are no larger.

        A token that lies in several cells is divided between them.
        """
        row_shares = _cell_shares(self.tokens_per_row, max_rows)
        column_shares = _cell_shares(self.tokens_per_column, max_columns)
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
        """Yield the index and the column of each map whose row is this layer."""
        for map_index, (row, column) in enumerate(self.map_cells):
            if row == layer:
                yield map_index, column


def _cell_shares(tokens: TokenCounts, max_cells: int) -> Float[np.ndarray, "place cell"]:
    """Return how much of each position lies in each of at most `max_cells` equally long cells.

    `tokens` holds how many tokens each position stands for. Where there are no more positions than
    cells, each is a cell of its own.

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
    """Return a number with its noun; a mean from 2 on that is not whole is rounded to `about`.

    >>> [_count_phrase(number, "key", "keys") for number in (1, 5.3, 0.5)]
    ['1 key', 'about 5 keys', '0.5 keys']
    """
    if number < 2 or number == round(number):  # a part of a token is not rounded
        return f"{short_text(number)} {singular if number == 1 else plural}"
    return f"about {short_text(round(number))} {plural}"
