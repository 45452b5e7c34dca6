"""What ranking the heads of a model comes to, in sentences made from its figures."""

from __future__ import annotations

from math import ceil

from attnviz.analysis.heads import Head, Ranking
from attnviz.wording.numbers import percent

READS = 0.5  # of its weight, from which on a head is said to read something: more than all else
NOTHING = 5e-4  # of the answers: who loses less loses nothing to speak of
ROUNDING = 1e-6  # of shares in float32


def sentences_on(ranking: Ranking) -> tuple[str, ...]:
    """The head that matters most beside the others; what is right with all heads, and with none."""
    return (f"{title_of(ranking)}.", *_reads(ranking), _how_right(ranking))


def title_of(ranking: Ranking) -> str:
    """`Switching off L0H0 costs 16 % of the verbs; any other head at most 5 %`"""
    first, *others = ranking.heads
    asked, lost = f"{ranking.task.asked}s", ranking.lost(first)
    if lost < NOTHING:
        return f"Switching off any one head costs none of the {asked}"
    costs = f"costs {percent(lost)} of the {asked}"
    if not others:
        return f"Switching off {first.name}, the only head, {costs}"
    return f"Switching off {first.name} {costs}; {_of_others(ranking, others)}"


def _of_others(ranking: Ranking, others: list[Head]) -> str:
    most = ranking.lost(others[0])  # the others come in the order of what they cost
    if most < NOTHING:
        return f"{'the other head' if len(others) == 1 else 'any other head'} costs nothing"
    if len(others) == 1:
        return f"{others[0].name} costs {percent(most)}"
    return f"any other head at most {percent(ceil(100 * most - ROUNDING) / 100)}"


def what_it_reads(ranking: Ranking, head: Head) -> str:
    """`reads the subject (95 %)`: what a head does most, if that takes most of its attention."""
    scores = {each: head.scores.get(each.name, 0.0) for each in ranking.task.readings}
    best = max(scores, key=lambda each: scores[each], default=None)
    if best is None or not scores[best] >= READS:
        return ""
    return f"{best.does} ({percent(scores[best])})"


def _reads(ranking: Ranking) -> tuple[str, ...]:
    """What the head reads that costs most."""
    first = ranking.heads[0]
    reads = what_it_reads(ranking, first)
    return (f"{first.name} {reads}.",) if reads and ranking.lost(first) >= NOTHING else ()


def _how_right(ranking: Ranking) -> str:
    whole, none = percent(ranking.whole.accuracy), percent(ranking.none.accuracy)
    said = f"With all heads, {whole} of the {ranking.task.asked}s are right"
    return f"{said}; with every head switched off, {none}."
