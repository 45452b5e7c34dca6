"""Planes: two vectors in the one plane that holds both, with their lengths and their angle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PARALLEL = 1e-9  # as far as this from 1 a cosine may be for two vectors to lie on one line


@dataclass(frozen=True)
class Arrow:
    """One of the two vectors: what it is called, and how long it is, as a number and as written."""

    name: str
    length: float
    written: str


@dataclass(frozen=True)
class Plane:
    """Two vectors as they lie to each other, whatever the width that they come from.

    There is no angle where one of them has no length.
    """

    title: str
    arrows: tuple[Arrow, Arrow]
    cosine: float | None
    angle: str  # as it is written; empty where there is none

    @property
    def on_a_line(self) -> bool:
        """Whether they point the same way, or opposite ways."""
        return self.cosine is not None and 1 - abs(self.cosine) < PARALLEL

    @property
    def tips(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Where the two end that begin at (0, 0), the first of them lying to the right."""
        first, second = self.arrows
        cosine = 1.0 if self.cosine is None else self.cosine
        sine = 0.0 if self.on_a_line else math.sqrt(1 - cosine**2)
        return (first.length, 0.0), (second.length * cosine, second.length * sine)


def cosine_of(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The cosine of the angle between two vectors, unless one of them has no length.

    >>> cosine_of([3.0, 4.0], [4.0, 3.0]), cosine_of([1.0], [-2.0]), cosine_of([0.0], [1.0])
    (0.96, -1.0, None)
    """
    lengths = length_of(first), length_of(second)
    if not all(lengths):
        return None
    if not math.prod(lengths):  # too small to be multiplied: the angle is that of longer ones
        return cosine_of(_as_long_as_1(first), _as_long_as_1(second))
    products = math.fsum(one * other for one, other in zip(first, second, strict=True))
    return min(max(products / math.prod(lengths), -1.0), 1.0)


def _as_long_as_1(vector: Sequence[float]) -> list[float]:
    return [number / length_of(vector) for number in vector]


def length_of(vector: Sequence[float]) -> float:
    """
    >>> length_of([3.0, 4.0])
    5.0
    """
    return math.hypot(*vector)
