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

from attnviz.variants import Variant


@dataclass(frozen=True, eq=False)
class Attended:
    """What attention made of queries, keys and values, in the order it happened."""

    scores: Float[Tensor, "head query key"]  # raw dot products
    scaled_scores: Float[Tensor, "head query key"]
    weights: Float[Tensor, "head query key"]  # after softmax: every row sums to 1
    mixing: Float[Tensor, "head query key"]  # the weights, or what dropout left of them
    contexts: Float[Tensor, "head query value_width"]


def attend(
    queries: Float[Tensor, "head query width"],
    keys: Float[Tensor, "head key width"],
    values: Float[Tensor, "head key value_width"],
    visible: Bool[Tensor, "query key"],
    *,
    scale: float,
    kept: Float[Tensor, "head query key"] | None = None,
) -> Attended:
    """The whole of attention: scores, scale, mask and softmax, dropout, mixture."""
    scores = similarity(queries, keys)
    scaled_scores = scores * scale
    weights = attention_weights(scaled_scores, visible)
    mixing = weights if kept is None else weights * kept
    return Attended(scores, scaled_scores, weights, mixing, mix(mixing, values))


def project(
    inputs: Float[Tensor, "*batch token dim"], matrix: Float[Tensor, "*batch dim out"]
) -> Float[Tensor, "*batch token out"]:
    """Each token's query, key or value: x W."""
    return inputs @ matrix


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


def visible_cells(variant: Variant, tokens: int, device: torch.device) -> Bool[Tensor, "query key"]:
    """Which key each query may look at; every token sees itself."""
    position = torch.arange(tokens, device=device)
    return variant.sees(position[:, None], position[None, :])


def attention_weights(
    scores: Float[Tensor, "head query key"], visible: Bool[Tensor, "query key"]
) -> Float[Tensor, "head query key"]:
    """Scores to shares of attention: what is hidden gets exactly 0, and a row sums to 1."""
    return scores.masked_fill(~visible, -inf).softmax(dim=-1)


def mix(
    weights: Float[Tensor, "head query key"], values: Float[Tensor, "head key value_width"]
) -> Float[Tensor, "head query value_width"]:
    """Each token's context vector: the values, averaged by the weights."""
    return weights @ values
