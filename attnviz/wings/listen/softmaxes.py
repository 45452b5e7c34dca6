"""What became of products and softmaxes in a program, and which head of an attention they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.wings.listen.attended import HIDDEN_BELOW, Attended

# Operations that copy the numbers of their first argument, that leave them in their order, and that
# only move them.
COPIES = frozenset((
    "clone", "contiguous", "_to_copy", "to", "detach", "alias", "lift_fresh",
))  # fmt: skip
IN_ORDER = COPIES | frozenset((
    "view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "flatten",
    "unflatten",
))  # fmt: skip
SPLITS = frozenset(("split", "split_with_sizes", "chunk", "unbind"))  # have several results
PICKS = frozenset(("expand", "slice", "narrow"))  # of the same shape, they pick everything
MOVES = IN_ORDER | PICKS | frozenset(("transpose", "permute", "t", "select"))
# Operations that keep the place of each number, if the result is as large.
CHANGES = frozenset((
    "add", "sub", "mul", "div", "where", "masked_fill", "nan_to_num", "tril", "triu", "clamp",
    "clamp_min", "clamp_max", "maximum", "minimum", "dropout", "native_dropout", "fill", "copy",
    "index_put", "masked_scatter", "tanh", "exp", "_weight_norm_interface",
))  # fmt: skip
PRODUCTS = {"bmm": 0, "mm": 0, "baddbmm": 1, "addmm": 1, "addbmm": 1}  # where the operands begin
BIAS_TOLERANCE = 2e-2  # relative to the largest score: that of numbers of 16 bits
EXACT = 1e-4  # scores that differ by so little have the same weights
WEIGHT_TOLERANCE = 1e-2
CUT = "its result was moved or cut before it was multiplied"
NOT_SUMMED = "the product with it sums over another dimension than the softmax"
BELOW_0 = "it was changed to numbers below 0 before it was multiplied"
LEARNED_KEYS = (
    "its input is tokens times a parameter, as that of a router, of classes or of features"
)


@cache
def plain_name(func: Any) -> str:
    """Return `add` for aten.add.Tensor and for aten.add_.Tensor."""
    name: str = func._schema.name.split("::")[1]
    return name if name.startswith("_") else name.removesuffix("_")


class Move(NamedTuple):
    """An operation that moves numbers, to be done again with their positions."""

    name: str
    operation: Callable[[Tensor], Tensor]
    inputs: Any = None  # of the operation beside the tensor: what tells it from others of its name


@dataclass(frozen=True, eq=False)
class Product:
    """The result of `left` @ `right`, and how its numbers were moved and scaled since."""

    left: Float[Tensor, "batch row width"]
    right: Float[Tensor, "batch width column"]
    learned: tuple[bool, bool]  # whether left and right are parameters, no results of the program
    origin: int  # which memory the numbers of `left` are in, or were copied from
    crossed: bool = False  # whether both are known to be made of different vectors
    moves: tuple[Move, ...] = ()
    factor: float = 1.0
    soft_cap: float | None = None
    pooled_by: Softmax | None = None  # weights that are no product's, which `left` or `right` are

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of matrices, rows and columns."""
        return self.left.shape[0], self.left.shape[1], self.right.shape[2]

    def changed_by(
        self, name: str, product: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Product | None:
        """The same after an operation on its numbers, the tensor `product`; None if they can no
        longer be told. What is added to them is found out by comparing.
        """
        if name in ("mul", "div"):
            other = args[1] if args[0] is product else args[0]
            is_number = not isinstance(other, Tensor) or other.numel() == 1
            if not is_number or (name == "div" and (args[1] is product or kwargs)):
                return None
            factor = float(other) if name == "mul" else 1 / float(other)
            if self.soft_cap is None:
                return replace(self, factor=self.factor * factor)
            return replace(self, soft_cap=self.soft_cap * factor)
        if name == "tanh" and self.soft_cap is None:
            return replace(self, soft_cap=1.0)
        return None if name in ("tanh", "exp") else self


@dataclass(frozen=True, eq=False)
class Softmax:
    """A softmax that may be that of an attention."""

    scores: Tensor  # its input
    weights: Tensor  # its result
    product: Product | None  # what its input was made of, if that is known
    module: str
    shape: tuple[int, ...]  # in the program

    @property
    def compares(self) -> bool:
        """Whether its input is a product of queries and keys, neither of which is a parameter."""
        return self.product is not None and not any(self.product.learned)

    def with_dimension(self, dimension: int, place: int) -> Softmax:
        """The same with a dimension at another place."""
        move = Move("movedim", lambda tensor: tensor.movedim(dimension, place))
        product = self.product and replace(self.product, moves=(*self.product.moves, move))
        scores, weights = move.operation(self.scores), move.operation(self.weights)
        return replace(self, scores=scores, weights=weights, product=product)


@dataclass(frozen=True, eq=False, kw_only=True)
class Shares:
    """The result of a softmax, and how its numbers were moved since."""

    softmax: Softmax
    moves: tuple[Move, ...] = ()
    dropout: bool = False
    changed: bool = False  # otherwise: by a gate, or by adding another softmax

    def turned(self, dimension: int, place: int) -> Shares:
        """The same with a dimension of the softmax elsewhere, moved back for what follows."""
        back = Move("movedim", lambda tensor: tensor.movedim(place, dimension))
        softmax = self.softmax.with_dimension(dimension, place)
        return replace(self, softmax=softmax, moves=(back, *self.moves))


Lineage = Product | Shares


def keeps_order(moves: tuple[Move, ...]) -> bool:
    return all(move.name in IN_ORDER for move in moves)


def move_again(numbers: Tensor, moves: tuple[Move, ...]) -> Tensor:
    """Return other numbers after the same moves."""
    for move in moves:
        numbers = numbers if move.name in COPIES else move.operation(numbers)
    return numbers


def positions_after(
    shape: tuple[int, ...], moves: tuple[Move, ...], moved: tuple[int, ...]
) -> Int[Tensor, "*moved"] | None:
    """Return where each number of a moved tensor was before: its place in the order of rows of a
    tensor of this shape. None if that cannot be told.
    """
    positions = torch.arange(prod(shape)).view(shape)
    if keeps_order(moves):
        return positions.view(moved) if prod(shape) == prod(moved) else None
    positions = move_again(positions, moves)
    return positions if tuple(positions.shape) == moved else None


def find_order(product: Product, vectors: Tensor, count: int) -> Int[Tensor, "item head"] | None:
    """Return which of so many matrices of `vectors` [… token width] each head of each item is.

    Vectors are known to be columns of a product of tokens and a parameter: matrices of the same
    rows are heads of one text, those of the same columns are one head. None if that is not known.
    """
    is_one_matrix = len(product.right) == 1 or product.right.stride(0) == 0
    if product.learned != (False, True) or not is_one_matrix:
        return None
    places = positions_after(product.shape, product.moves, tuple(vectors.shape))
    if places is None or not places.numel() or places[..., 0].numel() % count:
        return None
    vector_places, width = places[..., 0].reshape(count, -1), product.shape[2]  # [matrix token]
    starts, rows = vector_places[:, 0], vector_places // width
    columns = starts % width
    heads = len(set(columns.tolist()))
    if len(set(starts.tolist())) < len(starts) or len(starts) % heads:
        return None  # several heads share vectors
    order = starts.argsort().view(-1, heads)
    expected = rows[order[:, :1]] * width + columns[order[:1], None]
    # Rows of one head that are apart may be those of other heads, split before the product.
    is_sure = heads > 1 or bool((rows.diff() == 1).all())
    return order if is_sure and torch.equal(vector_places[order], expected) else None


class Operands(NamedTuple):
    """The two sides of scores, one matrix for each head of each item."""

    queries: Float[Tensor, "matrix query width"]
    keys: Float[Tensor, "matrix key width"]


def find_operands(
    product: Product, moved: tuple[int, ...], scores: tuple[int, int, int]
) -> Operands | str | None:
    """Return what scores [matrix query key] are products of, or why they are no attention's; None
    if the product was moved so that they are in another order, but transposed. `moved` is their
    shape in the program.
    """
    (matrices, rows, columns), (heads, count, keys) = product.shape, scores
    if keeps_order(product.moves):  # the usual case takes no time
        is_in_order = prod(scores) == prod(product.shape)
        if is_in_order and product.learned[1] and keys == columns > 1:
            return LEARNED_KEYS
    else:
        places = positions_after(product.shape, product.moves, moved)
        if places is None or places.numel() != prod(scores):
            return None
        for is_learned, of_token in zip(
            product.learned[::-1], (places // columns, places % columns), strict=True
        ):
            if is_learned and keys > 1 and bool((of_token == of_token[..., :1]).all()):
                return LEARNED_KEYS
        before = torch.arange(prod(product.shape)).view(product.shape)
        is_in_order = torch.equal(places.flatten(), before.flatten())
        if torch.equal(places.reshape(scores), before.mT):
            return Operands(product.right.mT, product.left)
    if not is_in_order or keys != columns or rows % count:
        return None
    owners = torch.arange(heads) // (rows // count)
    return Operands(
        product.left.reshape(heads, count, -1),
        product.right.mT if heads == matrices else product.right.mT[owners],
    )


@dataclass(frozen=True, eq=False)
class Mixture:
    """A product of shares and values: `shares` [matrix row key] @ `values` = `result`."""

    shares: Float[Tensor, "matrix row key"]
    values: Float[Tensor, "matrix key width"]
    result: Float[Tensor, "matrix row width"]


def read_softmax(shares: Shares, mixture: Mixture) -> tuple[Attended, tuple[int, ...]] | str:
    """Return the attention of a softmax whose result enters a product, each matrix an item, and the
    dimensions that the matrices have in the program; or why it is none.
    """
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
        if (place := dimension_of_queries(owners.view(lead))) is not None:
            return read_softmax(shares.turned(place, -2), mixture)
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
    if softmax.product is not None:
        scores = tuple(softmax.scores.shape)
        operands = find_operands(softmax.product, scores, (heads, count, last))
        if isinstance(operands, str):
            return operands
        if operands is not None and is_whole and not shares.changed:
            attended = _with_operands(attended, operands, softmax.product, softmax.scores)
    is_row_of_items = count == 1 and lead[-1:] != [1]
    return attended.with_items((heads,)), tuple(lead) if is_row_of_items else tuple(lead[:-1])


def dimension_of_queries(owners: Int[Tensor, "*lead"]) -> int | None:
    """Return the last dimension along which rows of a softmax have the same values."""
    for place in reversed(range(owners.ndim)):
        if owners.shape[place] > 1 and bool((owners == owners.narrow(place, 0, 1)).all()):
            return place
    return None


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
