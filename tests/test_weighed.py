"""Weights that are weighed: by lengths and by gradients, held against the whole of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attnviz import AttnvizError, load, trace
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.heads.head import Head
from attnviz.traces.trained import captured_attention
from attnviz.traces.trained.gradients import answer_gradients
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.views.inspection.heatmap import weighing_sentences
from tests.conftest import Attnviz
from tests.small_transformers import TEXT, Saved
from tests.test_looking import map_values

MASKED_TEXT = "The animal [MASK] the street because it was too tired"


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_lengths_are_those_of_what_a_head_hands_on_of_each_key(
    small_transformer: Saved, kind: str
) -> None:
    """Key by key: the length of weight · value · W_o, also for a head of a group."""
    folder = str(small_transformer(kind))
    inspection = inspect(TEXT, model=folder, weigh="norm", layer=1, head=3)
    (layer,) = inspection.trace.layers  # the one that is asked for
    assert layer.projections is not None
    assert layer.projections.w_out is not None
    width = layer.values.shape[-1]
    w_out = layer.projections.w_out[3 * width : 4 * width]
    head_outputs = layer.attended.weights[3][..., None] * (layer.values_of_heads[3] @ w_out)
    assert np.allclose(map_values(inspection.maps[0]), head_outputs.norm(dim=-1), atol=1e-6)


def test_what_heads_hand_on_adds_up_to_what_the_layer_makes(small_transformer: Saved) -> None:
    """So that nothing is weighed twice, or not at all."""
    result = trace(TEXT, model=str(small_transformer("llama")))
    layer = result.layers[0]
    assert layer.projections is not None
    assert layer.projections.w_out is not None
    parts = torch.split(layer.projections.w_out, layer.values.shape[-1])
    pairs = zip(layer.attended.weights, layer.values_of_heads, parts, strict=True)
    assert_close(sum(weights @ (values @ part) for weights, values, part in pairs), layer.context)


def test_a_sink_that_hands_on_little_is_told_of() -> None:
    inspection = inspect(TEXT, weigh="norm")
    shares = [
        np.mean([first_share(each) for each in maps])
        for maps in (inspection.head_maps, inspection.maps)
    ]
    (sentence,) = weighing_sentences(inspection)
    assert shares[0] > 0.4 > 0.1 > shares[1]
    assert sentence == (
        f"on average over 72 heads, [CLS] gets {100 * shares[0]:.0f}\u00a0% of the attention, and "
        f"{100 * shares[1]:.0f}\u00a0% of weight × length"
    )


def first_share(head_map: Head) -> float:
    values = map_values(head_map)
    return float(values[:, 0].sum() / values.sum())


def test_where_no_matrix_joins_heads_lengths_are_those_of_values() -> None:
    inspection = inspect(trace("the cat sat", variant="plain"), weigh="norm")
    layer = inspection.trace.layers[0]
    expected = layer.attended.weights[0] * layer.values[0].norm(dim=-1)
    assert np.allclose(map_values(inspection.maps[0]), expected)


def test_a_file_has_no_matrix_to_weigh_with_and_the_error_says_where_there_is_one(
    tmp_path: Path,
) -> None:
    inspect("I am learning").view().save(tmp_path / "trace.npz")
    with pytest.raises(AttnvizError, match="the file of a trace holds no matrices") as error:
        inspect(load(str(tmp_path / "trace.npz")), weigh="norm").view()
    assert error.value.hint == 'use the model itself: give its text, and model="minilm"'


TEXTS_WITH_ANSWERS = {"gpt2": TEXT, "llama": TEXT, "gemma2": TEXT, "bert": MASKED_TEXT}


@pytest.mark.slow_table("models", keep=2)
@pytest.mark.parametrize("kind", TEXTS_WITH_ANSWERS)
def test_gradients_are_those_of_the_weights_of_eager_attention(
    small_transformer: Saved, kind: str
) -> None:
    """The model's own matrices of weights, of which torch takes the gradient itself."""
    folder, text = str(small_transformer(kind)), TEXTS_WITH_ANSWERS[kind]
    inspection = inspect(text, model=folder, weigh="gradient")
    answer = answer_gradients(inspection.trace, None)
    weights, gradients = compute_gradients(inspection, answer.position)
    for place, each in enumerate(inspection.maps):
        layer, head = divmod(place, 4)
        expected = weights[layer][0, head] * gradients[layer][0, head]
        assert np.allclose(map_values(each), expected.detach(), atol=1e-5), each.name


def compute_gradients(inspection: Inspection, place: int) -> tuple[Any, Any]:
    model = load_transformer(inspection.trace.origin.settings).model
    model.get_input_embeddings().weight.requires_grad_(True)
    try:
        with quiet_transformers():
            ids = torch.tensor([inspection.trace.tokens.ids])
            outputs = model(input_ids=ids, output_attentions=True)
        weights = outputs.attentions
        return weights, torch.autograd.grad(outputs.logits[0, place].max(), weights)
    finally:
        model.get_input_embeddings().weight.requires_grad_(False)


def test_gradients_of_a_text_in_bands_are_the_same(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = trace(TEXT, model=str(small_transformer("gpt2")))
    whole_gradients = answer_gradients(result, None)
    monkeypatch.setattr(captured_attention, "CAPTURED_CELLS_AT_ONCE", 1)
    for number, each in answer_gradients(result, None).by_layer.items():
        assert_close(each, whole_gradients.by_layer[number])


def test_a_head_that_is_off_has_nothing_that_an_answer_hangs_on(small_transformer: Saved) -> None:
    inspection = inspect(
        TEXT, model=str(small_transformer("gpt2")), weigh="gradient", without="L1H2"
    )
    values_by_name = {each.name: map_values(each) for each in inspection.maps}
    assert not values_by_name["L1H2"].any()
    assert values_by_name["L1H1"].any()


def test_toward_names_the_answer(small_transformer: Saved) -> None:
    result = trace(MASKED_TEXT, model=str(small_transformer("bert")))
    assert result.prediction is not None
    (place,) = result.prediction.asked_positions
    second_answer = result.prediction.best(place, 2)[1]
    gradients = answer_gradients(result, result.prediction.answers[second_answer])
    assert (gradients.answer, gradients.position) == (
        result.prediction.answers[second_answer],
        place,
    )
    assert gradients.score == pytest.approx(
        float(result.prediction.logits[place, second_answer]), abs=1e-5
    )


def test_it_is_said_of_which_answer_a_gradient_is(small_transformer: Saved) -> None:
    inspection = inspect(
        MASKED_TEXT, model=str(small_transformer("bert")), weigh="gradient", toward="the"
    )
    (sentence,) = weighing_sentences(inspection)
    assert sentence == 'gradient of the score of "the" at "[MASK]"'


def test_what_has_no_answer_has_no_gradient(small_transformer: Saved) -> None:
    problems = {
        "minilm": "'minilm' (bert) makes vectors and gives no answers",
        str(small_transformer("t5")): "(t5) answers in its decoder; 'attention' is self, the",
        str(small_transformer("bert")): "there is no [MASK] in the text",
    }
    for model, problem in problems.items():
        with pytest.raises(AttnvizError, match="takes the gradient of an answer") as error:
            inspect(TEXT, model=model, weigh="gradient").view()
        assert problem in str(error.value)


def test_an_answer_that_is_no_token_is_refused_with_its_pieces(small_transformer: Saved) -> None:
    result = trace(TEXT, model=str(small_transformer("gpt2")))
    with pytest.raises(AttnvizError, match=r"toward is 'xyz', which the model .* writes as"):
        answer_gradients(result, "xyz")


def test_only_a_transformer_has_gradients(attnviz: Attnviz) -> None:
    result = attnviz("inspect", "the key", "--model", "agreement", "--weigh", "gradient")
    assert result.err == (
        "error: --weigh gradient takes the gradient of an answer of a trained transformer, but "
        "this is not one\n"
        " hint: give a transformer: --model minilm, a folder, or a name on a hub\n"
    )


def test_toward_needs_a_gradient() -> None:
    with pytest.raises(AttnvizError, match="weigh is weight"):
        InspectOptions(toward="tired")
