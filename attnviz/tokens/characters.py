"""One token for each character, or for each byte of UTF-8."""

from __future__ import annotations

from attnviz.tokens.tokens import Tokens


def chars(text: str) -> Tokens:
    """A character is a token, and its code point the id."""
    pieces = tuple(character.encode() for character in text)
    return Tokens(text, pieces, tuple(map(ord, text)), (False,) * len(pieces))


def utf8_bytes(text: str) -> Tokens:
    """A byte is a token, and its value the id."""
    ids = tuple(text.encode())
    return Tokens(text, tuple(bytes([byte]) for byte in ids), ids, (False,) * len(ids))
