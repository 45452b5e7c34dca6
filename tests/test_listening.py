"""Every kind of transformer is heard as it is: held against its own eager attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnviz import AttnvizError, inspect, trace
from attnviz.analysis.checks import verify_trace
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.capture import AttentionCall, Listener, capturing_attention
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from tests import not_none
from tests.conftest import Attnviz
from tests.small_transformers import (
    KINDS,
    KINDS_WITHOUT_CAPTURE,
    KINDS_WITHOUT_WEIGHTS,
    TEXT,
    Saved,
)


@cache
def unchanged_model(folder: Path) -> Any:
    """The model as transformers loads it, with eager attention, and unchanged by attnviz."""
    return load_transformer(Settings(model=str(folder))).model


def unchanged_output(folder: Path, model_trace: Trace, **options: Any) -> Any:
    model, ids = unchanged_model(folder), torch.tensor([model_trace.tokens.ids])
    with quiet_transformers(), torch.no_grad():
        if model.config.is_encoder_decoder:
            return model.get_encoder()(input_ids=ids, **options)
        return model.base_model(input_ids=ids, **options)


def unchanged_weights(folder: Path, model_trace: Trace) -> Sequence[Tensor]:
    attentions = unchanged_output(folder, model_trace, output_attentions=True).attentions
    return [each[0] for each in attentions if each is not None]


@pytest.mark.slow_table("models", keep=8)
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_heard_as_its_own_eager_attention_computes(
    name: str, small_transformer: Saved
) -> None:
    folder = small_transformer(name)
    model_trace = trace(TEXT, model=str(folder))
    outputs = unchanged_output(folder, model_trace, output_attentions=True)
    eager_weights = [each[0] for each in outputs.attentions if each is not None]

    assert not_none(model_trace.trained).fallback is False
    assert len(model_trace.layers) == len(eager_weights)
    for layer, weights in zip(model_trace.layers, eager_weights, strict=True):
        assert (layer.attended.weights - weights).abs().max() <= 1e-5
        assert weights.max() > 3 * weights.mean()  # and they are not all alike
        assert not_none(layer.projections).w_out is not None
        assert layer.inputs.shape == (len(model_trace.tokens), 16)
    assert model_trace.outputs is not None
    assert (model_trace.outputs.vectors - outputs.last_hidden_state[0]).abs().max() <= 1e-5
    checks = verify_trace(model_trace)
    assert [each.text for each in checks if not each.passed] == []
    assert checks[0].text.startswith(
        "✓ the model's own eager attention agrees: largest difference 0.0e+00 (of vectors 0.0e+00)"
    )


def test_grouped_queries_keep_the_heads_of_keys_and_values_apart(small_transformer: Saved) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("llama")))

    assert (model_trace.variant.heads, model_trace.variant.kv_heads) == (4, 2)
    assert model_trace.layers[0].kv_heads == 2
    assert not_none(model_trace.layers[0].keys).shape[0] == 2


def test_a_sliding_window_hides_what_is_far(small_transformer: Saved) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("mistral")))
    visible = model_trace.layers[0].visible

    assert visible.sum(-1).max() == 5
    assert model_trace.variant.causal
    assert (model_trace.layers[0].attended.weights[:, 10, :6] == 0).all()


def test_gemma_bends_scores_and_sees_far_in_every_other_layer(small_transformer: Saved) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("gemma2")))
    near_layer, far_layer = model_trace.layers

    assert model_trace.variant.soft_cap == 1.5
    assert not_none(near_layer.attended.capped_scores).abs().max() <= 1.5
    assert near_layer.visible.sum(-1).max() == 5
    assert far_layer.visible.sum(-1).max() == len(model_trace.tokens)


def test_the_rows_of_a_model_with_sinks_sum_to_what_those_leave(small_transformer: Saved) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("gpt-oss")))
    stages = model_trace.layers[0].attended

    logits = stages.logits.masked_fill(~model_trace.layers[0].visible, -torch.inf).exp().sum(-1)
    left_shares = logits / (logits + not_none(stages.sink).exp()[:, None])
    assert torch.allclose(stages.weights.sum(-1), left_shares, atol=1e-5)
    assert left_shares.min() < 0.9
    assert any(
        "including the share of the sink" in each.claim for each in verify_trace(model_trace)
    )


def test_where_a_sink_takes_a_share_no_row_is_said_to_sum_to_1(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    one_layer = ("--model", str(small_transformer("gpt-oss")), "--layer", "0")

    for choice in (("--head", "1"), ("--merge", "mean")):
        output = attnviz("inspect", "the animal", *one_layer, *choice).out.replace("\n", " ")
        assert "the rest goes to the model's attention sinks" in output
        assert "sums to 1" not in output
    output_without_first = attnviz(
        "inspect", "the animal", *one_layer, "--head", "1", "--hide-first"
    ).out
    assert "missing to 1" not in output_without_first
    output_without_sinks = attnviz(
        "inspect", "the animal", "--model", str(small_transformer("gpt2")), *one_layer[2:]
    )
    assert "sinks" not in output_without_sinks.out
    assert "sums to 1" in output_without_sinks.out


def test_a_position_bias_stands_beside_scores_that_are_not_scaled(small_transformer: Saved) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("t5")))

    assert model_trace.layers[0].scale == 1
    assert not model_trace.variant.scaled
    assert not_none(model_trace.layers[0].attended.bias).abs().max() > 0


def test_shared_layers_are_counted_as_often_as_a_text_passes_them(small_transformer: Saved) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("albert")))

    assert [layer.layer for layer in model_trace.layers] == [0, 1]
    assert model_trace.layers[0].projections is not None
    assert model_trace.layers[1].projections is not None
    first, second = model_trace.layers[0].projections.w_out, model_trace.layers[1].projections.w_out
    assert torch.equal(not_none(first), not_none(second))


def test_layers_keep_the_numbers_of_the_model_where_not_all_of_them_attend(
    small_transformer: Saved,
) -> None:
    folder = str(small_transformer("jamba"))
    model_trace = trace(TEXT, model=folder)

    assert [layer.layer for layer in model_trace.layers] == [1]
    assert trace(TEXT, model=folder, without="L1H0").layers[0].off == {0: "zero"}
    with pytest.raises(AttnvizError, match="'without' names L0H0, but there is no such") as error:
        trace(TEXT, model=folder, without="L0H0")
    assert error.value.hint == "the model attends in 1 layer: 1"
    with pytest.raises(AttnvizError, match="there is no layer 0: the model attends in 1 layer: 1"):
        inspect(TEXT, model=folder, layer=0)


def test_only_layers_that_are_asked_for_are_kept(small_transformer: Saved) -> None:
    model = load_transformer(Settings(model=str(small_transformer("gpt2"))))
    listener = Listener(layers=(1,))
    with torch.no_grad(), capturing_attention(model.model, listener):
        model.model(input_ids=torch.tensor([[5, 6, 7]]))

    assert [layer_capture.layer for layer_capture in listener.captured] == [1]
    assert listener.layer_numbers == [0, 1]
    assert listener.module_inputs == {}


def test_after_listening_the_model_attends_as_before(small_transformer: Saved) -> None:
    folder = small_transformer("bert")
    model_trace = trace(TEXT, model=str(folder))
    model = unchanged_model(folder)

    hooks = [each for part in model.modules() for each in part._forward_pre_hooks.values()]
    assert hooks == []
    assert model.config._attn_implementation == "eager"
    assert len(unchanged_weights(folder, model_trace)) == 2


@pytest.mark.parametrize("name", KINDS_WITHOUT_CAPTURE)
def test_a_model_outside_the_interface_tells_its_weights_itself_and_only_they_are_checked(
    name: str, small_transformer: Saved
) -> None:
    folder = small_transformer(name)
    model_trace = trace(TEXT, model=str(folder))

    returned_weights = unchanged_weights(folder, model_trace)

    assert model_trace.trained is not None
    assert model_trace.trained.fallback
    assert model_trace.trained.eager is None
    for layer, weights in zip(model_trace.layers, returned_weights, strict=True):
        assert torch.equal(layer.attended.weights, weights)
        assert layer.queries is None
        assert layer.keys is None
        assert layer.values.shape[-1] == 0  # they are not known
    checks = verify_trace(model_trace)
    assert all(each.passed for each in checks)
    assert [each.claim for each in checks] == ["the weights are the model's own"]


def test_heads_of_a_model_outside_the_interface_cannot_be_switched_off(
    small_transformer: Saved,
) -> None:
    with pytest.raises(
        AttnvizError, match=r"'without' cannot switch off heads of .*\(mpnet\), which only returns"
    ):
        trace(TEXT, model=str(small_transformer("mpnet")), without="L0H0")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mamba", r"no attention can be found in .* it is made of MambaBlock, .*MambaMixer"),
        ("fnet", r"no attention can be found in .*FNetBasicFourierTransform"),
        (
            "longformer",
            r"returns weights of 1 × 4 × \d+ × 5, which do not fit \d+ queries and \d+ keys",
        ),
    ],
)
def test_a_model_without_attention_to_be_seen_is_refused_by_its_modules(
    name: str, message: str, small_transformer: Saved
) -> None:
    assert name in KINDS_WITHOUT_WEIGHTS
    with pytest.raises(AttnvizError, match=message):
        trace(TEXT, model=str(small_transformer(name)))


def test_a_model_whose_arithmetic_is_another_than_ours_is_not_believed(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a model with sinks, whose weights are computed as if it had none."""
    attend: Any = Listener.attend

    def attend_without_sinks(self: Listener, *args: Any) -> Tensor:
        contexts: Tensor = attend(self, *args[:-1], None)
        return contexts

    monkeypatch.setattr(Listener, "attend", attend_without_sinks)
    model_trace = trace(TEXT, model=str(small_transformer("gpt-oss")))

    assert not_none(model_trace.trained).fallback


def test_a_layer_that_there_is_not_is_refused_by_how_many_there_are(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    result = attnviz("inspect", TEXT, "--model", str(small_transformer("bert")), "--layer", "2")

    assert result.err == (
        "error: there is no layer 2: the model has 2 layers, 0 to 1\n hint: try --layer 1\n"
    )


def test_one_layer_that_is_looked_at_is_all_that_is_kept(small_transformer: Saved) -> None:
    folder = str(small_transformer("bert"))

    one_layer, all_layers = inspect(TEXT, model=folder, layer=1), inspect(TEXT, model=folder)

    assert [layer.layer for layer in one_layer.trace.layers] == [1]
    assert one_layer.trace.trained == all_layers.trace.trained
    assert torch.equal(
        one_layer.trace.layers[0].attended.weights, all_layers.trace.layers[1].attended.weights
    )
    assert [each.name for each in one_layer.maps] == ["L1H0", "L1H1", "L1H2", "L1H3"]


def test_what_a_mask_of_numbers_adds_to_scores_is_added() -> None:
    """Beside what it hides: held against torch."""
    queries, keys, values = torch.randn(3, 1, 2, 4, 8, generator=torch.manual_seed(0)).unbind()
    numbers = torch.tensor([0.0, -0.5, -1.5, 0.25]).expand(4, 4)
    mask = numbers.masked_fill(torch.ones(4, 4).triu(1).bool(), torch.finfo().min)[None, None]

    call = AttentionCall(torch.nn.Identity(), queries, keys, values, mask)
    contexts = Listener().attend(call)

    expected = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask
    )
    assert torch.allclose(contexts, expected.transpose(1, 2), atol=1e-6)
