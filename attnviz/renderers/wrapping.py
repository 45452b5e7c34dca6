"""Sums in lines: their signs below each other, and long ones broken where a reader would."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from rich.cells import cell_len

from attnviz.wording.sums import Sum

OPERATOR = re.compile(r" (?=[+=≈/−-] )")
VECTOR = re.compile(r"\[[^\[\]]*\]")
VECTOR_OR_PARENTHESES = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")


def aligned(sums: Sequence[Sum]) -> Iterator[str]:
    """The sums as text in columns of equal letters, their first signs below each other."""
    width = max((cell_len(each.left) for each in sums), default=0)
    for each in sums:
        yield f"{each.left}{' ' * (width - cell_len(each.left))} = {each.right_side}"


def broken(text: str, fits: Callable[[str], bool], indent: str = "    ") -> Iterator[str]:
    """Lines that fit, from the second on indented.

    >>> list(broken("a = 0.5·2 + 0.25·4 = 2", lambda line: len(line) <= 14))
    ['a = 0.5·2', '    + 0.25·4', '    = 2']
    """
    while not fits(text):
        place = _last_place(text, fits, len(indent))
        yield text[:place].rstrip()
        text = indent + text[place:].lstrip()
    yield text


def _last_place(text: str, fits: Callable[[str], bool], indent: int) -> int:
    """Before a sign of the sum; else of one in parentheses; else between words; else anywhere."""
    start = indent + 1  # so that every line takes something of the sum
    outside, within = _operators(text, VECTOR_OR_PARENTHESES), _operators(text, VECTOR)
    for places in (outside, within, _spaces(text), range(start, len(text))):
        possible = [place for place in places if place >= start]
        # What begins a line that fits, fits: the last such place is found by halving.
        fitting = bisect_left(possible, True, key=lambda place: not fits(text[:place]))
        if fitting:
            return possible[fitting - 1]
    return max(start, 1)


def _operators(text: str, whole: re.Pattern[str]) -> Iterator[int]:
    """The signs that are in nothing that is better left whole."""
    inside = [match.span() for match in whole.finditer(text)]
    for match in OPERATOR.finditer(text):
        if not any(start < match.start() < stop for start, stop in inside):
            yield match.start()


def _spaces(text: str) -> Iterator[int]:
    return (match.start() for match in re.finditer(" ", text))
