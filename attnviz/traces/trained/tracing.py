"""The path of a text through a trained model to a Trace."""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import asdict, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.traces.origin import FromTransformer
from attnviz.traces.settings import Settings, Which
from attnviz.traces.trace import Provenance, Trace
from attnviz.traces.trained.attending import Attending, attending, with_all_heads
from attnviz.traces.trained.card import TrainedCard
from attnviz.traces.trained.loading import Loaded, loaded
from attnviz.traces.trained.passing import Reading
from attnviz.traces.trained.prediction import (
    asked_of,
    decoder_answers,
    outputs_of,
    predicted,
)
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.trained.reading import read
from attnviz.version import __version__


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
