"""A Trace as data: everything under the names in docs/numbers.md, written and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.attention.block import Block
from attnviz.errors import mention
from attnviz.tokens.tokens import Tokens
from attnviz.traces import archive
from attnviz.traces import archive as handed
from attnviz.traces.by_layer import LAYERS, flat
from attnviz.traces.matrices import WORDS, Matrices
from attnviz.traces.models.card import Card, card_of_facts, facts_of_card
from attnviz.traces.models.model import Model, Sight, Sights, made_of
from attnviz.traces.models.names import names
from attnviz.traces.models.prediction import Prediction
from attnviz.traces.origin import (
    Drawn,
    FromExample,
    FromModel,
    FromTransformer,
    FromWeights,
    Given,
    Origin,
    TrainedCard,
    model_behind,
    table_behind,
)
from attnviz.traces.parts import OF_ATTENTION, OF_BLOCK, OF_PREDICTION, OF_RESIDUAL, Part
from attnviz.traces.settings import Positions, Settings, heads_off
from attnviz.traces.texts import fits, of_their_types
from attnviz.traces.trace import Layer, Outputs, Trace, layer_of
from attnviz.traces.trained.listening import Heard
from attnviz.traces.trained.recomputed_weights import OnDemand, Remade
from attnviz.traces.weights import array
from attnviz.wording.commands import PATHS, place_told, without_folders

Contents = dict[str, Any]  # arrays, numbers, texts, lists, and contents again

FORMAT = 1  # of what is said about a Trace beside its arrays
KINDS: dict[type, str] = {
    Drawn: "drawn",
    Given: "given",
    FromExample: "example",
    FromModel: "model",
    FromTransformer: "transformer",
    FromWeights: "weights",
}


def contents(trace: Trace) -> Contents:
    """Everything in a Trace but its provenance, by name; None is what the trace has not."""
    named: Contents = {
        "text": trace.tokens.text,
        "tokens": _tokens(trace.tokens),
        "variant": trace.variant.name,
        **_embeddings(trace),
        "layers": [_layer(trace, layer) for layer in trace.layers],
    }
    if archive.too_many(trace):
        mention(archive.refusal_to_store(trace))
    if trace.keys is not trace.tokens:
        named |= {"key_text": trace.keys.text, "key_tokens": _tokens(trace.keys)}
    if trace.memory is not None:
        named |= {"memory_text": trace.memory.text, "memory_tokens": _tokens(trace.memory)}
    if trace.prediction is not None:
        named["prediction"] = _prediction(trace, trace.prediction)
    if trace.outputs is not None:
        named["outputs"] = _outputs(trace.outputs)
    return named | _of_origin(trace.origin) | {"trace": _facts(trace)}


def _embeddings(trace: Trace) -> Contents:
    """The vectors of the tokens, where there are any."""
    return {} if trace.handed else {"embeddings": array(trace.embeddings)}


def _prediction(trace: Trace, prediction: Prediction) -> Contents:
    """What is answered, in the order of the answers; and at which places anything is asked."""
    found = {part.data: part.find(trace, trace.layers[-1]) for part in OF_PREDICTION}
    asked = [place + 1 for place in prediction.asked]
    return {"answers": list(prediction.answers), "asked": asked, **_arrays(found)}


def _outputs(outputs: Outputs) -> Contents:
    """What a trained model makes of each token in the end, and what it would with all heads."""
    found = {"vectors": outputs.vectors, "vectors_with_all_heads": outputs.with_all_heads}
    return _arrays(found)


def _tokens(tokens: Tokens) -> Contents:
    return {
        "ids": list(tokens.ids),
        "labels": list(tokens.labels),
        "bytes": [piece.hex() for piece in tokens.pieces],
    }


def _layer(trace: Trace, layer: Layer) -> Contents:
    named = _attention(trace, layer)
    if layer.cross is not None:
        named["cross"] = _attention(trace, layer.cross)
    if layer.block is not None:
        named["block"] = _block(trace, layer, layer.block)
    return named


def _attention(trace: Trace, layer: Layer) -> Contents:
    kept = [part for part in OF_ATTENTION if part.data and _is_kept(trace, part)]
    found = {part.data: part.find(trace, layer) for part in kept}
    return {
        "layer": layer.layer,
        "scale": layer.scale,
        "heads": layer.heads,
        "head_dim": layer.head_dim,
        **{name: None if tensor is None else array(tensor) for name, tensor in found.items()},
    }


def _is_kept(trace: Trace, part: Part) -> bool:
    """No matrix of a trained model is; and of very many weights only what they are made of.

    Of weights that were computed elsewhere nothing else is there.
    """
    if trace.handed:
        return part.data in handed.KEPT_OF_EXTERNAL
    if part.learned:
        return trace.trained is None
    return part.data not in archive.MADE_AGAIN or not archive.too_many(trace)


def _block(trace: Trace, layer: Layer, block: Block) -> Contents:
    """What surrounds attention: each sub-layer with its residual, and the feed-forward matrices."""
    residuals = {
        name: _arrays({part.data: part.find(residual) for part in OF_RESIDUAL})
        for name, residual in block.residuals.items()
    }
    found = {part.data: part.find(trace, layer) for part in OF_BLOCK if part.data}
    return {
        "norm": block.place,
        **residuals,
        "activation": None if block.fed is None else block.fed.parameters.activation,
        **_arrays(found),
    }


def _arrays(found: Mapping[str, Tensor | None]) -> Contents:
    return {name: array(tensor) for name, tensor in found.items() if tensor is not None}


def _of_origin(origin: Origin) -> Contents:
    """The matrices that were given, and the vectors of a file, to the last digit."""
    model = model_behind(origin)
    if model is not None:
        return {"model": model_arrays(model)}
    named: Contents = {}
    if not isinstance(origin, Drawn) and origin.matrices.of_all_layers:
        named["given"] = _given(origin.matrices)
    if not isinstance(origin, FromExample) and origin.vectors is not None:
        named["vectors"] = array(origin.vectors)
    return named


def _given(matrices: Matrices) -> Contents:
    """Of layers above the first under their numbers."""
    named = {name: array(each) for name, each in matrices.tensors.items()}
    above = {str(place): _given(each) for place, each in enumerate(matrices.above, start=1)}
    return {**named, LAYERS: above} if above else named


def _facts(trace: Trace) -> Contents:
    """What there is beside arrays, so that the Trace can be read again."""
    return {
        "format": FORMAT,
        "tokenizer": trace.tokenizer,
        "vocabulary": trace.vocabulary,
        "positions": trace.positions,
        "prompt": trace.prompt,
        "variant": asdict(trace.variant),
        "tokens": _facts_of_tokens(trace.tokens),
        "key_tokens": None if trace.keys is trace.tokens else _facts_of_tokens(trace.keys),
        "memory_tokens": None if trace.memory is None else _facts_of_tokens(trace.memory),
        "predicts": None if trace.prediction is None else trace.prediction.predicts,
        **_facts_of_answers(trace.prediction),
        "layers": [_facts_of_layer(layer) for layer in trace.layers],
        "origin": _facts_of_origin(trace.origin),
    }


def _facts_of_answers(prediction: Prediction | None) -> Contents:
    """Of how many answers the likeliest are kept, if not all are."""
    if prediction is None or prediction.of is None:
        return {}
    return {"answers": prediction.of, "asks": list(prediction.asks)}


def _facts_of_tokens(tokens: Tokens) -> Contents:
    named = {"text": tokens.text, "spaced": list(tokens.spaced), "words": list(tokens.words)}
    return named | ({"special": sorted(tokens.special)} if tokens.special else {})


def _facts_of_layer(layer: Layer) -> Contents:
    return {
        "given": sorted(layer.given),
        "mistake": layer.mistake,
        "off": [[head, instead] for head, instead in layer.off.items()],
        "mixed_by": layer.attended.mixed_by,
        "soft_cap": archive.soft_cap_of(layer),
        "cross": None if layer.cross is None else _facts_of_layer(layer.cross),
    }


def _facts_of_origin(origin: Origin) -> Contents:
    named: Contents = {"kind": KINDS[type(origin)], "settings": _facts_of_settings(origin.settings)}
    model = model_behind(origin)
    if isinstance(origin, FromTransformer):
        named |= archive.transformer_facts(origin)
    elif isinstance(origin, FromWeights):
        named |= handed.external_facts(origin)
    elif model is not None:
        named["model"] = model_facts(model)
    elif not isinstance(origin, Drawn):
        given = origin.matrices
        facts = ("item", "items", "heads", "kv_heads", *WORDS, "vocabulary")
        named["matrices"] = {"source": without_folders(given.source)} | {
            name: getattr(given, name) for name in facts
        }
    table = table_behind(origin)
    if table is not None:
        named["table"] = asdict(table)
    if isinstance(origin, FromExample):
        named |= {"name": origin.name, "mistake": origin.mistake}
    return named


def _facts_of_settings(settings: Settings) -> Contents:
    """What they name is in the file, too, so that nobody needs to know where it was."""
    return {
        name: place_told(name, value) if name in PATHS and value else value
        for name, value in asdict(settings).items()
    }


AS_WRITTEN = ("asks", "hands")  # of a model by hand, beside what every card says


def model_arrays(model: Model) -> dict[str, Any]:
    """Its numbers by name, those of layers above the first in tables of their own."""
    named: dict[str, Any] = {}
    for name, tensor in model.parameters.items():
        *inside, last = name.split(".")
        place = named
        for step in inside:
            place = place.setdefault(step, {})
        place[last] = array(tensor)
    return named


def model_facts(model: Model) -> dict[str, Any]:
    """All that it is beside its numbers."""
    return {
        **facts_of_card(model),
        **{
            name: {key: list(each) for key, each in getattr(model, name).items()}
            for name in AS_WRITTEN
        },
        "vocabulary": asdict(model.vocabulary),
        "sights": [[asdict(sight) for sight in layer] for layer in model.sights],
    }


def read_model(facts: Mapping[str, Any], stored: Mapping[str, Any]) -> Model:
    """The model whose arrays and facts these are; what does not fit is a TypeError."""
    card = card_of_facts(facts, facts["vocabulary"])
    dtype = torch.float64 if card.settings.dtype == "float64" else torch.float32
    numbers = {
        name: torch.from_numpy(np.array(each, np.float64)).to(dtype)
        for name, each in flat(stored).items()
    }
    written = {
        name: {key: tuple(map(str, each)) for key, each in facts[name].items()}
        for name in AS_WRITTEN
    }
    said = {each.name: getattr(card, each.name) for each in fields(Card)} | written
    return made_of(Card(**said), numbers, _sights(facts["sights"]))


def _sights(layers: Any) -> Sights:
    return tuple(tuple(of_their_types(Sight, each) for each in heads) for heads in layers)


MOST_CELLS = 2**22  # of all heads, at one stage on the way to weights: 50 MB of all stages
MADE_AGAIN = ("scores", "scaled_scores", "capped_scores", "weights")
FACTS: dict[str, Any] = {"positions": Positions, "position_base": float, "text": str | None}

Facts = Mapping[str, Any]


def cells_of(trace: Trace) -> int:
    """How many weights there are, of all heads of all layers."""
    shapes = ((each.heads, *each.visible.shape[-2:]) for each in trace.layers)
    return sum(heads * queries * keys for heads, queries, keys in shapes)


def too_many(trace: Trace) -> bool:
    """Whether there are very many weights, and all of them can be made again."""
    heard = all(isinstance(each.asked, OnDemand) for each in trace.layers)
    return heard and isinstance(trace.origin, FromTransformer) and cells_of(trace) > MOST_CELLS


def refusal_to_store(trace: Trace) -> str:
    """What is left out."""
    return (
        f"scores and weights, {cells_of(trace):,} of each, are left out of the file: --trace "
        "computes them again from the queries and keys in it"
    )


def transformer_facts(origin: FromTransformer) -> dict[str, Any]:
    return {"card": asdict(origin.card)} | {name: getattr(origin, name) for name in FACTS}


def read_transformer_origin(settings: Settings, facts: Facts) -> FromTransformer:
    """The origin that a file tells of; its model is loaded only if somebody names it again."""
    if settings.model is None or settings.model in names():
        raise ValueError(settings.model)
    odd = [name for name, hint in FACTS.items() if not fits(facts[name], hint)]
    if odd:
        raise TypeError(odd)
    card = of_their_types(TrainedCard, facts["card"])
    return FromTransformer(settings=settings, card=card, **{name: facts[name] for name in FACTS})


def soft_cap_of(layer: Layer) -> float | None:
    """The cap that bends scores, where they are made again."""
    return layer.asked.heard.soft_cap if isinstance(layer.asked, OnDemand) else None


def is_stored(layer: Layer, card: TrainedCard) -> bool:
    """Whether it was read from a file, which holds no matrices of a model."""
    if isinstance(layer.asked, OnDemand):
        return layer.asked.heard.module is None
    return not card.fallback


def on_demand(
    found: Mapping[str, Tensor], number: int, scale: float, origin: FromTransformer, cap: object
) -> OnDemand:
    """Attention that is worked out from queries and keys, as it was when they were heard."""
    if not fits(cap, float | None):
        raise TypeError(cap)
    off = heads_off(origin.settings.without)
    heard = Heard(
        which=origin.card.which,
        layer=number,
        inputs=found["inputs"],
        memory=found.get("key_inputs"),
        queries=found["queries"],
        keys=found["keys"],
        values=found["values"],
        visible=found["visible"].bool(),
        added=found.get("mask"),
        bias=found.get("bias"),
        scale=scale,
        soft_cap=cap if isinstance(cap, int | float) else None,
        sink=found.get("sink"),
        off={head: how for (layer, head), how in off.items() if layer == number},
    )
    return OnDemand(heard, Remade(heard))


KEPT_OF_EXTERNAL = ("weights", "visible")  # of a layer: there is nothing else


def external_facts(origin: FromWeights) -> dict[str, Any]:
    """What is kept of it beside its arrays."""
    which = {"item": origin.matrices.item, "items": origin.matrices.items}
    return {"name": origin.name, "stored_as": origin.stored_as, **which}


def read_external_origin(settings: Settings, facts: Facts) -> FromWeights:
    """The origin that a file tells of."""
    item, items = int(facts["item"]), int(facts["items"])
    named = {
        "settings": settings,
        "matrices": Matrices(item=item, items=items),
        "name": facts["name"],
        "stored_as": facts["stored_as"],
    }
    return of_their_types(FromWeights, named)


def read_external_layer(
    number: int, facts: Facts, found: Mapping[str, Tensor], *, others: bool
) -> Layer:
    """A layer as it was, reading others than its own tokens where it did."""
    weights = found["weights"]
    _, queries, keys = weights.shape
    return layer_of(
        number,
        weights,
        visible=found["visible"].bool(),
        inputs=weights.new_zeros(queries, 0),
        key_inputs=weights.new_zeros(keys, 0) if others else None,
        given=frozenset(facts["given"]),
    )
