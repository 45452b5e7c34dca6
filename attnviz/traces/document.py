"""The whole of a Trace under the names in docs/numbers.md: what a data file holds of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor

from attnviz.attention.block import Block
from attnviz.errors import mention
from attnviz.tokens.tokens import Tokens
from attnviz.traces.by_layer import LAYERS
from attnviz.traces.handed import stored as handed
from attnviz.traces.matrices import WORDS, Matrices
from attnviz.traces.models.prediction import Prediction
from attnviz.traces.models.stored import arrays_of, facts_of
from attnviz.traces.origin import (
    Drawn,
    FromExample,
    FromModel,
    FromTransformer,
    FromWeights,
    Given,
    Origin,
    model_behind,
    table_behind,
)
from attnviz.traces.part import Part
from attnviz.traces.parts import OF_ATTENTION, OF_BLOCK, OF_PREDICTION, OF_RESIDUAL
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Layer, Outputs, Trace
from attnviz.traces.trained import stored
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
    if stored.too_many(trace):
        mention(stored.told(trace))
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
        return part.data in handed.KEPT
    if part.learned:
        return trace.trained is None
    return part.data not in stored.MADE_AGAIN or not stored.too_many(trace)


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
        return {"model": arrays_of(model)}
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
        "soft_cap": stored.soft_cap_of(layer),
        "cross": None if layer.cross is None else _facts_of_layer(layer.cross),
    }


def _facts_of_origin(origin: Origin) -> Contents:
    named: Contents = {"kind": KINDS[type(origin)], "settings": _facts_of_settings(origin.settings)}
    model = model_behind(origin)
    if isinstance(origin, FromTransformer):
        named |= stored.facts_of(origin)
    elif isinstance(origin, FromWeights):
        named |= handed.facts_of(origin)
    elif model is not None:
        named["model"] = facts_of(model)
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
