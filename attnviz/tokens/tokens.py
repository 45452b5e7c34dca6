"""Tokens: a text in pieces, each with an id and a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnviz.tokens.labels import label, phrase


@dataclass(frozen=True)
class Tokens:
    """A text in pieces.

    `pieces` are bytes, because a piece of a byte-level vocabulary may be less than a character;
    `spaced` says of each piece whether white space stands before its first visible character.
    """

    text: str
    pieces: tuple[bytes, ...]
    ids: tuple[int, ...]
    spaced: tuple[bool, ...]
    words: tuple[str, ...] = ()  # what people see, where somebody named the tokens
    special: frozenset[int] = frozenset()  # places of what a tokenizer added, as [CLS]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return self.words or tuple(label(piece) for piece in self.pieces)

    def find(self, wanted: str) -> tuple[int, ...]:
        """The positions, from 0, of every token that reads `wanted`, as a label or as written."""
        return tuple(
            position
            for position, (shown, piece) in enumerate(zip(self.labels, self.pieces, strict=True))
            if wanted == shown or wanted.strip().encode(errors="replace") == piece.strip()
        )


def in_pieces(text: str, pieces: Sequence[bytes], ids: Sequence[int]) -> Tokens:
    """The pieces of a byte-level vocabulary, which hold the spaces before them."""
    return Tokens(text, tuple(pieces), tuple(ids), tuple(each[:1].isspace() for each in pieces))


def named(words: Sequence[str]) -> Tokens:
    """Words that are tokens already; the same word has the same id.

    >>> named(["a", "b", "a"]).ids
    (0, 1, 0)
    """
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    pieces = tuple(word.encode(errors="replace") for word in words)
    shown = tuple(phrase(piece) for piece in pieces)
    numbers = tuple(map(ids.__getitem__, words))
    return Tokens(" ".join(words), pieces, numbers, (True,) * len(words), shown)


def numbered(count: int) -> Tokens:
    """Tokens that have no words: x1, x2, …"""
    return named([f"x{number}" for number in range(1, count + 1)])
