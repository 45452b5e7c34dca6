"""The claims that an example can make about its attention, such as "rows sum to 1"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # an example and its claims are read without torch
    from torch import Tensor

    from attnviz.traces.trace import Layer

    ItemLayers = Iterable[Layer]  # the attention layer of every item of a batch

CLAIM_TOLERANCE = 1e-6  # for numbers of size 1 in float32
UNEQUAL_KEYS_PROBLEM = "there are not as many keys as queries"
RELATIVE_ROUNDING = 1e-5  # as in torch.allclose


def _rows_sum_to_one(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    """Return whether the rows of the final weights, after dropout or by hand, sum to 1, and the
    error in words."""
    error = (layer.attended.mixing.double().sum(-1) - 1).abs().max().item()
    return error < 1e-5, f"to within {error:.0e}" if error < 1e-5 else f"one is off by {error:.4f}"


def _rows_do_not_sum_to_one(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    passed, about = _rows_sum_to_one(layer, items)
    return not passed, about


def _masked_weight(layer: Layer) -> float:
    return layer.attended.mixing.masked_fill(layer.visible, 0).abs().sum(-1).max().item()


def _masked_get_weight(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    weight = _masked_weight(layer)
    return weight > 1e-6, f"up to {weight:.4f} of a row"


def _masked_get_no_weight(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    weight = _masked_weight(layer)
    return weight == 0, "exactly 0" if weight == 0 else f"up to {weight:.4f} of a row"


def _loops_agree(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    """Return whether scores and context vectors agree with loops that add one product at a time.

    Also returns the largest difference in words; the claim fails if scores are given.
    """
    keys_of_heads, values = layer.keys_of_heads, layer.values_of_heads
    if layer.queries is None or keys_of_heads is None:
        return False, "the scores are given"
    largest = 0.0
    for head, (queries, keys) in enumerate(zip(layer.queries, keys_of_heads, strict=True)):
        for row, query in enumerate(queries):
            for column, key in enumerate(keys):
                by_hand = _score_by_loop(layer, head, query, key)
                score = layer.attended.scores[head, row, column]
                largest = max(largest, _difference_beyond_rounding(by_hand, score))
            weights, context = layer.attended.mixing[head, row], layer.attended.contexts[head, row]
            mixed = sum(w * value for w, value in zip(weights, values[head], strict=True))
            largest = max(largest, _difference_beyond_rounding(mixed, context))
    return largest < CLAIM_TOLERANCE, f"to within {largest:.0e}"


def _score_by_loop(layer: Layer, head: int, query: Tensor, key: Tensor) -> Any:
    """Return one score of a head as a sum of products, or of weighted tanh for additive scores."""
    pairs = list(zip(query, key, strict=True))
    if layer.w_score is None:
        return sum(one * other for one, other in pairs)
    weighted = zip(layer.w_score[head * len(pairs) :], pairs, strict=False)
    return sum(weight * (one + other).tanh() for weight, (one, other) in weighted)


def _difference_beyond_rounding(one: Any, other: Tensor) -> float:
    """Return the largest difference between two computations, less the rounding error of
    float32."""
    return float(((one - other).abs() - RELATIVE_ROUNDING * other.abs()).clamp(min=0).max())


def _is_square(layer: Layer) -> bool:
    """Return whether there are as many keys as queries, so that keys before a query are its
    past."""
    queries, keys = layer.attended.mixing.shape[-2:]
    return bool(queries == keys)


def _uses_past_only(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    """Return whether each context vector is the weighted sum over tokens up to its own, and how
    closely. The claim fails if there are not as many keys as queries."""
    from torch import stack

    if not _is_square(layer):
        return False, UNEQUAL_KEYS_PROBLEM
    weights, values = layer.attended.mixing, layer.values_of_heads
    tokens = range(1, values.shape[1] + 1)
    sums = [(weights[:, end - 1, :end, None] * values[:, :end]).sum(1) for end in tokens]
    summed = stack(sums, dim=1)
    difference = _difference_beyond_rounding(summed, layer.attended.contexts)
    return difference < CLAIM_TOLERANCE, f"to within {difference:.0e}"


def _is_running_mean(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    """Return whether in every item each context vector is the mean of the values up to its token.

    Also returns how closely, in words; the claim fails if there are not as many keys as queries.
    """
    from torch import stack

    if not _is_square(layer):
        return False, UNEQUAL_KEYS_PROBLEM
    difference = 0.0
    for item in items:
        means = [item.values[:, : row + 1].mean(1) for row in range(item.values.shape[1])]
        beyond = _difference_beyond_rounding(stack(means, dim=1), item.attended.contexts)
        difference = max(difference, beyond)
    return difference < CLAIM_TOLERANCE, f"to within {difference:.0e}"


def _all_items_agree(layer: Layer, items: ItemLayers) -> tuple[bool, str]:
    """Return whether all items of the batch have the same context vectors, and the number of
    items."""
    contexts = [item.context for item in items]
    difference = max(_difference_beyond_rounding(context, layer.context) for context in contexts)
    return difference == 0, f"{len(contexts)} items"


CLAIMS: dict[str, Callable[[Layer, ItemLayers], tuple[bool, str]]] = {
    "rows sum to 1": _rows_sum_to_one,
    "rows do not sum to 1": _rows_do_not_sum_to_one,
    "hidden tokens get weight": _masked_get_weight,
    "hidden tokens get no weight": _masked_get_no_weight,
    "loops agree": _loops_agree,
    "context is of the past alone": _uses_past_only,
    "context is the running mean": _is_running_mean,
    "all items agree": _all_items_agree,
}
