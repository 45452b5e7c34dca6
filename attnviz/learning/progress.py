"""The progress of a training: its moments, and what is written so that it can continue."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.learning.choices import HISTORY, MOST_STEPS, Choices, refuse_missing
from attnviz.machine import files
from attnviz.machine.writing import AllOrNothing
from attnviz.traces import texts
from attnviz.traces.models import folder
from attnviz.traces.models.card import SAVE, refuse_other_save
from attnviz.traces.models.model import Model
from attnviz.traces.settings import chosen_variant
from attnviz.traces.texts import fits, of_their_types

STATE = "training.safetensors"
FORMAT = 1
WEIGHTS = "weights."  # and the number of a layer: what was read of the watched sentence
REST = "optimizer "  # and what it keeps of which parameter: "exp_avg layers.1.w_query"
NEVER = None  # in a file, for an accuracy that nobody waits for
AVERAGES, STEP = ("exp_avg", "exp_avg_sq"), "step"  # what AdamW keeps
DIGITS = 32  # of a digest
LONGEST = 1e10  # seconds of training
HIGHEST = float(np.finfo(np.float32).max)  # loss
ROUNDING = 1e-3
ODD = (KeyError, TypeError, ValueError, IndexError, AttributeError)

Answered = dict[str, int | str | float]  # the place, the word and the probability of an Answer
Kept = Mapping[str, Mapping[str, Tensor]]  # what an optimizer keeps of each parameter, by names


@dataclass(frozen=True, eq=False, kw_only=True)
class Progress:
    """Everything that decides how training goes on, and all that was seen of it."""

    asked: Mapping[str, str]  # where the task is from: {"task": "reverse"}
    source: str = ""  # the grammar, or the lines, of a file that was given
    watch: str
    choices: Choices
    model: Model
    optimizer: Kept
    moments: tuple[Moment, ...]


@dataclass(frozen=True, kw_only=True)
class _MomentFacts:
    """What a file says of a Moment beside its weights; a number that is none is None."""

    step: int
    seconds: float
    loss: float | None
    accuracy: float
    scores: Mapping[str, list[list[float | None]]]
    answers: list[Answered] = field(default_factory=list)  # older files have none


def contents(progress: Progress, mark: Mapping[str, str] | None = None) -> dict[str, bytes]:
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
        "source": progress.source,
        "watch": progress.watch,
        "choices": choices,
        "moments": [_told(each) for each in progress.moments],
        **(mark or {}),
    }
    history = (json.dumps(told, indent=1) + "\n").encode()
    return {STATE: save(kept | seen, dict(mark or {}) or None), HISTORY: history}


def write(place: Path, progress: Progress) -> None:
    """A model in a folder, with all that it takes to go on: every file of it, or none."""
    with AllOrNothing() as written:
        for name, content in marked(progress).items():
            written.write(place / name, [content])


def marked(progress: Progress) -> dict[str, bytes]:
    """All files, each with a digest of the whole save, by which those of another are known.

    A digest and no random number: the same save is the same bytes, and files of two saves that
    have it in common are interchangeable.
    """

    def with_mark(mark: Mapping[str, str]) -> dict[str, bytes]:
        return folder.contents(progress.model, mark) | contents(progress, mark)

    digest = sha256(b"".join(with_mark({}).values())).hexdigest()
    return with_mark({SAVE: digest[:DIGITS]})


def read(place: Path) -> Progress:
    """How far the training had come that `attnviz learn … --save FOLDER` wrote."""
    refuse_missing(place)
    model, save = folder.read_model_and_save(place)
    otherwise = f"learn again, or use the model as it is: attnviz run TEXT --model {place}"
    try:
        told = texts.json_object(texts.read(place / HISTORY, "trace"), place / HISTORY)
        tensors, words = _tensors(place / STATE)
        for each in (told.get(SAVE), words.get(SAVE)):
            refuse_other_save(place, save, each, otherwise)
        return _progress(told, tensors, model)
    except ODD:
        raise AttnvizError(f"the training in '{place}' is damaged", otherwise) from None


def _tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Those of a file in their own dtypes, and what it says beside them."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = files.read(path, "file of arrays")
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise ValueError(path) from error
    length = int.from_bytes(content[:8], "little")
    return tensors, json.loads(content[8 : 8 + length]).get("__metadata__", {})


def _progress(told: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Model) -> Progress:
    asked, source, watch = told["asked"], told.get("source", ""), told["watch"]
    texts_fit = fits(asked, Mapping[str, str]) and fits((source, watch), tuple[str, str])
    _refuse_unless(told["format"] == FORMAT and texts_fit)
    _refuse_unless({*asked} in ({"task"}, {"file", "tokenizer"}))
    files.refuse_larger(len(source.encode()), "what is learned from", "text")
    chosen = dict(told["choices"])
    chosen["until"] = math.inf if chosen["until"] is NEVER else chosen["until"]
    try:
        choices, tokens = of_their_types(Choices, chosen), len(model.vocabulary.cut(watch))
    except AttnvizError as error:
        raise ValueError(error) from error
    facts = [of_their_types(_MomentFacts, each) for each in told["moments"]]
    moments = _moments(facts, tensors, model, tokens)
    return Progress(
        asked=asked,
        source=source,
        watch=watch,
        choices=choices,
        model=model,
        optimizer=_of_parameters(tensors, model, moments[-1].step),
        moments=moments,
    )


def _of_parameters(
    tensors: Mapping[str, Tensor], model: Model, step: int
) -> dict[str, dict[str, Tensor]]:
    """What AdamW keeps of each parameter; before the first step that is nothing."""
    found: dict[str, dict[str, Tensor]] = {name: {} for name in model.parameters}
    for name, tensor in tensors.items():
        if name.startswith(REST):
            kind, _, parameter = name.removeprefix(REST).partition(" ")
            found[parameter][kind] = tensor
    for parameter, kept in found.items():
        shapes = dict.fromkeys(AVERAGES, model.parameters[parameter].shape) | {STEP: torch.Size()}
        _refuse_unless(
            {name: each.shape for name, each in kept.items()} == (shapes if step else {})
        )
        _refuse_unless(all(_is_finite(each) for each in kept.values()))
        _refuse_unless(not step or kept[STEP].item() == step)
    return found


def _is_finite(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and bool(tensor.isfinite().all())


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
        "answers": [asdict(each) for each in moment.answers],
    }


def _moments(
    told: Sequence[_MomentFacts], tensors: Mapping[str, Tensor], model: Model, tokens: int
) -> tuple[Moment, ...]:
    """Moments whose numbers are such as training gives, each with its weights."""
    layers, heads = model.settings.layers or 1, chosen_variant(model.settings).heads
    seen = [tensors[f"{WEIGHTS}{layer}"].numpy() for layer in range(layers)]
    for each in seen:
        _refuse_unless(each.shape == (len(told), heads, tokens, tokens) and _are_shares(each))
    moments = tuple(
        _moment(each, (layers, heads), tuple(layer[number] for layer in seen), tokens, model)
        for number, each in enumerate(told)
    )
    steps = [each.step for each in moments]
    names = [{*each.scores} for each in moments]
    _refuse_unless(steps[0] == 0 and all(one < other for one, other in pairwise(steps)))
    _refuse_unless(steps[-1] <= MOST_STEPS and all(each == names[0] for each in names))
    return moments


def _moment(
    told: _MomentFacts,
    shape: tuple[int, int],
    weights: tuple[np.ndarray, ...],
    tokens: int,
    model: Model,
) -> Moment:
    scores = {
        name: np.array(each, dtype=np.float64)  # None becomes NaN
        for name, each in told.scores.items()
    }
    for each in scores.values():
        _refuse_unless(each.shape == shape and _are_shares(each[~np.isnan(each)]))
    answers = tuple(of_their_types(Answer, each) for each in told.answers)
    for answer in answers:
        _refuse_unless(0 <= answer.place < tokens and answer.word in model.vocabulary.answers)
        _refuse_unless(0 <= answer.probability <= 1 + ROUNDING)
    loss = math.nan if told.loss is None else told.loss
    _refuse_unless(0 <= told.seconds <= LONGEST and 0 <= told.accuracy <= 1)
    _refuse_unless(math.isnan(loss) or 0 <= loss <= HIGHEST)
    return Moment(
        step=told.step,
        seconds=told.seconds,
        loss=loss,
        accuracy=told.accuracy,
        scores={name: each.astype(np.float32) for name, each in scores.items()},
        answers=answers,
        weights=weights,
    )


def _are_shares(numbers: np.ndarray) -> bool:
    """Whether all are from 0 to 1, as weights are, but for what rounding adds."""
    return bool(((numbers >= 0) & (numbers <= 1 + ROUNDING)).all())


def _refuse_unless(fits: bool) -> None:
    """Refuse what attnviz did not write."""
    if not fits:
        raise ValueError("damaged")


def _finite(number: float | None) -> float | None:
    """What JSON has a number for."""
    return number if number is not None and math.isfinite(number) else None


@dataclass(frozen=True)
class Answer:
    """What a model answers at a blank of a sentence, and how likely that is to it."""

    place: int
    word: str
    probability: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Moment:
    """What can be seen of a model after so many steps."""

    step: int
    seconds: float  # of training, up to now; not for files, which are the same every time
    loss: float  # the mean since the moment before
    accuracy: float  # on sentences that are held out
    scores: Mapping[str, Float[np.ndarray, "layer head"]]  # of each reading: the mean weight on it
    answers: tuple[Answer, ...]  # at the blanks of the sentence that is watched
    weights: tuple[Float[np.ndarray, "head query key"], ...]  # of each layer, of what is watched
