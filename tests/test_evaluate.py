"""The calculator that checks the printed arithmetic is checked itself, with sums done on paper."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.evaluate import evaluate, holds, sides
from tests.intervals import Interval

CUT_OFF = ("", "1 +", "· 2", "1 2", "(1", "1)", "()", "√", "²", "exp")
NO_NUMBERS = ("1.", ".5", "1.2.3", "0x10", "1_000", "inf", "nan", "-∞", "1 + … 32 more …")
NO_VECTORS = ("[]", "[1 2", "1 2]", "[,]", "[1,]", "[1 - 2]", "[[1 2], [3 4]]")
NOT_OUR_NOTATION = (
    "2*3",
    "2**3",
    "2(3)",
    "7 % 3",
    "1 < 2",
    "1 = 1",
    "exp 1",
    "1²²",
    "1 if 1 else 2",
)


def values(text: str) -> list[float]:
    return [number.value for number in np.atleast_1d(evaluate(text))]


def bounds(text: str) -> tuple[float, float]:
    interval: Interval = evaluate(text)
    return interval.low, interval.high


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.25", 0.25),
        ("1.2e-02", 0.012),
        ("2.50e+07", 25_000_000),
        ("7 - 2 - 1", 4),
        ("1 + 2·3", 7),
        ("(1 + 2)·3", 9),
        ("12 / 3 / 2", 2),
        ("12 / (3 / 2)", 8),
        ("2·(-3)", -6),
        ("-2·3 + 1", -5),
        ("3²", 9),
        ("-3²", -9),
        ("(-3)²", 9),
        ("2·3²", 18),
        ("√9", 3),
        ("√(9 + 16)", 5),
        ("6 / √9 / 2", 1),
        ("exp(0)", 1),
        ("exp(3 - 2)", math.e),
        ("exp(5 - 5) / (exp(0) + exp(0))", 0.5),
        ("cos(0)", 1),
        ("sin(0)", 0),
        ("((1 - 3)² + (5 - 3)²) / 2", 4),
    ],
)
def test_a_number_is_worked_out_as_on_paper(text: str, value: float) -> None:
    assert values(text) == pytest.approx([value])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[1 -2]", [1, -2]),
        ("[0.88 1.2e-02]", [0.88, 0.012]),
        ("[5]", [5]),
        ("-[1 -2]", [-1, 2]),
        ("[1 2] + [3 4]", [4, 6]),
        ("2·[1 2] - 3·[0 1]", [2, 1]),
        ("([1 5] - 3) / √4", [-1, 1]),
        ("[3·cos(0) - 4·sin(0), 3·sin(0) + 4·cos(0)]", [3, 4]),
        ("[1, -2]", [1, -2]),
        ("relu(2·[1 -2] + [1 1])", [3, 0]),
        ("gelu([0 1 -1])", [0, 0.841345, -0.158655]),  # 1·Φ(1) and -1·Φ(-1)
    ],
)
def test_a_vector_is_worked_out_number_by_number(text: str, numbers: list[float]) -> None:
    assert values(text) == pytest.approx(numbers, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("8", 8, 8),
        ("0.5", 0.45, 0.55),
        ("0.50", 0.495, 0.505),
        ("1.2e-02", 0.0115, 0.0125),
        ("1e-05", 0.5e-05, 1.5e-05),
        ("-0.5", -0.55, -0.45),
        ("0.5 + 0.5", 0.9, 1.1),
        ("0.5 - 0.5", -0.1, 0.1),
        ("0.5·(-2)", -1.1, -0.9),
        ("1 / 0.5", 1 / 0.55, 1 / 0.45),
        ("0.0²", 0, 0.0025),
        ("√0.0", 0, math.sqrt(0.05)),
        ("exp(0.0)", math.exp(-0.05), math.exp(0.05)),
        ("cos(0.0)", 0.95, 1.05),
        ("relu(0.0)", 0, 0.05),
        ("gelu(-0.8 + 0.0)", -0.169971, -0.165654),  # at its lowest, -0.7518, and at -0.9
    ],
)
def test_a_printed_number_is_all_that_round_to_it(text: str, low: float, high: float) -> None:
    assert bounds(text) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize("text", [*CUT_OFF, *NO_NUMBERS, *NO_VECTORS, *NOT_OUR_NOTATION])
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not arithmetic"):
        evaluate(text)


@pytest.mark.parametrize(
    "text",
    [
        "exp.__globals__",
        "().__class__.__base__.__subclasses__()",
        "__import__('os').getcwd()",
        "(lambda: 1)()",
        "exp(print(1))",
        "[print(1), 2]",
    ],
)
def test_code_is_refused_and_never_run(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="not arithmetic"):
        evaluate(text)

    assert capsys.readouterr().out == ""


def test_a_line_is_cut_at_its_last_sign() -> None:
    assert sides("score(a = b, c) = 1·2 + 3 = 5")[1:] == ("=", "5")
    assert sides("scaled = 1 / √2 ≈ 0.71") == ("1 / √2", "≈", "0.71")


@pytest.mark.parametrize(
    "line",
    [
        "a = 1 + 1 = 2",
        "a = 0.5·0.5 = 0.25",
        "a = 1 / 3 = 0.33",
        "a = 0.3·3 ≈ 1.0",
        "a = √9 / 2 = 1.5",
        "a = exp(0) / (exp(0) + exp(0)) = 0.50",
        "a = 2·[1 2] = [2 4]",
        "a = relu([1 -2]) = [1 0]",
    ],
)
def test_a_right_sum_holds(line: str) -> None:
    assert holds(line)


@pytest.mark.parametrize(
    "line",
    [
        "a = 1 + 1 = 3",
        "a = 1 + 1 ≈ 3",
        "a = 0.5·0.5 = 0.26",
        "a = 1 / 3 = 0.34",
        "a = 0.3·3 = 1.0",  # only `≈` makes up for the digits that are not shown
        "a = 0.3·3 ≈ 1.2",
        "a = √9 / 2 = 1.6",
        "a = exp(0) / (exp(0) + exp(0)) = 0.49",
        "a = 2·[1 2] = [2 5]",
        "a = 2·[1 2] ≈ [3 4]",
        "a = relu([1 -2]) = [1 -2]",
    ],
)
def test_a_wrong_sum_does_not_hold(line: str) -> None:
    assert not holds(line)


@pytest.mark.parametrize("line", ["a = 1 + 1", "a = [1 2] = 1", "a = [1 2] = [1 2 3]"])
def test_a_line_without_a_result_of_its_shape_is_refused(line: str) -> None:
    with pytest.raises(AssertionError):
        holds(line)
