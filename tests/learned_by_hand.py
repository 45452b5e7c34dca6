"""Trainings written by hand, so that views of them do not depend on chance."""

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
    *readings: Reading,
    words: Sequence[str] = WORDS,
    watch: str = SENTENCE,
    answer_noun: str = "verb",
) -> Task:
    """A task whose examples are never used."""

    def draw(seed: int, count: int, held_out: bool) -> Examples:
        no_tokens = torch.full((count, 1), -1)
        return Examples(no_tokens, no_tokens, {})

    return Task(
        name="by-hand",
        about="a verb and its subject",
        teaches="the verb reads the subject",
        answer_noun=answer_noun,
        vocabulary=Vocabulary(tokenizer="words", words=tuple(words), answers=("is", "are")),
        draw=draw,
        readings=readings,
        watch=watch,
        settings=Settings(variant="multi-head", heads=2, dim=8, layers=2, positions="learned"),
        longest=64,
    )


def weights_of(layers: int, heads: int, count: int, seed: int, sharpness: float) -> tuple[Any, ...]:
    """Causal weights of each layer's heads: even for `sharpness` 0, sharper above."""
    generator = np.random.default_rng(seed)
    hidden = np.triu(np.ones((count, count), dtype=bool), 1)
    weights_by_layer = []
    for _ in range(layers):
        scores = sharpness * generator.normal(size=(heads, count, count))
        powers = np.where(hidden, 0.0, np.exp(scores))
        weights_by_layer.append((powers / powers.sum(-1, keepdims=True)).astype(np.float32))
    return tuple(weights_by_layer)


@cache
def _model(words: Sequence[str], settings: Settings) -> Model:
    return new_model(task(words=words), settings)


def make_learned(
    scores: Mapping[Reading, np.ndarray] | None = None,
    *,
    steps: Sequence[int] = (0, 1, 2, 5, 10, 20, 40, 80),
    accuracy: float = 1.0,
    ended: EndReason = "accuracy",
    of: Task | None = None,
    answers: Sequence[Answer] = (),
    **settings: Any,
) -> Learned:
    """A training with a moment for each of `steps`, and these scores at the end.

    `answers` are the same at every moment.
    """
    final_scores = {SUBJECT: np.array([[0.1, 0.2], [0.3, 0.99]])} if scores is None else scores
    chosen_task = of or task(*final_scores)
    model_settings = replace(chosen_task.settings, **settings)
    watched = chosen_task.vocabulary.cut(chosen_task.watch)
    layers, heads = model_settings.layers or 1, model_settings.heads or 1
    moments = [
        Moment(
            answers=(*answers,),
            step=step,
            seconds=float(step),
            loss=2.0 / (1 + step),
            accuracy=accuracy * share,
            scores={each.name: share * last for each, last in final_scores.items()},
            weights=weights_of(layers, heads, len(watched), 7, 4 * share),
        )
        for step in steps
        for share in [(step / steps[-1]) if steps[-1] else 1.0]
    ]
    return Learned(
        asked={"task": chosen_task.name},
        task=chosen_task,
        settings=model_settings,
        choices=Choices(steps=1000, until=0.999, batch=64, rate=0.003),
        watched=watched,
        model=_model(chosen_task.vocabulary.words, model_settings),
        moments=tuple(moments),
        held_out=HELD_OUT_SENTENCES,
        ended=ended,
    )
