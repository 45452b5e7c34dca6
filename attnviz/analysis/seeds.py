"""Attention with many random seeds at once: scores, and the measures of each alternative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.measures import Measures, measure_weights
from attnviz.attention import arithmetic, devices
from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import add_positions
from attnviz.traces.layers import UnscaledScores, score_keys
from attnviz.traces.origin import FromSeed
from attnviz.traces.plan import Plan, build_plan
from attnviz.traces.randomness import random_weight_sources
from attnviz.traces.settings import refuse_odd_rotary
from attnviz.traces.source import Source, build_source, embed_tokens
from attnviz.traces.trace import Trace
from attnviz.vectors.random_numbers import Seeds

PROJECTION_NUMBERS_AT_ONCE = 2**20  # small enough for the allocator to reuse the memory
SCORE_CELLS_AT_ONCE = 2**21  # measured in float64
MAX_REPEATS = 100_000
MAX_DRAWN_NUMBERS = 10**11  # about half an hour on one core
DRAWS_PER_MEASURED_SCORE = 20  # measuring one score takes as long as drawing 20 numbers
DEFAULT_REPEATS = 20
MISTAKE_ERROR = "from_right"  # the largest difference of a mistake's weights from correct ones
AVERAGED_MEASURES = tuple(each.name for each in fields(Measures) if each.name != "divergence")
SEED_MEASURE_NAMES = (*AVERAGED_MEASURES, MISTAKE_ERROR)
SINGLE_SEED_ASPECTS = ("seed", "dtype", "device")  # these compare the numbers of one seed


@dataclass(frozen=True)
class SeedBatch:
    """The seeds that are drawn together for one of the values."""

    way_index: int
    seeds: range


SeedTracker = Callable[[Sequence[SeedBatch]], Iterable[SeedBatch]]


def refuse_odd_repeats(repeats: int) -> None:
    if not 1 <= repeats <= MAX_REPEATS:
        problem = f"--repeats is {repeats}, and must be from 1 to {MAX_REPEATS:,}"
        raise AttnvizError(problem, f"try --repeats {min(max(repeats, 1), MAX_REPEATS)}")


def plan_for_seeds(source: Source, dim: int, seeds: Seeds | None = None) -> Plan:
    plan = build_plan(source.settings, source.matrices, dim, seeds=seeds)
    refuse_odd_rotary(source.settings, plan.width)
    return plan


def batch_seeds(plans: Sequence[Plan], tokens: Sequence[int], repeats: int) -> list[SeedBatch]:
    """Seeds in batches small enough that their projections and scores fit in memory."""
    _refuse_long_sampling(sum(map(_numbers_per_seed, plans, tokens)), repeats)
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
    """How many numbers are drawn for one seed, with scores counted by their computing time."""
    width, heads = plan.settings.width, plan.variant.heads
    drawn = width * (tokens + 2 * heads * (plan.width or 1))
    return drawn + DRAWS_PER_MEASURED_SCORE * heads * tokens**2


def _refuse_long_sampling(work: int, repeats: int) -> None:
    if work * repeats > MAX_DRAWN_NUMBERS:
        fitting_repeats = MAX_DRAWN_NUMBERS // work
        raise AttnvizError(
            f"--repeats {repeats} takes as long as drawing {work * repeats:,} numbers; the limit "
            f"is {MAX_DRAWN_NUMBERS:,}",
            f"try --repeats {fitting_repeats}, fewer --values, or a shorter text"
            if fitting_repeats
            else "try fewer --values, or a shorter text",
        )


def score_seeds(source: Source, tokens: Tokens, seeds: range) -> tuple[Plan, UnscaledScores]:
    """The plan, and the scores of every seed in float32."""
    settings = source.settings
    device = devices.choose_device(settings.device, settings.dtype)
    drawn_seeds = Seeds(tuple(seeds), several=True)
    vectors = embed_tokens(tokens, source, drawn_seeds).to(device, torch.float32)
    plan = plan_for_seeds(source, vectors.shape[-1], drawn_seeds)
    inputs = add_positions(vectors.expand(len(seeds), -1, -1), plan)
    return plan, score_keys(plan, "", inputs, inputs, is_self_attention=True)


@dataclass(frozen=True, eq=False)
class Repeats:
    """The measures of every alternative with every seed: `by_measure[name]` is way × seed."""

    seeds: range
    by_measure: dict[str, Float[Tensor, "way seed"]]

    @property
    def finite(self) -> bool:
        """Whether no seed overflowed the range of its dtype."""
        overflows = any(bool(numbers.isinf().any()) for numbers in self.by_measure.values())
        return not overflows and not bool(self.by_measure["row_sum"].isnan().any())


def measure_repeats(
    comparison: Comparison, repeats: int, track: SeedTracker = lambda steps: steps
) -> Repeats | None:
    """The measures of each alternative over `repeats` seeds; None if weights are not random.

    The first seed is the one that is shown. All alternatives use the same seeds, so that they can
    be compared seed by seed.
    """
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
    """Whether all weights depend on a seed alone, and another seed would draw others."""
    traces = [alternative.trace for alternative in comparison.alternatives]
    is_drawn = [trace is not None and isinstance(trace.origin, FromSeed) for trace in traces]
    is_for_all_seeds = comparison.by not in SINGLE_SEED_ASPECTS
    return is_for_all_seeds and all(is_drawn) and has_random_weights(comparison)


def has_random_weights(comparison: Comparison) -> bool:
    """Whether any alternative's weights were drawn at random."""
    traces = (alternative.trace for alternative in comparison.alternatives)
    return any(random_weight_sources(trace, by_hand=False) for trace in traces if trace is not None)


def _measure_seeds(
    source: Source, trace: Trace, query: int | None, seeds: range
) -> dict[str, Float[Tensor, "seed"]]:
    """One alternative's measures for each seed, averaged over heads and queries (or `query`)."""
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
