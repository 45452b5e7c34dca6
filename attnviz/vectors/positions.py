"""How a token is told where it stands.

By what is added to its embedding, by turning its query and its key, or by what is added to its
scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from attnviz.vectors.random_numbers import Seeds

ROTARY_BASE = 10_000.0  # of the angles: that of both papers


def sinusoidal_positions(
    tokens: int, dim: int, base: float = ROTARY_BASE
) -> Float[Tensor, "token dim"]:
    """Sines and cosines of falling frequency: sin(p / 10000^(2i/D)), then its cosine."""
    angle = rotation_angles(tokens, dim, base)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim]


def untrained_positions(tokens: int, dim: int, seeds: Seeds) -> Float[Tensor, "*seed token dim"]:
    """A vector for each position as a model starts with before it learns: N(0, 1)."""
    return seeds.draw_normal("position", range(tokens), dim)


def rotation_angles(
    tokens: int, width: int, base: float = ROTARY_BASE
) -> Float[Tensor, "token pair"]:
    """How far each pair of numbers is turned at each position: p / base^(2i/D), in radians."""
    position = torch.arange(tokens, dtype=torch.float64)[:, None]
    pair = torch.arange(0, width, 2, dtype=torch.float64)[None, :]
    return position / base ** (pair / width)


def rotate_by_position(
    vectors: Float[Tensor, "*batch token width"], base: float = ROTARY_BASE, *, halves: bool = False
) -> Float[Tensor, "*batch token width"]:
    """Rotary positions: each pair of numbers turned, the further the later they stand.

    The product of a query and a key then depends on how far they are apart, and not on where.
    A pair is of two neighbours, as in the paper; or by `halves`, as in Hugging Face's models,
    of a number of the first half and the one at the same place of the second.
    """
    tokens, width = vectors.shape[-2:]
    angle = rotation_angles(tokens, width, base)
    cosine, sine = angle.cos().to(vectors), angle.sin().to(vectors)
    order = "(two pair)" if halves else "(pair two)"
    first, second = rearrange(vectors, f"... token {order} -> two ... token pair", two=2)
    pairs = torch.stack([first * cosine - second * sine, first * sine + second * cosine])
    return rearrange(pairs, f"two ... token pair -> ... token {order}")


def pair_indices(pair: int, width: int, *, halves: bool) -> list[int]:
    """Where the two numbers of a pair stand, from 0.

    >>> pair_indices(1, 8, halves=False), pair_indices(1, 8, halves=True)
    ([2, 3], [1, 5])
    """
    return [pair, pair + width // 2] if halves else [2 * pair, 2 * pair + 1]


def alibi_slopes(heads: int) -> list[float]:
    """How much ALiBi takes from a score for each token of distance, in each head.

    >>> alibi_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    power = 2 ** floor(log2(heads))
    first = [2 ** (-8 * number / power) for number in range(1, power + 1)]
    # Between powers of two: the ones of the power below, then every other of the power above.
    between = [2 ** (-4 * number / power) for number in range(1, 2 * (heads - power), 2)]
    return [*first, *between]


def distance_bias(heads: int, queries: int, keys: int) -> Float[Tensor, "head query key"]:
    """ALiBi: what is added to each scaled score, the slope of the head times minus the distance."""
    distance = (torch.arange(queries)[:, None] - torch.arange(keys)[None, :]).abs()
    return -_per_head_column(alibi_slopes(heads)) * distance


def _per_head_column(numbers: Sequence[float]) -> Float[Tensor, "head 1 1"]:
    return torch.tensor(numbers, dtype=torch.float64)[:, None, None]
