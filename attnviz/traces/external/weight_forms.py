"""Converts weights of any library, form or device to layers of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError, warn_with_note
from attnviz.machine import memory
from attnviz.traces.given_arrays import parse_array
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME
from attnviz.wording.words import and_list, counted, shape_text

Heads = Float[Tensor, "head query key"]
GenerationSteps = Sequence[Mapping[int, Float[Tensor, "item head query key"]]]

ATTENTION_OUTPUTS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
MODEL_OUTPUTS = (*ATTENTION_OUTPUTS, "logits", "last_hidden_state", "sequences")
WEIGHTS_KEY = "weights"
BYTES_PER_WEIGHT = 4 + 1  # of a float32 weight and of its mask
WEIGHT_FORMS_HINT = "give a tensor, an array, rows of numbers, or outputs.attentions of a model"
BEAM_REORDERING_HINT = (
    "; if these are beams, give all outputs of generate(), which say how beams are reordered"
)
KEYS_HINT = "; or keys, the tokens that cross-attention reads"
BEAM_INDICES_HINT = (
    "; that of a decoder with its beams: "
    '{"decoder_attentions": outputs.decoder_attentions, "beam_indices": outputs.beam_indices}'
)
SECOND_OUTPUT_HINT = "; from nn.MultiheadAttention, give the second output, its weights"
NEED_WEIGHTS_HINT = "; nn.MultiheadAttention returns them with need_weights=True"
AXES = ("layer", "batch", "head", "query", "key")  # in this order here; others may be missing
REQUIRED_AXES = ("query", "key")
BATCH_AXES = "batch head query key"
AXES_HINT = f'name each dimension: axes="layer head query key", or axes="{BATCH_AXES}"'
EAGER_HINT = (
    'load the model with attn_implementation="eager" and call it with output_attentions=True: '
    "the faster kinds of attention return no weights"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExternalWeights:
    """The given weights of one item of a batch, by layer number."""

    layers: Mapping[int, Heads]
    batch_item: BatchItem
    prompt: int | None = None  # number of given tokens, if a model generated the others
    stored_as: str = "float32"
    axes: str = ""  # how the dimensions of an array were read; empty for other forms


def parse_weights(
    weights: Any, item: int | None, *, axes: str | None = None, across: bool
) -> ExternalWeights:
    """Return the given weights of one item of the batch, by layer number.

    They may be an array, lists, or a model's outputs, also of generate(). `axes` names the
    dimensions of an array. `across` is True for cross-attention. Refuses forms that are no weights,
    layers of different sizes, batches without an `item` (from 1), and weights that do not fit in
    memory.
    """
    beams = weights.get("beam_indices") if isinstance(weights, Mapping) else None
    form = _attentions_in_outputs(weights, across=across)
    if form is None or (is_sequence(form) and not len(form)):
        hint = EAGER_HINT if weights is not None else f"{EAGER_HINT}{NEED_WEIGHTS_HINT}"
        raise AttnvizError("there are no weights: the model returned none", hint)
    depth, leaf = _depth_and_leaf(form)
    if leaf is None:
        raise AttnvizError("there are no weights: every layer is None", EAGER_HINT)
    cells = _count_cells(form)
    memory.refuse_too_little_memory(cells * BYTES_PER_WEIGHT, f"a copy of {cells:,} weights")
    if not depth or not is_array(leaf):
        array = value_to_tensor(form)
        axes = _name_axes(array, item) if axes is None else axes
        selected = _select_batch_item(_layers_by_axes(array, axes), item, dtype_name(form))
        return replace(selected, axes=axes)
    if axes is not None:
        raise AttnvizError(
            "axes names the dimensions of one array, and the weights are a list of tensors",
            "leave axes out: each of the tensors is a layer",
            about="axes",
        )
    if depth == 1:
        return _select_batch_item(_layers_from_list(form), item, dtype_name(leaf))
    if depth == 2 and len(leaf.shape) == 2:
        heads = [
            None if head is None else torch.stack([*map(value_to_tensor, head)]) for head in form
        ]
        return _select_batch_item(_number_layers(heads), item, dtype_name(leaf))
    if depth == 2 and len(leaf.shape) in (3, 4):
        return _join_generation_steps(form, item, beams, dtype_name(leaf), across=across)
    raise _unknown_form_error(f"tensors of {len(leaf.shape)} dimensions in {depth} lists")


def _attentions_in_outputs(weights: Any, *, across: bool) -> Any:
    """Return the attentions in a model's outputs, None if there are none; other values unchanged.

    Refuses a dict that is no such output, and outputs with several kinds of attention, unless
    `across` decides for cross-attention.
    """
    if not isinstance(weights, Mapping):
        return weights
    if not any(name in weights for name in MODEL_OUTPUTS):
        raise AttnvizError(
            "the weights are a dict in which nothing is called 'attentions'",
            "give the weights in it, layer by layer: [*weights.values()]",
        )
    present_outputs = [
        name for name in ATTENTION_OUTPUTS if weights.get(name) is not None and len(weights[name])
    ]
    if across and "cross_attentions" in present_outputs:
        return weights["cross_attentions"]
    if len(present_outputs) > 1:
        beams_hint = BEAM_INDICES_HINT if weights.get("beam_indices") is not None else ""
        keys_hint = KEYS_HINT if "cross_attentions" in present_outputs else ""
        raise AttnvizError(
            f"the outputs hold {and_list(present_outputs)}, but only one of them can be shown",
            f"give it alone: outputs.{present_outputs[0]}{beams_hint}{keys_hint}",
        )
    return weights[present_outputs[0]] if present_outputs else None


def _depth_and_leaf(form: Any) -> tuple[int, Any]:
    """Return how many lists are around the first tensor or number, and it (None if all are empty).

    Elements that are None are skipped.
    """
    depth, leaf = 0, form
    while is_sequence(leaf) and len(leaf):
        depth += 1
        leaf = next((item for item in leaf if item is not None), None)
    return depth, None if is_sequence(leaf) else leaf


def _name_axes(weights: Tensor, item: int | None) -> str:
    """Return how the 2 to 5 dimensions of an array are read: `layer head query key`.

    If an item is given, the first of three or four is the batch of one layer. Refuses arrays of
    other dimensions.
    """
    if weights.ndim not in (2, 3, 4, 5):
        dimensions = counted(weights.ndim, "dimension")
        raise _unknown_form_error(f"{dimensions}, {shape_text(weights.shape)}")
    if weights.ndim in (3, 4) and item is not None:
        return BATCH_AXES if weights.ndim == 4 else "batch query key"
    names = AXES if weights.ndim == 5 else [name for name in AXES if name != "batch"]
    return " ".join(names[-weights.ndim :])


def _layers_by_axes(weights: Tensor, axes: str) -> dict[int, Tensor]:
    """Return layers [item, head, query, key] by number, of an array whose dimensions are named, in
    any order; refuses names that do not fit it."""
    names = ["batch" if name == "item" else name for name in axes.replace(",", " ").split()]
    unknown = next((name for name in names if name not in AXES), None)
    missing = next((name for name in REQUIRED_AXES if name not in names), None)
    problem = ""
    if unknown is not None:
        problem = f"axes names '{unknown}', and dimensions are {and_list([*AXES])}"
    elif missing is not None or len({*names}) < len(names):
        fault = f"does not name '{missing}'" if missing else "names a dimension twice"
        problem = f"axes {fault}"
    elif len(names) != weights.ndim:
        dimensions = counted(weights.ndim, "dimension")
        problem = f"axes has {counted(len(names), 'name')}, and the weights have {dimensions}"
    if problem:
        raise AttnvizError(problem, AXES_HINT, about="axes")
    named = weights.permute([names.index(name) for name in AXES if name in names])
    for place, name in enumerate(AXES):
        named = named if name in names else named.unsqueeze(place)
    return dict(enumerate(named))


def _layers_from_list(form: Sequence[Any]) -> dict[int, Tensor]:
    """Return layers [item, head, query, key] by number, of a list of layers (None is left out), or
    of one layer, if the tensors are [query, key]: these are its heads.
    """
    tensors = [None if layer is None else value_to_tensor(layer) for layer in form]
    present = [layer for layer in tensors if layer is not None]
    if {layer.ndim for layer in present} != {2}:
        return _number_layers(tensors)
    if len(present) < len(tensors):  # only layers can be None: these have one head each
        return _number_layers([None if layer is None else layer[None] for layer in tensors])
    _refuse_unequal_sizes(dict(enumerate(present)), "head")
    return _layers_by_axes(torch.stack(present), "head query key")


def _number_layers(tensors: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """Return layers [item, head, query, key] by number, without layers that are None (with a
    warning).

    Layers without items get one. Refuses tensors that have not 3 or 4 dimensions.
    """
    left_out = [str(number) for number, tensor in enumerate(tensors) if tensor is None]
    if left_out:
        noun, verb = ("layers", "have") if len(left_out) > 1 else ("layer", "has")
        warn_with_note(f"{noun} {and_list(left_out)} {verb} no weights: left out")
    layers = {number: tensor for number, tensor in enumerate(tensors) if tensor is not None}
    misshapen = next((tensor for tensor in layers.values() if tensor.ndim not in (3, 4)), None)
    if misshapen is not None:
        raise _unknown_form_error(f"a layer of {shape_text(misshapen.shape)}")
    return {
        number: tensor if tensor.ndim == 4 else tensor[None] for number, tensor in layers.items()
    }


def _select_batch_item(
    stacks: Mapping[int, Tensor], item: int | None, stored_as: str
) -> ExternalWeights:
    """Return one item of the batch, in every layer.

    Refuses batches or layers of different sizes, and a missing or wrong `item`.
    """
    items = {len(stack) for stack in stacks.values()}
    if len(items) > 1:
        raise _unknown_form_error(f"batches of {and_list([*map(str, sorted(items))])}")
    batch_item = choose_batch_item(item, items.pop())
    layers = {number: stack[batch_item.index].clone() for number, stack in stacks.items()}
    _refuse_unequal_sizes(layers, "layer")
    return ExternalWeights(layers=layers, batch_item=batch_item, stored_as=stored_as)


def _join_generation_steps(
    form: Sequence[Any], item: int | None, beams: Any, stored_as: str, *, across: bool
) -> ExternalWeights:
    """Return the whole weights of one item, joined from what generate() returns: a tuple of layers
    for each step. `beams` are the indices of beams in the batch at each step, if known.
    """
    steps = [
        _number_layers([None if layer is None else value_to_tensor(layer) for layer in step])
        for step in form
    ]
    batch_item, indices = follow_batch_item(steps, item, beams)
    used_steps = steps[: len(indices)]
    parts_by_layer = {
        number: [step[number][index] for step, index in zip(used_steps, indices, strict=True)]
        for number in used_steps[0]
    }
    layers = {
        number: join_step_weights(parts, across=across) for number, parts in parts_by_layer.items()
    }
    _refuse_unequal_sizes(layers, "layer")
    prompt = next(iter(used_steps[0].values())).shape[-2]
    is_prompt_only = prompt == next(iter(layers.values())).shape[-2]
    return ExternalWeights(
        layers=layers,
        batch_item=batch_item,
        prompt=None if is_prompt_only else prompt,
        stored_as=stored_as,
    )


def _refuse_unequal_sizes(tensors: Mapping[int, Tensor], noun: str) -> None:
    """Refuse layers or heads (`noun`) of different sizes, as of models that shorten the text."""
    sizes = {number: tuple(tensor.shape[-2:]) for number, tensor in tensors.items()}
    (first_number, first_size), *other_sizes = sizes.items()
    deviating = next(((number, size) for number, size in other_sizes if size != first_size), None)
    if deviating is not None:
        number, size = deviating
        raise AttnvizError(
            f"the weights of {noun} {number} are {shape_text(size)}, "
            f"but those of {noun} {first_number} are {shape_text(first_size)}",
            f"give {noun}s that read the same tokens{SECOND_OUTPUT_HINT * (len(sizes) == 2)}",
        )


def _unknown_form_error(form_text: str) -> AttnvizError:
    return AttnvizError(
        f"the weights are {form_text}, and should be [query, key], "
        "or such a matrix for each head, of each layer",
        WEIGHT_FORMS_HINT,
    )


def is_array(value: object) -> bool:
    return isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def value_to_tensor(value: Any) -> Tensor:
    """Return numbers as a dense CPU tensor without gradient, of float64 or else float32.

    Refuses what cannot be read as real numbers.
    """
    try:
        if isinstance(value, Tensor):
            tensor = _dense_cpu_tensor(value)
        else:
            tensor = torch.from_numpy(_float_array(value))
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        raise _unreadable_weights_error() from None
    if tensor.is_complex():
        raise _unreadable_weights_error()
    return tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)


def _unreadable_weights_error() -> AttnvizError:
    return AttnvizError("the weights cannot be read as numbers", WEIGHT_FORMS_HINT)


def _count_cells(form: Any) -> int:
    """Return the number of weights in (nested lists of) arrays; bare numbers are not counted."""
    if is_array(form):
        return prod(form.shape)
    return sum(map(_count_cells, form)) if is_sequence(form) else 0


def dtype_name(value: Any) -> str:
    """Return the name of an array's dtype, of any library: "bfloat16"; "float64" for lists."""
    dtype = getattr(value, "dtype", "float64")
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")


def _dense_cpu_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor on the CPU without gradient, dequantized and dense."""
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    return (plain if plain.layout == torch.strided else plain.to_dense()).cpu()


def _float_array(value: Any) -> np.ndarray:
    """Return nested lists, or an array of another library, as a float array.

    Refuses ragged lists, and lists of anything but finite numbers.
    """
    if is_sequence(value):
        rows = _tuples_as_lists(value)
        return parse_array(WEIGHTS_KEY, rows, PARTS_BY_GIVEN_NAME[WEIGHTS_KEY], "")
    numbers = np.asarray(value)
    if numbers.dtype.kind == "c":
        raise TypeError("no real numbers")
    if numbers.dtype.kind == "f" and numbers.dtype.itemsize > np.dtype(np.float64).itemsize:
        return numbers.astype(np.float64)
    return np.array(numbers, copy=True) if numbers.dtype.kind in "f" else numbers.astype(np.float32)


def _tuples_as_lists(value: Any) -> Any:
    return [_tuples_as_lists(item) for item in value] if is_sequence(value) else value


@dataclass(frozen=True)
class BatchItem:
    """The number of an item in a batch, from 1, and the size of the batch."""

    item: int = 1
    items: int = 1

    @property
    def index(self) -> int:
        return self.item - 1


def choose_batch_item(item: int | None, items: int, hint: str = "") -> BatchItem:
    """Return the chosen item (from 1) of a batch, or its only one if `item` is None.

    Refuses None for a batch of several, and an item that the batch does not have. `hint` is
    appended to the hint of the first error.
    """
    if item is None and items > 1:
        raise AttnvizError(
            f"the weights are a batch of {items}, and only one item can be shown",
            f"give item=1 to item={items}{hint}",
            about="item",
        )
    if item is not None and not 1 <= item <= items:
        raise AttnvizError(
            f"item is {item}, but the batch has {items}",
            f"give item=1 to item={items}" if items > 1 else "leave 'item' out",
            about="item",
        )  # fmt: skip
    return BatchItem(item or 1, items)


def follow_batch_item(
    steps: GenerationSteps, item: int | None, beams: Any
) -> tuple[BatchItem, list[int]]:
    """Return the chosen item, and its index in the batch at each step of generate().

    The index changes where `beams` say that beams were reordered, and the list is shorter where the
    text ended. Refuses a missing or wrong item.
    """
    if beams is None:
        items = len(next(iter(steps[0].values())))
        batch_item = choose_batch_item(item, items, BEAM_REORDERING_HINT)
        return batch_item, [batch_item.index] * len(steps)
    batch_item = choose_batch_item(item, len(beams))
    indices = [int(beam_index) for beam_index in beams[batch_item.index]][: len(steps)]
    return batch_item, [index for index in indices if index >= 0]  # below 0: it has ended


def join_step_weights(parts: Sequence[Heads], *, across: bool) -> Heads:
    """Return the weights of all steps of generate() as one matrix per head.

    Keys of later steps have 0. Each part has rows for the new tokens; without a cache, for all
    earlier ones, too. With `across` (cross-attention), rows are put one below the other. Refuses
    steps that read more keys than there are tokens.
    """
    if across:
        return torch.cat([*parts], dim=-2)
    token_count, rows = 0, []
    for step, part in enumerate(parts):
        queries, keys = part.shape[-2:]
        repeats_rows = 0 < token_count < queries == keys  # without a cache
        new_tokens = queries - token_count if repeats_rows else queries
        token_count += new_tokens
        rows.append(_fit_key_columns(part[:, -new_tokens:], token_count, step))
    joined = torch.zeros(len(rows[0]), token_count, token_count, dtype=rows[0].dtype)
    start = 0
    for step_rows in rows:
        stop = start + step_rows.shape[-2]
        joined[:, start:stop, :stop] = step_rows
        start = stop
    return joined


def _fit_key_columns(part: Heads, token_count: int, step: int) -> Heads:
    """Return the rows with one column for each of `token_count` tokens: 0 is put in for first
    tokens outside a sliding window, unused cache columns are cut off.

    Refuses weights beyond the tokens; `step` is for the message.
    """
    key_count = part.shape[-1]
    if key_count < token_count:  # the first tokens are outside a sliding window
        return torch.nn.functional.pad(part, (token_count - key_count, 0))
    if part[..., token_count:].any():
        raise AttnvizError(
            f"step {step} reads {key_count} keys, but there are {token_count} tokens by then",
            "give keys, the tokens that are read, if these are not the ones that read",
            about="keys",
        )
    return part[..., :token_count]
