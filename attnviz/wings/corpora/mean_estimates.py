"""Means for many heads from sums, with their spreads and 95 % intervals.

An interval is that of Student's t, with Hall's correction for skewness (Hall 1992, On the removal
of skewness by transformation). Percentiles of resampled means would be too narrow for few
observations: of samples of 6 they hold the true mean in 85 of 100 cases, this interval in 95
if the observations have a normal distribution, and in 89 if they are as skewed as a lognormal one.
Only three sums are needed for each mean, so that there may be any number of observations.

Lines of one document are alike, so that they are no independent observations: of 10 documents of 20
lines, intervals over lines hold the true mean in 45 to 75 of 100 cases. So if a corpus has several
documents, each of them is one observation: the mean over its lines.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Hashable, Sequence

import numpy as np
from jaxtyping import Float

MIN_INTERVAL_OBSERVATIONS = 6
NORMAL_QUANTILE = 1.959963984540054  # .975
LEAST_SKEWNESS = 1e-6  # below, the correction would be lost in rounding
MAX_COMPARED_TEXTS = 1_000_000  # 8 bytes each


class MeanEstimates:
    """Sums over observations, from which means, spreads and intervals follow."""

    def __init__(self, *shape: int) -> None:
        self.counts = np.zeros(shape)
        self._first = np.full(shape, np.nan)  # differences from it lose fewer digits in sums
        self._sums = np.zeros((3, *shape))  # of these differences, their squares, their cubes
        self._range = np.full((2, *shape), np.nan)  # the least and the largest observation

    def add(self, observations: Float[np.ndarray, "observation *shape"]) -> None:
        """Add observations; what is not finite counts as none."""
        is_known = np.isfinite(observations)
        first = np.take_along_axis(observations, is_known.argmax(0)[None], 0)[0]
        is_new = np.isnan(self._first) & is_known.any(0)
        self._first = np.where(is_new, first, self._first)
        differences = np.where(is_known, observations - self._first, 0)
        self.counts += is_known.sum(0)
        powers = differences
        for sums in self._sums:
            sums += powers.sum(0)
            powers = powers * differences
        known = np.where(is_known, observations, np.nan)
        low, high = self._range
        ends = np.fmin(low, np.fmin.reduce(known)), np.fmax(high, np.fmax.reduce(known))
        self._range = np.stack(ends)

    def means(self) -> Float[np.ndarray, "*shape"]:
        """Return the mean of each; NaN without observations."""
        return np.asarray(self._first + self._sums[0] / np.maximum(self.counts, 1))

    def spreads(self) -> Float[np.ndarray, "*shape"]:
        """Return the standard deviation of each; NaN for fewer than two observations."""
        counts = np.where(self.counts > 1, self.counts, np.nan)
        squares = self._sums[1] - self._sums[0] ** 2 / counts
        return np.asarray(np.sqrt(np.maximum(squares, 0) / (counts - 1)))

    def intervals(self) -> Float[np.ndarray, "2 *shape"]:
        """Return the ends of the 95 % interval of each mean; NaN for fewer than
        `MIN_INTERVAL_OBSERVATIONS` observations. None goes beyond what was observed, so that it has
        the limits that the observations have; if all are equal, both ends are the mean."""
        counts = np.where(self.counts < MIN_INTERVAL_OBSERVATIONS, np.nan, self.counts)
        root, skewness = np.sqrt(counts), self._skewness(counts)
        signs = np.array([1, -1]).reshape(2, *[1] * root.ndim)
        steps = _student_quantile(counts - 1) / root * signs
        inner = 1 + skewness * (steps - skewness / (6 * counts))
        ends: Float[np.ndarray, "2 *shape"]
        ends = self.means() - self.spreads() * 3 / skewness * (np.cbrt(inner) - 1)
        return np.asarray(np.clip(ends, *self._range))

    def _skewness(self, counts: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return the skewness of each, at least `LEAST_SKEWNESS` in size."""
        first, second, third = self._sums / counts
        cubes = third - 3 * first * second + 2 * first**3
        squares = np.maximum(second - first**2, 0)
        skewness = cubes / np.where(squares > 0, squares, 1) ** 1.5
        return np.where(abs(skewness) < LEAST_SKEWNESS, LEAST_SKEWNESS, skewness)


class CorpusEstimates:
    """Means over the lines of a corpus, or if it has several documents, of which each is the mean
    over its lines, over documents."""

    def __init__(self, *shape: int) -> None:
        self.of_lines, self._of_documents = MeanEstimates(*shape), MeanEstimates(*shape)
        self._open: dict[int, MeanEstimates] = {}  # documents to which lines may be added
        self._closed = 0
        self._shape = shape

    @property
    def documents(self) -> int:
        return self._closed + len(self._open)

    def add(self, lines: Float[np.ndarray, "line *shape"], documents: Sequence[int] = ()) -> None:
        """Add lines, each with the number of its document, if any; what is not finite counts as
        none."""
        self.of_lines.add(lines)
        for document in set(documents):
            own = self._open.setdefault(document, MeanEstimates(*self._shape))
            own.add(lines[np.array(documents) == document])

    def close_documents(self, before: int) -> list[Float[np.ndarray, "*shape"]]:
        """Add up the documents with lower numbers, to which no lines will be added; return their
        means."""
        numbers = [number for number in self._open if number < before]
        means = [self._open.pop(number).means() for number in numbers]
        for each in means:
            self._of_documents.add(each[None])
        self._closed += len(means)
        return means

    @property
    def units(self) -> MeanEstimates:
        """The estimates of independent observations: documents, if there are several, or lines."""
        if self.documents < 2:
            return self.of_lines
        self.close_documents(sys.maxsize)
        return self._of_documents


def _student_quantile(freedom: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the .975 quantile of Student's t, to .001 from 4 degrees of freedom on (the series of
    Abramowitz and Stegun, 26.7.5).

    >>> _student_quantile(np.array([4.0, 11, 1000])).round(3).tolist()
    [2.776, 2.201, 1.962]
    """
    z = NORMAL_QUANTILE
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    quantiles = np.full_like(freedom, z)
    for power, term in enumerate(terms, 1):
        quantiles += term / freedom**power
    return quantiles


def mean_intervals(
    observations: Float[np.ndarray, "observation head"],
) -> Float[np.ndarray, "2 head"]:
    """Return the ends of the 95 % interval of each head's mean, as `MeanEstimates` does."""
    estimates = MeanEstimates(observations.shape[1])
    estimates.add(observations)
    return estimates.intervals()


class RepeatedTexts:
    """Counts texts that are the same to a model as an earlier one, among the first million."""

    def __init__(self) -> None:
        self._hashes = array("q")  # of 8 bytes

    def add(self, token_ids: Hashable) -> None:
        if len(self._hashes) < MAX_COMPARED_TEXTS:
            self._hashes.append(hash(token_ids))

    @property
    def count(self) -> int:
        """The number of texts that repeat an earlier one."""
        return len(self._hashes) - len(np.unique(np.array(self._hashes)))
