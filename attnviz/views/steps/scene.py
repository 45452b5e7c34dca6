"""What every step is drawn from: the trace, one attention of it, and what was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attention.arithmetic import MixedBy, weigh_values
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.early_checks import refuse_missing_layer
from attnviz.traces.parts import PARTS_BY_GIVEN_NAME, PARTS_OF_PREDICTION
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import Stage, head_mask
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred_scale
from attnviz.views.origin_words import parameter_count_suffix, vector_axis
from attnviz.views.steps.step_selection import refuse_missing_head
from attnviz.views.trace import WEIGHTS_NAMES, scores_grids, vectors_grid, weights_grids
from attnviz.wording.numbers import NumberStyle
from attnviz.wording.sums import MAX_TERMS
from attnviz.wording.words import bracketed_shape, shape_text

LABELLED_MATRICES = PARTS_BY_GIVEN_NAME | {
    part.data: part for part in PARTS_OF_PREDICTION
}  # with the last, to the answers
# Of a trained model these are of different sizes, and have scales of their own.
SCALE_KINDS = {
    "w_": "parameter",
    "b_": "parameter",
    "embeddings": "input",
    "inputs": "input",
    "context": "context",
    "joined": "context",
    "output": "context",
}
MAX_WRITTEN_HEADS = 4  # so many are written out, and of more only the first
DIGITS_RANGE = (1, 12)


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """What is asked for: which token and head are followed, and how numbers are written."""

    query: int | None = None
    key: int | None = None  # the one whose arithmetic alone is shown
    head: int | None = None
    layer: int | None = None  # None: the first that attends
    digits: int = 2
    full: bool = False

    def __post_init__(self) -> None:
        if not DIGITS_RANGE[0] <= self.digits <= DIGITS_RANGE[1]:
            nearest = min(max(self.digits, DIGITS_RANGE[0]), DIGITS_RANGE[1])
            raise AttnvizError(
                f"--digits is {self.digits}, and must be from {DIGITS_RANGE[0]} to {DIGITS_RANGE[1]}",
                f"try --digits {nearest}",
                about="digits",
            )


@dataclass(frozen=True, eq=False)
class Scene:
    """One attention of a trace, as asked for."""

    trace: Trace
    layer: Layer
    options: StepSettings

    @property
    def style(self) -> NumberStyle:
        return NumberStyle(self.options.digits, full=self.options.full)

    @property
    def keys(self) -> Tokens:
        return self.trace.keys_of(self.layer)

    @property
    def followed_query(self) -> int:
        """The query whose arithmetic is shown: the one asked for, or the last."""
        last_query = len(self.trace.tokens) - 1
        return last_query if self.options.query is None else self.options.query

    @property
    def shown_heads(self) -> Sequence[int]:
        return range(self.layer.heads) if self.options.head is None else [self.options.head]

    @property
    def written_heads(self) -> Sequence[int]:
        """The heads whose arithmetic is written out."""
        are_too_many = len(self.shown_heads) > MAX_WRITTEN_HEADS and not self.options.full
        return self.shown_heads[:1] if are_too_many else self.shown_heads

    def stage_before(self, stage: Stage) -> Stage:
        """The last of the stages before it that are there, from scaled scores on."""
        attended = self.layer.attended
        is_present: dict[Stage, bool] = {
            "scaled scores": True,
            "capped scores": attended.capped_scores is not None,
            "biased scores": attended.bias is not None,
            "scores with mask": attended.mask is not None,
            "masked scores": True,
        }
        stages = list(is_present)
        return [
            earlier_stage
            for earlier_stage in stages[: stages.index(stage)]
            if is_present[earlier_stage]
        ][-1]

    def stage_row(self, stage: Stage, head: int) -> list[float]:
        """The numbers of the followed query at one stage on the way to its weights."""
        numbers: list[float] = (
            self.layer.weights.cells(stage, head).row(self.followed_query).values[0].tolist()
        )
        return numbers

    @cached_property
    def weighted_values(self) -> Float[Tensor, "head key width"]:
        """What each key hands to the followed query."""
        rows = [torch.tensor(self.stage_row("mixing", head)) for head in range(self.layer.heads)]
        return weigh_values(torch.stack(rows).to(self.layer.values), self.layer.values_of_heads)

    @cached_property
    def written_keys(self) -> Sequence[int]:
        """The keys whose arithmetic is written out: of very many those that weigh most."""
        count = len(self.keys)
        if self.options.key is not None:
            return [self.options.key]
        if self.options.full or count <= MAX_TERMS:
            return range(count)
        weights = np.array(self.stage_row("mixing", self.written_heads[0]))
        return sorted(np.argsort(-weights, kind="stable")[:MAX_TERMS].tolist())

    @cached_property
    def read_keys(self) -> list[int]:
        """The keys that the followed token reads: the visible ones, and what a mistake adds."""
        cells = (self.layer.weights.cells("mixing", head) for head in range(self.layer.heads))
        hidden = np.stack([head_cells.row(self.followed_query).hidden[0] for head_cells in cells])
        key_positions: list[int] = np.flatnonzero(~hidden.all(axis=0)).tolist()
        return key_positions

    @property
    def visible_keys(self) -> list[int]:
        """Those of them whose arithmetic is written out."""
        return [key for key in self.written_keys if key in self.read_keys]

    def masked_keys(self, head: int) -> set[int]:
        """The keys that the followed token may not read in a head."""
        row = head_mask(head, self.layer.visible)[self.followed_query]
        return set((~row).nonzero().flatten().tolist())

    @cached_property
    def has_masked_keys(self) -> bool:
        """Whether any token is hidden from another."""
        return not bool(self.layer.visible.all())

    @property
    def mask_heads(self) -> Sequence[int]:
        """The heads whose masks are shown: the first one's will do where all have the same."""
        return self.shown_heads if self.layer.visible.ndim == 3 else self.shown_heads[:1]

    def unwritten_notes(self, *, by_key: bool) -> tuple[str, ...]:
        """What is not written out, if something is not."""
        keys, heads = len(self.keys), len(self.shown_heads)
        notes = []
        if by_key and len(self.written_keys) < keys and self.options.key is None:
            several = len(self.written_heads) > 1
            head_text = f" in head {self.written_heads[0]}" if several else ""
            notes.append(
                f"written out: the {MAX_TERMS} of {keys:,} keys with the largest weights{head_text}"
            )
        if len(self.written_heads) < heads:
            notes.append(f"written out: head 0 of {heads} (--head picks another)")
        return (*notes, "--full writes out everything") if notes else ()

    def token_name(self, tokens: Tokens, position: int) -> str:
        """A token's label; with its number where it stands more than once."""
        label = tokens.labels[position]
        return label if _label_counts(tokens)[label] == 1 else f"{position + 1} {label}"

    @property
    def query_name(self) -> str:
        return self.token_name(self.trace.tokens, self.followed_query)

    def head_suffix(self, head: int) -> str:
        """What names of numbers carry where there are several heads: ` H1`."""
        return "" if self.layer.heads == 1 else f" H{head}"

    def group_suffix(self, heads: range) -> str:
        """The same of what some heads share: ` H0–1`."""
        return self.head_suffix(heads[0]) if len(heads) == 1 else f" H{heads[0]}–{heads[-1]}"

    def head_title(self, name: str, head: int) -> str:
        """What a table of one head is called, where there are several: `scores · head 1`."""
        return name if self.layer.heads == 1 else f"{name} · head {head}"

    def head_groups(self, count: int, heads: Sequence[int]) -> dict[int, range]:
        """Which of so many groups these heads belong to, and all heads of each of them."""
        size = self.layer.heads // count
        group_numbers = dict.fromkeys(head // size for head in heads)
        return {group: range(group * size, (group + 1) * size) for group in group_numbers}

    def group_title(self, name: str, heads: range) -> str:
        """What a table is called that some heads share: `keys · heads 0–1`."""
        if len(heads) == 1:
            return self.head_title(name, heads[0])
        return f"{name} · heads {heads[0]}–{heads[-1]}"

    def size_text(self, tensor: Tensor) -> str:
        """The shape of a matrix, or of as many as there are heads."""
        if tensor.ndim == 1:
            return bracketed_shape(*tensor.shape)
        *heads, rows, columns = tensor.shape
        matrix_size = bracketed_shape(rows, columns)
        return f"{heads[0]} × {matrix_size}" if heads and heads[0] > 1 else matrix_size

    @property
    def weights_size_text(self) -> str:
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
        """Vectors, all of them or the followed token's; `side` is what their numbers count."""
        columns = vector_axis(self.trace, self.layer, side, vectors.shape[-1], head)
        full_grid = vectors_grid(title, vectors, rows, columns)
        return self._followed_part(
            full_grid if self.trace.trained is None else _with_own_scale(full_grid), followed
        )

    def matrix_grid(self, name: str, matrix: Tensor) -> Grid:
        """A matrix that vectors are multiplied with, or a bias as one row."""
        *above, side = LABELLED_MATRICES[name].axes
        rows = plain_axis("row", ["+"])
        for axis_name in above:
            rows = replace(vector_axis(self.trace, self.layer, axis_name, len(matrix)), title="")
        return self.grid(name, matrix if above else matrix[None], rows, side=side)

    def head_matrix_grid(self, name: str, matrix: Tensor, head: int) -> Grid:
        """The columns that make the vectors of one head."""
        side = "head_value" if name == "w_value" else "width"
        rows = vector_axis(self.trace, self.layer, "dim", len(matrix))
        return self.grid(
            self.head_title(name, head), matrix, replace(rows, title=""), side=side, head=head
        )

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
        """A grid for each head that is shown; with a name, its colours have their own scale."""
        grids = [
            self.grid(
                self.group_title(name, heads),
                vectors[group],
                rows,
                side=side,
                head=heads[0],
                followed=followed,
            )
            for group, heads in self.head_groups(len(vectors), self.shown_heads).items()
        ]
        scaled = [replace(grid, scale=replace(grid.scale, label=scale)) for grid in grids]
        return tuple(scaled if scale else grids)

    def score_grids(self, name: str, stage: Stage, note: str = "") -> tuple[Grid, ...]:
        grids = scores_grids(name, self.trace, self.layer, stage, note)
        return tuple(
            self._followed_part(self._with_head_title(grids[head], name, head))
            for head in self.shown_heads
        )

    def weight_grids(self, stage: Stage, mixed_by: MixedBy) -> tuple[Grid, ...]:
        grids, name = (
            weights_grids(self.trace, self.layer, stage, mixed_by),
            WEIGHTS_NAMES[mixed_by],
        )
        return tuple(
            self._followed_part(self._with_head_title(grids[head], name, head))
            for head in self.shown_heads
        )

    def _with_head_title(self, grid: Grid, name: str, head: int) -> Grid:
        return replace(grid, title=self.head_title(name, head))

    def _followed_part(self, grid: Grid, followed: bool = True) -> Grid:
        """With so many digits, and only the row of the token that is followed."""
        exact = replace(grid, decimals=self.options.digits)
        if not followed or self.options.query is None:
            return exact
        row = self._named_row(exact.part(slice(self.followed_query, self.followed_query + 1)))
        return row if row.share else replace(row, scale=centred_scale(row.scale.label, row.cells))

    def _named_row(self, grid: Grid) -> Grid:
        """A word that stands several times in the text needs its number, alone as it is."""
        name = self.query_name
        if grid.rows.labels == (name,) or not grid.rows.labels[0]:
            return grid
        return replace(grid, rows=replace(grid.rows, labels=(name,), numbers=("",)))


def _with_own_scale(grid: Grid) -> Grid:
    """With a scale that only its like share: numbers of a trained model are of any size."""
    kind = next((kind for start, kind in SCALE_KINDS.items() if grid.title.startswith(start)), None)
    return replace(grid, scale=replace(grid.scale, label=kind)) if kind else grid


def build_scene(trace: Trace, options: StepSettings) -> Scene:
    """The attention of the layer that is asked for."""
    layer = _find_layer(trace, options.layer)
    refuse_missing_head(options.head, layer.heads)
    return Scene(trace, layer, options)


def _find_layer(trace: Trace, number: int | None) -> Layer:
    """The layer of this number: of some models not every layer attends."""
    if number is None:
        return trace.layers[0]
    layers_by_number = {layer.layer: layer for layer in trace.layers}
    if number not in layers_by_number:
        all_attend = list(layers_by_number) == list(range(len(layers_by_number)))
        refuse_missing_layer(number, len(layers_by_number)) if all_attend else None
        raise AttnvizError(
            f"layer {number} has no attention; layers that do: {', '.join(map(str, layers_by_number))}",
            f"try --layer {next(iter(layers_by_number))}",
            about="layer",
        )
    return layers_by_number[number]


def parameter_count_text(scene: Scene, matrices: Mapping[str, Tensor]) -> str:
    """`w_query 8 × 8 + w_key 8 × 8 = 128 numbers to learn`"""
    parts = [f"{name} {shape_text(matrix.shape)}" for name, matrix in matrices.items()]
    count = sum(matrix.numel() for matrix in matrices.values())
    return f"{' + '.join(parts)} = {count:,} numbers {parameter_count_suffix(scene.trace)}"


def _label_counts(tokens: Tokens) -> Counter[str]:
    return Counter(tokens.labels)
