"""The measures of a Comparison as a table, and of a Sweep as curves."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from attnviz.analysis.aspects import ALL_ON, TEXT, WITHOUT
from attnviz.analysis.comparison import Alternative, Comparison
from attnviz.analysis.measures import BAND, Measures
from attnviz.analysis.sweeps import SERIES, Sweep
from attnviz.analysis.texts import of_both
from attnviz.cells import Whole
from attnviz.tokens.tokens import Tokens
from attnviz.traces.weights import array
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curve, Curves, Grid
from attnviz.views.grids.scales import colorless
from attnviz.views.reading import token_axis
from attnviz.wording.numbers import percent
from attnviz.wording.words import listed

COLUMNS = {
    "entropy": "bits",
    "share": "share",
    "effective": "reads",
    "peak": "peak",
    "gradient": "grad.",
    "divergence": "JS",
    "row_error": "sum≠1",
    "hidden": "leak",
}
NOTE = (
    "bits = entropy · share = entropy as a share of the largest possible · "
    "reads = effective number of tokens read · grad. = size of the softmax's gradient, near 0 when "
    "saturated · JS = Jensen-Shannon divergence from '{reference}' in bits · sum≠1 = how far row "
    "sums are from 1 · leak = weight on masked keys"
)
NAMED_BY_WHAT = ("dim", "heads", "temperature", "seed")  # values that are bare numbers


def name_of(comparison: Comparison, alternative: Alternative) -> str:
    """What an alternative is called in tables and pictures: mistakes are marked."""
    name = alternative.name
    if comparison.by == WITHOUT:
        return "all heads" if name == ALL_ON else f"without {name.replace('+', ' and ')}"
    if comparison.by in NAMED_BY_WHAT:
        name = f"{comparison.by} {name}"
    return f"✗ {name}" if alternative.mistake else name


def titled(comparison: Comparison, alternative: Alternative) -> str:
    """What stands above its panel: of two sentences, whose labels are beside it, which it is."""
    if comparison.by != TEXT:
        return name_of(comparison, alternative)
    return "first" if alternative is comparison.alternatives[0] else "second"


def means_of(comparison: Comparison, measures: Measures) -> dict[str, float]:
    """Each measure's mean; of one query, if that is shown alone."""
    if comparison.query is None:
        return measures.means()
    rows = {
        each.name: getattr(measures, each.name)[:, comparison.query] for each in fields(measures)
    }
    return {name: float(row.nanmean()) for name, row in rows.items()}


def tokens_of(comparison: Comparison, alternative: Alternative) -> Tokens:
    """Those that a difference from the reference is about; of two sentences both."""
    if comparison.by != TEXT:
        return alternative.tokens
    return of_both(comparison.base.tokens, alternative.tokens)


def measures_table(comparison: Comparison) -> Grid:
    """A row for each alternative, a column for each measure; the means, or one query's."""
    means = [means_of(comparison, measures) for measures in comparison.measures]
    title, query = "measures", comparison.query
    if query is not None:
        title += f" of {query + 1} {query_label(comparison, query)}"
    names = [name_of(comparison, each) for each in comparison.alternatives]
    return Grid(
        title,
        plain_axis("way", names),
        plain_axis("measure", [*COLUMNS.values()]),
        _table(np.array([[row[name] for name in COLUMNS] for row in means])),
        colorless("measure"),
        note=_note(comparison),
    )


def query_label(comparison: Comparison, query: int) -> str:
    """What the query that is shown alone is called; of two sentences in both."""
    others = (each for each in comparison.alternatives if each is not comparison.base)
    return tokens_of(comparison, next(others)).labels[query]


def _note(comparison: Comparison) -> str:
    """What was averaged, and what each column is."""
    several = any(len(each.weights) > 1 for each in comparison.alternatives)
    averaged = ["queries"] * (comparison.query is None) + ["heads"] * several
    means = [f"means over {listed(averaged)}"] if averaged else []
    return " · ".join([*means, NOTE.format(reference=name_of(comparison, comparison.base))])


def rows_of_measures(comparison: Comparison) -> list[Grid]:
    """For each alternative, a row for each query, in the mean of its heads."""
    pairs = zip(comparison.alternatives, comparison.measures, strict=True)
    return [_rows_of(comparison, *pair) for pair in pairs]


def _rows_of(comparison: Comparison, alternative: Alternative, measures: Measures) -> Grid:
    columns = [array(getattr(measures, name).nanmean(0)) for name in COLUMNS]
    return Grid(
        f"measures of {name_of(comparison, alternative)}",
        token_axis("query (reads)", alternative.tokens),
        plain_axis("measure", [*COLUMNS.values()]),
        _table(np.stack(columns, axis=1)),
        colorless("measure"),
    )


def _table(values: np.ndarray) -> Whole:
    """What is no number is none."""
    return Whole(np.nan_to_num(values), np.isnan(values))


TITLES = {
    "spread": "spread of the scores",
    "entropy": "entropy (bits)",
    "peak": "peak",
    "gradient": "softmax gradient",
}


def curves_of(sweep: Sweep) -> list[Curves]:
    """A panel for each measure, scaled and unscaled, with the band that 8 of 10 seeds lie in."""
    return [_curves(sweep, name, title) for name, title in TITLES.items()]


def places(sweep: Sweep) -> tuple[tuple[float, ...], str]:
    """Where along a side the values lie, and what that side is called."""
    if sweep.by == "dim" and len(set(sweep.widths)) == len(sweep.widths):
        return tuple(float(width) for width in sweep.widths), "d_k"
    return sweep.values, sweep.by


def _curves(sweep: Sweep, name: str, title: str) -> Curves:
    across, called = places(sweep)
    order = np.argsort(across)
    lines = [_curve(series, sweep.curves[name][series].numpy()[order]) for series in SERIES]
    if name == "spread" and sweep.by != "temperature":
        root = np.sqrt(np.array(sweep.widths, dtype=float))[order]
        lines.append(Curve("√d_k", root, root, root, dashed=True))
    band = f"median of {sweep.repeats:,} seeds, band: the middle {percent(BAND[1] - BAND[0])}"
    seeds = "one seed" if sweep.repeats == 1 else band
    return Curves(title, called, tuple(sorted(across)), tuple(lines), note=seeds)


def _curve(name: str, repeats: np.ndarray) -> Curve:
    low, middle, high = np.quantile(repeats, [BAND[0], 0.5, BAND[1]], axis=1)
    return Curve(name, middle, low, high)
