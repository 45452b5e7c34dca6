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

from attnviz.analysis.inspection.looking import Looking
from attnviz.cells import EVERYTHING, Cells, Patch, Values
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import name_of
from attnviz.traces.trace import Layer, Trace
from attnviz.wording.words import counted


@dataclass(frozen=True)
class Side:
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
    rows: Side
    columns: Side
    share: bool = True  # whether a row is divided up, and sums to 1 while nothing of it is left out
    of: tuple[Map, ...] = ()  # what it is merged of

    def __repr__(self) -> str:
        return f"<Map {self.name}: {len(self.rows)} × {len(self.columns)}>"


Step = Callable[[tuple[Map, ...], Trace, Looking], tuple[Map, ...]]


def side_of(tokens: Tokens) -> Side:
    """A place for each token."""
    places = range(len(tokens))
    return Side(
        tokens,
        tuple((place,) for place in places),
        tokens.labels,
        tuple(place + 1 for place in places),
    )


def heads_of(trace: Trace, looking: Looking) -> tuple[Map, ...]:
    """A map for each head that is asked for, in the order of the model."""
    layers = [each for each in trace.layers if looking.layer in (None, each.layer)]
    if not layers:
        raise _no(trace, "layer", looking.layer, [each.layer for each in trace.layers])
    heads = range(layers[0].heads)
    if looking.head is not None and looking.head not in heads:
        raise _no(trace, "head", looking.head, list(heads))
    rows, columns = side_of(trace.tokens), side_of(trace.keys)  # one for all heads: texts are long
    return tuple(
        Map(
            name_of(layer.layer, head),
            layer,
            head,
            layer.weights.cells("mixing", head),
            rows,
            rows if trace.keys_of(layer) is trace.tokens else columns,
        )
        for layer in layers
        for head in range(layer.heads)
        if looking.head in (None, head)
    )


def maps_of(trace: Trace, looking: Looking, steps: tuple[Step, ...] = ()) -> tuple[Map, ...]:
    """What is looked at, after each of some steps."""
    found = heads_of(trace, looking)
    for step in steps:
        found = step(found, trace, looking)
    return found


def _no(trace: Trace, kind: str, number: int | None, known: list[int]) -> AttnvizError:
    one = len(known) == 1
    return AttnvizError(
        f"there is no {kind} {number}: the model has {len(known)} {kind}{'' if one else 's'}, "
        f"{known[0]}{'' if one else f' to {known[-1]}'}",
        f"try --{kind} {known[-1]}",
        about=kind,
    )


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
