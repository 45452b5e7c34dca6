"""Means of observations from sums: intervals hold the true mean as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from attnviz.wings.corpora.head_tests import bootstrap_test
from attnviz.wings.corpora.mean_estimates import (
    CorpusEstimates,
    MeanEstimates,
    RepeatedTexts,
    mean_intervals,
)

SAMPLES = 6_000
# The names of NumPy's distributions, their true means, and the least and largest coverage in %.
DISTRIBUTIONS = {
    "normal": (0.0, (94, 96)),
    "laplace": (0.0, (92, 97)),
    "exponential": (1.0, (91, 96)),
    "lognormal": (np.exp(0.5), (87.5, 94)),
}


@pytest.mark.parametrize("count", [6, 12, 40])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_an_interval_holds_the_true_mean_about_as_often_as_it_says(name: str, count: int) -> None:
    true_mean, (least, most) = DISTRIBUTIONS[name]
    draw = getattr(np.random.default_rng(0), name)
    low, high = mean_intervals(draw(size=(count, SAMPLES)))
    assert least < 100 * ((low <= true_mean) & (true_mean <= high)).mean() < most


def test_the_interval_of_symmetric_observations_is_that_of_students_t() -> None:
    observations = np.array([-3.0, -2, -1.5, -1, -0.5, -0.25, 0.25, 0.5, 1, 1.5, 2, 3])[:, None] + 7
    (low,), (high,) = mean_intervals(observations)
    half = 2.200985 * observations.std(ddof=1) / np.sqrt(12)  # t of 11 degrees of freedom
    assert (low, high) == pytest.approx((7 - half, 7 + half), abs=1e-4)


def test_sums_over_batches_are_those_of_all_observations_however_far_from_0() -> None:
    generator = np.random.default_rng(1)
    observations = generator.exponential(1e-3, (50, 2, 3)) + 1e3
    observations[:4, 0, 0] = observations[2, 1, 1] = np.nan
    observations[:, 1, 2] = np.nan
    estimates = MeanEstimates(2, 3)
    for batch in np.split(observations, [1, 7, 30]):
        estimates.add(batch)
    for place in np.ndindex(2, 3):
        numbers = observations[:, place[0], place[1]]
        numbers = numbers[~np.isnan(numbers)]
        assert estimates.counts[place] == len(numbers)
        if not len(numbers):
            assert np.isnan(
                [each[place] for each in (estimates.means(), *estimates.intervals())]
            ).all()
            continue
        assert estimates.means()[place] == pytest.approx(numbers.mean(), abs=1e-12)
        assert estimates.spreads()[place] == pytest.approx(numbers.std(ddof=1), rel=1e-6)
        ends = [end[place] for end in estimates.intervals()]
        assert ends == pytest.approx(mean_intervals(numbers[:, None] - 1e3)[:, 0] + 1e3, abs=1e-9)


def test_few_observations_have_no_interval_and_equal_ones_one_without_a_width() -> None:
    assert np.isnan(mean_intervals(np.zeros((5, 2)))).all()
    assert mean_intervals(np.full((6, 2), 0.1)).tolist() == [[0.1, 0.1]] * 2


def test_an_interval_holds_its_mean_and_turns_with_the_signs() -> None:
    observations = np.random.default_rng(2).lognormal(sigma=3, size=(6, 1000))
    low, high = mean_intervals(observations)
    assert ((low < observations.mean(0)) & (observations.mean(0) < high)).all()
    np.testing.assert_allclose(mean_intervals(-observations), [-high, -low])


def test_repeated_texts_are_counted_by_their_tokens() -> None:
    texts = RepeatedTexts()
    for token_ids in ((1, 2), (3,), (1, 2), (1, 2), (2, 1)):
        texts.add(token_ids)
    assert texts.count == 2
    assert RepeatedTexts().count == 0


def test_sums_of_neighbours_are_tested_as_their_texts_are() -> None:
    """A corpus of very many texts is tested by sums over a few: an effect stays one."""
    changes = np.random.default_rng(3).normal([0.0, 0.5], 1.0, (400, 2))
    both_columns = np.ones(2, bool)
    p_values_of_texts, p_values_of_sums = (
        bootstrap_test(rows, both_columns, 42).p_values
        for rows in (changes, changes.reshape(50, 8, 2).sum(1))
    )
    assert (p_values_of_texts[1], p_values_of_sums[1]) == (1e-4, 1e-4)
    assert min(p_values_of_texts[0], p_values_of_sums[0]) > 0.05


def test_the_ends_of_an_interval_solve_halls_equation() -> None:
    """Hall's polynomial of (mean - end) / spread, times √n, is Student's t at both ends."""
    observations = np.array([0.1, 0.2, 0.2, 0.4, 0.5, 0.7, 0.9, 1.2, 1.9, 2.5, 3.5, 7.0])
    deviations = observations - observations.mean()
    skewness = (deviations**3).mean() / (deviations**2).mean() ** 1.5
    for end, sign in zip(mean_intervals(observations[:, None])[:, 0], (1, -1), strict=True):
        ratio = (observations.mean() - end) / observations.std(ddof=1)
        polynomial = ratio + skewness * ratio**2 / 3 + skewness**2 * ratio**3 / 27
        solution = np.sqrt(12) * (polynomial + skewness / 72)
        assert solution == pytest.approx(sign * 2.200985, abs=1e-4)


@given(
    numpy_strategies.arrays(
        np.float64,
        st.tuples(st.integers(6, 12), st.integers(1, 3)),
        elements=st.floats(-1e3, 1e3, width=32),
    )
)
def test_an_interval_goes_no_further_than_what_was_observed(observations: np.ndarray) -> None:
    low, high = mean_intervals(observations)
    rounding = 1e-9 * (1 + abs(observations).max(0))
    assert (observations.min(0) <= low + rounding).all()
    assert (low <= observations.mean(0) + rounding).all()
    assert (observations.mean(0) <= high + rounding).all()
    assert (high <= observations.max(0) + rounding).all()


@pytest.mark.parametrize("correlation", [0.1, 0.5])
@pytest.mark.parametrize("most_lines", [20, 1])
def test_intervals_over_documents_hold_the_mean_although_their_lines_are_alike(
    correlation: float, most_lines: int
) -> None:
    generator = np.random.default_rng(7)
    sizes = generator.integers(1, most_lines + 1, 12)
    documents = np.arange(12).repeat(sizes)
    shared_noise = generator.normal(size=(12, SAMPLES))[documents]
    noise = generator.normal(size=(len(documents), SAMPLES))
    lines = np.sqrt(correlation) * shared_noise + np.sqrt(1 - correlation) * noise
    estimates = CorpusEstimates(SAMPLES)
    estimates.add(lines, documents.tolist())
    low, high = estimates.units.intervals()
    assert 94 < 100 * ((low <= 0) & (high >= 0)).mean() < 96
    low, high = mean_intervals(lines)
    coverage = 100 * ((low <= 0) & (high >= 0)).mean()
    assert coverage < 85 if most_lines > 1 else coverage > 94


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.integers(0, 10**6))
def test_a_document_counts_once_whatever_the_order_and_the_batches(
    documents: list[int], seed: int
) -> None:
    lines = np.random.default_rng(seed).normal(size=(len(documents), 2))
    lines[0, 0] = np.nan
    estimates = CorpusEstimates(2)
    for document in sorted(set(documents)):  # those before are closed, as a reader closes them
        estimates.close_documents(document)
        own = [place for place, each in enumerate(documents) if each == document]
        for half in (own[::2], own[1::2]):
            if half:
                estimates.add(lines[half], [document] * len(half))
    rows = [lines[np.array(documents) == document] for document in sorted(set(documents))]
    if len(rows) == 1:
        rows = [line[None] for line in lines]  # of one document, each line is an observation
    for column in range(2):
        known = [row[~np.isnan(row[:, column]), column] for row in rows]
        means = [each.mean() for each in known if len(each)]
        expected = np.mean(means) if means else np.nan
        assert estimates.units.means()[column] == pytest.approx(expected, nan_ok=True)
        assert estimates.units.counts[column] == len(means)
