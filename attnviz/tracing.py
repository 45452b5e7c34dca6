"""A Trace holds everything that happened to a sentence; `trace` takes a text all the way to one.

(The file is not called trace.py because then `attnviz.trace`, the function at the library's
door, would turn into the module of that name as soon as anything imports it.)
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

import attnviz
from attnviz import attention, devices, embedding
from attnviz.errors import AttnvizError
from attnviz.settings import Settings, chosen_variant, head_width
from attnviz.tokenizers import tokenize
from attnviz.tokens import Tokens
from attnviz.variants import Variant

Heads = Float[Tensor, "head token width"]


@dataclass(frozen=True, eq=False)
class Projections:
    """The matrices that make queries, keys and values, and the one that joins the heads."""

    w_query: Float[Tensor, "dim out"]
    w_key: Float[Tensor, "dim out"]
    w_value: Float[Tensor, "dim out"]
    w_out: Float[Tensor, "out dim"] | None


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of attention, in the order things happened."""

    layer: int
    scale: float
    inputs: Float[Tensor, "query dim"]
    projections: Projections | None
    queries: Float[Tensor, "head query width"]
    keys: Float[Tensor, "head key width"]
    values: Float[Tensor, "head key value_width"]
    visible: Bool[Tensor, "query key"]
    attended: attention.Attended
    context: Float[Tensor, "query context"]  # the heads joined, and projected

    @property
    def heads(self) -> int:
        return self.queries.shape[0]

    @property
    def head_dim(self) -> int:
        return self.queries.shape[-1]


@dataclass(frozen=True)
class Provenance:
    """What made an artefact, so that it can be made again; no names, no paths of a machine."""

    version: str
    command: str | None
    settings: dict[str, Any]
    seed: int
    device: str
    dtype: str
    versions: dict[str, str]


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything that happened to one sentence; `keys` are the tokens that are read."""

    tokens: Tokens
    keys: Tokens
    variant: Variant
    embeddings: Float[Tensor, "token dim"]
    layers: tuple[Layer, ...]
    provenance: Provenance


def trace(
    text: str, settings: Settings | None = None, *, command: str | None = None, **changes: Any
) -> Trace:
    """Attention on a text, every step of it kept.

    `changes` replace fields of the settings: `trace("I am learning this", variant="causal")`.
    """
    chosen = replace(settings or Settings(), **changes)
    variant = chosen_variant(chosen)
    device = devices.choose(chosen.device, chosen.dtype)
    tokens = tokenize(text, chosen.tokenizer)
    dtype: torch.dtype = getattr(torch, chosen.dtype)
    vectors = embed(tokens, chosen)
    dim = vectors.shape[1]
    projected = dim * variant.heads * head_width(chosen, variant, dim) if variant.projected else 0
    devices.refuse_what_does_not_fit(len(tokens), variant.heads, projected, dtype, device)
    embeddings = vectors.to(device, dtype)
    layer = attend(embeddings, variant, chosen)
    provenance = _provenance(chosen, variant, layer, device, command)
    return Trace(tokens, tokens, variant, embeddings, (layer,), provenance)


def embed(tokens: Tokens, settings: Settings) -> Float[Tensor, "token dim"]:
    """A vector for each token: drawn, or from the file that the settings name."""
    if settings.embeddings is None:
        return embedding.embed(tokens.ids, settings.width, settings.seed)
    from attnviz import vectors

    found = vectors.from_file(settings.embeddings, tokens)
    if settings.dim not in (None, found.shape[1]):
        raise AttnvizError(
            f"--dim is {settings.dim}, and the embeddings are {found.shape[1]} wide",
            f"leave --dim out, or give --dim {found.shape[1]}",
        )
    return found


def attend(embeddings: Float[Tensor, "token dim"], variant: Variant, settings: Settings) -> Layer:
    """One layer of attention over the embeddings, with drawn projections."""
    count, dim = embeddings.shape
    width = head_width(settings, variant, dim)
    inputs = embeddings + positions(count, dim, settings).to(embeddings)
    projections = draw_projections(dim, width, variant, settings.seed, embeddings)
    queries, keys, values = project(inputs, projections, variant)
    visible = attention.visible_cells(variant, count, embeddings.device)
    scale = attention.scale_of(variant, width)
    kept = _kept(variant, count, settings.seed, embeddings)
    attended = attention.attend(queries, keys, values, visible, scale=scale, kept=kept)
    context = _joined(attended.contexts, projections)
    _refuse_overflow(attended.scaled_scores, context)
    return Layer(0, scale, inputs, projections, queries, keys, values, visible, attended, context)


def positions(count: int, dim: int, settings: Settings) -> Float[Tensor, "token dim"]:
    """What is added to the embeddings so that a token knows where it stands."""
    if settings.positions == "sinusoidal":
        return embedding.sinusoidal(count, dim)
    if settings.positions == "learned":
        return embedding.learned(count, dim, settings.seed)
    return torch.zeros(count, dim)


def draw_projections(
    dim: int, width: int, variant: Variant, seed: int, like: Tensor
) -> Projections | None:
    """The matrices of a variant that projects, on the device and in the dtype of `like`."""
    if not variant.projected:
        return None
    out = variant.heads * width
    w_query, w_key, w_value = (
        embedding.projection(name, dim, out, seed).to(like)
        for name in ("w_query", "w_key", "w_value")
    )
    w_out = embedding.projection("w_out", out, dim, seed).to(like) if variant.joined else None
    return Projections(w_query, w_key, w_value, w_out)


def project(
    inputs: Float[Tensor, "token dim"], projections: Projections | None, variant: Variant
) -> tuple[Heads, Heads, Heads]:
    """Queries, keys and values. Without a comparison queries and keys are 0, so every score is."""
    if projections is None:
        compared = inputs if variant.compared else torch.zeros_like(inputs)
        queries, keys, values = compared, compared, inputs
    else:
        queries = attention.project(inputs, projections.w_query)
        keys = attention.project(inputs, projections.w_key)
        values = attention.project(inputs, projections.w_value)
    heads = variant.heads
    return (
        attention.split_heads(queries, heads),
        attention.split_heads(keys, heads),
        attention.split_heads(values, heads),
    )


def _kept(
    variant: Variant, count: int, seed: int, like: Tensor
) -> Float[Tensor, "head query key"] | None:
    if not variant.dropout:
        return None
    return embedding.kept(variant.heads, count, count, variant.dropout, seed).to(like)


def _joined(
    contexts: Float[Tensor, "head query value_width"], projections: Projections | None
) -> Float[Tensor, "query context"]:
    joined = attention.join_heads(contexts)
    if projections is None or projections.w_out is None:
        return joined
    return attention.project(joined, projections.w_out)


def _refuse_overflow(scores: Tensor, context: Tensor) -> None:
    """A number too large for its dtype becomes infinite, and everything after it NaN."""
    if not (scores.isfinite().all() and context.isfinite().all()):
        dtype = str(scores.dtype).removeprefix("torch.")
        raise AttnvizError(
            f"the scores are too large for {dtype}, whose largest number is "
            f"{torch.finfo(scores.dtype).max:.2g}",
            "try a higher --temperature, a smaller --dim, --scale, or --dtype float64",
        )


def _provenance(
    settings: Settings, variant: Variant, layer: Layer, device: torch.device, command: str | None
) -> Provenance:
    """The settings as they turned out: no None where the variant or a file decided."""
    decided = {
        "dim": layer.inputs.shape[1],
        "heads": layer.heads,
        "head_dim": layer.head_dim,
        "scale": variant.scaled,
        "causal": variant.causal,
        "temperature": variant.temperature,
        "dropout": variant.dropout,
        "embeddings": settings.embeddings and Path(settings.embeddings).name,
        "device": str(device),
    }
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    made = asdict(settings) | decided
    return Provenance(
        attnviz.__version__, command, made, settings.seed, str(device), settings.dtype, versions
    )
