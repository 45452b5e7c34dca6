"""The arithmetic: numbers from paper, agreement with torch, and properties of all inputs."""

from __future__ import annotations

from dataclasses import replace
from math import log

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attnviz import trace
from attnviz.analysis.checks import CHECK_TOLERANCE
from attnviz.attention import arithmetic
from attnviz.attention.mask_rule import MaskRule
from attnviz.attention.variants import VARIANTS, Variant
from attnviz.traces.settings import DTYPES
from tests.tiers import examples

CPU = torch.device("cpu")
SIZES = st.tuples(*(st.integers(1, high) for high in (3, 9, 6, 5)))


def all_visible(tokens: int) -> Tensor:
    return torch.ones(tokens, tokens, dtype=torch.bool)


def test_scores_that_are_logarithms_give_fractions() -> None:
    scores = torch.tensor([[[log(1.0), log(3.0)], [log(2.0), log(2.0)]]])

    weights = arithmetic.attention_weights(scores, all_visible(2))

    assert_close(weights, torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]))


def test_causal_hides_the_future_and_shares_the_rest() -> None:
    scores = torch.tensor([[[log(1.0), log(3.0)], [log(1.0), log(3.0)]]])

    visible = MaskRule.of_variant(VARIANTS["causal"]).visible(2, 2, CPU)

    weights = arithmetic.attention_weights(scores, visible)
    assert_close(weights, torch.tensor([[[1.0, 0.0], [0.25, 0.75]]]))
    assert weights[0, 0, 1].item() == 0  # exactly


def test_a_context_vector_is_the_weighted_mean_of_the_values() -> None:
    weights = torch.tensor([[[0.25, 0.75]]])
    values = torch.tensor([[[4.0, 0.0], [8.0, 4.0]]])

    assert arithmetic.mix_values(weights, values).tolist() == [[[7.0, 3.0]]]


def test_scores_are_dot_products_and_scaling_divides_by_the_root_of_the_width() -> None:
    queries, keys = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), torch.tensor([[[4.0, 3.0, 2.0, 1.0]]])

    assert arithmetic.similarity(queries, keys).item() == 20
    assert arithmetic.score_scale(VARIANTS["scaled"], 4) == 0.5
    assert arithmetic.score_scale(VARIANTS["plain"], 4) == 1
    assert arithmetic.score_scale(Variant("hot", "", temperature=2.0), 4) == 0.25


def test_a_window_shows_the_nearest_keys_on_both_sides_unless_causal() -> None:
    both = MaskRule.of_variant(Variant("window", "", window=2)).visible(4, 4, CPU)
    past = MaskRule.of_variant(Variant("window", "", window=2, causal=True)).visible(4, 4, CPU)

    assert both.int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert past.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


@given(name=st.sampled_from([*VARIANTS]), tokens=st.integers(1, 30), window=st.integers(1, 40))
def test_every_token_sees_itself(name: str, tokens: int, window: int) -> None:
    variant = replace(VARIANTS[name], window=window)

    assert MaskRule.of_variant(variant).visible(tokens, tokens, CPU).diagonal().all()


@given(heads=st.integers(1, 5), tokens=st.integers(1, 5), width=st.integers(1, 5))
def test_joining_heads_undoes_splitting_them(heads: int, tokens: int, width: int) -> None:
    vectors = torch.arange(float(tokens * heads * width)).reshape(tokens, heads * width)

    split = arithmetic.split_heads(vectors, heads)

    assert split.shape == (heads, tokens, width)
    assert torch.equal(arithmetic.join_heads(split), vectors)
    assert torch.equal(split[0], vectors[:, :width])


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=examples(60))
@given(sizes=SIZES, seed=st.integers(0, 10**6), causal=st.booleans(), scale=st.floats(0.1, 2))
def test_attention_agrees_with_torch(
    dtype: str, sizes: tuple[int, int, int, int], seed: int, causal: bool, scale: float
) -> None:
    heads, tokens, width, value_width = sizes
    random = torch.Generator().manual_seed(seed)
    queries, keys, values = (
        torch.randn(heads, tokens, size, generator=random).to(getattr(torch, dtype))
        for size in (width, width, value_width)
    )
    visible = MaskRule(after=0 if causal else None).visible(tokens, tokens, CPU)

    scores = arithmetic.similarity(queries, keys)
    stages = arithmetic.compute_attention(scores, values, visible, scale=scale)
    torch_contexts = scaled_dot_product_attention(
        queries, keys, values, attn_mask=visible, scale=scale
    )

    tolerance = CHECK_TOLERANCE[queries.dtype] * 4
    assert_close(stages.contexts, torch_contexts, rtol=tolerance, atol=tolerance)
    assert_close(
        stages.weights.double().sum(-1),
        torch.ones(heads, tokens).double(),
        atol=tolerance * 4,
        rtol=0,
    )
    assert (stages.weights.masked_select(~visible) == 0).all()


@pytest.mark.parametrize("name", ["scaled", "causal", "multi-head"])
@settings(max_examples=examples(25))
@given(heads=st.sampled_from([1, 2, 4]), width=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_a_whole_run_agrees_with_torchs_multi_head_attention(
    name: str, heads: int, width: int, seed: int
) -> None:
    multi_head_trace = trace(
        "words of a sentence",
        tokenizer="words",
        variant=name,
        heads=heads,
        dim=heads * width,
        seed=seed,
    )
    (layer,) = multi_head_trace.layers
    matrices = layer.projections
    assert matrices is not None
    projections = [matrices.w_query, matrices.w_key, matrices.w_value]
    out = torch.eye(heads * width) if matrices.w_out is None else matrices.w_out
    torch_attention = torch.nn.MultiheadAttention(
        heads * width, heads, bias=False, batch_first=True
    )
    torch_attention.load_state_dict(
        {
            "in_proj_weight": torch.cat([each.T for each in projections if each is not None]),
            "out_proj.weight": out.T,
        }
    )

    x = layer.inputs[None]
    context, weights = torch_attention(
        x, x, x, attn_mask=~layer.visible, average_attn_weights=False
    )

    assert_close(layer.context, context[0], rtol=1e-5, atol=1e-5)
    assert_close(layer.attended.weights, weights[0], rtol=1e-5, atol=1e-5)


def test_dropout_mixes_with_fewer_weights_and_leaves_the_softmax_alone() -> None:
    dropout_factors = torch.tensor([[[2.0, 0.0], [0.0, 2.0]]])
    values = torch.tensor([[[4.0], [8.0]]])

    stages = arithmetic.compute_attention(
        torch.zeros(1, 2, 2), values, all_visible(2), scale=1.0, dropout_factors=dropout_factors
    )

    assert stages.weights.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    assert stages.mixing.tolist() == [[[1.0, 0.0], [0.0, 1.0]]]
    assert stages.contexts.tolist() == [[[4.0], [8.0]]]


def test_weights_by_hand_take_the_place_of_the_softmaxs() -> None:
    values, by_hand = torch.tensor([[[4.0], [8.0]]]), torch.tensor([[[1.0, 1.0], [0.0, 0.5]]])

    stages = arithmetic.compute_attention(
        torch.zeros(1, 2, 2), values, all_visible(2), scale=1.0, by_hand=by_hand
    )

    assert stages.weights.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    assert stages.contexts.tolist() == [[[12.0], [4.0]]]


def test_a_bias_is_added_after_scaling() -> None:
    bias = torch.tensor([[[0.0, log(3.0)]]])

    stages = arithmetic.compute_attention(
        torch.tensor([[[4.0, 4.0]]]),
        torch.ones(1, 2, 1),
        torch.ones(1, 2, dtype=torch.bool),
        scale=0.5,
        bias=bias,
    )

    assert stages.scaled_scores.tolist() == [[[2.0, 2.0]]]
    assert_close(stages.weights, torch.tensor([[[0.25, 0.75]]]))


def test_what_each_key_hands_on_adds_up_to_the_context() -> None:
    weights, values = torch.tensor([[0.25, 0.75]]), torch.tensor([[[4.0, 0.0], [8.0, 4.0]]])

    weighed_values = arithmetic.weigh_values(weights, values)

    assert weighed_values.tolist() == [[[1.0, 0.0], [6.0, 3.0]]]
    assert torch.equal(weighed_values.sum(1), arithmetic.mix_values(weights[:, None], values)[:, 0])


def test_a_shape_that_does_not_fit_is_noticed_during_the_tests() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        arithmetic.similarity(torch.zeros(1, 2, 3), torch.zeros(1, 2, 4))
