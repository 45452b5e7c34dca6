"""Scene: what every step is built from: trace, attention layer, the user's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention.arithmetic import MixedBy, weigh_values
from attnviz.errors import AttnvizError, opt
from attnviz.tokens.tokens import Tokens
from attnviz.traces.early_checks import refuse_missing_layer
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME, PARTS_OF_PREDICTION
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import Stage, head_mask
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred_scale
from attnviz.views.origin_words import parameter_count_suffix, vector_axis
from attnviz.views.reading import token_axis
from attnviz.views.steps.step_selection import refuse_missing_head
from attnviz.views.trace import WEIGHTS_NAMES, scores_grids, vectors_grid, weights_grids
from attnviz.wording.numbers import NumberStyle
from attnviz.wording.rules import check_rules, range_rules
from attnviz.wording.sums import MAX_TERMS, SumWriter
from attnviz.wording.words import bracketed_shape, shape_text

LABELLED_MATRICES = PARTS_BY_GIVEN_NAME | {part.data: part for part in PARTS_OF_PREDICTION}
# Numbers of a trained model differ in size by kind: each kind has its own colour scale.
SCALE_KINDS = {
    "w_": "parameter",
    "b_": "parameter",
    "embeddings": "input",
    "inputs": "input",
    "context": "context",
    "joined": "context",
    "output": "context",
}
MAX_WRITTEN_HEADS = 4  # of more heads only the first is written out
DIGITS_RANGE = (1, 12)


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """The options of a walk: the followed query, key and head, and how numbers are written.

    Positions count from 0. Refuses fewer than 1 or more than 12 `digits`.
    """

    query: int | None = None
    key: int | None = None  # the only key whose arithmetic is shown
    head: int | None = None
    layer: int | None = None  # None: the first layer with attention
    digits: int = 2
    full: bool = False

    def __post_init__(self) -> None:
        check_rules(self, range_rules("digits", *DIGITS_RANGE))


@dataclass(frozen=True, eq=False)
class Scene:
    """One attention layer of a trace with the options of the walk, from which steps are made."""

    trace: Trace
    layer: Layer
    options: StepSettings

    @property
    def style(self) -> NumberStyle:
        return NumberStyle(self.options.digits, full=self.options.full)

    def write(self, left: str) -> SumWriter:
        """Return the writer of a sum that begins with `left`."""
        return SumWriter(left, self.style)

    @property
    def keys(self) -> Tokens:
        return self.trace.keys_of(self.layer)

    @property
    def followed_query(self) -> int:
        last_query = len(self.trace.tokens) - 1
        return last_query if self.options.query is None else self.options.query

    @property
    def query_position(self) -> int:
        """Where the followed query is in the text, which distances are counted from."""
        return self.followed_query

    @property
    def shown_heads(self) -> Sequence[int]:
        return range(self.layer.heads) if self.options.head is None else [self.options.head]

    @property
    def written_heads(self) -> Sequence[int]:
        """The heads whose arithmetic is written out: all shown, but of more than 4 only the first.

        With --full, all shown heads.
        """
        are_too_many = len(self.shown_heads) > MAX_WRITTEN_HEADS and not self.options.full
        return self.shown_heads[:1] if are_too_many else self.shown_heads

    def stage_before(self, stage: Stage) -> Stage:
        """Return the stage of the scores before `stage`, skipping those that the layer lacks.

        Such as 'scaled scores' before 'masked scores', if there is no soft cap, bias or numeric
        mask.
        """
        attended = self.layer.attended
        is_present: dict[Stage, bool] = {
            "scaled scores": True,
            "capped scores": attended.capped_scores is not None,
            "biased scores": attended.bias is not None,
            "scores with mask": attended.mask is not None,
            "masked scores": True,
        }
        stages = list(is_present)
        return [each for each in stages[: stages.index(stage)] if is_present[each]][-1]

    def stage_row(self, stage: Stage, head: int) -> list[float]:
        """Return the followed query's numbers in a head at a stage, such as 'masked scores'."""
        row = self.layer.weights.cells(stage, head).row(self.followed_query)
        numbers: list[float] = row.values[0].tolist()
        return numbers

    @cached_property
    def weighted_values(self) -> Float[Tensor, "head key width"]:
        rows = [torch.tensor(self.stage_row("mixing", head)) for head in range(self.layer.heads)]
        return weigh_values(torch.stack(rows).to(self.layer.values), self.layer.values_of_heads)

    def weighted_grids(self) -> tuple[Grid, ...]:
        """Return a table of the values times their weights per shown head, a row per key."""
        keys = token_axis("key", self.keys)
        return self.head_grids(
            "weighted values", self.weighted_values, keys, side="head_value", scale="weighted"
        )

    @cached_property
    def written_keys(self) -> Sequence[int]:
        """The keys whose arithmetic is written out: only that of --key, or all, in ascending order.

        Of very many keys, and without --full, those with the largest weights in the first head.
        """
        count = len(self.keys)
        if self.options.key is not None:
            return [self.options.key]
        if self.options.full or count <= MAX_TERMS:
            return range(count)
        weights = np.array(self.stage_row("mixing", self.written_heads[0]))
        return sorted(np.argsort(-weights, kind="stable")[:MAX_TERMS].tolist())

    @cached_property
    def read_keys(self) -> list[int]:
        """The keys that the followed query attends to in any head, by mistake also hidden ones."""
        cells = (self.layer.weights.cells("mixing", head) for head in range(self.layer.heads))
        hidden = np.stack([each.row(self.followed_query).hidden[0] for each in cells])
        keys: list[int] = np.flatnonzero(~hidden.all(axis=0)).tolist()
        return keys

    @property
    def visible_keys(self) -> list[int]:
        return [key for key in self.written_keys if key in self.read_keys]

    def masked_keys(self, head: int) -> set[int]:
        row = head_mask(head, self.layer.visible)[self.followed_query]
        return set((~row).nonzero().flatten().tolist())

    @cached_property
    def has_masked_keys(self) -> bool:
        return not bool(self.layer.visible.all())

    @cached_property
    def hides_shown_keys(self) -> bool:
        """Whether any score that the mask step shows is hidden: of all queries, or of --query."""
        if self.options.query is None:
            return self.has_masked_keys
        return any(self.masked_keys(head) for head in self.mask_heads)

    @property
    def mask_heads(self) -> Sequence[int]:
        """The heads whose masks are shown: only the first shown head if all share one mask."""
        return self.shown_heads if self.layer.visible.ndim == 3 else self.shown_heads[:1]

    def unwritten_notes(self, *, by_key: bool) -> tuple[str, ...]:
        """Return which heads, and `by_key` which keys, are not written out; empty if all are."""
        keys, heads = len(self.keys), len(self.shown_heads)
        notes = []
        if by_key and len(self.written_keys) < keys and self.options.key is None:
            head = f" in head {self.written_heads[0]}" if len(self.written_heads) > 1 else ""
            largest = f"the {MAX_TERMS} of {keys:,} keys with the largest weights{head}"
            notes.append(f"written out: {largest}")
        if len(self.written_heads) < heads:
            notes.append(f"written out: head 0 of {heads} (--head picks another)")
        return (*notes, "--full writes out everything") if notes else ()

    def token_name(self, tokens: Tokens, position: int) -> str:
        """Return a token's label, with its number in front if it occurs more than once: `3 the`."""
        label = tokens.labels[position]
        return label if tokens.labels.count(label) == 1 else f"{position + 1} {label}"

    @property
    def query_name(self) -> str:
        return self.token_name(self.trace.tokens, self.followed_query)

    def cell_name(self, key: int) -> str:
        """Return the followed query and a key: `(this, am)`."""
        return f"({self.query_name}, {self.token_name(self.keys, key)})"

    def head_suffix(self, head: int) -> str:
        """Return ` H1`; empty if the layer has a single head."""
        return "" if self.layer.heads == 1 else f" H{head}"

    def group_suffix(self, heads: range) -> str:
        """Return ` H0–1` for a group of heads that share keys and values, ` H1` for one head."""
        return self.head_suffix(heads[0]) if len(heads) == 1 else f" H{heads[0]}–{heads[-1]}"

    def head_title(self, name: str, head: int) -> str:
        """Return `scores · head 1`; only the name if the layer has a single head."""
        return name if self.layer.heads == 1 else f"{name} · head {head}"

    def head_groups(self, count: int, heads: Sequence[int]) -> dict[int, range]:
        """Return the heads of each group that any of `heads` belongs to, by the group's number.

        All heads of the layer are divided into `count` groups of neighbours, such as `kv_heads`.
        """
        size = self.layer.heads // count
        group_numbers = dict.fromkeys(head // size for head in heads)
        return {group: range(group * size, (group + 1) * size) for group in group_numbers}

    def group_title(self, name: str, heads: range) -> str:
        """Return `keys · heads 0–1` for a group of heads that share keys and values."""
        if len(heads) == 1:
            return self.head_title(name, heads[0])
        return f"{name} · heads {heads[0]}–{heads[-1]}"

    def size_text(self, tensor: Tensor) -> str:
        """Return a tensor's shape as text: `[3 × 8]`, for several heads `2 × [3 × 8]`."""
        if tensor.ndim == 1:
            return bracketed_shape(*tensor.shape)
        *heads, rows, columns = tensor.shape
        matrix_size = bracketed_shape(rows, columns)
        return f"{heads[0]} × {matrix_size}" if heads and heads[0] > 1 else matrix_size

    @property
    def weights_size_text(self) -> str:
        """The shape of the layer's weights as text: `2 × [3 × 3]` for 2 heads."""
        rows, columns = self.layer.weights.cells("scores", 0).shape
        matrix_size = bracketed_shape(rows, columns)
        return f"{self.layer.heads} × {matrix_size}" if self.layer.heads > 1 else matrix_size

    def grid(
        self,
        title: str,
        vectors: Tensor,
        rows: Axis,
        *,
        side: str = "dim",
        head: int = 0,
        followed: bool = False,
    ) -> Grid:
        """Return a table with a row per vector, or only the followed query's with `followed`.

        `side` states what the columns are, such as 'dim' or 'head_value', and with `head` names
        them. If no --query is given, all rows are kept.
        """
        columns = vector_axis(self.trace, self.layer, side, vectors.shape[-1], head)
        grid = vectors_grid(title, vectors, rows, columns)
        if self.trace.trained is not None:
            grid = _with_own_scale(grid)
        return self._followed_part(grid, followed)

    def matrix_grid(self, name: str, matrix: Tensor) -> Grid:
        """Return the table of a parameter matrix such as `w_query`, or of a bias as one row."""
        *above, side = LABELLED_MATRICES[name].axes
        if not above:
            return self.grid(name, matrix[None], plain_axis("row", ["+"]), side=side)
        rows = vector_axis(self.trace, self.layer, above[-1], len(matrix))
        return self.grid(name, matrix, replace(rows, title=""), side=side)

    def head_matrix_grid(self, name: str, matrix: Tensor, head: int) -> Grid:
        """Return a table of the part of a parameter matrix that makes the vectors of one head.

        `matrix` is already cut to the columns of that head.
        """
        side = "head_value" if name == "w_value" else "width"
        rows = replace(vector_axis(self.trace, self.layer, "dim", len(matrix)), title="")
        return self.grid(self.head_title(name, head), matrix, rows, side=side, head=head)

    def head_grids(
        self,
        name: str,
        vectors: Tensor,
        rows: Axis,
        *,
        side: str,
        followed: bool = False,
        scale: str = "",
    ) -> tuple[Grid, ...]:
        """Return a table per shown head, or per group of heads that share these vectors.

        `side` states what the columns are, such as 'head_value'; `followed` keeps only the row of
        --query; `scale` names a colour scale that only these tables share.
        """
        grids = []
        for group, heads in self.head_groups(len(vectors), self.shown_heads).items():
            title, part = self.group_title(name, heads), vectors[group]
            grid = self.grid(title, part, rows, side=side, head=heads[0], followed=followed)
            grids.append(replace(grid, scale=replace(grid.scale, label=scale or grid.scale.label)))
        return tuple(grids)

    def score_grids(self, name: str, stage: Stage, note: str = "") -> tuple[Grid, ...]:
        """Return a table of scores at a stage per shown head; with --query only that row."""
        grids = scores_grids(name, self.trace, self.layer, stage, note, self.shown_heads)
        return self._titled_by_head(grids, name)

    def weight_grids(self, stage: Stage, mixed_by: MixedBy) -> tuple[Grid, ...]:
        """Return a table of weights at a stage per shown head; with --query only that row.

        `mixed_by` says where these weights come from, such as 'softmax' or 'dropout'.
        """
        grids = weights_grids(self.trace, self.layer, stage, mixed_by, self.shown_heads)
        return self._titled_by_head(grids, WEIGHTS_NAMES[mixed_by])

    def _titled_by_head(self, grids: Sequence[Grid], name: str) -> tuple[Grid, ...]:
        """Return the shown heads' grids, titled by head; with --query only that row."""
        return tuple(
            self._followed_part(replace(grid, title=self.head_title(name, head)))
            for head, grid in zip(self.shown_heads, grids, strict=True)
        )

    def _followed_part(self, grid: Grid, followed: bool = True) -> Grid:
        """Return the grid with --digits digits; if `followed`, with --query only that query's row.

        The colours of a single row are scaled to that row, except those of shares.
        """
        grid = replace(grid, decimals=self.options.digits)
        if not followed or self.options.query is None:
            return grid
        row = self._named_row(grid.part(slice(self.followed_query, self.followed_query + 1)))
        return row if row.share else replace(row, scale=centred_scale(row.scale.label, row.cells))

    def _named_row(self, grid: Grid) -> Grid:
        """Return the one-row grid, its token numbered in the label if it occurs repeatedly."""
        name = self.query_name
        if grid.rows.labels == (name,) or not grid.rows.labels[0]:
            return grid
        return replace(grid, rows=replace(grid.rows, labels=(name,), numbers=("",)))


def _with_own_scale(grid: Grid) -> Grid:
    """Return the grid with a colour scale for its kind of numbers, which its title tells.

    Numbers of a trained model differ in size by kind: parameters, inputs, context.
    """
    kind = next((kind for start, kind in SCALE_KINDS.items() if grid.title.startswith(start)), None)
    return replace(grid, scale=replace(grid.scale, label=kind)) if kind else grid


def build_scene(trace: Trace, options: StepSettings) -> Scene:
    """Return the scene of the selected layer, by default the first with attention.

    Refuses a layer that does not exist or has no attention, and a head that does not exist.
    """
    layer = _find_layer(trace, options.layer)
    refuse_missing_head(options.head, layer.heads)
    return Scene(trace, layer, options)


def _find_layer(trace: Trace, number: int | None) -> Layer:
    """Return the layer with this number; without a number the first that has attention.

    Refuses numbers of layers that do not exist or, as in some models, have no attention.
    """
    if number is None:
        return trace.layers[0]
    layers_by_number = {layer.layer: layer for layer in trace.layers}
    if number not in layers_by_number:
        numbers = [*layers_by_number]
        if numbers == [*range(len(numbers))]:
            refuse_missing_layer(number, len(numbers))
        raise AttnvizError(
            f"layer {number} has no attention; layers that do: {', '.join(map(str, numbers))}",
            f"try {opt.layer:{numbers[0]}}",
            about="layer",
        )
    return layers_by_number[number]


def embedding_table_remarks(scene: Scene) -> tuple[str, ...]:
    """Return how many numbers a table of all ids has; empty if the vocabulary's size is unknown."""
    trace = scene.trace
    ids, width = trace.vocabulary, trace.embeddings.shape[1]
    if not ids:
        return ()
    numbers = f"{ids:,} × {width} = {ids * width:,} numbers {parameter_count_suffix(trace)}"
    if trace.trained is None and trace.model is None:
        return (f"a table for all {ids:,} ids would have {numbers}",)
    return (f"the table for all {ids:,} {'ids' if trace.trained else 'words'} has {numbers}",)


def parameter_count_text(scene: Scene, matrices: Mapping[str, Tensor]) -> str:
    """Return `w_query 8 × 8 + w_key 8 × 8 = 128 numbers to learn`."""
    parts = [f"{name} {shape_text(matrix.shape)}" for name, matrix in matrices.items()]
    count = sum(matrix.numel() for matrix in matrices.values())
    return f"{' + '.join(parts)} = {count:,} numbers {parameter_count_suffix(scene.trace)}"
