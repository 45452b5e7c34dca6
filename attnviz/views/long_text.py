"""The View of a long text: maps of blocks, profiles, the most attended tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.heads.head import Head
from attnviz.traces.trace import Trace
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.long_map import LongMap
from attnviz.views.heads.bars import most_read_bars, row_bars, row_table
from attnviz.views.heads.data import long_text_data
from attnviz.views.heads.explorer import explore_heads
from attnviz.views.heads.findings import headline_of, row_finding, whole_finding, whole_findings
from attnviz.views.heads.grid import head_grid, long_map, measured_heads, profile_table
from attnviz.views.heads.passages import paragraph_starts
from attnviz.views.heads.text_view import view_of_heads
from attnviz.views.view import Excerpt, Group, View

MAX_LONG_MAPS = 12  # heads of a picture with true axes; more are small maps
MORE_HINT = "(--full also shows numbers along the text, and the tokens that are read most)"


def view_long(
    trace: Trace, query: int | str | None = None, *, log: bool = False, as_: str | None = None
) -> View:
    """Return the View of a Trace whose weights are computed only where they are shown; with a
    query, of its exact row. `as_` "terminal": an .svg shows what a terminal shows.
    """
    heads = measured_heads(trace)
    excerpt, typed, position = None, None, None
    if query is None:
        headline = headline_of(heads[0], whole_finding(heads[0]))
        screen, picture = map_groups(heads, log=log)
        excerpt = Excerpt(tuple(screen[:1]), MORE_HINT)
    else:
        position = trace.tokens.index(query, "query")
        rows, typed = [head.row(position) for head in heads], trace.tokens.as_typed(query)
        headline = headline_of(heads[0], row_finding(rows[0]))
        picture = [Group("readings", tuple(map(row_bars, rows)))]
        tables = [Group("along the text", tuple(map(row_table, rows)))]
        screen = [*picture, *tables]
    return view_of_heads(
        trace,
        headline,
        screen,
        picture,
        {"query": typed, "log": log or None, "as_": as_},
        excerpt=excerpt,
        as_screen=as_ == "terminal",
        head_explorer=lambda: explore_heads(heads, query=position, log=log),
        data=long_text_data(trace, heads),
    )


def map_groups(heads: Sequence[Head], *, log: bool) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture: maps, numbers along the text of a single
    head, and what is read most.
    """
    grids = Group("weights", tuple(head_grid(head, log=log) for head in heads))
    most_read = Group("most read", (most_read_bars(heads[0]),))
    if len(heads) > MAX_LONG_MAPS:
        return [grids, most_read], [grids]
    if len(heads) > 1:
        return [grids, most_read], _several_maps(heads, log=log)
    [head], [grid] = heads, grids.panels
    assert isinstance(grid, Grid)
    picture = [Group("weights", (long_map(head, grid, paragraph_starts(head.columns.tokens)),))]
    return [grids, Group("along the text", (profile_table(head),)), most_read], picture


def _several_maps(heads: Sequence[Head], *, log: bool) -> list[Group]:
    """Return a group for each layer, with the long maps of its heads on one scale."""
    texts = {id(head.columns.tokens): head.columns.tokens for head in heads}
    starts = {text: paragraph_starts(tokens) for text, tokens in texts.items()}
    grids = with_common_scales([head_grid(head, log=log) for head in heads])
    groups: dict[str, list[LongMap]] = {}
    for head, grid in zip(heads, grids, strict=True):
        drawn_map = long_map(head, grid, starts[id(head.columns.tokens)])
        with_findings = replace(drawn_map, findings=whole_findings(head))
        groups.setdefault(head.layer.name, []).append(with_findings)
    return [Group(f"weights {name}", tuple(maps)) for name, maps in groups.items()]
