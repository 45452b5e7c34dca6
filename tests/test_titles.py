"""Titles say what a command is for; what they name is held against the weights elsewhere."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from attnviz import compare, trace
from attnviz.views.grids.grid import Grid
from attnviz.views.view import View
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
            'In head 0, "it" gives "animal" 95 % of its attention; '
            'the other tokens give "animal" 1 %',
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


# What a title is about is framed.


def frames_by_title(view: View) -> dict[str, tuple[tuple[int, int, int], ...]]:
    grids = (panel for panel in view.picture.panels if isinstance(panel, Grid))
    return {grid.title: grid.marks for grid in grids if grid.marks}


def test_what_is_read_for_the_answer_is_framed_in_each_head_that_the_title_names() -> None:
    result = trace("bdacbda", model="induction")
    frames = frames_by_title(result.view())

    assert result.view().headline.startswith('L1H0 and L1H3 find the earlier "a" (3) and read "c"')
    assert [*frames] == ["weights L1H0", "weights L1H3"]
    for head, name in ((0, "weights L1H0"), (3, "weights L1H3")):
        row = result.layers[1].attended.mixing[head, 6]
        assert frames[name] == ((6, int(row.argmax()), int(row.argmax()) + 1),)
    assert frames_by_title(trace("bdacbda").view()) == {}
    without_heads = trace(KEYS, model="agreement", without="L1H0,L1H1").view()
    assert without_heads.headline.startswith("Without L1H0 and L1H1")
    assert frames_by_title(without_heads) == {}


def test_a_map_with_too_many_cells_for_numbers_is_framed_without_them() -> None:
    letters = "bdacbdaefghacbdghefabcdh" * 3
    view = trace(letters[:60], model="induction").view()

    assert frames_by_title(view)
    assert b"<svg" in view.render(".svg", size="16:9")


def test_equal_rows_without_positions_are_framed_there_alone() -> None:
    comparison = compare("the dog bites the man", by="positions", tokenizer="words")

    assert frames_by_title(comparison.view()) == {"none": ((0, 0, 5), (3, 0, 5))}
    assert frames_by_title(comparison.view(query="dog")) == {}


def test_the_largest_change_to_a_shared_word_is_framed() -> None:
    texts = [f"The trophy does not fit because it is too {word}" for word in ("big", "small")]
    first, second = (trace(text, model="minilm") for text in texts)
    view = compare(first, second, query="it").view()
    [(title, [(row, column, end)])] = frames_by_title(view).items()
    [difference] = [each for each in view.grids() if each.title == title]
    shared = [
        at
        for at, label in enumerate(difference.columns.labels)
        if "/" not in label and not label.startswith("[")
    ]

    assert end == column + 1
    assert column == max(shared, key=lambda at: abs(difference.values[row, at]))
    assert "framed = the largest change in 72 heads" in view.picture.caption
    assert "framed" not in view.screen.caption
