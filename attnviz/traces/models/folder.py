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
from attnviz.traces.layer_names import layer_key
from attnviz.traces.models.card import (
    MODEL_FORMAT_VERSION,
    SAVE_AGAIN_HINT,
    SAVE_KEY,
    VOCABULARY_FILE,
    Card,
    facts_of_card,
    read_card_and_save,
    refuse_missing_model_file,
    refuse_other_save,
)
from attnviz.traces.models.model import Model, build_model
from attnviz.traces.models.names import CONFIG_FILE
from attnviz.traces.settings import FEED_FORWARD_FACTOR, chosen_variant, head_width
from attnviz.vectors.arrays import AnyArray, read_tensors_and_metadata
from attnviz.version import __version__
from attnviz.wording.words import bracketed_shape

TENSORS_FILE = "model.safetensors"


def model_files(model: Model, save_mark: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """The files of a model, by name, each with the same mark; the same model is the same bytes.

    The config is first: as soon as it is there, the folder is known as one of attnviz.
    """
    from safetensors.torch import save

    save_mark = dict(save_mark or {})
    numbers = {
        name: tensor.detach().contiguous().cpu() for name, tensor in model.parameters.items()
    }
    config = {"format": MODEL_FORMAT_VERSION, "attnviz": __version__, **facts_of_card(model)}
    return {
        CONFIG_FILE: _as_json(config | save_mark),
        VOCABULARY_FILE: _as_json(asdict(model.vocabulary) | save_mark),
        TENSORS_FILE: save(numbers, save_mark or None),
    }


def read_learned_model(folder: Path) -> Model:
    """The model that `attnviz learn … --save FOLDER` wrote."""
    return read_model_and_save(folder)[0]


def read_model_and_save(folder: Path) -> tuple[Model, object]:
    """The same, and which save it is of."""
    card, save = read_card_and_save(folder)
    path = folder / TENSORS_FILE
    refuse_missing_model_file(path)
    arrays, words = read_tensors_and_metadata(path)
    refuse_other_save(folder, save, words.get(SAVE_KEY))
    return build_model(card, _check_tensors(arrays, card, path)), save


def _check_tensors(arrays: Mapping[str, AnyArray], card: Card, path: Path) -> dict[str, Tensor]:
    """Every tensor that the model's settings ask for, of the shape that they ask for."""
    dtype = torch.float64 if card.settings.dtype == "float64" else torch.float32
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    _refuse_other_tensor_names(tensors, card, path)
    for name, tensor in tensors.items():
        _refuse_odd_tensor(name, tensor, card, path)
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def _refuse_other_tensor_names(tensors: Mapping[str, Tensor], card: Card, path: Path) -> None:
    shapes = model_shapes(card)
    missing = [name for name in shapes.required if name not in tensors]
    unexpected = [name for name in tensors if name not in shapes.required | shapes.optional]
    if missing:
        raise AttnvizError(
            f"'{path}' has no '{missing[0]}', which the settings in {CONFIG_FILE} require",
            SAVE_AGAIN_HINT,
        )
    if unexpected:
        raise AttnvizError(
            f"'{path}' has a '{unexpected[0]}', which the settings in {CONFIG_FILE} do not use",
            SAVE_AGAIN_HINT,
        )


def _refuse_odd_tensor(name: str, tensor: Tensor, card: Card, path: Path) -> None:
    shapes = model_shapes(card)
    shape = (shapes.required | shapes.optional)[name]
    if tuple(tensor.shape) != shape:
        raise AttnvizError(
            f"'{name}' in '{path}' is {bracketed_shape(*tensor.shape)}, but {CONFIG_FILE} and {VOCABULARY_FILE} "
            f"require {bracketed_shape(*shape)}",
            SAVE_AGAIN_HINT,
        )
    if tensor.dtype == torch.bool or not tensor.isfinite().all():
        raise AttnvizError(f"'{name}' in '{path}' has a number that is not finite", SAVE_AGAIN_HINT)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


ShapesByName = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class ModelShapes:
    """The shapes of tensors by their names: of those that must be there, and of those that may."""

    required: ShapesByName
    optional: ShapesByName


def model_shapes(card: Card) -> ModelShapes:
    """What a model must hold to do what its settings say."""
    dim, answers = card.settings.width, len(card.vocabulary.answers)
    required: ShapesByName = {"embeddings": (len(card.vocabulary.words), dim)}
    optional: ShapesByName = {}
    if card.settings.positions == "learned":
        required["positions"] = (card.longest or 0, dim)
    for number in range(card.settings.layers or 1):
        layer_shapes = _layer_shapes(card)
        required |= _shapes_in_layer(number, layer_shapes.required)
        optional |= _shapes_in_layer(number, layer_shapes.optional)
    if answers:
        required["w_answers"] = (dim, answers)
        optional |= {"b_answers": (answers,)}
    if answers and card.settings.norm == "pre":
        required |= {"last_gain": (dim,), "last_shift": (dim,)}
    return ModelShapes(required, optional)


def _shapes_in_layer(number: int, shapes: ShapesByName) -> ShapesByName:
    """The names that a file has for them in this layer."""
    return {layer_key(number, name) if number else name: shape for name, shape in shapes.items()}


def _layer_shapes(card: Card) -> ModelShapes:
    attention, block = _attention_shapes(card), _block_shapes(card)
    return ModelShapes(attention.required | block, attention.optional)


def _attention_shapes(card: Card) -> ModelShapes:
    settings, variant, dim = card.settings, chosen_variant(card.settings), card.settings.width
    width = head_width(settings, variant, dim)
    queries, keys = variant.heads * width, (variant.kv_heads or variant.heads) * width
    out_shapes: ShapesByName = {"w_out": (queries, dim)}
    if not variant.projected:
        return ModelShapes(
            out_shapes if variant.joined else {}, {} if variant.joined else out_shapes
        )
    output_widths = {"query": queries, "key": keys, "value": keys}
    required: ShapesByName = {f"w_{name}": (dim, out) for name, out in output_widths.items()}
    optional: ShapesByName = {"b_out": (dim,)}
    optional.update((f"b_{name}", (out,)) for name, out in output_widths.items())
    if variant.additive:
        required["w_score"] = (queries,)
    return (
        ModelShapes(required | out_shapes, optional)
        if variant.joined
        else ModelShapes(required, optional | out_shapes)
    )


def _block_shapes(card: Card) -> ShapesByName:
    """Of feed-forward, and of the norms around it and around attention."""
    settings, dim = card.settings, card.settings.width
    shapes: ShapesByName = {}
    if settings.feeds:
        hidden_width = settings.feed_forward or FEED_FORWARD_FACTOR * dim
        shapes |= {
            "w_1": (dim, hidden_width),
            "b_1": (hidden_width,),
            "w_2": (hidden_width, dim),
            "b_2": (dim,),
        }
    sublayers = ("attention", "feed_forward") if settings.feeds else ("attention",)
    normed_sublayers = sublayers if settings.blocks and settings.norm != "none" else ()
    return shapes | {
        f"{sublayer}_{name}": (dim,) for sublayer in normed_sublayers for name in ("gain", "shift")
    }
