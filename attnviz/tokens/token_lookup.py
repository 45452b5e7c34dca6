"""The token of a text that somebody means."""

from __future__ import annotations

from difflib import get_close_matches

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import numbered_label

MAX_LISTED_TOKENS = 40  # tokens in a hint, at most
MAX_NUMBER_CHOICES = 8


def find_query(tokens: Tokens, name: str, option: str = "--query") -> int:
    """The position, from 0, of the token that is meant.

    By its word, by its number from 1, or by both as tables show them (`2 the`), which is never
    ambiguous; `it#2` is the second that reads `it`.
    """
    numbered_labels = [
        numbered_label(str(position), label)
        for position, label in enumerate(tokens.labels, start=1)
    ]
    if name in numbered_labels:
        return numbered_labels.index(name)
    positions = tokens.find(name)
    if len(positions) == 1:
        return positions[0]
    if positions:
        # The number alone would be taken for the word, if the word is a number.
        choices = [
            repr(numbered_labels[position]) if name.isdigit() else str(position + 1)
            for position in positions
        ]
        raise AttnvizError(
            f"'{name}' occurs {len(positions)} times in the sentence",
            f"give the number of one of them: {option} {' or '.join(choices[:MAX_NUMBER_CHOICES])}",
        )
    word, mark, occurrence = name.rpartition("#")
    word_positions = (
        tokens.find(word) if mark and occurrence.isascii() and occurrence.isdigit() else ()
    )
    if word_positions:
        return _find_occurrence(word_positions, word, occurrence)
    number = name.lstrip("0")
    fits_length = len(number) <= len(str(len(tokens)))  # thousands of digits would be no int
    if name.isascii() and number.isdigit() and fits_length and int(number) <= len(tokens):
        return int(number) - 1
    raise AttnvizError(f"no token of the sentence is '{name}'", _tokens_hint(tokens, name))


def _find_occurrence(positions: tuple[int, ...], word: str, occurrence: str) -> int:
    """The second of those that read alike, where the second is asked for."""
    number = int(occurrence[:9])
    if 1 <= number <= len(positions) and len(occurrence) <= 9:
        return positions[number - 1]
    times = "once" if len(positions) == 1 else f"{len(positions)} times"
    raise AttnvizError(
        f"'{word}' occurs {times} in the sentence, so it has no number {occurrence[:9]}",
        f"try '{word}#{len(positions)}'",
    )


def _tokens_hint(tokens: Tokens, name: str) -> str:
    nearest = get_close_matches(name, tokens.labels, n=1)
    question = f"did you mean '{nearest[0]}'? " if nearest else ""
    first = enumerate(tokens.labels[:MAX_LISTED_TOKENS], start=1)
    listed = ", ".join(f"{number} {label}" for number, label in first)
    rest = f", … {len(tokens)} in all" if len(tokens) > MAX_LISTED_TOKENS else ""
    only = "the only token is" if len(tokens) == 1 else "the tokens are"
    return f"{question}{only}: {listed}{rest}"
