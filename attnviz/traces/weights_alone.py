"""Layers of which nothing is known but their weights: no queries, keys and values.

Of the scores all that is known is their softmax; where somebody asks for them, the logarithms of
the weights stand for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.arithmetic import Attended, MixedBy
from attnviz.errors import AttnvizError
from attnviz.traces.trace import Layer, Trace

GIVEN = frozenset(("scores", "queries", "keys", "values"))  # by others, or not known
Heads = Float[Tensor, "head query key"]


class OfWeights(Attended):
    """Weights, and in place of the scores what their softmax could be of."""

    capped_scores = None
    bias = None
    mask = None
    sink = None
    mixed_by: MixedBy = "softmax"

    def __init__(self, weights: Heads, visible: Bool[Tensor, "*#head query key"]) -> None:
        heads, queries, _ = weights.shape
        nothing = weights.new_zeros(heads, queries, 0)
        known = {"weights": weights, "mixing": weights, "contexts": nothing, "visible": visible}
        self.__dict__.update(known)  # frozen, as every Attended is

    def of_part(self, part: Callable[[Tensor], Tensor]) -> OfWeights:
        return OfWeights(part(self.weights), part(self.__dict__["visible"]))

    @cached_property
    def scores(self) -> Heads:
        hidden: Tensor = ~self.__dict__["visible"]
        return self.weights.log().masked_fill(hidden, 0)

    @property
    def scaled_scores(self) -> Heads:
        return self.scores


def told_of_weights_alone(trace: Trace) -> str:
    """Why nothing else can be shown of it."""
    return "only weights are given" if trace.handed else "the model returns only weights"


def refuse_weights_alone(trace: Trace, wanted: str, about: str) -> None:
    """Refuse what needs more than weights that were computed elsewhere."""
    if trace.handed is not None:
        raise AttnvizError(
            f"{wanted}, but only weights are given",
            "let attnviz read a model itself, which gives all of it: attnviz.trace(text, model=…)",
            about=about,
        )


def layer_of(
    number: int,
    weights: Heads,
    *,
    visible: Bool[Tensor, "*#head query key"],
    inputs: Float[Tensor, "query dim"],
    key_inputs: Float[Tensor, "key dim"] | None = None,
    given: frozenset[str] = GIVEN,
) -> Layer:
    """A layer that has weights, and what it read, as far as that is known."""
    heads, queries, keys = weights.shape
    return Layer(
        layer=number,
        scale=1.0,
        head_dim=max(1, inputs.shape[-1] // heads),
        inputs=inputs,
        key_inputs=key_inputs,
        projections=None,
        queries=None,
        keys=None,
        values=weights.new_zeros(heads, keys, 0),
        visible=visible,
        attended=OfWeights(weights, visible),
        context=weights.new_zeros(queries, 0),
        given=given,
    )
