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

from attnviz.attention.arithmetic import MixedBy, weighted
from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.early_checks import refuse_missing_layer
from attnviz.traces.parts import GIVEN, OF_PREDICTION
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import Stage, mask_of
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred
from attnviz.views.origin_words import axis_of, to_learn
from attnviz.views.steps.choosing import refuse_missing_head
from attnviz.views.trace import MIXED_BY, scores_grids, vectors_grid, weights_grids
from attnviz.wording.numbers import Style
from attnviz.wording.sums import TERMS
from attnviz.wording.words import in_brackets, shape_text

MATRICES = GIVEN | {part.data: part for part in OF_PREDICTION}  # with the last, to the answers
# Of a trained model these are of different sizes, and have scales of their own.
KINDS = {
    "w_": "parameter",
    "b_": "parameter",
    "embeddings": "input",
    "inputs": "input",
    "context": "context",
    "joined": "context",
    "output": "context",
}
HEADS = 4  # so many are written out, and of more only the first
DIGITS = (1, 12)


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
        if not DIGITS[0] <= self.digits <= DIGITS[1]:
            nearest = min(max(self.digits, DIGITS[0]), DIGITS[1])
            raise AttnvizError(
                f"--digits is {self.digits}, and must be from {DIGITS[0]} to {DIGITS[1]}",
                f"try --digits {nearest}",
                about="digits",
            )


@dataclass(frozen=True, eq=False)
class Scene:
    """One attention of a trace, as asked for."""

    trace: Trace
    layer: Layer
    asked: StepSettings

    @property
    def style(self) -> Style:
        return Style(self.asked.digits, full=self.asked.full)

    @property
    def keys(self) -> Tokens:
        return self.trace.keys_of(self.layer)

    @property
    def followed(self) -> int:
        """The query whose arithmetic is shown: the one asked for, or the last."""
        last = len(self.trace.tokens) - 1
        return last if self.asked.query is None else self.asked.query

    @property
    def shown_heads(self) -> Sequence[int]:
        return range(self.layer.heads) if self.asked.head is None else [self.asked.head]

    @property
    def written_heads(self) -> Sequence[int]:
        """The heads whose arithmetic is written out."""
        many = len(self.shown_heads) > HEADS and not self.asked.full
        return self.shown_heads[:1] if many else self.shown_heads

    def stage_before(self, stage: Stage) -> Stage:
        """The last of the stages before it that are there, from scaled scores on."""
        attended = self.layer.attended
        there: dict[Stage, bool] = {
            "scaled scores": True,
            "capped scores": attended.capped_scores is not None,
            "biased scores": attended.bias is not None,
            "scores with mask": attended.mask is not None,
            "masked scores": True,
        }
        stages = list(there)
        return [each for each in stages[: stages.index(stage)] if there[each]][-1]

    def row(self, stage: Stage, head: int) -> list[float]:
        """The numbers of the followed query at one stage on the way to its weights."""
        numbers: list[float] = (
            self.layer.weights.cells(stage, head).row(self.followed).values[0].tolist()
        )
        return numbers

    @cached_property
    def weighted(self) -> Float[Tensor, "head key width"]:
        """What each key hands to the followed query."""
        rows = [torch.tensor(self.row("mixing", head)) for head in range(self.layer.heads)]
        return weighted(torch.stack(rows).to(self.layer.values), self.layer.values_of_heads)

    @cached_property
    def written_keys(self) -> Sequence[int]:
        """The keys whose arithmetic is written out: of very many those that weigh most."""
        count = len(self.keys)
        if self.asked.key is not None:
            return [self.asked.key]
        if self.asked.full or count <= TERMS:
            return range(count)
        weights = np.array(self.row("mixing", self.written_heads[0]))
        return sorted(np.argsort(-weights, kind="stable")[:TERMS].tolist())

    @cached_property
    def read_keys(self) -> list[int]:
        """The keys that the followed token reads: the visible ones, and what a mistake adds."""
        cells = (self.layer.weights.cells("mixing", head) for head in range(self.layer.heads))
        hidden = np.stack([each.row(self.followed).hidden[0] for each in cells])
        found: list[int] = np.flatnonzero(~hidden.all(axis=0)).tolist()
        return found

    @property
    def visible_keys(self) -> list[int]:
        """Those of them whose arithmetic is written out."""
        return [key for key in self.written_keys if key in self.read_keys]

    def masked_keys(self, head: int) -> set[int]:
        """The keys that the followed token may not read in a head."""
        row = mask_of(head, self.layer.visible)[self.followed]
        return set((~row).nonzero().flatten().tolist())

    @cached_property
    def hides(self) -> bool:
        """Whether any token is hidden from another."""
        return not bool(self.layer.visible.all())

    @property
    def masks(self) -> Sequence[int]:
        """The heads whose masks are shown: the first one's will do where all have the same."""
        return self.shown_heads if self.layer.visible.ndim == 3 else self.shown_heads[:1]

    def left_out(self, *, by_key: bool) -> tuple[str, ...]:
        """What is not written out, if something is not."""
        keys, heads = len(self.keys), len(self.shown_heads)
        found = []
        if by_key and len(self.written_keys) < keys and self.asked.key is None:
            several = len(self.written_heads) > 1
            head = f" in head {self.written_heads[0]}" if several else ""
            found.append(
                f"written out: the {TERMS} of {keys:,} keys with the largest weights{head}"
            )
        if len(self.written_heads) < heads:
            found.append(f"written out: head 0 of {heads} (--head picks another)")
        return (*found, "--full writes out everything") if found else ()

    def name(self, tokens: Tokens, place: int) -> str:
        """A token's label; with its number where it stands more than once."""
        label = tokens.labels[place]
        return label if _times(tokens)[label] == 1 else f"{place + 1} {label}"

    @property
    def query_name(self) -> str:
        return self.name(self.trace.tokens, self.followed)

    def of_head(self, head: int) -> str:
        """What names of numbers carry where there are several heads: ` H1`."""
        return "" if self.layer.heads == 1 else f" H{head}"

    def of_group(self, heads: range) -> str:
        """The same of what some heads share: ` H0–1`."""
        return self.of_head(heads[0]) if len(heads) == 1 else f" H{heads[0]}–{heads[-1]}"

    def titled(self, name: str, head: int) -> str:
        """What a table of one head is called, where there are several: `scores · head 1`."""
        return name if self.layer.heads == 1 else f"{name} · head {head}"

    def groups(self, count: int, heads: Sequence[int]) -> dict[int, range]:
        """Which of so many groups these heads belong to, and all heads of each of them."""
        size = self.layer.heads // count
        places = dict.fromkeys(head // size for head in heads)
        return {place: range(place * size, (place + 1) * size) for place in places}

    def titled_group(self, name: str, heads: range) -> str:
        """What a table is called that some heads share: `keys · heads 0–1`."""
        if len(heads) == 1:
            return self.titled(name, heads[0])
        return f"{name} · heads {heads[0]}–{heads[-1]}"

    def size(self, tensor: Tensor) -> str:
        """The shape of a matrix, or of as many as there are heads."""
        if tensor.ndim == 1:
            return in_brackets(*tensor.shape)
        *heads, rows, columns = tensor.shape
        one = in_brackets(rows, columns)
        return f"{heads[0]} × {one}" if heads and heads[0] > 1 else one

    @property
    def size_of_weights(self) -> str:
        rows, columns = self.layer.weights.cells("scores", 0).shape
        one = in_brackets(rows, columns)
        return f"{self.layer.heads} × {one}" if self.layer.heads > 1 else one

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
        columns = axis_of(self.trace, self.layer, side, vectors.shape[-1], head)
        made = vectors_grid(title, vectors, rows, columns)
        return self._cut(made if self.trace.trained is None else _apart(made), followed)

    def matrix(self, name: str, matrix: Tensor) -> Grid:
        """A matrix that vectors are multiplied with, or a bias as one row."""
        *above, side = MATRICES[name].axes
        rows = plain_axis("row", ["+"])
        for each in above:
            rows = replace(axis_of(self.trace, self.layer, each, len(matrix)), title="")
        return self.grid(name, matrix if above else matrix[None], rows, side=side)

    def matrix_of_head(self, name: str, matrix: Tensor, head: int) -> Grid:
        """The columns that make the vectors of one head."""
        side = "head_value" if name == "w_value" else "width"
        rows = axis_of(self.trace, self.layer, "dim", len(matrix))
        return self.grid(
            self.titled(name, head), matrix, replace(rows, title=""), side=side, head=head
        )

    def heads(
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
        drawn = [
            self.grid(
                self.titled_group(name, heads),
                vectors[place],
                rows,
                side=side,
                head=heads[0],
                followed=followed,
            )
            for place, heads in self.groups(len(vectors), self.shown_heads).items()
        ]
        scaled = [replace(grid, scale=replace(grid.scale, label=scale)) for grid in drawn]
        return tuple(scaled if scale else drawn)

    def scores(self, name: str, stage: Stage, note: str = "") -> tuple[Grid, ...]:
        drawn = scores_grids(name, self.trace, self.layer, stage, note)
        return tuple(self._cut(self._named(drawn[head], name, head)) for head in self.shown_heads)

    def weights(self, stage: Stage, mixed_by: MixedBy) -> tuple[Grid, ...]:
        drawn, name = weights_grids(self.trace, self.layer, stage, mixed_by), MIXED_BY[mixed_by]
        return tuple(self._cut(self._named(drawn[head], name, head)) for head in self.shown_heads)

    def _named(self, grid: Grid, name: str, head: int) -> Grid:
        return replace(grid, title=self.titled(name, head))

    def _cut(self, grid: Grid, followed: bool = True) -> Grid:
        """With so many digits, and only the row of the token that is followed."""
        exact = replace(grid, decimals=self.asked.digits)
        if not followed or self.asked.query is None:
            return exact
        row = self._named_row(exact.part(slice(self.followed, self.followed + 1)))
        return row if row.share else replace(row, scale=centred(row.scale.label, row.cells))

    def _named_row(self, grid: Grid) -> Grid:
        """A word that stands several times in the text needs its number, alone as it is."""
        name = self.query_name
        if grid.rows.labels == (name,) or not grid.rows.labels[0]:
            return grid
        return replace(grid, rows=replace(grid.rows, labels=(name,), numbers=("",)))


def _apart(grid: Grid) -> Grid:
    """With a scale that only its like share: numbers of a trained model are of any size."""
    kind = next((kind for start, kind in KINDS.items() if grid.title.startswith(start)), None)
    return replace(grid, scale=replace(grid.scale, label=kind)) if kind else grid


def scene(trace: Trace, asked: StepSettings) -> Scene:
    """The attention of the layer that is asked for."""
    layer = _layer(trace, asked.layer)
    refuse_missing_head(asked.head, layer.heads)
    return Scene(trace, layer, asked)


def _layer(trace: Trace, number: int | None) -> Layer:
    """The layer of this number: of some models not every layer attends."""
    if number is None:
        return trace.layers[0]
    found = {each.layer: each for each in trace.layers}
    if number not in found:
        whole = list(found) == list(range(len(found)))
        refuse_missing_layer(number, len(found)) if whole else None
        raise AttnvizError(
            f"layer {number} has no attention; layers that do: {', '.join(map(str, found))}",
            f"try --layer {next(iter(found))}",
            about="layer",
        )
    return found[number]


def count_of(here: Scene, matrices: Mapping[str, Tensor]) -> str:
    """`w_query 8 × 8 + w_key 8 × 8 = 128 numbers to learn`"""
    parts = [f"{name} {shape_text(each.shape)}" for name, each in matrices.items()]
    count = sum(each.numel() for each in matrices.values())
    return f"{' + '.join(parts)} = {count:,} numbers {to_learn(here.trace)}"


def _times(tokens: Tokens) -> Counter[str]:
    return Counter(tokens.labels)
