"""Reads a line of arithmetic as a person with a calculator would, and says how far off it may be.

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
    printed,
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
    """Whether a printed line keeps its word: `=` to the last digit, `≈` within the rounding."""
    right, sign, result = sides(line)
    made, wanted = np.atleast_1d(evaluated(right)), np.atleast_1d(evaluated(result))
    assert made.shape == wanted.shape, line
    agree = _reads_like if sign == "=" else _may_be
    return all(agree(one, other) for one, other in zip(made, wanted, strict=True))


def sides(line: str) -> tuple[str, str, str]:
    """What is computed on the right, the sign, and the printed result."""
    body = line.split(" = ", 1)[1]
    found = SIGN.search(body)
    assert found, line
    return body[: found.start()], found[1], body[found.end() :]


def evaluated(text: str) -> Any:
    """An Interval, or an array of them."""
    words = _words(text)
    made = _expression(words)
    _skip(words, END)
    return made


def _reads_like(made: Interval, wanted: Interval) -> bool:
    slack = 1e-9 * max(1, abs(wanted.value))
    return wanted.low - slack <= made.value <= wanted.high + slack


def _may_be(made: Interval, wanted: Interval) -> bool:
    slack = 1e-5 * max(1, abs(wanted.value))
    return made.low - slack <= wanted.high and wanted.low - slack <= made.high


def _words(text: str) -> Words:
    """
    >>> _words("2·[0.88 0.92]")
    deque(['2', '·', '[0.88 0.92]', 'the end'])
    """
    text = NAME_OF_TERM.sub("", text)
    strange = WORD.sub("", text).strip()
    if strange:
        raise ValueError(f"not arithmetic: {strange!r} in {text!r}")
    return deque([*WORD.findall(text), END])


def _expression(words: Words) -> Any:
    made = _term(words)
    while words[0] in SUMS:
        operation = SUMS[words.popleft()]
        made = operation(made, _term(words))
    return made


def _term(words: Words) -> Any:
    made = _factor(words)
    while words[0] in PRODUCTS:
        operation = PRODUCTS[words.popleft()]
        made = operation(made, _factor(words))
    return made


def _factor(words: Words) -> Any:
    if words[0] == "-":
        _skip(words, "-")
        return np.negative(_factor(words))
    return _power(words)


def _power(words: Words) -> Any:
    made = _atom(words)
    if words[0] == "²":
        _skip(words, "²")
        return _of_each(Interval.squared, made)
    return made


def _atom(words: Words) -> Any:
    word = words.popleft()
    if word == "√":
        return _of_each(root, _atom(words))
    if word in FUNCTIONS:
        _skip(words, "(")
        return _of_each(FUNCTIONS[word], _inside(words))
    if word == "(":
        return _inside(words)
    return _vector(word) if word.startswith("[") else _number(word)


def _inside(words: Words) -> Any:
    """What stands between a parenthesis that is read already and the one that closes it."""
    made = _expression(words)
    _skip(words, ")")
    return made


def _vector(word: str) -> Any:
    """Without a comma a vector holds numbers: the `-` of `[1 -2]` takes nothing from the 1."""
    parts = word[1:-1].split("," if "," in word else None)
    return np.array([evaluated(part) for part in parts], dtype=object)


def _number(word: str) -> Interval:
    if not word[0].isdecimal():
        raise ValueError(f"not arithmetic: {word!r} where a number should stand")
    return printed(word)


def _of_each(function: Callable[[Interval], Interval], made: Any) -> Any:
    """A function of a number, or of every number of a vector."""
    return np.frompyfunc(function, 1, 1)(made)


def _skip(words: Words, wanted: str) -> None:
    word = words.popleft()
    if word != wanted:
        raise ValueError(f"not arithmetic: {word!r} where {wanted!r} should stand")
