"""The View of a long text: maps of blocks, profiles, the most attended tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.heads.head import Head
from attnviz.traces.trace import Trace
from attnviz.views.exact_rows import exact_rows
from attnviz.views.grids.grid import Grid, with_common_scales
from attnviz.views.grids.long_map import LongMap
from attnviz.views.heads.bars import most_read_bars, row_bars, row_table, without_passages
from attnviz.views.heads.data import long_text_data, part_data
from attnviz.views.heads.explorer import explore_heads
from attnviz.views.heads.findings import headline_of, row_finding, whole_finding, whole_findings
from attnviz.views.heads.grid import head_grid, long_map, measured_heads, profile_table
from attnviz.views.heads.passages import paragraph_starts
from attnviz.views.notes import heads_off_notes
from attnviz.views.part_of_text import heads_of_part
from attnviz.views.trace_choices import TraceChoices, shared_fields
from attnviz.views.view import Excerpt, Group, View

MAX_LONG_MAPS = 12  # heads of a picture with true axes; more are small maps
MORE_HINT = "(--full also shows numbers along the text, and the tokens that are read most)"


def view_long(trace: Trace, choices: TraceChoices) -> View:
    """Return the View of a Trace whose weights are computed only where they are shown; with a
    query, of its exact row. With `show`, all its weights are the data: writing them is refused
    where they exceed the memory budget.
    """
    heads, query, log = measured_heads(trace), choices.query, choices.log
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
        screen = [*picture, Group("along the text", tuple(map(row_table, rows)))]
    options = {"query": typed, "log": log or None, "as_": choices.as_, "show": choices.show_text}
    data = long_text_data(trace, heads)
    if choices.show is not None:
        data = part_data(trace, heads_of_part(trace, choices))
    return View(
        **shared_fields(trace, screen, without_passages(picture), options),
        headline=headline,
        excerpt=excerpt,
        closing=heads_off_notes(trace),
        as_screen=choices.as_ == "terminal",
        head_explorer=lambda: explore_heads(heads, query=position, log=log),
        query_steps=exact_rows(heads, heads[0].rows.size, position),
        data=data,
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
