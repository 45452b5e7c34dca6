"""Map: which token attends to which, in one head or in several combined.

A map starts as the weights of a head and goes through steps: weighted, with tokens hidden, in
words, merged. A step takes maps and returns maps, which compute a window when it is read, so that
no step needs the whole matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.cells import FULL_SLICE, Cells, CellValues, MergedCells, MergeFunction, Patch
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.tokens.tokens import Tokens
from attnviz.traces.indexing import cut_weights
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Layer, Trace
from attnviz.wording.keywords import with_checked_arguments
from attnviz.wording.words import counted, with_summary

ROLLOUT_NUMBER_BYTES, ROLLOUT_MATRICES = 8, 4  # float64; matrices in memory at once
RESIDUAL_SHARE = 0.5  # the part of a token's vector that passes by a layer (residual connection)


@with_summary
@dataclass(frozen=True)
class MapSide:
    """The rows or columns of a map: each stands for one token, or for several."""

    tokens: Tokens
    groups: tuple[tuple[int, ...], ...]  # positions of the tokens that each stands for
    labels: tuple[str, ...]
    numbers: tuple[int, ...]  # from 1, as in the whole sentence

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def spaced(self) -> tuple[bool, ...]:
        return tuple(self.tokens.spaced[group[0]] for group in self.groups)

    @property
    def special(self) -> tuple[bool, ...]:
        return tuple(self.tokens.special.issuperset(group) for group in self.groups)


@dataclass(frozen=True, eq=False, repr=False)
class Map:
    """The weights of each query for each key in one head, or in several together."""

    name: str  # such as L4H7, or "mean of 72 heads"
    layer: Layer | None  # None if several are merged
    head: int | None
    cells: Cells
    rows: MapSide
    columns: MapSide
    share: bool = True  # whether cells are shares of a row, which sums to 1 if no token is hidden
    merged_maps: tuple[Map, ...] = ()

    @property
    def weights(self) -> Float[Tensor, "query key"]:
        """All numbers of the map; may compute them."""
        return torch.from_numpy(np.array(self.cells.window(FULL_SLICE, FULL_SLICE).values))

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

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
        return f"<Map {self.name}: {len(self.rows)} × {len(self.columns)}>"


MapStep = Callable[[tuple[Map, ...], Trace, InspectOptions], tuple[Map, ...]]


def token_side(tokens: Tokens) -> MapSide:
    """Return rows or columns that stand for one token each."""
    positions = range(len(tokens))
    return MapSide(
        tokens,
        tuple((position,) for position in positions),
        tokens.labels,
        tuple(position + 1 for position in positions),
    )


def maps_of_heads(trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """Return a map for each head that `options.layer` and `options.head` choose, in the model's
    order. All heads are chosen where these are None; a layer or head that the trace does not have
    is refused."""
    numbers = [layer.layer for layer in trace.layers]
    chosen = numbers if options.layers is None else options.layers
    if missing := [number for number in chosen if number not in numbers]:
        raise _missing_part_error("layer", missing[0], numbers)
    layers = [layer for layer in trace.layers if layer.layer in chosen]
    heads = range(max(layer.heads for layer in layers))
    for word in [] if options.head is None else str(options.head).split(","):
        if int(word.rpartition("H")[2]) not in heads:
            raise _missing_part_error("head", int(word.rpartition("H")[2]), heads)
    rows, columns = token_side(trace.tokens), token_side(trace.keys)  # shared by all heads
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
        if options.chooses_head(layer.layer, head)
    )


def build_maps(
    trace: Trace, options: InspectOptions, steps: tuple[MapStep, ...] = ()
) -> tuple[Map, ...]:
    """Return the maps of the heads that the options choose, after these steps in order."""
    maps = maps_of_heads(trace, options)
    for step in steps:
        maps = step(maps, trace, options)
    return maps


def _missing_part_error(kind: str, number: int, known: Sequence[int]) -> AttnvizError:
    """Return the error for a layer or head (`kind`) that does not exist; `known` has the existing
    numbers."""
    ending, last = ("", "") if len(known) == 1 else ("s", f" to {known[-1]}")
    return AttnvizError(
        f"there is no {kind} {number}: the model has {len(known)} {kind}{ending}, {known[0]}{last}",
        f"try --{kind} {known[-1]}",
        about=kind,
    )


def merge_maps(maps: tuple[Map, ...], trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """Return one map, the mean or the maximum of all, if `options.merge` is "mean" or "max";
    otherwise the maps as they are."""
    heads = _merged_heads_phrase(maps, options)
    if options.merge == "mean":
        return (_merge_into_one(maps, np.add, f"mean of {heads}"),)
    if options.merge == "max":
        return (replace(_merge_into_one(maps, np.maximum, f"largest of {heads}"), share=False),)
    return maps


def roll_out_maps(maps: tuple[Map, ...], trace: Trace, options: InspectOptions) -> tuple[Map, ...]:
    """Return attention rollout as one map: how much of each token reaches each token through all
    layers. Refuses a model that reads a second sentence."""
    first = maps[0]
    if first.rows.tokens is not first.columns.tokens:
        raise AttnvizError(
            "--merge rollout follows one sentence through all layers, but here a second one is "
            "read",
            "try --merge mean",
            about="merge",
        )
    layers: dict[int, list[Cells]] = {}
    for head_map in maps:
        number = head_map.layer.layer if head_map.layer else 0
        layers.setdefault(number, []).append(head_map.cells)
    cells = RolloutCells(tuple(MergedCells(tuple(heads), np.add) for heads in layers.values()))
    name = f"rollout through {counted(len(layers), 'layer')}"
    return (replace(first, name=name, layer=None, head=None, cells=cells, merged_maps=maps),)


def _merge_into_one(maps: tuple[Map, ...], merge_function: MergeFunction, name: str) -> Map:
    """Return one map that combines the cells of all maps; with `np.add` it is their mean."""
    cells = MergedCells(tuple(each.cells for each in maps), merge_function)
    return replace(maps[0], name=name, layer=None, head=None, cells=cells, merged_maps=maps)


def mean_map(maps: tuple[Map, ...]) -> Map:
    return _merge_into_one(maps, np.add, f"mean of {counted(len(maps), 'head')}")


def _merged_heads_phrase(maps: tuple[Map, ...], options: InspectOptions) -> str:
    """Return a phrase for the merged heads: `72 heads`, `the 12 heads of L4`, `H7 of 6 layers`."""
    if len(maps) == 1:
        return f"{maps[0].name} alone"
    if isinstance(options.layer, int) and options.head is None:
        return f"the {counted(len(maps), 'head')} of L{options.layer}"
    if isinstance(options.head, int) and options.layer is None:
        return f"H{options.head} of {counted(len(maps), 'layer')}"
    return counted(len(maps), "head")


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
            "give a shorter text, or --merge mean",
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
    steps: CellValues = mixed / mixed.sum(axis=1, keepdims=True)
    return steps
