"""The layers of weights that are handed over: of each [head, query, key], whatever it came as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError, mention
from attnviz.traces.handed.numbers import (
    FORMS,
    dtype_of,
    is_array,
    is_sequence,
    refuse_too_many,
    tensor_of,
)
from attnviz.traces.handed.steps import Chosen, chosen, followed, stitched
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
