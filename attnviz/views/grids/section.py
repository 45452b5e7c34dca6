"""Section: one step of a walk: words, formula, tables, sums, column charts, planes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnviz.views.grids.grid import Curves, Grid, common_scales
from attnviz.views.grids.long_map import LongMap
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.wording.sums import Sum

# Rows of tables: the index of each among the grids of a section, and the signs between them.
Stages = tuple[tuple[int | str, ...], ...]
Point = tuple[float, float]
CellSource = tuple[int, int | None, int | None]  # a grid, a row, a column; None: all of them
JOINED_TABLES, SEPARATE_TABLES = "", " "  # signs: drawn as one table; with a gap between them
PARALLEL_TOLERANCE = 1e-9  # how far the cosine of parallel vectors may be from 1 or -1


def with_sign_between(indices: Iterable[int], sign: str) -> tuple[int | str, ...]:
    """Return the indices with a sign between each two of them.

    >>> with_sign_between(range(3), "·")
    (0, '·', 1, '·', 2)
    """
    return tuple(item for index in indices for item in (sign, index))[1:]


@dataclass(frozen=True, eq=False)
class Section:
    """One step of a walk: what it does and why, its tables, and its sums written out.

    `moments` are the frames of an animation: the same tables while they are filled. A cell that is
    not yet filled is NaN and is drawn empty.
    """

    number: str  # "5"; "4b" for a step between two of the usual ones
    name: str  # "scores": its name in --step and in names of files
    title: str
    about: str  # a plain sentence or two
    shapes: str = ""  # "queries [4 × 8] · keysᵀ [8 × 4] → scores [4 × 4]"
    formula: str = ""  # "scores = Q Kᵀ", for the terminal
    tex: str = ""  # the formula for Markdown, without dollar signs
    grids: tuple[Grid, ...] = ()
    sums: tuple[Sum, ...] = ()  # "score(am, I) = 0.26·0.88 + 0.79·0.92 = 0.96"
    remarks: tuple[str, ...] = ()  # further sentences, a line each
    moments: tuple[Section, ...] = ()
    cell_sources: tuple[CellSource, ...] = ()  # in a moment: what its new cell is computed from
    planes: tuple[Plane, ...] = ()  # drawn instead of the grids in a picture of this step
    bars: ColumnChart | None = None  # drawn instead of the grids in a picture
    stages: Stages = ()  # how some of its grids are computed from others
    stage_grids: tuple[Grid, ...] = ()  # further grids of the stages, numbered after `grids`
    ranking: RankedBars | None = None  # drawn on a page, below all else
    noun: str = "Step"  # what its number counts; empty for a question
    finding: str = ""  # what it shows here: the title where it is shown alone

    @property
    def heading(self) -> str:
        """The number and the title, as in `Step 5: scores`: `4 queries` would read as a count."""
        step = f"{self.noun} {self.number}:" if self.number and self.noun else self.number
        return f"{step} {self.title}".strip()

    @property
    def list_heading(self) -> str:
        """The number and the title as in a list of steps: `5. scores`."""
        return f"{self.number}. {self.title}" if self.number else self.title

    @property
    def tables(self) -> tuple[Grid, ...]:
        """The grids; a single one has no title where the title of the step already contains it."""
        if len(self.grids) == 1 and self.grids[0].title.lower() in self.title.lower():
            return (replace(self.grids[0], title=""),)
        return self.grids

    def with_scales(self, scales: Mapping[str, Scale]) -> Section:
        """Return the section with these colour scales, by their labels, in its grids and its
        moments.
        """
        grids, stage_grids = (
            tuple(replace(grid, scale=scales.get(grid.scale.label, grid.scale)) for grid in group)
            for group in (self.grids, self.stage_grids)
        )
        moments = tuple(moment.with_scales(scales) for moment in self.moments)
        return replace(self, grids=grids, stage_grids=stage_grids, moments=moments)


def with_one_scale(sections: Sequence[Section]) -> list[Section]:
    """Return the sections with equal colour scales where the labels of the scales are equal, so
    that the effect of scaling is visible.
    """
    scales = common_scales([grid for section in sections for grid in section.grids])
    return [section.with_scales(scales) for section in sections]


Drawable = Grid | Curves | Arcs | LongMap | Sentence | RankedBars | Section | Overview


def open_panels(panels: Iterable[Drawable]) -> Iterator[Grid | Curves | Overview]:
    """Yield every table, chart and overview of the panels: a section's grids, and the grid behind
    arcs, a sentence or bars.
    """
    for panel in panels:
        if isinstance(panel, Section):
            yield from panel.grids
        elif isinstance(panel, Arcs | LongMap | Sentence | RankedBars):
            yield panel.grid
        else:
            yield panel


def panel_table(panel: Grid | Curves | Arcs | LongMap | Sentence | RankedBars) -> Grid:
    """Return the panel as a Grid, for renderers that draw no lines."""
    if isinstance(panel, Curves):
        return panel.table
    return panel if isinstance(panel, Grid) else panel.grid


@dataclass(frozen=True)
class Arrow:
    """One of the two vectors of a plane: name, length, and the length as text."""

    name: str
    length: float
    length_text: str


@dataclass(frozen=True)
class Plane:
    """Two vectors drawn in the plane that they span, whatever their dimension.

    There is no angle where one of the vectors has length 0.
    """

    title: str
    arrows: tuple[Arrow, Arrow]
    cosine: float | None
    angle: str  # as text; empty where there is none
    projection: str = ""  # of the second vector onto the first, as text; empty without an angle
    coordinates: tuple[Point, Point] | None = None  # of two numbers each: drawn where these say

    @property
    def on_a_line(self) -> bool:
        """Whether the vectors point in the same or in opposite directions; False where there is no
        angle.
        """
        return self.cosine is not None and 1 - abs(self.cosine) < PARALLEL_TOLERANCE

    @property
    def tips(self) -> tuple[Point, Point]:
        """The coordinates of the tips of both vectors, which begin at (0, 0).

        Of vectors of more than two numbers, or of one, the first lies on the x axis, and the second
        one too where there is no angle.
        """
        if self.coordinates is not None:
            return self.coordinates
        first, second = self.arrows
        cosine = 1.0 if self.cosine is None else self.cosine
        sine = 0.0 if self.on_a_line else math.sqrt(1 - cosine**2)
        return (first.length, 0.0), (second.length * cosine, second.length * sine)

    @property
    def foot(self) -> Point:
        """Where the projection of the second vector onto the first ends; (0, 0) if they have no
        angle.
        """
        (x, y), (first, second) = self.tips[0], self.arrows
        if not first.length or self.cosine is None:
            return 0.0, 0.0
        share = second.length * self.cosine / first.length
        return x * share, y * share

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """The furthest to the left, to the right, down and up that anything of it reaches, from the
        start of both vectors, which counts as well.
        """
        across, up = zip((0.0, 0.0), *self.tips, self.foot, strict=True)
        return min(across), max(across), min(up), max(up)

    def unit_in(self, width: float, height: float) -> float:
        """Return the length of 1 at which all of it fills a box; 1.0 if both vectors are 0."""
        low, high, lowest, top = self.extent
        units = [width / (high - low)] if high > low else []
        units += [height / (top - lowest)] if top > lowest else []
        return min(units, default=1.0)


def cosine_between(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the cosine of the angle between two vectors; None if one of them has length 0.

    >>> cosine_between([3.0, 4.0], [4.0, 3.0]), cosine_between([1.0], [-2.0])
    (0.96, -1.0)
    """
    lengths = vector_length(first), vector_length(second)
    if not all(lengths):
        return None
    if not math.prod(lengths):  # the product underflows: use unit vectors
        return cosine_between(_unit_vector(first), _unit_vector(second))
    dot_product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    return min(max(dot_product / math.prod(lengths), -1.0), 1.0)


def _unit_vector(vector: Sequence[float]) -> list[float]:
    return [number / vector_length(vector) for number in vector]


def vector_length(vector: Sequence[float]) -> float:
    """Return the Euclidean length of a vector.

    >>> vector_length([3.0, 4.0])
    5.0
    """
    return math.hypot(*vector)


@dataclass(frozen=True)
class ColumnChartRow:
    """One row of upright bars: the numbers, the texts of these numbers, and the scale; None is a
    masked number.
    """

    name: str
    values: tuple[float | None, ...]
    value_texts: tuple[str, ...]
    scale: Scale
    total: str = ""  # such as "sum 3.72"


@dataclass(frozen=True)
class ColumnChart:
    """A chart of upright bars: a bar for each name, in one or more rows."""

    names: tuple[str, ...]
    rows: tuple[ColumnChartRow, ...]
