"""Sentences about how sharp attention is in the compared alternatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.seeds import Repeats, has_random_weights
from attnviz.views.conclusions.findings import (
    ENTROPY_SHARE_AMOUNT,
    MIN_NOTICEABLE_DIFFERENCE,
    MIN_SEEDS_TO_CONCLUDE,
    ONE_DRAW_OPENING,
    TOKEN_AMOUNT,
    Amount,
    Finding,
    Pair,
    Seeds,
    most_different_pair,
    otherwise,
)
from attnviz.views.measure_tables import alternative_name, compared_query_label, mean_measures
from attnviz.wording.words import and_list, as_sentence


@dataclass(frozen=True, eq=False)
class ComparisonFacts:
    """A comparison, and its measures over many seeds, if any."""

    comparison: Comparison
    repeats: Repeats | None

    @property
    def reader(self) -> str:
        """The subject of sentences: `a query`, or `"it" (3)` if only one query is shown."""
        return reader_text(self.comparison)

    @property
    def attention_text(self) -> str:
        """The subject `attention`, or `the attention of "it" (3)` if only one query is shown."""
        return "attention" if self.comparison.query is None else f"the attention of {self.reader}"

    @property
    def seed_count(self) -> int:
        return 0 if self.repeats is None else len(self.repeats.seeds)


@dataclass(frozen=True, eq=False)
class SharpnessFacts(ComparisonFacts):
    """How sharp the attention of each compared alternative is, in the rows that are shown.

    An alternative is called a way, and has its index in the comparison as its key.
    """

    @property
    def measure_opening(self) -> str:
        """The words before a number: `a query attends to`, or for entropy `attention has`."""
        if self.measure_and_amount[0] == "effective":
            return f"{self.reader} attends to"
        return f"{self.attention_text} has"

    @cached_property
    def measure_and_amount(self) -> tuple[str, Amount]:
        """The measure that is compared, and how it is written.

        The effective number of tokens attended to if all alternatives have equally many visible
        keys in each row; else entropy as a share of the largest possible.
        """
        query = self.comparison.query
        rows = slice(None) if query is None else slice(query, query + 1)
        visible_counts = {
            tuple(way.visible[..., rows, :].sum(-1).flatten().tolist())
            for way in self.comparison.alternatives
        }
        are_equal = len(visible_counts) == 1
        return ("effective", TOKEN_AMOUNT) if are_equal else ("share", ENTROPY_SHARE_AMOUNT)

    @property
    def precise_amount(self) -> Amount:
        """The number format for a single draw, with one digit more than over seeds."""
        amount = self.measure_and_amount[1]
        return replace(amount, digits=amount.digits + 1)

    @cached_property
    def mean_by_way(self) -> dict[int, float]:
        """The mean measure of each alternative, by index; alternatives without one are left out."""
        measure, _ = self.measure_and_amount
        means = [mean_measures(self.comparison, each)[measure] for each in self.comparison.measures]
        return {index: mean for index, mean in enumerate(means) if not np.isnan(mean)}

    @property
    def blind_clause(self) -> str:
        """What a query does for which every key is masked; empty if no alternative has one."""
        rows, ways = self.comparison.rows, self.comparison.alternatives
        are_seeing = all(bool(way.visible[..., rows, :].any(-1).all()) for way in ways)
        return "" if are_seeing else "no token attends to nothing, and one that sees "

    @property
    def extreme_means(self) -> tuple[float, float]:
        return min(self.mean_by_way.values()), max(self.mean_by_way.values())

    @cached_property
    def numbers_by_way(self) -> dict[int, Seeds]:
        """The measure in every seed by alternative, the sharpest first; needs `repeats`."""
        assert self.repeats is not None
        numbers = self.repeats.by_measure[self.measure_and_amount[0]]
        order = sorted(self.mean_by_way, key=lambda index: float(numbers[index].median()))
        return {index: numbers[index] for index in order}

    @cached_property
    def outermost_ways(self) -> tuple[int, int]:
        """The indices of the sharpest and of the most even alternative over seeds."""
        indices = [*self.numbers_by_way]
        return indices[0], indices[-1]

    @cached_property
    def clearest_difference(self) -> tuple[int, int] | None:
        """The sharper and the more even alternative of the pair that differs most over seeds.

        None if no two differ clearly.
        """
        indices, ways = [*self.numbers_by_way], [*self.numbers_by_way.values()]
        pair = most_different_pair(ways, self.measure_and_amount[1])
        return None if pair is None else (indices[pair[0]], indices[pair[1]])

    @property
    def alike_over_seeds(self) -> bool:
        return all(Pair(*ways).is_alike for ways in combinations(self.numbers_by_way.values(), 2))

    def way_name(self, index: int) -> str:
        return f"'{alternative_name(self.comparison, self.comparison.alternatives[index])}'"

    @property
    def way_names(self) -> str:
        """The alternatives with a mean: `both`, `all of them`, or names if others have none."""
        if len(self.mean_by_way) < len(self.comparison.alternatives):
            return and_list([self.way_name(index) for index in self.mean_by_way])
        return "both" if len(self.mean_by_way) == 2 else "all of them"


def reader_text(comparison: Comparison) -> str:
    """Return `a query`, or `"it" (3)` if the comparison is about only one query."""
    query = comparison.query
    if query is None:
        return "a query"
    return f'"{compared_query_label(comparison, query)}" ({query + 1})'


def _few_seeds_sharpness(facts: SharpnessFacts) -> str:
    """Return the medians of the sharpest and the most even alternative over too few seeds."""
    (low, high), (_, amount) = facts.outermost_ways, facts.measure_and_amount
    pair = Pair(facts.numbers_by_way[low], facts.numbers_by_way[high])
    least, greatest = pair.format_medians(amount)
    return (
        f"In the median of {facts.seed_count} seeds, {facts.measure_opening} {least}{amount.unit} "
        f"in {facts.way_name(low)} and {greatest} in {facts.way_name(high)}: too few seeds to tell "
        "more."
    )


def _clear_difference_sentence(facts: SharpnessFacts) -> str:
    """Return which of two alternatives is sharper over seeds, with medians and bands."""
    assert facts.clearest_difference is not None
    low, high = facts.clearest_difference
    pair = Pair(facts.numbers_by_way[high], facts.numbers_by_way[low])
    before, after = pair.format_bands(facts.measure_and_amount[1])
    names = f"{facts.way_name(low)} than in {facts.way_name(high)}"
    opening = f"Over {facts.seed_count:,} seeds, {facts.attention_text} is sharper in {names}"
    return f"{opening}: {after} instead of {before}."


def _alike_over_seeds_sentence(facts: SharpnessFacts) -> str:
    """State that all alternatives are equally sharp over seeds, with the range of their medians."""
    low, high = (float(np.median(facts.numbers_by_way[index])) for index in facts.outermost_ways)
    range_text = _amount_range_text(facts.measure_and_amount[1], low, high)
    opening = f"Over {facts.seed_count:,} seeds, {facts.attention_text}"
    return f"{opening} is equally sharp in {facts.way_names}: {range_text}."


def _undecided_sharpness(facts: SharpnessFacts) -> str:
    """State that no difference is clear over seeds, with the medians and bands of the extremes."""
    low, high = facts.outermost_ways
    pair = Pair(facts.numbers_by_way[low], facts.numbers_by_way[high])
    before, after = pair.format_bands(facts.measure_and_amount[1])
    return (
        f"Over {facts.seed_count:,} seeds, there is no clear difference in how sharp "
        f"{facts.attention_text} is: {after} in {facts.way_name(high)}, {before} in "
        f"{facts.way_name(low)}."
    )


def _alike_sharpness_sentence(facts: SharpnessFacts) -> str:
    """State that all alternatives are equally sharp, with the range of their means."""
    range_text = _amount_range_text(facts.precise_amount, *facts.extreme_means)
    opening = f"{facts.attention_text} is equally sharp in {facts.way_names}"
    return as_sentence(f"{opening}: {range_text}")


def _amount_range_text(amount: Amount, low: float, high: float) -> str:
    """Return `2.1 to 2.3 tokens`, or one number if both are written alike."""
    if amount.reads_same(low, high):
        return amount(low)
    least, greatest = amount.format_pair(low, high)
    return f"{least} to {greatest}{amount.unit}"


def _extremes_text(facts: SharpnessFacts) -> str:
    """Return `a query attends to 1.20 tokens in 'a' and 3.40 in 'b'`, the two extremes."""
    amount, (low, high) = facts.precise_amount, facts.extreme_means
    least, greatest = amount.format_pair(low, high)
    means = facts.mean_by_way
    sharpest, flattest = (facts.way_name(pick(means, key=means.__getitem__)) for pick in (min, max))
    return (
        f"{facts.measure_opening} {least}{amount.unit} in {sharpest} and {greatest} in {flattest}"
    )


def _extremes_sentence(facts: SharpnessFacts) -> str:
    """Name the sharpest and the most even alternative, each with all whose mean reads the same."""
    amount, (low, high) = facts.precise_amount, facts.extreme_means
    amount = replace(amount, digits=amount.digits_for(low, high))

    def way_names(end: float) -> str:
        means = facts.mean_by_way.items()
        return and_list(
            [facts.way_name(way) for way, mean in means if amount.reads_same(mean, end)]
        )

    sharp = f"sharpest in {way_names(low)} ({amount(low)})"
    even = f"most even in {way_names(high)} ({amount(high)})"
    return as_sentence(f"{facts.attention_text} is {sharp} and {even}")


def _sharper_title(facts: SharpnessFacts, sharp: int, even: int) -> str:
    """Return `Attention is sharper in 'a' than in 'b'`; `sharp` and `even` are indices."""
    query = facts.comparison.query
    subject = "Attention is" if query is None else f"The attention of {facts.reader} is"
    return f"{subject} sharper in {facts.way_name(sharp)} than in {facts.way_name(even)}"


SHARPNESS_FINDINGS: tuple[Finding[SharpnessFacts], ...] = (
    Finding(
        "one has a choice",
        lambda facts: len(facts.mean_by_way) == 1,
        lambda facts: as_sentence(
            f"{facts.reader} sees more than one token only in {facts.way_name(*facts.mean_by_way)},"
            " so there is nothing to compare"
        ),
    ),
    Finding(
        "nothing to compare",
        lambda facts: not facts.mean_by_way,
        lambda facts: (
            f"There is nothing to compare: a query that sees {facts.blind_clause}a single token "
            "gives it all its attention."
        ),
    ),
    Finding(
        "few seeds",
        lambda facts: 0 < facts.seed_count < MIN_SEEDS_TO_CONCLUDE,
        _few_seeds_sharpness,
        lambda facts: f"{facts.seed_count} seeds are too few to tell which attends more sharply",
    ),
    Finding(
        "told apart over seeds",
        lambda facts: facts.seed_count > 0 and facts.clearest_difference is not None,
        _clear_difference_sentence,
        lambda facts: _sharper_title(facts, *(facts.clearest_difference or facts.outermost_ways)),
    ),
    Finding(
        "alike over seeds",
        lambda facts: facts.seed_count > 0 and facts.alike_over_seeds,
        _alike_over_seeds_sentence,
        lambda facts: as_sentence(
            f"{facts.attention_text} is equally sharp in {facts.way_names}"
        ).rstrip("."),
    ),
    Finding(
        "undecided over seeds",
        lambda facts: facts.seed_count > 0,
        _undecided_sharpness,
        lambda facts: f"Over {facts.seed_count:,} seeds, none of them is clearly the sharpest",
    ),
    Finding(
        "alike",
        lambda facts: facts.extreme_means[1] - facts.extreme_means[0] < MIN_NOTICEABLE_DIFFERENCE,
        _alike_sharpness_sentence,
    ),
    Finding(
        "between seeds",
        lambda facts: facts.comparison.by == "seed" and has_random_weights(facts.comparison),
        lambda facts: as_sentence(f"{_extremes_text(facts)}: seeds differ only by chance"),
    ),
    Finding(
        "one draw",
        lambda facts: has_random_weights(facts.comparison),
        lambda facts: f"{ONE_DRAW_OPENING}, {_extremes_text(facts)}.",
    ),
    Finding("sharpest and most even", otherwise, _extremes_sentence),
)
