"""How often heads are found by accident, and how often real effects are: simulated on real numbers.

The population is what MiniLM's 72 heads change on sentences of sample_texts, by two metrics (how
skewed they are is printed), and how they move in sample_texts/pairs.tsv. Each head's mean is
subtracted, so that no head has an effect, and samples are drawn with replacement. A test should
find any head in at most 5 % of them. For power, one head at a time is shifted by 1, 2 or 3 of its
standard deviations. Of pairs, what the rule of `attnviz pairs` assumes is simulated as well: the
two sentences of each pair change roles at random.

`python -m benchmarks.error_rates [--runs 400] [--draws 1000] [--texts 137] [--effects FILE.npz]`;
the effects take some minutes, and are kept in the file.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnviz import head_effects, pairs
from attnviz.wings.corpora import head_tests
from attnviz.wings.corpora.head_tests import (
    LEVEL,
    HeadTest,
    Observations,
    bootstrap_test,
    sign_flip_test,
)
from attnviz.wings.corpora.pairs import MIN_SHIFT

SAMPLES = Path(__file__).parent.parent / "sample_texts"
SIZES = (8, 12, 20, 40)
SHIFTS = (1, 2, 3)  # standard deviations
Test = Callable[[Observations, np.ndarray, int], HeadTest]
Sampler = Callable[[np.random.Generator, int], Observations]
TESTS: dict[str, Test] = {"bootstrap": bootstrap_test, "sign flips": sign_flip_test}


def last_length(outputs: Any) -> float:
    return float(outputs.last_hidden_state[0, -1].norm())


def first_last_cosine(outputs: Any) -> float:
    vectors = outputs.last_hidden_state[0]
    return float(torch.cosine_similarity(vectors[0], vectors[-1], dim=0))


METRICS = {"length of the last vector": last_length, "cosine of first and last": first_last_cosine}


def sentences() -> list[str]:
    """Return the sentences of two sample texts, each once."""
    lines = (SAMPLES / "sentences.txt").read_text("utf-8").splitlines()
    for paragraph in (SAMPLES / "story.txt").read_text("utf-8").splitlines():
        lines += re.split(r"(?<=[.!?])\s+", paragraph)
    return [line for line in dict.fromkeys(lines) if len(line.split()) > 2]


def measure_effects(texts: Sequence[str], metric: Callable[[Any], float]) -> Observations:
    """Return what each head of MiniLM changes of a metric on each text."""
    heads = sorted(head_effects(texts, metric=metric).heads, key=lambda head: head.head_ids)
    return np.stack([head.values for head in heads], axis=1)


def sampler(population: Observations) -> Sampler:
    """Return a function that draws so many rows of a population with replacement."""
    return lambda generator, count: population[generator.integers(len(population), size=count)]


def swapping(population: Observations) -> Sampler:
    """Return a function that draws rows of a population, each with its sign or the opposite one."""
    draw = sampler(population)
    return lambda generator, count: draw(generator, count) * generator.choice([-1, 1], (count, 1))


def found_share(
    test: Test, draw: Sampler, count: int, runs: int, *, least_size: float = 0.0
) -> float:
    """Return in what share of samples without an effect a test finds any head. Heads of a smaller
    root mean square than `least_size` are not tested."""
    generator, found = np.random.default_rng(count), 0
    for run in range(runs):
        sample = draw(generator, count)
        is_tested = np.sqrt((sample**2).mean(0)) >= least_size
        found += bool((test(sample, is_tested, run).p_values <= LEVEL).any())
    return found / runs


def power(test: Test, population: Observations, count: int, runs: int, shift: float) -> float:
    """Return in what share of samples a test finds one head whose mean is so many standard
    deviations from 0."""
    generator, found = np.random.default_rng(count), 0
    draw, spreads, heads = sampler(population), population.std(0), population.shape[1]
    for run in range(runs):
        sample, head = draw(generator, count).copy(), int(generator.integers(heads))
        sample[:, head] += shift * spreads[head] * generator.choice([-1, 1])
        found += bool(test(sample, np.ones(heads, bool), run).p_values[head] <= LEVEL)
    return found / runs


def centred(population: Observations) -> Observations:
    deviations: Observations = population - population.mean(0)
    return deviations


def skewness(population: Observations) -> np.ndarray:
    """Return the size of each head's skewness."""
    deviations = centred(population)
    sizes: np.ndarray = abs((deviations**3).mean(0) / (deviations**2).mean(0) ** 1.5)
    return sizes


def table(population: Observations, runs: int) -> Iterator[str]:
    """Yield a row for each test and size: the share of samples with a head found by accident, and
    the power for each shift."""
    null = centred(population)
    for name, test in TESTS.items():
        for count in SIZES:
            rate = found_share(test, sampler(null), count, runs)
            powers = (power(test, null, count, runs // 4, shift) for shift in SHIFTS)
            cells = "".join(f"{100 * share:6.0f}" for share in powers)
            yield f"  {name:12}{count:4}{100 * rate:8.1f}{cells}"


def pairs_table(runs: int) -> Iterator[str]:
    """Yield a row for each size: how often `attnviz pairs` finds a head by accident if sentences
    change roles at random, and if shifts have a mean of 0 but are skewed."""
    shifts = np.array([head.shifts for head in pairs(SAMPLES / "pairs.tsv").heads]).T
    for count in SIZES:
        rates = (
            found_share(sign_flip_test, draw, count, runs, least_size=MIN_SHIFT)
            for draw in (swapping(shifts), sampler(centred(shifts)))
        )
        yield f"  sign flips  {count:4}" + "".join(f"{100 * rate:8.1f}" for rate in rates)


def load_effects(path: Path | None, texts: Sequence[str]) -> dict[str, Observations]:
    """Return the effects by metric, from the file if it is there; else measure and keep them."""
    if path is not None and path.exists():
        with np.load(path) as arrays:
            return {name: arrays[name] for name in METRICS}
    effects = {name: measure_effects(texts, metric) for name, metric in METRICS.items()}
    if path is not None:
        np.savez(path, **effects)  # type: ignore[arg-type]
    return effects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="samples for each rate")
    parser.add_argument("--draws", type=int, default=1000, help="flips or samples of each test")
    parser.add_argument("--texts", type=int, default=137)
    parser.add_argument("--effects", type=Path, help="an .npz file with the effects")
    options = parser.parse_args()
    head_tests.RANDOM_DRAWS = options.draws
    print("% of samples in which any of 72 heads is found; power for 1, 2, 3 standard deviations")
    for name, effects in load_effects(options.effects, sentences()[: options.texts]).items():
        sizes = skewness(effects)
        print(f"{name}: skewness {np.median(sizes):.1f} (median), {sizes.max():.1f} (largest)")
        for row in table(effects, options.runs):
            print(row, flush=True)
    print("pairs: roles at random, then a mean of 0")
    for row in pairs_table(options.runs):
        print(row, flush=True)


if __name__ == "__main__":
    main()
