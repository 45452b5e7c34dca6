"""Simple tokenizers: characters, bytes, words, and what white space separates."""

from __future__ import annotations

from hashlib import blake2b

import regex

from attnviz.tokens.tokens import Tokens


def chars(text: str) -> Tokens:
    """A character is a token, and its code point the id."""
    pieces = tuple(character.encode() for character in text)
    return Tokens(text, pieces, tuple(map(ord, text)), (False,) * len(pieces))


def utf8_bytes(text: str) -> Tokens:
    """A byte is a token, and its value the id."""
    ids = tuple(text.encode())
    return Tokens(text, tuple(bytes([byte]) for byte in ids), ids, (False,) * len(ids))


WORD_PATTERN = regex.compile(r"[\w\p{M}]+(?:['’][\w\p{M}]+)*|(?!\s)\X")
NON_SPACE_PATTERN = regex.compile(r"\S+")


def words(text: str) -> Tokens:
    """Words and punctuation marks: "Don't go!" -> "Don't", "go", "!"."""
    return _match_tokens(WORD_PATTERN, text)


def spaces(text: str) -> Tokens:
    """Whatever stands between white space: "Don't go!" -> "Don't", "go!"."""
    return _match_tokens(NON_SPACE_PATTERN, text)


def _match_tokens(pattern: regex.Pattern[str], text: str) -> Tokens:
    matches = list(pattern.finditer(text))
    pieces = tuple(match.group().encode() for match in matches)
    spaced = tuple(text[max(0, match.start() - 1) : match.start()].isspace() for match in matches)
    return Tokens(text, pieces, tuple(_word_hash_id(piece) for piece in pieces), spaced)


def _word_hash_id(word: bytes) -> int:
    """The same id for a word in every sentence, with no vocabulary to look it up in."""
    return int.from_bytes(blake2b(word, digest_size=4).digest(), "big")
