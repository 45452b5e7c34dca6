"""Vectors as arrows in their plane, and upright bars, in place of tables; in inches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from attnviz.renderers.picture.boxes import panes
from attnviz.renderers.picture.items import Block, Box, Items, Point, Stroke, Tint, Words
from attnviz.renderers.picture.text import (
    BOLD,
    MIDDLE,
    POINT,
    Lettering,
    fit_line,
    text_width,
)
from attnviz.views.grids.section import ColumnChart, ColumnChartRow, Plane
from attnviz.wording.numbers import typeset

QUERY_SERIES, KEY_SERIES = 0, 1  # the colours of the two, as of lines in a chart
ARROW_WIDTH, THIN_LINE = 3.0, 1.0  # points
ARROW_HEAD = 0.9  # of a letter: how long the head of an arrow is
LINE_STEP = 1.35  # from one line of text to the next, in letters
ARROWS_GAP = 0.5  # of a letter: between two arrows on one line
ANGLE_ARC_SHARE, LARGEST_ANGLE_ARC = 0.4, 2.6  # of the shorter arrow, and in letters
ARC_STEP = math.radians(3)
SMALLEST_ANGLE = math.radians(18)  # that its number can stand in; another stands below
CORNER_SIDE = 0.5  # of a letter: the sign of a right angle
SHADOW_GAP = 0.6  # of a letter: from the query to the projection of the key
ANGLE_STEPS = 60  # quarters of a letter: how far from the arc its number may stand
PLANES_GAP = 3.0  # letters between two planes
BESIDE_BARS = 0.8  # of a letter: between the names of rows, the bars, and the sums
BARS_GAP = 0.7  # of a letter: between two rows
BAR_WIDTH_SHARE = 0.56  # of the room of a column
WIDEST_BAR = 5.0  # letters
LABEL_WIDTH_SHARE = 0.94  # of its room a label takes at most
LEAST_ROW = 4.2  # letters: two numbers, a bar between them, and the gap to the next row
LEVEL_NAME_STYLE, UPRIGHT_NAME_STYLE = (0, "center", "baseline"), (90, "right", "center")
SMALL_NAME_SHARE = 0.75  # of the letters of labels: smaller names stand upright
HIDDEN_HEIGHT = 0.6  # of a line: how high a bar is drawn for what a mask hides
EMPTY_ROW_SHARE = 0.08  # of a row: where nothing in it is above 0


def planes_items(planes: Sequence[Plane], room: Box, letters: Lettering) -> Items:
    """Yield planes with their two arrows, all at one scale, in the arrangement that makes this
    largest.
    """
    counts = range(1, len(planes) + 1)
    gap = PLANES_GAP * letters.text * POINT
    ways = (list(zip(planes, panes(len(planes), n, room, gap, 0.0), strict=True)) for n in counts)

    def unit(way: list[tuple[Plane, Box]]) -> float:
        return min(plane.unit_in(*_arrows_box(plane, box, letters)[2:]) for plane, box in way)

    best = max(ways, key=unit)
    for plane, box in best:
        yield from _PlaneDrawing(plane, box, unit(best), letters).items()


def _arrows_box(plane: Plane, room: Box, letters: Lettering) -> Box:
    """Return the box of the arrows, between the title above and the names below. There is room for
    the projection and its number below them, and beside those that point anywhere.
    """
    left, bottom, width, height = room
    line = letters.text * POINT * LINE_STEP
    above = (2.3 if plane.title else 1) * line
    below = (3 if _is_narrow(plane) else 2) * line
    side = ARROW_HEAD * letters.text * POINT
    if plane.coordinates is not None:
        above, side = above + line, text_width(plane.projection, letters.text) + line
    return left + side, bottom + below, max(width - 2 * side, 0.3), max(height - above - below, 0.3)


def _is_narrow(plane: Plane) -> bool:
    """Return whether there is no room between the arrows for the number of their angle."""
    cosine = plane.cosine
    return cosine is not None and (plane.on_a_line or math.acos(cosine) < SMALLEST_ANGLE)


@dataclass(frozen=True)
class _PlaneDrawing:
    """One plane with its query and key as arrows, in its part of the page."""

    plane: Plane
    room: Box
    unit: float  # inches
    letters: Lettering

    @property
    def letter(self) -> float:
        """The size of a letter of the text, in inches."""
        return self.letters.text * POINT

    @cached_property
    def start(self) -> Point:
        """The common start of both arrows, so that they are centred in their box."""
        left, bottom, width, height = _arrows_box(self.plane, self.room, self.letters)
        low, high, lowest, top = self.plane.extent
        x = left + (width - (low + high) * self.unit) / 2
        return x, bottom + (height - (lowest + top) * self.unit) / 2

    def page_point(self, point: Point) -> Point:
        return self.start[0] + point[0] * self.unit, self.start[1] + point[1] * self.unit

    def items(self) -> Items:
        parts = (self._axes, self._shadow, self._arc, self._arrows, self._title, self._names)
        for part in (*parts, self._angle):
            yield from part()

    def _axes(self) -> Iterator[Stroke]:
        """Yield both axes, through the start, where the arrows are drawn as their numbers say."""
        if self.plane.coordinates is not None:
            low, high, lowest, top = self.plane.extent
            for ends in (((low, 0.0), (high, 0.0)), ((0.0, lowest), (0.0, top))):
                yield Stroke(tuple(map(self.page_point, ends)))

    def _arrows(self) -> Iterator[Stroke]:
        """Yield both arrows; one of length 0 is left out."""
        for series, tip in enumerate(self.tips):
            if self.plane.arrows[series].length:
                points = (self.origins[series], tip)
                yield Stroke(points, ARROW_WIDTH, series=series, head=ARROW_HEAD * self.letter)

    @cached_property
    def query_angle(self) -> float:
        """The direction of the query in radians; of the key, if the query has length 0."""
        x, y = next((tip for tip in self.plane.tips if any(tip)), (1.0, 0.0))
        return math.atan2(y, x)

    @cached_property
    def side(self) -> int:
        """1 if the key is to the left of the query, seen along it, or on one line with it; else
        -1.
        """
        (x, y), (across, up) = self.plane.tips
        return -1 if x * up < y * across and not self.plane.on_a_line else 1

    def _beside(self, point: Point, along: float, beside: float) -> Point:
        """Return the place so many inches from a point along the query, and to the side of the
        key.
        """
        cosine, sine = math.cos(self.query_angle), math.sin(self.query_angle)
        beside *= self.side
        return point[0] + along * cosine - beside * sine, point[1] + along * sine + beside * cosine

    @property
    def origins(self) -> tuple[Point, Point]:
        """Where the query and the key begin: on one line the key is a little beside it, or it would
        hide it.
        """
        distance = ARROWS_GAP * self.letter if self.plane.on_a_line else 0.0
        return self.start, self._beside(self.start, 0.0, distance)

    @cached_property
    def tips(self) -> tuple[Point, Point]:
        query, key = map(self.page_point, self.plane.tips)
        (x, y), (across, up) = self.origins
        return query, (key[0] + across - x, key[1] + up - y)

    @property
    def _dashes(self) -> tuple[Point, Point]:
        """The ends of the dashed line from the key's tip to its foot on the query."""
        return self.tips[KEY_SERIES], self.page_point(self.plane.foot)

    def _shadow(self) -> Items:
        """Yield the projection of the key onto the query: dashed lines, the sign of a right angle,
        and its length beside the query. Nothing comes if both are on one line, or have no angle.
        """
        plane = self.plane
        if plane.on_a_line or plane.cosine is None:
            return
        (tip, foot), reach = self._dashes, self._foot_distance
        query_reach = plane.arrows[QUERY_SERIES].length * self.unit
        end = self._beside(self.start, min(max(reach, 0.0), query_reach), 0)  # of the query
        yield Stroke((tip, foot, end), THIN_LINE, dashed=True)
        corner = min(CORNER_SIDE * self.letter, math.dist(tip, foot) / 2, abs(reach) / 2)
        along = math.copysign(corner, -reach)
        points = (self._beside(foot, along, 0), self._beside(foot, along, corner))
        yield Stroke((*points, self._beside(foot, 0, corner)), THIN_LINE)
        gap = SHADOW_GAP * self.letter
        if abs(reach) > gap:
            ends = (self._beside(self.start, 0, -gap), self._beside(foot, 0, -gap))
            yield Stroke(ends, ARROW_WIDTH, series=KEY_SERIES)
        yield from self._shadow_number()

    @property
    def _foot_distance(self) -> float:
        """How far along the query its foot lies, in inches; below 0 if it lies behind the start."""
        return self.plane.arrows[KEY_SERIES].length * (self.plane.cosine or 0.0) * self.unit

    def _shadow_number(self) -> Iterator[Words]:
        """Yield the length of the projection, on the side of the query that is away from the key;
        nothing where it is too short to be drawn, or both are on one line.
        """
        size, gap, middle = self.letters.text, SHADOW_GAP * self.letter, self._foot_distance / 2
        if abs(self._foot_distance) <= gap or self.plane.on_a_line:
            return
        half = text_width(self.plane.projection, size) / 2 * abs(math.sin(self.query_angle))
        x, y = self._beside(self.start, middle, -(gap + 0.75 * self.letter + half))
        y -= MIDDLE * self.letter
        yield Words(self.plane.projection, x, y, size, halign="center", series=KEY_SERIES)

    @property
    def _radius(self) -> float:
        """The radius of the arc of the angle, in inches."""
        shorter = min(arrow.length for arrow in self.plane.arrows) * self.unit
        return min(ANGLE_ARC_SHARE * shorter, LARGEST_ANGLE_ARC * self.letter)

    def _arc(self) -> Iterator[Stroke]:
        """Yield the arc of the angle between the arrows; nothing if they are on one line or have no
        angle.
        """
        cosine = self.plane.cosine
        if cosine is None or self.plane.on_a_line:
            return
        angle = math.acos(cosine)
        steps = max(int(angle / ARC_STEP), 2)
        turns = [angle * step / steps for step in range(steps + 1)]
        yield Stroke(tuple(self._point_at(turn, self._radius) for turn in turns), THIN_LINE * 1.5)

    def _point_at(self, angle: float, radius: float) -> Point:
        """Return the place at this angle from the query to the key (in radians) and distance from
        the start of the arrows.
        """
        return self._beside(self.start, radius * math.cos(angle), radius * math.sin(angle))

    def _title(self) -> Iterator[Words]:
        left, bottom, _, height = self.room
        if self.plane.title:
            y = bottom + height - self.letters.title * POINT
            yield Words(self.plane.title, left, y, self.letters.title, bold=True)

    def _names(self) -> Iterator[Words]:
        """Yield the name of the arrow that ends higher above all, and that of the other below."""
        query_tip, key_tip = self.tips
        upper = QUERY_SERIES if query_tip[1] > key_tip[1] else KEY_SERIES
        yield self._arrow_name(upper, self.tips[upper][0], self._reach[1] + 0.5 * self.letter)
        tip = self.tips[1 - upper]
        middle = tip[0] if tip[1] < self.start[1] else (self.start[0] + tip[0]) / 2
        yield self._arrow_name(1 - upper, middle, self._reach[0] - LINE_STEP * self.letter)

    @cached_property
    def _reach(self) -> tuple[float, float]:
        """The lower and the upper end of both arrows and of the numbers at them, in inches."""
        feet = [words.y for words in (*self._shadow_number(), *self._angle_number())]
        heights = [self.start[1], *(tip[1] for tip in self.tips), *feet]
        return min(heights), max(*heights, *(foot + self.letter for foot in feet))

    def _arrow_name(self, series: int, middle: float, y: float) -> Words:
        """Return the name of an arrow with its length, as near to `middle` as the page allows."""
        arrow = self.plane.arrows[series]
        return self._centred_words(f"{arrow.name}, length {arrow.length_text}", middle, y, series)

    def _centred_words(self, text: str, middle: float, y: float, series: int | None) -> Words:
        left, bottom, width, height = self.room
        top = bottom + height - (LINE_STEP + 1.3 * bool(self.plane.title)) * self.letter
        text, size = fit_line(text, self.letters.text, self.letters.smallest, width)
        half = text_width(text, size) / 2
        x = min(max(middle, left + half), left + width - half)
        return Words(text, x, min(max(y, bottom), top), size, halign="center", series=series)

    def _angle(self) -> Iterator[Words]:
        """Yield the number of the angle, below all else if it is too narrow for it."""
        if _is_narrow(self.plane):
            middle = (self.start[0] + self.tips[QUERY_SERIES][0]) / 2
            y = self._reach[0] - 2 * LINE_STEP * self.letter
            yield self._centred_words(f"angle {self.plane.angle}", middle, y, None)
        yield from self._angle_number()

    def _angle_number(self) -> Iterator[Words]:
        """Yield the number of the angle at the first place between the arrows that no line crosses;
        nothing if there is none, no angle, or a narrow one.
        """
        cosine, size = self.plane.cosine, self.letters.text
        if cosine is None or _is_narrow(self.plane):
            return
        near = self._radius + text_width(self.plane.angle, size) / 2 + 0.2 * self.letter
        steps = (near + step * self.letter / 4 for step in range(ANGLE_STEPS))
        places = [self._point_at(math.acos(cosine) / 2, distance) for distance in steps]
        for x, y in islice(filter(self._is_clear, places), 1):
            yield Words(self.plane.angle, x, y - MIDDLE * self.letter, size, halign="center")

    def _is_clear(self, place: Point) -> bool:
        """Return whether no line goes through the number of the angle, centred at this place, and
        it leaves room for the names.
        """
        _, bottom, _, height = _arrows_box(self.plane, self.room, self.letters)
        if not bottom - self.letter < place[1] < bottom + height:
            return False
        wide = text_width(self.plane.angle, self.letters.text) / 2 + 0.3 * self.letter
        lines = [(self.start, tip) for tip in self.tips] + [self._dashes]
        shares = [step / 100 for step in range(101)]
        return not any(
            abs(one[0] + (other[0] - one[0]) * share - place[0]) < wide
            and abs(one[1] + (other[1] - one[1]) * share - place[1]) < 0.6 * self.letter
            for one, other in lines
            for share in shares
        )


def upright_bars_items(chart: ColumnChart, room: Box, letters: Lettering) -> Items:
    """Yield rows of upright bars, all of one height, with a name below each column.

    Letters are smaller where numbers and names would leave no room for the bars. Letters on paper
    are not: what has no room is left out.
    """
    needed = (len(chart.rows) * LEAST_ROW + LINE_STEP + BARS_GAP) * letters.label * POINT
    share = min(1.0, room[3] / needed) if letters.can_shrink else 1.0
    return _UprightBars(chart, room, letters.scaled(share)).items()


@dataclass(frozen=True)
class _UprightBars:
    """Rows of upright bars in a room, with the names of rows, names of columns, and
    sums of rows.
    """

    chart: ColumnChart
    room: Box
    letters: Lettering

    @property
    def letter(self) -> float:
        """The size of a letter of a label, in inches."""
        return self.letters.label * POINT

    @property
    def left(self) -> float:
        widest = max(BOLD * text_width(row.name, self.letters.label) for row in self.chart.rows)
        return self.room[0] + widest + BESIDE_BARS * self.letter

    @property
    def step(self) -> float:
        """The room of one column, in inches."""
        totals = [text_width(row.total, self.letters.axis) for row in self.chart.rows]
        right = self.room[0] + self.room[2] - max(totals) - BESIDE_BARS * self.letter
        return (right - self.left) / len(self.chart.names)

    def column_middle(self, column: int) -> float:
        return self.left + (column + 0.5) * self.step

    def items(self) -> Items:
        rows = self.chart.rows
        below = self._names_height + BARS_GAP * self.letter
        high = (self.room[3] - below) / len(rows) - BARS_GAP * self.letter
        yield from self._column_names()
        for index, row in enumerate(rows):
            top = self.room[1] + self.room[3] - index * (high + BARS_GAP * self.letter)
            upright_row = _UprightRow(self, row, top, high)
            yield from upright_row.blocks()
            yield from upright_row.words()
            yield upright_row.zero_line()

    @property
    def _names_upright(self) -> bool:
        """Whether the names are too long to stand beside each other in large letters."""
        return self.fitting_size(self.chart.names) < SMALL_NAME_SHARE * self.letters.label

    @property
    def name_size(self) -> float:
        """The size of the names of columns, in points."""
        if self._names_upright:
            room = LABEL_WIDTH_SHARE * self.step * self._names_step
            return min(self.letters.label, room / POINT)
        return self.fitting_size(self.chart.names)

    def fitting_size(self, texts: tuple[str, ...]) -> float:
        """Return the size in points, a label's at most, in which each of these has room in its
        column.
        """
        widest = max((text_width(typeset(text), 1.0) for text in texts), default=0.0)
        return min(self.letters.label, LABEL_WIDTH_SHARE * self.step / max(widest, 1e-9))

    @property
    def number_size(self) -> float:
        """The size of all numbers, in points: each has room in its column; 0 if letters on paper
        have none.
        """
        texts = tuple(text for row in self.chart.rows for text in row.value_texts)
        size = self.fitting_size(texts)
        return size if self.letters.can_shrink or size >= self.letters.label else 0.0

    @property
    def _names_step(self) -> int:
        """Of how many columns one has its name."""
        if self.letters.can_shrink or not self._names_upright:
            return 1
        return math.ceil(self.letters.label * POINT / (LABEL_WIDTH_SHARE * self.step))

    @property
    def _names_height(self) -> float:
        """The inches that the names of columns take below the bars."""
        if not self._names_upright:
            return LINE_STEP * self.letter
        return max(text_width(name, self.name_size) for name in self.chart.names)

    def _column_names(self) -> Iterator[Words]:
        """Yield the name of each column, level or upright."""
        foot = self.room[1] + (self._names_height if self._names_upright else 0.35 * self.letter)
        angle, across, along = UPRIGHT_NAME_STYLE if self._names_upright else LEVEL_NAME_STYLE
        names = self.chart.names
        for column in range(0, len(names), self._names_step):
            name, x = names[column], self.column_middle(column)
            yield Words(name, x, foot, self.name_size, angle=angle, halign=across, valign=along)


@dataclass(frozen=True)
class _UprightRow:
    """One row: its bars stand on a line, or hang from it where they are below 0."""

    drawing: _UprightBars
    row: ColumnChartRow
    top: float
    height: float

    @property
    def size(self) -> float:
        return self.drawing.number_size

    @property
    def _value_range(self) -> tuple[float, float]:
        values = [value for value in self.row.values if value is not None]
        return min(0.0, *values, 0.0), max(0.0, *values, 0.0)

    @property
    def _unit(self) -> float:
        """Inches for a value of 1: numbers need a line above the bars, and below negative ones."""
        low, high = self._value_range
        lines = 1 + (low < 0)
        return max(self.height - lines * self._line, 0.1) / ((high - low) or 1.0)

    @property
    def _line(self) -> float:
        """The height of a line of numbers, in inches."""
        return LINE_STEP * (self.size or self.drawing.letters.label) * POINT

    @property
    def zero(self) -> float:
        """The height of the line of 0 on the page."""
        low, high = self._value_range
        if not high - low:
            return self.top - self.height * (1 - EMPTY_ROW_SHARE)
        return self.top - self._line - high * self._unit

    def blocks(self) -> Iterator[Block]:
        """Yield a bar for each value but 0; what a mask hides has a low one in its colour."""
        wide = min(BAR_WIDTH_SHARE * self.drawing.step, WIDEST_BAR * self.drawing.letter)
        for column, value in enumerate(self.row.values):
            left, tint = self.drawing.column_middle(column) - wide / 2, Tint(self.row.scale, value)
            if value is None:
                yield Block((left, self.zero, wide, HIDDEN_HEIGHT * self._line), tint)
            elif value:
                long = abs(value) * self._unit
                foot = self.zero - (long if value < 0 else 0.0)
                yield Block((left, foot, wide, long), tint, outlined=THIN_LINE)

    def zero_line(self) -> Stroke:
        """Return the line of 0, from the first column to the last."""
        left, step = self.drawing.left, self.drawing.step
        right = left + step * len(self.row.values)
        return Stroke(((left, self.zero), (right, self.zero)), THIN_LINE)

    def words(self) -> Iterator[Words]:
        """Yield the number at each bar, the name of the row in front, and its sum behind."""
        drawing, letters = self.drawing, self.drawing.letters
        size = self.size * POINT
        pairs = zip(self.row.values, self.row.value_texts, strict=True)
        for column, (value, text) in enumerate(pairs):
            end = self.zero + (HIDDEN_HEIGHT * self._line if value is None else value * self._unit)
            y = end - 1.05 * size if value is not None and value < 0 else end + 0.3 * size
            x, hidden = drawing.column_middle(column), value is None
            if self.size:
                yield Words(typeset(text), x, y, self.size, halign="center", faint=hidden)
        y = self.zero + 0.25 * drawing.letter
        yield Words(self.row.name, drawing.room[0], y, letters.label, bold=True)
        right = drawing.left + drawing.step * len(self.row.values) + BESIDE_BARS * drawing.letter
        room = drawing.room[0] + drawing.room[2] - right
        total, points = fit_line(self.row.total, letters.axis, letters.smallest, room)
        if total:
            yield Words(total, right, y, points, faint=True)
