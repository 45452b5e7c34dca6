"""Weights that were computed elsewhere among the data of a Trace, and read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attnviz.traces.facts import of_their_types
from attnviz.traces.matrices import Matrices
from attnviz.traces.origin import FromWeights
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Layer
from attnviz.traces.weights_alone import layer_of

KEPT = ("weights", "visible")  # of a layer: there is nothing else

Contents = Mapping[str, Any]


def facts_of(origin: FromWeights) -> dict[str, Any]:
    """What is kept of it beside its arrays."""
    which = {"item": origin.matrices.item, "items": origin.matrices.items}
    return {"name": origin.name, "stored_as": origin.stored_as, **which}


def origin_again(settings: Settings, facts: Contents) -> FromWeights:
    """The origin that a file tells of."""
    item, items = int(facts["item"]), int(facts["items"])
    named = {
        "settings": settings,
        "matrices": Matrices(item=item, items=items),
        "name": facts["name"],
        "stored_as": facts["stored_as"],
    }
    return of_their_types(FromWeights, named)


def layer_again(
    number: int, facts: Contents, found: Mapping[str, Tensor], *, others: bool
) -> Layer:
    """A layer as it was, reading others than its own tokens where it did."""
    weights = found["weights"]
    _, queries, keys = weights.shape
    return layer_of(
        number,
        weights,
        visible=found["visible"].bool(),
        inputs=weights.new_zeros(queries, 0),
        key_inputs=weights.new_zeros(keys, 0) if others else None,
        given=frozenset(facts["given"]),
    )
