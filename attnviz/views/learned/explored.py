"""All heads of a model at moments of its learning, for somebody to look around in by himself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.views.grids.axes import AXES_NOTE, SUM_TO_ONE
from attnviz.views.grids.explored import Explored, HeadMap, arranged
from attnviz.views.learned.found import name_of_head
from attnviz.views.learned.shown import Shown


def explored_of_learned(here: Shown, places: Sequence[int]) -> Explored:
    """A row for each of some moments, a column for each head; first what one of them came to do."""
    maps = [
        (here.step(place), name_of_head(*head), _head(here, head, place))
        for place in places
        for head in here.heads
    ]
    best = here.heads.index(here.that_matter(1)[0])
    return arranged(
        maps,
        ("moment", "head"),
        query=here.query,
        first=len(maps) - len(here.heads) + best,
        note=f"{AXES_NOTE} · {SUM_TO_ONE}",
    )


def _head(here: Shown, head: tuple[int, int], place: int) -> HeadMap:
    grid = here.of_head(head, place)
    itself = replace(grid.columns, title=grid.rows.title) == grid.rows
    return HeadMap(
        name=" · ".join(filter(None, (name_of_head(*head), here.step(place), here.answer(place)))),
        reads=grid.rows,
        read=grid.rows if itself else grid.columns,
        weights=grid.cells,
    )
