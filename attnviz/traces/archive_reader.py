"""Reads a saved Trace from `.npz` or `.json`: the same to the last digit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from attnviz.attention.arithmetic import MIXED_BY, Attended
from attnviz.attention.block import Block, Fed, FeedForward, Norm, Residual
from attnviz.attention.mistakes import MISTAKES
from attnviz.attention.variants import ACTIVATIONS, NORMS, Variant
from attnviz.errors import AttnvizError
from attnviz.machine import files, memory
from attnviz.tokens.tokens import Tokens
from attnviz.traces import archive as handed
from attnviz.traces import archive as trained
from attnviz.traces import texts
from attnviz.traces.archive import FORMAT, read_model
from attnviz.traces.by_layer import LAYERS
from attnviz.traces.fitting import refuse_misfits
from attnviz.traces.matrices import WORDS, Matrices
from attnviz.traces.models.prediction import Prediction, Scoring
from attnviz.traces.models.vocabulary import PREDICTS
from attnviz.traces.origin import (
    Drawn,
    FromExample,
    FromModel,
    FromTransformer,
    Given,
    Origin,
)
from attnviz.traces.parts import (
    GIVEN,
    OF_ATTENTION,
    OF_BLOCK,
    OF_PREDICTION,
    OF_RESIDUAL,
    SAVED,
    Part,
    ResidualPart,
)
from attnviz.traces.settings import INSTEAD, Positions, Settings, as_information
from attnviz.traces.texts import fits, of_their_types
from attnviz.traces.trace import BeforeRotary, Layer, Outputs, Projections, Provenance, Trace
from attnviz.traces.trained.recomputed_weights import OnDemand
from attnviz.vectors.arrays import IN_FULL, numpy_arrays
from attnviz.vectors.static import FromTable
from attnviz.wording.commands import command_in
from attnviz.wording.keywords import of_its_kinds

SIDES = {part.data: part.sides for part in OF_ATTENTION if part.data}
SAID = {
    "tokenizer": str,
    "vocabulary": int | None,
    "positions": Positions,
    "prompt": int | None,
}
OF_A_BYTE = 2  # of JSON: how many bytes it takes to read it
MAY_LACK = (  # a block without a norm, a model without biases, or one that has all of its heads;
    "inputs",  # or a transformer, which has a way of its own from vectors to answers
    "vectors",
    "w_answers",
    "gain",
    "shift",
    "last_gain",
    "last_shift",
    "b_answers",
    "probabilities_with_all_heads",
)
PROJECTIONS = (
    "w_query",
    "w_key",
    "w_value",
    "w_score",
    "w_out",
    "b_query",
    "b_key",
    "b_value",
    "b_out",
)

Contents = Mapping[str, Any]
Anything = TypeVar("Anything")


@of_its_kinds
def read(name: str) -> Trace:
    """The Trace in a file that `-o numbers.npz` or `-o numbers.json` wrote.

    >>> import tempfile
    >>> from attnviz import read, trace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace("I am").save(f"{folder}/numbers.npz")
    ...     read(f"{folder}/numbers.npz")
    <Trace 'I am': 2 tokens, 1 layer × 1 head>
    """
    path = Path(name)
    _refuse_other_files(path)
    try:
        contents = _contents(path)
        _refuse_other_contents(path, contents)
        return _Reader(str(path), contents).trace()
    except ODD:
        # What attnviz wrote is whole; somebody has had their hands in this one.
        raise AttnvizError(
            f"'{path}' is not as attnviz wrote it: something in it is missing or of another kind",
            "write it again with: attnviz run TEXT -o trace.npz",
        ) from None


ODD = (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, ArithmeticError)


def _refuse_other_files(path: Path) -> None:
    if path.suffix.lower() not in SAVED:
        raise AttnvizError(
            f"'{path}' is not a trace file", f"give one that ends in {' or '.join(SAVED)}"
        )
    files.refuse_missing(path, "read a trace from")


def _refuse_other_contents(path: Path, contents: Contents) -> None:
    if "ways" in contents:
        raise AttnvizError(
            f"'{path}' holds a comparison, not a trace",
            "write a trace with: attnviz run TEXT -o trace.npz",
        )
    if contents.get("trace", {}).get("format") != FORMAT:
        raise AttnvizError(
            f"'{path}' holds no trace that can be read again",
            "write one with: attnviz run TEXT -o trace.npz",
        )


def _contents(path: Path) -> Contents:
    if path.suffix.lower() == ".json":
        memory.refuse_more(OF_A_BYTE * path.stat().st_size, f"to read '{path}' again")
        return texts.json_object(texts.read(path, "trace"), path)
    return _nested(numpy_arrays(path, texts=True, bytes_of=lambda name: IN_FULL))


def _nested(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """`layers.0.weights` as contents of contents; lists have numbers for names."""
    root: dict[str, Any] = {}
    for name, array in arrays.items():
        *outer, last = name.split(".")
        place = root
        for step in outer:
            place = place.setdefault(step, {})
        place[last] = array
    for name in ("attnviz", "trace"):
        if name in root:
            root[name] = json.loads(str(root[name]))
    if "layers" in root:
        root["layers"] = [root["layers"][str(number)] for number in range(len(root["layers"]))]
    return root


class _Reader:
    """The contents of one file on their way to a Trace."""

    def __init__(self, source: str, contents: Contents) -> None:
        self.source = source
        self.contents = contents
        self.facts: Contents = contents["trace"]
        said = of_their_types(Provenance, contents["attnviz"])
        alone = command_in(said.command or "") is not None  # or it is left out
        self.provenance = said if alone else replace(said, command=None)
        self.dtype: torch.dtype = getattr(torch, self.provenance.dtype)

    def trace(self) -> Trace:
        tokens = self._tokens("tokens")
        layers = zip(self.contents["layers"], self.facts["layers"], strict=True)
        trace = Trace(
            tokens=tokens,
            keys=self._tokens("key_tokens") if self.facts["key_tokens"] else tokens,
            memory=self._tokens("memory_tokens") if self.facts["memory_tokens"] else None,
            **self._said(),
            variant=of_their_types(Variant, self.facts["variant"]),
            embeddings=self._embeddings(len(tokens)),
            layers=tuple(self._layer(*each) for each in layers),
            prediction=self._prediction(),
            outputs=self._outputs(),
            origin=self._origin(),
            provenance=self.provenance,
        )
        _refuse_uneven(trace)
        return trace

    @property
    def handed(self) -> bool:
        """Whether they are weights that were computed elsewhere."""
        return bool(self.facts["origin"]["kind"] == "weights")

    def _embeddings(self, count: int) -> Tensor:
        """None are kept where there were none."""
        if self.handed:
            return torch.zeros(count, 0, dtype=self.dtype)
        return self._tensor(self.contents["embeddings"])

    def _said(self) -> dict[str, Any]:
        said = {name: self.facts.get(name) for name in SAID}
        odd = [name for name, hint in SAID.items() if not fits(said[name], hint)]
        if odd:
            raise TypeError(odd)
        return said

    def _tokens(self, name: str) -> Tokens:
        stored, facts = self.contents[name], self.facts[name]
        named = {
            "text": facts["text"],
            "pieces": tuple(bytes.fromhex(str(piece)) for piece in stored["bytes"]),
            "ids": tuple(np.asarray(stored["ids"], dtype=np.int64).tolist()),
            "spaced": tuple(facts["spaced"]),
            "words": tuple(facts["words"]),
            "special": frozenset(facts.get("special", ())),
        }
        return of_their_types(Tokens, named)

    def _tensor(self, value: Any, *, unscored: bool = False) -> Tensor:
        """Numbers; where answers may be `unscored` at most places, NaN among them."""
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

    def _layer(self, stored: Contents, facts: Contents) -> Layer:
        if self.handed:
            found = {name: self._tensor(stored[name]) for name in handed.KEPT_OF_EXTERNAL}
            refuse_misfits(found, {name: SIDES[name] for name in found}, {}, self.source)
            others = bool(self.facts["key_tokens"])
            return handed.read_external_layer(int(stored["layer"]), facts, found, others=others)
        cross, block = stored.get("cross"), stored.get("block")
        return self._attention(
            stored,
            facts,
            cross=self._attention(cross, facts["cross"]) if cross else None,
            block=self._block(block) if block else None,
        )

    def _attention(self, stored: Contents, facts: Contents, **rest: Any) -> Layer:
        found = {name: self._tensor(stored[name]) for name in SIDES if stored.get(name) is not None}
        refuse_misfits(found, SIDES, {}, self.source)
        before = "queries_before_rotary" in found
        asked = self._on_demand(found, stored, facts) if "weights" not in found else None
        return Layer(
            layer=int(stored["layer"]),
            scale=float(stored["scale"]),
            head_dim=int(stored["head_dim"]),
            inputs=found["inputs"],
            key_inputs=found.get("key_inputs"),
            projections=_if_any(Projections, {name: found.get(name) for name in PROJECTIONS}),
            before_rotary=BeforeRotary(found["queries_before_rotary"], found["keys_before_rotary"])
            if before
            else None,
            queries=found.get("queries"),
            keys=found.get("keys"),
            values=found["values"],
            visible=found["visible"].bool(),
            attended=_attended(found, facts) if asked is None else asked.remade,
            asked=asked,
            context=found["context"],
            memory=found.get("memory"),
            given=frozenset(facts["given"]),
            mistake=_one_of(("", *MISTAKES), facts["mistake"]),
            off={int(head): _one_of(INSTEAD, how) for head, how in facts.get("off", ())},
            **rest,
        )

    def _on_demand(
        self, found: Mapping[str, Tensor], stored: Contents, facts: Contents
    ) -> OnDemand:
        """Of a trained model that had very many weights."""
        origin = self._origin()
        if not isinstance(origin, FromTransformer):
            raise TypeError(origin)
        number, scale = int(stored["layer"]), float(stored["scale"])
        return trained.on_demand(found, number, scale, origin, facts.get("soft_cap"))

    def _block(self, stored: Contents) -> Block:
        return Block(
            place=_one_of(NORMS, stored["norm"]),
            attention=self._residual(stored["attention"]),
            cross=self._residual(stored["cross"]) if stored.get("cross") else None,
            fed=self._fed(stored) if stored.get("feed_forward") else None,
        )

    def _fed(self, stored: Contents) -> Fed:
        found = self._fitting(OF_BLOCK, stored)
        matrices = {name: found[name] for name in ("w_1", "b_1", "w_2", "b_2")}
        activation = _one_of(ACTIVATIONS, stored["activation"])
        return Fed(
            self._residual(stored["feed_forward"]),
            found["hidden"],
            FeedForward(**matrices, activation=activation),
        )

    def _fitting(self, parts: Sequence[Part | ResidualPart], stored: Contents) -> dict[str, Tensor]:
        named = {part.data: part for part in parts if part.data}
        here = [name for name in named if name not in MAY_LACK or stored.get(name) is not None]
        answers = parts is OF_PREDICTION
        found = {name: self._tensor(stored[name], unscored=answers) for name in here}
        sides = {name: part.sides for name, part in named.items()}
        refuse_misfits(found, sides, {}, self.source)
        return found

    def _residual(self, stored: Contents) -> Residual:
        found = self._fitting(OF_RESIDUAL, stored)
        return Residual(
            norm=Norm(found["gain"], found["shift"]) if "gain" in found else None,
            inputs=found["inputs"],
            sublayer_inputs=found["read"],
            sublayer_outputs=found["made"],
            added=found["added"],
            outputs=found["outputs"],
        )

    def _prediction(self) -> Prediction | None:
        stored = self.contents.get("prediction")
        if not stored:
            return None
        found = self._fitting(OF_PREDICTION, stored)
        return Prediction(
            answers=tuple(map(str, stored["answers"])),
            predicts=_one_of(PREDICTS, self.facts["predicts"]),
            scoring=_scoring(found),
            logits=found["logits"],
            probabilities=found["probabilities"],
            asked=tuple(int(place) - 1 for place in stored["asked"]),
            with_all_heads=found.get("probabilities_with_all_heads"),
            asks=tuple(map(str, self.facts.get("asks", ()))),
            of=self.facts.get("answers"),
        )

    def _outputs(self) -> Outputs | None:
        stored = self.contents.get("outputs")
        if not stored:
            return None
        found = {name: self._tensor(each) for name, each in stored.items()}
        refuse_misfits(found, dict.fromkeys(found, "token dim"), {}, self.source)
        return Outputs(found["vectors"], found.get("vectors_with_all_heads"))

    def _origin(self) -> Origin:
        facts = self.facts["origin"]
        settings = of_their_types(Settings, as_information(facts["settings"]))
        if facts["kind"] == "transformer":
            return trained.read_transformer_origin(settings, facts)
        if self.handed:
            return handed.read_external_origin(settings, facts)
        if facts.get("model") is not None:
            return self._of_a_model(settings, facts)
        vectors = self.contents.get("vectors")
        loaded = None if vectors is None else torch.from_numpy(np.asarray(vectors, np.float64))
        told = facts.get("table")
        table = None if told is None else of_their_types(FromTable, told)
        if facts["kind"] == "drawn":
            return Drawn(settings=settings, vectors=loaded, table=table)
        matrices = self._matrices(facts["matrices"])
        if facts["kind"] == "given":
            return Given(settings=settings, matrices=matrices, vectors=loaded, table=table)
        return FromExample(
            settings=settings, matrices=matrices, name=facts["name"], mistake=facts["mistake"]
        )

    def _of_a_model(self, settings: Settings, facts: Contents) -> Origin:
        model = read_model(facts["model"], self.contents["model"])
        if facts["kind"] == "example":
            named = {"name": facts["name"], "mistake": facts["mistake"], "model": model}
            return FromExample(settings=settings, matrices=model.matrices, **named)
        vectors = model.embeddings[list(self._tokens("tokens").ids)]
        return FromModel(settings=settings, matrices=model.matrices, model=model, vectors=vectors)

    def _matrices(self, facts: Contents) -> Matrices:
        """As they were given: not in the dtype of the run, but in full."""
        stored = self.contents.get("given", {})
        named: dict[str, Any] = {
            name: None if facts.get(name) is None else tuple(facts[name]) for name in WORDS
        }
        rest = {name: facts[name] for name in ("source", "item", "items", "vocabulary")}
        rest |= {name: facts.get(name) for name in ("heads", "kv_heads")}
        layers = stored.get(LAYERS, {})
        above = [Matrices(**_given(layers[str(place + 1)])) for place in range(len(layers))]
        return Matrices(**rest, **named, **_given(stored), above=tuple(above))


def _refuse_uneven(trace: Trace) -> None:
    """As many vectors, rows and columns as there are tokens, and each of them whole."""
    for tokens in (trace.tokens, trace.keys, trace.memory or trace.tokens):
        if {len(tokens.pieces), len(tokens.spaced), len(tokens.labels)} != {len(tokens)}:
            raise ValueError(tokens)
    for layer in trace.attentions:
        wanted = (len(trace.tokens), len(trace.keys_of(layer)))
        if (tuple(layer.visible.shape[-2:]), len(trace.embeddings)) != (wanted, len(trace.tokens)):
            raise ValueError(wanted)
    made = trace.prediction
    if made is not None and made.logits.shape != (len(trace.tokens), len(made.answers)):
        raise ValueError(made.logits.shape)
    if made is not None and not set(made.asked) <= set(range(len(trace.tokens))):
        raise ValueError(made.asked)
    if not trace.layers or not len(trace.tokens):
        raise ValueError(trace)


def _one_of(known: tuple[Anything, ...], value: object) -> Anything:
    return known[[str(each) for each in known].index(str(value))]


def _scoring(found: Mapping[str, Tensor]) -> Scoring | None:
    """How answers got their scores; None of a transformer, which has a way of its own."""
    if "w_answers" not in found:
        return None
    return Scoring(
        norm=Norm(found["last_gain"], found["last_shift"]) if "last_gain" in found else None,
        inputs=found["inputs"],
        vectors=found["vectors"],
        w_answers=found["w_answers"],
        b_answers=found.get("b_answers"),
    )


def _attended(found: Mapping[str, Tensor], facts: Contents) -> Attended:
    weights = found["weights"]
    in_place = {"dropout": "weights_after_dropout", "hand": "weights_by_hand"}
    mixed_by = _one_of(MIXED_BY, facts["mixed_by"])
    mixing = found[in_place[mixed_by]] if mixed_by in in_place else weights
    return Attended(
        scores=found["scores"],
        scaled_scores=found["scaled_scores"],
        capped_scores=found.get("capped_scores"),
        bias=found.get("bias"),
        mask=found.get("mask"),
        weights=weights,
        mixing=mixing,
        mixed_by=mixed_by,
        contexts=found["contexts"],
        sink=found.get("sink"),
    )


def _given(stored: Contents) -> dict[str, Any]:
    """What was given of one layer."""
    return {name: _in_full(stored[name]) for name in GIVEN if name in stored}


def _in_full(value: Any) -> Tensor:
    array = np.asarray(value)
    return torch.from_numpy(array if array.dtype == bool else array.astype(np.float64))


def _if_any(make: Callable[..., Anything], named: dict[str, Tensor | None]) -> Anything | None:
    return make(**named) if any(each is not None for each in named.values()) else None
