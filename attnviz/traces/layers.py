"""Computes the layers of a Trace: attention, and the block around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention import arithmetic, block
from attnviz.attention.arithmetic import AttentionStages, Visible
from attnviz.attention.block import Block, FeedForward, FeedForwardStages, Norm, Residual
from attnviz.attention.long_attention import LongAttention
from attnviz.attention.mask_rule import MaskRule
from attnviz.errors import AttnvizError, opt
from attnviz.options.values import AblationValue
from attnviz.traces.long_weights import LongWeights
from attnviz.traces.matrices import Matrices
from attnviz.traces.plan import Plan
from attnviz.traces.settings import ROTARY_POSITIONS, layer_heads_off
from attnviz.traces.trace import BeforeRotary, Layer, Projections
from attnviz.vectors import positions

Vectors = Float[Tensor, "*batch token dim"]
KeyInputs = Float[Tensor, "*batch key dim"]
Queries = Float[Tensor, "*batch head query width"]
Keys = Float[Tensor, "*batch group key key_width"]
Values = Float[Tensor, "*batch group key value_width"]
Scores = Float[Tensor, "*batch head query key"]
ScoreTerms = Float[Tensor, "*#batch #head query key"]  # added to the scores

ScoreShape = tuple[int, int, int]  # heads, queries, keys
NamedTensors = dict[str, Tensor | None]  # matrices and biases, by the names of Projections
PLURAL_BY_VECTOR = {"query": "queries", "key": "keys", "value": "values"}


@dataclass(frozen=True, eq=False, kw_only=True)
class UnscaledScores:
    """Queries, keys, masks and everything else that is known before the scores are scaled."""

    projection_tensors: NamedTensors
    before_rotary: BeforeRotary | None
    queries: Queries | None
    keys: Keys | None
    matrices: Matrices
    shape: ScoreShape
    device: torch.device
    mask_rule: MaskRule
    has_alibi: bool
    mask: Float[Tensor, "*#head query key"] | None

    @cached_property
    def visible(self) -> Visible:
        matrix = self.mask_rule.matrix
        return self.mask_rule.visible(*self.shape[1:], self.device) if matrix is None else matrix

    @cached_property
    def bias(self) -> ScoreTerms | None:
        """What ALiBi adds to the scores, as a matrix for each head; None without ALiBi."""
        return positions.distance_bias(*self.shape).to(self.scores) if self.has_alibi else None

    @cached_property
    def scores(self) -> Scores:
        """The given scores, or the dot products (or additive scores) of queries and keys; refuses
        queries and keys of different widths.
        """
        w_score = self.projection_tensors.get("w_score")
        return _unscaled_scores(self.matrices, self.queries, self.keys, w_score)


def compute_layers(plan: Plan, inputs: Vectors, memory: KeyInputs | None = None) -> Iterator[Layer]:
    """Yield the layers of a plan, each computed from the outputs of the one before it.

    Layers are blocks (with residual connections) if the settings ask for them, else attention
    alone; `memory` holds the vectors of a second sentence, for cross-attention in blocks.
    """
    compute_layer = _compute_block if plan.settings.has_blocks else compute_layer_attention
    for number in range(plan.settings.layers or 1):
        if number:  # upper layers compute queries and keys even if the first is given its scores
            matrices, width = plan.matrices.for_layer(number), plan.width or plan.value_width
            layer_plan = replace(plan, matrices=matrices, width=width)
        else:
            layer_plan = plan
        layer = compute_layer(layer_plan, number, inputs, memory)
        yield layer
        inputs = layer.outputs


def compute_layer_attention(
    plan: Plan, number: int, inputs: Vectors, memory: KeyInputs | None = None
) -> Layer:
    """Return layer `number` with self-attention of the inputs, or cross-attention to a `memory`; no
    residual connection, LayerNorm or feed-forward. Refuses numbers that overflow.
    """
    is_self_attention = memory is None
    seed_prefix = _seed_prefix(number, is_self_attention)
    key_inputs = plan.key_inputs if memory is None else memory
    if key_inputs is None:
        key_inputs = inputs
    scored = score_keys(plan, seed_prefix, inputs, key_inputs, is_self_attention=is_self_attention)
    values, value_matrices = _project_to_heads(plan, "value", seed_prefix, key_inputs)
    assert values is not None
    tensors = scored.projection_tensors | value_matrices
    tensors |= _output_projection(plan, seed_prefix, inputs)
    has_projections = any(tensor is not None for tensor in tensors.values())
    heads_off = layer_heads_off(plan.settings.without, number) if is_self_attention else {}
    if plan.streams:
        long_weights = _long_weights(plan, scored, values, tensors.get("w_score"))
        attended: AttentionStages = long_weights.stages(heads_off)
    else:
        long_weights = None
        attended = _attend_with_scores(plan, seed_prefix, inputs, scored, values, heads_off)
    context = arithmetic.join_heads(attended.contexts)
    if (w_out := tensors.get("w_out")) is not None:
        # Contexts of a long text have 32 bits even where its matrices have 16.
        context = arithmetic.project(context.to(w_out.dtype), w_out, tensors["b_out"])
    if plan.deliberate_mistake is None:  # a mistake may divide by 0, and the Trace shows that
        refuse_overflow(plan, context, "context vectors")
    return Layer(
        layer=number,
        scale=arithmetic.score_scale(plan.variant, plan.width or 1),
        head_dim=plan.width or plan.value_width,
        inputs=inputs,
        key_inputs=None if key_inputs is inputs else key_inputs,
        projections=Projections(**tensors) if has_projections else None,
        before_rotary=scored.before_rotary,
        queries=scored.queries,
        keys=scored.keys,
        values=values,
        mask_rule=scored.mask_rule,
        attended=attended,
        context=context,
        memory=memory,
        given=frozenset(plan.matrices.tensors),
        mistake=plan.mistake,
        off=heads_off,
        weights_on_demand=long_weights,
    )


def _long_weights(
    plan: Plan, scored: UnscaledScores, values: Values, w_score: Tensor | None
) -> LongWeights:
    """Return weights that are computed when they are shown, with what is measured of all of them.

    Refuses queries and keys whose scores could overflow.
    """
    queries, keys = scored.queries, scored.keys
    assert queries is not None
    assert keys is not None
    scale = arithmetic.score_scale(plan.variant, plan.width or 1)
    largest = queries.double().norm(dim=-1).max() * keys.double().norm(dim=-1).max() * scale
    refuse_overflow(plan, largest.to(queries.dtype)[None], "scores")
    slopes = positions.alibi_slopes(len(queries)) if scored.has_alibi else None
    attention = LongAttention(
        queries=queries,
        keys=keys,
        values=values,
        scale=scale,
        mask=scored.mask_rule,
        soft_cap=plan.variant.soft_cap,
        slopes=None if slopes is None else torch.tensor(slopes).to(queries),
        w_score=w_score,
    )
    return LongWeights(attention, plan.settings.resolution, plan.settings.pool)


def _attend_with_scores(
    plan: Plan,
    seed_prefix: str,
    inputs: Vectors,
    scored: UnscaledScores,
    values: Values,
    heads_off: Mapping[int, AblationValue],
) -> AttentionStages:
    """Return every stage from the scores to the context vectors of each head, with the plan's mask,
    dropout, given weights, mistake and switched-off heads; refuses scores that overflow.
    """
    mistake, mistaken_weights = plan.deliberate_mistake, None
    if mistake is not None:
        ratio = sqrt(inputs.shape[-1] / (plan.width or plan.value_width))
        mistaken_weights = partial(mistake.weigh, ratio=ratio)
    attended = arithmetic.compute_attention(
        scored.scores,
        values,
        scored.visible,
        scale=arithmetic.score_scale(plan.variant, plan.width or 1),
        soft_cap=plan.variant.soft_cap,
        bias=scored.bias,
        mask=scored.mask,
        dropout_factors=_dropout_factors(plan, scored.scores, seed_prefix),
        by_hand=plan.matrices.weights,
        mistaken_weights=mistaken_weights,
        off=heads_off,
    )
    refuse_overflow(plan, attended.scaled_scores, "scores")
    return attended


def score_keys(
    plan: Plan, seed_prefix: str, inputs: Vectors, key_inputs: KeyInputs, *, is_self_attention: bool
) -> UnscaledScores:
    """Return queries and keys (rotated if so planned), the mask, and what is added to their scores.

    `seed_prefix` names drawn matrices. Rotary positions, ALiBi and masks are for self-attention
    only.
    """
    queries, query_matrices = _project_to_heads(plan, "query", seed_prefix, inputs)
    keys, key_matrices = _project_to_heads(plan, "key", seed_prefix, key_inputs)
    before_rotary = None
    is_rotary = is_self_attention and plan.settings.positions in ROTARY_POSITIONS
    if is_rotary and queries is not None and keys is not None:
        before_rotary = BeforeRotary(queries, keys)
        queries, keys = _rotate_by_position(plan, queries), _rotate_by_position(plan, keys)
    score_matrices = _additive_score_weights(plan, seed_prefix, queries)
    size = _score_shape(plan.matrices, queries, keys)
    has_alibi = is_self_attention and plan.settings.positions == "alibi"
    return UnscaledScores(
        projection_tensors=query_matrices | key_matrices | score_matrices,
        before_rotary=before_rotary,
        queries=queries,
        keys=keys,
        matrices=plan.matrices,
        shape=size,
        device=inputs.device,
        mask_rule=_mask_rule(plan, size, inputs.device, is_self_attention),
        has_alibi=has_alibi,
        mask=plan.matrices.mask if is_self_attention else None,
    )


def _score_shape(matrices: Matrices, queries: Queries | None, keys: Keys | None) -> ScoreShape:
    """Return the numbers of heads, queries and keys, of given scores or of queries and keys."""
    if matrices.scores is not None:
        heads, query_count, key_count = matrices.scores.shape[-3:]
        return heads, query_count, key_count
    assert queries is not None
    assert keys is not None
    return *queries.shape[-3:-1], keys.shape[-2]


def _rotate_by_position(
    plan: Plan, vectors: Float[Tensor, "*batch head token width"]
) -> Float[Tensor, "*batch head token width"]:
    """Return queries or keys rotated by their positions: neighbouring pairs of numbers, or with
    "rotary-halves" pairs from both halves.
    """
    settings = plan.settings
    halves = settings.positions == "rotary-halves"
    return positions.rotate_by_position(vectors, settings.position_base, halves=halves)


def _project_to_heads(
    plan: Plan, name: str, seed_prefix: str, inputs: Vectors
) -> tuple[Float[Tensor, "*batch head token width"] | None, NamedTensors]:
    """Return the queries, keys or values (`name`: "query", "key", "value") and the matrices used.

    Given vectors are returned as they are, without matrices. Without projections the inputs are
    split into heads, or zeros for queries and keys of a variant that does not compare them. Queries
    and keys are None where the scores are given.
    """
    matrices, variant = plan.matrices, plan.variant
    heads = variant.heads if name == "query" else variant.kv_heads or variant.heads
    given_vectors: Tensor | None = getattr(matrices, PLURAL_BY_VECTOR[name])
    if given_vectors is not None or (name != "value" and matrices.scores is not None):
        return given_vectors, {}
    if not plan.variant.projected:
        uses_inputs = plan.variant.compared or name == "value"
        vectors = inputs if uses_inputs else torch.zeros_like(inputs)
        return arithmetic.split_heads(vectors, heads), {}
    bias: Tensor | None = getattr(matrices, f"b_{name}")
    matrix: Tensor | None = getattr(matrices, f"w_{name}")
    if matrix is None:
        width = plan.value_width if name == "value" else plan.width or 1
        matrix = plan.draw_matrix(f"{seed_prefix}w_{name}", inputs.shape[-1], heads * width, inputs)
    vectors = arithmetic.project(inputs, matrix, bias)
    return arithmetic.split_heads(vectors, heads), {f"w_{name}": matrix, f"b_{name}": bias}


def _output_projection(plan: Plan, seed_prefix: str, inputs: Vectors) -> NamedTensors:
    """Return w_out (given or drawn) and b_out (given or None); empty if the variant has none."""
    if not plan.variant.joined:
        return {}
    w_out, rows = plan.matrices.w_out, plan.variant.heads * plan.value_width
    if w_out is None:
        w_out = plan.draw_matrix(f"{seed_prefix}w_out", rows, inputs.shape[-1], inputs)
    return {"w_out": w_out, "b_out": plan.matrices.b_out}


def _compute_block(
    plan: Plan, number: int, inputs: Vectors, memory: KeyInputs | None = None
) -> Layer:
    """Return a layer with self-attention, cross-attention if there is a memory, and feed-forward
    unless it is left out, each with its residual connection.

    Refuses context vectors that cannot be added to the inputs, and outputs that overflow.
    """
    norm_place, matrices = plan.settings.norm, plan.matrices
    norm = _layer_norm(plan, inputs, matrices.attention_gain, matrices.attention_shift)
    norm_outputs = block.norm_before_sublayer(inputs, norm, norm_place)
    self_attention = compute_layer_attention(plan, number, norm_outputs)
    _refuse_unaddable_context(self_attention.context, inputs)
    attention_residual = block.build_residual(
        inputs, norm_outputs, self_attention.context, norm, norm_place
    )
    cross, cross_residual = _attend_to_memory(plan, number, attention_residual.outputs, memory)
    outputs = attention_residual.outputs if cross_residual is None else cross_residual.outputs
    feed_forward = None
    if not plan.settings.attention_only:
        feed_forward = _add_feed_forward(plan, number, outputs)
    computed_block = Block(norm_place, attention_residual, cross_residual, feed_forward)
    if plan.deliberate_mistake is None:
        refuse_overflow(plan, computed_block.outputs, "outputs of a block")
    return replace(self_attention, cross=cross, block=computed_block)


def _add_feed_forward(plan: Plan, number: int, inputs: Vectors) -> FeedForwardStages:
    """Return the stages of feed-forward on the inputs, with its residual connection."""
    norm_place, matrices = plan.settings.norm, plan.matrices
    parameters = _feed_forward_matrices(plan, _seed_prefix(number, True), inputs)
    norm = _layer_norm(plan, inputs, matrices.feed_forward_gain, matrices.feed_forward_shift)
    norm_outputs = block.norm_before_sublayer(inputs, norm, norm_place)
    hidden = block.hidden_activations(norm_outputs, parameters)
    feed_forward_outputs = block.feed_forward(hidden, parameters)
    return FeedForwardStages(
        block.build_residual(inputs, norm_outputs, feed_forward_outputs, norm, norm_place),
        hidden,
        parameters,
    )


def _attend_to_memory(
    plan: Plan, number: int, inputs: Vectors, memory: KeyInputs | None
) -> tuple[Layer | None, Residual | None]:
    """Return cross-attention to the memory and its residual connection; both None without any."""
    if memory is None:
        return None, None
    norm_place, matrices = plan.settings.norm, plan.matrices
    norm = _layer_norm(plan, inputs, matrices.cross_gain, matrices.cross_shift)
    norm_outputs = block.norm_before_sublayer(inputs, norm, norm_place)
    cross_plan = replace(plan, matrices=matrices.cross_attention)
    cross = compute_layer_attention(cross_plan, number, norm_outputs, memory)
    return cross, block.build_residual(inputs, norm_outputs, cross.context, norm, norm_place)


def _layer_norm(
    plan: Plan, like: Vectors, gain: Tensor | None, shift: Tensor | None
) -> Norm | None:
    """Return the gain and shift of a LayerNorm, 1 and 0 where they are not given; None if the
    settings have no LayerNorm.
    """
    if plan.settings.norm == "none":
        return None
    dim = like.shape[-1]
    return Norm(
        gain=torch.ones(dim).to(like) if gain is None else gain,
        shift=torch.zeros(dim).to(like) if shift is None else shift,
    )


def _feed_forward_matrices(plan: Plan, seed_prefix: str, like: Vectors) -> FeedForward:
    """Return the parameters of feed-forward: given ones, or else drawn matrices and biases of 0.

    `like` sets the device, the dtype and the width of an embedding.
    """
    matrices, dim = plan.matrices, like.shape[-1]
    hidden_width = plan.hidden_width(dim)
    w_1, w_2, b_1, b_2 = matrices.w_1, matrices.w_2, matrices.b_1, matrices.b_2
    return FeedForward(
        w_1=plan.draw_matrix(f"{seed_prefix}w_1", dim, hidden_width, like) if w_1 is None else w_1,
        b_1=torch.zeros(hidden_width).to(like) if b_1 is None else b_1,
        w_2=plan.draw_matrix(f"{seed_prefix}w_2", hidden_width, dim, like) if w_2 is None else w_2,
        b_2=torch.zeros(dim).to(like) if b_2 is None else b_2,
        activation=plan.settings.activation,
    )


def _refuse_unaddable_context(context: Tensor, inputs: Tensor) -> None:
    """Refuse context vectors that are not as wide as the inputs, to which a block adds them."""
    if context.shape[-1] != inputs.shape[-1]:
        raise AttnvizError(
            f"a block adds context vectors to embeddings, but the first are {context.shape[-1]} "
            f"wide, the others {inputs.shape[-1]}",
            f"give a w_out that makes them equally wide, or leave {opt.layers} out",
        )


def _seed_prefix(number: int, is_self_attention: bool) -> str:
    """Return the prefix of names under which a layer draws matrices: "", "L1 ", "L1 cross "."""
    layer_prefix = f"L{number} " if number else ""
    return layer_prefix if is_self_attention else f"{layer_prefix}cross "


def _additive_score_weights(plan: Plan, seed_prefix: str, queries: Queries | None) -> NamedTensors:
    """Return w_score of additive scoring, given or drawn; empty for dot products, given scores."""
    if not plan.variant.additive or queries is None:
        return {}
    w_score = plan.matrices.w_score
    if w_score is None:
        heads, _, width = queries.shape[-3:]
        drawn_matrix = plan.draw_matrix(f"{seed_prefix}w_score", width, heads, queries)
        w_score = drawn_matrix.transpose(-2, -1).flatten(-2)
    return {"w_score": w_score}


def _unscaled_scores(
    matrices: Matrices, queries: Queries | None, keys: Keys | None, w_score: Tensor | None
) -> Scores:
    """Return the given scores, or compute them from queries and keys: additively with `w_score`,
    else as dot products. Refuses queries and keys of different widths.
    """
    if matrices.scores is not None:
        return matrices.scores
    assert queries is not None
    assert keys is not None
    if queries.shape[-1] != keys.shape[-1]:
        raise AttnvizError(
            f"queries are {queries.shape[-1]} wide and keys {keys.shape[-1]}: they cannot be "
            "multiplied",
            "give both, or matrices that make them equally wide",
        )
    keys_of_heads = arithmetic.repeat_groups(keys, queries.shape[-3])
    if w_score is not None:
        return arithmetic.additive_similarity(queries, keys_of_heads, w_score)
    return arithmetic.similarity(queries, keys_of_heads)


def _mask_rule(
    plan: Plan, score_shape: ScoreShape, device: torch.device, is_self_attention: bool
) -> MaskRule:
    """Return which keys each query may attend to: given, or by the variant, less the hidden ones.

    In cross-attention every key is visible.
    """
    if not is_self_attention:
        return MaskRule()
    rule = MaskRule.of_variant(plan.variant)
    visible, hidden = plan.matrices.visible, plan.matrices.hidden
    if visible is None and hidden is not None:
        visible = rule.visible(*score_shape[1:], device)
    if visible is None:
        return rule
    return MaskRule(matrix=visible if hidden is None else visible & ~hidden)


def _dropout_factors(plan: Plan, scores: Scores, seed_prefix: str) -> ScoreTerms | None:
    """Return the factors that dropout multiplies weights by: 0 if dropped, 1 / (1 - dropout) if
    kept; drawn unless given. None without dropout.
    """
    dropout = plan.variant.dropout
    if plan.matrices.kept is not None:
        return plan.matrices.kept / (1 - dropout)
    if not dropout:
        return None
    heads, queries, keys = scores.shape[-3:]
    factors = plan.seeds.dropout_factors((heads, queries, keys), dropout, f"{seed_prefix}dropout")
    return factors.to(scores)


def refuse_overflow(plan: Plan, numbers: Tensor, name: str) -> None:
    """Refuse numbers that are infinite or NaN, as they become when their dtype is too small.

    `name` is what they are, for the message: "scores". Checks nothing during training.
    """
    if plan.training:
        return
    if not torch.stack(numbers.aminmax()).isfinite().all():  # NaN is both the least and the most
        dtype = str(numbers.dtype).removeprefix("torch.")
        raise AttnvizError(
            f"the {name} are too large for {dtype}, whose largest number is "
            f"{torch.finfo(numbers.dtype).max:.2g}",
            f"try a higher {opt.temperature}, a smaller {opt.dim}, {opt.scale}, or "
            f"{opt.dtype:float64}"
            if name == "scores"
            else f"try smaller numbers, or {opt.dtype:float64}",
        )
