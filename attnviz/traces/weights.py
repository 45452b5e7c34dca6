"""Attention weights, and the stages before them, as Cells: rows and windows on request.

Views ask for the rows and windows they show, so that weights can also be computed on demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attnviz.attention.arithmetic import AttentionStages, Visible
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE, Cells, Patch, StoredCells, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.indexing import cut_weights, index_heads
from attnviz.wording.words import and_list, counted, shape_text

BYTES_PER_FLOAT = 4
Stage = Literal[
    "scores",  # raw dot products
    "scaled scores",
    "capped scores",  # after the soft cap
    "biased scores",  # plus the bias of ALiBi
    "scores with mask",  # plus a numeric mask
    "masked scores",  # with −∞ for hidden keys, which are marked
    "exponents",  # the inputs of exp: -inf gets no weight
    "weights",  # after softmax
    "mixing",  # weights that values are mixed by: after dropout, or given by hand
]


class Weights(ABC):
    """The scores and weights of a layer's heads for each query and key, at each stage."""

    @property
    @abstractmethod
    def heads(self) -> int:
        """The number of heads."""

    @property
    def has_scores(self) -> bool:
        """Whether the stages before the weights can be read, too."""
        return True

    @property
    def map_pool(self) -> str:
        """What a block of a map of these weights shows: their mean share, or the largest."""
        return "mean"

    @abstractmethod
    def cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's numbers at a stage: a row for each query, a column for each key."""

    def whole(self) -> Float[Tensor, "head query key"]:
        """Return the weights that mix the values, of all heads, as one tensor; may compute them."""
        return torch.stack([*self])

    def head(self, head: int) -> Float[Tensor, "query key"]:
        """Return the weights of one head as a tensor of its own; may compute them."""
        patch = self.cells("mixing", head).window(FULL_SLICE, FULL_SLICE)
        return torch.from_numpy(np.array(patch.values))

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.heads, *self.cells("mixing", 0).shape)

    def __len__(self) -> int:
        """Return the number of heads."""
        return self.heads

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the weights [query, key] of each head."""
        return map(self.head, range(self.heads))

    def __getitem__(self, key: Any) -> Tensor:
        """Return the weights [query, key] of a head, by number, or of several, stacked."""
        return index_heads(self.cut_head, self.heads, key)

    def cut_head(self, head: int, rest: Sequence[Any]) -> Tensor:
        return cut_weights(self.head(head), rest)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Shaped[np.ndarray, "..."]:
        """Return all weights as an array: `np.asarray(layer.weights)`; may compute them."""
        return np.asarray(self.whole().numpy(), dtype)

    def __repr__(self) -> str:
        """Return a line like `<InMemoryWeights: 2 heads, 4 × 4 weights each>`."""
        heads, *size = self.shape
        name = type(self).__name__
        return f"<{name}: {counted(heads, 'head')}, {shape_text(size)} weights each>"


def stack_layer_weights(layers: Sequence[Weights]) -> Float[Tensor, "layer head query key"]:
    """Return the weights that mix the values, of all layers, as one tensor.

    Refuses layers with different numbers of heads, and a tensor that does not fit in memory.
    """
    heads = sorted({layer.heads for layer in layers})
    if len(heads) > 1:
        raise AttnvizError(
            f"layers have {and_list([*map(str, heads)])} heads: their weights make no one tensor",
            "take those of one layer: trace.layers[0].weights.whole()",
        )
    rows, columns = layers[0].cells("mixing", 0).shape
    cells = len(layers) * heads[0] * rows * columns
    subject = "the weights of all heads as one tensor"
    memory.refuse_too_little_memory(cells * BYTES_PER_FLOAT, subject)
    matrices = [layer.whole() for layer in layers]  # a model may be on several devices
    return torch.stack([matrix.to(matrices[0].device) for matrix in matrices])


@dataclass(frozen=True, eq=False, repr=False)
class InMemoryWeights(Weights):
    """Weights whose stages are matrices in memory."""

    attended: AttentionStages
    visible: Visible
    mistake: str = ""
    width_ratio: float = 1.0  # √(model width) over √(head width), for one of the mistakes

    @property
    def heads(self) -> int:
        return self.attended.weights.shape[0]

    def cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's numbers at a stage; rows of large matrices are computed when read."""
        rows, columns = self.attended.weights.shape[-2:]
        if rows * columns <= CELLS_PER_BAND:
            return self.stage_cells(stage, head)
        return InMemoryRows(self, stage, head)

    def select_rows(self, rows: slice, head: int) -> InMemoryWeights:
        """Return some queries of one head alone (now head 0), without copying numbers."""

        def select_part(matrix: Tensor) -> Tensor:
            return head_mask(head, matrix)[None, rows]

        return replace(
            self, attended=self.attended.select_part(select_part), visible=select_part(self.visible)
        )

    def stage_cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's whole matrix at a stage, with hidden keys marked from the mask on."""
        attended, hidden = self.attended, ~tensor_to_numpy(head_mask(head, self.visible))
        if stage in ("weights", "mixing"):
            values = tensor_to_numpy(
                (attended.weights if stage == "weights" else attended.mixing)[head]
            )
            # A mistake, or given weights, may give weight to hidden keys.
            return StoredCells(values, hidden & (values == 0))
        if stage == "masked scores":
            masked = attended.logits[head].masked_fill(~head_mask(head, self.visible), -inf)
            return StoredCells(tensor_to_numpy(masked), hidden)
        return unmasked_cells(tensor_to_numpy(self._unmasked_stage(stage)[head]))

    def _unmasked_stage(self, stage: Stage) -> Tensor:
        """Return the scores of all heads at a stage before the mask, or the inputs of exp
        ("exponents").

        A stage that was skipped equals the one before: without a soft cap, capped scores are scaled
        scores.
        """
        attended = self.attended
        if stage == "scores":
            return attended.scores
        if stage == "scaled scores":
            return attended.scaled_scores
        if stage == "capped scores" and attended.capped_scores is not None:
            return attended.capped_scores
        if stage in ("capped scores", "biased scores"):
            return attended.biased
        if stage == "scores with mask":
            return attended.logits
        if not self.mistake:
            return attended.logits.masked_fill(~self.visible, -inf)
        mistake = MISTAKES[self.mistake]
        return mistake.softmax_inputs(attended.logits, self.visible, self.width_ratio)


@dataclass(frozen=True, eq=False)
class InMemoryRows(Cells):
    """One head's numbers at one stage of large matrices, computed for the requested rows only."""

    matrices: InMemoryWeights
    stage: Stage
    head: int

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrices.attended.weights.shape[-2:]
        return rows, columns

    def window(self, rows: slice, columns: slice) -> Patch:
        selected = self.matrices.select_rows(rows, self.head).stage_cells(self.stage, 0)
        return selected.window(FULL_SLICE, columns)


def head_mask(head: int, mask: Shaped[Tensor, "*#head query key"]) -> Shaped[Tensor, "query key"]:
    return mask if mask.ndim == 2 else mask[min(head, len(mask) - 1)]


def tensor_to_numpy(tensor: Tensor) -> Shaped[np.ndarray, "..."]:
    """Return a tensor of any device as an array; bfloat16, which NumPy lacks, becomes float32."""
    plain = tensor.detach().cpu()
    return plain.float().numpy() if "bfloat16" in str(plain.dtype) else plain.numpy()
