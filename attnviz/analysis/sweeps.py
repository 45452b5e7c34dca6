"""How attention changes with a number: curves over many seeds, all seeds of a value at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis import measures
from attnviz.analysis.comparison import BY
from attnviz.attention import arithmetic as attention
from attnviz.attention import devices
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import added_positions, embed
from attnviz.traces.settings import Settings, chosen_variant, head_width
from attnviz.vectors import drawn as embedding
from attnviz.vectors import positions

MEASURED = ("spread", "entropy", "peak", "gradient")
SERIES = ("unscaled", "scaled")
NUMBERS_AT_ONCE = 2**24  # of one projection; seeds are worked through in groups of so many
MOST_REPEATS = 100_000
BAND = (0.1, 0.9)  # between these quantiles lie 8 of 10 seeds

Track = Callable[[Sequence["Step"]], Iterable["Step"]]


@dataclass(frozen=True)
class Step:
    """A value, and the seeds that are drawn for it together."""

    place: int
    settings: Settings
    seeds: range


@dataclass(frozen=True, eq=False)
class Sweep:
    """`curves[measure][series]` has a row for each value, a column for each seed."""

    by: str
    values: tuple[float, ...]
    widths: tuple[int, ...]  # d_k for each value
    repeats: int
    curves: dict[str, dict[str, Float[Tensor, "value repeat"]]]


def sweep(
    text: str,
    settings: Settings,
    by: str,
    values: Sequence[str],
    repeats: int,
    track: Track = lambda steps: steps,
) -> Sweep:
    """The spread of the scores, entropy, peak and gradient, each scaled and unscaled."""
    check_repeats(repeats)
    chosen = [BY[by].choose(settings, value) for value in values]
    tokens = tokenize(text, settings.tokenizer)
    found = {
        measured: {series: torch.empty(len(values), repeats) for series in SERIES}
        for measured in MEASURED
    }
    for step in track(_steps(chosen, repeats)):
        columns = slice(step.seeds.start - step.settings.seed, step.seeds.stop - step.settings.seed)
        for series, measured in _measured(tokens, step.settings, step.seeds).items():
            for name, numbers in measured.items():
                found[name][series][step.place, columns] = numbers
    widths = tuple(_width(each) for each in chosen)
    return Sweep(by, tuple(map(float, values)), widths, repeats, found)


def check_repeats(repeats: int) -> None:
    if not 1 <= repeats <= MOST_REPEATS:
        nearest = min(max(repeats, 1), MOST_REPEATS)
        raise AttnvizError(
            f"--repeats is {repeats}, and must be from 1 to {MOST_REPEATS:,}",
            f"try --repeats {nearest}",
        )


def _steps(chosen: Sequence[Settings], repeats: int) -> list[Step]:
    steps = []
    for place, settings in enumerate(chosen):
        together = max(1, NUMBERS_AT_ONCE // _numbers(settings))
        for first in range(settings.seed, settings.seed + repeats, together):
            seeds = range(first, min(first + together, settings.seed + repeats))
            steps.append(Step(place, settings, seeds))
    return steps


def _numbers(settings: Settings) -> int:
    """How many numbers one seed's projection of queries has."""
    dim = settings.width
    return dim * chosen_variant(settings).heads * _width(settings)


def _width(settings: Settings) -> int:
    return head_width(settings, chosen_variant(settings), settings.width)


def _measured(tokens: Tokens, settings: Settings, seeds: range) -> dict[str, dict[str, Tensor]]:
    """For each series, each measure's mean over queries and heads: one number for each seed."""
    variant = chosen_variant(settings)
    device = devices.choose(settings.device, settings.dtype)
    scores = _scores(tokens, settings, variant, seeds).to(device)
    visible = attention.visible_cells(variant, len(tokens), device)
    found = {}
    bias = _bias(settings, variant, len(tokens), len(seeds)).to(scores)
    for series in SERIES:
        scale = attention.scale_of(replace(variant, scaled=series == "scaled"), _width(settings))
        found[series] = _means(scores * scale + bias, visible, len(seeds))
    return found


def _bias(settings: Settings, variant: Variant, tokens: int, seeds: int) -> Tensor:
    """What ALiBi adds to the scores, the same for every seed."""
    if settings.positions != "alibi":
        return torch.zeros(1)
    return positions.distance_bias(variant.heads, tokens, tokens).repeat(seeds, 1, 1)


def _scores(
    tokens: Tokens, settings: Settings, variant: Variant, seeds: range
) -> Float[Tensor, "row token token"]:
    """Raw scores, a row for each seed and head: what `run` computes, for all seeds at once."""
    inputs = _inputs(tokens, settings, seeds)
    queries, keys = inputs, inputs
    if not variant.compared:
        queries = keys = torch.zeros_like(inputs)
    elif variant.projected:
        queries, keys = (
            _projected(inputs, name, settings, variant, seeds) for name in ("w_query", "w_key")
        )
    queries, keys = (
        attention.split_heads(each, variant.heads).flatten(0, 1) for each in (queries, keys)
    )
    if settings.positions == "rotary":
        queries, keys = positions.turned(queries), positions.turned(keys)
    return attention.similarity(queries, keys)


def _inputs(tokens: Tokens, settings: Settings, seeds: range) -> Float[Tensor, "seed token dim"]:
    count, dim = len(tokens), settings.width
    if settings.embeddings is not None:
        vectors = embed(tokens, settings).expand(len(seeds), -1, -1)
    else:
        vectors = embedding.normal(seeds, "embedding", tokens.ids, dim)
    if settings.positions == "learned":
        return (vectors + embedding.normal(seeds, "position", range(count), dim)).float()
    return (vectors + added_positions(count, vectors.shape[-1], settings)).float()


def _projected(
    inputs: Float[Tensor, "seed token dim"],
    name: str,
    settings: Settings,
    variant: Variant,
    seeds: range,
) -> Float[Tensor, "seed token out"]:
    dim = inputs.shape[-1]
    drawn = embedding.normal(seeds, name, range(dim), variant.heads * _width(settings))
    return attention.project(inputs, drawn.float() / dim**0.5)


def _means(
    scores: Float[Tensor, "row query key"], visible: Bool[Tensor, "query key"], seeds: int
) -> dict[str, Float[Tensor, "seed"]]:
    weights = attention.attention_weights(scores, visible).double()
    seen = scores.double()[:, visible]  # row, visible cell
    of_rows = {
        "spread": seen.std(-1, correction=0)[:, None],
        "entropy": measures.entropy(weights),
        "peak": weights.amax(-1),
        "gradient": measures.gradient(weights),
    }
    return {name: rows.reshape(seeds, -1).mean(-1).float().cpu() for name, rows in of_rows.items()}
