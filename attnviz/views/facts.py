"""Facts about one attention that sentences depend on: its sums, its mask and that mask's shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attnviz.analysis.measures import measure_weights
from attnviz.attention.arithmetic import attention_weights
from attnviz.attention.block import Norm
from attnviz.attention.mistakes import Symptom
from attnviz.attention.variants import sees_all, sees_before, sees_near
from attnviz.cells import Cells
from attnviz.traces.trace import Layer

TWO_DIGIT_TOLERANCE = 5e-3  # half of the last digit that two digits have


def has_product_scores(layer: Layer) -> bool:
    """Whether its scores are products of its queries and keys."""
    return layer.has_product_scores


def has_mask(layer: Layer) -> bool:
    """Whether any token is hidden from another."""
    return not bool(layer.visible.all())


def do_rows_sum_to_one(cells: Cells) -> bool:
    """Whether each row of weights does, to the two digits that are shown."""
    return all(
        bool((abs(band.values.sum(axis=1, dtype=np.float64) - 1) < TWO_DIGIT_TOLERANCE).all())
        for band in cells.bands()
    )


def is_changed_by_mistake(layer: Layer) -> bool:
    """Whether a mistake gives other weights than there would be without it."""
    if not layer.mistake:
        return False
    expected_weights = attention_weights(layer.attended.logits, layer.visible)
    return not torch.allclose(
        layer.attended.weights, expected_weights, rtol=0.0, atol=TWO_DIGIT_TOLERANCE / 10
    )


def has_symptom(layer: Layer, symptom: Symptom) -> bool:
    """Whether a mistake has this symptom in the weights that are there."""
    measured = measure_weights(layer.attended.weights, layer.visible, None)
    tolerance = TWO_DIGIT_TOLERANCE / 10 + torch.finfo(layer.attended.weights.dtype).eps
    if symptom == "leaks":
        return bool((measured.hidden > tolerance).any())
    if symptom == "breaks":
        return bool((measured.row_error > tolerance).any())
    expected_weights = attention_weights(layer.attended.logits, layer.visible)
    expected_measures = measure_weights(expected_weights, layer.visible, None)
    return (
        float(measured.entropy.nanmean()) > float(expected_measures.entropy.nanmean()) + tolerance
    )


def is_normalised(vectors: Tensor, norm: Norm) -> bool:
    """Whether LayerNorm made a mean of 0 and a variance of 1 of each, gain and shift taken off.

    A vector of equal numbers, as every one of width 1 is, stays without variance.
    """
    if not bool((norm.gain != 0).all()):
        return False
    unshifted = (vectors.double() - norm.shift.double()) / norm.gain.double()
    means, variances = unshifted.mean(-1), unshifted.var(-1, correction=0)
    return bool(
        (means.abs() < TWO_DIGIT_TOLERANCE).all()
        and ((variances - 1).abs() < TWO_DIGIT_TOLERANCE).all()
    )


def has_learned_norm(norm: Norm) -> bool:
    """Whether the gain and the shift of a LayerNorm change anything."""
    return not bool((norm.gain == 1).all() and (norm.shift == 0).all())


MAX_CELLS_AT_ONCE = 2**22


@dataclass(frozen=True)
class MaskShape:
    """How far tokens see among those of their own sentence; `named` where this says all of it."""

    causal: bool  # nothing that comes after is seen
    window: int | None = None  # only what is less than so many places away is,
    chunk: int | None = None  # or only what is in the same piece of so many tokens
    is_exact: bool = True

    def sees(self, query: Tensor, key: Tensor) -> Bool[Tensor, "query key"]:
        """
        >>> places = torch.arange(3)
        >>> MaskShape(causal=True, window=2).sees(places[:, None], places).int().tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
        """
        visible = sees_before(query, key) if self.causal else sees_all(query, key)
        if self.window is not None:
            visible = visible & sees_near(query, key, self.window)
        return (
            visible if self.chunk is None else visible & (query // self.chunk == key // self.chunk)
        )


def find_mask_shape(visible: Bool[Tensor, "*head query key"]) -> MaskShape:
    """The shape that a mask has: that of the first column tells how far anything is seen."""
    if visible.ndim > 2 and not bool((visible == visible[:1]).all()):
        return MaskShape(causal=_is_causal(visible), is_exact=False)
    head_mask = visible[0] if visible.ndim > 2 else visible
    causal, reach = _is_causal(visible), int(head_mask[:, 0].sum())
    unlimited = MaskShape(causal)
    narrow_shapes = (
        [MaskShape(causal, window=reach), MaskShape(causal, chunk=reach)] if reach else []
    )
    candidates = [unlimited] if reach == len(head_mask) else narrow_shapes
    return next(
        (shape for shape in candidates if _is_mask_of_shape(shape, head_mask)),
        MaskShape(causal, is_exact=False),
    )


def find_mask_shapes(layers: Iterable[Layer]) -> dict[int, MaskShape]:
    """Those of several layers, by their numbers; most of them share one mask."""
    shape_by_mask: dict[object, MaskShape] = {}
    shape_by_layer = {}
    for layer in layers:
        mask = layer.visible
        mask_key = (mask.data_ptr(), mask.shape, mask.stride())
        if mask_key not in shape_by_mask:
            shape_by_mask[mask_key] = find_mask_shape(mask)
        shape_by_layer[layer.layer] = shape_by_mask[mask_key]
    return shape_by_layer


def _is_causal(visible: Bool[Tensor, "*head query key"]) -> bool:
    """Whether there is anything to come, and nothing of it is seen."""
    positions = torch.arange(visible.shape[-1], device=visible.device)
    row_starts = range(0, visible.shape[-2], row_count := _rows_at_once(visible))
    future_cells = (visible[..., row : row + row_count, :] & (positions > positions[row : row + row_count, None])
             for row in row_starts)  # fmt: skip
    return visible.shape[-2] > 1 and not any(bool(cells.any()) for cells in future_cells)


def _is_mask_of_shape(shape: MaskShape, visible: Bool[Tensor, "query key"]) -> bool:
    positions = torch.arange(visible.shape[-1], device=visible.device)
    row_count = _rows_at_once(visible)
    bands = (slice(row, row + row_count) for row in range(0, len(visible), row_count))
    return all(
        torch.equal(shape.sees(positions[rows, None], positions), visible[rows]) for rows in bands
    )


def _rows_at_once(visible: Tensor) -> int:
    return max(1, MAX_CELLS_AT_ONCE * visible.shape[-2] // max(1, visible.numel()))
