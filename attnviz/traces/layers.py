"""One layer after the other: attention, and the block around it, from vectors and matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import sqrt
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention import arithmetic, block
from attnviz.attention.arithmetic import Attended, Visible
from attnviz.attention.block import Block, Fed, FeedForward, Norm, Residual
from attnviz.attention.variants import Instead
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import Matrices
from attnviz.traces.plan import Plan
from attnviz.traces.settings import TURNED, of_layer
from attnviz.traces.trace import BeforeRotary, Layer, Projections
from attnviz.vectors import positions

if TYPE_CHECKING:
    from attnviz.traces.trained.recomputed_weights import OnDemand

Vectors = Float[Tensor, "*batch token dim"]
Read = Float[Tensor, "*batch key dim"]
Queries = Float[Tensor, "*batch head query width"]
Keys = Float[Tensor, "*batch group key key_width"]
Values = Float[Tensor, "*batch group key value_width"]
Scores = Float[Tensor, "*batch head query key"]
ForScores = Float[Tensor, "*#batch #head query key"]  # one for all of a batch will do

Size = tuple[int, int, int]  # heads, queries, keys
Named = dict[str, Tensor | None]  # matrices and biases, by the names of Projections


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored:
    """Queries held against keys: all that there is before the scores are scaled."""

    made_by: Named
    before_rotary: BeforeRotary | None
    queries: Queries | None
    keys: Keys | None
    given: Matrices
    visible: Visible
    bias: ForScores | None
    mask: Float[Tensor, "*#head query key"] | None

    @cached_property
    def scores(self) -> Scores:
        return _scores(self.given, self.queries, self.keys, self.made_by.get("w_score"))


def layers(plan: Plan, inputs: Vectors, memory: Read | None = None) -> Iterator[Layer]:
    """Each layer reads what the one before it made, with what is given of it."""
    make = _block if plan.settings.blocks else attend
    for number in range(plan.settings.layers or 1):
        layer = make(_of_layer(plan, number), number, inputs, memory)
        yield layer
        inputs = layer.outputs


def _of_layer(plan: Plan, number: int) -> Plan:
    """The same for one layer; those above the first make queries and keys in any case."""
    if number == 0:
        return plan
    matrices = plan.matrices.of_layer(number)
    return replace(plan, matrices=matrices, width=plan.width or plan.value_width)


def attend(plan: Plan, number: int, inputs: Vectors, memory: Read | None = None) -> Layer:
    """One attention: of the inputs to themselves, or to a second sentence in memory."""
    own = memory is None
    stream = _stream(number, own)
    read = memory if memory is not None else inputs if plan.key_inputs is None else plan.key_inputs
    scored = score(plan, stream, inputs, read, own=own)
    values, of_values = _made(plan, "value", stream, read)
    assert values is not None
    projections = _projections(scored.made_by | of_values | _out(plan, stream, inputs))
    off = of_layer(plan.settings.without, number) if own else {}
    asked = _by_row(plan, number, inputs, read, scored, values, off)
    attended = asked.remade if asked else _attended(plan, stream, inputs, scored, values, off)
    context = _joined(attended.contexts, projections)
    if plan.blunder is None:  # a mistake may divide by 0, and that is to be seen
        refuse_overflow(plan, context, "context vectors")
    return Layer(
        layer=number,
        scale=arithmetic.scale_of(plan.variant, plan.width or 1),
        head_dim=_head_dim(plan),
        inputs=inputs,
        key_inputs=None if read is inputs else read,
        projections=projections,
        before_rotary=scored.before_rotary,
        queries=scored.queries,
        keys=scored.keys,
        values=values,
        visible=scored.visible,
        attended=attended,
        context=context,
        memory=memory,
        given=frozenset(plan.matrices.tensors),
        mistake=plan.mistake,
        off=off,
        asked=asked,
    )


def _by_row(
    plan: Plan,
    number: int,
    inputs: Vectors,
    read: Read,
    scored: Scored,
    values: Values,
    off: Mapping[int, Instead],
) -> OnDemand | None:
    """Who works weights out by row, where they would fill memory; scores may not overflow then."""
    queries, keys, scale = (
        scored.queries,
        scored.keys,
        arithmetic.scale_of(plan.variant, plan.width or 1),
    )
    if queries is None or keys is None or queries.ndim != 3:
        return None
    largest = queries.double().norm(dim=-1).max() * keys.double().norm(dim=-1).max()
    fits = largest * max(scale, 1) < torch.finfo(queries.dtype).max
    if not fits or not plan.by_row(len(queries) * queries.shape[1] * keys.shape[1]):
        return None

    # Of trained models, and so not loaded where a text is short.
    from attnviz.traces.trained.listening import Heard
    from attnviz.traces.trained.recomputed_weights import OnDemand, Remade

    heard = Heard(
        which="self" if read is inputs else "cross",
        layer=number,
        inputs=inputs,
        memory=None if read is inputs else read,
        queries=queries,
        keys=keys,
        values=values,
        visible=scored.visible,
        added=None,
        bias=None,
        scale=scale,
        soft_cap=plan.variant.soft_cap,
        off=off,
    )
    return OnDemand(heard, Remade(heard, "give a shorter text"))


def _attended(
    plan: Plan,
    stream: str,
    inputs: Vectors,
    scored: Scored,
    values: Values,
    off: Mapping[int, Instead],
) -> Attended:
    """From scores to context vectors."""
    attended = arithmetic.attend(
        scored.scores,
        values,
        scored.visible,
        scale=arithmetic.scale_of(plan.variant, plan.width or 1),
        soft_cap=plan.variant.soft_cap,
        bias=scored.bias,
        mask=scored.mask,
        kept=_kept(plan, scored.scores, stream),
        by_hand=plan.matrices.weights,
        mistaken=_mistaken(plan, inputs),
        off=off,
    )
    refuse_overflow(plan, attended.scaled_scores, "scores")
    return attended


def score(plan: Plan, stream: str, inputs: Vectors, read: Read, *, own: bool) -> Scored:
    """Queries of the inputs, keys of what is read, their scores, and what is visible of them."""
    queries, of_queries = _made(plan, "query", stream, inputs)
    keys, of_keys = _made(plan, "key", stream, read)
    before = None
    if own and plan.settings.positions in TURNED and queries is not None and keys is not None:
        before = BeforeRotary(queries, keys)
        queries, keys = _turned(plan, queries), _turned(plan, keys)
    of_scores = _weighed_by(plan, stream, queries)
    size = _size(plan.matrices, queries, keys)
    return Scored(
        made_by=of_queries | of_keys | of_scores,
        before_rotary=before,
        queries=queries,
        keys=keys,
        given=plan.matrices,
        visible=_visible(plan, size, inputs.device, own),
        bias=_bias(plan, size, inputs, own),
        mask=plan.matrices.mask if own else None,
    )


def _size(given: Matrices, queries: Queries | None, keys: Keys | None) -> Size:
    """How many heads, queries and keys there are."""
    if given.scores is not None:
        heads, high, wide = given.scores.shape[-3:]
        return heads, high, wide
    assert queries is not None
    assert keys is not None
    return *queries.shape[-3:-1], keys.shape[-2]


def _turned(
    plan: Plan, vectors: Float[Tensor, "*batch head token width"]
) -> Float[Tensor, "*batch head token width"]:
    settings = plan.settings
    halves = settings.positions == "rotary-halves"
    return positions.turned(vectors, settings.position_base, halves=halves)


def _made(
    plan: Plan, name: str, stream: str, inputs: Vectors
) -> tuple[Float[Tensor, "*batch head token width"] | None, Named]:
    """Vectors of each head, and the matrices that make them; what is given stays as it is.

    Without a comparison queries and keys are 0, so every score is. None is what the scores,
    being given, need not be made of.
    """
    given, heads = plan.matrices, plan.heads_of(name)
    found: Tensor | None = getattr(given, _PLURALS[name])
    if found is not None or (name != "value" and given.scores is not None):
        return found, {}
    if not plan.variant.projected:
        compared = plan.variant.compared or name == "value"
        vectors = inputs if compared else torch.zeros_like(inputs)
        return arithmetic.split_heads(vectors, heads), {}
    bias: Tensor | None = getattr(given, f"b_{name}")
    matrix: Tensor | None = getattr(given, f"w_{name}")
    if matrix is None:
        width = plan.value_width if name == "value" else plan.width or 1
        matrix = plan.drawn(f"{stream}w_{name}", inputs.shape[-1], heads * width, inputs)
    vectors = arithmetic.project(inputs, matrix, bias)
    return arithmetic.split_heads(vectors, heads), {f"w_{name}": matrix, f"b_{name}": bias}


_PLURALS = {"query": "queries", "key": "keys", "value": "values"}


def _out(plan: Plan, stream: str, inputs: Vectors) -> Named:
    """The matrix that joins the heads, given or drawn, where there is one."""
    if not plan.variant.joined:
        return {}
    given, rows = plan.matrices, plan.variant.heads * plan.value_width
    w_out = given.w_out
    if w_out is None:
        w_out = plan.drawn(f"{stream}w_out", rows, inputs.shape[-1], inputs)
    return {"w_out": w_out, "b_out": given.b_out}


def _projections(weights: Named) -> Projections | None:
    return Projections(**weights) if any(each is not None for each in weights.values()) else None


def _head_dim(plan: Plan) -> int:
    return plan.width or plan.value_width


def _mistaken(plan: Plan, inputs: Vectors) -> arithmetic.Weigh | None:
    if plan.blunder is None:
        return None
    return partial(plan.blunder.weigh, ratio=sqrt(inputs.shape[-1] / _head_dim(plan)))


def _block(plan: Plan, number: int, inputs: Vectors, memory: Read | None = None) -> Layer:
    """Attention, attention to memory if there is one, and feed-forward, each in its residual."""
    place, given = plan.settings.norm, plan.matrices
    norm = _norm(plan, inputs, given.attention_gain, given.attention_shift)
    normed = block.normed_before(inputs, norm, place)
    own = attend(plan, number, normed)
    _refuse_other_width(own.context, inputs)
    first = block.residual(inputs, normed, own.context, norm, place)
    cross, crossed = _crossed(plan, number, first.outputs, memory)
    outputs = first.outputs if crossed is None else crossed.outputs
    fed = None if plan.settings.attention_only else _fed(plan, number, outputs)
    made = Block(place, first, crossed, fed)
    if plan.blunder is None:
        refuse_overflow(plan, made.outputs, "outputs of a block")
    return replace(own, cross=cross, block=made)


def _fed(plan: Plan, number: int, inputs: Vectors) -> Fed:
    """Feed-forward in its residual."""
    place, given = plan.settings.norm, plan.matrices
    parameters = _feed_forward(plan, _stream(number, True), inputs)
    norm = _norm(plan, inputs, given.feed_forward_gain, given.feed_forward_shift)
    normed = block.normed_before(inputs, norm, place)
    hidden = block.hidden(normed, parameters)
    fed = block.feed_forward(hidden, parameters)
    return Fed(block.residual(inputs, normed, fed, norm, place), hidden, parameters)


def _crossed(
    plan: Plan, number: int, inputs: Vectors, memory: Read | None
) -> tuple[Layer | None, Residual | None]:
    """Attention to a second sentence, and its residual, if there is one."""
    if memory is None:
        return None, None
    place, given = plan.settings.norm, plan.matrices
    norm = _norm(plan, inputs, given.cross_gain, given.cross_shift)
    normed = block.normed_before(inputs, norm, place)
    cross = attend(replace(plan, matrices=given.of_cross), number, normed, memory)
    return cross, block.residual(inputs, normed, cross.context, norm, place)


def _norm(plan: Plan, like: Vectors, gain: Tensor | None, shift: Tensor | None) -> Norm | None:
    """What is given; else as LayerNorm is before it learns: it stretches and shifts nothing."""
    if plan.settings.norm == "none":
        return None
    dim = like.shape[-1]
    return Norm(
        gain=torch.ones(dim).to(like) if gain is None else gain,
        shift=torch.zeros(dim).to(like) if shift is None else shift,
    )


def _feed_forward(plan: Plan, stream: str, like: Vectors) -> FeedForward:
    """Matrices that are given, or drawn; biases that are given, or 0."""
    given, dim = plan.matrices, like.shape[-1]
    wide = plan.hidden_width(dim)
    w_1, w_2, b_1, b_2 = given.w_1, given.w_2, given.b_1, given.b_2
    return FeedForward(
        w_1=plan.drawn(f"{stream}w_1", dim, wide, like) if w_1 is None else w_1,
        b_1=torch.zeros(wide).to(like) if b_1 is None else b_1,
        w_2=plan.drawn(f"{stream}w_2", wide, dim, like) if w_2 is None else w_2,
        b_2=torch.zeros(dim).to(like) if b_2 is None else b_2,
        activation=plan.settings.activation,
    )


def _refuse_other_width(context: Tensor, inputs: Tensor) -> None:
    if context.shape[-1] != inputs.shape[-1]:
        raise AttnvizError(
            f"a block adds context vectors to embeddings, but the first are {context.shape[-1]} "
            f"wide, the others {inputs.shape[-1]}",
            "give a w_out that makes them equally wide, or leave --layers out",
        )


def _stream(number: int, own: bool) -> str:
    """Every layer draws its own numbers; the first keeps its own when others are added."""
    layer = f"L{number} " if number else ""
    return layer if own else f"{layer}cross "


def _weighed_by(plan: Plan, stream: str, queries: Queries | None) -> Named:
    """What additive scores are weighed by, given or drawn, for all heads side by side."""
    if not plan.variant.additive or queries is None:
        return {}
    given = plan.matrices.w_score
    if given is None:
        heads, _, width = queries.shape[-3:]
        drawn = plan.drawn(f"{stream}w_score", width, heads, queries)
        given = drawn.transpose(-2, -1).flatten(-2)
    return {"w_score": given}


def _scores(
    given: Matrices, queries: Queries | None, keys: Keys | None, w_score: Tensor | None
) -> Scores:
    if given.scores is not None:
        return given.scores
    assert queries is not None
    assert keys is not None
    if queries.shape[-1] != keys.shape[-1]:
        raise AttnvizError(
            f"queries are {queries.shape[-1]} wide and keys {keys.shape[-1]}: they cannot be "
            "multiplied",
            "give both, or matrices that make them equally wide",
        )
    of_heads = arithmetic.of_heads(keys, queries.shape[-3])
    if w_score is not None:
        return arithmetic.additive_similarity(queries, of_heads, w_score)
    return arithmetic.similarity(queries, of_heads)


def _visible(plan: Plan, size: Size, device: torch.device, own: bool) -> Visible:
    """What each token may read: of a second sentence everything."""
    _, queries, keys = size
    if not own:
        return torch.ones(queries, keys, dtype=torch.bool, device=device)
    given, hidden = plan.matrices.visible, plan.matrices.hidden
    if given is None:
        given = arithmetic.visible_cells(plan.variant, queries, device, keys)
    return given if hidden is None else given & ~hidden


def _bias(plan: Plan, size: Size, like: Tensor, own: bool) -> ForScores | None:
    """What ALiBi adds to the scores, the same for every seed."""
    if plan.settings.positions != "alibi" or not own:
        return None
    return positions.distance_bias(*size).to(like)


def _kept(plan: Plan, scores: Scores, stream: str) -> ForScores | None:
    """What the weights are multiplied with: 0, or what makes up for those that are dropped."""
    dropout = plan.variant.dropout
    if plan.matrices.kept is not None:
        return plan.matrices.kept / (1 - dropout)
    if not dropout:
        return None
    heads, queries, keys = scores.shape[-3:]
    return plan.seeds.kept((heads, queries, keys), dropout, f"{stream}dropout").to(scores)


def _joined(
    contexts: Float[Tensor, "*batch head query value_width"], projections: Projections | None
) -> Float[Tensor, "*batch query context"]:
    joined = arithmetic.join_heads(contexts)
    if projections is None or projections.w_out is None:
        return joined
    return arithmetic.project(joined, projections.w_out, projections.b_out)


def refuse_overflow(plan: Plan, numbers: Tensor, name: str) -> None:
    """A number too large for its dtype becomes infinite, and everything after it NaN."""
    if plan.training:
        return
    if not torch.stack(numbers.aminmax()).isfinite().all():  # NaN is both the least and the most
        dtype = str(numbers.dtype).removeprefix("torch.")
        raise AttnvizError(
            f"the {name} are too large for {dtype}, whose largest number is "
            f"{torch.finfo(numbers.dtype).max:.2g}",
            "try a higher --temperature, a smaller --dim, --scale, or --dtype float64"
            if name == "scores"
            else "try smaller numbers, or --dtype float64",
        )
