"""Some queries of a long text as a layer of their own, with all stages of the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention import arithmetic
from attnviz.attention.long_attention import LongAttention
from attnviz.attention.mask_rule import MaskRule
from attnviz.traces.trace import BeforeRotary, Layer

CELLS_OF_SAMPLE, MOST_QUERIES = 2**22, 64  # cells: weights of all heads


def spread_queries(layer: Layer) -> list[int]:
    """Return evenly spread queries, the first and the last among them, whose rows fit in memory."""
    heads, queries, keys = layer.shape
    count = min(MOST_QUERIES, queries, max(2, CELLS_OF_SAMPLE // (heads * keys)))
    spread = torch.linspace(0, queries - 1, count).round().long().tolist()
    return list(dict.fromkeys(spread))


def layer_of_queries(layer: Layer, queries: Sequence[int]) -> Layer:
    """Return the layer of a long text with these queries alone, computed by the plain arithmetic;
    without the block around it.
    """
    weights, rows = layer.streamed_weights, [*queries]
    assert weights is not None
    attention, (queries_of_heads, keys) = weights.long_attention, layer.queries_with_keys()
    vectors, w_score = queries_of_heads[:, rows], attention.w_score
    visible = _visible_rows(attention, rows)
    stages = arithmetic.compute_attention(
        arithmetic.similarity(vectors, keys)
        if w_score is None
        else arithmetic.additive_similarity(vectors, keys, w_score),
        layer.values,
        visible,
        scale=attention.scale,
        soft_cap=attention.soft_cap,
        bias=_bias_rows(attention, rows),
        mask=None if attention.mask_scores is None else attention.mask_scores[..., rows, :],
        sink=attention.sink,
    )
    if layer.off:  # a mean is that of all rows
        stages = replace(stages, contexts=layer.attended.contexts[:, rows])
    rotary = layer.before_rotary
    return replace(
        layer,
        inputs=layer.inputs[rows],
        key_inputs=layer.inputs if layer.key_inputs is None else layer.key_inputs,
        before_rotary=rotary and BeforeRotary(rotary.queries[:, rows], rotary.keys),
        queries=vectors,
        mask_rule=MaskRule(matrix=visible),
        attended=stages,
        context=layer.context[rows],
        cross=None,
        block=None,
        weights_on_demand=None,
    )


def _visible_rows(
    attention: LongAttention, rows: Sequence[int]
) -> Bool[Tensor, "*#head query key"]:
    rule, every = attention.mask, slice(0, attention.shape[2])
    is_by_head = rule.matrix is not None and rule.matrix.ndim == 3
    masks = [
        torch.cat([~each.hidden(slice(row, row + 1), every, attention.device).T for row in rows])
        for each in map(rule.for_head, range(attention.shape[0] if is_by_head else 1))
    ]
    return torch.stack(masks) if is_by_head else masks[0]


def _bias_rows(
    attention: LongAttention, rows: Sequence[int]
) -> Float[Tensor, "*#head query key"] | None:
    """Return what is added to the scores of these queries by positions."""
    bias = None if attention.bias is None else attention.bias[..., [*rows], :]
    if attention.slopes is None:
        return bias
    keys = torch.arange(attention.shape[2], device=attention.device)
    distances = (torch.tensor([*rows], device=keys.device)[:, None] - keys).abs()
    slopes = attention.slopes[:, None, None]
    return arithmetic.add_to_scores(-slopes * distances.to(slopes), bias)
