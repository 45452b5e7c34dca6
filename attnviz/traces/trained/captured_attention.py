"""The captured attention of one layer; its weights are recomputed when read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnviz.attention import arithmetic
from attnviz.attention.arithmetic import AttentionStages, MixedBy
from attnviz.attention.long_attention import (
    AttentionSummary,
    LongAttention,
    Progress,
    SummaryChoice,
)
from attnviz.cells import FULL_SLICE, Cells, Patch
from attnviz.machine import memory
from attnviz.options.values import AblationValue, AttentionKind
from attnviz.traces.long_weights import StreamedWeights, report_progress
from attnviz.traces.settings import HeadId
from attnviz.traces.weights import InMemoryWeights, Stage, Weights, head_mask, tensor_to_numpy
from attnviz.wording.surfaces import opt
from attnviz.wording.words import counted, with_summary

CAPTURED_CELLS_AT_ONCE = 2**18  # of all heads; several tensors of this size exist at a time
MAP_BLOCKS = 64  # on each side of a map that is not shown
Visible = Bool[Tensor, "*#head query key"]
MaskScores = Float[Tensor, "*#head query key"] | None


@dataclass(frozen=True)
class HiddenKeys:
    """Keys that some heads hide from one query, in one pass of a model."""

    query: int
    keys: tuple[int, ...]
    heads: Collection[HeadId]


@with_summary
@dataclass(frozen=True, eq=False, kw_only=True)
class CapturedAttention(LongAttention):
    """The queries, keys and values of one layer as the model computed them, and its mask."""

    kind: AttentionKind
    layer: int
    module: nn.Module | None = None  # the attention module
    inputs: Float[Tensor, "query dim"]  # from which queries are projected
    memory: Float[Tensor, "key dim"] | None  # the same for keys and values; None: `inputs`
    off: Mapping[int, AblationValue] = field(default_factory=dict)
    choice: SummaryChoice | None = None  # of what is measured while the model runs
    maps: AttentionSummary | None = None  # which was measured then, without contexts

    @property
    def heads(self) -> int:
        return self.queries.shape[0]

    @property
    def cells(self) -> int:
        return self.heads * self.queries.shape[1] * self.keys.shape[1]

    def attend(
        self,
        rows: slice = FULL_SLICE,
        heads: slice = FULL_SLICE,
        *,
        mixed: bool = True,
        hidden_keys: Sequence[int] = (),
    ) -> AttentionStages:
        """Compute the stages of attention for the queries in `rows` and the heads in `heads`.

        Ablation (`off`) is not applied. `mixed=False` leaves out the contexts, for callers that
        need weights only; `hidden_keys` are hidden, too.
        """
        values = self._expand_groups(self.values if mixed else self.values[..., :0], heads)
        queries = self.queries if rows is heads is FULL_SLICE else self.queries[heads, rows]
        visible = self.visible_part(rows, heads)
        if hidden_keys:
            visible = visible.clone()
            visible[..., list(hidden_keys)] = False
        return arithmetic.compute_attention(
            arithmetic.similarity(queries, self._expand_groups(self.keys, heads)),
            values,
            visible,
            scale=self.scale,
            soft_cap=self.soft_cap,
            bias=None if self.bias is None else _mask_part(self.bias, rows, heads),
            mask=None if self.mask_scores is None else _mask_part(self.mask_scores, rows, heads),
            sink=None if self.sink is None else self.sink[heads],
        )

    def visible_part(self, rows: slice, heads: slice) -> Visible:
        """Return which keys some queries of some heads may attend to."""
        rule, (_, queries, keys) = self.mask, self.shape
        if rule.matrix is not None:
            return _mask_part(rule.matrix, rows, heads)
        return rule.visible_rows(range(queries)[rows], keys, self.queries.device)

    def _expand_groups(
        self, shared: Float[Tensor, "group key width"], heads: slice
    ) -> Float[Tensor, "some key width"]:
        """Return the keys or values of some heads, repeated where several heads share them."""
        groups = shared.shape[0]
        if groups == self.heads:
            return shared if heads is FULL_SLICE else shared[heads]
        chosen = range(self.heads)[heads]
        if len(chosen) == 1:  # without a copy
            group = chosen[0] // (self.heads // groups)
            return shared[group : group + 1]
        return shared[torch.arange(self.heads)[heads] // (self.heads // groups)]

    @cached_property
    def whole(self) -> AttentionStages:
        """All stages of all heads as whole matrices, after ablation: for short texts."""
        stages = self.attend()
        contexts = arithmetic.switch_off_heads(stages.contexts, self.off)
        return AttentionStages(**{**vars(stages), "contexts": contexts})

    def contexts(self) -> Float[Tensor, "head query value_width"]:
        """Return the context vectors of all heads, with those of ablated heads replaced.

        Those of many weights are computed by tiles; for a gradient, for some queries at a time.
        """
        if self.cells <= CAPTURED_CELLS_AT_ONCE:
            contexts = self._band_contexts(FULL_SLICE)
        elif self._has_gradient:
            contexts = torch.cat([self._band_contexts(rows) for rows in self.bands()], dim=1)
        else:
            summary = self.summarize(SummaryChoice(MAP_BLOCKS, statistics=False))
            contexts = summary.contexts.to(self.values.dtype)
        return arithmetic.switch_off_heads(contexts, self.off)

    def hide_keys(
        self, contexts: Float[Tensor, "head query value_width"], hidden: HiddenKeys
    ) -> None:
        """Compute, in place, what some heads pass on to a query that does not see some keys."""
        heads = [head for layer, head in hidden.heads if layer == self.layer]
        if heads:
            rows = slice(hidden.query, hidden.query + 1)
            without = self.attend(rows, hidden_keys=hidden.keys).contexts
            contexts[heads, hidden.query] = without[heads, 0].to(contexts.dtype)

    @property
    def _has_gradient(self) -> bool:
        return torch.is_grad_enabled() and self.values.requires_grad

    def with_maps(
        self, choice: SummaryChoice, progress: Progress | None
    ) -> tuple[CapturedAttention, Float[Tensor, "head query value_width"]]:
        """Return the same with a map of blocks of each head, and the context vectors."""
        maps = self.summarize(choice, progress)
        contexts = arithmetic.switch_off_heads(maps.contexts.to(self.values.dtype), self.off)
        maps = replace(maps, contexts=maps.contexts[..., :0].clone())
        return replace(self, choice=choice, maps=maps), contexts

    def _band_contexts(self, rows: slice) -> Float[Tensor, "head query value_width"]:
        """Return the contexts of the queries in `rows`, before ablation.

        A backward pass recomputes them, to save memory.
        """
        if not self._has_gradient:
            return self.attend(rows).contexts
        contexts: Tensor = checkpoint(lambda: self.attend(rows).contexts, use_reentrant=False)
        return contexts

    def bands(self) -> Iterator[slice]:
        """Yield slices of the queries that cover all of them in order.

        Each has at most `CAPTURED_CELLS_AT_ONCE` weights in all heads, but at least one query.
        """
        queries = self.queries.shape[1]
        rows_at_once = max(1, CAPTURED_CELLS_AT_ONCE * queries // max(1, self.cells))
        for first in range(0, queries, rows_at_once):
            yield slice(first, first + rows_at_once)


def _mask_part(tensor: Tensor, rows: slice, heads: slice) -> Tensor:
    """Return the rows of a mask or bias for some queries of some heads.

    `heads` is ignored where all heads share the mask.
    """
    if rows is heads is FULL_SLICE:
        return tensor
    is_shared = tensor.ndim == 2 or tensor.shape[0] == 1
    return tensor[..., rows, :] if is_shared else tensor[heads, rows]


MATRIX_COUNT = 4  # of all heads, in memory at once
NUMBER_BYTES = 4
FEWER_HEADS_HINT = f"give a shorter text, or ask for one head: {opt.layer:0} {opt.head:0}"
STAGES_OF_WHOLE = ("scores", "scaled_scores", "capped_scores", "weights", "mixing")


class RecomputedAttention(AttentionStages):
    """The stages of a layer as whole matrices, computed when the first of them is accessed."""

    mixed_by: MixedBy = "softmax"
    captured: CapturedAttention

    def __init__(self, captured: CapturedAttention) -> None:
        known = {"bias": captured.bias, "mask": captured.mask_scores, "sink": captured.sink}
        if captured.soft_cap is None:
            known["capped_scores"] = None
        self.__dict__.update(known, captured=captured)  # AttentionStages is frozen

    def __getattr__(self, name: str) -> Tensor:
        """Return a stage that is not known yet."""
        if name not in STAGES_OF_WHOLE:
            raise AttributeError(name)
        stage: Tensor = getattr(self.whole, name)
        return stage

    def __repr__(self) -> str:
        """Return a line that computes nothing."""
        return f"<RecomputedAttention of {self.captured!r}>"

    @cached_property
    def whole(self) -> AttentionStages:
        """All stages at once; refuses matrices that do not fit in memory."""
        memory.refuse_too_little_memory(
            self.captured.cells * NUMBER_BYTES * MATRIX_COUNT,
            f"the scores and weights of {counted(self.captured.heads, 'head')} as matrices",
            FEWER_HEADS_HINT,
        )
        return self.captured.whole

    @cached_property
    def contexts(self) -> Float[Tensor, "head query value_width"]:
        return self.captured.contexts()


@dataclass(frozen=True, eq=False, repr=False)
class WeightsOnDemand(Weights):
    """The weights of a layer, recomputed row by row from queries and keys if they are many."""

    captured: CapturedAttention
    recomputed: RecomputedAttention

    @property
    def heads(self) -> int:
        return self.captured.heads

    def cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's numbers at a stage, such as 'weights' or 'scores'.

        They are kept in memory if the layer has few of them, else recomputed when they are read.
        """
        if self.captured.cells <= CAPTURED_CELLS_AT_ONCE:
            visible = self.captured.visible_part(FULL_SLICE, FULL_SLICE)
            return InMemoryWeights(self.recomputed, visible).cells(stage, head)
        return self._cells_by_stage.setdefault(
            (stage, head), RecomputedCells(self.captured, stage, head)
        )

    @cached_property
    def _cells_by_stage(self) -> dict[tuple[Stage, int], RecomputedCells]:
        """The cells that were accessed, which remember what they computed, such as their extent."""
        return {}


class StreamedOnDemand(WeightsOnDemand, StreamedWeights):
    """The weights of a layer that reads a long text: measured while the model ran."""

    @property
    def long_attention(self) -> LongAttention:
        return self.captured

    @property
    def map_pool(self) -> str:
        assert self.captured.maps is not None
        return self.captured.maps.pool

    def cells(self, stage: Stage, head: int) -> Cells:
        """Return one head's numbers at a stage, whose rows are recomputed when they are read."""
        cells_class = StreamedCells if stage in ("weights", "mixing") else RecomputedCells
        return self._cells_by_stage.setdefault(
            (stage, head), cells_class(self.captured, stage, head)
        )

    def map_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return the maps that were made while the model ran, and the head's number."""
        assert self.captured.maps is not None
        return self.captured.maps, head

    def summary_of(self, head: int) -> tuple[AttentionSummary, int]:
        """Return a summary of this head alone, computed once."""
        captured = self.captured
        if head not in self._summaries:
            assert captured.choice is not None
            choice = captured.choice._replace(statistics=True, heads=[head])
            progress = partial(report_progress, captured.queries.shape[1])
            self._summaries[head] = captured.summarize(choice, progress)
        return self._summaries[head], 0

    @cached_property
    def _summaries(self) -> dict[int, AttentionSummary]:
        """The summaries that were computed so far, by head."""
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

    @property
    def has_hidden(self) -> bool:
        rule = self.captured.mask.for_head(self.head)
        return rule.hides_any(*self.shape, self.captured.queries.device)

    def window(self, rows: slice, columns: slice) -> Patch:
        """Return the numbers in these rows and columns, recomputed by each call."""
        head = slice(self.head, self.head + 1)
        visible = self.captured.visible_part(rows, head)
        stages = self.captured.attend(rows, head, mixed=False)
        return InMemoryWeights(stages, visible).cells(self.stage, 0).window(FULL_SLICE, columns)


class StreamedCells(RecomputedCells):
    """One head's weights, of which a map of blocks was made while the model ran."""

    def pooled(self, height: int, width: int, *, share: bool) -> Patch:
        """Return the map that was made, if its blocks are of this size; else pool all rows."""
        maps = self.captured.maps
        assert maps is not None
        sizes = maps.row_height, maps.column_width
        if not share or maps.pool != "mean" or sizes != (height, width):
            return super().pooled(height, width, share=share)
        hidden = tensor_to_numpy(head_mask(self.head, maps.hidden))
        return Patch(tensor_to_numpy(maps.pooled[self.head]), hidden)
