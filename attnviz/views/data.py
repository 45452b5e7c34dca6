"""The numbers behind what is shown, as a document and as rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import Measures
from attnviz.analysis.seeds import BAND, Repeats, quantiles
from attnviz.analysis.sweeps import Sweep
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents, contents
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import array, mask_of
from attnviz.views.view import Data, Lines, Words

WEIGHTS = ("layer", "head", "query number", "query", "key number", "key", "weight", "visible")
NAMES = tuple(each.name for each in fields(Measures))
MEASURED = ("way", "mistake", "head", "query number", "query", *NAMES)
QUANTILES = {"low": BAND[0], "median": 0.5, "high": BAND[1]}


def data_of(trace: Trace) -> Data:
    """Everything in a Trace; and a line for each weight, for spreadsheets and data frames."""
    return Data(partial(contents, trace), WEIGHTS, partial(_weights, trace))


def data_of_comparison(
    comparison: Comparison, sweep: Sweep | None, repeats: Repeats | None, conclusion: str
) -> Data:
    """Everything in a Comparison; and a line of measures for each way, head and query."""
    document = partial(_comparison, comparison, sweep, repeats, conclusion)
    return Data(document, MEASURED, partial(_measures, comparison))


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


def _comparison(
    comparison: Comparison, sweep: Sweep | None, repeats: Repeats | None, conclusion: str
) -> Contents:
    """`ways` with the arrays of their traces and their measures, `reference`, `differences`."""
    pairs = zip(comparison.alternatives, comparison.measures, strict=True)
    return {
        "by": comparison.by,
        "reference": comparison.base.name,
        "query": None if comparison.query is None else comparison.query + 1,
        "conclusion": conclusion,
        "ways": [_alternative(*pair) for pair in pairs],
        "differences": [
            _difference(comparison, place) for place in range(len(comparison.alternatives))
        ],
        "sweep": None if sweep is None else _sweep(sweep),
        "over_seeds": None if repeats is None else _over_seeds(comparison, repeats),
    }


def _over_seeds(comparison: Comparison, repeats: Repeats) -> Contents:
    """For each way its measures, and how far they are from the reference's, seed by seed."""
    base = comparison.reference
    ways: Contents = {
        each.name: {
            name: {
                **_spread(measured[place]),
                "change": _spread(measured[place] - measured[base]),
            }
            for name, measured in repeats.measured.items()
        }
        for place, each in enumerate(comparison.alternatives)
    }
    return {"seed": repeats.seeds.start, "repeats": len(repeats.seeds), "ways": ways}


def _spread(numbers: Float[Tensor, "seed"]) -> Contents:
    found = quantiles(numbers)
    return {name: _finite(number) for name, number in zip(QUANTILES, found, strict=True)}


def _alternative(alternative: Alternative, measures: Measures) -> Contents:
    trace = alternative.trace
    return {
        "name": alternative.name,
        "mistake": alternative.mistake or None,
        **({"weights": array(alternative.weights)} if trace is None else contents(trace)),
        "settings": None if trace is None else trace.provenance.settings,
        "measures": {
            each.name: _without_nan(getattr(measures, each.name)) for each in fields(Measures)
        },
        "means": {name: _finite(value) for name, value in measures.means().items()},
    }


def _difference(comparison: Comparison, place: int) -> Contents:
    name, change = comparison.alternatives[place].name, comparison.changes[place]
    weights, largest = comparison.differences[place], None if change is None else asdict(change)
    return {
        "name": name,
        "weights": weights if weights is None else array(weights),
        "largest": largest,
    }


def _sweep(sweep: Sweep) -> Contents:
    return {
        "by": sweep.by,
        "values": list(sweep.values),
        "d_k": list(sweep.widths),
        "repeats": sweep.repeats,
        "curves": {
            measure: {series: _quantiles(repeats.numpy()) for series, repeats in lines.items()}
            for measure, lines in sweep.curves.items()
        },
    }


def _quantiles(repeats: np.ndarray) -> Contents:
    return {name: np.quantile(repeats, share, axis=1).tolist() for name, share in QUANTILES.items()}


def _measures(comparison: Comparison) -> Iterator[Lines]:
    """A line for each way, head and query, and one of means for each way."""
    for alternative, measures in zip(comparison.alternatives, comparison.measures, strict=True):
        way = (alternative.name, "true" if alternative.mistake else "false")
        for head in range(len(measures.entropy)):
            yield _of_a_head(comparison, alternative.tokens, measures, way, head)
        if comparison.query is None:
            means = measures.means()
            columns = _columns([[means[n]] for n in NAMES])
            yield Lines((*way, "mean"), Words((("mean",), ("mean",))), columns)


def _of_a_head(
    comparison: Comparison, tokens: Tokens, measures: Measures, way: tuple[str, str], head: int
) -> Lines:
    only = comparison.query
    queries = slice(None) if only is None else slice(only, only + 1)
    names = tuple(str(number) for number in range(1, len(tokens.labels) + 1))
    found = [getattr(measures, name)[head, queries].tolist() for name in NAMES]
    words = Words((names[queries], tuple(tokens.labels[queries])))
    return Lines((*way, head), words, _columns(found))


def _columns(found: list[list[float]]) -> tuple[list[float | None], ...]:
    return tuple([_finite(number) for number in numbers] for numbers in found)


def _without_nan(rows: Any) -> list[list[float | None]]:
    return [[_finite(number) for number in row] for row in rows.tolist()]


def _finite(number: float) -> float | None:
    return None if math.isnan(number) else number
