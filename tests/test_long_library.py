"""Long texts in Python: a summary in plain names, exact rows by index, files and pickles."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnviz import load, trace
from attnviz.errors import AttnvizError
from attnviz.traces.long_weights import MEASURED_NAMES, LongWeights
from tests.conftest import Attnviz
from tests.refusals import refusal_of
from tests.test_long_texts import MANY_WORDS, LargestTensor

TEXT = "the quick brown fox jumps over the lazy dog and runs away from all the others " * 3
STREAMED_SETTINGS: dict[str, dict[str, Any]] = {
    "scaled": {},
    "causal with ALiBi and a cap": {
        "causal": True, "heads": 2, "positions": "alibi", "soft_cap": 2.0,
    },
    "additive": {"scoring": "additive", "heads": 2},
    "rotary, heads share keys": {"positions": "rotary", "heads": 4, "kv_heads": 2, "dim": 16},
    "layers with a head off": {"layers": 2, "heads": 2, "without": "L0H1"},
    "a window in 64 bits": {"window": 3, "dtype": "float64", "pool": "max", "resolution": 20},
}  # fmt: skip
SETTINGS_BY_KIND = {**STREAMED_SETTINGS, "half precision": {"dtype": "bfloat16"}}


def test_a_summary_has_plain_names_and_the_numbers_of_the_weights() -> None:
    without_matrices, with_matrices = (
        trace(TEXT, stream=each, heads=2, causal=True) for each in (True, False)
    )
    summary, weights = without_matrices.summary, with_matrices.weights[0]

    assert torch.allclose(summary.map, weights.double(), atol=1e-6)
    assert summary.block == (1, 1)
    assert torch.allclose(summary.received, weights.sum(1).double(), atol=1e-5)
    assert torch.allclose(summary.largest, weights.amax(-1), atol=1e-6)
    assert torch.allclose(summary.on_itself, weights.diagonal(dim1=1, dim2=2), atol=1e-6)
    assert torch.allclose(summary.rows(5, -1), weights[:, [5, -1]], atol=1e-6)
    assert torch.allclose(summary.window(slice(3, 6), slice(0, 4)), weights[:, 3:6, :4], atol=1e-6)
    assert summary.by_distance.shape[1] == len(summary.edges) - 1
    assert set(MEASURED_NAMES) <= set(dir(summary))


def test_a_summary_of_a_layer_is_that_layers() -> None:
    long_trace = trace(TEXT, stream=True, layers=2, resolution=10)

    assert long_trace.layers[1].summary.block == (5, 5)
    assert repr(long_trace.layers[1].summary) == (
        "<TextSummary: 1 head, 49 × 49 weights, a map in blocks of 5 × 5>"
    )
    with pytest.raises(AttnvizError, match=r"^there are 2 layers, and each has a summary"):
        _ = long_trace.summary


@pytest.mark.parametrize(
    ("call", "problem", "hint"),
    [
        (
            lambda: trace("I am").summary,
            "the weights of this text are in memory, and have no summary",
            "take them from .weights; a summary is of trace(text, stream=True)",
        ),
        (
            lambda: trace("I am", stream=True).summary.rows(2),
            "there is no query 2: queries count from 0 to 1",
            "try rows(1)",
        ),
        (
            lambda: trace("I am", stream=True)["L0H0", 2],
            "a head has 2 × 2 weights here, and the index names others",
            'count queries and keys from 0; a Trace knows their words: trace[5, 11, "it"]',
        ),
    ],
    ids=["weights in memory", "no such row", "no such index"],
)
def test_what_a_summary_does_not_have_is_refused(call: Any, problem: str, hint: str) -> None:
    assert refusal_of(call) == (problem, hint)


@pytest.mark.parametrize(
    "key",
    [("L0H1", 7), ("L0H1", "jumps", 3), (0, 1, slice(3, 9, 2)), (0, slice(None), -1),
     ("L0H0", slice(2, 4), slice(None, None, 3)), ("L0H0", 5, "lazy"), ("L0H0", [1, 4])],
    ids=str,
)  # fmt: skip
def test_an_index_gives_the_weights_of_a_long_text(key: Any) -> None:
    text = " ".join(dict.fromkeys(TEXT.split()))
    without_matrices, with_matrices = (trace(text, stream=each, heads=2) for each in (True, False))

    assert torch.allclose(without_matrices[key], with_matrices[key], atol=1e-6)


def test_an_index_of_a_row_computes_that_row_alone() -> None:
    long_trace = trace(MANY_WORDS, tokenizer="spaces", stream=True)
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        assert long_trace["L0H0", 2000].shape == (2500,)
        assert repr(long_trace).startswith("<Trace 'w0 w1")

    assert largest.floats < 50 * 2500


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("kind", SETTINGS_BY_KIND)
def test_a_long_text_is_saved_and_read_without_measuring_it_again(
    kind: str, suffix: str, tmp_path: Path
) -> None:
    saved_trace = trace(TEXT, stream=True, **SETTINGS_BY_KIND[kind])
    path = tmp_path / f"a{suffix}"
    saved_trace.save(path)
    read_trace = load(str(path))

    for saved_layer, read_layer in zip(saved_trace.layers, read_trace.layers, strict=True):
        weights = read_layer.weights_on_demand
        assert isinstance(weights, LongWeights)
        assert "summary" in vars(weights)
        for name in MEASURED_NAMES:
            first, second = (
                getattr(each.summary, name).double() for each in (saved_layer, read_layer)
            )
            assert torch.allclose(first, second, atol=1e-6), name
        assert torch.allclose(saved_layer.summary.rows(7), read_layer.summary.rows(7), atol=1e-6)
        del vars(weights)["summary"]  # what was saved gives the same once more
        assert torch.allclose(saved_layer.summary.map, read_layer.summary.map, atol=1e-5)
        assert torch.allclose(saved_layer.context.double(), read_layer.context.double(), atol=1e-2)


def test_commands_read_a_saved_long_text(attnviz: Attnviz, tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    first = attnviz("run", TEXT, "--causal", "--stream", "-o", path, "-o", str(tmp_path / "a.txt"))
    result = attnviz("run", "--trace", path)
    checks = attnviz("run", "--trace", path, "--verify", "-o", str(tmp_path / "b.json"))
    row = attnviz("steps", "--trace", path, "--query", "9", "--step", "softmax")
    sides = attnviz("compare", "--trace", path, "--by", "scale")

    assert first.status == 0, first.err
    assert result.out.splitlines()[0] in (tmp_path / "a.txt").read_text(encoding="utf-8")
    assert checks.out.count("✓") == 7
    assert re.search(r"weight\(9 dog, 8 lazy\) += exp\(", row.out)
    assert sides.out.startswith("From unscaled to scaled, "), sides.err


def test_a_long_text_survives_pickling() -> None:
    long_trace = trace(TEXT, stream=True, heads=2)
    trace_read = pickle.loads(pickle.dumps(long_trace))

    assert torch.equal(trace_read.summary.map, long_trace.summary.map)
    assert torch.equal(trace_read.summary.rows(3), long_trace.summary.rows(3))
    assert np.array_equal(trace_read.view().grids()[0].values, long_trace.view().grids()[0].values)


def test_a_notebook_shows_the_page_of_a_long_text(capsys: pytest.CaptureFixture[str]) -> None:
    long_trace = trace(TEXT, stream=True, causal=True)

    assert "<iframe" in long_trace._repr_html_()
    assert capsys.readouterr() == ("", "")
