"""A Comparison, as what can be shown of it: weights, differences, measures, curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnviz.analysis.aspects import ASPECTS
from attnviz.analysis.comparison import Alternative, Comparison, LargestChange, restricted
from attnviz.analysis.sweeps import REPEATS, Track, refuse_without_curves, sweep_of
from attnviz.cells import Cells, unmasked
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.views.conclusion import conclusion
from attnviz.views.data import data_of_comparison
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.grid import Grid, same_scale
from attnviz.views.grids.scales import Scale, centred, weight_scale
from attnviz.views.measures import measures_table, name_of, rows_of_measures
from attnviz.views.reading import token_axis
from attnviz.views.settings_line import settings_line
from attnviz.views.sweep import curves_of
from attnviz.views.view import Group, Kind, View, page_of
from attnviz.wording.commands import Command
from attnviz.wording.numbers import share_text, tiny_text

VARYING = {  # what differs is no setting of the whole
    "scale": ("scale",),
    "variant": ("heads", "scale", "mask"),
    "mask": ("mask", "window"),
    "dim": ("dim", "heads"),
    "heads": ("heads",),
    "temperature": ("temperature",),
    "positions": ("positions",),
    "seed": ("seed",),
    "dtype": ("dtype",),
    "device": ("dtype",),  # the part that names both
    "tokenizer": ("tokens",),
}


def view(
    comparison: Comparison,
    *,
    query: int | str | None = None,
    curves: bool = False,
    repeats: int = REPEATS,
    full: bool = False,
    track: Track = lambda steps: steps,
) -> View:
    """What tells alternatives apart; where these are numbers, curves over seeds, too, or alone."""
    if query is not None:
        comparison = restricted(comparison, find_query(comparison.base.tokens, str(query)))
    sweep = sweep_of(comparison, repeats, track)
    if curves and sweep is None:
        refuse_without_curves(comparison)
    line, concluded = _settings_line(comparison), conclusion(comparison, sweep)
    charts = Group("curves", tuple(curves_of(sweep) if sweep else ()))
    notes = [*mistakes(comparison), *changes_listed(comparison), concluded]
    screen = picture = page_of([charts], line)
    if not curves:
        screen = page_of([*_on_screen(comparison, full=full), charts], line)
        picture = page_of([*_in_a_picture(comparison), charts], line)
    return View(
        title=f"compared by {comparison.by}",
        headline=concluded,
        settings=line,
        screen=screen,
        picture=picture,
        closing=(concluded,) if curves else tuple(notes),
        data=data_of_comparison(comparison, sweep, concluded),
        provenance=comparison.provenance,
        command=_command(comparison, repeats, curves, full),
    )


def _command(comparison: Comparison, repeats: int, curves: bool, full: bool) -> Command | None:
    """The command that would show the same."""
    if comparison.command is None:
        return None
    query = "" if comparison.query is None else str(comparison.query + 1)
    wanted = {
        "repeats": 0 if repeats == REPEATS else repeats,
        "curves": curves,
        "query": query,
        "full": full,
    }
    return comparison.command.also(**{name: value for name, value in wanted.items() if value})


def _on_screen(comparison: Comparison, *, full: bool) -> list[Group]:
    """The alternatives, then the differences, but for the reference's from itself."""
    rows = rows_of_measures(comparison) if full and comparison.query is None else []
    differences = differences_of(comparison)
    others = differences[: comparison.reference] + differences[comparison.reference + 1 :]
    return [
        Group("alternatives", tuple(weights_of(comparison))),
        Group("differences", tuple(others)),
        Group("measures", (measures_table(comparison), *rows)),
    ]


def _in_a_picture(comparison: Comparison) -> list[Group]:
    """Of two alternatives the difference stands beside them, of more below each."""
    weights, differences = weights_of(comparison), differences_of(comparison)
    if len(weights) == 2 or not differences:
        others = differences[: comparison.reference] + differences[comparison.reference + 1 :]
        kind: Kind = "pair" if len(weights) == 2 else "rows"
        return [Group("alternatives", (*weights, *others), kind=kind)]
    base = name_of(comparison, comparison.base)
    below = [
        grid if place == comparison.reference else replace(grid, title=f"minus {base}")
        for place, grid in enumerate(differences)
    ]
    return [Group("alternatives", tuple(weights), tuple(below), kind="rows")]


def weights_of(comparison: Comparison) -> list[Grid]:
    """The weights of each alternative, in the mean of its heads."""
    return same_scale([_weights(comparison, each) for each in comparison.alternatives])


def differences_of(comparison: Comparison) -> list[Grid]:
    """What each reads more or less than the reference; nothing where tokens are not the same."""
    places = [
        place for place in range(len(comparison.alternatives)) if place != comparison.reference
    ]
    found = [grid for grid in (_difference(comparison, place) for place in places) if grid]
    if len(found) < len(places):
        return []
    drawn = same_scale(found)
    nothing = unmasked(np.zeros(drawn[0].cells.shape))
    itself = replace(drawn[0], title="the reference", cells=nothing)
    return [*drawn[: comparison.reference], itself, *drawn[comparison.reference :]]


def changes_listed(comparison: Comparison) -> list[str]:
    """`largest change from unscaled to scaled: learning → this: .31 → .97`"""
    start = f"largest change from {name_of(comparison, comparison.base)} to"
    return [
        f"{start} {name_of(comparison, each)}: {_change(comparison, each, change)}"
        for each, change in zip(comparison.alternatives, comparison.changes, strict=True)
        if change
    ]


def mistakes(comparison: Comparison) -> list[str]:
    return [
        f"✗ {each.name} is a mistake: {each.mistake}"
        for each in comparison.alternatives
        if each.mistake
    ]


def _settings_line(comparison: Comparison) -> str:
    fixed = f"the same in all: {ASPECTS[comparison.by].fixed}"
    traced = comparison.base.trace
    if traced is None:
        return fixed
    return f"{fixed} · {settings_line(traced, without=VARYING[comparison.by])}"


def _weights(comparison: Comparison, alternative: Alternative) -> Grid:
    heads = len(alternative.weights)
    mean = f" · mean of {heads} heads" if heads > 1 else ""
    cells = alternative.mean
    title = f"{name_of(comparison, alternative)}{mean}"
    return _grid(comparison, alternative, title, cells, weight_scale(cells), AXES_NOTE)


def _difference(comparison: Comparison, place: int) -> Grid | None:
    alternative, cells = comparison.alternatives[place], comparison.mean_difference(place)
    if cells is None:
        return None
    title = f"{name_of(comparison, alternative)} − {name_of(comparison, comparison.base)}"
    note = "difference: warm = reads more, cold = reads less than the reference"
    return _grid(comparison, alternative, title, cells, centred("difference", cells), note)


def _grid(
    comparison: Comparison,
    alternative: Alternative,
    title: str,
    cells: Cells,
    scale: Scale,
    note: str,
) -> Grid:
    """All rows, or the one of the query that is shown alone."""
    grid = Grid(
        title,
        token_axis("query (reads)", alternative.tokens),
        token_axis("key (is read)", alternative.keys),
        cells,
        scale,
        note=note,
        share=True,
    )
    query = comparison.query
    return grid if query is None else grid.part(slice(query, query + 1))


def _change(comparison: Comparison, alternative: Alternative, change: LargestChange) -> str:
    query = _named(alternative.tokens, change.query)
    key = _named(alternative.keys, change.key)
    among = "" if change.head is None else f" in head {change.head}"
    if len(alternative.weights) != len(comparison.base.weights):
        among = " in the mean of heads"
    before, after = share_text(change.before), share_text(change.after)
    if before == after:
        return f"{query} → {key}{among}: by {tiny_text(change.after - change.before)}"
    return f"{query} → {key}{among}: {before} → {after}"


def _named(tokens: Tokens, place: int) -> str:
    """A token's label, with its number where the label stands more than once."""
    label = tokens.labels[place]
    return f"{place + 1} {label}" if tokens.labels.count(label) > 1 else label
