"""Tests of many heads at once: p values, the least effect they can show, and rates of accidents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.wings.corpora import head_tests
from attnviz.wings.corpora.head_tests import (
    LEVEL,
    MIN_TEST_OBSERVATIONS,
    bootstrap_test,
    sign_flip_test,
)
from benchmarks.error_rates import centred, found_share, power, sampler, swapping

RUNS = 200
MARGIN = 3 * np.sqrt(LEVEL * (1 - LEVEL) / RUNS)  # of a share that is LEVEL


def skewed_population(heads: int = 24) -> np.ndarray:
    """Changes of alike heads, as skewed as those of a real metric, with a mean of 0."""
    generator = np.random.default_rng(0)
    shared_noise = generator.normal(size=(2000, 1))
    return centred(np.exp(0.5 * shared_noise + 0.6 * generator.normal(size=(2000, heads))))


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_tests, "RANDOM_DRAWS", 500)


def test_p_values_of_samples_are_those_of_loops_over_them() -> None:
    observations = np.random.default_rng(1).normal([0.0, 0.9, 1.2, 0.4], 1.0, (9, 4))
    counts = head_tests._drawn_counts(range(1, 500), 9, 42)
    assert (counts.sum(1) == 9).all()
    largest_distances = []
    for times in counts.astype(int):
        sample = observations.repeat(times, axis=0)
        distances = abs(sample.mean(0) - observations.mean(0)) / sample.std(0)
        largest_distances.append(distances.max())
    expected_p_values = [
        (1 + sum(largest >= distance for largest in largest_distances)) / 500
        for distance in abs(observations.mean(0)) / observations.std(0)
    ]
    p_values = bootstrap_test(observations, np.ones(4, bool), 42).p_values
    assert p_values.tolist() == pytest.approx(expected_p_values)


@given(
    count=st.integers(1, 16),
    heads=st.integers(1, 5),
    seed=st.integers(0, 10**6),
    effect=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    is_bootstrap=st.booleans(),
)
def test_a_head_passes_if_and_only_if_its_mean_is_beyond_the_least_effect(
    count: int, heads: int, seed: int, effect: float, is_bootstrap: bool
) -> None:
    observations = np.random.default_rng(seed).normal(effect, 1.0, (count, heads))
    run = bootstrap_test if is_bootstrap else sign_flip_test
    test = run(observations, np.ones(heads, bool), 42)
    if count < MIN_TEST_OBSERVATIONS:
        if not is_bootstrap:
            assert test.least_effect == np.inf
        return
    distances = abs(observations.mean(0)) / observations.std(0, ddof=1)
    assert (distances > test.least_effect).tolist() == (test.p_values <= LEVEL).tolist()


def test_equal_changes_are_an_effect_and_no_changes_are_none() -> None:
    observations = np.tile([[0.5, 0.0, -1e-3]], (6, 1))
    test = bootstrap_test(observations, np.array([True, False, True]), 42)
    assert (test.p_values <= LEVEL).tolist() == [True, False, True]
    assert np.isnan(test.p_values[1])
    rare_changes = np.array([[0.0], [0.0], [0.0], [0.0], [0.0], [1.0]])
    assert bootstrap_test(rare_changes, np.ones(1, bool), 42).p_values[0] > LEVEL


@pytest.mark.slow("draws")
@pytest.mark.parametrize("count", [8, 20])
def test_samples_find_no_more_heads_by_accident_than_the_level_and_flips_of_signs_do(
    count: int,
) -> None:
    draw = sampler(skewed_population())
    assert found_share(bootstrap_test, draw, count, RUNS) <= LEVEL + MARGIN
    assert found_share(sign_flip_test, draw, count, RUNS) > 2 * LEVEL


@pytest.mark.slow("draws")
def test_flips_of_signs_hold_where_two_sentences_can_change_their_roles() -> None:
    draw = swapping(skewed_population()[:12])
    assert found_share(sign_flip_test, draw, 12, RUNS) <= LEVEL + MARGIN


@pytest.mark.slow("draws")
def test_an_effect_of_two_standard_deviations_is_found_in_20_texts() -> None:
    assert power(bootstrap_test, skewed_population(), 20, 100, 2.0) > 0.7
