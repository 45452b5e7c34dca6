"""Sections: a step on the way, in words, tables and sums; and all that can be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.columns import Columns
from attnviz.views.grids.grid import Curves, Grid, common_scales
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.plane import Plane
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale
from attnviz.wording.sums import Sum

# Lines of tables, by their places among the grids of a section, and what stands between two.
Stages = tuple[tuple[int | str, ...], ...]
Part = tuple[int, int | None, int | None]  # a grid of a section, a row, a column; None: all of them
JOINED, APART = "", " "  # two tables as one; two with only a gap between them


def parted(places: Iterable[int], sign: str) -> tuple[int | str, ...]:
    """
    >>> parted(range(3), "·")
    (0, '·', 1, '·', 2)
    """
    return tuple(each for place in places for each in (sign, place))[1:]


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
    made_of: tuple[Part, ...] = ()  # of a moment: what its new cell is computed from
    planes: tuple[Plane, ...] = ()  # on a page of its own in place of the grids
    bars: Columns | None = None  # in a picture in place of the grids
    stages: Stages = ()  # how some of its grids become others,
    beyond: tuple[Grid, ...] = ()  # and these, which stand nowhere else, counted after them
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

    def scaled(self, scales: Mapping[str, Scale]) -> Section:
        """With these scales of colour, by what they measure; its moments, too."""
        grids = (
            replace(each, scale=scales.get(each.scale.label, each.scale)) for each in self.grids
        )
        beyond = (replace(g, scale=scales.get(g.scale.label, g.scale)) for g in self.beyond)
        moments = tuple(each.scaled(scales) for each in self.moments)
        return replace(self, grids=tuple(grids), beyond=tuple(beyond), moments=moments)


def on_one_scale(sections: Sequence[Section]) -> list[Section]:
    """Sections, in all of which a colour means one number: so that scaling shows."""
    scales = common_scales([grid for each in sections for grid in each.grids])
    return [each.scaled(scales) for each in sections]


Drawable = Grid | Curves | Arcs | Sentence | Ranked | Section | Overview


def opened(drawn: Iterable[Drawable]) -> Iterator[Grid | Curves | Overview]:
    """Every table, chart and overview there is, those of sections as well."""
    for each in drawn:
        if isinstance(each, Section):
            yield from each.grids
        elif isinstance(each, Arcs | Sentence | Ranked):
            yield each.grid
        else:
            yield each


def table_of(each: Grid | Curves | Arcs | Sentence | Ranked) -> Grid:
    """Its numbers, for whoever draws no lines."""
    if isinstance(each, Curves):
        return each.table
    return each if isinstance(each, Grid) else each.grid
