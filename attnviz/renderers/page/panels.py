"""What a page shows besides its heads: tables, rankings, charts, sentences and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np

from attnviz.renderers.page.charts import arrows, chart
from attnviz.renderers.page.tags import NONE, Markup, tag, together
from attnviz.renderers.page.theming import shade_class
from attnviz.renderers.wrapping import aligned
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.description import describe, hides
from attnviz.views.grids.explored import Explored, HeadMap
from attnviz.views.grids.grid import OFF, Curves, Grid
from attnviz.views.grids.numbers import HEAD, Write, cell_format, cell_text
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import APART, JOINED, Drawable, Section, table_of
from attnviz.views.view import Group, View
from attnviz.wording.words import counted, listed

BETWEEN = " · "  # parts of the small print
MANY_STEPS = 4  # from so many on there is a list of them to choose from
BESIDE_MAPS = "each map: rows attend to columns"  # as overview.js says it
HIDDEN = "·"
SAME_HIDDEN = f"{HIDDEN} = hidden by the mask"


def panels(view: View) -> Markup:
    """Every panel that is no map of a head, which can be explored; first how to read them."""
    groups = [_unexplored(each, view.heads) for each in (*view.screen.groups, *_charts(view))]
    every = [each for group in groups for each in group]
    large = [each for each in every if isinstance(each, Grid) and _is_large(each)]
    if len(large) > 1:
        groups = [[each for each in group if not _is_large(each)] for group in groups]
    return together([
        _how_to_read(view, [each for group in groups for each in group]),
        _steps_to_choose(view.sections),
        *(part for group in groups for part in _group(group)),
        too_many(large) if len(large) > 1 else NONE,
    ])  # fmt: skip


def _is_large(each: Drawable) -> bool:
    """Whether it is a table that nobody would read: several of them are said in one sentence."""
    return isinstance(each, Grid) and each.title != "" and not can_be_read(each)


def _how_to_read(view: View, shown: Sequence[Drawable]) -> Markup:
    """The small print, but for what stands at the top, or beside what can be explored."""
    elsewhere = [*view.heads.note.split(BETWEEN), BESIDE_MAPS] if view.heads else []
    said = view.screen.caption.removesuffix(view.settings).rstrip(BETWEEN)
    said = said.removesuffix(view.screen.caveat)
    parts = [part for part in said.split(BETWEEN) if part and part not in elsewhere]
    parts += [SAME_HIDDEN] if hides(shown) else []
    return tag("p", BETWEEN.join(parts), class_="caption") if parts else NONE


def _charts(view: View) -> Iterator[Group]:
    """Charts that a picture has, and a screen, which writes numbers, has not."""
    there = {each.title for each in view.screen.panels if isinstance(each, Curves)}
    drawn = [each for each in view.picture.panels if isinstance(each, Curves)]
    more = tuple(each for each in drawn if each.title not in there)
    if more:
        yield Group("charts", more)


def _unexplored(group: Group, heads: Explored | None) -> list[Drawable]:
    """What of a group is not shown already, where one can look around in it."""
    if heads is None:
        return list(group.all)
    return [each for each in group.all if not _is_explored(each, heads)]


def _is_explored(each: Drawable, heads: Explored) -> bool:
    if isinstance(each, Overview):
        return True
    if isinstance(each, Sentence):
        return _is_followed(each, heads)
    if isinstance(each, Curves | Section | Ranked):
        return False
    grid = table_of(each)
    return any(_is_map(grid, head, heads.query) for head in heads.heads)


def _is_followed(sentence: Sentence, heads: Explored) -> bool:
    """Whether it is what the page says first: of the first head the row that is followed."""
    first, row = heads.heads[heads.first], sentence.grid.values
    if heads.query is None or row.shape != (1, first.weights.shape[1]):
        return False
    return np.array_equal(row, first.weights.row(heads.query).values, equal_nan=True)


def _is_map(grid: Grid, head: HeadMap, query: int | None) -> bool:
    """Whether it is a head: its rows are the same, by the first, the middle and the last one.

    Or the row of the token that is followed, where nothing but that row is shown.
    """
    if grid.cells.shape[1] != head.weights.shape[1] or not len(grid.rows):
        return False
    last = len(grid.rows) - 1
    places = {0: 0, last // 2: last // 2, last: last}
    if last == 0 and query is not None:
        places = {0: query if head.paired is None else head.paired[0][query]}
    elif grid.cells.shape != head.weights.shape:
        return False
    return all(
        np.array_equal(grid.cells.row(row).values, head.weights.row(own).values, equal_nan=True)
        for row, own in places.items()
    )


def _steps_to_choose(sections: Sequence[Section]) -> Markup:
    """A list of the steps, where there are many."""
    if len(sections) < MANY_STEPS:
        return NONE
    links = [tag("a", each.heading, href=f"#{_place_of(each)}") for each in sections]
    items = [tag("li", each) for each in links]
    return tag("nav", tag("ul", *items), aria_label="steps", class_="steps")


def _place_of(section: Section) -> str:
    return f"step-{section.number}-{section.name}".replace(" ", "-")


def _group(shown: Sequence[Drawable]) -> Iterator[Markup]:
    """Panels of a kind beside each other under one heading; others below each other."""
    plain = [each for each in shown if isinstance(each, Grid)]
    parts = list(dict.fromkeys(HEAD.sub("", each.title) for each in plain))
    for part in parts:
        alike = [each for each in plain if HEAD.sub("", each.title) == part]
        yield _alike(part, alike)
    yield from _curves([each for each in shown if isinstance(each, Curves)])
    sections = [each for each in shown if isinstance(each, Section)]
    if sections:
        yield tag("div", *map(step, sections), class_="walk")
    for each in shown:
        if not isinstance(each, Grid | Curves | Section):
            yield _panel(each)


def _alike(part: str, grids: Sequence[Grid]) -> Markup:
    heading = tag("h2", part) if part else NONE
    alone = len(grids) == 1
    tables = [table(each, grids, "" if alone else each.title) for each in grids]
    return together([heading, tag("div", *tables, class_="beside")])


def _curves(charts: Sequence[Curves]) -> Iterator[Markup]:
    """Charts side by side; the numbers of each below it, for whoever wants to read them."""
    if charts:
        figures = [tag("figure", chart(each), _numbers_of(each)) for each in charts]
        yield together([tag("h2", "Curves"), tag("div", *figures, class_="charts")])


def _numbers_of(curves: Curves) -> Markup:
    return tag("details", tag("summary", "as numbers"), table(curves.table))


def _panel(each: Drawable) -> Markup:
    if isinstance(each, Section):
        return step(each)
    if isinstance(each, Ranked):
        return together([_heading(each.grid), ranking(each)])
    if isinstance(each, Sentence):
        return together([_heading(each.grid), reading(each)])
    if isinstance(each, Overview):
        return tag("p", describe([each]))
    return _alike(table_of(each).title, [table_of(each)])


def _heading(grid: Grid) -> Markup:
    return tag("h2", grid.title) if grid.title else NONE


def step(section: Section) -> Markup:
    """A step: what it does and why, its tables, and its sums written out."""
    shapes = tag("p", section.shapes, class_="shapes") if section.shapes else NONE
    formula = tag("p", section.formula, class_="formula") if section.formula else NONE
    sums = [tag("span", line) for line in aligned(section.sums)]
    return tag(
        "section",
        tag("h2", section.heading, id=_place_of(section)),
        tag("p", section.about) if section.about else NONE,
        together([shapes, formula]),
        *_stages(section),
        *(tag("div", arrows(each), class_="plane") for each in section.planes),
        tag("pre", *sums) if sums else NONE,
        *(tag("p", each) for each in section.remarks),
        class_="step",
    )


def _stages(section: Section) -> Iterator[Markup]:
    """Tables in lines with signs between them: how some become others; and then all the rest."""
    every = (*section.tables, *section.beyond)
    tables = [table(each, section.grids, each.title) for each in every]
    in_lines = [place for line in section.stages for place in line if isinstance(place, int)]
    for line in section.stages:
        yield tag("div", *_in_a_line(tables, line), class_="beside")
    own = enumerate(tables[: len(section.grids)])
    rest = [each for place, each in own if place not in in_lines]
    if rest:
        yield tag("div", *rest, class_="beside")


def _in_a_line(tables: Sequence[Markup], line: Sequence[int | str]) -> Iterator[Markup]:
    """Tables and signs in turn; those that are one table in truth stand close together."""
    together_now: list[Markup] = []
    for each in (*line, APART):
        if isinstance(each, int):
            together_now.append(tables[each])
        elif each != JOINED:
            yield tag("div", *together_now, class_="joined")
            yield tag("span", each, class_="sign") if each.strip() else NONE
            together_now = []


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
