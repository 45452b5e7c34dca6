"""Two tests of whether the mean of several observations is 0, for many heads at once.

Both compare each head with the head that looks most like an effect among *all* heads, in samples in
which no head has one: so the chance to find even one head by accident is that of the test, however
many heads there are and however much alike (the maximum statistic: Westfall and Young 1993, Nichols
and Holmes 2002). Observations must not depend on each other.

`sign_flip_test` flips the signs of the observations, and compares the consistency of heads: the
mean over the root mean square, which grows with the t statistic, and is 1 if all observations of a
head are equal. The signs of an observation are flipped for all heads at once. It holds exactly
where an observation of a head without an effect is as likely to be above 0 as below it by the same
amount, as where two sentences can change their roles. It is no test of a mean: skewed observations
whose mean is 0 have more of one sign.

`bootstrap_test` compares t statistics with those of samples that are drawn from the observations
themselves, which keep their skewness, around their own mean (Hall and Wilson 1991). It tests the
mean of observations of any distribution, approximately, and finds less in few of them:
benchmarks/error_rates.py simulates how often it finds a head by accident.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np
from jaxtyping import Bool, Float

from attnviz.vectors.random_numbers import draw_uniform

LEVEL = 0.05  # of both tests: the chance to find any head although none has an effect
MAX_EXACT_OBSERVATIONS = 14  # with more, flips are drawn at random
RANDOM_DRAWS = 10_000  # of flips, or of samples
ROUNDING = 1e-9  # of two statistics that are equal but for rounding
BAND = 1024  # flips or samples at once
Observations = Float[np.ndarray, "observation head"]


@dataclass(frozen=True, eq=False)
class HeadTest:
    """The result of a test."""

    p_values: Float[np.ndarray, "head"]  # two-sided, for all tested heads at once; NaN: not tested
    least_effect: float
    """How far from 0 a mean must be to have a p value of `LEVEL`, in standard deviations of the
    observations; infinite if none has, NaN if no head is tested."""


def sign_flip_test(
    observations: Observations,
    is_tested: Bool[np.ndarray, "head"],
    seed: int,
    *,
    corrected: bool = True,
) -> HeadTest:
    """Test each head by flips of signs. `corrected=False`: as if it were the only one.

    `is_tested` may depend on the sizes of observations, but not on their signs. All flips are made
    of up to `MAX_EXACT_OBSERVATIONS` observations, else `RANDOM_DRAWS`, one of which is no flip.
    """
    p_values, count = np.full(observations.shape[1], np.nan), len(observations)
    if not is_tested.any():
        return HeadTest(p_values, nan)
    tested = observations[:, is_tested]
    sizes = np.sqrt((tested**2).mean(0))
    scaled = tested / np.where(sizes > 0, sizes, 1) / count  # sums: 1 if consistent
    is_exact = count <= MAX_EXACT_OBSERVATIONS
    flips = range(2 ** (count - 1) if is_exact else RANDOM_DRAWS)
    bands = [
        _sign_flips(flips[start : start + BAND], count, None if is_exact else seed) @ scaled
        for start in flips[::BAND]
    ]
    flipped = abs(np.concatenate(bands))
    most_consistent = flipped.max(1)
    compared = most_consistent[:, None] if corrected else flipped
    p_values[is_tested] = (compared >= abs(scaled.sum(0)) - ROUNDING).mean(0)
    limit = _least_passing(most_consistent[1:])  # flip 0 is the observations themselves
    least = limit / sqrt(1 - limit**2) if limit < 1 - ROUNDING else inf
    return HeadTest(p_values, least * sqrt(max(count - 1, 1) / count))


def bootstrap_test(
    observations: Observations, is_tested: Bool[np.ndarray, "head"], seed: int
) -> HeadTest:
    """Test each head by samples that are drawn from the observations with replacement."""
    p_values, count = np.full(observations.shape[1], np.nan), len(observations)
    if not is_tested.any():
        return HeadTest(p_values, nan)
    tested = observations[:, is_tested]
    means, spreads = tested.mean(0), tested.std(0)
    centred = (tested - means) / np.where(spreads > 0, spreads, 1)
    draws = range(1, RANDOM_DRAWS)
    bands = [
        _largest_distances(centred, _drawn_counts(draws[start : start + BAND], count, seed))
        for start in range(0, len(draws), BAND)
    ]
    largest = np.concatenate(bands)
    distances = np.divide(abs(means), spreads, out=np.full(len(means), inf), where=spreads > 0)
    reached = (largest[:, None] >= distances - ROUNDING).sum(0)
    p_values[is_tested] = (reached + 1) / RANDOM_DRAWS
    return HeadTest(p_values, _least_passing(largest) * sqrt(max(count - 1, 1) / count))


def _least_passing(statistics: Float[np.ndarray, "sample"]) -> float:
    """Return the statistic that a head must exceed for a p value of `LEVEL` or less, from those of
    samples without an effect; infinite if there are too few for one."""
    reaching = int(LEVEL * (len(statistics) + 1)) - 1  # the head reaches its own
    return float(np.sort(statistics)[::-1][reaching]) if reaching >= 0 else inf


def _largest_distances(
    centred: Observations, counts: Float[np.ndarray, "sample observation"]
) -> Float[np.ndarray, "sample"]:
    """Return for each sample the largest distance of a head's mean from that of all observations,
    in standard deviations of the sample; infinite if all of a sample is the same."""
    means = counts @ centred / len(centred)
    variances = counts @ centred**2 / len(centred) - means**2
    has_spread = variances > ROUNDING
    spreads = np.sqrt(np.where(has_spread, variances, 1))
    outside = np.where(abs(means) > ROUNDING, inf, 0.0)
    return np.asarray(np.where(has_spread, abs(means) / spreads, outside).max(1))


def _drawn_counts(draws: range, count: int, seed: int) -> Float[np.ndarray, "sample observation"]:
    """Return how often each of `count` observations is in each of the numbered samples."""
    places = (draw_uniform((seed,), "bootstrap", draws, count)[0].numpy() * count).astype(int)
    places += count * np.arange(len(draws))[:, None]
    counts = np.bincount(places.ravel(), minlength=len(draws) * count)
    return counts.reshape(len(draws), count).astype(float)


def _sign_flips(
    flips: range, count: int, seed: int | None
) -> Float[np.ndarray, "flip observation"]:
    """Return the signs of the numbered flips; number 0 flips nothing.

    Without a seed these are the binary digits of the numbers. One of each two opposite flips, which
    have the same strength, has a number below half of all flips.
    """
    if seed is None:
        return 1.0 - 2.0 * (np.array(flips)[:, None] >> np.arange(count) & 1)
    signs = np.where(draw_uniform((seed,), "sign flips", flips, count)[0].numpy() < 0.5, -1.0, 1.0)
    signs[np.array(flips) == 0] = 1
    return signs


def flips_text(count: int) -> str:
    """Return by how many flips of so many observations the test is made, in words.

    >>> flips_text(3), flips_text(20)
    ('all 8 flips', '10,000 random flips')
    """
    is_exact = count <= MAX_EXACT_OBSERVATIONS
    return f"all {2**count:,} flips" if is_exact else f"{RANDOM_DRAWS:,} random flips"


def smallest_p_value(count: int) -> float:
    """Return the smallest p value that flips of so many observations can have.

    >>> smallest_p_value(5), smallest_p_value(6)
    (0.0625, 0.03125)
    """
    return max(2.0 ** (1 - count), 1 / RANDOM_DRAWS)


MIN_TEST_OBSERVATIONS = next(count for count in range(1, 64) if smallest_p_value(count) <= LEVEL)
