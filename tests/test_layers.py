"""Layers: gradients flow through them, batches are their items, and what is wrong stays wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from attnviz import Settings, trace
from attnviz.attention import arithmetic
from attnviz.attention.mask_rule import MaskRule
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import VARIANTS
from attnviz.traces.layers import compute_layers, score_keys
from attnviz.traces.matrices import Matrices
from attnviz.traces.plan import Plan, build_plan
from attnviz.traces.settings import POSITIONS
from tests.tiers import examples

TEXT = "I am learning this"
SETTINGS_BY_KIND: dict[str, dict[str, Any]] = {
    "plain": {"variant": "plain"},
    "causal": {"variant": "causal"},
    "multi-head": {"variant": "multi-head"},
    "rotary": {"variant": "multi-head", "positions": "rotary"},
    "rotary by halves": {"variant": "causal", "positions": "rotary-halves", "position_base": 100.0},
    "alibi": {"variant": "multi-head", "positions": "alibi"},
    "dropout": {"variant": "causal", "dropout": 0.25},
    "blocks": {"variant": "multi-head", "layers": 2, "norm": "pre", "activation": "gelu"},
    "blocks without a norm": {
        "variant": "causal",
        "layers": 2,
        "norm": "none",
        "activation": "gelu-tanh",
    },
    "blocks with memory": {"variant": "multi-head", "layers": 2, "memory": "you"},
}
BATCHES = st.lists(st.integers(1, 3), max_size=2).map(tuple)


def plan_of(dim: int, **changes: Any) -> Plan:
    return build_plan(Settings(dim=dim, **changes), Matrices(), dim)


def random_tensor(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def outputs_of(plan: Plan, inputs: Tensor, memory: Tensor) -> Tensor:
    """The outputs of the last layer; the memory is used only where the settings name one."""
    *_, last = compute_layers(plan, inputs, memory if plan.settings.memory else None)
    return last.outputs


def weighted_sum(outputs: Tensor) -> Tensor:
    """A random weighted sum of all outputs; LayerNorm keeps their plain sum at 0."""
    return (outputs * random_tensor(*outputs.shape, seed=9)).sum()


@pytest.mark.parametrize("name", SETTINGS_BY_KIND)
def test_gradients_flow_through_all_layers(name: str) -> None:
    plan = plan_of(8, **SETTINGS_BY_KIND[name])
    inputs = random_tensor(4, 8).requires_grad_()
    memory = random_tensor(3, 8, seed=1).requires_grad_()

    sources = [inputs, memory] if plan.settings.memory else [inputs]
    for gradient in torch.autograd.grad(weighted_sum(outputs_of(plan, inputs, memory)), sources):
        assert gradient.isfinite().all()
        assert (gradient.abs() > 1e-6).any(-1).all()  # every token has a part in it


@pytest.mark.slow_table("seeds", keep=2)
@pytest.mark.parametrize("name", SETTINGS_BY_KIND)
def test_gradients_are_those_of_small_differences(name: str) -> None:
    plan = plan_of(4, **SETTINGS_BY_KIND[name])
    inputs = random_tensor(3, 4).requires_grad_()
    memory = random_tensor(2, 4, seed=1).requires_grad_()

    assert gradcheck(lambda *vectors: outputs_of(plan, *vectors), (inputs, memory))


@pytest.mark.parametrize("name", SETTINGS_BY_KIND)
def test_no_gradient_reaches_the_future(name: str) -> None:
    plan = plan_of(8, **SETTINGS_BY_KIND[name])
    inputs, memory = random_tensor(4, 8).requires_grad_(), random_tensor(3, 8, seed=1)

    (gradient,) = torch.autograd.grad(weighted_sum(outputs_of(plan, inputs, memory)[1]), inputs)

    has_gradient = (gradient != 0).any(-1).tolist()
    assert has_gradient == ([True] * 4 if name == "plain" else [True, True, False, False])


Sizes = tuple[int, int, int, int]
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))


def assert_as_alone(
    compute: Callable[..., Tensor], batch: tuple[int, ...], *together: Tensor
) -> None:
    """A batch gives for each item what the item gives by itself."""
    of_batch = compute(*together)
    for item in product(*map(range, batch)):
        assert_close(of_batch[item], compute(*(each[item] for each in together)))


@given(batch=BATCHES, sizes=SIZES)
def test_a_batch_is_projected_and_split_as_each_item_alone(
    batch: tuple[int, ...], sizes: Sizes
) -> None:
    heads, tokens, dim, width = sizes
    inputs = random_tensor(*batch, tokens, dim)
    matrix = random_tensor(*batch, dim, heads * width, seed=1)
    shared_matrix, bias = matrix[(0,) * len(batch)], random_tensor(heads * width, seed=2)

    assert_as_alone(arithmetic.project, batch, inputs, matrix)
    assert_as_alone(lambda x: arithmetic.project(x, shared_matrix, bias), batch, inputs)
    joined_heads = random_tensor(*batch, tokens, heads * width)
    split = arithmetic.split_heads(joined_heads, heads)
    assert_as_alone(lambda x: arithmetic.split_heads(x, heads), batch, joined_heads)
    assert_as_alone(arithmetic.join_heads, batch, split)
    assert torch.equal(arithmetic.join_heads(split), joined_heads)


@given(batch=BATCHES, sizes=SIZES, causal=st.booleans())
def test_a_batch_is_weighed_and_mixed_as_each_item_alone(
    batch: tuple[int, ...], sizes: Sizes, causal: bool
) -> None:
    heads, tokens, keys, width = sizes
    variant = replace(VARIANTS["scaled"], causal=causal)
    visible = MaskRule.of_variant(variant).visible(tokens, keys, torch.device("cpu"))
    queries = random_tensor(*batch, heads, tokens, width)
    key_vectors = random_tensor(*batch, heads, keys, width, seed=1)
    scores = arithmetic.similarity(queries, key_vectors)
    values = random_tensor(*batch, heads, keys, 2, seed=2)

    assert_as_alone(arithmetic.similarity, batch, queries, key_vectors)
    assert_as_alone(lambda x: arithmetic.attention_weights(x, visible), batch, scores)
    weights = arithmetic.attention_weights(scores, visible)
    assert_as_alone(arithmetic.mix_values, batch, weights, values)
    assert_as_alone(arithmetic.weigh_values, batch, weights[..., 0, :], values)


@given(batch=BATCHES, sizes=SIZES, is_shared=st.booleans())
def test_a_batch_attends_as_each_item_alone(
    batch: tuple[int, ...], sizes: Sizes, is_shared: bool
) -> None:
    """With a bias, and with what dropout leaves, of each item's own or the same for all."""
    heads, tokens, keys, width = sizes
    shape = (heads, tokens, keys)
    scores = random_tensor(*batch, *shape)
    values = random_tensor(*batch, heads, keys, width, seed=1)
    visible = torch.ones(tokens, keys, dtype=torch.bool)
    bias, factors = (
        random_tensor(*(() if is_shared else batch), *shape, seed=seed) for seed in (2, 3)
    )

    def contexts(scores: Tensor, values: Tensor, *item_terms: Tensor) -> Tensor:
        own_bias, own_factors = item_terms or (bias, factors)
        stages = arithmetic.compute_attention(
            scores, values, visible, scale=0.5, bias=own_bias, dropout_factors=own_factors
        )
        assert_close(stages.logits, stages.scaled_scores + own_bias)
        return stages.contexts

    item_terms = () if is_shared else (bias, factors)
    assert_as_alone(contexts, batch, scores, values, *item_terms)


@pytest.mark.slow_table("seeds", keep=6)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("variant", VARIANTS)
@profile(max_examples=examples(10))
@given(batch=BATCHES, tokens=st.integers(1, 5), pairs=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_batch_is_scored_as_each_item_alone(
    variant: str, positions: str, batch: tuple[int, ...], tokens: int, pairs: int, seed: int
) -> None:
    plan = plan_of(4 * pairs, variant=variant, positions=positions)
    inputs = random_tensor(*batch, tokens, 4 * pairs, seed=seed)

    def logits(inputs: Tensor) -> Tensor:
        scoring = score_keys(plan, "", inputs, inputs, is_self_attention=True)
        return arithmetic.add_to_scores(scoring.scores, scoring.bias)

    def keys(inputs: Tensor) -> Tensor:
        key_vectors = score_keys(plan, "", inputs, inputs, is_self_attention=True).keys
        assert key_vectors is not None
        return key_vectors

    assert_as_alone(logits, batch, inputs)
    assert_as_alone(keys, batch, inputs)


@given(batch=BATCHES, tokens=st.integers(1, 4), others=st.integers(1, 4))
def test_a_batch_is_scored_against_other_tokens_as_each_item_alone(
    batch: tuple[int, ...], tokens: int, others: int
) -> None:
    plan = plan_of(4, variant="multi-head", positions="rotary")
    inputs, memory = random_tensor(*batch, tokens, 4), random_tensor(*batch, others, 4, seed=1)

    def scores(inputs: Tensor, memory: Tensor) -> Tensor:
        scoring = score_keys(plan, "cross ", inputs, memory, is_self_attention=False)
        assert scoring.visible.all()  # of another sentence nothing is hidden,
        assert scoring.before_rotary is None  # and nothing stands at a distance
        return scoring.scores

    assert_as_alone(scores, batch, inputs, memory)


@pytest.mark.slow_table("seeds", keep=3)
@pytest.mark.parametrize("name", SETTINGS_BY_KIND)
def test_a_batch_goes_through_all_layers_as_each_item_alone(name: str) -> None:
    plan = plan_of(8, **SETTINGS_BY_KIND[name])

    def outputs(inputs: Tensor, memory: Tensor) -> Tensor:
        return outputs_of(plan, inputs, memory)

    assert_as_alone(outputs, (2, 3), random_tensor(2, 3, 4, 8), random_tensor(2, 3, 3, 8, seed=1))


@pytest.mark.slow_table("seeds", keep=3)
@pytest.mark.parametrize("memory", [None, "who goes there"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_stack_reaches_the_layers_above_it(name: str, memory: str | None) -> None:
    settings = Settings(variant="multi-head", layers=3, memory=memory)
    right_layers = trace(TEXT, settings).layers
    wrong_layers = trace(TEXT, settings, mistake=name).layers

    assert [layer.mistake for layer in wrong_layers] == [name] * 3
    assert torch.equal(right_layers[0].inputs, wrong_layers[0].inputs)
    assert torch.equal(right_layers[0].attended.logits, wrong_layers[0].attended.logits)
    for layer, next_layer, right_layer in zip(
        wrong_layers, wrong_layers[1:], right_layers[1:], strict=False
    ):
        assert torch.equal(next_layer.inputs, layer.outputs)
        assert not torch.allclose(next_layer.inputs, right_layer.inputs, atol=1e-4)
        assert not torch.allclose(
            next_layer.attended.scores, right_layer.attended.scores, atol=1e-4
        )
    for layer in wrong_layers:
        weights = MISTAKES[name].weigh(layer.attended.logits, layer.visible, layer.width_ratio)
        assert torch.equal(layer.attended.weights, weights)
        assert layer.attended.mixed_by == "mistake"


def test_without_a_mistake_nothing_is_called_one() -> None:
    for layer in trace(TEXT, layers=2).layers:
        assert layer.mistake == ""
        assert layer.attended.mixed_by == "softmax"
