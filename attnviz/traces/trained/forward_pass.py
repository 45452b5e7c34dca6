"""A pass through a model: what is read, and by which part of it."""

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
PROBE_TOKENS = 32  # tokens, on which a model's own attention is compared with what is computed here


@dataclass(frozen=True)
class ModelInput:
    """What a model reads: a text, and beside an encoder what its decoder wrote so far."""

    which: AttentionKind
    ids: TokenIds
    decoder_ids: TokenIds = ()

    @property
    def probe(self) -> ModelInput:
        """The beginning of it."""
        return replace(
            self, ids=self.ids[:PROBE_TOKENS], decoder_ids=self.decoder_ids[:PROBE_TOKENS]
        )


@dataclass(frozen=True, eq=False)
class CapturedPass:
    """What a pass of a model left behind."""

    captured: tuple[CapturedAttention, ...]
    layer_numbers: tuple[int, ...]  # of all layers that attend, kept or not
    result: PassResult  # what the model came to
    off: Mapping[HeadId, AblationValue] = field(default_factory=dict)


def capture_pass(
    model: LoadedTransformer,
    model_input: ModelInput,
    *,
    layers: Collection[int] | None = None,
    off: Mapping[HeadId, AblationValue] | None = None,
    answer_positions: AnswerPositions | None = None,
) -> CapturedPass | None:
    """A pass that is listened to; None where nothing can be heard of it."""
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
    """What a model comes to, and what it hands back; it answers only where that is asked for."""
    part = model_part(model, model_input.which, answers=answer_positions is not None)
    with (
        reporting_run_errors(model, model_input),
        capturing_result(model, answer_positions, model_input.which) as result,
    ):
        return result, part(**model_tensors(model, model_input), **keywords)


def model_tensors(model: LoadedTransformer, model_input: ModelInput) -> dict[str, Tensor]:
    """The ids as a model takes them."""
    tensors = {"input_ids": _batch_of_ids(model, model_input.ids)}
    if model_input.which != "self":
        tensors["decoder_input_ids"] = _batch_of_ids(model, model_input.decoder_ids)
    return tensors


def model_part(model: LoadedTransformer, which: AttentionKind, *, answers: bool = False) -> Any:
    """The encoder, where it is all that is looked at; what scores answers, only if it is asked."""
    if which == "self" and model.config.is_encoder_decoder:
        return model.model.get_encoder()
    return model.model if answers else model.model.base_model


def _batch_of_ids(model: LoadedTransformer, ids: TokenIds) -> Tensor:
    return torch.tensor([ids], device=model.model.device)


class CannotRun(AttnvizError):
    """A model stops on the way through a text, whatever the reason."""


@contextmanager
def reporting_run_errors(model: LoadedTransformer, model_input: ModelInput) -> Iterator[None]:
    """What goes wrong while a model runs, whatever it is, is told in two lines.

    That is how many tokens fit, where a device has not enough memory for those that there are.
    """
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
    fitting_count = _count_fitting_tokens(model, model_input)
    raise AttnvizError(
        f"{model.model.device} does not have enough memory for {counted(count, 'token')}",
        f"the first {fitting_count:,} of them fit; or try --dtype bfloat16, or --device cpu"
        if fitting_count
        else "try --dtype bfloat16, or --device cpu",
        about="device",
    )


def _run_error(model: LoadedTransformer, error: Exception) -> CannotRun:
    """Some parts are there for some dtypes alone, and configs tell of what cannot be; some models
    need more than a text.
    """
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
    """How many of the first tokens a model takes, as it turns out when it is given half of them."""
    count = len(model_input.ids) // 2
    while count:
        torch.cuda.empty_cache()
        try:
            shorter_input = replace(model_input, ids=model_input.ids[:count])
            with (
                capturing_attention(model.model, Listener(which=model_input.which)),
                torch.no_grad(),
            ):
                model_part(model, model_input.which)(**model_tensors(model, shorter_input))
        except torch.OutOfMemoryError:
            count //= 2
        else:
            return count
    return 0
