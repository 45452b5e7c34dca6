"""Tokens: a text in pieces, each with an id and a printable label."""

from __future__ import annotations

import codecs
import re
import reprlib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, overload

from attnviz.errors import AttnvizError
from attnviz.wording.keywords import with_checked_arguments
from attnviz.wording.printable import SPACE_SIGN, visible_text
from attnviz.wording.words import counted

_INNER_SPACE_PATTERN = re.compile(rf"(?<=\w){SPACE_SIGN}(?=\w)")


@dataclass(frozen=True, repr=False)
class Tokens:
    """A text in pieces.

    `pieces` are bytes, because a piece of a byte-level vocabulary may be less than a character;
    `spaced`: whether there is white space before each piece's first visible character.
    """

    text: str
    pieces: tuple[bytes, ...]
    ids: tuple[int, ...]
    spaced: tuple[bool, ...]
    words: tuple[str, ...] = ()  # the labels, if they differ from those of the pieces
    special: frozenset[int] = frozenset()  # positions of tokens such as [CLS]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        """Yield the label of each token."""
        return iter(self.labels)

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[str, ...]: ...
    @with_checked_arguments
    def __getitem__(self, key: Any) -> Any:
        """Return the label of a token by its position, from 0, or the labels in a slice."""
        try:
            return self.labels[key]
        except IndexError:
            last = len(self) - 1
            problem = f"there is no token {key}: the last one is {last}"
            raise AttnvizError(problem, f"try tokens[{last}]") from None
        except (TypeError, ValueError):
            problem = f"{reprlib.repr(key)} is no position of a token"
            raise AttnvizError(problem, "try tokens[0], or tokens[1:3]") from None

    def __repr__(self) -> str:
        """Return a line like `<Tokens 'I am': 2 tokens>`."""
        return f"<Tokens {reprlib.repr(self.text)}: {counted(len(self), 'token')}>"

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A printable label of each token: `words` if given, else made of the pieces."""
        return self.words or tuple(piece_label(piece) for piece in self.pieces)

    def find(self, word: str) -> tuple[int, ...]:
        """Return the positions, from 0, of every token whose label or text is `word`."""
        encoded = word.strip().encode(errors="replace")
        return tuple(
            position
            for position, (label, piece) in enumerate(zip(self.labels, self.pieces, strict=True))
            if word == label or encoded == piece.strip()
        )


def tokens_of_bytes(text: str, pieces: Sequence[bytes], ids: Sequence[int]) -> Tokens:
    """Return Tokens of a byte-level vocabulary, whose pieces include the space before them."""
    return Tokens(text, tuple(pieces), tuple(ids), tuple(piece[:1].isspace() for piece in pieces))


def tokens_of_words(words: Sequence[str]) -> Tokens:
    """Return Tokens of words, one each; the same word has the same id.

    >>> tokens_of_words(["a", "b", "a"]).ids
    (0, 1, 0)
    """
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    pieces = tuple(word.encode(errors="replace") for word in words)
    labels = tuple(piece_phrase(piece) for piece in pieces)
    numbers = tuple(map(ids.__getitem__, words))
    return Tokens(" ".join(words), pieces, numbers, (True,) * len(words), labels)


def numbered_tokens(count: int) -> Tokens:
    """Return Tokens named x1, x2, …, for matrices without words."""
    return tokens_of_words([f"x{number}" for number in range(1, count + 1)])


def piece_label(piece: bytes) -> str:
    """Return the label of a piece: never empty, without control characters and mojibake.

    >>> [piece_label(piece) for piece in (b" learning", b"  ", b"a\\n", b" \\xe6\\x97", b"\\x1b")]
    ['learning', '␣', 'a↵', '⟨e6⟩⟨97⟩', '\\\\u001b']
    """
    text = piece.decode(errors="attnviz.bytes")
    label = visible_text(text[1:] if text.startswith(" ") and len(text) > 1 else text)
    # Without ◌, a combining mark would be drawn over the character printed before it.
    return f"◌{label}" if unicodedata.category(label[0]).startswith("M") else label


@lru_cache(maxsize=2**14)
def piece_phrase(piece: bytes) -> str:
    """Return the label of a piece, with plain spaces instead of ␣ between words.

    >>> piece_phrase(b"Input 1")
    'Input 1'
    """
    return _INNER_SPACE_PATTERN.sub(" ", piece_label(piece))


def _bytes_in_brackets(error: UnicodeError) -> tuple[str, int]:
    """Return bytes that are not UTF-8 as `⟨e6⟩⟨97⟩`: an error handler for `bytes.decode`."""
    assert isinstance(error, UnicodeDecodeError)
    broken = error.object[error.start : error.end]
    return "".join(f"⟨{byte:02x}⟩" for byte in broken), error.end


codecs.register_error("attnviz.bytes", _bytes_in_brackets)
