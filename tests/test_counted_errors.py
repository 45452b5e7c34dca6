"""Errors give the right number and names, also where there is only one thing, or none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnviz import trace
from attnviz.errors import AttnvizError, unknown_name_error
from attnviz.traces.matrices import parse_matrices
from attnviz.wings.examples.claims import CLAIMS
from attnviz.wording.numbers import exact_text

ROWS = [[1.0, 0.0], [0.5, -2.0]]
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]


def test_one_token_is_no_plural() -> None:
    with pytest.raises(AttnvizError) as refusal:
        trace("I").tokens.index("you", "query")

    assert refusal.value.hint == "the only token is: 0 I"


def test_of_no_names_none_is_listed() -> None:
    assert unknown_name_error("tensor", "x", []).hint == "there is none to choose"


def test_a_text_of_one_token_is_counted_so() -> None:
    with pytest.raises(AttnvizError, match=r"the text has 1 token \(gpt2\), but 'm' is for 2"):
        trace("I", given=parse_matrices({"embeddings": ROWS}, "m"))


def test_one_key_is_one() -> None:
    with pytest.raises(AttnvizError) as refusal:
        parse_matrices({"queries": ROWS, "keys": ROWS[:1], "values": ROWS}, "m")

    assert "according to 'keys' there is 1 key" in refusal.value.hint


def test_values_that_differ_in_the_seventh_digit_have_rows_of_their_own() -> None:
    assert [exact_text(each) for each in np.array([1.0, 1.0000001])] == ["1", "1.0000001"]


@pytest.mark.parametrize(
    ("contents", "unused"),
    [
        ({"queries": ROWS, "w_query": IDENTITY}, "queries are given and need not be computed"),
        ({"keys": ROWS, "b_key": [1.0, 2.0]}, "keys are given and need not be computed"),
        ({"values": ROWS, "w_value": IDENTITY}, "values are given and need not be computed"),
        ({"scores": IDENTITY, "w_key": IDENTITY}, "scores are given and need not be computed"),
        (
            {"weights": IDENTITY, "kept": IDENTITY},
            "weights are given, which dropout does not change",
        ),
    ],
)
def test_what_nothing_uses_is_refused(contents: dict[str, Any], unused: str) -> None:
    name = [*contents][1]

    with pytest.raises(AttnvizError, match=f"{unused}, but 'm' gives '{name}'"):
        trace(None, given=parse_matrices({"embeddings": ROWS, **contents}, "m"))


def test_what_another_layer_makes_of_such_a_matrix_is_its_own() -> None:
    given = {"embeddings": ROWS, "queries": ROWS, "layers.1.w_query": IDENTITY}

    result = trace(None, given=parse_matrices(given, "m"), layers=2)

    assert result.layers[1].projections is not None
    assert result.layers[1].projections.w_query is not None
    assert torch.equal(result.layers[1].projections.w_query, torch.tensor(IDENTITY))


def test_rows_that_sum_to_1_are_those_that_are_shown() -> None:
    layer = trace("I am learning this", dropout=0.5).layers[0]

    assert not CLAIMS["rows sum to 1"](layer, [layer])[0]
    assert CLAIMS["rows do not sum to 1"](layer, [layer])[0]
