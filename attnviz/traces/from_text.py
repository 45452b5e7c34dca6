"""The path of a text to a Trace: tokens, embeddings, a plan, layers, provenance."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention import devices
from attnviz.errors import AttnvizError
from attnviz.tokens.tokenizers import tokenize, vocabulary
from attnviz.tokens.tokens import Tokens, named, numbered
from attnviz.traces import matrix_files
from attnviz.traces.layers import layers
from attnviz.traces.matrices import Matrices
from attnviz.traces.origin import Drawn, FromExample, Given, Origin
from attnviz.traces.plan import Plan, planned, refuse_odd_rotary, refuse_too_much
from attnviz.traces.settings import Settings
from attnviz.traces.trace import GIVEN, Layer, Provenance, Trace
from attnviz.vectors import loaded, positions
from attnviz.vectors.drawn import Seeds
from attnviz.version import __version__

Vectors = Float[Tensor, "*seed token dim"]


@dataclass(frozen=True, eq=False)
class Source:
    """What a Trace is made of: a text, or tokens; and all that is known before it is embedded."""

    text: str | None
    settings: Settings
    matrices: Matrices
    vectors: Float[Tensor, "token dim"] | None = None  # those of the file that the settings name

    @property
    def seeds(self) -> Seeds:
        return Seeds((self.settings.seed,))

    @property
    def origin(self) -> Origin:
        if self.settings.given is None and not self.matrices.anything:
            return Drawn(settings=self.settings, vectors=self.vectors)
        return Given(settings=self.settings, matrices=self.matrices, vectors=self.vectors)


def source_of(text: str | Trace | None, settings: Settings | None = None, **changes: Any) -> Source:
    """What a text, or a Trace that is there already, would be traced from."""
    if not isinstance(text, Trace):
        chosen = replace(settings or Settings(), **changes)
        return Source(text, chosen, _from_file(chosen))
    origin = text.origin
    return Source(
        text.text,
        replace(settings or origin.settings, **changes),
        Matrices() if isinstance(origin, Drawn) else origin.matrices,
        None if isinstance(origin, FromExample) else origin.vectors,
    )


def trace(
    text: str | None,
    settings: Settings | None = None,
    *,
    given: Matrices | None = None,
    vectors: Float[Tensor, "token dim"] | None = None,
    mistake: str = "",
    command: str | None = None,
    **changes: Any,
) -> Trace:
    """Attention on a text, every step of it kept.

    `changes` replace fields of the settings: `trace("I am learning this", variant="causal")`.
    What is `given` is used instead of what would be drawn or computed, and so are `vectors` for
    those of the file that the settings name. A `mistake` is one to be looked at.
    """
    chosen = replace(settings or Settings(), **changes)
    source = Source(text, chosen, given or _from_file(chosen), vectors)
    device = devices.choose(chosen.device, chosen.dtype)
    dtype: torch.dtype = getattr(torch, chosen.dtype)
    tokens = tokens_of(source)
    keys = _keys(tokens, source.matrices)
    memory = None if chosen.memory is None else _second(chosen.memory, chosen)
    source = with_vectors(source, tokens)
    embedded = embed(tokens, source)
    dim = embedded.shape[-1]
    plan = planned(chosen, source.matrices, dim, mistake=mistake)
    refuse_too_much(plan, len(tokens), dim, dtype, device)
    refuse_odd_rotary(plan)
    embeddings = embedded.to(device, dtype)
    plan = replace(plan, matrices=source.matrices.like(embeddings))
    if keys is not tokens:
        plan = replace(plan, key_inputs=_other(keys, plan, embeddings))
    read = None if memory is None else _other(memory, plan, embeddings)
    done = tuple(layers(plan, placed(embeddings, plan), read))
    return Trace(
        tokens=tokens,
        keys=keys,
        memory=memory,
        tokenizer=GIVEN if text is None else chosen.tokenizer,
        vocabulary=_vocabulary(source),
        variant=plan.variant,
        positions=chosen.positions,
        embeddings=embeddings,
        layers=done,
        origin=source.origin,
        provenance=_provenance(plan, done[0], device, command, given=text is None),
    )


def tokens_of(source: Source) -> Tokens:
    """The tokens of the text; without one those that are given, or as many as there are vectors."""
    given = source.matrices
    count = given.sizes.get("token", given.sizes.get("key"))
    if source.text is None:
        if count is None:
            raise AttnvizError(
                f"there is no text, and nothing in '{given.source}' says how many tokens there are",
                "give a sentence, or tokens, embeddings or scores in the file",
                file=given.source,
            )
        return numbered(count) if given.tokens is None else named(given.tokens)
    if given.tokens is not None:
        raise AttnvizError(
            f"a text is given, and '{given.source}' gives tokens",
            "leave one of them out",
            file=given.source,
        )
    tokens = tokenize(source.text, source.settings.tokenizer)
    if count not in (None, len(tokens)):
        raise AttnvizError(
            f"the text has {len(tokens)} tokens ({source.settings.tokenizer}), and "
            f"'{given.source}' is for {count}",
            "leave the text out, or cut it with another --tokenizer",
            file=given.source,
        )
    return tokens


def embed(tokens: Tokens, source: Source, seeds: Seeds | None = None) -> Vectors:
    """A vector for each token: given, from the file that the settings name, or drawn."""
    settings = source.settings
    found = source.matrices.embeddings if source.vectors is None else source.vectors
    dim = source.matrices.sizes.get("dim") if found is None else found.shape[1]
    if settings.dim is not None and dim not in (None, settings.dim):
        raise AttnvizError(
            f"--dim is {settings.dim}, and the embeddings are {dim} wide",
            f"leave --dim out, or give --dim {dim}",
        )
    if found is None:
        return (seeds or source.seeds).embed(tokens.ids, dim or settings.width)
    return found


def placed(vectors: Vectors, plan: Plan) -> Vectors:
    """The vectors with what tells them where they stand, if that is added to them."""
    count, dim = vectors.shape[-2:]
    if plan.settings.positions == "sinusoidal":
        return vectors + positions.sinusoidal(count, dim).to(vectors)
    if plan.settings.positions == "learned":
        return vectors + positions.learned(count, dim, plan.seeds).to(vectors)
    return vectors


def _from_file(settings: Settings) -> Matrices:
    if settings.given is None:
        return Matrices()
    return matrix_files.read(settings.given, settings.item)


def with_vectors(source: Source, tokens: Tokens) -> Source:
    """With the vectors of the file that the settings name, if they name one."""
    if source.settings.embeddings is None:
        return source
    if source.matrices.embeddings is not None:
        raise AttnvizError(
            f"--embeddings is given, and '{source.matrices.source}' gives embeddings, too",
            "leave one of them out",
            file=source.matrices.source,
        )
    if source.vectors is not None and len(source.vectors) == len(tokens):
        return source
    return replace(source, vectors=loaded.from_file(source.settings.embeddings, tokens))


def _second(text: str, settings: Settings) -> Tokens:
    try:
        return tokenize(text, settings.tokenizer)
    except AttnvizError as error:
        raise error.told(f"--memory: {error}") from None


def _keys(tokens: Tokens, given: Matrices) -> Tokens:
    """The tokens that are read: those that read, unless others are given."""
    if given.key_tokens is not None:
        return named(given.key_tokens)
    count = given.sizes.get("key", len(tokens))
    return tokens if count == len(tokens) else numbered(count)


def _other(
    tokens: Tokens, plan: Plan, embeddings: Float[Tensor, "token dim"]
) -> Float[Tensor, "key dim"]:
    """The vectors of other tokens: the same token has the same vector as in the sentence."""
    settings = replace(plan.settings, dim=embeddings.shape[1])
    source = with_vectors(Source(None, settings, Matrices()), tokens)
    return placed(embed(tokens, source).to(embeddings), plan)


def _vocabulary(source: Source) -> int | None:
    """How many ids a table of embeddings has rows for; None where it is a person's own."""
    own = source.settings.embeddings is not None or source.matrices.anything
    found = source.matrices.vocabulary
    return found or (None if own else vocabulary(source.settings.tokenizer))


def _provenance(
    plan: Plan, layer: Layer, device: torch.device, command: str | None, *, given: bool
) -> Provenance:
    """The settings as they turned out: no None where the variant or a file decided."""
    settings, variant = plan.settings, plan.variant
    decided = {
        "tokenizer": GIVEN if given else settings.tokenizer,
        "dim": layer.inputs.shape[1],
        "heads": layer.heads,
        "head_dim": layer.head_dim,
        "scale": variant.scaled,
        "causal": GIVEN if "visible" in layer.given else variant.causal,
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
    return Provenance(
        version=__version__,
        command=command,
        settings=asdict(settings) | decided,
        seed=settings.seed,
        device=str(device),
        dtype=settings.dtype,
        versions=versions,
    )
