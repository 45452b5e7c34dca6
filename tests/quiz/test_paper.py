"""What is computed by hand from the numbers on a sheet is the right option, to its last digit."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from math import exp

import pytest

from attnviz.wings.quiz.lesson import read_course
from attnviz.wings.quiz.quiz import build_quiz
from attnviz.wings.quiz.view import view
from tests import not_none

NUMBER = r"-?\d*\.\d\d"
COMPUTED_KINDS = ("weight", "temperature", "value")


def computed_by_hand(kind: str, printed: str) -> float:
    """The answer to a question in the text of a sheet, from what stands there alone."""
    [header] = re.findall(r"^\|  \| (.*) \|$", printed, re.MULTILINE)
    [cells] = re.findall(rf"^\| \S+ \| ({NUMBER}(?: \| {NUMBER})*) \|$", printed, re.MULTILINE)
    numbers = [float(cell) for cell in cells.split(" | ")]
    keys = [name.split(" ", 1)[1] for name in header.split(" | ")]
    words = re.findall(r'"([^"]+)"', printed.splitlines()[0])
    if kind == "value":
        before, old, new = map(float, re.findall(NUMBER, printed.split("\n|")[0])[-3:])
        [raised] = re.findall(r'value of "([^"]+)" is now raised', printed)
        return before + numbers[keys.index(raised)] * (new - old)
    powers = [exp((2 if kind == "temperature" else 1) * score) for score in numbers]
    shares = [power / sum(powers) for power in powers]
    return max(shares) if kind == "temperature" else shares[keys.index(words[-1])]


@pytest.mark.parametrize(
    "seeds", [(42, 7), pytest.param(range(1, 12), marks=pytest.mark.slow("seeds"))]
)
def test_the_right_option_is_what_the_printed_numbers_give_to_its_last_digit(
    seeds: tuple[int, ...],
) -> None:
    for seed in seeds:
        sheet = view(build_quiz(read_course().with_seed(seed)))
        questions = sheet.render(".md").decode().split("\n## ")[1:]
        for exercise, printed in zip(not_none(sheet.sheet).exercises, questions, strict=True):
            if exercise.question.name in COMPUTED_KINDS:
                result = computed_by_hand(exercise.question.name, printed)
                rounded = Decimal(f"{result:.6f}").quantize(Decimal("0.01"), ROUND_HALF_UP)
                assert f"{rounded}" == exercise.options[exercise.answer], (seed, printed)
