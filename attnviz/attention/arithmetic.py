"""The arithmetic of attention, one pure function a step; every source of attention goes through it.

In the shapes, `token` counts the sentence, `query` the tokens that read, `key` those that are
read; `dim` is the width of an embedding, `head` counts heads, and `width` is that of one head.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.variants import Variant


@dataclass(frozen=True, eq=False)
class Attended:
    """What attention made of scores and values, in the order it happened."""

    scores: Float[Tensor, "head query key"]  # raw dot products
    scaled_scores: Float[Tensor, "head query key"]
    bias: Float[Tensor, "#head query key"] | None  # what is added to them, as ALiBi does
    weights: Float[Tensor, "head query key"]  # after softmax: every row sums to 1
    mixing: Float[Tensor, "head query key"]  # the weights, or what values are mixed by instead
    mixed_by: str  # "softmax", "dropout", or "hand": where `mixing` comes from
    contexts: Float[Tensor, "head query value_width"]

    @property
    def logits(self) -> Float[Tensor, "head query key"]:
        """What the softmax is taken of, but for the mask."""
        return self.scaled_scores if self.bias is None else self.scaled_scores + self.bias


def attend(
    scores: Float[Tensor, "head query key"],
    values: Float[Tensor, "head key value_width"],
    visible: Bool[Tensor, "query key"],
    *,
    scale: float,
    bias: Float[Tensor, "#head query key"] | None = None,
    kept: Float[Tensor, "#head query key"] | None = None,
    by_hand: Float[Tensor, "head query key"] | None = None,
) -> Attended:
    """Attention from its scores on: scale, bias, mask and softmax, dropout, mixture.

    `kept` is what dropout multiplies the weights with; weights `by_hand` take their place.
    """
    scaled_scores = scores * scale
    logits = scaled_scores if bias is None else scaled_scores + bias
    weights = attention_weights(logits, visible)
    mixing, mixed_by = weights, "softmax"
    if kept is not None:
        mixing, mixed_by = weights * kept, "dropout"
    if by_hand is not None:
        mixing, mixed_by = by_hand, "hand"
    contexts = mix(mixing, values)
    return Attended(scores, scaled_scores, bias, weights, mixing, mixed_by, contexts)


def project(
    inputs: Float[Tensor, "*batch token dim"],
    matrix: Float[Tensor, "*batch dim out"],
    bias: Float[Tensor, "out"] | None = None,
) -> Float[Tensor, "*batch token out"]:
    """Each token's query, key or value: x W, and a bias if there is one."""
    return inputs @ matrix if bias is None else inputs @ matrix + bias


def split_heads(
    joined: Float[Tensor, "*batch token out"], heads: int
) -> Float[Tensor, "*batch {heads} token width"]:
    """Neighbouring columns go to one head."""
    return rearrange(joined, "... token (head width) -> ... head token width", head=heads)


def join_heads(split: Float[Tensor, "head token width"]) -> Float[Tensor, "token out"]:
    """The heads side by side again; undoes `split_heads`."""
    return rearrange(split, "head token width -> token (head width)")


def similarity(
    queries: Float[Tensor, "head query width"], keys: Float[Tensor, "head key width"]
) -> Float[Tensor, "head query key"]:
    """How well each query matches each key: their dot product."""
    return queries @ keys.transpose(-2, -1)


def scale_of(variant: Variant, width: int) -> float:
    """What scores are multiplied with: 1/√width if they are scaled, over the temperature."""
    return (width**-0.5 if variant.scaled else 1.0) / variant.temperature


def visible_cells(
    variant: Variant, tokens: int, device: torch.device, keys: int | None = None
) -> Bool[Tensor, "query key"]:
    """Which key each query may look at; every token sees itself."""
    position = torch.arange(max(tokens, keys or 0), device=device)
    return variant.sees(position[:tokens, None], position[None, : keys or tokens])


def attention_weights(
    scores: Float[Tensor, "head query key"], visible: Bool[Tensor, "query key"]
) -> Float[Tensor, "head query key"]:
    """Scores to shares of attention: what is hidden gets exactly 0, and a row sums to 1."""
    return scores.masked_fill(~visible, -inf).softmax(dim=-1)


def weighted(
    weights: Float[Tensor, "head key"], values: Float[Tensor, "head key value_width"]
) -> Float[Tensor, "head key value_width"]:
    """What each key's value adds to one query's context vector."""
    return weights[..., None] * values


def mix(
    weights: Float[Tensor, "head query key"], values: Float[Tensor, "head key value_width"]
) -> Float[Tensor, "head query value_width"]:
    """Each token's context vector: the values, averaged by the weights."""
    return weights @ values
