"""A pass through a model: what is read, and by which part of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.attention.choices import Instead
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.settings import Which
from attnviz.traces.trained.heard import Heard
from attnviz.traces.trained.listening import Listener, Unheard, listening
from attnviz.traces.trained.loading import Loaded
from attnviz.traces.trained.prediction import Asked, Ending, ending
from attnviz.traces.trained.refusing import shortly
from attnviz.traces.without import Place
from attnviz.wording.words import counted

Ids = tuple[int, ...]
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
    off: Mapping[Place, Instead] = field(default_factory=dict)


def passed(
    model: Loaded,
    reading: Reading,
    *,
    layers: Collection[int] | None = None,
    off: Mapping[Place, Instead] | None = None,
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
    with room_for(model, reading), ending(model, asked, reading.which) as made:
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


@contextmanager
def room_for(model: Loaded, reading: Reading) -> Iterator[None]:
    """Say how many tokens fit, where a device has not enough memory for those that there are."""
    try:
        yield
    except torch.OutOfMemoryError:
        count = len(reading.ids)
    except RuntimeError as error:
        if memory.ran_out(error):
            raise
        raise _unfit(model, error) from None
    else:
        return
    fitting = _fitting(model, reading)
    raise AttnvizError(
        f"{model.model.device} has not enough memory for {counted(count, 'token')}",
        f"the first {fitting:,} of them fit; or try --dtype bfloat16, or --device cpu"
        if fitting
        else "try --dtype bfloat16, or --device cpu",
        about="device",
    )


def _unfit(model: Loaded, error: RuntimeError) -> AttnvizError:
    """Some parts of models are there for some dtypes alone, and configs tell of what cannot be."""
    dtype = str(model.model.dtype).removeprefix("torch.")
    usual = model.model.dtype == torch.float32
    return AttnvizError(
        f"the model '{model.name}' ({model.config.model_type}) cannot be run as {dtype}: "
        f"{shortly(str(error))}",
        "look at its config.json, or save the model again" if usual else "leave --dtype out",
        about="model" if usual else "dtype",
    )


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
