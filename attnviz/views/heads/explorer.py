"""Heads for a reader of a page to choose from: the weights of texts and of parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.heads.head import Head
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.heads.grid import NOWHERE, head_grid, side_axis

SharedAxes = dict[tuple[int, object], Axis]  # by the text and its groups: heads share them


def map_of_head(head: Head, axes: SharedAxes, *, prompt: int | None = None) -> HeadMap:
    """Return a head for a reader to choose; a border stands after the first `prompt` tokens."""
    titled = (("key (is read)", head.columns), ("query (reads)", head.rows))
    key_axis, query_axis = (
        axes.setdefault((id(side.tokens), side.groups), side_axis(title, side, prompt))
        for title, side in titled
    )
    return HeadMap(
        name=head.name,
        query_axis=query_axis,
        key_axis=key_axis,
        weights=head.cells,
        share=head.are_shares,
    )


def explore_heads(
    heads: Sequence[Head],
    *,
    log: bool,
    query: int | None = None,
    blocks: Sequence[tuple[int, int]] | None = None,
    note: str = AXES_NOTE,
    starts: frozenset[int] = NOWHERE,
) -> HeadExplorer:
    """Return the maps of heads; the row with a query is followed. `blocks`: how many queries and
    keys are in a cell of each, if not as many as in its own; `starts`: where paragraphs begin.
    """
    explored, axes = list[tuple[str, str, HeadMap]](), dict[object, tuple[Axis, Axis]]()
    pool_note = ""
    for head, block in zip(heads, blocks or [head.block for head in heads], strict=True):
        grid = head_grid(head, log=log, block=block, title="", note="", starts=starts)
        sides = id(head.columns.tokens), head.columns.span, block
        query_axis, key_axis = axes.setdefault(
            sides, (axis_of_words(grid.rows), axis_of_words(grid.columns))
        )
        if query_axis.names == key_axis.names and head.reads_itself:
            key_axis = query_axis  # both sides are one
        head_map = HeadMap(
            name=head.name,
            query_axis=query_axis,
            key_axis=key_axis,
            weights=grid.cells,
            share=grid.share and (head.is_measured or head.has_all_keys),
            off=head.is_off,
        )
        explored.append((head.layer.name, f"H{head.number}", head_map))
        pool_note = grid.pool_note
    return arrange_heads(
        explored,
        query=None if query is None else query // heads[0].rows.size,
        log=log,
        note=" · ".join(filter(None, (note, pool_note))),
    )


def axis_of_words(axis: Axis) -> Axis:
    """Return an axis whose blocks are words, as a page writes them one after another."""
    if any(axis.labels):
        return axis
    count = len(axis)
    spaced = (True,) * count
    return replace(axis, unit="block", labels=axis.numbers, numbers=("",) * count, spaced=spaced)
