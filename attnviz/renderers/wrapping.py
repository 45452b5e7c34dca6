"""Sums in lines: their signs below each other, and long ones broken where a reader would."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from rich.cells import cell_len

from attnviz.wording.sums import Sum

FIRST_MEASURED_LETTERS = 64  # letters
OPERATOR_START = re.compile(r" (?=[+=≈/−-] )")
VECTOR_PATTERN = re.compile(r"\[[^\[\]]*\]")
VECTOR_OR_PARENTHESES = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")


def align_sums(sums: Sequence[Sum]) -> Iterator[str]:
    """The sums as text in columns of equal letters, their first signs below each other."""
    width = max((cell_len(sum_line.left) for sum_line in sums), default=0)
    for sum_line in sums:
        yield f"{sum_line.left}{' ' * (width - cell_len(sum_line.left))} = {sum_line.right_side}"


def break_sum(text: str, fits: Callable[[str], bool], indent: str = "    ") -> Iterator[str]:
    """Lines that fit, from the second on indented.

    >>> list(break_sum("a = 0.5·2 + 0.25·4 = 2", lambda line: len(line) <= 14))
    ['a = 0.5·2', '    + 0.25·4', '    = 2']
    """
    while (letters := _overflowing_letters(text, fits)) is not None:
        break_position = _last_break(text[: 2 * letters], fits, len(indent), whole=text)
        yield text[:break_position].rstrip()
        text = indent + text[break_position:].lstrip()
    yield text


def _overflowing_letters(text: str, fits: Callable[[str], bool]) -> int | None:
    """A number of letters that do not fit, where nobody measures more than a line or two of them.

    None: all fit.
    """
    letters = FIRST_MEASURED_LETTERS
    while letters < len(text):
        if not fits(text[:letters]):
            return letters
        letters *= 2
    return None if fits(text) else len(text)


def _last_break(text: str, fits: Callable[[str], bool], indent: int, *, whole: str) -> int:
    """Before a sign of the sum; else of one in parentheses; else between words; else anywhere.

    The text is the beginning of a whole that goes on, with vectors that may end there.
    """
    start = indent + 1  # so that every line takes something of the sum
    outside, within = (
        _operator_positions(text, kept_together, whole)
        for kept_together in (VECTOR_OR_PARENTHESES, VECTOR_PATTERN)
    )
    for positions in (outside, within, _space_positions(text), range(start, len(text))):
        possible_positions = [position for position in positions if position >= start]
        # What begins a line that fits, fits: the last such place is found by halving.
        fitting = bisect_left(
            possible_positions, True, key=lambda position: not fits(text[:position])
        )
        if fitting:
            return possible_positions[fitting - 1]
    return max(start, 1)


def _operator_positions(text: str, kept_together: re.Pattern[str], whole: str) -> Iterator[int]:
    """The signs that are in nothing that is better kept together."""
    spans = (match.span() for match in kept_together.finditer(whole))
    inside = list(takewhile(lambda span: span[0] < len(text), spans))
    for match in OPERATOR_START.finditer(text):
        if not any(start < match.start() < stop for start, stop in inside):
            yield match.start()


def _space_positions(text: str) -> Iterator[int]:
    return (match.start() for match in re.finditer(" ", text))
