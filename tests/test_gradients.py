"""Gradients in training are those of torch's own attention and layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from attnviz.attention import arithmetic
from attnviz.attention.block import Norm, layer_norm
from attnviz.attention.mask_rule import MaskRule
from attnviz.attention.variants import VARIANTS
from attnviz.learning.learner import Learner, new_model
from attnviz.learning.lookup import task_of
from attnviz.learning.task import draw_examples
from benchmarks.learning import Plain, loss_of

CAUSAL = replace(VARIANTS["multi-head"], heads=2)


def random_tensor(*shape: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_of_attention_are_those_of_torch(causal: bool, window: int | None) -> None:
    variant = replace(CAUSAL, causal=causal, window=window)
    queries, keys, values = (random_tensor(2, 3, 2, 5, 4, seed=seed) for seed in range(3))
    visible = MaskRule.of_variant(variant).visible(5, 5, queries.device)
    upstream = random_tensor(2, 3, 2, 5, 4, seed=3)

    scores = arithmetic.similarity(queries, keys)
    attention = arithmetic.compute_attention(
        scores, values, visible, scale=arithmetic.score_scale(variant, 4)
    )
    contexts_of_torch = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=visible
    )

    assert_close(attention.contexts, contexts_of_torch)
    inputs = (queries, keys, values)
    assert_close(
        torch.autograd.grad(attention.contexts, inputs, upstream),
        torch.autograd.grad(contexts_of_torch, inputs, upstream),
    )


@pytest.mark.parametrize("name", ["reverse", "sort", "induction", "brackets"])
def test_the_gradient_of_every_parameter_is_that_of_the_same_model_in_torch(name: str) -> None:
    task = task_of(name)
    learner = Learner(new_model(task, task.settings), task.rate)
    torch_model = Plain(learner.model, learner.plan)
    examples = draw_examples(task, 5, 8)

    loss, loss_of_torch = learner.losses(examples), loss_of(torch_model, examples)
    loss.backward()  # type: ignore[no-untyped-call]
    loss_of_torch.backward()  # type: ignore[no-untyped-call]

    assert_close(loss, loss_of_torch)
    assert gradients([*learner.parameters.values()]) == pytest.approx(
        gradients([*torch_model.parameters()]), rel=1e-3, abs=1e-7
    )


def gradients(parameters: list[Tensor]) -> list[float]:
    """The sorted lengths of all gradients, which do not depend on a matrix being transposed."""
    tensors = [each.grad for each in parameters if each.grad is not None]
    assert len(tensors) == len(parameters)
    return sorted(each.norm().item() for each in tensors)


def test_a_row_that_sees_nothing_among_others_has_no_gradient_and_spoils_none() -> None:
    scores, values = random_tensor(1, 3, 3, seed=0), random_tensor(1, 3, 2, seed=1)
    visible = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])

    attention = arithmetic.compute_attention(scores, values, visible, scale=1.0)
    score_gradients, value_gradients = torch.autograd.grad(
        attention.contexts.sum(), (scores, values)
    )

    assert attention.weights[0, 1].tolist() == [0, 0, 0]
    assert value_gradients.isfinite().all()
    assert_close(value_gradients.sum(), torch.tensor(4.0, dtype=torch.float64))
    assert score_gradients.isfinite().all()
    assert score_gradients[0, 1].tolist() == [0, 0, 0]


def test_a_norm_of_several_models_side_by_side_is_that_of_each() -> None:
    vectors = random_tensor(2, 3, 4, 5, seed=0)
    gains, shifts = (random_tensor(2, 1, 1, 5, seed=seed) for seed in (1, 2))
    normalized = layer_norm(vectors, Norm(gains, shifts))

    for number in range(2):
        torch_norm = nn.LayerNorm(5, dtype=torch.float64)
        torch_norm.load_state_dict(
            {"weight": gains[number].flatten(), "bias": shifts[number].flatten()}
        )
        assert_close(normalized[number], torch_norm(vectors[number]))
