"""A Comparison as data: everything as JSON, the measures as rows."""

from __future__ import annotations

import csv as standard_csv
import io
import math
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from attnviz.analysis.comparison import Comparison, Way
from attnviz.analysis.measures import Measures
from attnviz.analysis.sweeps import BAND, Sweep
from attnviz.views import comparison as comparison_grids
from attnviz.views import data as document
from attnviz.views.trace import array

COLUMNS = ("way", "mistake", "head", "query number", "query")


def json(made: Comparison, swept: Sweep | None) -> Iterator[bytes]:
    """`ways` with the arrays of their traces and their measures, `reference`, `differences`."""
    contents = {
        "attnviz": made.provenance and asdict(made.provenance),
        "by": made.by,
        "reference": made.ways[made.reference].name,
        "query": None if made.query is None else made.query + 1,
        "conclusion": comparison_grids.conclusion(made, swept),
        "ways": [
            _way(way, measures) for way, measures in zip(made.ways, made.measures, strict=True)
        ],
        "differences": [_difference(made, place) for place in range(len(made.ways))],
        "sweep": _sweep(swept) if swept else None,
    }
    return document.written(contents)


def csv(made: Comparison, swept: Sweep | None) -> Iterator[bytes]:
    """A row for each way, head and query, and one of means for each way."""
    names = [each.name for each in fields(Measures)]
    yield _row([*COLUMNS, *names])
    for way, measures in zip(made.ways, made.measures, strict=True):
        start = [way.name, "true" if way.mistake else "false"]
        for head, rows in enumerate(
            np.stack([array(getattr(measures, name)) for name in names], -1)
        ):
            for query, numbers in enumerate(rows.tolist()):
                if made.query not in (None, query):
                    continue
                place = [head, query + 1, way.tokens.labels[query]]
                yield _row([*start, *place, *map(_number, numbers)])
        if made.query is not None:
            continue
        means = measures.means()
        yield _row([*start, "mean", "mean", "mean", *(_number(means[name]) for name in names)])


def _way(way: Way, measures: Measures) -> dict[str, Any]:
    traced = document.contents(way.trace) if way.trace else {}
    return {
        "name": way.name,
        "mistake": way.mistake or None,
        **{key: value for key, value in traced.items() if key != "attnviz"},
        "settings": way.trace.provenance.settings if way.trace else None,
        **({} if way.trace else {"weights": way.weights}),
        "measures": {
            each.name: _without_nan(getattr(measures, each.name)) for each in fields(Measures)
        },
        "means": {name: _finite(value) for name, value in measures.means().items()},
    }


def _difference(made: Comparison, place: int) -> dict[str, Any]:
    change = made.changes[place]
    return {
        "name": made.ways[place].name,
        "weights": made.differences[place],
        "largest": asdict(change) if change else None,
    }


def _sweep(swept: Sweep) -> dict[str, Any]:
    quantiles = {"low": BAND[0], "median": 0.5, "high": BAND[1]}
    return {
        "by": swept.by,
        "values": list(swept.values),
        "d_k": list(swept.widths),
        "repeats": swept.repeats,
        "curves": {
            measure: {
                series: {
                    name: np.quantile(repeats.numpy(), share, axis=1).tolist()
                    for name, share in quantiles.items()
                }
                for series, repeats in lines.items()
            }
            for measure, lines in swept.curves.items()
        },
    }


def _without_nan(rows: Any) -> list[list[float | None]]:
    return [[_finite(number) for number in row] for row in rows.tolist()]


def _finite(number: float) -> float | None:
    return None if math.isnan(number) else number


def _number(number: float) -> str:
    return "" if math.isnan(number) else repr(number)


def _row(cells: list[Any]) -> bytes:
    line = io.StringIO()
    standard_csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()
