"""The head explorer of a view: which heads it has, their names and their numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnviz import example, steps, trace
from attnviz.analysis.comparison import compare
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.analysis.inspection.patterns import PATTERN_KINDS
from attnviz.analysis.inspection.two_sentences import compare_sentences
from attnviz.cells import FULL_SLICE, Cells, StoredCells
from attnviz.options.values import AttentionKind
from attnviz.renderers.page import packing
from attnviz.renderers.page.head_tables import pack_heads
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, find_telling_row
from attnviz.views.grids.overview import Flag
from attnviz.views.inspection.explored import most_telling_head
from attnviz.views.inspection.head_kinds import head_flags
from tests import not_none
from tests.learned_by_hand import make_learned
from tests.small_transformers import Saved

SENTENCE = "The animal didn't cross the street because it was too tired"
OTHER_SENTENCE = "The animal didn't cross the street because it was too wide"


@pytest.fixture(scope="module")
def minilm() -> Inspection:
    return inspect(SENTENCE)


def explore_again(minilm: Inspection, **options: Any) -> HeadExplorer:
    """The explorer of the same trace with other options."""
    return explorer_of(inspect(minilm.trace, **options))


def explorer_of(result: Any, **options: Any) -> HeadExplorer:
    explorer: HeadExplorer | None = result.view(**options).heads
    return not_none(explorer)


def head_names(explorer: HeadExplorer) -> list[str]:
    return [each.name for each in explorer.heads]


def first_head_name(explorer: HeadExplorer) -> str:
    return explorer.heads[explorer.first].name


def values_and_hidden(cells: Cells | None) -> tuple[np.ndarray, np.ndarray]:
    patch = not_none(cells).window(FULL_SLICE, FULL_SLICE)
    return patch.values, patch.hidden


def softmax_of(each: HeadMap) -> np.ndarray:
    scores, _ = values_and_hidden(each.scores)
    powers = np.exp(scores.astype(float) - scores.max(axis=1, keepdims=True))
    weights: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return weights


def check_places(explorer: HeadExplorer) -> None:
    """Every head has its own cell of the chooser and its own name, which the address needs."""
    heads_in_chooser = [each for each in explorer.heads if each.chooser_cell is not None]
    assert len({each.chooser_cell for each in heads_in_chooser}) == len(heads_in_chooser)
    assert len(set(head_names(explorer))) == len(explorer.heads)
    for each in explorer.heads:
        assert each.weights.shape == (len(each.query_axis), len(each.key_axis))
        assert values_and_hidden(each.weights)[0].shape == each.weights.shape
        row, column = each.chooser_cell or (0, 0)
        assert row < len(explorer.rows.headings)
        assert column < len(explorer.columns.headings)


def test_of_a_trace_every_head_with_its_weights_and_its_scores() -> None:
    text_trace = trace("I am learning this", heads=2, layers=2, causal=True)
    explorer = explorer_of(text_trace, query="learning")

    check_places(explorer)
    assert head_names(explorer) == ["L0H0", "L0H1", "L1H0", "L1H1"]
    assert (explorer.rows.headings, explorer.columns.headings) == (("L0", "L1"), ("H0", "H1"))
    assert explorer.query == 2
    for each in explorer.heads:
        layer, head = each.chooser_cell or (0, 0)
        weights, hidden = values_and_hidden(each.weights)
        assert np.array_equal(weights, text_trace.layers[layer].attended.weights[head].numpy())
        assert np.array_equal(hidden, np.triu(np.ones((4, 4), dtype=bool), 1))
        assert np.allclose(softmax_of(each), weights, atol=1e-6)


def test_where_weights_are_not_a_softmax_there_are_no_scores() -> None:
    with_dropout = explorer_of(trace("I am learning this", dropout=0.5))
    with_mistake = explorer_of(
        compare("I am learning this", by="mask", values=["causal", "zero-scores"])
    )

    assert [each.scores for each in with_dropout.heads] == [None]
    assert with_mistake.heads[0].scores is not None
    assert with_mistake.heads[1].scores is None


def test_ways_are_compared_by_their_softmax_and_so_are_their_scores() -> None:
    """Dropout, which comes later, does not count."""
    explorer = explorer_of(
        compare("I am learning this", by="mask", values=["none", "causal"], dropout=0.5)
    )

    for each in explorer.heads[:2]:
        assert np.allclose(softmax_of(each), values_and_hidden(each.weights)[0], atol=1e-6)


def test_nothing_is_made_before_it_is_asked_for_and_nothing_is_kept() -> None:
    text_trace = trace("I am learning this")
    [each] = explorer_of(text_trace).heads

    assert not isinstance(each.weights, StoredCells)
    assert values_and_hidden(each.weights)[1] is not values_and_hidden(each.weights)[1]


def test_heads_of_a_model_open_with_what_one_of_them_does_most(minilm: Inspection) -> None:
    explorer = explore_again(minilm)

    check_places(explorer)
    assert len(explorer.heads) == 72
    assert first_head_name(explorer) == "L4H5"
    each = explorer.heads[7 + 12 * 4]
    assert each.name == "L4H7"
    weights, _ = values_and_hidden(each.weights)
    assert np.allclose(softmax_of(each), weights, atol=1e-6)
    assert each.query_axis is each.key_axis
    assert [
        position for position, is_special in enumerate(each.query_axis.special) if is_special
    ] == [0, 14]


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
    explorer = explorer_of(
        inspect(SENTENCE, model=str(small_transformer(kind)), attention=attention)
    )
    tables_data, _ = pack_heads(explorer)

    check_places(explorer)
    for number in range(len(explorer.heads)):
        if explorer.heads[number].scores is not None:  # the mean of heads has none
            assert tables_data["tables"][f"weights-{number}"]["slack"] < 1e-5


def test_a_head_that_reads_what_none_has_to_find_opens_only_where_no_other_tells_more(
    minilm: Inspection,
) -> None:
    flags = head_flags(minilm)
    short_names = [each.short for each in flags]
    assert short_names == ["previous", "next", "first", "column", "broad"]
    opened_positions = [
        short_names.index(most_telling_flag(minilm, flags[start:][::-1]).short)
        for start in range(5)
    ]
    assert opened_positions == [0, 1, 3, 3, 4]


def most_telling_flag(inspection: Inspection, flags: tuple[Flag, ...]) -> Flag:
    best = most_telling_head(inspection, flags)
    return next(each for each in flags if each.map_index == best)


def test_a_page_opens_on_the_strongest_head_of_the_kind_that_its_title_is_about(
    minilm: Inspection,
) -> None:
    explorer, title = explorer_of(minilm), minilm.view().headline
    patterns = minilm.patterns
    kind = next(each for each in PATTERN_KINDS if each.target_phrase in title)

    assert re.match(r"\d+ of 72 heads attend mostly to ", title)
    assert first_head_name(explorer) == patterns.names[patterns.heads_of_kind(kind)[0]]


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
    weights_of_was = np.where(np.arange(5)[:, None] == 3, weights, [0.2, 0.3, 0.3, 0.2, 0.0])
    assert find_telling_row(replace(head, weights=StoredCells(weights_of_was, weights < 0))) == 3
    assert (
        find_telling_row(replace(head, weights=StoredCells(weights * 0 + 0.2, weights < 0))) is None
    )


@pytest.mark.slow_table("models", keep=3)
@pytest.mark.parametrize(
    ("options", "query", "key", "expected_head"),
    [
        ({"query": "it"}, 10, None, "L2H1"),  # which the title names; the mean is before it
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
    options: dict[str, Any],
    query: int | None,
    key: int | None,
    expected_head: str,
) -> None:
    explorer = explore_again(minilm, **options)

    check_places(explorer)
    assert (explorer.query, explorer.key) == (query, key)
    assert first_head_name(explorer) == expected_head
    is_summary = expected_head.startswith(("mean", "rollout")) or options == {"query": "it"}
    if "query" in options and "layer" not in options:
        assert explorer.heads[0].name == "mean of 72 heads"
    assert len(explorer.heads) == (12 if "layer" in options else 72) + is_summary
    assert [bool(each.note) for each in explorer.heads] == [
        is_summary,
        *[False] * (len(explorer.heads) - 1),
    ]
    flagged_heads = {explorer.heads[flag.map_index].name for flag in explorer.flags}
    assert flagged_heads <= {each.name for each in explore_again(minilm).heads}


def test_one_head_is_shown_among_all_that_were_traced(minilm: Inspection) -> None:
    assert head_names(explore_again(minilm, layer=4, head=7)) == [
        f"L4H{head}" for head in range(12)
    ]


@pytest.mark.parametrize("options", [{"hide_special": True}, {"hide_first": True}])
def test_where_tokens_are_left_out_the_scores_of_others_stay(
    minilm: Inspection, options: dict[str, Any]
) -> None:
    all_tokens, some_tokens = (
        explore_again(minilm).heads[55],
        explore_again(minilm, **options).heads[55],
    )
    kept_tokens = slice(1, -1) if "hide_special" in options else slice(1, None)

    assert np.array_equal(
        values_and_hidden(some_tokens.scores)[0],
        values_and_hidden(all_tokens.scores)[0][kept_tokens, kept_tokens],
    )


@pytest.mark.parametrize(
    "options",
    [
        {"hide_first": True, "renormalise": True},
        {"words": True},
        {"weigh": "norm"},
    ],
)
def test_numbers_that_are_no_weights_have_no_scores(
    minilm: Inspection, options: dict[str, Any]
) -> None:
    explorer = explore_again(minilm, **options)

    assert {each.scores for each in explorer.heads} == {None}
    assert {each.measure for each in explorer.heads} == {
        "weight × length" if "weigh" in options else "weight"
    }


def test_ways_are_rows_and_so_is_what_tells_each_from_the_first() -> None:
    comparison = compare("I am learning this", by="mask", values=["none", "causal"], heads=2)
    explorer = explorer_of(comparison)

    check_places(explorer)
    assert explorer.rows.headings == ("none", "causal", "causal − none")
    assert head_names(explorer)[4:] == ["causal − none · head 0", "causal − none · head 1"]
    none_way, causal_way, difference = (
        values_and_hidden(explorer.heads[place].weights) for place in (1, 3, 5)
    )
    assert np.allclose(difference[0], causal_way[0] - none_way[0], atol=1e-7)
    assert not difference[1].any()
    assert (explorer.heads[5].measure, explorer.heads[5].signed) == ("difference", True)
    assert [each.note for each in explorer.heads[3:]] == [
        "",
        *["above 0 = reads more than 'none'"] * 2,
    ]
    assert np.allclose(softmax_of(explorer.heads[3]), causal_way[0], atol=1e-6)


def test_where_heads_are_not_as_many_their_means_are_compared() -> None:
    explorer = explorer_of(compare("I am learning this", by="heads", values=["1", "2"], dim=8))

    assert explorer.columns.headings == ("mean",)
    assert [each.scores is None for each in explorer.heads][:2] == [False, True]
    assert explorer_of(compare("I am learning this")).columns.headings == ("H0",)


def test_where_tokens_are_not_the_same_nothing_is_subtracted() -> None:
    explorer = explorer_of(compare("I am learning this", by="tokenizer", values=["words", "chars"]))

    check_places(explorer)
    assert [len(each.query_axis) for each in explorer.heads] == [4, 18]


def test_two_sentences_are_there_and_what_differs_in_the_head_that_changes_most() -> None:
    sentences = compare_sentences(SENTENCE, OTHER_SENTENCE)
    explorer = explorer_of(sentences)
    by_name = {each.name: each for each in explorer.heads}
    most_changed_head = sentences.heads[0].name

    check_places(explorer)
    assert len(explorer.heads) == 3 * 72
    assert explorer.rows.headings[:3] == ("L0", "L1", "L2")
    assert first_head_name(explorer) == most_changed_head
    assert explorer.heads[explorer.first].pair == tuple(
        head_names(explorer).index(f"{most_changed_head} · {name}") for name in ("first", "second")
    )
    compared_names = (
        f"{most_changed_head} · first",
        f"{most_changed_head} · second",
        most_changed_head,
    )
    first_weights, second_weights, difference = (
        values_and_hidden(by_name[name].weights)[0] for name in compared_names
    )
    assert np.allclose(difference, second_weights - first_weights, atol=1e-7)
    assert by_name[first_head_name(explorer)].query_axis.labels[-2] == "tired/wide"
    assert np.allclose(
        softmax_of(by_name[f"{most_changed_head} · second"]), second_weights, atol=1e-6
    )


def test_steps_and_lessons_have_the_heads_of_their_trace() -> None:
    walk = steps("I am learning this", query="learning", key="am", heads=2, head=1)
    explorer = explorer_of(walk)

    assert (first_head_name(explorer), explorer.query, explorer.key) == ("head 1", 2, 1)
    assert len(explorer_of(example("journey-two-heads")).heads) == 2


def test_learning_is_looked_at_moment_by_moment() -> None:
    learned_model = make_learned()
    explorer = explorer_of(learned_model)

    check_places(explorer)
    assert (explorer.rows.unit, explorer.columns.unit) == ("moment", "head")
    assert first_head_name(explorer).endswith(f"step {learned_model.moments[-1].step:,}")
    assert len(explorer.heads) == len(explorer.rows.labels) * len(explorer.columns.labels)
    last_weights = values_and_hidden(explorer.heads[-1].weights)[0]
    assert np.array_equal(last_weights, learned_model.moments[-1].weights[-1][-1])
