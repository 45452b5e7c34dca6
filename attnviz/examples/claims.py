"""What can be claimed of an example that prints no digits: properties, each looked up in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # an example is read, and its claims are known, without torch
    from torch import Tensor

    from attnviz.traces.trace import Layer

    Items = Iterable[Layer]  # the same attention of every item of a batch

CLOSE = 1e-6  # of a number of size 1, in float32
OTHER_KEYS = "there are not as many keys as queries"
ROUNDING = 1e-5  # of a number's size, as torch.allclose has it


def _rows_sum(layer: Layer, items: Items) -> tuple[bool, str]:
    """Of the weights that are shown: what dropout leaves, or those by hand, where there are any."""
    error = (layer.attended.mixing.double().sum(-1) - 1).abs().max().item()
    return error < 1e-5, f"to within {error:.0e}" if error < 1e-5 else f"one is off by {error:.4f}"


def _rows_do_not_sum(layer: Layer, items: Items) -> tuple[bool, str]:
    passed, about = _rows_sum(layer, items)
    return not passed, about


def _hidden_weight(layer: Layer) -> float:
    return layer.attended.mixing.masked_fill(layer.visible, 0).abs().sum(-1).max().item()


def _hidden_get(layer: Layer, items: Items) -> tuple[bool, str]:
    found = _hidden_weight(layer)
    return found > 1e-6, f"up to {found:.4f} of a row"


def _hidden_get_none(layer: Layer, items: Items) -> tuple[bool, str]:
    found = _hidden_weight(layer)
    return found == 0, "exactly 0" if found == 0 else f"up to {found:.4f} of a row"


def _loops_agree(layer: Layer, items: Items) -> tuple[bool, str]:
    """Scores and context vectors, a product at a time, as a first lesson writes them."""
    keys_of_heads, values = layer.keys_of_heads, layer.values_of_heads
    if layer.queries is None or keys_of_heads is None:
        return False, "the scores are given"
    largest = 0.0
    for head, (queries, keys) in enumerate(zip(layer.queries, keys_of_heads, strict=True)):
        for row, query in enumerate(queries):
            for column, key in enumerate(keys):
                by_hand = _score(layer, head, query, key)
                score = layer.attended.scores[head, row, column]
                largest = max(largest, _apart(by_hand, score))
            weights = layer.attended.mixing[head, row]
            mixed = sum(w * value for w, value in zip(weights, values[head], strict=True))
            largest = max(largest, _apart(mixed, layer.attended.contexts[head, row]))
    return largest < CLOSE, f"to within {largest:.0e}"


def _score(layer: Layer, head: int, query: Tensor, key: Tensor) -> Any:
    """A product at a time; or, of additive scores, a tanh."""
    pairs = list(zip(query, key, strict=True))
    if layer.w_score is None:
        return sum(one * other for one, other in pairs)
    by = layer.w_score[head * len(pairs) :]
    return sum(
        weight * (one + other).tanh() for weight, (one, other) in zip(by, pairs, strict=False)
    )


def _apart(one: Any, other: Tensor) -> float:
    """How far two ways to the same number are apart, beyond float32's rounding of its size."""
    return float(((one - other).abs() - ROUNDING * other.abs()).clamp(min=0).max())


def _square(layer: Layer) -> bool:
    """Whether there is a key for each query, so that what is past can be said."""
    queries, keys = layer.attended.mixing.shape[-2:]
    return bool(queries == keys)


def _past_alone(layer: Layer, items: Items) -> tuple[bool, str]:
    """Row i of the context is the sum over the tokens up to i, whatever comes after."""
    from torch import stack

    if not _square(layer):
        return False, OTHER_KEYS
    weights, values = layer.attended.mixing, layer.values_of_heads
    alone = [
        weights[:, row, : row + 1, None] * values[:, : row + 1] for row in range(values.shape[1])
    ]
    summed = stack([part.sum(1) for part in alone], dim=1)
    apart = _apart(summed, layer.attended.contexts)
    return apart < CLOSE, f"to within {apart:.0e}"


def _running_mean(layer: Layer, items: Items) -> tuple[bool, str]:
    """By a loop of means, as the lesson's first way does it, in every item of the batch."""
    from torch import stack

    if not _square(layer):
        return False, OTHER_KEYS
    apart = 0.0
    for one in items:
        means = [one.values[:, : row + 1].mean(1) for row in range(one.values.shape[1])]
        apart = max(apart, _apart(stack(means, dim=1), one.attended.contexts))
    return apart < CLOSE, f"to within {apart:.0e}"


def _items_agree(layer: Layer, items: Items) -> tuple[bool, str]:
    contexts = [one.context for one in items]
    apart = max(_apart(context, layer.context) for context in contexts)
    return apart == 0, f"{len(contexts)} items"


CLAIMS: dict[str, Callable[[Layer, Items], tuple[bool, str]]] = {
    "rows sum to 1": _rows_sum,
    "rows do not sum to 1": _rows_do_not_sum,
    "hidden tokens get weight": _hidden_get,
    "hidden tokens get no weight": _hidden_get_none,
    "loops agree": _loops_agree,
    "context is of the past alone": _past_alone,
    "context is the running mean": _running_mean,
    "all items agree": _items_agree,
}
