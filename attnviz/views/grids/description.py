"""What is drawn, in words: the small print below it, and a description for who does not see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.section import Drawable, Section, opened, table_of

ROWS_TOLD = 16  # of a table; of one with more rows
STRONGEST_TOLD = 8  # those of the largest weights


def caption(drawn: Sequence[Drawable], settings: str, caveat: str = "") -> str:
    """The small print: how to read the panels, each thing said once; what is random; settings."""
    return " · ".join([*notes(drawn), *([caveat] if caveat else []), settings])


def notes(drawn: Sequence[Drawable]) -> list[str]:
    """How to read panels, each thing said once."""
    said = (part for each in opened(drawn) for part in each.note.split(" · "))
    return [part for part in dict.fromkeys(said) if part]


def hides(drawn: Iterable[Drawable]) -> bool:
    """Whether anything is hidden: each renderer says in its own words how that looks."""
    return any(isinstance(each, Grid) and each.cells.hides for each in opened(drawn))


def describe(drawn: Iterable[Drawable]) -> str:
    """A picture in words, for those who do not see it."""
    return " ".join(map(_described, drawn))


def _described(each: Drawable) -> str:
    if isinstance(each, Section):
        parts = [f"{each.heading}: {each.about}", *map(_described, each.grids)]
        return " ".join(part for part in parts if part)
    if isinstance(each, Sentence):
        return _sentence_described(each)
    return _curves_described(each) if isinstance(each, Curves) else _grid_described(table_of(each))


def _sentence_described(sentence: Sentence) -> str:
    """What is read most, and how much more there is."""
    names, weights = sentence.grid.columns.names, sentence.grid.values[0]
    most = [f"{names[place]} ({weights[place]:.2f})" for place in sentence.most_read]
    rest = f" and {len(most) - STRONGEST_TOLD} more" if len(most) > STRONGEST_TOLD else ""
    return f"{_named(sentence.grid)}{', '.join(most[:STRONGEST_TOLD])}{rest}."


def _named(grid: Grid) -> str:
    """Its title, if it has one."""
    return f"{grid.title}: " if grid.title else ""


def _curves_described(curves: Curves) -> str:
    ends = [
        f"{line.name} from {line.middle[0]:.2g} to {line.middle[-1]:.2g}" for line in curves.lines
    ]
    reach = f"{curves.across} from {curves.places[0]:g} to {curves.places[-1]:g}"
    return f"{curves.title} for {reach}: {', '.join(ends)}."


def _grid_described(grid: Grid) -> str:
    size = f"{len(grid.rows):,} × {len(grid.columns):,}"
    start = f"{_named(grid)}{size} ({grid.rows.title} × {grid.columns.title})."
    if not grid.share or not len(grid.columns):
        return start
    return f"{start} {'; '.join(_what_is_read_most(grid))}."


def _what_is_read_most(grid: Grid) -> Iterator[str]:
    bands = [(np.nan_to_num(band.values), band.values) for band in grid.cells.bands()]
    strongest = np.concatenate([filled.argmax(axis=1) for filled, _ in bands])
    weights = np.concatenate([values.max(axis=1) for _, values in bands])
    few = len(grid.rows) <= ROWS_TOLD
    for row in range(len(grid.rows)) if few else np.argsort(-weights)[:STRONGEST_TOLD].tolist():
        weight = grid.cells.row(row).values[0, strongest[row]]
        column = grid.columns.names[strongest[row]]
        most = f"{column} most ({weight:.2f})" if weight else "nothing"
        yield f"{grid.rows.names[row]} reads {most}"
