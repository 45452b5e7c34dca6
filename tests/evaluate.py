"""Reads a line of arithmetic as a person with a calculator would, and says how far off it may be.

Every printed number stands for all that round to it: an Interval. What has no point, such as the
8 of √8, is meant exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SIGN = re.compile(r" ([=≈]) (?=[^=≈]*$)")
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


@dataclass(frozen=True)
class Interval:
    """All numbers from `low` to `high`; `value` is the printed one."""

    low: float
    value: float
    high: float

    def map(self, function: Callable[[float], float]) -> Interval:
        """A function that only rises, or only falls."""
        ends = sorted((function(self.low), function(self.high)))
        return Interval(ends[0], function(self.value), ends[1])

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.value, -self.low)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        other = interval(other)
        return Interval(self.low + other.low, self.value + other.value, self.high + other.high)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self + -interval(other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        other = interval(other)
        ends = [one * two for one in (self.low, self.high) for two in (other.low, other.high)]
        return Interval(min(ends), self.value * other.value, max(ends))

    def __truediv__(self, other: Any) -> Any:
        below = interval(other)
        return self * Interval(1 / below.high, 1 / below.value, 1 / below.low)

    def __pow__(self, power: int) -> Interval:
        assert power == 2
        ends = [self.low**2, self.high**2]
        least = 0.0 if self.low <= 0 <= self.high else min(ends)
        return Interval(least, self.value**2, max(ends))

    __radd__ = __add__
    __rmul__ = __mul__


def interval(value: Any) -> Interval:
    if isinstance(value, Interval):
        return value
    return Interval(float(value), float(value), float(value))


def printed(text: str) -> Interval:
    """What a printed number stands for."""
    value = float(text)
    mantissa, _, power = text.partition("e")
    if "." not in mantissa and not power:
        return interval(value)
    digits = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0 ** (int(power or 0) - digits)
    return Interval(value - half, value, value + half)


def exp(value: Any) -> Interval:
    return interval(value).map(math.exp)


def root(value: Any) -> Interval:
    one = interval(value)
    return Interval(max(one.low, 0), one.value, one.high).map(math.sqrt)


def wave(function: Callable[[float], float]) -> Callable[[Any], Interval]:
    """sin and cos change no faster than their angle."""

    def of(value: Any) -> Interval:
        angle = interval(value)
        reach = max(angle.high - angle.value, angle.value - angle.low)
        middle = function(angle.value)
        return Interval(middle - reach, middle, middle + reach)

    return of


def bend(function: Callable[[float], float]) -> Callable[[Any], Any]:
    def of(vector: Any) -> Any:
        return np.array([each.map(function) for each in vector], dtype=object)

    return of


def gelu(value: float) -> float:
    return value * (1 + math.erf(value / math.sqrt(2))) / 2


def gelus(numbers: Any) -> Any:
    """gelu falls until -0.7518 and rises from there."""
    made = [each.map(gelu) for each in numbers]
    low = gelu(-0.7518)
    dips = [each.low < -0.7518 < each.high for each in numbers]
    return np.array([Interval(low, each.value, each.high) if dip else each
                     for each, dip in zip(made, dips, strict=True)], dtype=object)  # fmt: skip


def vector(*numbers: Any) -> np.ndarray:
    return np.array([interval(number) for number in numbers], dtype=object)


TOOLS: dict[str, Any] = {
    "exp": exp, "root": root, "cos": wave(math.cos), "sin": wave(math.sin), "vector": vector,
    "relu": bend(lambda value: max(value, 0.0)), "gelu": gelus, "printed": printed,
}  # fmt: skip


def sides(line: str) -> tuple[str, str, str]:
    """What is computed on the right, the sign, and the printed result."""
    body = line.split(" = ", 1)[1]
    found = SIGN.search(body)
    assert found, line
    return body[: found.start()], found[1], body[found.end() :]


def evaluated(text: str) -> Any:
    """An Interval, or an array of them."""
    text = re.sub(r"\[([^\],]*)\]", lambda found: f"vector({', '.join(found[1].split())})", text)
    text = text.replace("[", "vector(").replace("]", ")")
    text = re.sub(r"√(\d+)", r"root(\1)", text).replace("√(", "root(")
    text = text.replace("·", "*").replace("²", "**2")
    text = re.sub(r"\*\*2", "**TWO", text)
    text = NUMBER.sub(lambda found: f'printed("{found[0]}")', text).replace("**TWO", "**2")
    return eval(text, {"__builtins__": {}}, TOOLS)


def holds(line: str) -> bool:
    """Whether a printed line keeps its word: `=` to the last digit, `≈` within the rounding."""
    right, sign, result = sides(line)
    made, wanted = np.atleast_1d(evaluated(right)), np.atleast_1d(evaluated(result))
    assert made.shape == wanted.shape, line
    if sign == "=":
        return all(_reads_like(one, other) for one, other in zip(made, wanted, strict=True))
    return all(_may_be(one, other) for one, other in zip(made, wanted, strict=True))


def _reads_like(made: Any, wanted: Interval) -> bool:
    value, slack = interval(made).value, 1e-9 * max(1, abs(wanted.value))
    return wanted.low - slack <= value <= wanted.high + slack


def _may_be(made: Any, wanted: Interval) -> bool:
    one, slack = interval(made), 1e-5 * max(1, abs(wanted.value))
    return one.low - slack <= wanted.high and wanted.low - slack <= one.high
