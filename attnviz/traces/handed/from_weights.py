"""Weights that were computed elsewhere, with their tokens, to a Trace."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.variants import Variant
from attnviz.errors import AttnvizError, mention
from attnviz.tokens.tokens import Tokens
from attnviz.traces.handed.layers import Handed, handed
from attnviz.traces.handed.words import IDS, numbered_alike, tokens_of
from attnviz.traces.matrices import Matrices
from attnviz.traces.origin import FromWeights
from attnviz.traces.settings import Settings
from attnviz.traces.trace import GIVEN, Provenance, Trace
from attnviz.traces.weights_alone import layer_of
from attnviz.version import __version__
from attnviz.wording.keywords import of_its_kinds
from attnviz.wording.words import counted, shape_text

Layers = Mapping[int, Float[Tensor, "head query key"]]

OF_SCORES = "give what the softmax makes: scores.softmax(-1)"
OF_NAN = "a row from which all is masked comes out as NaN: weights.nan_to_num(0)"


@dataclass(frozen=True, eq=False)
class Sides:
    """Who reads, and who is read: the same tokens, or others."""

    reads: Tokens
    read: Tokens


@of_its_kinds
def from_weights(
    weights: object,
    tokens: object = None,
    *,
    keys: object = None,
    tokenizer: object = None,
    item: int | None = None,
    name: str = "",
) -> Trace:
    """A Trace of attention weights that were computed elsewhere.

    `weights` are those of torch, NumPy or lists: [query, key], [head, query, key] or
    [layer, head, query, key]; or what a model of transformers hands back, `outputs.attentions`,
    also that of `generate()`. `tokens` are words, pieces of a vocabulary, or ids with their
    `tokenizer`; `keys` those that are read, where they are others. Of a batch, [item, head,
    query, key] in each layer, one `item` is looked at, from 1; `name` says whose weights they are.

    >>> from attnviz import from_weights
    >>> from_weights([[1, 0], [0.25, 0.75]], ["I", "am"]).weights.shape
    torch.Size([1, 1, 2, 2])
    """
    found = handed(weights, item, across=keys is not None)
    _refuse_odd_numbers(found.layers)
    sides = _sides(found, tokens, keys, tokenizer, item)
    visible, causal = _sight(found.layers, sides)
    return _trace(found, sides, visible, causal=causal, name=name)


def _trace(
    found: Handed, sides: Sides, visible: Bool[Tensor, "query key"], *, causal: bool, name: str
) -> Trace:
    first = next(iter(found.layers.values()))
    nothing = first.new_zeros(len(sides.reads), 0)
    others = None if sides.read is sides.reads else first.new_zeros(len(sides.read), 0)
    layers = [
        layer_of(number, each.to(first), visible=visible, inputs=nothing, key_inputs=others)
        for number, each in found.layers.items()
    ]
    origin = FromWeights(
        name=name,
        stored_as=found.stored_as,
        matrices=Matrices(item=found.chosen.item, items=found.chosen.items),
    )
    return Trace(
        tokens=sides.reads,
        keys=sides.read,
        tokenizer=GIVEN,
        variant=Variant(GIVEN, "weights that were computed elsewhere", causal=causal,
                        heads=len(first)),
        embeddings=nothing,
        layers=tuple(layers),
        prompt=found.prompt,
        origin=origin,
        provenance=_provenance(origin, str(first.dtype)),
    )  # fmt: skip


def _provenance(origin: FromWeights, dtype: str) -> Provenance:
    return Provenance(
        version=__version__,
        command=None,
        settings={"weights": GIVEN, "name": origin.name, "stored_as": origin.stored_as},
        seed=Settings.seed,
        device="cpu",
        dtype=dtype.removeprefix("torch."),
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    )


def _sides(found: Handed, tokens: Any, keys: Any, tokenizer: Any, item: int | None) -> Sides:
    """The tokens of rows and of columns, as many as there are of these."""
    queries, count = next(iter(found.layers.values())).shape[-2:]
    if keys is not None:
        reads = _read_ones(tokens_of(tokens, queries, tokenizer, item), queries, found)
        read = tokens_of(keys, count, tokenizer, item)
        _refuse_exchanged(reads, read, queries, count)
        _refuse_other_count("keys", read, count)
        _refuse_other_count("tokens", reads, queries)
        return Sides(reads, read) if tokenizer else Sides(*numbered_alike(reads, read))
    every = _read_ones(tokens_of(tokens, count, tokenizer, item), count, found)
    others = queries < count and (tokens is None or len(every) == queries)
    if queries > count or others:
        raise _no_keys(queries, count)
    _refuse_other_count("tokens", every, count)
    return Sides(every if queries == count else part_of(every, slice(-queries, None)), every)


def _read_ones(tokens: Tokens, count: int, found: Handed) -> Tokens:
    """Without the last token that a model wrote: it stops there, and reads it no more."""
    if found.prompt is None or len(tokens) != count + 1:
        return tokens
    mention("the last token was written and never read: left out")
    return part_of(tokens, slice(None, count))


def part_of(tokens: Tokens, part: slice) -> Tokens:
    """Some tokens, one after another."""
    places = range(len(tokens))[part]
    return Tokens(
        b"".join(tokens.pieces[part]).decode(errors="replace"),
        tokens.pieces[part],
        tokens.ids[part],
        tokens.spaced[part],
        tokens.words[part],
        frozenset(place - places.start for place in tokens.special if place in places),
    )


def _refuse_other_count(what: str, tokens: Tokens, count: int) -> None:
    if len(tokens) != count:
        raise AttnvizError(
            f"the weights are for {counted(count, 'token')}, but {len(tokens)} are given as {what}",
            f"{IDS}, which includes [CLS] and the like"
            if len(tokens) < count
            else "give exactly the tokens that the weights are for",
            about=what,
        )


def _refuse_exchanged(reads: Tokens, read: Tokens, queries: int, count: int) -> None:
    if len(reads) == count != queries == len(read):
        raise AttnvizError(
            f"the weights are {shape_text((queries, count))}: {len(read)} tokens read "
            f"{len(reads)}, but the tokens are given the other way round",
            "give those that read as tokens and those that are read as keys; or transpose the "
            "weights",
            about="keys",
        )


def _no_keys(queries: int, keys: int) -> AttnvizError:
    return AttnvizError(
        f"the weights are {shape_text((queries, keys))}: {queries} tokens read {keys} others",
        "give keys, the tokens that are read",
        about="keys",
    )


def _refuse_odd_numbers(layers: Layers) -> None:
    """Weights are shares: none is NaN, infinite, or less than nothing."""
    for number, each in layers.items():
        if not each.numel():
            raise AttnvizError(
                f"the weights are {shape_text(each.shape)}: there are none", "give at least one"
            )
        odd = ~each.isfinite() | (each < 0)
        if odd.any():
            raise _odd(number, each, tuple(odd.nonzero()[0].tolist()))


def _odd(number: int, weights: Tensor, place: tuple[int, ...]) -> AttnvizError:
    head, row, column = place
    found = weights[place]
    told = "NaN" if found.isnan() else f"{found.item():g}".replace("inf", "infinity")
    hint = OF_NAN if found.isnan() else OF_SCORES
    where = f"layer {number}, head {head}, at row {row + 1}, column {column + 1}"
    return AttnvizError(f"the weights have {told} in {where}, which is not a share", hint)


def _sight(layers: Layers, sides: Sides) -> tuple[Bool[Tensor, "query key"], bool]:
    """Who may be read; what stands above the diagonal counts as hidden where all of it is 0.

    A mask makes it so in every head of every layer; heads that hardly read do so by chance, which
    is why something has to be read of all that stands before a token, by one of them.
    """
    seen = torch.stack([(each > 0).any(0) for each in layers.values()]).any(0)
    causal = torch.ones_like(seen).tril()
    own = sides.read is sides.reads and len(seen) > 1
    hides = own and bool((seen == causal).all())
    return (causal if hides else torch.ones_like(seen)), hides
