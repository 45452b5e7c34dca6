"""All weights of a part of a text as data: refused where they are too many for a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from attnviz.machine import memory
from attnviz.traces.early_checks import refuse_oversized_data
from attnviz.traces.trace import Trace
from attnviz.views.long_text import label_at
from attnviz.views.part_of_head import CELLS_AT_ONCE, PartOfHead
from attnviz.views.trace_data import WEIGHT_COLUMNS
from attnviz.views.view import TableData, TableLines, WordColumns


def weights_budget(trace: Trace) -> int:
    """Return the bytes that the weights of a Trace may take."""
    budget: str | None = trace.provenance.settings.get("memory_budget")
    return memory.memory_budget(budget, memory.free_bytes())


def part_data(heads: Sequence[PartOfHead]) -> TableData:
    """Return all weights of a part as data, with a line of the table for each; refused where they
    exceed the memory budget.
    """
    return TableData(partial(_part_contents, heads), WEIGHT_COLUMNS, partial(_part_lines, heads))


def _refuse_oversized_part(heads: Sequence[PartOfHead]) -> None:
    """Refuse to write all weights of parts that exceed the memory budget."""
    budget = weights_budget(heads[0].whole.trace)
    refuse_oversized_data(len(heads), len(heads[0].queries), len(heads[0].keys), budget)


def _part_contents(heads: Sequence[PartOfHead]) -> Mapping[str, Any]:
    """Return the weights of a part as JSON data with arrays: numbers of tokens count from 1."""
    _refuse_oversized_part(heads)
    parts: dict[str, dict[str, Any]] = {}
    for each in heads:
        trace, keys = each.whole.trace, each.whole.keys
        weights = replace(each, block=(1, 1)).weights
        described = {
            "first_query": each.queries[0] + 1,
            "first_key": each.keys[0] + 1,
            "queries": [label_at(trace.tokens, position) for position in each.queries],
            "keys": [label_at(keys, position) for position in each.keys],
        }
        part = parts.setdefault(each.whole.layer.name, {**described, "heads": []})
        part["heads"].append({
            "head": each.whole.head,
            "weights": weights.cells.values,
            "visible": ~weights.cells.hidden,
            "weight_on_shown_keys": weights.shown,
            "weight_on_all_keys": weights.totals,
        })  # fmt: skip
    return {"parts": parts}


def _part_lines(heads: Sequence[PartOfHead]) -> Iterator[TableLines]:
    """Yield the table lines of a part: a block for each query, with a line for each key."""
    _refuse_oversized_part(heads)
    for each in heads:
        trace, keys = each.whole.trace, each.whole.keys
        numbers = tuple(str(position + 1) for position in each.keys)
        words = WordColumns((numbers, tuple(label_at(keys, position) for position in each.keys)))
        name = each.whole.layer.name.removeprefix("L")
        step = max(1, CELLS_AT_ONCE // len(keys))
        for first in range(each.queries.start, each.queries.stop, step):
            rows = slice(first, min(first + step, each.queries.stop))
            band = each.all_cells.window(rows, slice(each.keys.start, each.keys.stop))
            for row, (values, hidden) in enumerate(zip(band.values, band.hidden, strict=True)):
                label = label_at(trace.tokens, first + row)
                start = (name, each.whole.head, first + row + 1, label)
                yield TableLines(start, words, (values, ~hidden))
