"""What came of learning: how it ended, what is right, and which heads read what, as far as true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnviz.learning.training import Ended, Moment
from attnviz.views.conclusions.finding import Finding, otherwise, said
from attnviz.views.learned.found import Found
from attnviz.wording.numbers import percent_text, share_text
from attnviz.wording.words import counted, listed

DOES = 0.5  # a head does what it puts so much of its weight on
MOST_NAMED = 3  # heads that do the same beside the best one; more are counted
MOST_DIGITS = 4  # of a percentage that is not quite 100 or 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What is known in the end: how it ended, the last moment, and what heads came to do."""

    ended: Ended
    last: Moment
    asked: str  # what is right or not: "verb"
    found: Sequence[Found]


def on_learned(outcome: Outcome) -> str:
    """One sentence: `After 310 steps every verb is right; L1H1 reads the subject with .99 …`"""
    start, right = said(ENDED, outcome), said(RIGHT, outcome)
    heads = [said(HEADS, claim) for claim in _claims(outcome.found)]
    return f"{start} {right}{'; ' if heads else ''}{', '.join(heads)}."


def _after(outcome: Outcome) -> str:
    return counted(outcome.last.step, "step")


ENDED: tuple[Finding[Outcome], ...] = (
    Finding(
        "no number",
        lambda outcome: outcome.ended == "nan",
        lambda outcome: (
            f"The loss became no number; of the model after {_after(outcome)}, which is kept,"
        ),
    ),
    Finding(
        "nothing learned",
        lambda outcome: outcome.last.step == 0,
        lambda _: "Before the first step",
    ),
    Finding(
        "stopped",
        lambda outcome: outcome.ended == "interrupted",
        lambda outcome: f"Stopped after {_after(outcome)},",
    ),
    Finding("learned", otherwise, lambda outcome: f"After {_after(outcome)}"),
)

RIGHT: tuple[Finding[Outcome], ...] = (
    Finding(
        "all",
        lambda outcome: outcome.last.accuracy == 1,
        lambda outcome: f"every {outcome.asked} is right",
    ),
    Finding(
        "none",
        lambda outcome: outcome.last.accuracy == 0,
        lambda outcome: f"no {outcome.asked} is right",
    ),
    Finding(
        "some",
        otherwise,
        lambda outcome: f"{part_text(outcome.last.accuracy)} of the {outcome.asked}s are right",
    ),
)


@dataclass(frozen=True, eq=False)
class Claim:
    """What is said of one reading, after others."""

    found: Found
    first: bool  # it says what the numbers are
    does: str  # "reads the subject"; without its verb, where the one before has the same

    @property
    def share(self) -> str:
        unit = " of its weight" if self.first else ""
        return f"{share_text(self.found.score)}{unit}"


HEADS: tuple[Finding[Claim], ...] = (
    Finding(
        "several do it",
        lambda claim: claim.found.score >= DOES and bool(claim.found.others(DOES)),
        lambda claim: f"{claim.found.head} {claim.does} with {claim.share} {_others(claim.found)}",
    ),
    Finding(
        "one does it",
        lambda claim: claim.found.score >= DOES,
        lambda claim: f"{claim.found.head} {claim.does} with {claim.share}",
    ),
    Finding(
        "none does it",
        otherwise,
        lambda claim: (
            f"no head {claim.found.reading.does} with more than {_at_most(claim.found.score)}"
            f"{' of its weight' if claim.first else ''}"
        ),
    ),
)


def _claims(found: Sequence[Found]) -> Iterator[Claim]:
    """Of each reading one; of those that some head does first."""
    done = [each for each in found if each.score >= DOES]
    before = ""
    for each in (*done, *(each for each in found if each not in done)):
        verb, _, rest = each.reading.does.partition(" ")
        same = verb == before and bool(rest)
        yield Claim(each, not before, rest if same else each.reading.does)
        before = verb


def _others(found: Found) -> str:
    """The heads that do the same, and how much of their weight at least."""
    others = found.others(DOES)
    named = listed([*others]) if len(others) <= MOST_NAMED else f"{len(others)} more heads"
    return f"({named} with {'at least ' * (len(others) > 1)}{_at_least(min(others.values()))})"


def part_text(share: float) -> str:
    """A share that is neither all nor nothing, in as few digits as do not say so.

    >>> part_text(0.52), part_text(0.9995), part_text(0.0002), part_text(0.9999999)
    ('52%', '99.95%', '0.02%', 'nearly 100%')
    """
    for digits in range(MOST_DIGITS):
        text = percent_text(share, digits)
        if 0 < float(text.rstrip("%")) < 100:
            return text
    return "nearly 100%" if share > DOES else "next to 0%"


def _at_most(share: float) -> str:
    """Two digits that are no less."""
    return share_text(math.ceil(share * 100 - 1e-9) / 100)


def _at_least(share: float) -> str:
    """Two digits that are no more."""
    return share_text(math.floor(share * 100 + 1e-9) / 100)
