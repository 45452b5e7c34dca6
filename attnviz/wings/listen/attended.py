"""Attended: one attention that was heard, and how calls that follow each other become one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

HIDDEN_BELOW = -5e3  # a score that a mask lowers so far has no weight
TENSOR_NAMES = ("queries", "keys", "values", "weights", "outputs", "mask", "bias")


@dataclass(frozen=True, eq=False, kw_only=True)
class Attended:
    """Queries, keys and values of one attention, for each item of a batch; or its weights."""

    way: str  # the operation that was heard
    queries: Float[Tensor, "item head query width"] | None
    keys: Float[Tensor, "item group key width"] | None
    values: Float[Tensor, "item group key value_width"] | None
    weights: Float[Tensor, "item head query key"] | None = None  # if there are no queries
    outputs: Float[Tensor, "item head query value_width"] | None
    scale: float
    soft_cap: float | None = None
    mask: Bool[Tensor, "#item #head query key"] | None = None  # which keys are visible
    bias: Float[Tensor, "#item #head query key"] | None = None
    first_position: int | None = None  # of a causal mask: the position of the first query
    dropout: bool = False
    crossed: bool = False  # whether queries and keys were made of different vectors
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
    def is_of_one_text(self) -> bool:
        """Whether queries and keys are of the same text, as far as that is known."""
        *_, queries, keys = self.shape
        is_same_length = queries == keys or self.first_position is not None or self.steps > 1
        return is_same_length and not self.crossed

    @property
    def may_continue(self) -> bool:
        """Whether these may be the next tokens of a text whose keys were heard before."""
        return self.queries is not None and self.shape[2] < self.shape[3]

    def tensors(self) -> dict[str, Tensor]:
        tensors = ((name, getattr(self, name)) for name in TENSOR_NAMES)
        return {name: tensor for name, tensor in tensors if tensor is not None}

    def on_cpu(self) -> Attended:
        """Return the same in memory of the CPU, in copies that the program cannot change; a bias
        that hides keys becomes a mask.
        """
        copies: dict[str, Any] = {
            name: tensor.detach().clone() if tensor.device.type == "cpu" else tensor.detach().cpu()
            for name, tensor in self.without_repeats().tensors().items()
        }
        return replace(self, **copies).with_hidden_keys()

    def without_repeats(self) -> Attended:
        """Return the same with one mask and bias, where all items or heads have the same."""
        once: dict[str, Any] = {}
        for name in ("mask", "bias"):
            table = getattr(self, name)
            if table is not None and table.ndim == 4:
                sizes = [1 if stride == 0 else None for stride in table.stride()[:2]]
                once[name] = table[: sizes[0], : sizes[1]]
        return replace(self, **once)

    def in_four_dimensions(self) -> Attended:
        """Return the same with dimensions [item head token width]; of three, the first are items;
        of a mask for queries of four, heads.
        """
        has_items_alone = self.queries is not None and self.queries.ndim == 3
        reshaped: dict[str, Any] = {}
        for name, tensor in self.tensors().items():
            is_of_items = tensor.ndim == 3 and (name not in ("mask", "bias") or has_items_alone)
            whole = tensor[:, None] if is_of_items else tensor
            whole = whole.reshape(*[1] * (4 - whole.ndim), *whole.shape)
            reshaped[name] = whole.flatten(0, -4)
        return replace(self, **reshaped)

    def with_items(self, shape: tuple[int, ...]) -> Attended:
        """Return the same with its matrices, one after another, in dimensions [item head]."""
        *items, heads = shape if len(shape) > 1 else (*shape, 1) if shape else (1, 1)
        size = (prod(items), heads)
        reshaped: dict[str, Any] = {
            name: tensor.reshape(*size, *tensor.shape[1:])
            for name, tensor in self.tensors().items()
        }
        return replace(self, **reshaped)

    def with_hidden_keys(self) -> Attended:
        if self.bias is None:
            return self
        visible = self.bias > HIDDEN_BELOW
        rest = self.bias.masked_fill(~visible, 0)
        mask = visible if self.mask is None else self.mask & visible
        has_mask, has_rest = not bool(visible.all()), bool(rest.any())
        return replace(self, mask=mask if has_mask else self.mask, bias=rest if has_rest else None)

    def with_heads(self, heads: int) -> Attended:
        """Return the same with so many heads in each item, where items and heads are one
        dimension, as in torch's own modules.
        """
        items, one, *_ = self.shape
        if one != 1 or heads < 2 or items % heads:
            return self
        split: dict[str, Any] = {
            name: tensor.reshape(-1, heads, *tensor.shape[2:])
            for name, tensor in self.tensors().items()
            if tensor.shape[0] == items
        }
        return replace(self, **split)

    def unfolded_like(self, earlier: Attended) -> Attended:
        """Return the same with as many heads as an earlier call of the module, if one token's heads
        that share keys were given as so many tokens: transformers does that while it generates.
        """
        if earlier.keys is None or self.keys is None:
            return self
        items, heads, _, _ = earlier.shape
        groups, folded = earlier.keys.shape[1], self.shape[2]
        if self.shape[:2] != (items, groups) or folded * groups != heads or heads == groups:
            return self
        flat: dict[str, Any] = {
            name: tensor.reshape(items, heads, 1, -1)
            for name, tensor in self.tensors().items()
            if name in ("queries", "outputs")
        }
        return replace(self, **flat)

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
        same = sizes == [items, heads] and self.keys.shape[1] == later.keys.shape[1]
        if not same or self.way != later.way or self.crossed != later.crossed or queries > keys:
            return None
        # Either the queries' own keys were added, or one token more reads all keys of another text.
        grows = later_keys == keys + more and not later.crossed
        reads_again = later_keys == keys > 1 == more and later.mask is self.mask is None
        if not (grows or reads_again) or not torch.equal(self.keys, later.keys[:, :, :keys]):
            return None
        joined: dict[str, Any] = {
            "queries": torch.cat([self.queries, later.queries], dim=2),
            "outputs": _joined(self.outputs, later.outputs, 2),
            "bias": _joined_terms(self.bias, later.bias, self.shape, later.shape),
            "mask": torch.cat(
                [_padded(self.visible(), later_keys, False), later.visible()], dim=2
            ) if grows else None,
        }  # fmt: skip
        dropout, steps = self.dropout or later.dropout, self.steps + later.steps
        whole = replace(later, **joined, first_position=None, dropout=dropout, steps=steps)
        return whole.with_plain_mask()

    def _seen_keys(self) -> int:
        """Return how many keys there are up to the last that any query may attend to."""
        columns = self.visible().flatten(0, 2).any(0).nonzero()
        return int(columns[-1]) + 1 if len(columns) else 0

    def with_plain_mask(self) -> Attended:
        """Return the same without a matrix where the mask is causal, and without the empty end of
        a cache that is as long as the text may become.
        """
        if self.mask is None:
            return self
        _, _, queries, keys = self.shape
        visible, seen = self.visible(), self._seen_keys()
        causal = torch.ones(queries, keys, dtype=torch.bool).tril(seen - queries)
        if not bool((visible == causal).all()) or self.crossed:
            return replace(self, mask=None) if bool(self.mask.all()) else self
        if self.keys is None or self.values is None:
            return replace(self, mask=None, first_position=seen - queries)
        return replace(
            self, keys=self.keys[:, :, :seen], values=self.values[:, :, :seen], mask=None,
            first_position=seen - queries if queries > 1 else None,
        )  # fmt: skip


def _padded(table: Tensor, keys: int, value: float) -> Tensor:
    return torch.nn.functional.pad(table, (0, keys - table.shape[-1]), value=value)


def _joined(first: Tensor | None, second: Tensor | None, dim: int) -> Tensor | None:
    return None if first is None or second is None else torch.cat([first, second], dim=dim)


def _joined_terms(
    first: Tensor | None, second: Tensor | None, shape: tuple[int, ...], later: tuple[int, ...]
) -> Tensor | None:
    """Return what is added to the scores of both, where either adds something."""
    if first is None and second is None:
        return None
    tables = [
        torch.zeros(1, 1, *size[2:]) if table is None else table.float()
        for table, size in ((first, shape), (second, later))
    ]
    leading = [max(sizes) for sizes in zip(tables[0].shape[:2], tables[1].shape[:2], strict=True)]
    rows = [
        table.expand(*leading, *size[2:])
        for table, size in zip(tables, (shape, later), strict=True)
    ]
    return torch.cat([_padded(rows[0], later[3], 0.0), rows[1]], dim=2)
