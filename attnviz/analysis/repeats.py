"""What ways of attending measure with every one of many seeds, so that chance can be told apart."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Comparison
from attnviz.analysis.measures import Measures, measure
from attnviz.analysis.seeds import Track, groups_of_seeds, plan_of, refuse_odd_repeats, scored
from attnviz.attention import arithmetic
from attnviz.attention.mistakes import MISTAKES
from attnviz.traces.chance import drawn_for_weights
from attnviz.traces.origin import Drawn
from attnviz.traces.source import Source, source_of
from attnviz.traces.trace import Trace

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
        return not any(bool(each.isinf().any()) for each in self.measured.values())


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
    return any(drawn_for_weights(trace) for trace in traces if trace is not None)


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
    weights, right, visible = weights[..., rows, :], right[..., rows, :], found.visible[rows]
    measures = measure(weights.flatten(0, 1), visible, None)
    means = {name: _means(getattr(measures, name), len(seeds)) for name in MEASURES}
    return means | {FROM_RIGHT: (weights - right).abs().amax((1, 2, 3)).float().cpu()}


def _means(rows: Float[Tensor, "row query"], seeds: int) -> Float[Tensor, "seed"]:
    """Of each seed, leaving out where there is none."""
    mean: Tensor = rows.reshape(seeds, -1).nanmean(1)
    return mean.float().cpu()
