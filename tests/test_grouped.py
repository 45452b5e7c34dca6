"""Grouped queries: fewer heads of keys and values than of queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

import attnviz as library
from attnviz import Settings, trace
from attnviz.analysis.checks import verify_trace
from attnviz.errors import AttnvizError
from attnviz.options.values import Positions
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.trace import Layer
from attnviz.views.steps.walk import steps
from attnviz.views.view import View
from tests.conftest import Attnviz
from tests.evaluate import holds

TEXT = "I am learning this"


def contexts_of_torch(layer: Layer) -> Tensor:
    assert layer.queries is not None
    assert layer.keys is not None
    return scaled_dot_product_attention(
        layer.queries, layer.keys, layer.values, attn_mask=layer.visible, enable_gqa=True
    )


@given(
    groups=st.integers(1, 3),
    size=st.integers(1, 3),
    variant=st.sampled_from(["scaled", "multi-head"]),
    positions=st.sampled_from(["none", "rotary", "rotary-halves", "sinusoidal"]),
)
def test_heads_that_share_keys_and_values_are_torchs(
    groups: int, size: int, variant: str, positions: Positions
) -> None:
    heads = groups * size

    grouped_trace = trace(
        TEXT, variant=variant, heads=heads, kv_heads=groups, head_dim=4, positions=positions
    )

    layer = grouped_trace.layers[0]
    assert layer.queries is not None
    assert layer.keys is not None
    assert (len(layer.queries), len(layer.keys), len(layer.values)) == (heads, groups, groups)
    assert_close(layer.attended.contexts, contexts_of_torch(layer))
    assert [check.passed for check in verify_trace(grouped_trace)] == [True] * 3


def test_a_key_of_a_group_is_made_by_its_columns() -> None:
    layer = trace(TEXT, heads=4, kv_heads=2, dtype="float64").layers[0]
    projections = layer.projections
    assert projections is not None
    assert projections.w_key is not None

    expected = layer.inputs @ projections.w_key[:, 2:4]

    assert projections.w_key.shape == (8, 4)
    assert layer.keys_of_heads is not None
    assert_close(layer.keys_of_heads[2], expected)
    assert_close(layer.keys_of_heads[3], expected)


def given_vectors(heads: int, groups: int) -> dict[str, Any]:
    chance = np.random.default_rng(0)
    names = {"queries": heads, "keys": groups, "values": groups}
    return {name: chance.normal(size=(count, 3, 4)) for name, count in names.items()}


def test_given_keys_and_values_of_fewer_heads_are_shared() -> None:
    contents = given_vectors(4, 2)

    layer = trace(None, given=parse_matrices(contents), dtype="float64").layers[0]

    query, key, value = (torch.from_numpy(each) for each in contents.values())
    assert_close(
        layer.attended.contexts, scaled_dot_product_attention(query, key, value, enable_gqa=True)
    )


def test_narrower_given_matrices_say_how_many_heads_share_keys_and_values() -> None:
    chance = np.random.default_rng(1)
    shapes = {"embeddings": (3, 8), "w_query": (8, 8), "w_key": (8, 4), "w_value": (8, 4)}
    contents = {name: chance.normal(size=shape) for name, shape in shapes.items()}

    layer = trace(None, given=parse_matrices(contents), heads=4).layers[0]

    assert (layer.heads, layer.kv_heads, layer.head_dim) == (4, 2, 2)
    assert_close(layer.attended.contexts, contexts_of_torch(layer))


@pytest.mark.parametrize(
    ("contents", "settings", "problem"),
    [
        (
            given_vectors(4, 2),
            {"kv_heads": 1},
            "kv_heads is 1, but what is given has 2 heads of keys and values",
        ),
        (
            {"embeddings": np.ones((3, 8)), "w_query": np.ones((8, 8)), "w_key": np.ones((8, 6))},
            {"heads": 2},
            "queries of a head are 4 wide, but 'w_key' makes keys that are 3 wide",
        ),
        (
            {"embeddings": np.ones((3, 8)), "w_value": np.ones((8, 8)), "w_out": np.ones((6, 8))},
            {"heads": 2},
            "values of a head are 4 wide, but 'w_out' joins heads that are 3 wide",
        ),
        (
            {"embeddings": np.ones((3, 8)), "w_key": np.ones((8, 3))},
            {"heads": 4, "kv_heads": 2},
            "'w_key' makes vectors 3 wide, which does not split into 2 heads",
        ),
    ],
)
def test_widths_that_do_not_go_together_are_refused(
    contents: dict[str, Any], settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(AttnvizError, match=f"^{problem}"):
        trace(None, given=parse_matrices(contents), **settings)


def narrow_keys() -> dict[str, Any]:
    shapes = {"embeddings": (3, 8), "w_query": (8, 16), "w_key": (8, 8), "w_value": (8, 8)}
    shapes["w_out"] = (16, 8)
    return {name: np.ones(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(("kv_heads", "heads"), [(1, 2), (2, 4)])
def test_heads_of_keys_and_their_width_tell_how_many_heads_of_queries_there_are(
    kv_heads: int, heads: int
) -> None:
    layer = trace(None, given=parse_matrices(narrow_keys()), kv_heads=kv_heads).layers[0]
    assert (layer.heads, layer.kv_heads) == (heads, kv_heads)


@pytest.mark.parametrize("heads", [None, 1, 3])
def test_narrow_keys_say_which_numbers_of_heads_they_are_for(heads: int | None) -> None:
    problem = "queries are 16 wide and keys 8, so every 2 heads would share keys and values, but"
    with pytest.raises(
        AttnvizError, match=f"^{problem} there (is|are) {heads or 1} head"
    ) as refusal:
        trace(None, given=parse_matrices(narrow_keys()), heads=heads)
    assert refusal.value.hint.startswith("try 2 heads, or another multiple of 2")


def test_as_many_heads_of_keys_as_their_width_is_for() -> None:
    with pytest.raises(
        AttnvizError, match="kv_heads is 4, but what is given has 2 heads of keys and values"
    ):
        trace(None, given=parse_matrices(narrow_keys()), heads=4, kv_heads=4)


def test_heads_that_cannot_share_evenly_are_refused_with_what_would(attnviz: Attnviz) -> None:
    result = attnviz("run", TEXT, "--heads", "4", "--kv-heads", "3")

    assert result.status == 2
    assert result.err == (
        "error: --kv-heads is 3, and 4 heads cannot share so many evenly\n hint: try --kv-heads 2\n"
    )


@pytest.mark.parametrize("variant", ["plain", "average"])
def test_embeddings_themselves_are_not_shared(variant: str) -> None:
    with pytest.raises(AttnvizError, match="its heads have no keys and values to share"):
        Settings(variant=variant, kv_heads=1)


def test_sharing_is_said_and_shown_once_for_those_that_share(attnviz: Attnviz) -> None:
    run_output = attnviz(
        "run", TEXT, "--heads", "4", "--kv-heads", "2", "--show", "keys,weights"
    ).out
    steps_output = attnviz(
        "steps", TEXT, "--heads", "4", "--kv-heads", "2", "--step", "queries"
    ).out

    assert "4 heads of width 2 · 2 key-value heads" in " ".join(run_output.split())
    assert "keys · heads 0–1" in run_output
    assert "keys · heads 2–3" in run_output
    steps_text = " ".join(steps_output.split())
    assert (
        "Every 2 adjacent heads share keys and values: there are 2 key-value heads." in steps_text
    )
    assert "key-value head" not in attnviz("run", TEXT, "--heads", "4").out


@pytest.mark.parametrize("positions", ["none", "rotary"])
def test_the_written_arithmetic_holds(positions: Positions) -> None:
    grouped_trace = trace(TEXT, heads=4, kv_heads=2, positions=positions)

    walk = steps(grouped_trace, query="am", full=True, digits=4)
    sums = [each for section in walk.sections for each in section.sums]

    assert any(each.left.startswith("key H2–3(") for each in sums)
    for each in sums:
        assert holds(each.text), each.text
    walk.view()


@pytest.mark.slow("pictures")
def test_every_picture_of_shared_keys_names_the_heads_that_share_them() -> None:
    grouped_trace = trace(TEXT, heads=4, kv_heads=2, layers=1, memory="it rains")

    parts_words = words_of(trace(TEXT, heads=4, kv_heads=2).view(show=["keys", "values"]))
    walk_words = words_of(steps(grouped_trace, query="am").view())
    score_words = words_of(steps(grouped_trace, query="am", key="I", step="scores").view())

    for heads in ("0–1", "2–3"):
        assert {f"keys · heads {heads}", f"values · heads {heads}"} <= {*parts_words} & {
            *walk_words
        }
        assert sum(each.startswith(f"key H{heads}(I), length") for each in score_words) == 2


def words_of(view: View) -> list[str]:
    """The texts of a picture."""
    root = ElementTree.fromstring(view.render(".svg"))
    texts = root.iter("{http://www.w3.org/2000/svg}text")
    return ["".join(each.itertext()) for each in texts]


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_shared_keys_come_back(tmp_path: Path, suffix: str) -> None:
    grouped_trace = trace(TEXT, heads=4, kv_heads=2, layers=2, positions="rotary")
    path = tmp_path / f"trace{suffix}"
    grouped_trace.view().save(path)

    restored = library.load(str(path))

    assert restored.variant.kv_heads == restored.layers[1].kv_heads == 2
    assert torch.equal(restored.layers[1].outputs, grouped_trace.layers[1].outputs)


def test_grouped_and_full_heads_are_compared_over_seeds(attnviz: Attnviz) -> None:
    result = attnviz("compare", TEXT, "--heads", "4", "--kv-heads", "2", "--repeats", "4")

    assert result.status == 0
    assert "2 key-value heads" in result.out
