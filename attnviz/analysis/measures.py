"""Measures of weights: how sharp rows are, how far apart two rows or vectors are.

A row is one query's weights. A row that does not sum to 1 (with some mistakes) is normalized before
it is measured; `row_sum` holds its real sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import cosine_similarity

from attnviz.wording.words import with_summary

Weights = Float[Tensor, "head query key"]
HeadRows = Float[Tensor, "head query"]
Vectors = Float[Tensor, "token dim"]
MIN_READ_WEIGHT = 1e-9  # smaller weights count as 0
QUANTILE_BAND = (0.1, 0.9)
QUANTILES_BY_NAME = {"low": QUANTILE_BAND[0], "median": 0.5, "high": QUANTILE_BAND[1]}


def band_quantiles(numbers: Float[Tensor, "seed"]) -> tuple[float, float, float]:
    """Return the 10 %, 50 % and 90 % quantiles of the numbers of all seeds."""
    quantiles = [QUANTILE_BAND[0], 0.5, QUANTILE_BAND[1]]
    low, middle, high = np.quantile(numbers.double().numpy(), quantiles).tolist()
    return low, middle, high


@with_summary
@dataclass(frozen=True, eq=False)
class Measures:
    """One number per measure, head and query; NaN where a measure is not defined."""

    entropy: HeadRows  # in bits
    share: HeadRows  # of the largest entropy that the visible keys allow
    effective: HeadRows  # 2 ** entropy: so many tokens with equal weights have the same entropy
    peak: HeadRows  # the largest weight
    gradient: HeadRows  # the norm of the softmax's Jacobian; near 0 the softmax has saturated
    row_sum: HeadRows
    row_error: HeadRows  # |row_sum − 1|; a row without visible keys may also sum to 0
    hidden: HeadRows  # weight on masked keys
    divergence: HeadRows  # from the reference, in bits

    def means(self) -> dict[str, float]:
        """Return the mean of each measure over heads and queries, leaving out NaN."""
        return {name: float(rows.nanmean()) for name, rows in vars(self).items()}


@dataclass(frozen=True)
class LargestChange:
    """The weight that differs most from the reference's weight for the same head, query and key."""

    head: int | None  # None: the mean of the heads
    query: int
    key: int
    before: float
    after: float


def measure_weights(
    weights: Weights, visible: Bool[Tensor, "*head query key"], reference: Weights | None
) -> Measures:
    """Return all measures of these weights, computed in float64.

    `reference`: the weights that `divergence` is measured from; without them it is NaN. A row that
    sees no key and has no weight gets NaN for every measure of its distribution.
    """
    weights = weights.double()
    rows, sums, has_keys = normalize_rows(weights), weights.sum(-1), visible.any(-1)
    reads_nothing = (sums == 0) & ~has_keys  # such a row has no entropy
    bits = entropy(rows).masked_fill(reads_nothing, torch.nan)
    error, apart = (sums - 1).abs(), torch.full_like(bits, torch.nan)
    if reference is not None:
        apart = divergence(rows, normalize_rows(reference.double()))
    return Measures(
        entropy=bits,
        share=share_of_largest(bits, visible | (rows > MIN_READ_WEIGHT)),
        effective=2**bits,
        peak=weights.amax(-1).masked_fill(reads_nothing, torch.nan),
        gradient=softmax_gradient_size(rows).masked_fill(reads_nothing, torch.nan),
        row_sum=sums,
        # A weight that a mistake gives to a row without visible keys is counted in `hidden`.
        row_error=torch.where(has_keys, error, torch.minimum(error, sums.abs())),
        hidden=weights.masked_fill(visible, 0).sum(-1),
        divergence=apart.masked_fill(reads_nothing, torch.nan),
    )


def normalize_rows(weights: Weights) -> Weights:
    """Return the weights with each row divided by its sum; rows of zeros stay zeros."""
    total = weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return weights / total


def entropy(rows: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """Return −Σ p log₂ p of each row: 0 bits for one token, 1 for two with equal weights, 2 for
    four. Rows must sum to 1."""
    nats: Tensor = -torch.special.xlogy(rows, rows).sum(-1)
    return nats / log(2)


def share_of_largest(bits: HeadRows, visible: Bool[Tensor, "*head query key"]) -> HeadRows:
    """Return entropy divided by log₂ of the number of visible keys; NaN with fewer than two
    keys."""
    largest = visible.sum(-1).double().log2()
    return bits / largest.masked_fill(largest <= 0, torch.nan)


def softmax_gradient_size(rows: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """Return the Frobenius norm of the softmax's Jacobian, diag(p) − p pᵀ, without forming the
    matrix. The squared diagonal is p times the sum of the other weights, and the other entries are
    products of two weights: sums of positive numbers stay exact where a row has saturated and 1 − p
    would lose its digits."""
    squares, other_sums = rows.square(), _sums_before(rows) + _sums_before(rows.flip(-1)).flip(-1)
    size: Tensor = (squares * (other_sums.square() + 2 * _sums_before(squares))).sum(-1)
    return size.sqrt()


def _sums_before(numbers: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch key"]:
    """Return for each number the sum of the numbers before it in its row: 0 for the first."""
    return torch.nn.functional.pad(numbers.cumsum(-1)[..., :-1], (1, 0))


def divergence(
    rows: Float[Tensor, "*batch key"], other_rows: Float[Tensor, "*batch key"]
) -> Float[Tensor, "*batch"]:
    """Return the Jensen-Shannon divergence of each pair of rows, which must sum to 1.

    It is 0 bits for equal rows, and 1 for rows that give weight to no token in common.
    """
    return partial_divergence(rows, other_rows).clamp(0, 1)


def partial_divergence(
    rows: Float[Tensor, "*batch key"], other_rows: Float[Tensor, "*batch key"]
) -> Float[Tensor, "*batch"]:
    """Return what some of the keys add to the divergence of each pair of rows."""
    return entropy((rows + other_rows) / 2) - (entropy(rows) + entropy(other_rows)) / 2


def vector_changes(
    before: Vectors, after: Vectors
) -> tuple[Float[Tensor, "token"], Float[Tensor, "token"]]:
    """Return for each token the relative change |after − before| / |before|, and the cosine between
    the vectors before and after."""
    old, new = before.double(), after.double()
    lengths: Tensor = vector_norm(new - old, dim=-1) / vector_norm(old, dim=-1)
    return lengths, cosine_similarity(old, new, dim=-1)
