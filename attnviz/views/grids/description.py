"""Captions of pictures, and descriptions for people who cannot see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.cells import Patch
from attnviz.views.grids.axes import SUM_NOTES
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable, Section, open_panels, panel_table
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.wording.numbers import fixed_text, power_text, short_text, smallest_fixed_value
from attnviz.wording.words import and_list, counted

MAX_DESCRIBED_ROWS = 16  # a table with more rows is described by its largest weights
MAX_DESCRIBED_LINKS = 8
EQUAL_WEIGHT_TOLERANCE = 1e-5  # relative to the largest weight
MAX_EQUAL_NAMES = 3  # more tokens with equal weights are counted, not named


def caption(panels: Sequence[Drawable], settings: str, caveat: str = "") -> str:
    """Return the small print below panels: how to read them, what is random (`caveat`), the
    settings.
    """
    return " · ".join([*panel_notes(panels), *([caveat] if caveat else []), settings])


def panel_notes(panels: Sequence[Drawable]) -> list[str]:
    """Return the parts of the panels' notes, each once.

    A note on row sums is kept only where each table of weights has one.
    """
    opened = list(open_panels(panels))
    parts = dict.fromkeys(part for panel in opened for part in panel.note.split(" · ") if part)
    shares = [panel for panel in opened if isinstance(panel, Grid) and (panel.share or panel.words)]
    all_sum_to_one = all(set(SUM_NOTES) & {*panel.note.split(" · ")} for panel in shares)
    return [part for part in parts if all_sum_to_one or part not in SUM_NOTES]


def has_masked_cells(panels: Iterable[Drawable]) -> bool:
    """Return whether any panel has masked cells; each renderer explains how they look."""
    return any(
        (isinstance(panel, Overview) and panel.has_masked_cells)
        or (isinstance(panel, Grid) and panel.cells.has_hidden)
        for panel in open_panels(panels)
    )


def describe(panels: Iterable[Drawable]) -> str:
    """Return the panels in words, for people who cannot see them."""
    return " ".join(map(_panel_description, panels))


def _panel_description(panel: Drawable) -> str:
    if isinstance(panel, Section):
        parts = [f"{panel.heading}: {panel.about}", *map(_panel_description, panel.grids)]
        return " ".join(part for part in parts if part)
    if isinstance(panel, Sentence):
        return _sentence_description(panel)
    if isinstance(panel, RankedBars):
        return _ranking_description(panel)
    if isinstance(panel, Overview):
        return _overview_description(panel)
    if isinstance(panel, Curves):
        return _curves_description(panel)
    return _grid_description(panel_table(panel))


def _overview_description(overview: Overview) -> str:
    """Return how many small maps there are, and the strongest head of each kind."""
    row_count, column_count = len(overview.query_axis), len(overview.key_axis)
    size = f"{counted(len(overview.names), 'small map')} of {row_count:,} × {column_count:,} tokens"
    start = f"{overview.title}: {size} ({overview.query_axis.title} × {overview.key_axis.title})."
    strongest = [
        f"{flag.kind} {overview.names[flag.map_index]} ({flag.number})" for flag in overview.flags
    ]
    return f"{start} Strongest head of each kind: {', '.join(strongest)}." if strongest else start


def _sentence_description(sentence: Sentence) -> str:
    """Return the tokens with the largest weights, and how many others there are."""
    names, weights = sentence.grid.columns.names, sentence.grid.values[0]
    strongest = [f"{names[column]} ({weights[column]:.2f})" for column in sentence.most_read]
    hidden_count = len(strongest) - MAX_DESCRIBED_LINKS
    remainder = f" and {hidden_count} more" if hidden_count > 0 else ""
    return f"{_title_prefix(sentence.grid)}{', '.join(strongest[:MAX_DESCRIBED_LINKS])}{remainder}."


def _ranking_description(ranked: RankedBars) -> str:
    """Return the first entries of a ranking with their numbers, and how many others there are."""
    names, numbers = ranked.grid.rows.names, ranked.grid.values[:, 0]
    entries = [f"{name} ({number:.2f})" for name, number in zip(names, numbers, strict=True)]
    hidden_count = len(entries) - MAX_DESCRIBED_LINKS
    remainder = f" and {counted(hidden_count, f'more {ranked.unit}')}" if hidden_count > 0 else ""
    return f"{_title_prefix(ranked.grid)}{', '.join(entries[:MAX_DESCRIBED_LINKS])}{remainder}."


def _title_prefix(grid: Grid) -> str:
    return f"{grid.title}: " if grid.title else ""


def _curves_description(curves: Curves) -> str:
    ends = [
        f"{line.name} from {short_text(line.middle[0])} to {short_text(line.middle[-1])}"
        for line in curves.lines
    ]
    x_range = f"{curves.x_title} from {curves.x_values[0]:g} to {curves.x_values[-1]:g}"
    return f"{curves.title} for {x_range}: {', '.join(ends)}."


def _grid_description(grid: Grid) -> str:
    """Return the size of a table, then its words, or for rows of weights what each row attends to
    most; no further numbers for other tables.
    """
    size = f"{len(grid.rows):,} × {len(grid.columns):,}"
    sides = " × ".join(filter(None, (grid.rows.title, grid.columns.title)))
    start = f"{_title_prefix(grid)}{size}{f' ({sides})' * bool(sides)}."
    if grid.words:
        return f"{start} {'; '.join(map(partial(_row_words_text, grid), range(len(grid.rows))))}."
    if not grid.share or not len(grid.columns):
        return start
    return f"{start} {'; '.join(_strongest_links(grid))}."


def _row_words_text(grid: Grid, row: int) -> str:
    """Return a row with its words and numbers: `7 ?: are (0.98), is (0.02)`."""
    pairs = zip(grid.words[row], grid.values[row].tolist(), strict=True)
    return f"{grid.rows.names[row]}: {', '.join(f'{word} ({value:.2f})' for word, value in pairs)}"


def _strongest_links(grid: Grid) -> Iterator[str]:
    """Yield, for each row, what it attends to most; of more than MAX_DESCRIBED_ROWS rows only those
    with the largest weights.
    """
    rows: Sequence[int] = range(len(grid.rows))
    if len(rows) > MAX_DESCRIBED_ROWS:
        weights = np.concatenate([band.values.max(axis=1) for band in grid.cells.bands()])
        rows = np.argsort(-weights)[:MAX_DESCRIBED_LINKS].tolist()
    for row in rows:
        yield f"{grid.rows.names[row]} {_row_maximum_text(grid, grid.cells.row(row))}"


def _row_maximum_text(grid: Grid, row: Patch) -> str:
    """Return which token a row attends to most, or which several equally: `reads 1 I most (0.55)`;
    also for rows that read nothing or hold NaN.
    """
    visible, values = ~row.hidden[0], row.values[0]
    if np.isnan(values[visible]).any():
        return "has weights that are not numbers"
    if not values[visible].any():
        return "reads nothing"
    largest = float(values[visible].max())
    is_largest = visible & (values >= largest - EQUAL_WEIGHT_TOLERANCE * abs(largest))
    names = [grid.columns.names[column] for column in np.flatnonzero(is_largest)]
    is_fixed = abs(largest) >= smallest_fixed_value(2)
    weight = fixed_text(largest, 2) if is_fixed else power_text(largest, 1)
    if len(names) == 1:
        return f"reads {names[0]} most ({weight})"
    names_text = and_list(names) if len(names) <= MAX_EQUAL_NAMES else f"{len(names)} tokens"
    return f"reads {names_text} most, equally ({weight} each)"
