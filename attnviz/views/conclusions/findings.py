"""Findings, which pair a sentence with its condition, and claims about numbers over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.measures import QUANTILE_BAND, band_quantiles
from attnviz.wording.numbers import digits_apart, fixed_text, percent_text

MIN_SEEDS_TO_CONCLUDE = 10  # fewer may agree by chance
MIN_NOTICEABLE_DIFFERENCE = 0.005  # of tokens attended to, or of the share of entropy
BAND_SUFFIX = " in 8 of 10 seeds"
ONE_DRAW_OPENING = "With this one draw of random numbers"

Seeds = Float[Tensor, "seed"]
NumberWriter = Callable[[float, int], str]


@dataclass(frozen=True)
class Amount:
    """How a measure is written: its format, the least number of digits, and its unit."""

    write: NumberWriter
    digits: int
    unit: str = ""

    def __call__(self, number: float) -> str:
        return f"{self.write(number, self.digits)}{self.unit}"

    def reads_same(self, one: float, other: float) -> bool:
        """Returns whether two numbers are written alike with the least number of digits."""
        return self(one) == self(other)

    def digits_for(self, one: float, other: float) -> int:
        return digits_apart(one, other, self.digits, self.write)

    def format_pair(self, one: float, other: float) -> tuple[str, str]:
        """Writes two numbers with enough digits to tell them apart."""
        digits = self.digits_for(one, other)
        return self.write(one, digits), self.write(other, digits)


TOKEN_AMOUNT = Amount(fixed_text, 1, " tokens")
PRECISE_TOKEN_AMOUNT = Amount(fixed_text, 2, " tokens")
ENTROPY_SHARE_AMOUNT = Amount(percent_text, 0, " of the largest entropy")


@dataclass(frozen=True, eq=False)
class Pair:
    """A number before and after something, for every seed."""

    before: Seeds
    after: Seeds

    @property
    def is_alike(self) -> bool:
        """Whether the difference is unnoticeable in 8 of 10 seeds and between the medians."""
        low, _, high = band_quantiles(self.after - self.before)
        before, after = self.medians
        return max(abs(low), abs(high), abs(after - before)) < MIN_NOTICEABLE_DIFFERENCE

    @property
    def unchanged_seed_count(self) -> int:
        """The number of seeds with an unnoticeable difference."""
        return int(((self.after - self.before).abs() < MIN_NOTICEABLE_DIFFERENCE).sum())

    @property
    def direction(self) -> int:
        """1 if the number grows in 9 of 10 seeds, -1 if it shrinks, 0 if neither is sure.

        The band of differences must lie on one side of 0, and the medians, which are printed, must
        move the same way.
        """
        if len(self.before) < MIN_SEEDS_TO_CONCLUDE:
            return 0
        (low, _, high), (before, after) = band_quantiles(self.after - self.before), self.medians
        up, down = (
            float(seeds.double().mean()) >= QUANTILE_BAND[1]
            for seeds in (self.after > self.before, self.after < self.before)
        )
        return 1 if up and low > 0 and after > before else -(down and high < 0 and after < before)

    @property
    def medians(self) -> tuple[float, float]:
        return band_quantiles(self.before)[1], band_quantiles(self.after)[1]

    def differs_clearly(self, amount: Amount) -> bool:
        """Returns whether one number is larger over seeds, and is also written differently."""
        before, after = self.format_medians(amount)
        return bool(self.direction) and before != after

    def format_medians(self, amount: Amount) -> tuple[str, str]:
        """Writes both medians with enough digits to tell them apart."""
        return amount.format_pair(*self.medians)

    def format_bands(self, amount: Amount) -> tuple[str, str]:
        """Returns `2.3 (2.0–2.6)` and `3.1 tokens (2.8–3.3 in 8 of 10)`: before, after."""
        digits = amount.digits_for(*self.medians)
        after = _median_with_band(self.after, amount, digits, amount.unit, BAND_SUFFIX)
        explanation = "" if "(" in after else BAND_SUFFIX  # explained once, in the last band
        return _median_with_band(self.before, amount, digits, "", explanation), after


def _median_with_band(
    numbers: Seeds, amount: Amount, digits: int, unit: str, explanation: str
) -> str:
    """Writes the median, and the band of 8 of 10 seeds if it is not a single number."""
    low, high = (amount.write(limit, digits) for limit in _band_limits(numbers))
    middle = amount.write(band_quantiles(numbers)[1], digits)
    return f"{middle}{unit}" + ("" if low == high else f" ({low}–{high}{explanation})")


def _band_limits(numbers: Seeds) -> tuple[float, float]:
    """Returns two seeds' numbers that enclose 8 of 10; quantiles of 12 seeds may exclude 4."""
    low, _, high = band_quantiles(numbers)
    is_inside = (numbers >= low) & (numbers <= high)
    if float(is_inside.double().mean()) >= QUANTILE_BAND[1] - QUANTILE_BAND[0]:
        return low, high
    excluded_count = int(QUANTILE_BAND[0] * len(numbers))  # that may be left out at either end
    ordered = numbers.double().sort().values
    return float(ordered[excluded_count]), float(ordered[-1 - excluded_count])


def most_different_pair(ways: Sequence[Seeds], amount: Amount) -> tuple[int, int] | None:
    """Returns the two ways that differ most and clearly, the lower first; None if none do."""
    candidates = []
    for first, second in combinations(range(len(ways)), 2):
        pair = Pair(ways[first], ways[second])
        if pair.differs_clearly(amount) and not pair.is_alike:
            before, after = pair.medians
            ordered = (first, second) if pair.direction > 0 else (second, first)
            candidates.append((abs(after - before), ordered))
    return max(candidates)[1] if candidates else None


Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Finding(Generic[Facts]):
    """A sentence, and the condition under which it is true."""

    name: str
    holds: Callable[[Facts], bool]
    says: Callable[[Facts], str]
    title: Callable[[Facts], str] | None = None  # None: the sentence is short enough for a title


def otherwise(_: object) -> bool:
    """Holds always: the last row of a table of findings."""
    return True


def choose_sentence(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    """Returns the sentence of the first finding that holds."""
    return next(finding for finding in table if finding.holds(facts)).says(facts)


def choose_title(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    """Returns the title of the first finding that holds."""
    finding = next(finding for finding in table if finding.holds(facts))
    return (finding.title or finding.says)(facts).rstrip(".")
