"""Sums in lines: their signs below each other, and long ones broken where a reader would."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from rich.cells import cell_len

from attnviz.wording.sums import Sum

FEW = 64  # letters
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
    while (letters := _too_many(text, fits)) is not None:
        place = _last_place(text[: 2 * letters], fits, len(indent), whole=text)
        yield text[:place].rstrip()
        text = indent + text[place:].lstrip()
    yield text


def _too_many(text: str, fits: Callable[[str], bool]) -> int | None:
    """A number of letters that do not fit, where nobody measures more than a line or two of them.

    None: all fit.
    """
    letters = FEW
    while letters < len(text):
        if not fits(text[:letters]):
            return letters
        letters *= 2
    return None if fits(text) else len(text)


def _last_place(text: str, fits: Callable[[str], bool], indent: int, *, whole: str) -> int:
    """Before a sign of the sum; else of one in parentheses; else between words; else anywhere.

    The text is the beginning of a whole that goes on, with vectors that may end there.
    """
    start = indent + 1  # so that every line takes something of the sum
    outside, within = (_operators(text, each, whole) for each in (VECTOR_OR_PARENTHESES, VECTOR))
    for places in (outside, within, _spaces(text), range(start, len(text))):
        possible = [place for place in places if place >= start]
        # What begins a line that fits, fits: the last such place is found by halving.
        fitting = bisect_left(possible, True, key=lambda place: not fits(text[:place]))
        if fitting:
            return possible[fitting - 1]
    return max(start, 1)


def _operators(text: str, kept: re.Pattern[str], whole: str) -> Iterator[int]:
    """The signs that are in nothing that is better kept together."""
    spans = (match.span() for match in kept.finditer(whole))
    inside = list(takewhile(lambda span: span[0] < len(text), spans))
    for match in OPERATOR.finditer(text):
        if not any(start < match.start() < stop for start, stop in inside):
            yield match.start()


def _spaces(text: str) -> Iterator[int]:
    return (match.start() for match in re.finditer(" ", text))
