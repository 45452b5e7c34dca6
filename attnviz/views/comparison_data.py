"""The numbers of a Comparison for files and pages: measures, differences, all heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import (
    QUANTILES_BY_NAME,
    LargestChange,
    Measures,
    Weights,
    band_quantiles,
)
from attnviz.analysis.row_changes import RowChanges
from attnviz.analysis.seeds import Repeats, Sweep
from attnviz.attention.long_attention import AttentionSummary
from attnviz.cells import Cells, LazyCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.archive import Contents, summary_contents, trace_contents
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.compared_heads import (
    CHANGE_MEASURES,
    ComparedHeads,
    averaged_heads_note,
    row_measure_means,
)
from attnviz.views.grids.axes import AXES_NOTE, Axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.head_vectors import read_head_vectors
from attnviz.views.heads.data import QUERY_NUMBERS
from attnviz.views.heads.explorer import axis_of_words
from attnviz.views.measure_tables import (
    alternative_name,
    alternative_title,
    compared_sides,
    difference_title,
)
from attnviz.views.reading import token_axis
from attnviz.views.view import HEAD_COLUMNS, TableData, TableLines, WordColumns, head_cells
from attnviz.wording.numbers import number_or_none

MEASURE_NAMES = tuple(field.name for field in fields(Measures))
MEASURE_COLUMNS = ("way", "mistake", *HEAD_COLUMNS, "query number", "query", *MEASURE_NAMES)
MAP_COLUMNS = (
    *("way", *HEAD_COLUMNS, "query number", "query"),
    *(*QUERY_NUMBERS, *CHANGE_MEASURES.values()),
)
ROW_COLUMNS = ("way", *HEAD_COLUMNS, "key number", "key", "weight")
ExplorerRow = tuple[str, str, HeadMap]  # the titles of a row and of a column, and the map there
HeadFacts = dict[str, Any]  # fields of a HeadMap


def build_comparison_data(
    comparison: Comparison, sweep: Sweep | None, repeats: Repeats | None, conclusion: str
) -> TableData:
    """Return all data of a Comparison, computed when it is needed; as a table it has a line for
    each alternative, head and query, and means for each alternative unless one query is selected.
    """

    def document() -> Contents:
        ways, changes = comparison.alternatives, comparison.changes
        differences = zip(ways, comparison.differences, changes, strict=True)
        return {
            **_document_start(comparison, conclusion),
            "ways": list(map(_alternative_document, ways, comparison.measures)),
            "differences": [_difference_document(*difference) for difference in differences],
            "sweep": None if sweep is None else _sweep_document(sweep),
            "over_seeds": None if repeats is None else _seed_spreads(comparison, repeats),
        }

    return TableData("comparison", document, MEASURE_COLUMNS, partial(_measure_lines, comparison))


def build_long_comparison_data(heads: ComparedHeads, conclusion: str) -> TableData:
    """Return everything that was measured of a long text as data, with a line for each alternative,
    head and query; or the exact rows of the selected query, with a line for each key.
    """
    comparison = heads.comparison
    start = partial(_document_start, comparison, conclusion)
    if comparison.query is None:
        return TableData(
            "long-comparison",
            lambda: start() | _map_contents(heads),
            MAP_COLUMNS,
            partial(_compared_row_lines, comparison),
        )
    query = comparison.query
    rows = [[head.weights_of(query) for head in ways] for ways in heads.long_heads]
    names = [each.name for each in comparison.alternatives]

    def document() -> Contents:
        weights = map(np.stack, zip(*rows, strict=True))
        pairs = zip(names, weights, strict=True)
        return start() | {"ways": [{"name": name, "weights": each} for name, each in pairs]}

    def lines() -> Iterator[TableLines]:
        words = _token_words(comparison.base.keys)
        for index, each in enumerate(comparison.alternatives):
            for head, row in zip(heads.long_heads, rows, strict=True):
                own = head[index]
                name = "mean" if own.merged_heads else own.layer.head_name(own.number)
                yield TableLines((each.name, *head_cells(name)), words, (row[index],))

    return TableData("long-row-comparison", document, ROW_COLUMNS, lines)


def _document_start(comparison: Comparison, conclusion: str) -> Contents:
    return {
        "by": comparison.by,
        "reference": comparison.base.name,
        "query": None if comparison.query is None else comparison.query + 1,
        "conclusion": conclusion,
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


def _difference_document(
    alternative: Alternative, weights: Weights | None, change: LargestChange | None
) -> Contents:
    """Return the difference of an alternative from the reference as JSON data: its name, weights
    and largest change; None for those that cannot be compared.
    """
    return {
        "name": alternative.name,
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
    single_query = comparison.query
    queries = slice(None) if single_query is None else slice(single_query, single_query + 1)
    measured = [getattr(measures, name)[head, queries].tolist() for name in MEASURE_NAMES]
    words = WordColumns(tuple(each[queries] for each in _token_words(tokens).columns))
    return TableLines(start, words, _finite_columns(measured))


def _finite_columns(rows: list[list[float]]) -> tuple[list[float | None], ...]:
    return tuple([number_or_none(number) for number in numbers] for numbers in rows)


def _token_words(tokens: Tokens) -> WordColumns:
    return WordColumns((tuple(str(number) for number in range(1, len(tokens) + 1)), tokens.labels))


def _map_contents(heads: ComparedHeads) -> Contents:
    """Return the maps and measures of all alternatives of a long text and their changes."""
    tokens = heads.comparison.base.tokens
    measured = [way.streamed.summary_of(way.number)[0] for way in heads.long_heads[0]]
    base, ways = measured[heads.comparison.reference], []
    for index, summary in enumerate(measured):
        means, changes = row_measure_means(heads, index), heads.comparison.row_changes[index]
        alternative = heads.comparison.alternatives[index]
        assert alternative.trace is not None
        way: Contents = {
            "name": alternative.name,
            "settings": alternative.trace.provenance.settings,
            **summary_contents(summary),
            "means": {name: number_or_none(value) for name, value in means.items()},
            "changes": None if changes is None else _change_contents(changes, summary, base),
        }
        ways.append(way)
    ids = np.array(tokens.ids)
    return {"tokens": {"ids": ids, "count": len(tokens)}, "ways": ways}


def _change_contents(
    changes: RowChanges, summary: AttentionSummary, base: AttentionSummary
) -> Contents:
    is_alike = summary.pooled.shape == base.pooled.shape
    difference = summary.pooled - base.pooled.to(summary.pooled.device) if is_alike else None
    return {
        "map": None if difference is None else tensor_to_numpy(difference),
        "moved": [*_finite_columns(changes.moved.tolist())],
        "divergence": [*_finite_columns(changes.divergence.tolist())],
        "largest": asdict(changes.largest),
    }


def _compared_row_lines(comparison: Comparison) -> Iterator[TableLines]:
    """Yield a line for each query of each head of each alternative of a long text."""
    words = _token_words(comparison.base.tokens)
    unknown = torch.full((len(comparison.base.tokens),), torch.nan)
    for alternative, changes in zip(comparison.alternatives, comparison.row_changes, strict=True):
        weights = alternative.long_weights
        assert weights is not None  # the text is long
        for head in range(alternative.heads):
            is_by_head = changes is not None and len(changes.moved) == alternative.heads
            columns = [getattr(weights.summary, name)[head] for name in QUERY_NUMBERS]
            for name in CHANGE_MEASURES.values():
                columns.append(getattr(changes, name)[head] if is_by_head else unknown)
            start = (alternative.name, *head_cells(f"L{alternative.number}H{head}"))
            yield TableLines(start, words, _finite_columns([each.tolist() for each in columns]))


def explore_comparison(heads: ComparedHeads) -> HeadExplorer:
    """Return the heads that a reader can choose from: a row for each alternative, then a row for
    each difference from the reference, and a column for each head, or for their mean.
    """
    comparison, query, note = heads.comparison, heads.comparison.query, ""
    if comparison.is_long:
        note, (height, _) = heads.weights[0][0].pool_note, heads.weights[0][0].cell_size
        query = None if query is None else query // height
    elif heads.numbers[0] is None:
        note = averaged_heads_note(comparison)
    explored, axes = list[ExplorerRow](), dict[object, Axis]()
    for is_difference in (False, True):
        rows = [
            _head_maps(heads, index, axes, is_difference=is_difference)
            for index, change in enumerate(comparison.changes)
            if change is not None or not is_difference
        ]
        explored += heads.in_order(rows)
    notes = " · ".join(filter(None, (AXES_NOTE, note)))
    return arrange_heads(explored, ("way", "head"), query=query, log=heads.log, note=notes)


def _head_maps(
    heads: ComparedHeads, index: int, axes: dict[object, Axis], *, is_difference: bool
) -> list[ExplorerRow]:
    """Return the maps of an alternative, or of its difference from the reference, with their row
    and column; `axes` collects one Axis for each text, so that maps share it.
    """
    write_title = difference_title if is_difference else alternative_title
    title = write_title(heads.comparison, heads.comparison.alternatives[index])
    if heads.comparison.is_long:
        facts = _block_facts(heads, index, axes, is_difference=is_difference)
    elif is_difference:
        facts = _difference_facts(heads, index, axes)
    else:
        facts = _weight_facts(heads, index, axes)
    measure = "difference" if is_difference else "weight"
    return [
        (title, name, HeadMap(name=title + suffix, signed=is_difference, measure=measure, **each))
        for name, suffix, each in zip(heads.names, heads.suffixes, facts, strict=True)
    ]


def _block_facts(
    heads: ComparedHeads, index: int, axes: dict[object, Axis], *, is_difference: bool
) -> Iterator[HeadFacts]:
    """Yield what a HeadMap says of each map of a long text."""
    for grid in (heads.differences if is_difference else heads.weights)[index]:
        queries, keys = axis_of_words(grid.rows), axis_of_words(grid.columns)
        yield {
            "query_axis": axes.setdefault(queries.labels, queries),
            "key_axis": axes.setdefault(keys.labels, keys),
            "weights": grid.cells,
            "share": grid.share and not is_difference,
            "note": grid.note if is_difference else "",
        }


def _weight_facts(
    heads: ComparedHeads, index: int, axes: dict[object, Axis]
) -> Iterator[HeadFacts]:
    """Yield what a HeadMap says of the weights of each head of an alternative."""
    alternative = heads.comparison.alternatives[index]
    for head in heads.numbers:
        number = 0 if head is None and alternative.heads == 1 else head
        yield {
            **_shared_axes((alternative.tokens, alternative.keys), axes),
            "weights": LazyCells(_shape(alternative), partial(alternative.cells, head)),
            "scores": None if number is None else _alternative_scores(alternative, number),
            "vectors": None
            if number is None or alternative.trace is None or alternative.layer is None
            else read_head_vectors(alternative.trace, alternative.layer, number),
            "without_vectors": "it is the mean of several heads" if number is None else "",
            "off": alternative.layer is not None and head in alternative.layer.off,
        }


def _difference_facts(
    heads: ComparedHeads, index: int, axes: dict[object, Axis]
) -> Iterator[HeadFacts]:
    """Yield what a HeadMap says of the difference of each head of an alternative."""
    comparison, alternative = heads.comparison, heads.comparison.alternatives[index]
    sides = compared_sides(comparison, alternative)
    for head in heads.numbers:
        yield {
            **_shared_axes(sides, axes),
            "weights": LazyCells(_shape(alternative), partial(comparison.difference, index, head)),
            "without_vectors": "it is a difference of two maps",
            "note": f"above 0 = reads more than '{alternative_name(comparison, comparison.base)}'",
        }


def _shared_axes(sides: tuple[Tokens, Tokens], axes: dict[object, Axis]) -> HeadFacts:
    """Return the axes of these tokens from `axes`, where they are put if they are not there."""
    queries, keys = sides
    return {
        "query_axis": axes.setdefault(id(queries), token_axis("query (reads)", queries)),
        "key_axis": axes.setdefault(id(keys), token_axis("key (is read)", keys)),
    }


def _shape(alternative: Alternative) -> tuple[int, int]:
    _, rows, columns = alternative.weights.shape
    return rows, columns


def _alternative_scores(alternative: Alternative, head: int) -> Cells | None:
    """Return the scores whose softmax the compared weights are; None where only weights are known,
    and for mistakes, whose weights are not the softmax of scores.
    """
    layer = alternative.layer
    if layer is None or layer.weights_alone or alternative.mistake:
        return None
    return LazyCells(_shape(alternative), partial(layer.weights.cells, "masked scores", head))
