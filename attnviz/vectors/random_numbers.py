"""Random embeddings and projections: each number is a hash of its seed and place.

A number depends only on the seed, on its purpose (the stream), on its row and on its column. So a
token id has the same vector in every text, and embeddings stay the same when the heads change. The
numbers come from a hash, as a library's random generator may change with its version: the same
command gives the same digits next year, on every device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt

import numpy as np
import torch
from jaxtyping import Float, UInt64
from torch import Tensor

Bits = UInt64[np.ndarray, "..."]
_STATE_STEP = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64


@dataclass(frozen=True)
class Seeds:
    """One seed, or several for which everything is drawn at once, with an axis of seeds first."""

    numbers: tuple[int, ...]
    several: bool = False

    def draw_normal(
        self, stream: str, rows: Sequence[int], columns: int
    ) -> Float[Tensor, "*seed row columns"]:
        """Return random numbers of N(0, 1), whose purpose is `stream`, such as "embedding".

        Each depends only on the seed, the stream, its number in `rows` and its column.
        """
        return self._one_or_several(draw_normal(self.numbers, stream, rows, columns))

    def draw_embeddings(self, ids: Sequence[int], dim: int) -> Float[Tensor, "*seed token dim"]:
        """Return a vector of N(0, 1) for each token id; the same id always has the same vector."""
        return self.draw_normal("embedding", ids, dim)

    def draw_projection(
        self, name: str, inputs: int, outputs: int
    ) -> Float[Tensor, "*seed inputs outputs"]:
        """Return a matrix of N(0, 1/inputs), which keeps the variance of N(0, 1) near 1."""
        return self.draw_normal(name, range(inputs), outputs) / sqrt(inputs)

    def dropout_factors(
        self, shape: tuple[int, int, int], dropout: float, stream: str = "dropout"
    ) -> Float[Tensor, "*seed head query key"]:
        """Return the factors of weights under dropout: 0, or 1/(1 - dropout) for those kept."""
        heads, queries, keys = shape
        numbers = draw_uniform(self.numbers, stream, range(heads * queries), keys)
        scaled: Tensor = (numbers >= dropout).double() / (1 - dropout)
        return self._one_or_several(scaled.reshape(len(self.numbers), heads, queries, keys))

    def _one_or_several(self, numbers: Tensor) -> Tensor:
        """Return the numbers, without their axis of seeds unless there are several."""
        return numbers if self.several else numbers.squeeze(0)


def draw_normal(
    seeds: Sequence[int], stream: str, rows: Sequence[int], columns: int
) -> Float[Tensor, "seed row columns"]:
    """Return numbers of N(0, 1) for each seed: normal quantiles of those of `draw_uniform`."""
    quantiles: Tensor = torch.special.ndtri(draw_uniform(seeds, stream, rows, columns))
    return quantiles


def draw_uniform(
    seeds: Sequence[int], stream: str, rows: Sequence[int], columns: int
) -> Float[Tensor, "seed row columns"]:
    """Return uniform numbers in the open interval (0, 1) for each seed.

    Each depends only on the seed, the stream, its number in `rows` and its column.
    """
    starts = np.array([stream_start(seed, stream) for seed in seeds], dtype=np.uint64)
    states = starts[:, None] + np.asarray(rows, dtype=np.uint64) * _STATE_STEP
    _mix_bits(states)
    numbers = np.empty((states.size, columns))
    # A few rows at a time stay in the processor's cache, which is ten times as fast.
    rows_at_once = max(1, 32_768 // columns)
    for first in range(0, states.size, rows_at_once):
        part = slice(first, first + rows_at_once)
        _fill_uniform(numbers[part], states.reshape(-1, 1)[part])
    return torch.from_numpy(numbers.reshape(len(seeds), len(rows), columns))


def stream_start(seed: int, stream: str) -> int:
    """Return the 64 bits from which the numbers of a stream are hashed."""
    digest = blake2b(f"{seed} {stream}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _fill_uniform(output: np.ndarray, states: Bits) -> None:
    """Fill `output` with uniform numbers in (0, 1), each row from one of the hashed states."""
    bits = states + np.arange(output.shape[1], dtype=np.uint64) * _STATE_STEP
    _mix_bits(bits)
    np.add(bits >> np.uint64(11), 0.5, out=output)
    output *= 2.0**-53


def _mix_bits(bits: Bits) -> None:
    """Mix bits in place, as SplitMix64's last step: each output bit depends on all input bits."""
    scratch = np.empty_like(bits)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        np.right_shift(bits, np.uint64(shift), out=scratch)
        np.bitwise_xor(bits, scratch, out=bits)
        np.multiply(bits, np.uint64(factor), out=bits)
    np.right_shift(bits, np.uint64(31), out=scratch)
    np.bitwise_xor(bits, scratch, out=bits)
