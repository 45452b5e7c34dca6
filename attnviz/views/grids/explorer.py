"""Explored: who reads whom in each of many heads, for somebody to look around in by himself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnviz.cells import Cells, Patch
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.overview import Flag
from attnviz.views.grids.scales import Scale, centred_scale, round_up, weight_scale

MAX_SEARCHED_CELLS = 2**22  # cells of a head
EQUAL_LINK_TOLERANCE = 0.005  # a smaller difference no title tells of
NEAR_BEST_SHARE = 0.25  # of what stands out most: words in which so much does are worth a look, too
MAX_COMPARED_CELLS = 2**20  # cells of a head: of more, their rows are not held against each other


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadMap:
    """Who reads whom in one head, or in several together."""

    name: str  # L4H7
    chooser_cell: tuple[int, int] | None = (
        0,
        0,
    )  # its row and column among all; None: not to choose
    query_axis: Axis
    key_axis: Axis  # the same as `reads`, where a sentence reads itself
    weights: Cells
    scores: Cells | None = None  # as the softmax receives them, whose result the weights are
    share: bool = True  # whether a row is divided up
    signed: bool = False  # whether its numbers are more or less than others
    note: str = ""  # how to read it, beside what holds for all
    off: bool = False  # whether it is switched off
    pair: tuple[int, int] | None = None  # the places of two others, of which it is the difference
    # Of one of two: which of its rows, and of its columns, stand for those of the difference.
    paired_positions: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    measure: str = "weight"  # what its numbers are called: those that have one name have one scale

    def scale(self, cells: Cells) -> Scale:
        """What colours stand for, of its numbers, or of some of them."""
        low, high = cells.extent
        if self.signed or low < 0:
            return centred_scale(self.measure, cells)
        if self.share:
            return replace(weight_scale(cells), label=self.measure)
        return Scale(self.measure, 0.0, round_up(float(high)))


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadExplorer:
    """All heads that can be chosen from."""

    heads: tuple[HeadMap, ...]
    rows: Axis  # a place for each layer, or way of attending, or moment,
    columns: Axis  # and one for each head
    query: int | None = None  # the token that is asked for,
    key: int | None = None  # and the one whose readers are
    first: int = 0  # the head that is looked at first
    log: bool = False  # whether colours are by logarithm
    note: str = ""  # how to read it
    flags: tuple[Flag, ...] = ()  # what some heads do more than all others


def arrange_heads(
    heads: Sequence[tuple[str, str, HeadMap]],
    units: tuple[str, str] = ("layer", "head"),
    **fields: Any,
) -> HeadExplorer:
    """Each head in a row and in a column by the names of both, which stand as they come."""
    rows = list(dict.fromkeys(row for row, _, _ in heads))
    columns = list(dict.fromkeys(column for _, column, _ in heads))
    return HeadExplorer(
        heads=tuple(
            replace(head, chooser_cell=(rows.index(row), columns.index(column)))
            for row, column, head in heads
        ),
        rows=_named_axis(units[0], rows),
        columns=_named_axis(units[1], columns),
        **fields,
    )


def _named_axis(unit: str, labels: Sequence[str]) -> Axis:
    return Axis(unit, unit, tuple(labels), ("",) * len(labels))


def with_strongest_query(explored: HeadExplorer) -> HeadExplorer:
    """Where no token is asked for, that one is followed whose link is the strongest."""
    if explored.query is not None or explored.key is not None:
        return explored
    return replace(explored, query=find_strongest_row(explored.heads[explored.first])[1])


def find_strongest_row(head: HeadMap) -> tuple[float, int]:
    """The largest number of a head, and its row: of tokens of the text that have a choice, if any.

    Of rows that are about alike the first that has letters; of a very large head the last row,
    which every page has.
    """
    rows, columns = head.weights.shape
    if rows * columns > MAX_SEARCHED_CELLS:
        return 0.0, rows - 1
    bands = [_row_maxima(part) for part in head.weights.bands()]
    sizes, has_choice = (np.concatenate(part) for part in zip(*bands, strict=True))
    candidates = has_choice & ~np.array(head.query_axis.special or [False] * rows, dtype=bool)
    candidate_sizes = np.where(candidates, sizes, -1.0) if candidates.any() else sizes
    strongest = np.flatnonzero(
        candidate_sizes >= candidate_sizes.max() - EQUAL_LINK_TOLERANCE
    ).tolist()
    words = [row for row in strongest if any(map(str.isalnum, head.query_axis.labels[row]))]
    row = words[0] if words and len(strongest) > 1 else int(candidate_sizes.argmax())
    return float(sizes[row]), row


def find_telling_row(head: HeadMap) -> int | None:
    """The row of a word in which most can be seen, if any can.

    A key stands out in a row by its weight minus the mean weight that the other rows give it: not
    by what all of them give it. Special tokens count on neither side. Of rows in which a key stands
    out at least a quarter as much as anywhere, that of the longest word is taken: short words, such
    as "the", say least.
    """
    labels, (rows, columns) = head.query_axis.labels, head.weights.shape
    if rows < 2 or rows * columns > MAX_COMPARED_CELLS:
        return None
    patches = list(head.weights.bands())
    values = np.concatenate([patch.values for patch in patches]).astype(float)
    hidden = np.concatenate([patch.hidden for patch in patches])
    weights = np.where(hidden, 0.0, np.nan_to_num(values))
    other_counts = np.maximum((~hidden).sum(axis=0) - ~hidden, 1)
    lifts = np.where(hidden, 0.0, weights - (weights.sum(axis=0) - weights) / other_counts)
    lifts[:, np.array(head.key_axis.special or [False] * columns, dtype=bool)] = 0.0
    largest_lifts = lifts.max(axis=1, initial=0.0)
    special = head.query_axis.special or (False,) * rows
    words = [
        row
        for row in range(rows)
        if not special[row] and (~hidden[row]).sum() > 1 and any(map(str.isalpha, labels[row]))
    ]
    if not words or max(largest_lifts[words]) < EQUAL_LINK_TOLERANCE:
        return None
    near_best = [
        row for row in words if largest_lifts[row] >= NEAR_BEST_SHARE * max(largest_lifts[words])
    ]
    return max(near_best, key=lambda row: sum(map(str.isalpha, labels[row])))


def _row_maxima(band: Patch) -> tuple[np.ndarray, np.ndarray]:
    """The largest number of each row, and whether more than one is seen in it."""
    sizes = np.abs(np.where(band.hidden, 0.0, np.nan_to_num(band.values)))
    return sizes.max(axis=1, initial=0.0), (~band.hidden).sum(axis=1) > 1


def common_scale(scales: Sequence[Scale]) -> Scale:
    """One scale for all numbers of a name: where some are below 0, it is centred on 0."""
    largest = max(scales, key=lambda scale: scale.high)
    signed = any(scale.kind == "diverging" for scale in scales)
    beyond = any(scale.is_exceeded and scale.high == largest.high for scale in scales)
    if signed:
        return replace(largest, low=-largest.high, kind="diverging", is_exceeded=beyond)
    return replace(largest, is_exceeded=beyond)
