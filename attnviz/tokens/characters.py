"""Simple tokenizers: characters, bytes, words, and text between white space."""

from __future__ import annotations

from hashlib import blake2b

import regex

from attnviz.tokens.tokens import Tokens

WORD_PATTERN = regex.compile(r"[\w\p{M}]+(?:['’][\w\p{M}]+)*|(?!\s)\X")
NON_SPACE_PATTERN = regex.compile(r"\S+")


def chars(text: str) -> Tokens:
    """Return the characters of a text as tokens; ids are code points."""
    pieces = tuple(character.encode() for character in text)
    return Tokens(text, pieces, tuple(map(ord, text)), (False,) * len(pieces))


def utf8_bytes(text: str) -> Tokens:
    """Return the UTF-8 bytes of a text as tokens; ids are their values."""
    ids = tuple(text.encode())
    return Tokens(text, tuple(bytes([byte]) for byte in ids), ids, (False,) * len(ids))


def words(text: str) -> Tokens:
    """Return the words and punctuation marks of a text: "Don't go!" -> "Don't", "go", "!"."""
    return _match_tokens(WORD_PATTERN, text)


def spaces(text: str) -> Tokens:
    """Return the parts of a text between white space: "Don't go!" -> "Don't", "go!"."""
    return _match_tokens(NON_SPACE_PATTERN, text)


def _match_tokens(pattern: regex.Pattern[str], text: str) -> Tokens:
    """Return a token for each match of a pattern, with a hash of its letters as its id."""
    matches = list(pattern.finditer(text))
    pieces = tuple(match.group().encode() for match in matches)
    spaced = tuple(text[max(0, match.start() - 1) : match.start()].isspace() for match in matches)
    return Tokens(text, pieces, tuple(_word_hash_id(piece) for piece in pieces), spaced)


def _word_hash_id(word: bytes) -> int:
    """Return an id that a word has in every text, without a vocabulary: 32 bits of its hash."""
    return int.from_bytes(blake2b(word, digest_size=4).digest(), "big")
