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
from attnviz.attention.arithmetic import AttentionStages
from attnviz.attention.variants import AblationValue
from attnviz.cells import FULL_SLICE
from attnviz.traces.settings import AttentionKind, HeadId

ATTENTION_NAME = "attnviz"  # the name of the function
KEY_INPUT_NAMES = (
    "key_value_states",
    "encoder_hidden_states",
)  # what attention to other vectors calls them
Visible = Bool[Tensor, "*#head query key"]
MaskScores = Float[Tensor, "*#head query key"] | None


class CannotCapture(Exception):
    """What a model hands over cannot be listened to."""


@dataclass(eq=False)
class Listener:
    """What is kept of a pass of a model through its layers."""

    which: AttentionKind = "self"
    layers: Collection[int] | None = None  # None: of every layer
    off: Mapping[HeadId, AblationValue] = field(default_factory=dict)
    captured: list[CapturedAttention] = field(default_factory=list)
    layer_numbers: list[int] = field(default_factory=list)  # of all layers that attend so
    module_inputs: dict[nn.Module, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    decoders: frozenset[nn.Module] = frozenset()  # modules of a decoder beside an encoder
    joined_contexts: Tensor | None = None  # what the heads made last, side by side
    masks: list[tuple[Tensor, Visible, MaskScores]] = field(
        default_factory=list
    )  # layers share them

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
            raise CannotCapture
        inputs, memory = self.module_inputs.get(module, (None, None))
        self.module_inputs.clear()
        which = self._attention_kind(module, memory)
        number = self._next_number(module) if which == self.which else -1
        visible, mask_scores = self._shared_mask(mask, query, key)
        captured = CapturedAttention(
            which=which,
            layer=number,
            module=module,
            inputs=_flatten_heads(query) if inputs is None else inputs,
            memory=memory,
            queries=query[0],
            keys=key[0],
            values=value[0],
            visible=visible,
            mask_scores=mask_scores,
            bias=None if position_bias is None else position_bias[0],
            scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
            soft_cap=soft_cap,
            sink=sink,
            off={  # those that there are not are refused once all layers are known
                head: ablation
                for (layer, head), ablation in self.off.items()
                if layer == number and head < query.shape[1]
            },
        )
        return self._keep_contexts(captured)

    def _keep_contexts(
        self, captured: CapturedAttention
    ) -> Float[Tensor, "batch query head value_width"]:
        contexts = captured.contexts()[None].transpose(1, 2).contiguous()
        if captured.layer >= 0 and (self.layers is None or captured.layer in self.layers):
            self.captured.append(captured)
            self.joined_contexts = contexts.flatten(2)
        return contexts

    def _attention_kind(self, module: nn.Module, memory: Tensor | None) -> AttentionKind:
        if module not in self.decoders:
            return "self"
        return "decoder" if memory is None else "cross"

    def _next_number(self, module: nn.Module) -> int:
        """The number of a layer: its own, as not every layer need attend; or the next one."""
        last = self.layer_numbers[-1] if self.layer_numbers else -1
        own_number = getattr(module, "layer_idx", None)
        self.layer_numbers.append(
            own_number if isinstance(own_number, int) and own_number > last else last + 1
        )
        return self.layer_numbers[-1]

    def _shared_mask(
        self, mask: Tensor | None, query: Tensor, key: Tensor
    ) -> tuple[Visible, MaskScores]:
        for known_mask, visible, mask_scores in self.masks:
            if mask is not None and _is_same_tensor(known_mask, mask):
                return visible, mask_scores
        mask_parts = _split_mask(mask, query, key)
        self.masks += [] if mask is None else [(mask, *mask_parts)]
        return mask_parts

    def note_module_inputs(
        self, module: nn.Module, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> None:
        """A module is about to be called, and may attend: what with?"""
        tensors = [tensor for tensor in (*args, *keywords.values()) if isinstance(tensor, Tensor)]
        vectors = [
            tensor[0] for tensor in tensors if tensor.ndim == 3 and tensor.is_floating_point()
        ]
        key_inputs = next(
            (keywords[name] for name in KEY_INPUT_NAMES if keywords.get(name) is not None), None
        )
        if vectors:
            self.module_inputs[module] = (vectors[0], None if key_inputs is None else key_inputs[0])

    def note_output_matrix(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A matrix is about to be multiplied with: is it the one that joins the heads?"""
        if self.joined_contexts is None or not args or not isinstance(args[0], Tensor):
            return
        if args[0].numel() != self.joined_contexts.numel():
            return
        if torch.equal(args[0].reshape(self.joined_contexts.shape), self.joined_contexts):
            w_out, b_out = module_matrix(module)
            self.captured[-1] = replace(self.captured[-1], w_out=w_out, b_out=b_out)
            self.joined_contexts = None


_current_listener: ContextVar[Listener] = ContextVar("listener")


def _attention_function(
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
    contexts = _current_listener.get().attend(
        module, query, key, value, attention_mask, scaling, softcap, position_bias, s_aux
    )
    return contexts, None


@contextmanager
def capturing_attention(model: Any, listener: Listener) -> Iterator[Listener]:
    """While this lasts, the model's attention is computed here."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION_NAME, _attention_function)
    AttentionMaskInterface.register(ATTENTION_NAME, _mask_function(model))
    if model.config.is_encoder_decoder:
        listener.decoders = frozenset(model.get_decoder().modules())
    reset_token = _current_listener.set(listener)
    hooks = [*_register_hooks(model, listener)]
    model.set_attn_implementation(ATTENTION_NAME)
    try:
        yield listener
    finally:
        model.set_attn_implementation("eager")
        for hook in hooks:
            hook.remove()
        listener.module_inputs.clear()
        _current_listener.reset(reset_token)


def _mask_function(model: Any) -> Callable[..., Tensor | None]:
    """What makes masks: of true and false, a quarter as large, if the model can do with those."""
    from transformers.masking_utils import eager_mask, sdpa_mask

    if not getattr(model, "_supports_sdpa", False):
        return eager_mask
    return lambda *arguments, **keywords: sdpa_mask(
        *arguments, **keywords | {"allow_is_causal_skip": False}
    )


def _register_hooks(model: Any, listener: Listener) -> Iterator[Any]:
    """On every module that multiplies with a matrix, and on all that are made of several."""
    for module in model.modules():
        if module_matrix(module)[0] is not None:
            yield module.register_forward_pre_hook(listener.note_output_matrix)
        elif next(module.children(), None) is not None:
            yield module.register_forward_pre_hook(listener.note_module_inputs, with_kwargs=True)


def module_matrix(module: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    """The matrix and the bias of a module that multiplies with one: x W + b."""
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if isinstance(module, nn.Linear) and isinstance(weight, Tensor):
        return weight.T, bias
    if type(module).__name__ == "Conv1D" and isinstance(weight, Tensor):  # GPT-2's
        return weight, bias
    return None, None


def _flatten_heads(vectors: Float[Tensor, "1 head token width"]) -> Float[Tensor, "token out"]:
    return vectors[0].transpose(0, 1).flatten(1)


def _is_same_tensor(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same place; some models slice their mask."""
    return (
        first.data_ptr() == second.data_ptr()
        and first.shape == second.shape
        and first.stride() == second.stride()
    )


def _split_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> tuple[Visible, MaskScores]:
    """What can be seen, and what a mask adds to the scores of that, if it adds anything."""
    queries, keys = query.shape[2], key.shape[2]
    if mask is None:
        everything = torch.ones((), dtype=torch.bool, device=query.device)
        return everything.expand(queries, keys), None
    sentence_mask = mask[0, 0] if mask.shape[1] == 1 else mask[0]
    sentence_mask = sentence_mask[..., :queries, :keys].expand(
        *sentence_mask.shape[:-2], queries, keys
    )
    if sentence_mask.dtype == torch.bool:
        return sentence_mask, None
    visible = sentence_mask > torch.finfo(sentence_mask.dtype).min / 2
    if torch.equal(sentence_mask == 0, visible):  # without a second mask of numbers: they are large
        return visible, None
    return visible, sentence_mask.masked_fill(~visible, 0)


# Of all heads together: there are several tensors of this size at a time.
CAPTURED_CELLS_AT_ONCE = 2**18


@dataclass(frozen=True, eq=False, kw_only=True)
class CapturedAttention:
    """Queries, keys and values as the model made them, and how it attends with them."""

    which: AttentionKind
    layer: int
    module: nn.Module | None = None  # the attention itself
    inputs: Float[Tensor, "query dim"]  # what queries were made of,
    memory: Float[Tensor, "key dim"] | None  # and keys and values, if not of the same
    queries: Float[Tensor, "head query width"]
    keys: Float[Tensor, "group key width"]
    values: Float[Tensor, "group key value_width"]
    visible: Bool[Tensor, "*#head query key"]
    mask_scores: Float[Tensor, "*#head query key"] | None  # what a mask of numbers adds to scores,
    bias: Float[Tensor, "*#head query key"] | None  # and what positions do
    scale: float
    soft_cap: float | None
    sink: Float[Tensor, "head"] | None = None  # which takes a share of rows
    off: Mapping[int, AblationValue] = field(default_factory=dict)
    w_out: Float[Tensor, "joined dim"] | None = None  # what joins the heads
    b_out: Float[Tensor, "dim"] | None = None

    @property
    def heads(self) -> int:
        return self.queries.shape[0]

    @property
    def cells(self) -> int:
        """How many weights there are, of all heads."""
        return self.heads * self.queries.shape[1] * self.keys.shape[1]

    def attend(
        self, rows: slice = FULL_SLICE, heads: slice = FULL_SLICE, *, mixed: bool = True
    ) -> AttentionStages:
        """What attention makes of some queries of some heads: attnviz's own arithmetic.

        Whoever asks for weights alone need not wait until values are `mixed` by them.
        """
        values = self._expand_groups(self.values, heads)
        return arithmetic.compute_attention(
            arithmetic.similarity(self.queries[heads, rows], self._expand_groups(self.keys, heads)),
            values if mixed else values[..., :0],
            _mask_part(self.visible, rows, heads),
            scale=self.scale,
            soft_cap=self.soft_cap,
            bias=None if self.bias is None else _mask_part(self.bias, rows, heads),
            mask=None if self.mask_scores is None else _mask_part(self.mask_scores, rows, heads),
            sink=None if self.sink is None else self.sink[heads],
        )

    def _expand_groups(
        self, shared: Float[Tensor, "group key width"], heads: slice
    ) -> Float[Tensor, "some key width"]:
        """Keys or values of some heads, each that of its group, and of no others."""
        if len(shared) == self.heads:
            return shared[heads]
        groups = torch.arange(self.heads)[heads] // (self.heads // shared.shape[0])
        return shared[groups]

    @cached_property
    def whole(self) -> AttentionStages:
        """All of it at once, as matrices: for short texts, and for who needs every number."""
        stages = self.attend()
        contexts = arithmetic.switch_off_heads(stages.contexts, self.off)
        return AttentionStages(**{**vars(stages), "contexts": contexts})

    def contexts(self) -> Float[Tensor, "head query value_width"]:
        """What each head makes, some queries at a time.

        There is one place for all of it: small pieces that are kept would lie between the large
        ones that are not, and those would then find no place that is free.
        """
        shape = (self.heads, self.queries.shape[1], self.values.shape[-1])
        contexts = self.values.new_empty(shape)
        for rows in self.bands():
            contexts[:, rows] = self._band_contexts(rows)
        return arithmetic.switch_off_heads(contexts, self.off)

    def _band_contexts(self, rows: slice) -> Float[Tensor, "head query value_width"]:
        """Of some queries; for a gradient they are worked out again, and no weights are kept."""
        if not (torch.is_grad_enabled() and self.values.requires_grad):
            return self.attend(rows).contexts

        def attend_rows() -> Tensor:
            return self.attend(rows).contexts

        contexts: Tensor = checkpoint(attend_rows, use_reentrant=False)
        return contexts

    def bands(self) -> Iterator[slice]:
        """All queries, some at a time."""
        queries = self.queries.shape[1]
        rows_at_once = max(1, CAPTURED_CELLS_AT_ONCE * queries // max(1, self.cells))
        for first in range(0, queries, rows_at_once):
            yield slice(first, first + rows_at_once)


def _mask_part(tensor: Tensor, rows: slice, heads: slice) -> Tensor:
    """Of a mask that is one for all heads, or one for each."""
    is_shared = tensor.ndim == 2 or tensor.shape[0] == 1
    return tensor[..., rows, :] if is_shared else tensor[heads, rows]
