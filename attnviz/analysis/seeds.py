"""Many seeds at once: their scores, and what ways of attending measure with each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.measures import Measures, measure
from attnviz.attention import arithmetic, devices
from attnviz.attention.mistakes import MISTAKES
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.chance import drawn_for_weights
from attnviz.traces.from_text import placed
from attnviz.traces.layers import Scored, score
from attnviz.traces.origin import Drawn
from attnviz.traces.plan import Plan, planned
from attnviz.traces.settings import refuse_odd_rotary
from attnviz.traces.source import Source, embed, source_of
from attnviz.traces.trace import Trace
from attnviz.vectors.drawn import Seeds

NUMBERS_AT_ONCE = 2**20  # of one projection: memory that is used again and not asked for anew
CELLS_AT_ONCE = 2**21  # of their scores, which are measured in float64
MOST_REPEATS = 100_000
MOST_NUMBERS = 10**11  # that are worked out for a comparison: half an hour of one core
MEASURING = 20  # numbers are drawn in the time in which one score is measured

REPEATS = 20


@dataclass(frozen=True)
class Step:
    """A value, and the seeds that are drawn for it together."""

    place: int
    seeds: range


Track = Callable[[Sequence[Step]], Iterable[Step]]


def refuse_odd_repeats(repeats: int) -> None:
    if not 1 <= repeats <= MOST_REPEATS:
        problem = f"--repeats is {repeats}, and must be from 1 to {MOST_REPEATS:,}"
        raise AttnvizError(problem, f"try --repeats {min(max(repeats, 1), MOST_REPEATS)}")


def plan_of(source: Source, dim: int, seeds: Seeds | None = None) -> Plan:
    plan = planned(source.settings, source.matrices, dim, seeds=seeds)
    refuse_odd_rotary(source.settings, plan.width)
    return plan


def groups_of_seeds(plans: Sequence[Plan], tokens: Sequence[int], repeats: int) -> list[Step]:
    """Groups of seeds, as many together as keep projections and scores in bounds."""
    _refuse_endless(sum(map(_work, plans, tokens)), repeats)
    steps = []
    for place, (plan, count) in enumerate(zip(plans, tokens, strict=True)):
        first, last = plan.settings.seed, plan.settings.seed + repeats
        numbers = plan.settings.width * plan.variant.heads * (plan.width or 1)
        cells = plan.variant.heads * count**2
        together = max(1, min(NUMBERS_AT_ONCE // numbers, CELLS_AT_ONCE // cells))
        for start in range(first, last, together):
            steps.append(Step(place, range(start, min(start + together, last))))
    return steps


def _work(plan: Plan, tokens: int) -> int:
    """How many numbers are drawn for one seed; scores count as what is drawn meanwhile."""
    width, heads = plan.settings.width, plan.variant.heads
    drawn = width * (tokens + 2 * heads * (plan.width or 1))
    return drawn + MEASURING * heads * tokens**2


def _refuse_endless(work: int, repeats: int) -> None:
    """Stop before hours are spent."""
    if work * repeats > MOST_NUMBERS:
        fitting = MOST_NUMBERS // work
        raise AttnvizError(
            f"--repeats {repeats} takes as long as drawing {work * repeats:,} numbers; the limit "
            f"is {MOST_NUMBERS:,}",
            f"try --repeats {fitting}, fewer --values, or a shorter text"
            if fitting
            else "try fewer --values, or a shorter text",
        )


def scored(source: Source, tokens: Tokens, seeds: range) -> tuple[Plan, Scored]:
    """What is planned, and the scores of every seed, in float32."""
    settings = source.settings
    device = devices.choose(settings.device, settings.dtype)
    drawn = Seeds(tuple(seeds), several=True)
    vectors = embed(tokens, source, drawn).to(device, torch.float32)
    plan = plan_of(source, vectors.shape[-1], drawn)
    inputs = placed(vectors.expand(len(seeds), -1, -1), plan)
    return plan, score(plan, "", inputs, inputs, own=True)


FROM_RIGHT = "from_right"  # how far a mistake's weights are, at most, from the right ones
MEASURES = tuple(each.name for each in fields(Measures) if each.name != "divergence")
MEASURED = (*MEASURES, FROM_RIGHT)
ONE_DRAW = ("seed", "dtype", "device")  # compared on purpose with one seed's numbers


@dataclass(frozen=True, eq=False)
class Repeats:
    """`measured[name]` has a row for each way of attending, a column for each seed."""

    seeds: range
    measured: dict[str, Float[Tensor, "way seed"]]

    @property
    def finite(self) -> bool:
        """Whether no seed went beyond what numbers of this kind can hold."""
        beyond = any(bool(each.isinf().any()) for each in self.measured.values())
        return not beyond and not bool(self.measured["row_sum"].isnan().any())


def repeats_of(
    comparison: Comparison, repeats: int, track: Track = lambda steps: steps
) -> Repeats | None:
    """The measures of each way, over as many seeds; none where its weights are not left to chance.

    The first seed is the one that is shown. Ways have the same seeds, so that they can be
    compared seed by seed.
    """
    refuse_odd_repeats(repeats)
    if not repeatable(comparison) or repeats < 2:
        return None
    traces = [each.trace for each in comparison.alternatives if each.trace is not None]
    sources = [source_of(trace) for trace in traces]
    pairs = zip(sources, traces, strict=True)
    plans = [plan_of(source, trace.embeddings.shape[-1]) for source, trace in pairs]
    first = plans[0].settings.seed
    found = {name: torch.full((len(traces), repeats), torch.nan) for name in MEASURED}
    for step in track(groups_of_seeds(plans, [len(each.tokens) for each in traces], repeats)):
        columns = slice(step.seeds.start - first, step.seeds.stop - first)
        way = sources[step.place], traces[step.place]
        for name, numbers in _measured(*way, comparison.query, step.seeds).items():
            found[name][step.place, columns] = numbers
    return Repeats(range(first, first + repeats), found)


def repeatable(comparison: Comparison) -> bool:
    """Whether another seed would draw other weights, and a seed is all that they need."""
    traces = [each.trace for each in comparison.alternatives]
    drawn = [trace is not None and isinstance(trace.origin, Drawn) for trace in traces]
    return comparison.by not in ONE_DRAW and all(drawn) and left_to_chance(comparison)


def left_to_chance(comparison: Comparison) -> bool:
    """Whether the weights of any way were drawn."""
    traces = (each.trace for each in comparison.alternatives)
    return any(drawn_for_weights(trace, by_hand=False) for trace in traces if trace is not None)


def _measured(
    source: Source, trace: Trace, query: int | None, seeds: range
) -> dict[str, Float[Tensor, "seed"]]:
    """One way's measures, in the mean of heads and queries; or of the one query that is shown."""
    plan, found = scored(source, trace.tokens, seeds)
    layer = trace.layers[0]
    bent = arithmetic.capped(found.scores * layer.scale, plan.variant.soft_cap)
    logits = arithmetic.plus(bent, found.bias)
    weights = right = arithmetic.attention_weights(logits, found.visible)
    if layer.mistake:
        weights = MISTAKES[layer.mistake].weigh(logits, found.visible, layer.ratio)
    rows = slice(None) if query is None else slice(query, query + 1)
    weights, right, visible = (
        weights[..., rows, :],
        right[..., rows, :],
        found.visible[..., rows, :],
    )
    measures = measure(weights.flatten(0, 1), visible, None)
    means = {name: _means(getattr(measures, name), len(seeds)) for name in MEASURES}
    return means | {FROM_RIGHT: (weights - right).abs().amax((1, 2, 3)).float().cpu()}


def _means(rows: Float[Tensor, "row query"], seeds: int) -> Float[Tensor, "seed"]:
    """Of each seed, leaving out where there is none."""
    mean: Tensor = rows.reshape(seeds, -1).nanmean(1)
    return mean.float().cpu()
