"""The path of a text through a trained model to a Trace."""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention.arithmetic import join_heads, project
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.traces.origin import FromTransformer
from attnviz.traces.settings import Positions, Settings, Which
from attnviz.traces.trace import Layer, Provenance, Trace
from attnviz.traces.trained.again import OnDemand, Remade
from attnviz.traces.trained.agreeing import agrees, apart
from attnviz.traces.trained.card import TrainedCard
from attnviz.traces.trained.fallback import given_layers
from attnviz.traces.trained.heard import Heard
from attnviz.traces.trained.loading import Loaded, loaded
from attnviz.traces.trained.passing import Passed, Reading, passed
from attnviz.traces.trained.prediction import (
    Ending,
    asked_of,
    outputs_of,
    predicted,
    with_all_heads,
)
from attnviz.traces.trained.quiet import quietly
from attnviz.traces.trained.reading import read
from attnviz.traces.trained.recognised import Recognised, bases_of, positions_of, recognise
from attnviz.traces.without import heads_off, refuse_missing_heads
from attnviz.version import __version__
from attnviz.wording.words import counted


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
    what = read(model, text, settings)
    made = Ending(asked_of(model, what))
    with quietly(), torch.no_grad():
        looked = _looked(model, what.reading, settings, layers, made)
        whole = with_all_heads(model, what.reading, made) if settings.without else None
        embeddings = _embeddings(model, what.reading)
    _refuse_missing(looked, settings, layers)
    card = _card(model, looked, what.reading.which)
    return Trace(
        tokens=what.tokens,
        keys=what.keys,
        tokenizer=f"{model.name}'s",
        vocabulary=model.model.get_input_embeddings().num_embeddings,
        variant=_variant(card, looked),
        positions=looked.positions,
        embeddings=embeddings,
        layers=looked.layers,
        prediction=predicted(model, what.tokens, made, whole),
        prompt=what.prompt,
        outputs=outputs_of(made, whole),
        origin=FromTransformer(
            settings=settings,
            card=card,
            positions=looked.positions,
            position_base=looked.position_base,
            text=text,
        ),
        provenance=_provenance(settings, card, model, command),
    )


@dataclass(frozen=True, eq=False)
class Looked:
    """What is known of a model's attention on a text."""

    layers: tuple[Layer, ...]
    numbers: tuple[int, ...]  # of all of them, also those that are not kept
    eager: float | None  # how far the weights are from those of the model's own eager attention
    heard: bool
    soft_cap: float | None = None
    positions: Positions = "none"  # by which queries and keys are turned, where that is known,
    position_base: float = Settings.position_base  # and the base of their angles


def _looked(
    model: Loaded,
    reading: Reading,
    settings: Settings,
    layers: Collection[int] | None,
    made: Ending,
) -> Looked:
    """Listened to, if that gives what the model itself computes; else as the model tells it."""
    off = heads_off(settings.without)
    done = passed(model, reading, layers=layers, off=off, through=made.run)
    eager = None if done is None else apart(model, reading, done)
    if done is not None and agrees(eager, settings.dtype):
        return _listened(model, done, eager)
    if settings.without is not None:
        raise AttnvizError(
            f"--without switches heads off, and those of the model '{model.name}' "
            f"({model.config.model_type}) cannot be reached: it only hands back its weights",
            "leave --without out",
            about="without",
        )
    made.run(model, reading)
    found, count = given_layers(model, reading, layers)
    return Looked(found, tuple(range(count)), None, heard=False)


def _listened(model: Loaded, done: Passed, eager: float | None) -> Looked:
    """Layers of what was heard, with the matrices that made it."""
    bases = bases_of(model.text_config.to_dict())
    found = [recognise(heard, bases) for heard in done.heard]
    positions, base = positions_of(found)
    return Looked(
        tuple(map(_layer, done.heard, found)),
        done.numbers,
        eager,
        heard=True,
        soft_cap=done.heard[0].soft_cap if done.heard else None,
        positions=positions,
        position_base=base,
    )


def _refuse_missing(looked: Looked, settings: Settings, layers: Collection[int] | None) -> None:
    """Refuse layers and heads that there are not: a layer need not attend."""
    numbers, asked = (
        looked.numbers,
        [*(layers or ()), *(at for at, _ in heads_off(settings.without))],
    )
    absent = [each for each in asked if each not in numbers]
    if absent:
        count = counted(len(numbers), "layer")
        whole = numbers == tuple(range(len(numbers)))
        which = f"0 to {numbers[-1]}" if whole else ", ".join(map(str, numbers))
        raise AttnvizError(
            f"there is no layer {absent[0]}: the model has {count} of attention, {which}",
            f"try --layer {numbers[-1]}",
            about="layer",
        )
    refuse_missing_heads(settings.without, numbers[-1] + 1, looked.layers[0].heads)


def _card(model: Loaded, looked: Looked, which: Which) -> TrainedCard:
    first = looked.layers[0]
    return TrainedCard(
        name=model.name,
        kind=model.config.model_type,
        parameters=model.model.num_parameters(),
        layers=len(looked.numbers),
        heads=first.heads,
        kv_heads=first.kv_heads,
        head_dim=first.head_dim,
        stored_as=model.stored_as,
        which=which,
        eager=looked.eager,
        fallback=not looked.heard,
    )


def _variant(card: TrainedCard, looked: Looked) -> Variant:
    """How the model attends, as far as one row can say it."""
    layer = looked.layers[0]
    queries, keys = layer.visible.shape[-2:]
    after = torch.ones(queries, keys, dtype=torch.bool, device=layer.visible.device).triu(1)
    return Variant(
        name=card.kind,
        about=f"as the model {card.name} attends",
        scaled=abs(layer.scale * card.head_dim**0.5 - 1) < 1e-6,
        causal=card.which != "cross" and queries > 1 and not bool((layer.visible & after).any()),
        heads=card.heads,
        kv_heads=card.kv_heads,
        joined=True,
        soft_cap=looked.soft_cap,
    )


def _embeddings(model: Loaded, reading: Reading) -> Float[Tensor, "token dim"]:
    """The vectors of the tokens that read, before anything tells them where they stand."""
    decoder = reading.which != "self"
    module = model.model.get_decoder() if decoder else model.model
    ids = reading.written if decoder else reading.ids
    found: Tensor = module.get_input_embeddings()(torch.tensor(ids, device=model.model.device))
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
