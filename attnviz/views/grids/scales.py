"""What the colours of a grid stand for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from attnviz.cells import Cells

# Up to this many keys colours run from 0 to 1. Among more, weights are so small that all of them
# would look like 0, so colours run to a stated maximum.
MAX_FULL_SCALE_KEYS = 16
STATED_MAXIMUM_QUANTILE = 0.98  # of the weights that are not 0 lie below the stated maximum
ROUND_STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)  # times a power of ten, at the end of a scale
MIN_LOG_DECADES = 3  # that a scale of logarithms shows at least,
BELOW_UNIFORM_FACTOR = (
    10.0  # and down to so small a part of what each key gets where all are read alike
)
SUM_TOLERANCE = 1e-6  # relative: shares that are added come to no more than this above 1
SMALLEST_VALUE = 1e-300  # below, powers of ten are none any more

ScaleKind = Literal["sequential", "diverging", "none"]
ScaleBend = Literal[
    "straight", "root", "log"
]  # even steps of colour: of numbers, roots, logarithms


@dataclass(frozen=True)
class Scale:
    """What the colours of a grid stand for, from `low` to `high`.

    `kind` is "sequential", "diverging" (centred on 0) or "none" (nothing to colour); `beyond`
    says that some values lie above `high` and are drawn as if they were there. Where small numbers
    matter beside large ones colours are bent; a scale of logarithms begins above 0.
    """

    label: str
    low: float
    high: float
    kind: ScaleKind = "sequential"
    is_exceeded: bool = False
    bend: ScaleBend = "straight"

    @property
    def name(self) -> str:
        """What people read: the weight of what, the literature says, too."""
        return "attention weight" if self.label == "weight" else self.label

    @property
    def covers_smaller(self) -> bool:
        """Whether its low end stands for whatever is less, too: logarithms never come to 0."""
        return self.bend == "log"

    def shares(self, values: Shaped[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """How far values are on the way from the low end to the high one, which they do not leave.

        >>> Scale("weight", 0, 1, bend="root").shares(np.array([0.0, 0.25, 4.0])).tolist()
        [0.0, 0.5, 1.0]
        """
        low, high = (self._transform(np.array(end)) for end in (self.low, self.high))
        clipped = np.clip(values.astype(float), self.low, self.high)
        shares: Float[np.ndarray, "*shape"] = (self._transform(clipped) - low) / (high - low)
        return shares

    def values_at(self, shares: Shaped[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The values that are so far along: what stands at a colour bar.

        >>> Scale("weight", 0.01, 1, bend="log").values_at(np.array([0.0, 0.5, 1.0])).round(9).tolist()
        [0.01, 0.1, 1.0]
        """
        low, high = (self._transform(np.array(end)) for end in (self.low, self.high))
        transformed = low + shares * (high - low)
        if self.bend == "root":
            return np.asarray(np.sign(transformed) * transformed**2)
        return np.asarray(np.exp(transformed) if self.bend == "log" else transformed)

    def _transform(self, values: Shaped[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        if self.bend == "root":
            return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))
        return np.asarray(np.log(values) if self.bend == "log" else values)


def colorless_scale(label: str) -> Scale:
    """Of numbers that are only read."""
    return Scale(label, 0, 1, "none")


def weight_scale(cells: Cells) -> Scale:
    """From 0 to 1; or, among many keys, to a stated maximum that few weights exceed."""
    largest = float(cells.extent[1])
    if cells.shape[1] <= MAX_FULL_SCALE_KEYS:
        return Scale("weight", 0.0, 1.0 if largest <= 1.001 else round_up(largest))
    sample = cells.sample()
    positive = sample[sample > 0]
    stated_maximum = (
        round_up(float(np.quantile(positive, STATED_MAXIMUM_QUANTILE))) if positive.size else 1.0
    )
    high = min(stated_maximum, max(1.0, largest))
    return Scale("weight", 0.0, high, is_exceeded=largest > high * (1 + SUM_TOLERANCE))


def bar_scale(cells: Cells) -> Scale:
    """From 0 to 1; or, among many keys, to the next round number: a bar never goes beyond."""
    largest = float(cells.extent[1])
    fits_full_scale = cells.shape[1] <= MAX_FULL_SCALE_KEYS and largest <= 1.001
    return Scale("weight", 0.0, 1.0 if fits_full_scale else round_up(largest))


def centred_scale(label: str, cells: Cells) -> Scale:
    """A diverging scale that reaches as far on either side of 0 as the largest value does."""
    reach = round_up(cells.reach)
    return Scale(label, -reach, reach, "diverging")


def logarithmic_scale(scale: Scale, keys: int) -> Scale:
    """The same with even steps of colour for each factor of ten.

    It begins well below what each key gets where all are read alike.
    """
    decades = max(MIN_LOG_DECADES, math.ceil(math.log10(BELOW_UNIFORM_FACTOR * max(keys, 1))))
    return replace(scale, low=scale.high / 10**decades, bend="log")


def widest_scale(scales: Sequence[Scale]) -> Scale:
    """The scale that holds all of them."""
    largest = max(scales, key=lambda scale: scale.high)
    beyond = any(scale.is_exceeded for scale in scales if scale.high == largest.high)
    return replace(largest, is_exceeded=beyond)


def round_up(value: float) -> float:
    """The next number that looks well at the end of a scale: 1, 1.5, 2, 3, 4, 5, 6, 8 times 10ⁿ.

    >>> round_up(0.0123), round_up(2.2), round_up(0.0)
    (0.015, 3.0, 1.0)
    """
    if value < SMALLEST_VALUE or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    step = next(step for step in ROUND_STEPS if step * power >= value * (1 - 1e-9))
    return float(f"{step * power:.12g}")
