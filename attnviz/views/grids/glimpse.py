"""A Glimpse: what is seen of a model while it learns, again and again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attnviz.views.grids.grid import Grid


@dataclass(frozen=True, eq=False)
class MeasureHistory:
    """What became of one number up to now, and how it is written now."""

    name: str
    value_text: str
    highest: float  # where the curve ends above
    values: Float[np.ndarray, "moment"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Glimpse:
    """A few words, the heatmaps of all heads, what each head does, and curves."""

    title: str  # "learning agreement"
    about: str  # what is done
    status_parts: tuple[str, ...]  # the step, the pace, what is left: the most important first
    layers: tuple[tuple[Grid, ...], ...]  # of each, the weights of each head
    scores: Grid  # a row for each head, a column for each thing that one may come to do
    steps: Int[np.ndarray, "moment"]  # of the curves
    histories: tuple[MeasureHistory, ...]
