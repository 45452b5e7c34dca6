"""The map of a head as a Grid, and what changes along its text."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log10

import numpy as np

from attnviz.cells import unmasked_cells
from attnviz.heads.changes import mean_head
from attnviz.heads.head import Head
from attnviz.heads.side import Side, token_side
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Layer, Trace
from attnviz.views.attention_facts import do_rows_sum_to_one
from attnviz.views.grids.axes import AXES_NOTE, ROW_SUM_NOTE, Axis, plain_axis
from attnviz.views.grids.grid import OFF_SUFFIX, Grid
from attnviz.views.grids.long_map import LongMap, Profile
from attnviz.views.grids.scales import colorless_scale, logarithmic_scale, weight_scale
from attnviz.views.reading import attention_head_name

PROFILES = (  # what is drawn along the text: the name in a summary, in words, and the unit
    ("entropy", "entropy", "bits"),
    ("mean_distance", "distance", "tokens"),
    ("on_first", "on the first token", ""),
)
TABLE_ROWS = 8  # of the numbers along the text on a terminal
SMALL_HIGH = 0.1  # a scale that ends below it needs more than two decimals
PARAGRAPH_SIGN = "¶ "  # before the label of a token at which a paragraph begins
NOWHERE = frozenset[int]()


def whole_head(trace: Trace, layer: Layer, number: int) -> Head:
    """Return a head on the whole text, each token by itself."""
    name = attention_head_name(trace, layer, number)
    is_only = layer.heads == 1 and len(trace.attention_layers) == 1
    title = "" if is_only else name
    if trace.trained is not None:
        title = format_head_id(layer.layer, number)
    rows, columns = token_side(trace.tokens), token_side(trace.keys_of(layer))
    cells = layer.weights.cells("mixing", number)
    return Head(name, cells, rows, columns, layer, number, title)


def whole_heads(trace: Trace) -> list[Head]:
    """Return every head of a Trace."""
    return [
        whole_head(trace, layer, number)
        for layer in trace.attention_layers
        for number in range(layer.heads)
    ]


def measured_head(trace: Trace, layer: Layer, number: int) -> Head:
    """Return a head on a whole long text, in the blocks of what was measured of it."""
    return _measured(whole_head(trace, layer, number))


def mean_of_layer(trace: Trace, layer: Layer) -> Head:
    """Return the mean of all heads of a layer on a whole long text."""
    return _measured(mean_head([whole_head(trace, layer, each) for each in range(layer.heads)]))


def _measured(head: Head) -> Head:
    summary, _ = head.map_summary
    rows = replace(head.rows, size=summary.row_height)
    columns = replace(head.columns, size=summary.column_width)
    return replace(head, rows=rows, columns=columns, is_measured=True)


def measured_heads(trace: Trace) -> list[Head]:
    """Return every head of a Trace of a long text."""
    return [measured_head(trace, head.layer, head.number) for head in whole_heads(trace)]


def title_with_head(head: Head, title: str) -> str:
    return " · ".join(filter(None, (title, head.title)))


def side_axis(
    title: str, side: Side, prompt: int | None = None, starts: frozenset[int] = NOWHERE
) -> Axis:
    """Return an axis of tokens, words or blocks with their true numbers.

    Blocks have no labels; a label has a sign where a paragraph begins (a place in `starts`). After
    the first `prompt` tokens there is a border: those behind it were generated.
    """
    if side.size > 1:
        blocks = side.blocks
        numbers = tuple(
            f"{block[0] + 1}–{block[-1] + 1}" if len(block) > 1 else f"{block[0] + 1}"
            for block in blocks
        )
        nothing = (False,) * len(blocks)
        return Axis(title, "token", ("",) * len(blocks), numbers, nothing, special=nothing)
    labels = side.labels
    if starts:
        signs = (PARAGRAPH_SIGN * (place in starts) for place in side.span)
        labels = tuple(f"{sign}{label}" for sign, label in zip(signs, labels, strict=True))
    prompt_length = 0 if prompt is None else sum(group[0] < prompt for group in side.groups)
    border = prompt_length if 0 < prompt_length < len(side) else None
    numbers = tuple(map(str, side.numbers))
    return Axis(title, "token", labels, numbers, side.spaced, border, side.special)


def head_grid(
    head: Head,
    *,
    log: bool,
    block: tuple[int, int] | None = None,
    title: str | None = None,
    note: str | None = None,
    starts: frozenset[int] = NOWHERE,
) -> Grid:
    """Return the weights of a head as a Grid; `block`: queries and keys in a cell of it."""
    height, width = block or head.block
    cells, is_share = head.cells_in((height, width)), head.pool == "mean"
    scale = weight_scale(cells, None if head.is_measured else len(head.columns.tokens))
    if note is None:
        merged = f"mean of {len(head.merged_heads)} heads" * bool(head.merged_heads)
        sums = ROW_SUM_NOTE * (is_share and do_rows_sum_to_one(cells))
        note = " · ".join(filter(None, (AXES_NOTE, merged, sums)))
    how = "weights summed over keys, averaged over queries" if is_share else "the largest weight"
    rows = side_axis("query (reads)", replace(head.rows, size=height), starts=starts)
    is_one_text = head.reads_itself and head.rows.span == head.columns.span
    columns = replace(rows, title="key (is read)")
    if not is_one_text or height != width:
        side, starts = replace(head.columns, size=width), starts if head.reads_itself else NOWHERE
        columns = side_axis("key (is read)", side, starts=starts)
    is_small = not head.is_measured and scale.high < SMALL_HIGH
    if title is None:
        title = head.title
    elif title:
        title += OFF_SUFFIX * head.is_off
    return Grid(
        title=title,
        rows=rows,
        columns=columns,
        cells=cells,
        scale=logarithmic_scale(scale, cells.shape[1]) if log else scale,
        note=note,
        decimals=1 - floor(log10(scale.high)) if is_small else None,
        share=is_share or (height, width) == (1, 1),
        off=(True,) * len(rows) if head.is_off else (),
        pool_note=f"one cell = {height:,} × {width:,} tokens: {how}" * (height * width > 1),
        cell_size=(height, width),
    )


def profiles(head: Head, height: int) -> tuple[Profile, ...]:
    """Return the means of what was measured of the queries of each row, of so many, of a long
    text's map."""
    if head.layer.long_weights is None and not head.is_measured:
        return ()
    rows, side = slice(head.rows.span.start, head.rows.span.stop), replace(head.rows, size=height)
    return tuple(
        Profile(words, unit, side.means(head.numbers(name)[rows])) for name, words, unit in PROFILES
    )


def long_map(head: Head, grid: Grid, paragraphs: tuple[int, ...]) -> LongMap:
    """Return a Grid of a head with true axes, and what changes along the text beside it."""
    return LongMap(
        grid=grid,
        row_tokens=head.rows.span,
        column_tokens=head.columns.span,
        profiles=profiles(head, grid.cell_size[0]),
        paragraphs=paragraphs,
    )


def profile_table(head: Head) -> Grid:
    """Return what changes along the text as a table with a few rows, for a terminal."""
    side = replace(head.rows, size=-(-len(head.rows.span) // TABLE_ROWS))
    columns = [side.means(head.numbers(name)) for name, *_ in PROFILES]
    names = [Profile(words, unit, column).title
             for (_, words, unit), column in zip(PROFILES, columns, strict=True)]  # fmt: skip
    columns.insert(1, side.means(even_entropy(head)))
    names.insert(1, "if even")
    return Grid(
        title=title_with_head(head, "means along the text"),
        rows=side_axis("queries", side),
        columns=plain_axis("measure", names),
        cells=unmasked_cells(np.stack(columns, axis=1)),
        scale=colorless_scale("measure"),
        decimals=2,
    )


def even_entropy(head: Head) -> np.ndarray:
    """Return the entropy of each row, in bits, if it were even over the keys that the mask
    allows."""
    bits: np.ndarray = np.log2(np.maximum(head.visible_counts, 1))
    return bits
