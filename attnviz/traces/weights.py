"""Who reads whom, by how much: weights, and the scores on the way to them, cell by cell.

They need not be matrices. What is shown asks for rows, windows and blocks; matrices in memory
answer, and so can whatever works a part out when it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from attnviz.attention.arithmetic import AttentionStages, Visible
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE, Cells, Patch, StoredCells, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.wording.words import and_list

BYTES_PER_FLOAT = 4  # bytes
Stage = Literal[
    "scores",  # raw dot products
    "scaled scores",
    "capped scores",  # bent by a soft cap
    "biased scores",  # and what a distance adds to them
    "scores with mask",  # and what a mask of numbers adds
    "masked scores",  # the same, with −∞ for what is hidden, which is marked as such
    "exponents",  # what exp is taken of: -inf gets no weight
    "weights",  # after softmax
    "mixing",  # the weights, or what values are mixed by in their place
]


class Weights(ABC):
    """What each head makes of each pair of tokens, at each stage from scores to mixture."""

    @property
    @abstractmethod
    def heads(self) -> int:
        """How many heads there are."""

    @abstractmethod
    def cells(self, stage: Stage, head: int) -> Cells:
        """One head's numbers: a row for each query, a column for each key."""

    def whole(self) -> Float[Tensor, "head query key"]:
        """What values are mixed by, of all heads as one tensor; worked out, if it has to be."""
        cells = [self.cells("mixing", head) for head in range(self.heads)]
        matrices = [
            torch.from_numpy(head_cells.window(FULL_SLICE, FULL_SLICE).values)
            for head_cells in cells
        ]
        return torch.stack(matrices)


def stack_layer_weights(layers: Sequence[Weights]) -> Float[Tensor, "layer head query key"]:
    """The weights of all heads as one tensor, if there are as many in each layer."""
    heads = sorted({layer.heads for layer in layers})
    if len(heads) > 1:
        raise AttnvizError(
            f"layers have {and_list([*map(str, heads)])} heads: their weights make no one tensor",
            "take those of one layer: trace.layers[0].weights.whole()",
        )
    rows, columns = layers[0].cells("mixing", 0).shape
    cells = len(layers) * heads[0] * rows * columns
    memory.refuse_too_little_memory(
        cells * BYTES_PER_FLOAT, "the weights of all heads as one tensor"
    )
    return torch.stack([layer.whole() for layer in layers])


@dataclass(frozen=True, eq=False)
class InMemoryWeights(Weights):
    """Everything is in memory."""

    attended: AttentionStages
    visible: Visible
    mistake: str = ""
    width_ratio: float = 1.0  # which one mistake takes for another

    @property
    def heads(self) -> int:
        return self.attended.weights.shape[0]

    def cells(self, stage: Stage, head: int) -> Cells:
        rows, columns = self.attended.weights.shape[-2:]
        if rows * columns <= CELLS_PER_BAND:
            return self.stage_cells(stage, head)
        return InMemoryRows(self, stage, head)

    def select_rows(self, rows: slice, head: int) -> InMemoryWeights:
        """The same of some queries of one head; no number is copied."""

        def select_part(matrix: Tensor) -> Tensor:
            return head_mask(head, matrix)[None, rows]

        return replace(
            self, attended=self.attended.select_part(select_part), visible=select_part(self.visible)
        )

    def stage_cells(self, stage: Stage, head: int) -> Cells:
        """The same, made at once of whole matrices."""
        attended = self.attended
        if stage == "scores":
            return unmasked_cells(tensor_to_numpy(attended.scores[head]))
        if stage == "scaled scores":
            return unmasked_cells(tensor_to_numpy(attended.scaled_scores[head]))
        if stage == "capped scores" and attended.capped_scores is not None:
            return unmasked_cells(tensor_to_numpy(attended.capped_scores[head]))
        if stage in ("capped scores", "biased scores"):
            return unmasked_cells(tensor_to_numpy(attended.biased[head]))
        if stage == "scores with mask":
            return unmasked_cells(tensor_to_numpy(attended.logits[head]))
        if stage == "masked scores":
            masked = attended.logits[head].masked_fill(~head_mask(head, self.visible), -inf)
            return StoredCells(tensor_to_numpy(masked), self._hidden_cells(head))
        if stage == "exponents":
            return unmasked_cells(tensor_to_numpy(self._softmax_inputs()[head]))
        values = tensor_to_numpy(
            (attended.weights if stage == "weights" else attended.mixing)[head]
        )
        # A mistake, or a hand, may give weight to what should be hidden.
        return StoredCells(values, self._hidden_cells(head) & (values == 0))

    def _hidden_cells(self, head: int) -> Bool[np.ndarray, "query key"]:
        return ~tensor_to_numpy(head_mask(head, self.visible))

    def _softmax_inputs(self) -> Tensor:
        logits = self.attended.logits
        if not self.mistake:
            return logits.masked_fill(~self.visible, -inf)
        return MISTAKES[self.mistake].softmax_inputs(logits, self.visible, self.width_ratio)


@dataclass(frozen=True, eq=False)
class InMemoryRows(Cells):
    """One head's numbers at one stage, of large matrices: made for the rows that are asked for."""

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
    """The mask of one head, of one for all heads or of one for each."""
    selected: Tensor = mask if mask.ndim == 2 else mask[min(head, len(mask) - 1)]
    return selected


def tensor_to_numpy(tensor: Tensor) -> Shaped[np.ndarray, "..."]:
    """The numbers of a tensor, wherever it is; bfloat16, which NumPy has not, as float32."""
    plain = tensor.detach().cpu()
    return plain.float().numpy() if "bfloat16" in str(plain.dtype) else plain.numpy()
