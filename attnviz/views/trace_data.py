"""The numbers of a Trace for files and pages: every weight, all heads to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attnviz.analysis.base_weights import BaseWeights
from attnviz.cells import FULL_SLICE, Cells, LazyCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.conclusions.weight_titles import head_read_for_answer
from attnviz.views.grids.axes import AXES_NOTE, GENERATED_NOTE, Axis
from attnviz.views.grids.explorer import (
    MAX_SEARCHED_CELLS,
    HeadExplorer,
    HeadMap,
    arrange_heads,
    find_strongest_row,
)
from attnviz.views.head_vectors import missing_vectors_reason, read_head_vectors
from attnviz.views.heads.data import WEIGHT_COLUMNS, weight_lines
from attnviz.views.heads.grid import whole_heads
from attnviz.views.reading import generation_start, token_axis
from attnviz.views.view import TableData


def build_trace_data(trace: Trace) -> TableData:
    lines = partial(weight_lines, whole_heads(trace))
    return TableData("trace", partial(_trace_contents, trace), WEIGHT_COLUMNS, lines)


def _trace_contents(trace: Trace) -> Mapping[str, Any]:
    from attnviz.traces.archive import trace_contents

    return trace_contents(trace)


def explore_trace(
    trace: Trace,
    query: int | None = None,
    key: int | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> HeadExplorer:
    """Return every head of every attention, for a reader to choose from; without a query and a key,
    the position of the answer that counts most is followed, if there is one.

    The head shown first is the first that fits `layer` and `head`; with neither, the one that is
    read for the answer, as the title says, or else the one with the largest weight; of a trained
    transformer, whose heads are many, the one with the largest weight above its base rate, and its
    row.
    """
    attended = (trace.tokens, *(trace.keys_of(attention) for attention in trace.attention_layers))
    sides = {id(tokens): _token_side(trace, tokens) for tokens in attended}
    heads, is_chosen = list[tuple[str, str, HeadMap]](), list[bool]()
    places = list[tuple[Layer, int]]()
    for each in whole_heads(trace):
        attention, number = each.layer, each.number
        head_map = HeadMap(
            name=each.name,
            query_axis=sides[id(trace.tokens)],
            key_axis=sides[id(each.columns.tokens)],
            weights=lazy_weights(trace, attention, number),
            scores=lazy_scores(trace, attention, number),
            vectors=read_head_vectors(trace, attention, number),
            off=each.is_off,
        )
        heads.append((attention.name, f"H{number}", head_map))
        places.append((attention, number))
        is_chosen.append(layer in (None, attention.layer) and head in (None, number))
    of_answer = None
    if query is None and key is None and trace.prediction is not None:
        query = trace.prediction.main_position
        of_answer = head_read_for_answer(trace) if (layer, head) == (None, None) else None
    first = is_chosen.index(True) if any(is_chosen) else 0
    maps = [head_map for *_, head_map in heads]
    if of_answer is not None:
        query, layer_read, number_read = of_answer
        first = places.index((layer_read, number_read))
    elif layer is None and head is None and trace.trained is None:
        first = _strongest_head_index(maps, query)
    elif layer is None and head is None:
        links = [find_telling_link(head_map, query) for head_map in maps]
        first = max(range(len(links)), key=lambda index: links[index].lift)
        query = links[first].query if key is None else query
    border = any(side.border for side in sides.values())
    note = f"{AXES_NOTE} · {GENERATED_NOTE}" if border else AXES_NOTE
    return arrange_heads(
        heads,
        query=query,
        key=key,
        first=first,
        note=note,
        without_vectors=missing_vectors_reason(trace, trace.attention_layers[0]),
    )


def _strongest_head_index(heads: Sequence[HeadMap], query: int | None) -> int:
    """Return the index of the head with the largest weight, in the row of the query if there is
    one; heads that are off count last.
    """

    def strongest_weight(head: HeadMap) -> float:
        if head.off:
            return -1.0
        if query is None:
            return find_strongest_row(head)[0]
        row = head.weights.row(query)
        return float(np.where(row.hidden, 0.0, row.values).max(initial=0.0))

    weights = list(map(strongest_weight, heads))
    return weights.index(max(weights))


class TellingLink(NamedTuple):
    """The query of the weight that is furthest above its base rate, and by how much."""

    lift: float
    query: int


def find_telling_link(head: HeadMap, query: int | None = None) -> TellingLink:
    """Return the link that tells most of a head, among all or of one query: neither to special
    tokens or the query itself, nor what other queries give that key or the key at that distance.

    A head of more than MAX_SEARCHED_CELLS is not searched: the result is 0 and the last row.
    """
    rows, columns = head.weights.shape
    if rows * columns > MAX_SEARCHED_CELLS:
        return TellingLink(0.0, rows - 1 if query is None else query)
    is_one_side = head.query_axis is head.key_axis
    special_queries, special_keys = (
        np.array(axis.special or [False] * len(axis.labels), dtype=bool)
        for axis in (head.query_axis, head.key_axis)
    )
    own_columns = np.arange(rows) if is_one_side else np.full(rows, -1)
    bases = BaseWeights(head.weights, ~special_queries, own_columns, special_keys)
    queries = slice(None) if query is None else slice(query, query + 1)
    patch = head.weights.window(queries, FULL_SLICE)
    is_own = np.arange(columns) == own_columns[queries, None]
    left_out = patch.hidden | is_own | special_keys
    if query is None:
        left_out |= special_queries[:, None]
    lifts = np.where(
        left_out, 0.0, np.nan_to_num(patch.values - np.nan_to_num(bases.larger(queries)))
    )
    best = lifts.max(axis=1, initial=0.0)
    row = int(best.argmax())
    return TellingLink(float(best[row]), row if query is None else query)


def lazy_weights(trace: Trace, layer: Layer, head: int) -> Cells:
    return LazyCells(_map_shape(trace, layer), partial(layer.weights.cells, "mixing", head))


def lazy_scores(trace: Trace, layer: Layer, head: int) -> Cells | None:
    """Return the scores as the softmax receives them, computed when they are needed; None where
    only weights are known or values are not mixed by the plain softmax.
    """
    if layer.attended.mixed_by != "softmax" or layer.weights_alone or not layer.weights.has_scores:
        return None
    return LazyCells(_map_shape(trace, layer), partial(layer.weights.cells, "masked scores", head))


def _map_shape(trace: Trace, layer: Layer) -> tuple[int, int]:
    return len(trace.tokens), len(trace.keys_of(layer))


def _token_side(trace: Trace, tokens: Tokens) -> Axis:
    """Return the axis of these tokens, as queries if they are the trace's own, else as keys, with a
    line before generated tokens.
    """
    title = "query (reads)" if tokens is trace.tokens else "key (is read)"
    return token_axis(title, tokens, generation_start(trace, tokens))
