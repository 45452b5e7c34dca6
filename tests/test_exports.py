"""Data: everything, by name, at full precision, and enough to compute it again."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from attnviz import trace
from attnviz.traces.trace import Trace
from attnviz.views.exports import EXPORTS, named

LAYER = (
    "layer", "scale", "heads", "head_dim", "inputs", "w_query", "w_key", "w_value", "w_out",
    "queries", "keys", "values", "scores", "scaled_scores", "visible", "weights", "context",
)  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Trace:
    return trace("I am learning this", variant="multi-head")


def written(made: Trace, suffix: str) -> bytes:
    return b"".join(named(suffix)(made))


def test_the_json_holds_every_array_of_the_design(made: Trace) -> None:
    document = json.loads(written(made, ".json"))
    (layer,) = document["layers"]

    assert {"attnviz", "text", "tokens", "variant", "embeddings", "layers"} <= set(document)
    assert set(LAYER) <= set(layer)
    assert document["tokens"]["ids"] == [40, 716, 4673, 428]
    assert document["tokens"]["bytes"][1] == b" am".hex()
    shapes = {
        name: np.shape(layer[name]) for name in ("queries", "scores", "visible", "context", "w_out")
    }
    assert shapes == {
        "queries": (2, 4, 4), "scores": (2, 4, 4), "visible": (4, 4), "context": (4, 8),
        "w_out": (8, 8),
    }  # fmt: skip


def test_scores_weights_and_context_can_be_recomputed_from_the_json(made: Trace) -> None:
    document = json.loads(written(made, ".json"))
    layer = {name: np.array(document["layers"][0][name]) for name in LAYER}
    x = np.array(document["embeddings"])

    def heads(matrix: np.ndarray) -> np.ndarray:
        vectors: np.ndarray = (x @ matrix).reshape(4, 2, 4).transpose(1, 0, 2)
        return vectors

    scores = heads(layer["w_query"]) @ heads(layer["w_key"]).transpose(0, 2, 1)
    masked = np.where(layer["visible"], scores * layer["scale"], -np.inf)
    weights = np.exp(masked) / np.exp(masked).sum(-1, keepdims=True)
    context = (weights @ heads(layer["w_value"])).transpose(1, 0, 2).reshape(4, 8) @ layer["w_out"]

    assert np.abs(scores - layer["scores"]).max() < 1e-5
    assert np.abs(weights - layer["weights"]).max() < 1e-5
    assert np.abs(context - layer["context"]).max() < 1e-5


def test_what_a_trace_has_not_is_null() -> None:
    document = json.loads(written(trace("I am", variant="plain"), ".json"))

    assert document["layers"][0]["w_query"] is None
    assert document["layers"][0]["weights_after_dropout"] is None


def test_numbers_are_written_at_full_precision(made: Trace) -> None:
    document = json.loads(written(made, ".json"))

    assert document["layers"][0]["weights"] == made.layers[0].attended.weights.tolist()


def test_the_npz_holds_the_same_arrays_under_the_same_names(made: Trace) -> None:
    document = json.loads(written(made, ".json"))
    with np.load(io.BytesIO(written(made, ".npz")), allow_pickle=False) as arrays:
        for name in LAYER:
            assert np.allclose(arrays[f"layers.0.{name}"], document["layers"][0][name])
        assert arrays["layers.0.visible"].dtype == bool
        assert arrays["layers.0.weights"].dtype == np.float32
        assert arrays["tokens.labels"].tolist() == document["tokens"]["labels"]
        assert str(arrays["text"]) == "I am learning this"
        assert json.loads(str(arrays["attnviz"])) == document["attnviz"]


def test_the_csv_has_a_line_for_each_pair_of_tokens(made: Trace) -> None:
    rows = list(csv.DictReader(io.StringIO(written(made, ".csv").decode())))

    assert len(rows) == 2 * 4 * 4
    assert rows[1] == {
        "layer": "0", "head": "0", "query number": "1", "query": "I", "key number": "2",
        "key": "am", "weight": "0.0", "visible": "false",
    }  # fmt: skip
    assert float(rows[-1]["weight"]) == made.layers[0].attended.weights[1, 3, 3].item()


def test_labels_with_commas_quotes_and_lines_survive_the_csv() -> None:
    made = trace('a,"b"\n', tokenizer="chars")
    rows = list(csv.DictReader(io.StringIO(written(made, ".csv").decode())))

    assert [row["key"] for row in rows[:6]] == ["a", ",", '"', "b", '"', "↵"]


@pytest.mark.parametrize("suffix", EXPORTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_trace_gives_the_same_bytes(suffix: str, dtype: str) -> None:
    one, other = (trace("I am", dtype=dtype) for _ in range(2))

    assert written(one, suffix) == written(other, suffix)


def test_any_text_survives_the_json() -> None:
    text = 'quotes " and \\ and \x1b and 日本 and \u2028'

    assert json.loads(written(trace(text), ".json"))["text"] == text
