"""How long exact attention of long texts takes without its matrix, beside torch's fused attention.

All in one process: (1) torch's fused attention, which returns context vectors only, (2) the full
matrix, where it fits, (3) context vectors and a map of 512 × 512 blocks, (4) the same with all
statistics. Each row runs its columns in turn, so that a machine that slows down slows all; on a
machine with other work, the least times (`--least`) say more than the medians do.

`python benchmarks/long_texts.py [--tokens 4096,16384] [--threads 1] [--repeats 5] [--least]`
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnviz.attention import arithmetic
from attnviz.attention.long_attention import LongAttention, SummaryChoice
from attnviz.attention.mask_rule import MaskRule

PROCESS = Path("/proc/self")  # on Linux
WIDTH = 64
LENGTHS = "4096,16384,32768,65536"
BOUNDED_FROM = 16_384  # tokens; shorter texts have no bounds
LARGEST_MATRIX = 16_384  # tokens whose matrices fit: three of 1 GB
MAP_BOUND, CAUSAL_MAP_BOUND, STATISTICS_BOUND = 1.4, 1.2, 5.0  # times as long as fused attention
MATRIX_BOUND = 2.5  # times as long as the map takes the full matrix
MEMORY_BOUND = 300  # MB above the imports


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def megabytes(field: str) -> float:
    """What Linux says of this process's memory: VmRSS is what it has, VmHWM the most it has had."""
    line = next(line for line in PROCESS.joinpath("status").open() if line.startswith(field))
    return int(line.split()[1]) * 1024 / 1e6


def full_matrix(vectors: Tensor, mask: MaskRule) -> object:
    """What a plain run computes: scores, weights and contexts as matrices."""
    queries, keys, values = vectors
    tokens = queries.shape[1]
    visible = ~mask.hidden(slice(0, tokens), slice(0, tokens), queries.device).T
    scores = arithmetic.similarity(queries, keys)
    return arithmetic.compute_attention(scores, values, visible, scale=WIDTH**-0.5)


def row(
    tokens: int,
    repeats: int,
    summary: Callable[[Sequence[float]], float],
    *,
    causal: bool,
    imports: float,
) -> str:
    """A line of seconds, of ratios with their bounds, and of memory above `imports`."""
    vectors = torch.randn(3, 1, tokens, WIDTH, generator=torch.Generator().manual_seed(0))
    mask = MaskRule(after=0 if causal else None)
    queries, keys, values = vectors
    attention = LongAttention(
        queries=queries, keys=keys, values=values, scale=WIDTH**-0.5, mask=mask
    )
    PROCESS.joinpath("clear_refs").write_text("5")  # VmHWM begins again
    attention.summarize(SummaryChoice())
    memory = megabytes("VmHWM") - imports
    calls: list[Callable[[], object]] = [
        lambda: scaled_dot_product_attention(
            queries[None], keys[None], values[None], is_causal=causal
        ),
        partial(attention.summarize, SummaryChoice(statistics=False)),
        partial(attention.summarize, SummaryChoice()),
    ]
    if tokens <= LARGEST_MATRIX:
        calls.append(partial(full_matrix, vectors, mask))
    times = [[seconds(call) for call in calls] for _ in range(repeats)]
    fused, pooled, described, *matrix = (summary(each) for each in zip(*times, strict=True))
    figures = [  # and their bounds
        (pooled / fused, CAUSAL_MAP_BOUND if causal else MAP_BOUND),
        (described / fused, STATISTICS_BOUND),
        *((whole / pooled, MATRIX_BOUND) for whole in matrix),
    ]
    ratios = "".join(f"{ratio:7.2f} ({bound:.1f})" for ratio, bound in figures)
    # Of the full matrix the figure is how many times as long it takes, and must be no less.
    is_slow = any(ratio > bound for ratio, bound in figures[:2])
    is_slow |= any(ratio < bound for ratio, bound in figures[2:])
    verdict = "  too slow" if is_slow and tokens >= BOUNDED_FROM else ""
    verdict += "  too much memory" if memory > MEMORY_BOUND else ""
    whole = f"{matrix[0]:9.2f}" if matrix else f"{'-':>9}"
    name = f"{tokens:,} {'causal' if causal else 'full'}"
    return (
        f"{name:16}{fused:9.2f}{whole}{pooled:9.2f}{described:11.2f}{memory:7.0f}{ratios}{verdict}"
    )


def main() -> None:
    imports = megabytes("VmRSS")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", default=LENGTHS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--least", action="store_true", help="least times instead of medians")
    options = parser.parse_args()
    summary: Callable[[Sequence[float]], float]
    summary, name = (min, "least") if options.least else (statistics.median, "medians")
    torch.set_num_threads(options.threads)
    print(
        f"{name} of {options.repeats} runs in seconds, {options.threads} thread(s); d_k = {WIDTH}"
    )
    print("ratios: map / fused, statistics / fused, matrix / map, each with its bound\n")
    names = f"{'(1) fused':>9}{'(2) all':>9}{'(3) map':>9}{'(4) stats':>11}{'MB':>7}"
    print(f"{'tokens':16}{names}  ratios")
    for tokens in map(int, options.tokens.split(",")):
        for causal in (False, True):
            line = row(tokens, options.repeats, summary, causal=causal, imports=imports)
            print(line, flush=True)


if __name__ == "__main__":
    main()
