"""The path of a text through a trained model to a Trace."""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention.arithmetic import join_heads, project
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.origin import FromTransformer
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Layer, Provenance, Trace
from attnviz.traces.trained.again import OnDemand, Remade
from attnviz.traces.trained.card import TrainedCard
from attnviz.traces.trained.cutting import cut
from attnviz.traces.trained.heard import Heard
from attnviz.traces.trained.listening import Listener, listening
from attnviz.traces.trained.loading import Loaded, loaded, quietly
from attnviz.traces.trained.recognised import Recognised, bases_of, positions_of, recognise
from attnviz.traces.without import heads_off, refuse_missing_heads
from attnviz.version import __version__

PROBE = 32  # tokens, on which a model's own attention is compared with what is computed here


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
    tokens = cut(model, text, truncate=settings.truncate)
    with quietly(), torch.no_grad():
        passed = _passed(model, tokens, settings, layers)
        eager = _apart_from_eager(model, tokens)
    card = _card(model, passed.heard, eager)
    refuse_missing_heads(settings.without, card.layers, card.heads)
    bases = bases_of(model.text_config.to_dict())
    found = [recognise(heard, bases) for heard in passed.heard]
    positions, base = positions_of(found)
    return Trace(
        tokens=tokens,
        keys=tokens,
        tokenizer=f"{model.name}'s",
        vocabulary=model.text_config.vocab_size,
        variant=_variant(card, passed.heard[0]),
        embeddings=_embeddings(model, tokens),
        positions=positions,
        layers=tuple(map(_layer, passed.heard, found)),
        origin=FromTransformer(
            settings=settings, card=card, positions=positions, position_base=base
        ),
        provenance=_provenance(settings, card, model, command),
    )


@dataclass(frozen=True, eq=False)
class Passed:
    """What a pass of a model left behind."""

    heard: tuple[Heard, ...]
    outputs: Any


def _passed(
    model: Loaded, tokens: Tokens, settings: Settings, layers: Collection[int] | None
) -> Passed:
    listener = Listener(layers=layers, off=heads_off(settings.without))
    with listening(model.model, listener):
        outputs = model.model(**_inputs(model, tokens.ids))
    heard = [each for each in listener.heard if each.which == "self"]
    if not heard:
        raise AttnvizError(
            f"nothing was heard of the attention of the model '{model.name}'", "take another model"
        )
    return Passed(tuple(heard), outputs)


def _inputs(model: Loaded, ids: tuple[int, ...]) -> dict[str, Tensor]:
    return {"input_ids": torch.tensor([ids], device=model.model.device)}


def _apart_from_eager(model: Loaded, tokens: Tokens) -> float:
    """How far the weights are from those that the model's own eager attention returns."""
    inputs = _inputs(model, tokens.ids[:PROBE])
    listener = Listener()
    with listening(model.model, listener):
        model.model(**inputs)
    theirs = model.model(**inputs, output_attentions=True).attentions
    ours = [each.whole.weights for each in listener.heard]
    pairs = zip(ours, theirs, strict=True)
    return max(float((own - their[0]).abs().max()) for own, their in pairs)


def _card(model: Loaded, heard: tuple[Heard, ...], eager: float) -> TrainedCard:
    first = heard[0]
    return TrainedCard(
        name=model.name,
        kind=model.config.model_type,
        parameters=model.model.num_parameters(),
        layers=model.text_config.num_hidden_layers,
        heads=first.heads,
        kv_heads=first.keys.shape[0],
        head_dim=first.queries.shape[-1],
        stored_as=model.stored_as,
        which=first.which,
        eager=eager,
    )


def _variant(card: TrainedCard, heard: Heard) -> Variant:
    """How the model attends, as far as one row can say it."""
    queries, keys = heard.visible.shape[-2:]
    after = torch.ones(queries, keys, dtype=torch.bool, device=heard.visible.device).triu(1)
    return Variant(
        name=card.kind,
        about=f"as the model {card.name} attends",
        scaled=abs(heard.scale * card.head_dim**0.5 - 1) < 1e-6,
        causal=queries > 1 and not bool((heard.visible & after).any()),
        heads=card.heads,
        kv_heads=card.kv_heads,
        joined=True,
        soft_cap=heard.soft_cap,
    )


def _embeddings(model: Loaded, tokens: Tokens) -> Float[Tensor, "token dim"]:
    found: Tensor = model.model.get_input_embeddings()(
        torch.tensor(tokens.ids, device=model.model.device)
    )
    return found


def _layer(heard: Heard, made: Recognised) -> Layer:
    remade = Remade(heard)
    joined = join_heads(heard.contexts())
    context = joined if heard.w_out is None else project(joined, heard.w_out, heard.b_out)
    return Layer(
        layer=heard.layer,
        scale=heard.scale,
        head_dim=heard.queries.shape[-1],
        inputs=heard.inputs,
        key_inputs=heard.memory,
        projections=made.projections,
        before_rotary=made.before_rotary,
        queries=heard.queries,
        keys=heard.keys,
        values=heard.values,
        visible=heard.visible,
        attended=remade,
        context=context,
        given=made.given,
        off=heard.off,
        asked=OnDemand(heard, remade),
    )


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
