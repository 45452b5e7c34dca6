"""Glimpse: the state of a model during training, drawn again and again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attnviz.views.grids.grid import Grid


@dataclass(frozen=True, eq=False)
class MeasureHistory:
    """The values of one measure, such as the loss, up to now, and the text of the last value."""

    name: str
    value_text: str
    highest: float  # the upper end of the axis
    values: Float[np.ndarray, "moment"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Glimpse:
    """What is drawn of a training at one moment: a few words, the weights and scores of all heads,
    and the curves of the measures so far.
    """

    title: str  # "learning agreement"
    about: str  # what the task is
    status_parts: tuple[str, ...]  # step, pace, time left: most important first
    layers: tuple[tuple[Grid, ...], ...]  # for each layer, the weights of each head
    scores: Grid  # a row for each head, a column for each reading of the task
    steps: Int[np.ndarray, "moment"]  # the x values of the histories
    histories: tuple[MeasureHistory, ...]
