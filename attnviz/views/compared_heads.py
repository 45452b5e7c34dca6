"""ComparedHeads: the heads of a Comparison that are shown, as maps and differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np

from attnviz.analysis.comparison import Comparison
from attnviz.cells import Cells, StoredCells
from attnviz.heads.head import Head
from attnviz.tokens.tokens import Tokens
from attnviz.views.conclusions.long_findings import NO_CHANGE, ROUNDING_ASPECTS
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.grid import OFF_SUFFIX, Grid, with_common_scales
from attnviz.views.grids.scales import (
    Scale,
    block_difference_scale,
    centred_scale,
    weight_scale,
)
from attnviz.views.heads.grid import head_grid, mean_of_layer, measured_head
from attnviz.views.measure_tables import (
    alternative_name,
    alternative_title,
    compared_sides,
    difference_title,
)
from attnviz.views.reading import token_axis

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
        return ["" if head is None else f" · head {head}" for head in self.numbers]

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
