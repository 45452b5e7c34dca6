"""From text to Trace: variants and what overrides them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz import trace
from attnviz.analysis.checks import verify_trace
from attnviz.attention.variants import VARIANTS
from tests.tiers import examples


def test_plain_attends_with_the_embeddings_themselves() -> None:
    result = trace("I am learning this", variant="plain")
    (layer,) = result.layers

    x = result.embeddings
    assert layer.projections is None
    assert_close(layer.attended.scores[0], x @ x.T)
    assert_close(layer.attended.weights[0], (x @ x.T).softmax(-1))
    assert_close(layer.context, (x @ x.T).softmax(-1) @ x)


def test_average_is_the_mean_of_a_token_and_those_before_it() -> None:
    result = trace("I am learning this", variant="average")
    (layer,) = result.layers

    assert (layer.attended.scores == 0).all()
    assert_close(layer.attended.weights[0, 2].tolist(), [1 / 3, 1 / 3, 1 / 3, 0.0])
    assert_close(layer.context[2], result.embeddings[:3].mean(0))


def test_multi_head_joins_two_heads_and_projects_them() -> None:
    result = trace("I am learning this", variant="multi-head")
    (layer,) = result.layers

    assert (layer.heads, layer.head_dim, layer.scale) == (2, 4, 0.5)
    assert layer.projections is not None
    assert layer.projections.w_out is not None
    joined_contexts = torch.cat([*layer.attended.contexts], dim=-1)
    assert_close(layer.context, joined_contexts @ layer.projections.w_out)


@pytest.mark.slow_table("models", keep=2)
@pytest.mark.parametrize("name", VARIANTS)
@settings(max_examples=examples(20))
@given(
    text=st.text(min_size=1, max_size=30).filter(str.strip), window=st.integers(1, 9) | st.none()
)
def test_every_variant_passes_its_own_checks(name: str, text: str, window: int | None) -> None:
    result = trace(text, variant=name, tokenizer="chars", window=window)

    assert [check for check in verify_trace(result) if not check.passed] == []


def test_a_head_may_be_wider_than_its_share() -> None:
    layer = trace("I am", heads=3, head_dim=5, dim=4).layers[0]

    assert layer.queries is not None
    assert layer.queries.shape == (3, 2, 5)
    assert layer.context.shape == (2, 4)


def test_plain_heads_share_out_the_embedding_without_a_projection() -> None:
    result = trace("I am", variant="plain", heads=2)

    assert result.layers[0].queries is not None
    assert torch.equal(result.layers[0].queries[1], result.embeddings[:, 4:])
    assert result.layers[0].context.shape == (2, 8)


def test_provenance_tells_what_was_decided_and_no_path() -> None:
    provenance = trace("I am", variant="multi-head").provenance

    assert provenance.settings["heads"] == 2
    assert provenance.settings["head_dim"] == 4
    assert provenance.settings["causal"] is True
    assert provenance.seed == 42
    assert set(provenance.versions) == {"python", "torch", "numpy", "instructions"}


def test_the_door_opens_to_a_function_whatever_was_imported_before() -> None:
    import attnviz
    import attnviz.traces.from_text

    assert attnviz.trace is attnviz.traces.from_text.trace
    assert "trace" in dir(attnviz)
    with pytest.raises(AttributeError, match="no attribute 'traec'"):
        attnviz.traec  # noqa: B018
