"""Grids as tables of a page: numbers on soft colours, and bars beside a ranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np

from attnviz.renderers.page.tags import NONE, Markup, tag, together
from attnviz.renderers.page.theming import shade_class
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.grid import OFF, Grid
from attnviz.views.grids.numbers import Write, cell_format, cell_text
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale
from attnviz.wording.words import counted, listed

HIDDEN = "·"
DECIMALS = 2
MOST_CELLS = 2**13  # of a table that somebody may want to read
MOST_BARS = 24
HOW_TO_GET_THEM = "-o numbers.json writes all of them"


def table(grid: Grid, beside: Sequence[Grid] = (), title: str | None = None) -> Markup:
    """A table with its title, in a frame that can be scrolled; of very many numbers a sentence."""
    name = grid.title if title is None else title
    if not can_be_read(grid):
        size = f"{_size(grid)} numbers are too many for a table: {HOW_TO_GET_THEM}."
        return tag("p", f"{name}: {size}" if name else size, class_="too-many")
    caption = tag("caption", struck(name) if grid.whole_off else name) if name else NONE
    inner = [caption, _head(grid), _body(grid, beside)]
    return _frame(tag("table", *inner, aria_label=None if name else grid.title or None))


def struck(name: str) -> Markup:
    """The name of a head that is switched off."""
    head, sign, rest = name.partition(OFF)
    return together([tag("s", head), f"{sign}{rest}"]) if sign else together([name])


def can_be_read(grid: Grid) -> bool:
    high, wide = grid.cells.shape
    return high * wide <= MOST_CELLS


def _size(grid: Grid) -> str:
    high, wide = grid.cells.shape
    return f"{high:,} × {wide:,}"


def too_many(grids: Sequence[Grid]) -> Markup:
    """One sentence for all tables whose numbers nobody would read."""
    names = listed([f"{each.title} ({_size(each)})" for each in grids])
    said = f"Too many numbers for a table: {names}; {HOW_TO_GET_THEM}."
    return tag("p", said, class_="too-many")


def _frame(inner: Markup) -> Markup:
    """What is wider or higher than there is room for can be scrolled."""
    return tag("div", inner, class_="frame")


def _head(grid: Grid) -> Markup:
    """What columns count, and their names."""
    names = [tag("th", name, scope="col") for name in grid.columns.names]
    corner = tag("td", _corner(grid))
    return tag("thead", tag("tr", corner, *names)) if any(grid.columns.names) else NONE


def _corner(grid: Grid) -> str:
    sides = grid.rows.title, grid.columns.title
    return " \\ ".join(sides) if all(sides) else ""


def _body(grid: Grid, beside: Sequence[Grid]) -> Markup:
    write = cell_format(grid, DECIMALS, beside)
    rows = (_row(grid, row, name, write) for row, name in enumerate(grid.rows.names))
    return tag("tbody", *rows)


def _row(grid: Grid, row: int, name: str, write: Write) -> Markup:
    named = tag("th", struck(name) if grid.is_off(row) else name, scope="row")
    return tag("tr", named, *_cells(grid, row, write))


def _cells(grid: Grid, row: int, write: Write) -> Iterator[Markup]:
    values, hidden = grid.values[row].tolist(), grid.hidden[row].tolist()
    classes, off = shades_of(grid.scale, grid.values[row]), grid.is_off(row)
    for column, (value, masked) in enumerate(zip(values, hidden, strict=True)):
        text = grid.worded(row, column, cell_text(value, masked, write, HIDDEN))
        shade = classes[column]
        greyed = f"{shade} off" if off and shade else shade
        yield tag("td", text, class_="hides" if masked else greyed)


def shades_of(scale: Scale, values: np.ndarray) -> list[str | None]:
    """The class of each number; none where there is no number, or no colour for it."""
    if scale.kind == "none":
        return [None] * len(values)
    gaps = np.isnan(values.astype(float))
    shares = scale.shares(np.where(gaps, scale.low, values)).tolist()
    pairs = zip(gaps.tolist(), shares, strict=True)
    return [None if gap else shade_class(share, scale.kind) for gap, share in pairs]


def ranking(ranked: Ranked) -> Markup:
    """Names with their bars, the longest first, and how many more there are."""
    grid, write = ranked.grid, cell_format(ranked.grid, DECIMALS)
    shown = min(len(grid.rows), MOST_BARS)
    rows = [_ranked_row(ranked, row, write) for row in range(shown)]
    more = len(grid.rows) - shown
    said = tag("p", f"and {counted(more, f'more {ranked.counts}')}") if more > 0 else NONE
    label = grid.title or None
    whole = tag("table", tag("tbody", *rows), class_="ranking", aria_label=label)
    marks = (
        [tag("p", f"line across a bar = mean of the {ranked.marks}", class_="caption")]
        if ranked.marks
        else []
    )
    return together([*marks, _frame(whole), said])


def _ranked_row(ranked: Ranked, row: int, write: Write) -> Markup:
    grid = ranked.grid
    value, masked = float(grid.values[row, 0]), bool(grid.hidden[row, 0])
    return tag(
        "tr",
        tag("th", grid.rows.names[row], scope="row"),
        tag("td", cell_text(value, masked, write, HIDDEN)),
        tag("td", NONE if masked else bar(abs(value) / ranked.reach, ranked.mark(row))),
        tag("td", ranked.said(row, write), class_="remark"),
    )


def bar(share: float, mark: float | None = None) -> Markup:
    """How much of all there is something is, as a bar; and a mark to compare its end with."""
    long = f"{100 * min(max(share, 0), 1):.1f}%"
    parts = [tag("rect", width=long, height="100%")]
    if mark is not None:
        place = f"{100 * min(mark, 1):.1f}%"
        parts.append(tag("line", x1=place, x2=place, y1="-25%", y2="125%"))
    return tag("svg", *parts, class_="bar", aria_hidden="true")


def reading(sentence: Sentence) -> Markup:
    """The sentence in colour, as one token reads it; its numbers stand in what follows."""
    grid = sentence.grid
    shades = shades_of(grid.scale, grid.values[0])
    words = zip_longest(grid.columns.labels, grid.columns.spaced, shades, grid.hidden[0].tolist())
    parts = [_word(place, *each, sentence.query) for place, each in enumerate(words)]
    return tag("p", *parts, class_="reading")


def _word(
    place: int, label: str, spaced: bool | None, shade: str | None, hides: bool, query: int | None
) -> Markup:
    gap = Markup(" ") if spaced or (spaced is None and place) else NONE
    kind = tag("mark" if place == query else "span", label, class_="hides" if hides else shade)
    return together([gap, kind])
