"""A trained model without each of some heads: what it comes to then, one pass for each."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from attnviz.attention.choices import Instead
from attnviz.errors import AttnvizError
from attnviz.traces.origin import FromTransformer
from attnviz.traces.trace import Trace
from attnviz.traces.trained.loading import Loaded, loaded
from attnviz.traces.trained.passing import Reading, passed
from attnviz.traces.trained.pieces import spelling_of
from attnviz.traces.trained.prediction import Asked, Ending, asked_of
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.trained.reading import Read, read
from attnviz.traces.without import Place, heads_off

Off = Mapping[Place, Instead]


class Ablated:
    """A model and what it read, to be read again with other heads switched off."""

    def __init__(self, trace: Trace) -> None:
        origin = trace.origin
        if not isinstance(origin, FromTransformer):
            raise AttnvizError(
                "--by effect switches off the heads of a trained transformer, and this is none",
                "give --model minilm; attnviz heads ranks those of the models of attnviz learn",
                about="by",
            )
        if origin.card.fallback:
            raise AttnvizError(
                f"--by effect switches heads off, and those of the model '{origin.card.name}' "
                f"({origin.card.kind}) cannot be reached: it only hands back its weights",
                "leave --by out",
                about="by",
            )
        self.model: Loaded = loaded(origin.settings)
        self.off: Off = heads_off(origin.settings.without)
        what = _read_again(self.model, trace, origin)
        self.reading: Reading = what.reading
        self.asked: Asked | None = asked_of(self.model, what.tokens, what.reading.which)

    def ending(self, place: Place | None = None) -> Ending:
        """What the model comes to; without one head more than are off already."""
        off = self.off if place is None else {**self.off, place: "zero"}
        with quietly(), torch.no_grad():
            done = passed(self.model, self.reading, layers=(), off=off, asked=self.asked)
        assert done is not None  # it was heard when the trace was made
        return done.ending

    def label(self, answer: int) -> str:
        """What people see of an answer."""
        return spelling_of(self.model.tokenizer).written([answer])[0].label


def _read_again(model: Loaded, trace: Trace, origin: FromTransformer) -> Read:
    """What was read; with it what the model itself wrote."""
    if origin.card.which == "self":
        return Read(Reading("self", trace.tokens.ids), trace.tokens, trace.keys)
    with quietly(), torch.no_grad():
        return read(model, origin.text or "", origin.settings)
