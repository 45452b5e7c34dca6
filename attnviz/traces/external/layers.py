"""The layers of external weights, whatever form, library or device they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError, mention
from attnviz.machine import memory
from attnviz.traces.arrays import array
from attnviz.traces.parts import GIVEN
from attnviz.wording.words import counted, listed, shape_text

Heads = Float[Tensor, "head query key"]

KINDS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
OF_A_MODEL = (*KINDS, "logits", "last_hidden_state", "sequences")  # one of which it hands back
OR_KEYS = "; or keys, the tokens that cross-attention reads"
OF_BEAMS = (
    "; that of a decoder with its beams: "
    '{"decoder_attentions": outputs.decoder_attentions, "beam_indices": outputs.beam_indices}'
)
OF_ATTENTION = "; from nn.MultiheadAttention, give the second output, its weights"
WITH_WEIGHTS = "; nn.MultiheadAttention returns them with need_weights=True"
EAGER = (
    'load the model with attn_implementation="eager" and call it with output_attentions=True: '
    "the faster kinds of attention return no weights"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Handed:
    """Weights as they came, of one item of a batch."""

    layers: Mapping[int, Heads]  # by their numbers
    chosen: Chosen
    prompt: int | None = None  # how many tokens were given, where a model wrote the others
    stored_as: str = "float32"


def handed(weights: Any, item: int | None, *, across: bool) -> Handed:
    """What is handed over, layer by layer; attention `across` reads other tokens than its own."""
    beams = weights.get("beam_indices") if isinstance(weights, Mapping) else None
    form = _of_outputs(weights, across=across)
    if form is None or (is_sequence(form) and not len(form)):
        hint = EAGER if weights is not None else f"{EAGER}{WITH_WEIGHTS}"
        raise AttnvizError("there are no weights: the model returned none", hint)
    depth, leaf = _leaf(form)
    if leaf is None:
        raise AttnvizError("there are no weights: every layer is None", EAGER)
    refuse_too_many(form)
    if not depth or not is_array(leaf):
        return _of_stacks(_of_array(tensor_of(form), item), item, dtype_of(form))
    if depth == 1:
        return _of_stacks(_of_layers(form), item, dtype_of(leaf))
    if depth == 2 and len(leaf.shape) == 2:
        heads = [None if each is None else torch.stack([*map(tensor_of, each)]) for each in form]
        return _of_stacks(_numbered(heads), item, dtype_of(leaf))
    if depth == 2 and len(leaf.shape) in (3, 4):
        return _of_steps(form, item, beams, dtype_of(leaf), across=across)
    raise _no_form(f"tensors of {len(leaf.shape)} dimensions in {depth} lists")


def _of_outputs(weights: Any, *, across: bool) -> Any:
    """What is in the outputs of a model; anything else as it is."""
    if not isinstance(weights, Mapping):
        return weights
    if not any(name in weights for name in OF_A_MODEL):
        raise AttnvizError(
            "the weights are a dict in which nothing is called 'attentions'",
            "give the weights in it, layer by layer: [*weights.values()]",
        )
    named = [name for name in KINDS if weights.get(name) is not None and len(weights[name])]
    if across and "cross_attentions" in named:
        return weights["cross_attentions"]
    if len(named) > 1:
        with_beams = OF_BEAMS if weights.get("beam_indices") is not None else ""
        or_keys = OR_KEYS if "cross_attentions" in named else ""
        raise AttnvizError(
            f"the outputs hold {listed(named)}, but only one of them can be shown",
            f"give it alone: outputs.{named[0]}{with_beams}{or_keys}",
        )
    return weights[named[0]] if named else None


def _leaf(form: Any) -> tuple[int, Any]:
    """How many lists are around tensors, or numbers; and the first of these that is there."""
    depth, found = 0, form
    while is_sequence(found) and len(found):
        depth += 1
        found = next((each for each in found if each is not None), None)
    return depth, None if is_sequence(found) else found


def _of_array(found: Tensor, item: int | None = None) -> dict[int, Tensor]:
    """An array of all: [query, key], of heads, of layers, and of a batch in each layer.

    Where an item is asked for, the first of three or four sides is the batch of one layer.
    """
    if found.ndim not in (2, 3, 4, 5):
        raise _no_form(f"{counted(found.ndim, 'dimension')}, {shape_text(found.shape)}")
    if found.ndim in (3, 4) and item is not None:
        return {0: found if found.ndim == 4 else found[:, None]}
    while found.ndim < 4:
        found = found[None]
    return dict(enumerate(found if found.ndim == 5 else found[:, None]))


def _of_layers(form: Sequence[Any]) -> dict[int, Tensor]:
    """A tensor for each layer, with a batch or without; of two dimensions for each head."""
    tensors = [None if each is None else tensor_of(each) for each in form]
    found = [each for each in tensors if each is not None]
    if {each.ndim for each in found} != {2}:
        return _numbered(tensors)
    if len(found) < len(tensors):  # of heads none is left out: these are layers of one
        return _numbered([None if each is None else each[None] for each in tensors])
    _refuse_other_sizes(dict(enumerate(found)), "head")
    return _of_array(torch.stack(found))


def _numbered(tensors: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """By the numbers of layers, but for those that have no weights; each with a batch."""
    left_out = [str(number) for number, each in enumerate(tensors) if each is None]
    if left_out:
        several = "s" * (len(left_out) > 1)
        told = f"layer{several} {listed(left_out)} {'have' if several else 'has'} no weights"
        mention(f"{told}: left out")
    found = {number: each for number, each in enumerate(tensors) if each is not None}
    odd = next((each for each in found.values() if each.ndim not in (3, 4)), None)
    if odd is not None:
        raise _no_form(f"a layer of {shape_text(odd.shape)}")
    return {number: each if each.ndim == 4 else each[None] for number, each in found.items()}


def _of_stacks(stacks: Mapping[int, Tensor], item: int | None, stored_as: str) -> Handed:
    """Of every layer one item of its batch."""
    items = {len(each) for each in stacks.values()}
    if len(items) > 1:
        raise _no_form(f"batches of {listed([*map(str, sorted(items))])}")
    which = chosen(item, items.pop())
    found = {number: each[which.place].clone() for number, each in stacks.items()}
    _refuse_other_sizes(found, "layer")
    return Handed(layers=found, chosen=which, stored_as=stored_as)


def _of_steps(
    form: Sequence[Any], item: int | None, beams: Any, stored_as: str, *, across: bool
) -> Handed:
    """What generate() hands back, a tuple of layers for each step, put together to a whole."""
    steps = [_numbered([None if each is None else tensor_of(each) for each in step])
             for step in form]  # fmt: skip
    which, lines = followed(steps, item, beams)
    kept = steps[: len(lines)]
    found = {
        number: stitched([step[number][line] for step, line in zip(kept, lines, strict=True)],
                         across=across)
        for number in kept[0]
    }  # fmt: skip
    _refuse_other_sizes(found, "layer")
    prompt = next(iter(kept[0].values())).shape[-2]
    whole = prompt == next(iter(found.values())).shape[-2]
    return Handed(layers=found, chosen=which, prompt=None if whole else prompt, stored_as=stored_as)


def _refuse_other_sizes(found: Mapping[int, Tensor], what: str) -> None:
    """Of a text that gets shorter from layer to layer there is no one table."""
    sizes = {number: tuple(each.shape[-2:]) for number, each in found.items()}
    (first, size), *rest = sizes.items()
    odd = next((number for number, each in rest if each != size), None)
    if odd is not None:
        raise AttnvizError(
            f"the weights of {what} {odd} are {shape_text(sizes[odd])}, but those of {what} "
            f"{first} are {shape_text(size)}",
            f"give {what}s that read the same tokens{OF_ATTENTION if len(sizes) == 2 else ''}",
        )


def _no_form(told: str) -> AttnvizError:
    return AttnvizError(
        f"the weights are {told}, and should be [query, key], or such a matrix for each head, of "
        "each layer",
        FORMS,
    )


NAME = "weights"
BYTES = 4 + 1  # of a weight, and of whether it is seen
FORMS = "give a tensor, an array, rows of numbers, or outputs.attentions of a model"


def is_array(value: object) -> bool:
    """Whether a library made it: torch, NumPy, JAX …"""
    return isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def is_sequence(value: object) -> bool:
    """Whether it is a list, a tuple, or whatever is like one; a text is none."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def tensor_of(value: Any) -> Tensor:
    """On this machine, in float32, or float64 if it came so; nothing of a gradient."""
    try:
        found = _plain(value) if isinstance(value, Tensor) else torch.from_numpy(_numbers(value))
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        raise _no_numbers() from None
    if found.is_complex():
        raise _no_numbers()
    return found if found.dtype == torch.float64 else found.to(torch.float32)


def _no_numbers() -> AttnvizError:
    return AttnvizError("the weights cannot be read as numbers", FORMS)


def refuse_too_many(form: Any) -> None:
    """Refuse weights of which there is no room for a copy, before one is made."""
    cells = _cells(form)
    memory.refuse_more(cells * BYTES, f"a copy of {cells:,} weights")


def _cells(form: Any) -> int:
    if is_array(form):
        return prod(form.shape)
    return sum(map(_cells, form)) if is_sequence(form) else 0


def dtype_of(value: Any) -> str:
    """`bfloat16`"""
    found = getattr(value, "dtype", "float64")  # as numbers in lists are
    return str(getattr(found, "name", found)).removeprefix("torch.")


def _plain(tensor: Tensor) -> Tensor:
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    return (plain if plain.layout == torch.strided else plain.to_dense()).cpu()


def _numbers(value: Any) -> np.ndarray:
    """Of lists, whose rows may be too short; or of an array of another library."""
    if is_sequence(value):
        return array(NAME, _as_lists(value), GIVEN[NAME], "")
    found = np.asarray(value)
    if found.dtype.kind in "fc" and found.dtype.itemsize > np.dtype(np.float64).itemsize:
        return found.astype(np.float64)
    return np.array(found, copy=True) if found.dtype.kind in "f" else found.astype(np.float32)


def _as_lists(value: Any) -> Any:
    """Tuples are lists, too."""
    return [_as_lists(each) for each in value] if is_sequence(value) else value


WHICH_BEAMS = (
    "; if these are beams, give all outputs of generate(), which say how beams are reordered"
)
Steps = Sequence[Mapping[int, Float[Tensor, "item head query key"]]]


@dataclass(frozen=True)
class Chosen:
    """Which item of a batch it is, from 1, and of how many."""

    item: int = 1
    items: int = 1

    @property
    def place(self) -> int:
        return self.item - 1


def chosen(item: int | None, items: int, hint: str = "") -> Chosen:
    """The only item there is, or the one that is asked for."""
    if item is None and items > 1:
        raise AttnvizError(
            f"the weights are a batch of {items}, and only one item can be shown",
            f"give item=1 to item={items}{hint}",
            about="item",
        )
    if item is not None and not 1 <= item <= items:
        raise AttnvizError(
            f"item is {item}, but the batch has {items}",
            f"give item=1 to item={items}" if items > 1 else "leave item out",
            about="item",
        )  # fmt: skip
    return Chosen(item or 1, items)


def followed(steps: Steps, item: int | None, beams: Any) -> tuple[Chosen, list[int]]:
    """Which of a batch, and where in it that is at each step: beams change places as they go."""
    if beams is None:
        which = chosen(item, len(next(iter(steps[0].values()))), WHICH_BEAMS)
        return which, [which.place] * len(steps)
    which = chosen(item, len(beams))
    lines = [int(each) for each in beams[which.place]][: len(steps)]
    return which, [line for line in lines if line >= 0]  # below 0: it had come to its end


def stitched(parts: Sequence[Heads], *, across: bool) -> Heads:
    """A row for each token that was read, and 0 for keys that were not there yet.

    Each part has rows for the tokens that are new; without a cache, for those before, too.
    """
    if across:
        return torch.cat([*parts], dim=-2)
    done, rows = 0, []
    for step, part in enumerate(parts):
        count = part.shape[-2] - done if _starts_anew(part, done) else part.shape[-2]
        done += count
        rows.append(_on_the_left(part[:, -count:], done, step))
    found = torch.zeros(len(rows[0]), done, done, dtype=rows[0].dtype)
    first = 0
    for each in rows:
        last = first + each.shape[-2]
        found[:, first:last, :last] = each
        first = last
    return found


def _starts_anew(part: Heads, done: int) -> bool:
    """Whether it has rows for all tokens, as without a cache."""
    queries, keys = part.shape[-2:]
    return done > 0 and queries == keys and queries > done


def _on_the_left(part: Heads, done: int, step: int) -> Heads:
    """With a column for each token so far: a cache may have room for more, or for fewer."""
    keys = part.shape[-1]
    if keys < done:  # the first tokens have left a window
        return torch.nn.functional.pad(part, (done - keys, 0))
    if part[..., done:].any():
        raise AttnvizError(
            f"step {step} reads {keys} keys, but there are {done} tokens by then",
            "give keys, the tokens that are read, if these are not the ones that read",
            about="keys",
        )
    return part[..., :done]
