"""Computes a printed line of arithmetic, and the interval that its rounded numbers allow.

Every printed number stands for all that round to it: an Interval. The notation, from what binds
least to what binds most:

    expression  term + term - term
    term        factor · factor / factor
    factor      -factor, or a power
    power       atom, or atom²
    atom        0.88, 1.2e-02, 45°, √8, √(…), (…), exp(…), [0.88 0.92] or [expression, expression]
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.intervals import (
    Interval,
    arccos,
    cos,
    exp,
    gelu,
    gelu_tanh,
    interval_of,
    relu,
    root,
    sin,
    tanh,
)

Words = deque[str]

# NumPy's, for they spread an operation on numbers over vectors.
SUMS = {"+": np.add, "-": np.subtract}
PRODUCTS = {"·": np.multiply, "/": np.divide}
FUNCTIONS = {
    "arccos": arccos,
    "exp": exp,
    "cos": cos,
    "sin": sin,
    "tanh": tanh,
    "relu": relu,
    "gelu_tanh": gelu_tanh,  # before the name that it begins with
    "gelu": gelu,
}

SIGN = re.compile(r" ([=≈]) (?=[^=≈]*$)")
VECTOR = r"\[[^\[\]]+\]"
NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?°?"
WORD = re.compile("|".join([VECTOR, NUMBER, *FUNCTIONS, "[-+·/√²()]"]))
NAME_OF_TERM = re.compile(r" \((?:ALiBi|position bias|additive mask)\)")
END = "the end"


def holds(line: str) -> bool:
    """Whether a printed line is true: `=` to the last digit, `≈` within the rounding."""
    right, sign, result = sides(line)
    computed_numbers, printed_numbers = (
        np.atleast_1d(evaluate(right)),
        np.atleast_1d(evaluate(result)),
    )
    assert computed_numbers.shape == printed_numbers.shape, line
    agrees = _rounds_to if sign == "=" else _overlaps
    return all(
        agrees(one, other) for one, other in zip(computed_numbers, printed_numbers, strict=True)
    )


def sides(line: str) -> tuple[str, str, str]:
    """The computation to the right of the name, the sign, and the printed result."""
    body = line.split(" = ", 1)[1]
    sign_match = SIGN.search(body)
    assert sign_match, line
    return body[: sign_match.start()], sign_match[1], body[sign_match.end() :]


def evaluate(text: str) -> Any:
    """An Interval, or an array of them."""
    words = _words(text)
    value = _expression(words)
    _skip(words, END)
    return value


def _rounds_to(computed: Interval, printed: Interval) -> bool:
    slack = 1e-9 * max(1, abs(printed.value))
    return printed.low - slack <= computed.value <= printed.high + slack


def _overlaps(computed: Interval, printed: Interval) -> bool:
    slack = 1e-5 * max(1, abs(printed.value))
    return computed.low - slack <= printed.high and printed.low - slack <= computed.high


def _words(text: str) -> Words:
    """
    >>> _words("2·[0.88 0.92]")
    deque(['2', '·', '[0.88 0.92]', 'the end'])
    """
    text = NAME_OF_TERM.sub("", text)
    unknown = WORD.sub("", text).strip()
    if unknown:
        raise ValueError(f"not arithmetic: {unknown!r} in {text!r}")
    return deque([*WORD.findall(text), END])


def _expression(words: Words) -> Any:
    value = _term(words)
    while words[0] in SUMS:
        operation = SUMS[words.popleft()]
        value = operation(value, _term(words))
    return value


def _term(words: Words) -> Any:
    value = _factor(words)
    while words[0] in PRODUCTS:
        operation = PRODUCTS[words.popleft()]
        value = operation(value, _factor(words))
    return value


def _factor(words: Words) -> Any:
    if words[0] == "-":
        _skip(words, "-")
        return np.negative(_factor(words))
    return _power(words)


def _power(words: Words) -> Any:
    value = _atom(words)
    if words[0] == "²":
        _skip(words, "²")
        return _apply_to_each(Interval.squared, value)
    return value


def _atom(words: Words) -> Any:
    word = words.popleft()
    if word == "√":
        return _apply_to_each(root, _atom(words))
    if word in FUNCTIONS:
        _skip(words, "(")
        return _apply_to_each(FUNCTIONS[word], _inside(words))
    if word == "(":
        return _inside(words)
    return _vector(word) if word.startswith("[") else _number(word)


def _inside(words: Words) -> Any:
    """The expression after an opening parenthesis, up to the one that closes it."""
    value = _expression(words)
    _skip(words, ")")
    return value


def _vector(word: str) -> Any:
    """Without a comma a vector holds numbers: the `-` of `[1 -2]` takes nothing from the 1."""
    parts = word[1:-1].split("," if "," in word else None)
    return np.array([evaluate(part) for part in parts], dtype=object)


def _number(word: str) -> Interval:
    if not word[0].isdecimal():
        raise ValueError(f"not arithmetic: {word!r} where a number should stand")
    return interval_of(word)


def _apply_to_each(function: Callable[[Interval], Interval], values: Any) -> Any:
    """Apply a function to a number, or to every number of a vector."""
    return np.frompyfunc(function, 1, 1)(values)


def _skip(words: Words, expected: str) -> None:
    word = words.popleft()
    if word != expected:
        raise ValueError(f"not arithmetic: {word!r} where {expected!r} should stand")
