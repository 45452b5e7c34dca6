"""How sharp attention is, how far two ways of attending are apart, how far vectors move.

A row is one query's weights. Where a row does not sum to 1 (some mistakes), it is measured as the
distribution that it would be if it did; `row_sum` says that it does not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import log

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import cosine_similarity

Weights = Float[Tensor, "head query key"]
HeadRows = Float[Tensor, "head query"]
MIN_READ_WEIGHT = 1e-9  # a weight below is none
QUANTILE_BAND = (0.1, 0.9)  # between these quantiles lie 8 of 10 seeds
QUANTILES_BY_NAME = {"low": QUANTILE_BAND[0], "median": 0.5, "high": QUANTILE_BAND[1]}


def band_quantiles(numbers: Float[Tensor, "seed"]) -> tuple[float, float, float]:
    """The band that 8 of 10 seeds lie in, and their median between its ends."""
    low, middle, high = np.quantile(
        numbers.double().numpy(), [QUANTILE_BAND[0], 0.5, QUANTILE_BAND[1]]
    ).tolist()
    return low, middle, high


@dataclass(frozen=True, eq=False)
class Measures:
    """One number for each head and query; NaN where there is none."""

    entropy: HeadRows  # in bits
    share: HeadRows  # of the largest entropy that the visible keys allow
    effective: HeadRows  # 2 to the entropy: as many tokens, read equally, would be as spread out
    peak: HeadRows  # the largest weight
    gradient: HeadRows  # the size of the softmax's gradient; near 0 it has saturated
    row_sum: HeadRows
    row_error: HeadRows  # how far that is from 1; a row that has nothing to read may be 0, too
    hidden: HeadRows  # weight on tokens that should not be seen
    divergence: HeadRows  # from the reference, in bits

    def means(self) -> dict[str, float]:
        """Each measure's mean over heads and queries, leaving out where there is none."""
        return {
            measure.name: float(getattr(self, measure.name).nanmean()) for measure in fields(self)
        }


def measure_weights(
    weights: Weights, visible: Bool[Tensor, "*head query key"], reference: Weights | None
) -> Measures:
    """All measures of a way's weights, in float64 whatever they were computed in."""
    weights = weights.double()
    rows = normalize_rows(weights)
    reads_nothing = (weights.sum(-1) == 0) & ~visible.any(-1)
    bits = entropy(rows).masked_fill(
        reads_nothing, torch.nan
    )  # of what reads nothing there is no measure
    return Measures(
        entropy=bits,
        share=share_of_largest(bits, visible | (rows > MIN_READ_WEIGHT)),
        effective=2**bits,
        peak=weights.amax(-1).masked_fill(reads_nothing, torch.nan),
        gradient=softmax_gradient_size(rows).masked_fill(reads_nothing, torch.nan),
        row_sum=weights.sum(-1),
        row_error=_row_error(weights.sum(-1), visible.any(-1)),
        hidden=weights.masked_fill(visible, 0).sum(-1),
        divergence=torch.full_like(bits, torch.nan)
        if reference is None
        else divergence(rows, normalize_rows(reference.double())).masked_fill(
            reads_nothing, torch.nan
        ),
    )


def _row_error(sums: HeadRows, reads: Bool[Tensor, "*head query"]) -> HeadRows:
    """Weight that a mistake gives to a row without anything to read is found in `hidden`."""
    off = (sums - 1).abs()
    return torch.where(reads, off, torch.minimum(off, sums.abs()))


def normalize_rows(weights: Weights) -> Weights:
    """Rows that sum to 1."""
    total = weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return weights / total


def entropy(rows: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """−Σ p log₂ p: 0 bits for one token, 1 for two read equally, 2 for four."""
    nats: Tensor = -torch.special.xlogy(rows, rows).sum(-1)
    return nats / log(2)


def share_of_largest(bits: HeadRows, visible: Bool[Tensor, "*head query key"]) -> HeadRows:
    """Entropy over log₂ of the number of visible keys; who sees no second key has no share.

    Keys that a mistake reads though they are hidden count as visible.
    """
    largest = visible.sum(-1).double().log2()
    share: Tensor = bits / largest.masked_fill(largest <= 0, torch.nan)
    return share


def softmax_gradient_size(rows: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """The Frobenius norm of diag(p) − p pᵀ, without forming it, and without a difference.

    On the diagonal stands p times the sum of the others, off it the products of two: sums of
    numbers that are not negative stay exact where a row has saturated and 1 − p is next to nothing.
    """
    squares, other_sums = rows.square(), _sums_before(rows) + _sums_before(rows.flip(-1)).flip(-1)
    size: Tensor = (squares * (other_sums.square() + 2 * _sums_before(squares))).sum(-1)
    return size.sqrt()


def _sums_before(numbers: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch key"]:
    """The sum of all that stand before each."""
    return torch.nn.functional.pad(numbers.cumsum(-1)[..., :-1], (1, 0))


def divergence(
    rows: Float[Tensor, "*batch key"], other_rows: Float[Tensor, "*batch key"]
) -> Float[Tensor, "*batch"]:
    """Jensen and Shannon's: 0 bits for the same row, 1 for rows that share no token."""
    between = entropy((rows + other_rows) / 2) - (entropy(rows) + entropy(other_rows)) / 2
    return between.clamp(0, 1)


Vectors = Float[Tensor, "token dim"]


def vector_changes(
    before: Vectors, after: Vectors
) -> tuple[Float[Tensor, "token"], Float[Tensor, "token"]]:
    """The length of each difference over that of the vector; and the cosine of both."""
    old, new = before.double(), after.double()
    lengths: Tensor = vector_norm(new - old, dim=-1) / vector_norm(old, dim=-1)
    return lengths, cosine_similarity(old, new, dim=-1)
