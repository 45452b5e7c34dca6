"""The weights of a long text: measured as a whole, computed only where they are shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import AttentionStages, StagesWithoutTerms
from attnviz.attention.long_attention import (
    AttentionSummary,
    LongAttention,
    Progress,
    SummaryChoice,
)
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.errors import AttnvizError, opt
from attnviz.machine import memory
from attnviz.machine.context_values import context_value
from attnviz.options.values import AblationValue, Pool
from attnviz.traces.indexing import INDEX_ERRORS, misfit_index_error
from attnviz.traces.weights import BYTES_PER_FLOAT, Stage, Weights, tensor_to_numpy
from attnviz.wording.keywords import with_checked_arguments
from attnviz.wording.words import counted, shape_text

_progress_listener: ContextVar[Callable[[int, int], object] | None] = ContextVar(
    "progress_listener", default=None
)
Summarize = Callable[[LongAttention, SummaryChoice, Progress | None], AttentionSummary]
_summarize: ContextVar[Summarize] = ContextVar("summarize", default=LongAttention.summarize)
_contexts_alone: ContextVar[bool] = ContextVar("contexts_alone", default=False)
_refusal: ContextVar[AttnvizError | None] = ContextVar("refusal", default=None)
SHORTER_HINT = f"give a shorter text, or ask for the row of one token: {opt.query:1}"


def reporting_progress(listener: Callable[[int, int], object]) -> AbstractContextManager[None]:
    """Call `listener` inside the block with the number of rows of weights of all heads of a layer,
    and how many of them are measured.
    """
    return context_value(_progress_listener, listener)


def summarizing_by(summarize: Summarize) -> AbstractContextManager[None]:
    """Have `summarize` measure the weights of long texts inside the block."""
    return context_value(_summarize, summarize)


@contextmanager
def computing_contexts_alone(refusal: AttnvizError | None = None) -> Iterator[None]:
    """Compute inside the block only the context vectors of long texts, which takes a third of the
    time; everything else is measured when it is asked for. With a `refusal`, compute nothing of
    long texts, and raise that.
    """
    with context_value(_contexts_alone, True), context_value(_refusal, refusal):
        yield


def report_progress(total: int, done: int) -> None:
    if (listener := _progress_listener.get()) is not None:
        listener(total, done)


class StreamedWeights(Weights):
    """The weights of a layer that are measured as a whole, and computed where they are shown."""

    @property
    @abstractmethod
    def long_attention(self) -> LongAttention:
        """All that the weights are computed from."""

    def map_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return a summary with the map of a head, perhaps without its statistics, and the number
        that the head has in it.
        """
        return self.summary_of(head)

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
    def long_attention(self) -> LongAttention:
        return self.attention

    @property
    def has_scores(self) -> bool:
        return False

    @property
    def heads(self) -> int:
        return self.attention.queries.shape[0]

    @property
    def map_pool(self) -> str:
        return self.pool

    @cached_property
    def summary(self) -> AttentionSummary:
        """The context vectors, a map of blocks for each head, and what is measured of each row and
        column.
        """
        return self._summarize(statistics=True)

    @property
    def contexts(self) -> Float[Tensor, "head query value_width"]:
        """The context vectors, alone if that is all that is needed now."""
        if (refusal := _refusal.get()) is not None:
            raise refusal
        alone = _contexts_alone.get() and "summary" not in vars(self)
        return self._summarize(statistics=False).contexts if alone else self.summary.contexts

    def _summarize(self, *, statistics: bool) -> AttentionSummary:
        heads, queries, _ = self.attention.shape
        return _summarize.get()(
            self.attention,
            SummaryChoice(self.resolution, self.pool, statistics),
            partial(report_progress, heads * queries),
        )

    def cut_head(self, head: int, rest: Sequence[Any]) -> Tensor:
        """Return the weights of one head that an index chooses, computing only its rows."""
        _, queries, keys = self.attention.shape
        if not rest or not isinstance(rest[0], int | slice | np.integer):
            self.refuse_matrix()
            return super().cut_head(head, rest)
        chosen, columns = rest[0], rest[1:]
        try:
            places = range(queries)[chosen]  # which refuses an index that is not there
            first, step = (places, 1) if isinstance(places, int) else (places.start, places.step)
            stop = first + 1 if isinstance(places, int) else max(first, places.stop)
            rows = self.attention.rows(slice(first, stop), heads=[head])[0]
            inner = 0 if isinstance(places, int) else slice(None, None, step)
            index: tuple[Any, ...] = (inner, *columns)
            return rows[index]
        except INDEX_ERRORS:
            raise misfit_index_error((queries, keys)) from None

    def refuse_matrix(self) -> None:
        """Refuse all weights as a matrix if they do not fit in memory."""
        heads, queries, keys = self.attention.shape
        size = heads * queries * keys * BYTES_PER_FLOAT
        subject = f"the weights of {counted(queries, 'token')} as a matrix"
        memory.refuse_too_little_memory(2 * size, subject, SHORTER_HINT)

    def summary_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return the summary of all heads, and the head's number."""
        return self.summary, head

    def cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's weights; other stages are not kept for long texts, and are refused."""
        if stage not in ("weights", "mixing"):
            raise no_matrix_error(stage)
        return LongCells(self, head)

    def stages(self, off: Mapping[int, AblationValue]) -> AttentionStages:
        return LongStages(self, arithmetic.switch_off_heads(self.contexts, off))


def no_matrix_error(stage: str) -> AttnvizError:
    """Return the error that a stage other than the weights is not computed where it is shown."""
    return AttnvizError(
        f"only weights are computed where they are shown, and this needs the {stage}",
        f"leave {opt.stream} out, or give a larger {opt.memory_budget} or a shorter text",
    )


class LongStages(StagesWithoutTerms):
    """The stages of a long text: its context vectors; weights as a matrix where they fit."""

    def __init__(
        self, long_weights: LongWeights, contexts: Float[Tensor, "head query value_width"]
    ) -> None:
        self.__dict__.update(long_weights=long_weights, contexts=contexts)  # it is frozen

    @cached_property
    def weights(self) -> Float[Tensor, "head query key"]:
        """All weights as a matrix; refused if it does not fit in memory."""
        long_weights: LongWeights = self.__dict__["long_weights"]
        long_weights.refuse_matrix()
        return long_weights.attention.rows(FULL_SLICE)

    @property
    def scores(self) -> NoReturn:
        raise no_matrix_error("scores")

    @property
    def scaled_scores(self) -> NoReturn:
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
        count, key_count = self.shape
        start, stop, step = rows.indices(count)
        if step != 1:  # evenly spaced rows, each of them alone
            patches = [self.window(slice(at, at + 1), columns) for at in range(start, stop, step)]
            values = np.concatenate([patch.values for patch in patches])
            return Patch(values, np.concatenate([patch.hidden for patch in patches]))
        attention = self.weights.attention
        weights = attention.rows(rows, columns, heads=[self.head])[0]
        rule = attention.mask.for_head(self.head)
        places = slice(start, stop), slice(*columns.indices(key_count)[:2])
        hides = rule.hidden(*places, attention.device).T
        return Patch(tensor_to_numpy(weights), tensor_to_numpy(hides))

    @property
    def has_hidden(self) -> bool:
        attention = self.weights.attention
        rule = attention.mask.for_head(self.head)
        return rule.hides_any(*self.shape, attention.device)

    @property
    def extent(self) -> tuple[float, float]:
        """0 and the largest weight."""
        largest = self.weights.summary.largest_weight
        assert largest is not None  # a summary has statistics
        return 0.0, float(largest[self.head].max())


OTHER_NAMES = {  # in an AttentionSummary, of what a TextSummary calls otherwise
    "map": "pooled",
    "largest": "largest_weight",
    "on_itself": "on_self",
    "distance": "mean_distance",
}


class TextSummary:
    """What is measured of the attention to a long text in one layer, for each head.

    Of each query: `entropy` in bits, `largest` weight and its `largest_position` (from 0), the
    weight `on_first`, `on_itself` and `on_previous` token, the mean `distance` in tokens. Of each
    key: `received`, the sum of its column. `map` has the weights in blocks of `block` queries and
    keys: the share of a block of keys, averaged over its queries; or the largest weight. All of it
    is measured when it is first asked for.
    """

    map: Float[Tensor, "head down across"]
    hidden: Bool[Tensor, "*#head down across"]
    contexts: Float[Tensor, "head query value_width"]
    received: Float[Tensor, "head key"]
    entropy: Float[Tensor, "head query"]
    largest: Float[Tensor, "head query"]
    largest_position: Int[Tensor, "head query"]
    on_first: Float[Tensor, "head query"]
    on_itself: Float[Tensor, "head query"]
    on_previous: Float[Tensor, "head query"]
    distance: Float[Tensor, "head query"]
    by_distance: Float[Tensor, "head distance_bin"]  # the mean share at distances in `edges`

    def __init__(self, weights: LongWeights) -> None:
        self._weights = weights

    def __getattr__(self, name: str) -> Tensor:
        if name not in MEASURED_NAMES:
            raise AttributeError(f"a summary has no '{name}', but {', '.join(MEASURED_NAMES)}")
        measured: Tensor = getattr(self._weights.summary, OTHER_NAMES.get(name, name))
        return measured

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *MEASURED_NAMES]

    @property
    def block(self) -> tuple[int, int]:
        """How many queries and keys one cell of the map stands for."""
        _, queries, keys = self._weights.attention.shape
        height, width = (max(1, -(-size // self._weights.resolution)) for size in (queries, keys))
        return height, width

    @property
    def edges(self) -> list[int]:
        """Where the distances of `by_distance` begin, and where the last ones end."""
        return self._weights.attention.distance_edges()

    @with_checked_arguments
    def rows(self, *queries: int) -> Float[Tensor, "head row key"]:
        """Return the exact weights of some queries, by position from 0, on all keys."""
        attention = self._weights.attention
        count = attention.shape[1]
        for query in queries:
            if not -count <= query < count:
                raise AttnvizError(
                    f"there is no query {query}: queries count from 0 to {count - 1:,}",
                    f"try rows({count - 1})",
                )
        places = [query % count for query in queries]
        return torch.cat([attention.rows(slice(place, place + 1)) for place in places], dim=1)

    @with_checked_arguments
    def window(self, queries: slice, keys: slice = FULL_SLICE) -> Float[Tensor, "head row column"]:
        """Return the exact weights of a part: `summary.window(slice(1200, 1300), slice(0, 4096))`.

        The softmax runs over all keys that a query may attend to. Refuses a part that does not fit
        in memory.
        """
        heads, count, key_count = self._weights.attention.shape
        size = heads * len(range(count)[queries]) * key_count * BYTES_PER_FLOAT
        memory.refuse_too_little_memory(size, "this part of the weights", "give fewer queries")
        return self._weights.attention.rows(queries, keys)

    def __repr__(self) -> str:
        """Return a line that measures nothing: `<TextSummary: 1 head, 4 × 4 weights, …>`."""
        heads, *size = self._weights.shape
        blocks = f"a map in blocks of {shape_text(self.block)}"
        return f"<TextSummary: {counted(heads, 'head')}, {shape_text(size)} weights, {blocks}>"


MEASURED_NAMES = tuple(TextSummary.__annotations__)
