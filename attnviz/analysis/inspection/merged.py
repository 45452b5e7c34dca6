"""Several heads as one map: their mean, the largest weight, or the way through all layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnviz.analysis.inspection.looking import Looking
from attnviz.analysis.inspection.maps import Map
from attnviz.cells import EVERYTHING, Cells, Patch, Values
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.trace import Trace
from attnviz.wording.words import counted

BYTES, MATRICES = 8, 4  # of a number; and how many there are at once on the way through all layers
STAYS = 0.5  # of what a token is, beside what it reads: the residual path

Merging = Callable[[Values, Values], Values]


def merged(maps: tuple[Map, ...], trace: Trace, looking: Looking) -> tuple[Map, ...]:
    """All maps as one, where that is asked for."""
    if looking.merge == "mean":
        return (_together(maps, looking, np.add, f"mean of {_which(maps, looking)}"),)
    if looking.merge == "max":
        found = _together(maps, looking, np.maximum, f"largest of {_which(maps, looking)}")
        return (replace(found, share=False),)
    return maps


def rolled_out(maps: tuple[Map, ...], trace: Trace, looking: Looking) -> tuple[Map, ...]:
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
    for each in maps:
        layers.setdefault(each.layer.layer if each.layer else 0, []).append(each)
    cells = RolledOut(tuple(Merged(tuple(heads), np.add) for heads in layers.values()))
    name = f"rollout through {counted(len(layers), 'layer')}"
    return (replace(first, name=name, layer=None, head=None, cells=cells, of=maps),)


def _together(maps: tuple[Map, ...], looking: Looking, how: Merging, name: str) -> Map:
    """One map of several; of the only one the same."""
    cells = Merged(maps, how)
    return replace(maps[0], name=name, layer=None, head=None, cells=cells, of=maps)


def mean_of(maps: tuple[Map, ...]) -> Map:
    """The mean of maps that are looked at together."""
    name = f"mean of {counted(len(maps), 'head')}"
    return replace(maps[0], name=name, layer=None, head=None, cells=Merged(maps, np.add), of=maps)


def _which(maps: tuple[Map, ...], looking: Looking) -> str:
    """`72 heads`, `the 12 heads of L4`, `H7 of 6 layers`."""
    if looking.layer is not None and looking.head is not None:
        return f"{maps[0].name} alone"
    if looking.layer is not None:
        return f"the {counted(len(maps), 'head')} of L{looking.layer}"
    if looking.head is not None:
        return f"H{looking.head} of {counted(len(maps), 'layer')}"
    return counted(len(maps), "head")


@dataclass(frozen=True, eq=False, repr=False)
class Merged(Cells):
    """Cells of several maps as one, a window at a time: their mean, or the largest."""

    maps: tuple[Map, ...]
    how: Merging

    @property
    def shape(self) -> tuple[int, int]:
        return self.maps[0].cells.shape

    def window(self, rows: slice, columns: slice) -> Patch:
        first, *others = (each.cells for each in self.maps)
        patch = first.window(rows, columns)
        values, hidden = patch.values.astype(np.float64), patch.hidden
        for each in others:
            patch = each.window(rows, columns)
            values, hidden = self.how(values, patch.values), hidden & patch.hidden
        return Patch(values / (len(self.maps) if self.how is np.add else 1), hidden)


@dataclass(frozen=True, eq=False, repr=False)
class RolledOut(Cells):
    """The product of all layers, each ½ its heads' mean and ½ what passes by (Abnar & Zuidema)."""

    layers: tuple[Merged, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.layers[0].shape

    @cached_property
    def whole(self) -> Patch:
        tokens = self.shape[0]
        memory.refuse_more(
            tokens**2 * BYTES * MATRICES,
            f"rollout of {tokens:,} tokens through all layers",
            "give a shorter text, or --merge mean",
        )
        first, *others = (each.window(EVERYTHING, EVERYTHING) for each in self.layers)
        product, unseen = _step(first), first.hidden
        for above in others:
            product, unseen = _step(above) @ product, unseen & above.hidden
        return Patch(product, unseen & (product == 0))

    def window(self, rows: slice, columns: slice) -> Patch:
        return Patch(self.whole.values[rows, columns], self.whole.hidden[rows, columns])


def _step(layer: Patch) -> Values:
    """What a layer makes of each token: of one that reads nothing it makes the same."""
    mixed = (1 - STAYS) * layer.values + STAYS * np.eye(len(layer.values))
    steps: Values = mixed / mixed.sum(axis=1, keepdims=True)
    return steps
