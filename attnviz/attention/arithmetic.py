"""The arithmetic of attention, one pure function a step; every source of attention goes through it.

In the shapes, `token` counts the sentence, `query` the tokens that read, `key` those that are
read; `dim` is the width of an embedding, `head` counts heads, and `width` is that of one head.
`batch` is whatever is worked out at once: the seeds of a sweep, the sentences of a lesson.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from math import inf
from operator import add
from typing import Literal, get_args

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.attention.variants import AblationValue, Variant

# Where the weights come from that values are mixed by.
MixedBy = Literal["softmax", "dropout", "hand", "mistake"]
MIXED_BY: tuple[MixedBy, ...] = get_args(MixedBy)
ADDITIVE_NUMBERS_AT_ONCE = 2**22  # of additive scores, before they are added up
WeightFunction = Callable[[Tensor, Tensor], Tensor]
Visible = Bool[Tensor, "*#head query key"]  # one for all heads, or one for each


@dataclass(frozen=True, eq=False)
class AttentionStages:
    """What attention made of scores and values, in the order it happened."""

    scores: Float[Tensor, "*batch head query key"]  # raw dot products
    scaled_scores: Float[Tensor, "*batch head query key"]
    capped_scores: Float[Tensor, "*batch head query key"] | None  # where a soft cap bends them
    bias: Float[Tensor, "*#batch #head query key"] | None  # what is added to them, as ALiBi does
    mask: Float[Tensor, "*#head query key"] | None  # and what a mask of numbers adds
    weights: Float[Tensor, "*batch head query key"]  # after softmax: every row sums to 1
    mixing: Float[
        Tensor, "*batch head query key"
    ]  # the weights, or what values are mixed by instead
    mixed_by: MixedBy
    contexts: Float[Tensor, "*batch head query value_width"]  # of heads that are off what is put in
    sink: Float[Tensor, "head"] | None = None  # scores of what is not there, and takes its share

    @property
    def biased(self) -> Float[Tensor, "*batch head query key"]:
        """Scores and what a distance adds to them."""
        base_scores = self.scaled_scores if self.capped_scores is None else self.capped_scores
        return add_to_scores(base_scores, self.bias)

    @property
    def logits(self) -> Float[Tensor, "*batch head query key"]:
        """What the softmax is taken of, but for what is hidden."""
        return add_to_scores(self.biased, self.mask)

    def select_part(self, part: Callable[[Tensor], Tensor]) -> AttentionStages:
        """The same of some queries, or heads: `part` of each matrix. No sink, which has no rows."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = {name: part(value) for name, value in values.items() if isinstance(value, Tensor)}
        return AttentionStages(**(values | parts | {"sink": None}))


def compute_attention(
    scores: Float[Tensor, "*batch head query key"],
    values: Float[Tensor, "*batch group key value_width"],
    visible: Visible,
    *,
    scale: float,
    soft_cap: float | None = None,
    bias: Float[Tensor, "*#batch #head query key"] | None = None,
    mask: Float[Tensor, "*#head query key"] | None = None,
    dropout_factors: Float[Tensor, "*#batch #head query key"] | None = None,
    by_hand: Float[Tensor, "*batch head query key"] | None = None,
    mistaken_weights: WeightFunction | None = None,
    off: Mapping[int, AblationValue] | None = None,
    sink: Float[Tensor, "head"] | None = None,
) -> AttentionStages:
    """Attention from its scores on: scale, soft cap, bias, masks and softmax, dropout, mixture.

    `dropout_factors` is what dropout multiplies the weights with; weights `by_hand` take their place. A
    mistake weighs in a way of its own, and nothing else is done to its weights. Heads that are
    `off` weigh as ever, and hand on nothing of it. A `sink` takes part in the softmax, and what it
    gets is lost.
    """
    scaled_scores = scores * scale
    capped_scores = None if soft_cap is None else cap_scores(scaled_scores, soft_cap)
    logits = add_to_scores(scaled_scores if capped_scores is None else capped_scores, bias, mask)
    mixed_by: MixedBy = "softmax"
    if mistaken_weights is None:
        weights = mixing = attention_weights(logits, visible, sink)
    else:
        weights = mixing = mistaken_weights(logits, visible)
        mixed_by, dropout_factors, by_hand = "mistake", None, None
    if dropout_factors is not None:
        mixing, mixed_by = weights * dropout_factors, "dropout"
    if by_hand is not None:
        mixing, mixed_by = by_hand, "hand"
    contexts = switch_off_heads(
        mix_values(mixing, repeat_groups(values, scores.shape[-3])), off or {}
    )
    return AttentionStages(
        scores, scaled_scores, capped_scores, bias, mask, weights, mixing, mixed_by, contexts, sink
    )


def cap_scores(
    scores: Float[Tensor, "*batch head query key"], soft_cap: float | None
) -> Float[Tensor, "*batch head query key"]:
    """Scores bent so that none goes beyond the cap: cap · tanh(score / cap).

    16 bits would lose a small share of a large cap; at least 32 do not.
    """
    if soft_cap is None:
        return scores
    precise = scores if scores.dtype == torch.float64 else scores.float()
    return (soft_cap * (precise / soft_cap).tanh()).to(scores)


def add_to_scores(
    scores: Float[Tensor, "*batch head query key"], *terms: Float[Tensor, "..."] | None
) -> Float[Tensor, "*batch head query key"]:
    """Scores and what is added to them, by a distance or by a mask, where anything is."""
    return reduce(add, (term for term in terms if term is not None), scores)


def project(
    inputs: Float[Tensor, "*#batch token dim"],
    matrix: Float[Tensor, "*#batch dim out"],
    bias: Float[Tensor, "... out"] | None = None,
) -> Float[Tensor, "*batch token out"]:
    """Each token's query, key or value: x W, and a bias if there is one."""
    product = _batched_product(inputs, matrix)
    return product if bias is None else product + bias


def _batched_product(
    inputs: Float[Tensor, "*#batch token dim"], matrix: Float[Tensor, "*#batch dim out"]
) -> Float[Tensor, "*batch token out"]:
    """x W; all sentences of one of several models at once, which takes a third of the time."""
    if matrix.ndim < 4 or matrix.shape[-3] != 1:
        return inputs @ matrix
    flat_product = inputs.flatten(-3, -2) @ matrix.squeeze(-3)
    return flat_product.reshape(*inputs.shape[:-1], matrix.shape[-1])


def split_heads(
    joined: Float[Tensor, "*batch token out"], heads: int
) -> Float[Tensor, "*batch {heads} token width"]:
    """Neighbouring columns go to one head."""
    return rearrange(joined, "... token (head width) -> ... head token width", head=heads)


def join_heads(
    split: Float[Tensor, "*batch head token width"],
) -> Float[Tensor, "*batch token out"]:
    """The heads side by side again; undoes `split_heads`."""
    return rearrange(split, "... head token width -> ... token (head width)")


def repeat_groups(
    vectors: Float[Tensor, "*batch group key width"], heads: int
) -> Float[Tensor, "*batch {heads} key width"]:
    """Keys or values of each head, where neighbouring heads share those of a group."""
    groups = vectors.shape[-3]
    return vectors if groups == heads else vectors.repeat_interleave(heads // groups, dim=-3)


def similarity(
    queries: Float[Tensor, "*batch head query width"], keys: Float[Tensor, "*batch head key width"]
) -> Float[Tensor, "*batch head query key"]:
    """How well each query matches each key: their dot product."""
    return queries @ keys.transpose(-2, -1)


def additive_similarity(
    queries: Float[Tensor, "*batch head query width"],
    keys: Float[Tensor, "*batch head key width"],
    w_score: Float[Tensor, "*#batch out"],
) -> Float[Tensor, "*batch head query key"]:
    """How well each query matches each key, as Bahdanau has it: w · tanh(query + key).

    A few queries at a time: every pair has numbers of its own before they are added up.
    """
    heads, count = queries.shape[-3:-1]
    weights = rearrange(w_score, "... (head width) -> ... head width 1", head=heads)
    queries_at_once = max(1, ADDITIVE_NUMBERS_AT_ONCE // max(1, keys.numel()))
    similarities = [
        ((part[..., :, None, :] + keys[..., None, :, :]).tanh() @ weights[..., None, :, :])
        for part in (
            queries[..., start : start + queries_at_once, :]
            for start in range(0, count, queries_at_once)
        )
    ]
    return torch.cat(similarities, dim=-3).squeeze(-1)


def score_scale(variant: Variant, width: int) -> float:
    """What scores are multiplied with: 1/√width if they are scaled, over the temperature."""
    return (width**-0.5 if variant.scaled else 1.0) / variant.temperature


def visible_cells(
    variant: Variant, tokens: int, device: torch.device, keys: int | None = None
) -> Bool[Tensor, "query key"]:
    """Which key each query may look at; every token sees itself."""
    position = torch.arange(max(tokens, keys or 0), device=device)
    return variant.sees(position[:tokens, None], position[None, : keys or tokens])


def attention_weights(
    scores: Float[Tensor, "*batch head query key"],
    visible: Visible,
    sink: Float[Tensor, "head"] | None = None,
) -> Float[Tensor, "*batch head query key"]:
    """Scores to shares of attention: what is hidden gets exactly 0, and a row sums to 1.

    A row from which everything is hidden reads nothing, and is 0 throughout. Where there is a
    sink, it is one more key of the softmax, and a row sums to what it leaves.
    """
    visible_scores = scores if visible.all() else scores.masked_fill(~visible, -inf)
    if sink is None:
        return softmax_or_zeros(visible_scores, -1)
    sink_scores = sink.to(visible_scores)[:, None, None].expand(*visible_scores.shape[:-1], 1)
    return softmax_or_zeros(torch.cat([visible_scores, sink_scores], dim=-1), -1)[..., :-1]


def softmax_or_zeros(numbers: Float[Tensor, "*any"], dim: int) -> Float[Tensor, "*any"]:
    """The softmax along one side; 0 wherever that has nothing but −∞, of which 0/0 would come."""
    weights = numbers.softmax(dim=dim)
    if (
        not weights.sum().isnan()
    ):  # a single look at all of them: the rule, in every step of training
        return weights
    all_hidden = (numbers == -inf).all(dim=dim, keepdim=True)
    return weights.masked_fill(all_hidden, 0)


def weigh_values(
    weights: Float[Tensor, "*batch head key"], values: Float[Tensor, "*batch head key value_width"]
) -> Float[Tensor, "*batch head key value_width"]:
    """What each key's value adds to one query's context vector."""
    return weights[..., None] * values


def switch_off_heads(
    contexts: Float[Tensor, "*batch head query value_width"], off: Mapping[int, AblationValue]
) -> Float[Tensor, "*batch head query value_width"]:
    """Context vectors, but 0, or their mean over the sentence, for heads that are switched off."""
    if not off:
        return contexts
    heads = list(contexts.unbind(-3))
    for head, instead in off.items():
        mean = heads[head].mean(-2, keepdim=True).expand_as(heads[head])
        heads[head] = mean if instead == "mean" else torch.zeros_like(mean)
    return torch.stack(heads, -3)


def mix_values(
    weights: Float[Tensor, "*batch head query key"],
    values: Float[Tensor, "*batch head key value_width"],
) -> Float[Tensor, "*batch head query value_width"]:
    """Each token's context vector: the values, averaged by the weights."""
    return weights @ values
