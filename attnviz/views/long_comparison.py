"""The View of a LongComparison: maps of blocks, their differences, exact rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.long_comparison import LongComparison, RowChanges
from attnviz.cells import StoredCells, unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.heads.head import Head
from attnviz.heads.side import Side, label_at
from attnviz.traces.archive import summary_contents
from attnviz.traces.weights import tensor_to_numpy
from attnviz.views.comparison import common_settings_line
from attnviz.views.conclusions.long_findings import (
    NO_CHANGE,
    ROUNDING_ASPECTS,
    largest_change_texts,
    long_conclusion,
    long_row_conclusion,
)
from attnviz.views.grids.axes import AXES_NOTE, Axis, plain_axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads
from attnviz.views.grids.grid import Grid, cells_without_nan, with_common_scales
from attnviz.views.grids.long_map import LongMap, Profile
from attnviz.views.grids.scales import block_difference_scale, colorless_scale, round_up
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.views.heads.bars import row_bars, without_passages
from attnviz.views.heads.data import QUERY_NUMBERS
from attnviz.views.heads.explorer import axis_of_words
from attnviz.views.heads.grid import (
    TABLE_ROWS,
    block_axis,
    head_grid,
    measured_head,
    profiles,
)
from attnviz.views.heads.passages import paragraph_starts, quoted_label
from attnviz.views.measure_tables import alternative_name, difference_title
from attnviz.views.notes import softmax_caveat
from attnviz.views.view import (
    HEAD_COLUMNS,
    Group,
    TableData,
    TableLines,
    View,
    WordColumns,
    build_page,
    head_cells,
)
from attnviz.wording.numbers import number_or_none

MOST_ACROSS = 3  # maps in a row of a picture; more alternatives have no differences there
MOST_COMPARED_KEYS = 10  # of each alternative, in a table of one row
HALF_PRECISION_NOTE = (
    "half precision rounds queries, keys and values here; their softmax is computed in 32 bits"
)
ROW_MEASURES = {"peak": "largest_weight", "distance": "mean_distance", "first": "on_first"}
CHANGE_MEASURES = {"JS": "divergence", "moved": "moved"}
MEASURE_TITLES = ("bits", "reads", *ROW_MEASURES, *CHANGE_MEASURES)
MEASURES_NOTE = (
    "means over queries{heads} · bits = entropy · reads = effective number of tokens read · peak = "
    "largest weight · distance in tokens · first = weight on the first token · JS = Jensen-Shannon "
    "divergence from '{reference}' in bits · moved = share of a row's weight that is on other keys "
    "than in '{reference}'"
)
MAP_COLUMNS = (
    *("way", *HEAD_COLUMNS, "query number", "query"),
    *(*QUERY_NUMBERS, *CHANGE_MEASURES.values()),
)
ROW_COLUMNS = ("way", *HEAD_COLUMNS, "key number", "key", "weight")


def view(
    comparison: LongComparison,
    *,
    query: int | str | None = None,
    mean: bool = False,
    curves: bool = False,
    log: bool = False,
) -> View:
    """Return the View of a comparison on a long text: maps of blocks of each alternative on one
    scale, their differences from the reference's, and means of what was measured.

    With a `query` (a word, or a position from 0) it is about the exact row of that token alone.
    `mean` shows the mean of the heads instead of each head, as do alternatives whose numbers of
    heads differ; `log` colours the maps by logarithm. `curves` are refused.
    """
    if curves:
        raise AttnvizError(
            "curves are drawn over many seeds, and each needs all weights of the text in memory",
            "leave --curves out, or give a shorter text",
            about="curves",
        )
    sides = compared_sides(comparison, mean=mean)
    tokens = comparison.base.tokens
    position = None if query is None else tokens.index(query, "query")
    if position is None:
        finding, changes = long_conclusion(comparison), comparison.changes
        screen, picture = _map_groups(comparison, sides, log=log)
        data = _map_data(comparison, sides, finding)
    else:
        changes = comparison.row_changes(position)
        finding = long_row_conclusion(comparison, position, changes)
        screen, picture = _row_groups(comparison, sides, position)
        data = _row_data(comparison, sides, position, finding)
    settings, caveat = common_settings_line(comparison), softmax_caveat(comparison.base.trace)
    typed = None if position is None else tokens.as_typed(position)
    options = {"query": typed, "mean": mean, "log": log}.items()
    chosen = {name: value for name, value in options if value}
    return View(
        title=f"compared by {comparison.by}",
        headline=finding,
        settings=settings,
        screen=build_page(screen, settings, caveat),
        picture=build_page(picture, settings, caveat),
        closing=(
            *largest_change_texts(comparison, changes, position),
            *precision_notes(comparison),
        ),
        head_explorer=lambda: _explore_blocks(comparison, sides, position, log=log),
        data=data,
        provenance=comparison.provenance,
        command=comparison.command and comparison.command.with_options(**chosen),
    )


def compared_sides(comparison: LongComparison, *, mean: bool) -> list[list[Head]]:
    """Return, for each head that is shown, that head of each alternative; for the mean of heads a
    single list.
    """
    is_mean = mean or comparison.heads in (None, 1)
    count = 1 if is_mean or comparison.heads is None else comparison.heads
    suffixes = [f" · head {head}" if count > 1 else "" for head in range(count)]
    return [
        [
            replace(
                measured_head(each.trace, each.layer, head),
                title=alternative_name(comparison, each) + suffix,
                is_mean=is_mean and each.layer.heads > 1,
            )
            for each in comparison.alternatives
        ]
        for head, suffix in enumerate(suffixes)
    ]


def precision_notes(comparison: LongComparison) -> tuple[str, ...]:
    """Return what half precision means here, where dtypes are compared and one is."""
    dtypes = {each.trace.provenance.dtype for each in comparison.alternatives}
    is_half = comparison.by == "dtype" and dtypes & {"bfloat16", "float16"}
    return (HALF_PRECISION_NOTE,) if is_half else ()


def _map_groups(
    comparison: LongComparison, sides: Sequence[Sequence[Head]], *, log: bool
) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture: maps, their differences from the reference's,
    measures and means along the text.
    """
    maps = with_common_scales([head_grid(head, log=log) for heads in sides for head in heads])
    count = len(comparison.alternatives)
    rows = [maps[first : first + count] for first in range(0, len(maps), count)]
    differences = with_common_scales(
        [grid for row in rows for grid in _difference_grids(comparison, row)]
    )
    screen = [
        Group("alternatives", tuple(maps)),
        Group("differences", tuple(differences)),
        Group("measures", (row_measures_table(comparison, sides),)),
        Group("along the text", tuple(_along_the_text(comparison, heads) for heads in sides)),
    ]
    return screen, [_picture_group(comparison, sides, rows, differences)]


def _difference_grids(comparison: LongComparison, grids: Sequence[Grid]) -> Iterator[Grid]:
    """Yield the difference of each alternative's map from the reference's, for one head."""
    base, name = grids[comparison.reference], alternative_name(comparison, comparison.base)
    suffix = base.title.removeprefix(name)
    for alternative, grid in zip(comparison.alternatives, grids, strict=True):
        if alternative is not comparison.base:
            differences = grid.values - base.values
            if comparison.by not in ROUNDING_ASPECTS:
                differences[np.abs(differences) <= NO_CHANGE] = 0
            cells = StoredCells(differences, base.hidden & grid.hidden)
            yield replace(
                grid,
                title=f"{difference_title(comparison, alternative)}{suffix}",
                cells=cells,
                scale=block_difference_scale("difference", cells),
                note=f"difference: above 0 = attends more than '{name}', below 0 = attends less",
                off=(),
            )


def _picture_group(
    comparison: LongComparison,
    sides: Sequence[Sequence[Head]],
    rows: Sequence[Sequence[Grid]],
    differences: Sequence[Grid],
) -> Group:
    """Return the maps of a picture in rows: those of a head, the reference first, and the
    difference of two beside them, or those of several below.
    """
    count, paragraphs = len(comparison.alternatives), paragraph_starts(comparison.base.keys)
    others = [index for index in range(count) if index != comparison.reference]
    order = [comparison.reference, *others]
    has_differences = count == 2 or (count == MOST_ACROSS and len(sides) == 1)
    highest = max(float(np.nanmax(_entropy_profile(head).values)) for row in sides for head in row)
    panels = []
    for number, (heads, grids) in enumerate(zip(sides, rows, strict=True)):
        for index in order:
            profile = replace(_entropy_profile(heads[index]), highest=highest)
            panels.append(_long_map(comparison, grids[index], profile, paragraphs))
        for place, index in enumerate(others if has_differences else ()):
            grid = differences[number * len(others) + place]
            changes = comparison.changes[index]
            assert changes is not None  # it is not the reference
            means = heads[index].rows.means(_moved_shares(changes, heads[index]))
            panels.append(
                _long_map(comparison, grid, Profile("attention moved", "", means, 1.0), paragraphs)
            )
    return Group("alternatives", tuple(panels), kind="table", column_count=MOST_ACROSS)


def _entropy_profile(head: Head) -> Profile:
    return profiles(head, head.rows.size)[0]


def _long_map(
    comparison: LongComparison, grid: Grid, profile: Profile, paragraphs: tuple[int, ...]
) -> LongMap:
    tokens, keys = range(len(comparison.base.tokens)), range(len(comparison.base.keys))
    return LongMap(grid, tokens, keys, (profile,), paragraphs)


def row_measures_table(comparison: LongComparison, sides: Sequence[Sequence[Head]]) -> Grid:
    """Return a table of means over queries and heads, with a row for each alternative."""
    rows = [row_measure_means(comparison, sides, index) for index, _ in enumerate(sides[0])]
    names = [alternative_name(comparison, each) for each in comparison.alternatives]
    reference = alternative_name(comparison, comparison.base)
    heads = " and heads" if any(each.layer.heads > 1 for each in comparison.alternatives) else ""
    return Grid(
        title="measures",
        rows=plain_axis("way", names),
        columns=plain_axis("measure", MEASURE_TITLES),
        cells=cells_without_nan(np.array([[*row.values()] for row in rows])),
        scale=colorless_scale("measure"),
        note=MEASURES_NOTE.format(heads=heads, reference=reference),
    )


def row_measure_means(
    comparison: LongComparison, sides: Sequence[Sequence[Head]], index: int
) -> dict[str, float]:
    """Return the means of what was measured of the rows of an alternative; NaN where nothing is
    defined.
    """
    heads = [row[index] for row in sides]
    bits = np.stack([head.defined_numbers("entropy") for head in heads])
    measured = {
        title: np.stack([head.defined_numbers(name) for head in heads])
        for title, name in ROW_MEASURES.items()
    }
    changes = comparison.changes[index]
    changed = {
        title: np.full(1, np.nan) if changes is None else tensor_to_numpy(getattr(changes, name))
        for title, name in CHANGE_MEASURES.items()
    }
    numbers = {"bits": bits, "reads": 2**bits, **measured, **changed}
    return {title: _mean_without_nan(values) for title, values in numbers.items()}


def _mean_without_nan(values: Float[np.ndarray, "*any"]) -> float:
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if numbers.size else float("nan")


def _along_the_text(comparison: LongComparison, heads: Sequence[Head]) -> Grid:
    """Return the entropy of each alternative, and the share of attention that moves, in a few parts
    of the text.
    """
    tokens = comparison.base.tokens
    side = Side(tokens, range(len(tokens)), -(-len(tokens) // TABLE_ROWS))
    columns = {f"{head.title} (bits)": head.numbers("entropy") for head in heads}
    for alternative, changes in zip(comparison.alternatives, comparison.changes, strict=True):
        if changes is not None:
            name = alternative_name(comparison, alternative)
            columns[f"{name}: moved"] = _moved_shares(changes, heads[0])
    means = [side.means(values) for values in columns.values()]
    return Grid(
        title="means along the text",
        rows=block_axis("queries", side),
        columns=plain_axis("measure", [*columns]),
        cells=unmasked_cells(np.stack(means, axis=1)),
        scale=colorless_scale("measure"),
        decimals=3,
    )


def _moved_shares(changes: RowChanges, head: Head) -> Float[np.ndarray, "query"]:
    """Return how much of each query's attention moves in a head; 0 where that is not defined."""
    moved = np.nan_to_num(tensor_to_numpy(changes.moved))
    shares: Float[np.ndarray, "query"] = moved.mean(0) if head.is_mean else moved[head.number]
    return shares


def _row_groups(
    comparison: LongComparison, sides: Sequence[Sequence[Head]], query: int
) -> tuple[list[Group], list[Group]]:
    """Return the groups of a screen and of a picture on the exact row of one token."""
    bars = [[row_bars(head.row(query)) for head in heads] for heads in sides]
    longest = max(ranked.full_length for row in bars for ranked in row)
    rankings = tuple(_with_length(ranked, longest) for row in bars for ranked in row)
    tables = tuple(_row_table(comparison, heads, query) for heads in sides)
    parts = tuple(_row_parts_table(comparison, heads, query) for heads in sides)
    picture = without_passages([Group("readings", rankings)])
    return [Group("readings", tables), Group("along the text", parts)], picture


def _with_length(ranked: RankedBars, longest: float) -> RankedBars:
    """Return bars whose lengths and colours reach to `longest`, as those beside them."""
    scale = replace(ranked.grid.scale, high=round_up(longest))
    return replace(ranked, longest=longest, grid=replace(ranked.grid, scale=scale))


def _row_table(comparison: LongComparison, heads: Sequence[Head], query: int) -> Grid:
    """Return the weights on the keys that a token attends to most in any alternative, the largest
    first, and their differences from the reference's.
    """
    rows = np.stack([head.weights_of(query) for head in heads])
    most = np.argsort(-rows, axis=1, kind="stable")[:, :MOST_COMPARED_KEYS]
    attended = np.unique(most[np.take_along_axis(rows, most, axis=1) > 0]).tolist()
    keys = sorted(attended, key=lambda key: (-float(rows[:, key].max()), key))
    tokens = heads[0].columns.tokens
    numbers, labels = [f"{key + 1:,}" for key in keys], [label_at(tokens, key) for key in keys]
    return _numbers_by_way(
        comparison,
        heads,
        f"what {quoted_label(comparison.base.tokens, query)} attends to most",
        Axis("key", "token", tuple(labels), tuple(numbers), (False,) * len(keys)),
        rows[:, keys],
    )


def _row_parts_table(comparison: LongComparison, heads: Sequence[Head], query: int) -> Grid:
    """Return how much of a token's attention goes to each part of the text."""
    rows = np.stack([head.weights_of(query) for head in heads])
    side = replace(heads[0].columns, size=-(-rows.shape[1] // TABLE_ROWS))
    sums = np.add.reduceat(rows, np.arange(0, rows.shape[1], side.size), axis=1)
    axis = block_axis("keys", side)
    return _numbers_by_way(comparison, heads, "sums along the text", axis, sums)


def _numbers_by_way(
    comparison: LongComparison,
    heads: Sequence[Head],
    title: str,
    rows: Axis,
    numbers: Float[np.ndarray, "way row"],
) -> Grid:
    """Return a table with a column for each alternative, and one for each difference."""
    others = [each for each in comparison.alternatives if each is not comparison.base]
    base = numbers[comparison.reference]
    differences = [
        values - base
        for each, values in zip(comparison.alternatives, numbers, strict=True)
        if each is not comparison.base
    ]
    names = [alternative_name(comparison, each) for each in comparison.alternatives]
    suffix = heads[0].title.removeprefix(names[0])
    return Grid(
        title=f"{title}{suffix}",
        rows=rows,
        columns=plain_axis("way", [*names, *(difference_title(comparison, way) for way in others)]),
        cells=unmasked_cells(np.stack([*numbers, *differences], axis=1)),
        scale=colorless_scale("weight"),
        decimals=3,
    )


def _explore_blocks(
    comparison: LongComparison,
    sides: Sequence[Sequence[Head]],
    query: int | None,
    *,
    log: bool,
) -> HeadExplorer:
    """Return the maps of all alternatives and their differences, for a reader of a page; with a
    query, its block is followed.
    """
    screen, _ = _map_groups(comparison, sides, log=log)
    [maps, differences, *_] = screen
    names = [alternative_name(comparison, each) for each in comparison.alternatives]
    others = [each for each in comparison.alternatives if each is not comparison.base]
    titles = [difference_title(comparison, each) for each in others]
    explored, axes = [], dict[tuple[str, ...], Axis]()
    for row_names, group in ((names, maps), (titles, differences)):
        for place, grid in enumerate(group.panels):
            assert isinstance(grid, Grid)
            head, index = divmod(place, len(row_names))
            queries, keys = axis_of_words(grid.rows), axis_of_words(grid.columns)
            queries = axes.setdefault(queries.labels, queries)
            head_map = HeadMap(
                name=grid.title,
                query_axis=queries,
                key_axis=axes.setdefault(keys.labels, keys),
                weights=grid.cells,
                share=grid.share and group is maps,
                signed=group is differences,
                note=grid.note if group is differences else "",
                measure="weight" if group is maps else "difference",
            )
            explored.append((row_names[index], f"H{head}", head_map))
    note = " · ".join(filter(None, (AXES_NOTE, head_grid(sides[0][0], log=log).pool_note)))
    row = None if query is None else query // sides[0][0].rows.size
    return arrange_heads(explored, ("way", "head"), query=row, log=log, note=note)


def _map_data(
    comparison: LongComparison, sides: Sequence[Sequence[Head]], finding: str
) -> TableData:
    """Return everything that was measured as data; the table has a line for each alternative, head
    and query.
    """
    return TableData(
        "long-comparison",
        lambda: _map_contents(comparison, sides, finding),
        MAP_COLUMNS,
        lambda: _compared_row_lines(comparison),
    )


def _map_contents(
    comparison: LongComparison, sides: Sequence[Sequence[Head]], finding: str
) -> Mapping[str, Any]:
    """Return the maps and measures of all alternatives and their changes as JSON data."""
    base = comparison.base.weights.summary.pooled
    ways = []
    for index, each in enumerate(comparison.alternatives):
        means = row_measure_means(comparison, sides, index).items()
        changes, summary = comparison.changes[index], each.weights.summary
        is_alike = changes is not None and summary.pooled.shape == base.shape
        ways.append(
            {
                "name": each.name,
                "settings": each.trace.provenance.settings,
                **summary_contents(summary),
                "means": {name: number_or_none(value) for name, value in means},
                "changes": None
                if changes is None
                else {
                    "map": tensor_to_numpy(summary.pooled - base.to(summary.pooled.device))
                    if is_alike
                    else None,
                    "moved": _numbers_or_none(changes.moved),
                    "divergence": _numbers_or_none(changes.divergence),
                    "largest": asdict(changes.largest),
                },
            }
        )
    tokens = comparison.base.tokens
    return {
        "by": comparison.by,
        "reference": comparison.base.name,
        "query": None,
        "conclusion": finding,
        "tokens": {"ids": np.array(tokens.ids), "count": len(tokens)},
        "ways": ways,
    }


def _numbers_or_none(numbers: Float[Tensor, "head query"]) -> list[list[float | None]]:
    return [[number_or_none(number) for number in row] for row in numbers.tolist()]


def _compared_row_lines(comparison: LongComparison) -> Iterator[TableLines]:
    """Yield a line for each query of each head of each alternative."""
    tokens = comparison.base.tokens
    numbers = tuple(str(number) for number in range(1, len(tokens) + 1))
    words = WordColumns((numbers, tokens.labels))
    for alternative, changes in zip(comparison.alternatives, comparison.changes, strict=True):
        summary = alternative.weights.summary
        for head in range(alternative.layer.heads):
            columns = [tensor_to_numpy(getattr(summary, name)[head]) for name in QUERY_NUMBERS]
            is_by_head = changes is not None and len(changes.moved) == alternative.layer.heads
            for name in CHANGE_MEASURES.values():
                changed = getattr(changes, name)[head] if is_by_head else None
                nothing = np.full(len(tokens), np.nan)
                columns.append(nothing if changed is None else tensor_to_numpy(changed))
            finite = tuple([number_or_none(x) for x in column.tolist()] for column in columns)
            start = (alternative.name, *head_cells(alternative.layer.head_name(head)))
            yield TableLines(start, words, finite)


def _row_data(
    comparison: LongComparison, sides: Sequence[Sequence[Head]], query: int, finding: str
) -> TableData:
    """Return the exact rows of one token as data, with a line for each key."""
    rows = [[head.weights_of(query) for head in heads] for heads in sides]
    heads = "mean" if sides[0][0].is_mean else None

    def document() -> Mapping[str, Any]:
        ways = [
            {"name": each.name, "weights": np.stack([row[index] for row in rows])}
            for index, each in enumerate(comparison.alternatives)
        ]
        return {
            "by": comparison.by,
            "reference": comparison.base.name,
            "query": query + 1,
            "conclusion": finding,
            "ways": ways,
        }

    def lines() -> Iterator[TableLines]:
        tokens = comparison.base.keys
        numbers = tuple(str(number) for number in range(1, len(tokens) + 1))
        words = WordColumns((numbers, tokens.labels))
        for index, each in enumerate(comparison.alternatives):
            for head, row in enumerate(rows):
                name = heads or each.layer.head_name(head)
                yield TableLines((each.name, *head_cells(name)), words, (row[index],))

    return TableData("long-row-comparison", document, ROW_COLUMNS, lines)
