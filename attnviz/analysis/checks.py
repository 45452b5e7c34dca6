"""What must be true of every Trace, looked up in the one at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import AttentionStages
from attnviz.traces.origin import FromWeights, TrainedCard
from attnviz.traces.trace import Layer, Trace
from attnviz.wording.words import counted

CHECK_TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 5e-2,
}


EIGHT_BIT_TOLERANCE = 0.2  # of dtypes of 8 bits

CHECKED_WEIGHTS_PHRASES: dict[
    arithmetic.MixedBy, str
] = {  # of which weights a claim is, if of others than shown
    "softmax": "",
    "dropout": ", before dropout",
    "hand": ", before others by hand take their place",
    "mistake": "",
}


@dataclass(frozen=True)
class Check:
    """Something that must be so; or that a mistake, made on purpose, keeps from being so."""

    claim: str
    passed: bool
    measurement: str
    mistake: str = ""  # the mistake for which it may fail

    @property
    def failed(self) -> bool:
        """Whether something is wrong that nobody meant to be."""
        return not self.passed and not self.mistake

    @property
    def text(self) -> str:
        """`✓ rows sum to 1: largest difference 6.0e-08`"""
        why = f" (the mistake: {self.mistake})" if self.mistake and not self.passed else ""
        return f"{'✓' if self.passed else '✗'} {self.claim}: {self.measurement}{why}"


def verify_trace(trace: Trace) -> list[Check]:
    """Rows sum to 1, hidden weights are 0, torch's own attention agrees, and what is shown is
    made of those weights: for each attention."""
    if trace.handed is not None:
        return [*_check_given_weights(trace, trace.handed)]
    if trace.trained is not None and trace.trained.fallback:
        return [_check_returned_weights(trace.trained)]
    several = len(trace.attentions) > 1
    checks = [
        replace(check, claim=f"{layer.name}: {check.claim}") if several else check
        for layer in trace.attentions
        for check in _verify_layer(trace, layer)
    ]
    return checks if trace.trained is None else [_check_eager_attention(trace.trained), *checks]


def _check_eager_attention(card: TrainedCard) -> Check:
    """What was compared when the model was loaded: one that is too far apart is not listened to."""
    on, vectors = f"on {counted(card.compared, 'token')}", f"{card.vectors or 0.0:.1e}"
    if card.eager is None:
        claim = "the model's own eager attention gives the same vectors"
        return Check(claim, True, f"largest difference {vectors}, {on}; it returns no weights")
    claim = "the model's own eager attention agrees"
    return Check(claim, True, f"largest difference {card.eager:.1e} (of vectors {vectors}), {on}")


def _check_returned_weights(card: TrainedCard) -> Check:
    """Of weights that a model hands back there is nothing that could be worked out again."""
    return Check(
        "the weights are the model's own",
        True,
        "it returns them itself, from eager attention; its queries and keys are not known",
    )


def _check_given_weights(trace: Trace, origin: FromWeights) -> Iterator[Check]:
    """Of weights that were computed elsewhere: whether they are shares."""
    tolerance = CHECK_TOLERANCE.get(
        getattr(torch, origin.stored_as, torch.float32), EIGHT_BIT_TOLERANCE
    )
    for layer in trace.layers:
        check = _check_row_sums(layer, "", tolerance)
        yield replace(check, claim=f"{layer.name}: {check.claim}")


def _verify_layer(trace: Trace, layer: Layer) -> Iterator[Check]:
    attended = layer.attended
    tolerance, weights_phrase = (
        CHECK_TOLERANCE[attended.weights.dtype],
        CHECKED_WEIGHTS_PHRASES[attended.mixed_by],
    )
    value_tolerance = tolerance * _largest_value_size(layer)
    hidden_weights = attended.weights.masked_select(~layer.visible)
    checks = (
        _check_row_sums(layer, weights_phrase, tolerance * 10),
        _check_difference(f"hidden weights are 0{weights_phrase}", hidden_weights, 0.0),
        _check_difference(
            f"torch's own attention agrees{weights_phrase}",
            _torch_difference(layer),
            value_tolerance,
        ),
    )
    yield from (replace(check, mistake=layer.mistake) for check in checks)
    yield from _verify_sums(layer)
    yield from _verify_cap(layer, trace.variant.soft_cap)
    yield from _verify_mixing(trace, layer, value_tolerance)


def _verify_mixing(trace: Trace, layer: Layer, value_tolerance: float) -> Iterator[Check]:
    """Of the weights that take the place of the softmax's."""
    attended = layer.attended
    largest = max(1.0, float(attended.mixing.abs().max()))
    if attended.mixed_by == "dropout" and "kept" not in layer.given:
        differences, tolerance = (
            _dropout_differences(trace, layer),
            CHECK_TOLERANCE[attended.weights.dtype],
        )
        yield _check_difference(
            "dropout sets weights to 0 or scales them up", differences, tolerance * largest
        )
    if attended.mixed_by in ("dropout", "hand"):
        contexts = arithmetic.mix_values(attended.mixing, layer.values_of_heads)
        context_difference = arithmetic.switch_off_heads(contexts, layer.off) - attended.contexts
        weights_name = {"dropout": "weights after dropout", "hand": "weights by hand"}[
            attended.mixed_by
        ]
        yield _check_difference(
            f"context vectors are computed from the {weights_name}",
            context_difference,
            value_tolerance * largest,
        )


def _dropout_differences(trace: Trace, layer: Layer) -> Tensor:
    """How far each weight after dropout is from 0 and from what it was over the share kept."""
    attended = layer.attended
    scaled_weights = attended.weights / (1 - trace.variant.dropout)
    return torch.minimum(attended.mixing.abs(), (attended.mixing - scaled_weights).abs())


def _verify_cap(layer: Layer, soft_cap: float | None) -> Iterator[Check]:
    """What torch's own attention has not, by another formula: tanh x is 2 · sigmoid 2x - 1."""
    capped = layer.attended.capped_scores
    if capped is None or soft_cap is None:
        return
    expected = soft_cap * (2 * (2 * layer.attended.scaled_scores / soft_cap).sigmoid() - 1)
    tolerance = CHECK_TOLERANCE[capped.dtype] * soft_cap
    yield _check_difference("no score exceeds the cap", capped - expected, tolerance)


def _verify_sums(layer: Layer) -> Iterator[Check]:
    """Additive scores, one number of a head's width after the other."""
    w_score, queries, keys = layer.w_score, layer.queries, layer.keys_of_heads
    if w_score is None or queries is None or keys is None:
        return
    expected_scores = torch.zeros_like(layer.attended.scores)
    for index, factor in enumerate(w_score.view(layer.heads, -1).T):
        pair_sums = queries[:, :, None, index] + keys[:, None, :, index]
        expected_scores += factor[:, None, None] * pair_sums.tanh()
    tolerance = CHECK_TOLERANCE[expected_scores.dtype] * max(1.0, float(w_score.abs().sum()))
    yield _check_difference(
        "scores are weighted sums of tanh", expected_scores - layer.attended.scores, tolerance
    )


def _check_row_sums(layer: Layer, weights_phrase: str, tolerance: float) -> Check:
    """Every row is shared out whole; one from which all is hidden, not at all."""
    has_keys = layer.visible.any(-1)
    if layer.attended.sink is not None:
        claim = "rows sum to 1, including the share of the sink"
        return _check_difference(
            claim, layer.attended.weights.double().sum(-1) - _share_beside_sink(layer), tolerance
        )
    claim = (
        "rows sum to 1"
        if has_keys.all()
        else ("rows sum to 1, and rows that attend to nothing sum to 0")
    )
    difference = layer.attended.weights.double().sum(-1) - has_keys.double()
    return _check_difference(f"{claim}{weights_phrase}", difference, tolerance)


def _share_beside_sink(layer: Layer) -> Tensor:
    """What a sink leaves of each row: 1 / (1 + exp(sink) / Σ exp(scores)), by logarithms."""
    assert layer.attended.sink is not None
    logits = layer.attended.logits.double().masked_fill(~layer.visible, -inf)
    sink = layer.attended.sink.double()[:, None]
    return (logits.logsumexp(-1) - sink).sigmoid()


def _torch_difference(layer: Layer) -> Tensor:
    """The difference between our context vectors, before dropout, and torch's."""
    ours = arithmetic.mix_values(layer.attended.weights, layer.values_of_heads)
    mask, (queries, keys) = _torch_attention_mask(layer), (layer.queries, layer.keys)
    values, (capped, sink) = layer.values, (layer.attended.capped_scores, layer.attended.sink)
    if not layer.has_product_scores or capped is not None or sink is not None:
        mask, queries, keys = mask + _scores_before_bias(layer.attended), None, None
    if sink is not None:  # a key like any other, whose value is 0
        mask = torch.cat([mask, sink.to(mask)[:, None, None].expand(*mask.shape[:-1], 1)], -1)
        values = torch.cat([values, torch.zeros_like(values[:, :1])], -2)
    queries = _vectors_or_zeros(layer, queries, layer.heads, mask.shape[-2])
    keys = _vectors_or_zeros(layer, keys, layer.kv_heads, mask.shape[-1])
    theirs = scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, scale=layer.scale, enable_gqa=True
    )
    return ours - theirs


def _scores_before_bias(attended: AttentionStages) -> Tensor:
    """Scores that torch takes as they are: given, or bent in a way that it has not."""
    capped = attended.capped_scores
    return attended.scaled_scores if capped is None else capped


def _torch_attention_mask(layer: Layer) -> Tensor:
    """What torch adds to scores: bias and mask, and minus infinity for what is hidden."""
    hidden = torch.zeros_like(layer.attended.scores).masked_fill(~layer.visible, -inf)
    return arithmetic.add_to_scores(hidden, layer.attended.bias, layer.attended.mask)


def _vectors_or_zeros(layer: Layer, vectors: Tensor | None, heads: int, count: int) -> Tensor:
    """Queries and keys that add nothing to scores that were given, as many as those need."""
    if vectors is not None:
        return vectors
    return torch.zeros(heads, count, layer.values.shape[-1]).to(layer.values)


def _largest_value_size(layer: Layer) -> float:
    return max(1.0, float(layer.values.abs().max()))


def _check_difference(claim: str, difference: Tensor, tolerance: float) -> Check:
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    return Check(claim, largest <= tolerance, f"largest difference {largest:.1e}")
