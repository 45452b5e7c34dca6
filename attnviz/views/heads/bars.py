"""Bars of tokens: those that receive most of a head, those that a query attends to most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float

from attnviz.cells import unmasked_cells
from attnviz.heads.head import Head
from attnviz.heads.side import Side, label_at
from attnviz.tokens.text_part import span_text
from attnviz.tokens.tokens import Tokens
from attnviz.views.even_spread import EVEN_NOTE, even_remark
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import bar_scale, colorless_scale
from attnviz.views.grids.section import Drawable
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.grid import TABLE_ROWS, side_axis, title_with_head
from attnviz.views.heads.passages import passage, quoted_label
from attnviz.views.view import Group

MOST_READ, MOST_ATTENDED = 10, 20  # tokens that are listed


def most_read_bars(head: Head) -> RankedBars:
    """Return the keys that receive most of the queries' attention as bars, with passages."""
    whose = "share of all attention received"
    if not head.is_measured:
        whose = f"share of the attention of {span_text(head.rows.span)}"
    places = [place for place in head.most_read(MOST_READ) if head.received_shares[place] > 0]
    positions = [head.columns.span[place] for place in places]
    values = head.received_shares[places].tolist(), head.even_shares[places].tolist()
    title = title_with_head(head, whose)
    return token_bars(head.columns.tokens, title, "share", positions, *values)


def row_bars(head: Head, most: int = MOST_ATTENDED) -> RankedBars:
    """Return the keys that the first query of a head attends to most as bars."""
    weights, evens = np.zeros((2, len(head.columns.tokens)))
    keys = head.columns.as_slice
    weights[keys], evens[keys] = head.facts.cells.values[0], head.even_row
    title = f"what {quoted_label(head.rows.tokens, head.rows.span[0])} attends to"
    return attended_bars(head.columns.tokens, title_with_head(head, title), weights, evens, most)


def row_table(head: Head) -> Grid:
    """Return how much of a query's attention goes to each part of the text, as a table."""
    rows = np.stack([head.facts.cells.values[0].astype(float), head.even_row], axis=1)
    side = Side(head.columns.tokens, head.columns.span, -(-len(rows) // TABLE_ROWS))
    sums = np.add.reduceat(rows, np.arange(0, len(rows), side.size))
    return Grid(
        title=title_with_head(head, "sums along the text"),
        rows=side_axis("keys", side),
        columns=plain_axis("sum", ["weight", "if even"]),
        cells=unmasked_cells(sums),
        scale=colorless_scale("weight"),
        decimals=3,
    )


def attended_bars(
    keys: Tokens,
    title: str,
    weights: Float[np.ndarray, "key"],
    evens: Float[np.ndarray, "key"],
    most: int = MOST_ATTENDED,
) -> RankedBars:
    """Return the keys with the largest weights as bars, each with its passage."""
    order = np.argsort(-weights, kind="stable")[:most]
    chosen = [int(position) for position in order if weights[position] > 0]
    values = weights[chosen].tolist(), evens[chosen].tolist()
    return token_bars(keys, title, "weight", chosen, *values)


def token_bars(
    tokens: Tokens,
    title: str,
    measure: str,
    positions: Sequence[int],
    values: Sequence[float],
    evens: Sequence[float],
) -> RankedBars:
    """Return tokens as bars, each with its passage."""
    numbers = tuple(f"{position + 1:,}" for position in positions)
    labels = tuple(label_at(tokens, position) for position in positions)
    rows = Axis("token", "token", labels, numbers, (False,) * len(positions))
    passages = [passage(tokens, position) for position in positions]
    return bars_with_words(title, measure, rows, passages, values, evens)


def bars_with_words(
    title: str,
    measure: str,
    rows: Axis,
    words: Sequence[str],
    values: Sequence[float],
    evens: Sequence[float],
) -> RankedBars:
    """Return values as bars, each with words, and with how many times the value it has that even
    attention would give (`evens`).
    """
    cells = unmasked_cells(np.array(values)[:, None])
    grid = Grid(
        title=title,
        rows=rows,
        columns=plain_axis(measure, [measure]),
        cells=cells,
        scale=replace(bar_scale(cells), label=measure),
        note=EVEN_NOTE if values else "",
    )
    ratios = map(even_remark, values, evens)
    remarks = (" · ".join(pair) for pair in zip(ratios, words, strict=True))
    return RankedBars(grid, tuple(remarks))


def without_passages(groups: Sequence[Group]) -> list[Group]:
    """Return groups whose rankings, where there are several, have no passages beside their bars:
    side by side they have no room for them. How they compare with an even spread stays.
    """
    rankings = [each for group in groups for each in group.panels if isinstance(each, RankedBars)]
    if len(rankings) < 2:
        return [*groups]
    shorten = partial(_without_passages, sign="× even" if len(rankings) == 2 else "×")
    return [replace(group, panels=tuple(map(shorten, group.panels))) for group in groups]


def _without_passages(panel: Drawable, sign: str) -> Drawable:
    """Return a ranking whose remarks are ratios alone, such as `3.0 ×`; any other panel as it is.

    `sign`: how much of `× even` there is room for.
    """
    if not isinstance(panel, RankedBars):
        return panel
    remarks = (each.partition(" · ")[0].replace("× even", sign) for each in panel.remarks)
    grid = replace(panel.grid, note=panel.grid.note.replace("× even", sign, 1))
    return replace(panel, grid=grid, remarks=tuple(remarks))
