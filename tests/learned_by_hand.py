"""Trainings written by hand, so that what is said and drawn of them depends on no luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from attnviz.learning.choices import Choices
from attnviz.learning.learner import new_model
from attnviz.learning.progress import Answer, Moment
from attnviz.learning.task import Examples, Reading, Task
from attnviz.learning.training import HELD_OUT_SENTENCES, EndReason, Learned
from attnviz.traces.models.model import Model
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings

WORDS = ("the", "old", "new", "key", "keys", "near", "small", "cabinet", "cabinets", "is", "are")
SENTENCE = "the old keys near the small cabinet are"
SUBJECT = Reading("subject", "reads the subject")
BEFORE = Reading("word before", "reads the word before")


def task(
    *readings: Reading, words: Sequence[str] = WORDS, watch: str = SENTENCE, asked: str = "verb"
) -> Task:
    """Nothing is ever drawn of it."""

    def draw(seed: int, count: int, held_out: bool) -> Examples:
        nothing = torch.full((count, 1), -1)
        return Examples(nothing, nothing, {})

    return Task(
        name="by-hand",
        about="a verb and its subject",
        teaches="the verb reads the subject",
        answer_noun=asked,
        vocabulary=Vocabulary(tokenizer="words", words=tuple(words), answers=("is", "are")),
        draw=draw,
        readings=readings,
        watch=watch,
        settings=Settings(variant="multi-head", heads=2, dim=8, layers=2, positions="learned"),
        longest=64,
    )


def weights_of(layers: int, heads: int, count: int, seed: int, sharp: float) -> tuple[Any, ...]:
    """Causal weights of each head: all alike at first, sharper later."""
    generator = np.random.default_rng(seed)
    hidden = np.triu(np.ones((count, count), dtype=bool), 1)
    made = []
    for _ in range(layers):
        scores = sharp * generator.normal(size=(heads, count, count))
        raised = np.where(hidden, 0.0, np.exp(scores))
        made.append((raised / raised.sum(-1, keepdims=True)).astype(np.float32))
    return tuple(made)


@cache
def _model(words: Sequence[str], settings: Settings) -> Model:
    return new_model(task(words=words), settings)


def learned(
    scores: Mapping[Reading, np.ndarray] | None = None,
    *,
    steps: Sequence[int] = (0, 1, 2, 5, 10, 20, 40, 80),
    accuracy: float = 1.0,
    ended: EndReason = "accuracy",
    of: Task | None = None,
    answers: Sequence[Answer] = (),
    **settings: Any,
) -> Learned:
    """What was learned in so many steps, with these scores in the end.

    `answers` are the same at every moment.
    """
    found = {SUBJECT: np.array([[0.1, 0.2], [0.3, 0.99]])} if scores is None else scores
    chosen = of or task(*found)
    wanted = replace(chosen.settings, **settings)
    watched = chosen.vocabulary.cut(chosen.watch)
    layers, heads = wanted.layers or 1, wanted.heads or 1
    moments = [
        Moment(
            answers=(*answers,),
            step=step,
            seconds=float(step),
            loss=2.0 / (1 + step),
            accuracy=accuracy * share,
            scores={each.name: share * last for each, last in found.items()},
            weights=weights_of(layers, heads, len(watched), 7, 4 * share),
        )
        for step in steps
        for share in [(step / steps[-1]) if steps[-1] else 1.0]
    ]
    return Learned(
        asked={"task": chosen.name},
        task=chosen,
        settings=wanted,
        choices=Choices(steps=1000, until=0.999, batch=64, rate=0.003),
        watched=watched,
        model=_model(chosen.vocabulary.words, wanted),
        moments=tuple(moments),
        held_out=HELD_OUT_SENTENCES,
        ended=ended,
    )
