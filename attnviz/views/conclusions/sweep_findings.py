"""Sentences about a sweep: how spread and entropy change as a setting grows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.measures import band_quantiles
from attnviz.analysis.seeds import Sweep
from attnviz.views.conclusions.findings import (
    MIN_SEEDS_TO_CONCLUDE,
    ONE_DRAW_OPENING,
    Amount,
    Finding,
    Pair,
    choose_sentence,
    otherwise,
)
from attnviz.views.measure_tables import sweep_positions
from attnviz.wording.numbers import significant_text

MEASURE_AMOUNTS = {
    "spread": Amount(significant_text, 2),
    "entropy": Amount(significant_text, 2, " bits"),
}
STEADINESS_MARGIN = 0.05  # of the difference between both ends


@dataclass(frozen=True, eq=False)
class SweepFacts:
    """A sweep over values of one setting, and the comparison that it extends."""

    comparison: Comparison
    sweep: Sweep

    @cached_property
    def order(self) -> list[int]:
        return [int(index) for index in np.argsort(sweep_positions(self.sweep)[0], kind="stable")]

    @property
    def noun(self) -> str:
        """What the sweep varies, as a phrase: `the number of heads`."""
        names = {"heads": "the number of heads", "temperature": "the temperature"}
        return names.get(self.sweep.by) or sweep_positions(self.sweep)[1]

    @property
    def opening(self) -> str:
        """The beginning of a sentence: `Over 12 seeds, as d_k goes from 1 to 64`."""
        values, _ = sweep_positions(self.sweep)
        first, last = (_exact_number_text(values[self.order[end]]) for end in (0, -1))
        return f"{_seeds_opening(self.sweep.repeats)}, as {self.noun} goes from {first} to {last}"

    @property
    def few_seeds_suffix(self) -> str:
        """A remark that there are too few seeds; empty for a single draw or at least 10 seeds."""
        has_few = 1 < self.sweep.repeats < MIN_SEEDS_TO_CONCLUDE
        return ": too few seeds to tell more" if has_few else ""

    @property
    def compares_keys(self) -> bool:
        """Whether queries are compared with keys, which some variants do not do."""
        trace = self.comparison.base.trace
        return trace is None or trace.variant.compared

    @property
    def bias_clause(self) -> str:
        layer = self.comparison.base.layer
        has_bias = layer is not None and layer.attended.bias is not None
        return " except for what ALiBi adds" * has_bias

    def course_text(self, measure: str, series: str) -> str:
        """Return how a measure, 'spread' or 'entropy', changes from first to last value.

        `series` is 'unscaled' or 'scaled'. The text is a verb phrase such as `rises from 1.0 to
        8.0`.
        """
        numbers: Tensor = self.sweep.curves[measure][series]
        by_theorem = self.sweep.by == "temperature" and self.comparison.base.uses_scores_alone
        never_falls = measure == "entropy" and by_theorem
        course = MeasureCourse(numbers[self.order], MEASURE_AMOUNTS[measure], never_falls)
        return choose_sentence(MEASURE_FINDINGS, course)


@dataclass(frozen=True, eq=False)
class MeasureCourse:
    """One measure along a sweep: a row per value of the setting, ordered, and a column per seed."""

    numbers: Tensor
    amount: Amount
    never_falls: bool = False  # by a theorem, whatever the numbers are

    @cached_property
    def pair(self) -> Pair:
        return Pair(self.numbers[0], self.numbers[-1])

    @cached_property
    def medians(self) -> list[float]:
        return [band_quantiles(row)[1] for row in self.numbers]

    @cached_property
    def end_texts(self) -> tuple[str, str]:
        return self.pair.format_medians(self.amount)

    @property
    def is_constant(self) -> bool:
        """Whether all medians are written alike, and no change is clear over seeds."""
        if self.pair.differs_clearly(self.amount):
            return False
        return all(self.amount.reads_same(self.medians[0], median) for median in self.medians)

    @property
    def is_steady(self) -> bool:
        """Whether no median lies beyond those of the two ends by more than a small margin."""
        low, high = sorted((self.medians[0], self.medians[-1]))
        margin = STEADINESS_MARGIN * (high - low)
        return all(low - margin <= median <= high + margin for median in self.medians)

    @property
    def ends_differ(self) -> bool:
        return self.end_texts[0] != self.end_texts[1]


def _seeds_opening(seeds: int) -> str:
    """Return `Over 12 seeds`, `In the median of 3 seeds`, or words for a single draw."""
    if seeds < MIN_SEEDS_TO_CONCLUDE:
        return ONE_DRAW_OPENING if seeds == 1 else f"In the median of {seeds} seeds"
    return f"Over {seeds:,} seeds"


def _exact_number_text(number: float) -> str:
    short_text = f"{number:g}"
    return short_text if float(short_text) == number else repr(number)


def _full_course_sentence(facts: SweepFacts) -> str:
    """Return how spread and entropy change along the sweep, unscaled and scaled."""
    unscaled, scaled = (
        [facts.course_text(measure, series) for measure in ("spread", "entropy")]
        for series in ("unscaled", "scaled")
    )
    return (
        f"{facts.opening}, the spread of unscaled scores {unscaled[0]} and the entropy of a row "
        f"{unscaled[1]}; scaled, the spread {scaled[0]} and the entropy "
        f"{scaled[1]}{facts.few_seeds_suffix}."
    )


def _entropy_course_title(facts: SweepFacts) -> str:
    unscaled, scaled = (facts.course_text("entropy", series) for series in ("unscaled", "scaled"))
    opening = f"{facts.opening}, the entropy of a row {unscaled} unscaled"
    return f"{opening}; scaled, it {scaled}{facts.few_seeds_suffix}."


def _clear_change_text(course: MeasureCourse) -> str:
    """Return `rises from 1.0 to 8.0`, or `goes from …, but not steadily`."""
    before, after = course.end_texts
    if not course.is_steady:
        return f"goes from {before} to {after}{course.amount.unit}, but not steadily"
    verb = "rises" if course.pair.direction > 0 else "falls"
    return f"{verb} from {before} to {after}{course.amount.unit}"


def _unclear_change_text(course: MeasureCourse) -> str:
    """Return `shows no clear change (1.0 and 1.1)`, or `begins and ends at 1.0`."""
    before, after = course.end_texts
    if before == after:
        return f"begins and ends at {before}{course.amount.unit}"
    return f"shows no clear change ({before} and {after}{course.amount.unit})"


MEASURE_FINDINGS: tuple[Finding[MeasureCourse], ...] = (
    Finding(
        "beyond numbers",
        lambda course: not bool(course.numbers.isfinite().all()),
        lambda _: "goes beyond what numbers can hold",
    ),
    Finding(
        "stays",
        lambda course: course.is_constant,
        lambda course: f"stays at {course.amount(course.medians[-1])}",
    ),
    Finding(
        "few seeds",
        lambda course: len(course.pair.before) < MIN_SEEDS_TO_CONCLUDE and course.ends_differ,
        lambda course: (
            f"goes from {course.end_texts[0]} to {course.end_texts[1]}{course.amount.unit}"
        ),
    ),
    Finding(
        "changes", lambda course: course.pair.differs_clearly(course.amount), _clear_change_text
    ),
    Finding(
        "never falls",
        lambda course: course.never_falls and course.ends_differ,
        lambda course: (
            f"can only rise ({course.end_texts[0]} and {course.end_texts[1]}{course.amount.unit})"
        ),
    ),
    Finding("unclear", otherwise, _unclear_change_text),
)

SWEEP_FINDINGS: tuple[Finding[SweepFacts], ...] = (
    Finding(
        "nothing is compared",
        lambda facts: not facts.compares_keys,
        lambda facts: (
            f"Queries and keys are not compared, so all scores are 0{facts.bias_clause}, whatever "
            f"{facts.noun} is."
        ),
    ),
    Finding(
        "a query sees one token",
        lambda facts: bool((facts.comparison.base.visible.sum(-1) == 1).all()),
        lambda facts: (
            f"A query sees only one token and gives it all its attention, whatever {facts.noun} is."
        ),
    ),
    Finding("course", otherwise, _full_course_sentence, _entropy_course_title),
)
