"""Answers of trained transformers, with all heads and without some, compared with transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attnviz import Trace, load, steps, trace
from attnviz.errors import AttnvizError
from attnviz.traces.trained import answers
from attnviz.traces.trained.loading import load_transformer
from attnviz.views.answer_tables import (
    answer_sentences,
    best_answers_grid,
    vector_shift_sentences,
    vector_shift_table,
)
from tests.conftest import Attnviz
from tests.small_transformers import TEXT, Saved

GAP = "The animal [MASK] the street because it was too tired"
BY_KIND = {"gpt2": TEXT, "llama": TEXT, "gemma2": TEXT, "opt": TEXT, "bert": GAP, "modernbert": GAP}


def run_transformers_model(traced: Trace, folder: Path) -> Any:
    """The output of transformers for the same tokens."""
    model = load_transformer(traced.origin.settings).model
    with torch.no_grad():
        return model(input_ids=torch.tensor([traced.tokens.ids]))


@pytest.mark.parametrize("kind", BY_KIND)
def test_answers_are_those_of_the_model_itself(small_transformer: Saved, kind: str) -> None:
    model_trace = trace(BY_KIND[kind], model=str(small_transformer(kind)))
    model_probabilities = (
        run_transformers_model(model_trace, small_transformer(kind)).logits[0].softmax(-1)
    )
    prediction = model_trace.prediction

    assert prediction is not None
    assert prediction.answer_count == model_probabilities.shape[-1]
    assert (prediction.predicts == "here") == ("[MASK]" in BY_KIND[kind])
    for place in prediction.asked_positions:
        likeliest = model_probabilities[place].topk(3)
        assert_close(prediction.probabilities[place, prediction.best(place, 3)], likeliest.values)


def test_a_soft_cap_of_scores_is_in_what_is_answered(small_transformer: Saved) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("gemma2")))
    cap = load_transformer(model_trace.origin.settings).config.final_logit_softcapping
    assert model_trace.prediction is not None
    assert model_trace.prediction.logits.abs().max() < cap


def test_a_decoder_beside_an_encoder_answers_its_own_tokens(small_transformer: Saved) -> None:
    folder = str(small_transformer("t5"))
    decoder_trace = trace(TEXT, model=folder, attention="cross", target="was too tired")
    encoder_trace = trace(TEXT, model=folder)

    assert encoder_trace.prediction is None
    assert decoder_trace.prediction is not None
    assert decoder_trace.prediction.logits.shape[0] == len(decoder_trace.tokens)
    assert decoder_trace.outputs is not None
    assert len(decoder_trace.outputs.vectors) == len(decoder_trace.tokens)


def test_answers_of_a_long_text_are_scored_at_its_last_tokens(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(answers, "MAX_SCORED_POSITIONS", 4)
    long_trace, file = trace(TEXT, model=str(small_transformer("gpt2"))), tmp_path / "made.json"
    prediction, count = long_trace.prediction, len(long_trace.tokens)
    long_trace.view().save(file)
    loaded_prediction = load(str(file)).prediction

    assert prediction is not None
    assert prediction.asked_positions == tuple(range(count - 4, count))
    assert prediction.probabilities[: count - 4].isnan().all()
    assert "answers are computed at the last 4 tokens only" in best_answers_grid(long_trace).note
    assert best_answers_grid(long_trace, 0).words == (("", "", ""),)
    assert loaded_prediction is not None
    assert_close(loaded_prediction.probabilities, prediction.probabilities, equal_nan=True)
    assert (loaded_prediction.answer_count, loaded_prediction.answers) == (
        prediction.answer_count,
        prediction.answers,
    )


def zero_output_of_head(model: Any, name: str, head: int, width: int) -> Any:
    """Set a head's part of the output matrix to 0; returns it and a copy of the original."""
    weight: Tensor = model.get_submodule(name).weight
    original = weight.clone()
    columns = slice(head * width, (head + 1) * width)
    with torch.no_grad():
        if type(model.get_submodule(name)).__name__ == "Conv1D":
            weight[columns] = 0
        else:
            weight[:, columns] = 0
    return weight, original


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("gpt2", "transformer.h.1.attn.c_proj"),
        ("llama", "model.layers.1.self_attn.o_proj"),
        ("bert", "bert.encoder.layer.1.attention.output.dense"),
    ],
)
def test_without_a_head_the_model_answers_as_with_zeros_for_it(
    small_transformer: Saved, kind: str, name: str
) -> None:
    folder = str(small_transformer(kind))
    ablated_trace = trace(BY_KIND[kind], model=folder, without="L1H2")
    full_trace = trace(BY_KIND[kind], model=folder)
    model = load_transformer(ablated_trace.origin.settings).model
    weight, original = zero_output_of_head(model, name, 2, ablated_trace.layers[0].head_dim)
    try:
        expected = (
            run_transformers_model(ablated_trace, small_transformer(kind)).logits[0].softmax(-1)
        )
    finally:
        with torch.no_grad():
            weight.copy_(original)

    assert ablated_trace.prediction is not None
    assert ablated_trace.prediction.with_all_heads is not None
    assert full_trace.prediction is not None
    for place in ablated_trace.prediction.asked_positions:
        expected_best = expected[place].topk(3).values
        original_best = full_trace.prediction.probabilities[place].nan_to_num().topk(3).values
        stated_best = ablated_trace.prediction.with_all_heads[place].nan_to_num().topk(3).values
        assert_close(ablated_trace.prediction.probabilities[place].topk(3).values, expected_best)
        assert_close(stated_best, original_best)


def test_what_is_answered_without_a_head_is_said(small_transformer: Saved) -> None:
    ablated_trace = trace(GAP, model=str(small_transformer("bert")), without="L1H2")
    assert ablated_trace.prediction is not None
    assert ablated_trace.prediction.with_all_heads is not None
    (place,) = ablated_trace.prediction.asked_positions
    new_answer = ablated_trace.prediction.answers[ablated_trace.prediction.best(place, 1)[0]]
    original_answer = ablated_trace.prediction.answers[
        int(ablated_trace.prediction.with_all_heads[place].argmax())
    ]
    (sentence,) = answer_sentences(ablated_trace)
    assert sentence.startswith("Without L1H2 the model ")
    assert new_answer in sentence
    assert ("still" in sentence) == (new_answer == original_answer)


def test_a_text_without_a_gap_asks_for_nothing_and_it_is_said_what_would(
    small_transformer: Saved,
) -> None:
    model_trace = trace(TEXT, model=str(small_transformer("bert")))
    assert answer_sentences(model_trace) == (
        "No token of this text asks the model for an answer; [MASK] would",
    )


def test_vectors_of_an_encoder_without_a_head_are_measured_token_by_token() -> None:
    ablated_trace = trace("the cat sat", model="minilm", without="L5H11")
    full_trace = trace("the cat sat", model="minilm")
    assert ablated_trace.outputs is not None
    assert ablated_trace.outputs.with_all_heads is not None
    assert full_trace.outputs is not None
    before, after = full_trace.outputs.vectors.double(), ablated_trace.outputs.vectors.double()
    assert_close(ablated_trace.outputs.with_all_heads.double(), before)
    lengths = (after - before).norm(dim=1) / before.norm(dim=1)
    cosines = (after * before).sum(1) / after.norm(dim=1) / before.norm(dim=1)

    table = vector_shift_table(ablated_trace)
    assert table is not None
    assert_close(torch.tensor(table.values), torch.stack([lengths, cosines], 1))
    most = int(lengths.argmax())
    assert ablated_trace.tokens.labels[most] == "[SEP]"
    (sentence,) = vector_shift_sentences(ablated_trace)
    assert sentence == (
        f"Without L5H11 the last vectors change by {100 * lengths.mean():.0f}\u00a0% of their "
        "length on average, that of [SEP] most "
        f"({100 * lengths[most]:.0f}\u00a0%); their mean cosine with the original vectors is "
        f"{cosines.mean():.2f}"
    ).replace(" 0.", " .")
    assert vector_shift_sentences(full_trace) == ()
    assert vector_shift_table(full_trace) is None


def test_outputs_are_read_again(tmp_path: Path) -> None:
    ablated_trace, file = trace("a b", model="minilm", without="L5H11"), tmp_path / "made.npz"
    ablated_trace.view().save(file)
    loaded_outputs = load(str(file)).outputs
    assert ablated_trace.outputs is not None
    assert loaded_outputs is not None
    assert torch.equal(loaded_outputs.vectors, ablated_trace.outputs.vectors)
    assert loaded_outputs.with_all_heads is not None
    assert vector_shift_sentences(load(str(file))) == vector_shift_sentences(ablated_trace)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_answers_that_look_alike_are_told_apart_in_files(
    suffix: str, small_transformer: Saved, tmp_path: Path
) -> None:
    model_trace, file = trace(TEXT, model=small_transformer("llama")), tmp_path / f"made{suffix}"
    tokenizer = load_transformer(model_trace.origin.settings).tokenizer
    assert model_trace.prediction is not None
    ids, texts = model_trace.prediction.answer_ids, model_trace.prediction.answer_texts

    model_trace.view().save(file)
    loaded_prediction = load(str(file)).prediction

    assert loaded_prediction is not None
    assert loaded_prediction.answers == model_trace.prediction.answers
    assert (loaded_prediction.answer_ids, loaded_prediction.answer_texts) == (ids, texts)
    assert len(ids) == len({*ids}) == len(texts) == model_trace.prediction.logits.shape[1]
    words = tokenizer.convert_ids_to_tokens(list(ids))
    assert all(text.startswith(" ") for text, word in zip(texts, words, strict=True)
               if word.startswith("Ġ"))  # fmt: skip
    assert any(text.startswith(" ") for text in texts)


def test_an_encoder_that_answers_nothing_says_so_in_two_lines(attnviz: Attnviz) -> None:
    result = attnviz("inspect", "a b", "--predict", "--layer", "0", "--head", "0")
    assert result.err == (
        "error: --predict shows what a model answers, but 'minilm' (bert) makes vectors and "
        "gives no answers\n"
        " hint: leave out --predict, or use a model that continues texts, or fills in a [MASK]\n"
    )


def test_the_last_step_shows_what_is_answered(small_transformer: Saved) -> None:
    sentences = answer_sentences(trace(TEXT, model=str(small_transformer("gpt2"))))
    walk = steps(TEXT, model=str(small_transformer("gpt2")), layer=1, head=0, step="prediction")
    section = walk.view().sections[-1]
    assert section.name == "prediction"
    assert section.remarks == sentences


def test_no_answer_is_scored_of_a_model_that_has_none() -> None:
    with pytest.raises(AttnvizError):
        best_answers_grid(trace("a b", model="minilm"))
