"""trace(): computes a Trace from a text: tokens, embeddings, plan, layers, provenance."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention import devices
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.inputs import (
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
from attnviz.traces.layers import compute_layers, refuse_overflow
from attnviz.traces.matrices import Matrices
from attnviz.traces.memory_estimate import (
    MemoryEstimate,
    StreamedEstimate,
    TraceSizes,
    estimate_memory,
    streams_weights,
    unstreamed_reason,
)
from attnviz.traces.models.answers import Prediction, predict_answers
from attnviz.traces.plan import Plan, build_plan
from attnviz.traces.settings import (
    LONG_TEXT_SETTINGS,
    SettingKeywords,
    Settings,
    refuse_odd_rotary,
    settings_refused,
)
from attnviz.traces.trace import GIVEN_LABEL, Layer, Provenance, Trace, library_versions
from attnviz.traces.trained.model_in_memory import take_model_in_memory
from attnviz.traces.trained.model_location import is_trained
from attnviz.vectors import positions
from attnviz.version import __version__
from attnviz.wording.keywords import replace_choices, with_checked_settings
from attnviz.wording.words import counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_SETTINGS = Settings()  # checked once


@with_checked_settings(settings_refused)
def trace(
    text: str | Path | None,
    settings: Settings | None = None,
    *,
    vectors: Float[Tensor, "token dim"] | None = None,
    mistake: str = "",
    command: str | None = None,
    kept: Collection[int] | None = None,
    **changes: Unpack[SettingKeywords],
) -> Trace:
    """Compute attention on a text and return every step as a Trace.

    `text` is a string, or the Path of a file with it. Keywords replace fields of the settings:
    `trace("I am learning this", variant="causal")`. `given` matrices, or those of the file it
    names, replace drawn and computed ones; `vectors` replace the embeddings. `mistake` names a
    common mistake to make on purpose. `kept`: indices of the layers of a trained model to capture;
    None captures all. `model` may be a loaded model of transformers, with its `tokenizer`. Refuses
    settings that do not fit each other, the text or the memory.

    >>> from attnviz import trace
    >>> result = trace("I am learning this", variant="causal")
    >>> result
    <Trace 'I am learning this': 4 tokens, 1 layer × 1 head>
    >>> result.weights[0, 0, 1].tolist()[2:]  # "am" does not attend to what comes after it
    [0.0, 0.0]
    """
    in_memory, given_settings = take_model_in_memory(changes)
    matrices_or_path = given_settings.get("given")
    matrices = matrices_or_path if isinstance(matrices_or_path, Matrices) else None
    if matrices is not None:
        del given_settings["given"]
    if kept is not None and not list(kept):
        raise AttnvizError("'kept' holds no layers", "try kept=[0]", about="kept")
    run_settings = replace_choices(settings or DEFAULT_SETTINGS, given_settings)
    source = source_from_text(text, run_settings, matrices, vectors, in_memory)
    return trace_source(source, mistake=mistake, command=command, kept_layers=kept)


def trace_source(
    source: Source,
    *,
    mistake: str = "",
    command: str | None = None,
    kept_layers: Collection[int] | None = None,
    needs_matrices: bool = False,
) -> Trace:
    """Return the Trace of a source (a text or tokens with all choices).

    `mistake` names a mistake to make on purpose; `kept_layers` are the layers of a trained model to
    capture, None for all; `command` is stored as provenance. `needs_matrices`: all weights have to
    be in memory.
    """
    in_memory = source.in_memory
    if in_memory is not None or (source.model is None and is_trained(source.settings.model)):
        from attnviz.traces.trained.tracing import trace_transformer

        return trace_transformer(
            source.text,
            source.settings,
            layers=kept_layers,
            command=command,
            in_memory=in_memory,
            streams=not needs_matrices,
        )
    sentence = build_sentence(source)
    source = with_vectors(source, sentence.tokens)
    plan, embeddings = _plan_and_embed(source, sentence, mistake, needs_matrices=needs_matrices)
    memory = plan.matrices.memory
    if memory is None and sentence.memory is not None:
        memory = _embed_other_tokens(sentence.memory, plan, embeddings)
    inputs = add_positions(embeddings, plan)
    layers = tuple(compute_layers(plan, inputs, memory))
    return Trace(
        tokens=sentence.tokens,
        keys=sentence.keys,
        memory=sentence.memory,
        tokenizer=GIVEN_LABEL if source.text is None else source.tokenizer,
        vocabulary=vocabulary_size(source),
        variant=plan.variant,
        positions=plan.settings.positions,
        embeddings=embeddings,
        layers=layers,
        prediction=_predict_answers(source, sentence, plan, inputs, layers),
        origin=source.origin,
        provenance=_text_provenance(plan, layers[0], command, has_given_tokens=source.text is None),
    )


def _predict_answers(
    source: Source, sentence: Sentence, plan: Plan, inputs: Vectors, layers: Sequence[Layer]
) -> Prediction | None:
    """Return the prediction of a model of attnviz; None without a model, or if it predicts nothing.

    If heads are switched off, it also holds the probabilities with all heads on. Refuses scores
    that overflow.
    """
    if source.model is None:
        return None
    model = source.model.like(inputs)
    prediction = predict_answers(layers[-1].outputs, model, sentence.tokens)
    if prediction is not None:
        refuse_overflow(plan, prediction.logits, "scores of the answers")
    if prediction is None or plan.settings.without is None:
        return prediction
    all_heads = replace(plan, settings=replace(plan.settings, without=None))
    *_, last_layer = compute_layers(all_heads, inputs)
    full_prediction = predict_answers(last_layer.outputs, model, sentence.tokens)
    return replace(prediction, with_all_heads=getattr(full_prediction, "probabilities", None))


def add_positions(vectors: Vectors, plan: Plan) -> Vectors:
    """Return the vectors plus a position vector for each: given, sinusoidal or untrained "learned"
    ones; unchanged where the plan adds none (rotary, ALiBi).

    Refuses given positions that are fewer than the vectors.
    """
    count, dim = vectors.shape[-2:]
    if plan.matrices.positions is not None:
        rows = _position_rows(count, plan.matrices.positions, plan.matrices.source)
    elif plan.settings.positions == "sinusoidal":
        rows = positions.sinusoidal_positions(count, dim, plan.settings.position_base)
    elif plan.settings.positions == "learned":
        rows = positions.untrained_positions(count, dim, plan.seeds)
    else:
        return vectors
    return vectors + rows.to(vectors)


def _position_rows(
    count: int, vectors: Float[Tensor, "*batch position dim"], source: str
) -> Float[Tensor, "*batch token dim"]:
    """Return the position vectors of the first `count` positions; refuses fewer than `count`."""
    if vectors.shape[-2] < count:
        count_text = counted(vectors.shape[-2], "position")
        raise AttnvizError(
            f"'{source}' gives vectors for {count_text}, but there are {count} tokens",
            "give a row of 'positions' for each token",
            about="positions",
            file=source,
        )
    return vectors[..., :count, :]


def _plan_and_embed(
    source: Source, sentence: Sentence, mistake: str, *, needs_matrices: bool
) -> tuple[Plan, Float[Tensor, "token dim"]]:
    """Return a plan, and the embeddings (without positions) on its device and in its dtype.

    The plan holds the cast matrices, and the inputs of keys if keys are other tokens. Refuses a
    Trace that does not fit in memory, and odd widths with rotary positions.
    """
    settings = source.resolved_settings
    device = devices.choose_device(settings.device, settings.dtype)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    matrices = source.matrices_for(len(sentence.tokens))
    plan = build_plan(settings, matrices, embedding_width(source), mistake=mistake)
    sizes = trace_sizes(source, sentence)
    streams = streams_weights(plan, sizes, dtype, device, needs_matrices=needs_matrices)
    plan = replace(plan, streams=streams)
    refuse_odd_rotary(settings, plan.width)
    embeddings = embed_tokens(sentence.tokens, source).to(device, dtype)
    plan = replace(plan, matrices=matrices.like(embeddings))
    if sentence.keys is sentence.tokens:
        return plan, embeddings
    if plan.matrices.key_embeddings is None:
        key_inputs = _embed_other_tokens(sentence.keys, plan, embeddings)
    else:
        key_inputs = add_positions(plan.matrices.key_embeddings, plan)
    return replace(plan, key_inputs=key_inputs), embeddings


def trace_sizes(source: Source, sentence: Sentence) -> TraceSizes:
    memory = 0 if sentence.memory is None else len(sentence.memory)
    return TraceSizes(len(sentence.tokens), len(sentence.keys), memory, embedding_width(source))


def estimate_source_memory(source: Source) -> tuple[MemoryEstimate, StreamedEstimate]:
    """Return the memory that the Trace of a source takes, and what it takes if its weights are
    computed where they are shown; reads the vectors that the settings name, but computes nothing.
    """
    sentence = build_sentence(source)
    counts = trace_sizes(with_vectors(source, sentence.tokens), sentence)
    settings = source.resolved_settings
    plan = build_plan(settings, source.matrices_for(counts.tokens), counts.dim)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    whole, streamed = (estimate_memory(plan, counts, dtype, streams=each) for each in (False, True))
    cells = plan.variant.heads * counts.tokens * counts.keys
    return whole, StreamedEstimate(streamed, counts, cells, unstreamed_reason(plan))


def _embed_other_tokens(
    tokens: Tokens, plan: Plan, embeddings: Float[Tensor, "token dim"]
) -> Float[Tensor, "key dim"]:
    """Return vectors, with positions, of tokens beside the sentence (keys, or a second sentence),
    by the same seed or file, so that a token has the same vector as in the sentence.
    """
    settings = replace(plan.settings, dim=embeddings.shape[1])
    source = with_vectors(Source(None, settings, Matrices()), tokens)
    return add_positions(embed_tokens(tokens, source).to(embeddings), plan)


def _text_provenance(
    plan: Plan, layer: Layer, command: str | None, *, has_given_tokens: bool
) -> Provenance:
    """Return the provenance of a Trace; `layer` is its first layer."""
    return Provenance(
        version=__version__,
        command=command,
        settings={
            name: value
            for name, value in asdict(plan.settings).items()
            if plan.streams or name not in LONG_TEXT_SETTINGS
        }
        | _settings_as_decided(plan, layer, has_given_tokens=has_given_tokens),
        seed=plan.settings.seed,
        device=str(layer.inputs.device),
        dtype=plan.settings.dtype,
        versions=library_versions()  # the last digits depend on the instructions
        | {"instructions": torch.backends.cpu.get_cpu_capability()},
    )


def _settings_as_decided(plan: Plan, layer: Layer, *, has_given_tokens: bool) -> dict[str, Any]:
    """Return the settings that the variant, a file or the device may decide, with their final
    values: "given" for what a file gave, and file names without folders.
    """
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
