"""What is drawn, in words: the caption below it, and a description for people who cannot see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.cells import Patch
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.axes import SUMS
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import Drawable, Section, opened, table_of
from attnviz.wording.numbers import fixed_text, power_text, short_text, smallest
from attnviz.wording.words import counted, listed

ROWS_TOLD = 16  # of a table; of one with more rows
STRONGEST_TOLD = 8  # those of the largest weights
ALIKE = 1e-5  # of the largest weight: what differs by less is as large
ALIKE_TOLD = 3  # by their names


def caption(drawn: Sequence[Drawable], settings: str, caveat: str = "") -> str:
    """The small print: how to read the panels, each thing said once; what is random; settings."""
    return " · ".join([*notes(drawn), *([caveat] if caveat else []), settings])


def notes(drawn: Sequence[Drawable]) -> list[str]:
    """How to read panels, each thing said once; of rows of weights only what is so of all."""
    every = list(opened(drawn))
    said = dict.fromkeys(part for each in every for part in each.note.split(" · ") if part)
    shares = [each for each in every if isinstance(each, Grid) and (each.share or each.words)]
    whole = all(set(SUMS) & {*each.note.split(" · ")} for each in shares)
    return [part for part in said if whole or part not in SUMS]


def hides(drawn: Iterable[Drawable]) -> bool:
    """Whether anything is hidden: each renderer says in its own words how that looks."""
    return any(_hides(each) for each in opened(drawn))


def _hides(each: Grid | Curves | Overview) -> bool:
    if isinstance(each, Overview):
        return each.hides
    return isinstance(each, Grid) and each.cells.hides


def describe(drawn: Iterable[Drawable]) -> str:
    """A picture in words, for people who cannot see it."""
    return " ".join(map(_described, drawn))


def _described(each: Drawable) -> str:
    if isinstance(each, Section):
        parts = [f"{each.heading}: {each.about}", *map(_described, each.grids)]
        return " ".join(part for part in parts if part)
    if isinstance(each, Sentence):
        return _sentence_described(each)
    if isinstance(each, Ranked):
        return _ranking_described(each)
    if isinstance(each, Overview):
        return _overview_described(each)
    return _curves_described(each) if isinstance(each, Curves) else _grid_described(table_of(each))


def _overview_described(overview: Overview) -> str:
    """How many heads there are, and the strongest head of each kind."""
    high, wide = len(overview.reads), len(overview.read)
    size = f"{counted(len(overview.names), 'small map')} of {high:,} × {wide:,} tokens"
    start = f"{overview.title}: {size} ({overview.reads.title} × {overview.read.title})."
    most = [f"{flag.kind} {overview.names[flag.map]} ({flag.number})" for flag in overview.flags]
    return f"{start} Strongest head of each kind: {', '.join(most)}." if most else start


def _sentence_described(sentence: Sentence) -> str:
    """What is read most, and how much more there is."""
    names, weights = sentence.grid.columns.names, sentence.grid.values[0]
    most = [f"{names[place]} ({weights[place]:.2f})" for place in sentence.most_read]
    rest = f" and {len(most) - STRONGEST_TOLD} more" if len(most) > STRONGEST_TOLD else ""
    return f"{_named(sentence.grid)}{', '.join(most[:STRONGEST_TOLD])}{rest}."


def _ranking_described(ranked: Ranked) -> str:
    """What stands first, with its numbers, and how much more there is."""
    names, numbers = ranked.grid.rows.names, ranked.grid.values[:, 0]
    first = [f"{name} ({number:.2f})" for name, number in zip(names, numbers, strict=True)]
    more = len(first) - STRONGEST_TOLD
    rest = f" and {counted(more, f'more {ranked.counts}')}" if more > 0 else ""
    return f"{_named(ranked.grid)}{', '.join(first[:STRONGEST_TOLD])}{rest}."


def _named(grid: Grid) -> str:
    """Its title, if it has one."""
    return f"{grid.title}: " if grid.title else ""


def _curves_described(curves: Curves) -> str:
    ends = [
        f"{line.name} from {short_text(line.middle[0])} to {short_text(line.middle[-1])}"
        for line in curves.lines
    ]
    reach = f"{curves.across} from {curves.places[0]:g} to {curves.places[-1]:g}"
    return f"{curves.title} for {reach}: {', '.join(ends)}."


def _grid_described(grid: Grid) -> str:
    size = f"{len(grid.rows):,} × {len(grid.columns):,}"
    sides = " × ".join(filter(None, (grid.rows.title, grid.columns.title)))
    start = f"{_named(grid)}{size}{f' ({sides})' * bool(sides)}."
    if grid.words:
        return f"{start} {'; '.join(map(partial(_words_of_row, grid), range(len(grid.rows))))}."
    if not grid.share or not len(grid.columns):
        return start
    return f"{start} {'; '.join(_what_is_read_most(grid))}."


def _words_of_row(grid: Grid, row: int) -> str:
    """`7 ?: are (0.98), is (0.02)`"""
    pairs = zip(grid.words[row], grid.values[row].tolist(), strict=True)
    return f"{grid.rows.names[row]}: {', '.join(f'{word} ({n:.2f})' for word, n in pairs)}"


def _what_is_read_most(grid: Grid) -> Iterator[str]:
    weights = np.concatenate([band.values.max(axis=1) for band in grid.cells.bands()])
    few = len(grid.rows) <= ROWS_TOLD
    for row in range(len(grid.rows)) if few else np.argsort(-weights)[:STRONGEST_TOLD].tolist():
        yield f"{grid.rows.names[row]} {_read_most(grid, grid.cells.row(row))}"


def _read_most(grid: Grid, row: Patch) -> str:
    """What one row reads most: one column, or several with equal weights."""
    seen, values = ~row.hidden[0], row.values[0]
    if np.isnan(values[seen]).any():
        return "has weights that are not numbers"
    if not values[seen].any():
        return "reads nothing"
    largest = float(values[seen].max())
    alike = seen & (values >= largest - ALIKE * abs(largest))
    names = [grid.columns.names[place] for place in np.flatnonzero(alike)]
    weight = fixed_text(largest, 2) if abs(largest) >= smallest(2) else power_text(largest, 1)
    if len(names) == 1:
        return f"reads {names[0]} most ({weight})"
    told = listed(names) if len(names) <= ALIKE_TOLD else f"{len(names)} tokens"
    return f"reads {told} most, equally ({weight} each)"
