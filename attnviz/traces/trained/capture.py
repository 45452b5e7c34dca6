"""Captures the attention of a running model: its inputs, queries, keys, values and weights.

transformers lets one register a function that computes attention. This one receives the queries,
keys, values, mask and scale of every layer, computes with attnviz's own arithmetic, and returns the
context vectors. So every model that uses that interface is captured without code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakSet

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import AttentionStages, MixedBy
from attnviz.attention.variants import AblationValue
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.machine import memory
from attnviz.traces.settings import DTYPES, AttentionKind, HeadId
from attnviz.traces.trained.model_state import unchanged_model
from attnviz.traces.weights import InMemoryWeights, Stage, Weights
from attnviz.wording.words import counted, with_summary

ATTENTION_NAME = "attnviz"  # under which transformers knows the attention function
MATRIX_DTYPES = tuple(getattr(torch, name) for name in DTYPES)  # not those of quantised weights
ADAPTED_LAYER_NAME = "base_layer"  # in PEFT's adapters
KEY_INPUT_NAMES = ("key_value_states", "encoder_hidden_states")  # of cross-attention
CAPTURED_CELLS_AT_ONCE = 2**18  # of all heads; several tensors of this size exist at a time
Visible = Bool[Tensor, "*#head query key"]
MaskScores = Float[Tensor, "*#head query key"] | None


class CannotCapture(Exception):
    """The error of a model whose attention inputs cannot be captured, such as a text in blocks."""


@dataclass(frozen=True, eq=False)
class LayerOutput:
    """The matrix by which a layer leaves its heads, and what it makes of their joined contexts."""

    w_out: Float[Tensor, "joined dim"] | None = None
    b_out: Float[Tensor, "dim"] | None = None
    product: Float[Tensor, "query dim"] | None = None


@dataclass(eq=False)
class Listener:
    """A collector of each layer's attention in one forward pass, which also computes it."""

    kind: AttentionKind = "self"
    layers: Collection[int] | None = None  # to capture; None: every layer
    off: Mapping[HeadId, AblationValue] = field(default_factory=dict)
    captured: list[CapturedAttention] = field(default_factory=list)
    outputs: dict[int, LayerOutput] = field(default_factory=dict)  # by number of captured layers
    layer_numbers: list[int] = field(default_factory=list)  # of all layers with this attention
    module_inputs: dict[nn.Module, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    decoders: frozenset[nn.Module] = frozenset()  # modules of a decoder beside an encoder
    modules: Collection[nn.Module] = ()  # that attend or hold W_out, if an earlier pass told them
    used_modules: WeakSet[nn.Module] = field(default_factory=WeakSet)  # that do so in this pass
    joined_contexts: Tensor | None = None  # of the last captured layer, heads side by side
    masks: list[tuple[Tensor | None, Visible, MaskScores]] = field(
        default_factory=list
    )  # seen so far

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
        """Return the context vectors of all heads, with those of ablated heads replaced.

        Appends the layer to `captured` if its kind of attention and its number are wanted. Raises
        CannotCapture for a batch of more than one text; a `scaling` of None means 1/√width.
        """
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
        visible, mask_scores = self._shared_mask(mask, query, key)
        captured = CapturedAttention(
            kind=kind,
            layer=number,
            module=module,
            inputs=query[0].transpose(0, 1).flatten(1) if inputs is None else inputs,
            memory=memory,
            queries=query[0],
            keys=key[0],
            values=value[0],
            visible=visible,
            mask_scores=mask_scores,
            bias=None if position_bias is None else position_bias[0],
            scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
            soft_cap=soft_cap,
            sink=None if sink is None else sink.detach().clone(),  # a parameter, which may change
            off={  # missing heads are refused later, once all layers are known
                head: ablation
                for (layer, head), ablation in self.off.items()
                if layer == number and head < query.shape[1]
            },
        )
        contexts = captured.contexts()[None].transpose(1, 2).contiguous()
        if number >= 0 and (self.layers is None or number in self.layers):
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

    def _shared_mask(
        self, mask: Tensor | None, query: Tensor, key: Tensor
    ) -> tuple[Visible, MaskScores]:
        """Return which keys a mask leaves visible, and what it adds to scores (None: nothing).

        Layers that share a mask get the same two tensors, to save memory.
        """
        sizes = query.shape[2], key.shape[2]
        for known_mask, visible, mask_scores in self.masks:
            if mask is None or known_mask is None:
                is_same = mask is known_mask and visible.shape == sizes
                is_same = is_same and visible.device == query.device
            else:
                is_same = _is_same_tensor(known_mask, mask)
            if is_same:
                return visible, mask_scores
        mask_parts = _split_mask(mask, query, key)
        self.masks.append((mask, *mask_parts))
        return mask_parts

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
    arguments = (module, query, key, value, attention_mask, scaling, softcap, position_bias, s_aux)
    return _current_listener.get().attend(*arguments), None


@contextmanager
def capturing_attention(model: Any, listener: Listener) -> Iterator[Listener]:
    """Have `listener` compute and capture the model's attention inside the `with` block.

    Yields the listener. Afterwards the model is as it was before.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION_NAME, _attention_function)
    AttentionMaskInterface.register(ATTENTION_NAME, _mask_function(model))
    if model.config.is_encoder_decoder:
        listener.decoders = frozenset(model.get_decoder().modules())
    reset_token = _current_listener.set(listener)
    try:
        with unchanged_model(model, ATTENTION_NAME):
            _register_hooks(model, listener)
            yield listener
    finally:
        listener.module_inputs.clear()
        _current_listener.reset(reset_token)


def _mask_function(model: Any) -> Callable[..., Tensor | None]:
    """Return the function that builds a model's masks.

    It builds boolean masks, a quarter as large as those of numbers, if the model supports them.
    """
    from transformers.masking_utils import eager_mask, sdpa_mask

    if not getattr(model, "_supports_sdpa", False):
        return eager_mask
    return lambda *arguments, **keywords: sdpa_mask(
        *arguments, **keywords | {"allow_is_causal_skip": False}
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
    """Return whether a module is a Linear, or a Conv1D of GPT-2."""
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


def _split_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> tuple[Visible, MaskScores]:
    """Return which keys a mask leaves visible, and what it adds to their scores (None: nothing).

    The mask is the model's, of a batch of one text; it is cut to the numbers of queries and keys.
    """
    queries, keys = query.shape[2], key.shape[2]
    if mask is None:
        return torch.ones((), dtype=torch.bool, device=query.device).expand(queries, keys), None
    cells = mask[0, 0] if mask.shape[1] == 1 else mask[0]
    return split_mask_cells(cells[..., :queries, :keys].expand(*cells.shape[:-2], queries, keys))


def split_mask_cells(cells: Shaped[Tensor, "*any"]) -> tuple[Visible, MaskScores]:
    """Return which cells a mask, boolean or of numbers, leaves visible, and what it adds to their
    scores (None: nothing)."""
    if cells.dtype == torch.bool:
        return cells, None
    visible = cells > torch.finfo(cells.dtype).min / 2
    if torch.equal(cells == 0, visible):  # no second matrix of numbers is kept: it would be large
        return visible, None
    return visible, cells.masked_fill(~visible, 0)


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class CapturedAttention:
    """The queries, keys and values of one layer as the model computed them, and its mask."""

    kind: AttentionKind
    layer: int
    module: nn.Module | None = None  # the attention module
    inputs: Float[Tensor, "query dim"]  # from which queries are projected
    memory: Float[Tensor, "key dim"] | None  # the same for keys and values; None: `inputs`
    queries: Float[Tensor, "head query width"]
    keys: Float[Tensor, "group key width"]
    values: Float[Tensor, "group key value_width"]
    visible: Visible
    mask_scores: MaskScores  # what a mask of numbers adds to scores
    bias: Float[Tensor, "*#head query key"] | None  # what positions add to scores
    scale: float
    soft_cap: float | None
    sink: Float[Tensor, "head"] | None = None  # a score that takes a share of each row
    off: Mapping[int, AblationValue] = field(default_factory=dict)

    @property
    def heads(self) -> int:
        return self.queries.shape[0]

    @property
    def cells(self) -> int:
        """The number of attention weights in all heads."""
        return self.heads * self.queries.shape[1] * self.keys.shape[1]

    def attend(
        self, rows: slice = FULL_SLICE, heads: slice = FULL_SLICE, *, mixed: bool = True
    ) -> AttentionStages:
        """Compute the stages of attention for the queries in `rows` and the heads in `heads`.

        Ablation (`off`) is not applied. `mixed=False` leaves out the contexts, for callers that
        need weights only.
        """
        values = self._expand_groups(self.values, heads)
        queries = self.queries if rows is heads is FULL_SLICE else self.queries[heads, rows]
        return arithmetic.compute_attention(
            arithmetic.similarity(queries, self._expand_groups(self.keys, heads)),
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
        """Return the keys or values of some heads, repeated where several heads share them."""
        groups = shared.shape[0]
        if groups == self.heads:
            return shared if heads is FULL_SLICE else shared[heads]
        return shared[torch.arange(self.heads)[heads] // (self.heads // groups)]

    @cached_property
    def whole(self) -> AttentionStages:
        """All stages of all heads as whole matrices, after ablation: for short texts."""
        stages = self.attend()
        contexts = arithmetic.switch_off_heads(stages.contexts, self.off)
        return AttentionStages(**{**vars(stages), "contexts": contexts})

    def contexts(self) -> Float[Tensor, "head query value_width"]:
        """Return the context vectors of all heads, with those of ablated heads replaced.

        They are computed for some queries at a time, into one tensor made first: small results kept
        between the large temporary ones would fragment the memory.
        """
        if self.cells <= CAPTURED_CELLS_AT_ONCE:
            return arithmetic.switch_off_heads(self._band_contexts(FULL_SLICE), self.off)
        contexts = self.values.new_empty(*self.queries.shape[:2], self.values.shape[-1])
        for rows in self.bands():
            contexts[:, rows] = self._band_contexts(rows)
        return arithmetic.switch_off_heads(contexts, self.off)

    def _band_contexts(self, rows: slice) -> Float[Tensor, "head query value_width"]:
        """Return the contexts of the queries in `rows`, before ablation.

        A backward pass recomputes them, to save memory.
        """
        if not (torch.is_grad_enabled() and self.values.requires_grad):
            return self.attend(rows).contexts
        contexts: Tensor = checkpoint(lambda: self.attend(rows).contexts, use_reentrant=False)
        return contexts

    def bands(self) -> Iterator[slice]:
        """Yield slices of the queries that cover all of them in order.

        Each has at most `CAPTURED_CELLS_AT_ONCE` weights in all heads, but at least one query.
        """
        queries = self.queries.shape[1]
        rows_at_once = max(1, CAPTURED_CELLS_AT_ONCE * queries // max(1, self.cells))
        for first in range(0, queries, rows_at_once):
            yield slice(first, first + rows_at_once)


def _mask_part(tensor: Tensor, rows: slice, heads: slice) -> Tensor:
    """Return the rows of a mask or bias for some queries of some heads.

    `heads` is ignored where all heads share the mask.
    """
    if rows is heads is FULL_SLICE:
        return tensor
    is_shared = tensor.ndim == 2 or tensor.shape[0] == 1
    return tensor[..., rows, :] if is_shared else tensor[heads, rows]


HeadCells = Float[Tensor, "head query key"]
MATRIX_COUNT = 4  # of all heads, in memory at once
NUMBER_BYTES = 4
FEWER_HEADS_HINT = "give a shorter text, or ask for one head: --layer 0 --head 0"


class RecomputedAttention(AttentionStages):
    """The stages of a layer as whole matrices, computed when the first of them is accessed."""

    mixed_by: MixedBy = "softmax"
    captured: CapturedAttention
    hint: str  # what to do if the matrices do not fit in memory

    def __init__(self, captured: CapturedAttention, hint: str = FEWER_HEADS_HINT) -> None:
        self.__dict__.update(captured=captured, hint=hint)  # AttentionStages is frozen

    def __repr__(self) -> str:
        """Return a line that computes nothing."""
        return f"<RecomputedAttention of {self.captured!r}>"

    @cached_property
    def whole(self) -> AttentionStages:
        """All stages at once; refuses matrices that do not fit in memory."""
        memory.refuse_too_little_memory(
            self.captured.cells * NUMBER_BYTES * MATRIX_COUNT,
            f"the scores and weights of {counted(self.captured.heads, 'head')} as matrices",
            self.hint,
        )
        return self.captured.whole

    @cached_property
    def scores(self) -> HeadCells:
        return self.whole.scores

    @cached_property
    def scaled_scores(self) -> HeadCells:
        return self.whole.scaled_scores

    @cached_property
    def capped_scores(self) -> HeadCells | None:
        return None if self.captured.soft_cap is None else self.whole.capped_scores

    @cached_property
    def bias(self) -> Tensor | None:
        return self.captured.bias

    @cached_property
    def mask(self) -> Tensor | None:
        return self.captured.mask_scores

    @cached_property
    def sink(self) -> Tensor | None:
        return self.captured.sink

    @cached_property
    def weights(self) -> HeadCells:
        return self.whole.weights

    @cached_property
    def mixing(self) -> HeadCells:
        return self.whole.mixing

    @cached_property
    def contexts(self) -> Float[Tensor, "head query value_width"]:
        return self.captured.contexts()


@dataclass(frozen=True, eq=False, repr=False)
class WeightsOnDemand(Weights):
    """The weights of a layer, recomputed row by row from queries and keys if they are many."""

    captured: CapturedAttention
    recomputed: RecomputedAttention

    @property
    def heads(self) -> int:
        return self.captured.heads

    def cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's numbers at a stage, such as 'weights' or 'scores'.

        They are kept in memory if the layer has few of them, else recomputed when they are read.
        """
        if self.captured.cells <= CAPTURED_CELLS_AT_ONCE:
            return InMemoryWeights(self.recomputed, self.captured.visible).cells(stage, head)
        return self._cells_by_stage.setdefault(
            (stage, head), RecomputedCells(self.captured, stage, head)
        )

    @cached_property
    def _cells_by_stage(self) -> dict[tuple[Stage, int], RecomputedCells]:
        """The cells that were accessed, which remember what they computed, such as their extent."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class RecomputedCells(Cells):
    """One head's numbers at one stage; a window of them recomputes its whole rows."""

    captured: CapturedAttention
    stage: Stage
    head: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.captured.queries.shape[1], self.captured.keys.shape[1]

    def window(self, rows: slice, columns: slice) -> Patch:
        """Return the numbers in these rows and columns, recomputed by each call."""
        head = slice(self.head, self.head + 1)
        visible = self.captured.visible
        visible_rows = visible[..., rows, :] if visible.ndim == 2 else visible[head, rows]
        stages = self.captured.attend(rows, head, mixed=False)
        return (
            InMemoryWeights(stages, visible_rows).cells(self.stage, 0).window(FULL_SLICE, columns)
        )
