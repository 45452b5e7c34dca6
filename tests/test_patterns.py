"""What heads do: the score of each kind against numbers from paper, and which kind a head has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnviz import trace
from attnviz.analysis.inspection import patterns
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.analysis.inspection.patterns import (
    BROAD_PATTERN,
    COLUMN_PATTERN,
    PATTERN_KINDS,
    HeadPatterns,
    find_patterns,
    read_pattern_tokens,
)
from attnviz.cells import Cells, StoredCells, unmasked_cells
from attnviz.heads.head import Head
from attnviz.heads.side import Side, token_side
from attnviz.tokens.grouping import single_tokens
from attnviz.tokens.tokens import Tokens, tokens_of_words
from attnviz.views.inspection.head_kinds import head_kind_sentences, heads_table

WORDS = ("the", "cat", "saw", "the", "cat", ".")


def head_of(cells: Cells, rows: Side, columns: Side) -> Head:
    return Head("L0H0", cells, rows, columns, layer=trace("cat").layers[0])


def build_map(
    weights: Sequence[Sequence[float]] | np.ndarray,
    words: Sequence[str] = WORDS,
    *,
    keys: Tokens | None = None,
    special: Sequence[int] = (),
    hidden: np.ndarray | None = None,
) -> Head:
    values = np.array(weights, dtype=np.float32)
    tokens = Tokens(
        " ".join(words),
        tuple(word.encode() for word in words),
        tokens_of_words(words).ids,
        (True,) * len(words),
        tuple(words),
        frozenset(special),
    )
    cells: Cells = unmasked_cells(values) if hidden is None else StoredCells(values, hidden)
    return head_of(cells, token_side(tokens), token_side(keys or tokens))


def score(result: HeadPatterns, short: str, head: int = 0) -> float:
    kind = next(each for each in PATTERN_KINDS if each.short == short)
    return result.score(head, kind)


def even_score(result: HeadPatterns, short: str) -> float:
    place = next(place for place, each in enumerate(PATTERN_KINDS) if each.short == short)
    return float(result.even_scores[0, place])


def shifted_weights(count: int, distance: int) -> np.ndarray:
    """Each row attends to the token at this distance; where there is none, evenly to all."""
    weights = np.eye(count, k=distance)
    weights[weights.sum(1) == 0] = 1 / count
    return weights


@pytest.mark.parametrize(
    ("short", "weights"),
    [
        ("previous", shifted_weights(6, -1)),
        ("next", shifted_weights(6, 1)),
        ("itself", np.eye(6)),
        ("first", np.eye(6)[[0] * 6]),
        ("separators", np.eye(6)[[5] * 6]),
        ("same", np.eye(6)[[3, 4, 2, 0, 1, 5]]),
        ("induction", np.eye(6)[[0, 0, 0, 1, 2, 0]]),
        ("broad", np.full((6, 6), 1 / 6)),
    ],
)
def test_a_head_that_does_nothing_else_has_all_of_it(short: str, weights: np.ndarray) -> None:
    result = find_patterns([build_map(weights)])
    assert score(result, short) == pytest.approx(1)
    if short not in ("same", "induction"):  # only four and two of the six words can show these
        assert [each.short for each in result.kinds if each] == [short]


def test_scores_are_the_mean_share_of_the_tokens_that_can_show_them() -> None:
    """On paper: `a b a`, from whose tokens the one before is read with .2 and .5."""
    weights = [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    result = find_patterns([build_map(weights, ["a", "b", "a"])])

    assert score(result, "previous") == pytest.approx((0.2 + 0.5) / 2)
    assert score(result, "next") == pytest.approx((0.3 + 0.6) / 2)
    assert score(result, "itself") == pytest.approx((0.6 + 0.2 + 0.1) / 3)
    assert score(result, "first") == pytest.approx((0.2 + 0.4) / 2)  # without its own row
    assert score(result, "same") == pytest.approx((0.1 + 0.4) / 2)
    assert result.showing_counts.tolist() == [2, 2, 2, 3, 0, 2, 0, 0, 3]
    bits = [-sum(each * math.log(each) for each in row) / math.log(3) for row in weights]
    assert score(result, "broad") == pytest.approx(sum(bits) / 3)


def test_even_attention_gives_what_is_said_of_it_and_no_kind_but_broad() -> None:
    result = find_patterns([build_map(np.full((6, 6), 1 / 6))])
    has_score = ~np.isnan(result.scores)
    assert np.allclose(result.scores[has_score], result.even_scores[has_score])
    assert result.kinds == (BROAD_PATTERN,)
    assert np.allclose(result.excess[:, :-1][has_score[:, :-1]], 0, atol=1e-6)


def test_under_a_mask_only_what_is_seen_counts_and_the_first_token_has_no_choice() -> None:
    """Causal and even: row t reads each of t + 1 tokens with 1/(t + 1)."""
    visible = np.tril(np.ones((6, 6)))
    result = find_patterns(
        [build_map(visible / visible.sum(1, keepdims=True), hidden=visible == 0)]
    )

    expected = np.mean([1 / (row + 1) for row in range(1, 6)])
    assert math.isnan(score(result, "next"))
    for short in ("previous", "first", "itself"):
        assert (
            score(result, short)
            == pytest.approx(expected)
            == pytest.approx(even_score(result, short))
        )
    assert score(result, "broad") == pytest.approx(1)
    assert result.showing_counts[-1] == 5


def test_what_a_text_cannot_show_has_no_number() -> None:
    result = find_patterns([build_map(np.full((3, 3), 1 / 3), ["a", "b", "c"])])
    assert [each.short for each in PATTERN_KINDS if not result.strongest(each)] == [
        "separators",
        "same",
        "induction",
        "column",
    ]
    single_token = find_patterns([build_map([[1.0]], ["a"])])
    assert np.isnan(single_token.scores).all()
    assert single_token.kinds == (None,)


def test_two_tokens_must_be_repeated_for_induction() -> None:
    """`the` is there twice, and something else comes after it."""
    words = ["the", "cat", "saw", "the", "dog"]
    result = find_patterns([build_map(np.full((5, 5), 1 / 5), words)])
    assert score(result, "same") == pytest.approx(0.2)
    assert math.isnan(score(result, "induction"))


def test_separators_are_marks_new_lines_and_what_was_added_but_not_a_mark_inside_a_word() -> None:
    pieces = (b"[CLS]", b"did", b"n", b"'", b"t", b",", b" no", b"\n", b"!", b"[SEP]")
    spaced = (True, True, False, False, False, False, True, True, True, True)
    tokens = Tokens("", pieces, tuple(range(10)), spaced, special=frozenset((0, 9)))
    side = token_side(tokens)
    result = read_pattern_tokens(head_of(unmasked_cells(np.eye(10)), side, side))
    assert np.flatnonzero(result.is_separator).tolist() == [0, 5, 7, 8, 9]


def test_what_a_tokenizer_added_twice_is_no_token_that_is_there_twice() -> None:
    words = ["[SEP]", "a", "[SEP]"]
    result = find_patterns([build_map(np.full((3, 3), 1 / 3), words, special=(0, 2))])
    assert math.isnan(score(result, "same"))
    assert score(result, "separators") == pytest.approx(1 / 3)  # the first is the first token


def test_of_a_second_text_nothing_is_before_or_after_but_the_same_token_counts() -> None:
    keys = replace(tokens_of_words(["cat", "a", "b"]), ids=(WORDS.index("cat"), 7, 8))
    result = find_patterns([build_map(np.full((6, 3), 1 / 3), keys=keys)])
    assert [each.short for each in PATTERN_KINDS if result.strongest(each)] == [
        "first",
        "same",
        "broad",
    ]
    assert result.showing_counts.tolist() == [0, 0, 6, 0, 0, 2, 0, 0, 6]


@given(arrays(np.float32, (3, 7, 7), elements=st.floats(0.015625, 1, width=32)))
def test_every_score_lies_between_none_and_all(weights: np.ndarray) -> None:
    words = ["a", "b", ",", "a", "b", "c", "."]
    shares = weights / weights.sum(-1, keepdims=True)
    result = find_patterns([build_map(each, words) for each in shares])
    columns = [key is not None for key in result.columns]
    assert (~np.isnan(result.scores[:, PATTERN_KINDS.index(COLUMN_PATTERN)])).tolist() == columns
    scores = np.nan_to_num(result.scores)
    assert ((scores >= 0) & (scores <= 1 + 1e-6)).all()
    assert (np.nan_to_num(result.even_scores) <= 1 + 1e-6).all()


def test_the_strongest_come_first_and_a_tie_goes_to_the_first_head() -> None:
    heads = [np.full((6, 6), 1 / 6), np.eye(6), np.eye(6)]
    result = find_patterns([build_map(each) for each in heads])
    itself_kind = next(each for each in PATTERN_KINDS if each.short == "itself")
    assert result.strongest(itself_kind) == [1, 2, 0]
    assert result.heads_of_kind(itself_kind) == [1, 2]


def test_bands_of_rows_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(30), 30)
    words = [f"w{number % 11}" for number in range(30)]
    result = find_patterns([build_map(weights, words)])
    monkeypatch.setattr(patterns, "PATTERN_CELLS_AT_ONCE", 1)
    assert np.allclose(
        find_patterns([build_map(weights, words)]).scores, result.scores, equal_nan=True
    )


def test_of_a_long_text_every_so_many_tokens_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_SAMPLED_CELLS", 1)
    monkeypatch.setattr(patterns, "MIN_SAMPLED_QUERIES", 10)
    result = find_patterns(
        [build_map(shifted_weights(35, -1), [f"w{number}" for number in range(35)])]
    )
    assert (result.sampled_count, result.tokens) == (9, 35)
    assert score(result, "previous") == pytest.approx(1)
    assert result.showing_counts[0] == 8


@pytest.fixture(scope="module")
def minilm() -> Inspection:
    return inspect("The animal didn't cross the street because it was too tired")


def test_minilm_has_a_head_for_the_token_before_one_for_the_token_after_and_many_sinks(
    minilm: Inspection,
) -> None:
    assert head_kind_sentences(minilm) == (
        "L0H2 attends to the previous token (over 99.9\u00a0%), L1H8 to the next token "
        '(55\u00a0%), L4H5 to the first token (90\u00a0%), L5H11 to "animal" (41\u00a0%) and L0H0 '
        "attends broadly (entropy 91\u00a0% of the largest possible).",
        f"{count_sinks(minilm)} of 72 heads attend mostly to the first token.",
    )


def count_sinks(minilm: Inspection) -> int:
    """Count, with loops, the heads in which most tokens give the first one their largest weight."""
    count = 0
    for head, kind in enumerate(minilm.patterns.kinds):
        weights = minilm.trace.layers[head // 12].attended.weights[head % 12].tolist()
        dominated_rows = sum(row[0] == max(row) for row in weights[1:])
        count += (
            kind is not None and kind.short == "first" and 2 * dominated_rows > len(weights) - 1
        )
    return count


def test_a_head_is_called_after_the_key_that_dominates_it(minilm: Inspection) -> None:
    """In L5H11 the first token has .33 of the attention on average, and "animal" has .41."""
    weights = minilm.trace.layers[5].attended.weights[11]
    animal_sentences = head_kind_sentences(
        replace(minilm, options=InspectOptions(layer=5, head=11))
    )
    first_sentences = head_kind_sentences(replace(minilm, options=InspectOptions(layer=4, head=5)))
    tired_sentences = head_kind_sentences(replace(minilm, options=InspectOptions(layer=5, head=9)))

    assert animal_sentences == ('L5H11: most tokens attend to "animal" (41\u00a0% on average).',)
    assert float(weights[:, 2].mean()) == pytest.approx(0.41, abs=0.005)
    assert sum(int(row.argmax()) == 2 for row in weights) == 10  # of 15
    assert first_sentences == (
        "L4H5: most tokens attend to the first token (90\u00a0% on average).",
    )
    assert tired_sentences == ('L5H9: most tokens attend to "tired" (22\u00a0% on average).',)
    view = replace(minilm, options=InspectOptions(layer=1, head=2)).view()
    # Where nothing stands out over the text, the strongest link is named with what others give.
    assert view.headline.startswith(
        'In L1H2, "t" gives "didn" 73\u00a0% of its attention; the other'
    )
    words = head_kind_sentences(
        replace(minilm, options=InspectOptions(layer=5, head=11, words=True))
    )
    assert words[0].startswith('L5H11: most words attend to "animal" (')


def find_column(
    weights: np.ndarray, hidden: np.ndarray, marks: Sequence[int]
) -> tuple[int | None, float]:
    """Find, with loops, the key that most queries with a choice attend to most, and its share."""
    queries = [
        row for row in range(len(weights)) if sum(~hidden[row]) > 1 and weights[row].sum() > 0
    ]
    for key in range(1, len(weights)):
        votes = [row for row in queries if all(
            weights[row, key] > weights[row, other] for other in range(len(weights)) if other != key
        )]  # fmt: skip
        if key not in marks and len(votes) > 1 and 2 * len(votes) > len(queries):
            shares = [
                weights[row, key] / weights[row].sum() for row in queries if not hidden[row, key]
            ]
            return key, sum(shares) / len(shares)
    return None, math.nan


@given(
    st.integers(1, 6).flatmap(
        lambda count: arrays(np.float32, (count, count), elements=st.sampled_from([0, 1, 2, 7]))
    ),
    st.booleans(),
)
def test_a_column_is_found_as_loops_find_it(weights: np.ndarray, causal: bool) -> None:
    """Of few different weights, so that there are ties; and rows of nothing."""
    count = len(weights)
    hidden = np.triu(np.ones((count, count), bool), 1) & causal
    words = ["a", "b", ",", "a", "b", "c"][:count]
    result = find_patterns([build_map(np.where(hidden, 0, weights), words, hidden=hidden)])
    key, share = find_column(np.where(hidden, 0, weights), hidden, marks=(2,))

    assert result.columns == (key,)
    assert score(result, "column") == pytest.approx(share, nan_ok=True)


def test_the_column_of_a_head_wins_if_it_is_further_from_even_attention() -> None:
    """Most of six tokens read "cat" with .5; the first, or a separator, is no column."""
    weights = np.full((6, 6), 0.1)
    weights[:, 1] = 0.5
    assert [each.kinds[0] for each in (find_patterns([build_map(weights)]),)] == [COLUMN_PATTERN]
    for place, short in ((0, "first"), (5, "separators")):
        other_weights = np.full((6, 6), 0.1)
        other_weights[:, place] = 0.5
        result = find_patterns([build_map(other_weights)])
        assert result.columns == (None,)
        assert result.kinds[0] is not None
        assert result.kinds[0].short == short


def test_the_table_names_the_strongest_and_says_what_few_tokens_show(minilm: Inspection) -> None:
    table = heads_table(minilm)
    assert table is not None
    assert table.rows.labels[0] == "previous token"
    assert table.words[0][:4] == ("", "L0H2", "L2H11", "L1H9")
    assert table.columns.labels[:2] == ("even", "1st")
    assert table.values[0, :2] == pytest.approx([1 / 15, 0.9998], abs=1e-4)
    assert "induction: no two tokens are repeated" in table.note
    assert "same: only 2 tokens of 15 can show it" in table.note


def test_the_numbers_are_those_of_the_weights(minilm: Inspection) -> None:
    """Worked out again with loops, from the matrices of the Trace."""
    layer, head = minilm.trace.layers[3], 11
    weights = layer.attended.weights[head].tolist()
    result, place = minilm.patterns, 3 * 12 + head
    count = len(weights)
    previous_shares = [weights[row][row - 1] for row in range(1, count)]
    # The apostrophe is inside a word, so [SEP] is the only separator, for all tokens but itself.
    separator_shares = [weights[row][count - 1] for row in range(count - 1)]
    assert score(result, "previous", place) == pytest.approx(
        sum(previous_shares) / len(previous_shares)
    )
    assert score(result, "separators", place) == pytest.approx(
        sum(separator_shares) / len(separator_shares)
    )


def test_what_is_left_out_is_no_part_of_what_heads_do(minilm: Inspection) -> None:
    """Worked out again with loops: the token before is that of the sentence, and rows sum to 1."""
    inspection = replace(minilm, options=InspectOptions(hide_special=True))
    result = inspection.patterns
    weights = minilm.trace.layers[2].attended.weights[9].tolist()
    kept_tokens = range(1, len(weights) - 1)
    own_shares = [
        weights[row][row] / sum(weights[row][key] for key in kept_tokens) for row in kept_tokens
    ]
    assert score(result, "itself", 2 * 12 + 9) == pytest.approx(sum(own_shares) / len(own_shares))
    previous_shares = [
        weights[row][row - 1] / sum(weights[row][key] for key in kept_tokens)
        for row in kept_tokens[1:]
    ]
    assert score(result, "previous", 2 * 12 + 9) == pytest.approx(
        sum(previous_shares) / len(previous_shares)
    )
    assert math.isnan(score(result, "first"))
    assert all(
        sentence.startswith("Of what is left, ") for sentence in head_kind_sentences(inspection)
    )


def test_after_a_token_in_the_middle_is_left_out_none_stands_before_the_next() -> None:
    whole = build_map(np.eye(6)).rows
    side = whole.in_groups(single_tokens(whole.tokens).keep(frozenset((0, 1, 3, 4))))
    result = find_patterns([head_of(unmasked_cells(np.full((4, 4), 0.25)), side, side)])
    previous = next(place for place, each in enumerate(PATTERN_KINDS) if each.short == "previous")
    assert result.showing_counts[previous] == 2  # the second and the fifth token


@pytest.mark.parametrize(
    ("choices", "start", "note"),
    [
        ({"weigh": "norm"}, "By weight × length, ", "share of a token's weight × length, "),
        ({"words": True}, "", "averaged over the words that can show it"),
        ({"hide_first": True, "weigh": "norm"}, "By weight × length, of what is left, ", "left, "),
    ],
)
def test_what_heads_do_says_of_what_numbers(
    minilm: Inspection, choices: dict[str, Any], start: str, note: str
) -> None:
    inspection = replace(minilm, options=InspectOptions(**choices))
    table = heads_table(inspection)
    assert table is not None
    assert note in table.note
    assert head_kind_sentences(inspection)
    assert all(sentence.startswith(start) for sentence in head_kind_sentences(inspection))


def test_by_lengths_fewer_heads_are_sinks(minilm: Inspection) -> None:
    sink = next(each for each in PATTERN_KINDS if each.short == "first")
    inspection_by_length = replace(minilm, options=InspectOptions(weigh="norm"))
    assert (
        len(inspection_by_length.patterns.heads_of_kind(sink))
        < len(minilm.patterns.heads_of_kind(sink)) / 2
    )
