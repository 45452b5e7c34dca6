"""The measures of a Comparison as tables, and those of a Sweep as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from attnviz.analysis.aspects import ABLATION_ASPECT, NO_HEADS_OFF, TEXT_ASPECT
from attnviz.analysis.comparison import Alternative, Comparison, combine_tokens
from attnviz.analysis.measures import QUANTILE_BAND, Measures
from attnviz.analysis.seeds import SWEEP_SERIES, Sweep
from attnviz.tokens.tokens import Tokens
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid, cells_without_nan
from attnviz.views.grids.scales import colorless_scale
from attnviz.views.reading import token_axis
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import and_list

MEASURE_TITLES = {
    "entropy": "bits",
    "share": "share",
    "effective": "reads",
    "peak": "peak",
    "gradient": "grad.",
    "divergence": "JS",
    "row_error": "sum≠1",
    "hidden": "leak",
}
MEASURES_NOTE = (
    "bits = entropy · share = entropy as a share of the largest possible · "
    "reads = effective number of tokens read · grad. = size of the softmax's gradient, near 0 when "
    "saturated · JS = Jensen-Shannon divergence from '{reference}' in bits · sum≠1 = how far row "
    "sums are from 1 · leak = weight on masked keys"
)
BARE_NUMBER_ASPECTS = ("dim", "heads", "temperature", "seed")  # their values need the aspect's name
SWEEP_TITLES = {
    "spread": "spread of the scores",
    "entropy": "entropy (bits)",
    "peak": "largest weight",
    "gradient": "softmax gradient",
}
SWEEP_NOTES = {
    "entropy": "entropy 0 = a row reads one token",
    "gradient": "gradient near 0 = hardly any of it reaches the scores",
}


def alternative_name(comparison: Comparison, alternative: Alternative) -> str:
    """Return an alternative's name for tables and pictures: `without L0H0`, `dim 8`; a mistake is
    marked with ✗.
    """
    name = alternative.name
    if comparison.by == ABLATION_ASPECT:
        return "all heads" if name == NO_HEADS_OFF else f"without {name.replace('+', ' and ')}"
    if comparison.by in BARE_NUMBER_ASPECTS:
        name = f"{comparison.by} {name}"
    return f"✗ {name}" if alternative.mistake else name


def alternative_title(comparison: Comparison, alternative: Alternative) -> str:
    """Return the title of an alternative's panel: its name, or `first` or `second` where two
    sentences are compared.
    """
    if comparison.by != TEXT_ASPECT:
        return alternative_name(comparison, alternative)
    return "first" if alternative is comparison.alternatives[0] else "second"


def difference_title(comparison: Comparison, alternative: Alternative) -> str:
    """Return the title of the difference of an alternative from the reference: `causal − none`."""
    pair = (alternative, comparison.base)
    return " − ".join(alternative_title(comparison, way) for way in pair)


def mean_measures(comparison: Comparison, measures: Measures) -> dict[str, float]:
    """Return the mean of each measure by name, over heads and queries, or only over the heads at
    the selected query if there is one.
    """
    if comparison.query is None:
        return measures.means()
    names = [field.name for field in fields(measures)]
    return {name: float(getattr(measures, name)[:, comparison.query].nanmean()) for name in names}


def compared_tokens(comparison: Comparison, alternative: Alternative) -> Tokens:
    """Return the tokens that label a difference from the reference: the alternative's own, or where
    two sentences are compared those of both, as in `learning/teaching`.
    """
    if comparison.by != TEXT_ASPECT:
        return alternative.tokens
    return combine_tokens(comparison.base.tokens, alternative.tokens)


def compared_sides(comparison: Comparison, alternative: Alternative) -> tuple[Tokens, Tokens]:
    """Return the tokens that label the queries and the keys of a difference from the reference."""
    tokens = compared_tokens(comparison, alternative)
    return tokens, tokens if alternative.keys is alternative.tokens else alternative.keys


def measures_table(comparison: Comparison) -> Grid:
    """Return a table of the mean measures: a row for each alternative, a column for each measure;
    NaN is masked.
    """
    means = [mean_measures(comparison, measures) for measures in comparison.measures]
    title, query = "measures", comparison.query
    if query is not None:
        title += f" of {query + 1} {compared_query_label(comparison, query)}"
    rows = [{text: row[name] for name, text in MEASURE_TITLES.items()} for row in means]
    return means_table(comparison, title, rows, _measures_note(comparison))


def means_table(
    comparison: Comparison, title: str, means: Sequence[Mapping[str, float]], note: str
) -> Grid:
    """Return a table of means by their titles, with a row for each alternative; NaN is masked."""
    names = [alternative_name(comparison, alternative) for alternative in comparison.alternatives]
    return Grid(
        title,
        plain_axis("way", names),
        plain_axis("measure", [*means[0]]),
        cells_without_nan(np.array([[*row.values()] for row in means])),
        colorless_scale("measure"),
        note=note,
    )


def compared_query_label(comparison: Comparison, query: int) -> str:
    """Return the label of the query token, from its position; where two sentences are compared,
    both labels, as in `learning/teaching`.
    """
    other = next(way for way in comparison.alternatives if way is not comparison.base)
    return compared_tokens(comparison, other).labels[query]


def _measures_note(comparison: Comparison) -> str:
    """Return a note on what was averaged over, and on what each column means."""
    has_several_heads = any(len(alternative.weights) > 1 for alternative in comparison.alternatives)
    averaged_axes = ["queries"] * (comparison.query is None) + ["heads"] * has_several_heads
    means = [f"means over {and_list(averaged_axes)}"] if averaged_axes else []
    reference = alternative_name(comparison, comparison.base)
    return " · ".join([*means, MEASURES_NOTE.format(reference=reference)])


def measures_by_query(comparison: Comparison) -> list[Grid]:
    pairs = zip(comparison.alternatives, comparison.measures, strict=True)
    return [_query_measures_grid(comparison, *pair) for pair in pairs]


def _query_measures_grid(
    comparison: Comparison, alternative: Alternative, measures: Measures
) -> Grid:
    """Return the table of one alternative's measures, averaged over the heads, with a row for each
    query.
    """
    columns = [tensor_to_numpy(getattr(measures, name).nanmean(0)) for name in MEASURE_TITLES]
    return Grid(
        f"measures of {alternative_name(comparison, alternative)}",
        token_axis("query (reads)", alternative.tokens),
        plain_axis("measure", [*MEASURE_TITLES.values()]),
        cells_without_nan(np.stack(columns, axis=1)),
        colorless_scale("measure"),
    )


def sweep_curves(sweep: Sweep, comparison: Comparison) -> list[Curves]:
    """Return a chart of each measure: unscaled and scaled; by temperature only as the maps are,
    and without the gradient.
    """
    if sweep.by != "temperature":
        return [_measure_curves(sweep, name, SWEEP_SERIES) for name in SWEEP_TITLES]
    series = [scaling_name(comparison)]
    return [_measure_curves(sweep, name, series) for name in SWEEP_TITLES if name != "gradient"]


def scaling_name(comparison: Comparison) -> str:
    """Return `scaled` or `unscaled`, as the reference is."""
    trace = comparison.base.trace
    return "scaled" if trace is not None and trace.variant.scaled else "unscaled"


def sweep_positions(sweep: Sweep) -> tuple[tuple[float, ...], str]:
    """Return the x values of a Sweep and the title of that axis: the head width d_k for distinct
    widths by `dim`, else the compared values.
    """
    if sweep.by == "dim" and len(set(sweep.widths)) == len(sweep.widths):
        return tuple(float(width) for width in sweep.widths), "d_k"
    return sweep.values, sweep.by


def _measure_curves(sweep: Sweep, name: str, shown_series: Sequence[str]) -> Curves:
    """Return the chart of measure `name`, sorted by x value; the spread of scores gets a dashed
    line √d_k unless temperatures are compared.
    """
    x_values, x_title = sweep_positions(sweep)
    order = np.argsort(x_values)
    repeats = {series: sweep.curves[name][series].numpy()[order] for series in shown_series}
    lines = [_quantile_curve(series, values) for series, values in repeats.items()]
    if name == "spread" and sweep.by != "temperature":
        root = np.sqrt(np.array(sweep.widths, dtype=float))[order]
        lines.append(Curve("√d_k", root, root, root, dashed=True))
    width = percent_text(QUANTILE_BAND[1] - QUANTILE_BAND[0])
    note = f"median of {sweep.repeats:,} seeds, band: the middle {width}"
    note = "one seed" if sweep.repeats == 1 else note
    note = " · ".join(filter(None, (SWEEP_NOTES.get(name), note)))
    return Curves(SWEEP_TITLES[name], x_title, tuple(sorted(x_values)), tuple(lines), note=note)


def _quantile_curve(name: str, repeats: np.ndarray) -> Curve:
    """Return the Curve of the median over the seeds (the second axis of `repeats`), with a band."""
    low, middle, high = np.quantile(repeats, [QUANTILE_BAND[0], 0.5, QUANTILE_BAND[1]], axis=1)
    return Curve(name, middle, low, high)
