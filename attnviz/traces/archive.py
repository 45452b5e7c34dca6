"""A Trace as data: everything under the names in docs/numbers.md, written and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.attention.block import Block
from attnviz.errors import warn_with_note
from attnviz.tokens.tokens import Tokens
from attnviz.traces import archive
from attnviz.traces import archive as handed
from attnviz.traces.layer_names import LAYERS, flatten_layers
from attnviz.traces.matrices import TOKEN_LIST_NAMES, Matrices
from attnviz.traces.models.card import Card, card_of_facts, facts_of_card
from attnviz.traces.models.model import Model, Sight, Sights, build_model
from attnviz.traces.models.names import shipped_names
from attnviz.traces.models.prediction import Prediction
from attnviz.traces.origin import (
    FromExample,
    FromMatrices,
    FromModel,
    FromSeed,
    FromTransformer,
    FromWeights,
    Origin,
    TrainedCard,
    origin_model,
    origin_table,
)
from attnviz.traces.parts import (
    PARTS_OF_ATTENTION,
    PARTS_OF_BLOCK,
    PARTS_OF_PREDICTION,
    PARTS_OF_RESIDUAL,
    Part,
)
from attnviz.traces.settings import Positions, Settings, parse_heads_off
from attnviz.traces.structured_text import build_checked, fits_type
from attnviz.traces.trace import Layer, Outputs, Trace, weights_only_layer
from attnviz.traces.trained.capture import CapturedAttention
from attnviz.traces.trained.recomputed_weights import RecomputedAttention, WeightsOnDemand
from attnviz.traces.weights import tensor_to_numpy
from attnviz.wording.commands import PATH_OPTIONS, path_in_command, path_without_folders

Contents = dict[str, Any]  # arrays, numbers, texts, lists, and contents again

TRACE_FORMAT_VERSION = 1  # of what is said about a Trace beside its arrays
ORIGIN_KINDS: dict[type, str] = {
    FromSeed: "drawn",
    FromMatrices: "given",
    FromExample: "example",
    FromModel: "model",
    FromTransformer: "transformer",
    FromWeights: "weights",
}


def trace_contents(trace: Trace) -> Contents:
    """Everything in a Trace but its provenance, by name; None is what the trace has not."""
    contents: Contents = {
        "text": trace.tokens.text,
        "tokens": _token_contents(trace.tokens),
        "variant": trace.variant.name,
        **_embedding_contents(trace),
        "layers": [_layer_contents(trace, layer) for layer in trace.layers],
    }
    if archive.omits_weights(trace):
        warn_with_note(archive.omitted_weights_note(trace))
    if trace.keys is not trace.tokens:
        contents |= {"key_text": trace.keys.text, "key_tokens": _token_contents(trace.keys)}
    if trace.memory is not None:
        contents |= {
            "memory_text": trace.memory.text,
            "memory_tokens": _token_contents(trace.memory),
        }
    if trace.prediction is not None:
        contents["prediction"] = _prediction_contents(trace, trace.prediction)
    if trace.outputs is not None:
        contents["outputs"] = _output_contents(trace.outputs)
    return contents | _origin_contents(trace.origin) | {"trace": _trace_facts(trace)}


def _embedding_contents(trace: Trace) -> Contents:
    """The vectors of the tokens, where there are any."""
    return {} if trace.handed else {"embeddings": tensor_to_numpy(trace.embeddings)}


def _prediction_contents(trace: Trace, prediction: Prediction) -> Contents:
    """What is answered, in the order of the answers; and at which places anything is asked."""
    tensors = {part.data: part.find(trace, trace.layers[-1]) for part in PARTS_OF_PREDICTION}
    asked_positions = [position + 1 for position in prediction.asked]
    return {
        "answers": list(prediction.answers),
        "asked": asked_positions,
        **_tensors_to_numpy(tensors),
    }


def _output_contents(outputs: Outputs) -> Contents:
    """What a trained model makes of each token in the end, and what it would with all heads."""
    tensors = {"vectors": outputs.vectors, "vectors_with_all_heads": outputs.with_all_heads}
    return _tensors_to_numpy(tensors)


def _token_contents(tokens: Tokens) -> Contents:
    return {
        "ids": list(tokens.ids),
        "labels": list(tokens.labels),
        "bytes": [piece.hex() for piece in tokens.pieces],
    }


def _layer_contents(trace: Trace, layer: Layer) -> Contents:
    contents = _attention_contents(trace, layer)
    if layer.cross is not None:
        contents["cross"] = _attention_contents(trace, layer.cross)
    if layer.block is not None:
        contents["block"] = _block_contents(trace, layer, layer.block)
    return contents


def _attention_contents(trace: Trace, layer: Layer) -> Contents:
    parts = [part for part in PARTS_OF_ATTENTION if part.data and _is_saved(trace, part)]
    tensors = {part.data: part.find(trace, layer) for part in parts}
    return {
        "layer": layer.layer,
        "scale": layer.scale,
        "heads": layer.heads,
        "head_dim": layer.head_dim,
        **{
            name: None if tensor is None else tensor_to_numpy(tensor)
            for name, tensor in tensors.items()
        },
    }


def _is_saved(trace: Trace, part: Part) -> bool:
    """No matrix of a trained model is; and of very many weights only what they are made of.

    Of weights that were computed elsewhere nothing else is there.
    """
    if trace.handed:
        return part.data in handed.EXTERNAL_PARTS
    if part.learned:
        return trace.trained is None
    return part.data not in archive.RECOMPUTED_PARTS or not archive.omits_weights(trace)


def _block_contents(trace: Trace, layer: Layer, block: Block) -> Contents:
    """What surrounds attention: each sub-layer with its residual, and the feed-forward matrices."""
    residuals = {
        name: _tensors_to_numpy({part.data: part.find(residual) for part in PARTS_OF_RESIDUAL})
        for name, residual in block.residuals.items()
    }
    tensors = {part.data: part.find(trace, layer) for part in PARTS_OF_BLOCK if part.data}
    return {
        "norm": block.norm_placement,
        **residuals,
        "activation": None
        if block.feed_forward is None
        else block.feed_forward.parameters.activation,
        **_tensors_to_numpy(tensors),
    }


def _tensors_to_numpy(tensors: Mapping[str, Tensor | None]) -> Contents:
    return {name: tensor_to_numpy(tensor) for name, tensor in tensors.items() if tensor is not None}


def _origin_contents(origin: Origin) -> Contents:
    """The matrices that were given, and the vectors of a file, to the last digit."""
    model = origin_model(origin)
    if model is not None:
        return {"model": model_arrays(model)}
    contents: Contents = {}
    if not isinstance(origin, FromSeed) and origin.matrices.tensors_of_all_layers:
        contents["given"] = _given_contents(origin.matrices)
    if not isinstance(origin, FromExample) and origin.vectors is not None:
        contents["vectors"] = tensor_to_numpy(origin.vectors)
    return contents


def _given_contents(matrices: Matrices) -> Contents:
    """Of layers above the first under their numbers."""
    contents = {name: tensor_to_numpy(each) for name, each in matrices.tensors.items()}
    upper_layers = {
        str(number): _given_contents(each)
        for number, each in enumerate(matrices.upper_layers, start=1)
    }
    return {**contents, LAYERS: upper_layers} if upper_layers else contents


def _trace_facts(trace: Trace) -> Contents:
    """What there is beside arrays, so that the Trace can be read again."""
    return {
        "format": TRACE_FORMAT_VERSION,
        "tokenizer": trace.tokenizer,
        "vocabulary": trace.vocabulary,
        "positions": trace.positions,
        "prompt": trace.prompt,
        "variant": asdict(trace.variant),
        "tokens": _token_facts(trace.tokens),
        "key_tokens": None if trace.keys is trace.tokens else _token_facts(trace.keys),
        "memory_tokens": None if trace.memory is None else _token_facts(trace.memory),
        "predicts": None if trace.prediction is None else trace.prediction.predicts,
        **_answer_facts(trace.prediction),
        "layers": [_layer_facts(layer) for layer in trace.layers],
        "origin": _origin_facts(trace.origin),
    }


def _answer_facts(prediction: Prediction | None) -> Contents:
    """Of how many answers the likeliest are kept, if not all are."""
    if prediction is None or prediction.of is None:
        return {}
    return {"answers": prediction.of, "asks": list(prediction.asks)}


def _token_facts(tokens: Tokens) -> Contents:
    facts = {"text": tokens.text, "spaced": list(tokens.spaced), "words": list(tokens.words)}
    return facts | ({"special": sorted(tokens.special)} if tokens.special else {})


def _layer_facts(layer: Layer) -> Contents:
    return {
        "given": sorted(layer.given),
        "mistake": layer.mistake,
        "off": [[head, instead] for head, instead in layer.off.items()],
        "mixed_by": layer.attended.mixed_by,
        "soft_cap": archive.layer_soft_cap(layer),
        "cross": None if layer.cross is None else _layer_facts(layer.cross),
    }


def _origin_facts(origin: Origin) -> Contents:
    origin_facts: Contents = {
        "kind": ORIGIN_KINDS[type(origin)],
        "settings": _settings_facts(origin.settings),
    }
    model = origin_model(origin)
    if isinstance(origin, FromTransformer):
        origin_facts |= archive.transformer_facts(origin)
    elif isinstance(origin, FromWeights):
        origin_facts |= handed.external_facts(origin)
    elif model is not None:
        origin_facts["model"] = model_facts(model)
    elif not isinstance(origin, FromSeed):
        matrices = origin.matrices
        fact_names = ("item", "items", "heads", "kv_heads", *TOKEN_LIST_NAMES, "vocabulary")
        origin_facts["matrices"] = {"source": path_without_folders(matrices.source)} | {
            name: getattr(matrices, name) for name in fact_names
        }
    table = origin_table(origin)
    if table is not None:
        origin_facts["table"] = asdict(table)
    if isinstance(origin, FromExample):
        origin_facts |= {"name": origin.name, "mistake": origin.mistake}
    return origin_facts


def _settings_facts(settings: Settings) -> Contents:
    """What they name is in the file, too, so that nobody needs to know where it was."""
    return {
        name: path_in_command(name, value) if name in PATH_OPTIONS and value else value
        for name, value in asdict(settings).items()
    }


HANDWRITTEN_FIELDS = ("asks", "hands")  # of a model by hand, beside what every card says


def model_arrays(model: Model) -> dict[str, Any]:
    """Its numbers by name, those of layers above the first in tables of their own."""
    arrays: dict[str, Any] = {}
    for name, tensor in model.parameters.items():
        *outer_names, last_name = name.split(".")
        table = arrays
        for outer_name in outer_names:
            table = table.setdefault(outer_name, {})
        table[last_name] = tensor_to_numpy(tensor)
    return arrays


def model_facts(model: Model) -> dict[str, Any]:
    """All that it is beside its numbers."""
    return {
        **facts_of_card(model),
        **{
            name: {key: list(each) for key, each in getattr(model, name).items()}
            for name in HANDWRITTEN_FIELDS
        },
        "vocabulary": asdict(model.vocabulary),
        "sights": [[asdict(sight) for sight in layer] for layer in model.sights],
    }


def read_model(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> Model:
    """The model whose arrays and facts these are; what does not fit is a TypeError."""
    card = card_of_facts(facts, facts["vocabulary"])
    dtype = torch.float64 if card.settings.dtype == "float64" else torch.float32
    numbers = {
        name: torch.from_numpy(np.array(each, np.float64)).to(dtype)
        for name, each in flatten_layers(arrays).items()
    }
    handwritten = {
        name: {key: tuple(map(str, each)) for key, each in facts[name].items()}
        for name in HANDWRITTEN_FIELDS
    }
    card_fields = {each.name: getattr(card, each.name) for each in fields(Card)} | handwritten
    return build_model(Card(**card_fields), numbers, _parse_sights(facts["sights"]))


def _parse_sights(layers: Any) -> Sights:
    return tuple(tuple(build_checked(Sight, sight) for sight in heads) for heads in layers)


MAX_SAVED_CELLS = 2**22  # of all heads, at one stage on the way to weights: 50 MB of all stages
RECOMPUTED_PARTS = ("scores", "scaled_scores", "capped_scores", "weights")
TRANSFORMER_FACT_TYPES: dict[str, Any] = {
    "positions": Positions,
    "position_base": float,
    "text": str | None,
}

Facts = Mapping[str, Any]


def count_weights(trace: Trace) -> int:
    """How many weights there are, of all heads of all layers."""
    shapes = ((layer.heads, *layer.visible.shape[-2:]) for layer in trace.layers)
    return sum(heads * queries * keys for heads, queries, keys in shapes)


def omits_weights(trace: Trace) -> bool:
    """Whether there are very many weights, and all of them can be made again."""
    all_on_demand = all(
        isinstance(layer.weights_on_demand, WeightsOnDemand) for layer in trace.layers
    )
    return (
        all_on_demand
        and isinstance(trace.origin, FromTransformer)
        and count_weights(trace) > MAX_SAVED_CELLS
    )


def omitted_weights_note(trace: Trace) -> str:
    """What is left out."""
    return (
        f"scores and weights, {count_weights(trace):,} of each, are left out of the file: --trace "
        "computes them again from the queries and keys in it"
    )


def transformer_facts(origin: FromTransformer) -> dict[str, Any]:
    return {"card": asdict(origin.card)} | {
        name: getattr(origin, name) for name in TRANSFORMER_FACT_TYPES
    }


def read_transformer_origin(settings: Settings, facts: Facts) -> FromTransformer:
    """The origin that a file tells of; its model is loaded only if somebody names it again."""
    if settings.model is None or settings.model in shipped_names():
        raise ValueError(settings.model)
    wrong_names = [
        name for name, hint in TRANSFORMER_FACT_TYPES.items() if not fits_type(facts[name], hint)
    ]
    if wrong_names:
        raise TypeError(wrong_names)
    card = build_checked(TrainedCard, facts["card"])
    return FromTransformer(
        settings=settings, card=card, **{name: facts[name] for name in TRANSFORMER_FACT_TYPES}
    )


def layer_soft_cap(layer: Layer) -> float | None:
    """The cap that bends scores, where they are made again."""
    return (
        layer.weights_on_demand.captured.soft_cap
        if isinstance(layer.weights_on_demand, WeightsOnDemand)
        else None
    )


def is_from_archive(layer: Layer, card: TrainedCard) -> bool:
    """Whether it was read from a file, which holds no matrices of a model."""
    if isinstance(layer.weights_on_demand, WeightsOnDemand):
        return layer.weights_on_demand.captured.module is None
    return not card.fallback


def restore_on_demand(
    tensors: Mapping[str, Tensor],
    number: int,
    scale: float,
    origin: FromTransformer,
    soft_cap: object,
) -> WeightsOnDemand:
    """Attention that is worked out from queries and keys, as it was when they were heard."""
    if not fits_type(soft_cap, float | None):
        raise TypeError(soft_cap)
    switched_off = parse_heads_off(origin.settings.without)
    captured = CapturedAttention(
        which=origin.card.which,
        layer=number,
        inputs=tensors["inputs"],
        memory=tensors.get("key_inputs"),
        queries=tensors["queries"],
        keys=tensors["keys"],
        values=tensors["values"],
        visible=tensors["visible"].bool(),
        mask_scores=tensors.get("mask"),
        bias=tensors.get("bias"),
        scale=scale,
        soft_cap=soft_cap if isinstance(soft_cap, int | float) else None,
        sink=tensors.get("sink"),
        off={head: instead for (layer, head), instead in switched_off.items() if layer == number},
    )
    return WeightsOnDemand(captured, RecomputedAttention(captured))


EXTERNAL_PARTS = ("weights", "visible")  # of a layer: there is nothing else


def external_facts(origin: FromWeights) -> dict[str, Any]:
    """What is kept of it beside its arrays."""
    batch_item = {"item": origin.matrices.item, "items": origin.matrices.items}
    return {"name": origin.name, "stored_as": origin.stored_as, **batch_item}


def read_external_origin(settings: Settings, facts: Facts) -> FromWeights:
    """The origin that a file tells of."""
    item, items = int(facts["item"]), int(facts["items"])
    facts_and_settings = {
        "settings": settings,
        "matrices": Matrices(item=item, items=items),
        "name": facts["name"],
        "stored_as": facts["stored_as"],
    }
    return build_checked(FromWeights, facts_and_settings)


def read_external_layer(
    number: int, facts: Facts, tensors: Mapping[str, Tensor], *, reads_other_tokens: bool
) -> Layer:
    """A layer as it was, reading others than its own tokens where it did."""
    weights = tensors["weights"]
    _, queries, keys = weights.shape
    return weights_only_layer(
        number,
        weights,
        visible=tensors["visible"].bool(),
        inputs=weights.new_zeros(queries, 0),
        key_inputs=weights.new_zeros(keys, 0) if reads_other_tokens else None,
        given_parts=frozenset(facts["given"]),
    )
