"""The arithmetic of each step, written out for the token that is followed; nothing without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from math import inf
from typing import Any

from torch import Tensor

from attnviz.attention import arithmetic as attention
from attnviz.attention import block as blocks
from attnviz.attention.mistakes import MISTAKES
from attnviz.traces.layers import ratio_of
from attnviz.traces.trace import Layer
from attnviz.vectors import positions
from attnviz.views.steps.scene import Scene
from attnviz.wording import sums as arithmetic
from attnviz.wording.sums import Sum

Lines = tuple[str, ...]


class Rows(Sequence[list[float]]):
    """The rows of a matrix as numbers, each when it is written: a model's have thousands."""

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def __len__(self) -> int:
        return len(self._matrix)

    def __getitem__(self, place: Any) -> Any:
        return self._matrix[place].tolist()


def _followed(write: Callable[..., Iterator[Sum]]) -> Callable[..., Lines]:
    """Lines of text, if a token is followed."""

    @wraps(write)
    def written(here: Scene, *arguments: Any) -> Lines:
        followed = here.walk.query is not None
        return arithmetic.lines(list(write(here, *arguments))) if followed else ()

    return written


@_followed
def inputs(here: Scene, vectors: Tensor, added: Tensor, result: Tensor) -> Iterator[Sum]:
    row, name = here.followed, _query(here)
    both = [vectors[row].tolist(), added[row].tolist()]
    yield arithmetic.vectors_added(f"input({name})", both, result[row].tolist(), here.style)


@_followed
def vectors(here: Scene, layer: Layer, made: dict[str, Tensor]) -> Iterator[Sum]:
    """The followed token's query, key and value.

    Where keys are of other tokens, those of the one that it reads most.
    """
    matrices = layer.projections
    names = {"queries": "query", "keys": "key", "values": "value"}
    for plural, name in names.items():
        matrix, bias = getattr(matrices, f"w_{name}", None), getattr(matrices, f"b_{name}", None)
        if matrix is None or plural not in made:
            continue
        token, vector, place = _source(here, layer, name)
        for head in here.written_heads:
            result = made[plural][head, place].tolist()
            columns = slice(head * len(result), (head + 1) * len(result))
            yield arithmetic.mixture(
                f"{name}{here.of_head(head)}({token})", vector.tolist(),
                Rows(matrix[:, columns]), result, here.style,
                bias=None if bias is None else bias[columns].tolist(),
            )  # fmt: skip


def _source(here: Scene, layer: Layer, name: str) -> tuple[str, Tensor, int]:
    """Whose vector a query, a key or a value is made of: its name, the vector, and its place."""
    row = here.followed
    if name == "query" or layer.read is None:
        return _query(here), layer.inputs[row], row
    place = int(layer.attended.mixing[here.written_heads[0], row].argmax())
    return here.name(here.keys, place), layer.read[place], place


@_followed
def turned(here: Scene, layer: Layer) -> Iterator[Sum]:
    assert layer.unturned is not None
    row = here.followed
    angles = positions.angles(row + 1, layer.head_dim)[row].tolist()
    kinds = (
        ("query", layer.unturned.queries, layer.queries),
        ("key", layer.unturned.keys, layer.keys),
    )
    for name, before, after in kinds:
        assert after is not None
        for head in here.written_heads:
            for pair, angle in enumerate(angles[: None if here.walk.full else arithmetic.TERMS]):
                cells = slice(2 * pair, 2 * pair + 2)
                yield arithmetic.turned(
                    f"{name}{here.of_head(head)}({_query(here)}), pair {pair + 1}",
                    before[head, row, cells].tolist(), angle, after[head, row, cells].tolist(),
                    here.style,
                )  # fmt: skip


@_followed
def scores(here: Scene, layer: Layer) -> Iterator[Sum]:
    assert layer.queries is not None
    assert layer.keys is not None
    row = here.followed
    for head, key, left in _cells(here, "score", here.written_keys):
        query, other = layer.queries[head, row].tolist(), layer.keys[head, key].tolist()
        results = layer.attended.scores[head, row].tolist()
        ends = here.style.of(*results)
        yield arithmetic.dot(left, query, other, results[key], here.style, ends)


def divisors(here: Scene, layer: Layer) -> list[str]:
    """What scores are divided by, as it is written."""
    variant = here.trace.variant
    root = [f"√{layer.head_dim}"] if variant.scaled else []
    return [*root, *([f"{variant.temperature:g}"] if variant.temperature != 1 else [])]


@_followed
def scaling(here: Scene, layer: Layer) -> Iterator[Sum]:
    variant, row = here.trace.variant, here.followed
    by = (layer.head_dim**0.5 if variant.scaled else 1.0) * float(f"{variant.temperature:g}")
    for head, key, left in _cells(here, "scaled", here.written_keys):
        values = layer.attended.scores[head, row].tolist()
        results = layer.attended.scaled_scores[head, row].tolist()
        below = divisors(here, layer)
        yield arithmetic.quotient(left, values, key, below, by, results, here.style)


@_followed
def alibi(here: Scene, layer: Layer) -> Iterator[Sum]:
    row, slopes = here.followed, positions.slopes(layer.heads)
    for head, key, left in _cells(here, "biased", here.written_keys):
        values = layer.attended.scaled_scores[head, row].tolist()
        results = layer.attended.logits[head, row].tolist()
        factors = slopes[head], abs(row - key)
        yield arithmetic.less(left, values, key, factors, results, here.style)


@_followed
def mask(here: Scene, layer: Layer) -> Iterator[Sum]:
    hidden = [key for key in here.written_keys if not layer.visible[here.followed, key]]
    for key in hidden:
        name = here.name(here.keys, key)
        yield Sum(f"masked({_query(here)}, {name})", "-∞", "", True)


@_followed
def softmax(here: Scene, layer: Layer) -> Iterator[Sum]:
    row = here.followed
    # Weights by hand may be given to what the softmax gives none.
    shared = [key for key in here.visible_keys if layer.mistake or layer.visible[row, key]]
    for head, key, left in _cells(here, "weight", shared):
        numbers, place = _shared_out(layer, head, row, key)
        result = layer.attended.weights[head, row, key].item()
        yield arithmetic.softmax(left, numbers, place, result, here.style)


def _shared_out(layer: Layer, head: int, row: int, key: int) -> tuple[list[float], int]:
    """The numbers among whose exps 1 is shared out, and the place of this cell's among them."""
    mistake = MISTAKES.get(layer.mistake)
    logits, visible = layer.attended.logits, layer.visible
    numbers = logits.masked_fill(~visible, -inf)[head]
    if mistake is not None:
        numbers = mistake.numbers(logits, visible, ratio_of(layer))[head]
    among = {
        "row": (numbers[row], key),
        "column": (numbers[:, key], row),
        "matrix": (numbers.flatten(), row * numbers.shape[1] + key),
    }
    found, place = among[mistake.over if mistake else "row"]
    shared = found.isfinite()
    return found[shared].tolist(), int(shared[:place].sum())


@_followed
def dropout(here: Scene, layer: Layer) -> Iterator[Sum]:
    row, kept = here.followed, 1 / (1 - here.trace.variant.dropout)
    for head, key, left in _cells(here, "kept", here.visible_keys):
        weight = layer.attended.weights[head, row, key].item()
        result = layer.attended.mixing[head, row, key].item()
        factor = kept if result else 0.0
        yield arithmetic.product(left, weight, factor, result, here.style)


@_followed
def weighted(here: Scene, layer: Layer, made: Tensor) -> Iterator[Sum]:
    row = here.followed
    for head, key, left in _cells(here, "weighted", here.visible_keys):
        weight = layer.attended.mixing[head, row, key].item()
        value, result = layer.values[head, key].tolist(), made[head, key].tolist()
        yield arithmetic.scaled_vector(left, weight, value, result, here.style)


@_followed
def context(here: Scene, layer: Layer) -> Iterator[Sum]:
    row, style, matrices = here.followed, here.style, layer.projections
    seen = here.read_keys
    for head in here.written_heads:
        weights, values = layer.attended.mixing[head, row, seen], Rows(layer.values[head, seen])
        left = f"context{here.of_head(head)}({_query(here)})"
        result = layer.attended.contexts[head, row].tolist()
        yield arithmetic.mixture(left, weights.tolist(), values, result, style, shares=True)
    if matrices is not None and matrices.w_out is not None:
        joined = attention.join_heads(layer.attended.contexts)[row].tolist()
        bias = None if matrices.b_out is None else matrices.b_out.tolist()
        rows, result = Rows(matrices.w_out), layer.context[row].tolist()
        left = f"output({_query(here)})"
        yield arithmetic.mixture(left, joined, rows, result, style, bias=bias)


@_followed
def added(here: Scene, around: blocks.Residual) -> Iterator[Sum]:
    """x + f(x), and LayerNorm of it where that comes after."""
    row = here.followed
    both = [around.inputs[row].tolist(), around.made[row].tolist()]
    left = f"sum({_query(here)})"
    yield arithmetic.vectors_added(left, both, around.added[row].tolist(), here.style)
    if around.outputs is not around.added:
        yield from _normed(here, around.added, around.outputs)


@_followed
def normed(here: Scene, before: Tensor, after: Tensor) -> Iterator[Sum]:
    yield from _normed(here, before, after)


def _normed(here: Scene, before: Tensor, after: Tensor) -> Iterator[Sum]:
    """Learned gain and shift are 1 and 0 here, and are not written."""
    vector, name, style = before[here.followed], _query(here), here.style
    mean, variance = vector.mean().item(), vector.var(correction=0).item()
    numbers, result = vector.tolist(), after[here.followed].tolist()
    yield arithmetic.mean(f"mean({name})", numbers, mean, style)
    yield arithmetic.variance(f"variance({name})", numbers, mean, variance, style)
    spread = blocks.EPSILON
    yield arithmetic.normed(f"normed({name})", numbers, mean, variance, spread, result, style)


@_followed
def fed_forward(here: Scene, block: blocks.Block) -> Iterator[Sum]:
    """Through the first matrix, the bend, and the second matrix."""
    row, parameters, style = here.followed, block.parameters, here.style
    name = _query(here)
    read, hidden = block.feed_forward.read[row].tolist(), block.hidden[row].tolist()
    yield arithmetic.bent(
        f"hidden({name})", parameters.activation, read, Rows(parameters.w_1),
        _unless_zero(parameters.b_1), hidden, style,
    )  # fmt: skip
    yield arithmetic.mixture(
        f"fed forward({name})", hidden, Rows(parameters.w_2),
        block.feed_forward.made[row].tolist(), style, bias=_unless_zero(parameters.b_2),
    )  # fmt: skip


def _unless_zero(bias: Tensor) -> list[float] | None:
    numbers: list[float] = bias.tolist()
    return numbers if any(numbers) else None


def _cells(here: Scene, name: str, keys: Any) -> Iterator[tuple[int, int, str]]:
    """Head and key of every cell of the followed row, and what its number is called."""
    for head in here.written_heads:
        for key in keys:
            other = here.name(here.keys, key)
            yield head, key, f"{name}{here.of_head(head)}({_query(here)}, {other})"


def _query(here: Scene) -> str:
    return here.name(here.trace.tokens, here.followed)
