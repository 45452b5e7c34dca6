"""What came of learning: how it ended, what is right, and which heads read what, as far as true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnviz.learning.training import Ended, Learned
from attnviz.views.conclusions.claims import Finding, otherwise, said
from attnviz.views.learned.heads import Found, found_in
from attnviz.wording.numbers import percent
from attnviz.wording.printable import FIGURE_SPACE, PERCENT
from attnviz.wording.words import counted, listed

DOES = 0.5  # a head does what it puts so much of its weight on: more than on all else


def sentence_of(learned: Learned) -> str:
    """`After 310 steps, every verb is right; L1H1 reads the subject (99 %).`"""
    last = learned.moments[-1]
    start = said(ENDED, Ending(learned.ended, last.step))
    heads = _heads(found_in(learned))
    right = how_right(last.accuracy, learned.task.asked)
    return f"{start} {right}{f'; {heads}' if heads else ''}."


def at_a_moment(learned: Learned, place: int) -> str:
    """How right it is then, in whole per cents; of the last moment all there is to say.

    Numbers have the same room in every title, so that no word moves.
    """
    if place == len(learned.moments) - 1:
        return sentence_of(learned).removesuffix(".")
    moment, last = learned.moments[place], learned.moments[-1]
    step = f"{moment.step:,}".rjust(len(f"{last.step:,}"), FIGURE_SPACE)
    right = f"{math.floor(100 * moment.accuracy + 1e-6)}".rjust(3, FIGURE_SPACE)
    return f"Step {step}: {right}{PERCENT} of the {learned.task.asked}s are right"


@dataclass(frozen=True)
class Ending:
    """How it ended, after how many steps."""

    ended: Ended
    step: int

    @property
    def after(self) -> str:
        return counted(self.step, "step")


ENDED: tuple[Finding[Ending], ...] = (
    Finding(
        "no number",
        lambda ending: ending.ended == "nan",
        lambda ending: (
            f"The loss is no longer finite; in the model after {ending.after}, which is kept,"
        ),
    ),
    Finding("nothing learned", lambda ending: ending.step == 0, lambda _: "Before the first step,"),
    Finding(
        "stopped",
        lambda ending: ending.ended == "interrupted",
        lambda ending: f"Stopped after {ending.after}:",
    ),
    Finding("learned", otherwise, lambda ending: f"After {ending.after},"),
)


@dataclass(frozen=True)
class Answers:
    """How many of the answers are right, and what each of them is."""

    accuracy: float
    asked: str


RIGHT: tuple[Finding[Answers], ...] = (
    Finding(
        "all",
        lambda answers: answers.accuracy == 1,
        lambda answers: f"every {answers.asked} is right",
    ),
    Finding(
        "none",
        lambda answers: answers.accuracy == 0,
        lambda answers: f"no {answers.asked} is right",
    ),
    Finding(
        "some",
        otherwise,
        lambda answers: f"{percent(answers.accuracy)} of the {answers.asked}s are right",
    ),
)


def how_right(accuracy: float, asked: str) -> str:
    """
    >>> how_right(1.0, "verb"), how_right(0.9995, "verb"), how_right(0.0, "verb")
    ('every verb is right', 'over 99.9\\xa0% of the verbs are right', 'no verb is right')
    """
    return said(RIGHT, Answers(accuracy, asked))


@dataclass(frozen=True, eq=False)
class Claim:
    """What is said of one reading, after others."""

    found: Found
    does: str  # "reads the subject"; without its verb, where the one before has the same


HEADS: tuple[Finding[Claim], ...] = (
    Finding(
        "several do it",
        lambda claim: bool(claim.found.others(DOES)),
        lambda claim: f"{_best(claim)}; {_others(claim.found)})",
    ),
    Finding("one does it", otherwise, lambda claim: f"{_best(claim)})"),
)


def _heads(found: Sequence[Found]) -> str:
    """What heads came to do; where none does anything, how little of what matters most."""
    done = [each for each in found if each.score >= DOES]
    if done:
        return ", ".join(said(HEADS, claim) for claim in _claims(done))
    told = [f"{each.reading.does} with more than {_at_most(each.score)}" for each in found[:1]]
    return f"no head {told[0]} of its attention" if told else ""


def _claims(found: Sequence[Found]) -> Iterator[Claim]:
    """One of each reading; a verb that the one before has is not said again."""
    before = ""
    for each in found:
        verb, _, rest = each.reading.does.partition(" ")
        yield Claim(each, rest if rest and verb == before else each.reading.does)
        before = verb


def _best(claim: Claim) -> str:
    return f"{claim.found.head} {claim.does} ({percent(claim.found.score)}"


def _others(found: Found) -> str:
    """The heads that do the same, and how much of their weight at least."""
    others = found.others(DOES)
    least = min(others.values())
    if len(others) == 1:
        return f"{listed([*others])}: {percent(least)}"
    return f"{len(others)} more heads: at least {_at_least(least)}"


def _at_most(share: float) -> str:
    """Whole per cents that are no less."""
    return percent(math.ceil(share * 100 - 1e-9) / 100)


def _at_least(share: float) -> str:
    """Whole per cents that are no more."""
    return percent(math.floor(share * 100 + 1e-9) / 100)
