"""A test of whether the mean of several observations is 0, for many heads at once.

If a head does not follow the meaning, or changes nothing, each of its observations is as
likely to have the opposite sign; so all signs are flipped in every way that is possible, and the
consistency of a head (the mean over the root mean square, which grows with the t statistic, and is
1 if all its observations are equal) is compared with what flipped signs give. An observation is
flipped for all heads at once, and each head is compared with the *most* consistent of all heads:
so the chance to find even one head by accident is at most the level of the test, however many heads
there are and however much alike (the maximum statistic: Westfall and Young 1993, Nichols and Holmes
2002). What is assumed: observations do not depend on each other, and without an effect each is as
likely to be above 0 as below it by the same amount.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from attnviz.vectors.random_numbers import draw_uniform

LEVEL = 0.05  # of the test: the chance to find any head although none has an effect
MAX_EXACT_OBSERVATIONS = 14  # with more, flips are drawn at random
RANDOM_FLIPS = 10_000
SIGN_ROUNDING = 1e-9  # of two consistencies that are equal but for rounding
BAND = 1024  # flips at once
Observations = Float[np.ndarray, "observation head"]


def sign_flip_p_values(
    observations: Observations,
    is_tested: Bool[np.ndarray, "head"],
    seed: int,
    *,
    corrected: bool = True,
) -> Float[np.ndarray, "head"]:
    """Return a two-sided p value for each head, corrected for the number of tested heads; NaN for
    heads that are not tested. `corrected=False`: each head is tested as if it were the only one.

    `is_tested` may depend on the sizes of observations, but not on their signs. All flips are made
    of up to `MAX_EXACT_OBSERVATIONS` observations, else `RANDOM_FLIPS`, one of which is no flip.
    """
    result = np.full(observations.shape[1], np.nan)
    if not is_tested.any():
        return result
    tested = observations[:, is_tested]
    sizes = np.sqrt((tested**2).mean(0))
    scaled = tested / np.where(sizes > 0, sizes, 1) / len(tested)  # sums: 1 if consistent
    is_exact = len(tested) <= MAX_EXACT_OBSERVATIONS
    flips = range(2 ** (len(tested) - 1) if is_exact else RANDOM_FLIPS)
    bands = [
        _sign_flips(flips[start : start + BAND], len(tested), None if is_exact else seed) @ scaled
        for start in flips[::BAND]
    ]
    flipped = abs(np.concatenate(bands))
    most_consistent = flipped.max(1, keepdims=True) if corrected else flipped
    result[is_tested] = (most_consistent >= abs(scaled.sum(0)) - SIGN_ROUNDING).mean(0)
    return result


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
    return (
        f"all {2**count:,} flips"
        if count <= MAX_EXACT_OBSERVATIONS
        else (f"{RANDOM_FLIPS:,} random flips")
    )


def smallest_p_value(count: int) -> float:
    """Return the smallest p value that so many observations can have.

    >>> smallest_p_value(5), smallest_p_value(6)
    (0.0625, 0.03125)
    """
    return max(2.0 ** (1 - count), 1 / RANDOM_FLIPS)


MIN_TEST_OBSERVATIONS = next(count for count in range(1, 64) if smallest_p_value(count) <= LEVEL)
