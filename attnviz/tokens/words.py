"""Words and punctuation, or whatever white space leaves together."""

from __future__ import annotations

from hashlib import blake2b

import regex  # unlike `re` it knows marks (the vowels of Hindi) and whole emoji

from attnviz.tokens.tokens import Tokens

WORDS = regex.compile(r"[\w\p{M}]+(?:['’][\w\p{M}]+)*|(?!\s)\X")
SPACES = regex.compile(r"\S+")


def words(text: str) -> Tokens:
    """Words and punctuation marks: "Don't go!" -> "Don't", "go", "!"."""
    return _split(WORDS, text)


def spaces(text: str) -> Tokens:
    """Whatever stands between white space: "Don't go!" -> "Don't", "go!"."""
    return _split(SPACES, text)


def _split(pattern: regex.Pattern[str], text: str) -> Tokens:
    matches = list(pattern.finditer(text))
    pieces = tuple(match.group().encode() for match in matches)
    spaced = tuple(text[max(0, match.start() - 1) : match.start()].isspace() for match in matches)
    return Tokens(text, pieces, tuple(_number(piece) for piece in pieces), spaced)


def _number(word: bytes) -> int:
    """The same id for a word in every sentence, with no vocabulary to look it up in."""
    return int.from_bytes(blake2b(word, digest_size=4).digest(), "big")
