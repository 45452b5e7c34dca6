"""A trained transformer in one line: how large it is, what it sees, how its scores are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnviz.traces.trace import Layer, Trace
from attnviz.traces.trained.card import TrainedCard
from attnviz.views.mask_shape import MaskShape, shapes_of
from attnviz.wording.numbers import exact_text
from attnviz.wording.words import counted, listed

BETWEEN = " · "
MOST_NAMED = 6  # layers
EXACT = 1e-6  # relative: a scale that is so near to 1/√d_k, or to 1, is meant to be it


def trained_parts(trace: Trace, card: TrainedCard) -> dict[str, str]:
    """What the settings line says of it, by what each part is about."""
    return {
        "kind": f"{card.kind}, {parameters_text(card.parameters)} parameters",
        "heads": f"{counted(card.layers, 'layer')} × {counted(card.heads, 'head')}"
        f"{_widths(trace.layers, card)}",
        "kv_heads": counted(card.kv_heads, "key-value head") if card.kv_heads < card.heads else "",
        "which": _which(trace, card),
        "scale": _by_layer({each.layer: _scale(each) for each in trace.layers}, card),
        **_masks(trace, card),
        "soft_cap": f"soft cap {exact_text(trace.variant.soft_cap)}"
        if trace.variant.soft_cap
        else "",
        "stored": f"stored as {card.stored_as}" if card.stored_as != trace.provenance.dtype else "",
        "fallback": "weights as returned by the model" if card.fallback else "",
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
    """Which attention it is, in a model that has several kinds."""
    if card.which == "cross":
        return f"reads the {counted(len(trace.keys), 'token')} of its encoder"
    return "of its decoder" if card.which == "decoder" else ""


def _widths(layers: Sequence[Layer], card: TrainedCard) -> str:
    """How wide heads are; unknown for a model that returns only weights."""
    if card.fallback:
        return ""
    widths = dict.fromkeys(str(each.head_dim) for each in layers)
    return f" of width {listed(list(widths))}"


def _scale(layer: Layer) -> str:
    """What scores are multiplied by, where it is not 1/√ of the width.

    A factor of 1 means `not scaled` only where queries and keys are exactly what their matrices
    compute; otherwise the model may have scaled these.
    """
    if abs(layer.scale * layer.head_dim**0.5 - 1) < EXACT:
        return ""
    if abs(layer.scale - 1) < EXACT:
        return "" if {"queries", "keys"} & layer.given else "not scaled"
    return f"scores times {layer.scale:.3g}"


def _masks(trace: Trace, card: TrainedCard) -> dict[str, str]:
    """What is visible, and how far, according to the masks of the layers."""
    if all(bool(each.visible.all()) for each in trace.layers):
        return {"mask": "all tokens visible"}
    if card.which == "cross":
        return {}
    shapes = shapes_of(trace.layers)
    narrow = {number: _how_far(each) for number, each in shapes.items()}
    causal = all(each.causal for each in shapes.values())
    return {"mask": "causal" if causal else "", "window": _by_layer(narrow, card)}


def _how_far(shape: MaskShape) -> str:
    if shape.window is not None:
        return f"window {shape.window}"
    return "" if shape.chunk is None else f"chunks of {shape.chunk}"


def _by_layer(told: Mapping[int, str], card: TrainedCard) -> str:
    """`window 6 in layers 0 and 2`; without numbers where it holds for every layer of the model."""
    layers = {each: [str(number) for number in told if told[number] == each]
              for each in told.values() if each}  # fmt: skip
    return BETWEEN.join(f"{each}{_where(numbers, card)}" for each, numbers in layers.items())


def _where(numbers: Sequence[str], card: TrainedCard) -> str:
    """In which layers; empty for all of them, and only their count where they are very many."""
    if len(numbers) == card.layers:
        return ""
    if len(numbers) > MOST_NAMED:
        return f" in {len(numbers)} of {card.layers} layers"
    return f" in layer{'s' * (len(numbers) > 1)} {listed(numbers)}"
