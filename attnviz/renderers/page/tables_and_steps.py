"""What a page shows besides heads: tables, rankings, charts, sentences, steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TypeGuard

import numpy as np

from attnviz.renderers.page.charts import arrows_markup, chart_markup
from attnviz.renderers.page.tags import NO_MARKUP, Markup, empty_tag, join_markup, tag
from attnviz.renderers.page.theming import shade_class
from attnviz.renderers.wrapping import align_sums
from attnviz.views.grids.description import describe, has_masked_cells
from attnviz.views.grids.explorer import HeadExplorer, HeadMap
from attnviz.views.grids.grid import OFF_SUFFIX, Curves, Grid
from attnviz.views.grids.long_map import LongMap
from attnviz.views.grids.number_formats import HEAD_SUFFIX, NumberFormat, cell_format, cell_text
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import (
    JOINED_TABLES,
    SEPARATE_TABLES,
    Drawable,
    Section,
    panel_table,
)
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.views.view import Group, View
from attnviz.wording.words import and_list, counted

CAPTION_SEPARATOR = " · "
MIN_LISTED_STEPS = 4  # so many steps have a list of links
MAPS_NOTE = "each map: rows attend to columns"  # overview.js says it, too
MASKED_MARK = "·"
MASKED_NOTE = f"{MASKED_MARK} = hidden by the mask"
TABLE_DECIMALS = 2
MAX_READABLE_CELLS = 2**13  # of a table
MAX_ROWS_AT_ONCE = 24  # from more a click opens the frame in which they scroll
MAX_UNBROKEN_LETTERS = 24  # of a part of a remark
ROW_HOLDER = tag(  # where the script puts the exact row of a query
    "div",
    tag("p", "Select a row of the map to see what one of its tokens attends to, exactly."),
    class_="walk",
)
NEWLINE = "↵"
SCALE_SWATCHES = 9
ALL_NUMBERS_HINT = "-o numbers.json writes all of them"


def page_panels(view: View) -> Markup:
    """Return how to read the page, then every panel except heads that its script shows.

    Tables too large to read become one sentence.
    """
    shown_groups = (*view.screen.groups, *_picture_only_charts(view))
    groups = [_unexplored_panels(group, view.heads) for group in shown_groups]
    panels = [panel for group in groups for panel in group]
    unreadable = list(filter(_is_unreadable_table, panels))
    if len(unreadable) > 1:
        groups = [[panel for panel in group if not _is_unreadable_table(panel)] for group in groups]
    return join_markup([
        _how_to_read(view, [panel for group in groups for panel in group]),
        _steps_list(view.sections),
        NO_MARKUP if view.sections or view.query_steps is None else ROW_HOLDER,
        *(part for group in groups for part in _group_markup(group)),
        too_many_sentence(unreadable) if len(unreadable) > 1 else NO_MARKUP,
    ])  # fmt: skip


def _is_unreadable_table(panel: Drawable) -> TypeGuard[Grid]:
    return isinstance(panel, Grid) and panel.title != "" and not is_readable(panel)


def _how_to_read(view: View, panels_below: Sequence[Drawable]) -> Markup:
    """Return the caption without what the page says elsewhere, as a paragraph; nothing if empty.

    It also explains the sign for masked cells, if `panels_below` have some.
    """
    elsewhere = ["", *view.heads.note.split(CAPTION_SEPARATOR), MAPS_NOTE] if view.heads else [""]
    caption = view.screen.caption.removesuffix(view.settings).rstrip(CAPTION_SEPARATOR)
    caption = caption.removesuffix(view.screen.caveat)
    parts = [part for part in caption.split(CAPTION_SEPARATOR) if part not in elsewhere]
    if has_masked_cells(panels_below):
        grids = [
            panel for panel in panels_below if isinstance(panel, Grid) and panel.cells.has_hidden
        ]
        is_measure = bool(grids) and all(grid.columns.unit == "measure" for grid in grids)
        parts.append(f"{MASKED_MARK} = no value" if is_measure else MASKED_NOTE)
    return tag("p", CAPTION_SEPARATOR.join(parts), class_="caption") if parts else NO_MARKUP


def _picture_only_charts(view: View) -> Iterator[Group]:
    """Yield the charts of the picture that the screen has not, as one group."""
    screen_titles = {curves.title for curves in view.screen.panels if isinstance(curves, Curves)}
    picture_charts = [curves for curves in view.picture.panels if isinstance(curves, Curves)]
    missing_charts = tuple(curves for curves in picture_charts if curves.title not in screen_titles)
    if missing_charts:
        yield Group("charts", missing_charts)


def _unexplored_panels(group: Group, heads: HeadExplorer | None) -> list[Drawable]:
    """Return the panels of a group, except those that show a head of `heads`."""
    if heads is None:
        return list(group.all_panels)
    return [panel for panel in group.all_panels if not _is_explored(panel, heads)]


def _is_explored(panel: Drawable, heads: HeadExplorer) -> bool:
    """Return whether a panel shows what the page's script shows anyway: heads, or all heads."""
    if isinstance(panel, Overview):
        return True
    if isinstance(panel, Sentence):
        return _is_followed_row(panel, heads)
    if isinstance(panel, Curves | Section | RankedBars):
        return False
    grid = panel_table(panel)
    return any(_shows_head(grid, head, heads.query) for head in heads.heads)


def _is_followed_row(sentence: Sentence, heads: HeadExplorer) -> bool:
    """Return whether a sentence shows the followed token's row of the head that is shown first."""
    first, row = heads.heads[heads.first], sentence.grid.values
    if heads.query is None or row.shape != (1, first.weights.shape[1]):
        return False
    return np.array_equal(row, first.weights.row(heads.query).values, equal_nan=True)


def _shows_head(grid: Grid, head: HeadMap, query: int | None) -> bool:
    """Return whether a grid shows a head, judging by its first, middle and last row.

    A grid of a single row may show the row of the followed token `query`.
    """
    if grid.cells.shape[1] != head.weights.shape[1] or not len(grid.rows):
        return False
    last = len(grid.rows) - 1
    head_rows = {0: 0, last // 2: last // 2, last: last}
    if last == 0 and query is not None:
        head_rows = {0: query if head.paired_positions is None else head.paired_positions[0][query]}
    elif grid.cells.shape != head.weights.shape:
        return False
    return all(
        np.array_equal(
            grid.cells.row(row).values, head.weights.row(head_row).values, equal_nan=True
        )
        for row, head_row in head_rows.items()
    )


def _steps_list(sections: Sequence[Section]) -> Markup:
    """Return links to the steps; nothing if there are fewer than four."""
    if len(sections) < MIN_LISTED_STEPS:
        return NO_MARKUP
    links = [tag("a", step.heading, href=f"#{_section_anchor(step)}") for step in sections]
    items = [tag("li", link) for link in links]
    return tag("nav", tag("ul", *items), aria_label="steps", class_="steps")


def _section_anchor(section: Section) -> str:
    """Return the id of a step's heading, such as 'step-5-scores'."""
    return f"step-{section.number}-{section.name}".replace(" ", "-")


def _group_markup(drawables: Sequence[Drawable]) -> Iterator[Markup]:
    """Yield tables of one kind side by side under a heading, then charts, steps, other panels."""
    grids = [panel for panel in drawables if isinstance(panel, Grid)]
    headings = list(dict.fromkeys(HEAD_SUFFIX.sub("", panel.title) for panel in grids))
    for heading in headings:
        grids_of_heading = [panel for panel in grids if HEAD_SUFFIX.sub("", panel.title) == heading]
        yield _tables_under_heading(heading, grids_of_heading)
    yield from _charts_markup([panel for panel in drawables if isinstance(panel, Curves)])
    sections = [panel for panel in drawables if isinstance(panel, Section)]
    if sections:
        yield tag("div", *map(step_markup, sections), class_="walk")
    for panel in drawables:
        if not isinstance(panel, Grid | Curves | Section):
            yield _panel_markup(panel)


def _tables_under_heading(heading_text: str, grids: Sequence[Grid]) -> Markup:
    """Return tables side by side under a heading; a single table has no caption of its own."""
    heading = tag("h2", heading_text) if heading_text else NO_MARKUP
    is_single = len(grids) == 1
    tables = [table_markup(grid, grids, "" if is_single else grid.title) for grid in grids]
    if is_single and is_readable(grids[0]):
        tables = [_opening_frame(tables[0], grids[0], grids[0].rows.unit)]
    return join_markup([heading, tag("div", *tables, class_="beside")])


def _charts_markup(charts: Sequence[Curves]) -> Iterator[Markup]:
    """Yield charts side by side under a heading, each above its numbers; nothing without charts."""
    if charts:
        summary = tag("summary", "as numbers")
        figures = [
            tag("figure", chart_markup(curves), tag("details", summary, table_markup(curves.table)))
            for curves in charts
        ]
        yield join_markup([tag("h2", "Curves"), tag("div", *figures, class_="charts")])


def _panel_markup(panel: Arcs | LongMap | Sentence | RankedBars | Overview) -> Markup:
    """Return a ranking, sentence or table under its heading; an overview as a description."""
    if isinstance(panel, RankedBars):
        return join_markup([_grid_heading(panel.grid), ranking_markup(panel)])
    if isinstance(panel, Sentence):
        return join_markup([_grid_heading(panel.grid), sentence_markup(panel)])
    if isinstance(panel, Overview):
        return tag("p", describe([panel]))
    return _tables_under_heading(panel.grid.title, [panel.grid])


def _grid_heading(grid: Grid) -> Markup:
    return tag("h2", grid.title) if grid.title else NO_MARKUP


def step_markup(section: Section) -> Markup:
    """Return a step: what it does and why, its tables and arrows, and its sums written out."""
    shapes = tag("p", section.shapes, class_="shapes") if section.shapes else NO_MARKUP
    formula = tag("p", section.formula, class_="formula") if section.formula else NO_MARKUP
    sums = [tag("span", line) for line in align_sums(section.sums)]
    return tag(
        "section",
        tag("h2", section.heading, id=_section_anchor(section)),
        tag("p", section.about) if section.about else NO_MARKUP,
        join_markup([shapes, formula]),
        *_stage_rows(section),
        *(tag("div", arrows_markup(plane), class_="plane") for plane in section.planes),
        tag("pre", *sums) if sums else NO_MARKUP,
        *(tag("p", remark) for remark in section.remarks),
        NO_MARKUP if section.ranking is None else ranking_markup(section.ranking),
        class_="step",
    )


def _stage_rows(section: Section) -> Iterator[Markup]:
    """Yield rows of tables with signs between them, as in an equation; then all other tables."""
    grids = (*section.tables, *section.stage_grids)
    tables = [table_markup(grid, section.grids, grid.title) for grid in grids]
    staged = [item for line in section.stages for item in line]
    for line in section.stages:
        yield tag("div", *_stage_row(tables, line), class_="beside")
    own = enumerate(tables[: len(section.grids)])
    unstaged = [table for number, table in own if number not in staged]
    if unstaged:
        yield tag("div", *unstaged, class_="beside")


def _stage_row(tables: Sequence[Markup], line: Sequence[int | str]) -> Iterator[Markup]:
    """Yield the tables of one equation (indices in `line`) and its signs in turn.

    Tables with no sign between them stand close together.
    """
    joined_tables: list[Markup] = []
    for item in (*line, SEPARATE_TABLES):
        if isinstance(item, int):
            joined_tables.append(tables[item])
        elif item != JOINED_TABLES:
            yield tag("div", *joined_tables, class_="joined")
            yield tag("span", item, class_="sign") if item.strip() else NO_MARKUP
            joined_tables = []


def table_markup(grid: Grid, grids: Sequence[Grid] = (), title: str | None = None) -> Markup:
    """Return a table with a title, in a frame that scrolls; one too large to read as a sentence.

    `grids`: tables whose numbers are written alike. `title`: by default the grid's; '' is none.
    """
    name = grid.title if title is None else title
    if not is_readable(grid):
        size = f"{_table_size_text(grid)} numbers are too many for a table: {ALL_NUMBERS_HINT}."
        return tag("p", f"{name}: {size}" if name else size, class_="too-many")
    title_text = strike_head_name(name) if grid.is_all_off else name
    caption = tag("caption", title_text) if name else NO_MARKUP
    inner = [caption, _table_head(grid), _table_body(grid, grids)]
    table = tag("table", *inner, aria_label=None if name else grid.title or None)
    return _scroll_frame(table, from_end=grid.keeps_last)


def strike_head_name(name: str) -> Markup:
    """Return the name of a head, struck through if it ends in the sign of a head switched off."""
    head, sign, rest = name.partition(OFF_SUFFIX)
    return join_markup([tag("s", head), f"{sign}{rest}"]) if sign else join_markup([name])


def is_readable(grid: Grid) -> bool:
    row_count, column_count = grid.cells.shape
    return row_count * column_count <= MAX_READABLE_CELLS


def _table_size_text(grid: Grid) -> str:
    """Return the numbers of rows and columns: '1,200 × 64'."""
    row_count, column_count = grid.cells.shape
    return f"{row_count:,} × {column_count:,}"


def too_many_sentence(grids: Sequence[Grid]) -> Markup:
    """Return one sentence that names all tables too large to read."""
    names = and_list([f"{grid.title} ({_table_size_text(grid)})" for grid in grids])
    sentence = f"Too many numbers for a table: {names}; {ALL_NUMBERS_HINT}."
    return tag("p", sentence, class_="too-many")


def _scroll_frame(inner: Markup, *, from_end: bool = False) -> Markup:
    """Return a frame that scrolls; with `from_end` its last rows are in sight first."""
    return tag("div", inner, class_="frame from-end" if from_end else "frame")


def _opening_frame(frame: Markup, grid: Grid, unit: str) -> Markup:
    """Return a frame, below a box to tick that shows all of many rows."""
    if len(grid.rows) <= MAX_ROWS_AT_ONCE:
        return frame
    box = tag("input", type="checkbox")
    label = tag("label", box, f" show all {counted(len(grid.rows), unit)}", class_="open-frame")
    return tag("div", label, frame)


def _table_head(grid: Grid) -> Markup:
    """Return the row of column names, with the titles of both axes in its corner.

    Nothing comes back if no column has a name.
    """
    names = [tag("th", name, scope="col") for name in grid.columns.names]
    titles = grid.rows.title, grid.columns.title
    corner = tag("td", " \\ ".join(titles) if all(titles) else "")
    return tag("thead", tag("tr", corner, *names)) if any(grid.columns.names) else NO_MARKUP


def _table_body(grid: Grid, grids: Sequence[Grid]) -> Markup:
    """Return the rows of a table, each behind its name; numbers are written alike in `grids`."""
    write = cell_format(grid, TABLE_DECIMALS, grids)
    rows = []
    for row, name in enumerate(grid.rows.names):
        heading = tag("th", strike_head_name(name) if grid.is_off(row) else name, scope="row")
        rows.append(tag("tr", heading, *_table_cells(grid, row, write)))
    return tag("tbody", *rows)


def _table_cells(grid: Grid, row: int, write: NumberFormat) -> Iterator[Markup]:
    """Yield the cells of one row, each with the class of its shade; hidden ones have a sign."""
    values, hidden = grid.values[row].tolist(), grid.hidden[row].tolist()
    classes, is_off = shade_classes(grid.scale, grid.values[row]), grid.is_off(row)
    for column, (value, masked) in enumerate(zip(values, hidden, strict=True)):
        text = grid.text_with_word(row, column, cell_text(value, masked, write, MASKED_MARK))
        shade = classes[column]
        greyed = f"{shade} off" if is_off and shade else shade
        yield tag("td", text, class_="hides" if masked else greyed)


def shade_classes(scale: Scale, values: np.ndarray) -> list[str | None]:
    """Return the CSS class of each number's shade; None for NaN, or if the scale has no colours."""
    if scale.kind == "none":
        return [None] * len(values)
    gaps = np.isnan(values.astype(float))
    shares = scale.shares(np.where(gaps, scale.low, values)).tolist()
    pairs = zip(gaps.tolist(), shares, strict=True)
    return [None if gap else shade_class(share, scale.kind) for gap, share in pairs]


def ranking_markup(ranked: RankedBars) -> Markup:
    """Return all names with their bars, in order; many in a frame that scrolls."""
    grid, write = ranked.grid, cell_format(ranked.grid, TABLE_DECIMALS)
    rows = [_ranked_row(ranked, row, write) for row in range(len(grid.rows))]
    label = grid.title or None
    ranking_table = tag("table", tag("tbody", *rows), class_="ranking", aria_label=label)
    mark_text = f"line across a bar = mean of the {ranked.mark_title}"
    mark_note = tag("p", mark_text, class_="caption") if ranked.mark_title else NO_MARKUP
    return join_markup([mark_note, _opening_frame(_scroll_frame(ranking_table), grid, ranked.unit)])


def _ranked_row(ranked: RankedBars, row: int, write: NumberFormat) -> Markup:
    """Return one row of a ranking: name, number, bar (none if hidden) and remark."""
    grid = ranked.grid
    value, masked = float(grid.values[row, 0]), bool(grid.hidden[row, 0])
    bar = NO_MARKUP
    if not masked:
        bar = bar_markup(abs(value) / ranked.full_length, ranked.mark_length(row))
    parts = ranked.remark_text(row, write).split(CAPTION_SEPARATOR)  # broken between them alone
    remark = CAPTION_SEPARATOR.join(
        part.replace(" ", "\N{NO-BREAK SPACE}") if len(part) <= MAX_UNBROKEN_LETTERS else part
        for part in parts
    )
    return tag(
        "tr",
        tag("th", grid.rows.names[row], scope="row"),
        tag("td", cell_text(value, masked, write, MASKED_MARK)),
        tag("td", bar),
        tag("td", remark, class_="remark"),
    )


def bar_markup(share: float, mark: float | None = None) -> Markup:
    """Return a bar of a `share` from 0 to 1, cut to it, with a line across at the share `mark`."""
    width = f"{100 * min(max(share, 0), 1):.1f}%"
    parts = [tag("rect", width=width, height="100%")]
    if mark is not None:
        mark_position = f"{100 * min(mark, 1):.1f}%"
        parts.append(tag("line", x1=mark_position, x2=mark_position, y1="-25%", y2="125%"))
    return tag("svg", *parts, class_="bar", aria_hidden="true")


def sentence_markup(sentence: Sentence) -> Markup:
    """Return the sentence, each token shaded by its weight, and the query token marked.

    In a whole text each token has its number as a title, which whole_text.js says.
    """
    grid = sentence.grid
    shades = shade_classes(grid.scale, grid.values[0])
    titles = list(_token_titles(grid)) if sentence.is_whole_text else []
    words = zip_longest(
        grid.columns.labels, grid.columns.spaced, shades, grid.hidden[0].tolist(), titles
    )
    parts = []
    for position, (label, spaced, shade, hides, title) in enumerate(words):
        gap = Markup(" ") if spaced or (spaced is None and position) else NO_MARKUP
        name, class_ = "mark" if position == sentence.query else "span", "hides" if hides else shade
        parts.append(join_markup([gap, tag(name, label, class_=class_, title=title)]))
    if not titles:
        return tag("p", *parts, class_="reading")
    labels = grid.columns.labels
    for position, (label, following) in enumerate(zip_longest(labels, labels[1:])):
        if label.endswith(NEWLINE) and following != NEWLINE:
            parts[position] = join_markup([parts[position], empty_tag("br")])
    return join_markup([tag("p", *parts, class_="reading whole-text"), _scale_markup(grid.scale)])


def _scale_markup(scale: Scale) -> Markup:
    """Return a line with the colours of a scale, from its low end to its high end."""
    shares = [step / (SCALE_SWATCHES - 1) for step in range(SCALE_SWATCHES)]
    swatches = [tag("span", class_=shade_class(share, scale.kind), aria_hidden="true")
                for share in shares]  # fmt: skip
    end = f" {'≥ ' * scale.is_exceeded}{scale.high:g}"
    return tag("p", f"{scale.name} {scale.low:g} ", *swatches, end, class_="caption swatches")


def _token_titles(grid: Grid) -> Iterator[str]:
    """Yield the number and the label of each token, and how much it has."""
    write = cell_format(grid, TABLE_DECIMALS)
    cells = zip(grid.columns.names, grid.values[0].tolist(), grid.hidden[0].tolist(), strict=True)
    for name, value, hides in cells:
        yield f"{name}: {'hidden by the mask' if hides else f'{write(value)} {grid.scale.name}'}"
