"""Attended: one attention that was heard, and how calls that follow each other become one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

HIDDEN_BELOW = -5e3  # a score that a mask lowers so far has no weight
TENSOR_NAMES = ("queries", "keys", "values", "weights", "outputs", "mask", "bias")


@dataclass(frozen=True, eq=False, kw_only=True)
class Attended:
    """Queries, keys and values of one attention, for each item of a batch; or its weights."""

    way: str  # the operation that was heard
    queries: Float[Tensor, "item head query width"] | None = None
    keys: Float[Tensor, "item group key width"] | None = None
    values: Float[Tensor, "item group key value_width"]
    weights: Float[Tensor, "item head query key"] | None = None  # if there are no queries
    outputs: Float[Tensor, "item head query value_width"]
    scale: float = 1.0
    soft_cap: float | None = None
    mask: Bool[Tensor, "#item #head query key"] | None = None  # which keys are visible
    bias: Float[Tensor, "#item #head query key"] | None = None
    first_position: int | None = None  # of a causal mask: the position of the first query
    dropout: bool = False
    crossed: bool = False  # whether queries and keys were made of different vectors
    may_be_heads: bool = False  # whether an item may be a head: texts and heads are one dimension
    steps: int = 1  # calls that follow each other, each with the keys of the one before

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The numbers of items, heads, queries and keys."""
        if self.queries is None or self.keys is None:
            assert self.weights is not None
            items, heads, queries, keys = self.weights.shape
            return items, heads, queries, keys
        return (*self.queries.shape[:3], self.keys.shape[2])

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors().values())

    @property
    def item_noun(self) -> str:
        return "matrix (an item or a head)" if self.may_be_heads else "item"

    @property
    def is_of_one_text(self) -> bool:
        """Whether queries and keys are of the same text, as far as that is known."""
        *_, queries, keys = self.shape
        is_same_length = queries == keys or self.first_position is not None or self.steps > 1
        return is_same_length and not self.crossed

    def tensors(self) -> dict[str, Tensor]:
        tensors = ((name, getattr(self, name)) for name in TENSOR_NAMES)
        return {name: tensor for name, tensor in tensors if tensor is not None}

    def with_tensors(
        self, change: Callable[[Tensor], Tensor], names: Collection[str] = TENSOR_NAMES
    ) -> Attended:
        """Return the same with those of its tensors changed that it has of these names."""
        tensors = self.tensors().items()
        changed: dict[str, Any] = {name: change(each) for name, each in tensors if name in names}
        return replace(self, **changed)

    def on_cpu(self) -> Attended:
        """Return the same in memory of the CPU, in copies that the program cannot change; a bias
        that hides keys becomes a mask.
        """
        copies = self.without_repeats().with_tensors(
            lambda each: each.detach().to("cpu", copy=True)
        )
        return copies.with_hidden_keys()

    def without_repeats(self) -> Attended:
        """Return the same with one mask and bias, where all items or heads have the same."""

        def one_of_each(table: Tensor) -> Tensor:
            return table[tuple(slice(1 if not step else None) for step in table.stride()[:2])]

        return self.with_tensors(one_of_each, ("mask", "bias"))

    def in_four_dimensions(self) -> Attended:
        """Return the same with dimensions [item head token width]. Which is that of heads is known
        of four dimensions, and where several heads share keys: it is the third from last.
        """
        sizes = self.outputs.shape[:-2]
        if len(sizes) == 2 or self.values.shape[-3:-2] not in ((), sizes[-1:]):
            return self.with_tensors(lambda each: each[(None,) * (4 - each.ndim)].flatten(0, -4))

        def of_each_matrix(table: Tensor) -> Tensor:
            return table if prod(table.shape[:-2]) == 1 else table.expand(*sizes, -1, -1)

        return self.with_tensors(of_each_matrix).with_items(sizes)

    def with_items(self, shape: tuple[int, ...]) -> Attended:
        """Return the same with its matrices, one after another, in dimensions [item head]: those of
        the program, if there are no more than two.
        """
        sizes = [size for size in shape if size > 1] if len(shape) > 2 else [*shape]
        items, heads = sizes if len(sizes) == 2 else (prod(sizes), 1)
        whole = self.with_heads(torch.arange(items * heads).view(items, heads))
        return replace(whole, may_be_heads=len(sizes) != 2 and items > 1)

    def with_hidden_keys(self) -> Attended:
        if self.bias is None:
            return self
        visible = self.bias > HIDDEN_BELOW
        rest = self.bias.masked_fill(~visible, 0)
        mask = visible if self.mask is None else self.mask & visible
        has_mask, has_rest = not bool(visible.all()), bool(rest.any())
        return replace(self, mask=mask if has_mask else self.mask, bias=rest if has_rest else None)

    def with_heads(self, order: Int[Tensor, "item head"]) -> Attended:
        """Return the same with its matrices, one after another, as heads of items in this order."""
        places = order.flatten().to(self.values.device)
        picked = slice(None) if bool((places.diff() == 1).all()) else places

        def of_heads(table: Tensor) -> Tensor:
            matrices = table.reshape(-1, *table.shape[-2:])
            is_of_all = len(matrices) == 1  # as a mask may be
            shape = (1, 1) if is_of_all else order.shape
            return (matrices if is_of_all else matrices[picked]).view(*shape, *table.shape[-2:])

        return replace(self.with_tensors(of_heads), may_be_heads=False)

    def unfolded(self, heads: int) -> Attended:
        """Return the same with so many heads, if one token's heads that share keys were given as
        so many tokens: transformers does that while it generates.
        """
        _, groups, folded, _ = self.shape
        shares_keys = self.keys is not None and self.keys.shape[1] == groups
        is_causal = self.first_position is not None  # one token needs no causal mask
        if not shares_keys or is_causal or folded == 1 or groups * folded != heads:
            return self

        def of_heads(table: Tensor) -> Tensor:
            is_of_all = table.shape[1:3] == (1, 1)  # as a mask is
            each = table.expand(-1, groups, folded, -1)
            return table if is_of_all else each.reshape(len(table), heads, 1, -1)

        return self.with_tensors(of_heads, ("queries", "outputs", "mask", "bias"))

    def visible(self) -> Bool[Tensor, "#item #head query key"]:
        """Return which keys each query may attend to."""
        _, _, queries, keys = self.shape
        visible = torch.ones(1, 1, queries, keys, dtype=torch.bool)
        if self.first_position is not None:
            visible = visible.tril(self.first_position)
        return visible if self.mask is None else visible & self.mask

    def continued_by(self, later: Attended) -> Attended | None:
        """Return both as one, if a later call has the keys of this one and some more: a decoding
        with a cache, which may be as long as the text will become. None if it does not.
        """
        if self.queries is None or self.keys is None or later.queries is None:
            return None
        assert later.keys is not None
        (items, heads, queries, keys), (*sizes, more, later_keys) = self.shape, later.shape
        crossed = self.crossed or later.crossed
        if (sizes, later.way) != ([items, heads], self.way):
            return None
        # Either the queries' own keys were added, or one token more reads all keys of another text.
        grows = later_keys == keys + more and queries <= keys and not crossed
        reads_again = later_keys == keys > 1 == more and later.mask is self.mask is None
        seen = later.keys[:, :, :keys]
        if not (grows or reads_again) or not _are_same_keys(self.keys, seen):
            return None
        has_bias = self.bias is not None or later.bias is not None
        whole = replace(
            later,
            queries=torch.cat([self.queries, later.queries], dim=2),
            outputs=torch.cat([self.outputs, later.outputs], dim=2),
            mask=_stacked(self.visible(), later.visible()) if grows else None,
            bias=_stacked(self.added(), later.added()) if has_bias else None,
            first_position=None,
            dropout=self.dropout or later.dropout,
            crossed=not grows,
            steps=self.steps + later.steps,
        )
        return whole.with_plain_mask()

    def added(self) -> Float[Tensor, "#item #head query key"]:
        """Return what is added to scores."""
        zeros = torch.zeros(1, 1, *self.shape[2:])
        return zeros if self.bias is None else zeros + self.bias.float()

    def with_plain_mask(self) -> Attended:
        """Return the same without a matrix where the mask is causal, and without the empty end of
        a cache that is as long as the text may become.
        """
        if self.mask is None:
            return self
        _, _, queries, keys = self.shape
        visible = self.visible()
        columns = visible.flatten(0, 2).any(0).nonzero()
        seen = int(columns[-1]) + 1 if len(columns) else keys  # up to the last that is visible
        causal = torch.ones(queries, keys, dtype=torch.bool).tril(seen - queries)
        if self.crossed or seen < queries or bool((visible & ~causal).any()):
            return replace(self, mask=None) if bool(self.mask.all()) else self
        attended = self.with_tensors(lambda each: each[:, :, :seen], ("keys", "values"))
        attended = attended.with_tensors(lambda each: each[..., :seen], ("weights", "mask", "bias"))
        if not bool((visible == causal).all()):
            return attended
        first_position = seen - queries if queries > 1 else None
        return replace(attended, mask=None, first_position=first_position)


def _are_same_keys(*sides: Tensor) -> bool:
    """Return whether keys are the same, though one repeats them for the heads that share them."""
    few, many = sorted(sides, key=lambda keys: keys.shape[1])
    repeated = few[:, :, None].expand(-1, -1, many.shape[1] // few.shape[1], -1, -1)
    return torch.equal(many, repeated.flatten(1, 2))


def _stacked(first: Tensor, second: Tensor) -> Tensor:
    """Return rows of tables [item head query key] above those of a table with more keys."""
    wider = torch.nn.functional.pad(first, (0, second.shape[3] - first.shape[3]))
    sizes = [max(pair) for pair in zip(wider.shape[:2], second.shape[:2], strict=True)]
    return torch.cat([rows.expand(*sizes, -1, -1) for rows in (wider, second)], dim=2)
