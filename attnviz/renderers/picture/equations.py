"""Panels with signs between them, such as Q · Kᵀ = S: all cells are of one size; in inches.

Only where vectors are so long that nothing could be read are their dimensions narrower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from attnviz.renderers.picture import keys
from attnviz.renderers.picture.bars import scales_of
from attnviz.renderers.picture.items import Box, Layout, Words, empty_layout, joined
from attnviz.renderers.picture.keys import Key
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering
from attnviz.renderers.picture.numbers import HEIGHT_SHARE, longest_number, panel_of
from attnviz.renderers.picture.texts import MIDDLE, OF_A_HEAD, fitted, labels_at, marks_at
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    Ticks,
    column_ticks,
    no_ticks,
    reach,
    row_ticks,
    text_width,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.grid import Grid
from attnviz.views.view import Group
from attnviz.wording.words import bracketed_shape

SIGNS = ("·", "=")
SIGN = 1.15  # times the letters of the headline
LARGER_SIGNS = {"·": 2.0}  # times as large: a dot is seen from afar only if it is large
AROUND = 0.12  # of its size, on either side of a sign
HEADING = 1.5  # the height of a line above a panel, in sizes of its letters
WIDEST_GAP = 1.0  # that a sign has around it where there is room, in its size
GAP = 0.35  # between two equations
FEW, MOST_WHOLE = 2, 4  # equations: more go without shapes, still more without whole titles
SHAPE, SHAPED = 0.8, 0.75  # of a title's letters are shapes, and of its size it keeps beside them
SMALLER = 0.7  # times as large as one are the titles of many panels
LONGEST_LABEL = 8.0  # in sizes of the largest letters of labels
HIGHEST_SIGN = 1.2  # times as high as the panel before it: less of it is ink
SIGN_SHARE = 0.6  # of its equation's
AIR = 0.1  # between a title and the next one
NARROW = (1.0, 0.5, 0.25, 0.125, 0.0625)  # times as wide as others are the cells of dimensions
NARROWER = 0.6  # is what such an arrangement is worth, beside one in which all are alike
FLATTEST, TALLEST = 0.5, 1.6  # times as high as wide may a cell be
LABELS = (1.0, 0.89, 0.78, 0.67, 0.56)  # of the largest letters of labels: those that are tried
LABELS_OF_ROWS, LABELS_OF_MANY = (1.0, 0.78, 0.56), (0.89, 0.56)  # rows need no large choice
NUMBER_SHARE = 0.9  # of the width of a cell, at most, for its number
UNTITLED = 0.95  # is what is worth an arrangement that does not say what rows and columns are
FILLING, HIGH = 0.35, 0.25  # the powers of labels, and of the area of a cell, in what it is worth
LARGEST = 4.5  # a cell, in sizes of the letters of numbers
SMALLEST = 0.001  # inches
NUMBERS = 10**6  # more than all labels
HALVINGS = 9  # until the largest cell is found
NATURAL_WIDTH = 10.0  # of a page with few equations
NATURAL_CELL = 2.6  # in sizes of the letters of numbers: wide enough for most of them


@dataclass(frozen=True)
class Form:
    """How equations are arranged: how many side by side, and how their cells are shaped."""

    across: int
    narrow: float = 1.0
    titled: bool = True  # whether it is said what rows and columns are
    row: float = 1.0  # of the largest letters are the labels of rows,
    column: float = 1.0  # and those of columns
    tallest: float = TALLEST


@dataclass(frozen=True)
class Cell:
    """How large cells are: those of tokens, and of dimensions."""

    wide: float
    high: float
    narrow: float = 1.0

    def across(self, grid: Grid, style: PanelStyle) -> float:
        """All columns of a grid; what has no colours needs the room for its numbers."""
        wide = self.width(grid.columns)
        if grid.scale.kind == "none":
            wide = max(wide, longest_number(grid) / NUMBER_SHARE * style.label / 10)
        return wide * len(grid.columns)

    def width(self, axis: Axis) -> float:
        return self.wide * self._share(axis)

    def height(self, axis: Axis) -> float:
        return self.high * self._share(axis)

    def _share(self, axis: Axis) -> float:
        return 1.0 if axis.unit == "token" else self.narrow


@dataclass(frozen=True, eq=False)
class Term:
    """One panel of an equation, with its labels, and what stands above it."""

    grid: Grid
    width: float
    height: float
    rows: Ticks
    columns: Ticks
    style: PanelStyle
    left: float  # the room for labels beside it,
    below: float  # and below

    @property
    def number(self) -> float:
        """How large its numbers can be, in points."""
        wide, high = self.width / len(self.grid.columns), self.height / len(self.grid.rows)
        across = 10 * wide * NUMBER_SHARE / longest_number(self.grid)
        return min(across, high / POINT * HEIGHT_SHARE)


@dataclass(frozen=True, eq=False)
class Equation:
    """Its terms in a row, all of them in the middle of one line."""

    terms: tuple[Term, ...]
    signs: tuple[str, ...]  # one between each two; "" is nothing but a gap
    sign: float  # points
    above: float  # the room for titles

    @property
    def gaps(self) -> list[float]:
        """The room between each two terms."""
        return [_sign_width(sign, self.sign) for sign in self.signs]

    @property
    def width(self) -> float:
        return sum(term.left + term.width for term in self.terms) + sum(self.gaps)

    @property
    def over(self) -> float:
        """From its middle to its top."""
        return max(term.height for term in self.terms) / 2 + self.above

    @property
    def under(self) -> float:
        return max(term.height / 2 + term.below for term in self.terms)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """All equations, so many side by side, in cells of one size."""

    equations: tuple[Equation, ...]
    across: int
    cell: Cell
    titled: bool = True  # whether it is said what rows and columns are

    @property
    def few(self) -> bool:
        return len(self.equations) <= FEW

    @property
    def number(self) -> float:
        """How large all numbers can be; what has no colours has room for its own."""
        terms = [term for each in self.equations for term in each.terms]
        return min(term.number for term in terms if term.grid.scale.kind != "none")

    @property
    def gap(self) -> float:
        """Between two rows."""
        return GAP if self.few else GAP / 2

    @property
    def rows(self) -> list[tuple[Equation, ...]]:
        starts = range(0, len(self.equations), self.across)
        return [self.equations[start : start + self.across] for start in starts]

    @property
    def width(self) -> float:
        """Of the widest row."""
        rows = ([each.width for each in row] for row in self.rows)
        return max(sum(widths) + GAP * (len(widths) - 1) for widths in rows)

    @property
    def height(self) -> float:
        heights = (
            max(each.over for each in row) + max(each.under for each in row) for row in self.rows
        )
        return sum(heights) + self.gap * (len(self.rows) - 1)


def natural_width(groups: Sequence[Group]) -> float:
    return NATURAL_WIDTH if len(groups) < MOST_WHOLE else SLIDE[0]


def natural_height(groups: Sequence[Group], letters: Lettering, width: float) -> float:
    """With numbers in their full size, or as large as they can be in this width."""
    groups = _briefly(groups)
    across = 1 if len(groups) < MOST_WHOLE else 2
    room, side = (0.0, 0.0, width, width), NATURAL_CELL * letters.number * POINT
    forms = (Form(across, narrow, tallest=1.0) for narrow in NARROW)
    found = max(
        (_largest(groups, form, room, letters, side) for form in forms),
        key=lambda each: _worth(each, letters),
    )
    return found.height + keys.height(_keys(groups), width, letters.axis)


def place(groups: Sequence[Group], room: Box, letters: Lettering) -> Layout:
    """In cells as large as the room lets them be; below them what colours mean."""
    groups = _briefly(groups)
    above = _above(groups, room, letters)
    placed = _placed(_best(tuple(groups), above, letters), above, letters)
    return joined([*placed, keys.drawn(_keys(groups), room, letters.axis)])


def legible(groups: Sequence[Group], room: Box, letters: Lettering) -> int:
    """How many labels of a hundred a side has, at least; fewer than all numbers are worth."""
    groups = _briefly(groups)
    found = _best(tuple(groups), _above(groups, room, letters), letters)
    terms = [term for each in found.equations for term in each.terms]
    sides = [side for term in terms for side in (term.rows, term.columns) if side.places]
    labels = min(100 * len(side.places) // side.count for side in sides)
    return labels + (NUMBERS if _number_size(found, letters) else 0)


def crowded(groups: Sequence[Group], room: Box, letters: Lettering) -> str:
    """Whether there are no numbers, or not all labels, which there would be on several pages."""
    if len(groups) == 1:
        return ""
    first = next(group for group in groups if group.kind == "product")
    alone, together = (legible(each, room, letters) for each in ([first], groups))
    return "numbers and labels that can be read" if together < alone else ""


def _above(groups: Sequence[Group], room: Box, letters: Lettering) -> Box:
    """What the line that explains colours leaves of a room."""
    left, bottom, width, height = room
    foot = keys.height(_keys(groups), width, letters.axis)
    return left, bottom + foot, width, height - foot


def _briefly(groups: Sequence[Group]) -> list[Group]:
    """Of many equations each says once of which head it is, and has letters for names."""
    if sum(group.kind == "product" for group in groups) <= MOST_WHOLE:
        return [*groups]
    return [
        replace(group, panels=tuple(_brief(group))) if group.kind == "product" else group
        for group in groups
    ]


def _brief(group: Group) -> Iterator[Grid]:
    for place, grid in enumerate(_grids(group)):
        letter = grid.title.split(" ")[0]
        head = OF_A_HEAD.match(grid.title) if place == 0 else None
        yield replace(grid, title=f"{letter}  {head['rest']}" if head else letter)


@lru_cache(maxsize=4)  # asked for twice: what is legible, and where all stands
def _best(groups: tuple[Group, ...], room: Box, letters: Lettering) -> Arrangement:
    """In cells of one width, if their numbers can be read; else with narrower dimensions."""
    alike = _of_shapes(groups, NARROW[:1], room, letters)
    if _number_size(alike, letters):
        return alike
    other = _of_shapes(groups, NARROW[1:], room, letters)
    return max((alike, other), key=lambda found: _worth(found, letters))


def _of_shapes(
    groups: Sequence[Group], narrow: Sequence[float], room: Box, letters: Lettering
) -> Arrangement:
    """The best of all that have cells of these shapes."""
    largest = LARGEST * letters.number * POINT
    few = len(groups) <= FEW and len(narrow) == 1
    labels = (
        product(LABELS_OF_ROWS, LABELS) if few else zip(LABELS_OF_MANY, LABELS_OF_MANY, strict=True)
    )
    shapes = (
        (thin, titled, *pair)
        for thin, titled, pair in product(narrow, (True, False) if few else (False,), labels)
    )
    choices = (
        _largest(groups, Form(across, *shape), room, letters, largest)
        for across, shape in product(_possible(len(groups)), [*shapes])
    )
    return max(choices, key=lambda found: _worth(found, letters))


def _possible(count: int) -> list[int]:
    """How many may stand side by side, so that no row has room for one more than it holds."""
    return sorted({math.ceil(count / rows) for rows in range(1, count + 1)})


def _worth(found: Arrangement, letters: Lettering) -> tuple[bool, float]:
    """Numbers that can be read, and large ones; then large labels and cells."""
    cell, terms = found.cell, [term for each in found.equations for term in each.terms]
    size = found.number
    rows, columns = ([term.rows for term in terms], [term.columns for term in terms])
    labels = (_smallest_label(rows) * _smallest_label(columns)) ** FILLING
    titled = 1.0 if found.titled else UNTITLED
    if size < letters.smallest:
        alike = 1.0 if cell.narrow == 1 else NARROWER
        return False, labels * cell.wide * cell.high * cell.narrow * alike * titled
    area = (cell.wide * cell.high) ** HIGH
    return True, labels * area * min(size, letters.number) * titled


def _smallest_label(sides: Sequence[Ticks]) -> float:
    """Of the sides of panels that have labels; where many are left out, they are worth less."""
    return min(side.size * len(side.places) / side.count for side in sides if side.places)


def _largest(
    groups: Sequence[Group], form: Form, room: Box, letters: Lettering, largest: float
) -> Arrangement:
    """Cells as wide as they fit, and as high as becomes them; very small ones if none do."""
    kinds = _kinds(groups, form.across)

    def arranged(wide: float, high: float) -> Arrangement:
        return _measured(groups, kinds, form, Cell(wide, high, form.narrow), letters)

    wide = _most(lambda wide: arranged(wide, wide).width <= room[2], largest)
    highest = min(largest, form.tallest * wide)
    high = _most(lambda high: arranged(wide, high).height <= room[3], highest)
    wide = min(wide, high / FLATTEST)
    share = _most(lambda share: _fits(arranged(share * wide, share * high), room), 1.0)
    return _of_each(arranged(share * wide, share * high), groups)


def _most(fits: Callable[[float], bool], largest: float) -> float:
    """The largest length that fits; a very small one if none does."""
    if fits(largest):
        return largest
    low, high = SMALLEST, largest
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _fits(found: Arrangement, room: Box) -> bool:
    return found.width <= room[2] + 1e-6 and found.height <= room[3] + 1e-6


def _measured(
    groups: Sequence[Group],
    kinds: Sequence[tuple[int, bool]],
    form: Form,
    cell: Cell,
    letters: Lettering,
) -> Arrangement:
    """Equations in cells of this size; of those that are alike one stands for all."""
    few = len(groups) <= FEW
    known = {
        (place, labelled): _equation(groups[place], cell, letters, form, few=few, labelled=labelled)
        for place, labelled in dict.fromkeys(kinds)
    }
    return Arrangement(tuple(known[kind] for kind in kinds), form.across, cell, form.titled)


def _kinds(groups: Sequence[Group], across: int) -> list[tuple[int, bool]]:
    """Of each equation the first with the same sides; and whether its columns have labels."""
    sides = [_sides(group) for group in groups]
    return [
        (sides.index(own), own not in sides[place + across : place + across + 1])
        for place, own in enumerate(sides)
    ]


def _of_each(found: Arrangement, groups: Sequence[Group]) -> Arrangement:
    """Each equation with its own numbers."""
    equations = []
    for equation, group in zip(found.equations, groups, strict=True):
        like = zip(equation.terms, _grids(group), strict=True)
        terms = tuple(replace(term, grid=grid) for term, grid in like)
        equations.append(replace(equation, terms=terms))
    return replace(found, equations=tuple(equations))


def _grids(group: Group) -> list[Grid]:
    return [each for each in group.panels if isinstance(each, Grid)]


def _sides(group: Group) -> tuple[Axis, ...]:
    return tuple(side for grid in _grids(group) for side in (grid.rows, grid.columns))


def _equation(
    group: Group, cell: Cell, letters: Lettering, form: Form, *, few: bool, labelled: bool
) -> Equation:
    """Rows are named once, for they run through; columns where there are none like them below."""
    first, *others = grids = _grids(group)
    signs = SIGNS if group.kind == "product" else ("",) * len(others)
    above = HEADING * (letters.title if few else _title_size(letters)) * POINT
    styles = _style(letters, form.row), _style(letters, form.column)
    named = [_alike(first.rows, each.rows) for each in others]
    terms = (
        _term(
            grid,
            cell,
            styles,
            named=bare,
            titled=few and form.titled,
            labelled=labelled,
        )
        for grid, bare in zip(grids, [False, *named], strict=True)
    )
    high = max(cell.height(grid.rows) * len(grid.rows) for grid in grids)
    sign = max(min(SIGN * letters.headline, SIGN_SHARE * high / POINT), letters.text)
    return Equation(tuple(terms), signs, sign, above)


def _title_size(letters: Lettering) -> float:
    """The titles of many panels."""
    return max(letters.title * SMALLER, letters.smallest)


def _alike(one: Axis, other: Axis) -> bool:
    return (one.unit, one.labels, one.numbers) == (other.unit, other.labels, other.numbers)


def _term(
    grid: Grid,
    cell: Cell,
    styles: tuple[PanelStyle, PanelStyle],
    *,
    named: bool,
    titled: bool,
    labelled: bool,
) -> Term:
    style, below = styles
    width = cell.across(grid, style)
    height = cell.height(grid.rows) * len(grid.rows)
    rows, columns = no_ticks(grid.rows), no_ticks(grid.columns)
    if not named:
        rows = row_ticks(grid.rows, cell.height(grid.rows), style)
    if labelled:
        columns = column_ticks(grid.columns, width / len(grid.columns), below)
    # What the rows of a further panel are, its title says: those of the keys are their dimensions.
    if not titled or grid.rows.unit != "token":
        rows = replace(rows, title="")
    if not titled:
        columns = replace(columns, title="")
    words = text_width(grid.title, style.smallest) - width
    left = max(reach(rows, style), words)
    return Term(grid, width, height, rows, columns, style, left, reach(columns, style))


def _style(letters: Lettering, share: float) -> PanelStyle:
    label = max(letters.label * share, letters.smallest)
    return PanelStyle(
        title=letters.title,
        axis=min(letters.axis, label),
        label=label,
        smallest=letters.smallest,
        number=letters.number,
        widest_label=LONGEST_LABEL * letters.label * POINT,
    )


def _placed(found: Arrangement, room: Box, letters: Lettering) -> list[Layout]:
    """Row by row, with what room is left between them and around their signs."""
    places = list(_places(found, room))
    number, largest = _number_size(found, letters), _title_size(letters)
    if found.few:
        largest = letters.title
    size = min([largest, *(_title(each, letters)[1] for each in places)])
    shaped = min([largest, *(_with_shape(each) for each in places)])
    shapes = found.few and shaped >= SHAPED * size
    return [
        layout
        for each in places
        for layout in (
            _panel(each, number, letters),
            _around(each, shaped if shapes else size, letters, shapes=shapes),
        )
    ]


@dataclass(frozen=True, eq=False)
class Placed:
    """A term in its place, and the sign behind it with its room."""

    equation: Equation
    term: Term
    box: Box
    sign: str
    gap: float

    @property
    def middle(self) -> float:
        return self.box[1] + self.box[3] / 2


def _places(found: Arrangement, room: Box) -> Iterator[Placed]:
    left, bottom, width, height = room
    spare = max(height - found.height, 0.0) / len(found.rows)
    wider = max(width - found.width, 0.0) / found.across
    top = bottom + height
    for row in found.rows:
        middle = top - spare / 2 - max(each.over for each in row)
        start = left
        for equation in row:
            yield from _terms(equation, start, middle, equation.width + wider)
            start += equation.width + wider + GAP
        top = middle - max(each.under for each in row) - spare / 2 - found.gap


def _terms(equation: Equation, left: float, middle: float, width: float) -> Iterator[Placed]:
    spare = max(width - equation.width, 0.0) / max(len(equation.signs), 1)
    wider = min(spare, WIDEST_GAP * equation.sign * POINT)
    signs, end = [*equation.signs, ""], left + width
    for term, sign in zip(equation.terms, signs, strict=True):
        box = (left + term.left, middle - term.height / 2, term.width, term.height)
        gap = _sign_width(sign, equation.sign) + wider
        last = term is equation.terms[-1]
        yield Placed(equation, term, box, sign, end - box[0] - box[2] if last else gap)
        left = box[0] + box[2] + gap


def _number_size(found: Arrangement, letters: Lettering) -> float:
    """All numbers are of one size where all can be read; 0 where they cannot."""
    size = found.number
    return min(size, letters.number) if size >= letters.smallest else 0.0


def _panel(placed: Placed, number: float, letters: Lettering) -> Layout:
    term = placed.term
    panel = panel_of(term.grid, placed.box, number or letters.number, letters.smallest)
    if term.grid.scale.kind == "none":
        fitting = min(term.number, term.style.label)
        panel = replace(panel, fitting=fitting, smallest=letters.smallest)
    elif number:
        panel = replace(panel, fitting=number)
    words = labels_at(term.rows, term.columns, placed.box, term.style)
    return replace(
        empty_layout(),
        panels=(panel,),
        words=tuple(words),
        marks=tuple(marks_at(term.rows, term.columns, placed.box)),
    )


def _title(placed: Placed, letters: Lettering) -> tuple[float, float]:
    """Where a title begins, at the left end of its panel if it can; and how large it is."""
    title, (left, _, width, _) = placed.term.grid.title, placed.box
    room = width + max(placed.gap - AIR, 0.0)
    start = min(left, left + room - text_width(title, letters.smallest))
    return start, fitted(title, letters.title, letters.smallest, left + room - start)[1]


def _with_shape(placed: Placed) -> float:
    """How large a title can be that has its shape beside it."""
    room = placed.box[2] + max(placed.gap - 2 * AIR, 0.0)
    return room / (text_width(f"{placed.term.grid.title}  ", 1.0) + _shape_width(placed, SHAPE))


def _shape(placed: Placed) -> str:
    return bracketed_shape(*placed.term.grid.cells.shape)


def _shape_width(placed: Placed, size: float) -> float:
    return text_width(_shape(placed), size)


def _around(placed: Placed, size: float, letters: Lettering, *, shapes: bool) -> Layout:
    """The title of a panel, its shape, and the sign behind it."""
    left, bottom, width, height = placed.box
    title, y = placed.term.grid.title, bottom + height + 0.4 * letters.axis * POINT
    start = left if shapes else _title(placed, letters)[0]
    words = [Words(title, start, y, size)]
    if shapes:
        beside = start + text_width(f"{title}  ", size)
        words.append(Words(_shape(placed), beside, y, size * SHAPE, faint=True))
    if placed.sign:
        points = placed.equation.sign * LARGER_SIGNS.get(placed.sign, 1.0)
        points = max(min(points, HIGHEST_SIGN * height / POINT), letters.smallest)
        x, foot = left + width + placed.gap / 2, placed.middle - MIDDLE * points * POINT
        words.append(Words(placed.sign, x, foot, points, across="center"))
    return replace(empty_layout(), words=tuple(words))


def _sign_width(sign: str, size: float) -> float:
    if not sign:
        return GAP
    return text_width(sign, size * LARGER_SIGNS.get(sign, 1.0)) + 2 * AROUND * size * POINT


def _keys(groups: Sequence[Group]) -> list[Key]:
    """What colours mean, and what one cell stands for; each said once."""
    grids = [each for group in groups for each in _grids(group)]
    scales = scales_of(grids)
    hidden = [keys.of_hidden(scales[0])] if any(each.cells.has_hidden for each in grids) else []
    pooled = dict.fromkeys(each.pooled for each in grids if each.pooled)
    return [*map(keys.of_scale, scales), *hidden, *map(Key, pooled)]
