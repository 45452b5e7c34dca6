"""From a text through a trained model to a Trace; and once more for other layers or heads."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attention.variants import Instead, Variant
from attnviz.errors import AttnvizError
from attnviz.traces.origin import FromModel, FromTransformer, TrainedCard
from attnviz.traces.settings import HeadPlace, Settings, Which, heads_off
from attnviz.traces.source import refuse_settings
from attnviz.traces.trace import Layer, Provenance, Trace, refuse_weights_alone
from attnviz.traces.trained.attending import (
    TOLERANCE,
    Attending,
    attending,
    difference,
    with_all_heads,
)
from attnviz.traces.trained.loading import Loaded, loaded
from attnviz.traces.trained.passing import Reading, passed
from attnviz.traces.trained.pieces import spelling_of
from attnviz.traces.trained.place import is_trained
from attnviz.traces.trained.prediction import (
    Asked,
    Ending,
    asked_of,
    decoder_answers,
    outputs_of,
    predicted,
)
from attnviz.traces.trained.reading import Read, read
from attnviz.traces.trained.recomputed_weights import OnDemand
from attnviz.traces.trained.refusals import quietly
from attnviz.version import __version__
from attnviz.wording.keywords import changed


def trace_trained(
    text: str | None,
    settings: Settings,
    *,
    layers: Collection[int] | None = None,
    command: str | None = None,
) -> Trace:
    """Attention of a trained model on a text; with the queries, keys and values of some layers."""
    if text is None:
        raise AttnvizError("there is no text that the model could read", "give a sentence")
    model = loaded(settings)
    try:
        return _trace(model, text, settings, layers, command)
    except AttnvizError:
        as_it_was = loaded(settings)  # another, if this one changed when it read
        if as_it_was is model:
            raise
    return _trace(as_it_was, text, settings, layers, command)


def _trace(
    model: Loaded,
    text: str,
    settings: Settings,
    layers: Collection[int] | None,
    command: str | None,
) -> Trace:
    what = read(model, text, settings)
    asked = asked_of(model, what.tokens, what.reading.which)
    with quietly(), torch.no_grad():
        found = attending(model, what.reading, settings, layers, asked)
        whole = with_all_heads(model, what.reading, asked) if settings.without else None
        embeddings = _embeddings(model, what.reading)
    card = _card(model, found, what.reading.which)
    return Trace(
        tokens=what.tokens,
        keys=what.keys,
        tokenizer=model.name,
        vocabulary=model.model.get_input_embeddings().num_embeddings,
        variant=_variant(card, found),
        positions=found.positions,
        embeddings=embeddings,
        layers=found.layers,
        prediction=predicted(model, what.tokens, asked, found.ending, whole),
        outputs=outputs_of(found.ending, whole),
        prompt=what.prompt,
        origin=_origin(settings, card, text, found),
        provenance=_provenance(settings, card, model, command),
    )


def _origin(settings: Settings, card: TrainedCard, text: str, found: Attending) -> FromTransformer:
    return FromTransformer(
        settings=settings,
        card=card,
        text=text,
        positions=found.positions,
        position_base=found.position_base,
    )


def _card(model: Loaded, found: Attending, which: Which) -> TrainedCard:
    first = found.layers[0]
    return TrainedCard(
        name=model.name,
        kind=model.config.model_type,
        parameters=model.model.num_parameters(),
        layers=len(found.numbers),
        heads=first.heads,
        kv_heads=first.kv_heads,
        head_dim=first.head_dim,
        stored_as=model.stored_as,
        which=which,
        eager=None if found.apart is None else found.apart.weights,
        vectors=None if found.apart is None else found.apart.vectors,
        compared=0 if found.apart is None else found.apart.tokens,
        fallback=found.apart is None,
        decoder_answers=decoder_answers(model, which),
    )


def _variant(card: TrainedCard, found: Attending) -> Variant:
    """How the model attends, as far as one row can say it."""
    layer = found.layers[0]
    several, looks_ahead = layer.visible.shape[-2] > 1, bool(layer.visible.triu(1).any())
    return Variant(
        name=card.kind,
        about=f"as the model {card.name} attends",
        scaled=abs(layer.scale * card.head_dim**0.5 - 1) < 1e-6,
        causal=card.which != "cross" and several and not looks_ahead,
        heads=card.heads,
        kv_heads=card.kv_heads,
        joined=True,
        soft_cap=found.soft_cap,
    )


def _embeddings(model: Loaded, reading: Reading) -> Float[Tensor, "token dim"]:
    """The vectors of the tokens that read, before anything tells them where they stand."""
    decoder = reading.which != "self"
    module = model.model.get_decoder() if decoder else model.model
    ids = reading.written if decoder else reading.ids
    tables = (each for each in module.modules() if isinstance(each, nn.Embedding))
    table = module.get_input_embeddings() if hasattr(module, GETS) else next(tables)
    made: Tensor = table(torch.tensor(ids, device=model.model.device))
    return made


GETS = "get_input_embeddings"  # which the decoders of some models, as FSMT's, have not


def _provenance(
    settings: Settings, card: TrainedCard, model: Loaded, command: str | None
) -> Provenance:
    import transformers

    return Provenance(
        version=__version__,
        command=command,
        settings=asdict(replace(settings, model=card.name)) | asdict(card),
        seed=settings.seed,
        device=str(model.model.device),
        dtype=settings.dtype,
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": np.__version__,
            "instructions": torch.backends.cpu.get_cpu_capability(),
        },
    )


GIVE = "give a transformer: --model minilm, a folder, or a name on a hub"
NAMED_AGAIN = ("model", "trust_remote_code")  # what a file may not say of its trace
FARTHEST = 1e-3  # that weights of one model are apart on two machines; of two models it is tenths


@dataclass(frozen=True, eq=False)
class Rereading:
    """A model, what it reads, what is asked of it, and which heads are off."""

    model: Loaded
    reading: Reading
    asked: Asked | None
    off: Mapping[HeadPlace, Instead]

    def ending(self, place: HeadPlace | None = None) -> Ending:
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
