"""A section on a page of its own: what the step is, its tables, and its sums below them.

All lengths are inches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice

import numpy as np

from attnviz.renderers import Look
from attnviz.renderers.picture.arrangement import free
from attnviz.renderers.picture.bars import bar_space, scales_of
from attnviz.renderers.picture.cards import SLACK, without_titles
from attnviz.renderers.picture.columns import place_columns
from attnviz.renderers.picture.frame import Captions, Line, framed, headline, stacked
from attnviz.renderers.picture.items import Box, Layout, empty_layout
from attnviz.renderers.picture.layout import (
    NATURAL_SHARE,
    SMALLER_LETTERS,
    STRETCH,
    natural,
    place,
    with_bars,
)
from attnviz.renderers.picture.lettering import POINT, Lettering, Size, lettering, share_of
from attnviz.renderers.picture.numbers import numbered_as
from attnviz.renderers.picture.planes import place_planes
from attnviz.renderers.picture.stages import MANY_ROWS, place_stages, rows_of_lines
from attnviz.renderers.picture.texts import fitted, wrapped
from attnviz.renderers.picture.ticks import style_of, text_width
from attnviz.renderers.wrapping import break_sum
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.wording.sums import Sum

NARROWEST = 7.4  # inches: a page that nobody gave a size
PLANES_HEIGHT = 0.45  # of the width of such a page
STAGE, STAGE_ROW = 0.5, 0.24  # on such a page: a line of tables, and each of its rows
HEAD_SHARE = 0.42  # of a page's height, at most: what the step is
SUMS_SHARES = (0.45, 0.3, 0.2)  # of what that leaves: the sums, less where numbers need the room
SIDE_BY_SIDE = 1.3  # times as wide as high: here sums stand beside arrows
SUMS_SIDES = (0.38, 0.42, 0.46, 0.5)  # of the width: the first at which all of them can be read
UPRIGHT, SLANTED, HIGH_ROW = 5.2, 7.8, 1.8  # around tables, and their rows, in letters of labels
UPRIGHT_SHARE = 0.65  # of the width, that labels may take to stand upright
FORM, ONE_COLUMN = (STRETCH, 2.2), (20.0, 1.3)  # times as wide, and as high, cells may be
AIR = 0.7  # above and below the tables, in letters of the text
READABLE = (1.0, 0.94, 0.89)  # of the letters of the text: sums, while all fit
STILL_READABLE = (0.8, 0.72)  # rather than without some of them
SMALLER = (0.8, 0.7, 0.62, 0.56)  # the first of them, if it would not fit otherwise
CUT = "…"  # in place of sums that do not
LEAST_HEIGHT, FEW_ROWS = 0.7, 4  # of a label is a row high, and so many of them if labels are large
LONGER_THAN_ITS_HEAD = 4.0  # an arrow is, at least
NARROW = 0.3  # of its size is the width of a letter, at least, in a line of many


def stills(sections: Sequence[Section], look: Look, captions: Captions) -> list[Layout]:
    """A page for each section, in letters that are smaller where they leave tables no room.

    Letters larger than usual leave it to sums as well.
    """
    for text_size in text_sizes(look.text_size):
        smaller, usual = replace(look, text_size=text_size), text_size <= 1
        pages = _set(sections, smaller, captions)
        label = _page(sections, smaller, captions)[1].label
        seen = _can_be_seen(pages, LEAST_HEIGHT * label * POINT, 1 if usual else FEW_ROWS)
        if seen and (usual or _whole(pages)):
            break
    return pages


def text_sizes(wanted: float) -> list[float]:
    """Sizes of letters down from the one that is wanted; the usual one is among them."""
    sizes = {wanted * share for share in SMALLER_LETTERS}
    return sorted({*sizes, *(each for each in SMALLER_LETTERS if each < wanted)}, reverse=True)


def _can_be_seen(pages: Sequence[Layout], row: float, rows: int) -> bool:
    """Whether tables have the height of so many rows, and arrows are longer than their heads.

    What is smaller had no room, and lies on what stands around it.
    """
    panels = [panel for each in pages for panel in each.panels]
    arrows = [stroke for each in pages for stroke in each.strokes if stroke.head]
    seen = (math.dist(*each.points) >= LONGER_THAN_ITS_HEAD * each.head for each in arrows)
    return (any(seen) or not arrows) and all(
        panel.box[2] >= row and panel.box[3] >= row * min(rows, len(panel.grid.rows))
        for panel in panels
    )


def _whole(pages: Sequence[Layout]) -> bool:
    """Whether nothing of the sums is left out."""
    return not any(words.text.startswith(CUT) for each in pages for words in each.words)


def _set(sections: Sequence[Section], look: Look, captions: Captions) -> list[Layout]:
    """All laid out alike: what they share stands in one place."""
    size, letters = _page(sections, look, captions)
    margin, width = letters.margin, size[0] - 2 * letters.margin
    frame = framed(replace(captions, title=""), size, letters)
    heads = [_head(each, captions, letters, (width, size[1])) for each in sections]
    top = frame.top - max(map(_height, heads))
    bottom = frame.room[1]
    below = _body(sections, (margin, bottom, width, max(top - bottom, 0.5)), letters)
    pages = []
    for head, drawn in zip(heads, below, strict=True):
        words = (*stacked(head, margin, frame.top), *drawn.words, *frame.words())
        pages.append(replace(drawn, size=size, words=words))
    return pages


def _body(sections: Sequence[Section], room: Box, letters: Lettering) -> list[Layout]:
    """What is drawn of each section, and its sums below it, or beside it."""
    if all(section.planes for section in sections) and room[2] > SIDE_BY_SIDE * room[3]:
        return [_beside_sums(section, room, letters) for section in sections]
    for share in SUMS_SHARES:
        layouts = _above_sums(sections, room, letters, share)
        if all(panel.number_size for each in layouts for panel in each.panels):
            return layouts
    return _above_sums(sections, room, letters, SUMS_SHARES[0])


def _above_sums(
    sections: Sequence[Section], room: Box, letters: Lettering, share: float
) -> list[Layout]:
    left, bottom, width, height = room
    low = max(share, 1 - max(_least_height(each, width, letters) for each in sections) / height)
    written = [() if each.bars else each.sums for each in sections]  # bars have their numbers
    sums = set_sums(written, (width, height * low), letters)
    middle = max(map(_height, sums))
    air = AIR * letters.text * POINT
    above = (left, bottom + middle + air, width, max(height - middle - 2 * air, 0.5))
    return [
        replace(drawn, words=(*drawn.words, *stacked(lines, left, bottom + middle)))
        for drawn, lines in zip(_alike(sections, above, letters), sums, strict=True)
    ]


def _least_height(section: Section, width: float, letters: Lettering) -> float:
    """What its table needs; more than a page, where several stand below each other."""
    if len(section.grids) > 1:
        return 100.0
    letter = letters.label * POINT
    rows = max((len(grid.rows) for grid in section.grids), default=0)
    upright = all(_stands_upright(grid, width, letters) for grid in section.grids)
    return ((UPRIGHT if upright else SLANTED) + HIGH_ROW * rows) * letter


def _stands_upright(grid: Grid, width: float, letters: Lettering) -> bool:
    """Whether labels find room beside each other below a table."""
    widest = max((text_width(label, letters.label) for label in grid.columns.labels), default=0.0)
    return widest * len(grid.columns) <= UPRIGHT_SHARE * width


def _beside_sums(section: Section, room: Box, letters: Lettering) -> Layout:
    left, bottom, width, height = room
    air = AIR * letters.text * POINT
    for share in SUMS_SIDES:
        half = width * share
        count, size = _fitting(section.sums, (half, height - 2 * air), letters)
        if count == len(section.sums) and size >= STILL_READABLE[0] * letters.text:
            break
    (lines,) = set_sums([section.sums], (half, height - 2 * air), letters)
    drawn = _drawn(section, (left, bottom, width - half - 2 * air, height - air), letters)
    top = bottom + (height + _height(lines)) / 2
    return replace(drawn, words=(*drawn.words, *stacked(lines, left + width - half, top)))


def sums_at_once(section: Section, look: Look, captions: Captions) -> int:
    """How many of its sums stand on the page of a section; bars have the numbers of all."""
    if section.bars:
        return len(section.sums)
    size, letters = _page([section], look, captions)
    width = size[0] - 2 * letters.margin
    frame = framed(replace(captions, title=""), size, letters)
    head = _head(section, captions, letters, (width, size[1]))
    room = size[1] - letters.margin - _height(head) - frame.room[1]
    return _fitting(section.sums, (width, room * SUMS_SHARES[0]), letters)[0]


def _page(sections: Sequence[Section], look: Look, captions: Captions) -> tuple[Size, Lettering]:
    """The page that is asked for; or one as large as all its parts want to be."""
    if look.size:
        return look.size, lettering(look.size, look.text_size)
    small = Lettering().scaled(NATURAL_SHARE * look.text_size)
    sizes = [_wanted(section, look.text_size) for section in sections]
    width = max(NARROWEST, *(wide for wide, _ in sizes))
    letters = small if share_of((width, width)) < NATURAL_SHARE else lettering((width, width))
    inner = width - 2 * letters.margin
    heads = [_head(each, captions, letters, (inner, 100.0)) for each in sections]
    drawn = max(high for _, high in sizes)
    below = [() if each.planes or each.bars else each.sums for each in sections]
    sums = set_sums(below, (inner, max(drawn, inner / 3)), letters)
    frame = framed(replace(captions, title=""), (width, 100.0), letters)
    around = letters.margin + frame.room[1] + 2 * AIR * letters.text * POINT
    return (width, around + drawn + max(map(_height, heads)) + max(map(_height, sums))), letters


def _wanted(section: Section, text_size: float) -> Size:
    """How large its tables want to be, or what is drawn in their place."""
    if section.planes or section.bars:
        return NARROWEST * 1.2, NARROWEST * 1.2 * PLANES_HEIGHT
    if not section.grids:
        return NARROWEST, 0.0
    if section.stages:
        rows = rows_of_lines((*section.grids, *section.stage_grids), section.stages)
        return NARROWEST * 1.3, sum(STAGE + STAGE_ROW * min(each, MANY_ROWS) for each in rows)
    grids = section.tables
    return natural(free(grids), scales_of(grids), Captions(), text_size)[1]


def _head(section: Section, captions: Captions, letters: Lettering, room: Size) -> tuple[Line, ...]:
    """What the step is, in lines from the top of the page: as much of it as there is room for."""
    heading = tuple(_heading(section, captions, letters, room[0]))
    alone = not (section.grids or section.planes)
    size = letters.title * 1.3 if alone else letters.text
    about = tuple(Line(line, size) for line in wrapped(section.about.split(), " ", size, room[0]))
    # Tables with signs between them are a formula.
    parts = [part for part in (section.formula, section.shapes) if part and not section.stages]
    formulas = tuple(
        Line(*fitted(line, letters.axis, letters.smallest, room[0]), faint=True)
        for line in wrapped(parts, "     ", letters.axis, room[0])
    )
    possible = [(*heading, *about, *formulas), (*heading, *about), heading]
    return next((each for each in possible if _height(each) <= room[1] * HEAD_SHARE), heading)


def _heading(
    section: Section, captions: Captions, letters: Lettering, width: float
) -> Iterator[Line]:
    """A title of somebody's own is the headline; any other says small what the step is part of."""
    if captions.own and captions.title:
        yield from headline(captions.title, letters.headline, width)
        yield from headline(section.heading, letters.title, width)
        return
    if section.finding and captions.title == section.finding:
        yield from headline(section.finding, letters.headline, width)
        return
    if captions.title and captions.title != section.heading:
        yield Line(*fitted(captions.title, letters.note, letters.smallest, width), faint=True)
    yield from headline(section.heading, letters.headline, width)


def _height(lines: Sequence[Line]) -> float:
    return sum(line.height for line in lines)


def set_sums(sums: Sequence[Sequence[Sum]], room: Size, letters: Lettering) -> list[list[Line]]:
    """The sums of each section in large letters; the first ones, where not all of them fit.

    A size at which no sum has to be broken is better than a larger one.
    """
    most = [_fitting(each, room, letters) for each in sums]
    size = min((size for _, size in most), default=letters.text)
    return [_lines(each, count, size, room) for each, (count, _) in zip(sums, most, strict=True)]


def _fitting(sums: Sequence[Sum], room: Size, letters: Lettering) -> tuple[int, float]:
    """How many sums fit, and in letters of which size."""
    readable = [letters.text * share for share in READABLE]
    for unbroken in (True, False):
        for size in readable:
            if _fit(sums, len(sums), size, room, unbroken):
                return len(sums), size
    for size in (max(letters.text * share, letters.smallest) for share in STILL_READABLE):
        if _fit(sums, len(sums), size, room, unbroken=False):
            return len(sums), size
    for size in (readable[-1], *(max(letters.text * s, letters.smallest) for s in SMALLER)):
        count = 0
        while count < len(sums) and _fit(sums, count + 1, size, room, unbroken=False):
            count += 1
        if count:
            return count, size
    return 0, letters.smallest


def _fit(sums: Sequence[Sum], count: int, size: float, room: Size, unbroken: bool) -> bool:
    """Whether so many of the sums fit, and a line that says how many are left."""
    most = int(room[1] / Line("", size).height) - (count < len(sums))
    lines = _broken(sums[:count], size, room[0], most)
    return len(lines) <= (min(most, count) if unbroken else most)


def _lines(sums: Sequence[Sum], count: int, size: float, room: Size) -> list[Line]:
    """The sums that fit; where not even one does, the beginning of the first."""
    most = int(room[1] / Line("", size).height)
    lines = _broken(sums[: max(count, 1)], size, room[0], most)
    if sums and not count:
        lines = [*lines[: max(most - 1, 0)], CUT]
    elif count < len(sums):
        lines = [*lines, f"{CUT} and {len(sums) - count} more"]
    return [Line(text, size) for text in lines]


def _broken(sums: Sequence[Sum], size: float, width: float, most: int) -> list[str]:
    """The lines of sums, but no more of them than show that there are too many."""
    width *= SLACK

    def fits(line: str) -> bool:
        # To measure thousands of letters takes long, and they never fit.
        return len(line) * size * POINT * NARROW <= width and text_width(line, size) <= width

    lines = (line for each in sums for line in break_sum(each.text, fits))
    return list(islice(lines, most + 1))


def _alike(sections: Sequence[Section], room: Box, letters: Lettering) -> list[Layout]:
    """What is drawn of each, with numbers written as if all cells were filled in all of them."""
    placed = [_drawn(section, room, letters) for section in sections]
    shapes = {tuple(panel.grid.values.shape for panel in each.panels) for each in placed}
    if len(shapes) > 1 or len(placed) == 1:
        return placed
    together = zip(*([panel.grid for panel in each.panels] for each in placed), strict=True)
    full = [reduce(_fuller, grids) for grids in together]
    return [
        replace(
            each,
            panels=tuple(
                numbered_as(panel, grid, letters.number)
                for panel, grid in zip(each.panels, full, strict=True)
            ),
        )
        for each in placed
    ]


def _fuller(grid: Grid, other: Grid) -> Grid:
    empty = np.isnan(grid.values)
    return grid.with_values(np.where(empty, other.values, grid.values))


def _drawn(section: Section, room: Box, letters: Lettering) -> Layout:
    """Its planes; its stages; or its tables, with the colour bars of their scales beside them."""
    if section.planes:
        return place_planes(section.planes, room, letters)
    if section.bars:
        return place_columns(section.bars, room, letters)
    staged = (*section.grids, *section.stage_grids)
    grids = staged if section.stages else _several(section.tables)
    if not grids:
        return empty_layout()
    scales = scales_of(grids)
    left, bottom, width, height = room
    beside = (left, bottom, width - bar_space(scales, letters), height)
    form = ONE_COLUMN if all(len(each.columns) == 1 for each in grids) else FORM
    style = style_of(letters, (width, height), *form)
    if section.stages:
        placed, right = place_stages(grids, section.stages, beside, style, letters)
    else:
        placed, right = place(grids, beside, style)
    return with_bars(placed, scales, right, bottom, letters)


def _several(grids: Sequence[Grid]) -> Sequence[Grid]:
    """Of several tables on one page only those parts that are needed."""
    return grids if len(grids) == 1 else [without_titles(grid) for grid in grids]
