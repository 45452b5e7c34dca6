"""Attention stages and weights that are recomputed from queries and keys on access."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from attnviz.attention.arithmetic import AttentionStages, MixedBy
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.machine import memory
from attnviz.traces.trained.capture import CAPTURED_CELLS_AT_ONCE, CapturedAttention
from attnviz.traces.weights import InMemoryWeights, Stage, Weights
from attnviz.wording.words import counted

HeadCells = Float[Tensor, "head query key"]
MATRIX_COUNT = 4  # of all heads, in memory at once
NUMBER_BYTES = 4
FEWER_HEADS_HINT = "give a shorter text, or ask for one head: --layer 0 --head 0"


class RecomputedAttention(AttentionStages):
    """The stages of a layer as whole matrices, computed when the first of them is accessed."""

    mixed_by: MixedBy = "softmax"
    captured: CapturedAttention
    hint: str  # what to do if the matrices do not fit in memory

    def __init__(self, captured: CapturedAttention, hint: str = FEWER_HEADS_HINT) -> None:
        self.__dict__.update(captured=captured, hint=hint)  # AttentionStages is frozen

    @cached_property
    def whole(self) -> AttentionStages:
        memory.refuse_too_little_memory(
            self.captured.cells * NUMBER_BYTES * MATRIX_COUNT,
            f"the scores and weights of {counted(self.captured.heads, 'head')} as matrices",
            self.hint,
        )
        return self.captured.whole

    @cached_property
    def scores(self) -> HeadCells:
        return self.whole.scores

    @cached_property
    def scaled_scores(self) -> HeadCells:
        return self.whole.scaled_scores

    @cached_property
    def capped_scores(self) -> HeadCells | None:
        return None if self.captured.soft_cap is None else self.whole.capped_scores

    @cached_property
    def bias(self) -> Tensor | None:
        return self.captured.bias

    @cached_property
    def mask(self) -> Tensor | None:
        return self.captured.mask_scores

    @cached_property
    def sink(self) -> Tensor | None:
        return self.captured.sink

    @cached_property
    def weights(self) -> HeadCells:
        return self.whole.weights

    @cached_property
    def mixing(self) -> HeadCells:
        return self.whole.mixing

    @cached_property
    def contexts(self) -> Float[Tensor, "head query value_width"]:
        return self.captured.contexts()


@dataclass(frozen=True, eq=False)
class WeightsOnDemand(Weights):
    """The weights of a layer, recomputed row by row from queries and keys if they are many."""

    captured: CapturedAttention
    recomputed: RecomputedAttention

    @property
    def heads(self) -> int:
        return self.captured.heads

    def cells(self, stage: Stage, head: int) -> Cells:
        if self.captured.cells <= CAPTURED_CELLS_AT_ONCE:
            return InMemoryWeights(self.recomputed, self.captured.visible).cells(stage, head)
        return self._cells_by_stage.setdefault(
            (stage, head), RecomputedCells(self.captured, stage, head)
        )

    @cached_property
    def _cells_by_stage(self) -> dict[tuple[Stage, int], RecomputedCells]:
        """The cells that were accessed, which remember what they computed, such as their extent."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class RecomputedCells(Cells):
    """One head's numbers at one stage; a window of them recomputes its whole rows."""

    captured: CapturedAttention
    stage: Stage
    head: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.captured.queries.shape[1], self.captured.keys.shape[1]

    def window(self, rows: slice, columns: slice) -> Patch:
        head = slice(self.head, self.head + 1)
        visible = self.captured.visible
        visible_rows = visible[..., rows, :] if visible.ndim == 2 else visible[head, rows]
        stages = self.captured.attend(rows, head, mixed=False)
        return (
            InMemoryWeights(stages, visible_rows).cells(self.stage, 0).window(FULL_SLICE, columns)
        )
