"""The numbers behind what is shown, as a document and as rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import Measures
from attnviz.analysis.sweeps import BAND, Sweep
from attnviz.traces.document import Contents, contents
from attnviz.traces.trace import Layer, Trace
from attnviz.traces.weights import array
from attnviz.views.view import Data, Rows

Row = tuple[Any, ...]

WEIGHTS = ("layer", "head", "query number", "query", "key number", "key", "weight", "visible")
MEASURED = ("way", "mistake", "head", "query number", "query")
QUANTILES = {"low": BAND[0], "median": 0.5, "high": BAND[1]}


def data_of(trace: Trace) -> Data:
    """Everything in a Trace; and a line for each weight, for spreadsheets and data frames."""
    return Data(partial(contents, trace), partial(_weights, trace))


def data_of_comparison(comparison: Comparison, sweep: Sweep | None, conclusion: str) -> Data:
    """Everything in a Comparison; and a line of measures for each way, head and query."""
    return Data(partial(_comparison, comparison, sweep, conclusion), partial(_measures, comparison))


def _weights(trace: Trace) -> Rows:
    yield [WEIGHTS]
    for layer in trace.attentions:
        for head in range(layer.heads):
            yield from _weights_of(trace, layer, head)


def _weights_of(trace: Trace, layer: Layer, head: int) -> Rows:
    """All keys of a query at once."""
    keys = list(enumerate(trace.keys_of(layer).labels, start=1))
    cells, name = layer.weights.cells("mixing", head), layer.name.removeprefix("L")
    seen = {False: "false", True: "true"}
    for query, label in enumerate(trace.tokens.labels):
        start = (name, head, query + 1, label)
        weights = cells.row(query).values[0].tolist()
        visible = layer.visible[query].tolist()
        yield [
            (*start, *key, weight, seen[shown])
            for key, weight, shown in zip(keys, weights, visible, strict=True)
        ]


def _comparison(comparison: Comparison, sweep: Sweep | None, conclusion: str) -> Contents:
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
    }


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


def _measures(comparison: Comparison) -> Rows:
    """A row for each way, head and query, and one of means for each way."""
    names = [each.name for each in fields(Measures)]
    yield [(*MEASURED, *names)]
    for alternative, measures in zip(comparison.alternatives, comparison.measures, strict=True):
        start = (alternative.name, "true" if alternative.mistake else "false")
        numbers = np.stack([array(getattr(measures, name)) for name in names], -1)
        yield list(_rows_of(comparison, alternative, start, numbers))
        if comparison.query is None:
            means = measures.means()
            yield [(*start, "mean", "mean", "mean", *(_finite(means[name]) for name in names))]


def _rows_of(
    comparison: Comparison, alternative: Alternative, start: Row, numbers: np.ndarray
) -> Iterator[Row]:
    for head, rows in enumerate(numbers.tolist()):
        for query, row in enumerate(rows):
            if comparison.query in (None, query):
                label = alternative.tokens.labels[query]
                yield (*start, head, query + 1, label, *map(_finite, row))


def _without_nan(rows: Any) -> list[list[float | None]]:
    return [[_finite(number) for number in row] for row in rows.tolist()]


def _finite(number: float) -> float | None:
    return None if math.isnan(number) else number
