"""What attnviz costs over many texts, beside a plain loop of transformers.

Each row is a function that returns its name, the seconds of attnviz and of the plain loop, and how
many times as long attnviz may take. Both run in turn in one process, on one thread, and what is
compared are medians. Run it with `OMP_NUM_THREADS=1 python -m benchmarks.research [--pairs 5]`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch

from attnviz import survey
from attnviz.traces.settings import Settings
from attnviz.traces.trained.loading import load_transformer

Row = tuple[str, list[float], list[float], float]
WORDS = (
    *("the", "animal", "street", "because", "it", "was", "too", "tired", "cat", "dog", "house"),
    *("ran", "saw", "a", "very", "big", "small", ",", ".", "green", "and", "then", "she", "he"),
)
SENTENCES, BATCH = 200, 32


def sentences() -> list[str]:
    """Sentences of 6 to 24 words, the same ones each time."""
    chance = random.Random(1)
    return [
        f"{' '.join(chance.choices(WORDS, k=chance.randint(6, 24)))}." for _ in range(SENTENCES)
    ]


def seconds(run: Callable[[], object]) -> float:
    """The processor time that a function takes: what others do meanwhile does not count."""
    start = time.process_time()
    run()
    return time.process_time() - start


def survey_row(pairs: int) -> Row:
    """A survey of 200 sentences, beside the batches of a plain loop with output_attentions."""
    texts, model = sentences(), load_transformer(Settings(model="minilm"))

    def plain() -> None:
        for first in range(0, len(texts), BATCH):
            batch = texts[first : first + BATCH]
            inputs = model.tokenizer(batch, padding=True, return_tensors="pt")
            with torch.no_grad():
                model.model(**inputs, output_attentions=True)

    survey(texts[:2])  # loads what is loaded once
    plain()
    ours, theirs = zip(*((seconds(lambda: survey(texts)), seconds(plain)) for _ in range(pairs)),
                       strict=True)  # fmt: skip
    return f"survey of {SENTENCES} sentences", [*ours], [*theirs], 1.3


ROWS: tuple[Callable[[int], Row], ...] = (survey_row,)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    pairs: int = parser.parse_args().pairs
    print(f"medians of {pairs} pairs of runs\n")
    print(f"{'attnviz / transformers':32}{'seconds':>8}{'plain':>8}{'ratio':>8}{'bound':>8}")
    for row in ROWS:
        name, ours, theirs, bound = row(pairs)
        ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
        verdict = "" if ratio <= bound else "  too slow"
        numbers = statistics.median(ours), statistics.median(theirs), ratio, bound
        print(f"{name:32}{''.join(f'{number:8.2f}' for number in numbers)}{verdict}", flush=True)


if __name__ == "__main__":
    main()
