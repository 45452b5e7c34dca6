"""How attention changes with a number: curves over many seeds, all seeds of a value at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis import measures
from attnviz.analysis.aspects import ASPECTS
from attnviz.analysis.comparison import Comparison
from attnviz.analysis.seeds import Track, groups_of_seeds, plan_of, refuse_odd_repeats, scored
from attnviz.attention import arithmetic
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.origin import Drawn
from attnviz.traces.settings import Settings
from attnviz.traces.source import Source, source_of, tokens_of, width_of, with_vectors
from attnviz.traces.trace import Trace

MEASURED = ("spread", "entropy", "peak", "gradient")
SERIES = ("unscaled", "scaled")
GIVEN = "given matrices"


@dataclass(frozen=True, eq=False)
class Sweep:
    """`curves[measure][series]` has a row for each value, a column for each seed."""

    by: str
    values: tuple[float, ...]
    widths: tuple[int, ...]  # d_k for each value
    repeats: int
    curves: dict[str, dict[str, Float[Tensor, "value repeat"]]]


def sweep(
    text: str | Trace,
    settings: Settings | None,
    by: str,
    values: Sequence[str],
    repeats: int,
    track: Track = lambda steps: steps,
) -> Sweep:
    """The spread of the scores, entropy, peak and gradient, each scaled and unscaled."""
    refuse_odd_repeats(repeats)
    source = source_of(text, settings)
    tokens = tokens_of(source)
    chosen = [_valued(source, tokens, by, value) for value in values]
    plans = [plan_of(each, width_of(each)) for each in chosen]
    found = {
        measured: {series: torch.empty(len(values), repeats) for series in SERIES}
        for measured in MEASURED
    }
    for step in track(groups_of_seeds(plans, [len(tokens)] * len(plans), repeats)):
        columns = slice(step.seeds.start - plans[step.place].settings.seed, None)
        for series, measured in _measured(chosen[step.place], tokens, step.seeds).items():
            for name, numbers in measured.items():
                found[name][series][step.place, columns][: len(step.seeds)] = numbers
    widths = tuple(plan.width or 1 for plan in plans)
    return Sweep(by, tuple(map(float, values)), widths, repeats, found)


def sweep_of(comparison: Comparison, repeats: int, track: Track) -> Sweep | None:
    """The curves of what was compared; none where its values are words, or nothing is drawn."""
    trace = comparison.base.trace
    if not ASPECTS[comparison.by].numeric or trace is None or not isinstance(trace.origin, Drawn):
        return None
    values = [each.name for each in comparison.alternatives]
    return sweep(trace, None, comparison.by, values, repeats, track)


def refuse_without_curves(comparison: Comparison) -> None:
    """Refuse to show curves alone where there are none."""
    if not ASPECTS[comparison.by].numeric:
        numeric = [f"--by {name}" for name, aspect in ASPECTS.items() if aspect.numeric]
        raise AttnvizError(
            f"there are no curves by {comparison.by}: its values are not numbers on a scale",
            f"try {', '.join(numeric)}",
        )
    trace = comparison.base.trace
    learned = trace is not None and trace.model is not None
    whose, option = ("the numbers of a model", "--model") if learned else (GIVEN, "--given")
    raise AttnvizError(
        f"curves are drawn over many seeds, but {whose} do not depend on a seed",
        f"leave --curves or {option} out",
    )


def _valued(source: Source, tokens: Tokens, by: str, value: str) -> Source:
    """The same with one value of what is swept."""
    settings = ASPECTS[by].choose(source.settings, value)
    return with_vectors(replace(source, settings=settings), tokens)


def _measured(source: Source, tokens: Tokens, seeds: range) -> dict[str, dict[str, Tensor]]:
    """For each series, each measure's mean over queries and heads: one number for each seed."""
    plan, scores = scored(source, tokens, seeds)
    found = {}
    for series in SERIES:
        variant = replace(plan.variant, scaled=series == "scaled")
        scaled = scores.scores * arithmetic.scale_of(variant, plan.width or 1)
        bent = arithmetic.capped(scaled, variant.soft_cap)
        found[series] = _means(arithmetic.plus(bent, scores.bias), scores.visible)
    return found


def _means(
    logits: Float[Tensor, "seed head query key"], visible: Bool[Tensor, "query key"]
) -> dict[str, Float[Tensor, "seed"]]:
    weights = arithmetic.attention_weights(logits, visible).double()
    seen = logits.double()[..., visible]  # seed, head, visible cell
    of_rows = {
        "spread": seen.std(-1, correction=0)[..., None],
        "entropy": measures.entropy(weights),
        "peak": weights.amax(-1),
        "gradient": measures.gradient(weights),
    }
    return {name: rows.mean((1, 2)).float().cpu() for name, rows in of_rows.items()}
