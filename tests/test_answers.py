"""What trained transformers answer, with all heads and without some: held against transformers."""

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


def own(made: Trace, folder: Path) -> Any:
    """What transformers makes of the same tokens."""
    model = load_transformer(made.origin.settings).model
    with torch.no_grad():
        return model(input_ids=torch.tensor([made.tokens.ids]))


@pytest.mark.parametrize("kind", BY_KIND)
def test_answers_are_those_of_the_model_itself(small_transformer: Saved, kind: str) -> None:
    made = trace(BY_KIND[kind], model=str(small_transformer(kind)))
    shares = own(made, small_transformer(kind)).logits[0].softmax(-1)
    found = made.prediction

    assert found is not None
    assert found.answer_count == shares.shape[-1]
    assert (found.predicts == "here") == ("[MASK]" in BY_KIND[kind])
    for place in found.asked_positions:
        likeliest = shares[place].topk(3)
        assert_close(found.probabilities[place, found.best(place, 3)], likeliest.values)


def test_a_soft_cap_of_scores_is_in_what_is_answered(small_transformer: Saved) -> None:
    made = trace(TEXT, model=str(small_transformer("gemma2")))
    cap = load_transformer(made.origin.settings).config.final_logit_softcapping
    assert made.prediction is not None
    assert made.prediction.logits.abs().max() < cap


def test_a_decoder_beside_an_encoder_answers_its_own_tokens(small_transformer: Saved) -> None:
    folder = str(small_transformer("t5"))
    written = trace(TEXT, model=folder, attention="cross", target="was too tired")
    of_encoder = trace(TEXT, model=folder)

    assert of_encoder.prediction is None
    assert written.prediction is not None
    assert written.prediction.logits.shape[0] == len(written.tokens)
    assert written.outputs is not None
    assert len(written.outputs.vectors) == len(written.tokens)


def test_answers_of_a_long_text_are_scored_at_its_last_tokens(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(answers, "MAX_SCORED_POSITIONS", 4)
    made, file = trace(TEXT, model=str(small_transformer("gpt2"))), tmp_path / "made.json"
    found, count = made.prediction, len(made.tokens)
    made.view().save(file)
    again = load(str(file)).prediction

    assert found is not None
    assert found.asked_positions == tuple(range(count - 4, count))
    assert found.probabilities[: count - 4].isnan().all()
    assert "answers are computed at the last 4 tokens only" in best_answers_grid(made).note
    assert best_answers_grid(made, 0).words == (("", "", ""),)
    assert again is not None
    assert_close(again.probabilities, found.probabilities, equal_nan=True)
    assert (again.answer_count, again.answers) == (found.answer_count, found.answers)


def zeroed(model: Any, name: str, head: int, width: int) -> Any:
    """The model with no way out for one head: its rows of the matrix that joins heads are 0."""
    weight: Tensor = model.get_submodule(name).weight
    kept = weight.clone()
    columns = slice(head * width, (head + 1) * width)
    with torch.no_grad():
        if type(model.get_submodule(name)).__name__ == "Conv1D":
            weight[columns] = 0
        else:
            weight[:, columns] = 0
    return weight, kept


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
    made = trace(BY_KIND[kind], model=folder, without="L1H2")
    whole = trace(BY_KIND[kind], model=folder)
    model = load_transformer(made.origin.settings).model
    weight, kept = zeroed(model, name, 2, made.layers[0].head_dim)
    try:
        wanted = own(made, small_transformer(kind)).logits[0].softmax(-1)
    finally:
        with torch.no_grad():
            weight.copy_(kept)

    assert made.prediction is not None
    assert made.prediction.with_all_heads is not None
    assert whole.prediction is not None
    for place in made.prediction.asked_positions:
        now = wanted[place].topk(3).values
        was = whole.prediction.probabilities[place].nan_to_num().topk(3).values
        before = made.prediction.with_all_heads[place].nan_to_num().topk(3).values
        assert_close(made.prediction.probabilities[place].topk(3).values, now)
        assert_close(before, was)


def test_what_is_answered_without_a_head_is_said(small_transformer: Saved) -> None:
    made = trace(GAP, model=str(small_transformer("bert")), without="L1H2")
    assert made.prediction is not None
    assert made.prediction.with_all_heads is not None
    (place,) = made.prediction.asked_positions
    now = made.prediction.answers[made.prediction.best(place, 1)[0]]
    was = made.prediction.answers[int(made.prediction.with_all_heads[place].argmax())]
    (said,) = answer_sentences(made)
    assert said.startswith("Without L1H2: ")
    assert now in said
    assert ("still" in said) == (now == was)


def test_a_text_without_a_gap_asks_for_nothing_and_it_is_said_what_would(
    small_transformer: Saved,
) -> None:
    made = trace(TEXT, model=str(small_transformer("bert")))
    assert answer_sentences(made) == (
        "No token of this text asks the model for an answer; [MASK] would",
    )


def test_vectors_of_an_encoder_without_a_head_are_measured_token_by_token() -> None:
    made = trace("the cat sat", model="minilm", without="L5H11")
    whole = trace("the cat sat", model="minilm")
    assert made.outputs is not None
    assert made.outputs.with_all_heads is not None
    assert whole.outputs is not None
    before, after = whole.outputs.vectors.double(), made.outputs.vectors.double()
    assert_close(made.outputs.with_all_heads.double(), before)
    lengths = (after - before).norm(dim=1) / before.norm(dim=1)
    cosines = (after * before).sum(1) / after.norm(dim=1) / before.norm(dim=1)

    table = vector_shift_table(made)
    assert table is not None
    assert_close(torch.tensor(table.values), torch.stack([lengths, cosines], 1))
    most = int(lengths.argmax())
    (said,) = vector_shift_sentences(made)
    assert said == (
        f"Without L5H11 the last vectors change by {100 * lengths.mean():.0f}\u00a0% of their "
        f'length on average, that of "{made.tokens.labels[most]}" most '
        f"({100 * lengths[most]:.0f}\u00a0%); their mean cosine with the original vectors is "
        f"{cosines.mean():.2f}"
    ).replace(" 0.", " .")
    assert vector_shift_sentences(whole) == ()
    assert vector_shift_table(whole) is None


def test_outputs_are_read_again(tmp_path: Path) -> None:
    made, file = trace("a b", model="minilm", without="L5H11"), tmp_path / "made.npz"
    made.view().save(file)
    again = load(str(file)).outputs
    assert made.outputs is not None
    assert again is not None
    assert torch.equal(again.vectors, made.outputs.vectors)
    assert again.with_all_heads is not None
    assert vector_shift_sentences(load(str(file))) == vector_shift_sentences(made)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_answers_that_look_alike_are_told_apart_in_files(
    suffix: str, small_transformer: Saved, tmp_path: Path
) -> None:
    made, file = trace(TEXT, model=small_transformer("llama")), tmp_path / f"made{suffix}"
    tokenizer = load_transformer(made.origin.settings).tokenizer
    assert made.prediction is not None
    ids, texts = made.prediction.answer_ids, made.prediction.answer_texts

    made.view().save(file)
    again = load(str(file)).prediction

    assert again is not None
    assert (again.answers, again.answer_ids, again.answer_texts) == (
        made.prediction.answers, ids, texts,
    )  # fmt: skip
    assert len(ids) == len({*ids}) == len(texts) == made.prediction.logits.shape[1]
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
    said = answer_sentences(trace(TEXT, model=str(small_transformer("gpt2"))))
    walk = steps(TEXT, model=str(small_transformer("gpt2")), layer=1, head=0, step="prediction")
    section = walk.view().sections[-1]
    assert section.name == "prediction"
    assert section.remarks == said


def test_no_answer_is_scored_of_a_model_that_has_none() -> None:
    with pytest.raises(AttnvizError):
        best_answers_grid(trace("a b", model="minilm"))
