"""HeadExplorer: the heads that can be chosen on a page, each with its map of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnviz.cells import Cells, Patch
from attnviz.views.grids.axes import Axis, titled_axis
from attnviz.views.grids.overview import Flag
from attnviz.views.grids.scales import Scale, measure_scale, widest_scale
from attnviz.wording.words import with_summary

MAX_SEARCHED_CELLS = 2**22  # a head with more cells is not searched for its largest weight
EQUAL_LINK_TOLERANCE = 0.005  # a smaller difference is not visible in a title
NEAR_BEST_SHARE = 0.25  # a row counts that stands out at least this much of what the best one does
MAX_COMPARED_CELLS = 2**20  # the rows of a head with more cells are not compared


@dataclass(frozen=True, eq=False, kw_only=True)
class WrongSoftmax:
    """A mistake that is made on purpose after the scores are computed."""

    cause: str
    about: str  # the cause and its effect
    axis: str  # what sums to 1: row, column or matrix
    inputs: Cells  # what the softmax is taken of, for each query and key


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class HeadVectors:
    """The queries, keys and values of a head, and all that makes scores of them: their products are
    scaled, limited by `soft_cap`, and lowered by slope · distance; then `terms` are added.
    """

    queries: Cells  # a row for each query
    keys: Cells
    values: Cells | None = None  # None: they are not known
    key_heads: int = 1  # how many heads have these keys and values
    products: Cells  # query · key, as the scores were computed
    scale: float
    divisors: tuple[str, ...] = ()  # the scale as it is written, such as `√8`
    score_vector: tuple[float, ...] = ()  # of additive scores: w in w · tanh(query + key)
    soft_cap: float | None = None
    slope: float | None = None  # of ALiBi
    terms: tuple[tuple[str, Cells], ...] = ()  # what is added to each score, by name
    sink: float | None = None  # a score that takes a share of each row
    mixed_by: str = "softmax"  # what made the weights, such as dropout
    mistake: WrongSoftmax | None = None


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class HeadMap:
    """The map of one head that a reader can choose: weights, scores and axes; or of several heads
    together.
    """

    name: str  # such as L4H7
    chooser_cell: tuple[int, int] | None = (0, 0)  # its row and column; None: it cannot be chosen
    query_axis: Axis
    key_axis: Axis  # the same object as `query_axis` in self-attention
    weights: Cells
    scores: Cells | None = None  # as the softmax receives them; None: they do not give the weights
    vectors: HeadVectors | None = None  # None: the scores are not made of queries and keys
    without_vectors: str = ""  # why it has none, and where they are
    share: bool = True  # whether each row sums to 1
    signed: bool = False  # whether the numbers are differences
    note: str = ""  # how to read this map, beside the note on all maps
    off: bool = False  # whether the head is switched off
    pair: tuple[int, int] | None = None  # the indices of the two heads whose difference it is
    # For one head of a pair: its rows and columns that are the rows and columns of the difference.
    paired_positions: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    measure: str = "weight"  # maps of one measure share a scale

    def scale(self, cells: Cells) -> Scale:
        return measure_scale(self.measure, cells, share=self.share, signed=self.signed)


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class HeadExplorer:
    """All heads that a reader can choose from, arranged in rows and columns."""

    heads: tuple[HeadMap, ...]
    rows: Axis  # a position for each layer, alternative or moment
    columns: Axis  # a position for each head
    query: int | None = None  # the token that is followed as query
    key: int | None = None  # the token that is followed as key
    first: int = 0  # the index of the head that is shown first
    log: bool = False  # whether colours are logarithmic
    note: str = ""  # how to read the maps
    row_titles: tuple[str, ...] = ()  # of the page, by row; empty: it keeps its title
    without_vectors: str = ""  # why no head has vectors
    flags: tuple[Flag, ...] = ()  # the strongest head of each kind
    # The tokens that the model wrote: the row before each, its name, and its probability as text.
    generated: tuple[tuple[int, str, str], ...] = ()
    # The text whose segments the keys are, in runs: the index of the key, and the lines of the run,
    # since a View escapes line breaks. The first key is the sink. Empty: the text is not shown.
    passages: tuple[tuple[int, tuple[str, ...]], ...] = ()


def arrange_heads(
    heads: Sequence[tuple[str, str, HeadMap]],
    units: tuple[str, str] = ("layer", "head"),
    **fields: Any,
) -> HeadExplorer:
    """Return a HeadExplorer of heads given as (row name, column name, map): rows and columns are in
    the order in which the names first appear.

    `units` say what a row and a column is; `fields` are further fields of the explorer, such as
    `query`.
    """
    rows = list(dict.fromkeys(row for row, _, _ in heads))
    columns = list(dict.fromkeys(column for _, column, _ in heads))
    return HeadExplorer(
        heads=tuple(
            replace(head, chooser_cell=(rows.index(row), columns.index(column)))
            for row, column, head in heads
        ),
        rows=titled_axis(units[0], rows),
        columns=titled_axis(units[1], columns),
        **fields,
    )


def with_strongest_query(explored: HeadExplorer) -> HeadExplorer:
    """Return the explorer following a token: unchanged if a query or key is chosen, else with the
    query that has the largest weight in the first head.
    """
    if explored.query is not None or explored.key is not None:
        return explored
    return replace(explored, query=find_strongest_row(explored.heads[explored.first])[1])


def find_strongest_row(head: HeadMap) -> tuple[float, int]:
    """Return the largest weight of a head and the row that has it, preferably of a text token that
    sees several keys.

    Among rows that are nearly equal it is the first with letters or digits. A head of more than
    MAX_SEARCHED_CELLS is not searched: the result is 0 and the last row, which every page has.
    """
    rows, columns = head.weights.shape
    if rows * columns > MAX_SEARCHED_CELLS:
        return 0.0, rows - 1
    bands = [_row_maxima(part) for part in head.weights.bands()]
    sizes, has_choice = (np.concatenate(part) for part in zip(*bands, strict=True))
    candidates = has_choice & ~np.array(head.query_axis.special or [False] * rows, dtype=bool)
    candidate_sizes = np.where(candidates, sizes, -1.0) if candidates.any() else sizes
    is_strongest = candidate_sizes >= candidate_sizes.max() - EQUAL_LINK_TOLERANCE
    strongest = np.flatnonzero(is_strongest).tolist()
    words = [row for row in strongest if any(map(str.isalnum, head.query_axis.labels[row]))]
    row = words[0] if words and len(strongest) > 1 else int(candidate_sizes.argmax())
    return float(sizes[row]), row


def find_telling_row(head: HeadMap) -> int | None:
    """Return the row of the word that shows most of what a head does; None if no row stands out or
    the head has more than MAX_COMPARED_CELLS.

    A key stands out in a row by its weight minus the mean weight that the other rows give it, so
    what all rows attend to does not count. Special tokens are ignored on both axes. Among the rows
    in which a key stands out at least a quarter as much as anywhere, the longest word is chosen,
    because short words such as "the" say least.
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
    least_lift = NEAR_BEST_SHARE * max(largest_lifts[words])
    near_best = [row for row in words if largest_lifts[row] >= least_lift]
    return max(near_best, key=lambda row: sum(map(str.isalpha, labels[row])))


def _row_maxima(band: Patch) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.abs(np.where(band.hidden, 0.0, np.nan_to_num(band.values)))
    return sizes.max(axis=1, initial=0.0), (~band.hidden).sum(axis=1) > 1


def common_scale(scales: Sequence[Scale]) -> Scale:
    """Return the scale with the largest upper end, made symmetric around 0 if any of the
    scales is.
    """
    widest = widest_scale(scales)
    is_signed = any(scale.kind == "diverging" for scale in scales)
    return replace(widest, low=-widest.high, kind="diverging") if is_signed else widest
