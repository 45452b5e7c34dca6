"""A model in a folder: reads and writes its tensors, whose shapes follow from its config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.traces.matrix_names import layer_key
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
from attnviz.traces.models.model_names import CONFIG_FILE
from attnviz.traces.settings import chosen_variant, head_width
from attnviz.vectors.arrays import AnyArray, read_tensors_and_metadata
from attnviz.version import __version__
from attnviz.wording.words import bracketed_shape

TENSORS_FILE = "model.safetensors"
ShapesByName = dict[str, tuple[int, ...]]


def model_files(model: Model, save_mark: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Return the contents of a model's files by file name; equal models give equal bytes.

    `save_mark`, such as {"save": "4f1c"}, is written into each of them. The config comes first, as
    it is what makes the folder one of attnviz.
    """
    from safetensors.torch import save

    mark = dict(save_mark or {})
    tensors = {name: item.detach().contiguous().cpu() for name, item in model.parameters.items()}
    config = {"format": MODEL_FORMAT_VERSION, "attnviz": __version__, **facts_of_card(model)}
    return {
        CONFIG_FILE: _as_json(config | mark),
        VOCABULARY_FILE: _as_json(asdict(model.vocabulary) | mark),
        TENSORS_FILE: save(tensors, mark or None),
    }


def read_learned_model(folder: Path) -> Model:
    """Return the model that `attnviz learn … --save FOLDER` wrote.

    Refuses what `read_model_and_save` refuses.
    """
    return read_model_and_save(folder)[0]


def read_model_and_save(folder: Path) -> tuple[Model, object]:
    """Return a model, and the mark that all files of one save share (None without a mark).

    Refuses missing files, files of different saves, and tensors that do not fit the config.
    """
    card, save = read_card_and_save(folder)
    path = folder / TENSORS_FILE
    refuse_missing_model_file(path)
    arrays, words = read_tensors_and_metadata(path)
    refuse_other_save(folder, save, words.get(SAVE_KEY))
    return build_model(card, _check_tensors(arrays, card, path)), save


def _check_tensors(arrays: Mapping[str, AnyArray], card: Card, path: Path) -> dict[str, Tensor]:
    """Return a file's arrays as tensors of float32, or of float64 if the card's settings say so.

    Refuses missing and unexpected names, shapes that do not fit the card, and numbers that are not
    finite.
    """
    dtype = torch.float64 if card.settings.dtype == "float64" else torch.float32
    tensors, shapes = {name: torch.from_numpy(arrays[name]) for name in arrays}, model_shapes(card)
    known_shapes = shapes.required | shapes.optional
    missing = [name for name in shapes.required if name not in tensors]
    unexpected = [name for name in tensors if name not in known_shapes]
    settings = f"which the settings in {CONFIG_FILE}"
    if missing:
        raise AttnvizError(f"'{path}' has no '{missing[0]}', {settings} require", SAVE_AGAIN_HINT)
    if unexpected:
        problem = f"'{path}' has a '{unexpected[0]}', {settings} do not use"
        raise AttnvizError(problem, SAVE_AGAIN_HINT)
    for name, tensor in tensors.items():
        _refuse_odd_tensor(f"'{name}' in '{path}'", tensor, known_shapes[name])
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def _refuse_odd_tensor(title: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of another shape, one of booleans, and numbers that are not finite."""
    if tuple(tensor.shape) != shape:
        raise AttnvizError(
            f"{title} is {bracketed_shape(*tensor.shape)}, but {CONFIG_FILE} and {VOCABULARY_FILE} "
            f"require {bracketed_shape(*shape)}",
            SAVE_AGAIN_HINT,
        )
    if tensor.dtype == torch.bool or not tensor.isfinite().all():
        raise AttnvizError(f"{title} has a number that is not finite", SAVE_AGAIN_HINT)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


@dataclass(frozen=True)
class ModelShapes:
    """The shapes of a model's tensors by name: of those it must have, and of those it may have."""

    required: ShapesByName
    optional: ShapesByName


def model_shapes(card: Card) -> ModelShapes:
    """Return the shapes of a model's required and optional tensors, which follow from its card."""
    dim, answers = card.settings.width, len(card.vocabulary.answers)
    required: ShapesByName = {"embeddings": (len(card.vocabulary.words), dim)}
    optional: ShapesByName = {}
    if card.settings.positions == "learned":
        required["positions"] = (card.longest or 0, dim)
    attention, block = _attention_shapes(card), _block_shapes(card)
    for number in range(card.settings.layers or 1):
        required |= _shapes_in_layer(number, attention.required | block)
        optional |= _shapes_in_layer(number, attention.optional)
    if answers:
        required["w_answers"] = (dim, answers)
        optional |= {"b_answers": (answers,)}
    if answers and card.settings.norm == "pre":
        required |= {"last_gain": (dim,), "last_shift": (dim,)}
    return ModelShapes(required, optional)


def _shapes_in_layer(number: int, shapes: ShapesByName) -> ShapesByName:
    """Return the shapes by their names in a file: 'layers.1.w_query', but 'w_query' in layer 0."""
    return {layer_key(number, name) if number else name: shape for name, shape in shapes.items()}


def _attention_shapes(card: Card) -> ModelShapes:
    """Return the shapes of one layer's projections.

    Biases are optional, and W_out unless heads join.
    """
    settings, variant, dim = card.settings, chosen_variant(card.settings), card.settings.width
    width = head_width(settings, variant, dim)
    queries, keys = variant.heads * width, (variant.kv_heads or variant.heads) * width
    required: ShapesByName = {}
    optional: ShapesByName = {}
    if variant.projected:
        widths = {"query": queries, "key": keys, "value": keys}
        required = {f"w_{name}": (dim, out) for name, out in widths.items()}
        optional = {"b_out": (dim,), **{f"b_{name}": (out,) for name, out in widths.items()}}
        if variant.additive:
            required["w_score"] = (queries,)
    (required if variant.joined else optional)["w_out"] = (queries, dim)
    return ModelShapes(required, optional)


def _block_shapes(card: Card) -> ShapesByName:
    """Return the shapes of one layer's feed-forward and norms; {} for attention without either."""
    settings, dim = card.settings, card.settings.width
    shapes: ShapesByName = {}
    if settings.has_feed_forward:
        hidden = settings.hidden_width
        shapes |= {"w_1": (dim, hidden), "b_1": (hidden,), "w_2": (hidden, dim), "b_2": (dim,)}
    if settings.has_blocks and settings.norm != "none":
        for sublayer in (
            ("attention", "feed_forward") if settings.has_feed_forward else ("attention",)
        ):
            shapes |= {f"{sublayer}_gain": (dim,), f"{sublayer}_shift": (dim,)}
    return shapes
