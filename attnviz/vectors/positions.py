"""Formulas of positions: sinusoids, rotation angles (rotary), slopes (ALiBi)."""

from __future__ import annotations

from math import floor, log2

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from attnviz.vectors.random_numbers import Seeds

ROTARY_BASE = 10_000.0  # of sinusoidal positions, too


def sinusoidal_positions(
    tokens: int, dim: int, base: float = ROTARY_BASE
) -> Float[Tensor, "token dim"]:
    """Return position vectors of sines and cosines of falling frequency, which alternate.

    Numbers 2i and 2i+1 of position p are the sine and cosine of p / base^(2i/dim).
    """
    angle = rotation_angles(tokens, dim, base)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim]


def untrained_positions(tokens: int, dim: int, seeds: Seeds) -> Float[Tensor, "*seed token dim"]:
    """Return learned positions before training: a vector of N(0, 1) for each position."""
    return seeds.draw_normal("position", range(tokens), dim)


def rotation_angles(
    tokens: int, width: int, base: float = ROTARY_BASE
) -> Float[Tensor, "token pair"]:
    """Return the angle of each pair of numbers at each position: p / base^(2i/D), in radians."""
    position = torch.arange(tokens, dtype=torch.float64)[:, None]
    pair = torch.arange(0, width, 2, dtype=torch.float64)[None, :]
    return position / base ** (pair / width)


def rotate_by_position(
    vectors: Float[Tensor, "*batch token width"], base: float = ROTARY_BASE, *, halves: bool = False
) -> Float[Tensor, "*batch token width"]:
    """Return vectors with rotary positions: each pair of numbers is rotated by its angle.

    The product of a query and a key then depends only on the distance between their positions.
    A pair is two neighbours, as in the paper; with `halves`, as in Hugging Face's models, numbers
    at the same index of the first and the second half.
    """
    tokens, width = vectors.shape[-2:]
    angle = rotation_angles(tokens, width, base)
    cosine, sine = angle.cos().to(vectors), angle.sin().to(vectors)
    order = "(two pair)" if halves else "(pair two)"
    first, second = rearrange(vectors, f"... token {order} -> two ... token pair", two=2)
    pairs = torch.stack([first * cosine - second * sine, first * sine + second * cosine])
    return rearrange(pairs, f"two ... token pair -> ... token {order}")


def pair_indices(pair: int, width: int, *, halves: bool) -> list[int]:
    """Return the indices of the two numbers of a pair in a vector.

    >>> pair_indices(1, 8, halves=False), pair_indices(1, 8, halves=True)
    ([2, 3], [1, 5])
    """
    return [pair, pair + width // 2] if halves else [2 * pair, 2 * pair + 1]


def alibi_slopes(heads: int) -> list[float]:
    """Return what ALiBi subtracts from a score for each token of distance, in each head.

    >>> alibi_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    power = 2 ** floor(log2(heads))
    first = [2 ** (-8 * number / power) for number in range(1, power + 1)]
    # Between powers of two: those of the power below, then every other one of the power above.
    between = [2 ** (-4 * number / power) for number in range(1, 2 * (heads - power), 2)]
    return [*first, *between]


def distance_bias(heads: int, queries: int, keys: int) -> Float[Tensor, "head query key"]:
    """Return what ALiBi adds to each scaled score: minus the head's slope times the distance."""
    distance = (torch.arange(queries)[:, None] - torch.arange(keys)[None, :]).abs()
    return -torch.tensor(alibi_slopes(heads), dtype=torch.float64)[:, None, None] * distance
