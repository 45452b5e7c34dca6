"""Converts a Trace to named arrays and facts (docs/numbers.md), and its origin back.

"Contents" are everything in a file, as JSON data and arrays; "facts" are JSON data that is needed,
beside the arrays, to read something back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.attention.block import Block
from attnviz.attention.long_attention import (
    AttentionSummary,
    LongAttention,
    SummaryChoice,
    summarize_part,
)
from attnviz.attention.mask_rule import MaskRule
from attnviz.errors import opt, warn_with_note
from attnviz.options.values import Pool, Positions
from attnviz.tokens.tokens import Tokens
from attnviz.traces.long_weights import LongWeights
from attnviz.traces.matrices import TOKEN_LIST_NAMES
from attnviz.traces.matrix_names import flatten_layers
from attnviz.traces.models.answers import Prediction
from attnviz.traces.models.card import Card, card_of_facts, facts_of_card
from attnviz.traces.models.model import Model, Sight, build_model
from attnviz.traces.models.model_names import shipped_names
from attnviz.traces.origin import (
    FromExample,
    FromMatrices,
    FromModel,
    FromProgram,
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
from attnviz.traces.settings import Settings
from attnviz.traces.structured_text import build_checked, fits_type
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.trained.captured_attention import (
    WeightsOnDemand,
)
from attnviz.traces.weights import tensor_to_numpy
from attnviz.wording.commands import is_path, path_in_command, path_without_folders

Contents = dict[str, Any]  # arrays, numbers, texts, lists, and nested contents
Facts = Mapping[str, Any]

TRACE_FORMAT_VERSION = 1
HANDWRITTEN_FIELDS = ("asks", "hands")  # of a Model, beside the fields of every Card
MAX_SAVED_CELLS = 2**22  # weights of all heads at one stage: 50 MB for all stages
RECOMPUTED_PARTS = ("scores", "scaled_scores", "capped_scores", "weights")
UNSTREAMED_PARTS = (  # matrices of queries × keys, which a long text has none of
    *RECOMPUTED_PARTS,
    *("bias", "mask", "visible", "weights_after_dropout", "weights_by_hand"),
)
MEASURED_FIELDS = (  # of an AttentionSummary, beside its map
    *("hidden", "contexts", "log_sums", "received", "by_distance"),
    *("entropy", "largest_weight", "largest_position"),
    *("on_first", "on_self", "on_previous", "mean_distance"),
)
EXTERNAL_PARTS = ("weights", "visible")  # the only arrays of an external layer
TRANSFORMER_FACT_TYPES: dict[str, Any] = {
    "positions": Positions,
    "position_base": float,
    "text": str | None,
}
ORIGIN_KINDS: dict[type, str] = {
    FromSeed: "drawn",
    FromMatrices: "given",
    FromProgram: "heard",
    FromExample: "example",
    FromModel: "model",
    FromTransformer: "transformer",
    FromWeights: "weights",
}


def trace_contents(trace: Trace) -> Contents:
    """Return everything in a Trace except its provenance, as nested dicts of arrays and JSON data.

    Tensors that a layer does not have are None. Warns when the weights are left out because there
    are very many.
    """
    contents: Contents = {
        "text": trace.tokens.text,
        "tokens": _token_contents(trace.tokens),
        "variant": trace.variant.name,
        **({} if trace.external_origin else {"embeddings": tensor_to_numpy(trace.embeddings)}),
        "layers": [_layer_contents(trace, layer) for layer in trace.layers],
    }
    if omits_weights(trace):
        warn_with_note(
            f"scores and weights, {count_weights(trace):,} of each, are left out of the file: "
            f"{opt.trace} computes them again from the queries and keys in it"
        )
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
        vectors, all_heads = trace.outputs.vectors, trace.outputs.with_all_heads
        tensors = {"vectors": vectors, "vectors_with_all_heads": all_heads}
        contents["outputs"] = _tensors_to_numpy(tensors)
    return contents | _origin_contents(trace.origin) | {"trace": _trace_facts(trace)}


def _prediction_contents(trace: Trace, prediction: Prediction) -> Contents:
    """Return the answers, the positions (from 1) they are predicted for, and the arrays by name.

    The answers of a trained transformer are tokens: their ids tell those with the same label apart.
    """
    tensors = {part.data: part.find(trace, trace.layers[-1]) for part in PARTS_OF_PREDICTION}
    token_names = {"answer_ids": prediction.answer_ids, "answer_texts": prediction.answer_texts}
    return {
        "answers": list(prediction.answers),
        **{name: list(values) for name, values in token_names.items() if values},
        "asked": [position + 1 for position in prediction.asked_positions],
        **_tensors_to_numpy(tensors),
    }


def _token_contents(tokens: Tokens) -> Contents:
    """Return the ids, the labels, and the bytes (as hexadecimal text) of all tokens."""
    return {
        "ids": list(tokens.ids),
        "labels": list(tokens.labels),
        "bytes": [piece.hex() for piece in tokens.pieces],
    }


def _layer_contents(trace: Trace, layer: Layer) -> Contents:
    """Return the contents of a self-attention, and inside, of its cross-attention ("cross") and
    block.
    """
    contents = _attention_contents(trace, layer)
    if layer.cross is not None:
        contents["cross"] = _attention_contents(trace, layer.cross)
    if layer.block is not None:
        contents["block"] = _block_contents(trace, layer, layer.block)
    return contents


def _attention_contents(trace: Trace, layer: Layer) -> Contents:
    """Return the number, sizes and saved arrays of one attention; arrays that it lacks are None."""
    contents = {name: getattr(layer, name) for name in ("layer", "scale", "heads", "head_dim")}
    for part in PARTS_OF_ATTENTION:
        if part.data and _is_saved(trace, layer, part):
            tensor = part.find(trace, layer)
            contents[part.data] = None if tensor is None else tensor_to_numpy(tensor)
    return contents


def _is_saved(trace: Trace, layer: Layer, part: Part) -> bool:
    """Return whether a file holds this part of an attention.

    Not saved are: of a long text, matrices of queries × keys, except a given mask; of weights from
    outside attnviz, all but weights and mask; of a trained transformer, its matrices; and scores
    and weights where `omits_weights` is true.
    """
    if layer.long_weights is not None and part.data in UNSTREAMED_PARTS:
        return part.data == "visible" and layer.mask_rule.matrix is not None
    if trace.external_origin:
        return part.data in EXTERNAL_PARTS
    if part.learned:
        return trace.trained is None
    return part.data not in RECOMPUTED_PARTS or not omits_weights(trace)


def _block_contents(trace: Trace, layer: Layer, block: Block) -> Contents:
    """Return a block's activation and norm placement, the arrays of each residual connection by
    sub-layer, and the arrays of feed-forward.
    """
    residuals = {
        name: _tensors_to_numpy({part.data: part.find(residual) for part in PARTS_OF_RESIDUAL})
        for name, residual in block.residuals.items()
    }
    tensors = {part.data: part.find(trace, layer) for part in PARTS_OF_BLOCK if part.data}
    activation = block.feed_forward and block.feed_forward.parameters.activation
    return {
        "norm": block.norm_placement,
        **residuals,
        "activation": activation,
        **_tensors_to_numpy(tensors),
    }


def _tensors_to_numpy(tensors: Mapping[str, Tensor | None]) -> Contents:
    return {name: tensor_to_numpy(tensor) for name, tensor in tensors.items() if tensor is not None}


def _origin_contents(origin: Origin) -> Contents:
    """Return the arrays a Trace was computed from: only "model" for a model of attnviz, otherwise
    the given matrices ("given") and loaded embeddings ("vectors") if there are any.
    """
    model = origin_model(origin)
    if model is not None:
        return {"model": nest_arrays(_tensors_to_numpy(model.parameters))}
    contents: Contents = {}
    if not isinstance(origin, FromSeed) and origin.matrices.tensors_of_all_layers:
        arrays = _tensors_to_numpy(origin.matrices.tensors_of_all_layers)
        contents["given"] = nest_arrays(arrays)
    if not isinstance(origin, FromExample) and origin.vectors is not None:
        contents["vectors"] = tensor_to_numpy(origin.vectors)
    return contents


def _trace_facts(trace: Trace) -> Contents:
    """Return the JSON data that reading a Trace back needs beside the arrays."""
    prediction, answer_facts = trace.prediction, Contents()
    if (
        prediction is not None and prediction.answer_count is not None
    ):  # only the likeliest are kept
        answer_facts = {"answers": prediction.answer_count, "asks": list(prediction.asking_words)}
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
        "predicts": None if prediction is None else prediction.predicts,
        **answer_facts,
        "layers": [_layer_facts(layer) for layer in trace.layers],
        "origin": _origin_facts(trace.origin),
    }


def _token_facts(tokens: Tokens) -> Contents:
    facts = {"text": tokens.text, "spaced": list(tokens.spaced), "words": list(tokens.words)}
    more = {"special": sorted(tokens.special), "read": tokens.read}
    more |= {name: list(getattr(tokens, name)) for name in ("roles", "spans")}
    return facts | {name: value for name, value in more.items() if value}


def _layer_facts(layer: Layer) -> Contents:
    """Return the JSON data of one attention: names of given parts, mistake, switched-off heads …"""
    on_demand = layer.weights_on_demand
    return {
        "given": sorted(layer.given),
        "mistake": layer.mistake,
        "off": [[head, instead] for head, instead in layer.off.items()],
        "mixed_by": layer.attended.mixed_by,
        "soft_cap": (
            on_demand.captured.soft_cap if isinstance(on_demand, WeightsOnDemand) else None
        ),
        "cross": None if layer.cross is None else _layer_facts(layer.cross),
        **({} if layer.long_weights is None else {"streamed": _streamed_facts(layer.long_weights)}),
    }


def _streamed_facts(weights: LongWeights) -> Contents:
    """Return the JSON data by which the weights of a long text are computed again."""
    attention, rule = weights.attention, weights.attention.mask
    return {
        "resolution": weights.resolution,
        "pool": weights.pool,
        "before": rule.before,
        "after": rule.after,
        "offset": rule.offset,
        "soft_cap": attention.soft_cap,
        "slopes": None if attention.slopes is None else attention.slopes.tolist(),
    }


def restore_long_weights(
    facts: Facts, tensors: Mapping[str, Tensor], scale: float, measured: Contents | None
) -> LongWeights:
    """Return the weights of a long text from the facts of a file; with what was `measured` of them,
    if the file has that. Raises TypeError for facts of the wrong type, ValueError for others that
    do not fit.
    """
    streamed = build_checked(StreamedFacts, facts)
    queries = tensors["queries"]
    heads, slopes = len(queries), streamed.slopes
    if heads % len(tensors["keys"]) or (slopes is not None and len(slopes) != heads):
        raise ValueError(heads)
    Settings(resolution=streamed.resolution, pool=streamed.pool)  # which refuses others
    band = {name: getattr(streamed, name) for name in ("before", "after", "offset")}
    visible = tensors.get("visible")
    attention = LongAttention(
        queries=queries,
        keys=tensors["keys"],
        values=tensors["values"],
        scale=scale,
        mask=MaskRule(**band, matrix=None if visible is None else visible.bool()),
        soft_cap=streamed.soft_cap,
        slopes=None if slopes is None else torch.tensor(slopes).to(queries),
        w_score=tensors.get("w_score"),
    )
    weights = LongWeights(attention, streamed.resolution, streamed.pool)
    if measured is not None:
        vars(weights)["summary"] = read_summary(weights, measured)
    return weights


@dataclass(frozen=True, kw_only=True)
class StreamedFacts:
    """How the weights of a long text are computed again."""

    resolution: int
    pool: Pool
    before: int | None
    after: int | None
    offset: int
    soft_cap: float | None
    slopes: list[float] | None


def summary_contents(summary: AttentionSummary) -> Contents:
    """Return what was measured of one layer of a long text, as JSON data with arrays."""
    return {
        "map": tensor_to_numpy(summary.pooled),
        "queries_per_row": summary.row_height,
        "keys_per_column": summary.column_width,
        "pool": summary.pool,
        "distance_edges": np.asarray(summary.distance_edges),
        **{name: tensor_to_numpy(getattr(summary, name)) for name in MEASURED_FIELDS},
    }


def read_summary(weights: LongWeights, measured: Contents) -> AttentionSummary:
    """Return what a file says was measured of a long text.

    Raises ValueError if it does not fit the text.
    """
    attention = weights.attention
    empty = summarize_part(attention, [], SummaryChoice(weights.resolution, weights.pool))
    arrays = {"pooled": measured["map"]} | {name: measured[name] for name in MEASURED_FIELDS}
    tensors: dict[str, Any] = {}
    for name, numbers in arrays.items():
        like: Tensor = getattr(empty, name)
        tensor = torch.from_numpy(np.asarray(numbers)).to(like.dtype)
        if tensor.shape != like.shape or not (tensor < torch.inf).all():
            raise ValueError(name)
        tensors[name] = tensor
    return AttentionSummary(**(vars(empty) | tensors))


def _origin_facts(origin: Origin) -> Contents:
    """Return the JSON data of an origin: its kind ("drawn", "model", …), its settings with paths
    cut to file names, and its other fields that are no arrays.
    """
    model, table = origin_model(origin), origin_table(origin)
    facts: Contents = {
        "kind": ORIGIN_KINDS[type(origin)],
        # Without the folders: what the paths name is in this file, too.
        "settings": {
            name: path_in_command(name, value) if is_path(name) and value else value
            for name, value in asdict(origin.settings).items()
        },
    }
    if isinstance(origin, FromTransformer):
        facts["card"] = asdict(origin.card)
        facts |= {name: getattr(origin, name) for name in TRANSFORMER_FACT_TYPES}
    elif isinstance(origin, FromWeights):
        facts |= {"name": origin.name, "stored_as": origin.stored_as}
        facts |= {"item": origin.matrices.item, "items": origin.matrices.items}
    elif model is not None:
        facts["model"] = model_facts(model)
    elif not isinstance(origin, FromSeed):
        fact_names = ("item", "items", "heads", "kv_heads", *TOKEN_LIST_NAMES, "vocabulary")
        facts["matrices"] = {"source": path_without_folders(origin.matrices.source)} | {
            name: getattr(origin.matrices, name) for name in fact_names
        }
    if isinstance(origin, FromProgram):
        facts |= {"module": origin.module, "operation": origin.operation}
    if table is not None:
        facts["table"] = asdict(table)
    if isinstance(origin, FromExample):
        facts |= {"name": origin.name, "mistake": origin.mistake}
    return facts


def nest_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dicts in place of names with dots.

    >>> nest_arrays({"w_1": 2, "layers.1.w_1": 3})
    {'w_1': 2, 'layers': {'1': {'w_1': 3}}}
    """
    root: dict[str, Any] = {}
    for name, array in arrays.items():
        *outer_names, last_name = name.split(".")
        table = root
        for outer_name in outer_names:
            table = table.setdefault(outer_name, {})
        table[last_name] = array
    return root


def model_facts(model: Model) -> dict[str, Any]:
    """Return everything about a model of attnviz except its parameters, as JSON data."""
    return {
        **facts_of_card(model),
        **{
            name: {key: list(words) for key, words in getattr(model, name).items()}
            for name in HANDWRITTEN_FIELDS
        },
        "vocabulary": asdict(model.vocabulary),
        "sights": [[asdict(sight) for sight in layer] for layer in model.sights],
    }


def read_model(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> Model:
    """Build a model of attnviz from its JSON data and parameters, in the dtype of its card.

    Raises TypeError for values of the wrong type, and KeyError for missing ones.
    """
    card = card_of_facts(facts, facts["vocabulary"])
    dtype = torch.float64 if card.settings.dtype == "float64" else torch.float32
    numbers = {
        name: torch.from_numpy(np.array(array, np.float64)).to(dtype)
        for name, array in flatten_layers(arrays).items()
    }
    handwritten = {
        name: {key: tuple(map(str, words)) for key, words in facts[name].items()}
        for name in HANDWRITTEN_FIELDS
    }
    card_fields = {field.name: getattr(card, field.name) for field in fields(Card)} | handwritten
    sights = tuple(
        tuple(build_checked(Sight, sight) for sight in heads) for heads in facts["sights"]
    )
    return build_model(Card(**card_fields), numbers, sights)


def count_weights(trace: Trace) -> int:
    shapes = ((layer.heads, *layer.visible.shape[-2:]) for layer in trace.layers)
    return sum(heads * queries * keys for heads, queries, keys in shapes)


def omits_weights(trace: Trace) -> bool:
    """Return whether a file leaves out scores and weights.

    So it is for a trained transformer with more than MAX_SAVED_CELLS weights, if every layer can
    compute its weights again from queries and keys.
    """
    return (
        all(isinstance(layer.weights_on_demand, WeightsOnDemand) for layer in trace.layers)
        and isinstance(trace.origin, FromTransformer)
        and count_weights(trace) > MAX_SAVED_CELLS
    )


def read_transformer_origin(settings: Settings, facts: Facts) -> FromTransformer:
    """Return the origin of a trained transformer, which is not loaded, from the facts of a file.

    Raises ValueError for settings that name a small model of attnviz, or none where the model was
    not in memory, and TypeError for facts of the wrong type.
    """
    card = build_checked(TrainedCard, facts["card"])
    has_no_name = settings.model is None and not card.in_memory
    if has_no_name or settings.model in shipped_names():
        raise ValueError(settings.model)
    origin_facts = {name: facts[name] for name in TRANSFORMER_FACT_TYPES}
    refuse_other_types(origin_facts, TRANSFORMER_FACT_TYPES)
    return FromTransformer(settings=settings, card=card, **origin_facts)


def refuse_other_types(facts: Facts, types: Mapping[str, Any]) -> None:
    """Raise TypeError if a fact of a file lacks the type that `types` gives for its name."""
    wrong_names = [name for name, value in facts.items() if not fits_type(value, types[name])]
    if wrong_names:
        raise TypeError(wrong_names)


def is_from_archive(layer: Layer, card: TrainedCard) -> bool:
    """Return whether a layer of a trained transformer was read from a file, which holds no matrices
    of it; False wherever the transformer itself returned the weights.
    """
    if isinstance(layer.weights_on_demand, WeightsOnDemand):
        return layer.weights_on_demand.captured.module is None
    return not card.fallback
