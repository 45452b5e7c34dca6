"""How sharply one way of attending reads, beside others: one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.repeats import Repeats, left_to_chance
from attnviz.views.conclusions.claims import (
    ALIKE,
    FEWEST_SEEDS,
    ONE_DRAW,
    SHARE,
    TOKENS,
    Amount,
    Pair,
    widest_told_apart,
)
from attnviz.views.measures import means_of, name_of, query_label
from attnviz.wording.words import listed, sentence

Found = dict[int, float]  # a measure, by the place of the alternative


def on_sharpness(comparison: Comparison, repeats: Repeats | None) -> str:
    """Of given numbers what is true; of drawn ones what holds over seeds, or what is shown."""
    measure, amount = _measured_by(comparison)
    means = [means_of(comparison, measures)[measure] for measures in comparison.measures]
    found = {place: mean for place, mean in enumerate(means) if not np.isnan(mean)}
    if len(found) < 2:
        return "There is nothing to compare: a query that sees one token reads it whole."
    if repeats is not None:
        return _over_seeds(comparison, repeats, measure, amount, list(found))
    precise = replace(amount, digits=amount.digits + 1)
    if max(found.values()) - min(found.values()) < ALIKE:
        shown = precise(found[min(found)])
        return f"In {_all(comparison)} {reader(comparison)} reads alike: {shown}."
    if left_to_chance(comparison):
        return _of_one_draw(comparison, precise, found)
    return _of_these(comparison, precise, found)


def reader(comparison: Comparison) -> str:
    """Who reads: a query of all that are, or the one that is shown alone."""
    place = comparison.query
    return "a query" if place is None else f'"{query_label(comparison, place)}" ({place + 1})'


def _measured_by(comparison: Comparison) -> tuple[str, Amount]:
    """Counts of tokens can be held against each other only where there are as many to read."""
    place = comparison.query
    rows = slice(None) if place is None else slice(place, place + 1)
    seen = {
        tuple(each.visible[..., rows, :].sum(-1).flatten().tolist())
        for each in comparison.alternatives
    }
    return ("effective", TOKENS) if len(seen) == 1 else ("share", SHARE)


def _of_these(comparison: Comparison, amount: Amount, found: Found) -> str:
    """Of given numbers: who is first and last, ties included."""
    low, high = min(found.values()), max(found.values())
    least, most = amount.both(low, high)
    sharp, even = (
        listed([_name(comparison, place) for place in found if abs(found[place] - end) < ALIKE])
        for end in (low, high)
    )
    return sentence(
        f"{reader(comparison)} reads most sharply in {sharp}, {least}{amount.unit}, and most "
        f"evenly in {even}, {most}{amount.unit}"
    )


def _of_one_draw(comparison: Comparison, amount: Amount, found: Found) -> str:
    """Of random numbers: what is shown, and that it is chance."""
    sharpest, flattest = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    least, most = amount.both(found[sharpest], found[flattest])
    shown = (
        f"{reader(comparison)} reads {least}{amount.unit} in {_name(comparison, sharpest)} and "
        f"{most} in {_name(comparison, flattest)}"
    )
    if comparison.by == "seed":
        return sentence(f"{shown}: between seeds nothing differs but chance")
    return f"{ONE_DRAW}, {shown}."


def _over_seeds(
    comparison: Comparison, repeats: Repeats, measure: str, amount: Amount, told: list[int]
) -> str:
    """The two that are furthest apart, if their order is the same in 8 of 10 seeds."""
    numbers, start = repeats.measured[measure], f"Over {len(repeats.seeds):,} seeds,"
    who, order = reader(comparison), sorted(told, key=lambda each: float(numbers[each].median()))
    ends = Pair(numbers[order[0]], numbers[order[-1]])
    sharpest, flattest = (_name(comparison, order[place]) for place in (0, -1))
    if len(repeats.seeds) < FEWEST_SEEDS:
        least, most = ends.told(amount)
        return (
            f"In the median of {len(repeats.seeds)} seeds, {who} reads {least}{amount.unit} in "
            f"{sharpest} and {most} in {flattest}: too few seeds to tell more."
        )
    apart = widest_told_apart([numbers[place] for place in told])
    if apart is not None:
        low, high = (told[place] for place in apart)
        before, after = Pair(numbers[high], numbers[low]).bands(amount)
        names = f"{_name(comparison, low)} than in {_name(comparison, high)}"
        return f"{start} {who} reads more sharply in {names}: {after} instead of {before}."
    if ends.alike:
        return f"{start} {who} reads alike in {_all(comparison)}: {amount(ends.medians[0])}."
    before, after = ends.bands(amount)
    return (
        f"{start} no difference can be told in how sharply {who} reads: {after} in {flattest}, "
        f"{before} in {sharpest}."
    )


def _all(comparison: Comparison) -> str:
    return "both" if len(comparison.alternatives) == 2 else "all of them"


def _name(comparison: Comparison, place: int) -> str:
    return f"'{name_of(comparison, comparison.alternatives[place])}'"
