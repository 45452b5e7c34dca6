"""How long a long text takes in several processes: measured for two, computed for many.

Two processes with one thread each, beside one with one thread: in each pair of runs the first
process computes everything while the other sleeps, and then both share the work. On a machine with
other work the best pair says more than the median; processor time shows how the work was split.

`python benchmarks/ranks.py [--tokens 16384] [--pairs 5]` measures.
`python benchmarks/ranks.py --costs` prints the table of docs/long_texts.md, which is computed.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import distributed
from torch.distributed import TCPStore
from torch.multiprocessing.spawn import spawn

from attnviz.attention.long_attention import LongAttention, SummaryChoice
from attnviz.attention.mask_rule import MaskRule
from attnviz.attention.ranks import join_process_group, summarize_in_ranks, wait_for_all
from attnviz.machine.memory import format_size

WIDTH = 64
RANKS = 2
BOUND = 1.6  # times as fast as one process are two

# Measured on one core of an Intel Xeon at 2.8 GHz, for one pair of query and key with
# all statistics: the products grow with the width of a head, the rest does not.
CORE_SECONDS, CORE_SECONDS_PER_WIDTH = 4.9e-9, 0.1e-9
# Assumed, as nothing of this was run on a GPU: half of what the data sheet of an H100 SXM has. A
# pair takes six operations for each number of a head (three products), and its tile is read or
# written 18 times in 32 bits (tiles.py: describe_rows).
GPU_BYTES_PER_SECOND, GPU_OPERATIONS_PER_SECOND = 3.35e12 / 2, 67e12 / 2
GPU_BYTES_PER_CELL, OPERATIONS_PER_CELL_AND_WIDTH = 72, 6
GPU_MEMORY = 80e9
NETWORK_BYTES_PER_SECOND = 1.25e9  # assumed: 10 Gbit/s

BUFFER_BYTES = 40e6  # of a process, beside its imports; measured
FLOAT_BYTES = 4
VECTORS_PER_LAYER = 5  # queries, keys, values, contexts by head and joined
TOKEN_BYTES = 270  # its piece and id; measured
STATISTICS_BYTES = 44  # of a token in a head: eight numbers of 4 bytes or 8, and what it receives
MAP_BYTES, BLOCKS = 8, 512  # of a block; blocks on each side of the map


@dataclass(frozen=True)
class Cost:
    """What a causal text costs: time, and for each process its memory and what it sends."""

    seconds: float
    memory: float
    sent: float


def core_seconds(width: int) -> float:
    """Seconds for one pair of query and key on one core."""
    return CORE_SECONDS + CORE_SECONDS_PER_WIDTH * width


def gpu_seconds(width: int) -> float:
    """Seconds for one pair of query and key on one GPU."""
    return (
        GPU_BYTES_PER_CELL / GPU_BYTES_PER_SECOND
        + OPERATIONS_PER_CELL_AND_WIDTH * width / GPU_OPERATIONS_PER_SECOND
    )


def cost(
    tokens: int,
    *,
    width: int,
    heads: int,
    layers: int,
    ranks: int,
    cell_seconds: Callable[[int], float],
) -> Cost:
    """What T causal tokens cost; `width`: of a head.

    Pairs of query and key: T² / 2 in each head of each layer, dealt to the ranks. Each rank keeps
    all vectors, and what is measured of each token and block; it sends and receives the contexts
    and the measures in a ring: 2 (R - 1) / R times their size.
    """
    pairs = layers * heads * tokens**2 / 2
    vectors = tokens * heads * width * FLOAT_BYTES
    measures = tokens * heads * STATISTICS_BYTES + heads * min(BLOCKS, tokens) ** 2 * MAP_BYTES
    sent = layers * (vectors + measures) * 2 * (ranks - 1) / ranks
    return Cost(
        seconds=pairs * cell_seconds(width) / ranks + sent / NETWORK_BYTES_PER_SECOND,
        memory=BUFFER_BYTES
        + tokens * TOKEN_BYTES
        + vectors
        + layers * (VECTORS_PER_LAYER * vectors + measures),
        sent=sent,
    )


def format_seconds(seconds: float) -> str:
    """`0.4 s`, `12 min`, `3.5 h`, `16 days`."""
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def cost_table() -> str:
    """The Markdown table of docs/long_texts.md: for each length and number of heads, the time on
    cores and GPUs, and the bytes of each of 64 processes.
    """
    machines = [
        (f"{count} {name}{'s' * (count > 1)}", partial(cost, ranks=count, cell_seconds=rate))
        for name, rate in (("core", core_seconds), ("GPU", gpu_seconds))
        for count in (1, 2, 64)
    ]
    names = [*(name for name, _ in machines), "memory of each", "sent by each of 64"]
    lines = [
        f"| tokens | heads | {' | '.join(names)} |",
        f"|---:|---:|{'---:|' * len(names)}",
    ]
    for tokens in (131_072, 1_000_000, 10_000_000):
        for heads in (1, 12):
            costs = [of(tokens, width=WIDTH, heads=heads, layers=1) for _, of in machines]
            has_room = costs[-1].memory <= GPU_MEMORY
            cells = [
                *(
                    format_seconds(each.seconds) if has_room or "core" in name else "no room"
                    for (name, _), each in zip(machines, costs, strict=True)
                ),
                format_size(round(costs[-1].memory)),
                format_size(round(costs[-1].sent)),
            ]
            lines.append(f"| {tokens:,} | {heads} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """The seconds that a call takes by the clock, and of this process's processor."""
    start, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - processor


def measure(rank: int, port: int, tokens: int, pairs: int) -> None:
    """What each process does; the first prints a line for each pair of runs."""
    torch.set_num_threads(1)
    server = TCPStore("localhost", port, RANKS, is_master=rank == 0)
    join_process_group(server, rank, RANKS)
    vectors = torch.randn(3, 1, tokens, WIDTH, generator=torch.Generator().manual_seed(0))
    queries, keys, values = vectors
    attention = LongAttention(
        queries=queries, keys=keys, values=values, scale=WIDTH**-0.5, mask=MaskRule(after=0)
    )
    runs = []  # speed by the clock, by the processors, and the processor time of one process
    for number in range(pairs):
        wait_for_all()
        alone = seconds(partial(attention.summarize, SummaryChoice())) if rank == 0 else (0.0, 0.0)
        wait_for_all()
        shared = seconds(lambda: summarize_in_ranks(attention, SummaryChoice()))
        processors = torch.zeros(RANKS)
        processors[rank] = shared[1]
        distributed.all_reduce(processors)
        if rank == 0:
            runs.append((alone[0] / shared[0], alone[1] / float(processors.max()), alone[1]))
            split = " + ".join(f"{each:.2f}" for each in processors.tolist())
            print(
                f"pair {number + 1}: one process {alone[0]:.2f} s (processor {alone[1]:.2f}), "
                f"two {shared[0]:.2f} s (processors {split}): {runs[-1][0]:.2f} times as fast",
                flush=True,
            )
    if rank == 0:
        by_clock, by_processor, processor_seconds = zip(*runs, strict=True)
        verdict = "" if max(by_clock) >= BOUND else ": too slow, or the machine was busy"
        print(
            f"times as fast: best {max(by_clock):.2f}, median {statistics.median(by_clock):.2f}, "
            f"bound {BOUND}{verdict}; by processor time best {max(by_processor):.2f}"
        )
        print(f"a pair of query and key: {min(processor_seconds) / (tokens**2 / 2) * 1e9:.1f} ns")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--costs", action="store_true", help="print the computed table instead")
    options = parser.parse_args()
    if options.costs:
        print(cost_table(), end="")
        return
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    print(f"{options.tokens:,} causal tokens, one head of width {WIDTH}, one thread a process")
    arguments = port, options.tokens, options.pairs
    spawn(measure, arguments, nprocs=RANKS)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
