"""What learning comes to, in one sentence made from its figures."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from attnviz.learning.task import Reading
from attnviz.learning.training import Learned
from attnviz.wording.numbers import share_text
from attnviz.wording.words import counted

READS = 0.5  # of its weight, from which on a head is said to read something: more than all else
VERB = "reads "  # which is not said again


def sentence_of(learned: Learned) -> str:
    """`After 310 steps every verb is right; L1H1 reads the subject with .99.`"""
    last = learned.moments[-1]
    right = how_right(last.accuracy, learned.task.asked)
    told = [_best(each, last.scores[each.name]) for each in learned.task.readings]
    heads = _joined([each for each in told if each])
    return f"{_beginning(learned)} {right}{f'; {heads}' if heads else ''}."


def how_right(accuracy: float, asked: str) -> str:
    """
    >>> how_right(1.0, "verb"), how_right(0.9995, "verb"), how_right(0.0, "verb")
    ('every verb is right', '99.9% of the verbs are right', 'no verb is right')
    """
    if accuracy in (0, 1):
        return f"{'every' if accuracy else 'no'} {asked} is right"
    return f"{percent_right(accuracy)} of the {asked}s are right"


def percent_right(accuracy: float) -> str:
    """Never more than it is: 100% is all of them.

    >>> percent_right(0.9999), percent_right(1.0), percent_right(0.5), percent_right(0.0001)
    ('99.9%', '100%', '50%', 'less than 0.1%')
    """
    share = math.floor(1000 * accuracy + 1e-3) / 10
    return f"{share:g}%" if share or not accuracy else "less than 0.1%"


def _beginning(learned: Learned) -> str:
    step = learned.moments[-1].step
    if learned.ended == "nan":
        return (
            f"The loss is no finite number any more, and the model of step {step:,} is kept, with "
            "which"
        )
    if learned.ended == "interrupted":
        return f"Stopped after {counted(step, 'step')}, when"
    return f"After {counted(step, 'step')}"


def _best(reading: Reading, scores: Float[np.ndarray, "layer head"]) -> str:
    """The head that does so most, and with how much of its weight."""
    if np.isnan(scores).all():  # nothing to read in any sentence
        return ""
    head, score = best_head(scores)
    if score < READS:
        beyond = math.ceil(100 * score) / 100
        return f"no head {reading.does} with more than {share_text(beyond)}"
    return f"{head} {reading.does} with {share_text(score)}"


def best_head(scores: Float[np.ndarray, "layer head"]) -> tuple[str, float]:
    """The head that does something most, and how much."""
    layer, head = np.unravel_index(np.nanargmax(scores), scores.shape)
    return f"L{layer}H{head}", float(scores[layer, head])


def _joined(told: list[str]) -> str:
    """With commas; what all of them do is said once.

    >>> _joined(["L1H1 reads the subject with .99", "L0H1 reads the word before with .94"])
    'L1H1 reads the subject with .99, L0H1 the word before with .94'
    """
    if not told or not all(f" {VERB}" in each for each in told):
        return ", ".join(told)
    first, *others = told
    return ", ".join([first, *(each.replace(f" {VERB}", " ", 1) for each in others)])
