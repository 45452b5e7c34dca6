"""How long a program takes while attnviz listens, as ratios to the same program alone.

Each program is a stack of encoder layers that is trained for some steps; its first step alone, of
which one call of each module is kept, and the steps after, of which none is. Each pair runs in
turn, on one thread, and what counts is the time of the processor:
`python benchmarks/listening.py [--pairs 9]`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import attnviz

BATCH, TOKENS, LAYERS = 8, 128, 2
STEPS = 4  # of which nothing is kept, after the first


@dataclass(frozen=True)
class Bounds:
    """How many times as long as alone a step may take, of which a call is kept, or none."""

    kept: float | None
    others: float | None


WIDTHS = {64: Bounds(None, None), 256: Bounds(1.2, 1.05), 512: Bounds(1.2, 1.05)}


class ByHand(nn.Module):
    """A layer whose softmax is written by hand."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.heads = dim // 32
        self.joined, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.feed_forward = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = self.joined(self.norms[0](x)).chunk(3, dim=-1)
        queries, keys, values = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts
        )
        weights = (queries @ keys.mT * 32**-0.5).softmax(-1)
        x = x + self.out((weights @ values).transpose(1, 2).flatten(2))
        result: Tensor = x + self.feed_forward(self.norms[1](x))
        return result


def encoder_layer(dim: int) -> nn.Module:
    return nn.TransformerEncoderLayer(dim, dim // 32, 4 * dim, dropout=0.0, batch_first=True)


LAYER_KINDS: dict[str, Callable[[int], nn.Module]] = {
    "nn.TransformerEncoderLayer": encoder_layer,
    "softmax by hand": ByHand,
}


class Training:
    """A model and its data; `steps` trains it."""

    def __init__(self, layer: Callable[[int], nn.Module], dim: int) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(layer(dim) for _ in range(LAYERS)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(BATCH, TOKENS, dim)

    def seconds(self, count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            self.model(self.inputs).square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return time.process_time() - start


def measure(layer: Callable[[int], nn.Module], dim: int, pairs: int) -> tuple[float, float]:
    """Return the ratios of a step with a call kept, and of steps without."""
    training = Training(layer, dim)
    training.seconds(2)
    kept, others = [], []
    listening: Callable[[], AbstractContextManager[Any]] = partial(attnviz.listen, calls=1)
    for pair in range(pairs):
        times = {}
        for context in (nullcontext, listening)[:: 1 if pair % 2 else -1]:
            with context():
                first = training.seconds(1)
                training.seconds(3)  # after which attnviz knows that nothing more is kept
                times[context] = first, training.seconds(STEPS)
        alone, heard = times[nullcontext], times[listening]
        kept.append(heard[0] / alone[0])
        others.append(heard[1] / alone[1])
    return statistics.median(kept), statistics.median(others)


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=9)
    pairs = parser.parse_args().pairs
    print(f"{LAYERS} layers, {BATCH} texts of {TOKENS} tokens; medians of {pairs} pairs")
    print(f"{'width':>5}  {'layer':<27} {'one call kept':>17} {'none kept':>17}")
    misses = 0
    for dim, bounds in WIDTHS.items():
        for name, layer in LAYER_KINDS.items():
            ratios = measure(layer, dim, pairs)
            texts = []
            for ratio, bound in zip(ratios, (bounds.kept, bounds.others), strict=True):
                misses += bound is not None and ratio > bound
                texts.append(f"{ratio:.2f}" + (f" (≤ {bound:.2f})" if bound else ""))
            print(f"{dim:>5}  {name:<27} {texts[0]:>17} {texts[1]:>17}")
    if misses:
        raise SystemExit(f"{misses} ratios are above their bounds")


if __name__ == "__main__":
    main()
