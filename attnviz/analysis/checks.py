"""Checks of what must be true of every trace, such as rows that sum to 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnviz.analysis.measures import entropy
from attnviz.attention import arithmetic
from attnviz.attention.long_attention import AttentionSummary, SummaryChoice
from attnviz.cells import FULL_SLICE
from attnviz.heads.head import pool_patch
from attnviz.traces.long_rows import layer_of_queries, spread_queries
from attnviz.traces.long_weights import StreamedWeights
from attnviz.traces.origin import FromWeights, TrainedCard
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.wording.words import counted

CHECK_TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 5e-2,
}
EIGHT_BIT_TOLERANCE = 0.2
CONTEXTS_ALONE = SummaryChoice(resolution=1, statistics=False)
# Added to a claim about other weights than the ones that are shown.
CHECKED_WEIGHTS_PHRASES: dict[arithmetic.MixedBy, str] = {
    "softmax": "",
    "dropout": ", before dropout",
    "hand": ", before others by hand take their place",
    "mistake": "",
}


@dataclass(frozen=True)
class Check:
    """A claim about a trace, whether it holds, and the measurement that shows it."""

    claim: str
    passed: bool
    measurement: str
    mistake: str = ""  # the deliberate mistake because of which it may fail

    @property
    def failed(self) -> bool:
        return not self.passed and not self.mistake

    @property
    def text(self) -> str:
        """One line to print: `✓ rows sum to 1: largest difference 6.0e-08`, and the mistake if one
        is at fault."""
        why = f" (the mistake: {self.mistake})" if self.mistake and not self.passed else ""
        return f"{'✓' if self.passed else '✗'} {self.claim}: {self.measurement}{why}"


def verify_trace(trace: Trace) -> list[Check]:
    """Return checks of each attention of a trace: row sums, masked weights, torch's own attention,
    mixing. Of weights computed elsewhere only row sums are checked. For a trained model the check
    made when it was loaded is added, or returned alone if the model itself returned the weights."""
    if trace.external_origin is not None:
        return [*_check_given_weights(trace, trace.external_origin)]
    if trace.trained is not None and trace.trained.fallback:
        why = "it returns them itself, from eager attention; its queries and keys are not known"
        return [Check("the weights are the model's own", True, why)]
    several = len(trace.attention_layers) > 1
    checks = [
        replace(check, claim=f"{layer.name}: {check.claim}") if several else check
        for layer in trace.attention_layers
        for check in _verify_layer(trace, layer)
    ]
    return checks if trace.trained is None else [_check_eager_attention(trace.trained), *checks]


def _check_eager_attention(card: TrainedCard) -> Check:
    """Return as a check, always passed, the comparison with eager attention that was made when the
    model was loaded."""
    on, vectors = f"on {counted(card.compared, 'token')}", f"{card.vectors or 0.0:.1e}"
    if card.eager is None:
        claim = "the model's own eager attention gives the same vectors"
        return Check(claim, True, f"largest difference {vectors}, {on}; it returns no weights")
    claim = "the model's own eager attention agrees"
    return Check(claim, True, f"largest difference {card.eager:.1e} (of vectors {vectors}), {on}")


def _check_given_weights(trace: Trace, origin: FromWeights) -> Iterator[Check]:
    """Yield for each layer a check that the rows of weights computed elsewhere sum to 1.

    The tolerance depends on the dtype they were stored in.
    """
    dtype = getattr(torch, origin.stored_as, torch.float32)
    tolerance = CHECK_TOLERANCE.get(dtype, EIGHT_BIT_TOLERANCE)
    for layer in trace.layers:
        check = _check_row_sums(layer, "", tolerance)
        yield replace(check, claim=f"{layer.name}: {check.claim}")


def _verify_layer(trace: Trace, layer: Layer) -> Iterator[Check]:
    """Yield all checks of one attention layer; the first three name its deliberate mistake, if it
    has one."""
    if layer.streamed_weights is not None:
        yield from _verify_streamed(trace, layer, layer.streamed_weights)
        return
    attended, difference = layer.attended, _torch_difference(layer)
    phrase = CHECKED_WEIGHTS_PHRASES[attended.mixed_by]
    tolerance = CHECK_TOLERANCE[attended.weights.dtype]
    value_tolerance = tolerance * max(1.0, float(layer.values.abs().max()))
    hidden_weights = attended.weights.masked_select(~layer.visible)
    checks = (
        _check_row_sums(layer, phrase, tolerance * 10),
        _check_difference(f"hidden weights are 0{phrase}", hidden_weights, 0.0),
        _check_difference(f"torch's own attention agrees{phrase}", difference, value_tolerance),
    )
    yield from (replace(check, mistake=layer.mistake) for check in checks)
    yield from _verify_sums(layer)
    yield from _verify_cap(layer, trace.variant.soft_cap)
    yield from _verify_mixing(trace, layer, value_tolerance)


def _verify_streamed(trace: Trace, layer: Layer, weights: StreamedWeights) -> Iterator[Check]:
    """Yield checks of a long text: all that is checked of a short one for sampled rows, whether
    these are what was measured of the whole, and whether what keys receive adds up.
    """
    queries, count = spread_queries(layer), layer.size[0]
    sample = layer_of_queries(layer, queries)
    rows = "" if len(queries) == count else f", in {len(queries)} of {count:,} rows"
    for check in _verify_layer(trace, sample):
        yield replace(check, claim=f"{check.claim}{rows}")
    tolerance = CHECK_TOLERANCE[layer.values.dtype]  # half precision is rounded in the sample
    value_tolerance = tolerance * max(1.0, float(layer.values.abs().max()))
    stages = sample.attended
    contexts = arithmetic.mix_values(stages.weights, sample.values_of_heads)
    statistics = None if layer.long_weights is None else layer.long_weights.summary
    summary = statistics or weights.long_attention.summarize(CONTEXTS_ALONE)
    claim = f"tiles of the text give the same context vectors{rows}"
    yield _check_difference(claim, contexts - summary.contexts[:, queries], value_tolerance)
    yield _check_map(weights, tolerance)
    if statistics is not None:
        yield from _verify_statistics(statistics, queries, stages.weights.double(), rows, tolerance)


def _check_map(weights: StreamedWeights, tolerance: float) -> Check:
    """Return the check that the row in the middle of each head's map is what its queries give."""
    differences = []
    for head in range(weights.heads):
        summary, index = weights.map_of(head)
        block = len(summary.pooled[index]) // 2
        start = block * summary.row_height
        cells = weights.cells("mixing", head)
        queries = cells.window(slice(start, start + summary.row_height), FULL_SLICE)
        row = pool_patch(queries, (summary.row_height, summary.column_width), summary.pool)
        map_row = tensor_to_numpy(summary.pooled[index, block])
        differences.append(torch.from_numpy(row.values[0] - map_row))
    claim = "a row of each head's map is what its queries give"
    return _check_difference(claim, torch.stack(differences), tolerance)


def _verify_statistics(
    summary: AttentionSummary,
    queries: Sequence[int],
    weights: Float[Tensor, "head query key"],
    rows: str,
    tolerance: float,
) -> Iterator[Check]:
    """Yield checks of what was measured of each query, for some of them, and of each key."""
    assert summary.entropy is not None  # a summary has statistics
    assert summary.largest_weight is not None
    assert summary.received is not None
    assert summary.largest_position is not None
    measured = torch.stack([summary.entropy[:, queries], summary.largest_weight[:, queries]])
    expected = torch.stack([entropy(weights), weights.amax(-1)])
    claim = f"tiles of the text give the same entropy and largest weight{rows}"
    yield _check_difference(claim, measured - expected, tolerance * 10)
    attending = (summary.largest_position >= 0).sum(-1)
    claim = "what keys receive adds up to the number of queries"
    is_all = attending.min() == summary.largest_position.shape[-1]
    claim += "" if is_all else " that attend to any"
    missing = summary.received.sum(-1) / attending.clamp(min=1) - attending.clamp(max=1)
    yield _check_difference(f"{claim}, relative to it", missing, tolerance)


def _verify_mixing(trace: Trace, layer: Layer, value_tolerance: float) -> Iterator[Check]:
    """Yield checks of weights that replace the softmax's: dropout, and weights given by hand.

    Yields nothing for plain softmax weights.
    """
    attended, mixing = layer.attended, layer.attended.mixing
    largest = max(1.0, float(mixing.abs().max()))
    if attended.mixed_by == "dropout" and "kept" not in layer.given:
        scaled_weights = attended.weights / (1 - trace.variant.dropout)
        difference = torch.minimum(mixing.abs(), (mixing - scaled_weights).abs())
        tolerance = CHECK_TOLERANCE[attended.weights.dtype] * largest
        claim = "dropout sets weights to 0 or scales them up"
        yield _check_difference(claim, difference, tolerance)
    if attended.mixed_by in ("dropout", "hand"):
        contexts = arithmetic.mix_values(mixing, layer.values_of_heads)
        difference = arithmetic.switch_off_heads(contexts, layer.off) - attended.contexts
        weights = "weights after dropout" if attended.mixed_by == "dropout" else "weights by hand"
        claim = f"context vectors are computed from the {weights}"
        yield _check_difference(claim, difference, value_tolerance * largest)


def _verify_cap(layer: Layer, soft_cap: float | None) -> Iterator[Check]:
    """Yield a check of the soft cap, which torch's attention lacks, against tanh x = 2 · sigmoid 2x
    − 1. Yields nothing without a cap."""
    capped = layer.attended.capped_scores
    if capped is None or soft_cap is None:
        return
    expected = soft_cap * (2 * (2 * layer.attended.scaled_scores / soft_cap).sigmoid() - 1)
    tolerance = CHECK_TOLERANCE[capped.dtype] * soft_cap
    yield _check_difference("no score exceeds the cap", capped - expected, tolerance)


def _verify_sums(layer: Layer) -> Iterator[Check]:
    """Yield a check of additive scores against a sum over the components of queries and keys, one
    by one. Yields nothing for scores of another kind."""
    w_score, queries, keys = layer.w_score, layer.queries, layer.keys_of_heads
    if w_score is None or queries is None or keys is None:
        return
    expected_scores = torch.zeros_like(layer.attended.scores)
    for index, factor in enumerate(w_score.view(layer.heads, -1).T):
        pair_sums = queries[:, :, None, index] + keys[:, None, :, index]
        expected_scores += factor[:, None, None] * pair_sums.tanh()
    tolerance = CHECK_TOLERANCE[expected_scores.dtype] * max(1.0, float(w_score.abs().sum()))
    difference = expected_scores - layer.attended.scores
    yield _check_difference("scores are weighted sums of tanh", difference, tolerance)


def _check_row_sums(layer: Layer, weights_phrase: str, tolerance: float) -> Check:
    """Return the check that every row sums to 1: with the attention sink's share, and to 0 where
    all keys are masked. `weights_phrase` is added to the claim (", before dropout")."""
    has_keys, sums = layer.visible.any(-1), layer.attended.weights.double().sum(-1)
    if layer.attended.sink is not None:
        claim = "rows sum to 1, including the share of the sink"
        return _check_difference(claim, sums - _share_beside_sink(layer), tolerance)
    claim = "rows sum to 1"
    if not has_keys.all():
        claim += ", and rows that attend to nothing sum to 0"
    return _check_difference(f"{claim}{weights_phrase}", sums - has_keys.double(), tolerance)


def _share_beside_sink(layer: Layer) -> Tensor:
    """Return the weight that each row leaves to its keys, beside the sink: 1 / (1 + exp(sink) / Σ
    exp(scores)), computed with logarithms."""
    assert layer.attended.sink is not None
    logits = layer.attended.logits.double().masked_fill(~layer.visible, -inf)
    sink = layer.attended.sink.double()[:, None]
    return (logits.logsumexp(-1) - sink).sigmoid()


def _torch_difference(layer: Layer) -> Tensor:
    """Return these context vectors, computed before dropout, minus those of torch's
    scaled_dot_product_attention."""
    attended, values, queries, keys = layer.attended, layer.values, layer.queries, layer.keys
    ours = arithmetic.mix_values(attended.weights, layer.values_of_heads)
    capped, sink = attended.capped_scores, attended.sink
    hidden = torch.zeros_like(attended.scores).masked_fill(~layer.visible, -inf)
    mask = arithmetic.add_to_scores(hidden, attended.bias, attended.mask)
    if not layer.has_product_scores or capped is not None or sink is not None:
        # torch takes these scores as part of its additive mask.
        mask = mask + (attended.scaled_scores if capped is None else capped)
        queries = keys = None
    if sink is not None:  # another key, whose value is 0
        mask = torch.cat([mask, sink.to(mask)[:, None, None].expand(*mask.shape[:-1], 1)], -1)
        values = torch.cat([values, torch.zeros_like(values[:, :1])], -2)
    queries = _vectors_or_zeros(layer, queries, layer.heads, mask.shape[-2])
    keys = _vectors_or_zeros(layer, keys, layer.kv_heads, mask.shape[-1])
    theirs = scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, scale=layer.scale, enable_gqa=True
    )
    return ours - theirs


def _vectors_or_zeros(layer: Layer, vectors: Tensor | None, heads: int, count: int) -> Tensor:
    """Return the vectors, or if there are none zeros of `heads` × `count` rows, which add nothing
    to the scores."""
    if vectors is not None:
        return vectors
    return torch.zeros(heads, count, layer.values.shape[-1]).to(layer.values)


def _check_difference(claim: str, difference: Tensor, tolerance: float) -> Check:
    """Return a check that passes if no absolute difference exceeds the tolerance; an empty one
    passes."""
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    return Check(claim, largest <= tolerance, f"largest difference {largest:.1e}")
