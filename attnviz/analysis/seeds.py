"""Attention with many random seeds at once: scores, and measures of each alternative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis import measures
from attnviz.analysis.aspects import ASPECTS, refuse_odd_repeats
from attnviz.analysis.comparison import Comparison
from attnviz.analysis.measures import Measures, measure_weights
from attnviz.attention import arithmetic, devices
from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError, opt
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import add_positions
from attnviz.traces.inputs import (
    Source,
    build_source,
    embed_tokens,
    embedding_width,
    source_tokens,
    with_vectors,
)
from attnviz.traces.layers import UnscaledScores, score_keys
from attnviz.traces.origin import FromSeed
from attnviz.traces.plan import Plan, build_plan
from attnviz.traces.randomness import random_weight_sources
from attnviz.traces.settings import Settings, refuse_odd_rotary
from attnviz.traces.trace import Trace
from attnviz.vectors.random_numbers import Seeds

PROJECTION_NUMBERS_AT_ONCE = 2**20  # small enough for the allocator to reuse the memory
SCORE_CELLS_AT_ONCE = 2**21  # measured in float64
MAX_DRAWN_NUMBERS = 10**11  # about half an hour on one core
DRAWS_PER_MEASURED_SCORE = 20  # measuring one score takes as long as drawing 20 numbers
DEFAULT_REPEATS = 20
MISTAKE_ERROR = "from_right"  # the largest difference of a mistake's weights from correct ones
AVERAGED_MEASURES = tuple(each.name for each in fields(Measures) if each.name != "divergence")
SEED_MEASURE_NAMES = (*AVERAGED_MEASURES, MISTAKE_ERROR)
SINGLE_SEED_ASPECTS = ("seed", "dtype", "device")  # these compare the numbers of one seed


@dataclass(frozen=True)
class SeedBatch:
    """Seeds that are drawn together, and the index of the compared alternative they are drawn
    for."""

    way_index: int
    seeds: range


SeedTracker = Callable[[Sequence[SeedBatch]], Iterable[SeedBatch]]


def plan_for_seeds(source: Source, dim: int, seeds: Seeds | None = None) -> Plan:
    """Return the plan of the source's attention for embeddings of width `dim` that are drawn with
    these seeds. Refuses rotary positions with an odd head width."""
    plan = build_plan(source.settings, source.matrices, dim, seeds=seeds)
    refuse_odd_rotary(source.settings, plan.width)
    return plan


def batch_seeds(plans: Sequence[Plan], tokens: Sequence[int], repeats: int) -> list[SeedBatch]:
    """Return batches of `repeats` seeds for each plan, small enough that projections and scores fit
    in memory. `tokens` has the number of tokens for each plan. Refuses work that would take too
    long."""
    work = sum(map(_numbers_per_seed, plans, tokens))
    if work * repeats > MAX_DRAWN_NUMBERS:
        fitting = MAX_DRAWN_NUMBERS // work
        fewer_seeds = f"{opt.repeats:{fitting}}, " if fitting else ""
        raise AttnvizError(
            f"{opt.repeats:{repeats}} takes as long as drawing {work * repeats:,} numbers; the "
            f"limit is {MAX_DRAWN_NUMBERS:,}",
            f"try {fewer_seeds}fewer {opt.values}, or a shorter text",
        )
    steps = []
    for way_index, (plan, count) in enumerate(zip(plans, tokens, strict=True)):
        first, last = plan.settings.seed, plan.settings.seed + repeats
        numbers = plan.settings.width * plan.variant.heads * (plan.width or 1)
        cells = plan.variant.heads * count**2
        size = max(1, min(PROJECTION_NUMBERS_AT_ONCE // numbers, SCORE_CELLS_AT_ONCE // cells))
        for start in range(first, last, size):
            steps.append(SeedBatch(way_index, range(start, min(start + size, last))))
    return steps


def _numbers_per_seed(plan: Plan, tokens: int) -> int:
    """Return the cost of one seed in drawn numbers; a measured score counts as
    DRAWS_PER_MEASURED_SCORE."""
    width, heads = plan.settings.width, plan.variant.heads
    drawn_numbers = width * (tokens + 2 * heads * (plan.width or 1))
    return drawn_numbers + DRAWS_PER_MEASURED_SCORE * heads * tokens**2


def score_seeds(source: Source, tokens: Tokens, seeds: range) -> tuple[Plan, UnscaledScores]:
    """Return the plan, and the unscaled attention scores of the tokens with every seed, in float32.

    Everything random is drawn anew for each seed.
    """
    settings = source.settings
    device = devices.choose_device(settings.device, settings.dtype)
    drawn_seeds = Seeds(tuple(seeds), several=True)
    vectors = embed_tokens(tokens, source, drawn_seeds).to(device, torch.float32)
    plan = plan_for_seeds(source, vectors.shape[-1], drawn_seeds)
    inputs = add_positions(vectors.expand(len(seeds), -1, -1), plan)
    return plan, score_keys(plan, "", inputs, inputs, is_self_attention=True)


@dataclass(frozen=True, eq=False)
class Repeats:
    """The measures of every alternative with every seed: `by_measure[name]` is alternative ×
    seed."""

    seeds: range
    by_measure: dict[str, Float[Tensor, "way seed"]]

    @property
    def finite(self) -> bool:
        """Whether no measure is infinite and no row sum is NaN, as when a dtype overflows."""
        overflows = any(bool(numbers.isinf().any()) for numbers in self.by_measure.values())
        return not overflows and not bool(self.by_measure["row_sum"].isnan().any())


def measure_repeats(
    comparison: Comparison, repeats: int, track: SeedTracker = lambda steps: steps
) -> Repeats | None:
    """Return the measures of each alternative over `repeats` seeds, averaged over heads and
    queries. Returns None if weights do not depend on a seed, or for a single repeat. The first seed
    is the one that is shown, and all alternatives use the same seeds."""
    refuse_odd_repeats(repeats)
    if not is_repeatable(comparison) or repeats < 2:
        return None
    traces = [item.trace for item in comparison.alternatives if item.trace is not None]
    sources = [build_source(trace) for trace in traces]
    pairs = zip(sources, traces, strict=True)
    plans = [plan_for_seeds(source, trace.embeddings.shape[-1]) for source, trace in pairs]
    first = plans[0].settings.seed
    shape = len(traces), repeats
    by_measure = {name: torch.full(shape, torch.nan) for name in SEED_MEASURE_NAMES}
    for step in track(batch_seeds(plans, [len(item.tokens) for item in traces], repeats)):
        columns = slice(step.seeds.start - first, step.seeds.stop - first)
        way = sources[step.way_index], traces[step.way_index]
        for name, numbers in _measure_seeds(*way, comparison.query, step.seeds).items():
            by_measure[name][step.way_index, columns] = numbers
    return Repeats(range(first, first + repeats), by_measure)


def is_repeatable(comparison: Comparison) -> bool:
    """Return whether all weights depend on a seed alone, and another seed would draw other weights.

    A comparison by seed, dtype or device is not repeatable.
    """
    traces = [alternative.trace for alternative in comparison.alternatives]
    is_drawn = [trace is not None and isinstance(trace.origin, FromSeed) for trace in traces]
    is_for_all_seeds = comparison.by not in SINGLE_SEED_ASPECTS
    return is_for_all_seeds and all(is_drawn) and has_random_weights(comparison)


def has_random_weights(comparison: Comparison) -> bool:
    traces = (alternative.trace for alternative in comparison.alternatives)
    return any(random_weight_sources(trace, by_hand=False) for trace in traces if trace is not None)


def _measure_seeds(
    source: Source, trace: Trace, query: int | None, seeds: range
) -> dict[str, Float[Tensor, "seed"]]:
    """Return one alternative's measures for each seed, averaged over heads and queries (or in the
    row of `query`). For a deliberate mistake they include the largest difference from correct
    weights."""
    plan, scores = score_seeds(source, trace.tokens, seeds)
    layer = trace.layers[0]
    capped_scores = arithmetic.cap_scores(scores.scores * layer.scale, plan.variant.soft_cap)
    logits = arithmetic.add_to_scores(capped_scores, scores.bias)
    weights = correct_weights = arithmetic.attention_weights(logits, scores.visible)
    if layer.mistake:
        weights = MISTAKES[layer.mistake].weigh(logits, scores.visible, layer.width_ratio)
    rows = slice(None) if query is None else slice(query, query + 1)
    weights, correct_weights = weights[..., rows, :], correct_weights[..., rows, :]
    measures = measure_weights(weights.flatten(0, 1), scores.visible[..., rows, :], None)
    by_name = {name: getattr(measures, name) for name in AVERAGED_MEASURES}
    means = {name: rows.reshape(len(seeds), -1).nanmean(1) for name, rows in by_name.items()}
    means[MISTAKE_ERROR] = (weights - correct_weights).abs().amax((1, 2, 3))
    return {name: numbers.float().cpu() for name, numbers in means.items()}


SWEEP_MEASURES = ("spread", "entropy", "peak", "gradient")
SWEEP_SERIES = ("unscaled", "scaled")


@dataclass(frozen=True, eq=False)
class Sweep:
    """Curves over the values of a setting: `curves[measure][series]` is value × seed, for a series
    "unscaled" and one "scaled"."""

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
    """Return curves of score spread, entropy, largest weight and softmax gradient over the values
    of the setting `by`. Each is measured with unscaled and scaled scores for `repeats` seeds."""
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
    """Return the curves of a comparison over its values.

    Returns None if its values are not numbers on a scale, or if its numbers are not drawn from a
    seed.
    """
    trace = comparison.base.trace
    is_drawn = trace is not None and isinstance(trace.origin, FromSeed)
    if trace is None or not is_drawn or not ASPECTS[comparison.by].numeric:
        return None
    values = [alternative.name for alternative in comparison.alternatives]
    return measure_sweep(trace, None, comparison.by, values, repeats, track)


def refuse_without_curves(comparison: Comparison) -> None:
    """Raise the error that says why this comparison has no curves.

    Either its values are not numbers on a scale, or its numbers do not depend on a seed. The caller
    knows that it has none.
    """
    if not ASPECTS[comparison.by].numeric:
        numeric = [f"{opt.by:{name}}" for name, aspect in ASPECTS.items() if aspect.numeric]
        raise AttnvizError(
            f"there are no curves by {comparison.by}: its values are not numbers on a scale",
            f"try {', '.join(numeric)}",
        )
    trace = comparison.base.trace
    learned = trace is not None and trace.model is not None
    numbers, option = "given matrices", f"{opt.given}"
    if learned:
        numbers, option = "the numbers of a model", f"{opt.model}"
    raise AttnvizError(
        f"curves are drawn over many seeds, but {numbers} do not depend on a seed",
        f"leave {opt.curves} or {option} out",
    )


def _measure_series(source: Source, tokens: Tokens, seeds: range) -> dict[str, dict[str, Tensor]]:
    """Return for "unscaled" and "scaled" scores each curve measure's mean over heads and queries,
    one number per seed."""
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
    """Return for each seed the standard deviation of visible logits ("spread"), and the mean
    entropy, largest weight and softmax gradient of rows, all averaged over heads."""
    weights = arithmetic.attention_weights(logits, visible).double()
    visible_logits = logits.double()[..., visible]  # seed, head, visible cell
    rows_by_measure = {
        "spread": visible_logits.std(-1, correction=0)[..., None],
        "entropy": measures.entropy(weights),
        "peak": weights.amax(-1),
        "gradient": measures.softmax_gradient_size(weights),
    }
    return {name: rows.mean((1, 2)).float().cpu() for name, rows in rows_by_measure.items()}
