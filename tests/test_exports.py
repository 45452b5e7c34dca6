"""Data files hold everything by name at full precision, enough to compute it again."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from torch import Tensor

from attnviz import compare, trace
from attnviz.options.values import Dtype
from attnviz.renderers import render, render_chunks, suffixes
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.trace import Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.view import NumberColumn, Page, TableData, TableLines, View, WordColumns
from tests import not_none

EXPORTS = suffixes("picture", "text")
NAMES_IN_LAYER = (
    "layer",
    "scale",
    "heads",
    "head_dim",
    "inputs",
    "w_query",
    "w_key",
    "w_value",
    "w_out",
    "queries",
    "keys",
    "values",
    "scores",
    "scaled_scores",
    "visible",
    "weights",
    "contexts",
    "context",
)
NAMES_WITHOUT_ARRAY = (
    "key_inputs",
    "memory",
    "bias",
    "queries_before_rotary",
    "keys_before_rotary",
    "weights_after_dropout",
    "weights_by_hand",
)  # of a plain multi-head attention

OTHER_KEYS = parse_matrices(
    {
        "embeddings": [[1.0, 2.0], [3.0, 4.0]],
        "key_tokens": ["a", "b", "c"],
        "w_key": [[0.5, 1.0], [0.0, 2.0]],
    }
)


@pytest.fixture(scope="module")
def text_trace() -> Trace:
    return trace("I am learning this", variant="multi-head")


def render_trace(text_trace: Trace, suffix: str) -> bytes:
    return render(text_trace.view(), suffix)


def json_document(text_trace: Trace) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_trace(text_trace, ".json"))
    return document


def all_tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor of a Trace, wherever it is."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from all_tensors(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from all_tensors(getattr(value, field.name))


def test_the_json_holds_every_array_of_the_design(text_trace: Trace) -> None:
    document = json_document(text_trace)
    (layer,) = document["layers"]

    names = {"attnviz", "text", "tokens", "variant", "embeddings", "layers", "trace"}
    assert names <= set(document)
    assert set(NAMES_IN_LAYER) <= set(layer)
    assert {name: layer[name] for name in NAMES_WITHOUT_ARRAY} == dict.fromkeys(NAMES_WITHOUT_ARRAY)
    assert document["tokens"]["ids"] == [40, 716, 4673, 428]
    assert document["tokens"]["bytes"][1] == b" am".hex()
    shapes = {
        "queries": (2, 4, 4),
        "scores": (2, 4, 4),
        "visible": (4, 4),
        "contexts": (2, 4, 4),
        "context": (4, 8),
        "w_out": (8, 8),
    }
    assert {name: np.shape(layer[name]) for name in shapes} == shapes


@pytest.mark.parametrize(
    "changes",
    [
        {"variant": "multi-head", "positions": "rotary", "dropout": 0.5},
        {"variant": "multi-head", "positions": "alibi"},
        {"layers": 2, "memory": "you are", "positions": "learned", "norm": "pre"},
        {"text": None, "given": OTHER_KEYS, "positions": "sinusoidal"},
    ],
)
def test_no_array_of_a_trace_is_left_out(changes: dict[str, Any]) -> None:
    text_trace = trace(**{"text": "I am learning this"} | changes)
    with np.load(io.BytesIO(render_trace(text_trace, ".npz")), allow_pickle=False) as archive:
        stored_arrays = [*archive.values()]

    expected = [tensor_to_numpy(each) for each in all_tensors(text_trace)]

    assert len(expected) > 10
    assert [
        each
        for each in expected
        if not any(np.array_equal(each, stored_array) for stored_array in stored_arrays)
    ] == []


def test_the_memory_is_there_with_its_tokens_and_its_vectors() -> None:
    text_trace = trace("I am learning this", memory="you are")
    document, cross = json_document(text_trace), text_trace.layers[0].cross

    assert cross is not None
    assert document["memory_text"] == "you are"
    assert document["memory_tokens"]["labels"] == ["you", "are"]
    assert document["layers"][0]["memory"] is None
    assert document["layers"][0]["cross"]["memory"] == not_none(cross.memory).tolist()
    assert document["layers"][0]["cross"]["weights"] == cross.attended.weights.tolist()


def test_keys_of_other_tokens_can_be_recomputed_from_the_json() -> None:
    document = json_document(trace(None, given=OTHER_KEYS))
    (layer,) = document["layers"]

    assert document["key_tokens"]["labels"] == ["a", "b", "c"]
    assert np.shape(layer["key_inputs"]) == (3, 2)
    keys = np.array(layer["key_inputs"]) @ np.array(layer["w_key"])
    assert np.abs(keys - layer["keys"][0]).max() < 1e-5


def test_contexts_of_each_head_are_there_and_joined_they_give_the_context(
    text_trace: Trace,
) -> None:
    (layer,) = json_document(text_trace)["layers"]
    contexts = np.array(layer["weights"]) @ np.array(layer["values"])
    joined_contexts = np.concatenate(layer["contexts"], axis=1)

    assert np.abs(contexts - layer["contexts"]).max() < 1e-5
    assert np.abs(joined_contexts @ np.array(layer["w_out"]) - layer["context"]).max() < 1e-5


def test_what_a_distance_adds_is_there() -> None:
    (layer,) = json_document(trace("I am learning this", positions="alibi"))["layers"]
    logits = np.array(layer["scaled_scores"]) + np.array(layer["bias"])
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)

    assert np.abs(weights - layer["weights"]).max() < 1e-5


def test_scores_weights_and_context_can_be_recomputed_from_the_json(text_trace: Trace) -> None:
    document = json_document(text_trace)
    layer = {name: np.array(document["layers"][0][name]) for name in NAMES_IN_LAYER}
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
    document = json_document(trace("I am", variant="plain"))

    assert document["layers"][0]["w_query"] is None
    assert document["layers"][0]["weights_after_dropout"] is None


def test_numbers_are_written_at_full_precision(text_trace: Trace) -> None:
    document = json_document(text_trace)

    assert document["layers"][0]["weights"] == text_trace.layers[0].attended.weights.tolist()


def test_the_npz_holds_the_same_arrays_under_the_same_names(text_trace: Trace) -> None:
    document = json_document(text_trace)
    with np.load(io.BytesIO(render_trace(text_trace, ".npz")), allow_pickle=False) as archive:
        for name in NAMES_IN_LAYER:
            assert np.allclose(archive[f"layers.0.{name}"], document["layers"][0][name])
        assert archive["layers.0.visible"].dtype == bool
        assert archive["layers.0.weights"].dtype == np.float32
        assert archive["tokens.labels"].tolist() == document["tokens"]["labels"]
        assert str(archive["text"]) == "I am learning this"
        assert json.loads(str(archive["attnviz"])) == document["attnviz"]


def test_the_csv_has_a_line_for_each_pair_of_tokens(text_trace: Trace) -> None:
    rows = list(csv.DictReader(io.StringIO(render_trace(text_trace, ".csv").decode())))

    assert len(rows) == 2 * 4 * 4
    assert rows[1] == {
        "layer": "0",
        "head": "0",
        "name": "L0H0",
        "query number": "1",
        "query": "I",
        "key number": "2",
        "key": "am",
        "weight": "0.0",
        "visible": "false",
    }
    assert float(rows[-1]["weight"]) == text_trace.layers[0].attended.weights[1, 3, 3].item()


def test_labels_with_commas_quotes_and_lines_survive_the_csv() -> None:
    text_trace = trace('a,"b"\n', tokenizer="chars")
    rows = list(csv.DictReader(io.StringIO(render_trace(text_trace, ".csv").decode())))

    assert [row["key"] for row in rows[:6]] == ["a", ",", '"', "b", '"', "↵"]


@pytest.mark.slow_table("formats", keep=4)
@pytest.mark.parametrize("suffix", EXPORTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_trace_gives_the_same_bytes(suffix: str, dtype: Dtype) -> None:
    first_trace, second_trace = (trace("I am", dtype=dtype) for _ in range(2))

    assert render_trace(first_trace, suffix) == render_trace(second_trace, suffix)


def test_any_text_survives_the_json() -> None:
    text = 'quotes " and \\ and \x1b and 日本 and \u2028'

    assert json_document(trace(text))["text"] == text


def test_numbers_that_are_none_are_written_as_python_reads_them() -> None:
    numbers = np.array([[0.1, np.nan], [-np.inf, 1e-7]], dtype=np.float32)
    data = TableData("trace", lambda: {"numbers": numbers, "one": numbers[0]}, (), lambda: iter(()))

    document = json.loads(render(View(screen=Page(()), picture=Page(()), data=data), ".json"))

    assert np.array_equal(np.array(document["numbers"], dtype=np.float32), numbers, equal_nan=True)
    assert document["one"][0] == float(np.float32(0.1))


@given(
    arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4),
        elements={"allow_nan": False},
    )
)
def test_any_array_is_read_from_the_json_as_the_same_numbers(numbers: np.ndarray) -> None:
    data = TableData("trace", lambda: {"numbers": numbers}, (), lambda: iter(()))

    document = json.loads(render(View(screen=Page(()), picture=Page(()), data=data), ".json"))

    assert document["numbers"] == numbers.tolist()


def test_a_row_of_the_json_is_a_line(text_trace: Trace) -> None:
    lines = render_trace(text_trace, ".json").decode().splitlines()
    place = lines.index('   "weights": [')

    assert [line[:5] for line in lines[place + 1 : place + 7]] == [
        "    [",
        "     ",
        "     ",
        "     ",
        "     ",
        "    ]",
    ]
    assert json.loads(lines[place + 3].strip().rstrip(",")) == (
        text_trace.layers[0].attended.weights[0, 1].tolist()
    )


@pytest.mark.slow("formats")
def test_large_numbers_leave_in_chunks_and_are_not_compressed() -> None:
    view = trace(" ".join(map(str, range(700))), tokenizer="spaces").view(show=["weights"])

    for suffix in EXPORTS:
        assert max(map(len, render_chunks(view, suffix))) < 2**24 + 100
    with zipfile.ZipFile(io.BytesIO(render(view, ".npz"))) as members:
        weights = members.getinfo("layers.0.weights.npy")
        visible = members.getinfo("layers.0.visible.npy")
    assert weights.compress_type == zipfile.ZIP_STORED
    assert weights.date_time == (1980, 1, 1, 0, 0, 0)
    assert visible.compress_size < visible.file_size / 100


def test_the_csv_of_a_comparison_has_words_numbers_and_gaps() -> None:
    view = compare("I am learning", by="mask", values=["causal", "none"]).view()
    rows = list(csv.DictReader(io.StringIO(render(view, ".csv").decode())))

    assert [(row["way"], row["name"], row["query"]) for row in rows[:4]] == [
        ("causal", "L0H0", "I"),
        ("causal", "L0H0", "am"),
        ("causal", "L0H0", "learning"),
        ("causal", "mean", "mean"),
    ]
    assert rows[0]["share"] == ""
    assert rows[0]["divergence"] != ""
    assert all(len(row) == 16 and None not in row.values() for row in rows)


def test_columns_of_any_kind_stand_in_the_csv_line_by_line() -> None:
    words = WordColumns((("1", "2"), ("", '"a", b')))
    columns: list[NumberColumn] = [
        np.array([True, False]),
        np.array([0.5, np.nan], dtype=np.float32),
        [None, 1e-7],
        np.array([False, True]),
        np.array([2.0, -np.inf]),
    ]
    lines = [
        TableLines((0, "=1+1"), words, (*columns[:count],)) for count in range(1, len(columns) + 1)
    ]
    data = TableData("trace", dict, ("any", "words"), lambda: iter(lines))

    text = render(View(screen=Page(()), picture=Page(()), data=data), ".csv").decode()

    first_line = ["0", "'=1+1", "1", "", "true", "0.5", "", "false", "2.0"]
    second_line = ["0", "'=1+1", "2", '"a", b', "false", "NaN", "1e-07", "true", "-Infinity"]
    expected = [row[: 4 + count] for count in range(1, 6) for row in (first_line, second_line)]
    assert list(csv.reader(io.StringIO(text))) == [["any", "words"], *expected]
    assert text.endswith("\n")
