"""All heads of a Trace, or of ways that are compared, for pages to explore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.cells import Cells, Later
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.axes import AXES_NOTE, GOES_ON, Axis
from attnviz.views.grids.explored import Explored, HeadMap, arranged, strongest_row
from attnviz.views.measures import name_of, titled, tokens_of
from attnviz.views.reading import name_of_head, token_axis, written_from


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


DIFFERENCE = "difference"
Row = tuple[str, "int | None", HeadMap]


def explored_of_comparison(
    comparison: Comparison, heads: Sequence[int | None], note: str = ""
) -> Explored:
    """A row for each way, and below them one for each difference; None is the mean of heads."""
    sides: dict[int, Axis] = {}
    maps = [
        (row, _column(comparison, head), made)
        for row, head, made in (
            *_ways(comparison, heads, sides),
            *_differences(comparison, heads, sides),
        )
    ]
    notes = " · ".join(filter(None, (AXES_NOTE, note)))
    return arranged(maps, ("way", "head"), query=comparison.query, note=notes)


def _column(comparison: Comparison, head: int | None) -> str:
    """`H3`; where there is one head alone it is its own mean."""
    if head is None and comparison.heads == 1:
        return "H0"
    return "mean" if head is None else f"H{head}"


def _ways(
    comparison: Comparison, heads: Sequence[int | None], sides: dict[int, Axis]
) -> Iterator[Row]:
    for each in comparison.alternatives:
        for head in heads:
            yield (
                titled(comparison, each),
                head,
                HeadMap(
                    name=_name(titled(comparison, each), head, heads),
                    reads=_shared_side("query (reads)", each.tokens, sides),
                    read=_shared_side("key (is read)", each.keys, sides),
                    weights=Later(_shape_of_alternative(each), partial(each.cells, head)),
                    scores=_scores(each, head),
                    off=each.layer is not None and head in each.layer.off,
                ),
            )


def _differences(
    comparison: Comparison, heads: Sequence[int | None], sides: dict[int, Axis]
) -> Iterator[Row]:
    """What each reads more or less than the reference, where their tokens are the same."""
    for place, each in enumerate(comparison.alternatives):
        if comparison.differences[place] is None:
            continue
        pair = (titled(comparison, one) for one in (each, comparison.base))
        row, tokens = " − ".join(pair), tokens_of(comparison, each)
        keys = tokens if each.keys is each.tokens else each.keys
        for head in heads:
            yield (
                row,
                head,
                HeadMap(
                    name=_name(row, head, heads),
                    reads=_shared_side("query (reads)", tokens, sides),
                    read=_shared_side("key (is read)", keys, sides),
                    weights=Later(
                        _shape_of_alternative(each), partial(_difference, comparison, place, head)
                    ),
                    signed=True,
                    note=f"above 0 = reads more than '{name_of(comparison, comparison.base)}'",
                    measure=DIFFERENCE,
                ),
            )


def _difference(comparison: Comparison, place: int, head: int | None) -> Cells:
    cells = comparison.difference(place, head)
    assert cells is not None
    return cells


def _name(row: str, head: int | None, heads: Sequence[int | None]) -> str:
    """What one is called: of a single head, as its way is."""
    return row if len(heads) == 1 else f"{row} · head {head}"


def _shape_of_alternative(alternative: Alternative) -> tuple[int, int]:
    _, rows, columns = alternative.weights.shape
    return rows, columns


def _shared_side(title: str, tokens: Tokens, sides: dict[int, Axis]) -> Axis:
    return sides.setdefault(id(tokens), token_axis(title, tokens))


def _scores(alternative: Alternative, head: int | None) -> Cells | None:
    """What weights are the softmax of: of a mean they are of none, nor those of a mistake.

    Whatever becomes of them then, ways are compared by what the softmax makes.
    """
    layer = alternative.layer
    if head is None and len(alternative.weights) == 1:
        head = 0
    if head is None or layer is None or layer.weights_alone or alternative.mistake:
        return None
    return Later(
        _shape_of_alternative(alternative), partial(layer.weights.cells, "masked scores", head)
    )
