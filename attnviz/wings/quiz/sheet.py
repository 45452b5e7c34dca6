"""A quiz on paper: pages of questions with boxes to tick, or of solutions.

A page is filled from the top with blocks; a question stays together where a page has room for it.
All lengths are inches.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from matplotlib.backends.backend_pdf import PdfPages

from attnviz.renderers import Look
from attnviz.renderers.picture.cards import TableBlock, table_blocks, table_items
from attnviz.renderers.picture.draw import draw_layout
from attnviz.renderers.picture.glyphs import fixed_settings, with_glyphs
from attnviz.renderers.picture.items import Block, Items, Layout, Stroke, Words
from attnviz.renderers.picture.page_frame import Captions
from attnviz.renderers.picture.still_pictures import HATCHED_NOTE, pdf_metadata
from attnviz.renderers.picture.text import (
    BOLD,
    POINT,
    Size,
    fit_line,
    fits_width,
    text_width,
    wrap_parts,
)
from attnviz.renderers.wrapping import break_sum
from attnviz.views.grids.description import has_masked_cells
from attnviz.views.grids.exercise import Exercise, ExerciseSheet
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.section import Section
from attnviz.views.view import View

TableSizes = tuple[tuple[tuple[float, float], bool, float], ...]

A4 = (8.268, 11.693)
MARGIN_SHARE = 0.085  # of the width of the page
TITLE_POINTS, HEADING_POINTS, TEXT_POINTS, SMALL_POINTS = 17.0, 11.5, 10.0, 8.5
LEADING = 1.4  # from one line to the next
QUESTION_GAP, PART_GAP = 0.22, 0.09  # above a question; between its parts
MAX_GAP_GROWTH = 0.5  # above a question, where a page has room left
COLUMN_GAP, MIN_COLUMN_WIDTH = 0.25, 2.6  # left of what stands beside tables; its least width
FOOT_HEIGHT = 0.3  # below the questions: the line with the number of the page
WORKING_HEIGHTS = (1.7, 1.4, 1.15, 0.9)  # of the box for arithmetic: the largest that costs no page
MIN_LAST_SHARE = 1 / 3  # of its room: with less a last page is nearly empty
PAGE_SHARES = (0.9, 0.8, 0.7, 0.6)  # of its room that a page may take if the last one has little
BOX_SIDE = 0.13  # of a box to tick
NAME_LINE = 0.45  # the height of the line for the name
# How many times as large as they must be tables are, and how many times as wide then, without
# numbers if fine, and the share of the page's height that they may take; the first that fits is
# taken. Those of a key leave room for words beside them.
KEY_TABLES = (((1.0, 1.5), False, 0.2), ((1.0, 1.0), False, 0.4),
              ((2.0, 1.0), True, 0.4), ((1.5, 1.0), True, 0.4))  # fmt: skip
SHEET_TABLES = (((1.25, 1.8), False, 0.2), ((1.25, 1.0), False, 0.2), *KEY_TABLES)


@dataclass(frozen=True, eq=False)
class PaperPart:
    """Something that takes the whole width of a page: its height, what is drawn from its top down,
    and how much taller it may be where the page has room left.
    """

    height: float
    items: Callable[[float], Items]
    growth: float = 0.0


@dataclass(frozen=True)
class Paper:
    """A page of paper, or the part of it right of `inset`, and how many times as large as usual its
    letters are.
    """

    size: Size
    scale: float = 1.0
    inset: float = 0.0

    @property
    def margin(self) -> float:
        return MARGIN_SHARE * self.size[0]

    @property
    def left(self) -> float:
        return self.margin + self.inset

    @property
    def width(self) -> float:
        return self.size[0] - self.margin - self.left

    @property
    def room(self) -> float:
        return self.size[1] - 2 * self.margin - FOOT_HEIGHT


def exercise_pdf(view: View, look: Look) -> list[bytes]:
    """Return the exercise sheet of a view as a PDF of as many pages as it needs; of a sheet with
    answers the key.
    """
    assert view.sheet is not None, "a quiz has a sheet of exercises"
    subject = f"{len(view.sheet.exercises)} questions about attention"
    file = io.BytesIO()
    captions = Captions(view.headline, view.picture.caveat, view.settings)
    with fixed_settings(view.sheet.exercises, captions, look.font):
        pages = exercise_layouts(view.sheet, with_glyphs(captions), look)
        with PdfPages(file, metadata=pdf_metadata(view, subject)) as pdf:
            for layout in pages:
                pdf.savefig(draw_layout(layout, look), transparent=look.transparent)
    return [file.getvalue()]


def exercise_layouts(sheet: ExerciseSheet, captions: Captions, look: Look) -> list[Layout]:
    """Return the pages of a sheet; the words of `captions` are above its questions."""
    factor = look.text.factor if look.points is None else look.points / TEXT_POINTS
    paper = Paper(look.size or A4, factor)
    letters = sheet.right_letters if sheet.has_answers else ()
    right = " · ".join(each.replace(" ", "\u00a0") for each in letters)  # no line ends in between
    exercises = [*map(with_glyphs, sheet.exercises)]
    ways = []
    for working in (0.0,) if sheet.has_answers else WORKING_HEIGHTS:
        blocks = [[*_heading_parts(captions, paper, right)]]
        for each in exercises:
            parts = (
                _question_parts(each, paper, working) if working else _solution_parts(each, paper)
            )
            blocks.append([PaperPart(QUESTION_GAP, _no_items, MAX_GAP_GROWTH), *parts])
        ways.append(_even_pages(blocks, paper.room))
    pages = min(ways, key=len)
    return [
        _page_layout(parts, (captions.title, f" · page {number} of {len(pages)}"), paper)
        for number, parts in enumerate(pages, 1)
    ]


def _even_pages(blocks: Sequence[Sequence[PaperPart]], room: float) -> list[list[PaperPart]]:
    """Return the parts of each page: as few pages as possible, the last of them not nearly empty
    where the others can leave it something.
    """
    fullest = list(_fill_pages(blocks, room, room))
    for share in PAGE_SHARES if _height(fullest[-1]) < MIN_LAST_SHARE * room else ():
        pages = list(_fill_pages(blocks, room, share * room))
        if len(pages) == len(fullest) and _height(pages[-1]) >= MIN_LAST_SHARE * room:
            return pages
    return fullest


def _fill_pages(
    blocks: Sequence[Sequence[PaperPart]], room: float, wanted: float
) -> Iterator[list[PaperPart]]:
    """Yield the parts of each page, on which blocks take `wanted` inches at most, if they can. A
    block that fits on a page is not divided; only a longer one goes on where it stands.
    """
    page: list[PaperPart] = []
    for block in blocks:
        if page and _height([*page, *block]) > wanted and _height(block[1:]) <= room:
            yield page
            page = []
        for part in block:
            if page and _height([*page, part]) > room:
                yield page
                page = []
            if page or not part.growth:  # no gap at the top of a page
                page.append(part)
    yield page


def _height(parts: Sequence[PaperPart]) -> float:
    return sum(part.height for part in parts)


def _page_layout(parts: Sequence[PaperPart], foot: tuple[str, str], paper: Paper) -> Layout:
    """Return a page with its parts from the top down, which grow to fill it as far as they may; in
    its foot stands the title, which is cut if it is long, and the number of the page.
    """
    items = []
    top = paper.size[1] - paper.margin
    growth = sum(part.growth for part in parts)
    share = min(1.0, max(0.0, paper.room - _height(parts)) / growth) if growth else 0.0
    for part in parts:
        items += [*part.items(top)]
        top -= part.height + share * part.growth
    size, (title, number) = SMALL_POINTS * paper.scale, foot
    shown, _ = fit_line(title, size, size, paper.width - text_width(number, size))
    items.append(Words(shown + number, paper.margin, paper.margin, size, faint=True))
    return Layout(paper.size, tuple(items))


def _heading_parts(captions: Captions, paper: Paper, right: str) -> Iterator[PaperPart]:
    """Yield the title, the small print, and the letters of the right answers for marking, or on a
    sheet, which has none, a line for the name and the date.
    """
    yield _text_part(captions.title, TITLE_POINTS, paper, bold=True)
    for text in filter(None, (captions.origin, captions.notes)):
        yield _text_part(text, SMALL_POINTS, paper, faint=True)
    if right:
        yield _gap(PART_GAP)
        yield _text_part(right, HEADING_POINTS, paper, bold=True)
    else:
        yield PaperPart(NAME_LINE, partial(_name_items, paper))


def _name_items(paper: Paper, top: float) -> Items:
    """Yield the lines for the name and the date."""
    size, y, gap = TEXT_POINTS * paper.scale, top - NAME_LINE + 0.05, 0.08
    left, middle = paper.margin, paper.margin + 0.62 * paper.width
    for word, start, end in (("Name", left, middle - 0.2), ("Date", middle, left + paper.width)):
        yield Words(word, start, y, size)
        yield Stroke(((start + text_width(word, size) + gap, y - 0.02), (end, y - 0.02)))


def _question_parts(exercise: Exercise, paper: Paper, working: float) -> Iterator[PaperPart]:
    """Yield a question as it is asked: its words, its tables with a box for arithmetic `working`
    inches high beside them if one is needed, and its answers with boxes.
    """
    section = exercise.question

    def working_parts(column: Paper) -> Iterator[PaperPart]:
        if exercise.needs_working:
            yield PaperPart(working, partial(_working_items, column, working))

    yield _text_part(section.heading, HEADING_POINTS, paper, bold=True)
    if section.about:
        yield _text_part(section.about, TEXT_POINTS, paper)
    yield from _beside_tables(section.grids, SHEET_TABLES, working_parts, paper)
    yield from _option_parts(exercise, paper, is_ticked=False)


def _working_items(paper: Paper, height: float, top: float) -> Items:
    """Yield an empty box for arithmetic."""
    size = SMALL_POINTS * paper.scale
    yield Block((paper.left, top - height, paper.width, height), outlined=0.5)
    yield Words("Working", paper.left + 0.08, top - 1.5 * size * POINT, size, faint=True)


def _solution_parts(exercise: Exercise, paper: Paper) -> Iterator[PaperPart]:
    """Yield a question with the right answer ticked, and its tables; beside them its reason, its
    sums and the replies to wrong answers.

    Where the reason has no tables, those of the question are shown again.
    """
    solution = exercise.solution

    def words(column: Paper) -> Iterator[PaperPart]:
        if solution.about:
            yield _text_part(solution.about, TEXT_POINTS, column)
        yield from _sum_parts(solution, column)
        if exercise.lettered_replies:
            yield _gap(PART_GAP)
        for reply in exercise.lettered_replies:
            yield _text_part(reply, SMALL_POINTS, column, faint=True)

    yield _text_part(exercise.question.heading, HEADING_POINTS, paper, bold=True)
    if exercise.context:
        yield _text_part(exercise.context, SMALL_POINTS, paper, faint=True)
    yield from _option_parts(exercise, paper, is_ticked=True)
    yield from _beside_tables(solution.grids or exercise.question.grids, KEY_TABLES, words, paper)


def _beside_tables(
    grids: tuple[Grid, ...],
    sizes: TableSizes,
    parts: Callable[[Paper], Iterator[PaperPart]],
    paper: Paper,
) -> Iterator[PaperPart]:
    """Yield tables with parts to their right, or below them where the page is too narrow."""
    below = [*parts(paper)]
    yield _gap(PART_GAP)
    if not grids:
        yield from below
        return
    notes = [_text_part(HATCHED_NOTE, SMALL_POINTS, paper, faint=True)]
    notes = notes if has_masked_cells(grids) else []
    tables = _fitting_tables(grids, sizes, (paper.width, paper.room))
    if tables is None:
        tables = min(table_blocks(grids, (1.0, 1.0), True), key=lambda block: block.width)
    ways = [[_tables_part(tables, paper), *notes, *below]]
    narrow = paper.width - COLUMN_GAP - MIN_COLUMN_WIDTH * paper.scale
    for size in [each for each in sizes if not each[1]] if below else ():
        tables = _fitting_tables(grids, (size,), (narrow, paper.room))
        if tables is not None:
            column = [*parts(replace(paper, inset=tables.width + COLUMN_GAP))]
            height = max(tables.height, _height(column))
            sides = [_tables_part(tables, paper)], column
            ways.append([PaperPart(height, partial(_columns_items, sides)), *notes])
    yield from min(
        (way for way in ways if way[0].height < paper.room), key=_height, default=ways[0]
    )


def _tables_part(tables: TableBlock, paper: Paper) -> PaperPart:
    return PaperPart(tables.height, partial(table_items, tables, paper.left))


def _columns_items(columns: Sequence[Sequence[PaperPart]], top: float) -> Items:
    """Yield what stands in columns beside each other, each from the top down."""
    for parts in columns:
        y = top
        for part in parts:
            yield from part.items(y)
            y -= part.height


def _fitting_tables(grids: tuple[Grid, ...], sizes: TableSizes, room: Size) -> TableBlock | None:
    """Return the tables in the lowest arrangement that is as wide as the room at most, as large as
    they can be in their part of its height; None if none fits.
    """
    width, height = room
    for growth, fine, share in sizes:
        fitting = [
            block
            for block in table_blocks(grids, growth, fine)
            if block.width <= width and block.height <= share * height
        ]
        if fitting:
            return min(fitting, key=lambda block: block.height)
    return None


def _option_parts(exercise: Exercise, paper: Paper, *, is_ticked: bool) -> Iterator[PaperPart]:
    """Yield the answers with a box before each: side by side if they are short."""
    size, side = TEXT_POINTS * paper.scale, BOX_SIDE * paper.scale
    options = exercise.lettered_options
    row_room = paper.width / len(options) - 2.5 * side
    are_short = all(text_width(each, size * BOLD) <= row_room for each in options)
    across = len(options) if are_short else 1
    room = paper.width / across - 2.5 * side
    yield _gap(PART_GAP)
    for start in range(0, len(options), across):
        row = range(start, start + across)
        lines = {n: wrap_parts(options[n].split(" "), " ", size * BOLD, room) for n in row}
        ticked = exercise.answer if is_ticked else None
        height = max(map(len, lines.values())) * size * POINT * LEADING + 0.05 * paper.scale
        yield PaperPart(height, partial(_option_items, lines, ticked, across, paper))


def _option_items(
    lines: dict[int, list[str]], ticked: int | None, across: int, paper: Paper, top: float
) -> Items:
    """Yield a row of answers, each behind its box; the ticked one bold."""
    size, side = TEXT_POINTS * paper.scale, BOX_SIDE * paper.scale
    for place, (number, words) in enumerate(lines.items()):
        left = paper.left + place * paper.width / across
        y = top - size * POINT * LEADING
        yield Block((left, y - 0.02 * paper.scale, side, side), outlined=0.8)
        if number == ticked:
            yield Words("✓", left + side / 2, y, size * 1.2, bold=True, halign="center")
        for line in words:
            yield Words(line, left + 1.7 * side, y, size, bold=number == ticked)
            y -= size * POINT * LEADING


def _sum_parts(section: Section, paper: Paper) -> Iterator[PaperPart]:
    """Yield the arithmetic, a part for each sum, so that a page can end between two."""
    size = TEXT_POINTS * 0.9 * paper.scale
    fits = partial(fits_width, size=size, width=paper.width)
    if section.sums:
        yield _gap(PART_GAP)
    for each in section.sums:
        yield _lines_part([*break_sum(each.text, fits)], size, paper)


def _text_part(
    text: str, points: float, paper: Paper, *, bold: bool = False, faint: bool = False
) -> PaperPart:
    size = points * paper.scale
    lines = wrap_parts(text.split(" "), " ", size * (BOLD if bold else 1.0), paper.width)
    return _lines_part(lines, size, paper, bold=bold, faint=faint)


def _lines_part(
    lines: list[str], size: float, paper: Paper, *, bold: bool = False, faint: bool = False
) -> PaperPart:
    pitch = size * POINT * LEADING

    def items(top: float) -> Items:
        for number, line in enumerate(lines, 1):
            y = top - number * pitch + 0.2 * size * POINT
            yield Words(line, paper.left, y, size, bold=bold, faint=faint)

    return PaperPart(len(lines) * pitch, items)


def _gap(height: float) -> PaperPart:
    return PaperPart(height, _no_items)


def _no_items(top: float) -> Items:
    return iter(())
