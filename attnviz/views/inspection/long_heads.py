"""The heads of a trained model on a long text: maps of blocks, exact rows, data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from jaxtyping import Float

from attnviz.analysis.inspection.inspect_options import HIDE_OPTIONS, UNITS_BY_OPTION
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import maps_of_heads
from attnviz.analysis.inspection.patterns import most_attended_keys
from attnviz.analysis.inspection.token_query import find_in_side
from attnviz.errors import AttnvizError, opt
from attnviz.heads.head import Head
from attnviz.heads.side import label_at
from attnviz.traces.archive import Contents
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.conclusions.findings import (
    ComparedAmount,
    Finding,
    choose_sentence,
    finding_on,
    otherwise,
)
from attnviz.views.grids.axes import ALL_MASKED_TEXT, plain_axis
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.bars import (
    attended_bars,
    row_bars,
    row_table,
    token_bars,
    without_passages,
)
from attnviz.views.heads.data import long_text_data
from attnviz.views.heads.explorer import explore_heads
from attnviz.views.heads.findings import key_text, query_text, row_finding, whole_finding
from attnviz.views.heads.grid import head_grid, measured_head
from attnviz.views.heads.passages import quoted_label
from attnviz.views.heads.sentences import (
    attends_most,
    attends_to,
    beside_even,
    heads_text,
    receives,
)
from attnviz.views.inspection.head_kinds import head_flags, head_kinds_data, head_kinds_document
from attnviz.views.long_text import map_groups
from attnviz.views.view import Group, TableData

Panels = tuple[list[Group], list[Group], str]  # of a screen and of a picture, and their title
CHANGING_OPTIONS = ("merge", "source", "part", *UNITS_BY_OPTION, *HIDE_OPTIONS)


def is_long(inspection: Inspection) -> bool:
    """Return whether the heads of an Inspection are shown as those of a long text.

    Refuses what would need all weights at once.
    """
    options = inspection.options
    if inspection.trace.layers[0].streamed_weights is None:
        return False
    needs_all = {
        "merge": options.merge == "rollout",
        "weigh": options.weigh == "gradient",
        "as_": options.as_ == "arcs",
    }
    is_chosen = inspection.trace.origin.settings.stream
    way = f"give a shorter text or a larger {opt.memory_budget}"
    way = f"leave {opt.stream} out" if is_chosen else way
    for name in (name for name, needs in needs_all.items() if needs):
        raise AttnvizError(
            f"{opt[name]:{getattr(options, name)}} needs all weights at once, and of this text "
            "they are computed only where they are shown",
            f"leave {opt[name]} out, or {way}",
            about=name,
        )
    is_changed = any(getattr(options, name) not in (None, False) for name in CHANGING_OPTIONS)
    is_changed |= options.as_ == "sentence"
    return options.weigh == "weight" and options.by == "pattern" and not is_changed


def chosen_long_heads(inspection: Inspection, *, all_of_layers: bool = False) -> list[Head]:
    """Return the chosen heads, or all heads of their layers."""
    trace, chosen = inspection.trace, inspection.head_maps
    if all_of_layers:
        chosen = maps_of_heads(trace, replace(inspection.options, head=None))
    return [measured_head(trace, each.layer, each.number) for each in chosen]


def show_map(inspection: Inspection) -> Panels:
    """Return the panels of one head with its numbers along the text, and what stands out in it."""
    [head] = chosen_long_heads(inspection)
    screen, picture = map_groups([head], log=inspection.options.log)
    return screen, picture, f"{head.title}: {whole_finding(head)}"


def show_maps(inspection: Inspection) -> Group:
    grids = (head_grid(head, log=inspection.options.log) for head in chosen_long_heads(inspection))
    return Group("weights", tuple(grids))


def show_row(inspection: Inspection, query: int | str) -> Panels:
    """Return what one token attends to, exactly, in one head or in the mean of several, and a
    sentence on it."""
    row = find_in_side(inspection.head_maps[0].rows, inspection.options, query, "query")
    heads = chosen_long_heads(inspection)
    if len(heads) == 1:
        [head] = heads
        own_row = head.row(row)
        bars = Group("readings", (row_bars(own_row),))
        table = Group("along the text", (row_table(own_row),))
        return [bars, table], [bars], f"{head.title}: {row_finding(own_row)}"
    rows = [head.row(row) for head in heads]
    weights = np.stack([each.facts.cells.values[0].astype(float) for each in rows])
    evens = np.stack([each.even_row for each in rows])
    name = quoted_label(heads[0].rows.tokens, row)
    of_all = f"what {name} attends to, mean of {len(heads)} heads"
    means = attended_bars(heads[0].columns.tokens, of_all, weights.mean(0), evens.mean(0))
    by_head = _heads_by_largest_weight(heads, weights, evens)
    groups = [Group("readings", (means,)), Group("heads", (by_head,))]
    title = choose_sentence(ROW_OF_HEADS_FINDINGS, RowOfHeads(heads[0], row, weights, evens))
    return groups, without_passages(groups), f"{title[:1].upper()}{title[1:]}"


def _heads_by_largest_weight(
    heads: Sequence[Head],
    weights: Float[np.ndarray, "head key"],
    evens: Float[np.ndarray, "head key"],
) -> RankedBars:
    """Return the heads in which the query attends most to one key, each with that key."""
    tops = weights.argmax(1)
    largest, even = (
        np.take_along_axis(rows, tops[:, None], axis=1)[:, 0] for rows in (weights, evens)
    )
    order = np.argsort(-largest, kind="stable").tolist()
    keys, values = heads[0].columns.tokens, (largest[order].tolist(), even[order].tolist())
    bars = token_bars(keys, "its largest weight", "weight", tops[order].tolist(), *values)
    names = [f"{heads[each].title} {label_at(keys, tops[each])} {tops[each] + 1:,}"
             for each in order]  # fmt: skip
    rows = replace(plain_axis("head", names), unit="head")
    return replace(bars, grid=replace(bars.grid, rows=rows))


@dataclass(frozen=True, eq=False)
class RowOfHeads:
    """The weights of one query in several heads, beside those of an even spread."""

    head: Head  # the first
    query: int
    weights: Float[np.ndarray, "head key"]
    evens: Float[np.ndarray, "head key"]

    @cached_property
    def common_key(self) -> tuple[int, int]:
        """The key to which the query attends most in the largest number of heads, and that number;
        0 if several keys tie in every head."""
        tops = Counter(most_attended_keys(self.weights).tolist())
        del tops[-1]  # of heads in which several keys tie
        return tops.most_common(1)[0] if tops else (0, 0)


def _common_key_amount(row: RowOfHeads) -> ComparedAmount:
    key, _ = row.common_key
    return beside_even(float(row.weights[:, key].mean()), float(row.evens[:, key].mean()))


def _common_key_text(row: RowOfHeads, amount: ComparedAmount) -> str:
    key, count = row.common_key
    who = f"in {heads_text(count, len(row.weights))} {query_text(row.head, row.query)}"
    most = attends_most(who, key_text(row.head, row.query, key))
    return f"{most}, {receives('which', amount, 'its attention on average')}"


ROW_OF_HEADS_FINDINGS: tuple[Finding[RowOfHeads], ...] = (
    Finding(
        "a row of nothing in heads",
        lambda row: not row.weights.any(),
        lambda row: attends_to(query_text(row.head, row.query), ALL_MASKED_TEXT),
    ),
    Finding(
        "keys that tie in every head",
        lambda row: row.common_key[1] == 0,
        lambda row: attends_to(
            query_text(row.head, row.query), "several tokens equally in every head"
        ),
    ),
    finding_on(_common_key_amount, "the key of most heads", otherwise, _common_key_text),
)


def explore_long_heads(inspection: Inspection) -> HeadExplorer:
    """Return the maps of all heads of the layers for a page, which opens with the chosen one."""
    options = inspection.options
    heads = chosen_long_heads(inspection, all_of_layers=True)
    explorer = explore_heads(heads, log=options.log)
    if options.layer is None and options.head is None:
        flags = head_flags(inspection)
        first = flags[0].map_index if flags else 0
        return replace(explorer, flags=flags, first=first)
    names = [head.title for head in heads]
    return replace(explorer, first=names.index(inspection.head_maps[0].name))


def long_heads_data(inspection: Inspection) -> TableData:
    """Return the maps of blocks of all heads as data, with a table of what kind each head is; of
    one head, all numbers along the text."""
    heads = chosen_long_heads(inspection)
    if len(heads) == 1:
        return long_text_data(inspection.trace, heads)
    kinds = head_kinds_data(inspection)
    return TableData(
        "long-heads", partial(_maps_contents, inspection, heads), kinds.header, kinds.lines
    )


def _maps_contents(inspection: Inspection, heads: Sequence[Head]) -> Contents:
    maps = {}
    for head in heads:
        grid = head_grid(head, log=False)
        maps[head.title] = {"map": grid.cells.window(slice(None), slice(None)).values}
    summary, _ = heads[0].map_summary
    return {
        "tokens": {"ids": np.array(inspection.trace.tokens.ids),
                   "count": len(inspection.trace.tokens)},
        "queries_per_row": summary.row_height,
        "keys_per_column": summary.column_width,
        "pool": summary.pool,
        "hidden": tensor_to_numpy(summary.hidden),
        "maps": maps,
        "inspection": head_kinds_document(inspection),
    }  # fmt: skip
