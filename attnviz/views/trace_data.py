"""What files and pages contain of a Trace: every weight, and all heads to explore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attnviz.cells import Cells, LazyCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import head_mask, tensor_to_numpy
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads, find_strongest_row
from attnviz.views.reading import attention_head_name, generation_start, token_axis
from attnviz.views.view import TableData, TableLines, WordColumns

WEIGHT_COLUMNS = (
    "layer",
    "head",
    "query number",
    "query",
    "key number",
    "key",
    "weight",
    "visible",
)


def build_trace_data(trace: Trace) -> TableData:
    """Everything in a Trace; and a line for each weight, for spreadsheets and data frames."""
    return TableData(
        partial(_trace_contents, trace), WEIGHT_COLUMNS, partial(_trace_weight_lines, trace)
    )


def _trace_contents(trace: Trace) -> Mapping[str, Any]:
    from attnviz.traces.archive import trace_contents

    return trace_contents(trace)


def _trace_weight_lines(trace: Trace) -> Iterator[TableLines]:
    for layer in trace.attentions:
        for head in range(layer.heads):
            yield from _head_weight_lines(trace, layer, head)


def _head_weight_lines(trace: Trace, layer: Layer, head: int) -> Iterator[TableLines]:
    """All keys of a query at once."""
    keys, visible = trace.keys_of(layer).labels, tensor_to_numpy(head_mask(head, layer.visible))
    words = WordColumns((tuple(str(number) for number in range(1, len(keys) + 1)), tuple(keys)))
    cells, name = layer.weights.cells("mixing", head), layer.name.removeprefix("L")
    for query, label in enumerate(trace.tokens.labels):
        weights = cells.row(query).values[0]
        yield TableLines((name, head, query + 1, label), words, (weights, visible[query]))


def explore_trace(
    trace: Trace,
    query: int | None = None,
    key: int | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> HeadExplorer:
    """Every head of every attention that happened to a sentence.

    That is first which is named; else the one with the strongest link, as the title says.
    """
    sides = {id(tokens): _token_side(trace, tokens) for tokens in _attended_tokens(trace)}
    numbered = [(each, number) for each in trace.attentions for number in range(each.heads)]
    heads = [
        (
            each.name,
            f"H{number}",
            HeadMap(
                name=attention_head_name(trace, each, number),
                query_axis=sides[id(trace.tokens)],
                key_axis=sides[id(trace.keys_of(each))],
                weights=lazy_weights(trace, each, number),
                scores=lazy_scores(trace, each, number),
                off=number in each.off,
            ),
        )
        for each, number in numbered
    ]
    if query is None and key is None:
        query = _single_asking_position(trace)
    matching_heads = [
        index
        for index, (each, number) in enumerate(numbered)
        if layer in (None, each.layer) and head in (None, number)
    ]
    first = next(iter(matching_heads), 0)
    if layer is None and head is None:
        first = _strongest_head_index([each for *_, each in heads], query)
    border = any(side.border for side in sides.values())
    note = f"{AXES_NOTE} · {GENERATED_NOTE}" if border else AXES_NOTE
    return arrange_heads(heads, query=query, key=key, first=first, note=note)


def _single_asking_position(trace: Trace) -> int | None:
    """The one place at which a model is asked for an answer, if there is one."""
    prediction = trace.prediction
    return prediction.asked[0] if prediction is not None and len(prediction.asked) == 1 else None


def _strongest_head_index(heads: Sequence[HeadMap], query: int | None) -> int:
    """The head with the strongest link, or in which a token has its own; never one that is off."""
    sizes = [
        -1.0
        if head_map.off
        else find_strongest_row(head_map)[0]
        if query is None
        else _largest_row_weight(head_map, query)
        for head_map in heads
    ]
    return sizes.index(max(sizes))


def _largest_row_weight(head: HeadMap, query: int) -> float:
    patch = head.weights.row(query)
    return float(np.where(patch.hidden, 0.0, patch.values).max(initial=0.0))


def lazy_weights(trace: Trace, layer: Layer, head: int) -> Cells:
    """What a head mixes values by."""
    return LazyCells(_map_shape(trace, layer), partial(layer.weights.cells, "mixing", head))


def lazy_scores(trace: Trace, layer: Layer, head: int) -> Cells | None:
    """What the softmax receives, where its result is what values are mixed by."""
    if layer.attended.mixed_by != "softmax" or layer.weights_alone:
        return None
    return LazyCells(_map_shape(trace, layer), partial(layer.weights.cells, "masked scores", head))


def _map_shape(trace: Trace, layer: Layer) -> tuple[int, int]:
    return len(trace.tokens), len(trace.keys_of(layer))


def _attended_tokens(trace: Trace) -> tuple[Tokens, ...]:
    return (trace.tokens, *(trace.keys_of(layer) for layer in trace.attentions))


def _token_side(trace: Trace, tokens: Tokens) -> Axis:
    title = "query (reads)" if tokens is trace.tokens else "key (is read)"
    return token_axis(title, tokens, generation_start(trace, tokens))
