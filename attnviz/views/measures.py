"""The measures of a Comparison as a table, and of a Sweep as curves."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from attnviz.analysis.aspects import ABLATION_ASPECT, NO_HEADS_OFF, TEXT_ASPECT
from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import QUANTILE_BAND, Measures
from attnviz.analysis.second_sentence import combine_tokens
from attnviz.analysis.sweeps import SWEEP_SERIES, Sweep
from attnviz.cells import StoredCells
from attnviz.tokens.tokens import Tokens
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid
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
BARE_NUMBER_ASPECTS = ("dim", "heads", "temperature", "seed")  # values that are bare numbers


def alternative_name(comparison: Comparison, alternative: Alternative) -> str:
    """What an alternative is called in tables and pictures: mistakes are marked."""
    name = alternative.name
    if comparison.by == ABLATION_ASPECT:
        return "all heads" if name == NO_HEADS_OFF else f"without {name.replace('+', ' and ')}"
    if comparison.by in BARE_NUMBER_ASPECTS:
        name = f"{comparison.by} {name}"
    return f"✗ {name}" if alternative.mistake else name


def alternative_title(comparison: Comparison, alternative: Alternative) -> str:
    """What stands above its panel: of two sentences, whose labels are beside it, which it is."""
    if comparison.by != TEXT_ASPECT:
        return alternative_name(comparison, alternative)
    return "first" if alternative is comparison.alternatives[0] else "second"


def mean_measures(comparison: Comparison, measures: Measures) -> dict[str, float]:
    """Each measure's mean; of one query, if that is shown alone."""
    if comparison.query is None:
        return measures.means()
    rows = {
        measure_field.name: getattr(measures, measure_field.name)[:, comparison.query]
        for measure_field in fields(measures)
    }
    return {name: float(row.nanmean()) for name, row in rows.items()}


def compared_tokens(comparison: Comparison, alternative: Alternative) -> Tokens:
    """Those that a difference from the reference is about; of two sentences both."""
    if comparison.by != TEXT_ASPECT:
        return alternative.tokens
    return combine_tokens(comparison.base.tokens, alternative.tokens)


def measures_table(comparison: Comparison) -> Grid:
    """A row for each alternative, a column for each measure; the means, or one query's."""
    means = [mean_measures(comparison, measures) for measures in comparison.measures]
    title, query = "measures", comparison.query
    if query is not None:
        title += f" of {query + 1} {compared_query_label(comparison, query)}"
    names = [alternative_name(comparison, alternative) for alternative in comparison.alternatives]
    return Grid(
        title,
        plain_axis("way", names),
        plain_axis("measure", [*MEASURE_TITLES.values()]),
        _cells_without_nan(np.array([[row[name] for name in MEASURE_TITLES] for row in means])),
        colorless_scale("measure"),
        note=_measures_note(comparison),
    )


def compared_query_label(comparison: Comparison, query: int) -> str:
    """What the query that is shown alone is called; of two sentences in both."""
    other_alternatives = (
        alternative for alternative in comparison.alternatives if alternative is not comparison.base
    )
    return compared_tokens(comparison, next(other_alternatives)).labels[query]


def _measures_note(comparison: Comparison) -> str:
    """What was averaged, and what each column is."""
    has_several_heads = any(len(alternative.weights) > 1 for alternative in comparison.alternatives)
    averaged_axes = ["queries"] * (comparison.query is None) + ["heads"] * has_several_heads
    means = [f"means over {and_list(averaged_axes)}"] if averaged_axes else []
    return " · ".join(
        [*means, MEASURES_NOTE.format(reference=alternative_name(comparison, comparison.base))]
    )


def measures_by_query(comparison: Comparison) -> list[Grid]:
    """For each alternative, a row for each query, in the mean of its heads."""
    pairs = zip(comparison.alternatives, comparison.measures, strict=True)
    return [_query_measures_grid(comparison, *pair) for pair in pairs]


def _query_measures_grid(
    comparison: Comparison, alternative: Alternative, measures: Measures
) -> Grid:
    columns = [tensor_to_numpy(getattr(measures, name).nanmean(0)) for name in MEASURE_TITLES]
    return Grid(
        f"measures of {alternative_name(comparison, alternative)}",
        token_axis("query (reads)", alternative.tokens),
        plain_axis("measure", [*MEASURE_TITLES.values()]),
        _cells_without_nan(np.stack(columns, axis=1)),
        colorless_scale("measure"),
    )


def _cells_without_nan(values: np.ndarray) -> StoredCells:
    """What is no number is none."""
    return StoredCells(np.nan_to_num(values), np.isnan(values))


SWEEP_TITLES = {
    "spread": "spread of the scores",
    "entropy": "entropy (bits)",
    "peak": "peak",
    "gradient": "softmax gradient",
}


def sweep_curves(sweep: Sweep) -> list[Curves]:
    """A panel for each measure, scaled and unscaled, with the band that 8 of 10 seeds lie in."""
    return [_measure_curves(sweep, name, title) for name, title in SWEEP_TITLES.items()]


def sweep_positions(sweep: Sweep) -> tuple[tuple[float, ...], str]:
    """Where along a side the values lie, and what that side is called."""
    if sweep.by == "dim" and len(set(sweep.widths)) == len(sweep.widths):
        return tuple(float(width) for width in sweep.widths), "d_k"
    return sweep.values, sweep.by


def _measure_curves(sweep: Sweep, name: str, title: str) -> Curves:
    x_values, x_title = sweep_positions(sweep)
    order = np.argsort(x_values)
    lines = [
        _quantile_curve(series, sweep.curves[name][series].numpy()[order])
        for series in SWEEP_SERIES
    ]
    if name == "spread" and sweep.by != "temperature":
        root = np.sqrt(np.array(sweep.widths, dtype=float))[order]
        lines.append(Curve("√d_k", root, root, root, dashed=True))
    band_note = f"median of {sweep.repeats:,} seeds, band: the middle {percent_text(QUANTILE_BAND[1] - QUANTILE_BAND[0])}"
    seeds_note = "one seed" if sweep.repeats == 1 else band_note
    return Curves(title, x_title, tuple(sorted(x_values)), tuple(lines), note=seeds_note)


def _quantile_curve(name: str, repeats: np.ndarray) -> Curve:
    low, middle, high = np.quantile(repeats, [QUANTILE_BAND[0], 0.5, QUANTILE_BAND[1]], axis=1)
    return Curve(name, middle, low, high)
