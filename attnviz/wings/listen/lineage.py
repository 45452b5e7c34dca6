"""What became of a product of matrices, and of a softmax, on the way to the next product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
    "index_put", "masked_scatter", "tanh", "exp",
))  # fmt: skip
PRODUCTS = {"bmm": 0, "mm": 0, "baddbmm": 1, "addmm": 1, "addbmm": 1}  # where the operands begin


@cache
def plain_name(func: Any) -> str:
    """Return `add` for aten.add.Tensor and for aten.add_.Tensor."""
    name: str = func._schema.name.split("::")[1]
    return name if name.startswith("_") else name.removesuffix("_")


class Move(NamedTuple):
    """An operation that moves numbers, to be done again with their positions."""

    name: str
    operation: Callable[[Tensor], Tensor]


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Shares:
    """The result of a softmax, and how its numbers were moved since."""

    softmax: Softmax
    moves: tuple[Move, ...] = ()
    dropout: bool = False
    changed: bool = False  # otherwise: by a gate, or by adding another softmax


Lineage = Product | Shares


def keeps_order(moves: tuple[Move, ...]) -> bool:
    return all(move.name in IN_ORDER for move in moves)


def positions_after(
    shape: tuple[int, ...], moves: tuple[Move, ...], moved: tuple[int, ...]
) -> Int[Tensor, "*moved"] | None:
    """Return where each number of a moved tensor was before: its place in the order of rows of a
    tensor of this shape. None if that cannot be told.
    """
    positions = torch.arange(prod(shape)).view(shape)
    if keeps_order(moves):
        return positions.view(moved) if prod(shape) == prod(moved) else None
    for move in moves:
        if move.name not in COPIES:
            positions = move.operation(positions)
    return positions if tuple(positions.shape) == moved else None


class Operands(NamedTuple):
    """The two sides of scores, one matrix for each head of each item."""

    queries: Float[Tensor, "matrix query width"]
    keys: Float[Tensor, "matrix key width"]
    has_learned_keys: bool


def find_operands(
    product: Product, moved: tuple[int, ...], scores: tuple[int, int, int]
) -> Operands | None:
    """Return what scores [matrix query key] are products of; None if the product was moved so that
    they are in another order, but transposed. `moved` is their shape in the program.
    """
    (matrices, rows, columns), (heads, count, keys) = product.shape, scores
    if keeps_order(product.moves):  # the usual case takes no time
        is_in_order = prod(scores) == prod(product.shape)
    else:
        places = positions_after(product.shape, product.moves, moved)
        if places is None or places.numel() != prod(scores):
            return None
        before = torch.arange(prod(product.shape)).view(product.shape)
        is_in_order = torch.equal(places.flatten(), before.flatten())
        if torch.equal(places.reshape(scores), before.mT):
            return Operands(product.right.mT, product.left, product.learned[0])
    if not is_in_order or keys != columns or rows % count:
        return None
    owners = torch.arange(heads) // (rows // count)
    return Operands(
        product.left.reshape(heads, count, -1),
        product.right.mT if heads == matrices else product.right.mT[owners],
        product.learned[1],
    )
