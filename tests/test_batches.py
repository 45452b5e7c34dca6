"""Texts in batches have the weights that each of them has alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from attnviz import AttnvizError
from attnviz.traces.settings import Settings
from attnviz.traces.trained import batches
from attnviz.traces.trained.batches import (
    LayerWeights,
    captures_exactly,
    make_batches,
    visit_layers,
)
from attnviz.traces.trained.forward_pass import ModelInput, capture_pass
from attnviz.traces.trained.loading import LoadedTransformer, load_transformer
from tests.small_transformers import Saved

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "It is late.",
    "She said that naïve cafés are open; he says they aren't, because it is too late for them.",
    "The trophy doesn't fit in the brown suitcase!",
]


def weights_alone(model: LoadedTransformer, ids: Sequence[int]) -> list[Tensor]:
    with torch.no_grad():
        captured_pass = capture_pass(model, ModelInput("self", tuple(ids)))
        assert captured_pass is not None
        return [layer.whole.weights for layer in captured_pass.captured]


def assert_same_as_alone(model: LoadedTransformer, *, has_padding: bool = True) -> None:
    assert captures_exactly(model, model.tokenizer(TEXTS[0])["input_ids"])
    batch_list = list(make_batches(model, enumerate(TEXTS)))
    assert sorted(number for batch in batch_list for number in batch.numbers) == [0, 1, 2, 3]
    if has_padding:
        assert len(batch_list) < len(TEXTS)
    for batch in batch_list:
        layer_weights: list[LayerWeights] = []
        visit_layers(model, batch.ids, layer_weights.append)
        for item, ids in enumerate(batch.ids):
            expected_weights, count = weights_alone(model, ids), len(ids)
            assert len(layer_weights) == len(expected_weights)
            for layer, weights in zip(layer_weights, expected_weights, strict=True):
                ours = layer.weights[item, :, :count]
                assert (ours[..., :count] - weights).abs().max() <= 1e-5
                assert not ours[..., count:].any()
                assert not layer.visible[item, ..., :count, count:].any()


@pytest.mark.slow_table("models", keep=1)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_has_the_weights_that_minilm_has_for_each_text_alone(side: str) -> None:
    model = load_transformer(Settings(model="minilm"))
    model.tokenizer.padding_side = side
    assert_same_as_alone(model)


@pytest.mark.slow_table("models", keep=4)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "name", ["gpt2", "mistral", "gemma2", "gpt-oss", "opt", "roberta", "modernbert", "t5"]
)
def test_a_batch_has_the_weights_that_a_small_model_has_for_each_text_alone(
    name: str, side: str, small_transformer: Saved
) -> None:
    model = load_transformer(Settings(model=str(small_transformer(name))))
    model.tokenizer.padding_side = side
    assert_same_as_alone(model)


def test_a_model_with_convolutions_gets_no_padding(small_transformer: Saved) -> None:
    model = load_transformer(Settings(model=str(small_transformer("jamba"))))
    assert_same_as_alone(model, has_padding=False)


@pytest.mark.parametrize("name", ["bloom", "gpt-neo", "convbert"])
def test_models_that_cannot_be_captured_return_their_weights(
    name: str, small_transformer: Saved
) -> None:
    model = load_transformer(Settings(model=str(small_transformer(name))))
    assert not captures_exactly(model, model.tokenizer(TEXTS[0])["input_ids"])
    for batch in make_batches(model, enumerate(TEXTS)):
        layer_weights: list[LayerWeights] = []
        visit_layers(model, batch.ids, layer_weights.append, captured=False)
        for item, ids in enumerate(batch.ids):
            with torch.no_grad():
                expected_weights = model.model(
                    torch.tensor([ids]), output_attentions=True
                ).attentions
            for layer, weights in zip(layer_weights, expected_weights, strict=True):
                ours = layer.weights[item, :, : len(ids), : len(ids)]
                assert (ours - weights[0]).abs().max() <= 1e-5


def test_batches_are_small_and_have_texts_of_about_one_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "BATCH_TOKENS", 40)
    model = load_transformer(Settings(model="minilm"))
    texts = [(number, "word " * (number % 7 + 1)) for number in range(30)]
    batch_list = list(make_batches(model, texts))
    assert sorted(number for batch in batch_list for number in batch.numbers) == list(range(30))
    assert all(len(batch.ids) * max(map(len, batch.ids)) <= 40 for batch in batch_list)
    assert all(max(map(len, batch.ids)) - min(map(len, batch.ids)) <= 3 for batch in batch_list)


def test_a_text_that_is_too_long_is_refused_or_cut() -> None:
    model = load_transformer(Settings(model="minilm"))
    texts = [(0, "short"), (1, "word " * 600)]
    with pytest.raises(AttnvizError, match="the text has 602 tokens, but the model 'minilm' only"):
        list(make_batches(model, texts))
    batch_list = list(make_batches(model, texts, truncate=True))
    assert [len(ids) for batch in batch_list for ids in batch.ids] == [3, 512]
    assert sum(batch.cut for batch in batch_list) == 1
