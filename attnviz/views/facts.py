"""What is so of one attention, looked up in its numbers: a sentence is said where this says so."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnviz.analysis.measures import measure
from attnviz.attention.arithmetic import attention_weights
from attnviz.attention.block import Norm
from attnviz.attention.mistakes import Symptom
from attnviz.cells import Cells
from attnviz.traces.trace import Layer

ROUNDING = 5e-3  # half of the last digit that two digits have


def multiplied(layer: Layer) -> bool:
    """Whether its scores are products of its queries and keys."""
    return layer.multiplied


def hides(layer: Layer) -> bool:
    """Whether any token is hidden from another."""
    return not bool(layer.visible.all())


def sums_to_one(cells: Cells) -> bool:
    """Whether each row of weights does, to the two digits that are shown."""
    return all(
        bool((abs(band.values.sum(axis=1, dtype=np.float64) - 1) < ROUNDING).all())
        for band in cells.bands()
    )


def changed_by_mistake(layer: Layer) -> bool:
    """Whether a mistake gives other weights than there would be without it."""
    if not layer.mistake:
        return False
    right = attention_weights(layer.attended.logits, layer.visible)
    return not torch.allclose(layer.attended.weights, right, rtol=0.0, atol=ROUNDING / 10)


def shows(layer: Layer, symptom: Symptom) -> bool:
    """Whether a mistake has this symptom in the weights that are there."""
    found = measure(layer.attended.weights, layer.visible, None)
    least = ROUNDING / 10 + torch.finfo(layer.attended.weights.dtype).eps
    if symptom == "leaks":
        return bool((found.hidden > least).any())
    if symptom == "breaks":
        return bool((found.row_error > least).any())
    right = attention_weights(layer.attended.logits, layer.visible)
    should = measure(right, layer.visible, None)
    return float(found.entropy.nanmean()) > float(should.entropy.nanmean()) + least


def normalised(vectors: Tensor, norm: Norm) -> bool:
    """Whether LayerNorm made a mean of 0 and a variance of 1 of each, gain and shift taken off.

    A vector of equal numbers, as every one of width 1 is, stays without variance.
    """
    if not bool((norm.gain != 0).all()):
        return False
    plain = (vectors.double() - norm.shift.double()) / norm.gain.double()
    means, variances = plain.mean(-1), plain.var(-1, correction=0)
    return bool((means.abs() < ROUNDING).all() and ((variances - 1).abs() < ROUNDING).all())


def learned(norm: Norm) -> bool:
    """Whether the gain and the shift of a LayerNorm change anything."""
    return not bool((norm.gain == 1).all() and (norm.shift == 0).all())
