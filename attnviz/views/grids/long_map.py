"""LongMap: a map of blocks of tokens, with what changes along the text beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from jaxtyping import Float

from attnviz.views.grids.grid import Grid
from attnviz.wording.numbers import percent_text

MAX_ROUND_NUMBERS = 7  # beside an axis
MAX_MARKS = 100  # of paragraphs, at an edge
ROUND_STEPS = (1, 2, 5)  # between them, times a power of ten


@dataclass(frozen=True, eq=False)
class Profile:
    """One number for each row of a map, such as the mean entropy of its queries."""

    name: str
    unit: str  # empty for shares, which are written in percent
    values: Float[np.ndarray, "row"]
    highest: float | None = None  # value that a chart has room for; None: nearly the largest

    @property
    def title(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def text(self, value: float) -> str:
        if not self.unit:
            return percent_text(value, 0 if value >= 0.01 else 1)
        return f"{value:,.1f}".removesuffix(".0") if value < 100 else f"{value:,.0f}"


@dataclass(frozen=True, eq=False)
class LongMap:
    """A map of blocks of tokens, whose axes count tokens and mark the paragraphs of the text."""

    grid: Grid  # a row for each block of queries, a column for each block of keys
    row_tokens: range  # positions from 0 of the queries of all rows together,
    column_tokens: range  # and of the keys of all columns
    profiles: tuple[Profile, ...] = ()  # beside the map
    paragraphs: tuple[int, ...] = ()  # the positions, from 0, at which paragraphs begin
    findings: tuple[str, ...] = ()  # what stands out in it, for the title of one among several


def round_positions(tokens: range, most: int = MAX_ROUND_NUMBERS) -> list[int]:
    """Return the first position and those with round numbers (from 1) that an axis of these tokens
    names: about `most` of them.

    >>> round_positions(range(131072))
    [0, 19999, 39999, 59999, 79999, 99999, 119999]
    >>> round_positions(range(1200, 1300))
    [1200, 1219, 1239, 1259, 1279, 1299]
    """
    power, steps = 1, list[int]()
    while power <= len(tokens):
        steps += [power * step for step in ROUND_STEPS]
        power *= 10
    step = next((each for each in steps if len(tokens) / each <= most), len(tokens))
    first = tokens.start // step * step + step - 1
    numbers = [position for position in range(first, tokens.stop, step) if position in tokens]
    if not numbers or numbers[0] - tokens.start > step // 2:
        numbers.insert(0, tokens.start)
    return numbers


def thinned_marks(
    positions: Sequence[int], tokens: range, most: int = MAX_MARKS
) -> tuple[list[int], int]:
    """Return the positions in an axis that are marked, every n-th one, so that they are at most
    `most`; and n.

    >>> thinned_marks([0, 10, 20, 30, 40], range(5, 50), 2)
    ([10, 30], 2)
    """
    inside = [position for position in positions if position in tokens]
    every = first_round_number(lambda step: len(inside) <= most * step)
    return inside[::every], every


def first_round_number(fits: Callable[[int], bool]) -> int:
    """Return the first of 1, 2, 5, 10, 20, 50 … that fits."""
    numbers = (step * int(10**power) for power in count() for step in ROUND_STEPS)
    return next(filter(fits, numbers))
