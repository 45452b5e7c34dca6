"""Titles say what a command is for; what they name is held against the weights elsewhere."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from attnviz import compare, trace
from tests import not_none

CAT = "the cat chased the mouse because it was hungry"
KEYS = "the old keys near the small cabinet ?"
ANIMAL = "The animal didn't cross the street because it was too tired"


@pytest.mark.parametrize(
    ("text", "settings", "title"),
    [
        (
            CAT,
            {"variant": "multi-head", "heads": 4},
            "The 4 heads differ: they disagree on what 8 of the 9 tokens attend to most",
        ),
        (
            CAT,
            {"variant": "plain"},
            "Each token gives itself 74 % or more: its vector matches itself best",
        ),
        (CAT, {}, "Each token divides its attention among all 9 tokens: every row sums to 1"),
        ("a b", {}, "Each token divides its attention between both tokens: every row sums to 1"),
        (CAT, {"variant": "causal"}, "Each token attends only to itself and earlier tokens"),
        (
            CAT,
            {"memory": CAT},
            "Cross-attention: queries from one sequence, keys and values from another",
        ),
        (
            "bdacbda",
            {"model": "induction"},
            'L1H0 and L1H3 find the earlier "a" (3) and read "c" after it; the answer is "c" '
            "(99.9 %)",
        ),
        (
            KEYS,
            {"model": "agreement"},
            '"?" attends most to "keys" in L1H0 and L1H1; the answer is "are" (99.9 %)',
        ),
        (
            ANIMAL,
            {"model": "toy"},
            'In head 0, "it" gives "animal" 95 % of its attention; the other tokens give it 1 %',
        ),
    ],
)
def test_a_title_says_what_the_variant_does_or_what_the_model_is_for(
    text: str, settings: dict[str, Any], title: str
) -> None:
    assert trace(text, **settings).view().headline.replace("\xa0", " ") == title


def test_the_pair_that_is_switched_off_is_the_one_that_matters_most() -> None:
    whole = not_none(trace(KEYS, model="agreement").prediction)
    (place,) = whole.asked_positions
    answer = whole.best(place, 1)[0]

    def answer_without(names: tuple[str, ...]) -> tuple[int, float]:
        off = not_none(trace(KEYS, model="agreement", without=",".join(names)).prediction)
        return off.best(place, 1)[0], float(off.probabilities[place, answer])

    heads = ["L0H0", "L0H1", "L1H0", "L1H1"]
    assert all(answer_without((head,))[0] == answer for head in heads)
    least = min(combinations(heads, 2), key=lambda pair: answer_without(pair)[1])
    comparison = compare(KEYS, model="agreement", by="without")
    assert [each.name for each in comparison.alternatives] == [
        "none", *least, "+".join(least)
    ]  # fmt: skip


def test_heads_that_are_off_already_are_those_that_are_compared() -> None:
    comparison = compare(KEYS, model="agreement", by="without", without="L1H0,L1H1")

    assert [each.name for each in comparison.alternatives] == [
        "none", "L1H0", "L1H1", "L1H0+L1H1"
    ]  # fmt: skip
