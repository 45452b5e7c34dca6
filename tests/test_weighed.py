"""Weights that are weighed: by lengths and by gradients, held against the whole of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attnviz import AttnvizError, trace
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.analysis.inspection.maps import Map
from attnviz.cells import FULL_SLICE
from attnviz.traces.archive_reader import load
from attnviz.traces.trained import captured_attention
from attnviz.traces.trained.gradients import answer_gradients
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.views.inspection.heatmap import weighing_sentences
from tests.conftest import Attnviz
from tests.small_transformers import TEXT, Saved

GAP = "The animal [MASK] the street because it was too tired"


def values_of(found: Map) -> np.ndarray:
    return found.cells.window(FULL_SLICE, FULL_SLICE).values


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_lengths_are_those_of_what_a_head_hands_on_of_each_key(
    small_transformer: Saved, kind: str
) -> None:
    """Key by key: weight · value · W_o as a vector, of a head of a group, too; then its length."""
    folder = str(small_transformer(kind))
    made = inspect(TEXT, model=folder, weigh="norm", layer=1, head=3)
    (layer,) = made.trace.layers  # the one that is asked for
    assert layer.projections is not None
    assert layer.projections.w_out is not None
    width = layer.values.shape[-1]
    joins = layer.projections.w_out[3 * width : 4 * width]
    handed = layer.attended.weights[3][..., None] * (layer.values_of_heads[3] @ joins)
    assert np.allclose(values_of(made.maps[0]), handed.norm(dim=-1), atol=1e-6)


def test_what_heads_hand_on_adds_up_to_what_the_layer_makes(small_transformer: Saved) -> None:
    """So that nothing is weighed twice, or not at all."""
    made = trace(TEXT, model=str(small_transformer("llama")))
    layer = made.layers[0]
    assert layer.projections is not None
    assert layer.projections.w_out is not None
    parts = torch.split(layer.projections.w_out, layer.values.shape[-1])
    pairs = zip(layer.attended.weights, layer.values_of_heads, parts, strict=True)
    assert_close(sum(weights @ (values @ part) for weights, values, part in pairs), layer.context)


def test_a_sink_that_hands_on_little_is_told_of() -> None:
    made = inspect(TEXT, weigh="norm")
    shares = [np.mean([_first(each) for each in maps]) for maps in (made.head_maps, made.maps)]
    (said,) = weighing_sentences(made)
    assert shares[0] > 0.4 > 0.1 > shares[1]
    assert said == (
        f"on average over 72 heads, [CLS] gets {100 * shares[0]:.0f}\u00a0% of the attention, and "
        f"{100 * shares[1]:.0f}\u00a0% of weight × length"
    )


def _first(found: Map) -> float:
    values = values_of(found)
    return float(values[:, 0].sum() / values.sum())


def test_where_no_matrix_joins_heads_lengths_are_those_of_values() -> None:
    made = inspect(trace("the cat sat", variant="plain"), weigh="norm")
    layer = made.trace.layers[0]
    wanted = layer.attended.weights[0] * layer.values[0].norm(dim=-1)
    assert np.allclose(values_of(made.maps[0]), wanted)


def test_a_file_has_no_matrix_to_weigh_with_and_the_error_says_where_there_is_one(
    tmp_path: Path,
) -> None:
    inspect("I am learning").view().save(tmp_path / "trace.npz")
    with pytest.raises(AttnvizError, match="the file of a trace holds no matrices") as refused:
        inspect(load(str(tmp_path / "trace.npz")), weigh="norm").view()
    assert refused.value.hint == 'use the model itself: give its text, and model="minilm"'


OF_ANSWERS = {"gpt2": TEXT, "llama": TEXT, "gemma2": TEXT, "bert": GAP}


@pytest.mark.parametrize("kind", OF_ANSWERS)
def test_gradients_are_those_of_the_weights_of_eager_attention(
    small_transformer: Saved, kind: str
) -> None:
    """The model's own matrices of weights, of which torch takes the gradient itself."""
    folder, text = str(small_transformer(kind)), OF_ANSWERS[kind]
    made = inspect(text, model=folder, weigh="gradient")
    found = answer_gradients(made.trace, None)
    weights, gradients = own_gradients(made, found.position)
    for place, each in enumerate(made.maps):
        layer, head = divmod(place, 4)
        wanted = weights[layer][0, head] * gradients[layer][0, head]
        assert np.allclose(values_of(each), wanted.detach(), atol=1e-5), each.name


def own_gradients(made: Inspection, place: int) -> tuple[Any, Any]:
    model = load_transformer(made.trace.origin.settings).model
    model.get_input_embeddings().weight.requires_grad_(True)
    try:
        with quiet_transformers():
            ids = torch.tensor([made.trace.tokens.ids])
            theirs = model(input_ids=ids, output_attentions=True)
        weights = theirs.attentions
        return weights, torch.autograd.grad(theirs.logits[0, place].max(), weights)
    finally:
        model.get_input_embeddings().weight.requires_grad_(False)


def test_gradients_of_a_text_in_bands_are_the_same(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trace(TEXT, model=str(small_transformer("gpt2")))
    whole = answer_gradients(made, None)
    monkeypatch.setattr(captured_attention, "CAPTURED_CELLS_AT_ONCE", 1)
    for number, each in answer_gradients(made, None).by_layer.items():
        assert_close(each, whole.by_layer[number])


def test_a_head_that_is_off_has_nothing_that_an_answer_hangs_on(small_transformer: Saved) -> None:
    made = inspect(TEXT, model=str(small_transformer("gpt2")), weigh="gradient", without="L1H2")
    by_name = {each.name: values_of(each) for each in made.maps}
    assert not by_name["L1H2"].any()
    assert by_name["L1H1"].any()


def test_toward_names_the_answer(small_transformer: Saved) -> None:
    made = trace(GAP, model=str(small_transformer("bert")))
    assert made.prediction is not None
    (place,) = made.prediction.asked_positions
    second = made.prediction.best(place, 2)[1]
    found = answer_gradients(made, made.prediction.answers[second])
    assert (found.answer, found.position) == (made.prediction.answers[second], place)
    assert found.score == pytest.approx(float(made.prediction.logits[place, second]), abs=1e-5)


def test_it_is_said_of_which_answer_a_gradient_is(small_transformer: Saved) -> None:
    made = inspect(GAP, model=str(small_transformer("bert")), weigh="gradient", toward="the")
    (said,) = weighing_sentences(made)
    assert said == 'gradient of the score of "the" at "[MASK]"'


def test_what_has_no_answer_has_no_gradient(small_transformer: Saved) -> None:
    refused = {
        "minilm": "'minilm' (bert) makes vectors and gives no answers",
        str(small_transformer("t5")): "(t5) answers in its decoder; 'attention' is self, the",
        str(small_transformer("bert")): "there is no [MASK] in the text",
    }
    for model, problem in refused.items():
        with pytest.raises(AttnvizError, match="takes the gradient of an answer") as caught:
            inspect(TEXT, model=model, weigh="gradient").view()
        assert problem in str(caught.value)


def test_an_answer_that_is_no_token_is_refused_with_its_pieces(small_transformer: Saved) -> None:
    made = trace(TEXT, model=str(small_transformer("gpt2")))
    with pytest.raises(AttnvizError, match=r"--toward is 'xyz', which the model .* writes as"):
        answer_gradients(made, "xyz")


def test_only_a_transformer_has_gradients(attnviz: Attnviz) -> None:
    result = attnviz("inspect", "the key", "--model", "agreement", "--weigh", "gradient")
    assert result.err == (
        "error: --weigh gradient takes the gradient of an answer of a trained transformer, but "
        "this is not one\n"
        " hint: give a transformer: --model minilm, a folder, or a name on a hub\n"
    )


def test_toward_needs_a_gradient() -> None:
    with pytest.raises(AttnvizError, match="--weigh is weight"):
        InspectOptions(toward="tired")
