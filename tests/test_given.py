"""Matrices of a user: given ones are used, missing ones random, contradictions are refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attnviz import trace
from attnviz.analysis.checks import verify_trace
from attnviz.errors import AttnvizError
from attnviz.traces.matrices import GIVEN_SIDES, parse_matrices
from tests.conftest import Attnviz
from tests.refusals import refusal_lines

TEXT = "I am learning this"


def numbers(*shape: int, seed: int = 0) -> list[Any]:
    return np.random.default_rng(seed).normal(size=shape).round(3).tolist()  # type: ignore[no-any-return]


CONTENTS = {
    "embeddings": {"embeddings": numbers(3, 4)},
    "matrices, d_k is not d_v": {
        "embeddings": numbers(3, 4),
        "w_query": numbers(4, 2),
        "w_key": numbers(4, 2, seed=1),
        "w_value": numbers(4, 5),
    },
    "biases": {
        "embeddings": numbers(3, 4),
        "w_query": numbers(4, 2),
        "b_query": [1, 2],
        "b_key": [0.5, -0.5],
        "b_value": [1, 1],
    },
    "queries and keys": {"queries": numbers(3, 6), "keys": numbers(3, 6), "values": numbers(3, 2)},
    "another sentence": {
        "queries": numbers(3, 6),
        "keys": numbers(5, 6),
        "values": numbers(5, 2),
        "tokens": ["a", "b", "c"],
        "key_tokens": ["d", "e", "f", "g", "h"],
    },
    "scores": {"scores": numbers(3, 3)},
    "scores and values": {"scores": numbers(2, 5), "values": numbers(5, 3)},
    "visible": {"scores": numbers(3, 3), "visible": [[1, 0, 0], [0, 1, 1], [1, 1, 1]]},
    "heads": {
        "queries": numbers(2, 3, 4),
        "keys": numbers(2, 3, 4),
        "values": numbers(2, 3, 4),
        "axes": ["head", "token", "width"],
    },
    "w_out": {"embeddings": numbers(3, 4), "w_out": numbers(4, 7), "b_out": numbers(7)},
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_is_given_is_used(name: str) -> None:
    given_trace = trace(None, given=parse_matrices(CONTENTS[name]))
    (layer,) = given_trace.layers

    actual = {
        "embeddings": given_trace.embeddings,
        "queries": layer.queries,
        "keys": layer.keys,
        "values": layer.values,
        "scores": layer.attended.scores,
        "visible": layer.visible.int(),
    }
    actual |= {each: getattr(layer.projections, each, None) for each in GIVEN_SIDES if "_" in each}
    for key, value in CONTENTS[name].items():
        if key in actual:
            tensor = actual[key]
            assert tensor is not None, key
            expected = torch.tensor(value, dtype=tensor.dtype)
            assert_close(tensor, expected.view_as(tensor))
    assert [check for check in verify_trace(given_trace) if not check.passed] == []


@given(
    seed=st.integers(0, 99),
    tokens=st.integers(1, 5),
    dim=st.integers(1, 5),
    width=st.integers(1, 4),
    value_width=st.integers(1, 4),
)
def test_widths_may_differ_and_torch_agrees(
    seed: int, tokens: int, dim: int, width: int, value_width: int
) -> None:
    x, w_query, w_key, w_value = (
        np.random.default_rng(seed + number).normal(size=shape)
        for number, shape in enumerate(
            [(tokens, dim), (dim, width), (dim, width), (dim, value_width)]
        )
    )

    matrix_trace = trace(
        None,
        dtype="float64",
        given=parse_matrices(
            {"embeddings": x, "w_query": w_query, "w_key": w_key, "w_value": w_value}
        ),
    )

    query, key, value = (torch.from_numpy(x @ each)[None] for each in (w_query, w_key, w_value))
    assert_close(matrix_trace.layers[0].context, scaled_dot_product_attention(query, key, value)[0])


def test_what_is_missing_is_drawn_as_ever() -> None:
    random_trace, trace_with_key_matrix = (
        trace(TEXT),
        trace(TEXT, given=parse_matrices({"w_key": numbers(8, 8)})),
    )

    assert torch.equal(trace_with_key_matrix.embeddings, random_trace.embeddings)
    assert random_trace.layers[0].queries is not None
    assert trace_with_key_matrix.layers[0].queries is not None
    assert torch.equal(trace_with_key_matrix.layers[0].queries, random_trace.layers[0].queries)
    assert not torch.equal(
        trace_with_key_matrix.layers[0].attended.scores, random_trace.layers[0].attended.scores
    )


def test_tokens_without_words_are_numbered() -> None:
    scores_trace = trace(None, given=parse_matrices({"scores": numbers(2, 3)}))

    assert scores_trace.tokens.labels == ("x1", "x2")
    assert scores_trace.keys.labels == ("x1", "x2", "x3")


def test_an_item_of_a_batch_is_the_item() -> None:
    batch = numbers(3, 4, 2)
    for item in (1, 2, 3):
        trace_of_item = trace(None, given=parse_matrices({"embeddings": batch}, item=item))
        trace_of_matrix = trace(None, given=parse_matrices({"embeddings": batch[item - 1]}))
        assert torch.equal(trace_of_item.layers[0].context, trace_of_matrix.layers[0].context)
    assert parse_matrices({"embeddings": batch}).items == 3


def test_a_side_more_is_heads() -> None:
    scores = {"scores": numbers(2, 3, 3)}
    batch = {**scores, "axes": ["item", "token", "key"], "values": numbers(3, 1)}

    assert trace(None, given=parse_matrices(scores)).layers[0].heads == 2
    assert trace(None, given=parse_matrices(scores, heads=2)).layers[0].heads == 2
    assert trace(None, given=parse_matrices(batch, item=2)).layers[0].heads == 1


def test_scores_are_scaled_where_a_width_is_known() -> None:
    scores = parse_matrices({"scores": numbers(2, 2)})

    assert trace(None, given=scores).layers[0].scale == 1
    assert trace(None, given=scores, head_dim=16).layers[0].scale == 0.25
    with pytest.raises(AttnvizError, match="not the width of the queries") as refusal:
        trace(None, given=scores, scale=True)
    assert refusal.value.hint == "give 'head_dim', such as head_dim=64"


def write_file(path: Path, contents: dict[str, Any]) -> Path:
    """Write the contents in the format of the path's suffix, and return the path."""
    if path.suffix == ".json":
        path.write_text(json.dumps(contents))
    elif path.suffix == ".npz":
        arrays: dict[str, Any] = {name: np.array(each) for name, each in contents.items()}
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({name: np.array(each) for name, each in contents.items()}, path)
    else:
        path.write_text("".join(f"{name} = {each!r}\n" for name, each in contents.items()))
    return path


@pytest.mark.slow_table("formats", keep=4)
@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz", ".safetensors"])
@pytest.mark.parametrize("command", ["run", "steps", "compare"])
def test_every_format_gives_the_same_to_every_command(
    attnviz: Attnviz, tmp_path: Path, suffix: str, command: str
) -> None:
    contents = {"embeddings": numbers(3, 4), "w_query": numbers(4, 2), "w_key": numbers(4, 2)}
    plain_path = write_file(tmp_path / "plain.json", contents)
    other_path = write_file(tmp_path / f"other{suffix}", contents)

    expected, result = (
        attnviz(command, "--given", str(plain_path)),
        attnviz(command, "--given", str(other_path)),
    )

    assert (result.status, result.err) == (0, "")
    # A longer name moves the ends of lines.
    assert result.out.split() == expected.out.replace("plain.json", other_path.name).split()


def test_compare_scales_given_scores(attnviz: Attnviz, tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "a.toml", {"tokens": ["a", "b"], "scores": [[2.0, 4.0], [4.0, 2.0]]}
    )

    result = attnviz("compare", "--given", str(path), "--head-dim", "4", "--full")

    assert "1 a  0.2689 0.7311" in result.out  # 1 / (1 + e), halved scores being one apart
    assert attnviz("compare", "--given", str(path)).status == 2


CLASHING_OPTIONS = {
    "'a b' --given TOKENS": ("a text is given, but", "leave one of them"),
    "'a b' --given THREE": ("the text has 2 tokens (gpt2), but", "leave the text out"),
    "--given MATRIX -v plain": ("'plain' has no projections, but", "try --variant"),
    "--given THREE -v average": (
        "'average' does not compare queries with keys, but",
        "try --variant causal",
    ),
    "--given THREE --heads 2": ("--heads is 2, but", "leave --heads out"),
    "--given MATRIX --head-dim 3": ("--head-dim is 3, but", "leave --head-dim"),
    "--given THREE --item 2": ("--item 2 is given, but there is no batch", "leave --item out"),
    "--given BATCH --item 3": ("there is no item 3 in", "give --item 1 to 2"),
    "a --item 2": ("--item chooses one of a batch", "give a file"),
    "--given MATRIX --by temperature --curves": (
        "curves are drawn over many seeds",
        "leave --curves",
    ),
    "--given nowhere.toml": ("there is no file 'nowhere.toml'", "check its path"),
}


@pytest.mark.parametrize("line", CLASHING_OPTIONS)
def test_what_does_not_go_together_is_refused(
    attnviz: Attnviz, tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_problem, expected_hint = CLASHING_OPTIONS[line]
    monkeypatch.chdir(tmp_path)
    files = {
        "TOKENS": write_file(Path("tokens.toml"), {"tokens": ["a", "b"], "scores": numbers(2, 2)}),
        "THREE": write_file(Path("three.toml"), {"scores": numbers(3, 3)}),
        "MATRIX": write_file(
            Path("m.toml"), {"embeddings": numbers(3, 4), "w_query": numbers(4, 2)}
        ),
        "BATCH": write_file(Path("batch.toml"), {"embeddings": numbers(2, 3, 4)}),
    }
    words = [str(files.get(word, word)) for word in shlex.split(line)]

    problem, hint = refusal_lines(attnviz("compare" if "--curves" in line else "run", *words))

    assert problem.startswith(expected_problem)
    assert hint.startswith(expected_hint)


def test_nothing_in_a_file_is_run(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "pickled.npz"
    np.savez(path, scores=np.array([{"a": 1}], dtype=object))

    result = attnviz("run", "--given", str(path))

    assert result.status == 2
    assert "pickled data" in result.err
