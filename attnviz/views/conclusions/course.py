"""What becomes of scores and weights along a number: tables of what can be found of a Sweep."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.measures import quantiles
from attnviz.analysis.sweeps import Sweep
from attnviz.views.conclusions.claims import (
    FEWEST_SEEDS,
    ONE_DRAW,
    Amount,
    Finding,
    Pair,
    otherwise,
    said,
)
from attnviz.views.measures import places
from attnviz.wording.numbers import significant_text

AMOUNTS = {"spread": Amount(significant_text, 2), "entropy": Amount(significant_text, 2, " bits")}
LITTLE = 0.05  # of the way from one end to the other


@dataclass(frozen=True, eq=False)
class Swept:
    """What is known of the whole course."""

    comparison: Comparison
    sweep: Sweep

    @cached_property
    def order(self) -> list[int]:
        return [int(place) for place in np.argsort(places(self.sweep)[0], kind="stable")]

    @property
    def noun(self) -> str:
        return "the number of heads" if self.sweep.by == "heads" else places(self.sweep)[1]

    @property
    def start(self) -> str:
        across, _ = places(self.sweep)
        first, last = (_exactly(across[self.order[end]]) for end in (0, -1))
        return f"{_over(self.sweep.repeats)}, as {self.noun} goes from {first} to {last}"

    @property
    def too_few(self) -> str:
        seeds = self.sweep.repeats
        return "" if seeds == 1 or seeds >= FEWEST_SEEDS else ": too few seeds to tell more"

    @property
    def sees_one(self) -> bool:
        return bool((self.comparison.base.visible.sum(-1) == 1).all())

    @property
    def compared(self) -> bool:
        trace = self.comparison.base.trace
        return trace is None or trace.variant.compared

    @property
    def biased(self) -> bool:
        """Whether a distance adds to the scores."""
        layer = self.comparison.base.layer
        return layer is not None and layer.attended.bias is not None

    def course(self, measure: str, series: str) -> str:
        """From one end to the other."""
        numbers: Tensor = self.sweep.curves[measure][series]
        by_theorem = self.sweep.by == "temperature" and self.comparison.base.of_scores_alone
        never_falls = measure == "entropy" and by_theorem
        return said(OF_A_MEASURE, Course(numbers[self.order], AMOUNTS[measure], never_falls))


@dataclass(frozen=True, eq=False)
class Course:
    """One measure: a row for each value, in order, and a column for each seed."""

    numbers: Tensor
    amount: Amount
    never_falls: bool = False  # whatever the numbers are: a theorem

    @cached_property
    def pair(self) -> Pair:
        return Pair(self.numbers[0], self.numbers[-1])

    @property
    def held(self) -> bool:
        return bool(self.numbers.isfinite().all())

    @cached_property
    def medians(self) -> list[float]:
        return [quantiles(each)[1] for each in self.numbers]

    @cached_property
    def told(self) -> tuple[str, str]:
        return self.pair.told(self.amount)

    @property
    def stays(self) -> bool:
        """Whether the medians read the same all the way, and no direction can be told."""
        sure = self.pair.apart(self.amount)
        return not sure and all(self.amount.same(self.medians[0], each) for each in self.medians)

    @property
    def straight(self) -> bool:
        """Whether the medians never leave what lies between their ends, by more than a little."""
        low, high = sorted((self.medians[0], self.medians[-1]))
        margin = LITTLE * (high - low)
        return all(low - margin <= each <= high + margin for each in self.medians)

    @property
    def apart(self) -> bool:
        return self.told[0] != self.told[1]


def on_sweep(comparison: Comparison, sweep: Sweep) -> str:
    """From one end of the sweep to the other: what scaling keeps, and what is lost without it."""
    return said(FINDINGS, Swept(comparison, sweep))


def in_short(comparison: Comparison, sweep: Sweep) -> str:
    """The same in as few words as stand over a picture."""
    return said(IN_SHORT, Swept(comparison, sweep))


def _over(seeds: int) -> str:
    if seeds == 1:
        return ONE_DRAW
    return f"Over {seeds:,} seeds" if seeds >= FEWEST_SEEDS else f"In the median of {seeds} seeds"


def _exactly(number: float) -> str:
    """In as few digits as there can be, and no fewer."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _in_full(facts: Swept) -> str:
    unscaled, scaled = (
        [facts.course(measure, series) for measure in ("spread", "entropy")]
        for series in ("unscaled", "scaled")
    )
    return (
        f"{facts.start}, the spread of unscaled scores {unscaled[0]} and the entropy of a row "
        f"{unscaled[1]}; scaled, the spread {scaled[0]} and the entropy {scaled[1]}{facts.too_few}."
    )


def _in_short(facts: Swept) -> str:
    unscaled, scaled = (facts.course("entropy", series) for series in ("unscaled", "scaled"))
    start = f"{facts.start}, the entropy of a row {unscaled} unscaled"
    return f"{start}; scaled, it {scaled}{facts.too_few}."


def _changes(course: Course) -> str:
    before, after = course.told
    if not course.straight:
        return f"goes from {before} to {after}{course.amount.unit}, but not steadily"
    verb = "rises" if course.pair.direction > 0 else "falls"
    return f"{verb} from {before} to {after}{course.amount.unit}"


def _unclear(course: Course) -> str:
    before, after = course.told
    if before == after:
        return f"begins and ends at {before}{course.amount.unit}"
    return f"shows no clear change ({before} and {after}{course.amount.unit})"


OF_A_MEASURE: tuple[Finding[Course], ...] = (
    Finding(
        "beyond numbers",
        lambda course: not course.held,
        lambda _: "goes beyond what numbers can hold",
    ),
    Finding(
        "stays",
        lambda course: course.stays,
        lambda course: f"stays at {course.amount(course.medians[-1])}",
    ),
    Finding(
        "few seeds",
        lambda course: len(course.pair.before) < FEWEST_SEEDS and course.apart,
        lambda course: f"goes from {course.told[0]} to {course.told[1]}{course.amount.unit}",
    ),
    Finding("changes", lambda course: course.pair.apart(course.amount), _changes),
    Finding(
        "never falls",
        lambda course: course.never_falls and course.apart,
        lambda course: f"can only rise ({course.told[0]} and {course.told[1]}{course.amount.unit})",
    ),
    Finding("unclear", otherwise, _unclear),
)

ALWAYS: tuple[Finding[Swept], ...] = (
    Finding(
        "only a bias",
        lambda facts: not facts.compared and facts.biased,
        lambda facts: (
            "Queries and keys are not compared, so all scores are 0 except for what ALiBi adds, "
            f"whatever {facts.noun} is."
        ),
    ),
    Finding(
        "nothing is compared",
        lambda facts: not facts.compared,
        lambda facts: (
            f"Queries and keys are not compared, so all scores are 0, whatever {facts.noun} is."
        ),
    ),
    Finding(
        "a query sees one token",
        lambda facts: facts.sees_one,
        lambda facts: (
            f"A query sees only one token and gives it all its attention, whatever {facts.noun} is."
        ),
    ),
)
FINDINGS = (*ALWAYS, Finding("course", otherwise, _in_full))
IN_SHORT = (*ALWAYS, Finding("course", otherwise, _in_short))
