"""The caveat: names what is random, once, and only where something is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnviz import load, steps, trace
from attnviz.analysis.comparison import compare, compare_scores
from attnviz.renderers import Look
from attnviz.renderers.picture.still_pictures import view_captions
from attnviz.traces.matrices import parse_matrices
from attnviz.wings.examples.example_names import example, example_names
from tests.conftest import Attnviz

TEXT = "hot tea"
VECTORS = "random vectors: this shows the mechanism, not what the words mean"
PROJECTIONS = "given vectors, random projections: this shows the mechanism, not what the words mean"
VALUES = "random values: the weights are real, what is computed from them is not"
JOINED = "random output projection: the weights are real, what is computed from them is not"
ONE = [[1.0, 0.0], [0.0, 1.0]]


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    path = tmp_path / "vectors.txt"
    path.write_text("tea 1 0\nhot 0 1\n")
    return str(path)


@pytest.mark.parametrize(
    ("settings", "show", "caveat"),
    [
        ({}, None, VECTORS),
        ({"variant": "plain"}, None, VECTORS),
        ({"variant": "average"}, None, VALUES),
        ({"variant": "average"}, ["weights"], ""),
        ({}, ["tokens"], ""),
        ({}, ["embeddings"], VECTORS),
        ({"layers": 2}, None, VECTORS),
    ],
)
def test_a_drawn_trace_says_what_was_drawn(
    settings: dict[str, Any], show: list[str] | None, caveat: str
) -> None:
    assert trace(TEXT, **settings).view(show=show).screen.caveat == caveat


@pytest.mark.parametrize(
    ("settings", "show", "caveat"),
    [
        ({}, None, PROJECTIONS),
        ({"variant": "plain"}, None, ""),
        ({"variant": "average"}, None, ""),
        ({"variant": "plain", "layers": 1}, ["weights"], ""),
        (
            {"variant": "plain", "positions": "learned"},
            None,
            "given vectors, random positions: this shows the mechanism, not what the words mean",
        ),
        ({}, ["embeddings"], ""),
    ],
)
def test_vectors_of_ones_own_are_not_called_random(
    vectors: str, settings: dict[str, Any], show: list[str] | None, caveat: str
) -> None:
    traced = trace(TEXT, embeddings=vectors, tokenizer="words", **settings)

    assert traced.view(show=show).screen.caveat == caveat


@pytest.mark.parametrize(
    ("given_matrices", "show", "caveat"),
    [
        ({"scores": ONE}, None, VALUES),
        ({"scores": ONE}, ["weights"], ""),
        ({"scores": ONE, "values": ONE}, None, ""),
        ({"embeddings": ONE}, None, PROJECTIONS),
        ({"w_query": ONE, "w_key": ONE, "w_value": ONE}, None, VECTORS),
        ({"embeddings": ONE, "w_query": ONE, "w_key": ONE}, None, VALUES),
        ({"embeddings": ONE, "w_query": ONE, "w_key": ONE, "w_value": ONE}, None, ""),
        ({"queries": ONE, "keys": ONE, "values": ONE}, None, ""),
    ],
)
def test_what_is_given_is_not_called_random(
    given_matrices: dict[str, Any], show: list[str] | None, caveat: str
) -> None:
    text = None if {"scores", "embeddings", "queries"} & given_matrices.keys() else TEXT

    assert trace(text, given=parse_matrices(given_matrices)).view(show=show).screen.caveat == caveat


def test_a_matrix_that_joins_heads_is_drawn_alone() -> None:
    matrices = dict.fromkeys(("embeddings", "w_query", "w_key", "w_value"), ONE)

    joined_trace = trace(None, given=parse_matrices(matrices), variant="multi-head")

    assert joined_trace.view().screen.caveat == JOINED
    assert joined_trace.view(show=["weights"]).screen.caveat == ""


@pytest.mark.slow_table("sentences", keep=3)
@pytest.mark.parametrize("name", example_names())
def test_a_worked_example_is_no_chance(name: str) -> None:
    assert example(name).view().screen.caveat == ""


def test_of_a_comparison_it_is_about_the_weights(vectors: str) -> None:
    assert compare(TEXT).view(repeats=1).screen.caveat == VECTORS
    assert compare(TEXT, variant="average").view(repeats=1).screen.caveat == ""
    comparison = compare(
        TEXT, by="variant", values=["plain", "scaled"], embeddings=vectors, tokenizer="words"
    )
    assert comparison.view(repeats=1).screen.caveat == PROJECTIONS


def test_given_scores_are_no_chance() -> None:
    from torch import ones

    assert compare_scores(ones(1, 2, 2), 4).view().screen.caveat == ""


def test_a_trace_that_comes_back_says_it_again(attnviz: Attnviz, samples: Path) -> None:
    attnviz("run", TEXT, "-o", "a.npz")

    assert load("a.npz").view().screen.caveat == VECTORS


@pytest.mark.slow("formats")
def test_it_is_said_once_wherever_the_result_goes(attnviz: Attnviz, samples: Path) -> None:
    for command in (["run"], ["steps"], ["compare"], ["run", "--query", "1"]):
        result = attnviz(*command, TEXT)
        assert result.out.count(VECTORS) == 1
        attnviz(*command, TEXT, "-o", "a.txt", "-o", "a.md", "-o", "a.svg", "-o", "a.csv")
        for name in ("a.txt", "a.md"):
            assert Path(name).read_text(encoding="utf-8").count(VECTORS) == 1, (command, name)
        assert "random" not in Path("a.csv").read_text(encoding="utf-8")


def test_a_picture_says_it_in_its_footnote_and_each_step_in_its_own() -> None:
    view = steps(TEXT).view()

    assert view_captions(trace(TEXT).view(), Look()).notes.endswith(VECTORS)
    for section in view.sections:
        assert VECTORS in view_captions(view.of_section(section), Look()).notes


def test_who_wants_no_notes_gets_none(attnviz: Attnviz) -> None:
    assert "random" not in attnviz("run", TEXT, "--quiet").out


def test_rows_after_dropout_are_not_said_to_sum_to_1(attnviz: Attnviz) -> None:
    assert "the weights sum to 1" in attnviz("run", "a b", "--query", "2").out
    dropped = attnviz("run", "a b", "--dropout", "0.5", "--query", "2").out
    assert "do not sum to 1" in dropped
    assert "sum to 1" not in dropped.replace("do not sum to 1", "")


@pytest.mark.parametrize("name", [each for each in example_names() if each.startswith("mistake-")])
def test_rows_of_a_mistake_are_not_said_to_sum_to_1(name: str) -> None:
    example_trace = example(name).trace()

    panels_and_sentences = [
        *example_trace.view(show=["weights"]).screen.panels,
        *example_trace.view(query="1").sentences,
    ]
    assert not any("sums to 1" in str(getattr(each, "note", "")) for each in panels_and_sentences)
