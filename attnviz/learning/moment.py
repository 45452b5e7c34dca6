"""A Moment: what can be seen of a model after so many steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Answer:
    """What a model answers at a blank of a sentence, and how likely that is to it."""

    place: int
    word: str
    probability: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Moment:
    """What can be seen of a model after so many steps."""

    step: int
    seconds: float  # of training, up to now; not for files, which are the same every time
    loss: float  # the mean since the moment before
    accuracy: float  # on sentences that are held out
    scores: Mapping[str, Float[np.ndarray, "layer head"]]  # of each reading: the mean weight on it
    answers: tuple[Answer, ...]  # at the blanks of the sentence that is watched
    weights: tuple[Float[np.ndarray, "head query key"], ...]  # of each layer, of what is watched
