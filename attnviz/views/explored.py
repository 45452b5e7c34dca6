"""All heads of a result, for somebody to look around in by himself."""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import Map
from attnviz.cells import Cells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explored import Explored, HeadMap
from attnviz.views.grids.overview import Flag
from attnviz.views.inspection.heatmap import axis_of
from attnviz.views.inspection.numbers import called
from attnviz.views.reading import name_of_head, token_axis, written_from


def explored_of_trace(trace: Trace, query: int | None = None) -> Explored:
    """Every head of every attention that happened to a sentence."""
    attentions = list(trace.attentions)
    sides = {id(tokens): _side(trace, tokens) for tokens in _tokens(trace)}
    heads = tuple(
        HeadMap(
            name=name_of_head(trace, layer, head),
            place=(row, head),
            reads=sides[id(trace.tokens)],
            read=sides[id(trace.keys_of(layer))],
            weights=layer.weights.cells("mixing", head),
            scores=_scores(layer, head),
        )
        for row, layer in enumerate(attentions)
        for head in range(layer.heads)
    )
    most = max(layer.heads for layer in attentions)
    return Explored(
        heads=heads,
        rows=_axis("layer", [layer.name for layer in attentions]),
        columns=_axis("head", [f"H{head}" for head in range(most)]),
        query=query,
        note=AXES_NOTE,
    )


def explored_of_inspection(
    inspection: Inspection, flags: Sequence[Flag] = (), query: int | None = None
) -> Explored:
    """The maps that are looked at, as they are looked at."""
    maps, prompt = inspection.maps, inspection.trace.prompt
    layers = list(dict.fromkeys(_layer_of(each) for each in maps))
    numbers = list(dict.fromkeys(each.head for each in maps))
    sides = {
        id(side): axis_of(title, side, prompt)
        for each in maps
        for side, title in ((each.columns, "key (is read)"), (each.rows, "query (reads)"))
    }
    return Explored(
        heads=tuple(
            HeadMap(
                name=each.name,
                place=(layers.index(_layer_of(each)), numbers.index(each.head)),
                reads=sides[id(each.rows)],
                read=sides[id(each.columns)],
                weights=each.cells,
                scores=_scores_of_map(each, inspection),
                share=each.share,
                measure=called(inspection.looking),
            )
            for each in maps
        ),
        rows=_axis("layer", ["" if layer is None else f"L{layer}" for layer in layers]),
        columns=_axis("head", ["" if head is None else f"H{head}" for head in numbers]),
        query=query,
        log=inspection.looking.log,
        note=AXES_NOTE,
        flags=tuple(flags),
    )


def _scores(layer: Layer, head: int) -> Cells | None:
    """What the softmax receives, where its result is what is shown."""
    by_softmax = layer.attended.mixed_by == "softmax" and not layer.weights_alone
    return layer.weights.cells("masked scores", head) if by_softmax else None


def _scores_of_map(found: Map, inspection: Inspection) -> Cells | None:
    """The same, of a map that is a head as it is."""
    if found.layer is None or found.head is None or found not in inspection.plain:
        return None
    return _scores(found.layer, found.head)


def _layer_of(found: Map) -> int | None:
    return None if found.layer is None else found.layer.layer


def _tokens(trace: Trace) -> tuple[Tokens, ...]:
    return (trace.tokens, *(trace.keys_of(layer) for layer in trace.attentions))


def _side(trace: Trace, tokens: Tokens) -> Axis:
    title = "query (reads)" if tokens is trace.tokens else "key (is read)"
    return token_axis(title, tokens, written_from(trace, tokens))


def _axis(counts: str, labels: Sequence[str]) -> Axis:
    return Axis(counts, counts, tuple(labels), ("",) * len(labels))
