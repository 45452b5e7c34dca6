"""A trained transformer among the data of a Trace, and read again: none of its matrices is kept.

Of very many weights neither is kept what queries and keys come to again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor

from attnviz.traces.facts import fits, of_their_types
from attnviz.traces.models.names import names
from attnviz.traces.origin import FromTransformer
from attnviz.traces.settings import Positions, Settings
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.trained.again import OnDemand, Remade
from attnviz.traces.trained.card import TrainedCard
from attnviz.traces.trained.heard import Heard
from attnviz.traces.without import heads_off

MOST_CELLS = 2**22  # of all heads, at one stage on the way to weights: 50 MB of all stages
MADE_AGAIN = ("scores", "scaled_scores", "capped_scores", "weights")
FACTS: dict[str, Any] = {"positions": Positions, "position_base": float, "text": str | None}

Contents = Mapping[str, Any]


def cells_of(trace: Trace) -> int:
    """How many weights there are, of all heads of all layers."""
    shapes = ((each.heads, *each.visible.shape[-2:]) for each in trace.layers)
    return sum(heads * queries * keys for heads, queries, keys in shapes)


def too_many(trace: Trace) -> bool:
    """Whether there are very many weights, and all of them can be made again."""
    heard = all(isinstance(each.asked, OnDemand) for each in trace.layers)
    return heard and isinstance(trace.origin, FromTransformer) and cells_of(trace) > MOST_CELLS


def told(trace: Trace) -> str:
    """What is left out."""
    return (
        f"scores and weights, {cells_of(trace):,} of each, are left out of the file: --trace "
        "computes them again from the queries and keys in it"
    )


def facts_of(origin: FromTransformer) -> dict[str, Any]:
    return {"card": asdict(origin.card)} | {name: getattr(origin, name) for name in FACTS}


def read_again(settings: Settings, facts: Contents) -> FromTransformer:
    """The origin that a file tells of; its model is loaded only if somebody names it again."""
    if settings.model is None or settings.model in names():
        raise ValueError(settings.model)
    odd = [name for name, hint in FACTS.items() if not fits(facts[name], hint)]
    if odd:
        raise TypeError(odd)
    card = of_their_types(TrainedCard, facts["card"])
    return FromTransformer(settings=settings, card=card, **{name: facts[name] for name in FACTS})


def soft_cap_of(layer: Layer) -> float | None:
    """The cap that bends scores, where they are made again."""
    return layer.asked.heard.soft_cap if isinstance(layer.asked, OnDemand) else None


def is_stored(layer: Layer, card: TrainedCard) -> bool:
    """Whether it was read from a file, which holds no matrices of a model."""
    if isinstance(layer.asked, OnDemand):
        return layer.asked.heard.module is None
    return not card.fallback


def on_demand(
    found: Mapping[str, Tensor], number: int, scale: float, origin: FromTransformer, cap: object
) -> OnDemand:
    """Attention that is worked out from queries and keys, as it was when they were heard."""
    if not fits(cap, float | None):
        raise TypeError(cap)
    off = heads_off(origin.settings.without)
    heard = Heard(
        which=origin.card.which,
        layer=number,
        inputs=found["inputs"],
        memory=found.get("key_inputs"),
        queries=found["queries"],
        keys=found["keys"],
        values=found["values"],
        visible=found["visible"].bool(),
        added=found.get("mask"),
        bias=found.get("bias"),
        scale=scale,
        soft_cap=cap if isinstance(cap, int | float) else None,
        sink=found.get("sink"),
        off={head: how for (layer, head), how in off.items() if layer == number},
    )
    return OnDemand(heard, Remade(heard))
