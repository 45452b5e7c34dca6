"""Untrained models with few words, for tests of what must hold for every model."""

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


def untrained_model(predicts: Predicts = "here", asks: str = "?", **settings: Any) -> Model:
    """A model with random parameters; `?` asks for an answer, unless every word asks."""
    spellings = {"are": "?", "is": "?"} if predicts == "here" and asks else {}
    words = Vocabulary(tokenizer="words", words=WORDS, answers=ANSWERS, predicts=predicts,
                       spelled=spellings, asks=asks)  # fmt: skip
    all_settings = {"variant": "multi-head", "dim": 8, "layers": 2, "norm": "pre", **settings}
    task = Task(
        name="untrained", about="", teaches="", answer_noun="verb", vocabulary=words,
        draw=draw_nothing, readings=(), watch=TEXT, settings=Settings(**all_settings), longest=12,
    )  # fmt: skip
    return new_model(task, task.settings)


def draw_nothing(seed: int, count: int, held_out: bool) -> Examples:
    ids = torch.zeros(count, 1, dtype=torch.long)
    return Examples(ids, ids, {})


def trace_model(model: Model, text: str = TEXT, **settings: Any) -> Trace:
    """Trace a text with this model."""
    return trace_source(
        Source(text, Settings(model=model.name, **settings), model.matrices, model=model)
    )
