"""Sums as lines of text: aligned at their first signs, and broken before a sign."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from rich.cells import cell_len

from attnviz.wording.sums import Sum

FIRST_MEASURED_LETTERS = 64
OPERATOR_START = re.compile(r" (?=[+=≈/−-] )")
VECTOR_PATTERN = re.compile(r"\[[^\[\]]*\]")
VECTOR_OR_PARENTHESES = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")


def align_sums(sums: Sequence[Sum]) -> Iterator[str]:
    """Yield the sums as text, with their first equals signs below each other."""
    width = max((cell_len(sum_line.left) for sum_line in sums), default=0)
    for sum_line in sums:
        yield f"{sum_line.left}{' ' * (width - cell_len(sum_line.left))} = {sum_line.right_side}"


def break_sum(text: str, fits: Callable[[str], bool], indent: str = "    ") -> Iterator[str]:
    """Yield a sum as lines for which `fits` is true, broken before signs where possible.

    All lines but the first begin with `indent`.

    >>> list(break_sum("a = 0.5·2 + 0.25·4 = 2", lambda line: len(line) <= 14))
    ['a = 0.5·2', '    + 0.25·4', '    = 2']
    """
    while (letters := _overflowing_letters(text, fits)) is not None:
        break_position = _last_break(text[: 2 * letters], fits, len(indent), whole=text)
        yield text[:break_position].rstrip()
        text = indent + text[break_position:].lstrip()
    yield text


def _overflowing_letters(text: str, fits: Callable[[str], bool]) -> int | None:
    """Return a number of first letters that do not fit on a line, or None if all fit.

    At most about twice the letters of a line are measured.
    """
    letters = FIRST_MEASURED_LETTERS
    while letters < len(text):
        if not fits(text[:letters]):
            return letters
        letters *= 2
    return None if fits(text) else len(text)


def _last_break(text: str, fits: Callable[[str], bool], indent: int, *, whole: str) -> int:
    """Return the last position at which a line that fits can end; at least a letter is taken.

    That is before a sign of the sum, else before one in parentheses, else between words, else
    anywhere. `text` is the beginning of `whole`, whose vectors may end after it.
    """
    start = indent + 1  # so that every line takes a letter of the sum
    outside, within = (
        _operator_positions(text, kept_together, whole)
        for kept_together in (VECTOR_OR_PARENTHESES, VECTOR_PATTERN)
    )
    spaces = (match.start() for match in re.finditer(" ", text))
    for positions in (outside, within, spaces, range(start, len(text))):
        breaks = [position for position in positions if position >= start]
        # The beginning of a line that fits, fits too: so the last break is found by bisection.
        fitting = bisect_left(breaks, True, key=lambda position: not fits(text[:position]))
        if fitting:
            return breaks[fitting - 1]
    return max(start, 1)


def _operator_positions(text: str, kept_together: re.Pattern[str], whole: str) -> Iterator[int]:
    """Yield the positions of signs outside everything that `kept_together` matches in `whole`."""
    spans = (match.span() for match in kept_together.finditer(whole))
    inside = list(takewhile(lambda span: span[0] < len(text), spans))
    for match in OPERATOR_START.finditer(text):
        if not any(start < match.start() < stop for start, stop in inside):
            yield match.start()
