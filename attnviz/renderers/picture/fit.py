"""Searches for what fits: the first or the best of some choices, the largest length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Choice = TypeVar("Choice")

LEAST_LENGTH = 0.001  # inches
HALVINGS = 9
SMALLER_STEP = 0.93  # from one size that is tried to the next


def first_fit(choices: Iterable[Choice], fits: Callable[[Choice], bool]) -> Choice:
    """Return the first choice for which `fits` is true; the last choice if there is none.

    >>> first_fit([5, 3, 1], lambda size: size < 4), first_fit([5, 3], lambda size: size < 2)
    (3, 3)
    """
    for choice in choices:
        if fits(choice):
            break
    return choice


def fill_lines(
    choices: Sequence[Choice], width: Callable[[Choice], float], room: float
) -> list[list[Choice]]:
    """Return things in lines, each of as many as have room beside each other, and at least of one.

    >>> fill_lines(["one", "two", "three"], len, 6)
    [['one', 'two'], ['three']]
    """
    lines, used = list[list[Choice]](), 0.0
    for choice in choices:
        needed = width(choice)
        if not lines or used + needed > room:
            lines.append([])
            used = 0.0
        lines[-1].append(choice)
        used += needed
    return lines


def smaller_sizes(largest: float, smallest: float, share: float = SMALLER_STEP) -> Iterator[float]:
    """Yield sizes from `largest` down to `smallest`, each `share` times the one before; `smallest`
    last.

    >>> list(smaller_sizes(8.0, 3.0, 0.5))
    [8.0, 4.0, 3.0]
    """
    size = largest
    while size > smallest:
        yield size
        size *= share
    yield smallest


def largest_length(fits: Callable[[float], bool], limit: float) -> float:
    """Return about the largest length, at most `limit`, for which `fits` is true, found by halving.

    Where nothing fits it is 0.001.
    """
    if fits(limit):
        return limit
    low, high = LEAST_LENGTH, limit
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
