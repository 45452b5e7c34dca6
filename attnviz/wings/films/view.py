"""The View of a film: heads of several Traces of one sentence, on one scale of colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from attnviz.cells import FULL_SLICE, Cells
from attnviz.traces.trace import Trace, join_provenances
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import Scale, weight_scale, widest_scale
from attnviz.views.head_vectors import read_head_vectors
from attnviz.views.heads.data import WEIGHT_COLUMNS, weight_lines
from attnviz.views.heads.grid import whole_heads
from attnviz.views.notes import random_numbers_caveat
from attnviz.views.reading import attention_head_name, generation_start, token_axis
from attnviz.views.trace_data import lazy_weights
from attnviz.views.view import (
    Excerpt,
    Group,
    PanelTitle,
    Shot,
    TableData,
    TableLines,
    View,
    build_page,
)
from attnviz.wings.films.film import Film, HeadPlace, chosen_heads
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import counted

MAX_FILM_HEADS, MAX_PAGE_HEADS, MAX_PAGE_TRACES = 16, 4, 5
MAX_COLUMNS = 4  # of heads in a frame that does not show all of them
LEAST_CHANGE = 0.005  # of a weight: what a title can say


@dataclass(frozen=True, eq=False)
class FilmHeads:
    """The heads of a film that are shown, with their weights in each Trace."""

    film: Film
    heads: tuple[HeadPlace, ...]

    @cached_property
    def sides(self) -> tuple[Axis, Axis]:
        """The axes of the queries and of the keys."""
        first = self.film.traces[0]
        rows = token_axis("query (reads)", first.tokens, generation_start(first, first.tokens))
        columns = token_axis("key (is read)", first.keys, generation_start(first, first.keys))
        return rows, columns

    def name(self, head: HeadPlace) -> str:
        trace = self.film.traces[0]
        return attention_head_name(trace, trace.attention_layers[head[0]], head[1])

    def cells(self, head: HeadPlace, trace: Trace) -> Cells:
        return lazy_weights(trace, trace.attention_layers[head[0]], head[1])

    @cached_property
    def scale(self) -> Scale:
        every = [self.cells(head, each) for each in self.film.traces for head in self.heads]
        return widest_scale([weight_scale(cells) for cells in every])

    @cached_property
    def changes(self) -> dict[HeadPlace, float]:
        """How far the weights of each head move from Trace to Trace, in all; the largest first."""
        moved = {}
        for head in self.heads:
            tables = (_visible_values(self.cells(head, trace)) for trace in self.film.traces)
            moved[head] = sum(
                float(abs(after - before).sum()) for before, after in pairwise(tables)
            )
        return dict(sorted(moved.items(), key=lambda item: -item[1]))

    def most_changed(self, count: int) -> list[HeadPlace]:
        chosen = {*list(self.changes)[:count]}
        return [head for head in self.heads if head in chosen]

    def grid(self, head: HeadPlace, index: int) -> Grid:
        rows, columns = self.sides
        return Grid(
            f"weights {self.name(head)} · {self.film.names[index]}",
            rows,
            columns,
            self.cells(head, self.film.traces[index]),
            self.scale,
            note=AXES_NOTE,
            share=True,
        )

    @cached_property
    def _largest_change(self) -> tuple[list[np.ndarray], np.ndarray, int, int]:
        """Of the head that changes most: its weights in the first Trace and the last, how far each
        weight changes, and the query and key whose weight changes most."""
        head, traces = next(iter(self.changes)), self.film.traces
        ends = [_visible_values(self.cells(head, each)) for each in (traces[0], traces[-1])]
        changes = abs(ends[1] - ends[0])
        query, key = map(int, np.unravel_index(changes.argmax(), changes.shape))
        return ends, changes, query, key

    def title(self) -> str:
        """Return what changes most between the first Trace and the last, in the head that does."""
        first, names = self.film.traces[0], self.film.names
        ends, changes, query, key = self._largest_change
        if changes.max() < LEAST_CHANGE:
            return f"{names[-1]} attends as {names[0]} does"
        shares = [percent_text(float(values[query, key])) for values in ends]
        head, token = self.name(next(iter(self.changes))), first.tokens.labels[query]
        return (
            f'{head} changes most: "{token}" gives "{first.keys.labels[key]}" {shares[0]} of its '
            f"attention in {names[0]}, and {shares[1]} in {names[-1]}"
        )

    def others_sentences(self) -> tuple[str, ...]:
        """Return by how much other tokens change what they give the key of the title, on average;
        special tokens and the key itself do not count. Empty without any, or without a change."""
        first, head = self.film.traces[0], next(iter(self.changes))
        _, changes, query, key = self._largest_change
        skipped = {query, *first.tokens.special, *([key] if first.keys is first.tokens else [])}
        hidden = self.cells(head, first).window(FULL_SLICE, slice(key, key + 1)).hidden[:, 0]
        others = [row for row in range(len(changes)) if row not in skipped and not hidden[row]]
        if not others or changes.max() < LEAST_CHANGE:
            return ()
        mean = percent_text(float(changes[others, key].mean()))
        return (
            f'Other tokens change what they give "{first.keys.labels[key]}" by {mean} on average.',
        )


def view(film: Film, *, layer: int | None = None, head: int | None = None) -> View:
    """Return the View of a film: of the heads that it was made for, or of those of another layer or
    with another number.

    A frame shows all heads, or the 16 that change most; a still picture the four that do, in at
    most five Traces.
    """
    if layer is None and head is None:
        layer, head = film.layer, film.head
    heads = FilmHeads(film, chosen_heads(film, layer, head))
    settings = _settings_text(heads)
    caveat = random_numbers_caveat(film.traces[0], ("weights",))
    indices = evenly_spaced(len(film.traces), MAX_PAGE_TRACES)
    picture = build_page([still_group(heads, indices)], settings, caveat)
    title = heads.title()
    return View(
        title=f"{len(film.traces)} Traces of one sentence",
        headline=title,
        settings=settings,
        screen=picture,
        picture=picture,
        film=lambda: tuple(
            Shot((frame_group(heads, index),), name) for index, name in enumerate(film.names)
        ),
        slides=lambda: Excerpt((frame_group(heads, len(film.traces) - 1),), ""),
        closing=(f"{title}.", *heads.others_sentences()),
        head_explorer=partial(explore_film, heads),
        data=TableData(
            "film",
            partial(_film_document, heads),
            ("trace", *WEIGHT_COLUMNS),
            partial(_film_lines, film),
        ),
        provenance=replace(
            join_provenances([trace.provenance for trace in film.traces]), command=None
        ),
    )


def evenly_spaced(count: int, most: int) -> list[int]:
    """Return the indices of at most `most` of `count` things, with the first and the last.

    >>> evenly_spaced(9, 5), evenly_spaced(2, 5)
    ([0, 2, 4, 6, 8], [0, 1])
    """
    return [round(float(each)) for each in np.linspace(0, count - 1, min(count, most))]


def _settings_text(heads: FilmHeads) -> str:
    """Return one line: how many Traces, from which to which, tokens, and heads."""
    names, first = heads.film.names, heads.film.traces[0]
    return " · ".join([
        f"{len(names)} Traces, {names[0]} to {names[-1]}",
        counted(len(first.tokens), "token"),
        f"{counted(len(first.attention_layers), 'layer')}, {counted(len(heads.heads), 'head')}",
        "one scale of colour",
    ])  # fmt: skip


def still_group(heads: FilmHeads, indices: Sequence[int]) -> Group:
    """Return a row for each of the heads that change most, and a column for each of the Traces with
    these indices."""
    rows = heads.most_changed(MAX_PAGE_HEADS)
    return Group(
        "heads",
        tuple(heads.grid(head, index) for head in rows for index in indices),
        kind="course",
        column_count=len(indices),
        panel_titles=tuple(PanelTitle(heads.film.names[index]) for index in indices),
        row_titles=tuple(PanelTitle(heads.name(head)) for head in rows),
    )


def frame_group(heads: FilmHeads, index: int) -> Group:
    """Return the heads of one Trace, those of a layer in a row where all of them are shown."""
    shown = heads.most_changed(MAX_FILM_HEADS)
    in_layer = max(sum(layer == each[0] for each in shown) for layer, _ in shown)
    columns = in_layer if len(shown) == len(heads.heads) else MAX_COLUMNS
    return Group(
        "heads",
        tuple(heads.grid(head, index) for head in shown),
        kind="course",
        column_count=min(columns, len(shown)),
        panel_titles=tuple(PanelTitle(heads.name(head)) for head in shown),
    )


def explore_film(heads: FilmHeads) -> HeadExplorer:
    """Return the heads that a reader can choose from: a row for each Trace, a column for each head.

    The first one shown is the head that changes most, in the last Trace.
    """
    film, (rows, columns) = heads.film, heads.sides
    key_axis = rows if film.traces[0].keys is film.traces[0].tokens else columns
    maps = [
        (
            name,
            heads.name(head),
            HeadMap(
                name=f"{heads.name(head)} · {name}",
                query_axis=rows,
                key_axis=key_axis,
                weights=heads.cells(head, trace),
                vectors=read_head_vectors(trace, trace.attention_layers[head[0]], head[1]),
            ),
        )
        for name, trace in zip(film.names, film.traces, strict=True)
        for head in heads.heads
    ]
    place = heads.heads.index(next(iter(heads.changes)))
    note = f"{AXES_NOTE} · {GENERATED_NOTE}" if rows.border is not None else AXES_NOTE
    first = len(maps) - len(heads.heads) + place
    return arrange_heads(maps, ("moment", "head"), first=first, note=note)


def _film_document(heads: FilmHeads) -> dict[str, Any]:
    film = heads.film
    return {
        "names": list(film.names),
        "tokens": list(film.traces[0].tokens.labels),
        "keys": list(film.traces[0].keys.labels),
        "conclusion": f"{heads.title()}.",
        "layers": [
            {
                "layer": attention.name,
                "weights": np.stack([
                    [
                        _visible_values(heads.cells((index, head), trace))
                        for head in range(attention.heads)
                    ]
                    for trace in film.traces
                ]),
            }
            for index, attention in enumerate(film.traces[0].attention_layers)
        ],
    }  # fmt: skip


def _film_lines(film: Film) -> Iterator[TableLines]:
    """Yield the lines of all weights of each Trace, which begin with its name."""
    for name, trace in zip(film.names, film.traces, strict=True):
        for lines in weight_lines(whole_heads(trace)):
            yield replace(lines, start=(name, *lines.start))


def _visible_values(cells: Cells) -> np.ndarray:
    patch = cells.window(FULL_SLICE, FULL_SLICE)
    return np.where(patch.hidden, 0.0, np.nan_to_num(patch.values))
