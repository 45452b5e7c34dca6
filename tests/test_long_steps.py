"""The steps of one token of a long text, and the checks of a long text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnviz import Trace, steps, trace
from attnviz.analysis.checks import verify_trace
from attnviz.traces.long_rows import layer_of_queries, spread_queries
from attnviz.traces.long_weights import LongWeights
from attnviz.traces.matrices import Matrices
from attnviz.views.grids.section import Section
from tests.conftest import Attnviz
from tests.test_long_library import STREAMED_SETTINGS, TEXT
from tests.test_long_texts import MANY_WORDS, LargestTensor

SETTINGS_BY_KIND = {**STREAMED_SETTINGS, "average": {"variant": "average"}}
NUMBER = r"-?[\d.]+(?:e-?\d+)?"


def both_traces(**choices: Any) -> tuple[Trace, Trace]:
    """The streamed trace and that with matrices."""
    without_matrices, with_matrices = (
        trace(TEXT, stream=each, **choices) for each in (True, False)
    )
    return without_matrices, with_matrices


@pytest.mark.parametrize("kind", SETTINGS_BY_KIND)
def test_queries_alone_have_the_stages_of_the_whole_text(kind: str) -> None:
    without_matrices, with_matrices = both_traces(**SETTINGS_BY_KIND[kind])

    for one, other in zip(without_matrices.layers, with_matrices.layers, strict=True):
        rows = [3, 20]
        some_stages, all_stages = layer_of_queries(one, rows).attended, other.attended
        for name in ("scores", "scaled_scores", "logits", "weights", "contexts"):
            expected = getattr(all_stages, name)[:, rows]
            assert torch.allclose(getattr(some_stages, name), expected, atol=1e-5), name


@pytest.mark.parametrize("kind", SETTINGS_BY_KIND)
def test_the_steps_of_a_token_are_written_with_its_numbers(kind: str) -> None:
    without_matrices, with_matrices = both_traces(**SETTINGS_BY_KIND[kind])
    sections = {each.name: each for each in steps(without_matrices, query=20, digits=6).sections}
    weights = with_matrices.layers[0].attended.weights[:, 20]
    heads = len(weights)

    cells = [grid.values[0] for grid in sections["softmax"].grids]
    keys = [int(number) - 1 for number in sections["softmax"].grids[0].columns.numbers]
    for head in range(heads):
        assert np.allclose(cells[head], weights[head, keys], atol=1e-5)
        assert _right_sides_are_true(sections["softmax"], head, heads)
        context = sections["context"].sums[head].text
        result = [float(each) for each in re.findall(NUMBER, context.rpartition("[")[2])]
        assert np.allclose(result, with_matrices.layers[0].attended.contexts[head, 20], atol=1e-5)
    for name in ("scores", "scaling"):
        for sum_ in sections[name].sums:
            assert abs(float(eval_text(sum_.right)) - float(sum_.result)) < 2e-4


def _right_sides_are_true(softmax: Section, head: int, heads: int) -> bool:
    """Whether the denominator is what it says, and each weight its exp divided by it."""
    name = f" H{head}" if heads > 1 else ""
    sums_of_head = [each for each in softmax.sums if each.left.partition("(")[0].endswith(name)]
    total, *weight_sums = sums_of_head
    assert total.left.startswith("sum")
    assert np.isclose(float(eval_text(total.right)), float(total.result), rtol=1e-4)
    return all(
        np.isclose(float(eval_text(each.right)), float(each.result), atol=2e-5)
        for each in weight_sums
    )


def eval_text(right_side: str) -> float:
    """Return what a calculator gives for a written right side."""
    code = right_side.replace("·", "*").replace("√", "np.sqrt").replace("−", "-")
    code = re.sub(r"np\.sqrt(\d+)", r"np.sqrt(\1)", code)
    names = {"np": np, "exp": np.exp, "tanh": np.tanh}
    return float(eval(code, names))


def test_what_is_left_out_is_said_and_adds_up() -> None:
    long_trace, _ = both_traces()
    sections = {each.name: each for each in steps(long_trace, query=20).sections}
    written_keys = len(sections["softmax"].grids[0].columns)
    count = len(long_trace.tokens)
    share = 100 * float(sections["softmax"].grids[0].values.sum())

    assert written_keys <= 8
    assert sections["softmax"].remarks == (
        f"written out: {written_keys} keys with {share:.1f}\xa0% of the weight; "
        f"{count - written_keys} other visible keys together have the rest",
        f"the last term of the sum: {count - written_keys} other keys together",
    )
    assert len(sections["softmax"].sums) == written_keys + 1


def test_the_first_token_of_a_causal_text_reads_itself_alone() -> None:
    sections = {
        each.name: each
        for each in steps(TEXT, query=0, causal=True, stream=True, digits=3).sections
    }

    assert [each.text for each in sections["softmax"].sums][-1].endswith(" = 1.000")
    assert sections["mask"].about.startswith("1 the may attend to 1 of ")
    assert sections["softmax"].remarks == ()


def test_a_token_that_reads_nothing_has_no_softmax() -> None:
    masked_matrices = Matrices(
        embeddings=torch.eye(2), visible=torch.tensor([[1, 0], [0, 0]]).bool()
    )
    sections = steps(
        trace("a b", tokenizer="spaces", given=masked_matrices, stream=True), query=1
    ).sections

    assert sections[-1].about == (
        "Every key is masked: 2 b attends to nothing, and its context vector is 0."
    )


def test_steps_without_a_token_are_refused_before_anything_is_computed(attnviz: Attnviz) -> None:
    result = attnviz("steps", TEXT, "--stream")

    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "error: every number of a long text is too many to show: its steps are those of one token\n"
        " hint: name a token by its number: --query 1\n"
    )


def test_no_matrix_is_made_for_the_steps_of_a_token() -> None:
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        walk = steps(MANY_WORDS, tokenizer="spaces", stream=True, query=2000)
        assert walk.view().render(".txt")

    weights = walk.trace.layers[0].weights_on_demand
    assert isinstance(weights, LongWeights)
    assert "summary" not in vars(weights)  # only contexts were needed
    assert largest.floats < 2500**2 / 4


@pytest.mark.slow("formats")
def test_files_of_steps_have_the_row(attnviz: Attnviz, tmp_path: Path) -> None:
    files = [tmp_path / f"a{suffix}" for suffix in (".json", ".csv", ".md", ".svg", ".html")]
    result = attnviz(
        *("steps", TEXT, "--stream", "--query", "21"),
        *(part for file in files for part in ("-o", str(file))),
    )

    _, with_matrices = both_traces()
    lines = files[1].read_text(encoding="utf-8").splitlines()[1:]
    weights = [float(line.rpartition(",")[2]) for line in lines]
    assert result.status == 0, result.err
    assert np.allclose(weights, with_matrices.layers[0].attended.weights[0, 20], atol=1e-6)


@pytest.mark.parametrize("kind", SETTINGS_BY_KIND)
def test_checks_of_a_long_text_hold(kind: str) -> None:
    long_trace, _ = both_traces(**SETTINGS_BY_KIND[kind])
    checks = verify_trace(long_trace)

    assert [check.text for check in checks if not check.passed] == []
    assert any("tiles of the text" in check.claim for check in checks)


def test_checks_find_what_is_wrong() -> None:
    long_trace, _ = both_traces()
    weights = long_trace.layers[0].weights_on_demand
    assert isinstance(weights, LongWeights)
    weights.summary.contexts[0, 0] += 0.01
    assert weights.summary.entropy is not None
    assert weights.summary.received is not None
    weights.summary.entropy[0, -1] += 0.01
    weights.summary.received[0, 5] += 1

    failed_claims = [check.claim for check in verify_trace(long_trace) if check.failed]
    assert failed_claims == [
        "tiles of the text give the same context vectors",
        "tiles of the text give the same entropy and largest weight",
        "what keys receive adds up to the number of queries, relative to it",
    ]


def test_checks_of_very_long_texts_are_of_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    long_trace, _ = both_traces()
    monkeypatch.setattr("attnviz.traces.long_rows.CELLS_OF_SAMPLE", 200)
    count = len(long_trace.tokens)

    assert spread_queries(long_trace.layers[0]) == [0, *(
        round(part * (count - 1) / 3) for part in (1, 2)
    ), count - 1]  # fmt: skip
    assert verify_trace(long_trace)[0].claim == f"rows sum to 1, in 4 of {count} rows"


def test_verify_prints_the_checks_of_a_long_text(attnviz: Attnviz, tmp_path: Path) -> None:
    result = attnviz("run", TEXT, "--stream", "--verify", "-o", str(tmp_path / "a.json"))

    assert result.status == 0, result.err
    assert result.out.splitlines()[0].startswith("✓ rows sum to 1: largest difference ")
    assert len(result.out.splitlines()) == 7
