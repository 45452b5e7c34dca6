"""A trained model that reads what it read before once more: for what a Trace does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from attnviz.attention.choices import Instead
from attnviz.errors import AttnvizError
from attnviz.traces.origin import FromModel, FromTransformer
from attnviz.traces.trace import Trace
from attnviz.traces.trained.loading import Loaded, loaded
from attnviz.traces.trained.passing import Reading, passed
from attnviz.traces.trained.pieces import spelling_of
from attnviz.traces.trained.prediction import Asked, Ending, asked_of
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.trained.reading import Read, read
from attnviz.traces.weights_alone import refuse_weights_alone
from attnviz.traces.without import Place, heads_off

GIVE = "give --model minilm, a folder, or a name on a hub, of a transformer"


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


def reread(trace: Trace, told: str, about: str) -> Rereading:
    """The model behind a Trace, if its heads can be reached; `told` is what is wanted of them."""
    refuse_weights_alone(trace, told, about)
    origin = trace.origin
    if not isinstance(origin, FromTransformer):
        answers = isinstance(origin, FromModel) and trace.prediction is not None
        ranks = f"attnviz heads --model {origin.settings.model} ranks those of that one"
        raise AttnvizError(
            f"{told} of a trained transformer, and this is none",
            ranks if answers and about == "by" else GIVE,
            about=about,
        )
    if origin.card.fallback:
        raise AttnvizError(
            f"{told} of a transformer, and those of the model '{origin.card.name}' "
            f"({origin.card.kind}) cannot be reached: it only hands back its weights",
            f"leave --{about} out",
            about=about,
        )
    model = loaded(origin.settings)
    what = _read_again(model, trace, origin)
    return Rereading(
        model,
        what.reading,
        asked_of(model, what.tokens, what.reading.which),
        heads_off(origin.settings.without),
    )


def _read_again(model: Loaded, trace: Trace, origin: FromTransformer) -> Read:
    """What was read; with it what the model itself wrote."""
    if origin.card.which == "self":
        return Read(Reading("self", trace.tokens.ids), trace.tokens, trace.keys)
    with quietly(), torch.no_grad():
        return read(model, origin.text or "", origin.settings)
