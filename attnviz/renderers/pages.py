"""Sections on a page: one in full, or a panel for each, in the order of the path.

`layout.py` places the tables of each; here is where each section stands, and what is written
around its tables. All lengths are inches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from attnviz.grids import Drawable, Grid, Scale, Section
from attnviz.renderers import Look
from attnviz.renderers.layout import (
    BAR_SPACE,
    BOLD,
    CAPTION,
    MARGIN,
    NUMBER_SHARE,
    PANEL_GAP,
    ROOM_FOR_CAPTION,
    Bar,
    Box,
    Layout,
    Shown,
    Words,
    bar_labels,
    bar_marks,
    bars_beside,
    caption_lines,
    caption_words,
    fitted,
    lay_out,
    longest_number,
    natural_size,
    numbered_as,
    place,
    room_between,
    scales_of,
    title_lines,
    title_words,
    wrapped,
)
from attnviz.renderers.ticks import LABEL, POINT, Manner, longest_label, text_width
from attnviz.renderers.wrapping import broken

Size = tuple[float, float]

PAGES = ((12.8, 7.2), (16.0, 9.0), (19.2, 10.8))  # the first in which all numbers can be read
MOST_ROWS = 6
HEADING, SMALL = 10.0, 6.5  # points, on a page of several
MANY = Manner(title=8.0, axis=7.0, label=8.5, stretch=1.6, numbers=8.0)
WORDS_ALONE = 1.5  # the width of a panel of words alone
OUTSIDE_BRACKETS = re.compile(r" (?![^\[]*\])")  # so that `[4 × 3]` stays together
RULE = 0.07  # from a rule to the heading below it
BLOCK_GAP, ROW_GAP = 0.28, 0.14  # between two panels
SLANTED = 0.75  # of a label's length is the height that it takes
KEY = (0.45, 0.075)  # a colour bar that lies beside a heading
CELL_HEIGHT = 0.22  # that such a number wants
MOST_CELLS = 40  # on a side, that a panel can want room for

ALONE = Manner(stretch=1.6, numbers=8.0)
LARGE_HEADING, ABOUT, FORMULA, OVERLINE = 16.0, 10.5, 9.0, 8.0  # of a section with its own page
SUM_SIZES = (13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0)
SIZES_UNBROKEN = 5  # of these: a sum in letters of 9 points on one line, rather than on two
SUMS_SHARE = 0.36  # of the page's height, at most
LEADING = 1.45  # from one line to the next
NARROWEST = 6.4


@dataclass(frozen=True, eq=False)
class Block:
    """What one panel of a page shows."""

    heading: str
    small: str  # its shapes; where there is nothing to draw, what it is about
    drawn: tuple[Shown, ...]


@dataclass(frozen=True)
class Want:
    """How much room is wanted along one side: for labels in any case, and for cells."""

    fixed: float
    cells: float

    @property
    def whole(self) -> float:
        return self.fixed + self.cells


@dataclass(frozen=True)
class Line:
    """A line of text that has not yet found its place."""

    text: str
    size: float
    bold: bool = False
    faint: bool = False

    @property
    def height(self) -> float:
        return self.size * POINT * LEADING


def page(drawn: Sequence[Drawable], look: Look) -> Layout:
    """One picture of all that is drawn: of grids as ever, of sections with a panel for each."""
    sections = [each for each in drawn if isinstance(each, Section)]
    if not sections:
        return lay_out([each for each in drawn if not isinstance(each, Section)], look)
    if len(drawn) == 1:
        return stills(sections, look)[0]
    blocks = [_block(each) for each in drawn if each]
    for size in [look.size] if look.size else PAGES:
        made = _page_of_blocks(blocks, look, size)
        if look.numbers is False or all(panel.number_size for panel in made.panels):
            break
    return made


def stills(sections: Sequence[Section], look: Look) -> list[Layout]:
    """A page for each section, all laid out alike: what they share stands in one place."""
    size = look.size or _natural_size(sections, look)
    heads = [list(_head(section, look, size[0])) for section in sections]
    top = size[1] - MARGIN - max(_height(head) for head in heads)
    caption = caption_lines(look, size) if min(size) >= ROOM_FOR_CAPTION else []
    bottom = MARGIN + len(caption) * CAPTION * POINT * 1.4
    sums = _sums(sections, size[0] - 2 * MARGIN, (top - bottom) * SUMS_SHARE)
    middle = bottom + max(_height(lines) for lines in sums)
    room = (MARGIN, middle + 0.1, size[0] - 2 * MARGIN, max(top - middle - 0.2, 0.5))
    made = []
    for head, tables, lines in zip(heads, _alike(sections, room), sums, strict=True):
        words = (*_stacked(head, size[1] - MARGIN), *tables.words, *_stacked(lines, middle))
        words = (*words, *caption_words(caption, size))
        made.append(replace(tables, size=size, words=words))
    return made


def _natural_size(sections: Sequence[Section], look: Look) -> Size:
    """As large as the tables want to be, and as what is written around them needs."""
    every = [each.grids for each in sections if each.grids]
    sizes = [natural_size(grids, look, scales_of(grids)) for grids in every]
    width = max([NARROWEST, *(width for width, _ in sizes)])
    tables = max((height for _, height in sizes), default=1.0)
    head = max(_height(list(_head(section, look, width))) for section in sections)
    sums = _sums(sections, width - 2 * MARGIN, tables * SUMS_SHARE / (1 - SUMS_SHARE))
    return width, tables + head + max(_height(lines) for lines in sums)


def _head(section: Section, look: Look, width: float) -> Iterator[Line]:
    """What the step is, in lines from the top of the page."""
    room = width - 2 * MARGIN
    if look.title:
        yield Line(*fitted(look.title, OVERLINE, 6.0, room), faint=True)
    yield Line(*fitted(section.heading, LARGE_HEADING, 9.0, room / BOLD), bold=True)
    for line in wrapped(section.about.split(), " ", ABOUT, room):
        yield Line(line, ABOUT)
    parts = [part for part in (section.formula, section.shapes) if part]
    for line in wrapped(parts, "     ", FORMULA, room):
        yield Line(*fitted(line, FORMULA, 6.0, room), faint=True)


def _height(lines: Sequence[Line]) -> float:
    return sum(line.height for line in lines)


def _stacked(lines: Sequence[Line], top: float) -> Iterator[Words]:
    """Lines one below the other, each standing on the foot of its own height."""
    for line in lines:
        foot = top - line.size * POINT
        yield Words(line.text, MARGIN, foot, line.size, bold=line.bold, faint=line.faint)
        top -= line.height


def _sums(sections: Sequence[Section], width: float, height: float) -> list[list[Line]]:
    """The sums of each section, as large as lets those of all fit; if none does, the first ones.

    A size at which no sum has to be broken is better than a larger one.
    """
    every = [" ".join(text.split()) for section in sections for text in section.sums]
    widest = max((text_width(text, 1.0) for text in every), default=0.0)
    unbroken = [size for size in SUM_SIZES[:SIZES_UNBROKEN] if widest * size <= width]
    for size in (*unbroken, *SUM_SIZES):
        written = [_broken(section.sums, size, width) for section in sections]
        most = int(height / Line("", size).height)
        if max(map(len, written)) <= most:
            break
    return [[Line(text, size) for text in _cut(lines, max(most, 1))] for lines in written]


def _broken(sums: Sequence[str], size: float, width: float) -> list[str]:
    """Spaces that make columns on a screen make none in letters of different widths."""
    return [
        line
        for text in sums
        for line in broken(" ".join(text.split()), lambda line: text_width(line, size) <= width)
    ]


def _cut(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], "…"]


def _alike(sections: Sequence[Section], room: Box) -> list[Layout]:
    """The tables of each, with numbers written as if all cells were filled in all of them."""
    placed = [_tables(_several(section.tables), room) for section in sections]
    shapes = {tuple(panel.grid.values.shape for panel in each.panels) for each in placed}
    if len(shapes) > 1 or len(placed) == 1:
        return placed
    together = zip(*([panel.grid for panel in each.panels] for each in placed), strict=True)
    full = [reduce(_fuller, grids) for grids in together]
    return [replace(each, panels=tuple(map(numbered_as, each.panels, full))) for each in placed]


def _fuller(grid: Grid, other: Grid) -> Grid:
    empty = np.isnan(grid.values)
    return replace(grid, values=np.where(empty, other.values, grid.values))


def _several(grids: Sequence[Grid]) -> Sequence[Grid]:
    """Of several tables on one page only those parts that are needed."""
    return grids if len(grids) == 1 else [_without_titles(grid) for grid in grids]


def _tables(grids: Sequence[Grid], room: Box) -> Layout:
    """Tables with the colour bars of their scales beside them."""
    if not grids:
        return Layout((0.0, 0.0), (), (), (), (), ())
    scales = scales_of(grids)
    left, bottom, width, height = room
    beside = BAR_SPACE if scales else 0.0
    placed, right = place(grids, (left, bottom, width - beside, height), None, ALONE)
    bars = tuple(bars_beside(placed, scales, right))
    return replace(
        placed,
        bars=bars,
        words=(*placed.words, *(words for bar in bars for words in bar_labels(bar))),
        marks=(*placed.marks, *(mark for bar in bars for mark in bar_marks(bar))),
    )


def _block(each: Drawable) -> Block:
    """A table that is alone in its panel needs no title beside the panel's."""
    assert each is not None
    if not isinstance(each, Section):
        return Block(each.title, "", (replace(each, title=""),))
    grids = [_without_titles(grid) for grid in each.grids]
    alone = len(grids) == 1
    return Block(
        each.heading,
        each.shapes if grids else each.about,
        tuple(replace(grid, title="") if alone else grid for grid in grids),
    )


def _without_titles(grid: Grid) -> Grid:
    """Only where both sides count the same must it be said which is which.

    Beside a row or two there is no room to say it.
    """
    alike = grid.rows.counts == grid.columns.counts
    rows = grid.rows if alike and len(grid.rows) > 2 else replace(grid.rows, title="")
    columns = grid.columns if alike else replace(grid.columns, title="")
    return replace(grid, rows=rows, columns=columns)


def _page_of_blocks(blocks: Sequence[Block], look: Look, size: Size) -> Layout:
    """Panels in as many rows as make the smallest cell largest."""
    caption = caption_lines(look, size) if min(size) >= ROOM_FOR_CAPTION else []
    title = title_lines(look, size)
    left, bottom, width, height = room_between(size, len(title), len(caption), ())
    room = (left, bottom, width, height - (RULE if title else 0.0))
    made = [layout for rows in _rows(blocks, look) for layout in _balanced(rows, room)]
    best = max(made, key=_smallest_number)
    words = (*title_words(title, size), *best.words, *caption_words(caption, size))
    return replace(best, size=size, words=words)


def _rows(blocks: Sequence[Block], look: Look) -> Iterator[list[list[Block]]]:
    if look.columns:
        starts = range(0, len(blocks), look.columns)
        yield [list(blocks[start : start + look.columns]) for start in starts]
        return
    for count in range(1, min(len(blocks), MOST_ROWS) + 1):
        yield _in_rows(blocks, count)


def _in_rows(blocks: Sequence[Block], count: int) -> list[list[Block]]:
    """So many rows, or fewer, the fullest of which is as little full as can be."""
    wants = [_wanted_width(block).whole for block in blocks]
    spans = sorted(
        sum(wants[start:stop]) + 1e-9
        for start in range(len(wants))
        for stop in range(start + 1, len(wants) + 1)
    )
    filled = (_filled_up(blocks, wants, most) for most in spans if most >= max(wants))
    return next(rows for rows in filled if len(rows) <= count)


def _filled_up(blocks: Sequence[Block], wants: Sequence[float], most: float) -> list[list[Block]]:
    rows: list[list[Block]] = []
    used = math.inf
    for block, want in zip(blocks, wants, strict=True):
        if used + want > most:
            rows, used = [*rows, []], 0.0
        rows[-1].append(block)
        used += want
    return rows


def _balanced(rows: Sequence[Sequence[Block]], room: Box) -> Iterator[Layout]:
    """Rows as high as they want to be; and once more, higher where numbers came out small."""
    weights = [1.0] * len(rows)
    for _ in range(2):
        placed = [_joined([_placed(*each) for each in row]) for row in _boxes(rows, room, weights)]
        yield _joined(placed)
        weights = [1 / max(_smallest_number(each), 1.0) for each in placed]


def _boxes(
    rows: Sequence[Sequence[Block]], room: Box, weights: Sequence[float]
) -> Iterator[list[tuple[Block, Box]]]:
    """The room shared out among rows, and each row's among its panels, by what they want."""
    left, bottom, width, height = room
    wants = [_tallest(row) for row in rows]
    wants = [replace(w, cells=w.cells * weight) for w, weight in zip(wants, weights, strict=True)]
    top = bottom + height
    heights = _shares(wants, height - ROW_GAP * (len(rows) - 1))
    for row, high in zip(rows, heights, strict=True):
        yield list(_beside(row, (left, top - high, width, high)))
        top -= high + ROW_GAP


def _beside(row: Sequence[Block], room: Box) -> Iterator[tuple[Block, Box]]:
    left, bottom, width, height = room
    wants = [_wanted_width(block) for block in row]
    for block, wide in zip(row, _shares(wants, width - BLOCK_GAP * (len(row) - 1)), strict=True):
        yield block, (left, bottom, wide, height)
        left += wide + BLOCK_GAP


def _shares(wants: Sequence[Want], room: float) -> list[float]:
    """Each what it needs in any case, and of what is left as much as it has cells."""
    left = room - sum(want.fixed for want in wants)
    if left <= 0:
        return [room * want.whole / sum(want.whole for want in wants) for want in wants]
    return [want.fixed + left * want.cells / sum(want.cells for want in wants) for want in wants]


def _wanted_width(block: Block) -> Want:
    tables = [_wants(each)[0] for each in block.drawn]
    cells = sum(want.cells for want in tables)
    fixed = sum(want.fixed for want in tables) + PANEL_GAP * (len(tables) - 1)
    heading = text_width(block.heading, HEADING * BOLD)
    least = heading if block.drawn else max(heading, WORDS_ALONE)
    return Want(max(fixed, least - cells), max(cells, 0.1))


def _tallest(row: Sequence[Block]) -> Want:
    tables = [_wants(each)[1] for block in row for each in block.drawn]
    highest = max(tables, key=lambda want: want.whole, default=Want(0.0, 0.1))
    titled = any(each and each.title for block in row for each in block.drawn)
    head = (HEADING + SMALL + (MANY.title if titled else 0.0)) * POINT * LEADING + RULE
    return replace(highest, fixed=highest.fixed + head)


def _wants(each: Shown) -> tuple[Want, Want]:
    """The width and the height that a table needs for its numbers and its labels to be read."""
    if not isinstance(each, Grid):
        return Want(0.6, 2.0), Want(0.4, 1.4)
    down, across = (min(count, MOST_CELLS) for count in each.values.shape)
    smaller = MANY.label / LABEL
    beside = longest_label(each.rows) * smaller + (MANY.axis_room if each.rows.title else 0.0)
    label = longest_label(each.columns) * smaller
    below = 0.2 if label <= 0.3 else 0.1 + label * SLANTED
    below += MANY.axis_room if each.columns.title else 0.0
    wide = longest_number(each) * MANY.numbers / 10 / NUMBER_SHARE
    return Want(beside, across * wide), Want(below, down * CELL_HEIGHT)


def _placed(block: Block, box: Box) -> Layout:
    """A panel: a rule, the heading with the keys to its colours, the shapes, the tables."""
    left, bottom, width, height = box
    top = bottom + height
    keys = tuple(_keys(block, box))
    words = list(_heading(block, box, keys))
    foot = min((word.y for word in words), default=top) - 0.1
    room = (left, bottom, width, max(foot - bottom, 0.3))
    tables = Layout((0.0, 0.0), (), (), (), (), ())
    if block.drawn:
        tables, _ = place(block.drawn, room, None, MANY, centred=False)
    return replace(
        tables,
        bars=keys,
        words=(*words, *(word for key in keys for word in _key_words(key)), *tables.words),
        marks=(((left, top), (left + width, top)), *tables.marks),
    )


def _heading(block: Block, box: Box, keys: Sequence[Bar]) -> Iterator[Words]:
    left, bottom, width, height = box
    room = min([width, *(_key_left(key) - left - 0.1 for key in keys)])
    y = bottom + height - RULE - HEADING * POINT
    yield Words(*_at(fitted(block.heading, HEADING, SMALL, room / BOLD), left, y), bold=True)
    for line in wrapped(OUTSIDE_BRACKETS.split(block.small), " ", SMALL, width):
        y -= SMALL * POINT * LEADING
        yield Words(*_at(fitted(line, SMALL, 5.0, width), left, y), faint=True)


def _at(fitting: tuple[str, float], x: float, y: float) -> tuple[str, float, float, float]:
    text, size = fitting
    return text, x, y, size


def _keys(block: Block, box: Box) -> Iterator[Bar]:
    """Colour bars that lie at the right end of the heading, as many as it leaves room for."""
    left, bottom, width, height = box
    right = left + width
    end = left + text_width(block.heading, HEADING * BOLD)
    y = bottom + height - RULE - HEADING * POINT
    for scale in reversed(scales_of(block.drawn)):
        low, high = _ends(scale)
        start = right - text_width(high, SMALL) - 0.04 - KEY[0]
        if start - text_width(low, SMALL) - 0.04 < end + 0.1:
            return
        yield Bar(scale, (start, y, *KEY))
        right = start - text_width(low, SMALL) - 0.2


def _ends(scale: Scale) -> tuple[str, str]:
    return f"{scale.low:g}", f"{'≥ ' if scale.beyond else ''}{scale.high:g}"


def _key_left(key: Bar) -> float:
    return key.box[0] - 0.04 - text_width(_ends(key.scale)[0], SMALL)


def _key_words(key: Bar) -> Iterator[Words]:
    """The two ends of a scale, on either side of its bar."""
    left, bottom, width, _ = key.box
    low, high = _ends(key.scale)
    yield Words(low, left - 0.04, bottom, SMALL, faint=True, across="right")
    yield Words(high, left + width + 0.04, bottom, SMALL, faint=True)


def _joined(layouts: Sequence[Layout]) -> Layout:
    """Everything that stands in any of them, on one page."""
    return Layout(
        (0.0, 0.0),
        tuple(panel for each in layouts for panel in each.panels),
        tuple(chart for each in layouts for chart in each.charts),
        tuple(bar for each in layouts for bar in each.bars),
        tuple(words for each in layouts for words in each.words),
        tuple(mark for each in layouts for mark in each.marks),
    )


def _smallest_number(layout: Layout) -> float:
    """The size of the numbers in the smallest cells, if they were written however small."""
    return min((panel.fitting for panel in layout.panels), default=0.0)
