"""Reads an attention out of a softmax whose result is multiplied with values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.wings.listen.attended import HIDDEN_BELOW, Attended
from attnviz.wings.listen.lineage import (
    Operands,
    Product,
    Shares,
    find_operands,
    keeps_order,
    positions_after,
    varies,
)

BIAS_TOLERANCE = 2e-2  # relative to the largest score: that of numbers of 16 bits
EXACT = 1e-4  # scores that differ by so little have the same weights
WEIGHT_TOLERANCE = 1e-2
CUT = "its result was moved or cut before it was multiplied"
NOT_SUMMED = "what it is multiplied with is not summed over the numbers of its rows"
BELOW_0 = "it was changed to numbers below 0 before it was multiplied"
SEVERAL_VALUES = "its rows are multiplied with several values"
LEARNED_KEYS = (
    "the numbers of its rows are those of a parameter, as those of a router or of classes"
)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A product of shares and values: `shares` [matrix row key] @ `values` = `result`."""

    shares: Float[Tensor, "matrix row key"]
    values: Float[Tensor, "matrix key width"]
    result: Float[Tensor, "matrix row width"]

    def in_three_dimensions(self) -> Mixture:
        if self.shares.ndim == 3:
            return self
        return Mixture(self.shares[None], self.values[None], self.result[None])


@dataclass(frozen=True, eq=False)
class Rows:
    """Which row of a mixture each row of a softmax became; in heads of so many rows each."""

    matrix: Int[Tensor, "head row"]
    row: Int[Tensor, "head row"]
    columns: Int[Tensor, "key"]  # of the softmax, which values were multiplied with


def read_softmax(shares: Shares, mixture: Mixture) -> Attended | str:
    """Return the attention of a softmax whose result enters a product; or why it is none."""
    softmax, mixture = shares.softmax, mixture.in_three_dimensions()
    rows = find_rows(shares, mixture)
    if isinstance(rows, str):
        return rows
    heads, count = rows.row.shape
    keys = len(rows.columns)
    whole_weights = softmax.weights.reshape(heads, count, -1)
    has_all_keys = torch.equal(rows.columns, torch.arange(whole_weights.shape[2]))
    weights = whole_weights if has_all_keys else whole_weights[..., rows.columns]
    device = mixture.values.device
    if shares.changed and not bool((mixture.shares >= 0).all()):
        return BELOW_0
    matrix, row = rows.matrix.to(device), rows.row.to(device)
    is_in_order = mixture.result.shape[:2] == (heads, count) and keeps_order(shares.moves)
    weights_alone = Attended(
        way="softmax",
        queries=None,
        keys=None,
        values=mixture.values if is_in_order else mixture.values[matrix[:, 0]],
        weights=mixture.shares[matrix, row] if shares.changed else weights,
        outputs=mixture.result if is_in_order else mixture.result[matrix, row],
        scale=1.0,
        dropout=shares.dropout,
    )
    attended = weights_alone
    if softmax.product is not None and has_all_keys and not shares.changed:
        scores = tuple(softmax.scores.shape)
        operands = find_operands(softmax.product, scores, (heads, count, keys))
        if operands is not None and operands.has_learned_keys:
            return LEARNED_KEYS
        if operands is not None:
            attended = _with_operands(weights_alone, operands, softmax.product, softmax.scores)
    *lead, _last = softmax.weights.shape
    return attended.with_items(tuple(lead) if count == 1 and lead[-1:] != [1] else tuple(lead[:-1]))


def find_rows(shares: Shares, mixture: Mixture) -> Rows | str:
    """Return where the rows of a softmax are in a mixture; or why its result is no attention's."""
    *lead, last = shares.softmax.weights.shape
    moved = tuple(mixture.shares.shape)
    # [matrix row] of the mixture: which row of the softmax it is; [key]: which column.
    if keeps_order(shares.moves) and moved[-1] == last:  # the usual case takes no time
        source, columns = torch.arange(prod(lead)).view(moved[:-1]), torch.arange(last)
    else:
        places = positions_after((*lead, last), shares.moves, moved)
        if places is None:
            return CUT
        source, columns = places[..., 0] // last, places[0, 0] % last
        if last > 1 and bool((places % last != columns).any()):
            return NOT_SUMMED
    if not torch.equal(source.flatten().sort().values, torch.arange(prod(lead))):
        return CUT
    # One matrix for each head of each item: rows that follow each other and share their values.
    count = lead[-1] if lead and moved[1] != 1 else 1
    head = source // count
    if moved[1] % count or varies(head.view(moved[0], -1, count), along=2):
        count = 1
    order = source.flatten().argsort()
    matrix, row = (order // moved[1]).view(-1, count), (order % moved[1]).view(-1, count)
    if bool((matrix != matrix[:, :1]).any()):
        return SEVERAL_VALUES
    return Rows(matrix, row, columns)


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
