"""The numbers of a Comparison for files and pages: measures, differences, all heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from functools import partial

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import QUANTILES_BY_NAME, Measures, band_quantiles
from attnviz.analysis.seeds import Repeats, Sweep
from attnviz.cells import Cells, LazyCells
from attnviz.heads.side import whole_side
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents, trace_contents
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, HeadVectors, arrange_heads
from attnviz.views.head_vectors import read_head_vectors
from attnviz.views.heads.data import token_columns
from attnviz.views.measure_tables import (
    alternative_name,
    alternative_title,
    compared_tokens,
    difference_title,
)
from attnviz.views.reading import token_axis
from attnviz.views.view import HEAD_COLUMNS, TableData, TableLines, WordColumns, head_cells
from attnviz.wording.numbers import number_or_none

MEASURE_NAMES = tuple(field.name for field in fields(Measures))
MEAN_WITHOUT_VECTORS = "it is the mean of several heads"
MEASURE_COLUMNS = ("way", "mistake", *HEAD_COLUMNS, "query number", "query", *MEASURE_NAMES)
DIFFERENCE_MEASURE = "difference"
ExplorerRow = tuple[str, "int | None", HeadMap]  # a row's title, a head (None: mean), its map


def build_comparison_data(
    comparison: Comparison, sweep: Sweep | None, repeats: Repeats | None, conclusion: str
) -> TableData:
    """Return all data of a Comparison, computed when it is needed; as a table it has a line for
    each alternative, head and query, and means for each alternative unless one query is selected.
    """
    document = partial(_comparison_document, comparison, sweep, repeats, conclusion)
    return TableData("comparison", document, MEASURE_COLUMNS, partial(_measure_lines, comparison))


def _comparison_document(
    comparison: Comparison, sweep: Sweep | None, repeats: Repeats | None, conclusion: str
) -> Contents:
    """Return the Comparison as JSON data with arrays; `ways` holds the arrays and the measures of
    each compared alternative.
    """
    pairs = zip(comparison.alternatives, comparison.measures, strict=True)
    return {
        "by": comparison.by,
        "reference": comparison.base.name,
        "query": None if comparison.query is None else comparison.query + 1,
        "conclusion": conclusion,
        "ways": [_alternative_document(*pair) for pair in pairs],
        "differences": [
            _difference_document(comparison, index) for index in range(len(comparison.alternatives))
        ],
        "sweep": None if sweep is None else _sweep_document(sweep),
        "over_seeds": None if repeats is None else _seed_spreads(comparison, repeats),
    }


def _seed_spreads(comparison: Comparison, repeats: Repeats) -> Contents:
    """Return, for each alternative, the quantiles over seeds of each measure and of its change from
    the reference.
    """
    base = comparison.reference
    ways: Contents = {
        alternative.name: {
            name: {
                **_quantile_values(measured[index]),
                "change": _quantile_values(measured[index] - measured[base]),
            }
            for name, measured in repeats.by_measure.items()
        }
        for index, alternative in enumerate(comparison.alternatives)
    }
    return {"seed": repeats.seeds.start, "repeats": len(repeats.seeds), "ways": ways}


def _quantile_values(numbers: Float[Tensor, "seed"]) -> Contents:
    pairs = zip(QUANTILES_BY_NAME, band_quantiles(numbers), strict=True)
    return {name: number_or_none(number) for name, number in pairs}


def _alternative_document(alternative: Alternative, measures: Measures) -> Contents:
    """Return one alternative as JSON data with arrays: its name, Trace (or only weights), settings,
    measures and their means.
    """
    trace, weights = alternative.trace, tensor_to_numpy(alternative.weights)
    return {
        "name": alternative.name,
        "mistake": alternative.mistake or None,
        **({"weights": weights} if trace is None else trace_contents(trace)),
        "settings": None if trace is None else trace.provenance.settings,
        "measures": {
            name: [*_finite_columns(getattr(measures, name).tolist())] for name in MEASURE_NAMES
        },
        "means": {name: number_or_none(value) for name, value in measures.means().items()},
    }


def _difference_document(comparison: Comparison, index: int) -> Contents:
    """Return the difference of alternative `index` from the reference as JSON data: its name,
    weights and largest change; None for those that cannot be compared.
    """
    change, weights = comparison.changes[index], comparison.differences[index]
    return {
        "name": comparison.alternatives[index].name,
        "weights": None if weights is None else tensor_to_numpy(weights),
        "largest": None if change is None else asdict(change),
    }


def _sweep_document(sweep: Sweep) -> Contents:
    """Return a Sweep as JSON data: its values, its widths d_k, and the quantiles over seeds of each
    curve.
    """
    return {
        "by": sweep.by,
        "values": list(sweep.values),
        "d_k": list(sweep.widths),
        "repeats": sweep.repeats,
        "curves": {
            measure: {
                series: _sweep_quantiles(repeats.numpy()) for series, repeats in lines.items()
            }
            for measure, lines in sweep.curves.items()
        },
    }


def _sweep_quantiles(repeats: np.ndarray) -> Contents:
    """Return, by name of quantile, a list with that quantile over the seeds for each value of the
    sweep.
    """
    return {
        name: np.quantile(repeats, share, axis=1).tolist()
        for name, share in QUANTILES_BY_NAME.items()
    }


def _measure_lines(comparison: Comparison) -> Iterator[TableLines]:
    """Yield the lines of the table: a line for each alternative, head and query, and unless one
    query is selected a line of means for each alternative.
    """
    for alternative, measures in zip(comparison.alternatives, comparison.measures, strict=True):
        way = (alternative.name, "true" if alternative.mistake else "false")
        for head in range(len(measures.entropy)):
            start = (*way, *head_cells(f"L{alternative.number}H{head}"))
            yield _head_measure_lines(comparison, alternative.tokens, measures, start, head)
        if comparison.query is None:
            means = measures.means()
            columns = _finite_columns([[means[name]] for name in MEASURE_NAMES])
            words = WordColumns((("mean",), ("mean",)))
            yield TableLines((*way, *head_cells("mean")), words, columns)


def _head_measure_lines(
    comparison: Comparison, tokens: Tokens, measures: Measures, start: tuple[str, ...], head: int
) -> TableLines:
    """Yield the table lines of one head, a line for each query or only for the selected one;
    `start` has what is the same in all of them.
    """
    query, side = comparison.query, whole_side(tokens)
    if query is not None:
        side = replace(side, span=range(query, query + 1))
    measured = [getattr(measures, name)[head, side.as_slice].tolist() for name in MEASURE_NAMES]
    return TableLines(start, token_columns(side), _finite_columns(measured))


def _finite_columns(rows: list[list[float]]) -> tuple[list[float | None], ...]:
    return tuple([number_or_none(number) for number in numbers] for numbers in rows)


def explore_comparison(
    comparison: Comparison, heads: Sequence[int | None], note: str = ""
) -> HeadExplorer:
    """Return the heads that a reader can choose from: a row for each alternative, then a row for
    each difference from the reference, and a column for each head.

    The head None is the mean of the heads; `note` is added to the note on how to read the maps.
    """
    sides: dict[int, Axis] = {}
    columns = {head: "mean" if head is None else f"H{head}" for head in heads}
    if comparison.heads == 1 and None in columns:
        columns[None] = "H0"  # the mean of a single head is the head itself
    rows = [
        *_alternative_rows(comparison, heads, sides),
        *_difference_rows(comparison, heads, sides),
    ]
    maps = [(row, columns[head], head_map) for row, head, head_map in rows]
    notes = " · ".join(filter(None, (AXES_NOTE, note)))
    return arrange_heads(maps, ("way", "head"), query=comparison.query, note=notes)


def _alternative_rows(
    comparison: Comparison, heads: Sequence[int | None], sides: dict[int, Axis]
) -> Iterator[ExplorerRow]:
    """Yield the row's title, the head and its map of weights, for each alternative and head;
    `sides` collects one Axis for each Tokens object, so that maps share it.
    """
    for alternative in comparison.alternatives:
        title, shape = alternative_title(comparison, alternative), _alternative_shape(alternative)
        for head in heads:
            is_mean = head is None and len(alternative.weights) > 1
            head_map = HeadMap(
                name=_head_map_name(title, head, heads),
                query_axis=_shared_token_axis("query (reads)", alternative.tokens, sides),
                key_axis=_shared_token_axis("key (is read)", alternative.keys, sides),
                weights=LazyCells(shape, partial(alternative.cells, head)),
                scores=_alternative_scores(alternative, head),
                vectors=_alternative_vectors(alternative, head),
                without_vectors=MEAN_WITHOUT_VECTORS if is_mean else "",
                off=alternative.layer is not None and head in alternative.layer.off,
            )
            yield title, head, head_map


def _difference_rows(
    comparison: Comparison, heads: Sequence[int | None], sides: dict[int, Axis]
) -> Iterator[ExplorerRow]:
    """Yield the row's title, the head and its map, for each alternative that has a difference from
    the reference; `sides` collects one Axis for each Tokens object.
    """
    for index, alternative in enumerate(comparison.alternatives):
        if comparison.differences[index] is None:
            continue
        title, shape = difference_title(comparison, alternative), _alternative_shape(alternative)
        tokens = compared_tokens(comparison, alternative)
        keys = tokens if alternative.keys is alternative.tokens else alternative.keys
        for head in heads:
            head_map = HeadMap(
                name=_head_map_name(title, head, heads),
                query_axis=_shared_token_axis("query (reads)", tokens, sides),
                key_axis=_shared_token_axis("key (is read)", keys, sides),
                weights=LazyCells(shape, partial(_difference_cells, comparison, index, head)),
                signed=True,
                without_vectors="it is a difference of two maps",
                note=f"above 0 = reads more than '{alternative_name(comparison, comparison.base)}'",
                measure=DIFFERENCE_MEASURE,
            )
            yield title, head, head_map


def _difference_cells(comparison: Comparison, index: int, head: int | None) -> Cells:
    """Return the cells of a difference that is known to exist."""
    cells = comparison.difference(index, head)
    assert cells is not None
    return cells


def _head_map_name(row: str, head: int | None, heads: Sequence[int | None]) -> str:
    return row if len(heads) == 1 else f"{row} · head {head}"


def _alternative_shape(alternative: Alternative) -> tuple[int, int]:
    _, rows, columns = alternative.weights.shape
    return rows, columns


def _shared_token_axis(title: str, tokens: Tokens, sides: dict[int, Axis]) -> Axis:
    """Return the Axis of these tokens from `sides`, or make it and store it there, so that maps
    share it.
    """
    return sides.setdefault(id(tokens), token_axis(title, tokens))


def _alternative_vectors(alternative: Alternative, head: int | None) -> HeadVectors | None:
    """Return the queries and keys of a head; None for the mean of several heads, and where scores
    are not made of them.
    """
    if head is None and len(alternative.weights) == 1:
        head = 0
    if head is None or alternative.trace is None or alternative.layer is None:
        return None
    return read_head_vectors(alternative.trace, alternative.layer, head)


def _alternative_scores(alternative: Alternative, head: int | None) -> Cells | None:
    """Return the scores whose softmax the compared weights are.

    None for the mean of several heads, where only weights are known, and for mistakes, whose
    weights are not the softmax of scores.
    """
    layer = alternative.layer
    if head is None and len(alternative.weights) == 1:
        head = 0
    if head is None or layer is None or layer.weights_alone or alternative.mistake:
        return None
    scores = partial(layer.weights.cells, "masked scores", head)
    return LazyCells(_alternative_shape(alternative), scores)
