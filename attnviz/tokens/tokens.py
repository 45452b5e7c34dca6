"""Tokens: a text in pieces, each with an id and a label that can be printed anywhere."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnviz.wording.printable import SPACE_SIGN, visible_text


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
        return self.words or tuple(piece_label(piece) for piece in self.pieces)

    def find(self, word: str) -> tuple[int, ...]:
        """The positions, from 0, of every token that reads `word`, as a label or as written."""
        return tuple(
            position
            for position, (shown_label, piece) in enumerate(
                zip(self.labels, self.pieces, strict=True)
            )
            if word == shown_label or word.strip().encode(errors="replace") == piece.strip()
        )


def tokens_of_bytes(text: str, pieces: Sequence[bytes], ids: Sequence[int]) -> Tokens:
    """The pieces of a byte-level vocabulary, which hold the spaces before them."""
    return Tokens(text, tuple(pieces), tuple(ids), tuple(piece[:1].isspace() for piece in pieces))


def tokens_of_words(words: Sequence[str]) -> Tokens:
    """Words that are tokens already; the same word has the same id.

    >>> tokens_of_words(["a", "b", "a"]).ids
    (0, 1, 0)
    """
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    pieces = tuple(word.encode(errors="replace") for word in words)
    labels = tuple(piece_phrase(piece) for piece in pieces)
    numbers = tuple(map(ids.__getitem__, words))
    return Tokens(" ".join(words), pieces, numbers, (True,) * len(words), labels)


def numbered_tokens(count: int) -> Tokens:
    """Tokens that have no words: x1, x2, …"""
    return tokens_of_words([f"x{number}" for number in range(1, count + 1)])


_BETWEEN_WORDS = re.compile(rf"(?<=\w){SPACE_SIGN}(?=\w)")  # `Input 1` is read as it is written


def piece_label(piece: bytes) -> str:
    """What people see of a piece: never empty, never a control character, never mojibake.

    >>> piece_label(b" learning"), piece_label(b"  "), piece_label(b"a\\n"), piece_label(b" \\xe6\\x97"), piece_label(b"\\x1b")
    ('learning', '␣', 'a↵', '⟨e6⟩⟨97⟩', '\\\\u001b')
    """
    text = piece.decode(errors="attnviz.bytes")
    printable_text = visible_text(text[1:] if text.startswith(" ") and len(text) > 1 else text)
    # A combining mark of its own would climb onto whatever is printed before it.
    return (
        f"◌{printable_text}"
        if unicodedata.category(printable_text[0]).startswith("M")
        else printable_text
    )


def piece_phrase(piece: bytes) -> str:
    """A label in which spaces between words are spaces.

    >>> piece_phrase(b"Input 1")
    'Input 1'
    """
    return _BETWEEN_WORDS.sub(" ", piece_label(piece))


def _bytes_in_brackets(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    broken = error.object[error.start : error.end]
    return "".join(f"⟨{byte:02x}⟩" for byte in broken), error.end


codecs.register_error("attnviz.bytes", _bytes_in_brackets)
