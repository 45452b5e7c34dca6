"""A model in a folder: its numbers as safetensors, of the shapes that its config implies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.traces.by_layer import name_in
from attnviz.traces.models.card import (
    AGAIN,
    FORMAT,
    SAVE,
    VOCABULARY,
    Card,
    facts_of_card,
    read_card_and_save,
    refuse_no_model,
    refuse_other_save,
)
from attnviz.traces.models.model import Model, made_of
from attnviz.traces.models.names import CONFIG
from attnviz.traces.settings import FEED_FORWARD, chosen_variant, head_width
from attnviz.vectors.arrays import AnyArray, safetensors_and_words
from attnviz.version import __version__
from attnviz.wording.words import in_brackets

NUMBERS = "model.safetensors"


def contents(model: Model, mark: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """The files of a model, by name, each with the same mark; the same model is the same bytes.

    The config is first: as soon as it is there, the folder is known as one of attnviz.
    """
    from safetensors.torch import save

    mark = dict(mark or {})
    numbers = {name: each.detach().contiguous().cpu() for name, each in model.parameters.items()}
    config = {"format": FORMAT, "attnviz": __version__, **facts_of_card(model)}
    return {
        CONFIG: _as_json(config | mark),
        VOCABULARY: _as_json(asdict(model.vocabulary) | mark),
        NUMBERS: save(numbers, mark or None),
    }


def read(folder: Path) -> Model:
    """The model that `attnviz learn … --save FOLDER` wrote."""
    return read_model_and_save(folder)[0]


def read_model_and_save(folder: Path) -> tuple[Model, object]:
    """The same, and which save it is of."""
    card, save = read_card_and_save(folder)
    path = folder / NUMBERS
    refuse_no_model(path)
    arrays, words = safetensors_and_words(path)
    refuse_other_save(folder, save, words.get(SAVE))
    return made_of(card, _numbers(arrays, card, path)), save


def _numbers(arrays: Mapping[str, AnyArray], card: Card, path: Path) -> dict[str, Tensor]:
    """Every tensor that the model's settings ask for, of the shape that they ask for."""
    dtype = torch.float64 if card.settings.dtype == "float64" else torch.float32
    found = {name: torch.from_numpy(each) for name, each in arrays.items()}
    _refuse_other_names(found, card, path)
    for name, tensor in found.items():
        _refuse_other_numbers(name, tensor, card, path)
    return {name: tensor.to(dtype) for name, tensor in found.items()}


def _refuse_other_names(found: Mapping[str, Tensor], card: Card, path: Path) -> None:
    known = wanted(card)
    missing = [name for name in known.needed if name not in found]
    others = [name for name in found if name not in known.needed | known.allowed]
    if missing:
        raise AttnvizError(
            f"'{path}' has no '{missing[0]}', which the settings in {CONFIG} require", AGAIN
        )
    if others:
        raise AttnvizError(
            f"'{path}' has a '{others[0]}', which the settings in {CONFIG} do not use", AGAIN
        )


def _refuse_other_numbers(name: str, tensor: Tensor, card: Card, path: Path) -> None:
    known = wanted(card)
    shape = (known.needed | known.allowed)[name]
    if tuple(tensor.shape) != shape:
        raise AttnvizError(
            f"'{name}' in '{path}' is {in_brackets(*tensor.shape)}, but {CONFIG} and {VOCABULARY} "
            f"require {in_brackets(*shape)}",
            AGAIN,
        )
    if tensor.dtype == torch.bool or not tensor.isfinite().all():
        raise AttnvizError(f"'{name}' in '{path}' has a number that is not finite", AGAIN)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Wanted:
    """The shapes of tensors by their names: of those that must be there, and of those that may."""

    needed: Shapes
    allowed: Shapes


def wanted(card: Card) -> Wanted:
    """What a model must hold to do what its settings say."""
    dim, answers = card.settings.width, len(card.vocabulary.answers)
    needed: Shapes = {"embeddings": (len(card.vocabulary.words), dim)}
    allowed: Shapes = {}
    if card.settings.positions == "learned":
        needed["positions"] = (card.longest or 0, dim)
    for number in range(card.settings.layers or 1):
        of_layer = _of_layer(card)
        needed |= _named(number, of_layer.needed)
        allowed |= _named(number, of_layer.allowed)
    if answers:
        needed["w_answers"] = (dim, answers)
        allowed |= {"b_answers": (answers,)}
    if answers and card.settings.norm == "pre":
        needed |= {"last_gain": (dim,), "last_shift": (dim,)}
    return Wanted(needed, allowed)


def _named(number: int, shapes: Shapes) -> Shapes:
    """The names that a file has for them in this layer."""
    return {name_in(number, name) if number else name: shape for name, shape in shapes.items()}


def _of_layer(card: Card) -> Wanted:
    attention, block = _of_attention(card), _of_block(card)
    return Wanted(attention.needed | block, attention.allowed)


def _of_attention(card: Card) -> Wanted:
    settings, variant, dim = card.settings, chosen_variant(card.settings), card.settings.width
    width = head_width(settings, variant, dim)
    queries, keys = variant.heads * width, (variant.kv_heads or variant.heads) * width
    last: Shapes = {"w_out": (queries, dim)}
    if not variant.projected:
        return Wanted(last if variant.joined else {}, {} if variant.joined else last)
    made = {"query": queries, "key": keys, "value": keys}
    needed: Shapes = {f"w_{name}": (dim, out) for name, out in made.items()}
    allowed: Shapes = {"b_out": (dim,)}
    allowed.update((f"b_{name}", (out,)) for name, out in made.items())
    if variant.additive:
        needed["w_score"] = (queries,)
    return Wanted(needed | last, allowed) if variant.joined else Wanted(needed, allowed | last)


def _of_block(card: Card) -> Shapes:
    """Of feed-forward, and of the norms around it and around attention."""
    settings, dim = card.settings, card.settings.width
    found: Shapes = {}
    if settings.feeds:
        wide = settings.feed_forward or FEED_FORWARD * dim
        found |= {"w_1": (dim, wide), "b_1": (wide,), "w_2": (wide, dim), "b_2": (dim,)}
    parts = ("attention", "feed_forward") if settings.feeds else ("attention",)
    normed = parts if settings.blocks and settings.norm != "none" else ()
    return found | {f"{part}_{name}": (dim,) for part in normed for name in ("gain", "shift")}
