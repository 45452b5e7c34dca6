"""The arithmetic of each step, written out for the followed token; empty without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from math import isfinite
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import join_heads
from attnviz.attention.block import EPSILON, Block, Norm, Residual
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import EVERYTHING
from attnviz.traces.models.prediction import Prediction, Scoring
from attnviz.traces.origin import decided
from attnviz.traces.trace import Layer
from attnviz.traces.weights import Stage, mask_of
from attnviz.vectors import positions
from attnviz.views.facts import learned
from attnviz.views.grids.numbers import MINUS_INFINITY
from attnviz.views.origin_words import names_of
from attnviz.views.steps import trained
from attnviz.views.steps.scene import Scene
from attnviz.wording import sums
from attnviz.wording.numbers import exact_text
from attnviz.wording.sums import Sum

Sums = tuple[Sum, ...]


class Rows(Sequence[list[float]]):
    """The rows of a matrix as numbers, each when it is written: a model's have thousands."""

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def __len__(self) -> int:
        return len(self._matrix)

    def __getitem__(self, place: Any) -> Any:
        return self._matrix[place].tolist()


def _followed(write: Callable[..., Iterator[Sum]]) -> Callable[..., Sums]:
    """The sums, if a token is followed."""

    @wraps(write)
    def written(here: Scene, *arguments: Any) -> Sums:
        return () if here.asked.query is None else tuple(write(here, *arguments))

    return written


@_followed
def inputs(here: Scene) -> Iterator[Sum]:
    row, entering, embeddings = here.followed, here.layer.entering, here.trace.embeddings
    added = entering - embeddings
    both = [embeddings[row].tolist(), added[row].tolist()]
    left = f"input({here.query_name})"
    yield sums.vectors_added(left, both, entering[row].tolist(), here.style)


@_followed
def vectors(here: Scene, layer: Layer, found: dict[str, Tensor]) -> Iterator[Sum]:
    """The followed token's query, key and value; key and value of --key, if it is given.

    Where keys come from other tokens, those of the one it attends to most.
    """
    matrices = layer.projections
    names = {"queries": "query", "keys": "key", "values": "value"}
    for plural, name in names.items():
        matrix, bias = getattr(matrices, f"w_{name}", None), getattr(matrices, f"b_{name}", None)
        if matrix is None or plural not in found:
            continue
        token, vector, place = _source(here, layer, name)
        groups = here.groups(len(found[plural]), here.written_heads)
        for group, heads in groups.items():
            result = found[plural][group, place].tolist()
            columns = slice(group * len(result), (group + 1) * len(result))
            yield sums.mixture(
                f"{name}{here.of_group(heads)}({token})",
                vector.tolist(),
                Rows(matrix[:, columns]),
                result,
                here.style,
                bias=None if bias is None else bias[columns].tolist(),
            )


def _source(here: Scene, layer: Layer, name: str) -> tuple[str, Tensor, int]:
    """Whose vector a query, a key or a value is made of: its name, the vector, and its place."""
    row, asked = here.followed, here.asked.key
    if name == "query" or (layer.key_inputs is None and asked is None):
        return here.query_name, layer.inputs[row], row
    place = _key(here)
    read = layer.inputs if layer.key_inputs is None else layer.key_inputs
    return here.name(here.keys, place), read[place], place


def _key(here: Scene) -> int:
    """The key that is asked for; the followed token's own, or of others the one read most."""
    if here.asked.key is not None:
        return here.asked.key
    if here.keys is here.trace.tokens:
        return here.followed
    weights = here.row("mixing", here.written_heads[0])
    return weights.index(max(weights))


@_followed
def turned(here: Scene, layer: Layer) -> Iterator[Sum]:
    assert layer.before_rotary is not None
    key = _key(here)
    kinds = (
        ("query", here.followed, layer.before_rotary.queries, layer.queries),
        ("key", key, layer.before_rotary.keys, layer.keys),
    )
    for name, row, before, after in kinds:
        assert after is not None
        token = here.name(here.trace.tokens if name == "query" else here.keys, row)
        width, settings = layer.head_dim, decided(here.trace.origin)
        angles = positions.angles(row + 1, width, settings.position_base)[row].tolist()
        for group, heads in here.groups(len(before), here.written_heads).items():
            for pair, angle in enumerate(angles[: None if here.asked.full else sums.TERMS]):
                halves = here.trace.positions == "rotary-halves"
                cells = positions.pair_places(pair, width, halves=halves)
                yield sums.turned(
                    f"{name}{here.of_group(heads)}({token}), pair {pair + 1}",
                    before[group, row, cells].tolist(),
                    angle,
                    after[group, row, cells].tolist(),
                    here.style,
                )


@_followed
def scores(here: Scene, layer: Layer) -> Iterator[Sum]:
    assert layer.queries is not None
    keys, row = layer.keys_of_heads, here.followed
    assert keys is not None
    for head, key, left in _cells(here, "score", here.written_keys):
        query, other = layer.queries[head, row].tolist(), keys[head, key].tolist()
        results = here.row("scores", head)
        ends = here.style.of(*results)
        yield sums.dot(left, query, other, results[key], here.style, ends)


@_followed
def additive_scores(here: Scene, layer: Layer) -> Iterator[Sum]:
    queries, keys, w_score = layer.queries, layer.keys_of_heads, layer.w_score
    assert queries is not None
    assert keys is not None
    assert w_score is not None
    weights = w_score.view(layer.heads, -1)
    for head, key, left in _cells(here, "score", here.written_keys):
        query, other = queries[head, here.followed].tolist(), keys[head, key].tolist()
        results = here.row("scores", head)
        ends = here.style.of(*results)
        by = weights[head].tolist()
        yield sums.additive(left, by, (query, other), results[key], here.style, ends)


def divisors(here: Scene, layer: Layer) -> list[str]:
    """What scores are divided by, as it is written."""
    variant = here.trace.variant
    if here.trace.trained is not None:
        return [each for each in (trained.divisor(layer),) if each]
    root = [f"√{layer.head_dim}"] if variant.scaled else []
    return [*root, *([exact_text(variant.temperature)] if variant.temperature != 1 else [])]


@_followed
def scaling(here: Scene, layer: Layer) -> Iterator[Sum]:
    variant = here.trace.variant
    root = layer.head_dim**0.5 if variant.scaled else 1.0
    by = 1 / layer.scale if here.trace.trained is not None else root * variant.temperature
    for head, key, left in _cells(here, "scaled", here.written_keys):
        values, results = here.row("scores", head), here.row("scaled scores", head)
        below = divisors(here, layer)
        yield sums.quotient(left, values, key, below, by, results, here.style)


@_followed
def soft_cap(here: Scene, layer: Layer) -> Iterator[Sum]:
    cap = here.trace.variant.soft_cap
    assert cap is not None
    for head, key, left in _cells(here, "capped", here.written_keys):
        values, results = here.row("scaled scores", head), here.row("capped scores", head)
        yield sums.capped(left, values, key, cap, results, here.style)


@_followed
def alibi(here: Scene, layer: Layer) -> Iterator[Sum]:
    row, slopes = here.followed, positions.slopes(layer.heads)
    stage = here.stage_before("biased scores")
    for head, key, left in _cells(here, "biased", here.written_keys):
        values, results = here.row(stage, head), here.row("biased scores", head)
        factors = slopes[head], abs(row - key)
        yield sums.less(left, values, key, factors, results, here.style)


@_followed
def position_bias(here: Scene, layer: Layer) -> Iterator[Sum]:
    assert layer.attended.bias is not None
    yield from _added(here, "biased", "biased scores", layer.attended.bias)


@_followed
def additive_mask(here: Scene, layer: Layer) -> Iterator[Sum]:
    assert layer.attended.mask is not None
    yield from _added(here, "with mask", "scores with mask", layer.attended.mask)


def _added(here: Scene, name: str, stage: Stage, numbers: Tensor) -> Iterator[Sum]:
    """A score, and what is added to it, of each key."""
    before = here.stage_before(stage)
    for head, key, left in _cells(here, name, here.written_keys):
        values, results = here.row(before, head), here.row(stage, head)
        added = mask_of(head, numbers)[here.followed].tolist()
        yield sums.more(left, values, key, added, results, here.style)


@_followed
def mask(here: Scene, layer: Layer) -> Iterator[Sum]:
    of_heads = len(here.masks) > 1
    for head in (each for each in here.masks if each in here.written_heads):
        for key in (each for each in here.written_keys if each in here.masked_keys(head)):
            cell = f"({here.query_name}, {here.name(here.keys, key)})"
            left = f"masked{here.of_head(head) if of_heads else ''}{cell}"
            yield Sum(left, MINUS_INFINITY, "", True)


@_followed
def softmax(here: Scene, layer: Layer) -> Iterator[Sum]:
    # Weights by hand may be given to what the softmax gives none.
    for head, key, left in _cells(here, "weight", here.visible_keys):
        if key in here.masked_keys(head) and not layer.mistake:
            continue
        numbers, place = _shared_out(here, layer, head, key)
        result = here.row("weights", head)[key]
        yield sums.softmax(left, numbers, place, result, here.style)


def _shared_out(here: Scene, layer: Layer, head: int, key: int) -> tuple[list[float], int]:
    """The numbers among whose exps 1 is shared out, and the place of this cell's among them."""
    row, cells = here.followed, layer.weights.cells("exponents", head)
    mistake = MISTAKES.get(layer.mistake)
    over = mistake.over if mistake else "row"
    if over == "row":
        found, place = cells.row(row).values[0], key
    elif over == "column":
        found, place = cells.window(EVERYTHING, slice(key, key + 1)).values[:, 0], row
    else:
        found, place = (
            cells.window(EVERYTHING, EVERYTHING).values.ravel(),
            row * cells.shape[1] + key,
        )
    sink = layer.attended.sink
    if sink is not None:
        found = np.append(found, sink[head].item())
    shared = np.isfinite(found)
    return found[shared].tolist(), int(shared[:place].sum())


@_followed
def matches(here: Scene, layer: Layer) -> Iterator[Sum]:
    """What the softmax receives of each key that has any of what is asked for, number by number.

    Where a cap bends the scores, that is no sum.
    """
    assert layer.queries is not None
    keys, below = layer.keys_of_heads, divisors(here, layer)
    assert keys is not None
    for head, key, left in _cells(here, "match", here.visible_keys):
        numbers = (layer.queries[head, here.followed].tolist(), keys[head, key].tolist())
        named = zip(names_of(here.trace, layer, "width", head), *numbers, strict=True)
        met = [each for each in named if each[1] and each[2]]
        result = here.row("masked scores", head)[key]
        if met and isfinite(result) and layer.attended.capped_scores is None:
            more = result - here.row("scaled scores", head)[key]
            by = (below, 1 / layer.scale)
            yield sums.match(left, met, by, more, result, here.style)


@_followed
def dropout(here: Scene, layer: Layer) -> Iterator[Sum]:
    kept, given = 1 / (1 - here.trace.variant.dropout), "kept" in layer.given
    for head, key, left in _cells(here, "kept", here.visible_keys):
        weight, result = here.row("weights", head)[key], here.row("mixing", head)[key]
        own = result / weight if given and weight else kept
        yield sums.product(left, weight, own if result else 0.0, result, here.style)


@_followed
def weighted(here: Scene, layer: Layer) -> Iterator[Sum]:
    for head, key, left in _cells(here, "weighted", here.visible_keys):
        weight = here.row("mixing", head)[key]
        value, result = layer.values_of_heads[head, key].tolist(), here.weighted[head, key].tolist()
        yield sums.scaled_vector(left, weight, value, result, here.style)


@_followed
def context(here: Scene, layer: Layer) -> Iterator[Sum]:
    row, style, matrices = here.followed, here.style, layer.projections
    seen = here.read_keys
    for head in here.written_heads:
        row_of_weights = here.row("mixing", head)
        weights, values = (
            [row_of_weights[key] for key in seen],
            Rows(layer.values_of_heads[head, seen]),
        )
        left = f"context{here.of_head(head)}({here.query_name})"
        result = layer.attended.contexts[head, row].tolist()
        if layer.off.get(head) == "mean":
            made = arithmetic.mix(layer.attended.mixing, layer.values_of_heads)[head]
            yield sums.mean_of_vectors(left, Rows(made), result, style)
        elif seen and head not in layer.off:
            yield sums.mixture(left, weights, values, result, style, shares=True)
        else:
            yield Sum(left, sums.vector_text(result, style.of(*result)), "", True)
    if matrices is not None and matrices.w_out is not None:
        joined = join_heads(layer.attended.contexts)[row].tolist()
        bias = None if matrices.b_out is None else matrices.b_out.tolist()
        rows, result = Rows(matrices.w_out), layer.context[row].tolist()
        left = f"output({here.query_name})"
        yield sums.mixture(left, joined, rows, result, style, bias=bias)


@_followed
def added(here: Scene, residual: Residual) -> Iterator[Sum]:
    """x + f(x), and LayerNorm of it where that comes after."""
    row = here.followed
    both = [residual.inputs[row].tolist(), residual.sublayer_outputs[row].tolist()]
    left = f"sum({here.query_name})"
    yield sums.vectors_added(left, both, residual.added[row].tolist(), here.style)
    post = here.layer.block is not None and here.layer.block.place == "post"
    if residual.norm is not None and post:
        yield from _normed(here, residual.added, residual.outputs, residual.norm)


@_followed
def normed(here: Scene, before: Tensor, after: Tensor, norm: Norm) -> Iterator[Sum]:
    yield from _normed(here, before, after, norm)


def _normed(here: Scene, before: Tensor, after: Tensor, norm: Norm) -> Iterator[Sum]:
    """Mean and variance, and what is made with them; a gain of 1 and a shift of 0 not written."""
    vector, name, style = before[here.followed], here.query_name, here.style
    mean, variance = vector.mean().item(), vector.var(correction=0).item()
    numbers, result = vector.tolist(), after[here.followed].tolist()
    yield sums.mean(f"mean({name})", numbers, mean, style)
    yield sums.variance(f"variance({name})", numbers, mean, variance, style)
    own = (norm.gain.tolist(), norm.shift.tolist()) if learned(norm) else None
    spread = (variance, EPSILON)
    yield sums.normed(f"normed({name})", numbers, mean, spread, result, style, own)


@_followed
def fed_forward(here: Scene, block: Block) -> Iterator[Sum]:
    """Through the first matrix, the activation, and the second matrix."""
    fed, row, style = block.feeding, here.followed, here.style
    parameters, name, residual = fed.parameters, here.query_name, fed.residual
    read, hidden = residual.sublayer_inputs[row].tolist(), fed.hidden[row].tolist()
    yield sums.activated(
        f"hidden({name})",
        parameters.activation,
        read,
        Rows(parameters.w_1),
        _unless_zero(parameters.b_1),
        hidden,
        style,
    )
    yield sums.mixture(
        f"output({name})",
        hidden,
        Rows(parameters.w_2),
        residual.sublayer_outputs[row].tolist(),
        style,
        bias=_unless_zero(parameters.b_2),
    )


@_followed
def scores_of_answers(
    here: Scene, made: Prediction, scoring: Scoring, answers: Sequence[int]
) -> Iterator[Sum]:
    row, style = here.followed, here.style
    vector, ends = scoring.vectors[row].tolist(), style.of(*made.logits[row].tolist())
    for each in answers:
        left = f"score({here.query_name}, {made.answers[each]})"
        column, result = scoring.w_answers[:, each].tolist(), made.logits[row, each].item()
        more = None if scoring.b_answers is None else scoring.b_answers[each].item()
        yield sums.dot(left, vector, column, result, style, ends, more)


@_followed
def shares_of_answers(here: Scene, made: Prediction, answers: Sequence[int]) -> Iterator[Sum]:
    row, scores = here.followed, made.logits[here.followed].tolist()
    order = [*answers, *(place for place in range(len(scores)) if place not in answers)]
    ordered = [scores[place] for place in order]
    for place, each in enumerate(answers):
        left = f"probability({here.query_name}, {made.answers[each]})"
        result = made.probabilities[row, each].item()
        yield sums.softmax(left, ordered, place, result, here.style)


def _unless_zero(bias: Tensor) -> list[float] | None:
    numbers: list[float] = bias.tolist()
    return numbers if any(numbers) else None


def _cells(here: Scene, name: str, keys: Any) -> Iterator[tuple[int, int, str]]:
    """Head and key of every cell of the followed row, and what its number is called."""
    for head in here.written_heads:
        for key in keys:
            other = here.name(here.keys, key)
            yield head, key, f"{name}{here.of_head(head)}({here.query_name}, {other})"
