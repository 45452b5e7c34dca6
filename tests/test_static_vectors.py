"""Vectors of a trained model's table: --embeddings minilm, a folder, a name on a hub."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from attnviz import AttnvizError, Settings, compare, load, trace
from attnviz.machine.files import read_folder_state
from attnviz.traces.trained import model_location
from attnviz.traces.trained.model_location import locate_embedding_model
from attnviz.vectors import embedding_tables
from attnviz.vectors.embedding_tables import principal_components
from tests.conftest import Attnviz
from tests.refusals import refusal_lines
from tests.test_house import loaded_after

SENTENCE = "the cat chased the dog"
MINILM: dict[str, Any] = {"variant": "plain", "embeddings": "minilm", "tokenizer": "words"}
COMMAND = ("run", SENTENCE, "--variant", "plain", "--embeddings", "minilm")


@cache
def folder() -> Path:
    return model_location._package_folder("minilm")


@cache
def vocabulary() -> dict[str, int]:
    words = (folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return {word: number for number, word in enumerate(words)}


@cache
def table() -> np.ndarray:
    with safe_open(folder() / "model.safetensors", framework="np") as tensors:
        return np.asarray(tensors.get_tensor("embeddings.word_embeddings.weight"), np.float64)


def vectors(text: str, **changes: Any) -> np.ndarray:
    return trace(text, Settings(**MINILM | {"dtype": "float64"} | changes)).embeddings.numpy()


def rows(*pieces: str) -> np.ndarray:
    return table()[[vocabulary()[piece] for piece in pieces]]


def write_byte_model(path: Path) -> Path:
    """A model as GPT-2 is saved: pieces that hold the space before them; bfloat16, in two files."""
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "gpt2"}')
    words = {
        "cat": 0,
        "Ġcat": 1,
        "c": 2,
        "a": 3,
        "t": 4,
        "Ġ": 5,
        "s": 6,
        ".": 7,
        "ca": 8,
        "<unk>": 9,
    }
    words |= {f"Ġ{letter}": 10 + place for place, letter in enumerate("abcdefgh")}
    model = {
        "type": "BPE",
        "vocab": words,
        "merges": ["c a", "ca t", "Ġ cat"],
        "unk_token": "<unk>",
    }
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    tokenizer = {"version": "1.0", "pre_tokenizer": level, "model": model, "added_tokens": []}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    torch.manual_seed(0)
    save_file({"wte.weight": torch.randn(18, 6).bfloat16()}, path / "one.safetensors")
    save_file({"wpe.weight": torch.randn(4, 6).bfloat16()}, path / "two.safetensors")
    parts = {"wpe.weight": "two.safetensors", "wte.weight": "one.safetensors"}
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    return path


@pytest.fixture(scope="module")
def byte_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_byte_model(tmp_path_factory.mktemp("models") / "tiny")


def test_a_word_has_the_row_of_the_models_table() -> None:
    assert np.array_equal(vectors("the cat"), rows("the", "cat"))


def test_a_word_in_several_pieces_has_their_mean() -> None:
    assert np.allclose(vectors("strawberries")[0], rows("straw", "##berries").mean(0), atol=1e-12)


def test_capitals_accents_and_the_space_before_a_word_change_nothing() -> None:
    capital_vector, small_vector = vectors("CAFÉ cafe")

    assert np.array_equal(capital_vector, small_vector)
    assert np.array_equal(vectors(SENTENCE, tokenizer="gpt2"), vectors(SENTENCE))


def test_a_number_and_a_mark_have_rows_too() -> None:
    assert np.array_equal(vectors("1984 !"), rows("1984", "!"))


def test_cat_and_dog_read_each_other_and_nothing_comes_from_a_seed(attnviz: Attnviz) -> None:
    weights = trace(SENTENCE, Settings(**MINILM)).layers[0].attended.weights[0]
    cat, dog = 1, 4

    for one, other in ((cat, dog), (dog, cat)):
        assert weights[one].argsort(descending=True)[:2].tolist() == [one, other]
    first, second = attnviz(*COMMAND), attnviz(*COMMAND, "--seed", "7")
    assert first.out == second.out
    assert "seed" not in first.out
    assert "random" not in first.out
    assert "embeddings from minilm" in first.out


@pytest.mark.slow("models")
def test_fewer_numbers_are_principal_components_of_the_models_whole_words() -> None:
    """Held against the singular vectors of all words of letters in its vocabulary."""
    ids = [number for word, number in vocabulary().items() if word.isalpha()]
    mean = table()[ids].mean(0)
    _, lengths, directions = np.linalg.svd(table()[ids] - mean, full_matrices=False)
    result = trace(SENTENCE, Settings(**MINILM | {"dim": 8, "dtype": "float64"}))
    projected_rows = (rows(*SENTENCE.split()) - mean) @ directions[:8].T
    signs = np.sign((result.embeddings.numpy() * projected_rows).sum(0))

    assert np.allclose(result.embeddings.numpy(), projected_rows * signs, atol=1e-9)
    kept_variance = (lengths[:8] ** 2).sum() / (lengths**2).sum()
    assert result.origin.table.kept == pytest.approx(kept_variance)  # type: ignore[union-attr]


@pytest.mark.slow("models")
def test_the_settings_line_and_the_steps_say_how_much_is_kept(attnviz: Attnviz) -> None:
    run_output = attnviz(*COMMAND, "--dim", "8", "--show", "weights").out
    reduced_step = attnviz("steps", *COMMAND[1:], "--dim", "8", "--step", "embeddings").out
    full_step = attnviz("steps", *COMMAND[1:], "--step", "embeddings").out

    assert "(principal components, 10.6 % of the variance)" in " ".join(run_output.split())
    text = " ".join(reduced_step.split())
    assert "components of its word vectors, with 10.6 % of their variance." in text
    assert "rows of minilm's embedding table" in full_step
    assert "components" not in full_step


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_what_components_keep_is_what_they_do_not_lose(count: int, width: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(size=(count, width))
    components = principal_components(numbers, min(width, 2))
    reconstruction = components.coordinates(numbers) @ components.directions.T + components.mean

    assert components.kept_variance == pytest.approx(
        1
        - ((reconstruction - numbers) ** 2).sum() / (numbers - components.mean).var(0).sum() / count
    )
    assert np.allclose(
        components.directions.T @ components.directions, np.eye(components.directions.shape[1])
    )
    largest = np.abs(components.directions).argmax(0)
    assert (components.directions[largest, np.arange(len(largest))] > 0).all()


def test_as_many_numbers_as_there_are_leave_the_rows_as_they_are() -> None:
    assert np.array_equal(vectors("the cat", dim=384), rows("the", "cat"))


def test_more_numbers_than_the_model_has_are_refused(attnviz: Attnviz) -> None:
    assert refusal_lines(attnviz(*COMMAND, "--dim", "385")) == (
        "--dim is 385, but the vectors of 'minilm' are 384 wide",
        "leave --dim out, or give at most 384",
    )


@pytest.mark.parametrize(
    ("text", "tokenizer", "problem"),
    [
        ("a 🦄", "words", "'minilm' has no vector for '🦄': its vocabulary has no such piece"),
        ("a 🦄", "gpt2", "is part of a letter, which has no vector"),
        ("a\nb", "gpt2", "is white space, which has no vector"),
    ],
)
def test_what_has_no_vector_is_said(text: str, tokenizer: str, problem: str) -> None:
    with pytest.raises(AttnvizError, match="no vector") as error:
        vectors(text, tokenizer=tokenizer)

    assert problem in str(error.value)


def test_a_model_whose_pieces_hold_spaces_gives_a_word_as_in_running_text(byte_model: Path) -> None:
    with safe_open(byte_model / "one.safetensors", framework="pt") as tensors:
        stored_rows = tensors.get_tensor("wte.weight").double().numpy()
    result = vectors("cat.", embeddings=str(byte_model))

    assert np.array_equal(result, stored_rows[[1, 7]])  # Ġcat, and the mark without a space


def test_words_of_a_vocabulary_that_marks_them_are_those_with_the_mark(byte_model: Path) -> None:
    lexicon = embedding_tables._load_lexicon(byte_model, "tiny", read_folder_state(byte_model))

    assert lexicon.whole_word_ids() == [1, *range(10, 18)]
    with safe_open(byte_model / "one.safetensors", framework="pt") as tensors:
        stored_rows = tensors.get_tensor("wte.weight").double().numpy()
    expected = principal_components(stored_rows[lexicon.whole_word_ids()], 2).coordinates(
        stored_rows[[1]]
    )
    assert np.allclose(vectors("cat", embeddings=str(byte_model), dim=2), expected)


def test_a_vocabulary_of_few_words_has_few_components(byte_model: Path) -> None:
    word_components = embedding_tables._word_components
    with pytest.raises(AttnvizError, match="the 9 whole words of 'tiny' give fewer components"):
        word_components(byte_model, "tiny", 9, read_folder_state(byte_model))


def test_a_second_sentence_has_vectors_of_the_same_table() -> None:
    result = trace(
        SENTENCE, Settings(**MINILM | {"variant": "scaled", "memory": "a dog", "dim": 16})
    )

    assert result.layers[0].cross is not None
    key_inputs = result.layers[0].cross.key_inputs
    memory_vectors = vectors("a dog", dim=16, dtype="float32")
    assert key_inputs is not None
    assert np.allclose(key_inputs.numpy(), memory_vectors, atol=1e-6)


@pytest.mark.slow("models")
def test_widths_can_be_compared_and_two_sentences() -> None:
    width_comparison = compare(SENTENCE, by="dim", values=["4", "64"], **MINILM)
    text_comparison = compare(SENTENCE, other="the cat chased the ball", **MINILM)

    width_traces = [each.trace for each in width_comparison.alternatives]
    one, other = [each.trace for each in text_comparison.alternatives]

    assert [each.embeddings.shape[1] for each in width_traces if each is not None] == [4, 64]
    assert one is not None
    assert other is not None
    assert not torch.equal(one.embeddings[-1], other.embeddings[-1])


def test_a_saved_trace_comes_back_where_no_model_is_installed(
    tmp_path: Path, attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "numbers.npz"
    result = attnviz(*COMMAND, "--dim", "8", "--show", "weights")
    attnviz(*COMMAND, "--dim", "8", "-o", str(path))
    loaded_result = attnviz("run", "--trace", str(path), "--show", "weights")
    model_location._package_folder.cache_clear()
    monkeypatch.setattr(model_location, "find_spec", lambda name: None)

    assert result.out.splitlines()[:5] == loaded_result.out.splitlines()[:5]
    assert load(str(path)).origin.table.width == 384  # type: ignore[union-attr]
    assert attnviz("compare", "--trace", str(path), "--by", "scale").status == 0
    refusal = attnviz(*COMMAND)
    model_location._package_folder.cache_clear()
    assert refusal.status == 2
    assert "the model 'minilm' is not installed" in refusal.err


@pytest.mark.slow("processes")
def test_no_transformers_are_needed() -> None:
    code = f"from attnviz.cli.app import run_command_line as main; main({[*COMMAND]})"

    assert not loaded_after(code) & {"transformers", "huggingface_hub", "matplotlib"}


def test_without_tokenizers_the_extra_is_named(
    byte_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(AttnvizError, match="need the package tokenizers") as error:
        embedding_tables._read_tokenizer(byte_model, "tiny")

    assert error.value.hint == 'pip install "attnviz[models]"'


def test_a_name_on_a_hub_that_cannot_be_had_is_refused_in_two_lines(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    problem, _ = refusal_lines(attnviz("run", "a", "--embeddings", "nobody/nothing"))

    assert problem.startswith("the model 'nobody/nothing' is not in the cache of this machine")


@pytest.mark.parametrize("name", ["glove.txt", "my/vectors.npy", "a/model.safetensors#wte.weight"])
def test_files_of_vectors_are_no_models(name: str) -> None:
    assert locate_embedding_model(name) is None
