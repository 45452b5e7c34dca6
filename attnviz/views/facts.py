"""Facts about one attention that sentences depend on: its sums, its mask and that mask's shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attnviz.analysis.measures import measure
from attnviz.attention.arithmetic import attention_weights
from attnviz.attention.block import Norm
from attnviz.attention.mistakes import Symptom
from attnviz.attention.variants import before, everything, near
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


CELLS_AT_ONCE = 2**22


@dataclass(frozen=True)
class MaskShape:
    """How far tokens see among those of their own sentence; `named` where this says all of it."""

    causal: bool  # nothing that comes after is seen
    window: int | None = None  # only what is less than so many places away is,
    chunk: int | None = None  # or only what is in the same piece of so many tokens
    named: bool = True

    def sees(self, query: Tensor, key: Tensor) -> Bool[Tensor, "query key"]:
        """
        >>> places = torch.arange(3)
        >>> MaskShape(causal=True, window=2).sees(places[:, None], places).int().tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
        """
        seen = before(query, key) if self.causal else everything(query, key)
        if self.window is not None:
            seen = seen & near(query, key, self.window)
        return seen if self.chunk is None else seen & (query // self.chunk == key // self.chunk)


def shape_of(visible: Bool[Tensor, "*head query key"]) -> MaskShape:
    """The shape that a mask has: that of the first column tells how far anything is seen."""
    if visible.ndim > 2 and not bool((visible == visible[:1]).all()):
        return MaskShape(causal=_is_causal(visible), named=False)
    of_all = visible[0] if visible.ndim > 2 else visible
    causal, far = _is_causal(visible), int(of_all[:, 0].sum())
    whole = MaskShape(causal)
    narrow = [MaskShape(causal, window=far), MaskShape(causal, chunk=far)] if far else []
    likely = [whole] if far == len(of_all) else narrow
    return next((each for each in likely if _is(each, of_all)), MaskShape(causal, named=False))


def shapes_of(layers: Iterable[Layer]) -> dict[int, MaskShape]:
    """Those of several layers, by their numbers; most of them share one mask."""
    known: dict[object, MaskShape] = {}
    found = {}
    for each in layers:
        mask = each.visible
        same = (mask.data_ptr(), mask.shape, mask.stride())
        if same not in known:
            known[same] = shape_of(mask)
        found[each.layer] = known[same]
    return found


def _is_causal(visible: Bool[Tensor, "*head query key"]) -> bool:
    """Whether there is anything to come, and nothing of it is seen."""
    places = torch.arange(visible.shape[-1], device=visible.device)
    rows = range(0, visible.shape[-2], together := _together(visible))
    ahead = (visible[..., row : row + together, :] & (places > places[row : row + together, None])
             for row in rows)  # fmt: skip
    return visible.shape[-2] > 1 and not any(bool(each.any()) for each in ahead)


def _is(shape: MaskShape, visible: Bool[Tensor, "query key"]) -> bool:
    places = torch.arange(visible.shape[-1], device=visible.device)
    together = _together(visible)
    bands = (slice(row, row + together) for row in range(0, len(visible), together))
    return all(torch.equal(shape.sees(places[each, None], places), visible[each]) for each in bands)


def _together(visible: Tensor) -> int:
    return max(1, CELLS_AT_ONCE * visible.shape[-2] // max(1, visible.numel()))
