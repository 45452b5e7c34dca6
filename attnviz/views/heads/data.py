"""Tables of heads: every weight, and what was measured of each token of a long text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attnviz.cells import CellMask
from attnviz.heads.head import CELLS_AT_ONCE, Head
from attnviz.heads.side import Side
from attnviz.machine import memory
from attnviz.traces.early_checks import refuse_oversized_data
from attnviz.traces.trace import Trace
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.heads.passages import paragraph_starts
from attnviz.views.view import HEAD_COLUMNS, TableData, TableLines, WordColumns, head_cells

KEY_COLUMNS = ("query number", "query", "key number", "key")
WEIGHT_COLUMNS = (*HEAD_COLUMNS, *KEY_COLUMNS, "weight", "visible")
QUERY_NUMBERS = (  # of each query
    *("entropy", "largest_weight", "on_first", "on_self", "on_previous", "mean_distance"),
)
NUMBER_COLUMNS = (
    *(*HEAD_COLUMNS, "token number", "token", "received", "received if even", *QUERY_NUMBERS),
    "number of the most read token",
)


def token_columns(side: Side) -> WordColumns:
    """Return the numbers, from 1, and the labels of the tokens of a side."""
    return WordColumns((tuple(str(position + 1) for position in side.span), side.labels))


def cells_of_head(head: Head) -> tuple[str, ...]:
    return head_cells(head.layer.head_name(head.number))


def weight_lines(heads: Sequence[Head]) -> Iterator[TableLines]:
    """Yield a line for each weight: of each head, the keys of one query after another."""
    for head in heads:
        queries, keys, labels = head.rows.span, head.columns.as_slice, head.rows.labels
        words = token_columns(head.columns)
        step = max(1, CELLS_AT_ONCE // len(head.columns.span))
        for first in range(queries.start, queries.stop, step):
            rows = slice(first, min(first + step, queries.stop))
            values = head.table.window(rows, keys).values
            bands = zip(values, visible_keys(head, rows), strict=True)
            for query, numbers in enumerate(bands, start=first):
                label = labels[query - queries.start]
                yield TableLines((*cells_of_head(head), query + 1, label), words, numbers)


def visible_keys(head: Head, rows: slice) -> CellMask:
    """Return which keys of a head the mask lets some queries attend to."""
    rule, device = head.layer.mask_rule.for_head(head.number), head.layer.inputs.device
    return ~tensor_to_numpy(rule.hidden(rows, head.columns.as_slice, device).T)


def weights_budget(trace: Trace) -> int:
    budget: str | None = trace.provenance.settings.get("memory_budget")
    return memory.memory_budget(budget, memory.free_bytes())


def part_data(trace: Trace, heads: Sequence[Head]) -> TableData:
    """Return all weights of a part as data, with a line of the table for each; refused where they
    exceed the memory budget.
    """
    contents, lines = partial(_part_contents, trace, heads), partial(_part_lines, trace, heads)
    return TableData("window", contents, WEIGHT_COLUMNS, lines)


def _refuse_oversized_part(trace: Trace, heads: Sequence[Head]) -> None:
    budget = weights_budget(trace)
    refuse_oversized_data(len(heads), len(heads[0].rows.span), len(heads[0].columns.span), budget)


def _part_contents(trace: Trace, heads: Sequence[Head]) -> Mapping[str, Any]:
    """Return the weights of a part as JSON data with arrays: numbers of tokens count from 1."""
    _refuse_oversized_part(trace, heads)
    parts: dict[str, dict[str, Any]] = {}
    for each in heads:
        queries, keys = each.rows.span, each.columns.span
        facts = each.part(queries, keys).facts
        described = {
            "first_query": queries[0] + 1,
            "first_key": keys[0] + 1,
            "queries": list(each.rows.labels),
            "keys": list(each.columns.labels),
        }
        part = parts.setdefault(each.layer.name, {**described, "heads": []})
        part["heads"].append({
            "head": each.number,
            "weights": facts.cells.values,
            "visible": visible_keys(each, each.rows.as_slice),
            "weight_on_shown_keys": facts.shown,
            "weight_on_all_keys": facts.totals,
        })  # fmt: skip
    return {"parts": parts}


def _part_lines(trace: Trace, heads: Sequence[Head]) -> Iterator[TableLines]:
    _refuse_oversized_part(trace, heads)
    yield from weight_lines(heads)


def long_text_data(trace: Trace, heads: Sequence[Head]) -> TableData:
    """Return the maps and the numbers of each token as data, with a line of the table for each
    token of each head.
    """
    return TableData(
        "long-text",
        partial(_text_summary_contents, trace, heads),
        NUMBER_COLUMNS,
        partial(_token_lines, heads),
    )


def _text_summary_contents(trace: Trace, heads: Sequence[Head]) -> Mapping[str, Any]:
    """Return everything that was measured as JSON data with arrays."""
    from attnviz.traces.archive import summary_contents, trace_contents

    by_layer: dict[str, list[Head]] = {}
    for head in heads:
        is_alone = len(head.summary[0].contexts) < head.layer.heads
        by_layer.setdefault(head.title if is_alone else head.layer.name, []).append(head)
    if trace.trained is None:
        contents = trace_contents(trace)
    else:  # whose vectors are not kept
        contents = {"text": trace.tokens.text, "tokens": {"ids": np.array(trace.tokens.ids)}}
    return {
        **contents,
        "tokens": {**contents["tokens"], "count": len(trace.tokens)},
        "paragraphs": np.array(paragraph_starts(trace.tokens)),
        "maps": {
            name: {
                **summary_contents(measured[0].summary[0]),
                "received_if_even": np.stack([head.even_received for head in measured]),
            }
            for name, measured in by_layer.items()
        },
    }


def _token_lines(heads: Sequence[Head]) -> Iterator[TableLines]:
    """Yield the table lines of each head: what each token receives, and what its row is like."""
    words = token_columns(heads[0].rows)
    for head in heads:
        most_read = head.numbers("largest_position") + 1
        unknown = np.full(len(head.rows.tokens), np.nan)
        received = (head.received, head.even_received) if head.reads_itself else (unknown, unknown)
        columns = (*received, *(head.numbers(name) for name in QUERY_NUMBERS), most_read)
        yield TableLines(cells_of_head(head), words, columns)
