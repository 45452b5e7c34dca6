"""Reads an attention out of a softmax whose result is multiplied with values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.wings.listen.attended import HIDDEN_BELOW, Attended
from attnviz.wings.listen.lineage import (
    Operands,
    Product,
    Shares,
    find_operands,
    keeps_order,
    positions_after,
)

BIAS_TOLERANCE = 2e-2  # relative to the largest score: that of numbers of 16 bits
EXACT = 1e-4  # scores that differ by so little have the same weights
WEIGHT_TOLERANCE = 1e-2
CUT = "its result was moved or cut before it was multiplied"
NOT_SUMMED = "what it is multiplied with is not summed over the numbers of its rows"
BELOW_0 = "it was changed to numbers below 0 before it was multiplied"
LEARNED_KEYS = (
    "the numbers of its rows are those of a parameter, as those of a router or of classes"
)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A product of shares and values: `shares` [matrix row key] @ `values` = `result`."""

    shares: Float[Tensor, "matrix row key"]
    values: Float[Tensor, "matrix key width"]
    result: Float[Tensor, "matrix row width"]


def read_softmax(shares: Shares, mixture: Mixture) -> Attended | str:
    """Return the attention of a softmax whose result enters a product; or why it is none."""
    softmax, moved = shares.softmax, tuple(mixture.shares.shape)
    *lead, last = softmax.weights.shape
    order = torch.arange(prod(lead))  # of the mixture: where it has each row of the softmax
    weights = softmax.weights
    is_whole = is_in_order = keeps_order(shares.moves) and moved[-1] == last
    if not is_whole:  # the usual case takes no time
        places = positions_after((*lead, last), shares.moves, moved)
        if places is None:
            return CUT
        rows, columns = (places[..., 0].flatten() // last).sort(), places % last
        if bool((columns != columns[:1, :1]).any()):
            return NOT_SUMMED
        if not torch.equal(rows.values, order):
            return CUT
        is_in_order = torch.equal(rows.indices, order)
        is_whole = torch.equal(columns[0, 0], torch.arange(last))
        order, weights = rows.indices, weights[..., columns[0, 0]]
    if shares.changed and not bool((mixture.shares >= 0).all()):
        return BELOW_0
    # One matrix for each head of each item: rows that follow each other and share their values.
    count = lead[-1] if lead and moved[1] != 1 else 1
    owners = (order // moved[1]).view(-1, count)
    if bool((owners != owners[:, :1]).any()):
        owners = owners.view(-1, 1)
    heads, count = owners.shape

    def in_softmax_order(mixed: Tensor) -> Tensor:
        each_row = mixed.flatten(0, 1) if is_in_order else mixed.flatten(0, 1)[order]
        return each_row.view(heads, count, -1)

    is_own = is_in_order and heads == len(mixture.values)
    attended = Attended(
        way="softmax",
        values=mixture.values if is_own else mixture.values[owners[:, 0]],
        weights=in_softmax_order(mixture.shares)
        if shares.changed
        else weights.reshape(heads, count, -1),
        outputs=in_softmax_order(mixture.result),
        dropout=shares.dropout,
    )
    if softmax.product is not None and is_whole and not shares.changed:
        scores = tuple(softmax.scores.shape)
        operands = find_operands(softmax.product, scores, (heads, count, last))
        if operands is not None and operands.has_learned_keys:
            return LEARNED_KEYS
        if operands is not None:
            attended = _with_operands(attended, operands, softmax.product, softmax.scores)
    return attended.with_items(tuple(lead) if count == 1 and lead[-1:] != [1] else tuple(lead[:-1]))


def _with_operands(
    attended: Attended, operands: Operands, product: Product, scores: Tensor
) -> Attended:
    """Return the same with queries and keys instead of weights, if they give the same.

    What the program added to its scores, and hid from them, is what its scores differ by.
    """
    assert attended.weights is not None
    queries, keys = operands.queries.float(), operands.keys.float().mT
    seen = scores.detach().reshape(len(queries), -1, keys.shape[2]).float()
    if product.soft_cap is None:
        added = torch.baddbmm(seen, queries, keys, alpha=-product.factor)
    else:
        added = seen - _products(queries, keys, product)
    hidden, most = None, _largest(added)
    if not most < -HIDDEN_BELOW:
        hidden = ~(added > HIDDEN_BELOW)
        most = _largest(added.masked_fill_(hidden, 0))
    has_bias = False
    if most > EXACT:  # a bias, or scores of 16 bits, or a bias that changes little
        products = _products(queries, keys, product)
        has_bias = most > BIAS_TOLERANCE * max(_largest(products), 1e-6)
        if not has_bias and _differ(products, hidden, attended.weights):
            return attended
    return replace(
        attended,
        queries=operands.queries,
        keys=operands.keys,
        weights=None,
        scale=product.factor * (product.soft_cap or 1.0),
        soft_cap=product.soft_cap,
        crossed=product.crossed,
        mask=None if hidden is None else ~hidden,
        bias=added if has_bias else None,
    )


def _products(queries: Tensor, keys: Tensor, product: Product) -> Tensor:
    products = product.factor * (queries @ keys)
    return products if product.soft_cap is None else product.soft_cap * products.tanh()


def _differ(scores: Tensor, hidden: Tensor | None, weights: Tensor) -> bool:
    """Return whether the weights of these scores are others than the program's."""
    seen = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
    errors = (torch.softmax(seen, -1).nan_to_num(0) - weights.float()).abs()
    if hidden is not None:
        errors.masked_fill_(hidden.all(-1, keepdim=True), 0)
    return float(errors.max()) > WEIGHT_TOLERANCE


def _largest(numbers: Tensor) -> float:
    """Return the largest of numbers without their signs; NaN if there is any."""
    least, most = numbers.aminmax()
    return float(torch.maximum(-least, most))
