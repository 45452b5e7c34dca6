"""Reads a Trace that was saved as `.npz` or `.json`, exact to the last digit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from attnviz.attention.arithmetic import MIXED_BY, AttentionStages
from attnviz.attention.block import Block, FeedForward, FeedForwardStages, Norm, Residual
from attnviz.attention.mask_rule import MaskRule
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import ACTIVATIONS, NORMS, Variant
from attnviz.errors import AttnvizError, cmd
from attnviz.machine import files, memory
from attnviz.options.values import Positions
from attnviz.tokens.tokens import Tokens
from attnviz.traces import archive, structured_text
from attnviz.traces.given_arrays import refuse_misfits
from attnviz.traces.long_weights import LongStages
from attnviz.traces.matrices import TOKEN_LIST_NAMES, Matrices
from attnviz.traces.matrix_names import LAYERS_KEY
from attnviz.traces.models.answers import AnswerScoring, Prediction
from attnviz.traces.models.model import unembedding_of
from attnviz.traces.models.vocabulary import PREDICTS
from attnviz.traces.origin import (
    FromExample,
    FromMatrices,
    FromModel,
    FromProgram,
    FromSeed,
    FromTransformer,
    FromWeights,
    Origin,
)
from attnviz.traces.parts import (
    PARTS_BY_GIVEN_NAME,
    PARTS_OF_ATTENTION,
    PARTS_OF_BLOCK,
    PARTS_OF_PREDICTION,
    PARTS_OF_RESIDUAL,
    TRACE_FILE_SUFFIXES,
    Part,
    ResidualPart,
)
from attnviz.traces.settings import ABLATION_VALUES, Settings, layer_heads_off, untrusted_settings
from attnviz.traces.structured_text import build_checked, fits_type
from attnviz.traces.trace import (
    BeforeRotary,
    Layer,
    Outputs,
    Projections,
    Provenance,
    Trace,
    weights_only_layer,
)
from attnviz.traces.trained.captured_attention import (
    CapturedAttention,
    RecomputedAttention,
    WeightsOnDemand,
)
from attnviz.traces.weights import Weights
from attnviz.vectors.arrays import COPIED_FLOAT_BYTES, read_numpy_arrays
from attnviz.vectors.embedding_tables import FromTable
from attnviz.wording.commands import parse_command
from attnviz.wording.keywords import with_checked_arguments

ATTENTION_SIDES = {part.data: part.sides for part in PARTS_OF_ATTENTION if part.data}
TRACE_FACT_TYPES = {
    "tokenizer": str,
    "vocabulary": int | None,
    "positions": Positions,
    "prompt": int | None,
}
BYTES_PER_JSON_BYTE = 2  # of memory, to read a JSON file
OPTIONAL_PARTS = (
    *("inputs", "vectors", "w_answers"),  # a transformer computes answers in its own way
    *("gain", "shift", "last_gain", "last_shift"),  # a model may have no LayerNorm,
    *("b_answers", "probabilities_with_all_heads"),  # no biases, no heads switched off
)
PROJECTION_NAMES = tuple(field.name for field in fields(Projections))
MALFORMED_TRACE_ERRORS = (
    *(KeyError, TypeError, ValueError, IndexError),
    *(AttributeError, RuntimeError, ArithmeticError),
)

Contents = Mapping[str, Any]
Anything = TypeVar("Anything")


@with_checked_arguments
def load(name: str) -> Trace:
    """Return the Trace in a file that `-o numbers.npz` or `-o numbers.json` wrote.

    Refuses other suffixes, missing files, comparisons, other format versions and malformed
    contents.

    >>> import tempfile
    >>> from attnviz import load, trace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace("I am").save(f"{folder}/numbers.npz")
    ...     load(f"{folder}/numbers.npz")
    <Trace 'I am': 2 tokens, 1 layer × 1 head>
    """
    path = Path(name)
    _refuse_other_suffix(path)
    try:
        contents = _read_contents(path)
        _refuse_other_contents(path, contents)
        return _TraceReader(str(path), contents).build_trace()
    except MALFORMED_TRACE_ERRORS:
        raise AttnvizError(
            f"'{path}' is not as attnviz wrote it: something in it is missing or of another kind",
            f"write it again with: {cmd.run:TEXT -o trace.npz}",
        ) from None


def _refuse_other_suffix(path: Path) -> None:
    """Refuse a path that does not end in .npz or .json, and a file that does not exist."""
    if path.suffix.lower() not in TRACE_FILE_SUFFIXES:
        raise AttnvizError(
            f"'{path}' is not a trace file",
            f"give one that ends in {' or '.join(TRACE_FILE_SUFFIXES)}",
        )
    files.refuse_missing_file(path, "read a trace from")


def _refuse_other_contents(path: Path, contents: Contents) -> None:
    """Refuse a file that holds a comparison, or a trace of another format version or none."""
    if "ways" in contents:
        raise AttnvizError(
            f"'{path}' holds a comparison, not a trace",
            f"write a trace with: {cmd.run:TEXT -o trace.npz}",
        )
    if contents.get("trace", {}).get("format") != archive.TRACE_FORMAT_VERSION:
        raise AttnvizError(
            f"'{path}' holds no trace that can be read again",
            f"write one with: {cmd.run:TEXT -o trace.npz}",
        )


def _read_contents(path: Path) -> Contents:
    """Return the contents of a .json or .npz file in one form: nested dicts, with a list of layers.

    Refuses a JSON file that does not fit in memory.
    """
    if path.suffix.lower() == ".json":
        size = BYTES_PER_JSON_BYTE * path.stat().st_size
        memory.refuse_too_little_memory(size, f"to read '{path}' again")
        text = structured_text.read_text_file(path, "trace")
        return structured_text.parse_json_object(text, path)
    contents = archive.nest_arrays(
        read_numpy_arrays(path, texts=True, bytes_of=lambda name: COPIED_FLOAT_BYTES)
    )
    for name in {"attnviz", "trace"} & contents.keys():
        contents[name] = json.loads(str(contents[name]))
    if layers := contents.get("layers"):
        contents["layers"] = [layers[str(number)] for number in range(len(layers))]
    return contents


class _TraceReader:
    """A reader of the contents of one file, which builds a Trace from them."""

    def __init__(self, source: str, contents: Contents) -> None:
        """Keep the contents and their provenance, without a command that is not one of attnviz."""
        self.source = source
        self.contents = contents
        self.facts: Contents = contents["trace"]
        provenance = build_checked(Provenance, contents["attnviz"])
        is_command = parse_command(provenance.command or "") is not None  # of attnviz, not a shell
        self.provenance = provenance if is_command else replace(provenance, command=None)
        self.dtype: torch.dtype = getattr(torch, self.provenance.dtype)

    def build_trace(self) -> Trace:
        """Return the Trace; malformed contents raise ValueError, TypeError, KeyError, …."""
        tokens = self._read_tokens("tokens")
        if self.is_external:
            embeddings = torch.zeros(len(tokens), 0, dtype=self.dtype)
        else:
            embeddings = self._read_tensor(self.contents["embeddings"])
        trace_facts: dict[str, Any] = {name: self.facts.get(name) for name in TRACE_FACT_TYPES}
        archive.refuse_other_types(trace_facts, TRACE_FACT_TYPES)
        layers = zip(self.contents["layers"], self.facts["layers"], strict=True)
        trace = Trace(
            tokens=tokens,
            keys=self._read_tokens("key_tokens") if self.facts["key_tokens"] else tokens,
            memory=self._read_tokens("memory_tokens") if self.facts["memory_tokens"] else None,
            **trace_facts,
            variant=build_checked(Variant, self.facts["variant"]),
            embeddings=embeddings,
            layers=tuple(self._read_layer(*layer) for layer in layers),
            prediction=self._read_prediction(),
            outputs=self._read_outputs(),
            origin=self._read_origin(),
            provenance=self.provenance,
        )
        _refuse_inconsistent_trace(trace)
        return trace

    @property
    def is_external(self) -> bool:
        return bool(self.facts["origin"]["kind"] == "weights")

    def _read_tokens(self, name: str) -> Tokens:
        """Return the tokens stored as "tokens", "key_tokens" or "memory_tokens"."""
        stored, facts = self.contents[name], self.facts[name]
        token_fields = {
            "text": facts["text"],
            "pieces": tuple(bytes.fromhex(str(piece)) for piece in stored["bytes"]),
            "ids": tuple(np.asarray(stored["ids"], dtype=np.int64).tolist()),
            "spaced": tuple(facts["spaced"]),
            "words": tuple(facts["words"]),
            "special": frozenset(facts.get("special", ())),
            "read": facts.get("read", ""),
            **{name: tuple(map(tuple, facts.get(name, ()))) for name in ("roles", "spans")},
        }
        return build_checked(Tokens, token_fields)

    def _read_tensor(self, value: Any, *, unscored: bool = False) -> Tensor:
        """Return numbers as a tensor in the dtype of the run, and truth values as bool.

        Raises TypeError for anything else, and ValueError for NaN and +∞, which `unscored` allows:
        positions without answers have NaN.
        """
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(array.dtype)
        tensor = torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
        if tensor.dtype == torch.bool:
            return tensor
        tensor = tensor.to(self.dtype)
        if not (tensor < torch.inf).all() and not unscored:  # -inf is a score that a mask hides
            raise ValueError("NaN, or infinity, which no trace has")
        return tensor

    def _read_layer(self, stored: Contents, facts: Contents) -> Layer:
        """Return a layer with its cross-attention and block; of external weights, these alone."""
        if self.is_external:
            tensors = {name: self._read_tensor(stored[name]) for name in archive.EXTERNAL_PARTS}
            refuse_misfits(tensors, ATTENTION_SIDES, {}, self.source)
            weights = tensors["weights"]
            _, queries, keys = weights.shape
            return weights_only_layer(
                int(stored["layer"]),
                weights,
                visible=tensors["visible"].bool(),
                inputs=weights.new_zeros(queries, 0),  # whose vectors are not known
                key_inputs=weights.new_zeros(keys, 0) if self.facts["key_tokens"] else None,
                given_parts=frozenset(facts["given"]),
            )
        cross, block = stored.get("cross"), stored.get("block")
        return self._read_attention(
            stored,
            facts,
            cross=self._read_attention(cross, facts["cross"]) if cross else None,
            block=self._read_block(block) if block else None,
        )

    def _read_attention(self, stored: Contents, facts: Contents, **cross_and_block: Any) -> Layer:
        """Return one attention; its weights are computed on demand if the file leaves them out.

        Refuses tensors whose shapes do not fit together. `cross_and_block` are further fields of
        Layer.
        """
        tensors = {
            name: self._read_tensor(stored[name])
            for name in ATTENTION_SIDES
            if stored.get(name) is not None
        }
        refuse_misfits(tensors, ATTENTION_SIDES, {}, self.source)
        before_rotary = None
        if "queries_before_rotary" in tensors:
            queries, keys = tensors["queries_before_rotary"], tensors["keys_before_rotary"]
            before_rotary = BeforeRotary(queries, keys)
        projections = {name: tensors.get(name) for name in PROJECTION_NAMES}
        has_projections = any(tensor is not None for tensor in projections.values())
        optional: dict[str, Any] = {
            name: tensors.get(name) for name in ("key_inputs", "queries", "keys", "memory")
        }
        attended, on_demand, mask_rule = self._read_weights(tensors, stored, facts)
        return Layer(
            layer=int(stored["layer"]),
            scale=float(stored["scale"]),
            head_dim=int(stored["head_dim"]),
            inputs=tensors["inputs"],
            projections=Projections(**projections) if has_projections else None,
            before_rotary=before_rotary,
            values=tensors["values"],
            mask_rule=mask_rule,
            attended=attended,
            weights_on_demand=on_demand,
            context=tensors["context"],
            given=frozenset(facts["given"]),
            mistake=_match_choice(("", *MISTAKES), facts["mistake"]),
            off={
                int(head): _match_choice(ABLATION_VALUES, instead) for head, instead in facts["off"]
            },
            **optional,
            **cross_and_block,
        )

    def _read_weights(
        self, tensors: Mapping[str, Tensor], stored: Contents, facts: Contents
    ) -> tuple[AttentionStages, Weights | None, MaskRule]:
        """Return the stages, weights that are computed when they are shown (or None), and the mask
        of one attention.
        """
        streamed = facts.get("streamed")
        if streamed is not None:
            measured = self.contents.get("maps", {}).get(f"L{int(stored['layer'])}")
            is_cross = "memory" in tensors
            scale, maps = float(stored["scale"]), None if is_cross else measured
            long_weights = archive.restore_long_weights(streamed, tensors, scale, maps)
            stages = LongStages(long_weights, tensors["contexts"])
            return stages, long_weights, long_weights.attention.mask
        rule = MaskRule(matrix=tensors["visible"].bool())
        if "weights" in tensors:
            return _build_attended(tensors, facts), None, rule
        on_demand = self._read_on_demand(tensors, rule, stored, facts)
        return on_demand.recomputed, on_demand, rule

    def _read_on_demand(
        self, tensors: Mapping[str, Tensor], rule: MaskRule, stored: Contents, facts: Contents
    ) -> WeightsOnDemand:
        """Return the weights of a trained transformer that the file leaves out, computed, when
        shown, from queries and keys, with the heads off that the origin's settings name.

        Raises TypeError for a Trace of any other origin, or a soft cap that is no number.
        """
        origin = self._read_origin()
        if not isinstance(origin, FromTransformer):
            raise TypeError(origin)
        number, soft_cap = int(stored["layer"]), facts["soft_cap"]
        if not fits_type(soft_cap, float | None):
            raise TypeError(soft_cap)
        captured = CapturedAttention(
            kind=origin.card.which,
            layer=number,
            inputs=tensors["inputs"],
            memory=tensors.get("key_inputs"),
            queries=tensors["queries"],
            keys=tensors["keys"],
            values=tensors["values"],
            mask=rule,
            mask_scores=tensors.get("mask"),
            bias=tensors.get("bias"),
            scale=float(stored["scale"]),
            soft_cap=soft_cap,
            sink=tensors.get("sink"),
            off=layer_heads_off(origin.settings.without, number),
        )
        return WeightsOnDemand(captured, RecomputedAttention(captured))

    def _read_block(self, stored: Contents) -> Block:
        """Return the residual connections of a block, and its feed-forward if the file has one."""
        return Block(
            norm_placement=_match_choice(NORMS, stored["norm"]),
            attention=self._read_residual(stored["attention"]),
            cross=self._read_residual(stored["cross"]) if stored.get("cross") else None,
            feed_forward=self._read_feed_forward(stored) if stored.get("feed_forward") else None,
        )

    def _read_feed_forward(self, stored: Contents) -> FeedForwardStages:
        """Return hidden vectors, matrices, activation and residual connection of feed-forward."""
        tensors = self._read_parts(PARTS_OF_BLOCK, stored)
        matrices = {name: tensors[name] for name in ("w_1", "b_1", "w_2", "b_2")}
        activation = _match_choice(ACTIVATIONS, stored["activation"])
        return FeedForwardStages(
            self._read_residual(stored["feed_forward"]),
            tensors["hidden"],
            FeedForward(**matrices, activation=activation),
        )

    def _read_parts(
        self, parts: Sequence[Part | ResidualPart], stored: Contents
    ) -> dict[str, Tensor]:
        """Return the tensors of the parts of a table, by name, without missing optional ones.

        Refuses tensors whose shapes do not fit together; raises KeyError for other missing ones.
        """
        parts_by_name = {part.data: part for part in parts if part.data}
        tensors = {
            name: self._read_tensor(stored[name], unscored=parts is PARTS_OF_PREDICTION)
            for name in parts_by_name
            if name not in OPTIONAL_PARTS or stored.get(name) is not None
        }
        sides = {name: part.sides for name, part in parts_by_name.items()}
        refuse_misfits(tensors, sides, {}, self.source)
        return tensors

    def _read_residual(self, stored: Contents) -> Residual:
        """Return one residual connection, without LayerNorm if no gain is stored."""
        tensors = self._read_parts(PARTS_OF_RESIDUAL, stored)
        return Residual(
            norm=Norm(tensors["gain"], tensors["shift"]) if "gain" in tensors else None,
            inputs=tensors["inputs"],
            sublayer_inputs=tensors["read"],
            sublayer_outputs=tensors["made"],
            added=tensors["added"],
            outputs=tensors["outputs"],
        )

    def _read_prediction(self) -> Prediction | None:
        """Return the prediction, with positions from 0; None if the file has none."""
        stored = self.contents.get("prediction")
        if not stored:
            return None
        tensors = self._read_parts(PARTS_OF_PREDICTION, stored)
        return Prediction(
            answers=tuple(map(str, stored["answers"])),
            answer_ids=tuple(map(int, stored.get("answer_ids", ()))),
            answer_texts=tuple(map(str, stored.get("answer_texts", ()))),
            predicts=_match_choice(PREDICTS, self.facts["predicts"]),
            scoring=_build_scoring(tensors),
            logits=tensors["logits"],
            probabilities=tensors["probabilities"],
            asked_positions=tuple(int(position) - 1 for position in stored["asked"]),
            with_all_heads=tensors.get("probabilities_with_all_heads"),
            asking_words=tuple(map(str, self.facts.get("asks", ()))),
            answer_count=self.facts.get("answers"),
        )

    def _read_outputs(self) -> Outputs | None:
        """Return the last vectors of a trained transformer; None if the file has none."""
        stored = self.contents.get("outputs")
        if not stored:
            return None
        tensors = {name: self._read_tensor(numbers) for name, numbers in stored.items()}
        refuse_misfits(tensors, dict.fromkeys(tensors, "token dim"), {}, self.source)
        return Outputs(tensors["vectors"], tensors.get("vectors_with_all_heads"))

    def _read_origin(self) -> Origin:
        """Return the stored origin, with settings that permit nothing and cause no download."""
        facts = self.facts["origin"]
        settings = build_checked(Settings, untrusted_settings(facts["settings"]))
        if facts["kind"] == "transformer":
            return archive.read_transformer_origin(settings, facts)
        if self.is_external:
            matrices = Matrices(item=int(facts["item"]), items=int(facts["items"]))
            names = {name: facts[name] for name in ("name", "stored_as")}
            return build_checked(FromWeights, {"settings": settings, "matrices": matrices, **names})
        if facts.get("model") is not None:
            return self._read_model_origin(settings, facts)
        vectors, table = self.contents.get("vectors"), facts.get("table")
        vector_fields: dict[str, Any] = {
            "vectors": None
            if vectors is None
            else torch.from_numpy(np.asarray(vectors, np.float64)),
            "table": None if table is None else build_checked(FromTable, table),
        }
        if facts["kind"] == "drawn":
            return FromSeed(settings=settings, **vector_fields)
        matrices = self._read_matrices(facts["matrices"])
        if facts["kind"] == "given":
            return FromMatrices(settings=settings, matrices=matrices, **vector_fields)
        if facts["kind"] == "heard":
            names = {name: facts[name] for name in ("module", "operation")}
            return build_checked(FromProgram, {"settings": settings, "matrices": matrices, **names})
        return FromExample(
            settings=settings, matrices=matrices, name=facts["name"], mistake=facts["mistake"]
        )

    def _read_model_origin(self, settings: Settings, facts: Contents) -> Origin:
        """Return the origin of a Trace of a model of attnviz, or of an example that uses one."""
        model = archive.read_model(facts["model"], self.contents["model"])
        if facts["kind"] == "example":
            names = {"name": facts["name"], "mistake": facts["mistake"]}
            return FromExample(settings=settings, matrices=model.matrices, model=model, **names)
        vectors = model.embeddings[list(self._read_tokens("tokens").ids)]
        return FromModel(settings=settings, matrices=model.matrices, model=model, vectors=vectors)

    def _read_matrices(self, facts: Contents) -> Matrices:
        """Return the given matrices of all layers as float64 or bool, not in the dtype of the run.

        Raises ValueError if there are matrices for more layers than the Trace has.
        """
        stored = self.contents.get("given", {})
        token_lists: dict[str, Any] = {
            name: None if facts.get(name) is None else tuple(facts[name])
            for name in TOKEN_LIST_NAMES
        }
        other_names = ("source", "item", "items", "vocabulary", "heads", "kv_heads")
        other_fields = {name: facts[name] for name in other_names}
        layers = stored.get(LAYERS_KEY, {})
        last = max(map(int, layers), default=0)
        if last >= len(self.contents["layers"]):
            raise ValueError(last)
        upper_layers = tuple(
            Matrices(**_given_tensors(layers.get(str(number), {}))) for number in range(1, last + 1)
        )
        return Matrices(
            **other_fields, **token_lists, **_given_tensors(stored), upper_layers=upper_layers
        )


def _refuse_inconsistent_trace(trace: Trace) -> None:
    """Raise ValueError if numbers of tokens and shapes of tensors disagree, if a predicted position
    is not in the text, or if there are no layers or no tokens.
    """
    for tokens in (trace.tokens, trace.keys, trace.memory or trace.tokens):
        if {len(tokens.pieces), len(tokens.spaced), len(tokens.labels)} != {len(tokens)}:
            raise ValueError(tokens)
    for layer in trace.attention_layers:
        shape = (len(trace.tokens), len(trace.keys_of(layer)))
        mask = layer.mask_rule.matrix
        is_misfit = mask is not None and mask.shape[-2:] != shape
        if is_misfit or layer.size != shape or len(trace.embeddings) != len(trace.tokens):
            raise ValueError(shape)
    if (prediction := trace.prediction) is not None:
        if prediction.logits.shape != (len(trace.tokens), len(prediction.answers)):
            raise ValueError(prediction.logits.shape)
        token_counts = {len(prediction.answer_ids), len(prediction.answer_texts)}
        if not token_counts <= {0, len(prediction.answers)} or len(token_counts) > 1:
            raise ValueError(prediction.answer_ids)
        if not set(prediction.asked_positions) <= set(range(len(trace.tokens))):
            raise ValueError(prediction.asked_positions)
    if not trace.layers or not len(trace.tokens):
        raise ValueError(trace)


def _match_choice(choices: tuple[Anything, ...], value: object) -> Anything:
    """Return the choice that is spelled like the value; raises ValueError if none is."""
    return choices[[str(choice) for choice in choices].index(str(value))]


def _build_scoring(tensors: Mapping[str, Tensor]) -> AnswerScoring | None:
    """Return the matrices by which a model of attnviz scores its answers; None for a transformer,
    whose scoring is not stored.
    """
    if "w_answers" not in tensors:
        return None
    inputs, vectors = tensors["inputs"], tensors["vectors"]
    return AnswerScoring(**vars(unembedding_of(tensors)), inputs=inputs, vectors=vectors)


def _build_attended(tensors: Mapping[str, Tensor], facts: Contents) -> AttentionStages:
    """Return the stages from scores to context vectors; `facts` say what changed the weights."""
    weights = tensors["weights"]
    mixing_names = {"dropout": "weights_after_dropout", "hand": "weights_by_hand"}
    mixed_by = _match_choice(MIXED_BY, facts["mixed_by"])
    mixing = tensors[mixing_names[mixed_by]] if mixed_by in mixing_names else weights
    optional = {name: tensors.get(name) for name in ("capped_scores", "bias", "mask", "sink")}
    return AttentionStages(
        scores=tensors["scores"],
        scaled_scores=tensors["scaled_scores"],
        weights=weights,
        mixing=mixing,
        mixed_by=mixed_by,
        contexts=tensors["contexts"],
        **optional,
    )


def _given_tensors(stored: Contents) -> dict[str, Any]:
    """Return the given matrices among the stored arrays of a layer, as float64 or bool, by name."""
    arrays = {name: np.asarray(stored[name]) for name in PARTS_BY_GIVEN_NAME if name in stored}
    return {
        name: torch.from_numpy(array if array.dtype == bool else array.astype(np.float64))
        for name, array in arrays.items()
    }
