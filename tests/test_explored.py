"""What can be looked around in: which heads, by what names, and with which numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnviz import example, steps, trace
from attnviz.analysis.comparison import compare
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.analysis.inspection.two_sentences import compare_sentences
from attnviz.cells import FULL_SLICE, Cells, StoredCells
from attnviz.renderers.page import packing
from attnviz.renderers.page.head_tables import pack_heads
from attnviz.traces.settings import AttentionKind
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, find_telling_row
from attnviz.views.grids.overview import Flag
from attnviz.views.inspection.explored import most_telling_head
from attnviz.views.inspection.head_kinds import head_flags
from tests.learned_by_hand import make_learned
from tests.small_transformers import Saved

SENTENCE = "The animal didn't cross the street because it was too tired"
OTHER = "The animal didn't cross the street because it was too wide"


@pytest.fixture(scope="module")
def minilm() -> Inspection:
    return inspect(SENTENCE)


def looked_at(minilm: Inspection, **looking: Any) -> HeadExplorer:
    """The same trace, looked at otherwise."""
    return explored(inspect(minilm.trace, **looking))


def explored(result: Any, **options: Any) -> HeadExplorer:
    found: HeadExplorer | None = result.view(**options).heads
    assert found is not None
    return found


def names(found: HeadExplorer) -> list[str]:
    return [each.name for each in found.heads]


def first(found: HeadExplorer) -> str:
    return found.heads[found.first].name


def all_of(cells: Cells | None) -> tuple[np.ndarray, np.ndarray]:
    assert cells is not None
    patch = cells.window(FULL_SLICE, FULL_SLICE)
    return patch.values, patch.hidden


def softmax_of(each: HeadMap) -> np.ndarray:
    scores, _ = all_of(each.scores)
    powers = np.exp(scores.astype(float) - scores.max(axis=1, keepdims=True))
    found: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return found


def in_their_places(found: HeadExplorer) -> None:
    """Every head in a place of its own, and all names different, as the address needs them."""
    chosen = [each for each in found.heads if each.chooser_cell is not None]
    assert len({each.chooser_cell for each in chosen}) == len(chosen)
    assert len(set(names(found))) == len(found.heads)
    for each in found.heads:
        assert each.weights.shape == (len(each.query_axis), len(each.key_axis))
        assert all_of(each.weights)[0].shape == each.weights.shape
        row, column = each.chooser_cell or (0, 0)
        assert row < len(found.rows.headings)
        assert column < len(found.columns.headings)


def test_of_a_trace_every_head_with_its_weights_and_its_scores() -> None:
    traced = trace("I am learning this", heads=2, layers=2, causal=True)
    found = explored(traced, query="learning")

    in_their_places(found)
    assert names(found) == ["L0H0", "L0H1", "L1H0", "L1H1"]
    assert (found.rows.headings, found.columns.headings) == (("L0", "L1"), ("H0", "H1"))
    assert found.query == 2
    for each in found.heads:
        layer, head = each.chooser_cell or (0, 0)
        weights, hidden = all_of(each.weights)
        assert np.array_equal(weights, traced.layers[layer].attended.weights[head].numpy())
        assert np.array_equal(hidden, np.triu(np.ones((4, 4), dtype=bool), 1))
        assert np.allclose(softmax_of(each), weights, atol=1e-6)


def test_where_weights_are_not_a_softmax_there_are_no_scores() -> None:
    dropped = explored(trace("I am learning this", dropout=0.5))
    by_mistake = explored(
        compare("I am learning this", by="mask", values=["causal", "zero-scores"])
    )

    assert [each.scores for each in dropped.heads] == [None]
    assert by_mistake.heads[0].scores is not None
    assert by_mistake.heads[1].scores is None


def test_ways_are_compared_by_their_softmax_and_so_are_their_scores() -> None:
    """Whatever dropout makes of the weights then."""
    found = explored(
        compare("I am learning this", by="mask", values=["none", "causal"], dropout=0.5)
    )

    for each in found.heads[:2]:
        assert np.allclose(softmax_of(each), all_of(each.weights)[0], atol=1e-6)


def test_nothing_is_made_before_it_is_asked_for_and_nothing_is_kept() -> None:
    traced = trace("I am learning this")
    [each] = explored(traced).heads

    assert not isinstance(each.weights, StoredCells)
    assert all_of(each.weights)[1] is not all_of(each.weights)[1]


def test_heads_of_a_model_open_with_what_one_of_them_does_most(minilm: Inspection) -> None:
    found = looked_at(minilm)

    in_their_places(found)
    assert len(found.heads) == 72
    assert found.heads[found.flags[0].map_index].name == first(found) == "L0H2"
    each = found.heads[7 + 12 * 4]
    assert each.name == "L4H7"
    weights, _ = all_of(each.weights)
    assert np.allclose(softmax_of(each), weights, atol=1e-6)
    assert each.query_axis is each.key_axis
    assert [place for place, one in enumerate(each.query_axis.special) if one] == [0, 14]


@pytest.mark.parametrize(
    ("kind", "attention"), [("gpt-oss", None), ("gemma2", None), ("bart", "cross"), ("t5", None)]
)
def test_scores_are_told_by_weights_whatever_bends_them_or_takes_a_share(
    kind: str,
    attention: AttentionKind | None,
    small_transformer: Saved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sink, a soft cap, another sentence, positions that are added."""
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    found = explored(inspect(SENTENCE, model=str(small_transformer(kind)), attention=attention))
    about, _ = pack_heads(found)

    in_their_places(found)
    for number in range(len(found.heads)):
        if found.heads[number].scores is not None:  # the mean of heads has none
            assert about["tables"][f"weights-{number}"]["slack"] < 1e-5


def test_a_head_that_reads_what_none_has_to_find_opens_only_where_no_other_tells_more(
    minilm: Inspection,
) -> None:
    flags = head_flags(minilm)
    shorts = [each.short for each in flags]
    assert shorts == ["previous", "next", "first", "column", "broad"]
    opened = [shorts.index(_flag(minilm, flags[start:][::-1]).short) for start in range(5)]
    assert opened == [0, 1, 3, 3, 4]


def _flag(inspection: Inspection, flags: tuple[Flag, ...]) -> Flag:
    best = most_telling_head(inspection, flags)
    return next(each for each in flags if each.map_index == best)


def test_the_word_that_is_followed_first_stands_out_and_is_long() -> None:
    words = ("[CLS]", "the", "animal", "was", ",")
    weights = np.array(
        [
            [0.96, 0.01, 0.01, 0.01, 0.01],  # a special token
            [0.20, 0.10, 0.60, 0.10, 0.00],  # all but "was" give "animal" about as much
            [0.20, 0.60, 0.10, 0.10, 0.00],  # stands out, and is the longest that does
            [0.20, 0.70, 0.00, 0.10, 0.00],  # stands out most
            [0.20, 0.20, 0.60, 0.00, 0.00],  # no word
        ]
    )
    axis = Axis("query (reads)", "token", words, ("",) * 5, (), None, (True, *[False] * 4))
    head = HeadMap(
        name="", query_axis=axis, key_axis=axis, weights=StoredCells(weights, weights < 0)
    )

    assert find_telling_row(head) == 2
    only_was = np.where(np.arange(5)[:, None] == 3, weights, [0.2, 0.3, 0.3, 0.2, 0.0])
    assert find_telling_row(replace(head, weights=StoredCells(only_was, weights < 0))) == 3
    assert (
        find_telling_row(replace(head, weights=StoredCells(weights * 0 + 0.2, weights < 0))) is None
    )


@pytest.mark.parametrize(
    ("looking", "query", "key", "opened"),
    [
        ({"query": "it"}, 10, None, "mean of 72 heads"),
        ({"query": "it", "layer": 3, "head": 2}, 10, None, "L3H2"),
        ({"source": "it", "to": "animal"}, 10, 2, "L3H1"),
        ({"layer": 4, "head": 7}, 2, None, "L4H7"),
        ({"layer": 3}, 3, None, "L3H0"),
        ({"head": 5}, 9, None, "L0H5"),
        ({"query": "it", "hide_special": True}, 9, None, "mean of 72 heads"),
        ({"merge": "mean"}, 9, None, "mean of 72 heads"),
        ({"merge": "rollout"}, 9, None, "rollout through 6 layers"),
    ],
)
def test_what_is_asked_for_comes_first(
    minilm: Inspection,
    looking: dict[str, Any],
    query: int | None,
    key: int | None,
    opened: str,
) -> None:
    found = looked_at(minilm, **looking)

    in_their_places(found)
    assert (found.query, found.key) == (query, key)
    assert first(found) == opened
    several = opened.startswith(("mean", "rollout"))
    assert len(found.heads) == (12 if "layer" in looking else 72) + several
    assert [bool(each.note) for each in found.heads] == [several, *[False] * (len(found.heads) - 1)]
    marked = {found.heads[flag.map_index].name for flag in found.flags}
    assert marked <= {each.name for each in looked_at(minilm).heads}


def test_one_head_is_shown_among_all_that_were_traced(minilm: Inspection) -> None:
    assert names(looked_at(minilm, layer=4, head=7)) == [f"L4H{head}" for head in range(12)]


@pytest.mark.parametrize("looking", [{"hide_special": True}, {"hide_first": True}])
def test_where_tokens_are_left_out_the_scores_of_others_stay(
    minilm: Inspection, looking: dict[str, Any]
) -> None:
    whole, left = looked_at(minilm).heads[55], looked_at(minilm, **looking).heads[55]
    kept = slice(1, -1) if "hide_special" in looking else slice(1, None)

    assert np.array_equal(all_of(left.scores)[0], all_of(whole.scores)[0][kept, kept])


@pytest.mark.parametrize(
    "looking",
    [
        {"hide_first": True, "renormalise": True},
        {"words": True},
        {"weigh": "norm"},
    ],
)
def test_numbers_that_are_no_weights_have_no_scores(
    minilm: Inspection, looking: dict[str, Any]
) -> None:
    found = looked_at(minilm, **looking)

    assert {each.scores for each in found.heads} == {None}
    assert {each.measure for each in found.heads} == {
        "weight × length" if "weigh" in looking else "weight"
    }


def test_ways_are_rows_and_so_is_what_tells_each_from_the_first() -> None:
    comparison = compare("I am learning this", by="mask", values=["none", "causal"], heads=2)
    found = explored(comparison)

    in_their_places(found)
    assert found.rows.headings == ("none", "causal", "causal − none")
    assert names(found)[4:] == ["causal − none · head 0", "causal − none · head 1"]
    one, other, difference = (all_of(found.heads[place].weights) for place in (1, 3, 5))
    assert np.allclose(difference[0], other[0] - one[0], atol=1e-7)
    assert not difference[1].any()
    assert (found.heads[5].measure, found.heads[5].signed) == ("difference", True)
    assert [each.note for each in found.heads[3:]] == [
        "",
        *["above 0 = reads more than 'none'"] * 2,
    ]
    assert np.allclose(softmax_of(found.heads[3]), other[0], atol=1e-6)


def test_where_heads_are_not_as_many_their_means_are_compared() -> None:
    found = explored(compare("I am learning this", by="heads", values=["1", "2"], dim=8))

    assert found.columns.headings == ("mean",)
    assert [each.scores is None for each in found.heads][:2] == [False, True]
    assert explored(compare("I am learning this")).columns.headings == ("H0",)


def test_where_tokens_are_not_the_same_nothing_is_subtracted() -> None:
    found = explored(compare("I am learning this", by="tokenizer", values=["words", "chars"]))

    in_their_places(found)
    assert [len(each.query_axis) for each in found.heads] == [4, 18]


def test_two_sentences_are_there_and_what_differs_in_the_head_that_changes_most() -> None:
    sentences = compare_sentences(SENTENCE, OTHER)
    found = explored(sentences)
    by_name = {each.name: each for each in found.heads}
    most = sentences.heads[0].name

    in_their_places(found)
    assert len(found.heads) == 3 * 72
    assert found.rows.headings[:3] == ("L0", "L1", "L2")
    assert first(found) == most
    assert found.heads[found.first].pair == tuple(
        names(found).index(f"{most} · {name}") for name in ("first", "second")
    )
    three = (f"{most} · first", f"{most} · second", most)
    one, other, difference = (all_of(by_name[name].weights)[0] for name in three)
    assert np.allclose(difference, other - one, atol=1e-7)
    assert by_name[first(found)].query_axis.labels[-2] == "tired/wide"
    assert np.allclose(softmax_of(by_name[f"{most} · second"]), other, atol=1e-6)


def test_steps_and_lessons_have_the_heads_of_their_trace() -> None:
    walked = steps("I am learning this", query="learning", key="am", heads=2, head=1)
    found = explored(walked)

    assert (first(found), found.query, found.key) == ("head 1", 2, 1)
    assert len(explored(example("journey-two-heads")).heads) == 2


def test_learning_is_looked_at_moment_by_moment() -> None:
    taught = make_learned()
    found = explored(taught)

    in_their_places(found)
    assert (found.rows.unit, found.columns.unit) == ("moment", "head")
    assert first(found).endswith(f"step {taught.moments[-1].step:,}")
    assert len(found.heads) == len(found.rows.labels) * len(found.columns.labels)
    last = all_of(found.heads[-1].weights)[0]
    assert np.array_equal(last, taught.moments[-1].weights[-1][-1])
