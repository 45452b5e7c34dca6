"""Panels with signs between them, such as Q · Kᵀ = S; cells of one size; in inches.

Only where vectors are so long that nothing could be read are their dimensions narrower.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

from attnviz.renderers.picture.boxes import Column, Row, Space
from attnviz.renderers.picture.fit import largest_length
from attnviz.renderers.picture.items import Block, Box, Items, Words
from attnviz.renderers.picture.matrix import (
    NUMBER_HEIGHT,
    PART_OF_HEAD,
    build_panel,
    color_scales,
    largest_cell,
    longest_number,
    product_marks,
)
from attnviz.renderers.picture.page_frame import KEY_OUTLINE, Drawing, Key, masked_key, scale_key
from attnviz.renderers.picture.panel_labels import (
    PanelStyle,
    Ticks,
    axis_items,
    column_ticks,
    labels_extent,
    no_ticks,
    panel_style,
    row_ticks,
)
from attnviz.renderers.picture.text import (
    MIDDLE,
    POINT,
    SLIDE,
    Lettering,
    cached_by_font,
    fit_line,
    text_width,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.number_formats import cell_format
from attnviz.views.view import Group
from attnviz.wording.numbers import typeset
from attnviz.wording.words import bracketed_shape

SIGNS = ("·", "=")
SIGN_SCALE, SCALE_BY_SIGN = 1.15, {"·": 2.0}  # times the letters of the headline; a dot is small
SIGN_PADDING = 0.12  # of its size, on either side
WIDEST_SIGN_GAP = 1.0  # that a sign has around it where there is room, in its size
SIGN_HEIGHT_SHARE, HIGHEST_SIGN = 0.6, 1.2  # of the height of its equation; of the panel before it
TERM_HEADING_HEIGHT = 1.5  # the height of a line above a panel, in its letters
EQUATIONS_GAP = 0.35  # between two equations
MAX_LARGE, MAX_WHOLE = 2, 4  # equations: more go without shapes, still more without whole titles
SHAPE, SHAPED = 0.8, 0.75  # of a title's letters are shapes, and of its size it keeps beside them
LONGEST_LABEL = 8.0  # in sizes of the largest letters of labels
TITLE_GAP = 0.1  # between a title and the next one
WIDTHS = (1.0, 0.5, 0.25, 0.125, 0.0625)  # times as wide as others are the cells of dimensions
NARROWER_WORTH, UNTITLED_WORTH = 0.6, 0.95  # beside cells that are alike, and axes with titles
LABELS_POWER, AREA_POWER = 0.35, 0.25  # of labels, and of the area of a cell, in the worth
FLATTEST_CELL, TALLEST_CELL = 0.5, 1.6  # times as high as wide may a cell be
LABELS = (1.0, 0.89, 0.78, 0.67, 0.56)  # of the largest letters of labels: those that are tried
LABELS_OF_ROWS, LABELS_OF_MANY = (1.0, 0.78, 0.56), (0.89, 0.56)  # rows need no large choice
NUMBER_WIDTH_SHARE = 0.9  # of the width of a cell, at most, for its number;
ROOMY_NUMBER = 0.9  # of that, where the number can then be read
LARGEST_CELL, NATURAL_CELL = 4.5, 2.6  # in sizes of the letters of numbers
NUMBERS_WORTH = 10**6  # are worth more than all labels
NATURAL_EQUATIONS_WIDTH = 10.0  # of a page with few equations


@dataclass(frozen=True)
class EquationForm:
    """How equations are arranged: how many side by side, and how their cells are shaped."""

    across: int
    narrow: float = 1.0  # times as wide as others are the cells of dimensions
    axis_titles: bool = True  # whether it is said what rows and columns are
    row_labels: float = 1.0  # of the largest letters are the labels of rows,
    column_labels: float = 1.0  # and those of columns
    tallest: float = TALLEST_CELL


@dataclass(frozen=True, eq=False)
class Term:
    """One panel of an equation, with its labels."""

    grid: Grid
    space: Space
    rows: Ticks
    columns: Ticks
    style: PanelStyle

    @property
    def number_size(self) -> float:
        """How large its numbers can be, in points."""
        wide = self.space.width / len(self.grid.columns)
        high = self.space.height / len(self.grid.rows)
        across = 10 * wide * NUMBER_WIDTH_SHARE / longest_number(self.grid)
        return min(across, high / POINT * NUMBER_HEIGHT)


@dataclass(frozen=True, eq=False)
class Equation:
    """Its terms in a row; between each two a sign, or nothing but a gap."""

    terms: tuple[Term, ...]
    signs: tuple[str, ...]
    sign_size: float  # points

    @cached_property
    def tight_row(self) -> Row:
        return self.row(0.0)

    def row(self, spare: float) -> Row:
        """Return its terms as a row, with `spare` inches more around all signs together, up to a
        limit.
        """
        extra = min(spare / max(len(self.signs), 1), WIDEST_SIGN_GAP * self.sign_size * POINT)
        gaps = [_sign_width(sign, self.sign_size) + extra for sign in self.signs]
        return Row(tuple(term.space for term in self.terms), tuple(gaps))


@dataclass(frozen=True, eq=False)
class PlacedTerm:
    """A term at its place, the sign behind it, and the gap in which this stands."""

    term: Term
    box: Box
    sign: str
    sign_size: float
    gap: float


@dataclass(frozen=True, eq=False)
class Equations:
    """All equations, so many side by side, in cells of one size."""

    equations: tuple[Equation, ...]
    form: EquationForm
    cell_area: float  # the area of a cell of tokens, in square inches

    @property
    def has_few(self) -> bool:
        """Whether there are at most two equations: these have larger titles."""
        return len(self.equations) <= MAX_LARGE

    @property
    def terms(self) -> list[Term]:
        return [term for equation in self.equations for term in equation.terms]

    @property
    def number(self) -> float:
        """The size that all numbers can have, in points; what has no colours has room
        for its own.
        """
        return min(term.number_size for term in self.terms if term.grid.scale.kind != "none")

    @property
    def rows(self) -> list[tuple[Equation, ...]]:
        starts = range(0, len(self.equations), self.form.across)
        return [self.equations[start : start + self.form.across] for start in starts]

    @cached_property
    def column(self) -> Column:
        return self._spaced_column(0.0, 0.0)

    def _spaced_column(self, wide: float, high: float) -> Column:
        """Return all equations with `wide` inches more in each, and `high` more
        between two rows.
        """
        rows = []
        for equations in self.rows:
            parts = [equation.row(wide) for equation in equations]
            ends = [
                EQUATIONS_GAP + wide + equation.tight_row.size[0] - part.size[0]
                for equation, part in zip(equations, parts, strict=True)
            ]
            rows.append(Row(tuple(parts), tuple(ends[:-1])))
        return Column(tuple(rows), (EQUATIONS_GAP if self.has_few else EQUATIONS_GAP / 2) + high)

    def place_terms(self, room: Box) -> Iterator[PlacedTerm]:
        """Yield every term in its place; spare room goes between the rows and around the signs."""
        left, bottom, width, height = room
        wide = max(width - self.column.size[0], 0.0) / self.form.across
        high = max(height - self.column.size[1], 0.0) / len(self.rows)
        boxes = self._spaced_column(wide, high).boxes(left, bottom + height - high / 2)
        for equations in self.rows:
            end = left - EQUATIONS_GAP
            for equation in equations:
                end += EQUATIONS_GAP + equation.tight_row.size[0] + wide
                gaps = equation.row(wide).gaps
                assert isinstance(gaps, tuple)
                for term, sign, gap in zip(
                    equation.terms, (*equation.signs, ""), (*gaps, None), strict=True
                ):
                    box = next(boxes)
                    behind = end - box[0] - box[2] if gap is None else gap
                    yield PlacedTerm(term, box, sign, equation.sign_size, behind)

    def fits(self, room: Box) -> bool:
        width, height = self.column.size
        return width <= room[2] + 1e-6 and height <= room[3] + 1e-6

    def worth(self, letters: Lettering) -> tuple[bool, float]:
        """Return what to compare arrangements by: first, whether numbers can be read.

        Second comes a number that grows with labels, cells, titles of axes, and numbers if these
        can be read.
        """
        rows, columns = ([t.rows for t in self.terms], [t.columns for t in self.terms])
        worth = (_smallest_label(rows) * _smallest_label(columns)) ** LABELS_POWER
        worth *= 1.0 if self.form.axis_titles else UNTITLED_WORTH
        if self.number >= letters.smallest:
            return True, worth * self.cell_area**AREA_POWER * min(self.number, letters.number)
        narrow = self.form.narrow
        return False, worth * self.cell_area * narrow * (1.0 if narrow == 1 else NARROWER_WORTH)

    def number_size(self, letters: Lettering) -> float:
        """Return the one size of all numbers, in points, at most the usual one; 0 if they cannot be
        read.
        """
        if self.number < letters.smallest:
            return 0.0
        return max(min(self.number * ROOMY_NUMBER, letters.number), letters.smallest)


@dataclass(frozen=True)
class EquationDrawing(Drawing):
    """Equations in cells as large as the room lets them be; below them what colours mean."""

    groups: tuple[Group, ...]

    @property
    def width(self) -> float:
        return NATURAL_EQUATIONS_WIDTH if len(self.groups) < MAX_WHOLE else SLIDE[0]

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height with numbers in their full size, or as large as they can be in this
        width.
        """
        across = 1 if len(self.groups) < MAX_WHOLE else 2
        room, side = (0.0, 0.0, width, width), NATURAL_CELL * letters.number * POINT
        forms = (EquationForm(across, narrow, tallest=1.0) for narrow in WIDTHS)
        ways = (_largest_cells(self._brief, form, room, letters, side) for form in forms)
        return max(ways, key=lambda way: way.worth(letters)).column.size[1]

    def body(self, room: Box, letters: Lettering) -> Items:
        """Yield the terms with their labels, titles and signs; shapes beside the titles if these
        stay large.
        """
        best = _best_equations(self._brief, room, letters)
        terms, number_size = list(best.place_terms(room)), best.number_size(letters)
        largest = letters.title if best.has_few else letters.small_title
        size = min([largest, *(_fit_title(term, letters)[1] for term in terms)])
        shaped_size = min([largest, *(_shaped_title_size(term) for term in terms)])
        shapes = best.has_few and shaped_size >= SHAPED * size
        for term in terms:
            yield from _term_items(term, number_size, letters)
            yield from _title_items(term, shaped_size if shapes else size, letters, shapes=shapes)
            yield from _sign_items(term, letters)
        if cell := self._marked_cell:
            yield from product_marks([(t.box, t.term.grid.cells.shape) for t in terms], *cell)

    @cached_property
    def _marked_cell(self) -> tuple[int, int] | None:
        """The largest number of a single product, whose row and column are marked; None for several
        products, and for a result in blocks or without numbers.
        """
        grids = _group_grids(self.groups[0])
        if len(self.groups) > 1 or self.groups[0].kind != "product" or grids[-1].pool_note:
            return None
        return largest_cell(grids[-1])

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return the percentage of labels that the worst side has, plus a million if numbers can be
        read.
        """
        best = _best_equations(self._brief, self.room_above_keys(room, letters), letters)
        sides = [side for t in best.terms for side in (t.rows, t.columns) if side.positions]
        labels = min(100 * len(side.positions) // side.count for side in sides)
        return labels + (NUMBERS_WORTH if best.number_size(letters) else 0)

    def crowded_out_text(self, room: Box, letters: Lettering) -> str:
        """Return a phrase for numbers and labels if the first equation alone would show more; else
        "".
        """
        if len(self.groups) == 1:
            return ""
        first = next(group for group in self.groups if group.kind == "product")
        alone = EquationDrawing((first,)).legibility(room, letters)
        crowded = self.legibility(room, letters) < alone
        return "numbers and labels that can be read" if crowded else ""

    def keys(self) -> list[Key]:
        grids = [grid for group in self.groups for grid in _group_grids(group)]
        scales = color_scales(grids)
        hidden = [masked_key(scales[0])] if any(grid.cells.has_hidden for grid in grids) else []
        pooled = dict.fromkeys(grid.pool_note for grid in grids if grid.pool_note)
        marked = [_mark_key(grids, *cell) for cell in [self._marked_cell] if cell]
        return [*map(scale_key, scales), *marked, *hidden, *map(Key, pooled)]

    @cached_property
    def _brief(self) -> tuple[Group, ...]:
        """The groups; of more than four equations with short titles, such as `Q  head 1`, `K`."""
        if sum(group.kind == "product" for group in self.groups) <= MAX_WHOLE:
            return self.groups
        return tuple(
            replace(group, panels=tuple(_brief_grids(group))) if group.kind == "product" else group
            for group in self.groups
        )


def _brief_grids(group: Group) -> Iterator[Grid]:
    """Yield the grids of an equation with only a letter as the title, behind the first the head."""
    for index, grid in enumerate(_group_grids(group)):
        letter = grid.title.split(" ")[0]
        head = PART_OF_HEAD.match(grid.title) if index == 0 else None
        yield replace(grid, title=f"{letter}  {head['rest']}" if head else letter)


@cached_by_font(4)  # asked for twice: what is legible, and where all stands
def _best_equations(groups: tuple[Group, ...], room: Box, letters: Lettering) -> Equations:
    """Return equations in cells of one width, if their numbers can be read.

    Else the better of these and of equations with narrower dimensions comes back.
    """
    uniform = _best_of_widths(groups, WIDTHS[:1], room, letters)
    if uniform.number_size(letters):
        return uniform
    narrowed = _best_of_widths(groups, WIDTHS[1:], room, letters)
    return max((uniform, narrowed), key=lambda way: way.worth(letters))


def _best_of_widths(
    groups: Sequence[Group], narrow: Sequence[float], room: Box, letters: Lettering
) -> Equations:
    """Return the best equations whose dimensions are as narrow as one of `narrow` says.

    So many may stand side by side that no row has room for one more than it holds.
    """
    count, largest = len(groups), LARGEST_CELL * letters.number * POINT
    full = count <= MAX_LARGE and len(narrow) == 1
    labels = (
        [*product(LABELS_OF_ROWS, LABELS)] if full else [(share, share) for share in LABELS_OF_MANY]
    )
    across = sorted({math.ceil(count / rows) for rows in range(1, count + 1)})
    forms = (
        EquationForm(columns, width, titled, *pair)
        for columns, width, titled, pair in product(
            across, narrow, (True, False) if full else (False,), labels
        )
    )
    ways = (_largest_cells(groups, form, room, letters, largest) for form in forms)
    return max(ways, key=lambda way: way.worth(letters))


def _smallest_label(sides: Sequence[Ticks]) -> float:
    """Return the size of the smallest labels of any side, counted as smaller where some are left
    out.
    """
    return min(side.size * len(side.positions) / side.count for side in sides if side.positions)


def _largest_cells(
    groups: Sequence[Group], form: EquationForm, room: Box, letters: Lettering, largest: float
) -> Equations:
    """Return equations in cells, at most `largest` inches, as wide as they fit and about as high.

    Very small cells come back if none fit.
    """
    kinds = _equation_kinds(groups, form.across)

    def arrange(wide: float, high: float) -> Equations:
        """Return equations in cells of this size; of those that are alike one is measured."""
        by_kind = {
            kind: _make_equation(
                groups[kind[0]], (wide, high), letters, form, len(groups) <= MAX_LARGE, kind[1]
            )
            for kind in dict.fromkeys(kinds)
        }
        return Equations(tuple(by_kind[kind] for kind in kinds), form, wide * high)

    wide = largest_length(lambda wide: arrange(wide, wide).column.size[0] <= room[2], largest)
    highest = min(largest, form.tallest * wide)
    high = largest_length(lambda high: arrange(wide, high).column.size[1] <= room[3], highest)
    wide = min(wide, high / FLATTEST_CELL)
    share = largest_length(lambda share: arrange(share * wide, share * high).fits(room), 1.0)
    return _with_own_grids(arrange(share * wide, share * high), groups)


def _equation_kinds(groups: Sequence[Group], across: int) -> list[tuple[int, bool]]:
    """Return for each equation the first with the same axes, and whether its columns have labels.

    They have none if the equation directly below has the same axes.
    """
    sides = [tuple((grid.rows, grid.columns) for grid in _group_grids(group)) for group in groups]
    return [
        (sides.index(axes), axes not in sides[index + across : index + across + 1])
        for index, axes in enumerate(sides)
    ]


def _with_own_grids(arrangement: Equations, groups: Sequence[Group]) -> Equations:
    """Return equations with the grids of their own groups, for alike ones were measured once."""
    equations = []
    for equation, group in zip(arrangement.equations, groups, strict=True):
        pairs = zip(equation.terms, _group_grids(group), strict=True)
        terms = tuple(replace(term, grid=grid) for term, grid in pairs)
        equations.append(replace(equation, terms=terms))
    return replace(arrangement, equations=tuple(equations))


def _group_grids(group: Group) -> list[Grid]:
    return [panel for panel in group.panels if isinstance(panel, Grid)]


def _make_equation(
    group: Group,
    cell: tuple[float, float],
    letters: Lettering,
    form: EquationForm,
    is_roomy: bool,
    has_column_labels: bool,
) -> Equation:
    """Return an equation in cells of this size: terms in a row, and signs if it is a product.

    Rows that equal those of the first term have labels there alone; columns have some only if
    `has_column_labels`. `is_roomy` asks for large titles.
    """
    first, *others = grids = _group_grids(group)
    signs = SIGNS if group.kind == "product" else ("",) * len(others)
    above = TERM_HEADING_HEIGHT * (letters.title if is_roomy else letters.small_title) * POINT
    style, below = _term_style(letters, form.row_labels), _term_style(letters, form.column_labels)
    has_axis_titles = is_roomy and form.axis_titles

    def make_term(grid: Grid) -> Term:
        """Return a panel; one without colours is as wide as its numbers need."""
        wide, high = (
            side * (1.0 if axis.unit == "token" else form.narrow)
            for side, axis in zip(cell, (grid.columns, grid.rows), strict=True)
        )
        if grid.scale.kind == "none":
            wide = max(wide, longest_number(grid) / NUMBER_WIDTH_SHARE * style.label / 10)
        width, height = wide * len(grid.columns), high * len(grid.rows)
        has_row_labels = grid is first or not _has_same_names(first.rows, grid.rows)
        rows = row_ticks(grid.rows, high, style) if has_row_labels else no_ticks(grid.rows)
        columns = no_ticks(grid.columns)
        if has_column_labels:
            columns = column_ticks(grid.columns, wide, below)
        # What the rows of a further panel are, its title says: of the keys they are dimensions.
        rows = rows if has_axis_titles and grid.rows.unit == "token" else rows.untitled
        columns = columns if has_axis_titles else columns.untitled
        left = max(labels_extent(rows, style), text_width(grid.title, style.smallest) - width)
        space = Space(width, height, left, above, below=labels_extent(columns, style))
        return Term(grid, space, rows, columns, style)

    terms = [make_term(grid) for grid in grids]
    high = max(term.space.height for term in terms)
    sign = max(min(SIGN_SCALE * letters.headline, SIGN_HEIGHT_SHARE * high / POINT), letters.text)
    return Equation(tuple(terms), signs, sign)


def _has_same_names(one: Axis, other: Axis) -> bool:
    return (one.unit, one.labels, one.numbers) == (other.unit, other.labels, other.numbers)


@lru_cache(maxsize=64)
def _term_style(letters: Lettering, share: float) -> PanelStyle:
    """Return a style in which labels have a share of their largest size."""
    label = max(letters.label * share, letters.smallest)
    style, widest = panel_style(letters, SLIDE, 1.0, 1.0), LONGEST_LABEL * letters.label * POINT
    return replace(style, axis=min(letters.axis, label), label=label, widest_label=widest)


def _term_items(placed: PlacedTerm, number_size: float, letters: Lettering) -> Items:
    """Yield a panel with its labels, and with numbers of `number_size` points.

    If that is 0, only words and numbers without colours are written.
    """
    term = placed.term
    panel = build_panel(term.grid, placed.box, number_size or letters.number, letters.smallest)
    if term.grid.scale.kind == "none":
        fitting = min(term.number_size, term.style.label)
        panel = replace(panel, fitting=fitting, smallest=letters.smallest)
    elif number_size:
        panel = replace(panel, fitting=number_size)
    yield panel
    yield from axis_items(term.rows, term.columns, placed.box, term.style)


def _fit_title(placed: PlacedTerm, letters: Lettering) -> tuple[float, float]:
    """Return where a title begins, at the left end of its panel if it can; and its
    size in points.
    """
    title, (left, _, width, _) = placed.term.grid.title, placed.box
    end = left + width + max(placed.gap - TITLE_GAP, 0.0)
    start = min(left, end - text_width(title, letters.smallest))
    return start, fit_line(title, letters.title, letters.smallest, end - start)[1]


def _shaped_title_size(placed: PlacedTerm) -> float:
    """Return the size in points that a title can have that has its shape beside it."""
    room = placed.box[2] + max(placed.gap - 2 * TITLE_GAP, 0.0)
    title, shape = f"{placed.term.grid.title}  ", bracketed_shape(*placed.term.grid.cells.shape)
    return room / (text_width(title, 1.0) + text_width(shape, SHAPE))


def _title_items(
    placed: PlacedTerm, size: float, letters: Lettering, *, shapes: bool
) -> Iterator[Words]:
    """Yield the title of a panel, and with `shapes` its shape, such as [4 × 8]."""
    left, bottom, _, height = placed.box
    title, y = placed.term.grid.title, bottom + height + 0.4 * letters.axis * POINT
    start = left if shapes else _fit_title(placed, letters)[0]
    yield Words(title, start, y, size)
    if shapes:
        shape = bracketed_shape(*placed.term.grid.cells.shape)
        yield Words(shape, start + text_width(f"{title}  ", size), y, size * SHAPE, faint=True)


def _sign_items(placed: PlacedTerm, letters: Lettering) -> Iterator[Words]:
    if placed.sign:
        left, bottom, width, height = placed.box
        points = placed.sign_size * SCALE_BY_SIGN.get(placed.sign, 1.0)
        points = max(min(points, HIGHEST_SIGN * height / POINT), letters.smallest)
        y = bottom + height / 2 - MIDDLE * points * POINT
        yield Words(placed.sign, left + width + placed.gap / 2, y, points, halign="center")


def _mark_key(grids: Sequence[Grid], row: int, column: int) -> Key:
    """Return what the frames say: which row times which column, and their number."""
    result = grids[-1]
    names = [axis.labels[at] or axis.numbers[at] for axis, at in (
        (result.rows, row), (result.columns, column))]  # fmt: skip
    first, second = (grid.title.split(" ")[0] for grid in grids[:2])
    number = cell_format(result, 2)(float(result.values[row, column]))
    text = f"row {names[0]} of {first} · column {names[1]} of {second} = {typeset(number)}"
    return Key(text, block=Block((0, 0, 0, 0), outlined=KEY_OUTLINE))


def _sign_width(sign: str, size: float) -> float:
    """Return the inches that a sign takes with room around it; for no sign, a gap."""
    if not sign:
        return EQUATIONS_GAP
    return text_width(sign, size * SCALE_BY_SIGN.get(sign, 1.0)) + 2 * SIGN_PADDING * size * POINT
