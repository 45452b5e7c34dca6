"""The history of a training as data: everything by name, and a line for each moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from attnviz.learning.training import Learned
from attnviz.views.learned.found import Found, heads_of, name_of_head
from attnviz.views.view import Column, Data, Lines, Words


def data_of(
    learned: Learned, found: Sequence[Found], filmed: Sequence[int], conclusion: str
) -> Data:
    """Everything about it; and a line for each moment, a column for each head and reading."""
    heads = [name_of_head(*head) for head in heads_of(learned.moments[-1])]
    scores = tuple(f"{head} {each.reading.name}" for each in found for head in heads)
    document = partial(_document, learned, found, filmed, conclusion)
    return Data(document, ("step", "loss", "accuracy", *scores), partial(_lines, learned, found))


def _document(
    learned: Learned, found: Sequence[Found], filmed: Sequence[int], conclusion: str
) -> dict[str, Any]:
    """`history` by moment; `weights` of the sentence that was watched, at those of the film."""
    moments, task = learned.moments, learned.task
    return {
        "task": {"name": task.name, "about": task.about, "asked": task.asked},
        "ended": learned.ended,
        "conclusion": conclusion,
        "tokens": list(learned.watched.labels),
        "history": {
            "step": np.array([moment.step for moment in moments]),
            "loss": np.array([moment.loss for moment in moments]),
            "accuracy": np.array([moment.accuracy for moment in moments]),
            "scores": {each.reading.name: each.scores for each in found},
        },
        "heads": [
            {"reading": each.reading.name, "head": each.head, "score": each.score} for each in found
        ],
        "watched": {
            "step": np.array([moments[place].step for place in filmed]),
            "layers": [
                {"weights": np.stack([moments[place].weights[layer] for place in filmed])}
                for layer in range(len(moments[-1].weights))
            ],
        },
    }


def _lines(learned: Learned, found: Sequence[Found]) -> Iterator[Lines]:
    """All moments at once."""
    moments = learned.moments
    steps = Words((tuple(str(moment.step) for moment in moments),))
    scores = [np.array(column) for each in found for column in _columns(each)]
    numbers: tuple[Column, ...] = (
        _column([moment.loss for moment in moments]),
        _column([moment.accuracy for moment in moments]),
        *(_column(column.tolist()) for column in scores),
    )
    yield Lines((), steps, numbers)


def _columns(found: Found) -> Iterator[np.ndarray]:
    """The course of each head."""
    layers, heads = found.scores.shape[1:]
    for layer in range(layers):
        for head in range(heads):
            yield found.scores[:, layer, head]


def _column(numbers: Sequence[float]) -> Column:
    """Nothing in a cell that has no number."""
    return [float(number) if np.isfinite(number) else None for number in numbers]
