"""How long whole commands take, as ratios to what stands beside them in the table.

That is what Python needs to import the libraries of a command, and to leave again; and a plain run,
for a comparison of 5 widths over 20 seeds.

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
    """A command, the one that it is held against, and how many times as long it may take."""

    name: str
    command: list[str]
    baseline: list[str]
    bound: float
    status: int = 0  # that the command ends with


def importing(modules: str) -> list[str]:
    return [sys.executable, "-c", f"import {modules}"]


RUN, LONGER = [*ATTNVIZ, "run"], "I am learning this and more of it"
LIGHT, HEAVY = importing("typer, rich"), importing("torch")
MISTAKES = (  # each is answered in two lines
    ("run --query dog", [*RUN, "the cat", "--query", "dog"]),
    ("run --query Hund", [*RUN, "die süße Katze", "--query", "Hund"]),
    ("run --show weihgts", [*RUN, SENTENCE, "--show", "weihgts"]),
    ("run --variant casual", [*RUN, SENTENCE, "--variant", "casual"]),
    ("run --tokenizer gtp2", [*RUN, SENTENCE, "--tokenizer", "gtp2"]),
    ("run --heads 3", [*RUN, SENTENCE, "--heads", "3"]),
    ("run --dim x", [*RUN, SENTENCE, "--dim", "x"]),
    ("run --mask", [*RUN, SENTENCE, "--mask"]),
    ("run --frobnicate", [*RUN, SENTENCE, "--frobnicate"]),
    ("run I am learning", [*RUN, "I", "am", "learning"]),
    ("steps --query dog", [*ATTNVIZ, "steps", "the cat", "--query", "dog"]),
    ("compare --by maks", [*ATTNVIZ, "compare", SENTENCE, "--by", "maks"]),
    ("example show dvae", [*ATTNVIZ, "example", "show", "dvae"]),
)
LISTS = (
    ("run --help", [*RUN, "--help"]),
    ("example list", [*ATTNVIZ, "example", "list"]),
    ("variants", [*ATTNVIZ, "variants"]),
)
COMPARISONS = (
    Comparison("--help / import typer, rich", [*ATTNVIZ, "--help"], LIGHT, 1.6),
    *(Comparison(f"{name} / same", command, LIGHT, 2) for name, command in LISTS),
    *(Comparison(f"{name} / same", command, LIGHT, 2, status=2) for name, command in MISTAKES),
    Comparison("run / import torch", [*RUN, SENTENCE], HEAVY, 1.15),
    Comparison(
        "run -o heatmap.png / import torch, matplotlib",
        [*RUN, SENTENCE, "-o", "heatmap.png"],
        importing("torch, matplotlib.figure"),
        1.2,
    ),
    Comparison(
        "compare --by dim, 8 tokens / run",
        [*ATTNVIZ, "compare", LONGER, "--by", "dim", "--repeats", "20"],
        [*RUN, LONGER],
        1.5,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    pairs: int = parser.parse_args().pairs
    print(f"medians of {pairs} pairs of runs\n")
    print(f"{'command / baseline':48}{'seconds':>8}{'base':>7}{'ratio':>7}{'bound':>7}")
    for comparison in COMPARISONS:
        print(line(comparison, pairs), flush=True)


def line(comparison: Comparison, pairs: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        times = [
            (
                seconds(comparison.command, folder, comparison.status),
                seconds(comparison.baseline, folder),
            )
            for _ in range(pairs + 1)
        ][1:]  # the first pair warms the disk
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(mine / other for mine, other in times)
    verdict = "" if ratio <= comparison.bound else "  too slow"
    return (
        f"{comparison.name:48}{ours:8.2f}{theirs:7.2f}{ratio:7.2f}{comparison.bound:7.2f}{verdict}"
    )


def seconds(command: list[str], folder: str, status: int = 0) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    took = time.perf_counter() - start
    if done.returncode != status:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stderr.decode()}")
    return took


if __name__ == "__main__":
    main()
