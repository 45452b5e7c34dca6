"""What one attention of a model was given: its weights can be worked out again, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import Attended
from attnviz.attention.choices import Instead
from attnviz.cells import EVERYTHING
from attnviz.traces.settings import Which

CELLS_AT_ONCE = 2**18  # of all heads together: there are several tensors of this size at a time


@dataclass(frozen=True, eq=False, kw_only=True)
class Heard:
    """Queries, keys and values as the model made them, and how it attends with them."""

    which: Which
    layer: int
    module: nn.Module | None = None  # the attention itself
    inputs: Float[Tensor, "query dim"]  # what queries were made of,
    memory: Float[Tensor, "key dim"] | None  # and keys and values, if not of the same
    queries: Float[Tensor, "head query width"]
    keys: Float[Tensor, "group key width"]
    values: Float[Tensor, "group key value_width"]
    visible: Bool[Tensor, "*#head query key"]
    added: Float[Tensor, "*#head query key"] | None  # what a mask of numbers adds to scores,
    bias: Float[Tensor, "*#head query key"] | None  # and what positions do
    scale: float
    soft_cap: float | None
    sink: Float[Tensor, "head"] | None = None  # which takes a share of rows
    off: Mapping[int, Instead] = field(default_factory=dict)
    w_out: Float[Tensor, "joined dim"] | None = None  # what joins the heads
    b_out: Float[Tensor, "dim"] | None = None

    @property
    def heads(self) -> int:
        return self.queries.shape[0]

    @property
    def cells(self) -> int:
        """How many weights there are, of all heads."""
        return self.heads * self.queries.shape[1] * self.keys.shape[1]

    def attended(
        self, rows: slice = EVERYTHING, heads: slice = EVERYTHING, *, mixed: bool = True
    ) -> Attended:
        """What attention makes of some queries of some heads: attnviz's own arithmetic.

        Whoever asks for weights alone need not wait until values are `mixed` by them.
        """
        values = self._of_heads(self.values, heads)
        return arithmetic.attend(
            arithmetic.similarity(self.queries[heads, rows], self._of_heads(self.keys, heads)),
            values if mixed else values[..., :0],
            _part(self.visible, rows, heads),
            scale=self.scale,
            soft_cap=self.soft_cap,
            bias=None if self.bias is None else _part(self.bias, rows, heads),
            mask=None if self.added is None else _part(self.added, rows, heads),
            sink=None if self.sink is None else self.sink[heads],
        )

    def _of_heads(
        self, shared: Float[Tensor, "group key width"], heads: slice
    ) -> Float[Tensor, "some key width"]:
        """Keys or values of some heads, each that of its group, and of no others."""
        if len(shared) == self.heads:
            return shared[heads]
        groups = torch.arange(self.heads)[heads] // (self.heads // shared.shape[0])
        return shared[groups]

    @cached_property
    def whole(self) -> Attended:
        """All of it at once, as matrices: for short texts, and for who needs every number."""
        found = self.attended()
        off = arithmetic.switched_off(found.contexts, self.off)
        return Attended(**{**vars(found), "contexts": off})

    def contexts(self) -> Float[Tensor, "head query value_width"]:
        """What each head makes, some queries at a time.

        There is one place for all of it: small pieces that are kept would lie between the large
        ones that are not, and those would then find no place that is free.
        """
        shape = (self.heads, self.queries.shape[1], self.values.shape[-1])
        found = self.values.new_empty(shape)
        for rows in self.bands():
            found[:, rows] = self._contexts(rows)
        return arithmetic.switched_off(found, self.off)

    def _contexts(self, rows: slice) -> Float[Tensor, "head query value_width"]:
        """Of some queries; for a gradient they are worked out again, and no weights are kept."""
        if not (torch.is_grad_enabled() and self.values.requires_grad):
            return self.attended(rows).contexts

        def made() -> Tensor:
            return self.attended(rows).contexts

        found: Tensor = checkpoint(made, use_reentrant=False)
        return found

    def bands(self) -> Iterator[slice]:
        """All queries, some at a time."""
        queries = self.queries.shape[1]
        together = max(1, CELLS_AT_ONCE * queries // max(1, self.cells))
        for first in range(0, queries, together):
            yield slice(first, first + together)


def _part(tensor: Tensor, rows: slice, heads: slice) -> Tensor:
    """Of a mask that is one for all heads, or one for each."""
    one_for_all = tensor.ndim == 2 or tensor.shape[0] == 1
    return tensor[..., rows, :] if one_for_all else tensor[heads, rows]
