"""Maps: who reads whom, in one head or in several together, as they are looked at.

A map is made of the weights of a head, and changed step by step into what a person wants to see:
weighed, with tokens hidden, in words, merged. Each step takes maps and gives maps, and works a
part out when it is asked for: no step needs a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attnviz.analysis.inspection.looking import Looking
from attnviz.cells import Cells
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.without import name_of


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
