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
# Kinds of models that differ in what their steps say.
SETTINGS_BY_KIND: dict[str, dict[str, Any]] = {
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
# The matrices that attnviz recognises by the vectors that they produce.
RECOGNISED_MATRICES = {
    "gpt2": "query key value",
    "llama": "query key value",
    "gpt-neox": "query key value",
    "phi3": "query key value",
    "bert": "query key value",
    "opt": "query key value",  # though queries are scaled before they are captured
    "esm": "query key value",
    "qwen3": "value",  # queries and keys are normed on the way
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@cache
def save_model(folder: Path, name: str) -> str:
    return str(
        save((KINDS | MORE_KINDS | KINDS_WITHOUT_CAPTURE)[name], folder / name.replace(" ", "-"))
    )


def trace_model(folder: Path, name: str, **settings: Any) -> Trace:
    return trace(TEXT, model=save_model(folder, name), **settings)


def build_walks(result: Trace) -> list[Walk]:
    """Walks through all tokens in a head of the first layer, and through one token in the last."""
    first, last = result.layers[0].layer, result.layers[-1].layer
    query_walk = steps(result, layer=last, query="2", head=3, full=True)
    return [steps(result, layer=first, head=1), query_walk]


@pytest.mark.slow_table("sentences", keep=4)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", SETTINGS_BY_KIND)
def test_every_sentence_of_a_walk_is_known_and_true(folder: Path, name: str) -> None:
    # Without its prediction, whose sentences have tests of their own.
    result = replace(trace_model(folder, name, **SETTINGS_BY_KIND[name]), prediction=None)
    view, both_walks = result.view(show=["weights"]), build_walks(result)
    # The mask has no sums.
    sections = [section for section in both_walks[1].sections if section.name != "mask"]
    sums = [each for section in sections for each in section.sums]

    assert [
        sentence for walk in both_walks for sentence in false_sentences(Run(result, view, walk))
    ] == []
    assert len(sums) > 10
    assert [each.text for each in sums if not holds(each.text)] == []


def test_queries_that_a_model_scales_are_shown_as_their_matrix_makes_them(folder: Path) -> None:
    """OPT multiplies them with 1/√d, and no score: the weights are the same."""
    (layer, *_), walk = (
        trace_model(folder, "opt").layers,
        steps(trace_model(folder, "opt"), query="2"),
    )
    attention = (
        load_transformer(Settings(model=save_model(folder, "opt")))
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
    (layer, *_) = trace_model(folder, "qwen3").layers
    unscaled_layer = replace(layer, scale=1.0)

    assert own_scaling_text(unscaled_layer) == (
        "The scores are not scaled here: if the model scales anything, it does so when it computes "
        "queries and keys."
    )
    projected_layer = replace(unscaled_layer, given=frozenset())
    assert own_scaling_text(projected_layer) == "The model does not scale the scores."


@pytest.mark.parametrize("name", RECOGNISED_MATRICES)
def test_the_matrices_that_make_vectors_are_the_models_own(folder: Path, name: str) -> None:
    """To the last digit: the columns of each are columns of the model's matrices."""
    result = trace_model(folder, name)
    own_columns = {bytes(each.numpy()) for each in columns_of_model(save_model(folder, name))}

    for layer in result.layers:
        projections = layer.projections
        assert projections is not None
        kinds = [
            kind for kind in ("query", "key", "value") if projection(projections, kind) is not None
        ]
        assert " ".join(kinds) == RECOGNISED_MATRICES[name]
        for kind in kinds:
            matrix, vectors = projection(projections, kind), projected_vectors(layer, kind)
            assert {bytes(each.numpy()) for each in matrix.T.contiguous()} <= own_columns
            bias = getattr(projections, f"b_{kind}")
            product = layer.inputs @ matrix + (0 if bias is None else bias)
            assert_close(split_heads(product, len(vectors)), vectors, rtol=1e-4, atol=1e-5)


def projection(projections: Any, kind: str) -> Any:
    return getattr(projections, f"w_{kind}")


def projected_vectors(layer: Any, kind: str) -> Any:
    plural_kind = {"query": "queries", "key": "keys", "value": "values"}[kind]
    return getattr(layer if kind == "value" else layer.before_rotary or layer, plural_kind)


def columns_of_model(name: str) -> list[torch.Tensor]:
    """The columns of all matrices of a model; torch's Linear keeps them as rows."""
    modules = [*load_transformer(Settings(model=name)).model.modules()]
    matrices = [each.weight.detach() for each in modules if isinstance(each, nn.Linear)]
    matrices += [each.weight.detach().T for each in modules if isinstance(each, Conv1D)]
    return [column for matrix in matrices for column in matrix.contiguous()]


def test_rotary_positions_are_recognised_with_the_base_of_their_angles(folder: Path) -> None:
    result = trace(TEXT, model=str(save(KINDS["llama"], folder / "other-base", rope_theta=500.0)))
    layer = result.layers[1]

    assert result.positions == "rotary-halves"
    assert layer.before_rotary is not None
    rotated_queries = positions.rotate_by_position(layer.before_rotary.queries, 500.0, halves=True)
    assert_close(rotated_queries, layer.queries, rtol=1e-4, atol=1e-5)
    (section,) = steps(result, layer=1, step="rotary").sections
    assert "500^(2(i - 1)/d_k)" in section.formula


def test_pairs_that_are_turned_in_part_alone_have_no_formula(folder: Path) -> None:
    (section,) = steps(trace_model(folder, "gpt-neox"), step="rotary", query="2").sections

    assert (section.formula, section.sums) == ("", ())


def test_a_sliding_window_is_said_of_the_layer_that_has_one(folder: Path) -> None:
    result = trace(f"{TEXT} {TEXT}", model=save_model(folder, "gemma2"))
    sentences = [steps(result, layer=layer, step="mask").sections[0].about for layer in (0, 1)]

    assert "less than 5 positions away" in sentences[0]
    assert "away" not in sentences[1]


def test_a_model_that_hands_back_weights_alone_has_no_steps(folder: Path) -> None:
    result = trace_model(folder, "bloom")

    with pytest.raises(AttnvizError, match="no steps to show"):
        steps(result)


def test_a_layer_without_attention_is_named(folder: Path) -> None:
    result = trace_model(folder, "jamba")
    with pytest.raises(AttnvizError, match="layer 0 has no attention; layers that do: 1"):
        steps(result, layer=0)
    # Without a layer, the first one that has attention is shown.
    assert len(steps(result).sections) == len(steps(result, layer=1).sections)


@pytest.mark.parametrize("part", ["scores", "queries", "values", "context", "masked"])
def test_of_weights_that_a_model_hands_back_itself_nothing_else_is_shown(
    folder: Path, part: str, attnviz: Attnviz
) -> None:
    arguments = ("run", TEXT, "--model", save_model(folder, "bloom"), "--show")
    assert attnviz(*arguments, "weights").status == 0
    refusal = attnviz(*arguments, part)
    assert refusal.status == 2
    assert f"cannot show {part}: the model returns only weights" in refusal.err
    assert "name some of: tokens, embeddings, weights, prediction\n" in refusal.err


def test_what_a_trained_model_has_not_is_told_of_it(folder: Path, attnviz: Attnviz) -> None:
    for part, problem in (("outputs", "is not kept"), ("prediction", "gives no answers here")):
        refusal = attnviz("run", TEXT, "--model", save_model(folder, "distilbert"), "--show", part)
        assert problem in refusal.err
        assert "--layers" not in refusal.err


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--layer=6", "there is no layer 6: layers count from 0, and there are 6"),
        ("--head=12", "there is no head 12: there are 12 heads, numbered from 0"),
        ("--heads=2", "--heads is given, but the trained model 'minilm' decides that"),
    ],
)
def test_what_the_model_has_not_is_refused(attnviz: Attnviz, option: str, problem: str) -> None:
    result = attnviz("steps", TEXT, "--model=minilm", option)

    assert (result.status, result.out) == (2, "")
    assert problem in result.err
    assert len(result.err.splitlines()) == 2


def test_the_columns_of_one_head_are_shown_of_its_matrices() -> None:
    result = trace(TEXT, model="minilm")
    (section,) = steps(result, layer=4, head=7, step="projections").sections
    matrix = section.grids[0]
    projections = result.layers[4].projections

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
    scales = {grid.title.partition(" ")[0]: grid.scale for grid in grids}
    assert scales["w_query"].label == scales["w_out"].label == "parameter"
    assert scales["inputs"].label == "input"
    assert scales["context"].label == "context"
    assert scales["queries"].label == scales["values"].label == "value"
    assert scales["w_query"].high < scales["queries"].high
