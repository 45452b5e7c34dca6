"""How long research with attnviz takes, as ratios to the plain way in the same process.

Each row runs both in turn, so that a machine that slows down slows both. Run it with the Python
that attnviz is installed for: `python benchmarks/research.py [--pairs 31]`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch

OVERHEAD_BOUND = 1.3  # times as long as a forward pass


def seconds(call: Callable[[], object]) -> float:
    """The processor's time: others on the machine do not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def row(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    pairs: int,
    bound: float | None,
) -> str:
    """Medians of so many pairs of calls, after one that warms both."""
    times = [(seconds(ours), seconds(theirs)) for _ in range(pairs + 1)][1:]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(first / second for first, second in times)
    verdict = "" if bound is None or ratio <= bound else "  too slow"
    limit = "" if bound is None else f"{bound:.2f}"
    return f"{name:48}{mine:8.3f}{other:8.3f}{ratio:8.2f}{limit:>8}{verdict}"


def overhead_rows(pairs: int) -> Iterator[str]:
    """`trace` of a model in memory beside its eager forward pass, which returns the weights.

    Both begin with the text. The model is MiniLM.
    """
    from attnviz import trace
    from attnviz.traces.settings import Settings
    from attnviz.traces.trained.loading import load_transformer

    loaded = load_transformer(Settings(model="minilm"))
    model, tokenizer = loaded.model, loaded.tokenizer
    for count in (30, 128, 512):
        text = " ".join(["animal"] * (count - 2))  # and [CLS] and [SEP]

        def ours(text: str = text) -> object:
            return trace(text, model=model, tokenizer=tokenizer)

        def theirs(text: str = text) -> object:
            with torch.no_grad():
                return model(**tokenizer(text, return_tensors="pt"), output_attentions=True)

        yield row(f"trace, {count} tokens / eager pass", ours, theirs, pairs, OVERHEAD_BOUND)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=31)
    pairs: int = parser.parse_args().pairs
    torch.set_num_threads(1)  # the time that threads wait counts, too
    print(f"medians of {pairs} pairs of calls\n")
    print(f"{'ours / plain':48}{'seconds':>8}{'plain':>8}{'ratio':>8}{'bound':>8}")
    for line in overhead_rows(pairs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
