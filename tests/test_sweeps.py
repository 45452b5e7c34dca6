"""Sweeps: curves over many seeds, all seeds at once, are what single runs give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attnviz import Settings, trace
from attnviz.analysis import seeds
from attnviz.analysis.aspects import ASPECTS
from attnviz.analysis.comparison import compare
from attnviz.analysis.measures import measure_weights
from attnviz.analysis.seeds import SWEEP_MEASURES, SWEEP_SERIES, Sweep, measure_sweep
from attnviz.attention.variants import VARIANTS
from attnviz.options.values import Dtype, Positions
from attnviz.traces.settings import POSITIONS
from attnviz.traces.trace import Layer
from attnviz.views.measure_tables import sweep_curves
from tests.conftest import Attnviz

TEXT = "I am learning this"

Numbers = dict[tuple[str, str], Tensor]  # by measure and series; rows are values, columns seeds


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    """A file with a vector of twelve numbers for each word."""
    numbers = np.random.default_rng(1).normal(size=(4, 12)).round(4).tolist()
    lines = zip(TEXT.split(), numbers, strict=True)
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, each))}\n" for word, each in lines))
    return str(path)


def sweep_numbers(sweep: Sweep) -> Numbers:
    """All numbers of a sweep."""
    return {
        (name, series): sweep.curves[name][series]
        for name in SWEEP_MEASURES
        for series in SWEEP_SERIES
    }


def curves_of_runs(settings: Settings, by: str, values: Sequence[str], repeats: int) -> Numbers:
    """The same numbers, computed run by run."""
    numbers = {
        (name, series): torch.empty(len(values), repeats)
        for name in SWEEP_MEASURES
        for series in SWEEP_SERIES
    }
    for place, value in enumerate(values):
        for column in range(repeats):
            for series in SWEEP_SERIES:
                run_settings = replace(
                    settings, seed=settings.seed + column, scale=series == "scaled"
                )
                layer = trace(TEXT, ASPECTS[by].choose(run_settings, value)).layers[0]
                for name, number in run_measures(layer).items():
                    numbers[name, series][place, column] = number
    return numbers


def assert_alike(numbers: Numbers, run_numbers: Numbers) -> None:
    """Compare within the rounding of float32, in which a sweep computes."""
    assert_close(numbers, run_numbers, atol=1e-5, rtol=1e-4)


def run_measures(layer: Layer) -> dict[str, float]:
    """The measures of a sweep, computed from one run."""
    means = measure_weights(layer.attended.weights, layer.visible, None).means()
    visible_logits = layer.attended.logits.double()[:, layer.visible]
    return {
        name: means.get(name, float(visible_logits.std(-1, correction=0).mean()))
        for name in SWEEP_MEASURES
    }


def test_the_spread_of_unscaled_scores_follows_the_root_of_the_width() -> None:
    sweep = measure_sweep(TEXT * 3, Settings(), "dim", ["8", "32", "128"], 40)
    spread = sweep.curves["spread"]

    for place, width in enumerate(sweep.widths):
        low, high = spread["unscaled"][place].quantile(torch.tensor([0.05, 0.95])).tolist()
        assert low < width**0.5 < high
        assert 0.7 < float(spread["scaled"][place].median()) < 1.3


@pytest.mark.parametrize(
    ("variant", "positions", "series"),
    [
        ("multi-head", "none", "scaled"),
        ("plain", "none", "unscaled"),
        ("causal", "learned", "scaled"),
        ("scaled", "rotary", "scaled"),
        ("multi-head", "alibi", "scaled"),
    ],
)
def test_a_sweep_of_one_seed_is_what_a_run_of_that_seed_gives(
    variant: str, positions: Positions, series: str
) -> None:
    settings = Settings(variant=variant, dim=8, seed=7, positions=positions)
    values = ["0.5", "2"]

    sweep = measure_sweep(TEXT, settings, "temperature", values, 3)

    comparison = compare(TEXT, settings, by="temperature", values=values)
    for place, measures in enumerate(comparison.measures):
        entropy = float(sweep.curves["entropy"][series][place, 0])
        assert_close(entropy, measures.means()["entropy"], atol=1e-5, rtol=1e-4)


@pytest.mark.slow_table("seeds", keep=4)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_curves_are_those_of_single_runs(variant: str, positions: Positions) -> None:
    settings = Settings(variant=variant, dim=8, seed=3, positions=positions)

    for by, values in (("temperature", ["0.25", "1.5"]), ("dim", ["4", "12"])):
        sweep = measure_sweep(TEXT, settings, by, values, 3)
        assert_alike(sweep_numbers(sweep), curves_of_runs(settings, by, values, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_curves_by_heads_are_those_of_single_runs(dtype: Dtype) -> None:
    settings = Settings(dim=12, causal=True, positions="learned", dtype=dtype)
    values = ["1", "2", "3"]

    sweep = measure_sweep(TEXT, settings, "heads", values, 4)

    assert sweep.widths == (12, 6, 4)
    assert_alike(sweep_numbers(sweep), curves_of_runs(settings, "heads", values, 4))


@pytest.mark.slow_table("seeds", keep=2)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("variant", ["plain", "causal", "multi-head"])
def test_with_embeddings_from_a_file_curves_are_those_of_single_runs(
    variant: str, positions: Positions, vectors: str
) -> None:
    settings = Settings(
        variant=variant, positions=positions, embeddings=vectors, tokenizer="words", seed=5
    )
    values = ["0.5", "2"]

    sweep = measure_sweep(TEXT, settings, "temperature", values, 3)

    assert_alike(sweep_numbers(sweep), curves_of_runs(settings, "temperature", values, 3))


def test_a_trace_is_swept_as_its_text_is(vectors: str) -> None:
    settings = Settings(embeddings=vectors, tokenizer="words")
    values = ["0.5", "2"]

    sweep = measure_sweep(trace(TEXT, settings), None, "temperature", values, 3)

    text_sweep = measure_sweep(TEXT, settings, "temperature", values, 3)
    assert_close(sweep_numbers(sweep), sweep_numbers(text_sweep), atol=0, rtol=0)


def test_the_width_of_embeddings_from_a_file_is_shared_out_among_heads(vectors: str) -> None:
    settings = Settings(embeddings=vectors, tokenizer="words")

    sweep = measure_sweep(TEXT, settings, "heads", ["1", "2", "3"], 2)

    assert sweep.widths == (12, 6, 4)


def test_many_seeds_are_worked_through_in_groups_and_come_out_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded_batches: list[seeds.SeedBatch] = []

    def record_batches(batches: Sequence[seeds.SeedBatch]) -> Iterable[seeds.SeedBatch]:
        recorded_batches.extend(batches)
        return batches

    whole_sweep = measure_sweep(TEXT, Settings(), "dim", ["8", "16"], 5)
    monkeypatch.setattr(seeds, "PROJECTION_NUMBERS_AT_ONCE", 128)  # two projections of 8 by 8
    grouped_sweep = measure_sweep(TEXT, Settings(), "dim", ["8", "16"], 5, record_batches)

    assert [len(step.seeds) for step in recorded_batches] == [2, 2, 1, 1, 1, 1, 1, 1]
    assert_close(whole_sweep.curves["peak"]["scaled"], grouped_sweep.curves["peak"]["scaled"])


def test_repeats_that_would_take_hours_are_refused(attnviz: Attnviz) -> None:
    long_text = " ".join(f"w{number}" for number in range(300))

    refusal = attnviz("compare", long_text, "-t", "spaces", "--by", "dim", "--repeats", "100000")

    assert refusal.status == 2
    assert refusal.err == (
        "error: --repeats 100000 takes as long as drawing 976,384,000,000 numbers; the limit is "
        "100,000,000,000\n"
        " hint: try --repeats 10241, fewer --values, or a shorter text\n"
    )
    work = sum(dim * (300 + 2 * dim) + 20 * 300**2 for dim in (2, 8, 32, 128, 512))
    assert work * 10241 <= 10**11 < work * 10242


def test_curves_hold_medians_bands_and_the_root() -> None:
    sweep = measure_sweep(TEXT, Settings(), "dim", ["32", "2"], 9)
    spread_curves, *other_curves = sweep_curves(sweep, compare(TEXT, by="dim", values=["32", "2"]))

    assert spread_curves.x_values == (2, 32)
    assert [line.name for line in spread_curves.lines] == ["unscaled", "scaled", "√d_k"]
    assert_close(spread_curves.lines[2].middle.tolist(), [2**0.5, 32**0.5])
    assert all(
        (line.low <= line.middle).all()
        for each in (spread_curves, *other_curves)
        for line in each.lines
    )


def test_curves_alone(attnviz: Attnviz) -> None:
    output = attnviz(
        "compare", TEXT, "--by", "dim", "--values", "2,8", "--repeats", "3", "--curves"
    ).out

    assert "spread of the scores by d_k" in output
    assert "dim 8 − dim 2" not in output


def test_rotary_and_alibi_change_the_curves() -> None:
    kinds: tuple[Positions, ...] = ("none", "rotary", "alibi")

    entropies = [
        measure_sweep(TEXT, Settings(positions=each), "temperature", ["0.5", "1"], 2).curves[
            "entropy"
        ]
        for each in kinds
    ]

    assert not torch.equal(entropies[0]["scaled"], entropies[1]["scaled"])
    assert not torch.equal(entropies[0]["scaled"], entropies[2]["scaled"])
