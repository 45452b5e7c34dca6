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
Rows = Float[Tensor, "head query"]
READ = 1e-9  # a weight below is none
BAND = (0.1, 0.9)  # between these quantiles lie 8 of 10 seeds
QUANTILES = {"low": BAND[0], "median": 0.5, "high": BAND[1]}


def quantiles(numbers: Float[Tensor, "seed"]) -> tuple[float, float, float]:
    """The band that 8 of 10 seeds lie in, and their median between its ends."""
    low, middle, high = np.quantile(numbers.double().numpy(), [BAND[0], 0.5, BAND[1]]).tolist()
    return low, middle, high


@dataclass(frozen=True, eq=False)
class Measures:
    """One number for each head and query; NaN where there is none."""

    entropy: Rows  # in bits
    share: Rows  # of the largest entropy that the visible keys allow
    effective: Rows  # 2 to the entropy: as many tokens, read equally, would be as spread out
    peak: Rows  # the largest weight
    gradient: Rows  # the size of the softmax's gradient; near 0 it has saturated
    row_sum: Rows
    row_error: Rows  # how far that is from 1; a row that has nothing to read may be 0, too
    hidden: Rows  # weight on tokens that should not be seen
    divergence: Rows  # from the reference, in bits

    def means(self) -> dict[str, float]:
        """Each measure's mean over heads and queries, leaving out where there is none."""
        return {each.name: float(getattr(self, each.name).nanmean()) for each in fields(self)}


def measure(
    weights: Weights, visible: Bool[Tensor, "*head query key"], reference: Weights | None
) -> Measures:
    """All measures of a way's weights, in float64 whatever they were computed in."""
    weights = weights.double()
    rows = normalized(weights)
    blind = (weights.sum(-1) == 0) & ~visible.any(-1)
    bits = entropy(rows).masked_fill(blind, torch.nan)  # of what reads nothing there is no measure
    return Measures(
        entropy=bits,
        share=share_of_largest(bits, visible | (rows > READ)),
        effective=2**bits,
        peak=weights.amax(-1).masked_fill(blind, torch.nan),
        gradient=gradient(rows).masked_fill(blind, torch.nan),
        row_sum=weights.sum(-1),
        row_error=_row_error(weights.sum(-1), visible.any(-1)),
        hidden=weights.masked_fill(visible, 0).sum(-1),
        divergence=torch.full_like(bits, torch.nan)
        if reference is None
        else divergence(rows, normalized(reference.double())).masked_fill(blind, torch.nan),
    )


def _row_error(sums: Rows, reads: Bool[Tensor, "*head query"]) -> Rows:
    """Weight that a mistake gives to a row without anything to read is found in `hidden`."""
    off = (sums - 1).abs()
    return torch.where(reads, off, torch.minimum(off, sums.abs()))


def normalized(weights: Weights) -> Weights:
    """Rows that sum to 1."""
    total = weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return weights / total


def entropy(rows: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """−Σ p log₂ p: 0 bits for one token, 1 for two read equally, 2 for four."""
    nats: Tensor = -torch.special.xlogy(rows, rows).sum(-1)
    return nats / log(2)


def share_of_largest(bits: Rows, visible: Bool[Tensor, "*head query key"]) -> Rows:
    """Entropy over log₂ of the number of visible keys; who sees no second key has no share.

    Keys that a mistake reads though they are hidden count as visible.
    """
    largest = visible.sum(-1).double().log2()
    share: Tensor = bits / largest.masked_fill(largest <= 0, torch.nan)
    return share


def gradient(rows: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """The Frobenius norm of diag(p) − p pᵀ, without forming it, and without a difference.

    On the diagonal stands p times the sum of the others, off it the products of two: sums of
    numbers that are not negative stay exact where a row has saturated and 1 − p is next to nothing.
    """
    squares, others = rows.square(), _before(rows) + _before(rows.flip(-1)).flip(-1)
    size: Tensor = (squares * (others.square() + 2 * _before(squares))).sum(-1)
    return size.sqrt()


def _before(numbers: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch key"]:
    """The sum of all that stand before each."""
    return torch.nn.functional.pad(numbers.cumsum(-1)[..., :-1], (1, 0))


def divergence(
    rows: Float[Tensor, "*batch key"], others: Float[Tensor, "*batch key"]
) -> Float[Tensor, "*batch"]:
    """Jensen and Shannon's: 0 bits for the same row, 1 for rows that share no token."""
    between = entropy((rows + others) / 2) - (entropy(rows) + entropy(others)) / 2
    return between.clamp(0, 1)


Vectors = Float[Tensor, "token dim"]


def changes_of(
    before: Vectors, after: Vectors
) -> tuple[Float[Tensor, "token"], Float[Tensor, "token"]]:
    """The length of each difference over that of the vector; and the cosine of both."""
    one, other = before.double(), after.double()
    lengths: Tensor = vector_norm(other - one, dim=-1) / vector_norm(one, dim=-1)
    return lengths, cosine_similarity(one, other, dim=-1)
