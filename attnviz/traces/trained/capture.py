"""The attention function that transformers calls, and hooks: they capture a run.

transformers lets one register a function that computes attention. This one receives the queries,
keys, values, mask and scale of every layer, computes with attnviz's own arithmetic, and returns the
context vectors. So every model that uses that interface is captured without code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from attnviz.attention.long_attention import SummaryChoice
from attnviz.attention.mask_rule import MaskRule
from attnviz.machine.context_values import context_value
from attnviz.options.values import AblationValue, AttentionKind
from attnviz.traces.long_weights import report_progress
from attnviz.traces.settings import DTYPES, HeadId
from attnviz.traces.trained.band_masks import BandMasks
from attnviz.traces.trained.captured_attention import (
    CapturedAttention,
    HiddenKeys,
    MaskScores,
    Visible,
)
from attnviz.traces.trained.model_state import unchanged_model

ATTENTION_NAME = "attnviz"  # under which transformers knows the attention function
MATRIX_DTYPES = tuple(getattr(torch, name) for name in DTYPES)  # not those of quantised weights
ADAPTED_LAYER_NAME = "base_layer"  # in PEFT's adapters
KEY_INPUT_NAMES = ("key_value_states", "encoder_hidden_states")  # of cross-attention


class CannotCapture(Exception):
    """The error of a model whose attention inputs cannot be captured, such as a text in blocks."""


@dataclass(frozen=True, eq=False)
class LayerOutput:
    """The matrix by which a layer leaves its heads, and what it makes of their joined contexts."""

    w_out: Float[Tensor, "joined dim"] | None = None
    b_out: Float[Tensor, "dim"] | None = None
    product: Float[Tensor, "query dim"] | None = None


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What a layer of a model gives its attention function."""

    module: nn.Module
    query: Float[Tensor, "item head query width"]
    key: Float[Tensor, "item group key width"]
    value: Float[Tensor, "item group key value_width"]
    mask: Shaped[Tensor, "..."] | None
    scaling: float | None = None  # None: 1/√width
    soft_cap: float | None = None
    position_bias: Float[Tensor, "..."] | None = None
    sink: Float[Tensor, "head"] | None = None

    @property
    def scale(self) -> float:
        return self.query.shape[-1] ** -0.5 if self.scaling is None else float(self.scaling)


@dataclass(eq=False)
class Listener:
    """A collector of each layer's attention in one forward pass, which also computes it."""

    kind: AttentionKind = "self"
    layers: Collection[int] | None = None  # to capture; None: every layer
    off: Mapping[HeadId, AblationValue] = field(default_factory=dict)
    hidden: HiddenKeys | None = None
    captured: list[CapturedAttention] = field(default_factory=list)
    outputs: dict[int, LayerOutput] = field(default_factory=dict)  # by number of captured layers
    layer_numbers: list[int] = field(default_factory=list)  # of all layers with this attention
    module_inputs: dict[nn.Module, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    decoders: frozenset[nn.Module] = frozenset()  # modules of a decoder beside an encoder
    modules: Collection[nn.Module] = ()  # that attend or hold W_out, if an earlier pass told them
    used_modules: WeakSet[nn.Module] = field(default_factory=WeakSet)  # that do so in this pass
    joined_contexts: Tensor | None = None  # of the last captured layer, heads side by side
    masks: list[tuple[Tensor, MaskRule, MaskScores]] = field(default_factory=list)  # seen so far
    band_masks: BandMasks = field(default_factory=BandMasks)
    choice: SummaryChoice | None = None  # of what is measured of each captured layer
    layer_count: int = 1  # of the model, for reports of progress

    def attend(self, call: AttentionCall) -> Float[Tensor, "item query head value_width"]:
        """Return the context vectors of all heads, with those of ablated heads replaced.

        Appends the layer to `captured` if its kind of attention and its number are wanted. Raises
        CannotCapture for a batch of more than one text.
        """
        module, query = call.module, call.query
        if query.shape[0] != 1:  # a text in blocks, for example
            raise CannotCapture
        inputs, memory = (
            None if batch is None else batch[0]
            for batch in self.module_inputs.get(module, (None, None))
        )
        self.module_inputs.clear()
        if not self.modules:
            self.used_modules.add(module)
        kind: AttentionKind = "self"
        if module in self.decoders:
            kind = "decoder" if memory is None else "cross"
        number = self._next_number(module) if kind == self.kind else -1
        mask_rule, mask_scores = self._shared_mask(call)
        captured = CapturedAttention(
            kind=kind,
            layer=number,
            module=module,
            inputs=query[0].transpose(0, 1).flatten(1) if inputs is None else inputs,
            memory=memory,
            queries=query[0],
            keys=call.key[0],
            values=call.value[0],
            mask=mask_rule,
            mask_scores=mask_scores,
            bias=None if call.position_bias is None else call.position_bias[0],
            scale=call.scale,
            soft_cap=call.soft_cap,
            sink=None if call.sink is None else call.sink.detach().clone(),  # which may change
            off={  # missing heads are refused later, once all layers are known
                head: ablation
                for (layer, head), ablation in self.off.items()
                if layer == number and head < query.shape[1]
            },
        )
        is_wanted = number >= 0 and (self.layers is None or number in self.layers)
        if is_wanted and self.choice is not None:
            rows = query.shape[1] * query.shape[2]
            total = rows * max(self.layer_count, number + 1)

            def progress(done: int) -> None:
                report_progress(total, rows * number + done)

            captured, head_contexts = captured.with_maps(self.choice, progress)
        else:
            head_contexts = captured.contexts()
            if self.hidden is not None:
                captured.hide_keys(head_contexts, self.hidden)
        contexts = head_contexts[None].transpose(1, 2).contiguous()
        if is_wanted:
            self.captured.append(captured)
            self.joined_contexts = contexts.flatten(2)
        return contexts

    def _next_number(self, module: nn.Module) -> int:
        """Return the number of the layer that attends now, after appending it to `layer_numbers`.

        It is the module's `layer_idx` if that is above the last number (some layers do not attend),
        else the last number plus 1.
        """
        last = self.layer_numbers[-1] if self.layer_numbers else -1
        own = getattr(module, "layer_idx", None)
        self.layer_numbers.append(own if isinstance(own, int) and own > last else last + 1)
        return self.layer_numbers[-1]

    def _shared_mask(self, call: AttentionCall) -> tuple[MaskRule, MaskScores]:
        """Return which keys a mask leaves visible, and what it adds to scores (None: nothing).

        Layers that share a mask get the same two, to save memory.
        """
        mask, queries, keys = call.mask, call.query.shape[2], call.key.shape[2]
        if mask is None:
            return MaskRule(), None
        rule = self.band_masks.rule_of(mask, queries, keys)
        if rule is not None:
            return rule, None
        for known_mask, known_rule, mask_scores in self.masks:
            if _is_same_tensor(known_mask, mask):
                return known_rule, mask_scores
        cells = mask[0, 0] if mask.shape[1] == 1 else mask[0]
        cells = cells[..., :queries, :keys].expand(*cells.shape[:-2], queries, keys)
        visible, mask_scores = split_mask_cells(cells)
        self.masks.append((mask, MaskRule(matrix=visible), mask_scores))
        return self.masks[-1][1:]

    def note_module_inputs(
        self, module: nn.Module, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> None:
        """Note the input vectors of a module, in case it attends: a forward pre-hook.

        These are its first tensor of shape [batch, token, dim], and the inputs of keys in
        cross-attention; a module without such a tensor is ignored.
        """
        for value in (*args, *keywords.values()):
            if isinstance(value, Tensor) and value.ndim == 3 and value.is_floating_point():
                key_inputs = (keywords.get(name) for name in KEY_INPUT_NAMES)
                memory = next((batch for batch in key_inputs if batch is not None), None)
                self.module_inputs[module] = (value, memory)
                return

    def note_output_matrix(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Note W_out of the layer that was captured last, and its product: a forward hook.

        W_out is the matrix of the module whose inputs are the joined contexts of that layer; all
        other modules are ignored.
        """
        joined = self.joined_contexts
        if joined is None or not args or not isinstance(args[0], Tensor):
            return
        inputs: Tensor = args[0]
        if inputs.numel() != joined.numel() or inputs.device != joined.device:
            return
        inputs = inputs.reshape(joined.shape)
        if _is_same_tensor(inputs, joined) or torch.equal(inputs, joined):
            w_out, b_out = module_matrix(module)
            # A copy, as the model may add to the product in place.
            if w_out is not None:
                product = output.detach().reshape(-1, w_out.shape[1]).clone()
                self.outputs[self.captured[-1].layer] = LayerOutput(w_out, b_out, product)
            self.joined_contexts = None
            if not self.modules:
                self.used_modules.add(module)


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
    """Return the context vectors that the current listener computes, and None for the weights.

    transformers calls this function, with these names of parameters.
    """
    call = AttentionCall(
        module, query, key, value, attention_mask, scaling, softcap, position_bias, s_aux
    )
    return _current_listener.get().attend(call), None


@contextmanager
def capturing_attention(model: Any, listener: Listener) -> Iterator[Listener]:
    """Have `listener` compute and capture the model's attention inside the `with` block.

    Yields the listener. Afterwards the model is as it was before.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION_NAME, _attention_function)
    AttentionMaskInterface.register(ATTENTION_NAME, _mask_function(model, listener.band_masks))
    if model.config.is_encoder_decoder:
        listener.decoders = frozenset(model.get_decoder().modules())
    with context_value(_current_listener, listener):
        try:
            with unchanged_model(model, ATTENTION_NAME):
                _register_hooks(model, listener)
                yield listener
        finally:
            listener.module_inputs.clear()


def _mask_function(model: Any, band_masks: BandMasks) -> Callable[..., Tensor | None]:
    """Return the function that builds a model's masks.

    It builds boolean masks, a quarter as large as those of numbers, if the model supports them.
    """
    from transformers.masking_utils import eager_mask, sdpa_mask

    build_mask = sdpa_mask if getattr(model, "_supports_sdpa", False) else eager_mask
    return lambda *arguments, **keywords: band_masks.build(
        build_mask, arguments, keywords | {"allow_is_causal_skip": False}
    )


def _register_hooks(model: Any, listener: Listener) -> None:
    """Register the listener's hooks on its modules, or all; `unchanged_model` removes them.

    `note_output_matrix` goes on modules with a weight matrix, `note_module_inputs` on others that
    contain modules. The parts of an adapted layer make no whole product, and get none.
    """
    modules = [*(listener.modules or model.modules())]
    layers = (module for module in modules if ADAPTED_LAYER_NAME in module._modules)
    inner = {part for layer in layers for part in layer.modules() if part is not layer}
    for module in modules:
        if _has_matrix(module):
            if module not in inner:
                module.register_forward_hook(listener.note_output_matrix)
        elif next(module.children(), None) is not None:
            module.register_forward_pre_hook(listener.note_module_inputs, with_kwargs=True)


def _has_matrix(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def module_matrix(module: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    """Return W and b of a Linear or Conv1D module, which computes x W + b; else (None, None).

    So it is for quantised weights, too, and for those that are elsewhere until they are needed.
    Both are the model's own numbers, outside its graph of gradients.
    """
    if not _has_matrix(module):
        return None, None
    weight, bias = module.weight, getattr(module, "bias", None)
    if not isinstance(weight, Tensor) or weight.dtype not in MATRIX_DTYPES or weight.is_meta:
        return None, None
    matrix = weight.detach().T if isinstance(module, nn.Linear) else weight.detach()
    return matrix, None if bias is None else bias.detach()


def _is_same_tensor(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors view the same memory with the same shape.

    Some models slice their mask anew in every layer.
    """
    return (
        first.data_ptr() == second.data_ptr()
        and first.shape == second.shape
        and first.stride() == second.stride()
    )


def split_mask_cells(cells: Shaped[Tensor, "*any"]) -> tuple[Visible, MaskScores]:
    """Return which cells a mask, boolean or of numbers, leaves visible, and what it adds to their
    scores (None: nothing)."""
    if cells.dtype == torch.bool:
        return cells, None
    visible = cells > torch.finfo(cells.dtype).min / 2
    if torch.equal(cells == 0, visible):  # no second matrix of numbers is kept: it would be large
        return visible, None
    return visible, cells.masked_fill(~visible, 0)
