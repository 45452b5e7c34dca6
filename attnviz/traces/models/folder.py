"""A model in a folder: its numbers as safetensors, what is chosen and its words as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.traces.models.card import Card
from attnviz.traces.models.config import (
    AGAIN,
    FORMAT,
    SAVE,
    VOCABULARY,
    facts_of_card,
    read_card_and_save,
    refuse_no_model,
    refuse_other_save,
)
from attnviz.traces.models.model import Model, made_of
from attnviz.traces.models.names import CONFIG
from attnviz.traces.models.shapes import wanted
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
