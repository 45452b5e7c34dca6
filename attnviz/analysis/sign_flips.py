"""Tests and intervals for the mean of several observations, for many heads at once.

The test is for a mean of 0. If a head does not follow the meaning, each of its observations is as
likely to have the opposite sign; so all signs are flipped in every way that is possible, and
the consistency of a head (the mean over the root mean square, which grows with the t statistic and
is 1 if all its observations are equal) is compared with what flipped signs give. An observation is flipped for
all heads at once, and each head is compared with the *most* consistent of all heads: so the chance
to find even one head by accident is at most the level of the test, however many heads there are and
however much alike (the maximum statistic of Westfall and Young 1993; Nichols and Holmes 2002). What
is assumed: observations do not depend on each other, and their signs are arbitrary without an
effect.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from attnviz.vectors.random_numbers import draw_uniform

MAX_EXACT_OBSERVATIONS = 14  # with more, flips are drawn at random
RANDOM_FLIPS = 10_000
RESAMPLES = 2_000  # for intervals
INTERVAL = (2.5, 97.5)  # percentiles of the resamples
MIN_INTERVAL_OBSERVATIONS = 5
SIGN_ROUNDING = 1e-9  # of two consistencies that are equal but for rounding
FLIPS_AT_ONCE = 1024
Observations = Float[np.ndarray, "observation head"]


def sign_flip_p_values(
    observations: Observations, is_tested: Bool[np.ndarray, "head"], seed: int
) -> Float[np.ndarray, "head"]:
    """Return a two-sided p value for each head, corrected for the number of tested heads; NaN for
    heads that are not tested.

    `is_tested` may depend on the sizes of observations, but not on their signs. All flips are made
    of up to `MAX_EXACT_OBSERVATIONS` observations, else `RANDOM_FLIPS`, one of which is no flip.
    """
    result = np.full(observations.shape[1], np.nan)
    if not is_tested.any():
        return result
    tested = observations[:, is_tested]
    sizes = np.sqrt((tested**2).mean(0))
    scaled = tested / np.where(sizes > 0, sizes, 1) / len(tested)  # sums: 1 if consistent
    signs = _sign_flips(len(tested), seed)
    starts = range(0, len(signs), FLIPS_AT_ONCE)
    bands = [signs[start : start + FLIPS_AT_ONCE] @ scaled for start in starts]
    most_consistent = np.concatenate([abs(band).max(1) for band in bands])
    result[is_tested] = [
        (most_consistent >= value - SIGN_ROUNDING).mean() for value in abs(scaled.sum(0))
    ]
    return result


def _sign_flips(count: int, seed: int) -> Float[np.ndarray, "flip observation"]:
    """Return signs for each flip, the first of which flips nothing.

    Where all flips are made, one of each two opposite ones is left out: both have one strength.
    """
    if count > MAX_EXACT_OBSERVATIONS:
        draws = draw_uniform((seed,), "sign flips", range(RANDOM_FLIPS), count)[0].numpy()
        signs = np.where(draws < 0.5, -1.0, 1.0)
        signs[0] = 1
        return signs
    numbers = np.arange(2 ** (count - 1))[:, None]
    return 1.0 - 2.0 * (numbers >> np.arange(count) & 1)


def smallest_p_value(count: int) -> float:
    """Return the smallest p value that so many observations can have.

    >>> smallest_p_value(5), smallest_p_value(6)
    (0.0625, 0.03125)
    """
    return max(2.0 ** (1 - count), 1 / RANDOM_FLIPS)


def bootstrap_intervals(observations: Observations, seed: int) -> Float[np.ndarray, "2 head"]:
    """Return the ends of the 95 % interval of each head's mean: percentiles of the means of
    `RESAMPLES` samples that are drawn from the observations with replacement.

    NaN for fewer than `MIN_INTERVAL_OBSERVATIONS` observations.
    """
    count, heads = observations.shape
    if count < MIN_INTERVAL_OBSERVATIONS:
        return np.full((2, heads), np.nan)
    draws = draw_uniform((seed,), "bootstrap", range(RESAMPLES), count)[0].numpy()
    chosen = (draws * count).astype(int)
    times = (chosen[:, :, None] == np.arange(count)).sum(1) / count  # resample observation
    ends: Float[np.ndarray, "2 head"] = np.percentile(times @ observations, INTERVAL, axis=0)
    return ends
