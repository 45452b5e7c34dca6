"""Sweeps: how attention changes with a numeric setting, as curves over many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis import measures
from attnviz.analysis.aspects import ASPECTS
from attnviz.analysis.comparison import Comparison
from attnviz.analysis.seeds import (
    SeedTracker,
    batch_seeds,
    plan_for_seeds,
    refuse_odd_repeats,
    score_seeds,
)
from attnviz.attention import arithmetic
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.origin import FromSeed
from attnviz.traces.settings import Settings
from attnviz.traces.source import Source, build_source, embedding_width, source_tokens, with_vectors
from attnviz.traces.trace import Trace

SWEEP_MEASURES = ("spread", "entropy", "peak", "gradient")
SWEEP_SERIES = ("unscaled", "scaled")


@dataclass(frozen=True, eq=False)
class Sweep:
    """Curves over the values of a setting: `curves[measure][series]` is value × seed."""

    by: str
    values: tuple[float, ...]
    widths: tuple[int, ...]  # d_k for each value
    repeats: int
    curves: dict[str, dict[str, Float[Tensor, "value repeat"]]]


def measure_sweep(
    text: str | Trace,
    settings: Settings | None,
    by: str,
    values: Sequence[str],
    repeats: int,
    track: SeedTracker = lambda steps: steps,
) -> Sweep:
    """Sweep a setting, measuring score spread, entropy, peak and gradient, unscaled and scaled."""
    refuse_odd_repeats(repeats)
    base = build_source(text, settings)
    tokens = source_tokens(base)
    by_value = [ASPECTS[by].choose(base.settings, value) for value in values]
    sources = [with_vectors(replace(base, settings=chosen), tokens) for chosen in by_value]
    plans = [plan_for_seeds(source, embedding_width(source)) for source in sources]
    curves = {
        measure: {series: torch.empty(len(values), repeats) for series in SWEEP_SERIES}
        for measure in SWEEP_MEASURES
    }
    for step in track(batch_seeds(plans, [len(tokens)] * len(plans), repeats)):
        columns = slice(step.seeds.start - plans[step.way_index].settings.seed, None)
        for series, means in _measure_series(sources[step.way_index], tokens, step.seeds).items():
            for measure, numbers in means.items():
                curves[measure][series][step.way_index, columns][: len(step.seeds)] = numbers
    widths = tuple(plan.width or 1 for plan in plans)
    return Sweep(by, tuple(map(float, values)), widths, repeats, curves)


def sweep_comparison(comparison: Comparison, repeats: int, track: SeedTracker) -> Sweep | None:
    """The curves of a comparison; None if its values are words or its numbers are not random."""
    trace = comparison.base.trace
    is_drawn = trace is not None and isinstance(trace.origin, FromSeed)
    if trace is None or not is_drawn or not ASPECTS[comparison.by].numeric:
        return None
    values = [alternative.name for alternative in comparison.alternatives]
    return measure_sweep(trace, None, comparison.by, values, repeats, track)


def refuse_without_curves(comparison: Comparison) -> None:
    """Refuse --curves for a comparison that has none."""
    if not ASPECTS[comparison.by].numeric:
        numeric = [f"--by {name}" for name, aspect in ASPECTS.items() if aspect.numeric]
        raise AttnvizError(
            f"there are no curves by {comparison.by}: its values are not numbers on a scale",
            f"try {', '.join(numeric)}",
        )
    trace = comparison.base.trace
    learned = trace is not None and trace.model is not None
    numbers, option = "given matrices", "--given"
    if learned:
        numbers, option = "the numbers of a model", "--model"
    raise AttnvizError(
        f"curves are drawn over many seeds, but {numbers} do not depend on a seed",
        f"leave --curves or {option} out",
    )


def _measure_series(source: Source, tokens: Tokens, seeds: range) -> dict[str, dict[str, Tensor]]:
    """For each series and measure its mean over heads and queries, one number per seed."""
    plan, scores = score_seeds(source, tokens, seeds)
    means_by_series = {}
    for series in SWEEP_SERIES:
        variant = replace(plan.variant, scaled=series == "scaled")
        scaled = scores.scores * arithmetic.score_scale(variant, plan.width or 1)
        capped_scores = arithmetic.cap_scores(scaled, variant.soft_cap)
        logits = arithmetic.add_to_scores(capped_scores, scores.bias)
        means_by_series[series] = _curve_means(logits, scores.visible)
    return means_by_series


def _curve_means(
    logits: Float[Tensor, "seed head query key"], visible: Bool[Tensor, "query key"]
) -> dict[str, Float[Tensor, "seed"]]:
    weights = arithmetic.attention_weights(logits, visible).double()
    visible_logits = logits.double()[..., visible]  # seed, head, visible cell
    rows_by_measure = {
        "spread": visible_logits.std(-1, correction=0)[..., None],
        "entropy": measures.entropy(weights),
        "peak": weights.amax(-1),
        "gradient": measures.softmax_gradient_size(weights),
    }
    return {name: rows.mean((1, 2)).float().cpu() for name, rows in rows_by_measure.items()}
