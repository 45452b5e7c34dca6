"""Numbers out of nothing but a seed: embeddings, positions, projections.

A drawn number depends on the seed, on what it is for, on its row and on its column, and on
nothing else. So a token id has the same vector in every sentence, a position at every length,
and the embeddings stay as they are when the heads change. The numbers come from a hash and not
from a library's random generator, whose stream may change with its version: the same command
shows the same digits next year, on every device.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Float, Float64, UInt64
from torch import Tensor

Drawn = Float64[np.ndarray, "row column"]


def embed(ids: Sequence[int], dim: int, seed: int) -> Float[Tensor, "token dim"]:
    """A vector for each token, N(0, 1); the same id has the same vector everywhere."""
    return torch.from_numpy(normal(seed, "embedding", ids, dim))


def sinusoidal(tokens: int, dim: int) -> Float[Tensor, "token dim"]:
    """Sines and cosines of falling frequency: sin(p / 10000^(2i/D)), then its cosine."""
    position = torch.arange(tokens, dtype=torch.float64)[:, None]
    pair = torch.arange(0, dim, 2, dtype=torch.float64)[None, :]
    angle = position / 10_000 ** (pair / dim)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim]


def learned(tokens: int, dim: int, seed: int) -> Float[Tensor, "token dim"]:
    """A vector for each position as a model starts with before it learns: N(0, 1)."""
    return torch.from_numpy(normal(seed, "position", range(tokens), dim))


def projection(name: str, inputs: int, outputs: int, seed: int) -> Float[Tensor, "inputs outputs"]:
    """A matrix, N(0, 1/inputs), so that what it makes of N(0, 1) has a variance of about 1."""
    return torch.from_numpy(normal(seed, name, range(inputs), outputs) / inputs**0.5)


def kept(
    heads: int, queries: int, keys: int, dropout: float, seed: int
) -> Float[Tensor, "head query key"]:
    """What dropout multiplies weights with: 0, or 1/(1 - dropout) for those that it keeps."""
    drawn = uniform(seed, "dropout", range(heads * queries), keys)
    scaled = np.where(drawn < dropout, 0.0, 1 / (1 - dropout))
    return torch.from_numpy(scaled.reshape(heads, queries, keys))


def normal(seed: int, stream: str, rows: Sequence[int], columns: int) -> Drawn:
    """Rows of N(0, 1), two uniform numbers for each (Box and Muller)."""
    radius = np.sqrt(-2 * np.log(uniform(seed, f"{stream}: radius", rows, columns)))
    drawn: Drawn = radius * np.cos(2 * np.pi * uniform(seed, f"{stream}: angle", rows, columns))
    return drawn


def uniform(seed: int, stream: str, rows: Sequence[int], columns: int) -> Drawn:
    """Rows of numbers between 0 and 1, neither of them included."""
    start = np.frombuffer(blake2b(f"{seed} {stream}".encode(), digest_size=8).digest(), np.uint64)
    row = _mixed(start + np.asarray(rows, dtype=np.uint64) * _ODD)
    cell = _mixed(row[:, None] + np.arange(columns, dtype=np.uint64) * _ODD)
    drawn: Drawn = ((cell >> np.uint64(11)) + 0.5) / 2.0**53
    return drawn


Bits = UInt64[np.ndarray, "..."]
_ODD = np.uint64(0x9E3779B97F4A7C15)


def _mixed(state: Bits) -> Bits:
    """SplitMix64's last step: every bit of what comes out hangs on every bit that goes in."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Bits = state ^ (state >> np.uint64(31))
    return mixed
