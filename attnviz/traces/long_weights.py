"""The weights of a long text: measured as a whole, computed only where they are shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from jaxtyping import Float
from torch import Tensor

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import AttentionStages, MixedBy
from attnviz.attention.long_attention import AttentionSummary, LongAttention
from attnviz.attention.variants import AblationValue
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.errors import AttnvizError
from attnviz.machine import memory
from attnviz.traces.settings import Pool
from attnviz.traces.weights import BYTES_PER_FLOAT, Stage, Weights, tensor_to_numpy
from attnviz.wording.words import counted

_progress_listener: ContextVar[Callable[[int, int], object] | None] = ContextVar(
    "progress_listener", default=None
)
SHORTER_HINT = "give a shorter text, or ask for the row of one token: --query 1"


@contextmanager
def reporting_progress(listener: Callable[[int, int], object]) -> Iterator[None]:
    """Call `listener` inside the block with the number of rows of weights of all heads of a layer,
    and how many of them are measured.
    """
    token = _progress_listener.set(listener)
    try:
        yield
    finally:
        _progress_listener.reset(token)


def row_progress(total: int, before: int = 0) -> Callable[[int], object] | None:
    """Return the function that reports how many of `total` rows are measured, `before` of them
    already; None if nobody listens.
    """
    listener = _progress_listener.get()
    return None if listener is None else lambda done: listener(total, before + done)


class StreamedWeights(Weights):
    """The weights of a layer that are measured as a whole, and computed where they are shown."""

    @abstractmethod
    def map_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return a summary with the map of a head, perhaps without its statistics, and the number
        that the head has in it.
        """

    @abstractmethod
    def summary_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return a summary with the statistics of a head, and the number that the head has in it;
        may compute them.
        """


@dataclass(frozen=True, eq=False, repr=False)
class LongWeights(StreamedWeights):
    """The weights of a layer that reads a long text."""

    attention: LongAttention
    resolution: int
    pool: Pool

    @property
    def heads(self) -> int:
        return self.attention.queries.shape[0]

    @cached_property
    def summary(self) -> AttentionSummary:
        """The context vectors, a map of blocks for each head, and what is measured of each row and
        column.
        """
        heads, queries, _ = self.attention.shape
        return self.attention.summarize(
            resolution=self.resolution, pool=self.pool, progress=row_progress(heads * queries)
        )

    def map_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return the summary of all heads, and the head's number."""
        return self.summary, head

    def summary_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return the summary of all heads, and the head's number."""
        return self.summary, head

    def cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's weights; other stages are not kept for long texts, and are refused."""
        if stage not in ("weights", "mixing"):
            raise no_matrix_error(stage)
        return LongCells(self, head)

    def stages(self, off: Mapping[int, AblationValue]) -> AttentionStages:
        """Return the stages of the layer, with the heads in `off` switched off."""
        return LongStages(self, arithmetic.switch_off_heads(self.summary.contexts, off))


def no_matrix_error(stage: str) -> AttnvizError:
    """Return the error that a stage other than the weights is not computed where it is shown."""
    return AttnvizError(
        f"only weights are computed where they are shown, and this needs the {stage}",
        "leave --stream out, or give a larger --memory-budget or a shorter text",
    )


class LongStages(AttentionStages):
    """The stages of a long text: its context vectors; weights as a matrix where they fit."""

    capped_scores = None
    bias = None
    mask = None
    sink = None
    mixed_by: MixedBy = "softmax"

    def __init__(
        self, long_weights: LongWeights, contexts: Float[Tensor, "head query value_width"]
    ) -> None:
        self.__dict__.update(long_weights=long_weights, contexts=contexts)  # it is frozen

    @cached_property
    def weights(self) -> Float[Tensor, "head query key"]:
        """All weights as a matrix; refused if it does not fit in memory."""
        attention: LongAttention = self.__dict__["long_weights"].attention
        heads, queries = attention.queries.shape[:2]
        size = heads * queries * attention.keys.shape[1] * BYTES_PER_FLOAT
        subject = f"the weights of {counted(queries, 'token')} as a matrix"
        memory.refuse_too_little_memory(2 * size, subject, SHORTER_HINT)
        return attention.rows(FULL_SLICE)

    @property
    def scores(self) -> NoReturn:
        """Refuse: scores are not kept."""
        raise no_matrix_error("scores")

    @property
    def scaled_scores(self) -> NoReturn:
        """Refuse: scores are not kept."""
        raise no_matrix_error("scores")

    @property
    def mixing(self) -> Float[Tensor, "head query key"]:
        """The same weights: there is no dropout."""
        return self.weights


@dataclass(frozen=True, eq=False, repr=False)
class LongCells(Cells):
    """One head's weights, computed for the requested rows and columns."""

    weights: LongWeights
    head: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.attention.shape[1:]

    def window(self, rows: slice, columns: slice) -> Patch:
        """Return the weights in these rows and columns, computed by each call."""
        attention = self.weights.attention
        values = attention.rows(rows, columns, heads=[self.head])[0]
        row_slice, column_slice = (
            slice(*part.indices(count)[:2])
            for part, count in zip((rows, columns), self.shape, strict=True)
        )
        rule = attention.mask.for_head(self.head)
        hidden = rule.hidden(row_slice, column_slice, attention.device).T
        return Patch(tensor_to_numpy(values), tensor_to_numpy(hidden))

    @property
    def extent(self) -> tuple[float, float]:
        """0 and the largest weight."""
        largest = self.weights.summary.largest_weight
        assert largest is not None  # a summary has statistics
        return 0.0, float(largest[self.head].max())
