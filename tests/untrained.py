"""Models that have learned nothing: of few words, for whatever must hold of any model."""

from __future__ import annotations

from typing import Any

import torch

from attnviz import Trace
from attnviz.learning.learner import new_model
from attnviz.learning.task import Examples, Task
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import Source
from attnviz.traces.models.model import Model
from attnviz.traces.models.vocabulary import Predicts, Vocabulary
from attnviz.traces.settings import Settings

WORDS = ("old", "new", "keys", "cats", "near", "?")
ANSWERS = ("is", "are", "has", "have")
TEXT = "old keys near new cats"


def untrained(predicts: Predicts = "here", asks: str = "?", **settings: Any) -> Model:
    """With numbers of a seed; `?` is where something is asked for, unless every word asks."""
    spelled = {"are": "?", "is": "?"} if predicts == "here" and asks else {}
    words = Vocabulary(tokenizer="words", words=WORDS, answers=ANSWERS, predicts=predicts,
                       spelled=spelled, asks=asks)  # fmt: skip
    chosen = {"variant": "multi-head", "dim": 8, "layers": 2, "norm": "pre", **settings}
    task = Task(
        name="untrained", about="", teaches="", answer_noun="verb", vocabulary=words, draw=_nothing,
        readings=(), watch=TEXT, settings=Settings(**chosen), longest=12,
    )  # fmt: skip
    return new_model(task, task.settings)


def _nothing(seed: int, count: int, held_out: bool) -> Examples:
    ids = torch.zeros(count, 1, dtype=torch.long)
    return Examples(ids, ids, {})


def traced(model: Model, text: str = TEXT, **settings: Any) -> Trace:
    """A text as the model reads it."""
    return trace_source(
        Source(text, Settings(model=model.name, **settings), model.matrices, model=model)
    )
