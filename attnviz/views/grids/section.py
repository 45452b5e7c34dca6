"""Sections of a walk: words, tables, sums, upright bars and vectors in their plane."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.grid import Curves, Grid, common_scales
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.scales import Scale
from attnviz.wording.sums import Sum

# Lines of tables, by their places among the grids of a section, and what stands between two.
Stages = tuple[tuple[int | str, ...], ...]
CellSource = tuple[
    int, int | None, int | None
]  # a grid of a section, a row, a column; None: all of them
JOINED_TABLES, SEPARATE_TABLES = "", " "  # two tables as one; two with only a gap between them


def with_sign_between(indices: Iterable[int], sign: str) -> tuple[int | str, ...]:
    """
    >>> with_sign_between(range(3), "·")
    (0, '·', 1, '·', 2)
    """
    return tuple(item for index in indices for item in (sign, index))[1:]


@dataclass(frozen=True, eq=False)
class Section:
    """One step on the way: what it does and why, its tables, and its sums written out.

    `moments` are what an animation shows of it, one after another: the same tables while they
    fill up. A cell that is not yet filled is NaN, and is left empty.
    """

    number: str  # "5"; "4b" for what stands between two of the usual steps
    name: str  # "scores": what --step and the names of files call it
    title: str
    about: str  # a plain sentence or two
    shapes: str = ""  # "queries [4 × 8] · keysᵀ [8 × 4] → scores [4 × 4]"
    formula: str = ""  # "scores = Q Kᵀ", for the terminal
    tex: str = ""  # the same for Markdown, without its dollars
    grids: tuple[Grid, ...] = ()
    sums: tuple[Sum, ...] = ()  # "score(am, I) = 0.26·0.88 + 0.79·0.92 = 0.96"
    remarks: tuple[str, ...] = ()  # what else there is to say, a line each
    moments: tuple[Section, ...] = ()
    cell_sources: tuple[CellSource, ...] = ()  # of a moment: what its new cell is computed from
    planes: tuple[Plane, ...] = ()  # on a page of its own in place of the grids
    bars: ColumnChart | None = None  # in a picture in place of the grids
    stages: Stages = ()  # how some of its grids become others,
    stage_grids: tuple[Grid, ...] = ()  # and these, which stand nowhere else, counted after them
    finding: str = ""  # what it shows here: its title where it stands alone

    @property
    def heading(self) -> str:
        return f"{self.number} {self.title}".strip()

    @property
    def tables(self) -> tuple[Grid, ...]:
        """Its grids; one that is alone and has the title of the step need not repeat it."""
        if len(self.grids) == 1 and self.grids[0].title.lower() in self.title.lower():
            return (replace(self.grids[0], title=""),)
        return self.grids

    def with_scales(self, scales: Mapping[str, Scale]) -> Section:
        """With these scales of colour, by what they measure; its moments, too."""
        grids = (
            replace(each, scale=scales.get(each.scale.label, each.scale)) for each in self.grids
        )
        beyond = (
            replace(grid, scale=scales.get(grid.scale.label, grid.scale))
            for grid in self.stage_grids
        )
        moments = tuple(each.with_scales(scales) for each in self.moments)
        return replace(self, grids=tuple(grids), stage_grids=tuple(beyond), moments=moments)


def with_one_scale(sections: Sequence[Section]) -> list[Section]:
    """Sections, in all of which a colour means one number: so that scaling shows."""
    scales = common_scales([grid for section in sections for grid in section.grids])
    return [section.with_scales(scales) for section in sections]


Drawable = Grid | Curves | Arcs | Sentence | RankedBars | Section | Overview


def open_panels(panels: Iterable[Drawable]) -> Iterator[Grid | Curves | Overview]:
    """Every table, chart and overview there is, those of sections as well."""
    for panel in panels:
        if isinstance(panel, Section):
            yield from panel.grids
        elif isinstance(panel, Arcs | Sentence | RankedBars):
            yield panel.grid
        else:
            yield panel


def panel_table(panel: Grid | Curves | Arcs | Sentence | RankedBars) -> Grid:
    """Its numbers, for whoever draws no lines."""
    if isinstance(panel, Curves):
        return panel.table
    return panel if isinstance(panel, Grid) else panel.grid


PARALLEL_TOLERANCE = (
    1e-9  # as far as this from 1 a cosine may be for two vectors to lie on one line
)


@dataclass(frozen=True)
class Arrow:
    """One of the two vectors: what it is called, and how long it is, as a number and as written."""

    name: str
    length: float
    length_text: str


@dataclass(frozen=True)
class Plane:
    """Two vectors as they lie to each other, whatever the width that they come from.

    There is no angle where one of them has no length.
    """

    title: str
    arrows: tuple[Arrow, Arrow]
    cosine: float | None
    angle: str  # as it is written; empty where there is none

    @property
    def on_a_line(self) -> bool:
        """Whether they point the same way, or opposite ways."""
        return self.cosine is not None and 1 - abs(self.cosine) < PARALLEL_TOLERANCE

    @property
    def tips(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Where the two end that begin at (0, 0), the first of them lying to the right."""
        first, second = self.arrows
        cosine = 1.0 if self.cosine is None else self.cosine
        sine = 0.0 if self.on_a_line else math.sqrt(1 - cosine**2)
        return (first.length, 0.0), (second.length * cosine, second.length * sine)


def cosine_between(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The cosine of the angle between two vectors, unless one of them has no length.

    >>> cosine_between([3.0, 4.0], [4.0, 3.0]), cosine_between([1.0], [-2.0]), cosine_between([0.0], [1.0])
    (0.96, -1.0, None)
    """
    lengths = vector_length(first), vector_length(second)
    if not all(lengths):
        return None
    if not math.prod(lengths):  # too small to be multiplied: the angle is that of longer ones
        return cosine_between(_unit_vector(first), _unit_vector(second))
    products = math.fsum(
        first_number * second_number
        for first_number, second_number in zip(first, second, strict=True)
    )
    return min(max(products / math.prod(lengths), -1.0), 1.0)


def _unit_vector(vector: Sequence[float]) -> list[float]:
    return [number / vector_length(vector) for number in vector]


def vector_length(vector: Sequence[float]) -> float:
    """
    >>> vector_length([3.0, 4.0])
    5.0
    """
    return math.hypot(*vector)


@dataclass(frozen=True)
class ColumnChartRow:
    """A number for each name, as it is and as it is written; None is what a mask hides."""

    name: str
    values: tuple[float | None, ...]
    value_texts: tuple[str, ...]
    scale: Scale
    total: str = ""  # "sum 3.72": what is said of all of them


@dataclass(frozen=True)
class ColumnChart:
    names: tuple[str, ...]
    rows: tuple[ColumnChartRow, ...]
