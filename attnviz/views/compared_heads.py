"""ComparedHeads: the shown heads of a Comparison, as maps, differences or blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.row_changes import RowChanges
from attnviz.cells import Cells, StoredCells, unmasked_cells
from attnviz.heads.head import Head
from attnviz.heads.side import Side, label_at
from attnviz.tokens.tokens import Tokens
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.conclusions.conclusion import NO_CHANGE, ROUNDING_ASPECTS
from attnviz.views.grids.axes import AXES_NOTE, Axis, plain_axis
from attnviz.views.grids.grid import OFF_SUFFIX, Grid, with_common_scales
from attnviz.views.grids.long_map import LongMap, Profile
from attnviz.views.grids.scales import (
    Scale,
    block_difference_scale,
    centred_scale,
    colorless_scale,
    round_up,
    weight_scale,
)
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.bars import row_bars, without_passages
from attnviz.views.heads.grid import (
    TABLE_ROWS,
    head_grid,
    mean_of_layer,
    measured_head,
    profiles,
    side_axis,
)
from attnviz.views.heads.passages import paragraph_starts, quoted_label
from attnviz.views.measure_tables import (
    alternative_name,
    alternative_title,
    compared_sides,
    difference_title,
    means_table,
)
from attnviz.views.reading import token_axis
from attnviz.views.view import Group

MOST_ACROSS = 3  # maps in a row of a picture; more alternatives have no differences there
MOST_COMPARED_KEYS = 10  # of each alternative, in a table of one row
ROW_MEASURES = {"peak": "largest_weight", "distance": "mean_distance", "first": "on_first"}
CHANGE_MEASURES = {"JS": "divergence", "moved": "moved"}
MEASURES_NOTE = (
    "means over queries{heads} · bits = entropy · reads = effective number of tokens read · peak = "
    "largest weight · distance in tokens · first = weight on the first token · JS = Jensen-Shannon "
    "divergence from '{reference}' in bits · moved = share of a row's weight that is on other keys "
    "than in '{reference}'"
)
Shown = TypeVar("Shown")


@dataclass(frozen=True, eq=False)
class ComparedHeads:
    """The heads of a comparison that are shown, in each alternative."""

    comparison: Comparison
    numbers: Sequence[int | None]  # None is the mean of all heads
    log: bool = False  # whether maps of a long text are coloured by logarithm

    @property
    def names(self) -> list[str]:
        """The names of the heads; the mean of a single head is the head itself."""
        mean = "H0" if self.comparison.heads == 1 else "mean"
        return [mean if head is None else f"H{head}" for head in self.numbers]

    @property
    def suffixes(self) -> list[str]:
        """What follows the name of an alternative in the title of each head's map."""
        trace, number = self.comparison.base.trace, self.comparison.base.number
        place = "head " if trace is None or len(trace.layers) == 1 else f"L{number}H"
        return ["" if head is None else f" · {place}{head}" for head in self.numbers]

    @cached_property
    def long_heads(self) -> list[list[Head]]:
        """Those of a long text: for each number, that head of each alternative."""
        return [
            [
                replace(
                    mean_of_layer(each.trace, each.layer)
                    if head is None and each.heads > 1
                    else measured_head(each.trace, each.layer, head or 0),
                    title=alternative_name(self.comparison, each) + suffix,
                )
                for each in self.comparison.alternatives
                if each.trace is not None and each.layer is not None
            ]
            for head, suffix in zip(self.numbers, self.suffixes, strict=True)
        ]

    @cached_property
    def weights(self) -> list[list[Grid]]:
        """For each alternative, a Grid of the weights of each head, all on one colour scale."""
        places = range(len(self.numbers))
        return _rows_with_common_scale(
            [
                [self._weights_grid(index, place) for place in places]
                for index, _ in enumerate(self.comparison.alternatives)
            ]
        )

    @cached_property
    def differences(self) -> list[list[Grid]]:
        """For each alternative, a Grid of its weights minus those of the reference for each head,
        all on one colour scale; an empty list where there is no difference, as where tokens do not
        match.
        """
        places = range(len(self.numbers))
        return _rows_with_common_scale(
            [
                [] if change is None else [self._difference_grid(index, place) for place in places]
                for index, change in enumerate(self.comparison.changes)
            ]
        )

    def in_order(self, rows: Sequence[Sequence[Shown]]) -> tuple[Shown, ...]:
        """Return what is shown of each alternative, one after another; of a long text head by
        head.
        """
        if self.comparison.is_long:
            rows = [*zip(*filter(None, rows), strict=True)]
        return tuple(chain.from_iterable(rows))

    def _weights_grid(self, index: int, place: int) -> Grid:
        """Return the weights of one alternative in one head; a switched-off head is marked."""
        if self.comparison.is_long:
            return head_grid(self.long_heads[place][index], log=self.log)
        alternative, head = self.comparison.alternatives[index], self.numbers[place]
        cells = alternative.cells(head)
        is_off = alternative.layer is not None and head in alternative.layer.off
        title = alternative_title(self.comparison, alternative) + self.suffixes[place]
        merged = averaged_heads_note(self.comparison) if head is None else ""
        grid = self._matrix_grid(
            (alternative.tokens, alternative.keys),
            f"{title}{OFF_SUFFIX * is_off}",
            cells,
            weight_scale(cells),
            " · ".join(filter(None, (AXES_NOTE, merged))),
        )
        return replace(grid, off=(True,) * len(grid.rows)) if is_off else grid

    def _difference_grid(self, index: int, place: int) -> Grid:
        """Return the weights of an alternative minus those of the reference in one head."""
        comparison, alternative = self.comparison, self.comparison.alternatives[index]
        title = difference_title(comparison, alternative) + self.suffixes[place]
        name = alternative_name(comparison, comparison.base)
        note = f"difference: above 0 = attends more than '{name}', below 0 = attends less"
        if comparison.is_long:
            grid = self.weights[index][place]
            blocks = self._block_differences(grid, self.weights[comparison.reference][place])
            scale = block_difference_scale("difference", blocks)
            return replace(grid, title=title, cells=blocks, scale=scale, note=note, off=())
        cells = comparison.difference(index, self.numbers[place])
        scale = centred_scale("difference", cells)
        return self._matrix_grid(compared_sides(comparison, alternative), title, cells, scale, note)

    def _block_differences(self, grid: Grid, base: Grid) -> StoredCells:
        differences = grid.values - base.values
        if self.comparison.by not in ROUNDING_ASPECTS:
            differences[np.abs(differences) <= NO_CHANGE] = 0
        return StoredCells(differences, base.hidden & grid.hidden)

    def _matrix_grid(
        self, sides: tuple[Tokens, Tokens], title: str, cells: Cells, scale: Scale, note: str
    ) -> Grid:
        """Return a Grid of cells, cut to the row of the selected query if there is one; `sides` are
        the tokens of the rows (queries) and of the columns (keys).
        """
        rows, columns = token_axis("query (reads)", sides[0]), token_axis("key (is read)", sides[1])
        grid = Grid(title, rows, columns, cells, scale, note=note, share=True)
        return grid if self.comparison.query is None else grid.part(self.comparison.rows)


def compared_heads(comparison: Comparison, *, mean: bool, log: bool = False) -> ComparedHeads:
    """Return each head, or their mean: with `mean`, for a single head, and where alternatives have
    different numbers of heads.
    """
    is_single = mean or comparison.heads in (None, 1)
    return ComparedHeads(comparison, [None] if is_single else range(comparison.heads or 1), log)


def averaged_heads_note(comparison: Comparison) -> str:
    """Return a note that heads were averaged, with the reason if their number differs; empty for a
    single head.
    """
    if comparison.heads is None:
        return "mean of the heads, whose number differs"
    return "" if comparison.heads == 1 else f"mean of {comparison.heads} heads"


def _rows_with_common_scale(rows: list[list[Grid]]) -> list[list[Grid]]:
    scaled_grids = iter(with_common_scales(list(chain.from_iterable(rows))))
    return [[next(scaled_grids) for _ in grids] for grids in rows]


def compared_map_groups(heads: ComparedHeads) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture: maps, their differences from the reference's,
    measures and means along the text.
    """
    along_the_text = (_along_the_text(heads.comparison, each) for each in heads.long_heads)
    screen = [
        Group("alternatives", heads.in_order(heads.weights)),
        Group("differences", heads.in_order(heads.differences)),
        Group("measures", (_measures_table(heads),)),
        Group("along the text", tuple(along_the_text)),
    ]
    return screen, [_picture_group(heads)]


def _picture_group(heads: ComparedHeads) -> Group:
    """Return the maps of a picture in rows: those of a head, the reference first, and the
    difference of two beside them, or those of several below.
    """
    comparison = heads.comparison
    count, paragraphs = len(comparison.alternatives), paragraph_starts(comparison.base.keys)
    others = [index for index in range(count) if index != comparison.reference]
    has_differences = count == 2 or (count == MOST_ACROSS and len(heads.numbers) == 1)
    entropies = [[profiles(each, each.rows.size)[0] for each in ways] for ways in heads.long_heads]
    highest = max(float(np.nanmax(each.values)) for row in entropies for each in row)
    panels = []
    for place, ways in enumerate(heads.long_heads):
        sides = ways[0].rows.span, ways[0].columns.span
        for index in (comparison.reference, *others):
            profile = replace(entropies[place][index], highest=highest)
            panels.append(LongMap(heads.weights[index][place], *sides, (profile,), paragraphs))
        for index in others if has_differences else ():
            changes, grid = comparison.row_changes[index], heads.differences[index][place]
            assert changes is not None  # it is not the reference
            means = ways[index].rows.means(_moved_shares(changes, ways[index]))
            profile = Profile("attention moved", "", means, 1.0)
            panels.append(LongMap(grid, *sides, (profile,), paragraphs))
    return Group("alternatives", tuple(panels), kind="table", column_count=MOST_ACROSS)


def _measures_table(heads: ComparedHeads) -> Grid:
    """Return a table of means over queries and heads, with a row for each alternative."""
    comparison = heads.comparison
    means = [row_measure_means(heads, index) for index, _ in enumerate(comparison.alternatives)]
    reference = alternative_name(comparison, comparison.base)
    several = " and heads" if any(each.heads > 1 for each in comparison.alternatives) else ""
    note = MEASURES_NOTE.format(heads=several, reference=reference)
    return means_table(comparison, "measures", means, note)


def row_measure_means(heads: ComparedHeads, index: int) -> dict[str, float]:
    """Return the means of what was measured of the rows of an alternative; NaN where nothing is
    defined.
    """
    ways = [row[index] for row in heads.long_heads]
    changes = heads.comparison.row_changes[index]
    bits = np.stack([head.defined_numbers("entropy") for head in ways])
    numbers = {"bits": bits, "reads": 2**bits}
    for title, name in ROW_MEASURES.items():
        numbers[title] = np.stack([head.defined_numbers(name) for head in ways])
    for title, name in CHANGE_MEASURES.items():
        measured = torch.tensor([torch.nan]) if changes is None else getattr(changes, name)
        numbers[title] = tensor_to_numpy(measured)
    return {title: _mean_without_nan(values) for title, values in numbers.items()}


def _mean_without_nan(values: Float[np.ndarray, "*any"]) -> float:
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if numbers.size else float("nan")


def _along_the_text(comparison: Comparison, heads: Sequence[Head]) -> Grid:
    """Return the entropy of each alternative, and the share of attention that moves, in a few parts
    of the text.
    """
    tokens = comparison.base.tokens
    side = Side(tokens, range(len(tokens)), -(-len(tokens) // TABLE_ROWS))
    columns = {f"{head.title} (bits)": head.numbers("entropy") for head in heads}
    for alternative, changes in zip(comparison.alternatives, comparison.row_changes, strict=True):
        if changes is not None:
            name = alternative_name(comparison, alternative)
            columns[f"{name}: moved"] = _moved_shares(changes, heads[0])
    means = [side.means(values) for values in columns.values()]
    return Grid(
        title="means along the text",
        rows=side_axis("queries", side),
        columns=plain_axis("measure", [*columns]),
        cells=unmasked_cells(np.stack(means, axis=1)),
        scale=colorless_scale("measure"),
        decimals=3,
    )


def _moved_shares(changes: RowChanges, head: Head) -> Float[np.ndarray, "query"]:
    """Return how much of each query's attention moves in a head; 0 where that is not defined."""
    moved = np.nan_to_num(tensor_to_numpy(changes.moved))
    return np.asarray(moved.mean(0) if head.merged_heads else moved[head.number])


def compared_row_groups(heads: ComparedHeads) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture on the exact row of one token."""
    comparison, query = heads.comparison, heads.comparison.query
    assert query is not None
    bars = [row_bars(head.row(query)) for ways in heads.long_heads for head in ways]
    longest = max(ranked.full_length for ranked in bars)
    rankings = Group("readings", tuple(_with_length(ranked, longest) for ranked in bars))
    tables, sums = [], []
    for ways, suffix in zip(heads.long_heads, heads.suffixes, strict=True):
        rows = np.stack([head.weights_of(query) for head in ways])
        token, keys = quoted_label(comparison.base.tokens, query), _most_attended(rows)
        title = f"what {token} attends to most{suffix}"
        axis = _key_axis(ways[0].columns.tokens, keys)
        tables.append(_numbers_by_way(comparison, title, axis, rows[:, keys]))
        side = replace(ways[0].columns, size=-(-rows.shape[1] // TABLE_ROWS))
        parts = np.add.reduceat(rows, np.arange(0, rows.shape[1], side.size), axis=1)
        title = f"sums along the text{suffix}"
        sums.append(_numbers_by_way(comparison, title, side_axis("keys", side), parts))
    screen = [Group("readings", tuple(tables)), Group("along the text", tuple(sums))]
    return screen, without_passages([rankings])


def _with_length(ranked: RankedBars, longest: float) -> RankedBars:
    """Return bars whose lengths and colours reach to `longest`, as those beside them."""
    scale = replace(ranked.grid.scale, high=round_up(longest))
    return replace(ranked, longest=longest, grid=replace(ranked.grid, scale=scale))


def _most_attended(rows: Float[np.ndarray, "way key"]) -> list[int]:
    """Return the keys that are attended to most in any alternative, the largest weight first."""
    most = np.argsort(-rows, axis=1, kind="stable")[:, :MOST_COMPARED_KEYS]
    attended = np.unique(most[np.take_along_axis(rows, most, axis=1) > 0]).tolist()
    return sorted(attended, key=lambda key: (-float(rows[:, key].max()), key))


def _key_axis(tokens: Tokens, keys: Sequence[int]) -> Axis:
    numbers, labels = [f"{key + 1:,}" for key in keys], [label_at(tokens, key) for key in keys]
    return Axis("key", "token", tuple(labels), tuple(numbers), (False,) * len(keys))


def _numbers_by_way(
    comparison: Comparison, title: str, rows: Axis, numbers: Float[np.ndarray, "way row"]
) -> Grid:
    """Return a table with a column for each alternative, and one for each difference."""
    ways = [*zip(comparison.alternatives, numbers, strict=True)]
    columns = {alternative_name(comparison, way): weights for way, weights in ways}
    for way, weights in ways:
        if way is not comparison.base:
            change = weights - numbers[comparison.reference]
            columns[difference_title(comparison, way)] = change
    return Grid(
        title=title,
        rows=rows,
        columns=plain_axis("way", [*columns]),
        cells=unmasked_cells(np.stack([*columns.values()], axis=1)),
        scale=colorless_scale("weight"),
        decimals=3,
    )
