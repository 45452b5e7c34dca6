"""How long attnviz takes to start, as a ratio to what Python needs to import its libraries.

Each command runs beside its baseline, in turn, so that a machine that slows down slows both. Run
it with the Python that attnviz is installed for: `python benchmarks/startup.py [--pairs 11]`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ATTNVIZ = [str(Path(sys.executable).with_name("attnviz"))]
SENTENCE = "I am learning this"


@dataclass(frozen=True)
class Comparison:
    """A command, the imports that it is held against, and how many times as long it may take."""

    command: tuple[str, ...]
    imports: str
    bound: float


COMPARISONS = (
    Comparison(("--help",), "typer, rich", 1.6),
    Comparison(("run", SENTENCE), "torch", 1.3),
    Comparison(("run", SENTENCE, "-o", "heatmap.png"), "torch, matplotlib.figure", 1.4),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    pairs: int = parser.parse_args().pairs
    print(f"medians of {pairs} pairs of runs\n")
    print(f"{'command':44}{'seconds':>8}{'imports':>9}{'ratio':>7}{'bound':>7}")
    for comparison in COMPARISONS:
        print(line(comparison, pairs), flush=True)


def line(comparison: Comparison, pairs: int) -> str:
    baseline = [sys.executable, "-c", f"import {comparison.imports}"]
    with tempfile.TemporaryDirectory() as folder:
        times = [
            (seconds([*ATTNVIZ, *comparison.command], folder), seconds(baseline, folder))
            for _ in range(pairs + 1)
        ][1:]  # the first pair warms the disk
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(mine / other for mine, other in times)
    name = " ".join(["attnviz", *comparison.command])
    verdict = "" if ratio <= comparison.bound else "  too slow"
    return f"{name:44}{ours:8.2f}{theirs:9.2f}{ratio:7.2f}{comparison.bound:7.1f}{verdict}"


def seconds(command: list[str], folder: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
