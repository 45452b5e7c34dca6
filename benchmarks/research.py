"""How long research with attnviz takes, as ratios to the plain way in the same process.

Each row runs both in turn, so that a machine that slows down slows both. Run it with the Python
that attnviz is installed for: `python benchmarks/research.py [--pairs 11]`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import torch

from attnviz import survey, trace
from attnviz.traces.settings import Settings
from attnviz.traces.trained.ablation import HeadAblation
from attnviz.traces.trained.forward_pass import capture_pass
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.traces.trained.tracing import ModelRun, prepare_model_run

SENTENCE = "The animal didn't cross the street because it was too tired"
LONG = " ".join([SENTENCE] * 9)
OVERHEAD_BOUND = 1.3  # times as long as a forward pass
RESTARTS_BOUND = 1 / 3  # of the time of separate passes
SURVEY_BOUND = 1.3  # times as long as batches of plain forward passes
TEXTS, BATCH = 200, 32
WORDS = (
    *("the", "animal", "street", "because", "it", "was", "too", "tired", "cat", "dog", "house"),
    *("ran", "saw", "a", "very", "big", "small", ",", ".", "green", "and", "then", "she", "he"),
)


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
    loaded = load_transformer(Settings(model="minilm"))
    model, tokenizer = loaded.model, loaded.tokenizer
    for count in (30, 128, 512):
        text = " ".join(["animal"] * (count - 2))  # and [CLS] and [SEP]

        def ours(text: str = text) -> object:
            return trace(text, model=model, tokenizer=tokenizer)

        def theirs(text: str = text) -> object:
            with torch.no_grad():
                return model(**tokenizer(text, return_tensors="pt"), output_attentions=True)

        yield row(f"trace, {count} tokens / eager pass", ours, theirs, 3 * pairs, OVERHEAD_BOUND)


def survey_rows(pairs: int) -> Iterator[str]:
    """A survey of sentences of 6 to 24 words, beside plain batches with output_attentions."""
    chance, loaded = random.Random(1), load_transformer(Settings(model="minilm"))
    model: Any = loaded.model
    texts = [f"{' '.join(chance.choices(WORDS, k=chance.randint(6, 24)))}." for _ in range(TEXTS)]

    def plain() -> None:
        for first in range(0, len(texts), BATCH):
            batch = texts[first : first + BATCH]
            inputs = loaded.tokenizer(batch, padding=True, return_tensors="pt")
            with torch.no_grad():
                model(**inputs, output_attentions=True)

    name = f"survey of {TEXTS} sentences / plain batches"
    yield row(name, lambda: survey(texts), plain, pairs, SURVEY_BOUND)


def effect_rows(pairs: int) -> Iterator[str]:
    """`--by effect` on MiniLM beside as many separate passes as it has heads.

    A long text is bound by arithmetic, of which beginning at a layer saves less than half.
    """
    heads = [(layer, head) for layer in range(6) for head in range(12)]
    for text, bound in ((SENTENCE, RESTARTS_BOUND), (LONG, None)):
        run = prepare_model_run(trace(text, model="minilm"), "this runs it", "by")

        def at_once(run: ModelRun = run) -> None:
            ablation = HeadAblation(run.model, run.model_input, run.answer_positions)
            assert len([*ablation.results_without([(head,) for head in heads])]) == len(heads)

        def separately(run: ModelRun = run) -> None:
            with quiet_transformers(), torch.no_grad():
                for head in heads:
                    capture_pass(run.model, run.model_input, layers=(), off={head: "zero"})

        count = len(run.model_input.ids)
        name = f"--by effect, {count} tokens / {len(heads)} passes"
        yield row(name, at_once, separately, pairs, bound)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    pairs: int = parser.parse_args().pairs
    torch.set_num_threads(1)  # the time that threads wait counts, too
    print(f"medians of {pairs} pairs of calls\n")
    print(f"{'ours / plain':48}{'seconds':>8}{'plain':>8}{'ratio':>8}{'bound':>8}")
    for line in chain(overhead_rows(pairs), survey_rows(pairs), effect_rows(pairs)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
