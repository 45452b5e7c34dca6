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
from attnviz.traces.layers import compute_layers, refuse_overflow
from attnviz.traces.matrices import Matrices
from attnviz.traces.memory_estimate import (
    MemoryEstimate,
    TraceSizes,
    estimate_memory,
    refuse_oversized_trace,
)
from attnviz.traces.models.prediction import Prediction, predict_answers
from attnviz.traces.plan import Plan, build_plan
from attnviz.traces.settings import Settings, refuse_odd_rotary
from attnviz.traces.source import (
    Sentence,
    Source,
    Vectors,
    build_sentence,
    embed_tokens,
    embedding_width,
    source_from_text,
    vocabulary_size,
    with_vectors,
)
from attnviz.traces.trace import GIVEN_LABEL, Layer, Provenance, Trace
from attnviz.traces.trained.model_location import is_trained
from attnviz.vectors import positions
from attnviz.version import __version__
from attnviz.wording.keywords import replace_choices
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
    run_settings = replace_choices(settings or Settings(), changes)
    if isinstance(given, str | Path):
        run_settings, given = replace_choices(run_settings, {"given": given}), None
    source = source_from_text(text, run_settings, given, vectors)
    return trace_source(source, mistake=mistake, command=command, kept_layers=kept)


def trace_source(
    source: Source,
    *,
    mistake: str = "",
    command: str | None = None,
    kept_layers: Collection[int] | None = None,
) -> Trace:
    """The same of a source, which says all that there is to choose."""
    if source.model is None and is_trained(source.settings.model):  # a name that a person gave
        from attnviz.traces.trained.tracing import trace_transformer

        return trace_transformer(source.text, source.settings, layers=kept_layers, command=command)
    sentence = build_sentence(source)
    source = with_vectors(source, sentence.tokens)
    plan, embeddings = _plan_and_embed(source, sentence, mistake)
    memory = plan.matrices.memory
    if memory is None and sentence.memory is not None:
        memory = _embed_other_tokens(sentence.memory, plan, embeddings)
    inputs = add_positions(embeddings, plan)
    computed_layers = tuple(compute_layers(plan, inputs, memory))
    return Trace(
        tokens=sentence.tokens,
        keys=sentence.keys,
        memory=sentence.memory,
        tokenizer=GIVEN_LABEL if source.text is None else source.tokenizer,
        vocabulary=vocabulary_size(source),
        variant=plan.variant,
        positions=plan.settings.positions,
        embeddings=embeddings,
        layers=computed_layers,
        prediction=_predict_answers(source, sentence, plan, inputs, computed_layers),
        origin=source.origin,
        provenance=_text_provenance(
            plan, computed_layers[0], command, has_given_tokens=source.text is None
        ),
    )


def _predict_answers(
    source: Source,
    sentence: Sentence,
    plan: Plan,
    inputs: Vectors,
    computed_layers: Sequence[Layer],
) -> Prediction | None:
    """What a model answers; and what it would with all of its heads, where some are off."""
    if source.model is None:
        return None
    model = source.model.like(inputs)
    prediction = predict_answers(computed_layers[-1].outputs, model, sentence.tokens)
    if prediction is not None:
        refuse_overflow(plan, prediction.logits, "scores of the answers")
    if prediction is None or plan.settings.without is None:
        return prediction
    *_, last_layer = compute_layers(
        replace(plan, settings=replace(plan.settings, without=None)), inputs
    )
    with_all_heads = predict_answers(last_layer.outputs, model, sentence.tokens)
    return replace(
        prediction, with_all_heads=None if with_all_heads is None else with_all_heads.probabilities
    )


def add_positions(vectors: Vectors, plan: Plan) -> Vectors:
    """The vectors with what tells them where they stand, if that is added to them."""
    count, dim = vectors.shape[-2:]
    if plan.matrices.positions is not None:
        return vectors + _position_rows(count, plan.matrices.positions, plan.matrices.source).to(
            vectors
        )
    if plan.settings.positions == "sinusoidal":
        return vectors + positions.sinusoidal_positions(count, dim, plan.settings.position_base).to(
            vectors
        )
    if plan.settings.positions == "learned":
        return vectors + positions.untrained_positions(count, dim, plan.seeds).to(vectors)
    return vectors


def _position_rows(
    count: int, position_vectors: Float[Tensor, "*batch position dim"], source: str
) -> Float[Tensor, "*batch token dim"]:
    """Of the vectors for positions those that there are tokens at; a model's has more."""
    if position_vectors.shape[-2] < count:
        raise AttnvizError(
            f"'{source}' gives vectors for {counted(position_vectors.shape[-2], 'position')}, but there are "
            f"{count} tokens",
            "give a row of 'positions' for each token",
            about="positions",
            file=source,
        )
    return position_vectors[..., :count, :]


def _plan_and_embed(
    source: Source, sentence: Sentence, mistake: str
) -> tuple[Plan, Float[Tensor, "token dim"]]:
    """What is planned, once it is sure to fit; and the embeddings, where they are computed with."""
    settings = source.resolved_settings
    device = devices.choose_device(settings.device, settings.dtype)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    matrices = source.matrices_for(len(sentence.tokens))
    plan = build_plan(settings, matrices, embedding_width(source), mistake=mistake)
    refuse_oversized_trace(plan, trace_sizes(source, sentence), dtype, device)
    refuse_odd_rotary(settings, plan.width)
    embeddings = embed_tokens(sentence.tokens, source).to(device, dtype)
    plan = replace(plan, matrices=matrices.like(embeddings))
    if sentence.keys is sentence.tokens:
        return plan, embeddings
    given_key_vectors = plan.matrices.key_embeddings
    key_inputs = (
        _embed_other_tokens(sentence.keys, plan, embeddings)
        if given_key_vectors is None
        else add_positions(given_key_vectors, plan)
    )
    return replace(plan, key_inputs=key_inputs), embeddings


def trace_sizes(source: Source, sentence: Sentence) -> TraceSizes:
    """How many numbers there will be on each side."""
    memory = 0 if sentence.memory is None else len(sentence.memory)
    return TraceSizes(len(sentence.tokens), len(sentence.keys), memory, embedding_width(source))


def estimate_source_memory(source: Source) -> tuple[MemoryEstimate, int]:
    """What the Trace of a source will take, and how many cells its heads have."""
    sentence = build_sentence(source)
    counts = trace_sizes(with_vectors(source, sentence.tokens), sentence)
    settings = source.resolved_settings
    plan = build_plan(settings, source.matrices_for(counts.tokens), counts.dim)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    return estimate_memory(plan, counts, dtype), plan.variant.heads * counts.tokens * counts.keys


def _embed_other_tokens(
    tokens: Tokens, plan: Plan, embeddings: Float[Tensor, "token dim"]
) -> Float[Tensor, "key dim"]:
    """The vectors of other tokens: the same token has the same vector as in the sentence."""
    settings = replace(plan.settings, dim=embeddings.shape[1])
    source = with_vectors(Source(None, settings, Matrices()), tokens)
    return add_positions(embed_tokens(tokens, source).to(embeddings), plan)


def _text_provenance(
    plan: Plan, layer: Layer, command: str | None, *, has_given_tokens: bool
) -> Provenance:
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),  # on which last digits depend
    }
    return Provenance(
        version=__version__,
        command=command,
        settings=asdict(plan.settings)
        | _settings_as_decided(plan, layer, has_given_tokens=has_given_tokens),
        seed=plan.settings.seed,
        device=str(layer.inputs.device),
        dtype=plan.settings.dtype,
        versions=versions,
    )


def _settings_as_decided(plan: Plan, layer: Layer, *, has_given_tokens: bool) -> dict[str, Any]:
    """Settings as they turned out: no None where the variant or a file decided."""
    settings, variant = plan.settings, plan.variant
    return {
        "tokenizer": GIVEN_LABEL if has_given_tokens else settings.tokenizer,
        "dim": layer.inputs.shape[1],
        "heads": layer.heads,
        "kv_heads": layer.kv_heads,
        "head_dim": layer.head_dim,
        "scale": variant.scaled,
        "causal": GIVEN_LABEL if "visible" in layer.given else variant.causal,
        "positions": GIVEN_LABEL if "positions" in layer.given else settings.positions,
        "temperature": variant.temperature,
        "soft_cap": variant.soft_cap,
        "dropout": variant.dropout,
        "embeddings": settings.embeddings and Path(settings.embeddings).name,
        "given": settings.given and Path(settings.given).name,
        "model": settings.model and Path(settings.model).name,
        "device": str(layer.inputs.device),
    }
