"""What must be true of every Trace, looked up in the one at hand."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnviz.attention import arithmetic
from attnviz.traces.trace import Layer, Trace

TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 5e-2,
}


@dataclass(frozen=True)
class Check:
    claim: str
    passed: bool
    found: str


def verify(trace: Trace) -> list[Check]:
    """Rows sum to 1, hidden weights are 0, and torch's own attention agrees: for each attention."""
    return [check for layer in trace.attentions for check in _verify(layer)]


def _verify(layer: Layer) -> list[Check]:
    weights = layer.attended.weights
    tolerance = TOLERANCE[weights.dtype]
    hidden = weights.masked_select(~layer.visible)
    return [
        _rows(layer, tolerance * 10),
        _close("hidden weights are 0", hidden, 0.0),
        _close("torch's own attention agrees", _against_torch(layer), tolerance * _reach(layer)),
    ]


def _rows(layer: Layer, tolerance: float) -> Check:
    """Every row is shared out whole; one from which all is hidden, not at all."""
    reads = layer.visible.any(-1)
    claim = "rows sum to 1" if reads.all() else "rows sum to 1, and those that read nothing to 0"
    return _close(claim, layer.attended.weights.double().sum(-1) - reads.double(), tolerance)


def _against_torch(layer: Layer) -> Tensor:
    """The difference between our context vectors, before dropout, and torch's."""
    ours = arithmetic.mix(layer.attended.weights, layer.values)
    mask = _mask(layer)
    if layer.queries is None or layer.keys is None:
        mask = mask + layer.attended.scaled_scores
    queries = _or_zeros(layer, layer.queries, mask.shape[-2])
    keys = _or_zeros(layer, layer.keys, mask.shape[-1])
    theirs = scaled_dot_product_attention(
        queries, keys, layer.values, attn_mask=mask, scale=layer.scale
    )
    return ours - theirs


def _mask(layer: Layer) -> Tensor:
    """What torch adds to scores: bias and mask, and minus infinity for what is hidden."""
    hidden = torch.zeros_like(layer.attended.scores).masked_fill(~layer.visible, -inf)
    return arithmetic.plus(hidden, layer.attended.bias, layer.attended.mask)


def _or_zeros(layer: Layer, vectors: Tensor | None, count: int) -> Tensor:
    """Queries and keys that add nothing to scores that were given, as many as those need."""
    if vectors is not None:
        return vectors
    return torch.zeros(layer.heads, count, layer.values.shape[-1]).to(layer.values)


def _reach(layer: Layer) -> float:
    return max(1.0, float(layer.values.abs().max()))


def _close(claim: str, difference: Tensor, tolerance: float) -> Check:
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    return Check(claim, largest <= tolerance, f"largest difference {largest:.1e}")
