"""The result of training: how it ended, the accuracy, and what each head does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnviz.learning.training import EndReason, Learned
from attnviz.views.conclusions.findings import Finding, choose_sentence, otherwise
from attnviz.views.learned.heads import ReadingScores, collect_reading_scores
from attnviz.wording.numbers import percent_text
from attnviz.wording.printable import FIGURE_SPACE, PERCENT
from attnviz.wording.words import and_list, counted

MIN_CLEAR_SHARE = 0.5  # a head does what it puts so much of its weight on: more than on all else


def training_sentence(learned: Learned) -> str:
    """Returns `After 310 steps, every verb is right; L1H1 reads the subject (99 %).`"""
    last_moment = learned.moments[-1]
    opening = choose_sentence(ENDING_FINDINGS, Ending(learned.ended, last_moment.step))
    heads = _heads_text(collect_reading_scores(learned))
    right_text = accuracy_text(last_moment.accuracy, learned.task.asked)
    return f"{opening} {right_text}{f'; {heads}' if heads else ''}."


def moment_title(learned: Learned, index: int) -> str:
    """Returns the accuracy at a moment in whole per cents; at the last one the full sentence.

    Numbers are padded to one width, so that no word moves between the titles of a film.
    """
    if index == len(learned.moments) - 1:
        return training_sentence(learned).removesuffix(".")
    moment, last_moment = learned.moments[index], learned.moments[-1]
    step_text = f"{moment.step:,}".rjust(len(f"{last_moment.step:,}"), FIGURE_SPACE)
    right_percent = f"{math.floor(100 * moment.accuracy + 1e-6)}".rjust(3, FIGURE_SPACE)
    return f"Step {step_text}: {right_percent}{PERCENT} of the {learned.task.asked}s are right"


@dataclass(frozen=True)
class Ending:
    """Why training ended, and after how many steps."""

    ended: EndReason
    step: int

    @property
    def steps_text(self) -> str:
        return counted(self.step, "step")


ENDING_FINDINGS: tuple[Finding[Ending], ...] = (
    Finding(
        "no number",
        lambda ending: ending.ended == "nan",
        lambda ending: (
            f"The loss is no longer finite; in the model after {ending.steps_text}, which is kept,"
        ),
    ),
    Finding("nothing learned", lambda ending: ending.step == 0, lambda _: "Before the first step,"),
    Finding(
        "stopped",
        lambda ending: ending.ended == "interrupted",
        lambda ending: f"Stopped after {ending.steps_text}:",
    ),
    Finding("learned", otherwise, lambda ending: f"After {ending.steps_text},"),
)


@dataclass(frozen=True)
class AnswerAccuracy:
    """The share of answers that are right, and the noun for an answer."""

    accuracy: float
    answer_noun: str


ACCURACY_FINDINGS: tuple[Finding[AnswerAccuracy], ...] = (
    Finding(
        "all",
        lambda answers: answers.accuracy == 1,
        lambda answers: f"every {answers.answer_noun} is right",
    ),
    Finding(
        "none",
        lambda answers: answers.accuracy == 0,
        lambda answers: f"no {answers.answer_noun} is right",
    ),
    Finding(
        "some",
        otherwise,
        lambda answers: f"{percent_text(answers.accuracy)} of the {answers.answer_noun}s are right",
    ),
)


def accuracy_text(accuracy: float, answer_noun: str) -> str:
    """Writes an accuracy in words.

    >>> accuracy_text(1.0, "verb"), accuracy_text(0.9995, "verb"), accuracy_text(0.0, "verb")
    ('every verb is right', 'over 99.9\xa0% of the verbs are right', 'no verb is right')
    """
    return choose_sentence(ACCURACY_FINDINGS, AnswerAccuracy(accuracy, answer_noun))


@dataclass(frozen=True, eq=False)
class HeadClaim:
    """A reading by a head, and the verb phrase for it."""

    found_head: ReadingScores
    verb_phrase: str  # "reads the subject"; without its verb, where the one before has the same


HEAD_CLAIM_FINDINGS: tuple[Finding[HeadClaim], ...] = (
    Finding(
        "several do it",
        lambda claim: bool(claim.found_head.other_heads(MIN_CLEAR_SHARE)),
        lambda claim: f"{_best_head_text(claim)}; {_other_heads_text(claim.found_head)})",
    ),
    Finding("one does it", otherwise, lambda claim: f"{_best_head_text(claim)})"),
)


def _heads_text(found_heads: Sequence[ReadingScores]) -> str:
    """Describes the heads that do something; if none does, how weak the first reading is."""
    clear_heads = [
        found_head for found_head in found_heads if found_head.final_score >= MIN_CLEAR_SHARE
    ]
    if clear_heads:
        return ", ".join(
            choose_sentence(HEAD_CLAIM_FINDINGS, claim) for claim in _head_claims(clear_heads)
        )
    weak_readings = [
        f"{found_head.reading.does} with more than {_percent_rounded_up(found_head.final_score)}"
        for found_head in found_heads[:1]
    ]
    return f"no head {weak_readings[0]} of its attention" if weak_readings else ""


def _head_claims(found_heads: Sequence[ReadingScores]) -> Iterator[HeadClaim]:
    """Yields a claim per reading; a verb that repeats the one before is left out."""
    previous_verb = ""
    for found_head in found_heads:
        verb, _, object_phrase = found_head.reading.does.partition(" ")
        yield HeadClaim(
            found_head,
            object_phrase if object_phrase and verb == previous_verb else found_head.reading.does,
        )
        previous_verb = verb


def _best_head_text(claim: HeadClaim) -> str:
    return f"{claim.found_head.best_head_label} {claim.verb_phrase} ({percent_text(claim.found_head.final_score)}"


def _other_heads_text(found_head: ReadingScores) -> str:
    """Returns the other heads with the same reading, and their smallest share."""
    other_heads = found_head.other_heads(MIN_CLEAR_SHARE)
    least = min(other_heads.values())
    if len(other_heads) == 1:
        return f"{and_list([*other_heads])}: {percent_text(least)}"
    return f"{len(other_heads)} more heads: at least {_percent_rounded_down(least)}"


def _percent_rounded_up(share: float) -> str:
    """Rounds up to whole per cents."""
    return percent_text(math.ceil(share * 100 - 1e-9) / 100)


def _percent_rounded_down(share: float) -> str:
    """Rounds down to whole per cents."""
    return percent_text(math.floor(share * 100 + 1e-9) / 100)
