"""The progress of a training: its moments, and the files from which it can continue."""

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

from attnviz.errors import AttnvizError, cmd
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
WEIGHTS_PREFIX = "weights."  # then the layer: the attention in the watched sentence
OPTIMIZER_PREFIX = "optimizer "  # then an average and a parameter: "exp_avg layers.1.w_query"
ADAM_AVERAGES, ADAM_STEP = ("exp_avg", "exp_avg_sq"), "step"
DIGEST_DIGITS = 32
MAX_TRAINING_SECONDS = 1e10
MAX_LOSS = float(np.finfo(np.float32).max)
SAVED_SHARE_ROUNDING = 1e-3
DAMAGE_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError)

OptimizerState = Mapping[str, Mapping[str, Tensor]]  # by parameter and kind


@dataclass(frozen=True, eq=False, kw_only=True)
class Progress:
    """The state of a training: everything that decides how it continues, and its moments so far."""

    asked: Mapping[str, str]  # the request for the task: {"task": "reverse"}
    source: str = ""  # the text of the user's grammar or lines
    watch: str
    choices: Choices
    model: Model
    optimizer: OptimizerState
    moments: tuple[Moment, ...]


@dataclass(frozen=True, kw_only=True)
class _MomentFacts:
    """A Moment as JSON data, without its weights and with None in place of NaN and infinity."""

    step: int
    seconds: float
    loss: float | None
    accuracy: float
    scores: Mapping[str, list[list[float | None]]]
    answers: list[dict[str, int | str | float]]


def training_files(progress: Progress, mark: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Return the contents of the training's two files by name. `mark` is added to each of them."""
    from safetensors.torch import save

    optimizer_tensors = {
        f"{OPTIMIZER_PREFIX}{kind} {name}": tensor.detach().cpu().contiguous()
        for name, state in progress.optimizer.items()
        for kind, tensor in state.items()
    }
    weights_by_layer = zip(*(moment.weights for moment in progress.moments), strict=True)
    weight_tensors = {
        f"{WEIGHTS_PREFIX}{layer}": torch.from_numpy(np.stack(weights))
        for layer, weights in enumerate(weights_by_layer)
    }
    history = {
        "format": FORMAT_VERSION,
        "asked": dict(progress.asked),
        "source": progress.source,
        "watch": progress.watch,
        "choices": progress.choices.in_a_file,
        "moments": [_moment_record(moment) for moment in progress.moments],
        **(mark or {}),
    }
    return {
        STATE_FILE: save(optimizer_tensors | weight_tensors, dict(mark or {}) or None),
        HISTORY_FILE: (json.dumps(history, indent=1) + "\n").encode(),
    }


def write_progress(folder_path: Path, progress: Progress) -> None:
    """Write the model and all that is needed to continue into a folder: either all files or
    none."""
    with AllOrNothing() as writer:
        for name, content in files_with_digest(progress).items():
            writer.write(folder_path / name, [content])


def files_with_digest(progress: Progress) -> dict[str, bytes]:
    """Return the contents of all files of a saved training by name, each marked with a digest of
    the whole. The digest shows on reading whether files of two saves were mixed. Unlike a random
    number, it gives the same bytes when the same training is saved again."""

    def with_mark(mark: Mapping[str, str]) -> dict[str, bytes]:
        return folder.model_files(progress.model, mark) | training_files(progress, mark)

    digest = sha256(b"".join(with_mark({}).values())).hexdigest()
    return with_mark({SAVE_KEY: digest[:DIGEST_DIGITS]})


def read_progress(folder_path: Path) -> Progress:
    """Return the progress that `attnviz learn … --save FOLDER` wrote.

    Refuses a folder without a training, damaged files, and files of different saves.
    """
    refuse_missing_training(folder_path)
    model, save = folder.read_model_and_save(folder_path)
    hint = f"learn again, or use the model as it is: {cmd.run:TEXT --model {folder_path}}"
    path = folder_path / HISTORY_FILE
    try:
        text = structured_text.read_text_file(path, "trace")
        record = structured_text.parse_json_object(text, path)
        tensors, metadata = _read_tensors(folder_path / STATE_FILE)
        for save_mark in (record.get(SAVE_KEY), metadata.get(SAVE_KEY)):
            refuse_other_save(folder_path, save, save_mark, hint)
        return _check_progress(record, tensors, model)
    except DAMAGE_ERRORS:
        raise AttnvizError(f"the training in '{folder_path}' is damaged", hint) from None


def _read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a safetensors file and its metadata; raise ValueError if it is
    damaged."""
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
    """Return the progress of a history (`record`, JSON data), its tensors and its model.

    Raises one of DAMAGE_ERRORS if attnviz could not have written them.
    """
    request, source, watch = record["asked"], record["source"], record["watch"]
    are_texts = fits_type((source, watch), tuple[str, str])
    _refuse_damaged_unless(fits_type(request, Mapping[str, str]) and are_texts)
    _refuse_damaged_unless(record["format"] == FORMAT_VERSION)
    _refuse_damaged_unless({*request} in ({"task"}, {"file", "tokenizer"}))
    files.refuse_larger(len(source.encode()), "what is learned from", "text")
    choices_record = dict(record["choices"])
    if choices_record["until"] is None:
        choices_record["until"] = math.inf
    try:
        choices, tokens = build_checked(Choices, choices_record), len(model.vocabulary.cut(watch))
    except AttnvizError as error:
        raise ValueError(error) from error
    facts = [build_checked(_MomentFacts, moment) for moment in record["moments"]]
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
    """Return AdamW's state for each parameter, which is empty before the first step.

    Raises ValueError or KeyError if it does not fit the model or the number of steps.
    """
    states: dict[str, dict[str, Tensor]] = {name: {} for name in model.parameters}
    for name, tensor in tensors.items():
        if name.startswith(OPTIMIZER_PREFIX):
            kind, _, parameter = name.removeprefix(OPTIMIZER_PREFIX).partition(" ")
            states[parameter][kind] = tensor
    for parameter, state in states.items():
        shapes = dict.fromkeys(ADAM_AVERAGES, model.parameters[parameter].shape)
        expected = shapes | {ADAM_STEP: torch.Size()} if step else {}
        _refuse_damaged_unless({kind: each.shape for kind, each in state.items()} == expected)
        for tensor in state.values():
            _refuse_damaged_unless(tensor.dtype == torch.float32 and bool(tensor.isfinite().all()))
        _refuse_damaged_unless(not step or state[ADAM_STEP].item() == step)
    return states


def _moment_record(moment: Moment) -> dict[str, Any]:
    return {
        "step": moment.step,
        "seconds": moment.seconds,
        "loss": _finite_json_number(moment.loss),
        "accuracy": moment.accuracy,
        "scores": {
            name: [[_finite_json_number(score) for score in heads] for heads in scores.tolist()]
            for name, scores in moment.scores.items()
        },
        "answers": [asdict(answer) for answer in moment.answers],
    }


def _check_moments(
    records: Sequence[_MomentFacts], tensors: Mapping[str, Tensor], model: Model, tokens: int
) -> tuple[Moment, ...]:
    """Return the moments with their weights, from JSON data and the tensors of the file.

    Raises ValueError or KeyError if a training of this model could not give them; `tokens` is the
    watched sentence's length.
    """
    layers, heads = model.settings.layers or 1, chosen_variant(model.settings).heads
    weights_by_layer = [tensors[f"{WEIGHTS_PREFIX}{layer}"].numpy() for layer in range(layers)]
    for weights in weights_by_layer:
        _refuse_damaged_unless(weights.shape == (len(records), heads, tokens, tokens))
        _refuse_damaged_unless(_are_shares(weights))
    moments = tuple(
        _check_moment(record, (layers, heads), weights, tokens, model)
        for record, weights in zip(records, zip(*weights_by_layer, strict=True), strict=True)
    )
    steps, names = [moment.step for moment in moments], {frozenset(each.scores) for each in moments}
    _refuse_damaged_unless(steps[0] == 0 and all(one < other for one, other in pairwise(steps)))
    _refuse_damaged_unless(steps[-1] <= MAX_STEPS and len(names) == 1)
    return moments


def _check_moment(
    record: _MomentFacts,
    shape: tuple[int, int],
    weights: tuple[np.ndarray, ...],
    tokens: int,
    model: Model,
) -> Moment:
    """Return one moment; raise ValueError if training could not give such numbers.

    `shape` has the numbers of layers and heads, and `tokens` is the watched sentence's length.
    """
    # In an array None becomes NaN.
    scores = {name: np.array(each, dtype=np.float64) for name, each in record.scores.items()}
    for each in scores.values():
        _refuse_damaged_unless(each.shape == shape and _are_shares(each[~np.isnan(each)]))
    answers = tuple(build_checked(Answer, each) for each in record.answers)
    for answer in answers:
        _refuse_damaged_unless(0 <= answer.place < tokens)
        _refuse_damaged_unless(answer.word in model.vocabulary.answers)
        _refuse_damaged_unless(0 <= answer.probability <= 1 + SAVED_SHARE_ROUNDING)
    loss = math.nan if record.loss is None else record.loss
    _refuse_damaged_unless(0 <= record.seconds <= MAX_TRAINING_SECONDS)
    _refuse_damaged_unless(0 <= record.accuracy <= 1)
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
    """Return whether all numbers are from 0 to 1, apart from rounding; False with NaN."""
    return bool(((numbers >= 0) & (numbers <= 1 + SAVED_SHARE_ROUNDING)).all())


def _refuse_damaged_unless(fits: bool) -> None:
    """Raise a ValueError, which the caller reports as damage, unless `fits`."""
    if not fits:
        raise ValueError("damaged")


def _finite_json_number(number: float | None) -> float | None:
    """Return the number, or None in place of NaN and infinity, which JSON does not have."""
    return number if number is not None and math.isfinite(number) else None


@dataclass(frozen=True)
class Answer:
    """A model's answer at a blank of the watched sentence, and its probability.

    `place` is the blank's position from 0.
    """

    place: int
    word: str
    probability: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Moment:
    """Measurements of a model after some training steps."""

    step: int
    seconds: float  # of training so far
    loss: float  # the mean since the previous moment
    accuracy: float  # on held-out sentences
    scores: Mapping[str, Float[np.ndarray, "layer head"]]  # by reading: the mean weight on it
    answers: tuple[Answer, ...]  # at the blanks of the watched sentence
    weights: tuple[Float[np.ndarray, "head query key"], ...]  # by layer, in the watched sentence
    # Of a very small model, for pages that compute it; a training that was saved has none.
    parameters: Mapping[str, Float[np.ndarray, "*shape"]] | None = field(default=None, repr=False)
