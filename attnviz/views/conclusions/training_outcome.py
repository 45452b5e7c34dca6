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

MIN_CLEAR_SHARE = 0.5  # of a head's attention: more than on everything else together


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

    scores: ReadingScores
    verb_phrase: str  # "reads the subject"; only "the subject" if the claim before has this verb


HEAD_CLAIM_FINDINGS: tuple[Finding[HeadClaim], ...] = (
    Finding(
        "several do it",
        lambda claim: bool(claim.scores.other_heads(MIN_CLEAR_SHARE)),
        lambda claim: f"{_best_head_text(claim)}; {_other_heads_text(claim.scores)})",
    ),
    Finding("one does it", otherwise, lambda claim: f"{_best_head_text(claim)})"),
)


def _heads_text(readings: Sequence[ReadingScores]) -> str:
    """Describes the heads that do something; if none does, how weak the first reading is."""
    clear = [scores for scores in readings if scores.final_score >= MIN_CLEAR_SHARE]
    if clear:
        claims = _head_claims(clear)
        return ", ".join(choose_sentence(HEAD_CLAIM_FINDINGS, claim) for claim in claims)
    if not readings:
        return ""
    limit = percent_text(math.ceil(readings[0].final_score * 100 - 1e-9) / 100)  # rounded up
    return f"no head {readings[0].reading.does} with more than {limit} of its attention"


def _head_claims(readings: Sequence[ReadingScores]) -> Iterator[HeadClaim]:
    """Yields a claim per reading; a verb that repeats the one before is left out."""
    previous_verb = ""
    for scores in readings:
        verb, _, object_phrase = scores.reading.does.partition(" ")
        is_repeated = object_phrase and verb == previous_verb
        yield HeadClaim(scores, object_phrase if is_repeated else scores.reading.does)
        previous_verb = verb


def _best_head_text(claim: HeadClaim) -> str:
    share = percent_text(claim.scores.final_score)
    return f"{claim.scores.best_head_label} {claim.verb_phrase} ({share}"


def _other_heads_text(scores: ReadingScores) -> str:
    """Returns the other heads with the same reading, and their smallest share."""
    other_heads = scores.other_heads(MIN_CLEAR_SHARE)
    least = min(other_heads.values())
    if len(other_heads) == 1:
        return f"{and_list([*other_heads])}: {percent_text(least)}"
    least_text = percent_text(math.floor(least * 100 + 1e-9) / 100)  # rounded down
    return f"{len(other_heads)} more heads: at least {least_text}"
