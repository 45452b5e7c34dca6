"""PartOfHead: weights of some queries and keys of a head, read some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import floor, log10
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attnviz.cells import FULL_SLICE, Cells, CellValues, Patch, StoredCells
from attnviz.tokens.text_part import span_text
from attnviz.tokens.tokens import Tokens
from attnviz.traces.long_weights import LongWeights
from attnviz.traces.settings import Settings
from attnviz.views.even_spread import even_words
from attnviz.views.grids.axes import ALL_MASKED_TEXT, Axis
from attnviz.views.grids.grid import OFF_SUFFIX, Grid
from attnviz.views.grids.long_map import Profile
from attnviz.views.grids.scales import logarithmic_scale, weight_scale
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.long_text import (
    EQUAL_TOLERANCE,
    MOST_ATTENDED,
    MOST_READ,
    PROFILES,
    LongHead,
    attended_bars,
    block_means,
    label_at,
    quoted_label,
    token_bars,
)
from attnviz.views.reading import attention_head_name
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import counted

CELLS_AT_ONCE = 2**20  # of whole rows, while a part is read
SMALL_HIGH = 0.1  # a scale that ends below it needs more than two decimals
PARAGRAPH_SIGN = "¶ "  # before the label of a token at which a paragraph begins


@dataclass(frozen=True, eq=False)
class PartWeights:
    """What the rows of a part hold; sums and largest weights are exact, also of blocks."""

    cells: StoredCells  # of the part alone; a cell may be a block
    shown: Float[np.ndarray, "query"]  # the sum of the weights on the keys of the part,
    totals: Float[np.ndarray, "query"]  # and on all keys
    received: Float[np.ndarray, "key"]  # the sum of each key's column,
    even_received: Float[np.ndarray, "key"]  # and if each query attended evenly to what it sees
    largest: Float[np.ndarray, "query"]
    largest_key: Int[np.ndarray, "query"]  # its index in the part
    ties: Int[np.ndarray, "query"]  # how many keys of the part have the largest weight
    visible: Int[np.ndarray, "query"]  # how many keys of the part are not hidden,
    all_visible: Int[np.ndarray, "query"]  # and how many of all keys


@dataclass(frozen=True, eq=False)
class PartOfHead:
    """A part of the weights of one head."""

    whole: LongHead
    queries: range  # positions, from 0
    keys: range
    block: tuple[int, int] = (1, 1)  # queries and keys in a cell

    @property
    def name(self) -> str:
        return attention_head_name(self.whole.trace, self.whole.layer, self.whole.head)

    @property
    def all_cells(self) -> Cells:
        return self.whole.layer.weights.cells("mixing", self.whole.head)

    @property
    def share(self) -> float:
        return float(self.weights.shown.sum() / max(self.weights.totals.sum(), 1e-30))

    @property
    def is_off(self) -> bool:
        return self.whole.head in self.whole.layer.off

    @property
    def has_all_keys(self) -> bool:
        return bool((self.weights.visible == self.weights.all_visible).all())

    @property
    def pool(self) -> str:
        weights = self.whole.layer.weights
        return weights.pool if isinstance(weights, LongWeights) else Settings.pool

    @cached_property
    def weights(self) -> PartWeights:
        """The weights of the part, read some rows at a time."""
        columns = slice(self.keys.start, self.keys.stop)
        height = self.block[0]
        step = max(1, CELLS_AT_ONCE // (height * self.all_cells.shape[1])) * height
        bands = []
        for first in range(self.queries.start, self.queries.stop, step):
            rows = slice(first, min(first + step, self.queries.stop))
            bands.append(self._read_band(self.all_cells.window(rows, FULL_SLICE), columns))
        columns_of_bands = zip(*bands, strict=True)
        values, hidden, received, even, *by_query = (list(column) for column in columns_of_bands)
        cells = StoredCells(np.concatenate(values), np.concatenate(hidden))
        shown, totals, *rest = (np.concatenate(column) for column in by_query)
        return PartWeights(cells, shown, totals, sum(received), sum(even), *rest)

    def _read_band(self, band: Patch, columns: slice) -> tuple[Any, ...]:
        """Return what is kept of some whole rows: cells or blocks, and numbers of each row."""
        values, hidden = band.values[:, columns], band.hidden[:, columns]
        all_visible = (~band.hidden).sum(axis=1)
        largest = values.max(axis=1)
        is_largest = np.isclose(values, largest[:, None], rtol=EQUAL_TOLERANCE, atol=0)
        blocks = pool_patch(Patch(values, hidden), self.block, self.pool)
        return (
            blocks.values,
            blocks.hidden,
            values.sum(axis=0, dtype=np.float64),
            (~hidden / np.maximum(all_visible, 1)[:, None]).sum(axis=0),
            values.sum(axis=1, dtype=np.float64),
            band.values.sum(axis=1, dtype=np.float64),
            largest,
            values.argmax(axis=1),
            (is_largest & ~hidden).sum(axis=1),
            (~hidden).sum(axis=1),
            all_visible,
        )

    def axes(self, starts: frozenset[int], block: tuple[int, int]) -> tuple[Axis, Axis]:
        """Return the axes of blocks of tokens, with their true numbers; labels name single tokens,
        with a sign where a paragraph begins (at a position in `starts`).
        """
        trace, keys = self.whole.trace, self.whole.keys
        rows = _part_axis("query (reads)", trace.tokens, self.queries, block[0], starts)
        reads_itself = keys is trace.tokens
        if reads_itself and self.queries == self.keys and block[0] == block[1]:
            return rows, replace(rows, title="key (is read)")
        starts = starts if reads_itself else frozenset()
        return rows, _part_axis("key (is read)", keys, self.keys, block[1], starts)

    def grid(
        self, starts: frozenset[int], note: str, block: tuple[int, int], *, log: bool, title: str
    ) -> Grid:
        """Return the weights of the part as a Grid; `block`: queries and keys in a cell of it."""
        cells, (height, width) = self.weights.cells, block
        joined = (height // self.block[0], width // self.block[1])
        patch = pool_patch(Patch(cells.values, cells.hidden), joined, self.pool)
        cells = StoredCells(patch.values, patch.hidden)
        scale = weight_scale(cells, len(self.whole.keys))
        rows, columns = self.axes(starts, block)
        how = "the largest weight"
        if self.pool == "mean":
            how = "weights summed over keys, averaged over queries"
        return Grid(
            title=f"{title}{OFF_SUFFIX * self.is_off}" if title else "",
            rows=rows,
            columns=columns,
            cells=cells,
            scale=logarithmic_scale(scale, cells.shape[1]) if log else scale,
            note=note,
            decimals=None if scale.high >= SMALL_HIGH else 1 - floor(log10(scale.high)),
            share=self.pool == "mean" or block == (1, 1),
            off=(True,) * len(rows) if self.is_off else (),
            pool_note=f"one cell = {height:,} × {width:,} tokens: {how}" * (block != (1, 1)),
        )

    def map_block(self, most: int) -> tuple[int, int]:
        """Return the smallest blocks, made of those that are there, for `most` cells on a side."""
        sides = zip((self.queries, self.keys), self.block, strict=True)
        height, width = (size * max(1, -(-len(side) // (size * most))) for side, size in sides)
        return height, width

    def profiles(self, height: int) -> tuple[Profile, ...]:
        """Return the means of what was measured of the queries of each row of a long text's map."""
        if not isinstance(self.whole.layer.weights, LongWeights):
            return ()
        rows = slice(self.queries.start, self.queries.stop)
        return tuple(
            Profile(words, unit, block_means(self.whole.numbers(name)[rows], height))
            for name, words, unit in PROFILES
        )

    def most_read_bars(self) -> RankedBars:
        """Return the keys of the part that its queries attend to most as bars, with passages."""
        shares, evens = self.received_shares
        order = np.argsort(-shares, kind="stable")[:MOST_READ]
        places = [int(place) for place in order if shares[place] > 0]
        title = f"share of the attention of {span_text(self.queries)}"
        positions = [self.keys[place] for place in places]
        title = " · ".join(filter(None, (title, self.whole.name)))
        values = shares[places].tolist(), evens[places].tolist()
        return token_bars(self.whole.keys, title, "share", positions, *values)

    @property
    def received_shares(self) -> tuple[Float[np.ndarray, "key"], Float[np.ndarray, "key"]]:
        """The share of the queries' attention that each key receives, and that which it would
        receive if they attended evenly to all keys that they see.
        """
        weights = self.weights
        total, even_total = weights.totals.sum(), (weights.all_visible > 0).sum()
        return weights.received / max(total, 1e-30), weights.even_received / max(even_total, 1)

    def even_weight(self, row: int) -> float:
        """Return each weight of a row of the part if it attended evenly to all keys it sees."""
        return 1 / max(1, int(self.weights.all_visible[row]))

    def row_finding(self) -> str:
        """Return a sentence on the keys of the part that its first query attends to most."""
        weights, query = self.weights, self.queries[0]
        reader, share = self.reader_text(query), percent_text(float(weights.largest[0]), 1)
        keys = "" if self.has_all_keys else f" of {span_text(self.keys)}"
        if not weights.largest[0]:
            whom = f"none{keys}" if keys else ALL_MASKED_TEXT
            return f"{reader} attends to {whom}"
        even = even_words(float(weights.largest[0]), self.even_weight(0))
        ties = int(weights.ties[0])
        if ties > 1:
            tied = f"{counted(ties, 'token')}{keys}, equally"
            return f"{reader} attends most to {tied}: {share} each, {even}"
        name = self.key_text(query, self.keys[int(weights.largest_key[0])])
        limits = f",{keys}," if keys else ""
        return f"{reader} attends most{limits} to {name}: {share}, {even}"

    def reader_text(self, query: int) -> str:
        return f"{quoted_label(self.whole.trace.tokens, query)} (token {query + 1:,})"

    def key_text(self, query: int, key: int) -> str:
        """Return a key as a sentence about a query names it: itself, or its label and number."""
        if query == key and self.whole.keys is self.whole.trace.tokens:
            return "itself"
        return f"{quoted_label(self.whole.keys, key)} (token {key + 1:,})"

    def row_bars(self, most: int = MOST_ATTENDED) -> RankedBars:
        """Return the keys of the part that its first query attends to most as bars."""
        whole, weights = self.whole, np.zeros(len(self.whole.keys))
        title = f"what {quoted_label(whole.trace.tokens, self.queries[0])} attends to"
        title = " · ".join(filter(None, (title, whole.name)))
        cells = slice(self.keys.start, self.keys.stop)
        weights[cells] = self.weights.cells.values[0]
        evens = np.full(len(weights), self.even_weight(0))
        return attended_bars(whole.keys, title, weights, evens, most)


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


def _part_axis(
    title: str, tokens: Tokens, positions: range, size: int, starts: frozenset[int]
) -> Axis:
    """Return an axis of some tokens, or of blocks of `size` of them, with their true numbers."""
    spans = [positions[first : first + size] for first in range(0, len(positions), size)]
    numbers = tuple(
        f"{span[0] + 1}–{span[-1] + 1}" if len(span) > 1 else f"{span[0] + 1}" for span in spans
    )
    labels = tuple(
        f"{PARAGRAPH_SIGN * (span[0] in starts)}{label_at(tokens, span[0])}"
        if len(span) == 1
        else ""
        for span in spans
    )
    spaced = tuple(tokens.spaced[span[0]] for span in spans) if size == 1 else ()
    special = tuple(len(span) == 1 and span[0] in tokens.special for span in spans)
    return Axis(title, "token", labels, numbers, spaced, special=special)
