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
OF_SCORES, OF_CONTEXT = ["queries", "keys", "scores"], ["weights", "values", "context"]
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
}


def equations(made: Trace, show: list[str]) -> list[Group]:
    groups = made.view(show=show).picture.groups
    return [group for group in groups if group.kind == "product"]


def tables(group: Group) -> list[Grid]:
    return [each for each in group.panels if isinstance(each, Grid)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("show", [OF_SCORES, OF_CONTEXT], ids=["scores", "context"])
def test_what_stands_behind_the_sign_is_the_product_of_what_stands_before_it(
    kind: str, show: list[str]
) -> None:
    made = trace(TEXT, **KINDS[kind])
    found = equations(made, show)

    assert len(found) == sum(layer.heads for layer in made.attention_layers)
    for group in found:
        one, other, result = (each.values.astype(float) for each in tables(group))
        assert np.allclose(np.nan_to_num(one) @ other, result, atol=1e-5)


def test_keys_are_transposed_and_every_panel_has_its_letter() -> None:
    (group,) = equations(trace(TEXT), OF_SCORES)
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
    found = equations(trace(TEXT, variant="multi-head"), OF_CONTEXT)

    notes = {tables(group)[2].note for group in found}
    assert notes == {"context vectors of each head, before they are joined"}
    assert equations(trace(TEXT), OF_CONTEXT)[0].panels[2].note == ""  # type: ignore[union-attr]


def test_a_product_that_lacks_a_part_is_none() -> None:
    assert equations(trace(TEXT), ["queries", "keys"]) == []
    assert equations(trace(TEXT), ["weights", "values", "scores"]) == []


def test_on_a_screen_the_parts_of_a_product_stand_side_by_side() -> None:
    panels = trace(TEXT).view(show=OF_CONTEXT).screen.panels

    assert [each.title for each in panels if isinstance(each, Grid)] == [
        "weights",
        "values",
        "context vectors",
    ]


@given(st.lists(st.sampled_from(sorted(PARTS_BY_SHOW_NAME)), unique=True))
def test_an_order_keeps_every_name_once(names: list[str]) -> None:
    every = [*PARTS_BY_SHOW_NAME]
    ordered = order_parts(names, every)

    assert sorted(ordered) == sorted(names)
    for product in (OF_SCORES, OF_CONTEXT):
        if set(product) <= set(names):
            place = ordered.index(product[0])
            assert ordered[place : place + 3] == product


def shown(made: Trace, *show: str) -> list[Grid]:
    return [each for each in made.view(show=show).screen.panels if isinstance(each, Grid)]


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "dropout"])
def test_scores_beside_weights_are_those_that_the_softmax_received(kind: str) -> None:
    made = trace(TEXT, **KINDS[kind])
    every = shown(made, "scores", "weights")

    heads = sum(layer.heads for layer in made.attention_layers)
    scores = [grid for grid in every if grid.title.startswith("scores")]
    weights = [grid for grid in every if grid.title.startswith("weights")]
    assert len(scores) == len(weights) == heads
    for before, after in zip(scores, weights, strict=True):
        powers = np.exp(before.values - before.values.max(axis=1, keepdims=True))
        assert np.allclose(powers / powers.sum(axis=1, keepdims=True), after.values, atol=1e-5)
        assert (np.isneginf(before.values) == before.hidden).all()


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("plain", "scores"),
        ("scaled", "scores scaled"),
        ("causal", "scores scaled, masked"),
        ("alibi", "scores scaled, lowered by distance, masked"),
    ],
)
def test_the_title_of_scores_says_what_was_done_to_them(kind: str, title: str) -> None:
    assert shown(trace(TEXT, **KINDS[kind]), "scores", "weights")[0].title == title


def test_scores_alone_are_raw_and_the_others_have_names() -> None:
    made = trace(TEXT, variant="causal")
    (raw,), (scaled,), (masked,) = (shown(made, name) for name in ("scores", "scaled", "masked"))

    assert np.allclose(raw.values / np.sqrt(8), scaled.values, atol=1e-5)
    assert np.allclose(np.where(masked.hidden, 0, masked.values), np.tril(scaled.values), atol=1e-5)
    assert (raw.note, scaled.note) == (
        "scores = query times key, not yet scaled and masked",
        "scaled scores = query times key / √8",
    )


@pytest.mark.parametrize(
    ("kind", "note"), [("plain", "scores = query times key"), ("rotary", None)]
)
def test_raw_scores_say_only_what_is_still_to_come(kind: str, note: str | None) -> None:
    (grid,) = shown(trace(TEXT, **KINDS[kind]), "scores")

    assert grid.note == (note or "scores = query times key, not yet scaled")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("others", [["scaled"], ["masked"], ["scaled", "masked"]])
def test_beside_scaled_or_masked_ones_scores_are_raw_and_no_table_is_shown_twice(
    kind: str, others: list[str]
) -> None:
    made = trace(TEXT, **KINDS[kind])
    every = shown(made, "scores", *others, "weights")
    titled = {each.title: each for each in every}

    for raw in shown(made, "scores"):
        assert np.array_equal(titled[raw.title].values, raw.values)
    tables_shown = {(each.values.tobytes(), each.title.split()[-1]) for each in every}
    assert len(tables_shown) == len(every)


@pytest.mark.parametrize("kind", KINDS)
def test_no_note_of_scores_is_torn_where_notes_are_parted(kind: str) -> None:
    made = trace(TEXT, **KINDS[kind])
    for grid in shown(made, "scores", "scaled", "masked"):
        assert " · " not in grid.note
    told = made.view(show=["scores", "scaled"]).picture.caption
    zero = "queries and keys are not compared: every score is 0"
    assert told.startswith(zero if kind == "average" else "scores = query times key")
    assert "· key" not in told


@pytest.mark.parametrize(
    ("choices", "name", "why"),
    [
        ({"variant": "plain"}, "scaled", "the scores are not scaled"),
        ({"variant": "causal", "dim": 1}, "scaled", "scaling changes no score"),
        ({"variant": "scaled"}, "masked", "nothing is masked"),
        ({"variant": "causal", "window": 9}, "outputs", "only a transformer block has outputs"),
    ],
)
def test_what_scores_never_were_is_refused(choices: dict[str, Any], name: str, why: str) -> None:
    with pytest.raises(AttnvizError, match=f"cannot show {name}: {why}"):
        trace(TEXT, **choices).view(show=[name])


def test_a_temperature_is_part_of_the_scale() -> None:
    (grid,) = shown(trace(TEXT, temperature=2.0), "scaled")

    assert grid.note == "scaled scores = query times key times 0.177"  # 1 / (2 · √8)


@pytest.mark.parametrize("suffix", [".md", ".txt", ".svg"])
def test_minus_infinity_is_written_wherever_scores_are_masked(suffix: str) -> None:
    text = render(trace(TEXT, variant="causal").view(show=["masked"]), suffix).decode()

    assert text.count("−∞") >= 6
