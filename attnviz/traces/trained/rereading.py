"""A trained model that reads what it read before once more: for what a Trace does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch

from attnviz.attention.choices import Instead
from attnviz.errors import AttnvizError
from attnviz.traces.origin import FromModel, FromTransformer
from attnviz.traces.source import refuse_settings
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.trained.again import OnDemand
from attnviz.traces.trained.agreeing import TOLERANCE, difference
from attnviz.traces.trained.attending import attending
from attnviz.traces.trained.loading import Loaded, loaded
from attnviz.traces.trained.passing import Reading, passed
from attnviz.traces.trained.pieces import spelling_of
from attnviz.traces.trained.place import is_trained
from attnviz.traces.trained.prediction import Asked, Ending, asked_of
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.trained.reading import Read, read
from attnviz.traces.weights_alone import refuse_weights_alone
from attnviz.traces.without import Place, heads_off
from attnviz.wording.keywords import changed

GIVE = "give a transformer: --model minilm, a folder, or a name on a hub"
NAMED_AGAIN = ("model", "trust_remote_code")  # what a file may not say of its trace
FARTHEST = 1e-3  # that weights of one model are apart on two machines; of two models it is tenths


@dataclass(frozen=True, eq=False)
class Rereading:
    """A model, what it reads, what is asked of it, and which heads are off."""

    model: Loaded
    reading: Reading
    asked: Asked | None
    off: Mapping[Place, Instead]

    def ending(self, place: Place | None = None) -> Ending:
        """What the model comes to; without one head more than are off already."""
        off = self.off if place is None else {**self.off, place: "zero"}
        with quietly(), torch.no_grad():
            done = passed(self.model, self.reading, layers=(), off=off, asked=self.asked)
        assert done is not None
        return done.ending

    def label(self, answer: int) -> str:
        """What people see of an answer."""
        return spelling_of(self.model.tokenizer).written([answer])[0].label


def named_again(trace: Trace, **named: Any) -> Trace:
    """A Trace whose model somebody names: `model`, and whether to `trust_remote_code` of it."""
    again = () if trace.trained is None else NAMED_AGAIN  # nothing else is ever loaded once more
    refuse_settings({name: each for name, each in named.items() if name not in again})
    origin = trace.origin
    settings = changed(origin.settings, named)
    return replace(trace, origin=replace(origin, settings=settings)) if named else trace


def reread(trace: Trace, told: str, about: str) -> Rereading:
    """The model behind a Trace, if its heads can be reached; `told` is what is wanted of them."""
    refuse_weights_alone(trace, told, about)
    origin = trace.origin
    if not isinstance(origin, FromTransformer):
        answers = isinstance(origin, FromModel) and trace.prediction is not None
        ranks = f"use attnviz heads --model {origin.settings.model} to rank the heads of this model"
        raise AttnvizError(
            f"{told} of a trained transformer, but this is not one",
            ranks if answers and about == "by" else GIVE,
            about=about,
        )
    if origin.card.fallback:
        raise AttnvizError(
            f"{told} of a transformer, but the model '{origin.card.name}' ({origin.card.kind}) "
            "only returns its weights",
            f"leave --{about} out",
            about=about,
        )
    model, what = model_of(trace)
    return Rereading(
        model,
        what.reading,
        asked_of(model, what.tokens, what.reading.which),
        heads_off(origin.settings.without),
    )


def model_of(trace: Trace) -> tuple[Loaded, Read]:
    """The model that made a Trace, and what it read; with it what the model itself wrote.

    Of a Trace that was read from a file it is made sure that this model makes the same weights.
    """
    origin = trace.origin
    assert isinstance(origin, FromTransformer), "of no transformer"
    if not is_trained(origin.settings.model):
        raise AttnvizError(
            f"the trace is of a trained transformer, but '{origin.settings.model}' is not one",
            "name the model that made the trace",
            about="model",
        )
    model = loaded(origin.settings)
    attention = trace.layers[0].asked
    here = isinstance(attention, OnDemand) and attention.heard.module is not None
    if here and origin.card.which == "self":
        return model, Read(Reading("self", trace.tokens.ids), trace.tokens, trace.keys)
    with quietly(), torch.no_grad():
        what = read(model, origin.text or "", origin.settings)
        if not here:
            _refuse_another(model, what, trace, origin)
    return model, what


def _refuse_another(model: Loaded, what: Read, trace: Trace, origin: FromTransformer) -> None:
    """Refuse a model that did not make the Trace, by what it reads and how it attends."""
    count, then = model.model.num_parameters(), origin.card.parameters
    if count != then:
        raise _another(model, f"it has {count:,} numbers, but the model of the trace had {then:,}")
    if (what.tokens.ids, what.keys.ids) != (trace.tokens.ids, trace.keys.ids):
        raise _another(model, "it cuts the text into different tokens")
    numbers = [each.layer for each in trace.layers]
    found = attending(model, what.reading, origin.settings, numbers, None).layers
    alike = numbers == [each.layer for each in found]
    apart = max(map(_apart, trace.layers, found)) if alike else inf
    if apart > max(FARTHEST, 2 * TOLERANCE[origin.settings.dtype]):
        raise _another(model, f"its weights differ from those of the trace, by up to {apart:.2g}")


def _another(model: Loaded, why: str) -> AttnvizError:
    return AttnvizError(
        f"'{model.name}' is not the model that made the trace: {why}",
        "name that model with --model, or trace the text again with this one",
        about="model",
    )


def _apart(one: Layer, other: Layer) -> float:
    """The largest difference between the weights of two layers, in any head."""
    if one.heads != other.heads:
        return inf
    cells = [
        [each.weights.cells("weights", head) for each in (one, other)] for head in range(one.heads)
    ]
    return max(
        difference(torch.from_numpy(mine.values), torch.from_numpy(its.values))
        for pair in cells
        for mine, its in zip(*(each.bands() for each in pair), strict=True)
    )
