"""Scale: the range of numbers that colours stand for, and its rounded ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from attnviz.cells import Cells

# Up to this many keys colours run from 0 to 1. With more keys, weights are so small that all would
# look like 0, so colours run to a stated maximum.
MAX_FULL_SCALE_KEYS = 16
STATED_MAXIMUM_QUANTILE = 0.98  # of the weights above 0; the stated maximum
ROUND_STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)  # ends of scales, times a power of ten
MIN_LOG_DECADES = 3  # powers of ten that a logarithmic scale spans at least
BELOW_UNIFORM_FACTOR = 10.0  # how far a logarithmic scale goes below the weight of even attention
SUM_TOLERANCE = 1e-6  # relative rounding error of a sum of weights
SMALLEST_VALUE = 1e-300  # smaller values have no exact power of ten

ScaleBend = Literal["straight", "root", "log"]  # what colours are proportional to


@dataclass(frozen=True)
class Scale:
    """The meaning of colours, from the number `low` to the number `high`.

    `kind` is "sequential", "diverging" (centred on 0) or "none" (no colours). `is_exceeded` says
    that some values lie above `high` and get its colour. Colours may be proportional to the root or
    the logarithm (`bend`), so that small numbers show beside large ones; a logarithmic scale begins
    above 0.
    """

    label: str
    low: float
    high: float
    kind: Literal["sequential", "diverging", "none"] = "sequential"
    is_exceeded: bool = False
    bend: ScaleBend = "straight"

    @property
    def name(self) -> str:
        return "attention weight" if self.label == "weight" else self.label

    @property
    def covers_smaller(self) -> bool:
        """Whether the low end also stands for smaller values: a logarithm never reaches 0, and
        differences can exceed both ends.
        """
        return self.bend == "log" or (self.kind == "diverging" and self.is_exceeded)

    def shares(self, values: Shaped[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return how far along the scale each value is, from 0 at `low` to 1 at `high`; values
        beyond an end are clipped to it.

        >>> Scale("weight", 0, 1, bend="root").shares(np.array([0.0, 0.25, 4.0])).tolist()
        [0.0, 0.5, 1.0]
        """
        low, high = (self._transform(np.array(end)) for end in (self.low, self.high))
        clipped = np.clip(values.astype(float), self.low, self.high)
        shares: Float[np.ndarray, "*shape"] = (self._transform(clipped) - low) / (high - low)
        return shares

    def values_at(self, shares: Shaped[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return the value at each share (0 to 1) of the scale, such as for the ticks of a colour
        bar.

        >>> scale = Scale("weight", 0.01, 1, bend="log")
        >>> scale.values_at(np.array([0.0, 0.5, 1.0])).round(9).tolist()
        [0.01, 0.1, 1.0]
        """
        low, high = (self._transform(np.array(end)) for end in (self.low, self.high))
        transformed = low + shares * (high - low)
        if self.bend == "root":
            return np.asarray(np.sign(transformed) * transformed**2)
        return np.asarray(np.exp(transformed) if self.bend == "log" else transformed)

    def _transform(self, values: Shaped[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return the signed square roots, the logarithms or the values themselves, according to
        `bend`.
        """
        if self.bend == "root":
            return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))
        return np.asarray(np.log(values) if self.bend == "log" else values)


def colorless_scale(label: str) -> Scale:
    """Return a scale for numbers that are read and not coloured."""
    return Scale(label, 0, 1, "none")


def weight_scale(cells: Cells, keys: int | None = None) -> Scale:
    """Return the scale of weights: from 0 to 1 (or more, if a weight is larger), or with more than
    MAX_FULL_SCALE_KEYS keys to a maximum that few weights exceed.

    `keys`: how many the queries have in all, if the cells are of a part of them.
    """
    largest = float(cells.extent[1])
    if (keys or cells.shape[1]) <= MAX_FULL_SCALE_KEYS:
        return Scale("weight", 0.0, 1.0 if largest <= 1.001 else round_up(largest))
    sample = cells.sample()
    positive = sample[sample > 0]
    stated = (
        round_up(float(np.quantile(positive, STATED_MAXIMUM_QUANTILE))) if positive.size else 1.0
    )
    high = min(stated, max(1.0, largest))
    return Scale("weight", 0.0, high, is_exceeded=largest > high * (1 + SUM_TOLERANCE))


def bar_scale(cells: Cells) -> Scale:
    """Return the scale of bars of weights: from 0 to 1, or for many keys or larger weights to a
    round number that no bar exceeds.
    """
    largest = float(cells.extent[1])
    fits_full_scale = cells.shape[1] <= MAX_FULL_SCALE_KEYS and largest <= 1.001
    return Scale("weight", 0.0, 1.0 if fits_full_scale else round_up(largest))


def centred_scale(label: str, cells: Cells) -> Scale:
    """Return a diverging scale that reaches to the same round number on both sides of 0, no less
    than the largest absolute value.
    """
    reach = round_up(cells.reach)
    return Scale(label, -reach, reach, "diverging")


def block_difference_scale(label: str, cells: Cells) -> Scale:
    """Return the same, but to a maximum that few of many differences exceed."""
    sizes = np.abs(cells.sample())
    if cells.shape[1] <= MAX_FULL_SCALE_KEYS or not sizes.any():
        return centred_scale(label, cells)
    reach = round_up(float(np.quantile(sizes[sizes > 0], STATED_MAXIMUM_QUANTILE)))
    is_exceeded = cells.reach > reach * (1 + SUM_TOLERANCE)
    return Scale(label, -reach, reach, "diverging", is_exceeded=is_exceeded)


def measure_scale(label: str, cells: Cells, *, share: bool, signed: bool = False) -> Scale:
    """Return the scale of any measure: centred on 0 for differences (`signed`) and negative
    numbers; for rows that sum to 1 (`share`) a weight scale; else from 0 to a round number.
    """
    low, high = cells.extent
    if signed or low < 0:
        return centred_scale(label, cells)
    if share:
        return replace(weight_scale(cells), label=label)
    return Scale(label, 0.0, round_up(float(high)))


def logarithmic_scale(scale: Scale, keys: int) -> Scale:
    """Return the scale with colours proportional to the logarithm, and a new lower end.

    That lies well below the weight that each of `keys` keys gets when all are attended to evenly.
    """
    decades = max(MIN_LOG_DECADES, math.ceil(math.log10(BELOW_UNIFORM_FACTOR * max(keys, 1))))
    return replace(scale, low=scale.high / 10**decades, bend="log")


def widest_scale(scales: Sequence[Scale]) -> Scale:
    """Return the scale with the largest upper end; `is_exceeded` if it is in any scale with that
    end.
    """
    largest = max(scales, key=lambda scale: scale.high)
    beyond = any(scale.is_exceeded for scale in scales if scale.high == largest.high)
    return replace(largest, is_exceeded=beyond)


def round_up(value: float) -> float:
    """Return the next round number: 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten; 1 for zero,
    negative and infinite numbers.

    >>> round_up(0.0123), round_up(2.2), round_up(0.0)
    (0.015, 3.0, 1.0)
    """
    if value < SMALLEST_VALUE or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    step = next(step for step in ROUND_STEPS if step * power >= value * (1 - 1e-9))
    return float(f"{step * power:.12g}")
