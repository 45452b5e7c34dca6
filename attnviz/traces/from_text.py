"""The path of a text to a Trace: tokens, embeddings, a plan, layers, provenance."""

from __future__ import annotations

import platform
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention import devices
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.layers import layers, refuse_overflow
from attnviz.traces.matrices import Matrices
from attnviz.traces.memory_estimate import Counts, Need, need_of, refuse_too_much
from attnviz.traces.models.prediction import Prediction, predicted
from attnviz.traces.plan import Plan, planned
from attnviz.traces.settings import Settings, refuse_odd_rotary
from attnviz.traces.source import (
    Sentence,
    Source,
    Vectors,
    embed,
    sentence_of,
    source_of_text,
    vocabulary_of,
    width_of,
    with_vectors,
)
from attnviz.traces.trace import GIVEN, Layer, Provenance, Trace
from attnviz.traces.trained.place import is_trained
from attnviz.vectors import positions
from attnviz.version import __version__
from attnviz.wording.keywords import changed
from attnviz.wording.words import counted


def trace(
    text: str | None,
    settings: Settings | None = None,
    *,
    given: Matrices | str | Path | None = None,
    vectors: Float[Tensor, "token dim"] | None = None,
    mistake: str = "",
    command: str | None = None,
    kept: Collection[int] | None = None,
    **changes: Any,
) -> Trace:
    """Attention on a text, every step of it kept.

    `changes` replace fields of the settings: `trace("I am learning this", variant="causal")`.
    What is `given`, or in a file of that name, is used instead of what would be drawn or
    computed, and so are `vectors` for those of the file that the settings name. A `mistake` is
    one to be looked at. Of the layers of a trained model those are `kept` that are asked for.

    >>> from attnviz import trace
    >>> made = trace("I am learning this", variant="causal")
    >>> made
    <Trace 'I am learning this': 4 tokens, 1 layer × 1 head>
    >>> made.weights[0, 0, 1].tolist()[2:]  # "am" reads nothing of what comes after it
    [0.0, 0.0]
    """
    chosen = changed(settings or Settings(), changes)
    if isinstance(given, str | Path):
        chosen, given = changed(chosen, {"given": given}), None
    source = source_of_text(text, chosen, given, vectors)
    return trace_of(source, mistake=mistake, command=command, kept=kept)


def trace_of(
    source: Source,
    *,
    mistake: str = "",
    command: str | None = None,
    kept: Collection[int] | None = None,
) -> Trace:
    """The same of a source, which says all that there is to choose."""
    if source.model is None and is_trained(source.settings.model):  # a name that a person gave
        from attnviz.traces.trained.tracing import trace_trained

        return trace_trained(source.text, source.settings, layers=kept, command=command)
    sentence = sentence_of(source)
    source = with_vectors(source, sentence.tokens)
    plan, embeddings = _start(source, sentence, mistake)
    memory = plan.matrices.memory
    if memory is None and sentence.memory is not None:
        memory = _other(sentence.memory, plan, embeddings)
    inputs = placed(embeddings, plan)
    done = tuple(layers(plan, inputs, memory))
    return Trace(
        tokens=sentence.tokens,
        keys=sentence.keys,
        memory=sentence.memory,
        tokenizer=GIVEN if source.text is None else source.tokenizer,
        vocabulary=vocabulary_of(source),
        variant=plan.variant,
        positions=plan.settings.positions,
        embeddings=embeddings,
        layers=done,
        prediction=_prediction(source, sentence, plan, inputs, done),
        origin=source.origin,
        provenance=_provenance(plan, done[0], command, given=source.text is None),
    )


def _prediction(
    source: Source, sentence: Sentence, plan: Plan, inputs: Vectors, done: Sequence[Layer]
) -> Prediction | None:
    """What a model answers; and what it would with all of its heads, where some are off."""
    if source.model is None:
        return None
    model = source.model.like(inputs)
    found = predicted(done[-1].outputs, model, sentence.tokens)
    if found is not None:
        refuse_overflow(plan, found.logits, "scores of the answers")
    if found is None or plan.settings.without is None:
        return found
    *_, last = layers(replace(plan, settings=replace(plan.settings, without=None)), inputs)
    whole = predicted(last.outputs, model, sentence.tokens)
    return replace(found, with_all_heads=None if whole is None else whole.probabilities)


def placed(vectors: Vectors, plan: Plan) -> Vectors:
    """The vectors with what tells them where they stand, if that is added to them."""
    count, dim = vectors.shape[-2:]
    if plan.matrices.positions is not None:
        return vectors + _first(count, plan.matrices.positions, plan.matrices.source).to(vectors)
    if plan.settings.positions == "sinusoidal":
        return vectors + positions.sinusoidal(count, dim, plan.settings.position_base).to(vectors)
    if plan.settings.positions == "learned":
        return vectors + positions.learned(count, dim, plan.seeds).to(vectors)
    return vectors


def _first(
    count: int, given: Float[Tensor, "*batch position dim"], source: str
) -> Float[Tensor, "*batch token dim"]:
    """Of the vectors for positions those that there are tokens at; a model's has more."""
    if given.shape[-2] < count:
        raise AttnvizError(
            f"'{source}' gives vectors for {counted(given.shape[-2], 'position')}, but there are "
            f"{count} tokens",
            "give a row of 'positions' for each token",
            about="positions",
            file=source,
        )
    return given[..., :count, :]


def _start(
    source: Source, sentence: Sentence, mistake: str
) -> tuple[Plan, Float[Tensor, "token dim"]]:
    """What is planned, once it is sure to fit; and the embeddings, where they are computed with."""
    settings = source.decided
    device = devices.choose(settings.device, settings.dtype)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    matrices = source.reading(len(sentence.tokens))
    plan = planned(settings, matrices, width_of(source), mistake=mistake)
    refuse_too_much(plan, counts_of(source, sentence), dtype, device)
    refuse_odd_rotary(settings, plan.width)
    embeddings = embed(sentence.tokens, source).to(device, dtype)
    plan = replace(plan, matrices=matrices.like(embeddings))
    if sentence.keys is sentence.tokens:
        return plan, embeddings
    given = plan.matrices.key_embeddings
    read = _other(sentence.keys, plan, embeddings) if given is None else placed(given, plan)
    return replace(plan, key_inputs=read), embeddings


def counts_of(source: Source, sentence: Sentence) -> Counts:
    """How many numbers there will be on each side."""
    memory = 0 if sentence.memory is None else len(sentence.memory)
    return Counts(len(sentence.tokens), len(sentence.keys), memory, width_of(source))


def needed_for(source: Source) -> tuple[Need, int]:
    """What the Trace of a source will take, and how many cells its heads have."""
    sentence = sentence_of(source)
    counts = counts_of(with_vectors(source, sentence.tokens), sentence)
    settings = source.decided
    plan = planned(settings, source.reading(counts.tokens), counts.dim)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    return need_of(plan, counts, dtype), plan.variant.heads * counts.tokens * counts.keys


def _other(
    tokens: Tokens, plan: Plan, embeddings: Float[Tensor, "token dim"]
) -> Float[Tensor, "key dim"]:
    """The vectors of other tokens: the same token has the same vector as in the sentence."""
    settings = replace(plan.settings, dim=embeddings.shape[1])
    source = with_vectors(Source(None, settings, Matrices()), tokens)
    return placed(embed(tokens, source).to(embeddings), plan)


def _provenance(plan: Plan, layer: Layer, command: str | None, *, given: bool) -> Provenance:
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),  # on which last digits depend
    }
    return Provenance(
        version=__version__,
        command=command,
        settings=asdict(plan.settings) | _decided(plan, layer, given=given),
        seed=plan.settings.seed,
        device=str(layer.inputs.device),
        dtype=plan.settings.dtype,
        versions=versions,
    )


def _decided(plan: Plan, layer: Layer, *, given: bool) -> dict[str, Any]:
    """Settings as they turned out: no None where the variant or a file decided."""
    settings, variant = plan.settings, plan.variant
    return {
        "tokenizer": GIVEN if given else settings.tokenizer,
        "dim": layer.inputs.shape[1],
        "heads": layer.heads,
        "kv_heads": layer.kv_heads,
        "head_dim": layer.head_dim,
        "scale": variant.scaled,
        "causal": GIVEN if "visible" in layer.given else variant.causal,
        "positions": GIVEN if "positions" in layer.given else settings.positions,
        "temperature": variant.temperature,
        "soft_cap": variant.soft_cap,
        "dropout": variant.dropout,
        "embeddings": settings.embeddings and Path(settings.embeddings).name,
        "given": settings.given and Path(settings.given).name,
        "model": settings.model and Path(settings.model).name,
        "device": str(layer.inputs.device),
    }
