"""What a page shows besides its heads: tables, charts, sentences, and steps with their sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attnviz.renderers.page.arrows import arrows
from attnviz.renderers.page.charts import chart
from attnviz.renderers.page.tables import (
    HIDDEN,
    can_be_read,
    ranking,
    reading,
    table,
    too_many,
)
from attnviz.renderers.page.tags import NONE, Markup, tag, together
from attnviz.renderers.wrapping import aligned
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.description import describe, hides
from attnviz.views.grids.explored import Explored, HeadMap
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.numbers import HEAD
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked import Ranked
from attnviz.views.grids.section import APART, JOINED, Drawable, Section, table_of
from attnviz.views.view import Group, View

BETWEEN = " · "  # parts of the small print
MANY_STEPS = 4  # from so many on there is a list of them to choose from
BESIDE_MAPS = "each map: rows attend to columns"  # as overview.js says it
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
