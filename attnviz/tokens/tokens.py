"""Tokens: a text in pieces, each with an id and a printable label."""

from __future__ import annotations

import codecs
import re
import reprlib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any, overload

from attnviz.errors import AttnvizError, opt
from attnviz.wording.keywords import with_checked_arguments
from attnviz.wording.printable import SPACE_SIGN, visible_text
from attnviz.wording.words import counted, numbered_label

EMPTY_LABEL = "∅"  # of a token without a text
MAX_LISTED_TOKENS = 40  # in a hint
MAX_NUMBER_CHOICES = 8
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
    read: str = ""  # what was cut, if that is not the text: a conversation in its template,
    roles: tuple[tuple[str, int, int], ...] = ()  # and who wrote which of its letters
    # The letters of each token in what was cut, if its tokenizer says so.
    spans: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Keep a string of NumPy as one of Python, which is printed as such."""
        object.__setattr__(self, "text", str(self.text))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        """Yield the label of each token."""
        return iter(self.labels)

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: str) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[str, ...]: ...
    @with_checked_arguments
    def __getitem__(self, key: Any) -> Any:
        """Return the label of a token by its position, from 0, or the labels in a slice; of a word
        its position, as `index` does."""
        if isinstance(key, str):
            return self.index(key)
        try:
            return self.labels[key]
        except IndexError:
            last = len(self) - 1
            problem = f"there is no token {key}: the last one is {last}"
            raise AttnvizError(problem, f"try tokens[{last}]") from None
        except (TypeError, ValueError):
            problem = f"{reprlib.repr(key)} is no position of a token"
            raise AttnvizError(problem, 'try tokens[0], tokens[1:3], or tokens["it"]') from None

    def __repr__(self) -> str:
        """Return a line like `<Tokens 'I am': 2 tokens>`."""
        return f"<Tokens {reprlib.repr(self.text)}: {counted(len(self), 'token')}>"

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A printable label of each token: `words` if given, else made of the pieces."""
        if self.words:
            return self.words
        label_of = {piece: piece_label(piece) for piece in set(self.pieces)}
        return tuple(label_of[piece] for piece in self.pieces)

    def find(self, word: str) -> tuple[int, ...]:
        """Return the positions, from 0, of every token whose label or text is `word`."""
        encoded = word.strip().encode(errors="replace")
        return tuple(
            position
            for position, (label, piece) in enumerate(zip(self.labels, self.pieces, strict=True))
            if word == label or encoded == piece.strip()
        )

    @with_checked_arguments
    def index(self, name: int | str, option: str = "") -> int:
        """Return the position, from 0, of the token that `name` means: `tokens.index("it")`

        A number is a position from 0, or below 0 from the end. A text is what a command takes: the
        token's word, its number from 1, or both as tables show them (`2 the`), which is never
        ambiguous; `-1` is the last token, `it#2` the second token `it`. A word comes before a
        number. Refuses what means no token or several, with a hint about the keyword `option`, such
        as "query".
        """
        keyword = f"{option}=" if option else ""
        if isinstance(name, int):
            if -len(self) <= name < len(self):
                return name % len(self)
            last = len(self) - 1
            numbers = f"0 to {last}" if last else "number 0"
            problem = f"{keyword or 'position '}{name}: the text has {counted(len(self), 'token')}"
            raise AttnvizError(f"{problem}, {numbers}", f"try {keyword}{last}, or -1 for the last")
        number = name.partition(" ")[0]
        if number.isascii() and number.isdigit() and len(number) <= len(str(len(self))):
            position = int(number) - 1
            if position in range(len(self)) and name == self._numbered_label(position):
                return position
        positions = self.find(name)
        if len(positions) == 1:
            return positions[0]
        if positions:
            typed = [self.as_typed(position) for position in positions[:MAX_NUMBER_CHOICES]]
            typed = [each if each.isdigit() else repr(each) for each in typed]
            others = "".join(f" or {each}" for each in typed[1:])
            numbers = " or ".join(map(str, positions[:MAX_NUMBER_CHOICES]))
            raise AttnvizError(
                f"'{name}' occurs {len(positions)} times in the sentence",
                f"give the number of one of them: {opt[option]:{typed[0]}}{others}",
                python_hint=f"give the position of one of them: {keyword}{numbers}",
            )
        word, mark, occurrence = name.rpartition("#")
        is_occurrence = mark and occurrence.isascii() and occurrence.isdigit()
        if is_occurrence and (positions := self.find(word)):
            return _find_occurrence(positions, word, occurrence)
        sign, number = name[: name.startswith("-")], name.removeprefix("-").lstrip("0")
        fits_length = len(number) <= len(str(len(self)))  # int() refuses thousands of digits
        if name.isascii() and number.isdigit() and fits_length and int(number) <= len(self):
            return len(self) - int(number) if sign else int(number) - 1
        hints = (self._hint(name, start) for start in (1, 0))  # commands count from 1
        raise AttnvizError(
            f"no token of the sentence is '{name}'", next(hints), python_hint=next(hints)
        )

    def as_typed(self, name: int | str) -> str:
        """Return what a command takes for a token: a text as it is, of a position (from 0) the
        number from 1, with its label if a word of the sentence is that number.

        >>> tokens_of_words(["I", "am", "2"]).as_typed(-1), tokens_of_words(["2", "I"]).as_typed(1)
        ('3', '2 I')
        """
        if isinstance(name, str):
            return name
        position = self.index(name)
        number = str(position + 1)
        return self._numbered_label(position) if self.find(number) else number

    def _numbered_label(self, position: int) -> str:
        return numbered_label(str(position + 1), self.labels[position])

    def _hint(self, name: str, start: int) -> str:
        """Return a hint that lists the tokens, with numbers that begin with `start`, after the one
        that is most like `name`, if any."""
        nearest = get_close_matches(name, self.labels, n=1)
        question = f"did you mean '{nearest[0]}'? " if nearest else ""
        first = enumerate(self.labels[:MAX_LISTED_TOKENS], start)
        tokens_text = ", ".join(f"{number} {label}" for number, label in first)
        rest_text, last = "", len(self) - 1
        if last >= MAX_LISTED_TOKENS:
            rest_text = f", …, {last + start} {self.labels[last]} (the last, also -1)"
        only = "the only token is" if len(self) == 1 else "the tokens are"
        return f"{question}{only}: {tokens_text}{rest_text}"


def _find_occurrence(positions: tuple[int, ...], word: str, occurrence: str) -> int:
    """Return the position of one occurrence of `word`, of those in `positions`.

    `occurrence` is its number as text, from "1" on; refuses a number beyond the last.
    """
    number = int(occurrence[:9])
    if 1 <= number <= len(positions) and len(occurrence) <= 9:
        return positions[number - 1]
    times = "once" if len(positions) == 1 else f"{len(positions)} times"
    raise AttnvizError(
        f"'{word}' occurs {times} in the sentence, so it has no number {occurrence[:9]}",
        f"try '{word}#{len(positions)}'",
    )


def tokens_of_bytes(text: str, pieces: Sequence[bytes], ids: Sequence[int]) -> Tokens:
    """Return Tokens of a byte-level vocabulary, whose pieces include the space before them."""
    starts_word = {piece: piece[:1].isspace() for piece in set(pieces)}
    return Tokens(text, tuple(pieces), tuple(ids), tuple(starts_word[piece] for piece in pieces))


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
    >>> piece_label(b"")
    '∅'
    """
    if not piece:  # of a damaged vocabulary
        return EMPTY_LABEL
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
