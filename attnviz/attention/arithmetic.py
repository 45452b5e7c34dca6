"""The arithmetic of attention, a pure function for each step; every source uses it.

In the shapes, `token` counts tokens, `query` the tokens that attend, `key` those attended to;
`dim` is the width of an embedding, `head` counts heads, and `width` is that of one head.
`batch` is whatever is computed at once, such as the seeds of a sweep or the texts of a batch.
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

from attnviz.attention.variants import Variant
from attnviz.options.values import AblationValue
from attnviz.wording.words import with_summary

MixedBy = Literal["softmax", "dropout", "hand", "mistake"]  # the source of the mixing weights
MIXED_BY: tuple[MixedBy, ...] = get_args(MixedBy)
ADDITIVE_NUMBERS_AT_ONCE = 2**22  # of additive scores, before they are summed
WeightFunction = Callable[[Tensor, Tensor], Tensor]
PairNumbers = Float[Tensor, "*batch head query key"]  # one for each query and key
Contexts = Float[Tensor, "*batch head query value_width"]
HeadQueries = Float[Tensor, "*batch head query width"]
HeadKeys = Float[Tensor, "*batch head key width"]  # repeated where heads share them, as values are
HeadValues = Float[Tensor, "*batch head key value_width"]
Joined = Float[Tensor, "*batch token out"]  # of all heads, side by side
Visible = Bool[Tensor, "*#head query key"]  # one mask for all heads, or one for each


@with_summary
@dataclass(frozen=True, eq=False)
class AttentionStages:
    """Every stage of attention from scores to context vectors, in their order."""

    scores: Float[Tensor, "*batch head query key"]  # raw dot products
    scaled_scores: Float[Tensor, "*batch head query key"]
    capped_scores: Float[Tensor, "*batch head query key"] | None  # None: no soft cap
    bias: Float[Tensor, "*#batch #head query key"] | None  # added to scores, as by ALiBi
    mask: Float[Tensor, "*#head query key"] | None  # numbers that a mask adds to scores
    weights: Float[Tensor, "*batch head query key"]  # after softmax: every row sums to 1
    mixing: Float[Tensor, "*batch head query key"]  # by which values are mixed: often `weights`
    mixed_by: MixedBy
    contexts: Float[Tensor, "*batch head query value_width"]  # after ablation of heads
    sink: Float[Tensor, "head"] | None = None  # scores of a key without a value

    @property
    def biased(self) -> PairNumbers:
        """The scaled (and capped) scores plus the bias."""
        scores = self.scaled_scores if self.capped_scores is None else self.capped_scores
        return add_to_scores(scores, self.bias)

    @property
    def logits(self) -> PairNumbers:
        """The input of the softmax, before masked keys are set to -inf."""
        return add_to_scores(self.biased, self.mask)

    def select_part(self, part: Callable[[Tensor], Tensor]) -> AttentionStages:
        """Return the stages with `part` applied to each tensor, to select queries or heads.

        The sink is dropped.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = {name: part(value) for name, value in values.items() if isinstance(value, Tensor)}
        return AttentionStages(**(values | parts | {"sink": None}))


class StagesWithoutTerms(AttentionStages):
    """Stages of which a part is computed when asked for, with nothing but a softmax between them:
    no soft cap, bias, additive mask or sink.
    """

    capped_scores = None
    bias = None
    mask = None
    sink = None
    mixed_by: MixedBy = "softmax"


def compute_attention(
    scores: PairNumbers,
    values: Float[Tensor, "*batch group key value_width"],
    visible: Visible,
    *,
    scale: float,
    soft_cap: float | None = None,
    bias: Float[Tensor, "*#batch #head query key"] | None = None,
    mask: Float[Tensor, "*#head query key"] | None = None,
    dropout_factors: Float[Tensor, "*#batch #head query key"] | None = None,
    by_hand: PairNumbers | None = None,
    mistaken_weights: WeightFunction | None = None,
    off: Mapping[int, AblationValue] | None = None,
    sink: Float[Tensor, "head"] | None = None,
) -> AttentionStages:
    """Compute attention from its scores on: scale, soft cap, bias, mask, softmax, dropout, mix.

    `dropout_factors` multiply the weights; weights `by_hand` replace them. `mistaken_weights`
    replaces the softmax, and excludes both. Heads that are `off` have weights as usual, but their
    contexts are replaced. A `sink` takes part in the softmax, and its share of attention is lost.
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
    contexts = mix_values(mixing, repeat_groups(values, scores.shape[-3]))
    contexts = switch_off_heads(contexts, off or {})
    return AttentionStages(
        scores, scaled_scores, capped_scores, bias, mask, weights, mixing, mixed_by, contexts, sink
    )


def cap_scores(scores: PairNumbers, soft_cap: float | None) -> PairNumbers:
    """Return soft_cap · tanh(score / soft_cap) for each score; unchanged if `soft_cap` is None.

    It is computed in at least 32 bits, and returned in the scores' dtype.
    """
    if soft_cap is None:
        return scores
    precise = scores if scores.dtype == torch.float64 else scores.float()
    return (soft_cap * (precise / soft_cap).tanh()).to(scores)


def add_to_scores(scores: PairNumbers, *terms: Float[Tensor, "..."] | None) -> PairNumbers:
    """Return the scores plus those of `terms` (a bias, a mask) that are not None."""
    return reduce(add, (term for term in terms if term is not None), scores)


def project(
    inputs: Float[Tensor, "*#batch token dim"],
    matrix: Float[Tensor, "*#batch dim out"],
    bias: Float[Tensor, "... out"] | None = None,
) -> Joined:
    """Return x W + b for each token, such as its query, key or value.

    A `bias` of None adds nothing.
    """
    if matrix.ndim < 4 or matrix.shape[-3] != 1:
        product = inputs @ matrix
    else:  # all texts of each of several models at once, which takes a third of the time
        product = inputs.flatten(-3, -2) @ matrix.squeeze(-3)
        product = product.reshape(*inputs.shape[:-1], matrix.shape[-1])
    return product if bias is None else product + bias


def split_heads(joined: Joined, heads: int) -> Float[Tensor, "*batch {heads} token width"]:
    """Return columns split between `heads` heads, neighbouring columns to one head."""
    return rearrange(joined, "... token (head width) -> ... head token width", head=heads)


def join_heads(split: Float[Tensor, "*batch head token width"]) -> Joined:
    """Return the vectors of all heads side by side; undoes `split_heads`."""
    return rearrange(split, "... head token width -> ... token (head width)")


def repeat_groups(
    vectors: Float[Tensor, "*batch group key width"], heads: int
) -> Float[Tensor, "*batch {heads} key width"]:
    """Return keys or values with one copy for each of `heads` heads.

    Neighbouring heads share those of a group.
    """
    groups = vectors.shape[-3]
    return vectors if groups == heads else vectors.repeat_interleave(heads // groups, dim=-3)


def similarity(queries: HeadQueries, keys: HeadKeys) -> PairNumbers:
    """Return the dot product of each query with each key."""
    return queries @ keys.transpose(-2, -1)


def additive_similarity(
    queries: HeadQueries, keys: HeadKeys, w_score: Float[Tensor, "*#batch out"]
) -> PairNumbers:
    """Return Bahdanau's score of each query and key: w · tanh(query + key).

    Computed for a few queries at a time, as each pair needs `width` numbers before the sum.
    """
    heads, count = queries.shape[-3:-1]
    weights = rearrange(w_score, "... (head width) -> ... head width 1", head=heads)
    queries_at_once = max(1, ADDITIVE_NUMBERS_AT_ONCE // max(1, keys.numel()))
    parts = (queries[..., start : start + queries_at_once, :]
             for start in range(0, count, queries_at_once))  # fmt: skip
    similarities = [
        ((part[..., :, None, :] + keys[..., None, :, :]).tanh() @ weights[..., None, :, :])
        for part in parts
    ]
    return torch.cat(similarities, dim=-3).squeeze(-1)


def score_scale(variant: Variant, width: int) -> float:
    """Return the factor of scores: 1/√width (1 if unscaled), divided by the temperature."""
    return (width**-0.5 if variant.scaled else 1.0) / variant.temperature


def attention_weights(
    scores: PairNumbers, visible: Visible, sink: Float[Tensor, "head"] | None = None
) -> PairNumbers:
    """Return the softmax of each row, with exactly 0 for masked keys; a fully masked row is 0.

    A sink is one more key of the softmax, so that a row sums to less than 1.
    """
    visible_scores = scores if visible.all() else scores.masked_fill(~visible, -inf)
    if sink is None:
        return softmax_or_zeros(visible_scores, -1)
    sink_scores = sink.to(visible_scores)[:, None, None].expand(*visible_scores.shape[:-1], 1)
    return softmax_or_zeros(torch.cat([visible_scores, sink_scores], dim=-1), -1)[..., :-1]


def softmax_or_zeros(numbers: Float[Tensor, "*any"], dim: int) -> Float[Tensor, "*any"]:
    """Return the softmax along `dim`, with 0 instead of NaN where all numbers are −∞."""
    weights = numbers.softmax(dim=dim)
    if not weights.sum().isnan():  # one cheap check, for every step of training
        return weights
    return weights.masked_fill((numbers == -inf).all(dim=dim, keepdim=True), 0)


def weigh_values(weights: Float[Tensor, "*batch head key"], values: HeadValues) -> HeadValues:
    """Return weight × value of each key: the terms of one query's context vector."""
    return weights[..., None] * values


def switch_off_heads(contexts: Contexts, off: Mapping[int, AblationValue]) -> Contexts:
    """Return the contexts with those of the heads in `off` replaced.

    "zero" sets them to 0, "mean" to the mean of the head's contexts over the text.
    """
    if not off:
        return contexts
    heads = list(contexts.unbind(-3))
    for head, instead in off.items():
        mean = heads[head].mean(-2, keepdim=True).expand_as(heads[head])
        heads[head] = mean if instead == "mean" else torch.zeros_like(mean)
    return torch.stack(heads, -3)


def mix_values(weights: PairNumbers, values: HeadValues) -> Contexts:
    """Return each query's context vector: the sum of the values, weighted by its row."""
    return weights @ values
