"""A section on its own page: heading, tables, and sums beside or below them.

All lengths are inches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import islice

import numpy as np

from attnviz.renderers import Look
from attnviz.renderers.look import TextSize
from attnviz.renderers.picture.arrows_and_columns import planes_items, upright_bars_items
from attnviz.renderers.picture.cards import WIDTH_SLACK, without_axis_titles
from attnviz.renderers.picture.items import Box, Item, Items, Layout, Panel, Stroke
from attnviz.renderers.picture.matrix import bars_width, color_scales, scale_bars, with_numbers_like
from attnviz.renderers.picture.page_frame import (
    Captions,
    Frame,
    Line,
    headline_lines,
    make_frame,
    stacked_words,
    total_height,
)
from attnviz.renderers.picture.panel_labels import panel_style
from attnviz.renderers.picture.panel_rows import best_panel_rows, possible_orders
from attnviz.renderers.picture.panels import (
    LETTER_SHARES,
    NATURAL_SCALE,
    STRETCH,
    NoRoomError,
    natural_page,
    place_panels,
)
from attnviz.renderers.picture.stages import MAX_FULL_ROWS, rows_per_line, stage_items
from attnviz.renderers.picture.text import (
    POINT,
    Lettering,
    Size,
    fit_line,
    fits_width,
    lettering,
    lettering_share,
    text_width,
    wrap_parts,
)
from attnviz.renderers.wrapping import break_sum
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.wording.sums import Sum

MIN_PAGE_WIDTH = 7.4  # inches: a page that nobody gave a size
PLANES_HEIGHT = 0.45  # of the width of such a page
STAGE_HEIGHT, STAGE_ROW_HEIGHT = 0.5, 0.24  # on such a page: a line of tables, and each of its rows
HEAD_SHARE = 0.42  # of a page's height, at most: what the step is
SUMS_SHARES = (0.45, 0.3, 0.2)  # of what that leaves: the sums, less where numbers need the room
SIDE_BY_SIDE_ASPECT = 1.3  # times as wide as high: here sums stand beside arrows
SUMS_SIDES = (0.38, 0.42, 0.46, 0.5)  # of the width: the first at which all of them can be read
# Around tables, and their rows, in letters of labels
UPRIGHT_HEIGHT, SLANTED_HEIGHT, TABLE_ROW_HEIGHT = 5.2, 7.8, 1.8
UPRIGHT_SHARE = 0.65  # of the width, that labels may take to stand upright
CELL_FORM, ONE_COLUMN_FORM = (STRETCH, 2.2), (20.0, 1.3)  # times as wide, and as high, cells may be
TABLES_GAP = 0.7  # above and below the tables, in letters of the text
READABLE_SHARES = (1.0, 0.94, 0.89)  # of the letters of the text: sums, while all fit
LAST_SHARES = (0.8, 0.72)  # rather than without some of them
CUT_SUMS_SHARES = (0.8, 0.7, 0.62, 0.56)  # the first of them, if it would not fit otherwise
CUT_MARK = "…"  # in place of sums that do not
LEAST_HEIGHT, FEW_ROWS = 0.7, 4  # of a label is a row high, and so many of them if labels are large
LEAST_ARROW_LENGTH = 4.0  # an arrow is, at least


def section_pages(sections: Sequence[Section], look: Look, captions: Captions) -> list[Layout]:
    """Return a page for each section, in letters that are smaller where they leave tables no room.

    Letters larger than usual become smaller also until all sums have room. Letters in points that
    leave no room are refused.
    """
    for text in smaller_text_sizes(look.text):
        usual = text.points is not None or text.factor <= 1
        pages = _uniform_pages(sections, look.size, text, captions)
        page_size, letters = _section_page(sections, look.size, text, captions)
        label = letters.label
        is_visible = _is_visible(pages, LEAST_HEIGHT * label * POINT, 1 if usual else FEW_ROWS)
        words = (words for each in pages for words in each.words)
        if is_visible and (usual or not any(each.text.startswith(CUT_MARK) for each in words)):
            break
    if text.points is not None and not is_visible:
        raise NoRoomError(text.points, page_size)
    return pages


def smaller_text_sizes(largest: TextSize) -> list[TextSize]:
    """Return text sizes from the largest down to 0.6 times it, and the usual ones that are smaller;
    letters in points have their size alone.
    """
    if largest.points is not None:
        return [largest]
    usual = {share for share in LETTER_SHARES if share < largest.factor}
    factors = {*(largest.factor * share for share in LETTER_SHARES), *usual}
    return [TextSize(factor) for factor in sorted(factors, reverse=True)]


def _is_visible(pages: Sequence[Layout], row: float, rows: int) -> bool:
    """Return whether tables are as high as so many rows of height `row`, and arrows longer than
    heads.

    What is smaller had no room, and lies on what stands around it. One arrow that is long enough is
    enough.
    """
    panels = [panel for each in pages for panel in each.panels]
    arrows = [stroke for each in pages for stroke in each.items_of(Stroke) if stroke.head]
    long_enough = (math.dist(*each.points) >= LEAST_ARROW_LENGTH * each.head for each in arrows)
    return (any(long_enough) or not arrows) and all(
        panel.box[2] >= row and panel.box[3] >= row * min(rows, len(panel.grid.rows))
        for panel in panels
    )


def _uniform_pages(
    sections: Sequence[Section], given: Size | None, text: TextSize, captions: Captions
) -> list[Layout]:
    """Return a page for each section, all laid out alike: what they share stands in one place."""
    size, letters = _section_page(sections, given, text, captions)
    frame, heads, room = _heads_and_room(sections, size, letters, captions)
    pages = []
    for head, body in zip(heads, _section_bodies(sections, room, letters), strict=True):
        words = stacked_words(head, letters.margin, frame.top)
        pages.append(Layout(size, (*words, *body, *frame.words())))
    return pages


def _heads_and_room(
    sections: Sequence[Section], size: Size, letters: Lettering, captions: Captions
) -> tuple[Frame, list[tuple[Line, ...]], Box]:
    """Return the frame of a page, what each of some steps is, and the room below the longest of
    these heads.
    """
    width = size[0] - 2 * letters.margin
    frame = make_frame(replace(captions, title=""), size, letters)
    heads = [_head_lines(section, captions, letters, (width, size[1])) for section in sections]
    top, bottom = frame.top - max(map(total_height, heads)), frame.room[1]
    return frame, heads, (letters.margin, bottom, width, max(top - bottom, 0.5))


def _section_bodies(sections: Sequence[Section], room: Box, letters: Lettering) -> list[list[Item]]:
    """Return what is drawn of each section, and its sums below it, or beside it.

    They stand beside arrows on a wide page; below tables they get less room if numbers would be too
    small.
    """
    if all(section.planes for section in sections) and room[2] > SIDE_BY_SIDE_ASPECT * room[3]:
        return [_body_beside_sums(section, room, letters) for section in sections]
    for share in SUMS_SHARES:
        bodies = _bodies_above_sums(sections, room, letters, share)
        if all(item.number_size for body in bodies for item in body if isinstance(item, Panel)):
            return bodies
    return _bodies_above_sums(sections, room, letters, SUMS_SHARES[0])


def _bodies_above_sums(
    sections: Sequence[Section], room: Box, letters: Lettering, share: float
) -> list[list[Item]]:
    """Return what is drawn of each section with its sums below it, in at most `share` of the height
    or in what tables leave. Bars have no sums below them.
    """
    left, bottom, width, height = room
    limit = max(share, 1 - max(_table_height(each, width, letters) for each in sections) / height)
    sum_sets = [() if each.bars else each.sums for each in sections]  # bars have their numbers
    sums = sum_lines(sum_sets, (width, height * limit), letters)
    sums_height = max(map(total_height, sums))
    air = TABLES_GAP * letters.text * POINT
    body_room = (left, bottom + sums_height + air, width, max(height - sums_height - 2 * air, 0.5))
    return [
        [*body, *stacked_words(lines, left, bottom + sums_height)]
        for body, lines in zip(_uniform_bodies(sections, body_room, letters), sums, strict=True)
    ]


def _table_height(section: Section, width: float, letters: Lettering) -> float:
    """Return the inches that a section's table needs; 100 if it has several below each other."""
    if len(section.grids) > 1:
        return 100.0
    letter = letters.label * POINT
    rows = max((len(grid.rows) for grid in section.grids), default=0)
    upright = all(_stands_upright(grid, width, letters) for grid in section.grids)
    return ((UPRIGHT_HEIGHT if upright else SLANTED_HEIGHT) + TABLE_ROW_HEIGHT * rows) * letter


def _stands_upright(grid: Grid, width: float, letters: Lettering) -> bool:
    widest = max((text_width(label, letters.label) for label in grid.columns.labels), default=0.0)
    return widest * len(grid.columns) <= UPRIGHT_SHARE * width


def _body_beside_sums(section: Section, room: Box, letters: Lettering) -> list[Item]:
    """Return what is drawn of a section with its sums on the right, in the least width that fits
    them.
    """
    left, bottom, width, height = room
    air = TABLES_GAP * letters.text * POINT
    for share in SUMS_SIDES:
        wide = width * share
        count, size = _fitting_sums(section.sums, (wide, height - 2 * air), letters)
        if count == len(section.sums) and size >= LAST_SHARES[0] * letters.text:
            break
    (lines,) = sum_lines([section.sums], (wide, height - 2 * air), letters)
    body = _section_items(section, (left, bottom, width - wide - 2 * air, height - air), letters)
    top = bottom + (height + total_height(lines)) / 2
    return [*body, *stacked_words(lines, left + width - wide, top)]


def count_fitting_sums(section: Section, look: Look, captions: Captions) -> int:
    """Return how many of its sums stand on the page of a section.

    It is all of them if it has bars, for these have the numbers.
    """
    if section.bars:
        return len(section.sums)
    size, letters = _section_page([section], look.size, look.text, captions)
    _, _, (_, _, width, height) = _heads_and_room([section], size, letters, captions)
    return _fitting_sums(section.sums, (width, height * SUMS_SHARES[0]), letters)[0]


def _section_page(
    sections: Sequence[Section], given: Size | None, text: TextSize, captions: Captions
) -> tuple[Size, Lettering]:
    """Return the size of the page that is given, or one as large as all parts want, and its
    letters.
    """
    if given:
        return given, lettering(given, text)
    sizes = [_natural_section_size(section, text) for section in sections]
    width = max(MIN_PAGE_WIDTH, *(wide for wide, _ in sizes))
    letters = lettering((width, width), replace(text, factor=1.0))
    if text.points is None and lettering_share((width, width)) < NATURAL_SCALE:
        letters = Lettering().scaled(NATURAL_SCALE * text.factor)
    inner = width - 2 * letters.margin
    heads = [_head_lines(each, captions, letters, (inner, 100.0)) for each in sections]
    body_height = max(high for _, high in sizes)
    sum_sets = [() if each.planes or each.bars else each.sums for each in sections]
    sums = sum_lines(sum_sets, (inner, max(body_height, inner / 3)), letters)
    frame = make_frame(replace(captions, title=""), (width, 100.0), letters)
    frame_height = letters.margin + frame.room[1] + 2 * TABLES_GAP * letters.text * POINT
    return (
        width,
        frame_height + body_height + max(map(total_height, heads)) + max(map(total_height, sums)),
    ), letters


def _natural_section_size(section: Section, text: TextSize) -> Size:
    """Return how large a section's tables want to be, or what is drawn in their place."""
    if section.planes or section.bars:
        return MIN_PAGE_WIDTH * 1.2, MIN_PAGE_WIDTH * 1.2 * PLANES_HEIGHT
    if not section.grids:
        return MIN_PAGE_WIDTH, 0.0
    if section.stages:
        rows = rows_per_line((*section.grids, *section.stage_grids), section.stages)
        return MIN_PAGE_WIDTH * 1.3, sum(
            STAGE_HEIGHT + STAGE_ROW_HEIGHT * min(count, MAX_FULL_ROWS) for count in rows
        )
    grids = section.tables
    return natural_page(possible_orders(grids), color_scales(grids), Captions(), text)[1]


def _head_lines(
    section: Section, captions: Captions, letters: Lettering, room: Size
) -> tuple[Line, ...]:
    """Return what the step is, in lines from the top of the page: as much of it as there is room
    for.

    The heading is always there; the formulas and then the sentence go first.
    """
    heading = tuple(_heading_lines(section, captions, letters, room[0]))
    stands_alone = not (section.grids or section.planes)
    size = letters.grown(letters.title, 1.3) if stands_alone else letters.text
    about = tuple(
        Line(line, size) for line in wrap_parts(section.about.split(), " ", size, room[0])
    )
    # Tables with signs between them are a formula.
    parts = [part for part in (section.formula, section.shapes) if part and not section.stages]
    formulas = tuple(
        Line(*fit_line(line, letters.axis, letters.smallest, room[0]), faint=True)
        for line in wrap_parts(parts, "     ", letters.axis, room[0])
    )
    choices = [(*heading, *about, *formulas), (*heading, *about), heading]
    return next((each for each in choices if total_height(each) <= room[1] * HEAD_SHARE), heading)


def _heading_lines(
    section: Section, captions: Captions, letters: Lettering, width: float
) -> Iterator[Line]:
    """Yield the heading: a title of somebody's own, or else the section's own heading or finding.

    Any other title stands in small letters above, and says what the step is part of.
    """
    if captions.has_custom_title and captions.title:
        yield from headline_lines(captions.title, letters.headline, width, letters.smallest)
        yield from headline_lines(section.heading, letters.title, width, letters.smallest)
        return
    if section.finding and captions.title == section.finding:
        yield from headline_lines(section.finding, letters.headline, width, letters.smallest)
        return
    if captions.title and captions.title != section.heading:
        yield Line(*fit_line(captions.title, letters.note, letters.smallest, width), faint=True)
    yield from headline_lines(section.heading, letters.headline, width, letters.smallest)


def sum_lines(sums: Sequence[Sequence[Sum]], room: Size, letters: Lettering) -> list[list[Line]]:
    """Return the sums (calculations in figures) of each section as lines, all in letters of one
    size.

    Where not all of them have room, the first ones come. A size at which no sum has to be broken is
    better than a larger one.
    """
    most = [_fitting_sums(each, room, letters) for each in sums]
    size = min((size for _, size in most), default=letters.text)
    return [
        _lines_of_sums(each, count, size, room) for each, (count, _) in zip(sums, most, strict=True)
    ]


def _fitting_sums(sums: Sequence[Sum], room: Size, letters: Lettering) -> tuple[int, float]:
    """Return how many sums fit a room, and in letters of how many points; all of them, if letters
    can be small enough.
    """
    readable, last, cut = (
        [max(letters.text * share, letters.smallest) for share in shares]
        for shares in (READABLE_SHARES, LAST_SHARES, CUT_SUMS_SHARES)
    )
    for unbroken, sizes in ((True, readable), (False, readable + last)):
        for size in sizes:
            if _sums_fit(sums, len(sums), size, room, unbroken):
                return len(sums), size
    for size in (readable[-1], *cut):
        count = 0
        while count < len(sums) and _sums_fit(sums, count + 1, size, room, unbroken=False):
            count += 1
        if count:
            return count, size
    return 0, letters.smallest


def _sums_fit(sums: Sequence[Sum], count: int, size: float, room: Size, unbroken: bool) -> bool:
    """Return whether so many of the sums fit, and a line that says how many are left.

    `unbroken` asks for each sum to be on one line.
    """
    max_lines = int(room[1] / Line("", size).height) - (count < len(sums))
    lines = _broken_sums(sums[:count], size, room[0], max_lines)
    return len(lines) <= (min(max_lines, count) if unbroken else max_lines)


def _lines_of_sums(sums: Sequence[Sum], count: int, size: float, room: Size) -> list[Line]:
    """Return the lines of the first `count` sums, and a last one that counts the others.

    With a `count` of 0 it is the beginning of the first sum, and `…`.
    """
    max_lines = int(room[1] / Line("", size).height)
    lines = _broken_sums(sums[: max(count, 1)], size, room[0], max_lines)
    if sums and not count:
        lines = [*lines[: max(max_lines - 1, 0)], CUT_MARK]
    elif count < len(sums):
        lines = [*lines, f"{CUT_MARK} and {len(sums) - count} more"]
    return [Line(text, size) for text in lines]


def _broken_sums(sums: Sequence[Sum], size: float, width: float, max_lines: int) -> list[str]:
    """Return the lines of sums, but at most `most + 1` of them, which shows that there are too
    many.
    """
    fits = partial(fits_width, size=size, width=width * WIDTH_SLACK)
    lines = (line for each in sums for line in break_sum(each.text, fits))
    return list(islice(lines, max_lines + 1))


def _uniform_bodies(sections: Sequence[Section], room: Box, letters: Lettering) -> list[list[Item]]:
    """Return what is drawn of each section, with numbers written as if all cells were filled.

    So numbers do not change their size from one section to the next, if all have tables of equal
    shapes.
    """
    bodies = [_section_items(section, room, letters) for section in sections]
    grids = [[item.grid for item in body if isinstance(item, Panel)] for body in bodies]
    if len({tuple(grid.values.shape for grid in body) for body in grids}) > 1 or len(bodies) == 1:
        return bodies
    full_grids = [reduce(_fuller_grid, variants) for variants in zip(*grids, strict=True)]
    return [[*_with_full_numbers(body, full_grids, letters.number)] for body in bodies]


def _with_full_numbers(items: Sequence[Item], full_grids: Sequence[Grid], largest: float) -> Items:
    """Yield items with numbers of each panel in the format and size of a grid in `full_grids`."""
    grids = iter(full_grids)
    for item in items:
        yield with_numbers_like(item, next(grids), largest) if isinstance(item, Panel) else item


def _fuller_grid(grid: Grid, other: Grid) -> Grid:
    empty = np.isnan(grid.values)
    return grid.with_values(np.where(empty, other.values, grid.values))


def _section_items(section: Section, room: Box, letters: Lettering) -> list[Item]:
    """Return what is drawn of a section: its planes, its bars, its stages, or its tables.

    Colour bars stand beside stages and tables; without any of these the list is empty.
    """
    if section.planes:
        return [*planes_items(section.planes, room, letters)]
    if section.bars:
        return [*upright_bars_items(section.bars, room, letters)]
    stage_grids = (*section.grids, *section.stage_grids)
    tables = section.tables  # of several only those parts that are needed
    tables = tables if len(tables) == 1 else tuple(map(without_axis_titles, tables))
    grids = stage_grids if section.stages else tables
    if not grids:
        return []
    scales = color_scales(grids)
    left, bottom, width, height = room
    tables_room = (left, bottom, width - bars_width(scales, letters), height)
    cell_form = ONE_COLUMN_FORM if all(len(grid.columns) == 1 for grid in grids) else CELL_FORM
    style = panel_style(letters, (width, height), *cell_form)
    if section.stages:
        items, right = stage_items(grids, section.stages, tables_room, style, letters)
    else:
        panels = best_panel_rows(possible_orders(grids), tables_room, style)
        items, right = place_panels(panels, tables_room)
    return [*items, *scale_bars(items, scales, right, (bottom, bottom + height), letters)]
