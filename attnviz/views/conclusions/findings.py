"""Finding: a sentence with its condition; what may be claimed over several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.measures import QUANTILE_BAND, band_quantiles
from attnviz.wording.numbers import distinguishing_digits, fixed_text, percent_text

MIN_SEEDS_TO_CONCLUDE = 10  # fewer may agree by chance
MIN_NOTICEABLE_DIFFERENCE = 0.005  # of tokens attended to, or of the share of entropy
BAND_SUFFIX = " in 8 of 10 seeds"
ONE_DRAW_OPENING = "With this one draw of random numbers"

Seeds = Float[Tensor, "seed"]


@dataclass(frozen=True)
class Amount:
    """How a measure is written: its number format, its least number of digits, and its unit."""

    write: Callable[[float, int], str]
    digits: int
    unit: str = ""

    def __call__(self, number: float) -> str:
        """Return the number with its least digits and its unit: `2.1 tokens`."""
        return f"{self.write(number, self.digits)}{self.unit}"

    def reads_same(self, one: float, other: float) -> bool:
        return self(one) == self(other)

    def digits_for(self, one: float, other: float) -> int:
        return distinguishing_digits(one, other, self.digits, self.write)

    def format_pair(self, one: float, other: float) -> tuple[str, str]:
        """Return two numbers, without the unit, with enough digits to tell them apart."""
        digits = self.digits_for(one, other)
        return self.write(one, digits), self.write(other, digits)


TOKEN_AMOUNT = Amount(fixed_text, 1, " tokens")
PRECISE_TOKEN_AMOUNT = Amount(fixed_text, 2, " tokens")
ENTROPY_SHARE_AMOUNT = Amount(percent_text, 0, " of the largest entropy")


@dataclass(frozen=True, eq=False)
class Pair:
    """A measure in two alternatives, or before and after something: one number per seed in each."""

    before: Seeds
    after: Seeds

    @property
    def is_alike(self) -> bool:
        """Whether the difference is unnoticeable in 8 of 10 seeds, and that of the medians, too."""
        low, _, high = band_quantiles(self.after - self.before)
        before, after = self.medians
        return max(abs(low), abs(high), abs(after - before)) < MIN_NOTICEABLE_DIFFERENCE

    @property
    def unchanged_seed_count(self) -> int:
        return int(((self.after - self.before).abs() < MIN_NOTICEABLE_DIFFERENCE).sum())

    @property
    def direction(self) -> int:
        """1 if the number clearly grows over seeds, -1 if it shrinks, 0 if neither is sure.

        In 9 of 10 seeds the number must change in this direction; the band of differences must lie
        on one side of 0, and the medians, which are printed, must move likewise. 0 for fewer than
        10 seeds.
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
        before, after = self.format_medians(amount)
        return bool(self.direction) and before != after

    def format_medians(self, amount: Amount) -> tuple[str, str]:
        """Return both medians, without the unit, with enough digits to tell them apart."""
        return amount.format_pair(*self.medians)

    def format_bands(self, amount: Amount) -> tuple[str, str]:
        """Return both medians with bands: `2.3 (2.0–2.6)`, `3.1 tokens (2.8–3.3 in 8 of 10 seeds)`.

        Only the second has the unit; only the last band is explained. A band that is a single
        number is left out.
        """
        digits = amount.digits_for(*self.medians)
        after = _median_with_band(self.after, amount, digits, amount.unit, BAND_SUFFIX)
        explanation = "" if "(" in after else BAND_SUFFIX  # explained once, in the last band
        return _median_with_band(self.before, amount, digits, "", explanation), after


def _median_with_band(
    numbers: Seeds, amount: Amount, digits: int, unit: str, explanation: str
) -> str:
    """Return the median with `unit`, then the band of 8 of 10 seeds and its `explanation`.

    A band whose two limits are written alike is left out.
    """
    low, high = (amount.write(limit, digits) for limit in _band_limits(numbers))
    middle = amount.write(band_quantiles(numbers)[1], digits)
    return f"{middle}{unit}" + ("" if low == high else f" ({low}–{high}{explanation})")


def _band_limits(numbers: Seeds) -> tuple[float, float]:
    """Return two numbers, low and high, that enclose those of 8 of 10 seeds.

    They are the quantiles; if these exclude too many of few seeds, two of the seeds' own numbers.
    """
    low, _, high = band_quantiles(numbers)
    is_inside = (numbers >= low) & (numbers <= high)
    if float(is_inside.double().mean()) >= QUANTILE_BAND[1] - QUANTILE_BAND[0]:
        return low, high
    excluded_count = int(QUANTILE_BAND[0] * len(numbers))  # that may be left out at either end
    ordered = numbers.double().sort().values
    return float(ordered[excluded_count]), float(ordered[-1 - excluded_count])


def most_different_pair(ways: Sequence[Seeds], amount: Amount) -> tuple[int, int] | None:
    """Return the indices of the two alternatives whose medians differ most, the lower one first.

    `ways` holds each alternative's numbers over seeds. Return None if no two differ clearly.
    """
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
    """A sentence with its condition; `title` is a shorter form of the sentence for a picture."""

    name: str
    holds: Callable[[Facts], bool]
    sentence: Callable[[Facts], str]
    title: Callable[[Facts], str] | None = None  # None: the sentence is short enough for a title
    # the amount of attention that a sentence names, or why it stands beside no base rate
    amount: Callable[[Facts], ComparedAmount] | str = ""


@dataclass(frozen=True)
class ComparedAmount:
    """An amount of attention in words, which is named beside its base rate: `40 %`, `3.0 times an
    even spread`.
    """

    text: str
    base: str


def finding_on(
    amount: Callable[[Facts], ComparedAmount],
    name: str,
    holds: Callable[[Facts], bool],
    sentence: Callable[[Facts, ComparedAmount], str],
) -> Finding[Facts]:
    """Return a finding on an amount of attention, which its sentence is given with its base."""
    return Finding(name, holds, lambda facts: sentence(facts, amount(facts)), amount=amount)


def otherwise(_: object) -> bool:
    """Return True: the condition of the last finding in a table, which always applies."""
    return True


def choose_finding(table: Sequence[Finding[Facts]], facts: Facts) -> Finding[Facts]:
    """Return the first finding of a table whose condition holds."""
    return next(finding for finding in table if finding.holds(facts))


def choose_sentence(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    return choose_finding(table, facts).sentence(facts)


def choose_title(table: Sequence[Finding[Facts]], facts: Facts) -> str:
    finding = choose_finding(table, facts)
    return (finding.title or finding.sentence)(facts).rstrip(".")
