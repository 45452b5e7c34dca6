"""Conclusions: true of numbers that a user gives, and over seeds where numbers are random."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz.analysis.aspects import ASPECTS
from attnviz.analysis.comparison import Comparison, compare, compare_scores
from attnviz.analysis.measures import measure_weights
from attnviz.analysis.seeds import AVERAGED_MEASURES, Repeats, measure_repeats
from attnviz.attention.variants import VARIANTS
from attnviz.errors import AttnvizError
from attnviz.traces.from_text import trace
from attnviz.traces.settings import POSITIONS
from attnviz.views.conclusions.conclusion import conclusion
from attnviz.views.conclusions.findings import (
    MIN_SEEDS_TO_CONCLUDE,
    TOKEN_AMOUNT,
    Amount,
    Pair,
    most_different_pair,
)
from attnviz.wings.examples.example_names import example
from attnviz.wording.numbers import significant_text
from tests import not_none
from tests.conftest import Attnviz
from tests.tiers import examples

TEXT = "I am learning this"
NUMBER = r"(\d[\d.e+-]*)"


def repeat_over_seeds(comparison: Comparison, repeats: int) -> Repeats:
    return not_none(measure_repeats(comparison, repeats))


def read_conclusion(text: str = TEXT, repeats: int = 20, **options: Any) -> str:
    sentence: str = compare(text, **options).view(repeats=repeats).closing[-1]
    return sentence


def mean_effective_tokens(weights: torch.Tensor) -> float:
    """The mean over rows of the effective number of tokens: 2 to the entropy."""
    rows = weights.double().numpy()
    bits = -np.where(rows > 0, rows * np.log2(np.maximum(rows, 1e-300)), 0).sum(-1)
    return float((2**bits).mean())


# Which claims are allowed

RISING = [float(number) for number in range(20)]
FEWEST = MIN_SEEDS_TO_CONCLUDE


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        (RISING, [each + 1 for each in RISING], 1),
        (RISING, [each - 1 for each in RISING], -1),
        (RISING, [each + (1 if each % 2 else -1) for each in RISING], 0),
        (RISING, RISING, 0),
        ([0.0] * 20, [-1.0] + [1.0] * 19, 1),
        ([0.0] * 20, [-1.0] * 3 + [1.0] * 17, 0),
        ([0.0] * (FEWEST - 1), [1.0] * (FEWEST - 1), 0),
        ([0.0] * FEWEST, [1.0] * FEWEST, 1),
    ],
)
def test_a_direction_is_claimed_where_enough_seeds_and_nearly_all_of_them_go_that_way(
    before: list[float], after: list[float], direction: int
) -> None:
    assert Pair(torch.tensor(before), torch.tensor(after)).direction == direction


@given(
    st.lists(
        st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=MIN_SEEDS_TO_CONCLUDE, max_size=40
    )
)
def test_what_is_claimed_is_true_of_most_seeds_and_of_the_medians(
    pairs: list[tuple[float, float]],
) -> None:
    before, after = torch.tensor(pairs, dtype=torch.float64).T
    seed_pair = Pair(before, after)

    share_moving_that_way = float(((after - before) * seed_pair.direction > 0).double().mean())
    assert not seed_pair.direction or share_moving_that_way >= 0.85
    assert (seed_pair.medians[1] - seed_pair.medians[0]) * seed_pair.direction >= 0
    assert seed_pair.direction == -Pair(after, before).direction


def test_of_several_ways_the_two_furthest_apart_are_told() -> None:
    values_by_way = [torch.full((20,), number) for number in (2.0, 1.0, 3.0)]

    assert most_different_pair(values_by_way, TOKEN_AMOUNT) == (1, 2)
    assert most_different_pair([values_by_way[0], values_by_way[0]], TOKEN_AMOUNT) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(2.3, 3.1, ("2.3", "3.1")), (2.31, 2.34, ("2.31", "2.34")), (2.0, 2.0, ("2.0", "2.0"))],
)
def test_numbers_have_the_digits_that_tell_them_apart(
    before: float, after: float, expected: tuple[str, str]
) -> None:
    assert TOKEN_AMOUNT.format_pair(before, after) == expected


@given(st.floats(1, 9), st.floats(0.005, 1))
def test_what_is_not_alike_never_reads_the_same(number: float, difference: float) -> None:
    first_text, second_text = TOKEN_AMOUNT.format_pair(number, number + difference * 1.01)

    assert first_text != second_text


def test_significant_digits_are_as_a_reader_counts_them() -> None:
    assert Amount(significant_text, 2).format_pair(1.71, 1.74) == ("1.71", "1.74")
    assert significant_text(-0.0, 2) == "0"


# What is measured over seeds


@pytest.mark.slow_table("seeds", keep=1)
@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("scale", {}),
        ("scale", {"variant": "multi-head", "positions": "alibi"}),
        ("variant", {"positions": "rotary"}),
        ("mask", {"dim": 6}),
        ("positions", {"variant": "causal"}),
        ("tokenizer", {}),
    ],
)
def test_each_seed_measures_what_a_run_of_it_gives(by: str, options: dict[str, Any]) -> None:
    comparison = compare(TEXT, by=by, seed=7, **options)

    repeats = repeat_over_seeds(comparison, 3)

    for column, seed in enumerate(repeats.seeds):
        single = compare(TEXT, by=by, seed=seed, **options)
        for name in AVERAGED_MEASURES:
            means = torch.tensor([measures.means()[name] for measures in single.measures])
            assert_close(
                repeats.by_measure[name][:, column], means, atol=1e-5, rtol=1e-4, equal_nan=True
            )


def test_of_one_query_its_own_row_is_measured() -> None:
    comparison = replace(compare(TEXT, by="mask"), query=2)

    repeats = repeat_over_seeds(comparison, 2)

    for position, alternative in enumerate(comparison.alternatives):
        row = measure_weights(alternative.weights, alternative.visible, None).entropy[0, 2]
        assert_close(
            float(repeats.by_measure["entropy"][position, 0]), float(row), atol=1e-5, rtol=1e-4
        )


def test_seeds_in_groups_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = compare(TEXT)
    peaks_at_once = repeat_over_seeds(comparison, 5).by_measure["peak"]

    monkeypatch.setattr("attnviz.analysis.seeds.SCORE_CELLS_AT_ONCE", 32)

    assert_close(repeat_over_seeds(comparison, 5).by_measure["peak"], peaks_at_once)


@pytest.mark.parametrize(
    ("by", "options"),
    [("seed", {}), ("dtype", {}), ("scale", {"variant": "average"})],
)
def test_what_no_seed_changes_and_what_compares_seeds_is_not_repeated(
    by: str, options: dict[str, Any]
) -> None:
    assert measure_repeats(compare(TEXT, by=by, **options), 20) is None


# Sentences


def test_the_medians_of_the_sentence_are_those_of_single_runs() -> None:
    effective_tokens = {
        scale: sorted(
            mean_effective_tokens(trace(TEXT, seed=seed, scale=scale).layers[0].attended.weights)
            for seed in range(42, 62)
        )
        for scale in (False, True)
    }
    before, after = (np.median(effective_tokens[scale]) for scale in (False, True))

    start = f"Over 20 seeds, dividing by √8 makes a query attend to {after:.1f} tokens ("
    assert read_conclusion().startswith(start)
    assert f"instead of {before:.1f} (" in read_conclusion()


def test_a_single_draw_says_that_it_is_one() -> None:
    assert read_conclusion(repeats=1) == (
        "With this one draw of random numbers, a query attends to 2.37 tokens unscaled and to "
        "3.15 divided by √8."
    )
    assert "With this one draw of random numbers" in read_conclusion(repeats=1, by="variant")
    assert "With this one draw of random numbers" in read_conclusion(repeats=1, by="dim")


def test_few_seeds_say_that_they_are_few() -> None:
    assert read_conclusion(repeats=4).startswith("In the median of 4 seeds, a query attends to ")
    assert read_conclusion(repeats=4).endswith("too few seeds to tell more.")
    assert read_conclusion(repeats=4, by="variant").endswith("too few seeds to tell more.")
    assert read_conclusion(repeats=4, by="dim").endswith("too few seeds to tell more.")


def test_between_seeds_there_is_nothing_but_chance() -> None:
    assert "seeds differ only by chance" in read_conclusion(by="seed")


def test_of_given_numbers_what_is_true_of_them_is_said() -> None:
    comparison = compare_scores(torch.tensor([[[29.6, 9.9, 63.9, 55.5]]]), 64)

    assert conclusion(comparison).startswith("Dividing the scores by √d_k makes a query attend to ")


def test_of_a_worked_example_too() -> None:
    comparison = compare(example("trainable").trace())

    assert comparison.view().closing[-1].startswith("Dividing the scores by √")


@pytest.mark.slow("seeds")
def test_vectors_of_which_two_are_as_likely_are_not_told_apart() -> None:
    """Vectors of two sentences come from one distribution, so that any claim is wrong."""
    claims = [
        " sharper in "
        in compare("cat dog bird", tokenizer="words", other="tree sky lake", seed=seed)
        .view()
        .closing[-1]
        for seed in range(0, 2000, 100)
    ]

    assert sum(claims) <= 1


@pytest.mark.slow_table("sentences", keep=5)
@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (TEXT, {"dim": 1}, "Scaling changes nothing here: √1 is 1."),
        (
            "Hello",
            {},
            "Scaling changes nothing here: a query sees only one token, which gets all "
            "its attention.",
        ),
        (TEXT, {"window": 1}, "a query sees only one token, which gets all its attention."),
        (
            TEXT,
            {"temperature": 1e6},
            "how many tokens a query attends to: 4.0 tokens with and without scaling.",
        ),
        (
            TEXT,
            {"temperature": 1e-6},
            "how many tokens a query attends to: 1.0 tokens with and without scaling.",
        ),
        (
            "Hello",
            {"by": "dim"},
            "A query sees only one token and gives it all its attention, whatever d_k is.",
        ),
        (TEXT, {"by": "dim", "variant": "average"}, "all scores are 0, whatever d_k is."),
        ("Hello", {"by": "tokenizer"}, "A query sees more than one token only in 'chars', so "),
        ("Hello", {"by": "variant"}, "attention is equally sharp in all of them: 1.0 tokens."),
        ("Hello", {"by": "dtype"}, "equal those of float64 to the last digit."),
        (TEXT, {"by": "dim", "head_dim": 4}, "as dim goes from 2 to 512"),
    ],
)
def test_what_is_said_at_the_edges_is_true(
    text: str, options: dict[str, Any], expected: str
) -> None:
    assert expected in read_conclusion(text, **options)


def test_that_dividing_scores_makes_no_row_sharper_needs_no_seeds() -> None:
    """20 seeds show no direction: in 13 of them nobody would see a difference."""
    assert read_conclusion(temperature=0.01) == (
        "Dividing by √8 cannot make a query attend to fewer tokens, and in 13 of 20 seeds it "
        "hardly changes how many: 1.0 tokens (1.0–1.1 in 8 of 10 seeds) with scaling, 1.0 without."
    )
    cold_view = compare(TEXT, by="temperature", values=["1e-4", "1e-3"]).view(repeats=20)
    assert cold_view.headline == (
        "Over 20 seeds, as the temperature goes from 0.0001 to 0.001, the entropy of a row stays "
        "at 0 bits unscaled; scaled, it can only rise (0 and 1.3e-37 bits)"
    )
    assert cold_view.closing[-1] == (
        "Over 20 seeds, as the temperature goes from 0.0001 to 0.001, the spread of unscaled "
        "scores falls from 25715 to 2571 and the entropy of a row stays at 0 bits; scaled, the "
        "spread falls from 9091 to 909 and the entropy can only rise (0 and 1.3e-37 bits)."
    )


def test_of_scores_that_are_bent_or_added_to_no_theorem_is_told() -> None:
    assert "it is not clear whether scaling makes" in read_conclusion(
        temperature=0.01, soft_cap=5.0
    )
    assert compare(TEXT).base.uses_scores_alone
    assert not compare(TEXT, positions="alibi").base.uses_scores_alone


@given(st.lists(st.floats(-60, 60), min_size=1, max_size=9), st.floats(1, 30))
def test_dividing_scores_makes_no_row_sharper(scores: list[float], divisor: float) -> None:
    """The theorem itself, in float64 and without any code of attnviz."""
    before, after = (
        np.exp(np.array(each) - max(each)) for each in (scores, np.array(scores) / divisor)
    )
    bits = [
        -(row * np.log2(np.maximum(row, 1e-300))).sum()
        for row in (before / before.sum(), after / after.sum())
    ]

    assert bits[1] >= bits[0] - 1e-12


def test_only_one_way_in_which_tokens_can_be_chosen_among_is_named() -> None:
    sentence = read_conclusion("of", by="tokenizer", values=["words", "chars"])

    assert (
        sentence
        == "A query sees more than one token only in 'chars', so there is nothing to compare."
    )


def test_a_change_too_small_for_two_digits_is_told_in_its_own() -> None:
    """With one digit it could be -1e-02, although a sentence says that no weight moves by .01."""
    scores = torch.tensor([[[0.0, 0.0, 0.045], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    closing = compare_scores(scores, 8).view(repeats=1).closing

    assert closing == (
        "largest change from unscaled to scaled: 1 → 3: by -0.0065",
        "Scaling changes weights by less than .01, but a query attends to about as many tokens: "
        "3.00 tokens with and without scaling.",
    )


def test_weights_that_are_all_the_same_say_so() -> None:
    equal_scores = compare_scores(torch.full((1, 3, 3), 7.0), 4)
    peaked_scores = compare_scores(torch.tensor([[[100.0, 0, 0]]]), 4)

    assert "the scores of a row are all about the same" in conclusion(equal_scores)
    assert "one token gets nearly all the weight" in conclusion(peaked_scores)


def test_one_query_is_called_by_its_name() -> None:
    comparison = compare(TEXT)

    assert 'makes "am" (2) attend to ' in comparison.view(query="am").closing[-1]


TEXTS = ["Hello", "a a a", TEXT, "the cat sat on the mat"]


@pytest.mark.slow("seeds")
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=st.sampled_from(TEXTS),
    by=st.sampled_from([name for name in ASPECTS if name not in ("device", "text", "without")]),
    variant=st.sampled_from([*VARIANTS]),
    positions=st.sampled_from(POSITIONS),
    dim=st.sampled_from([1, 2, 4, 8]),
    temperature=st.sampled_from([None, 1e-12, 0.1, 3.0, 1e9]),
    query=st.sampled_from([None, None, "1"]),
    repeats=st.sampled_from([1, 3, 12]),
)
def test_no_sentence_says_that_a_number_becomes_itself(
    text: str,
    by: str,
    variant: str,
    positions: str,
    dim: int,
    temperature: float | None,
    query: str | None,
    repeats: int,
) -> None:
    options: dict[str, Any] = {"variant": variant, "dim": dim, "positions": positions}
    try:
        comparison = compare(text, by=by, temperature=temperature, **options)
        sentence = comparison.view(query=query, repeats=repeats).closing[-1]
    except AttnvizError:
        return

    assert "nan" not in sentence
    for before, after in re.findall(rf"from {NUMBER} to {NUMBER}", sentence):
        assert before != after.rstrip(".")
    for after, before in re.findall(rf"{NUMBER} tokens[^;:]*? instead of {NUMBER}", sentence):
        assert before.rstrip(".") != after
    for number, other in re.findall(rf"{NUMBER} and {NUMBER}(?: bits)?\)", sentence):
        assert number != other


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["causal", "scaled", "plain"]))
def test_a_claim_holds_in_nine_of_ten_of_its_seeds(seed: int, variant: str) -> None:
    comparison = compare(TEXT, variant=variant, seed=seed)
    repeats = repeat_over_seeds(comparison, 20)

    if "instead of" in conclusion(comparison, None, repeats):
        unscaled, scaled = repeats.by_measure["effective"]
        share_of_increases = float((scaled > unscaled).double().mean())
        assert max(share_of_increases, 1 - share_of_increases) >= 0.85


# Files


def test_what_was_measured_over_seeds_is_in_the_data(attnviz: Attnviz) -> None:
    document = json.loads(attnviz("compare", TEXT, "--seed", "5", "--json").out)

    over_seeds = document["over_seeds"]
    assert (over_seeds["seed"], over_seeds["repeats"], [*over_seeds["ways"]]) == (
        5,
        20,
        ["unscaled", "scaled"],
    )
    scaled = over_seeds["ways"]["scaled"]["effective"]
    assert scaled["low"] < scaled["median"] < scaled["high"]
    assert scaled["change"]["low"] > 0
    assert over_seeds["ways"]["unscaled"]["effective"]["change"]["median"] == 0


@pytest.mark.slow("seeds")
def test_curves_are_drawn_over_seeds_of_their_own(attnviz: Attnviz) -> None:
    document = json.loads(attnviz("compare", TEXT, "--by", "dim", "--json").out)

    assert document["over_seeds"] is None
    assert document["sweep"]["repeats"] == 20


def test_a_comparison_of_a_saved_trace_comes_to_the_same(attnviz: Attnviz, samples: Path) -> None:
    attnviz("run", TEXT, "-o", "a.npz")

    from_text = attnviz("compare", TEXT).out
    assert attnviz("compare", "--trace", "a.npz").out == from_text
    assert "Over 20 seeds" in from_text


def test_where_one_way_may_read_fewer_tokens_shares_are_held_against_each_other() -> None:
    """A query that sees fewer tokens attends to fewer, however evenly."""
    comparison = compare(TEXT, by="mask", values=["causal", "none"])

    assert "of the largest entropy" in comparison.view().closing[-1]
    assert "tokens" not in comparison.view().closing[-1]
    assert "tokens" in comparison.view(query="this").closing[-1]  # the last one sees all in both
