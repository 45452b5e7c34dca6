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

from attnviz.attention.arithmetic import Attended, Visible
from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import CELLS_AT_ONCE, EVERYTHING, Cells, Patch, Whole, unmasked
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.wording.words import listed

FLOAT = 4  # bytes
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
        found = [torch.from_numpy(each.window(EVERYTHING, EVERYTHING).values) for each in cells]
        return torch.stack(found)


def of_all_layers(layers: Sequence[Weights]) -> Float[Tensor, "layer head query key"]:
    """The weights of all heads as one tensor, if there are as many in each layer."""
    heads = sorted({each.heads for each in layers})
    if len(heads) > 1:
        raise AttnvizError(
            f"layers have {listed([*map(str, heads)])} heads: their weights make no one tensor",
            "take those of one layer: trace.layers[0].weights.whole()",
        )
    rows, columns = layers[0].cells("mixing", 0).shape
    cells = len(layers) * heads[0] * rows * columns
    memory.refuse_more(cells * FLOAT, "the weights of all heads as one tensor")
    return torch.stack([each.whole() for each in layers])


@dataclass(frozen=True, eq=False)
class InMemory(Weights):
    """Everything is in memory."""

    attended: Attended
    visible: Visible
    mistake: str = ""
    ratio: float = 1.0  # which one mistake takes for another

    @property
    def heads(self) -> int:
        return self.attended.weights.shape[0]

    def cells(self, stage: Stage, head: int) -> Cells:
        rows, columns = self.attended.weights.shape[-2:]
        if rows * columns <= CELLS_AT_ONCE:
            return self.stage_cells(stage, head)
        return Rows(self, stage, head)

    def of_rows(self, rows: slice, head: int) -> InMemory:
        """The same of some queries of one head; no number is copied."""

        def part(matrix: Tensor) -> Tensor:
            return mask_of(head, matrix)[None, rows]

        return replace(self, attended=self.attended.of_part(part), visible=part(self.visible))

    def stage_cells(self, stage: Stage, head: int) -> Cells:
        """The same, made at once of whole matrices."""
        attended = self.attended
        if stage == "scores":
            return unmasked(array(attended.scores[head]))
        if stage == "scaled scores":
            return unmasked(array(attended.scaled_scores[head]))
        if stage == "capped scores" and attended.capped_scores is not None:
            return unmasked(array(attended.capped_scores[head]))
        if stage in ("capped scores", "biased scores"):
            return unmasked(array(attended.biased[head]))
        if stage == "scores with mask":
            return unmasked(array(attended.logits[head]))
        if stage == "masked scores":
            hidden = attended.logits[head].masked_fill(~mask_of(head, self.visible), -inf)
            return Whole(array(hidden), self._masked(head))
        if stage == "exponents":
            return unmasked(array(self._exponents()[head]))
        values = array((attended.weights if stage == "weights" else attended.mixing)[head])
        # A mistake, or a hand, may give weight to what should be hidden.
        return Whole(values, self._masked(head) & (values == 0))

    def _masked(self, head: int) -> Bool[np.ndarray, "query key"]:
        return ~array(mask_of(head, self.visible))

    def _exponents(self) -> Tensor:
        logits = self.attended.logits
        if not self.mistake:
            return logits.masked_fill(~self.visible, -inf)
        return MISTAKES[self.mistake].numbers(logits, self.visible, self.ratio)


@dataclass(frozen=True, eq=False)
class Rows(Cells):
    """One head's numbers at one stage, of large matrices: made for the rows that are asked for."""

    matrices: InMemory
    stage: Stage
    head: int

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrices.attended.weights.shape[-2:]
        return rows, columns

    def window(self, rows: slice, columns: slice) -> Patch:
        made = self.matrices.of_rows(rows, self.head).stage_cells(self.stage, 0)
        return made.window(EVERYTHING, columns)


def mask_of(head: int, mask: Shaped[Tensor, "*#head query key"]) -> Shaped[Tensor, "query key"]:
    """The mask of one head, of one for all heads or of one for each."""
    one: Tensor = mask if mask.ndim == 2 else mask[min(head, len(mask) - 1)]
    return one


def array(tensor: Tensor) -> Shaped[np.ndarray, "..."]:
    """The numbers of a tensor, wherever it is; bfloat16, which NumPy has not, as float32."""
    plain = tensor.detach().cpu()
    return plain.float().numpy() if "bfloat16" in str(plain.dtype) else plain.numpy()
