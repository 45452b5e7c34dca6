"""A pass through a model: what is read, and by which part of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.attention.variants import Instead
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.settings import HeadPlace, Which
from attnviz.traces.trained.listening import Heard, Listener, Unheard, listening
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.prediction import Asked, Ending, ending
from attnviz.traces.trained.refusals import shortly
from attnviz.wording.words import counted, listed

Ids = tuple[int, ...]
OF_DTYPES = re.compile("dtype|scalar ?type|float|double|half|not implemented for", re.IGNORECASE)
PROBE = 32  # tokens, on which a model's own attention is compared with what is computed here


@dataclass(frozen=True)
class Reading:
    """What a model reads: a text, and beside an encoder what its decoder wrote so far."""

    which: Which
    ids: Ids
    written: Ids = ()

    @property
    def probe(self) -> Reading:
        """The beginning of it."""
        return replace(self, ids=self.ids[:PROBE], written=self.written[:PROBE])


@dataclass(frozen=True, eq=False)
class Passed:
    """What a pass of a model left behind."""

    heard: tuple[Heard, ...]
    numbers: tuple[int, ...]  # of all layers that attend, kept or not
    ending: Ending  # what the model came to
    off: Mapping[HeadPlace, Instead] = field(default_factory=dict)


def passed(
    model: Loaded,
    reading: Reading,
    *,
    layers: Collection[int] | None = None,
    off: Mapping[HeadPlace, Instead] | None = None,
    asked: Asked | None = None,
) -> Passed | None:
    """A pass that is listened to; None where nothing can be heard of it."""
    listener = Listener(which=reading.which, layers=layers, off=off or {})
    try:
        with listening(model.model, listener):
            made, _ = run(model, reading, asked)
    except Unheard:
        return None
    if not listener.numbers:
        return None
    return Passed(tuple(listener.heard), tuple(listener.numbers), made, off or {})


def run(
    model: Loaded, reading: Reading, asked: Asked | None = None, **named: Any
) -> tuple[Ending, Any]:
    """What a model comes to, and what it hands back; it answers only where that is asked for."""
    part = part_of(model, reading.which, answers=asked is not None)
    with running(model, reading), ending(model, asked, reading.which) as made:
        return made, part(**inputs(model, reading), **named)


def inputs(model: Loaded, reading: Reading) -> dict[str, Tensor]:
    """The ids as a model takes them."""
    found = {"input_ids": _batch(model, reading.ids)}
    if reading.which != "self":
        found["decoder_input_ids"] = _batch(model, reading.written)
    return found


def part_of(model: Loaded, which: Which, *, answers: bool = False) -> Any:
    """The encoder, where it is all that is looked at; what scores answers, only if it is asked."""
    if which == "self" and model.config.is_encoder_decoder:
        return model.model.get_encoder()
    return model.model if answers else model.model.base_model


def _batch(model: Loaded, ids: Ids) -> Tensor:
    return torch.tensor([ids], device=model.model.device)


class CannotRun(AttnvizError):
    """A model stops on the way through a text, whatever the reason."""


@contextmanager
def running(model: Loaded, reading: Reading) -> Iterator[None]:
    """What goes wrong while a model runs, whatever it is, is told in two lines.

    That is how many tokens fit, where a device has not enough memory for those that there are.
    """
    try:
        yield
    except (AttnvizError, Unheard):
        raise
    except torch.OutOfMemoryError:
        count = len(reading.ids)
    except Exception as error:
        if memory.ran_out(error):
            raise
        raise _cannot_run(model, error) from None
    else:
        return
    fitting = _fitting(model, reading)
    raise AttnvizError(
        f"{model.model.device} does not have enough memory for {counted(count, 'token')}",
        f"the first {fitting:,} of them fit; or try --dtype bfloat16, or --device cpu"
        if fitting
        else "try --dtype bfloat16, or --device cpu",
        about="device",
    )


def _cannot_run(model: Loaded, error: Exception) -> CannotRun:
    """Some parts are there for some dtypes alone, and configs tell of what cannot be; some models
    need more than a text.
    """
    who = f"the model '{model.name}' ({model.config.model_type})"
    said = shortly(str(error) or type(error).__name__)
    if model.dtype != "float32" and OF_DTYPES.search(said):
        told, hint = f"cannot be run as {model.dtype}", "leave --dtype out"
        return CannotRun(f"{who} {told}: {said}", hint, about="dtype")
    if isinstance(error, RuntimeError):
        told = "cannot be run on this text"
        hint = "look at its config.json, or save the model again"
    elif model.other_inputs:
        told = f"also takes {listed(model.other_inputs)}, and cannot be run on a text alone"
        hint = model.text_part or "use a model of text"
    else:
        told, hint = "cannot be run on a text", "look at its config.json, or use another model"
    return CannotRun(f"{who} {told}: {said}", hint, about="model")


def _fitting(model: Loaded, reading: Reading) -> int:
    """How many of the first tokens a model takes, as it turns out when it is given half of them."""
    count = len(reading.ids) // 2
    while count:
        torch.cuda.empty_cache()
        try:
            fewer = replace(reading, ids=reading.ids[:count])
            with listening(model.model, Listener(which=reading.which)), torch.no_grad():
                part_of(model, reading.which)(**inputs(model, fewer))
        except torch.OutOfMemoryError:
            count //= 2
        else:
            return count
    return 0
