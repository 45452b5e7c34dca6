"""What every step is drawn from: the trace, one attention of it, and what was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.matrices import shape_text
from attnviz.traces.trace import Layer, Trace
from attnviz.views import trace as trace_grids
from attnviz.views.grids.grids import Axis, Grid, centred, only_row, plain_axis
from attnviz.views.trace import dimension_axis, vectors_grid
from attnviz.wording.sums import TERMS, Style

HEADS = 4  # so many are written out, and of more only the first
DIGITS = (1, 12)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """What is asked for: which token and head are followed, and how numbers are written."""

    query: int | None = None
    head: int | None = None
    layer: int = 0
    digits: int = 2
    full: bool = False

    def __post_init__(self) -> None:
        if not DIGITS[0] <= self.digits <= DIGITS[1]:
            nearest = min(max(self.digits, DIGITS[0]), DIGITS[1])
            raise AttnvizError(
                f"--digits is {self.digits}, and must be from {DIGITS[0]} to {DIGITS[1]}",
                f"try --digits {nearest}",
            )


@dataclass(frozen=True, eq=False)
class Scene:
    """One attention of a trace, as asked for."""

    trace: Trace
    layer: Layer
    walk: Walk

    @property
    def style(self) -> Style:
        return Style(self.walk.digits, full=self.walk.full)

    @property
    def keys(self) -> Tokens:
        return self.trace.keys_of(self.layer)

    @property
    def followed(self) -> int:
        """The query whose arithmetic is shown: the one asked for, or the last."""
        return len(self.trace.tokens) - 1 if self.walk.query is None else self.walk.query

    @property
    def shown_heads(self) -> Sequence[int]:
        return range(self.layer.heads) if self.walk.head is None else [self.walk.head]

    @property
    def written_heads(self) -> Sequence[int]:
        """The heads whose arithmetic is written out."""
        many = len(self.shown_heads) > HEADS and not self.walk.full
        return self.shown_heads[:1] if many else self.shown_heads

    @cached_property
    def written_keys(self) -> Sequence[int]:
        """The keys whose arithmetic is written out: of very many those that weigh most."""
        count = len(self.keys)
        if self.walk.full or count <= TERMS:
            return range(count)
        weights = self.layer.attended.mixing[self.written_heads[0], self.followed]
        return sorted(weights.argsort(descending=True)[:TERMS].tolist())

    @cached_property
    def read_keys(self) -> list[int]:
        """The keys that the followed token reads: the visible ones, and what a mistake adds."""
        row = self.followed
        weighed = (self.layer.attended.mixing[:, row] != 0).any(0)
        found: list[int] = (self.layer.visible[row] | weighed).nonzero().flatten().tolist()
        return found

    @property
    def visible_keys(self) -> list[int]:
        """Those of them whose arithmetic is written out."""
        return [key for key in self.written_keys if key in self.read_keys]

    def left_out(self) -> tuple[str, ...]:
        """What is not written out, if something is not."""
        keys, heads = len(self.keys), len(self.shown_heads)
        found = []
        if len(self.written_keys) < keys:
            found.append(f"written out: the {TERMS} of {keys:,} keys that weigh most")
        if len(self.written_heads) < heads:
            found.append(f"written out: head 0 of {heads} (--head follows another)")
        return (*found, "--full writes out all") if found else ()

    def name(self, tokens: Tokens, place: int) -> str:
        """A token's label; with its number where it stands more than once."""
        label = tokens.labels[place]
        return label if _times(tokens)[label] == 1 else f"{place + 1} {label}"

    def of_head(self, head: int) -> str:
        """What names of numbers carry where there are several heads: ` H1`."""
        return "" if self.layer.heads == 1 else f" H{head}"

    def size(self, tensor: Tensor) -> str:
        """The shape of a matrix, or of as many as there are heads."""
        if tensor.ndim == 1:
            return sized(*tensor.shape)
        *heads, rows, columns = tensor.shape
        one = sized(rows, columns)
        return f"{heads[0]} × {one}" if heads and heads[0] > 1 else one

    def grid(self, title: str, vectors: Tensor, rows: Axis, *, followed: bool = False) -> Grid:
        """Vectors, all of them or the followed token's."""
        return self._cut(vectors_grid(title, vectors, rows), followed)

    def matrix(self, name: str, matrix: Tensor) -> Grid:
        """A matrix that vectors are multiplied with, or a bias as one row."""
        rows = dimension_axis(matrix.shape[0]) if matrix.ndim > 1 else plain_axis("row", ["+"])
        return self.grid(name, matrix if matrix.ndim > 1 else matrix[None], replace(rows, title=""))

    def heads(
        self, name: str, vectors: Tensor, rows: Axis, *, followed: bool = False, scale: str = ""
    ) -> tuple[Grid, ...]:
        """A grid for each head that is shown; with a name, its colours have their own scale."""
        made = [
            self.grid(f"{name}{self.of_head(head)}", vectors[head], rows, followed=followed)
            for head in self.shown_heads
        ]
        scaled = [replace(grid, scale=replace(grid.scale, label=scale)) for grid in made]
        return tuple(scaled if scale else made)

    def scores(
        self, name: str, scores: Tensor, note: str = "", *, masked: bool = False
    ) -> tuple[Grid, ...]:
        made = trace_grids.scores_grids(name, self.trace, self.layer, scores, note, masked)
        return tuple(self._cut(self._named(made[head], name, head)) for head in self.shown_heads)

    def weights(self, weights: Tensor, mixed_by: str) -> tuple[Grid, ...]:
        made = trace_grids.weights_grids(self.trace, self.layer, weights, mixed_by)
        name = trace_grids.MIXED_BY[mixed_by]
        return tuple(self._cut(self._named(made[head], name, head)) for head in self.shown_heads)

    def _named(self, grid: Grid, name: str, head: int) -> Grid:
        return replace(grid, title=f"{name}{self.of_head(head)}")

    def _cut(self, grid: Grid, followed: bool = True) -> Grid:
        """With so many digits, and only the row of the token that is followed."""
        exact = replace(grid, decimals=self.walk.digits)
        if not followed or self.walk.query is None:
            return exact
        row = self._named_row(only_row(exact, self.followed))
        return row if row.share else replace(row, scale=centred(row.scale.label, row.values))

    def _named_row(self, grid: Grid) -> Grid:
        """A word that stands several times in the text needs its number, alone as it is."""
        name = self.name(self.trace.tokens, self.followed)
        if grid.rows.labels == (name,) or not grid.rows.labels[0]:
            return grid
        return replace(grid, rows=replace(grid.rows, labels=(name,), numbers=("",)))


def scene(trace: Trace, walk: Walk) -> Scene:
    """The attention of the layer that is asked for."""
    count = len(trace.layers)
    if not 0 <= walk.layer < count:
        raise AttnvizError(
            f"there is no layer {walk.layer}: layers count from 0, and there "
            f"{'is 1' if count == 1 else f'are {count}'}",
            f"try --layer {count - 1}" if count > 1 else "stack some with --layers 2",
        )
    layer = trace.layers[walk.layer]
    if walk.head is not None and not 0 <= walk.head < layer.heads:
        raise AttnvizError(
            f"there is no head {walk.head}: heads count from 0, and there "
            f"{'is 1' if layer.heads == 1 else f'are {layer.heads}'}",
            f"try --head {layer.heads - 1}",
        )
    return Scene(trace, layer, walk)


def sized(*shape: int) -> str:
    """
    >>> sized(4, 3)
    '[4 × 3]'
    """
    return f"[{shape_text(shape)}]"


def count_of(matrices: Mapping[str, Tensor]) -> str:
    """`w_query 8 × 8 + w_key 8 × 8 = 128 numbers to learn`"""
    parts = [f"{name} {shape_text(each.shape)}" for name, each in matrices.items()]
    return f"{' + '.join(parts)} = {sum(m.numel() for m in matrices.values()):,} numbers to learn"


def _times(tokens: Tokens) -> Counter[str]:
    return Counter(tokens.labels)
