"""A trace of a trained transformer comes back from a file, without the model and its matrices."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnviz import Trace, load, trace
from attnviz.errors import Note
from attnviz.traces import archive
from attnviz.views.steps.walk import steps
from tests.conftest import Attnviz
from tests.small_transformers import KINDS, OUTSIDE, save

TEXT = "it was too tired"
MATRICES = ("w_query", "w_key", "w_value", "w_out", "b_query", "b_key", "b_value", "b_out")


@pytest.fixture(scope="module")
def made() -> Trace:
    return trace(TEXT, model="minilm", without="L1H2=mean")


def kept(found: Trace) -> dict[str, object]:
    """What of a trace a file keeps."""
    return {
        "tokens": found.tokens,
        "keys": found.keys,
        "variant": found.variant,
        "positions": found.positions,
        "prompt": found.prompt,
        "text": found.text,
        "trained": found.trained,
        "settings": found.origin.settings,
    }


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_it_comes_back_to_the_last_digit(made: Trace, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"trace{suffix}"
    made.view().save(file)
    found = load(str(file))

    assert kept(found) == kept(made)
    for layer, again in zip(made.layers, found.layers, strict=True):
        for name in ("inputs", "queries", "keys", "values", "visible", "context"):
            assert torch.equal(getattr(layer, name), getattr(again, name)), name
        assert torch.equal(layer.attended.weights, again.attended.weights)
        assert torch.equal(layer.attended.contexts, again.attended.contexts)
        assert layer.off == again.off


def test_no_matrix_of_the_model_is_in_the_file(made: Trace, tmp_path: Path) -> None:
    made.view().save(tmp_path / "trace.npz")
    with np.load(tmp_path / "trace.npz") as arrays:
        names = {name.rpartition(".")[2] for name in arrays.files}

    assert not names & {*MATRICES}
    assert {"queries", "keys", "values", "weights"} <= names


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("llama", {"generate": 2}),
        ("t5", {"attention": "decoder", "target": "it is"}),
        ("t5", {"attention": "cross", "target": "it is"}),
        ("gemma2", {}),
        ("gpt-oss", {}),
        ("bloom", {}),
        ("jamba", {}),
    ],
)
@pytest.mark.usefixtures("quick")
def test_every_kind_comes_back(name: str, asked: dict[str, str], tmp_path: Path) -> None:
    model = save((KINDS | OUTSIDE)[name], tmp_path / name)
    whole = trace(TEXT, model=str(model), **asked)  # type: ignore[arg-type]
    whole.view(show=["weights"]).save(tmp_path / "trace.npz")
    found = load(str(tmp_path / "trace.npz"))

    assert found.trained == whole.trained
    assert (found.prompt, found.text, found.keys) == (whole.prompt, whole.text, whole.keys)
    for layer, again in zip(whole.layers, found.layers, strict=True):
        assert torch.equal(layer.attended.weights, again.attended.weights)
        assert (layer.layer, layer.scale, layer.heads) == (again.layer, again.scale, again.heads)


def test_of_very_many_weights_what_makes_them_is_kept(
    made: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attnviz: Attnviz
) -> None:
    monkeypatch.setattr(archive, "MAX_SAVED_CELLS", 100)
    file = str(tmp_path / "trace.npz")
    result = attnviz("run", TEXT, "--model=minilm", "--without=L1H2=mean", "-o", file)
    found = load(file)

    assert "note: scores and weights, 2,592 of each, are left out of the file" in result.err
    with np.load(file) as arrays:
        assert not any(name.endswith((".weights", "scores")) for name in arrays.files)
    for layer, again in zip(made.layers, found.layers, strict=True):
        assert torch.equal(layer.attended.weights, again.attended.weights)
        assert torch.equal(layer.attended.contexts, again.attended.contexts)


def test_what_was_left_out_is_left_out_again(
    made: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_SAVED_CELLS", 100)
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    with pytest.warns(Note, match="are left out of the file"):
        made.view().save(first)
    with pytest.warns(Note, match="are left out of the file"):
        load(str(first)).view().save(second)

    assert {*np.load(first).files} == {*np.load(second).files}


def test_it_is_read_and_shown_without_transformers(
    made: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attnviz: Attnviz
) -> None:
    file = tmp_path / "trace.npz"
    made.view().save(file)
    for name in [each for each in sys.modules if each.partition(".")[0] == "transformers"]:
        monkeypatch.setitem(sys.modules, name, None)

    for command in ("run", "inspect", "steps --layer 1 --head 1 --query 2", "run --query 2"):
        result = attnviz(*command.split(), "--trace", str(file))
        assert (result.status, result.err) == (0, ""), command


def test_the_steps_of_a_file_say_where_the_matrices_are_not(made: Trace, tmp_path: Path) -> None:
    made.view().save(tmp_path / "trace.npz")
    walk = steps(load(str(tmp_path / "trace.npz")), layer=1, head=0, query="2")
    told = {section.name: section for section in walk.sections}

    assert told["projections"].about == (
        "The model computes queries, keys and values with its own matrices, which a file of a "
        "trace does not contain."
    )
    assert not told["queries"].sums


def test_the_same_command_writes_the_same_file(tmp_path: Path, attnviz: Attnviz) -> None:
    for name in ("one", "other"):
        attnviz("run", TEXT, "--model=minilm", "-o", str(tmp_path / f"{name}.json"))
    one, other = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("one", "other"))

    assert one.pop("attnviz")["command"].startswith("attnviz run 'it was too tired' --model minilm")
    other.pop("attnviz")
    assert one == other
    assert one["trace"]["origin"]["card"]["name"] == "minilm"
