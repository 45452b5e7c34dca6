"""The steps of trained transformers: every sentence and every sum is true of the model itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers.pytorch_utils import Conv1D

from attnviz import Trace, trace
from attnviz.attention.arithmetic import split_heads
from attnviz.errors import AttnvizError
from attnviz.traces.settings import Settings
from attnviz.traces.trained.loading import load_transformer
from attnviz.vectors import positions
from attnviz.views.steps.trained import own_scaling_text
from attnviz.views.steps.walk import Walk, steps
from tests.claims_of_runs import false_sentences
from tests.conftest import Attnviz
from tests.drawn_runs import Run
from tests.evaluate import holds
from tests.small_transformers import KINDS, KINDS_WITHOUT_CAPTURE, MORE_KINDS, Saved, save

TEXT = "it was too tired"
ASKED: dict[str, dict[str, Any]] = {  # kinds that differ in what their steps say
    "gpt2": {"generate": 2},
    "gpt2 scaled by layer": {},
    "llama": {},
    "gemma2": {},
    "gemma3": {},
    "gpt-oss": {},
    "gpt-neox": {},
    "opt": {},
    "esm": {},
    "llama4": {},
    "jamba": {},
    "bert": {},
    "t5": {"attention": "self"},
    "bart": {"attention": "cross", "target": "it is"},
}
RECOGNISED = {  # which of the matrices can be told by what they make
    "gpt2": "query key value",
    "llama": "query key value",
    "gpt-neox": "query key value",
    "phi3": "query key value",
    "bert": "query key value",
    "opt": "query key value",  # though queries are scaled before anybody hears of them
    "esm": "query key value",
    "qwen3": "value",  # queries and keys are normed on the way
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@cache
def saved(folder: Path, name: str) -> str:
    return str(
        save((KINDS | MORE_KINDS | KINDS_WITHOUT_CAPTURE)[name], folder / name.replace(" ", "-"))
    )


def heard(folder: Path, name: str, **asked: Any) -> Trace:
    return trace(TEXT, model=saved(folder, name), **asked)


def walks(made: Trace) -> list[Walk]:
    """All tokens of the first layer in one head, and one token of the last."""
    first, last = made.layers[0].layer, made.layers[-1].layer
    followed = steps(made, layer=last, query="2", head=3, full=True)
    return [steps(made, layer=first, head=1), followed]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ASKED)
def test_every_sentence_of_a_walk_is_known_and_true(folder: Path, name: str) -> None:
    made = replace(heard(folder, name, **ASKED[name]), prediction=None)  # of which others tell
    view, both = made.view(show=["weights"]), walks(made)
    rest = [section for section in both[1].sections if section.name != "mask"]  # which has no sums
    sums = [each for section in rest for each in section.sums]

    assert [told for walk in both for told in false_sentences(Run(made, view, walk))] == []
    assert len(sums) > 10
    assert [each.text for each in sums if not holds(each.text)] == []


def test_queries_that_a_model_scales_are_shown_as_their_matrix_makes_them(folder: Path) -> None:
    """OPT multiplies them with 1/√d, and no score: the weights are the same."""
    (layer, *_), walk = heard(folder, "opt").layers, steps(heard(folder, "opt"), query="2")
    attention = (
        load_transformer(Settings(model=saved(folder, "opt")))
        .model.model.decoder.layers[0]
        .self_attn
    )

    assert layer.queries is not None
    assert_close(layer.queries, split_heads(attention.q_proj(layer.inputs), 4))
    assert layer.scale == pytest.approx(1 / 2)
    (scaling,) = (each for each in walk.sections if each.name == "scaling")
    assert scaling.formula == "scaled = scores / √4"


def test_where_queries_are_made_in_a_way_of_its_own_no_model_is_said_not_to_scale(
    folder: Path,
) -> None:
    (layer, *_) = heard(folder, "qwen3").layers
    unscaled = replace(layer, scale=1.0)

    assert own_scaling_text(unscaled) == (
        "The scores are not scaled here: if the model scales anything, it does so when it computes "
        "queries and keys."
    )
    of_its_matrices = replace(unscaled, given=frozenset())
    assert own_scaling_text(of_its_matrices) == "The model does not scale the scores."


@pytest.mark.parametrize("name", RECOGNISED)
def test_the_matrices_that_make_vectors_are_the_models_own(folder: Path, name: str) -> None:
    made = heard(folder, name)
    known = {id(each) for each in weights_of(saved(folder, name))}

    for layer in made.layers:
        projections = layer.projections
        assert projections is not None
        found = [kind for kind in ("query", "key", "value") if of(projections, kind) is not None]
        assert " ".join(found) == RECOGNISED[name]
        for kind in found:
            matrix, vectors = of(projections, kind), made_by(layer, kind)
            bias = getattr(projections, f"b_{kind}")
            product = layer.inputs @ matrix + (0 if bias is None else bias)
            assert_close(split_heads(product, len(vectors)), vectors, rtol=1e-4, atol=1e-5)
    assert known


def of(projections: Any, kind: str) -> Any:
    return getattr(projections, f"w_{kind}")


def made_by(layer: Any, kind: str) -> Any:
    plural = {"query": "queries", "key": "keys", "value": "values"}[kind]
    return getattr(layer if kind == "value" else layer.before_rotary or layer, plural)


def weights_of(name: str) -> list[torch.Tensor]:
    model = load_transformer(Settings(model=name)).model
    return [each.weight for each in model.modules() if isinstance(each, nn.Linear | Conv1D)]


def test_no_matrix_is_taken_for_one_that_it_is_not(folder: Path) -> None:
    made = heard(folder, "llama").layers[0]
    modules = dict(load_transformer(Settings(model=saved(folder, "llama"))).model.named_modules())
    own = next(each for name, each in modules.items() if name.endswith("layers.0.self_attn"))

    assert made.projections is not None
    for mine, theirs in (("w_query", "q_proj"), ("w_key", "k_proj"), ("w_value", "v_proj")):
        assert torch.equal(getattr(made.projections, mine), getattr(own, theirs).weight.T)


def test_rotary_positions_are_recognised_with_the_base_of_their_angles(folder: Path) -> None:
    made = trace(TEXT, model=str(save(KINDS["llama"], folder / "other-base", rope_theta=500.0)))
    layer = made.layers[1]

    assert made.positions == "rotary-halves"
    assert layer.before_rotary is not None
    turned = positions.rotate_by_position(layer.before_rotary.queries, 500.0, halves=True)
    assert_close(turned, layer.queries, rtol=1e-4, atol=1e-5)
    (section,) = steps(made, layer=1, step="rotary").sections
    assert "500^(2(i - 1)/d_k)" in section.formula


def test_pairs_that_are_turned_in_part_alone_have_no_formula(folder: Path) -> None:
    (section,) = steps(heard(folder, "gpt-neox"), step="rotary", query="2").sections

    assert (section.formula, section.sums) == ("", ())


def test_a_sliding_window_is_said_of_the_layer_that_has_one(folder: Path) -> None:
    made = trace(f"{TEXT} {TEXT}", model=saved(folder, "gemma2"))
    told = [steps(made, layer=layer, step="mask").sections[0].about for layer in (0, 1)]

    assert "less than 5 positions away" in told[0]
    assert "away" not in told[1]


def test_a_model_that_hands_back_weights_alone_has_no_steps(folder: Path) -> None:
    made = heard(folder, "bloom")

    with pytest.raises(AttnvizError, match="no steps to show"):
        steps(made)


def test_a_layer_without_attention_is_named(folder: Path) -> None:
    made = heard(folder, "jamba")
    with pytest.raises(AttnvizError, match="layer 0 has no attention; layers that do: 1"):
        steps(made, layer=0)
    assert len(steps(made).sections) == len(
        steps(made, layer=1).sections
    )  # the first that has, unasked


@pytest.mark.parametrize("part", ["scores", "queries", "values", "context", "masked"])
def test_of_weights_that_a_model_hands_back_itself_nothing_else_is_shown(
    folder: Path, part: str, attnviz: Attnviz
) -> None:
    asked = ("run", TEXT, "--model", saved(folder, "bloom"), "--show")
    assert attnviz(*asked, "weights").status == 0
    refused = attnviz(*asked, part)
    assert refused.status == 2
    assert f"cannot show {part}: the model returns only weights" in refused.err
    assert "name some of: tokens, embeddings, weights, prediction\n" in refused.err


def test_what_a_trained_model_has_not_is_told_of_it(folder: Path, attnviz: Attnviz) -> None:
    for part, told in (("outputs", "is not kept"), ("prediction", "gives no answers here")):
        refused = attnviz("run", TEXT, "--model", saved(folder, "distilbert"), "--show", part)
        assert told in refused.err
        assert "--layers" not in refused.err


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--layer=6", "there is no layer 6: layers count from 0, and there are 6"),
        ("--head=12", "there is no head 12: there are 12 heads, numbered from 0"),
        ("--heads=2", "--heads is given, but the trained model 'minilm' decides that"),
    ],
)
def test_what_the_model_has_not_is_refused(attnviz: Attnviz, option: str, told: str) -> None:
    result = attnviz("steps", TEXT, "--model=minilm", option)

    assert (result.status, result.out) == (2, "")
    assert told in result.err
    assert len(result.err.splitlines()) == 2


def test_the_columns_of_one_head_are_shown_of_its_matrices() -> None:
    made = trace(TEXT, model="minilm")
    (section,) = steps(made, layer=4, head=7, step="projections").sections
    matrix = section.grids[0]
    projections = made.layers[4].projections

    assert projections is not None
    assert projections.w_query is not None
    assert matrix.title == "w_query · head 7"
    assert_close(torch.from_numpy(matrix.values), projections.w_query[:, 224:256])


def test_nothing_of_a_trained_model_is_said_to_be_random(attnviz: Attnviz) -> None:
    for command in (["steps", "--layer=1", "--head=1"], ["run"], ["run", "--show=context"]):
        result = attnviz(*command, TEXT, "--model=minilm")
        assert result.status == 0
        assert not {"random", "seed", "given", "drawn"} & {*result.out.split()}


def test_numbers_of_different_sizes_have_scales_of_their_own(small_transformer: Saved) -> None:
    walk = steps(TEXT, model=str(small_transformer("gpt2")), layer=1, head=0)
    grids = [grid for section in walk.sections for grid in section.grids]
    of = {grid.title.partition(" ")[0]: grid.scale for grid in grids}
    assert of["w_query"].label == of["w_out"].label == "parameter"
    assert of["inputs"].label == "input"
    assert of["context"].label == "context"
    assert of["queries"].label == of["values"].label == "value"
    assert of["w_query"].high < of["queries"].high
