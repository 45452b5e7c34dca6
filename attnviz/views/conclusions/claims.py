"""When something may be said: findings, and claims about numbers drawn from seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis.measures import BAND, quantiles
from attnviz.wording.numbers import digits_apart, fixed_text, percent

FEWEST_SEEDS = 10  # of fewer, most may agree by chance
ALIKE = 0.005  # tokens, or shares of entropy: nobody sees a smaller difference
IN_BRACKETS = " in 8 of 10 seeds"
ONE_DRAW = "With this one draw of random numbers"

Seeds = Float[Tensor, "seed"]
Write = Callable[[float, int], str]


@dataclass(frozen=True)
class Amount:
    """How a measure is written: its numbers, in how many digits at least, and its unit."""

    write: Write
    digits: int
    unit: str = ""

    def __call__(self, number: float) -> str:
        return f"{self.write(number, self.digits)}{self.unit}"

    def same(self, one: float, other: float) -> bool:
        """Whether two numbers read the same, in no more digits than there must be."""
        return self(one) == self(other)

    def digits_for(self, one: float, other: float) -> int:
        return digits_apart(one, other, self.digits, self.write)

    def both(self, one: float, other: float) -> tuple[str, str]:
        """Two numbers, in digits that tell them apart."""
        digits = self.digits_for(one, other)
        return self.write(one, digits), self.write(other, digits)


TOKENS = Amount(fixed_text, 1, " tokens")
PRECISE_TOKENS = Amount(fixed_text, 2, " tokens")
SHARE = Amount(percent, 0, " of the largest entropy")


@dataclass(frozen=True, eq=False)
class Pair:
    """A number before and after something, seed by seed."""

    before: Seeds
    after: Seeds

    @property
    def alike(self) -> bool:
        """Whether nobody would see a difference, in 8 of 10 seeds and between the medians."""
        low, _, high = quantiles(self.after - self.before)
        before, after = self.medians
        return max(abs(low), abs(high), abs(after - before)) < ALIKE

    @property
    def hardly(self) -> int:
        """In how many seeds nobody would see a difference."""
        return int(((self.after - self.before).abs() < ALIKE).sum())

    @property
    def direction(self) -> int:
        """1 if it grows in 9 of 10 seeds, -1 if it shrinks, 0 if that cannot be told.

        The band of the differences has to lie on one side of 0, and the medians, which are
        printed, have to go the same way.
        """
        if len(self.before) < FEWEST_SEEDS:
            return 0
        (low, _, high), (before, after) = quantiles(self.after - self.before), self.medians
        up, down = (float(each.double().mean()) >= BAND[1] for each in self._ways)
        return 1 if up and low > 0 and after > before else -(down and high < 0 and after < before)

    @property
    def _ways(self) -> tuple[Bool[Tensor, "seed"], Bool[Tensor, "seed"]]:
        """Which seeds go up, and which go down."""
        return self.after > self.before, self.after < self.before

    @property
    def medians(self) -> tuple[float, float]:
        return quantiles(self.before)[1], quantiles(self.after)[1]

    def apart(self, amount: Amount) -> bool:
        """Whether one is more than the other, and reads as more."""
        before, after = self.told(amount)
        return bool(self.direction) and before != after

    def told(self, amount: Amount) -> tuple[str, str]:
        """Both medians, in digits that tell them apart."""
        return amount.both(*self.medians)

    def bands(self, amount: Amount) -> tuple[str, str]:
        """`2.3 (2.0–2.6)` and `3.1 tokens (2.8–3.3 in 8 of 10)`: before, after."""
        digits = amount.digits_for(*self.medians)
        after = _with_band(self.after, amount, digits, amount.unit, IN_BRACKETS)
        explained = "" if "(" in after else IN_BRACKETS  # once
        return _with_band(self.before, amount, digits, "", explained), after


def _with_band(numbers: Seeds, amount: Amount, digits: int, unit: str, explained: str) -> str:
    """The median, and in brackets between which numbers 8 of 10 lie, where these are not one."""
    low, high = (amount.write(each, digits) for each in _eight_of_ten(numbers))
    middle = amount.write(quantiles(numbers)[1], digits)
    return f"{middle}{unit}" + ("" if low == high else f" ({low}–{high}{explained})")


def _eight_of_ten(numbers: Seeds) -> tuple[float, float]:
    """Between which numbers at least so many lie: of 12 seeds, quantiles may leave out 4."""
    low, _, high = quantiles(numbers)
    inside = (numbers >= low) & (numbers <= high)
    if float(inside.double().mean()) >= BAND[1] - BAND[0]:
        return low, high
    out = int(BAND[0] * len(numbers))  # that may be left out at either end
    ordered = numbers.double().sort().values
    return float(ordered[out]), float(ordered[-1 - out])


def widest_told_apart(ways: Sequence[Seeds], amount: Amount) -> tuple[int, int] | None:
    """The two that differ most of those whose order is the same in 8 of 10 seeds: lower, higher."""
    found = []
    for one, other in combinations(range(len(ways)), 2):
        pair = Pair(ways[one], ways[other])
        if pair.apart(amount) and not pair.alike:
            before, after = pair.medians
            ordered = (one, other) if pair.direction > 0 else (other, one)
            found.append((abs(after - before), ordered))
    return max(found)[1] if found else None


Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Finding(Generic[Facts]):
    """What may be said of facts, and only where they make it true."""

    name: str
    holds: Callable[[Facts], bool]
    says: Callable[[Facts], str]
    title: Callable[[Facts], str] | None = None  # the same in as few words as stand over a picture


def otherwise(_: object) -> bool:
    """What is left when nothing before it could be said."""
    return True


def said(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    """The first that may be said."""
    return found(table, facts).says(facts)


def titled(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    """The same as a title."""
    finding = found(table, facts)
    return (finding.title or finding.says)(facts).rstrip(".")


def found(table: Sequence[Finding[Facts]], facts: Facts) -> Finding[Facts]:
    return next(each for each in table if each.holds(facts))
