"""What files and pages contain of a comparison: its measures, its differences, all its heads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import QUANTILES, Measures, quantiles
from attnviz.analysis.seeds import Repeats
from attnviz.analysis.sweeps import Sweep
from attnviz.cells import Cells, Later
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents, contents
from attnviz.traces.weights import array
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explored import Explored, HeadMap, arranged
from attnviz.views.measures import name_of, titled, tokens_of
from attnviz.views.reading import token_axis
from attnviz.views.view import Data, Lines, Words

NAMES = tuple(each.name for each in fields(Measures))
MEASURED = ("way", "mistake", "head", "query number", "query", *NAMES)
DIFFERENCE = "difference"
Row = tuple[str, "int | None", HeadMap]


def data_of_comparison(
    comparison: Comparison, sweep: Sweep | None, repeats: Repeats | None, conclusion: str
) -> Data:
    """Everything in a Comparison; and a line of measures for each way, head and query."""
    document = partial(_comparison, comparison, sweep, repeats, conclusion)
    return Data(document, MEASURED, partial(_measures, comparison))


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
                        _shape_of_alternative(each),
                        partial(_difference_cells, comparison, place, head),
                    ),
                    signed=True,
                    note=f"above 0 = reads more than '{name_of(comparison, comparison.base)}'",
                    measure=DIFFERENCE,
                ),
            )


def _difference_cells(comparison: Comparison, place: int, head: int | None) -> Cells:
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
