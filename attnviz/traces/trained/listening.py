"""Captures the attention of a running model: its inputs, queries, keys, values and weights.

transformers lets one name a function that computes attention. This one receives queries, keys,
values, mask and scale of every layer, computes with attnviz's own arithmetic, and hands the
context vectors back: so whatever model uses that interface can be heard, with no code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import Attended
from attnviz.attention.variants import Instead
from attnviz.cells import EVERYTHING
from attnviz.traces.settings import HeadPlace, Which

OURS = "attnviz"  # the name of the function
READS = ("key_value_states", "encoder_hidden_states")  # what attention to other vectors calls them
Visible = Bool[Tensor, "*#head query key"]
Added = Float[Tensor, "*#head query key"] | None


class Unheard(Exception):
    """What a model hands over cannot be listened to."""


@dataclass(eq=False)
class Listener:
    """What is kept of a pass of a model through its layers."""

    which: Which = "self"
    layers: Collection[int] | None = None  # None: of every layer
    off: Mapping[HeadPlace, Instead] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # of all layers that attend so
    given: dict[nn.Module, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    decoders: frozenset[nn.Module] = frozenset()  # modules of a decoder beside an encoder
    joining: Tensor | None = None  # what the heads made last, side by side
    masks: list[tuple[Tensor, Visible, Added]] = field(default_factory=list)  # layers share them

    def attend(
        self,
        module: nn.Module,
        query: Float[Tensor, "batch head query width"],
        key: Float[Tensor, "batch group key width"],
        value: Float[Tensor, "batch group key value_width"],
        mask: Shaped[Tensor, "..."] | None,
        scaling: float | None,
        soft_cap: float | None,
        position_bias: Float[Tensor, "..."] | None,
        sink: Float[Tensor, "head"] | None,
    ) -> Float[Tensor, "batch query head value_width"]:
        """Context vectors of all heads; what they were made of is kept, if it is asked for."""
        if query.shape[0] != 1:  # a sentence in blocks, say
            raise Unheard
        inputs, memory = self.given.get(module, (None, None))
        self.given.clear()
        which = self._which(module, memory)
        number = self._numbered(module) if which == self.which else -1
        visible, added = self._visible(mask, query, key)
        heard = Heard(
            which=which,
            layer=number,
            module=module,
            inputs=_joined(query) if inputs is None else inputs,
            memory=memory,
            queries=query[0],
            keys=key[0],
            values=value[0],
            visible=visible,
            added=added,
            bias=None if position_bias is None else position_bias[0],
            scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
            soft_cap=soft_cap,
            sink=sink,
            off={  # those that there are not are refused once all layers are known
                head: how
                for (layer, head), how in self.off.items()
                if layer == number and head < query.shape[1]
            },
        )
        return self._contexts(heard)

    def _contexts(self, heard: Heard) -> Float[Tensor, "batch query head value_width"]:
        contexts = heard.contexts()[None].transpose(1, 2).contiguous()
        if heard.layer >= 0 and (self.layers is None or heard.layer in self.layers):
            self.heard.append(heard)
            self.joining = contexts.flatten(2)
        return contexts

    def _which(self, module: nn.Module, memory: Tensor | None) -> Which:
        if module not in self.decoders:
            return "self"
        return "decoder" if memory is None else "cross"

    def _numbered(self, module: nn.Module) -> int:
        """The number of a layer: its own, as not every layer need attend; or the next one."""
        last = self.numbers[-1] if self.numbers else -1
        own = getattr(module, "layer_idx", None)
        self.numbers.append(own if isinstance(own, int) and own > last else last + 1)
        return self.numbers[-1]

    def _visible(self, mask: Tensor | None, query: Tensor, key: Tensor) -> tuple[Visible, Added]:
        for known, visible, added in self.masks:
            if mask is not None and _is_same(known, mask):
                return visible, added
        found = _visible(mask, query, key)
        self.masks += [] if mask is None else [(mask, *found)]
        return found

    def before(self, module: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """A module is about to be called, and may attend: what with?"""
        tensors = [each for each in (*args, *named.values()) if isinstance(each, Tensor)]
        vectors = [each[0] for each in tensors if each.ndim == 3 and each.is_floating_point()]
        other = next((named[name] for name in READS if named.get(name) is not None), None)
        if vectors:
            self.given[module] = (vectors[0], None if other is None else other[0])

    def joins(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A matrix is about to be multiplied with: is it the one that joins the heads?"""
        if self.joining is None or not args or not isinstance(args[0], Tensor):
            return
        if args[0].numel() != self.joining.numel():
            return
        if torch.equal(args[0].reshape(self.joining.shape), self.joining):
            w_out, b_out = matrix_of(module)
            self.heard[-1] = replace(self.heard[-1], w_out=w_out, b_out=b_out)
            self.joining = None


_listener: ContextVar[Listener] = ContextVar("listener")


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What transformers calls."""
    contexts = _listener.get().attend(
        module, query, key, value, attention_mask, scaling, softcap, position_bias, s_aux
    )
    return contexts, None


@contextmanager
def listening(model: Any, listener: Listener) -> Iterator[Listener]:
    """While this lasts, the model's attention is computed here."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(OURS, _attend)
    AttentionMaskInterface.register(OURS, _masks_for(model))
    if model.config.is_encoder_decoder:
        listener.decoders = frozenset(model.get_decoder().modules())
    told = _listener.set(listener)
    hooks = [*_hooks(model, listener)]
    model.set_attn_implementation(OURS)
    try:
        yield listener
    finally:
        model.set_attn_implementation("eager")
        for each in hooks:
            each.remove()
        listener.given.clear()
        _listener.reset(told)


def _masks_for(model: Any) -> Callable[..., Tensor | None]:
    """What makes masks: of true and false, a quarter as large, if the model can do with those."""
    from transformers.masking_utils import eager_mask, sdpa_mask

    if not getattr(model, "_supports_sdpa", False):
        return eager_mask
    return lambda *given, **named: sdpa_mask(*given, **named | {"allow_is_causal_skip": False})


def _hooks(model: Any, listener: Listener) -> Iterator[Any]:
    """On every module that multiplies with a matrix, and on all that are made of several."""
    for module in model.modules():
        if matrix_of(module)[0] is not None:
            yield module.register_forward_pre_hook(listener.joins)
        elif next(module.children(), None) is not None:
            yield module.register_forward_pre_hook(listener.before, with_kwargs=True)


def matrix_of(module: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    """The matrix and the bias of a module that multiplies with one: x W + b."""
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if isinstance(module, nn.Linear) and isinstance(weight, Tensor):
        return weight.T, bias
    if type(module).__name__ == "Conv1D" and isinstance(weight, Tensor):  # GPT-2's
        return weight, bias
    return None, None


def _joined(vectors: Float[Tensor, "1 head token width"]) -> Float[Tensor, "token out"]:
    return vectors[0].transpose(0, 1).flatten(1)


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same place; some models slice their mask."""
    return (
        one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
    )


def _visible(mask: Tensor | None, query: Tensor, key: Tensor) -> tuple[Visible, Added]:
    """What can be seen, and what a mask adds to the scores of that, if it adds anything."""
    queries, keys = query.shape[2], key.shape[2]
    if mask is None:
        everything = torch.ones((), dtype=torch.bool, device=query.device)
        return everything.expand(queries, keys), None
    of_one = mask[0, 0] if mask.shape[1] == 1 else mask[0]
    of_one = of_one[..., :queries, :keys].expand(*of_one.shape[:-2], queries, keys)
    if of_one.dtype == torch.bool:
        return of_one, None
    visible = of_one > torch.finfo(of_one.dtype).min / 2
    if torch.equal(of_one == 0, visible):  # without a second mask of numbers: they are large
        return visible, None
    return visible, of_one.masked_fill(~visible, 0)


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
