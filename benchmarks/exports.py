"""How long data files take, beside what Python's and NumPy's own writers take for the same numbers.

`python benchmarks/exports.py [--tokens 2000] [--runs 3]`. The baselines: `json.dumps` of each row,
`csv.writer` of each pair of tokens, `numpy.savez_compressed`. Seconds are those of the processor,
the median of some runs, each in turn with its baseline.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from attnviz import Trace, trace
from attnviz.renderers import render_chunks
from attnviz.views.view import View

BOUNDS = {".json": 1 / 7, ".csv": 1 / 12, ".npz": 1 / 7}  # of the baseline's time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    made = trace(" ".join(f"w{number % 977}" for number in range(given.tokens)), tokenizer="spaces")
    view = made.view(show=["weights"])
    print(f"{given.tokens:,} tokens, medians of {given.runs} runs\n")
    print(f"{'file':8}{'seconds':>8}{'base':>8}{'ratio':>8}{'bound':>8}{'MB':>8}")
    for suffix, baseline in BASELINES.items():
        print(line(view, made, suffix, baseline, given.runs), flush=True)


def line(
    view: View, made: Trace, suffix: str, baseline: Callable[[Trace], object], runs: int
) -> str:
    sizes: list[int] = []
    times = [
        (seconds(lambda: sizes.append(written(view, suffix))), seconds(lambda: baseline(made)))
        for _ in range(runs)
    ]
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio, bound = ours / theirs, BOUNDS[suffix]
    verdict = "" if ratio <= bound else "  too slow"
    numbers = f"{ours:8.2f}{theirs:8.2f}{ratio:8.2f}{bound:8.2f}{sizes[0] / 1e6:8.0f}"
    return f"{suffix:8}{numbers}{verdict}"


def written(view: View, suffix: str) -> int:
    """How many bytes there are; none of them is kept."""
    return sum(map(len, render_chunks(view, suffix)))


def arrays_of(made: Trace) -> dict[str, np.ndarray]:
    """The large ones."""
    layer = made.layers[0]
    attended = layer.attended
    named = {name: getattr(attended, name) for name in ("scores", "scaled_scores", "weights")}
    return {name: each.numpy() for name, each in {**named, "visible": layer.visible[None]}.items()}


def json_by_rows(made: Trace) -> None:
    for array in arrays_of(made).values():
        for row in array[0]:
            json.dumps(row.tolist()).encode()


def csv_by_pairs(made: Trace) -> None:
    labels, arrays = made.tokens.labels, arrays_of(made)
    pairs = zip(arrays["weights"][0], arrays["visible"][0], strict=True)
    for query, (weights, seen) in enumerate(pairs):
        start = (0, 0, query + 1, labels[query])
        cells = enumerate(zip(labels, weights.tolist(), seen.tolist(), strict=True), start=1)
        csv.writer(io.StringIO()).writerows((*start, key, *rest) for key, rest in cells)


def npz_compressed(made: Trace) -> None:
    np.savez_compressed(io.BytesIO(), *arrays_of(made).values())


BASELINES: dict[str, Callable[[Trace], object]] = {
    ".json": json_by_rows,
    ".csv": csv_by_pairs,
    ".npz": npz_compressed,
}


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
