"""Heads as somebody wants to see them: tokens left out, in words, together; held against NumPy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from attnviz import Trace, trace
from attnviz.analysis.inspection.inspect_options import InspectOptions, Merge
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.analysis.inspection.map_regrouping import group_by_word
from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.token_query import build_link, build_token_query
from attnviz.cells import FULL_SLICE, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.tokens.characters import words
from attnviz.tokens.tokens import Tokens
from attnviz.views.inspection.link_sentences import rollout_title
from attnviz.views.inspection.map_numbers import rollout_scale
from tests.small_transformers import Saved

TEXT = "Don't stop now, my friend: we aren't done"
GIVEN: dict[str, Any] = {"tokenizer": "gpt2", "heads": 3, "layers": 2, "dim": 12}


@cache
def made(text: str = TEXT, special: tuple[int, ...] = (), **changes: Any) -> Trace:
    """Attention of two layers, of whose tokens some count as those of a tokenizer."""
    found = trace(text, **{**GIVEN, **changes})
    tokens = replace(found.tokens, special=frozenset(special))
    return replace(found, tokens=tokens, keys=tokens)


def looked(found: Trace, **wanted: Any) -> Inspection:
    return Inspection(trace=found, options=InspectOptions(**wanted))


def values(found: Map) -> np.ndarray:
    return found.cells.window(FULL_SLICE, FULL_SLICE).values


def weights(found: Trace) -> np.ndarray:
    """Of all heads, one layer after the other: [layer head query key]."""
    return np.stack([layer.attended.weights.numpy() for layer in found.layers])


def in_pieces(text: str, cuts: list[int]) -> Tokens:
    """The words of a text, cut up further after so many letters each."""
    pieces, spaced = [], []
    for place, (piece, gap) in enumerate(zip(words(text).pieces, words(text).spaced, strict=True)):
        at = min(cuts[place % len(cuts)], len(piece))
        parts = [part for part in (piece[:at], piece[at:]) if part]
        pieces += parts
        spaced += [gap or not place, *[False] * (len(parts) - 1)]
    return Tokens(text, tuple(pieces), tuple(range(len(pieces))), tuple(spaced))


@given(
    text=st.text("abc '’.,-é3", min_size=1).filter(lambda text: text.strip()),
    cuts=st.lists(st.integers(0, 4), min_size=1, max_size=5),
)
def test_pieces_are_put_together_to_the_words_of_the_tokenizer_of_words(
    text: str, cuts: list[int]
) -> None:
    text = text.strip()
    tokens = in_pieces(text, [2 * cut for cut in cuts])  # é has two bytes
    groups = group_by_word(tokens)

    assert [place for group in groups for place in group] == list(range(len(tokens)))
    joined = tuple(b"".join(tokens.pieces[place] for place in group) for group in groups)
    assert joined == words(text).pieces


def test_what_a_tokenizer_added_is_no_part_of_a_word() -> None:
    tokens = Tokens(
        "ab", (b"[CLS]", b"a", b"b", b"[SEP]"), (1, 2, 3, 4), (True, True, False, False),
        special=frozenset((0, 3)),
    )  # fmt: skip

    assert group_by_word(tokens) == ((0,), (1, 2), (3,))


def test_a_space_that_is_a_token_belongs_to_the_word_behind_it() -> None:
    tokens = Tokens(
        "a b\nc", (b"a", b" ", b"b", b"\n", b"c"), (1, 2, 3, 4, 5), (True, True, True, True, True)
    )

    assert group_by_word(tokens) == ((0,), (1, 2), (3,), (4,))


def test_signs_of_chinese_are_words_of_their_own() -> None:
    pieces = tuple(each.encode() for each in "我喜欢ab")
    tokens = Tokens("我喜欢ab", pieces, (1, 2, 3, 4, 5), (True, False, False, False, False))

    assert group_by_word(tokens) == ((0,), (1,), (2,), (3, 4))


def test_a_word_gets_the_sum_of_what_is_read_of_it_and_reads_in_the_mean() -> None:
    found = made()
    groups = group_by_word(found.tokens)
    maps = looked(found, words=True).maps
    plain = weights(found).reshape(6, len(found.tokens), -1)

    summed = np.stack([plain[:, :, list(group)].sum(-1) for group in groups], -1)
    expected = np.stack([summed[:, list(group)].mean(1) for group in groups], 1)

    assert len(groups) < len(found.tokens)
    assert_allclose(np.stack([values(each) for each in maps]), expected, atol=1e-6)
    assert_allclose(expected.sum(-1), 1, atol=1e-5)
    assert maps[0].rows.labels[0] == "Don't"


def test_what_is_left_is_divided_into_the_softmax_of_what_is_left() -> None:
    found = made(special=(0, 5))
    left = [place for place in range(len(found.tokens)) if place not in (0, 5)]
    maps = looked(found, hide_special=True, renormalise=True).maps

    scores = np.stack([layer.attended.logits.numpy() for layer in found.layers])
    kept = np.exp(scores[..., left, :][..., left]).reshape(6, len(left), len(left))

    assert_allclose(
        np.stack([values(each) for each in maps]), kept / kept.sum(-1, keepdims=True), atol=1e-6
    )
    assert maps[0].columns.numbers == tuple(place + 1 for place in left)


def test_what_is_left_stays_as_it_was_where_nobody_asks_for_more() -> None:
    found = made()
    maps = looked(found, hide_first=True).maps

    assert_allclose(values(maps[4]), weights(found)[1, 1, 1:, 1:])


def test_words_of_what_is_left_sum_to_one_still() -> None:
    found = made(special=(0,))

    maps = looked(found, hide_special=True, renormalise=True, words=True).maps

    assert_allclose([values(each).sum(-1) for each in maps], 1, atol=1e-6)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"merge": "mean"}, lambda w: w.mean((0, 1))),
        ({"merge": "max"}, lambda w: w.max((0, 1))),
        ({"merge": "mean", "layer": 1}, lambda w: w[1].mean(0)),
        ({"merge": "max", "head": 2}, lambda w: w[:, 2].max(0)),
        ({"merge": "mean", "layer": 0, "head": 1}, lambda w: w[0, 1]),
    ],
)
def test_heads_are_one_map_together(wanted: dict[str, Any], expected: Any) -> None:
    found = made()
    (merged,) = looked(found, **wanted).maps

    assert_allclose(values(merged), expected(weights(found)), atol=1e-6)


@pytest.mark.parametrize("variant", ["scaled", "causal"])
def test_rollout_is_that_of_abnar_and_zuidema(variant: str) -> None:
    found = made(variant=variant)
    (rolled,) = looked(found, merge="rollout").maps

    expected = np.eye(len(found.tokens))
    for layer in weights(found).astype(float):
        augmented = layer.mean(0) + np.eye(len(expected))
        expected = (augmented / augmented.sum(-1, keepdims=True)) @ expected

    assert_allclose(values(rolled), expected, atol=1e-6)
    assert_allclose(values(rolled).sum(-1), 1, atol=1e-6)
    hidden = rolled.cells.window(FULL_SLICE, FULL_SLICE).hidden
    assert hidden.sum() == (0 if variant == "scaled" else np.triu(np.ones_like(expected), 1).sum())


def test_where_sinks_take_a_share_a_rollout_divides_its_rows_and_says_so(
    small_transformer: Saved,
) -> None:
    """By what its caption says: a product of ½ mean + ½ identity, each row divided by its sum."""
    found = inspect("the cat sat", model=str(small_transformer("gpt-oss")), merge="rollout")
    expected = np.eye(len(found.trace.tokens))
    for layer in found.trace.weights.double().numpy():
        mixed = layer.mean(0) / 2 + np.eye(len(expected)) / 2
        assert mixed.sum(-1).min() < 0.99
        expected = np.diag(1 / mixed.sum(-1)) @ mixed @ expected

    assert_allclose(values(found.maps[0]), expected, atol=1e-6)
    formula = "of ½ mean of heads + ½ residual connection, each row divided by its sum"
    assert formula in found.view().picture.caption
    one = inspect(found.trace, merge="rollout", query="2").view()
    assert formula in one.picture.caption
    assert "divided" not in looked(made(), merge="rollout").view().picture.caption


def test_colours_of_a_rollout_fit_what_does_not_come_from_a_sink_and_its_title_names_that() -> None:
    found = made("on we go now", special=(0,), tokenizer="words")
    (rolled,) = looked(found, merge="rollout").maps
    sunk = np.array([[0.909, 0.031, 0.03, 0.03]] * 4)
    of_sink, even = (
        replace(rolled, cells=unmasked_cells(each)) for each in (sunk, sunk * 0 + 0.24)
    )

    scale = rollout_scale(of_sink, InspectOptions(merge="rollout"))
    assert (scale.low, scale.high, scale.is_exceeded) == (0.0, 0.04, True)
    assert rollout_title(of_sink) == "In the rollout, each token draws at least 90\u00a0% on on"
    assert rollout_title(even) == "Rollout through 2 layers"


def test_tokens_are_left_out_of_a_rollout_when_it_is_made() -> None:
    found = made(special=(0,))
    (whole,) = looked(found, merge="rollout").maps
    (less,) = looked(found, merge="rollout", hide_special=True).maps

    assert_allclose(values(less), values(whole)[1:, 1:])


@given(st.data())
def test_windows_of_a_map_are_parts_of_the_whole(data: st.DataObject) -> None:
    found = made(special=(0,))
    wanted: dict[str, Any] = data.draw(
        st.sampled_from([
            {"words": True, "hide_special": True},
            {"merge": "mean", "words": True},
            {"merge": "rollout"},
            {"hide_first": True, "renormalise": True},
        ])
    )  # fmt: skip
    one = looked(found, **wanted).maps[0]
    top, left = (data.draw(st.integers(0, size - 1)) for size in one.cells.shape)
    rows, columns = slice(top, top + 2), slice(left, left + 3)

    patch = one.cells.window(rows, columns)

    assert_allclose(patch.values, values(one)[rows, columns])
    assert one.cells.row(top).values.shape == (1, one.cells.shape[1])


def test_heads_are_ranked_by_one_weight() -> None:
    found = made(variant="causal")
    link = build_link(looked(found, source="done", to="now", rank="weight"))
    row, column = len(found.tokens) - 1, 3
    read = weights(found)[:, :, row, column].ravel()

    assert found.tokens.labels[column] == "now"
    assert [each.weight for each in link.ranked_links] == sorted(read.tolist(), reverse=True)
    assert link.ranked_links[0].map.name == f"L{read.argmax() // 3}H{read.argmax() % 3}"
    assert link.mean == pytest.approx(read.mean())
    best = weights(found)[read.argmax() // 3, read.argmax() % 3, row]
    assert link.ranked_links[0].rank == 1 + (best > read.max()).sum()


def test_heads_are_ranked_by_what_they_put_on_one_token() -> None:
    found = made()
    asked = build_token_query(looked(found, query="done"), "done")
    peaks = weights(found)[:, :, -1].max(-1).ravel()

    assert [each.peak for each in asked.by_peak] == sorted(peaks.tolist(), reverse=True)
    assert_allclose(asked.mean.patch.values[0], weights(found)[:, :, -1].mean((0, 1)), atol=1e-6)


def test_what_a_mask_hides_in_every_head_is_refused_with_the_other_way_round() -> None:
    inspection = looked(made(variant="causal"), source="now", to="done")

    with pytest.raises(AttnvizError, match="cannot attend to 'done'") as refused:
        build_link(inspection)

    assert refused.value.hint == "try the other direction: --from 'done' --to 'now'"


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"source": "it"}, "and needs --to"),
        ({"to": "it"}, "and needs --from"),
        ({"query": "it", "source": "it", "to": "a"}, "--query shows everything"),
        ({"merge": "rollout", "layer": 0}, "uses all layers and heads"),
        ({"merge": "rollout", "weigh": "gradient"}, "rows that sum to 1"),
        ({"renormalise": True}, "rescales what is left when tokens are hidden"),
        ({"layer": -1}, "counting starts at 0"),
        ({"merge": "sum"}, "no way to merge heads 'sum'"),
        ({"as_": "arc"}, "no way to draw 'arc'"),
        ({"as_": "arcs", "source": "it", "to": "a"}, "--from ranks heads by one link"),
        ({"as_": "arcs", "predict": True}, "--predict is a table of answers"),
        ({"as_": "arcs", "weigh": "gradient"}, "--weigh gradient makes some numbers negative"),
        ({"as_": "arcs", "by": "effect"}, "but --as is about weights"),
        ({"as_": "sentence"}, "no --query is given"),
        ({"as_": "heatmap", "query": "it"}, "--query draws one sentence"),
    ],
)
def test_what_makes_no_sense_is_refused(wanted: dict[str, Any], problem: str) -> None:
    with pytest.raises(AttnvizError, match=problem):
        InspectOptions(**wanted)


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"layer": 2}, "the model has 2 layers, 0 to 1"),
        ({"head": 3}, "the model has 3 heads, 0 to 2"),
        ({"query": "cat"}, "no token of the sentence is 'cat'"),
        ({"query": "Don", "hide_first": True}, r"'Don' is left out \(hide_first=True\)"),
        ({"source": "my", "to": "cat"}, "no token of the sentence is 'cat'"),
        ({"query": "Don", "words": True}, "no token of the sentence is 'Don'"),
        ({"query": "Don't"}, "'Don't' is 2 tokens here: Don 't"),
    ],
)
def test_what_is_not_there_is_refused(wanted: dict[str, Any], problem: str) -> None:
    with pytest.raises(AttnvizError, match=problem):
        looked(made(), **wanted).view()


@pytest.mark.parametrize(
    ("token", "hides", "options"),
    [
        ("Don", ("hide_special",), "hide_special=True"),
        ("Don", ("hide_first",), "hide_first=True"),
        ("Don", ("hide_special", "hide_first"), "hide_special=True and hide_first=True"),
        ("stop", ("hide_special", "hide_first"), "hide_special=True"),
    ],
)
def test_a_token_is_left_out_by_the_options_that_are_given(
    token: str, hides: tuple[str, ...], options: str
) -> None:
    for asked in ({"query": token}, {"source": "my", "to": token}):
        with pytest.raises(AttnvizError) as told:
            looked(made(special=(0, 2)), **asked, **dict.fromkeys(hides, True)).view()
        assert str(told.value).splitlines()[0] == f"'{token}' is left out ({options})"
        assert told.value.hint == f"leave {options} out, or ask for another token"


@pytest.mark.parametrize("hides", ["hide_special", "hide_first"])
def test_nothing_is_left_of_a_text_of_added_tokens_alone(hides: str) -> None:
    with pytest.raises(AttnvizError, match="no tokens are left") as told:
        looked(made("a", special=(0,)), **{hides: True}).view()
    assert told.value.hint == f"give a longer text, or leave {hides}=True out"


def test_the_second_of_tokens_that_read_alike_has_a_number() -> None:
    tokens = words("the cat and the dog and # 2")

    assert tokens.index("the#2", "query") == 3
    assert tokens.index("and#1", "query") == 2
    assert tokens.index("#", "query") == 6
    with pytest.raises(
        AttnvizError, match="'cat' occurs once in the sentence, so it has no number 2"
    ):
        tokens.index("cat#2", "query")


def test_the_library_looks_as_the_command_does() -> None:
    found = inspect(made(), layer=1, head=0, words=True)

    assert [each.name for each in found.maps] == ["L1H0"]


@pytest.mark.parametrize("merge", ["mean", "max"])
def test_of_several_heads_a_cell_is_hidden_where_it_is_in_all(
    small_transformer: Saved, merge: Merge
) -> None:
    """Layers may see unlike far: one through a window, the next one everything."""
    found = inspect("a b " * 12, model=str(small_transformer("gemma2")), merge=merge)
    hidden = [each.cells.window(FULL_SLICE, FULL_SLICE).hidden for each in found.head_maps]
    (merged,) = found.maps

    assert any((each != hidden[0]).any() for each in hidden)
    together = merged.cells.window(FULL_SLICE, FULL_SLICE).hidden
    assert (together == np.logical_and.reduce(hidden)).all()
