"""Attention that is computed again from queries and keys when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from attnviz.attention.arithmetic import Attended, MixedBy
from attnviz.cells import EVERYTHING, Cells, Patch
from attnviz.machine import memory
from attnviz.traces.trained.listening import CELLS_AT_ONCE, Heard
from attnviz.traces.weights import InMemory, Stage, Weights
from attnviz.wording.words import counted

Cells3 = Float[Tensor, "head query key"]
MATRICES = 4  # that are there at once where all of them are asked for
BYTES = 4
FEWER = "give a shorter text, or ask for one head: --layer 0 --head 0"


class Remade(Attended):
    """The same as matrices, made when the first of them is asked for."""

    mixed_by: MixedBy = "softmax"

    def __init__(self, heard: Heard, hint: str = FEWER) -> None:
        self.__dict__.update(heard=heard, hint=hint)  # frozen, as every Attended is

    @cached_property
    def whole(self) -> Attended:
        heard: Heard = self.__dict__["heard"]
        memory.refuse_more(
            heard.cells * BYTES * MATRICES,
            f"the scores and weights of {counted(heard.heads, 'head')} as matrices",
            self.__dict__["hint"],
        )
        return heard.whole

    @property
    def _heard(self) -> Heard:
        heard: Heard = self.__dict__["heard"]
        return heard

    @cached_property
    def scores(self) -> Cells3:
        return self.whole.scores

    @cached_property
    def scaled_scores(self) -> Cells3:
        return self.whole.scaled_scores

    @cached_property
    def capped_scores(self) -> Cells3 | None:
        return None if self._heard.soft_cap is None else self.whole.capped_scores

    @cached_property
    def bias(self) -> Tensor | None:
        return self._heard.bias

    @cached_property
    def mask(self) -> Tensor | None:
        return self._heard.added

    @cached_property
    def sink(self) -> Tensor | None:
        return self._heard.sink

    @cached_property
    def weights(self) -> Cells3:
        return self.whole.weights

    @cached_property
    def mixing(self) -> Cells3:
        return self.whole.mixing

    @cached_property
    def contexts(self) -> Float[Tensor, "head query value_width"]:
        return self._heard.contexts()


@dataclass(frozen=True, eq=False)
class OnDemand(Weights):
    """Weights of a head, row by row, from its queries and keys."""

    heard: Heard
    remade: Remade

    @property
    def heads(self) -> int:
        return self.heard.heads

    def cells(self, stage: Stage, head: int) -> Cells:
        if self.heard.cells <= CELLS_AT_ONCE:
            return InMemory(self.remade, self.heard.visible).cells(stage, head)
        return self._worked.setdefault((stage, head), Worked(self.heard, stage, head))

    @cached_property
    def _worked(self) -> dict[tuple[Stage, int], Worked]:
        """Those that were asked for: what was found out of one, as its extent, it knows."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class Worked(Cells):
    """One head's numbers at one stage; of what is asked for whole rows are worked out."""

    heard: Heard
    stage: Stage
    head: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.heard.queries.shape[1], self.heard.keys.shape[1]

    def window(self, rows: slice, columns: slice) -> Patch:
        head = slice(self.head, self.head + 1)
        visible = self.heard.visible
        of_rows = visible[..., rows, :] if visible.ndim == 2 else visible[head, rows]
        made = InMemory(self.heard.attended(rows, head, mixed=False), of_rows).cells(self.stage, 0)
        return made.window(EVERYTHING, columns)
