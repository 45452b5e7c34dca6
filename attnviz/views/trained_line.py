"""A trained transformer in one line: how large it is, what it sees, how its scores are made."""

from __future__ import annotations

from attnviz.traces.trace import Trace
from attnviz.traces.trained.card import TrainedCard
from attnviz.wording.numbers import exact_text
from attnviz.wording.words import counted

EXACT = 1e-6  # relative: a scale that is so near to 1/√d_k, or to 1, is meant to be it


def trained_parts(trace: Trace, card: TrainedCard) -> dict[str, str]:
    """What the settings line says of it, by what each part is about."""
    return {
        "kind": f"{card.kind}, {parameters_text(card.parameters)} parameters",
        "heads": f"{counted(card.layers, 'layer')} × {counted(card.heads, 'head')} of width "
        f"{card.head_dim}",
        "kv_heads": f"{counted(card.kv_heads, 'head')} of keys and values"
        if card.kv_heads < card.heads
        else "",
        "which": _which(trace, card),
        "scale": _scale(trace),
        "mask": _mask(trace),
        "soft_cap": f"soft cap {exact_text(trace.variant.soft_cap)}"
        if trace.variant.soft_cap
        else "",
        "stored": f"stored as {card.stored_as}" if card.stored_as != trace.provenance.dtype else "",
        "fallback": "weights as the model itself gives them" if card.fallback else "",
    }


def parameters_text(number: int) -> str:
    """
    >>> parameters_text(22_713_216), parameters_text(7_241_732_096), parameters_text(3_456)
    ('22.7 million', '7.2 billion', '3,456')
    """
    for unit, size in (("billion", 10**9), ("million", 10**6)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:,}"


def _which(trace: Trace, card: TrainedCard) -> str:
    """Which attention it is, of a model that has several."""
    if card.which == "cross":
        return f"reads the {counted(len(trace.keys), 'token')} of its encoder"
    return "of its decoder" if card.which == "decoder" else ""


def _scale(trace: Trace) -> str:
    """What scores are multiplied with, where it is not 1/√ of the width."""
    first = trace.layers[0]
    if abs(first.scale * first.head_dim**0.5 - 1) < EXACT:
        return ""
    return "not scaled" if abs(first.scale - 1) < EXACT else f"scores times {first.scale:.3g}"


def _mask(trace: Trace) -> str:
    if trace.variant.causal:
        return "causal"
    return "all tokens visible" if all(bool(each.visible.all()) for each in trace.layers) else ""
