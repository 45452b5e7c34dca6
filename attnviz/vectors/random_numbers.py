"""Numbers out of nothing but a seed: embeddings and projections.

A drawn number depends on the seed, on what it is for, on its row and on its column, and on
nothing else. So a token id has the same vector in every sentence, a position at every length,
and the embeddings stay as they are when the heads change. The numbers come from a hash and not
from a library's random generator, whose stream may change with its version: the same command
shows the same digits next year, on every device.
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


@dataclass(frozen=True)
class Seeds:
    """One seed; or several, for which everything is drawn at once, with an axis of seeds first."""

    numbers: tuple[int, ...]
    several: bool = False

    def draw_normal(
        self, stream: str, rows: Sequence[int], columns: int
    ) -> Float[Tensor, "*seed row columns"]:
        """Rows of N(0, 1); each use of numbers has a stream of its own."""
        return self._one_or_several(draw_normal(self.numbers, stream, rows, columns))

    def draw_embeddings(self, ids: Sequence[int], dim: int) -> Float[Tensor, "*seed token dim"]:
        """A vector for each token, N(0, 1); the same id has the same vector everywhere."""
        return self.draw_normal("embedding", ids, dim)

    def draw_projection(
        self, name: str, inputs: int, outputs: int
    ) -> Float[Tensor, "*seed inputs outputs"]:
        """A matrix, N(0, 1/inputs), so that what it makes of N(0, 1) has a variance of about 1."""
        return self.draw_normal(name, range(inputs), outputs) / sqrt(inputs)

    def dropout_factors(
        self, shape: tuple[int, int, int], dropout: float, stream: str = "dropout"
    ) -> Float[Tensor, "*seed head query key"]:
        """What dropout multiplies weights with: 0, or 1/(1 - dropout) for those that it keeps."""
        heads, queries, keys = shape
        numbers = draw_uniform(self.numbers, stream, range(heads * queries), keys)
        scaled: Tensor = (numbers >= dropout).double() / (1 - dropout)
        return self._one_or_several(scaled.reshape(len(self.numbers), heads, queries, keys))

    def _one_or_several(self, numbers: Tensor) -> Tensor:
        return numbers if self.several else numbers.squeeze(0)


def draw_normal(
    seeds: Sequence[int], stream: str, rows: Sequence[int], columns: int
) -> Float[Tensor, "seed row columns"]:
    """Rows of N(0, 1) for each seed: the normal distribution's quantiles of uniform numbers."""
    quantiles: Tensor = torch.special.ndtri(draw_uniform(seeds, stream, rows, columns))
    return quantiles


def draw_uniform(
    seeds: Sequence[int], stream: str, rows: Sequence[int], columns: int
) -> Float[Tensor, "seed row columns"]:
    """Rows of numbers between 0 and 1 for each seed, neither 0 nor 1 included."""
    starts = np.array([_stream_start(seed, stream) for seed in seeds], dtype=np.uint64)
    states = starts[:, None] + np.asarray(rows, dtype=np.uint64) * _STATE_STEP
    _mix_bits(states, np.empty_like(states))
    numbers = np.empty((states.size, columns))
    # A few rows at a time: what is worked on stays in the processor's cache, ten times as fast.
    rows_at_once = max(1, 32_768 // columns)
    for first in range(0, states.size, rows_at_once):
        part = slice(first, first + rows_at_once)
        _fill_uniform(numbers[part], states.reshape(-1, 1)[part])
    return torch.from_numpy(numbers.reshape(len(seeds), len(rows), columns))


_STATE_STEP = np.uint64(0x9E3779B97F4A7C15)


def _stream_start(seed: int, stream: str) -> int:
    return int.from_bytes(blake2b(f"{seed} {stream}".encode(), digest_size=8).digest(), "little")


def _fill_uniform(output: np.ndarray, states: Bits) -> None:
    bits = states + np.arange(output.shape[1], dtype=np.uint64) * _STATE_STEP
    _mix_bits(bits, np.empty_like(bits))
    np.add(bits >> np.uint64(11), 0.5, out=output)
    output *= 2.0**-53


def _mix_bits(bits: Bits, scratch: Bits) -> None:
    """SplitMix64's last step, in place: every bit that comes out depends on all that went in."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        np.right_shift(bits, np.uint64(shift), out=scratch)
        np.bitwise_xor(bits, scratch, out=bits)
        np.multiply(bits, np.uint64(factor), out=bits)
    np.right_shift(bits, np.uint64(31), out=scratch)
    np.bitwise_xor(bits, scratch, out=bits)
