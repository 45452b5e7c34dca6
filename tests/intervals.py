"""Intervals: all the numbers that a printed number can stand for.

A number without a point, such as the 8 of √8, is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

LOWEST = -0.7518  # gelu falls until here, and rises from here
LOWEST_BY_TANH = -0.7525


@dataclass(frozen=True)
class Interval:
    """All numbers from `low` to `high`; `value` is the printed one."""

    low: float
    value: float
    high: float

    def map(self, function: Callable[[float], float]) -> Interval:
        """Apply a function that only rises, or only falls."""
        ends = sorted((function(self.low), function(self.high)))
        return Interval(ends[0], function(self.value), ends[1])

    def squared(self) -> Interval:
        ends = [self.low**2, self.high**2]
        least = 0.0 if self.low <= 0 <= self.high else min(ends)
        return Interval(least, self.value**2, max(ends))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.value, -self.low)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.value + other.value, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        ends = [one * two for one in (self.low, self.high) for two in (other.low, other.high)]
        return Interval(min(ends), self.value * other.value, max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        return self * Interval(1 / other.high, 1 / other.value, 1 / other.low)


def interval_of(text: str) -> Interval:
    """The numbers that are printed like this.

    >>> interval_of("0.5"), interval_of("8")
    (Interval(low=0.45, value=0.5, high=0.55), Interval(low=8.0, value=8.0, high=8.0))
    """
    if text.endswith("°"):
        return interval_of(text[:-1]).map(math.radians)
    mantissa, _, power = text.partition("e")
    digits = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0 ** (int(power or 0) - digits) if digits or power else 0.0
    value = float(text)
    return Interval(value - half, value, value + half)


def root(number: Interval) -> Interval:
    return replace(number, low=max(number.low, 0.0)).map(math.sqrt)


def exp(number: Interval) -> Interval:
    return number.map(math.exp)


def tanh(number: Interval) -> Interval:
    return number.map(math.tanh)


def arccos(number: Interval) -> Interval:
    return number.map(lambda value: math.acos(min(max(value, -1.0), 1.0)))


def cos(angle: Interval) -> Interval:
    return _map_wave(math.cos, angle)


def sin(angle: Interval) -> Interval:
    return _map_wave(math.sin, angle)


def relu(number: Interval) -> Interval:
    return number.map(lambda value: max(value, 0.0))


def gelu(number: Interval) -> Interval:
    return _map_with_minimum(number, _gelu, LOWEST)


def gelu_tanh(number: Interval) -> Interval:
    return _map_with_minimum(number, _gelu_tanh, LOWEST_BY_TANH)


def _map_with_minimum(
    number: Interval, function: Callable[[float], float], lowest: float
) -> Interval:
    """Apply a function that falls until `lowest`, and rises from there."""
    interval = number.map(function)
    reaches_lowest = number.low < lowest < number.high
    return replace(interval, low=function(lowest)) if reaches_lowest else interval


def _map_wave(function: Callable[[float], float], angle: Interval) -> Interval:
    """Apply sin or cos, which change no faster than their angle."""
    reach = max(angle.high - angle.value, angle.value - angle.low)
    middle = function(angle.value)
    return Interval(middle - reach, middle, middle + reach)


def _gelu(value: float) -> float:
    return value * (1 + math.erf(value / math.sqrt(2))) / 2


def _gelu_tanh(value: float) -> float:
    scaled = math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)
    return value * (1 + math.tanh(scaled)) / 2
