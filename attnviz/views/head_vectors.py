"""Queries, keys and values of each head, from which a page computes its scores again."""

from __future__ import annotations

from functools import partial
from math import sqrt

import numpy as np
from torch import Tensor

from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import FULL_SLICE, Cells, LazyCells, StoredCells, unmasked_cells
from attnviz.traces.trace import Layer, Trace, weights_only_reason
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.vectors.positions import alibi_slopes
from attnviz.views.grids.explorer import HeadVectors, WrongSoftmax
from attnviz.wording.numbers import exact_text

ROOT_TOLERANCE = 1e-6  # relative: a scale this close to 1/√d_k is taken to be 1/√d_k
MAX_TEMPERATURE_TEXT = 6  # letters; a longer number may be the root of a short one


def is_scaled_by_root(layer: Layer) -> bool:
    return abs(layer.scale * sqrt(layer.head_dim) - 1) < ROOT_TOLERANCE


def divisor_text(layer: Layer) -> str:
    """Return the divisor of the scores as it is written: `√64` or `8.5`; empty if it is 1."""
    if is_scaled_by_root(layer):
        return f"√{layer.head_dim}"
    return "" if layer.scale == 1 else f"{1 / layer.scale:.6g}"


def temperature_text(temperature: float) -> str:
    """Return a temperature as it is written: `√2` in place of `1.4142135623730951`."""
    square, text = round(temperature**2), exact_text(temperature)
    is_root = abs(sqrt(square) / temperature - 1) < ROOT_TOLERANCE
    return f"√{square}" if is_root and len(text) > MAX_TEMPERATURE_TEXT else text


def divisor_texts(trace: Trace, layer: Layer) -> list[str]:
    """Return the divisors of scores as written: `√64`, and the temperature; empty if unscaled."""
    variant = trace.variant
    if trace.trained is not None:
        return list(filter(None, [divisor_text(layer)]))
    root = [f"√{layer.head_dim}"] if variant.scaled else []
    return [*root, *[temperature_text(variant.temperature)] * (variant.temperature != 1)]


def score_name(trace: Trace, layer: Layer) -> str:
    """Return what a score is called that the softmax receives: `scaled score`, `score` or, where it
    is divided by that alone, `score ÷ temperature`.
    """
    attended = layer.attended
    if attended.mask is not None:
        return "score with mask"
    if attended.bias is not None:
        return "biased score"
    if attended.capped_scores is not None:
        return "capped score"
    is_divided = bool(divisor_texts(trace, layer))
    is_scaled = trace.trained is not None or trace.variant.scaled
    return ("scaled score" if is_scaled else "score ÷ temperature") if is_divided else "score"


def missing_vectors_reason(trace: Trace, layer: Layer) -> str:
    """Return why scores cannot be computed from queries and keys; empty if they can."""
    if layer.weights_alone:
        return weights_only_reason(trace)
    if layer.queries is None or layer.keys is None or "scores" in layer.given:
        return "the scores are given"
    if not trace.variant.compared:
        return "queries and keys are not compared"
    return ""


def read_head_vectors(trace: Trace, layer: Layer, head: int) -> HeadVectors | None:
    """Return the queries and keys of a head, computed when they are needed; None if its scores are
    not made of them.
    """
    queries, keys, attended = layer.queries, layer.keys, layer.attended
    if missing_vectors_reason(trace, layer) or queries is None or keys is None:
        return None
    key_heads = layer.heads // keys.shape[0]
    slopes = alibi_slopes(layer.heads) if attended.bias is not None else []
    has_slope = attended.bias is not None and trace.trained is None
    terms = {"bias": None if has_slope else attended.bias, "mask": attended.mask}
    scores = partial(layer.weights.cells, "scores", head)
    return HeadVectors(
        queries=_vector_rows(queries, head),
        keys=_vector_rows(keys, head // key_heads),
        values=_vector_rows(layer.values, head // key_heads) if layer.values.shape[-1] else None,
        key_heads=key_heads,
        products=LazyCells(layer.size, scores),
        scale=layer.scale,
        divisors=tuple(divisor_texts(trace, layer)),
        score_vector=_score_vector(layer, head),
        soft_cap=trace.variant.soft_cap,
        slope=slopes[head] if has_slope else None,
        terms=tuple(
            (name, unmasked_cells(tensor_to_numpy(head_mask(head, term).expand(layer.size))))
            for name, term in terms.items()
            if term is not None
        ),
        sink=None if attended.sink is None else float(attended.sink[head]),
        mixed_by=attended.mixed_by,
        mistake=_wrong_softmax(layer, head),
    )


def _wrong_softmax(layer: Layer, head: int) -> WrongSoftmax | None:
    """Return what the mistake of a layer takes the softmax of; None without a mistake."""
    if not layer.mistake:
        return None
    mistake = MISTAKES[layer.mistake]

    def load_inputs() -> Cells:
        inputs = layer.weights.cells("exponents", head).window(FULL_SLICE, FULL_SLICE)
        return StoredCells(inputs.values, ~np.isfinite(inputs.values))

    return WrongSoftmax(
        cause=mistake.cause,
        about=mistake.about,
        axis=mistake.softmax_axis,
        inputs=LazyCells(layer.size, load_inputs),
    )


def _vector_rows(vectors: Tensor, head: int) -> Cells:
    rows, columns = vectors.shape[-2:]
    return LazyCells((rows, columns), lambda: unmasked_cells(tensor_to_numpy(vectors[head])))


def _score_vector(layer: Layer, head: int) -> tuple[float, ...]:
    """Return a head's part of the vector of additive scores; empty for dot products."""
    if layer.w_score is None:
        return ()
    return tuple(layer.w_score.view(layer.heads, -1)[head].tolist())
