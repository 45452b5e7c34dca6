"""What files and pages contain of a Trace: every weight, and all heads to explore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attnviz.cells import Cells, Later
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import array, mask_of
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, Axis
from attnviz.views.grids.explored import Explored, HeadMap, arranged, strongest_row
from attnviz.views.reading import name_of_head, token_axis, written_from
from attnviz.views.view import Data, Lines, Words

WEIGHTS = ("layer", "head", "query number", "query", "key number", "key", "weight", "visible")


def data_of(trace: Trace) -> Data:
    """Everything in a Trace; and a line for each weight, for spreadsheets and data frames."""
    return Data(partial(_contents, trace), WEIGHTS, partial(_weights, trace))


def _contents(trace: Trace) -> Mapping[str, Any]:
    from attnviz.traces.archive import contents

    return contents(trace)


def _weights(trace: Trace) -> Iterator[Lines]:
    for layer in trace.attentions:
        for head in range(layer.heads):
            yield from _weights_of(trace, layer, head)


def _weights_of(trace: Trace, layer: Layer, head: int) -> Iterator[Lines]:
    """All keys of a query at once."""
    keys, visible = trace.keys_of(layer).labels, array(mask_of(head, layer.visible))
    words = Words((tuple(str(number) for number in range(1, len(keys) + 1)), tuple(keys)))
    cells, name = layer.weights.cells("mixing", head), layer.name.removeprefix("L")
    for query, label in enumerate(trace.tokens.labels):
        weights = cells.row(query).values[0]
        yield Lines((name, head, query + 1, label), words, (weights, visible[query]))


def explored_of_trace(
    trace: Trace,
    query: int | None = None,
    key: int | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Explored:
    """Every head of every attention that happened to a sentence.

    That is first which is named; else the one with the strongest link, as the title says.
    """
    sides = {id(tokens): _side(trace, tokens) for tokens in _tokens(trace)}
    numbered = [(each, number) for each in trace.attentions for number in range(each.heads)]
    heads = [
        (
            each.name,
            f"H{number}",
            HeadMap(
                name=name_of_head(trace, each, number),
                reads=sides[id(trace.tokens)],
                read=sides[id(trace.keys_of(each))],
                weights=weights_of(trace, each, number),
                scores=scores_of(trace, each, number),
                off=number in each.off,
            ),
        )
        for each, number in numbered
    ]
    if query is None and key is None:
        query = _only_question(trace)
    asked = [
        place
        for place, (each, number) in enumerate(numbered)
        if layer in (None, each.layer) and head in (None, number)
    ]
    first = next(iter(asked), 0)
    if layer is None and head is None:
        first = _telling([each for *_, each in heads], query)
    border = any(side.border for side in sides.values())
    note = f"{AXES_NOTE} · {GOES_ON}" if border else AXES_NOTE
    return arranged(heads, query=query, key=key, first=first, note=note)


def _only_question(trace: Trace) -> int | None:
    """The one place at which a model is asked for an answer, if there is one."""
    made = trace.prediction
    return made.asked[0] if made is not None and len(made.asked) == 1 else None


def _telling(heads: Sequence[HeadMap], query: int | None) -> int:
    """The head with the strongest link, or in which a token has its own; never one that is off."""
    sizes = [
        -1.0 if each.off else strongest_row(each)[0] if query is None else _largest(each, query)
        for each in heads
    ]
    return sizes.index(max(sizes))


def _largest(head: HeadMap, query: int) -> float:
    patch = head.weights.row(query)
    return float(np.where(patch.hidden, 0.0, patch.values).max(initial=0.0))


def weights_of(trace: Trace, layer: Layer, head: int) -> Cells:
    """What a head mixes values by."""
    return Later(_shape(trace, layer), partial(layer.weights.cells, "mixing", head))


def scores_of(trace: Trace, layer: Layer, head: int) -> Cells | None:
    """What the softmax receives, where its result is what values are mixed by."""
    if layer.attended.mixed_by != "softmax" or layer.weights_alone:
        return None
    return Later(_shape(trace, layer), partial(layer.weights.cells, "masked scores", head))


def _shape(trace: Trace, layer: Layer) -> tuple[int, int]:
    return len(trace.tokens), len(trace.keys_of(layer))


def _tokens(trace: Trace) -> tuple[Tokens, ...]:
    return (trace.tokens, *(trace.keys_of(layer) for layer in trace.attentions))


def _side(trace: Trace, tokens: Tokens) -> Axis:
    title = "query (reads)" if tokens is trace.tokens else "key (is read)"
    return token_axis(title, tokens, written_from(trace, tokens))
