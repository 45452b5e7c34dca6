"""A Comparison, and a Sweep, as what can be shown: weights, differences, measures, curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from attnviz.analysis.comparison import BY, Change, Comparison, Way
from attnviz.analysis.measures import Measures
from attnviz.analysis.sweeps import BAND, SERIES, Sweep
from attnviz.attention import arithmetic as attention
from attnviz.tokens.tokens import Tokens
from attnviz.views import trace as trace_grids
from attnviz.views.grids import grids
from attnviz.views.grids.grids import Curves, Drawable, Grid, Line, Scale

COLUMNS = {  # of the table of measures
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
    "means over queries and heads · bits = entropy · share = of the largest entropy possible · "
    "reads = effective number of tokens · grad. = size of the softmax's gradient, near 0 when "
    "saturated · JS = divergence from '{reference}' in bits · sum≠1 = how far rows are from "
    "summing to 1 · leak = weight on what should not be seen"
)
_VARYING = {  # what differs is no setting of the whole
    "scale": ("scale",),
    "variant": ("heads", "scale", "mask"),
    "mask": ("mask", "window"),
    "dim": ("dim", "heads"),
    "heads": ("heads",),
    "temperature": ("temperature",),
    "positions": ("positions",),
    "seed": ("seed",),
    "dtype": ("dtype",),
    "device": ("dtype",),  # the part that names both
    "tokenizer": ("tokens",),
}
VISIBLE = 1e-4  # what a mistake must change to be called one
NEXT_TO_NOTHING = 1e-6
PANELS_IN_A_ROW = 5


def panels(made: Comparison, columns: int) -> list[Grid | None]:
    """The ways in rows of so many, and below each way its difference from the reference."""
    weights, differences = _weights_and_differences(made)
    if len(weights) == 2 or not differences:
        others = [grid for place, grid in enumerate(differences) if place != made.reference]
        return [*weights, *others]
    base = name_of(made, made.ways[made.reference])  # each stands below the way that it is of
    differences = [
        grid if place == made.reference else replace(grid, title=f"minus {base}")
        for place, grid in enumerate(differences)
    ]
    shown: list[Grid | None] = []
    for start in range(0, len(weights), columns):
        row = slice(start, start + columns)
        missing = [None] * (columns - len(weights[row]))
        shown += [*weights[row], *missing, *differences[row], *missing]
    return shown


def columns(made: Comparison, charts: int, size: tuple[float, float] | None) -> int | None:
    """How many panels stand in a row; None leaves it to whoever draws them.

    Of its own size a picture has rows of at most five ways, as long as each other; of a given
    one so many that the panels come out as large as they can.
    """
    count = len(made.ways)
    if count == 2:
        return 4 if charts else (None if size else 3)
    least = charts if charts and count >= 3 else 1
    if size is None:
        return max(least, -(-count // -(-count // PANELS_IN_A_ROW)))
    return max(
        range(least, max(count, least) + 1), key=lambda wide: _side(count, wide, charts, size)
    )


def _side(count: int, columns: int, charts: int, size: tuple[float, float]) -> float:
    """About how large a panel becomes, in inches: rows also hold labels, a page also a title."""
    rows = 2 * -(-count // columns) + (1 if charts else 0)
    return min(size[0] / columns, (size[1] - 1) / rows - 0.6)


def on_screen(made: Comparison) -> list[Grid]:
    """The ways, then the differences, but for the reference's from itself."""
    weights, differences = _weights_and_differences(made)
    return [*weights, *(grid for place, grid in enumerate(differences) if place != made.reference)]


def _weights_and_differences(made: Comparison) -> tuple[list[Grid], list[Grid]]:
    """No differences where the tokens of the ways are not the same."""
    weights = grids.same_scale([_weights(made, way) for way in made.ways])
    places = [place for place in range(len(made.ways)) if place != made.reference]
    found = [grid for grid in (_difference(made, place) for place in places) if grid]
    if len(found) < len(places):
        return weights, []
    differences = grids.same_scale(found)
    nothing = np.zeros_like(weights[made.reference].values)
    itself = replace(differences[0], title="the reference", values=nothing, hidden=nothing != 0)
    return weights, [*differences[: made.reference], itself, *differences[made.reference :]]


def for_picture(
    made: Comparison, charts: Sequence[Drawable], columns: int | None
) -> list[Drawable]:
    """The panels, and the charts in a row of their own below them."""
    wide = columns or len(made.ways)
    above = panels(made, wide)
    holes = [None] * (-len(above) % wide) if charts else []
    return [*above, *holes, *charts, *[None] * (-len(charts) % wide if charts else 0)]


def settings_line(made: Comparison) -> str:
    traced = made.ways[made.reference].trace
    fixed = f"the same in all: {BY[made.by].fixed}"
    return (
        f"{fixed} · {trace_grids.settings_line(traced, without=_VARYING[made.by])}"
        if traced
        else fixed
    )


def measures_table(made: Comparison) -> Grid:
    """A row for each way, a column for each measure; the means, or one query's."""
    means = [_means(made, measures) for measures in made.measures]
    values = np.array([[row[name] for name in COLUMNS] for row in means])
    return Grid(
        "measures" if made.query is None else f"measures of {_query_name(made, made.query)}",
        grids.plain_axis("way", [name_of(made, way) for way in made.ways]),
        grids.plain_axis("measure", [*COLUMNS.values()]),
        np.nan_to_num(values),
        np.isnan(values),
        Scale("measure", 0, 1, "none"),
        note=MEASURES_NOTE.format(reference=name_of(made, made.ways[made.reference])),
    )


def rows_of_measures(made: Comparison) -> list[Grid]:
    """For each way, a row for each query, in the mean of its heads."""
    return [
        _rows_of(made, way, measures)
        for way, measures in zip(made.ways, made.measures, strict=True)
    ]


def changes_listed(made: Comparison) -> list[str]:
    """`largest change from unscaled to scaled: learning → this: .31 → .97`"""
    start = f"largest change from {name_of(made, made.ways[made.reference])} to"
    return [
        f"{start} {name_of(made, way)}: {_change(made, way, change)}"
        for way, change in zip(made.ways, made.changes, strict=True)
        if change
    ]


def mistakes(made: Comparison) -> list[str]:
    return [f"✗ {way.name} is a mistake: {way.mistake}" for way in made.ways if way.mistake]


def name_of(made: Comparison, way: Way) -> str:
    """What a way is called in tables and pictures: mistakes are marked."""
    name = (
        f"{made.by} {way.name}" if made.by in ("dim", "heads", "temperature", "seed") else way.name
    )
    return f"✗ {name}" if way.mistake else name


def conclusion(made: Comparison, swept: Sweep | None = None) -> str:
    """One sentence in plain words, made from the figures."""
    if swept is not None:
        return _conclusion_on_sweep(swept)
    if any(way.mistake for way in made.ways):
        return _conclusion_on_mistakes(made)
    if made.by in ("dtype", "device"):
        return _conclusion_on_rounding(made)
    if made.by == "scale" and len(made.ways) == 2:
        return _conclusion_on_scale(made)
    # Counts of tokens can be held against each other only where there are as many to read.
    alike = len({len(way.keys) for way in made.ways}) == 1
    found = [
        _means(made, measures)["effective" if alike else "share"] for measures in made.measures
    ]
    words = "{:.2f} tokens a query" if alike else "{:.0%} of the largest entropy"
    sharpest, flattest = int(np.nanargmin(found)), int(np.nanargmax(found))
    if found[flattest] - found[sharpest] < 0.005:
        return f"All of them read alike: {words.format(found[0])}."
    names = [name_of(made, way) for way in made.ways]
    return (
        f"'{names[sharpest]}' reads most sharply, {words.format(found[sharpest])}, "
        f"and '{names[flattest]}' most evenly, {words.format(found[flattest])}."
    )


def curves(made: Sweep) -> list[Curves]:
    """A panel for each measure, scaled and unscaled, with the band that 8 of 10 seeds lie in."""
    titles = {
        "spread": "spread of the scores",
        "entropy": "entropy (bits)",
        "peak": "peak",
        "gradient": "softmax gradient",
    }
    places, across = _places(made)
    return [_curves(made, name, title, places, across) for name, title in titles.items()]


def _curves(made: Sweep, name: str, title: str, places: tuple[float, ...], across: str) -> Curves:
    order = np.argsort(places)
    lines = [_line(series, made.curves[name][series].numpy()[order]) for series in SERIES]
    if name == "spread" and made.by != "temperature":
        root = np.sqrt(np.array(made.widths, dtype=float))[order]
        lines.append(Line("√d_k", root, root, root, dashed=True))
    band = f"median of {made.repeats:,} seeds, band from {BAND[0]:.0%} to {BAND[1]:.0%}"
    seeds = "one seed" if made.repeats == 1 else band
    return Curves(title, across, tuple(sorted(places)), tuple(lines), note=seeds)


def _places(made: Sweep) -> tuple[tuple[float, ...], str]:
    if made.by == "dim":
        return tuple(float(width) for width in made.widths), "d_k"
    return made.values, made.by


def _line(name: str, repeats: np.ndarray) -> Line:
    low, middle, high = np.quantile(repeats, [BAND[0], 0.5, BAND[1]], axis=1)
    return Line(name, middle, low, high)


def _weights(made: Comparison, way: Way) -> Grid:
    values = trace_grids.array(way.weights.mean(0))
    title = name_of(made, way)
    if len(way.weights) > 1:
        title += f" · mean of {len(way.weights)} heads"
    hidden = ~way.visible.cpu().numpy()
    if way.mistake:
        hidden = hidden & (np.abs(values) <= NEXT_TO_NOTHING)  # weight that leaks is to be seen
    grid = Grid(
        title,
        trace_grids.token_axis("query (reads)", way.tokens),
        trace_grids.token_axis("key (is read)", way.keys),
        values,
        hidden,
        grids.weight_scale(values),
        note=trace_grids.WEIGHTS_NOTE.replace(" · each row sums to 1", ""),
        share=True,
    )
    return _shown(made, grid)


def _difference(made: Comparison, place: int) -> Grid | None:
    way, base = made.ways[place], made.ways[made.reference]
    difference = made.differences[place]
    if difference is None:
        return None
    values = trace_grids.array(difference.mean(0))
    hidden = ~(way.visible | base.visible).cpu().numpy() & (np.abs(values) <= NEXT_TO_NOTHING)
    grid = Grid(
        f"{name_of(made, way)} − {name_of(made, base)}",
        trace_grids.token_axis("query (reads)", way.tokens),
        trace_grids.token_axis("key (is read)", way.keys),
        values,
        hidden,
        grids.centred("difference", values),
        note="difference: warm = reads more, cold = reads less than the reference",
        share=True,
    )
    return _shown(made, grid)


def _shown(made: Comparison, grid: Grid) -> Grid:
    return grid if made.query is None else grids.only_row(grid, made.query)


def _means(made: Comparison, measures: Measures) -> dict[str, float]:
    if made.query is None:
        return measures.means()
    rows = {each.name: getattr(measures, each.name)[:, made.query] for each in fields(measures)}
    return {name: float(row.nanmean()) for name, row in rows.items()}


def _rows_of(made: Comparison, way: Way, measures: Measures) -> Grid:
    values = np.stack(
        [trace_grids.array(getattr(measures, name).nanmean(0)) for name in COLUMNS], axis=1
    )
    return Grid(
        f"measures of {name_of(made, way)}",
        trace_grids.token_axis("query (reads)", way.tokens),
        grids.plain_axis("measure", [*COLUMNS.values()]),
        np.nan_to_num(values),
        np.isnan(values),
        Scale("measure", 0, 1, "none"),
    )


def _change(made: Comparison, way: Way, change: Change) -> str:
    query, key = _named(way.tokens, change.query), _named(way.keys, change.key)
    among = f" in head {change.head}" if change.head is not None else ""
    if len(way.weights) != len(made.ways[made.reference].weights):
        among = " in the mean of heads"
    before, after = grids.share_text(change.before), grids.share_text(change.after)
    if before == after:
        return f"{query} → {key}{among}: by {grids.tiny_text(change.after - change.before)}"
    return f"{query} → {key}{among}: {before} → {after}"


def _named(tokens: Tokens, place: int) -> str:
    """A token's label, with its number where the label stands more than once."""
    label = tokens.labels[place]
    return f"{place + 1} {label}" if tokens.labels.count(label) > 1 else label


def _query_name(made: Comparison, query: int) -> str:
    return f"{query + 1} {made.ways[0].tokens.labels[query]}"


def _conclusion_on_scale(made: Comparison) -> str:
    by_name = {
        way.name: _means(made, measures)
        for way, measures in zip(made.ways, made.measures, strict=True)
    }
    unscaled, scaled = by_name["unscaled"], by_name["scaled"]
    before, after = unscaled["effective"], scaled["effective"]
    if abs(after - before) < 0.005:
        return f"Scaling changes nothing here: {_why_nothing(made)}."
    start = (
        f"Divided by {_divisor(made)}, the scores let a query read {after:.2f} tokens instead of"
    )
    times = scaled["gradient"] / max(unscaled["gradient"], 1e-12)
    if times <= 1:
        return f"{start} {before:.2f}."
    amount = f"{times:.1f} times" if times < 1000 else "over a thousand times"
    return f"{start} {before:.2f}, and give the softmax {amount} the gradient."


def _why_nothing(made: Comparison) -> str:
    way = made.ways[made.reference]
    visible = way.visible if made.query is None else way.visible[made.query]
    if int(visible.sum(-1).max()) == 1:
        return "a query sees one token, and reads it whole"
    if way.trace is not None and not way.trace.variant.compared:
        return "nothing is compared, so all scores are 0"
    return "the scores are too small, or too large, for it to matter"


def _conclusion_on_rounding(made: Comparison) -> str:
    """What dtypes and devices change, which is nothing but the last digits."""
    errors = [
        f"{way.name} by {grids.tiny_text(float(difference.abs().max()))}"
        for way, difference in zip(made.ways, made.differences, strict=True)
        if difference is not None
    ]
    reference = made.ways[made.reference].name
    return f"At most, weights differ from those of {reference} in {_listed(errors)}."


def _conclusion_on_sweep(made: Sweep) -> str:
    """From one end of the sweep to the other: what scaling keeps, and what is lost without it."""
    places, across = _places(made)
    order = np.argsort(places)
    first, last = int(order[0]), int(order[-1])
    if float(made.curves["spread"]["unscaled"].max()) == 0:
        return "Nothing is compared, so all scores are 0 and no width or scale matters."

    noun = "the number of heads" if made.by == "heads" else across

    def ends(measure: str, series: str) -> str:
        median = made.curves[measure][series].quantile(0.5, dim=1)
        return f"from {median[first]:.2g} to {median[last]:.2g}"

    return (
        f"As {noun} goes from {places[first]:g} to {places[last]:g}, the spread of unscaled "
        f"scores goes {ends('spread', 'unscaled')} and the entropy of a row "
        f"{ends('entropy', 'unscaled')} bits; scaled, they go {ends('spread', 'scaled')} and "
        f"{ends('entropy', 'scaled')}."
    )


def _divisor(made: Comparison) -> str:
    traced = made.ways[0].trace
    return "√d_k" if traced is None else f"√{traced.layers[0].head_dim}"


def _conclusion_on_mistakes(made: Comparison) -> str:
    """Which mistakes leak, which break the rows, which only reshape them, and which do nothing."""
    leaks: list[str] = []
    breaks: list[str] = []
    reshapes: list[str] = []
    idle: list[str] = []
    for way, measures in zip(made.ways, made.measures, strict=True):
        if not way.mistake:
            continue
        mean = _means(made, measures)
        if mean["hidden"] > VISIBLE:
            leaks.append(f"{way.name} ({mean['hidden']:.2f})")
        if mean["row_error"] > VISIBLE:
            breaks.append(way.name)
        elif mean["hidden"] <= VISIBLE:
            (reshapes if _differs(made, way) else idle).append(way.name)
    parts = [
        f"hidden tokens get weight in {_listed(leaks)}" if leaks else "",
        f"rows do not sum to 1 in {_listed(breaks)}" if breaks else "",
        f"only the shape of the rows tells {_listed(reshapes)}" if reshapes else "",
        f"here {_listed(idle)} cannot be told from what is right" if idle else "",
    ]
    sentence = "; ".join(part for part in parts if part)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _differs(made: Comparison, way: Way) -> bool:
    """Whether a mistake's weights are any other than the right ones of the same scores."""
    assert way.trace is not None
    (layer,) = way.trace.layers
    right = attention.attention_weights(layer.attended.scaled_scores, layer.visible)
    rows = slice(None) if made.query is None else slice(made.query, made.query + 1)
    return float((way.weights - right)[:, rows].abs().max()) > VISIBLE


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
