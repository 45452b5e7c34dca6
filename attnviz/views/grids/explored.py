"""Explored: who reads whom in each of many heads, for somebody to look around in by himself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnviz.cells import Cells, Patch
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.overview import Flag
from attnviz.views.grids.scales import Scale, centred, rounded_up, weight_scale

MOST_SEARCHED = 2**22  # cells of a head
ALIKE = 0.005  # a smaller difference no title tells of
A_QUARTER = 0.25  # of what stands out most: words in which so much does are worth a look, too
MOST_COMPARED = 2**20  # cells of a head: of more, their rows are not held against each other


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadMap:
    """Who reads whom in one head, or in several together."""

    name: str  # L4H7
    place: tuple[int, int] | None = (0, 0)  # its row and column among all; None: not to choose
    reads: Axis
    read: Axis  # the same as `reads`, where a sentence reads itself
    weights: Cells
    scores: Cells | None = None  # as the softmax receives them, whose result the weights are
    share: bool = True  # whether a row is divided up
    signed: bool = False  # whether its numbers are more or less than others
    note: str = ""  # how to read it, beside what holds for all
    off: bool = False  # whether it is switched off
    pair: tuple[int, int] | None = None  # the places of two others, of which it is the difference
    # Of one of two: which of its rows, and of its columns, stand for those of the difference.
    paired: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    measure: str = "weight"  # what its numbers are called: those that have one name have one scale

    def scale(self, cells: Cells) -> Scale:
        """What colours stand for, of its numbers, or of some of them."""
        low, high = cells.extent
        if self.signed or low < 0:
            return centred(self.measure, cells)
        if self.share:
            return replace(weight_scale(cells), label=self.measure)
        return Scale(self.measure, 0.0, rounded_up(float(high)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Explored:
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


def arranged(
    heads: Sequence[tuple[str, str, HeadMap]],
    counts: tuple[str, str] = ("layer", "head"),
    **about: Any,
) -> Explored:
    """Each head in a row and in a column by the names of both, which stand as they come."""
    rows = list(dict.fromkeys(row for row, _, _ in heads))
    columns = list(dict.fromkeys(column for _, column, _ in heads))
    return Explored(
        heads=tuple(
            replace(head, place=(rows.index(row), columns.index(column)))
            for row, column, head in heads
        ),
        rows=_axis(counts[0], rows),
        columns=_axis(counts[1], columns),
        **about,
    )


def _axis(counts: str, labels: Sequence[str]) -> Axis:
    return Axis(counts, counts, tuple(labels), ("",) * len(labels))


def with_a_query(explored: Explored) -> Explored:
    """Where no token is asked for, that one is followed whose link is the strongest."""
    if explored.query is not None or explored.key is not None:
        return explored
    return replace(explored, query=strongest_row(explored.heads[explored.first])[1])


def strongest_row(head: HeadMap) -> tuple[float, int]:
    """The largest number of a head, and its row: of tokens of the text that have a choice, if any.

    Of rows that are about alike the first that has letters; of a very large head the last row,
    which every page has.
    """
    rows, columns = head.weights.shape
    if rows * columns > MOST_SEARCHED:
        return 0.0, rows - 1
    bands = [_sizes_and_choices(each) for each in head.weights.bands()]
    sizes, choice = (np.concatenate(each) for each in zip(*bands, strict=True))
    told = choice & ~np.array(head.reads.special or [False] * rows, dtype=bool)
    among = np.where(told, sizes, -1.0) if told.any() else sizes
    strong = np.flatnonzero(among >= among.max() - ALIKE).tolist()
    words = [row for row in strong if any(map(str.isalnum, head.reads.labels[row]))]
    row = words[0] if words and len(strong) > 1 else int(among.argmax())
    return float(sizes[row]), row


def telling_row(head: HeadMap) -> int | None:
    """The row of a word in which most can be seen, if any can.

    A key stands out in a row by its weight minus the mean weight that the other rows give it: not
    by what all of them give it. Special tokens count on neither side. Of rows in which a key stands
    out at least a quarter as much as anywhere, that of the longest word is taken: short words, such
    as "the", say least.
    """
    labels, (rows, columns) = head.reads.labels, head.weights.shape
    if rows < 2 or rows * columns > MOST_COMPARED:
        return None
    patches = list(head.weights.bands())
    values = np.concatenate([each.values for each in patches]).astype(float)
    hidden = np.concatenate([each.hidden for each in patches])
    weights = np.where(hidden, 0.0, np.nan_to_num(values))
    others = np.maximum((~hidden).sum(axis=0) - ~hidden, 1)
    lifts = np.where(hidden, 0.0, weights - (weights.sum(axis=0) - weights) / others)
    lifts[:, np.array(head.read.special or [False] * columns, dtype=bool)] = 0.0
    most = lifts.max(axis=1, initial=0.0)
    special = head.reads.special or (False,) * rows
    words = [
        row
        for row in range(rows)
        if not special[row] and (~hidden[row]).sum() > 1 and any(map(str.isalpha, labels[row]))
    ]
    if not words or max(most[words]) < ALIKE:
        return None
    near = [row for row in words if most[row] >= A_QUARTER * max(most[words])]
    return max(near, key=lambda row: sum(map(str.isalpha, labels[row])))


def _sizes_and_choices(band: Patch) -> tuple[np.ndarray, np.ndarray]:
    """The largest number of each row, and whether more than one is seen in it."""
    sizes = np.abs(np.where(band.hidden, 0.0, np.nan_to_num(band.values)))
    return sizes.max(axis=1, initial=0.0), (~band.hidden).sum(axis=1) > 1


def common(scales: Sequence[Scale]) -> Scale:
    """One scale for all numbers of a name: where some are below 0, it is centred on 0."""
    widest = max(scales, key=lambda each: each.high)
    signed = any(each.kind == "diverging" for each in scales)
    beyond = any(each.beyond and each.high == widest.high for each in scales)
    if signed:
        return replace(widest, low=-widest.high, kind="diverging", beyond=beyond)
    return replace(widest, beyond=beyond)
