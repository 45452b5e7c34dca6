"""How sharply ways of attending read: a table of what can be found of their measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.seeds import Repeats, left_to_chance
from attnviz.views.conclusions.claims import (
    ALIKE,
    FEWEST_SEEDS,
    ONE_DRAW,
    SHARE,
    TOKENS,
    Amount,
    Finding,
    Pair,
    Seeds,
    otherwise,
    said,
    titled,
    widest_told_apart,
)
from attnviz.views.measures import means_of, name_of, query_label
from attnviz.wording.words import listed, sentence


@dataclass(frozen=True, eq=False)
class Sharpness:
    """What is known of how sharply each way reads, in the rows that are shown."""

    comparison: Comparison
    repeats: Repeats | None

    @property
    def who(self) -> str:
        return reader(self.comparison)

    @property
    def attention(self) -> str:
        """`attention`; or `the attention of "it" (3)`."""
        return "attention" if self.comparison.query is None else f"the attention of {self.who}"

    @property
    def measures(self) -> str:
        """What comes before a number: `a query attends to` 2.1 tokens."""
        if self.measured_by[0] == "effective":
            return f"{self.who} attends to"
        return f"{self.attention} has"

    @cached_property
    def measured_by(self) -> tuple[str, Amount]:
        """Tokens can be counted against each other only where there are as many to read."""
        place = self.comparison.query
        rows = slice(None) if place is None else slice(place, place + 1)
        ways = self.comparison.alternatives
        seen = {tuple(each.visible[..., rows, :].sum(-1).flatten().tolist()) for each in ways}
        return ("effective", TOKENS) if len(seen) == 1 else ("share", SHARE)

    @property
    def precise(self) -> Amount:
        """Of numbers that do not stand for many seeds, in a digit more."""
        amount = self.measured_by[1]
        return replace(amount, digits=amount.digits + 1)

    @cached_property
    def found(self) -> dict[int, float]:
        """The mean of each way that has one, by its place."""
        measure, _ = self.measured_by
        means = [means_of(self.comparison, each)[measure] for each in self.comparison.measures]
        return {place: mean for place, mean in enumerate(means) if not np.isnan(mean)}

    @property
    def blind(self) -> bool:
        """Whether any query sees nothing."""
        rows = self.comparison.rows
        ways = self.comparison.alternatives
        return not all(bool(each.visible[..., rows, :].any(-1).all()) for each in ways)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most."""
        return min(self.found.values()), max(self.found.values())

    @property
    def seeds(self) -> int:
        return 0 if self.repeats is None else len(self.repeats.seeds)

    @cached_property
    def over_seeds(self) -> dict[int, Seeds]:
        """The same of each seed, from the sharpest way to the most even one."""
        assert self.repeats is not None
        numbers = self.repeats.measured[self.measured_by[0]]
        order = sorted(self.found, key=lambda place: float(numbers[place].median()))
        return {place: numbers[place] for place in order}

    @cached_property
    def outermost(self) -> tuple[int, int]:
        places = [*self.over_seeds]
        return places[0], places[-1]

    @cached_property
    def told_apart(self) -> tuple[int, int] | None:
        """The two that are furthest apart of those whose order is sure: sharper, more even."""
        places, ways = [*self.over_seeds], [*self.over_seeds.values()]
        apart = widest_told_apart(ways, self.measured_by[1])
        return None if apart is None else (places[apart[0]], places[apart[1]])

    @property
    def alike_over_seeds(self) -> bool:
        return all(Pair(*each).alike for each in combinations(self.over_seeds.values(), 2))

    def name(self, place: int) -> str:
        return f"'{name_of(self.comparison, self.comparison.alternatives[place])}'"

    @property
    def all(self) -> str:
        """Those that can be compared."""
        if len(self.found) < len(self.comparison.alternatives):
            return listed([self.name(place) for place in self.found])
        return "both" if len(self.found) == 2 else "all of them"


def on_sharpness(comparison: Comparison, repeats: Repeats | None) -> str:
    """Of given numbers what is true; of drawn ones what holds over seeds, or what is shown."""
    return said(FINDINGS, Sharpness(comparison, repeats))


def title_on_sharpness(comparison: Comparison, repeats: Repeats | None) -> str:
    """The same as a title."""
    return titled(FINDINGS, Sharpness(comparison, repeats))


def reader(comparison: Comparison) -> str:
    """Who reads: a query of all that are, or the one that is shown alone."""
    place = comparison.query
    return "a query" if place is None else f'"{query_label(comparison, place)}" ({place + 1})'


def _of_few_seeds(facts: Sharpness) -> str:
    (low, high), (_, amount) = facts.outermost, facts.measured_by
    least, most = Pair(facts.over_seeds[low], facts.over_seeds[high]).told(amount)
    return (
        f"In the median of {facts.seeds} seeds, {facts.measures} {least}{amount.unit} in "
        f"{facts.name(low)} and {most} in {facts.name(high)}: too few seeds to tell more."
    )


def _told_apart_over_seeds(facts: Sharpness) -> str:
    assert facts.told_apart is not None
    low, high = facts.told_apart
    pair = Pair(facts.over_seeds[high], facts.over_seeds[low])
    before, after = pair.bands(facts.measured_by[1])
    names = f"{facts.name(low)} than in {facts.name(high)}"
    start = f"Over {facts.seeds:,} seeds, {facts.attention} is sharper in {names}"
    return f"{start}: {after} instead of {before}."


def _alike_over_seeds(facts: Sharpness) -> str:
    low, high = (float(np.median(facts.over_seeds[place])) for place in facts.outermost)
    about = _about(facts.measured_by[1], low, high)
    start = f"Over {facts.seeds:,} seeds, {facts.attention} is equally sharp in {facts.all}"
    return f"{start}: {about}."


def _undecided_over_seeds(facts: Sharpness) -> str:
    low, high = facts.outermost
    pair = Pair(facts.over_seeds[low], facts.over_seeds[high])
    before, after = pair.bands(facts.measured_by[1])
    return (
        f"Over {facts.seeds:,} seeds, there is no clear difference in how sharp {facts.attention} "
        f"is: {after} in {facts.name(high)}, {before} in {facts.name(low)}."
    )


def _alike(facts: Sharpness) -> str:
    shown = _about(facts.precise, *facts.ends)
    return sentence(f"{facts.attention} is equally sharp in {facts.all}: {shown}")


def _about(amount: Amount, low: float, high: float) -> str:
    """One number, where both read the same."""
    if amount.same(low, high):
        return amount(low)
    least, most = amount.both(low, high)
    return f"{least} to {most}{amount.unit}"


def _of_one_draw(facts: Sharpness) -> str:
    return f"{ONE_DRAW}, {_shown(facts)}."


def _between_seeds(facts: Sharpness) -> str:
    return sentence(f"{_shown(facts)}: seeds differ only by chance")


def _shown(facts: Sharpness) -> str:
    """Two numbers, and no more."""
    amount, (low, high) = facts.precise, facts.ends
    least, most = amount.both(low, high)
    sharpest, flattest = (_places(facts, end)[0] for end in (low, high))
    return (
        f"{facts.measures} {least}{amount.unit} in {facts.name(sharpest)} and {most} in "
        f"{facts.name(flattest)}"
    )


def _of_these(facts: Sharpness) -> str:
    """Who is first and last; all that read the same, where that is more than one."""
    amount, (low, high) = facts.precise, facts.ends
    written = replace(amount, digits=amount.digits_for(low, high))
    sharp, even = (
        listed(
            [facts.name(place) for place, mean in facts.found.items() if written.same(mean, end)]
        )
        for end in (low, high)
    )
    return sentence(
        f"{facts.attention} is sharpest in {sharp} ({written(low)}) and most even in {even} "
        f"({written(high)})"
    )


def _sharper(facts: Sharpness, sharp: int, even: int) -> str:
    place = facts.comparison.query
    whose = "Attention is" if place is None else f"The attention of {facts.who} is"
    return f"{whose} sharper in {facts.name(sharp)} than in {facts.name(even)}"


def _places(facts: Sharpness, end: float) -> list[int]:
    return [place for place, mean in facts.found.items() if mean == end]


FINDINGS: tuple[Finding[Sharpness], ...] = (
    Finding(
        "one has a choice",
        lambda facts: len(facts.found) == 1,
        lambda facts: sentence(
            f"{facts.who} sees more than one token only in {facts.name(*facts.found)}, so "
            "there is nothing to compare"
        ),
    ),
    Finding(
        "nothing is seen",
        lambda facts: not facts.found and facts.blind,
        lambda _: (
            "There is nothing to compare: a query that sees no token attends to nothing, and one "
            "that sees a single token gives it all its attention."
        ),
    ),
    Finding(
        "nothing to compare",
        lambda facts: not facts.found,
        lambda _: (
            "There is nothing to compare: a query that sees a single token gives it all "
            "its attention."
        ),
    ),
    Finding(
        "few seeds",
        lambda facts: 0 < facts.seeds < FEWEST_SEEDS,
        _of_few_seeds,
        lambda facts: f"{facts.seeds} seeds are too few to tell which attends more sharply",
    ),
    Finding(
        "told apart over seeds",
        lambda facts: facts.seeds > 0 and facts.told_apart is not None,
        _told_apart_over_seeds,
        lambda facts: _sharper(facts, *(facts.told_apart or facts.outermost)),
    ),
    Finding(
        "alike over seeds",
        lambda facts: facts.seeds > 0 and facts.alike_over_seeds,
        _alike_over_seeds,
        lambda facts: sentence(f"{facts.attention} is equally sharp in {facts.all}").rstrip("."),
    ),
    Finding(
        "undecided over seeds",
        lambda facts: facts.seeds > 0,
        _undecided_over_seeds,
        lambda facts: f"Over {facts.seeds:,} seeds, none of them is clearly the sharpest",
    ),
    Finding("alike", lambda facts: facts.ends[1] - facts.ends[0] < ALIKE, _alike),
    Finding(
        "between seeds",
        lambda facts: facts.comparison.by == "seed" and left_to_chance(facts.comparison),
        _between_seeds,
    ),
    Finding("one draw", lambda facts: left_to_chance(facts.comparison), _of_one_draw),
    Finding("sharpest and most even", otherwise, _of_these),
)
