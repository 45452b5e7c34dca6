"""One layer after the other: attention, and the block around it, from vectors and matrices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention import arithmetic as attention
from attnviz.attention import block as blocks
from attnviz.attention.block import Block, FeedForward, Norm
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import NOTHING, SHAPES, Given
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Heads, Layer, Projections, Trace, Unturned
from attnviz.vectors import drawn as embedding
from attnviz.vectors import positions

Vectors = Float[Tensor, "token dim"]
Keys = Float[Tensor, "head key width"]
Values = Float[Tensor, "head key value_width"]
FEED_FORWARD = 4  # times as wide as an embedding, unless the settings say otherwise


@dataclass(frozen=True, eq=False)
class Plan:
    """What is decided before a layer is computed."""

    settings: Settings
    variant: Variant
    given: Given
    width: int | None  # of a head's queries and keys; None: the scores are given
    value_width: int  # of a head's values
    read: Float[Tensor, "key dim"] | None = None  # what is read, if it is not what reads

    def drawn(self, name: str, rows: int, columns: int, like: Tensor) -> Tensor:
        """A matrix of this name, on the device and in the dtype of `like`."""
        return embedding.projection(name, rows, columns, self.settings.seed).to(like)


def layers(
    plan: Plan, inputs: Vectors, memory: Float[Tensor, "key dim"] | None = None
) -> Iterator[Layer]:
    """Each layer reads what the one before it made; what is given is the first one's."""
    for number in range(plan.settings.layers or 1):
        make = _block if plan.settings.blocks else attend
        layer = make(plan, number, inputs, memory)
        yield layer
        inputs = layer.outputs
        plan = replace(
            plan,
            given=Given(visible=plan.given.visible),
            width=plan.width or plan.value_width,
        )


def attend(
    plan: Plan, number: int, inputs: Vectors, memory: Float[Tensor, "key dim"] | None = None
) -> Layer:
    """One attention: of the inputs to themselves, or to a second sentence in memory."""
    own, given, variant = memory is None, plan.given, plan.variant
    projections = draw_projections(plan, _stream(number, own), inputs)
    read = memory if memory is not None else plan.read if plan.read is not None else inputs
    queries, keys, values = project(plan, inputs, read, projections)
    unturned = None
    if own and plan.settings.positions == "rotary" and queries is not None and keys is not None:
        unturned = Unturned(queries, keys)
        queries, keys = positions.turned(queries), positions.turned(keys)
    scores = _scores(given, queries, keys)
    scale = attention.scale_of(variant, plan.width or 1)
    visible = _visible(plan, scores, own)
    attended = attention.attend(
        scores, values, visible, scale=scale, by_hand=given.weights,
        bias=_bias(plan, scores, own), kept=_kept(plan, scores, _stream(number, own)),
    )  # fmt: skip
    context = _joined(attended.contexts, projections)
    _refuse_overflow(attended.scaled_scores, context)
    return Layer(
        number, scale, plan.width or plan.value_width, inputs, projections, unturned, queries,
        keys, values, visible, attended, context, memory,
        read=None if read is inputs else read,
        given=frozenset(name for name in SHAPES if getattr(given, name) is not None),
    )  # fmt: skip


def draw_projections(plan: Plan, stream: str, inputs: Vectors) -> Projections | None:
    """The matrices of a variant that projects: given, or else drawn."""
    given, heads, dim = plan.given, plan.variant.heads, inputs.shape[1]
    outs = {"query": plan.width, "key": plan.width, "value": plan.value_width}
    made: dict[str, Tensor | None] = dict.fromkeys(("w_query", "w_key", "w_value", "w_out"))
    for name, width in outs.items():
        if plan.variant.projected and _is_made(given, name):
            matrix = getattr(given, f"w_{name}")
            if matrix is None:
                matrix = plan.drawn(f"{stream}w_{name}", dim, heads * (width or 1), inputs)
            made |= {f"w_{name}": matrix, f"b_{name}": getattr(given, f"b_{name}")}
    if plan.variant.joined:
        w_out = given.w_out
        if w_out is None:
            w_out = plan.drawn(f"{stream}w_out", heads * plan.value_width, dim, inputs)
        made |= {"w_out": w_out, "b_out": given.b_out}
    return Projections(**made) if any(each is not None for each in made.values()) else None


def project(
    plan: Plan, inputs: Vectors, read: Float[Tensor, "key dim"], projections: Projections | None
) -> tuple[Heads | None, Keys | None, Values]:
    """Queries of the inputs, keys and values of what is read; what is given stays as it is.

    Without a comparison queries and keys are 0, so every score is.
    """
    made = {
        name: _vectors(plan, name, each, projections)
        for name, each in (("query", inputs), ("key", read), ("value", read))
    }
    assert made["value"] is not None
    return made["query"], made["key"], made["value"]


def mistaken(made: Trace, name: str) -> Trace:
    """The same trace with the weights that a mistake would give, and their context vectors."""
    (layer,) = made.layers
    weights = MISTAKES[name].weigh(layer.attended.logits, layer.visible, ratio_of(layer))
    contexts = attention.mix(weights, layer.values)
    attended = replace(
        layer.attended, weights=weights, mixing=weights, mixed_by="softmax", contexts=contexts
    )
    context = _joined(contexts, layer.projections)
    return replace(made, layers=(replace(layer, attended=attended, context=context, mistake=name),))


def ratio_of(layer: Layer) -> float:
    """√(model width) over √(head width), which one mistake takes for the other."""
    ratio: float = layer.inputs.shape[-1] / layer.head_dim
    return sqrt(ratio)


def _block(
    plan: Plan, number: int, inputs: Vectors, memory: Float[Tensor, "key dim"] | None = None
) -> Layer:
    """Attention, attention to memory if there is one, and feed-forward, each in its residual."""
    place, norm = plan.settings.norm, _norm(inputs)
    read = blocks.read_by(inputs, norm, place)
    own = attend(plan, number, read)
    _refuse_other_width(own.context, inputs)
    first = blocks.residual(inputs, read, own.context, norm, place)
    cross, crossed, outputs = None, None, first.outputs
    if memory is not None:
        read = blocks.read_by(outputs, norm, place)
        cross = attend(replace(plan, given=NOTHING), number, read, memory)
        crossed = blocks.residual(outputs, read, cross.context, norm, place)
        outputs = crossed.outputs
    parameters = _feed_forward(plan, _stream(number, True), inputs)
    read = blocks.read_by(outputs, norm, place)
    hidden = blocks.hidden(read, parameters)
    made = blocks.feed_forward(hidden, parameters)
    last = blocks.residual(outputs, read, made, norm, place)
    block = Block(place, first, crossed, last, hidden, parameters)
    return replace(own, cross=cross, block=block)


def _norm(like: Vectors) -> Norm:
    """As LayerNorm is before it learns: it stretches and shifts nothing."""
    dim = like.shape[1]
    return Norm(torch.ones(dim).to(like), torch.zeros(dim).to(like))


def _feed_forward(plan: Plan, stream: str, like: Vectors) -> FeedForward:
    dim = like.shape[1]
    wide = plan.settings.feed_forward or FEED_FORWARD * dim
    return FeedForward(
        w_1=plan.drawn(f"{stream}w_1", dim, wide, like),
        b_1=torch.zeros(wide).to(like),
        w_2=plan.drawn(f"{stream}w_2", wide, dim, like),
        b_2=torch.zeros(dim).to(like),
        activation=plan.settings.activation,
    )


def _refuse_other_width(context: Tensor, inputs: Tensor) -> None:
    if context.shape[1] != inputs.shape[1]:
        raise AttnvizError(
            f"a block adds context vectors to embeddings: the first are {context.shape[1]} wide, "
            f"the others {inputs.shape[1]}",
            "give a w_out that makes them as wide as each other, or leave --layers out",
        )


def _stream(number: int, own: bool) -> str:
    """Every layer draws its own numbers; the first keeps its own when others are added."""
    layer = f"L{number} " if number else ""
    return layer if own else f"{layer}cross "


def _is_made(given: Given, name: str) -> bool:
    """Whether vectors of this name are made here, and not given or left out."""
    if name == "value":
        return given.values is None
    vectors = given.queries if name == "query" else given.keys
    return vectors is None and given.scores is None


def _vectors(
    plan: Plan, name: str, inputs: Vectors, projections: Projections | None
) -> Float[Tensor, "head place width"] | None:
    given, heads = plan.given, plan.variant.heads
    found = getattr(given, {"query": "queries", "key": "keys", "value": "values"}[name])
    if found is not None or not _is_made(given, name):
        return found  # type: ignore[no-any-return]
    compared = plan.variant.compared or name == "value"
    vectors = inputs if compared else torch.zeros_like(inputs)
    if plan.variant.projected and projections is not None:
        matrix, bias = getattr(projections, f"w_{name}"), getattr(projections, f"b_{name}")
        vectors = attention.project(inputs, matrix, bias)
    return attention.split_heads(vectors, heads)


def _scores(
    given: Given, queries: Float[Tensor, "head query width"] | None, keys: Tensor | None
) -> Float[Tensor, "head query key"]:
    if given.scores is not None:
        return given.scores
    assert queries is not None
    assert keys is not None
    if queries.shape[-1] != keys.shape[-1]:
        raise AttnvizError(
            f"queries are {queries.shape[-1]} wide and keys {keys.shape[-1]}: they have no product",
            "give both, or matrices that make them as wide as each other",
        )
    return attention.similarity(queries, keys)


def _visible(
    plan: Plan, scores: Float[Tensor, "head query key"], own: bool
) -> Bool[Tensor, "query key"]:
    """What each token may read: of a second sentence everything."""
    queries, keys = scores.shape[-2:]
    if not own:
        return torch.ones(queries, keys, dtype=torch.bool, device=scores.device)
    if plan.given.visible is not None:
        return plan.given.visible
    return attention.visible_cells(plan.variant, queries, scores.device, keys)


def _bias(
    plan: Plan, scores: Float[Tensor, "head query key"], own: bool
) -> Float[Tensor, "head query key"] | None:
    if plan.settings.positions != "alibi" or not own:
        return None
    return positions.distance_bias(*scores.shape).to(scores)


def _kept(
    plan: Plan, scores: Float[Tensor, "head query key"], stream: str
) -> Float[Tensor, "#head query key"] | None:
    """What the weights are multiplied with: 0, or what makes up for those that are dropped."""
    dropout = plan.variant.dropout
    if plan.given.kept is not None:
        return plan.given.kept / (1 - dropout)
    if not dropout:
        return None
    heads, queries, keys = scores.shape
    seed = plan.settings.seed
    return embedding.kept(heads, queries, keys, dropout, seed, f"{stream}dropout").to(scores)


def _joined(
    contexts: Float[Tensor, "head query value_width"], projections: Projections | None
) -> Float[Tensor, "query context"]:
    joined = attention.join_heads(contexts)
    if projections is None or projections.w_out is None:
        return joined
    return attention.project(joined, projections.w_out, projections.b_out)


def _refuse_overflow(scores: Tensor, context: Tensor) -> None:
    """A number too large for its dtype becomes infinite, and everything after it NaN."""
    if not (scores.isfinite().all() and context.isfinite().all()):
        dtype = str(scores.dtype).removeprefix("torch.")
        raise AttnvizError(
            f"the scores are too large for {dtype}, whose largest number is "
            f"{torch.finfo(scores.dtype).max:.2g}",
            "try a higher --temperature, a smaller --dim, --scale, or --dtype float64",
        )
