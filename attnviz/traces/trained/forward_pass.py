"""Forward passes of a model: with captured attention, and with errors in two lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.attention.variants import AblationValue
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.settings import AttentionKind, HeadId
from attnviz.traces.trained.capture import (
    CannotCapture,
    CapturedAttention,
    Listener,
    capturing_attention,
)
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.prediction import AnswerPositions, PassResult, capturing_result
from attnviz.traces.trained.refusals import shorten_message
from attnviz.wording.words import and_list, counted

TokenIds = tuple[int, ...]
DTYPE_ERRORS = re.compile("dtype|scalar ?type|float|double|half|not implemented for", re.IGNORECASE)
PROBE_TOKENS = 32  # the first tokens, on which captured and eager attention are compared


@dataclass(frozen=True)
class ModelInput:
    """The token ids that a model reads; `decoder_ids` are those of an encoder–decoder's decoder."""

    which: AttentionKind
    ids: TokenIds
    decoder_ids: TokenIds = ()

    @property
    def probe(self) -> ModelInput:
        """The first `PROBE_TOKENS` tokens of the input."""
        return replace(
            self, ids=self.ids[:PROBE_TOKENS], decoder_ids=self.decoder_ids[:PROBE_TOKENS]
        )


@dataclass(frozen=True, eq=False)
class CapturedPass:
    """The attention that was captured during a forward pass, and the pass's result."""

    captured: tuple[CapturedAttention, ...]
    layer_numbers: tuple[int, ...]  # of all layers that attend, captured or not
    result: PassResult
    off: Mapping[HeadId, AblationValue] = field(default_factory=dict)


def capture_pass(
    model: LoadedTransformer,
    model_input: ModelInput,
    *,
    layers: Collection[int] | None = None,
    off: Mapping[HeadId, AblationValue] | None = None,
    answer_positions: AnswerPositions | None = None,
) -> CapturedPass | None:
    """Runs the model with its attention captured; None if no layer can be captured."""
    listener = Listener(which=model_input.which, layers=layers, off=off or {})
    try:
        with capturing_attention(model.model, listener):
            result, _ = run_model(model, model_input, answer_positions)
    except CannotCapture:
        return None
    if not listener.layer_numbers:
        return None
    return CapturedPass(tuple(listener.captured), tuple(listener.layer_numbers), result, off or {})


def run_model(
    model: LoadedTransformer,
    model_input: ModelInput,
    answer_positions: AnswerPositions | None = None,
    **keywords: Any,
) -> tuple[PassResult, Any]:
    """Returns a pass's result and the model's raw outputs; logits only with `answer_positions`."""
    part = model_part(model, model_input.which, answers=answer_positions is not None)
    with (
        reporting_run_errors(model, model_input),
        capturing_result(model, answer_positions, model_input.which) as result,
    ):
        return result, part(**model_tensors(model, model_input), **keywords)


def model_tensors(model: LoadedTransformer, model_input: ModelInput) -> dict[str, Tensor]:
    """Returns the token ids as keyword arguments of the model: batches of one text."""
    ids_by_name = {"input_ids": model_input.ids}
    if model_input.which != "self":
        ids_by_name["decoder_input_ids"] = model_input.decoder_ids
    device = model.model.device
    return {name: torch.tensor([ids], device=device) for name, ids in ids_by_name.items()}


def model_part(model: LoadedTransformer, which: AttentionKind, *, answers: bool = False) -> Any:
    """Returns the module to run: the encoder for its self-attention, the head if `answers`."""
    if which == "self" and model.config.is_encoder_decoder:
        return model.model.get_encoder()
    return model.model if answers else model.model.base_model


class CannotRun(AttnvizError):
    """The model raises an error while it reads a text."""


@contextmanager
def reporting_run_errors(model: LoadedTransformer, model_input: ModelInput) -> Iterator[None]:
    """Raises any error of the model as an AttnvizError; out of memory, with how many tokens fit."""
    try:
        yield
    except (AttnvizError, CannotCapture):
        raise
    except torch.OutOfMemoryError:
        count = len(model_input.ids)
    except Exception as error:
        if memory.is_out_of_memory(error):
            raise
        raise _run_error(model, error) from None
    else:
        return
    fitting = _count_fitting_tokens(model, model_input)
    raise AttnvizError(
        f"{model.model.device} does not have enough memory for {counted(count, 'token')}",
        (f"the first {fitting:,} of them fit; or " if fitting else "")
        + "try --dtype bfloat16, or --device cpu",
        about="device",
    )


def _run_error(model: LoadedTransformer, error: Exception) -> CannotRun:
    """Returns an error whose hint follows from the cause: the dtype, the config, or the inputs."""
    model_phrase = f"the model '{model.name}' ({model.config.model_type})"
    message = shorten_message(str(error) or type(error).__name__)
    if model.dtype != "float32" and DTYPE_ERRORS.search(message):
        problem, hint = f"cannot be run as {model.dtype}", "leave --dtype out"
        return CannotRun(f"{model_phrase} {problem}: {message}", hint, about="dtype")
    if isinstance(error, RuntimeError):
        problem = "cannot be run on this text"
        hint = "look at its config.json, or save the model again"
    elif model.other_inputs:
        problem = f"also takes {and_list(model.other_inputs)}, and cannot be run on a text alone"
        hint = model.text_part or "use a model of text"
    else:
        problem, hint = "cannot be run on a text", "look at its config.json, or use another model"
    return CannotRun(f"{model_phrase} {problem}: {message}", hint, about="model")


def _count_fitting_tokens(model: LoadedTransformer, model_input: ModelInput) -> int:
    """Returns how many of the first tokens fit in memory, found by halving; 0 if not even one."""
    count = len(model_input.ids) // 2
    while count:
        torch.cuda.empty_cache()
        try:
            shorter = replace(model_input, ids=model_input.ids[:count])
            listener = Listener(which=model_input.which)
            with capturing_attention(model.model, listener), torch.no_grad():
                model_part(model, model_input.which)(**model_tensors(model, shorter))
        except torch.OutOfMemoryError:
            count //= 2
        else:
            return count
    return 0
