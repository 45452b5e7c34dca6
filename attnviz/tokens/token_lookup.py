"""Looks up the token of a text by its word or number."""

from __future__ import annotations

from difflib import get_close_matches

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import numbered_label

MAX_LISTED_TOKENS = 40  # in a hint
MAX_NUMBER_CHOICES = 8


def find_query(tokens: Tokens, name: str, option: str = "--query") -> int:
    """Return the position, from 0, of the token that `name` means.

    A name is the token's word, its number from 1, or both as tables show them (`2 the`), which is
    never ambiguous; `it#2` is the second token `it`. A word comes before a number. Refuses a name
    of no token or of several, with a hint about `option`.
    """
    labels = [numbered_label(str(number), label) for number, label in enumerate(tokens.labels, 1)]
    if name in labels:
        return labels.index(name)
    positions = tokens.find(name)
    if len(positions) == 1:
        return positions[0]
    if positions:
        # Where the word is a number, the position alone would be taken for the word.
        choices = [repr(labels[i]) if name.isdigit() else str(i + 1) for i in positions]
        raise AttnvizError(
            f"'{name}' occurs {len(positions)} times in the sentence",
            f"give the number of one of them: {option} {' or '.join(choices[:MAX_NUMBER_CHOICES])}",
        )
    word, mark, occurrence = name.rpartition("#")
    is_occurrence = mark and occurrence.isascii() and occurrence.isdigit()
    if is_occurrence and (positions := tokens.find(word)):
        return _find_occurrence(positions, word, occurrence)
    number = name.lstrip("0")
    fits_length = len(number) <= len(str(len(tokens)))  # int() refuses thousands of digits
    if name.isascii() and number.isdigit() and fits_length and int(number) <= len(tokens):
        return int(number) - 1
    raise AttnvizError(f"no token of the sentence is '{name}'", _tokens_hint(tokens, name))


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


def _tokens_hint(tokens: Tokens, name: str) -> str:
    """Return a hint that lists the tokens, after the one that is most like `name`, if any."""
    nearest = get_close_matches(name, tokens.labels, n=1)
    question = f"did you mean '{nearest[0]}'? " if nearest else ""
    first = enumerate(tokens.labels[:MAX_LISTED_TOKENS], start=1)
    tokens_text = ", ".join(f"{number} {label}" for number, label in first)
    rest_text = f", … {len(tokens)} in all" if len(tokens) > MAX_LISTED_TOKENS else ""
    only = "the only token is" if len(tokens) == 1 else "the tokens are"
    return f"{question}{only}: {tokens_text}{rest_text}"
