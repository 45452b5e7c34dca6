"""What ranking the heads of a model comes to, in sentences made from its figures."""

from __future__ import annotations

from attnviz.analysis.heads import Head, Ranking
from attnviz.wording.numbers import percentage, share_text

READS = 0.5  # of its weight, from which on a head is said to read something: more than all else


def sentences_on(ranking: Ranking) -> tuple[str, ...]:
    """The head that matters most, the others, and all of them together."""
    first, *others = ranking.heads
    if _as_good(ranking, first):
        return (_none_alone(ranking), *_without_any(ranking))
    told = (
        f"Without {first.name}{' alone' if others else ', its only head,'} "
        f"{percentage(first.without.accuracy)} of the {ranking.task.asked}s are right, instead "
        f"of {percentage(ranking.whole.accuracy)}{_what_it_reads(ranking, first)}."
    )
    rest = _of_others(ranking, others) if others else ()
    return (told, *rest, *(_without_any(ranking) if others else ()))


def _as_good(ranking: Ranking, head: Head) -> bool:
    """Whether nothing to speak of is lost without it."""
    with_all, without = ranking.whole.accuracy, head.without.accuracy
    return without >= with_all or percentage(without) == percentage(with_all)


def _none_alone(ranking: Ranking) -> str:
    least = percentage(ranking.heads[0].without.accuracy, at_least=True)
    return (
        f"No head is needed by itself: whichever is off, {least} or more of the "
        f"{ranking.task.asked}s are right, and {percentage(ranking.whole.accuracy)} with all."
    )


def _what_it_reads(ranking: Ranking, head: Head) -> str:
    """What the head does most, if that takes most of its weight."""
    scores = {each: head.scores.get(each.name, 0.0) for each in ranking.task.readings}
    best = max(scores, key=lambda each: scores[each], default=None)
    if best is None or not scores[best] >= READS:
        return ""
    return f"; it {best.does} with {share_text(scores[best])}"


def _of_others(ranking: Ranking, others: list[Head]) -> tuple[str, ...]:
    accuracy = others[0].without.accuracy
    if len(others) == 1:
        return (f"Without {others[0].name} {percentage(accuracy)} are.",)
    least = percentage(accuracy, at_least=True)
    return (f"Without any single one of the others {least} or more are.",)


def _without_any(ranking: Ranking) -> tuple[str, ...]:
    if len(ranking.heads) == 1:
        return ()
    return (f"Without any head {percentage(ranking.none.accuracy)} are.",)
