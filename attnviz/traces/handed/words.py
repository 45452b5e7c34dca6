"""The tokens of weights that are handed over: words, a tokenizer's own pieces, or ids."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from attnviz.errors import AttnvizError
from attnviz.tokens.gpt2 import spelled
from attnviz.tokens.tokens import Tokens, in_pieces, named, numbered
from attnviz.traces.handed.numbers import is_array, is_sequence
from attnviz.traces.handed.steps import chosen
from attnviz.traces.trained.pieces import END, REST, SPACE, Piece, Spelling, in_tokens, spelling_of

Written = Literal["ByteLevel", "▁", "##", "</w>"]  # how a vocabulary writes spaces, or words
IDS = 'give the list of tokens: tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])'
EMPTY = "⟨empty⟩"
BYTE_SPACES = ("Ġ", "Ċ")  # a space and a line break of byte-level vocabularies
# Tokens that stand for no letters of a text, as the vocabularies of well-known models write them.
SPECIAL = frozenset(
    (
        *("[CLS]", "[SEP]", "[PAD]", "[BOS]", "[EOS]"),
        *("<s>", "</s>", "<pad>", "<bos>", "<eos>", "<cls>", "<sep>"),
        *("<|endoftext|>", "<|startoftext|>", "<|startoftranscript|>", "<|pad|>"),
        *("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>"),
        *("<start_of_turn>", "<end_of_turn>"),
    )
)


def tokens_of(given: Any, count: int, tokenizer: Any, item: int | None) -> Tokens:
    """Tokens with labels for people; without any, as many numbers as there are."""
    if given is None:
        return numbered(count)
    if isinstance(given, Tokens):
        return given
    found = _listed(given, item)
    if tokenizer is not None and all(isinstance(each, int) for each in found):
        return _of_ids(found, tokenizer)
    words = [_word(each) or EMPTY for each in found]
    written = how_written(words)
    if written is not None:
        return _of_pieces(words, written)
    shown = named(words)
    if any(word[:1].isspace() for word in words):
        shown = _with_spaces(words, shown)
    added = (place for place, word in enumerate(words) if word in SPECIAL)
    return replace(shown, special=frozenset(added))


def numbered_alike(*every: Tokens) -> list[Tokens]:
    """The same with one id for each piece, in whichever of them it stands."""
    pieces = dict.fromkeys(piece for each in every for piece in each.pieces)
    ids = {piece: number for number, piece in enumerate(pieces)}
    return [replace(each, ids=tuple(ids[piece] for piece in each.pieces)) for each in every]


def _listed(given: Any, item: int | None) -> list[Any]:
    """One list of words, or of ids; of a batch the one that is looked at."""
    if isinstance(given, Mapping) and "input_ids" in given:  # as a tokenizer hands them back
        given = given["input_ids"]
    if isinstance(given, str | bytes) or not (is_array(given) or is_sequence(given)):
        raise AttnvizError(f"the tokens are {_told(given)}, and should be a list", IDS)
    found = given.tolist() if is_array(given) else list(given)
    if found and all(is_array(each) or isinstance(each, list | tuple) for each in found):
        found = [*found[chosen(item, len(found)).place]]
    found = [each.item() if is_array(each) and not each.shape else each for each in found]
    if not found:
        raise AttnvizError("there are no tokens", IDS)
    return [int(each) if isinstance(each, np.integer) else each for each in found]


def _told(given: Any) -> str:
    return "one text" if isinstance(given, str | bytes) else f"of type {type(given).__name__}"


def _word(given: Any) -> str:
    if isinstance(given, bytes):
        return given.decode(errors="replace")
    if isinstance(given, str):
        return given.encode(errors="replace").decode()  # half a character is none
    if isinstance(given, int) and not isinstance(given, bool):
        raise AttnvizError(
            "the tokens are ids, and nothing says what words they are",
            "give tokenizer as well, or the words: tokenizer.convert_ids_to_tokens(ids)",
            about="tokenizer",
        )
    raise AttnvizError(f"the tokens are a list that contains {type(given).__name__}", IDS)


def _with_spaces(words: Sequence[str], shown: Tokens) -> Tokens:
    """Pieces of a text that have the spaces before them."""
    return in_pieces("".join(words), shown.pieces, shown.ids)


def _of_ids(ids: Sequence[int], tokenizer: Any) -> Tokens:
    """Of transformers, or of tiktoken."""
    if hasattr(tokenizer, "decode_single_token_bytes"):
        pieces = [tokenizer.decode_single_token_bytes(each) for each in ids]
        return in_pieces(b"".join(pieces).decode(errors="replace"), pieces, [*ids])
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise AttnvizError(
            f"tokenizer is of type {type(tokenizer).__name__}, which cannot say what ids stand for",
            "give one of transformers or tiktoken, or the tokens as a list of words",
            about="tokenizer",
        )
    text = tokenizer.decode(ids, skip_special_tokens=True)
    return in_tokens(text, spelling_of(tokenizer).written(ids))


def how_written(words: Sequence[str]) -> Written | None:
    """How the vocabulary writes that pieces come from; None of plain words.

    >>> how_written(["The", "Ġanimal"]), how_written(["▁The", "n"]), how_written(["play", "##ed"])
    ('ByteLevel', '▁', '##')
    >>> how_written(["The", "animal"])
    """
    own = [word for word in words if word not in SPECIAL]
    if any(word.startswith(SPACE) for word in own):
        return "▁"
    if any(word.startswith(BYTE_SPACES) for word in own) and _are_bytes(own):
        return "ByteLevel"
    if any(len(word) > len(REST) and word.startswith(REST) for word in own[1:]):
        return "##"
    return "</w>" if any(word.endswith(END) for word in own) else None


def _are_bytes(words: Sequence[str]) -> bool:
    """Whether letters stand for bytes that make a text: Maltese, too, has words with Ġ."""
    known = {letter: byte for byte, letter in spelled().items()}
    letters = "".join(words)
    if not known.keys() >= {*letters}:
        return False
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(
            bytes(known[each] for each in letters)
        )
    except UnicodeDecodeError:
        return False
    return not any(unicodedata.category(each) == "Cc" and not each.isspace() for each in text)


@dataclass(frozen=True, eq=False)
class Listed:
    """Pieces of a vocabulary, to be asked as its tokenizer would be."""

    words: Sequence[str]  # an id is the first place of a piece
    written: Written
    mask_token_id = unk_token_id = bos_token_id = eos_token_id = pad_token_id = None
    added_tokens_decoder: Any = None

    @property
    def backend_tokenizer(self) -> Any:
        return SimpleNamespace(decoder=self.written, pre_tokenizer="")

    @property
    def all_special_ids(self) -> list[int]:
        return [number for number, word in enumerate(self.words) if word in SPECIAL]

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        return self.words[ids] if isinstance(ids, int) else [self.words[each] for each in ids]


def _of_pieces(words: Sequence[str], written: Written) -> Tokens:
    """Pieces as they stand in a vocabulary, in the letters that they stand for."""
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    pieces = Spelling(Listed([*ids], written, {})).written([ids[word] for word in words])
    if written == END:
        pieces = _after_ends(words, pieces)
    return in_tokens(_text(pieces), pieces)


def _after_ends(words: Sequence[str], pieces: Sequence[Piece]) -> list[Piece]:
    """Where a vocabulary marks the ends of words, a word begins after one."""
    before = ["", *words]
    return [
        replace(each, spaced=each.special or last in SPECIAL or last.endswith(END) or not last)
        for last, each in zip(before, pieces, strict=False)
    ]


def _text(pieces: Sequence[Piece]) -> str:
    """What they stand for together, but for what a tokenizer added."""
    own = [each for each in pieces if not each.special]
    parts = [b" " * (each.spaced and not each.letters[:1].isspace()) + each.letters for each in own]
    return b"".join(parts).decode(errors="replace").strip()
