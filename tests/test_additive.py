"""Additive scores, as Bahdanau has them: w_score · tanh(query + key)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import attnviz as library
from attnviz import trace
from attnviz.analysis.checks import verify_trace
from attnviz.attention import arithmetic
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import parse_matrices
from attnviz.views.steps.walk import steps
from tests.conftest import Attnviz
from tests.evaluate import holds

TEXT = "I am learning this"
MATRICES = {
    "embeddings": [[1.0, 0.0], [0.0, 1.0]],
    "w_query": [[1.0, 0.5], [0.0, 2.0]],
    "w_key": [[0.5, 1.0], [1.0, 0.0]],
    "w_score": [1.0, -2.0],
}


def test_a_score_is_the_sum_that_paper_gives() -> None:
    scores = trace(None, given=parse_matrices(MATRICES), dtype="float64").layers[0].attended.scores

    # The first query is (1, 0.5), the keys are (0.5, 1) and (1, 0).
    expected = [
        math.tanh(1.5) - 2 * math.tanh(1.5),
        math.tanh(2.0) - 2 * math.tanh(0.5),
    ]
    assert scores[0, 0].tolist() == pytest.approx(expected)


def test_they_are_divided_by_nothing_unless_it_is_asked_for() -> None:
    given_trace, random_trace = (
        trace(None, given=parse_matrices(MATRICES)),
        trace(TEXT, scoring="additive"),
    )
    scaled_trace = trace(TEXT, scoring="additive", scale=True)

    assert [each.layers[0].scale for each in (given_trace, random_trace)] == [1.0, 1.0]
    assert scaled_trace.layers[0].scale == pytest.approx(8**-0.5)


@given(heads=st.integers(1, 3), groups=st.integers(1, 2), tokens=st.integers(1, 5))
def test_each_head_weighs_with_its_own_part(heads: int, groups: int, tokens: int) -> None:
    trace_of_words = trace(
        "a " * tokens,
        tokenizer="words",
        scoring="additive",
        heads=heads * groups,
        kv_heads=groups,
        head_dim=3,
        dtype="float64",
    )

    layer = trace_of_words.layers[0]
    keys = layer.keys_of_heads
    assert layer.w_score is not None
    assert layer.queries is not None
    assert keys is not None
    hidden_sums = torch.tanh(layer.queries[:, :, None] + keys[:, None])
    expected = torch.einsum("hqkw,hw->hqk", hidden_sums, layer.w_score.view(-1, 3))
    assert_close(layer.attended.scores, expected)
    assert [check.passed for check in verify_trace(trace_of_words)] == [True] * 4


def test_many_queries_are_scored_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expected_scores = trace(TEXT, scoring="additive").layers[0].attended.scores

    monkeypatch.setattr(arithmetic, "ADDITIVE_NUMBERS_AT_ONCE", 33)

    assert torch.equal(trace(TEXT, scoring="additive").layers[0].attended.scores, expected_scores)


def test_the_steps_write_it_out(attnviz: Attnviz) -> None:
    result = attnviz("steps", TEXT, "--scoring", "additive", "--query", "am", "--step", "3-6")

    output = " ".join(result.out.split())
    assert "additive scores · not scaled" in output
    assert output.startswith("How ")
    assert "w_score turns the sum of a query and a key into a score." in output
    assert "score = w_score · tanh(query + key)" in output
    assert "Q Kᵀ" not in output
    assert "The scores are not scaled." in output


@pytest.mark.slow("sentences")
def test_the_written_arithmetic_holds(tmp_path: Path) -> None:
    trace_of_heads = trace(TEXT, scoring="additive", heads=2, positions="rotary")

    walk = steps(trace_of_heads, query="am", digits=4)

    for section in walk.sections:
        for each in section.sums:
            assert holds(each.text), each.text
    steps(trace_of_heads, query="am", step="scores").view().save(tmp_path / "scores.gif", dpi=50)


def test_what_is_shown_says_how_scores_were_made(attnviz: Attnviz, tmp_path: Path) -> None:
    picture = str(tmp_path / "scores.svg")
    options = ("--scoring", "additive", "--show", "queries,keys,scores")

    result = attnviz("run", TEXT, *options)
    saved_picture = attnviz("run", TEXT, *options, "-o", picture)

    assert "scores = w_score · tanh(query + key)" in " ".join(result.out.split())
    assert saved_picture.status == 0
    assert "Kᵀ" not in Path(picture).read_text("utf-8")


def test_a_score_without_a_product_has_no_angle(attnviz: Attnviz) -> None:
    result = attnviz("steps", TEXT, "--scoring", "additive", "--query", "am", "--key", "I")

    assert result.status == 2
    assert "additive scores are not dot products" in result.err


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_they_come_back(tmp_path: Path, suffix: str) -> None:
    saved_trace = trace(TEXT, scoring="additive", layers=2, heads=2, memory="it rains")
    saved_trace.view().save(tmp_path / f"trace{suffix}")

    loaded_trace = library.load(str(tmp_path / f"trace{suffix}"))

    assert loaded_trace.variant.additive
    for ours, theirs in zip(
        loaded_trace.attention_layers, saved_trace.attention_layers, strict=True
    ):
        assert ours.w_score is not None
        assert theirs.w_score is not None
        assert torch.equal(ours.w_score, theirs.w_score)


def test_seeds_are_scored_together_as_each_alone(attnviz: Attnviz) -> None:
    result = attnviz("compare", TEXT, "--scoring", "additive", "--repeats", "4")

    assert result.status == 0
    assert "additive scores" in result.out


@pytest.mark.parametrize(
    ("contents", "settings", "problem"),
    [
        ({"scores": [[1.0]], "w_score": [1.0]}, {}, "the scores are given, but .w_score"),
        ({"scores": [[1.0]]}, {"scoring": "additive"}, "the scores are given, but"),
        ({**MATRICES, "w_score": [1.0]}, {}, "'w_score' is 1, but should be 2"),
        ({"w_score": np.ones(2), "embeddings": np.ones((2, 2))}, {"variant": "plain"}, "'plain'"),
    ],
)
def test_what_does_not_go_together_is_refused(
    contents: dict[str, object], settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(AttnvizError, match=f"^{problem}"):
        trace(None, given=parse_matrices(contents), **settings)
