"""The path of a text to a Trace: tokens, embeddings, a plan, layers, provenance.

(The file is not called trace.py because then `attnviz.trace`, the function at the library's
door, would turn into the module of that name as soon as anything imports it.)
"""

from __future__ import annotations

import platform
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import attnviz
from attnviz.attention import devices
from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError
from attnviz.tokens.tokenizers import tokenize, vocabulary
from attnviz.tokens.tokens import Tokens, named
from attnviz.traces.layers import Plan, layers
from attnviz.traces.matrices import NOTHING, Given
from attnviz.traces.settings import Settings, chosen_variant, head_width
from attnviz.traces.trace import Layer, Provenance, Trace
from attnviz.vectors import drawn as embedding
from attnviz.vectors import positions

Vectors = Float[Tensor, "token dim"]


def trace(
    text: str | None,
    settings: Settings | None = None,
    *,
    given: Given | None = None,
    command: str | None = None,
    **changes: Any,
) -> Trace:
    """Attention on a text, every step of it kept.

    `changes` replace fields of the settings: `trace("I am learning this", variant="causal")`.
    What is `given` is used instead of what would be drawn or computed.
    """
    chosen = replace(settings or Settings(), **changes)
    mine = given or _from_file(chosen)
    device = devices.choose(chosen.device, chosen.dtype)
    dtype: torch.dtype = getattr(torch, chosen.dtype)
    tokens = tokens_of(text, chosen, mine)
    keys = _keys(tokens, mine)
    memory = None if chosen.memory is None else _second(chosen.memory, chosen)
    vectors = embed(tokens, chosen, mine)
    plan = planned(chosen, mine, vectors.shape[1])
    _refuse_what_does_not_fit(plan, len(tokens), vectors.shape[1], dtype, device)
    embeddings = vectors.to(device, dtype)
    plan = replace(plan, given=mine.like(embeddings))
    if keys is not tokens:
        plan = replace(plan, read=_other(keys, plan, embeddings))
    read = None if memory is None else _other(memory, plan, embeddings)
    made = tuple(layers(plan, _placed(embeddings, chosen), read))
    provenance = _provenance(plan, made[0], device, command, given=text is None)
    return Trace(
        tokens, keys, plan.variant, embeddings, made, provenance, memory, _ids(chosen, mine)
    )  # fmt: skip


def tokens_of(text: str | None, settings: Settings, given: Given) -> Tokens:
    """The tokens of the text; without one those that are given, or as many as there are vectors."""
    count = given.sizes.get("token", given.sizes.get("key"))
    if text is None:
        if count is None:
            raise AttnvizError(
                f"there is no text, and nothing in '{given.source}' says how many tokens there are",
                "give a sentence, or tokens, embeddings or scores in the file",
            )
        return numbered(count) if given.tokens is None else named(given.tokens)
    if given.tokens is not None:
        raise AttnvizError(
            f"a text is given, and '{given.source}' gives tokens", "leave one of them out"
        )
    tokens = tokenize(text, settings.tokenizer)
    if count not in (None, len(tokens)):
        raise AttnvizError(
            f"the text has {len(tokens)} tokens ({settings.tokenizer}), and "
            f"'{given.source}' is for {count}",
            "leave the text out, or cut it with another --tokenizer",
        )
    return tokens


def numbered(count: int) -> Tokens:
    """Tokens that have no words: x1, x2, …"""
    return named([f"x{number}" for number in range(1, count + 1)])


def embed(tokens: Tokens, settings: Settings, given: Given = NOTHING) -> Vectors:
    """A vector for each token: given, from the file that the settings name, or drawn."""
    found = given.embeddings
    if found is not None and settings.embeddings is not None:
        raise AttnvizError(
            f"--embeddings is given, and '{given.source}' gives embeddings, too",
            "leave one of them out",
        )
    if found is None and settings.embeddings is not None:
        from attnviz.vectors import loaded as vectors

        found = vectors.from_file(settings.embeddings, tokens)
    dim = given.sizes.get("dim") if found is None else found.shape[1]
    if settings.dim is not None and dim not in (None, settings.dim):
        raise AttnvizError(
            f"--dim is {settings.dim}, and the embeddings are {dim} wide",
            f"leave --dim out, or give --dim {dim}",
        )
    if found is None:
        return embedding.embed(tokens.ids, dim or settings.width, settings.seed)
    return found


def planned(settings: Settings, given: Given, dim: int) -> Plan:
    """The variant and the widths, once the settings and what is given are heard."""
    sizes, variant = given.sizes, chosen_variant(settings)
    heads = sizes.get("head", variant.heads)
    if settings.heads not in (None, heads):
        raise AttnvizError(
            f"--heads is {settings.heads}, and '{given.source}' has {heads}",
            f"leave --heads out, or give --heads {heads}",
        )
    joined = given.w_out is not None or variant.joined or (variant.projected and heads > 1)
    variant = replace(variant, heads=heads, joined=joined)
    _refuse_unused(given, variant)
    value_width = _shared_out(sizes, "value_width", heads) or sizes.get("head_value")
    width = _width(settings, variant, given, dim)
    if width is None:
        variant = replace(variant, scaled=_scaled_without_width(settings))
    natural = width if variant.projected and width else dim // heads
    return Plan(settings, variant, given, width, value_width or natural)


def _width(settings: Settings, variant: Variant, given: Given, dim: int) -> int | None:
    """Of a head's queries and keys; None where scores are given and nobody says."""
    sizes = given.sizes
    found = _shared_out(sizes, "query_width", variant.heads) or sizes.get("width")
    if found is None:
        return settings.head_dim if given.scores is not None else head_width(settings, variant, dim)
    if settings.head_dim not in (None, found):
        raise AttnvizError(
            f"--head-dim is {settings.head_dim}, and '{given.source}' has heads {found} wide",
            f"leave --head-dim out, or give --head-dim {found}",
        )
    return found


def _from_file(settings: Settings) -> Given:
    if settings.given is None:
        return NOTHING
    from attnviz.traces import matrix_files

    return matrix_files.read(settings.given, settings.item)


def _shared_out(sizes: dict[str, int], whole: str, heads: int) -> int | None:
    """The width of one head of a matrix that makes all of them."""
    if whole not in sizes:
        return None
    if sizes[whole] % heads:
        name = "w_query" if whole == "query_width" else "w_value"
        raise AttnvizError(
            f"'{name}' makes vectors {sizes[whole]} wide, which does not split into {heads} heads",
            f"give as many columns as {heads} times the width of a head",
        )
    return sizes[whole] // heads


def _scaled_without_width(settings: Settings) -> bool:
    if settings.scale:
        raise AttnvizError(
            "the scores are given, and nothing says how wide the queries were, whose root scales "
            "them",
            "give --head-dim, such as --head-dim 64",
        )
    return False


def _refuse_unused(given: Given, variant: Variant) -> None:
    """What is given is used; where it could not be, say so."""
    matrices = ("w_query", "w_key", "w_value", "b_query", "b_key", "b_value")
    unused = [name for name in matrices if getattr(given, name) is not None]
    if not variant.projected and unused:
        raise AttnvizError(
            f"'{variant.name}' projects nothing, and '{given.source}' gives '{unused[0]}'",
            "try --variant scaled, with --no-scale if need be",
        )
    unused = [name for name in ("queries", "keys", "scores") if getattr(given, name) is not None]
    if not variant.compared and unused:
        raise AttnvizError(
            f"'{variant.name}' compares nothing, and '{given.source}' gives '{unused[0]}'",
            "try --variant causal",
        )


def _refuse_what_does_not_fit(
    plan: Plan, tokens: int, dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    heads = plan.variant.heads * (plan.settings.layers or 1)
    projected = dim * heads * (plan.width or 1) if plan.variant.projected else 0
    devices.refuse_what_does_not_fit(tokens, heads, projected, dtype, device)
    if plan.settings.positions == "rotary" and plan.width and plan.width % 2:
        raise AttnvizError(
            f"rotary positions turn pairs of numbers, and a head is {plan.width} wide",
            f"try --head-dim {plan.width + 1}",
        )


def _second(text: str, settings: Settings) -> Tokens:
    try:
        return tokenize(text, settings.tokenizer)
    except AttnvizError as error:
        raise AttnvizError(f"--memory: {error}", error.hint) from None


def _keys(tokens: Tokens, given: Given) -> Tokens:
    """The tokens that are read: those that read, unless others are given."""
    if given.key_tokens is not None:
        return named(given.key_tokens)
    count = given.sizes.get("key", len(tokens))
    return tokens if count == len(tokens) else numbered(count)


def _other(tokens: Tokens, plan: Plan, embeddings: Vectors) -> Float[Tensor, "key dim"]:
    """The vectors of other tokens: the same token has the same vector as in the sentence."""
    settings = replace(plan.settings, dim=embeddings.shape[1])
    return _placed(embed(tokens, settings).to(embeddings), settings)


def _ids(settings: Settings, given: Given) -> int | None:
    """How many ids a table of embeddings has rows for; None where it is a person's own."""
    own = settings.embeddings is not None or given.anything
    return given.vocabulary or (None if own else vocabulary(settings.tokenizer))


def _placed(vectors: Vectors, settings: Settings) -> Vectors:
    """The vectors with what tells them where they stand, if that is added to them."""
    count, dim = vectors.shape
    return vectors + added_positions(count, dim, settings).to(vectors)


def added_positions(count: int, dim: int, settings: Settings) -> Vectors:
    """What is added to the embeddings so that a token knows where it stands."""
    if settings.positions == "sinusoidal":
        return positions.sinusoidal(count, dim)
    if settings.positions == "learned":
        return positions.learned(count, dim, settings.seed)
    return torch.zeros(count, dim)


def _provenance(
    plan: Plan, layer: Layer, device: torch.device, command: str | None, *, given: bool
) -> Provenance:
    """The settings as they turned out: no None where the variant or a file decided."""
    settings, variant = plan.settings, plan.variant
    decided = {
        "tokenizer": "given" if given else settings.tokenizer,
        "dim": layer.inputs.shape[1],
        "heads": layer.heads,
        "head_dim": layer.head_dim,
        "scale": variant.scaled,
        "causal": "given" if plan.given.visible is not None else variant.causal,
        "temperature": variant.temperature,
        "dropout": variant.dropout,
        "embeddings": settings.embeddings and Path(settings.embeddings).name,
        "given": settings.given and Path(settings.given).name,
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
