"""A soft cap: scores bent so that none goes beyond it, cap · tanh(score / cap)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz import trace
from attnviz.analysis.checks import verify_trace
from attnviz.options.values import Dtype
from attnviz.traces.settings import SOFT_CAP_RANGE
from attnviz.views.steps.walk import steps
from tests.conftest import Attnviz
from tests.evaluate import holds

TEXT = "I am learning this"


@given(cap=st.floats(*SOFT_CAP_RANGE), temperature=st.floats(0.01, 10))
def test_no_score_goes_beyond_the_cap_and_each_is_bent_by_tanh(
    cap: float, temperature: float
) -> None:
    attended = (
        trace(TEXT, soft_cap=cap, temperature=temperature, dtype="float64").layers[0].attended
    )

    assert attended.capped_scores is not None
    scaled_scores = attended.scaled_scores.flatten().tolist()
    expected = [cap * math.tanh(score / cap) for score in scaled_scores]
    assert_close(attended.capped_scores.flatten(), torch.tensor(expected, dtype=torch.float64))
    assert float(attended.capped_scores.abs().max()) <= cap
    assert_close(attended.weights, attended.capped_scores.softmax(-1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("cap", SOFT_CAP_RANGE)
def test_the_least_and_the_largest_cap_leave_numbers(cap: float, dtype: Dtype) -> None:
    result = trace(TEXT, soft_cap=cap, dtype=dtype)

    attended = result.layers[0].attended
    assert attended.weights.isfinite().all()
    assert [check.passed for check in verify_trace(result)] == [True] * 4
    if cap > 1:
        assert_close(attended.capped_scores, attended.scaled_scores)


def test_the_cap_comes_after_scaling_and_before_what_is_added() -> None:
    result = trace(TEXT, soft_cap=1.5, positions="alibi", variant="causal", temperature=0.5)

    attended = result.layers[0].attended
    assert attended.capped_scores is not None
    assert attended.bias is not None
    assert_close(attended.scaled_scores, attended.scores * 2 / math.sqrt(8))
    assert_close(attended.logits, attended.capped_scores + attended.bias)


def test_the_steps_write_it_out(attnviz: Attnviz) -> None:
    output = " ".join(attnviz("steps", TEXT, "--soft-cap", "1.5", "--query", "am").out.split())

    assert "Step 6a: soft cap" in output
    assert "tanh keeps scores between -1.5 and 1.5" in output
    assert "capped = 1.5 · tanh(score / 1.5)" in output
    assert "capped(am, am) = 1.5·tanh(2.63 / 1.5) = 1.41" in output
    assert "soft cap 1.5" in output


def test_the_written_arithmetic_holds() -> None:
    result = trace(TEXT, soft_cap=1.23456789, positions="alibi", heads=2)

    sections = {each.name: each for each in steps(result, query="am", digits=5).sections}

    assert "1.23456789" in sections["soft-cap"].formula
    assert sections["alibi"].formula == "biased = capped - slope · distance"
    for name in ("soft-cap", "alibi", "softmax"):
        for each in sections[name].sums:
            assert holds(each.text), each.text


def test_it_is_a_step_to_ask_for_where_there_is_one(attnviz: Attnviz) -> None:
    result = attnviz("steps", TEXT, "--soft-cap", "2", "--step", "soft-cap")
    refusal = attnviz("steps", TEXT, "--step", "soft-cap")

    assert result.status == 0
    assert refusal.err.splitlines()[1] == " hint: it needs --soft-cap 50"


def test_curves_and_seeds_have_the_cap(attnviz: Attnviz) -> None:
    """Where every score is bent to next to nothing, a query reads all tokens alike."""
    result = attnviz("compare", TEXT, "--soft-cap", "0.0001", "--repeats", "4")

    assert result.status == 0
    assert "soft cap 0.0001" in result.out
    rows = [line.split() for line in result.out.splitlines() if line.startswith("scaled ")]
    assert rows[-1][1:5] == ["2.000", "1.000", "4.000", "0.250"]
