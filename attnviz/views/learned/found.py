"""Which head came to do what: of each reading the one that does it best, and all scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attnviz.learning.task import Reading
from attnviz.learning.training import Learned, Moment


@dataclass(frozen=True, eq=False)
class Found:
    """A reading, and what each head's score for it was at each moment."""

    reading: Reading
    scores: Float[np.ndarray, "moment layer head"]

    @cached_property
    def best(self) -> tuple[int, int]:
        """Layer and number of the head that does it best in the end; of equals the first."""
        return _best(self.scores[-1])

    @property
    def course(self) -> Float[np.ndarray, "moment"]:
        """The scores of the head that does it best in the end."""
        return self.scores[:, self.best[0], self.best[1]]

    @property
    def score(self) -> float:
        """That of the head that does it best."""
        return float(self.course[-1])

    def others(self, least: float) -> dict[str, float]:
        """The other heads that do it, with a score of so much at least."""
        heads = ((place, float(score)) for place, score in np.ndenumerate(self.scores[-1]))
        found = ((place, score) for place, score in heads if place != self.best and score >= least)
        return {name_of_head(layer, head): score for (layer, head), score in found}

    @property
    def head(self) -> str:
        return name_of_head(*self.best)


def found_in(learned: Learned) -> tuple[Found, ...]:
    """What became of each reading that the task has, and that there was any chance for."""
    return tuple(
        Found(reading, np.stack([each.scores[reading.name] for each in learned.moments]))
        for reading in learned.task.readings
        if _is_measured(learned.moments[-1].scores, reading.name)
    )


def _is_measured(scores: Mapping[str, np.ndarray], name: str) -> bool:
    return name in scores and bool(np.isfinite(scores[name]).any())


def best_head(scores: Float[np.ndarray, "layer head"]) -> tuple[str, float]:
    """The head that does something most, and how much."""
    best = _best(scores)
    return name_of_head(*best), float(scores[best])


def _best(scores: Float[np.ndarray, "layer head"]) -> tuple[int, int]:
    layer, head = np.unravel_index(np.nanargmax(scores), scores.shape)
    return int(layer), int(head)


def name_of_head(layer: int, head: int) -> str:
    """
    >>> name_of_head(1, 0)
    'L1H0'
    """
    return f"L{layer}H{head}"


def heads_of(moment: Moment) -> list[tuple[int, int]]:
    """Every head, by layer and number."""
    return [
        (layer, head)
        for layer, weights in enumerate(moment.weights)
        for head in range(len(weights))
    ]
