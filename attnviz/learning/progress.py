"""How far training has come: what is written beside a model, so that it can go on learning."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.learning.choices import Choices
from attnviz.learning.moment import Moment
from attnviz.learning.place import HISTORY, refuse_missing
from attnviz.machine import files
from attnviz.machine.writing import AllOrNothing
from attnviz.traces import texts
from attnviz.traces.facts import of_their_types
from attnviz.traces.models import folder
from attnviz.traces.models.model import Model

STATE = "training.safetensors"
FORMAT = 1
WEIGHTS = "weights."  # and the number of a layer: what was read of the watched sentence
REST = "optimizer "  # and what it keeps of which parameter: "exp_avg layers.1.w_query"
NEVER = None  # in a file, for an accuracy that nobody waits for

Kept = Mapping[str, Mapping[str, Tensor]]  # what an optimizer keeps of each parameter, by names


@dataclass(frozen=True, eq=False, kw_only=True)
class Progress:
    """Everything that decides how training goes on, and all that was seen of it."""

    asked: Mapping[str, str]  # where the task is from: {"task": "reverse"}
    watch: str
    choices: Choices
    model: Model
    optimizer: Kept
    moments: tuple[Moment, ...]


def contents(progress: Progress) -> dict[str, bytes]:
    """Two files, by name; the model has its own."""
    from safetensors.torch import save

    kept = {
        f"{REST}{kind} {name}": tensor.detach().cpu().contiguous()
        for name, each in progress.optimizer.items()
        for kind, tensor in each.items()
    }
    layers = range(len(progress.moments[0].weights))
    seen = {f"{WEIGHTS}{layer}": _stacked(progress.moments, layer) for layer in layers}
    choices = progress.choices.in_a_file
    told = {
        "format": FORMAT,
        "asked": dict(progress.asked),
        "watch": progress.watch,
        "choices": choices,
        "moments": [_told(each) for each in progress.moments],
    }
    return {STATE: save(kept | seen), HISTORY: (json.dumps(told, indent=1) + "\n").encode()}


def write(place: Path, progress: Progress) -> None:
    """A model in a folder, with all that it takes to go on: every file of it, or none."""
    with AllOrNothing() as written:
        for name, content in (folder.contents(progress.model) | contents(progress)).items():
            written.write(place / name, [content])


def read(place: Path) -> Progress:
    """How far the training had come that `attnviz learn … --save FOLDER` wrote."""
    refuse_missing(place)
    model = folder.read(place)
    try:
        told = texts.json_object(texts.read(place / HISTORY, "trace"), place / HISTORY)
        return _progress(told, _tensors(place / STATE), model)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise AttnvizError(
            f"the training in '{place}' is damaged",
            f"learn again, or take the model as it is: attnviz run TEXT --model {place}",
        ) from None


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(files.read(path, "file of arrays"))
    except SafetensorError as error:
        raise ValueError(path) from error


def _progress(told: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Model) -> Progress:
    if told["format"] != FORMAT:
        raise ValueError(told["format"])
    chosen = dict(told["choices"])
    chosen["until"] = math.inf if chosen["until"] is NEVER else chosen["until"]
    seen = [tensors[f"{WEIGHTS}{layer}"].numpy() for layer in range(model.settings.layers or 1)]
    moments = tuple(
        _moment(each, tuple(layer[number] for layer in seen))
        for number, each in enumerate(told["moments"])
    )
    return Progress(
        asked={name: str(each) for name, each in told["asked"].items()},
        watch=str(told["watch"]),
        choices=of_their_types(Choices, chosen),
        model=model,
        optimizer=_of_parameters(tensors, model),
        moments=(moments[0], *moments[1:]),
    )


def _of_parameters(tensors: Mapping[str, Tensor], model: Model) -> dict[str, dict[str, Tensor]]:
    found: dict[str, dict[str, Tensor]] = {name: {} for name in model.parameters}
    for name, tensor in tensors.items():
        if name.startswith(REST):
            kind, _, parameter = name.removeprefix(REST).partition(" ")
            found[parameter][kind] = tensor
            if tensor.ndim and tensor.shape != model.parameters[parameter].shape:
                raise ValueError(name)
    return found


def _stacked(moments: Sequence[Moment], layer: int) -> Tensor:
    return torch.from_numpy(np.stack([each.weights[layer] for each in moments]))


def _told(moment: Moment) -> dict[str, Any]:
    return {
        "step": moment.step,
        "seconds": moment.seconds,
        "loss": _finite(moment.loss),
        "accuracy": moment.accuracy,
        "scores": {
            name: [[_finite(score) for score in heads] for heads in each.tolist()]
            for name, each in moment.scores.items()
        },
    }


def _moment(told: Mapping[str, Any], weights: tuple[np.ndarray, ...]) -> Moment:
    scores = {
        name: np.array(each, dtype=np.float32)  # None becomes NaN
        for name, each in told["scores"].items()
    }
    facts = {name: told[name] for name in ("step", "seconds", "loss", "accuracy")}
    facts["loss"] = math.nan if facts["loss"] is None else facts["loss"]
    return Moment(**facts, scores=scores, weights=weights)


def _finite(number: float | None) -> float | None:
    """What JSON has a number for."""
    return number if number is not None and math.isfinite(number) else None
