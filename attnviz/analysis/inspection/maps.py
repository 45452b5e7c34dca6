"""Maps: which token attends to which, in one head or in several combined.

A map is made of the weights of a head, and changed step by step into what a person wants to see:
weighed, with tokens hidden, in words, merged. Each step takes maps and gives maps, and works a
part out when it is asked for: no step needs a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.cells import FULL_SLICE, Cells, CellValues, Patch
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Layer, Trace
from attnviz.wording.words import counted


@dataclass(frozen=True)
class MapSide:
    """One side of a map: places that stand for a token each, or for several."""

    tokens: Tokens
    groups: tuple[tuple[int, ...], ...]  # the tokens that each place stands for
    labels: tuple[str, ...]
    numbers: tuple[int, ...]  # from 1, as in the sentence: what is left out changes none

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def spaced(self) -> tuple[bool, ...]:
        """Of each place, whether white space stands before it."""
        return tuple(self.tokens.spaced[group[0]] for group in self.groups)

    @property
    def special(self) -> tuple[bool, ...]:
        """Of each place, whether a tokenizer added what it stands for."""
        return tuple(self.tokens.special.issuperset(group) for group in self.groups)


@dataclass(frozen=True, eq=False, repr=False)
class Map:
    """Who reads whom in one head, or in several together."""

    name: str  # L4H7; or what was merged
    layer: Layer | None  # None: of several
    head: int | None
    cells: Cells
    rows: MapSide
    columns: MapSide
    share: bool = True  # whether a row is divided up, and sums to 1 while nothing of it is left out
    merged_maps: tuple[Map, ...] = ()  # what it is merged of

    def __repr__(self) -> str:
        return f"<Map {self.name}: {len(self.rows)} × {len(self.columns)}>"


MapStep = Callable[[tuple[Map, ...], Trace, InspectOptions], tuple[Map, ...]]


def token_side(tokens: Tokens) -> MapSide:
    """A place for each token."""
    positions = range(len(tokens))
    return MapSide(
        tokens,
        tuple((position,) for position in positions),
        tokens.labels,
        tuple(position + 1 for position in positions),
    )


def maps_of_heads(trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """A map for each head that is asked for, in the order of the model."""
    layers = [candidate for candidate in trace.layers if options.layer in (None, candidate.layer)]
    if not layers:
        raise _missing_part_error(
            trace, "layer", options.layer, [candidate.layer for candidate in trace.layers]
        )
    heads = range(layers[0].heads)
    if options.head is not None and options.head not in heads:
        raise _missing_part_error(trace, "head", options.head, list(heads))
    rows, columns = (
        token_side(trace.tokens),
        token_side(trace.keys),
    )  # one for all heads: texts are long
    return tuple(
        Map(
            format_head_id(layer.layer, head),
            layer,
            head,
            layer.weights.cells("mixing", head),
            rows,
            rows if trace.keys_of(layer) is trace.tokens else columns,
        )
        for layer in layers
        for head in range(layer.heads)
        if options.head in (None, head)
    )


def build_maps(
    trace: Trace, options: InspectOptions, steps: tuple[MapStep, ...] = ()
) -> tuple[Map, ...]:
    """What is looked at, after each of some steps."""
    maps = maps_of_heads(trace, options)
    for step in steps:
        maps = step(maps, trace, options)
    return maps


def _missing_part_error(
    trace: Trace, kind: str, number: int | None, known_numbers: list[int]
) -> AttnvizError:
    is_single = len(known_numbers) == 1
    return AttnvizError(
        f"there is no {kind} {number}: the model has {len(known_numbers)} {kind}{'' if is_single else 's'}, "
        f"{known_numbers[0]}{'' if is_single else f' to {known_numbers[-1]}'}",
        f"try --{kind} {known_numbers[-1]}",
        about=kind,
    )


ROLLOUT_NUMBER_BYTES, ROLLOUT_MATRICES = (
    8,
    4,
)  # of a number; and how many there are at once on the way through all layers
RESIDUAL_SHARE = 0.5  # of what a token is, beside what it reads: the residual path

MergeFunction = Callable[[CellValues, CellValues], CellValues]


def merge_maps(maps: tuple[Map, ...], trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """All maps as one, where that is asked for."""
    if options.merge == "mean":
        return (
            _merge_into_one(
                maps, options, np.add, f"mean of {_merged_heads_phrase(maps, options)}"
            ),
        )
    if options.merge == "max":
        largest_map = _merge_into_one(
            maps, options, np.maximum, f"largest of {_merged_heads_phrase(maps, options)}"
        )
        return (replace(largest_map, share=False),)
    return maps


def roll_out_maps(maps: tuple[Map, ...], trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """What each token is made of after all layers, half of it passing by each."""
    first = maps[0]
    if first.rows.tokens is not first.columns.tokens:
        raise AttnvizError(
            "--merge rollout follows one sentence through all layers, but here a second one is "
            "read",
            "try --merge mean",
            about="merge",
        )
    layers: dict[int, list[Map]] = {}
    for head_map in maps:
        layers.setdefault(head_map.layer.layer if head_map.layer else 0, []).append(head_map)
    cells = RolloutCells(tuple(MergedCells(tuple(heads), np.add) for heads in layers.values()))
    name = f"rollout through {counted(len(layers), 'layer')}"
    return (replace(first, name=name, layer=None, head=None, cells=cells, merged_maps=maps),)


def _merge_into_one(
    maps: tuple[Map, ...], options: InspectOptions, merge_function: MergeFunction, name: str
) -> Map:
    """One map of several; of the only one the same."""
    cells = MergedCells(maps, merge_function)
    return replace(maps[0], name=name, layer=None, head=None, cells=cells, merged_maps=maps)


def mean_map(maps: tuple[Map, ...]) -> Map:
    """The mean of maps that are looked at together."""
    name = f"mean of {counted(len(maps), 'head')}"
    return replace(
        maps[0], name=name, layer=None, head=None, cells=MergedCells(maps, np.add), merged_maps=maps
    )


def _merged_heads_phrase(maps: tuple[Map, ...], options: InspectOptions) -> str:
    """`72 heads`, `the 12 heads of L4`, `H7 of 6 layers`."""
    if options.layer is not None and options.head is not None:
        return f"{maps[0].name} alone"
    if options.layer is not None:
        return f"the {counted(len(maps), 'head')} of L{options.layer}"
    if options.head is not None:
        return f"H{options.head} of {counted(len(maps), 'layer')}"
    return counted(len(maps), "head")


@dataclass(frozen=True, eq=False, repr=False)
class MergedCells(Cells):
    """Cells of several maps as one, a window at a time: their mean, or the largest."""

    maps: tuple[Map, ...]
    merge_function: MergeFunction

    @property
    def shape(self) -> tuple[int, int]:
        return self.maps[0].cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        first, *other_cells = (each.cells for each in self.maps)
        patch = first.window(rows, columns)
        values, hidden = patch.values.astype(np.float64), patch.hidden
        for each in other_cells:
            patch = each.window(rows, columns)
            values, hidden = self.merge_function(values, patch.values), hidden & patch.hidden
        return Patch(values / (len(self.maps) if self.merge_function is np.add else 1), hidden)


@dataclass(frozen=True, eq=False, repr=False)
class RolloutCells(Cells):
    """The product of all layers, each ½ its heads' mean and ½ what passes by (Abnar & Zuidema)."""

    layers: tuple[MergedCells, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.layers[0].shape

    @cached_property
    def whole(self) -> Patch:
        tokens = self.shape[0]
        memory.refuse_too_little_memory(
            tokens**2 * ROLLOUT_NUMBER_BYTES * ROLLOUT_MATRICES,
            f"rollout of {tokens:,} tokens through all layers",
            "give a shorter text, or --merge mean",
        )
        first, *other_layers = (each.window(FULL_SLICE, FULL_SLICE) for each in self.layers)
        product, hidden = _add_residual(first), first.hidden
        for above in other_layers:
            product, hidden = _add_residual(above) @ product, hidden & above.hidden
        return Patch(product, hidden & (product == 0))

    def window(self, rows: slice, columns: slice) -> Patch:
        return Patch(self.whole.values[rows, columns], self.whole.hidden[rows, columns])


def _add_residual(layer: Patch) -> CellValues:
    """What a layer makes of each token: of one that reads nothing it makes the same."""
    mixed = (1 - RESIDUAL_SHARE) * layer.values + RESIDUAL_SHARE * np.eye(len(layer.values))
    steps: CellValues = mixed / mixed.sum(axis=1, keepdims=True)
    return steps
