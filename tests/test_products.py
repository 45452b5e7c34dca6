"""Products as equations, and scores at the stages that they go through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import Trace, trace
from attnviz.errors import AttnvizError
from attnviz.renderers import render
from attnviz.traces.parts import PARTS_BY_SHOW_NAME
from attnviz.views.grids.grid import Grid
from attnviz.views.headline import order_parts
from attnviz.views.view import Group

TEXT = "I am learning this"
SCORE_PRODUCT, CONTEXT_PRODUCT = ["queries", "keys", "scores"], ["weights", "values", "context"]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"variant": "plain"},
    "scaled": {},
    "causal": {"variant": "causal"},
    "heads": {"variant": "multi-head"},
    "twelve heads": {"heads": 12, "dim": 24},
    "average": {"variant": "average"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi", "variant": "causal"},
    "dropout": {"dropout": 0.5, "variant": "causal"},
    "two sentences": {"memory": "you are here"},
    "layers": {"layers": 2},
    "shared keys and values": {"heads": 4, "kv_heads": 2},
    "capped": {"soft_cap": 1.5},
}


def equations(text_trace: Trace, show: list[str]) -> list[Group]:
    groups = text_trace.view(show=show).picture.groups
    return [group for group in groups if group.kind == "product"]


def tables(group: Group) -> list[Grid]:
    return [each for each in group.panels if isinstance(each, Grid)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("show", [SCORE_PRODUCT, CONTEXT_PRODUCT], ids=["scores", "context"])
def test_what_stands_behind_the_sign_is_the_product_of_what_stands_before_it(
    kind: str, show: list[str]
) -> None:
    text_trace = trace(TEXT, **KINDS[kind])
    groups = equations(text_trace, show)

    assert len(groups) == sum(layer.heads for layer in text_trace.attention_layers)
    for group in groups:
        left_factor, right_factor, product = (each.values.astype(float) for each in tables(group))
        assert np.allclose(np.nan_to_num(left_factor) @ right_factor, product, atol=1e-5)


def test_keys_are_transposed_and_every_panel_has_its_letter() -> None:
    (group,) = equations(trace(TEXT), SCORE_PRODUCT)
    queries, keys, scores = tables(group)

    assert [each.title for each in (queries, keys, scores)] == [
        "Q  queries",
        "Kᵀ  keys",
        "S  scores",
    ]
    assert keys.cells.shape == (8, 4)
    assert (keys.rows.unit, keys.columns.labels) == ("dimension", ("I", "am", "learning", "this"))
    assert keys.columns.labels == scores.columns.labels


def test_context_vectors_of_heads_say_that_they_are_not_yet_joined() -> None:
    groups = equations(trace(TEXT, variant="multi-head"), CONTEXT_PRODUCT)

    notes = {tables(group)[2].note for group in groups}
    assert notes == {"context vectors of each head, before they are joined"}
    assert equations(trace(TEXT), CONTEXT_PRODUCT)[0].panels[2].note == ""  # type: ignore[union-attr]


def test_a_product_that_lacks_a_part_is_none() -> None:
    assert equations(trace(TEXT), ["queries", "keys"]) == []
    assert equations(trace(TEXT), ["weights", "values", "scores"]) == []


def test_on_a_screen_the_parts_of_a_product_stand_side_by_side() -> None:
    panels = trace(TEXT).view(show=CONTEXT_PRODUCT).screen.panels

    assert [each.title for each in panels if isinstance(each, Grid)] == [
        "weights",
        "values",
        "context vectors",
    ]


@given(st.lists(st.sampled_from(sorted(PARTS_BY_SHOW_NAME)), unique=True))
def test_an_order_keeps_every_name_once(names: list[str]) -> None:
    all_names = [*PARTS_BY_SHOW_NAME]
    ordered_names = order_parts(names, all_names)

    assert sorted(ordered_names) == sorted(names)
    for product in (SCORE_PRODUCT, CONTEXT_PRODUCT):
        if set(product) <= set(names):
            place = ordered_names.index(product[0])
            assert ordered_names[place : place + 3] == product


def shown_grids(text_trace: Trace, *show: str) -> list[Grid]:
    return [each for each in text_trace.view(show=show).screen.panels if isinstance(each, Grid)]


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "dropout"])
def test_scores_beside_weights_are_those_that_the_softmax_received(kind: str) -> None:
    text_trace = trace(TEXT, **KINDS[kind])
    grids = shown_grids(text_trace, "scores", "weights")

    head_count = sum(layer.heads for layer in text_trace.attention_layers)
    scores = [grid for grid in grids if grid.title.startswith("scores")]
    weights = [grid for grid in grids if grid.title.startswith("weights")]
    assert len(scores) == len(weights) == head_count
    for score_grid, weight_grid in zip(scores, weights, strict=True):
        powers = np.exp(score_grid.values - score_grid.values.max(axis=1, keepdims=True))
        assert np.allclose(
            powers / powers.sum(axis=1, keepdims=True), weight_grid.values, atol=1e-5
        )
        assert (np.isneginf(score_grid.values) == score_grid.hidden).all()


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("plain", "scores"),
        ("scaled", "scores scaled"),
        ("causal", "scores scaled, masked"),
        ("alibi", "scores scaled, lowered by distance, masked"),
        ("capped", "scores scaled, capped"),
    ],
)
def test_the_title_of_scores_says_what_was_done_to_them(kind: str, title: str) -> None:
    assert shown_grids(trace(TEXT, **KINDS[kind]), "scores", "weights")[0].title == title


def test_scores_alone_are_raw_and_the_others_have_names() -> None:
    text_trace = trace(TEXT, variant="causal")
    (raw_grid,), (scaled_grid,), (masked_grid,) = (
        shown_grids(text_trace, name) for name in ("scores", "scaled", "masked")
    )

    assert np.allclose(raw_grid.values / np.sqrt(8), scaled_grid.values, atol=1e-5)
    assert np.allclose(
        np.where(masked_grid.hidden, 0, masked_grid.values), np.tril(scaled_grid.values), atol=1e-5
    )
    assert (raw_grid.note, scaled_grid.note) == (
        "scores = query times key, not yet scaled and masked",
        "scaled scores = query times key / √8",
    )


@pytest.mark.parametrize(
    ("kind", "note"), [("plain", "scores = query times key"), ("rotary", None)]
)
def test_raw_scores_say_only_what_is_still_to_come(kind: str, note: str | None) -> None:
    (grid,) = shown_grids(trace(TEXT, **KINDS[kind]), "scores")

    assert grid.note == (note or "scores = query times key, not yet scaled")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("others", [["scaled"], ["masked"], ["scaled", "masked"]])
def test_beside_scaled_or_masked_ones_scores_are_raw_and_no_table_is_shown_twice(
    kind: str, others: list[str]
) -> None:
    text_trace = trace(TEXT, **KINDS[kind])
    grids = shown_grids(text_trace, "scores", *others, "weights")
    grids_by_title = {each.title: each for each in grids}

    for raw_grid in shown_grids(text_trace, "scores"):
        assert np.array_equal(grids_by_title[raw_grid.title].values, raw_grid.values)
    contents = {(each.values.tobytes(), each.title.split()[-1]) for each in grids}
    assert len(contents) == len(grids)


@pytest.mark.parametrize("kind", KINDS)
def test_no_note_of_scores_is_torn_where_notes_are_parted(kind: str) -> None:
    text_trace = trace(TEXT, **KINDS[kind])
    for grid in shown_grids(text_trace, "scores", "scaled", "masked"):
        assert " · " not in grid.note
    caption = text_trace.view(show=["scores", "scaled"]).picture.caption
    average_caption = "queries and keys are not compared: every score is 0"
    assert caption.startswith(average_caption if kind == "average" else "scores = query times key")
    assert "· key" not in caption


@pytest.mark.parametrize(
    ("choices", "name", "reason"),
    [
        ({"variant": "plain"}, "scaled", "the scores are not scaled"),
        ({"variant": "causal", "dim": 1}, "scaled", "scaling changes no score"),
        ({"variant": "scaled"}, "masked", "nothing is masked"),
        ({"variant": "causal", "window": 9}, "outputs", "only a transformer block has outputs"),
    ],
)
def test_what_scores_never_were_is_refused(choices: dict[str, Any], name: str, reason: str) -> None:
    with pytest.raises(AttnvizError, match=f"cannot show {name}: {reason}"):
        trace(TEXT, **choices).view(show=[name])


def test_a_temperature_is_part_of_the_scale() -> None:
    (grid,) = shown_grids(trace(TEXT, temperature=2.0), "scaled")

    assert grid.note == "scaled scores = query times key times 0.177"  # 1 / (2 · √8)


@pytest.mark.parametrize("suffix", [".md", ".txt", ".svg"])
def test_minus_infinity_is_written_wherever_scores_are_masked(suffix: str) -> None:
    text = render(trace(TEXT, variant="causal").view(show=["masked"]), suffix).decode()

    assert text.count("−∞") >= 6
