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
from attnviz.learning.choices import HISTORY_FILE, MAX_STEPS, Choices, refuse_missing_training
from attnviz.machine import files
from attnviz.machine.atomic_files import AllOrNothing
from attnviz.traces import structured_text
from attnviz.traces.models import folder
from attnviz.traces.models.card import SAVE_KEY, refuse_other_save
from attnviz.traces.models.model import Model
from attnviz.traces.settings import chosen_variant
from attnviz.traces.structured_text import build_checked, fits_type

STATE_FILE = "training.safetensors"
FORMAT_VERSION = 1
WEIGHTS_PREFIX = "weights."  # and the number of a layer: what was read of the watched sentence
OPTIMIZER_PREFIX = "optimizer "  # and what it keeps of which parameter: "exp_avg layers.1.w_query"
NO_ACCURACY_GOAL = None  # in a file, for an accuracy that nobody waits for
ADAM_AVERAGES, ADAM_STEP = ("exp_avg", "exp_avg_sq"), "step"  # what AdamW keeps
DIGEST_DIGITS = 32  # of a digest
MAX_TRAINING_SECONDS = 1e10  # seconds of training
MAX_LOSS = float(np.finfo(np.float32).max)  # loss
SAVED_SHARE_ROUNDING = 1e-3
DAMAGE_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError)

AnswerRecord = dict[str, int | str | float]  # the place, the word and the probability of an Answer
OptimizerState = Mapping[
    str, Mapping[str, Tensor]
]  # what an optimizer keeps of each parameter, by names


@dataclass(frozen=True, eq=False, kw_only=True)
class Progress:
    """Everything that decides how training goes on, and all that was seen of it."""

    asked: Mapping[str, str]  # where the task is from: {"task": "reverse"}
    source: str = ""  # the grammar, or the lines, of a file that was given
    watch: str
    choices: Choices
    model: Model
    optimizer: OptimizerState
    moments: tuple[Moment, ...]


@dataclass(frozen=True, kw_only=True)
class _MomentFacts:
    """What a file says of a Moment beside its weights; a number that is none is None."""

    step: int
    seconds: float
    loss: float | None
    accuracy: float
    scores: Mapping[str, list[list[float | None]]]
    answers: list[AnswerRecord] = field(default_factory=list)  # older files have none


def training_files(progress: Progress, mark: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Two files, by name; the model has its own."""
    from safetensors.torch import save

    optimizer_tensors = {
        f"{OPTIMIZER_PREFIX}{kind} {name}": tensor.detach().cpu().contiguous()
        for name, each in progress.optimizer.items()
        for kind, tensor in each.items()
    }
    layers = range(len(progress.moments[0].weights))
    weight_tensors = {
        f"{WEIGHTS_PREFIX}{layer}": _stack_weights(progress.moments, layer) for layer in layers
    }
    choices = progress.choices.in_a_file
    history_record = {
        "format": FORMAT_VERSION,
        "asked": dict(progress.asked),
        "source": progress.source,
        "watch": progress.watch,
        "choices": choices,
        "moments": [_moment_record(each) for each in progress.moments],
        **(mark or {}),
    }
    history = (json.dumps(history_record, indent=1) + "\n").encode()
    return {
        STATE_FILE: save(optimizer_tensors | weight_tensors, dict(mark or {}) or None),
        HISTORY_FILE: history,
    }


def write_progress(folder_path: Path, progress: Progress) -> None:
    """A model in a folder, with all that it takes to go on: every file of it, or none."""
    with AllOrNothing() as writer:
        for name, content in files_with_digest(progress).items():
            writer.write(folder_path / name, [content])


def files_with_digest(progress: Progress) -> dict[str, bytes]:
    """All files, each with a digest of the whole save, by which those of another are known.

    A digest and no random number: the same save is the same bytes, and files of two saves that
    have it in common are interchangeable.
    """

    def with_mark(mark: Mapping[str, str]) -> dict[str, bytes]:
        return folder.model_files(progress.model, mark) | training_files(progress, mark)

    digest = sha256(b"".join(with_mark({}).values())).hexdigest()
    return with_mark({SAVE_KEY: digest[:DIGEST_DIGITS]})


def read_progress(folder_path: Path) -> Progress:
    """How far the training had come that `attnviz learn … --save FOLDER` wrote."""
    refuse_missing_training(folder_path)
    model, save = folder.read_model_and_save(folder_path)
    hint = f"learn again, or use the model as it is: attnviz run TEXT --model {folder_path}"
    try:
        record = structured_text.parse_json_object(
            structured_text.read_text_file(folder_path / HISTORY_FILE, "trace"),
            folder_path / HISTORY_FILE,
        )
        tensors, metadata = _read_tensors(folder_path / STATE_FILE)
        for save_mark in (record.get(SAVE_KEY), metadata.get(SAVE_KEY)):
            refuse_other_save(folder_path, save, save_mark, hint)
        return _check_progress(record, tensors, model)
    except DAMAGE_ERRORS:
        raise AttnvizError(f"the training in '{folder_path}' is damaged", hint) from None


def _read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Those of a file in their own dtypes, and what it says beside them."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = files.read_content(path, "file of arrays")
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise ValueError(path) from error
    length = int.from_bytes(content[:8], "little")
    return tensors, json.loads(content[8 : 8 + length]).get("__metadata__", {})


def _check_progress(
    record: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Model
) -> Progress:
    request, source, watch = record["asked"], record.get("source", ""), record["watch"]
    texts_fit = fits_type(request, Mapping[str, str]) and fits_type(
        (source, watch), tuple[str, str]
    )
    _refuse_damaged_unless(record["format"] == FORMAT_VERSION and texts_fit)
    _refuse_damaged_unless({*request} in ({"task"}, {"file", "tokenizer"}))
    files.refuse_larger(len(source.encode()), "what is learned from", "text")
    choices_record = dict(record["choices"])
    choices_record["until"] = (
        math.inf if choices_record["until"] is NO_ACCURACY_GOAL else choices_record["until"]
    )
    try:
        choices, tokens = build_checked(Choices, choices_record), len(model.vocabulary.cut(watch))
    except AttnvizError as error:
        raise ValueError(error) from error
    facts = [build_checked(_MomentFacts, moment_record) for moment_record in record["moments"]]
    moments = _check_moments(facts, tensors, model, tokens)
    return Progress(
        asked=request,
        source=source,
        watch=watch,
        choices=choices,
        model=model,
        optimizer=_check_optimizer_state(tensors, model, moments[-1].step),
        moments=moments,
    )


def _check_optimizer_state(
    tensors: Mapping[str, Tensor], model: Model, step: int
) -> dict[str, dict[str, Tensor]]:
    """What AdamW keeps of each parameter; before the first step that is nothing."""
    states: dict[str, dict[str, Tensor]] = {name: {} for name in model.parameters}
    for name, tensor in tensors.items():
        if name.startswith(OPTIMIZER_PREFIX):
            kind, _, parameter = name.removeprefix(OPTIMIZER_PREFIX).partition(" ")
            states[parameter][kind] = tensor
    for parameter, state in states.items():
        shapes = dict.fromkeys(ADAM_AVERAGES, model.parameters[parameter].shape) | {
            ADAM_STEP: torch.Size()
        }
        _refuse_damaged_unless(
            {name: each.shape for name, each in state.items()} == (shapes if step else {})
        )
        _refuse_damaged_unless(all(_is_finite_float32(each) for each in state.values()))
        _refuse_damaged_unless(not step or state[ADAM_STEP].item() == step)
    return states


def _is_finite_float32(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and bool(tensor.isfinite().all())


def _stack_weights(moments: Sequence[Moment], layer: int) -> Tensor:
    return torch.from_numpy(np.stack([moment.weights[layer] for moment in moments]))


def _moment_record(moment: Moment) -> dict[str, Any]:
    return {
        "step": moment.step,
        "seconds": moment.seconds,
        "loss": _finite_json_number(moment.loss),
        "accuracy": moment.accuracy,
        "scores": {
            name: [[_finite_json_number(score) for score in heads] for heads in each.tolist()]
            for name, each in moment.scores.items()
        },
        "answers": [asdict(each) for each in moment.answers],
    }


def _check_moments(
    records: Sequence[_MomentFacts], tensors: Mapping[str, Tensor], model: Model, tokens: int
) -> tuple[Moment, ...]:
    """Moments whose numbers are such as training gives, each with its weights."""
    layers, heads = model.settings.layers or 1, chosen_variant(model.settings).heads
    weights_by_layer = [tensors[f"{WEIGHTS_PREFIX}{layer}"].numpy() for layer in range(layers)]
    for each in weights_by_layer:
        _refuse_damaged_unless(
            each.shape == (len(records), heads, tokens, tokens) and _are_shares(each)
        )
    moments = tuple(
        _check_moment(
            each, (layers, heads), tuple(layer[number] for layer in weights_by_layer), tokens, model
        )
        for number, each in enumerate(records)
    )
    steps = [each.step for each in moments]
    names = [{*each.scores} for each in moments]
    _refuse_damaged_unless(steps[0] == 0 and all(one < other for one, other in pairwise(steps)))
    _refuse_damaged_unless(steps[-1] <= MAX_STEPS and all(each == names[0] for each in names))
    return moments


def _check_moment(
    record: _MomentFacts,
    shape: tuple[int, int],
    weights: tuple[np.ndarray, ...],
    tokens: int,
    model: Model,
) -> Moment:
    scores = {
        name: np.array(each, dtype=np.float64)  # None becomes NaN
        for name, each in record.scores.items()
    }
    for each in scores.values():
        _refuse_damaged_unless(each.shape == shape and _are_shares(each[~np.isnan(each)]))
    answers = tuple(build_checked(Answer, each) for each in record.answers)
    for answer in answers:
        _refuse_damaged_unless(
            0 <= answer.place < tokens and answer.word in model.vocabulary.answers
        )
        _refuse_damaged_unless(0 <= answer.probability <= 1 + SAVED_SHARE_ROUNDING)
    loss = math.nan if record.loss is None else record.loss
    _refuse_damaged_unless(
        0 <= record.seconds <= MAX_TRAINING_SECONDS and 0 <= record.accuracy <= 1
    )
    _refuse_damaged_unless(math.isnan(loss) or 0 <= loss <= MAX_LOSS)
    return Moment(
        step=record.step,
        seconds=record.seconds,
        loss=loss,
        accuracy=record.accuracy,
        scores={name: each.astype(np.float32) for name, each in scores.items()},
        answers=answers,
        weights=weights,
    )


def _are_shares(numbers: np.ndarray) -> bool:
    """Whether all are from 0 to 1, as weights are, but for what rounding adds."""
    return bool(((numbers >= 0) & (numbers <= 1 + SAVED_SHARE_ROUNDING)).all())


def _refuse_damaged_unless(fits: bool) -> None:
    """Refuse what attnviz did not write."""
    if not fits:
        raise ValueError("damaged")


def _finite_json_number(number: float | None) -> float | None:
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
