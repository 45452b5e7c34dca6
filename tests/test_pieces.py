"""What people see of the tokens of a trained model: the letters of the text, whatever its kind."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.tokens.tokens import Tokens
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.pieces import cut_text, tokens_of_ids
from tests.small_transformers import TOKENIZERS

TEXT = "The cross was too tired 😀"


class ModelWithoutPositions:
    """A model without positions."""

    def __init__(self) -> None:
        self.config = self
        self.max_position_embeddings = None

    def get_text_config(self) -> ModelWithoutPositions:
        return self

    def named_modules(self) -> list[tuple[str, Any]]:
        return []


@cache
def model(kind: str) -> LoadedTransformer:
    return LoadedTransformer("small", ModelWithoutPositions(), TOKENIZERS[kind](), "float32")


def tokenize(kind: str, text: str = TEXT) -> Tokens:
    return cut_text(model(kind), text)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_no_letters_that_a_vocabulary_has_for_itself_are_ever_shown(kind: str) -> None:
    tokens = tokenize(kind)

    assert not any(mark in label for label in tokens.labels for mark in ("Ġ", "##", "▁", "<0x"))
    assert all(tokens.labels)


def test_bytes_of_a_letter_that_is_cut_are_shown_as_bytes() -> None:
    for kind in ("bytes", "fallback"):
        tokens = tokenize(kind)
        assert tokens.labels[-4:] == ("⟨f0⟩", "⟨9f⟩", "⟨98⟩", "⟨80⟩")
        assert b"".join(tokens.pieces[-4:]).decode() == "😀"


def test_all_bytes_of_a_text_are_there_where_a_vocabulary_is_one_of_bytes() -> None:
    text = "naïve 日本語\n\tΩ’s  end "

    assert b"".join(tokenize("bytes", text).pieces) == text.encode()


@given(st.text(min_size=1))
def test_any_text_at_all_is_there_byte_by_byte(text: str) -> None:
    tokens = tokenize("bytes", text)
    text_pieces = [each for place, each in enumerate(tokens.pieces) if place not in tokens.special]

    assert b"".join(text_pieces) == text.encode()


def test_pieces_of_a_word_are_not_spaced_and_its_beginning_is() -> None:
    tokens = tokenize("wordpiece", "too tired")

    assert tokens.labels == ("[CLS]", "too", "tire", "d", "[SEP]")
    assert tokens.spaced == (True, True, True, False, True)
    assert tokenize("fallback", "it the").spaced[:3] == (True, True, True)
    assert tokenize("unigram", "too tired").labels == ("too", "ti", "red", "</s>")
    assert tokenize("unigram", "too tired").spaced == (True, True, False, True)


def test_letters_are_those_of_the_text_and_not_of_the_vocabulary() -> None:
    assert tokenize("wordpiece", "Too TIRED").labels == ("[CLS]", "Too", "TIRE", "D", "[SEP]")


def test_an_unknown_word_is_shown_as_it_is_read_and_found_as_it_is_written() -> None:
    tokens = tokenize("wordpiece", "too ☃")

    assert tokens.labels == ("[CLS]", "too", "[UNK]", "[SEP]")
    assert tokens.find("☃") == (2,)
    assert tokens.find("[UNK]") == (2,)


def test_tokens_that_stand_for_no_letters_are_special_and_a_gap_is_not() -> None:
    tokens = tokenize("wordpiece", "the [MASK] was [SEP] too")

    assert tokens.labels == ("[CLS]", "the", "[MASK]", "was", "[SEP]", "too", "[SEP]")
    assert tokens.special == {0, 4, 6}
    assert tokenize("fallback", "it").special == {0}
    assert tokenize("unigram", "it").special == {1}
    assert tokenize("bytes", "it").special == frozenset()


def test_an_id_that_ends_a_text_is_special_also_where_unknown_words_have_it() -> None:
    tokenizer = TOKENIZERS["bytes"]()
    tokenizer.add_special_tokens({"unk_token": "</s>"})
    tokens = cut_text(
        LoadedTransformer("small", ModelWithoutPositions(), tokenizer, "float32"), "it</s>"
    )

    assert tokens.labels[-1] == "</s>"
    assert len(tokens) - 1 in tokens.special


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_tokens_that_a_model_wrote_read_as_the_same_ones_of_a_text(kind: str) -> None:
    text = "The animal was too tired"
    text_tokens = tokenize(kind, text)

    generated_tokens = tokens_of_ids(model(kind), text_tokens.ids)

    expected = [label.lower() for label in text_tokens.labels]  # WordPiece is lower case
    assert [label.lower() for label in generated_tokens.labels] == expected
    assert generated_tokens.special == text_tokens.special
    inside = slice(2, -1)  # whether a space stands before the first token is not known
    assert generated_tokens.spaced[inside] == text_tokens.spaced[inside]


def test_what_goes_on_with_a_text_stands_behind_its_tokens() -> None:
    prompt = tokenize("bytes", "The animal")
    ids = tokenize("bytes", "The animal was").ids

    tokens = tokens_of_ids(model("bytes"), ids, prompt)

    assert tokens.text == "The animal"
    assert tokens.labels[: len(prompt)] == prompt.labels
    assert tokens.labels[len(prompt) :] == ("was",)
    assert tokens.ids == ids


class SlowTokenizer:
    """A tokenizer of Python code, which does not say where in a text its tokens stand."""

    is_fast = False
    mask_token_id = unk_token_id = bos_token_id = eos_token_id = pad_token_id = None
    all_special_ids: tuple[int, ...] = ()
    added_tokens_decoder: dict[int, Any] = {}
    words = ("the</w>", "ti", "##red", "▁it")

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        ids = list(range(len(self.words)))
        return {"input_ids": ids, "special_tokens_mask": [0] * len(ids)}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.words[each] for each in ids]


def test_a_tokenizer_that_does_not_say_where_tokens_stand_still_says_what_they_are() -> None:
    tokens = cut_text(
        LoadedTransformer("small", ModelWithoutPositions(), SlowTokenizer(), "float32"),
        "the tired it",
    )

    assert tokens.labels == ("the", "ti", "red", "it")
    assert tokens.spaced == (True, True, False, True)
