"""Facts about an attention on which sentences depend: row sums, the shape of its mask."""

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
from attnviz.cells import Cells
from attnviz.traces.trace import Layer

TWO_DIGIT_TOLERANCE = 5e-3  # half a unit in the second decimal
MAX_CELLS_AT_ONCE = 2**22  # masks are compared in bands of at most so many cells


def has_mask(layer: Layer) -> bool:
    return layer.mask_rule.hides_any(*layer.size, layer.inputs.device)


def do_rows_sum_to_one(cells: Cells) -> bool:
    """Return whether each row of weights sums to 1, within half a unit of the second decimal."""
    return all(
        bool((abs(band.values.sum(axis=1, dtype=np.float64) - 1) < TWO_DIGIT_TOLERANCE).all())
        for band in cells.bands()
    )


def is_changed_by_mistake(layer: Layer) -> bool:
    """Return whether the layer's deliberate mistake visibly changes any weight; False without a
    mistake.
    """
    if not layer.mistake:
        return False
    expected_weights = attention_weights(layer.attended.logits, layer.visible)
    return not torch.allclose(
        layer.attended.weights, expected_weights, rtol=0.0, atol=TWO_DIGIT_TOLERANCE / 10
    )


def has_symptom(layer: Layer, symptom: Symptom) -> bool:
    """Return whether the weights show this symptom of a deliberate mistake.

    `leaks`: masked keys get weight; `breaks`: rows do not sum to 1; any other: the mean entropy is
    higher than that of correct weights.
    """
    measured = measure_weights(layer.attended.weights, layer.visible, None)
    tolerance = TWO_DIGIT_TOLERANCE / 10 + torch.finfo(layer.attended.weights.dtype).eps
    if symptom == "leaks":
        return bool((measured.hidden > tolerance).any())
    if symptom == "breaks":
        return bool((measured.row_error > tolerance).any())
    expected_weights = attention_weights(layer.attended.logits, layer.visible)
    expected_measures = measure_weights(expected_weights, layer.visible, None)
    expected_entropy = float(expected_measures.entropy.nanmean())
    return float(measured.entropy.nanmean()) > expected_entropy + tolerance


def is_normalised(vectors: Tensor, norm: Norm) -> bool:
    """Return whether each vector, once the gain and the shift of the norm are undone, has a mean of
    0 and a variance of 1.

    A vector of equal numbers, such as any of width 1, has no variance and is not normalised, nor is
    any where a gain is 0.
    """
    if not bool((norm.gain != 0).all()):
        return False
    unshifted = (vectors.double() - norm.shift.double()) / norm.gain.double()
    means, variances = unshifted.mean(-1), unshifted.var(-1, correction=0)
    deviations = torch.cat([means.flatten(), (variances - 1).flatten()])
    return bool((deviations.abs() < TWO_DIGIT_TOLERANCE).all())


def has_learned_norm(norm: Norm) -> bool:
    return not bool((norm.gain == 1).all() and (norm.shift == 0).all())


@dataclass(frozen=True)
class MaskShape:
    """The shape of a mask: which tokens of the same sentence each token may attend to.

    `is_exact` is False where the mask also hides tokens that this shape leaves visible.
    """

    causal: bool  # later tokens are not visible
    window: int | None = None  # only tokens less than so many positions away are visible
    chunk: int | None = None  # only tokens in the same chunk of so many tokens are visible
    is_exact: bool = True

    def sees(self, query: Tensor, key: Tensor) -> Bool[Tensor, "query key"]:
        """Return whether each of these query positions sees each of these key positions.

        >>> places = torch.arange(3)
        >>> MaskShape(causal=True, window=2).sees(places[:, None], places).int().tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
        """
        visible = key <= query if self.causal else (query >= 0) & (key >= 0)
        if self.window is not None:
            visible = visible & ((query - key).abs() < self.window)
        if self.chunk is not None:
            visible = visible & (query // self.chunk == key // self.chunk)
        return visible


def find_mask_shape(visible: Bool[Tensor, "*head query key"]) -> MaskShape:
    """Return the shape of a mask: causal or not, and a window or chunks whose width is the number
    of visible rows in the first column.

    `is_exact` is False where masks differ between heads or no such shape gives exactly this mask.
    """
    if visible.ndim > 2 and not bool((visible == visible[:1]).all()):
        return MaskShape(causal=_is_causal(visible), is_exact=False)
    head_mask = visible[0] if visible.ndim > 2 else visible
    causal, reach = _is_causal(visible), int(head_mask[:, 0].sum())
    candidates = [MaskShape(causal, window=reach), MaskShape(causal, chunk=reach)] if reach else []
    if reach == len(head_mask):
        candidates = [MaskShape(causal)]
    exact_shapes = (shape for shape in candidates if _is_mask_of_shape(shape, head_mask))
    return next(exact_shapes, MaskShape(causal, is_exact=False))


def find_mask_shapes(layers: Iterable[Layer]) -> dict[int, MaskShape]:
    """Return the shape of each layer's mask, by layer number; a mask that several layers share is
    examined once.
    """
    shape_by_mask: dict[object, MaskShape] = {}
    shape_by_layer = {}
    for layer in layers:
        band_shape = _find_band_shape(layer)
        if band_shape is not None:
            shape_by_layer[layer.layer] = band_shape
            continue
        mask = layer.visible
        mask_key = (mask.data_ptr(), mask.shape, mask.stride())
        if mask_key not in shape_by_mask:
            shape_by_mask[mask_key] = find_mask_shape(mask)
        shape_by_layer[layer.layer] = shape_by_mask[mask_key]
    return shape_by_layer


def _find_band_shape(layer: Layer) -> MaskShape | None:
    """Return the shape of a mask that is known as a rule, without its matrix; None for others."""
    rule, (queries, keys) = layer.mask_rule, layer.size
    if rule.matrix is not None or rule.offset or queries < 2:
        return None
    before, after = (None if reach is None or reach >= max(queries, keys) - 1 else reach
                     for reach in (rule.before, rule.after))  # fmt: skip
    if after not in (0, before):
        return None
    window = None if before is None else before + 1
    return MaskShape(causal=after == 0, window=window)


def _is_causal(visible: Bool[Tensor, "*head query key"]) -> bool:
    """Return whether there are several tokens and none sees a later one, in any head."""
    positions = torch.arange(visible.shape[-1], device=visible.device)
    bands = ((visible[..., rows, :], positions[rows, None]) for rows in _row_bands(visible))
    sees_future = any(bool((cells & (positions > own)).any()) for cells, own in bands)
    return visible.shape[-2] > 1 and not sees_future


def _is_mask_of_shape(shape: MaskShape, visible: Bool[Tensor, "query key"]) -> bool:
    positions = torch.arange(visible.shape[-1], device=visible.device)
    return all(
        torch.equal(shape.sees(positions[rows, None], positions), visible[rows])
        for rows in _row_bands(visible)
    )


def _row_bands(visible: Tensor) -> list[slice]:
    """Return slices that together cover all rows of a mask, each of at most MAX_CELLS_AT_ONCE cells
    or a single row.
    """
    height = max(1, MAX_CELLS_AT_ONCE * visible.shape[-2] // max(1, visible.numel()))
    return [slice(row, row + height) for row in range(0, visible.shape[-2], height)]
