"""What must be true of every Trace, looked up in the one at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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


BEFORE: dict[arithmetic.MixedBy, str] = {  # of which weights a claim is, if of others than shown
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
    found: str
    meant: str = ""  # the mistake for which it may fail

    @property
    def failed(self) -> bool:
        """Whether something is wrong that nobody meant to be."""
        return not self.passed and not self.meant

    @property
    def text(self) -> str:
        """`✓ rows sum to 1: largest difference 6.0e-08`"""
        why = f" (the mistake: {self.meant})" if self.meant and not self.passed else ""
        return f"{'✓' if self.passed else '✗'} {self.claim}: {self.found}{why}"


def verify(trace: Trace) -> list[Check]:
    """Rows sum to 1, hidden weights are 0, torch's own attention agrees, and what is shown is
    made of those weights: for each attention."""
    several = len(trace.attentions) > 1
    return [
        replace(check, claim=f"{layer.name}: {check.claim}") if several else check
        for layer in trace.attentions
        for check in _verify(trace, layer)
    ]


def _verify(trace: Trace, layer: Layer) -> Iterator[Check]:
    attended = layer.attended
    tolerance, of = TOLERANCE[attended.weights.dtype], BEFORE[attended.mixed_by]
    reach = tolerance * _reach(layer)
    hidden = attended.weights.masked_select(~layer.visible)
    checks = (
        _close(f"rows sum to 1{of}", attended.weights.double().sum(-1) - 1, tolerance * 10),
        _close(f"hidden weights are 0{of}", hidden, 0.0),
        _close(f"torch's own attention agrees{of}", _against_torch(layer), reach),
    )
    yield from (replace(each, meant=layer.mistake) for each in checks)
    largest = max(1.0, float(attended.mixing.abs().max()))
    if attended.mixed_by == "dropout" and "kept" not in layer.given:
        dropped = _dropped(trace, layer)
        yield _close("dropout leaves 0, or what makes up for it", dropped, tolerance * largest)
    if attended.mixed_by in ("dropout", "hand"):
        mixed = arithmetic.mix(attended.mixing, layer.values) - attended.contexts
        shown = {"dropout": "weights after dropout", "hand": "weights by hand"}[attended.mixed_by]
        yield _close(f"context vectors are made of the {shown}", mixed, reach * largest)


def _dropped(trace: Trace, layer: Layer) -> Tensor:
    """How far each weight after dropout is from 0 and from what it was over the share kept."""
    attended = layer.attended
    kept = attended.weights / (1 - trace.variant.dropout)
    return torch.minimum(attended.mixing.abs(), (attended.mixing - kept).abs())


def _against_torch(layer: Layer) -> Tensor:
    """The difference between our context vectors, before dropout, and torch's."""
    ours = arithmetic.mix(layer.attended.weights, layer.values)
    mask = _mask(layer)
    multiplied = "scores" not in layer.given
    if not multiplied:
        mask = mask + layer.attended.scaled_scores
    queries = _or_zeros(layer, layer.queries if multiplied else None, mask.shape[-2])
    keys = _or_zeros(layer, layer.keys if multiplied else None, mask.shape[-1])
    theirs = scaled_dot_product_attention(
        queries, keys, layer.values, attn_mask=mask, scale=layer.scale
    )
    return ours - theirs


def _mask(layer: Layer) -> Tensor:
    """What torch adds to scores: the bias, and minus infinity for what is hidden."""
    hidden = torch.zeros_like(layer.attended.scores).masked_fill(~layer.visible, -inf)
    return hidden if layer.attended.bias is None else hidden + layer.attended.bias


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
