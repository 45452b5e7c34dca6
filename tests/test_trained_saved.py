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
from tests.small_transformers import KINDS, KINDS_WITHOUT_CAPTURE, save

TEXT = "it was too tired"
MATRICES = ("w_query", "w_key", "w_value", "w_out", "b_query", "b_key", "b_value", "b_out")


@pytest.fixture(scope="module")
def minilm_trace() -> Trace:
    return trace(TEXT, model="minilm", without="L1H2=mean")


def saved_values(transformer_trace: Trace) -> dict[str, object]:
    """The values of a trace that a file keeps."""
    return {
        "tokens": transformer_trace.tokens,
        "keys": transformer_trace.keys,
        "variant": transformer_trace.variant,
        "positions": transformer_trace.positions,
        "prompt": transformer_trace.prompt,
        "text": transformer_trace.text,
        "trained": transformer_trace.trained,
        "settings": transformer_trace.origin.settings,
    }


@pytest.mark.slow_table("models", keep=1)
@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_it_comes_back_to_the_last_digit(minilm_trace: Trace, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"trace{suffix}"
    minilm_trace.view().save(file)
    loaded_trace = load(str(file))

    assert saved_values(loaded_trace) == saved_values(minilm_trace)
    for layer, loaded_layer in zip(minilm_trace.layers, loaded_trace.layers, strict=True):
        for name in ("inputs", "queries", "keys", "values", "visible", "context"):
            assert torch.equal(getattr(layer, name), getattr(loaded_layer, name)), name
        assert torch.equal(layer.attended.weights, loaded_layer.attended.weights)
        assert torch.equal(layer.attended.contexts, loaded_layer.attended.contexts)
        assert layer.off == loaded_layer.off


def test_no_matrix_of_the_model_is_in_the_file(minilm_trace: Trace, tmp_path: Path) -> None:
    minilm_trace.view().save(tmp_path / "trace.npz")
    with np.load(tmp_path / "trace.npz") as arrays:
        names = {name.rpartition(".")[2] for name in arrays.files}

    assert not names & {*MATRICES}
    assert {"queries", "keys", "values", "weights"} <= names


@pytest.mark.slow_table("models", keep=3)
@pytest.mark.parametrize(
    ("name", "settings"),
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
def test_every_kind_comes_back(name: str, settings: dict[str, str], tmp_path: Path) -> None:
    model = save((KINDS | KINDS_WITHOUT_CAPTURE)[name], tmp_path / name)
    original = trace(TEXT, model=str(model), **settings)  # type: ignore[arg-type]
    original.view(show=["weights"]).save(tmp_path / "trace.npz")
    loaded_trace = load(str(tmp_path / "trace.npz"))

    assert loaded_trace.trained == original.trained
    assert (loaded_trace.prompt, loaded_trace.text, loaded_trace.keys) == (
        original.prompt,
        original.text,
        original.keys,
    )
    for layer, loaded_layer in zip(original.layers, loaded_trace.layers, strict=True):
        assert torch.equal(layer.attended.weights, loaded_layer.attended.weights)
        assert (layer.layer, layer.scale, layer.heads) == (
            loaded_layer.layer,
            loaded_layer.scale,
            loaded_layer.heads,
        )


@pytest.mark.slow("models")
def test_of_very_many_weights_what_makes_them_is_kept(
    minilm_trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attnviz: Attnviz
) -> None:
    monkeypatch.setattr(archive, "MAX_SAVED_CELLS", 100)
    file = str(tmp_path / "trace.npz")
    result = attnviz("run", TEXT, "--model=minilm", "--without=L1H2=mean", "-o", file)
    loaded_trace = load(file)

    assert "note: scores and weights, 2,592 of each, are left out of the file" in result.err
    with np.load(file) as arrays:
        assert not any(name.endswith((".weights", "scores")) for name in arrays.files)
    for layer, loaded_layer in zip(minilm_trace.layers, loaded_trace.layers, strict=True):
        assert torch.equal(layer.attended.weights, loaded_layer.attended.weights)
        assert torch.equal(layer.attended.contexts, loaded_layer.attended.contexts)


def test_what_was_left_out_is_left_out_again(
    minilm_trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_SAVED_CELLS", 100)
    first_file, second_file = tmp_path / "first.npz", tmp_path / "second.npz"
    with pytest.warns(Note, match="are left out of the file"):
        minilm_trace.view().save(first_file)
    with pytest.warns(Note, match="are left out of the file"):
        load(str(first_file)).view().save(second_file)

    assert {*np.load(first_file).files} == {*np.load(second_file).files}


@pytest.mark.slow("processes")
def test_it_is_read_and_shown_without_transformers(
    minilm_trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attnviz: Attnviz
) -> None:
    file = tmp_path / "trace.npz"
    minilm_trace.view().save(file)
    for name in [each for each in sys.modules if each.partition(".")[0] == "transformers"]:
        monkeypatch.setitem(sys.modules, name, None)

    for command in ("run", "inspect", "steps --layer 1 --head 1 --query 2", "run --query 2"):
        result = attnviz(*command.split(), "--trace", str(file))
        assert (result.status, result.err) == (0, ""), command


def test_the_steps_of_a_file_say_where_the_matrices_are_not(
    minilm_trace: Trace, tmp_path: Path
) -> None:
    minilm_trace.view().save(tmp_path / "trace.npz")
    walk = steps(load(str(tmp_path / "trace.npz")), layer=1, head=0, query="2")
    sections = {section.name: section for section in walk.sections}

    assert sections["projections"].about == (
        "The model computes queries, keys and values with its own matrices, which a file of a "
        "trace does not contain."
    )
    assert not sections["queries"].sums


def test_the_same_command_writes_the_same_file(tmp_path: Path, attnviz: Attnviz) -> None:
    for name in ("one", "other"):
        attnviz("run", TEXT, "--model=minilm", "-o", str(tmp_path / f"{name}.json"))
    one, other = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("one", "other"))

    assert one.pop("attnviz")["command"].startswith("attnviz run 'it was too tired' --model minilm")
    other.pop("attnviz")
    assert one == other
    assert one["trace"]["origin"]["card"]["name"] == "minilm"
