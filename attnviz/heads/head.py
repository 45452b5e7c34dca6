"""Head: the weights of one head, or of several together, seen through two sides.

Its cells are read where they are needed, however long the text is: what is known of the rows is
computed from as few weights as possible, some rows at a time; of a whole text whose weights are
computed only where they are shown, it is what was measured of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attnviz.attention.long_attention import AttentionSummary
from attnviz.cells import FULL_SLICE, Cells, CellValues, Patch, StoredCells
from attnviz.heads.side import Side
from attnviz.traces.indexing import cut_weights
from attnviz.traces.long_weights import StreamedWeights
from attnviz.traces.trace import Layer, no_summary_error
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.wording.keywords import with_checked_arguments

CELLS_AT_ONCE = 2**20  # of whole rows, while some of them are read
EQUAL_TOLERANCE = 1e-6  # of weights, relative to the larger
LEAST_TOTAL = 1e-30  # of weights, by which a share is divided


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What the rows of a head hold; sums and largest weights are exact, also of blocks."""

    cells: StoredCells  # of the keys shown alone; a cell may be a block
    shown: Float[np.ndarray, "query"]  # the sum of the weights on the keys shown,
    totals: Float[np.ndarray, "query"]  # and on all keys
    received: Float[np.ndarray, "key"]  # the sum of each key's column,
    even_received: Float[np.ndarray, "key"]  # and if each query attended evenly to what it sees
    largest: Float[np.ndarray, "query"]
    largest_key: Int[np.ndarray, "query"]  # its index among the keys shown
    ties: Int[np.ndarray, "query"]  # how many of the keys shown have the largest weight
    visible: Int[np.ndarray, "query"]  # how many of the keys shown are not hidden,
    all_visible: Int[np.ndarray, "query"]  # and how many of all keys


@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """The weights of each query for each key: of some queries, or all, on some keys, or all."""

    name: str  # such as L4H7, or "mean of 72 heads"
    table: Cells  # a row and a column for all that the sides could show
    rows: Side
    columns: Side
    layer: Layer  # of several heads together, that of the first, and its number
    number: int = 0
    title: str = ""  # in titles: empty for the only head
    are_shares: bool = True  # of a row, which sums to 1 if no token is left out
    merged_heads: tuple[Head, ...] = ()  # those that it is the mean of, or merged from otherwise
    is_measured: bool = False  # whether it is a whole text, of which all facts were measured

    @cached_property
    def cells(self) -> Cells:
        """The numbers of what the sides show."""
        if self.is_measured:
            return self.cells_in(self.block)
        is_whole = self.rows.is_whole and self.columns.is_whole
        return self.table if is_whole else self.facts.cells

    @property
    def weights(self) -> Float[Tensor, "query key"]:
        """All numbers of the cells; may compute them."""
        return torch.from_numpy(np.array(self.cells.window(FULL_SLICE, FULL_SLICE).values))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    @with_checked_arguments
    def __getitem__(self, key: Any) -> Tensor:
        """Return what an index chooses of `weights`, by positions from 0 among those shown."""
        return cut_weights(self.weights, key if isinstance(key, tuple) else (key,))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.weights)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Shaped[np.ndarray, "..."]:
        """Return the weights as an array: `np.asarray(inspection[5, 11])`."""
        return np.asarray(self.weights.numpy(), dtype)

    def __repr__(self) -> str:
        return f"<Head {self.name}: {len(self.rows)} × {len(self.columns)}>"

    @property
    def is_off(self) -> bool:
        if self.merged_heads:
            return all(head.is_off for head in self.merged_heads)
        return self.number in self.layer.off

    @property
    def reads_itself(self) -> bool:
        """Whether it attends to the text that its queries are of."""
        return self.columns.tokens is self.rows.tokens

    @property
    def pool(self) -> str:
        """What a block of cells shows: their mean share, or their largest weight."""
        return self.layer.weights.map_pool

    def part(self, queries: range, keys: range) -> Head:
        """Return the weights of some queries on some keys, one by one."""
        rows, columns = self.rows.part(queries), self.columns.part(keys)
        return replace(self, rows=rows, columns=columns, is_measured=False)

    def row(self, query: int) -> Head:
        """Return the weights of one query on all keys."""
        return self.part(range(query, query + 1), self.columns.whole)

    # What was measured of a whole text

    @property
    def streamed(self) -> StreamedWeights:
        """The weights of a long text; refused if they are in memory."""
        if self.layer.streamed_weights is None:
            raise no_summary_error()
        return self.layer.streamed_weights

    @cached_property
    def summary(self) -> tuple[AttentionSummary, int]:
        """A summary with the statistics of this head, and the number that the head has in it."""
        summary, index = self.streamed.summary_of(self.number)
        return (_mean_of_heads(summary), 0) if self.merged_heads else (summary, index)

    @property
    def map_summary(self) -> tuple[AttentionSummary, int]:
        """A summary with the map of this head, and the number that the head has in it."""
        return self.summary if self.merged_heads else self.streamed.map_of(self.number)

    def numbers(self, name: str) -> Float[np.ndarray, "token"]:
        """Return what was measured of each token of the text."""
        summary, index = self.summary
        return tensor_to_numpy(getattr(summary, name)[index]).astype(float)

    def defined_numbers(self, name: str) -> Float[np.ndarray, "token"]:
        """Return the same with NaN for tokens that attend to nothing, in any head of a mean."""
        position = self.streamed.summary_of(self.number)[0].largest_position
        assert position is not None  # a summary has statistics
        blind = position < 0
        is_blind = tensor_to_numpy(blind.any(0) if self.merged_heads else blind[self.number])
        return np.where(is_blind, np.nan, self.numbers(name))

    def weights_of(self, query: int) -> Float[np.ndarray, "key"]:
        """Return the exact weights of one query."""
        return np.asarray(self.table.row(query).values[0].astype(float))

    @property
    def visible_counts(self) -> Int[np.ndarray, "query"]:
        """How many keys the mask lets each query of the text attend to."""
        return tensor_to_numpy(self.layer.visible_counts(self.number))

    def even_share_within(self, distance: int) -> float:
        """Return the share of the attention that would stay within a distance if each query
        attended evenly to all keys that the mask lets it attend to.
        """
        rule = self.layer.mask_rule.for_head(self.number)
        before, after = (
            distance if reach is None else min(reach, distance)
            for reach in (rule.before, rule.after)
        )
        near_rule = replace(rule, before=before, after=after)
        near = near_rule.visible_counts(*self.layer.size, self.layer.inputs.device)
        sees = self.visible_counts > 0
        return float((tensor_to_numpy(near)[sees] / self.visible_counts[sees]).mean())

    def near_half(self) -> tuple[int, float]:
        """Return the smallest measured distance within which half of the attention stays, and the
        share that does.
        """
        masses = self.numbers("by_distance")
        shares = masses.cumsum() / max(masses.sum(), LEAST_TOTAL)
        index = min(int(np.searchsorted(shares, 0.5)), len(shares) - 1)
        edges = self.summary[0].distance_edges
        assert edges is not None  # a summary has statistics
        return edges[index + 1] - 1, float(shares[index])

    # What is received, and by how much more than evenly

    @cached_property
    def received(self) -> Float[np.ndarray, "key"]:
        """How much attention each key receives: the sum of its column."""
        return self.numbers("received") if self.is_measured else self.facts.received

    @cached_property
    def even_received(self) -> Float[np.ndarray, "key"]:
        """The same if each query attended evenly to all keys that the mask lets it attend to."""
        if not self.is_measured:
            return self.facts.even_received
        rule, device = self.layer.mask_rule.for_head(self.number), self.layer.inputs.device
        return tensor_to_numpy(rule.readers(*self.layer.size, device)[1]).astype(float)

    @cached_property
    def received_shares(self) -> Float[np.ndarray, "key"]:
        """The share of the queries' attention that each key receives."""
        total = self.received.sum() if self.is_measured else self.facts.totals.sum()
        return np.asarray(self.received / max(total, LEAST_TOTAL))

    @cached_property
    def even_shares(self) -> Float[np.ndarray, "key"]:
        """The same if the queries attended evenly to all keys that they see."""
        if self.is_measured:
            total = max(self.even_received.sum(), LEAST_TOTAL)
        else:
            total = max((self.facts.all_visible > 0).sum(), 1)
        return np.asarray(self.even_received / total)

    def most_read(self, most: int) -> list[int]:
        """Return the indices of the keys that receive most, the first of them first."""
        return [int(index) for index in np.argsort(-self.received_shares, kind="stable")[:most]]

    @property
    def share(self) -> float:
        """The share of the queries' attention that goes to the keys shown."""
        return float(self.facts.shown.sum() / max(self.facts.totals.sum(), LEAST_TOTAL))

    @property
    def has_all_keys(self) -> bool:
        """Whether the queries attend to no other keys than those shown."""
        return bool((self.facts.visible == self.facts.all_visible).all())

    def even_weight(self, row: int) -> float:
        """Return each weight of a row if it attended evenly to all keys that it sees."""
        return 1 / max(1, int(self.facts.all_visible[row]))

    @property
    def even_row(self) -> Float[np.ndarray, "key"]:
        """The weights of the first query if it attended evenly to all keys that it sees."""
        return np.asarray(~self.facts.cells.hidden[0] * self.even_weight(0))

    # Cells and rows

    @cached_property
    def facts(self) -> RowFacts:
        """What the rows hold, read some at a time."""
        columns = slice(self.columns.span.start, self.columns.span.stop)
        height, queries = self.rows.size, self.rows.span
        step = max(1, CELLS_AT_ONCE // (height * self.table.shape[1])) * height
        bands = []
        for first in range(queries.start, queries.stop, step):
            rows = slice(first, min(first + step, queries.stop))
            bands.append(self._read_band(self.table.window(rows, FULL_SLICE), columns))
        columns_of_bands = zip(*bands, strict=True)
        values, hidden, received, even, *by_query = (list(column) for column in columns_of_bands)
        cells = StoredCells(np.concatenate(values), np.concatenate(hidden))
        shown, totals, *rest = (np.concatenate(column) for column in by_query)
        return RowFacts(cells, shown, totals, sum(received), sum(even), *rest)

    def _read_band(self, band: Patch, columns: slice) -> tuple[Any, ...]:
        """Return what is kept of some whole rows: cells or blocks, and numbers of each row."""
        values, hidden = band.values[:, columns], band.hidden[:, columns]
        all_visible = (~band.hidden).sum(axis=1)
        largest = values.max(axis=1)
        is_largest = np.isclose(values, largest[:, None], rtol=EQUAL_TOLERANCE, atol=0)
        blocks = pool_patch(Patch(values, hidden), (self.rows.size, self.columns.size), self.pool)
        return (
            blocks.values,
            blocks.hidden,
            values.sum(axis=0, dtype=np.float64),
            (~hidden / np.maximum(all_visible, 1)[:, None]).sum(axis=0),
            values.sum(axis=1, dtype=np.float64),
            band.values.sum(axis=1, dtype=np.float64),
            largest,
            np.where(hidden, -np.inf, values).argmax(axis=1),
            (is_largest & ~hidden).sum(axis=1),
            (~hidden).sum(axis=1),
            all_visible,
        )

    @property
    def block(self) -> tuple[int, int]:
        """How many queries and keys a cell stands for."""
        return self.rows.size, self.columns.size

    def blocks_for(self, most: int) -> tuple[int, int]:
        """Return the smallest blocks, made of those that are there, for `most` cells on a side."""
        return self.rows.in_blocks(most).size, self.columns.in_blocks(most).size

    def cells_in(self, block: tuple[int, int]) -> StoredCells:
        """Return the weights shown in blocks of so many queries and keys, made of those that are
        there; those of a whole text were measured."""
        if self.is_measured:
            summary, index = self.map_summary
            hidden = tensor_to_numpy(head_mask(index, summary.hidden))
            return StoredCells(tensor_to_numpy(summary.pooled[index]).astype(float), hidden)
        (height, width), cells = block, self.facts.cells
        joined = height // self.rows.size, width // self.columns.size
        patch = pool_patch(Patch(cells.values, cells.hidden), joined, self.pool)
        return StoredCells(patch.values, patch.hidden)


def _mean_of_heads(summary: AttentionSummary) -> AttentionSummary:
    """Return what was measured of a layer as the mean over its heads."""
    means: dict[str, Any] = {
        name: value.double().mean(0, keepdim=True)
        for name, value in vars(summary).items()
        if isinstance(value, Tensor) and name != "hidden"
    }
    hidden = summary.hidden.all(0) if summary.hidden.ndim == 3 else summary.hidden
    return replace(summary, **means, hidden=hidden)


def pool_patch(patch: Patch, block: tuple[int, int], pool: str) -> Patch:
    """Return a patch with each block of cells joined to one: the mean over its rows of their sums,
    or its largest number.
    """
    if block == (1, 1):
        return patch
    pooled = StoredCells(patch.values, patch.hidden).pooled(*block, share=True)
    if pool == "mean":
        return pooled
    down, across = (np.arange(0, count, size)
                    for count, size in zip(patch.values.shape, block, strict=True))  # fmt: skip
    values: CellValues = np.maximum.reduceat(
        np.maximum.reduceat(patch.values, across, axis=1), down, axis=0
    )
    return Patch(values, pooled.hidden)
