"""Changes of a head: weighed, in groups of tokens, without some of them; and several as one.

A change takes heads and returns heads, whose cells are computed when they are read, so that none
of them needs a whole matrix but the rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
from jaxtyping import Float

from attnviz.cells import (
    FULL_SLICE,
    Cells,
    CellValues,
    DerivedCells,
    MergedCells,
    MergeFunction,
    Patch,
)
from attnviz.heads.head import Head
from attnviz.heads.side import Side
from attnviz.machine import memory
from attnviz.tokens.grouping import Grouping, Groups, single_tokens
from attnviz.tokens.tokens import Tokens
from attnviz.wording.surfaces import opt
from attnviz.wording.words import counted

ROLLOUT_NUMBER_BYTES, ROLLOUT_MATRICES = 8, 4  # float64; matrices in memory at once
RESIDUAL_SHARE = 0.5  # the part of a token's vector that passes by a layer (residual connection)


def weigh(head: Head, factors: Callable[[slice, slice], Float[np.ndarray, "#query key"]]) -> Head:
    """Return a head with each weight times a factor of its cell."""
    return replace(head, table=WeightedCells(head.table, factors), are_shares=False)


def without_tokens(
    head: Head, queries: frozenset[int], keys: frozenset[int], *, renormalise: bool = False
) -> Head:
    """Return a head without these tokens; its rows sum to 1 again only with `renormalise`."""
    smaller = in_groups(head, tokens_left(head.rows, queries), tokens_left(head.columns, keys))
    return replace(smaller, table=NormalizedCells(smaller.table)) if renormalise else smaller


def in_groups_of(head: Head, group: Callable[[Tokens], Grouping]) -> Head:
    """Return a head with a row and a column for each word, or other group that `group` finds in a
    text, of the tokens that are not left out.

    Groups keep their numbers and labels of the whole text.
    """
    rows, columns = (
        group(side.tokens).keep(frozenset(chain.from_iterable(side.groups)))
        for side in (head.rows, head.columns)
    )
    return in_groups(head, rows, columns)


def in_groups(head: Head, rows: Grouping, columns: Grouping) -> Head:
    """Return a head with rows and columns for groups of those that it has."""
    cells = RegroupedCells(
        head.cells,
        _members(head.rows.groups, rows.groups),
        _members(head.columns.groups, columns.groups),
    )
    sides = head.rows.in_groups(rows), head.columns.in_groups(columns)
    return replace(head, table=cells, rows=sides[0], columns=sides[1])


def tokens_left(side: Side, hidden: frozenset[int]) -> Grouping:
    """Return what a side stands for, without some tokens."""
    grouping = side.grouping or single_tokens(side.tokens)
    return grouping.keep(frozenset(range(len(side.tokens))) - hidden)


def _members(before: Groups, after: Groups) -> Groups:
    """Return for each group the indices of the earlier ones that it consists of."""
    index_by_token = {token: index for index, group in enumerate(before) for token in group}
    return tuple(tuple(index_by_token[token] for token in group) for group in after)


def mean_head(heads: Sequence[Head], name: str = "") -> Head:
    return _merge(heads, np.add, name or f"mean of {counted(len(heads), 'head')}")


def largest_head(heads: Sequence[Head], name: str) -> Head:
    """Return the largest weight of any head, cell by cell."""
    return replace(_merge(heads, np.maximum, name), are_shares=False)


def _merge(heads: Sequence[Head], merge_function: MergeFunction, name: str) -> Head:
    cells = MergedCells(tuple(each.table for each in heads), merge_function)
    return replace(heads[0], name=name, table=cells, merged_heads=tuple(heads))


def rolled_out_head(heads: Sequence[Head]) -> Head:
    """Return attention rollout as one head: how much of each token reaches each token through all
    layers."""
    layers: dict[int, list[Cells]] = {}
    for head in heads:
        layers.setdefault(head.layer.layer, []).append(head.table)
    cells = RolloutCells(tuple(MergedCells(tuple(each), np.add) for each in layers.values()))
    name = f"rollout through {counted(len(layers), 'layer')}"
    return replace(heads[0], name=name, table=cells, merged_heads=tuple(heads))


@dataclass(frozen=True, eq=False, repr=False)
class WeightedCells(DerivedCells):
    """Each weight times a factor, which is calculated for the cells of a window."""

    factors: Callable[[slice, slice], Float[np.ndarray, "#query key"]]

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, columns)
        return Patch(patch.values * self.factors(rows, columns), patch.hidden)


@dataclass(frozen=True, eq=False, repr=False)
class RegroupedCells(Cells):
    """Cells merged by groups of rows and columns: summed over keys, averaged over queries.

    A merged cell is hidden if all its cells are.
    """

    cells: Cells
    rows: Groups  # in ascending order
    columns: Groups

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def window(self, rows: slice, columns: slice) -> Patch:
        row_groups, column_groups = self.rows[rows], self.columns[columns]
        shape = len(row_groups), len(column_groups)
        if 0 in shape:
            return Patch(np.zeros(shape), np.ones(shape, bool))
        first, last = row_groups[0][0], row_groups[-1][-1]
        inner = self.cells.window(slice(first, last + 1), FULL_SLICE)
        row_indices, column_indices = (
            np.array([*chain.from_iterable(groups)]) for groups in (row_groups, column_groups)
        )
        members = np.ix_(row_indices - first, column_indices)
        heights = np.array([len(group) for group in row_groups])[:, None]
        values = sum_groups(inner.values[members].astype(np.float64), row_groups, column_groups)
        visible = sum_groups(~inner.hidden[members], row_groups, column_groups)
        return Patch(values / heights, visible == 0)


@dataclass(frozen=True, eq=False, repr=False)
class NormalizedCells(DerivedCells):
    """Cells with each row divided by its sum; a row of zeros stays zero."""

    def window(self, rows: slice, columns: slice) -> Patch:
        patch = self.cells.window(rows, FULL_SLICE)
        sums = patch.values.sum(axis=1, keepdims=True, dtype=np.float64)
        values = patch.values / np.where(sums, sums, 1)
        return Patch(values[:, columns], patch.hidden[:, columns])


def sum_groups(numbers: np.ndarray, row_groups: Groups, column_groups: Groups) -> np.ndarray:
    """Return the sums over groups of adjacent rows and columns; the numbers themselves if every
    group has one."""
    if numbers.shape == (len(row_groups), len(column_groups)):
        return numbers
    rows, columns = (np.cumsum([0, *map(len, side)])[:-1] for side in (row_groups, column_groups))
    column_sums = np.add.reduceat(numbers, columns, axis=1, dtype=np.float64)
    return np.asarray(np.add.reduceat(column_sums, rows, axis=0))


@dataclass(frozen=True, eq=False, repr=False)
class RolloutCells(Cells):
    """The product over layers of ½ the heads' mean plus ½ the identity (Abnar & Zuidema 2020)."""

    layers: tuple[MergedCells, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.layers[0].shape

    @cached_property
    def whole(self) -> Patch:
        """The whole table, computed once; refused if it needs more memory than there is."""
        tokens = self.shape[0]
        memory.refuse_too_little_memory(
            tokens**2 * ROLLOUT_NUMBER_BYTES * ROLLOUT_MATRICES,
            f"rollout of {tokens:,} tokens through all layers",
            f"give a shorter text, or {opt.merge:mean}",
        )
        first, *other_layers = (layer.window(FULL_SLICE, FULL_SLICE) for layer in self.layers)
        product, hidden = _add_residual(first), first.hidden
        for above in other_layers:
            product, hidden = _add_residual(above) @ product, hidden & above.hidden
        return Patch(product, hidden & (product == 0))

    def window(self, rows: slice, columns: slice) -> Patch:
        return Patch(self.whole.values[rows, columns], self.whole.hidden[rows, columns])


def _add_residual(layer: Patch) -> CellValues:
    """Return ½ a layer's mean weights plus ½ the identity, with rows that sum to 1.

    A token that attends to nothing passes on itself alone.
    """
    mixed = (1 - RESIDUAL_SHARE) * layer.values + RESIDUAL_SHARE * np.eye(len(layer.values))
    return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))
