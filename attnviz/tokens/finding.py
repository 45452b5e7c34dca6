"""The token of a text that somebody means."""

from __future__ import annotations

from difflib import get_close_matches

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.wording.words import numbered

LISTED = 40  # tokens in a hint, at most
CHOICES = 8


def find_query(tokens: Tokens, wanted: str, option: str = "--query") -> int:
    """The position, from 0, of the token that is meant.

    By its word, by its number from 1, or by both as tables show them (`2 the`), which is never
    ambiguous; `it#2` is the second that reads `it`.
    """
    names = [numbered(str(place), label) for place, label in enumerate(tokens.labels, start=1)]
    if wanted in names:
        return names.index(wanted)
    found = tokens.find(wanted)
    if len(found) == 1:
        return found[0]
    if found:
        # The number alone would be taken for the word, if the word is a number.
        choices = [repr(names[place]) if wanted.isdigit() else str(place + 1) for place in found]
        raise AttnvizError(
            f"'{wanted}' occurs {len(found)} times in the sentence",
            f"give the number of one of them: {option} {' or '.join(choices[:CHOICES])}",
        )
    word, mark, which = wanted.rpartition("#")
    alike = tokens.find(word) if mark and which.isascii() and which.isdigit() else ()
    if alike:
        return _one_of(alike, word, which)
    number = wanted.lstrip("0")
    short = len(number) <= len(str(len(tokens)))  # thousands of digits would be no int
    if wanted.isascii() and number.isdigit() and short and int(number) <= len(tokens):
        return int(number) - 1
    raise AttnvizError(f"no token of the sentence is '{wanted}'", _tokens_listed(tokens, wanted))


def _one_of(places: tuple[int, ...], word: str, which: str) -> int:
    """The second of those that read alike, where the second is asked for."""
    wanted = int(which[:9])
    if 1 <= wanted <= len(places) and len(which) <= 9:
        return places[wanted - 1]
    times = "once" if len(places) == 1 else f"{len(places)} times"
    raise AttnvizError(
        f"'{word}' occurs {times} in the sentence, so it has no number {which[:9]}",
        f"try '{word}#{len(places)}'",
    )


def _tokens_listed(tokens: Tokens, wanted: str) -> str:
    nearest = get_close_matches(wanted, tokens.labels, n=1)
    question = f"did you mean '{nearest[0]}'? " if nearest else ""
    first = enumerate(tokens.labels[:LISTED], start=1)
    listed = ", ".join(f"{number} {label}" for number, label in first)
    rest = f", … {len(tokens)} in all" if len(tokens) > LISTED else ""
    only = "the only token is" if len(tokens) == 1 else "the tokens are"
    return f"{question}{only}: {listed}{rest}"
