"""Two vectors as arrows in their plane, with the angle between them; all lengths are inches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnviz.renderers.picture.items import Box, Layout, Place, Stroke, Words, joined
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.texts import fitted
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.section import Arrow, Plane

QUERY, KEY = 0, 1  # the colours of the two, as of lines in a chart
THICK, THIN = 3.0, 1.0  # points
HEAD = 0.9  # of a letter: how long the head of an arrow is
LINE = 1.35  # from one line of text to the next, in letters
APART = 0.5  # of a letter: between two arrows on one line
ARC, LARGEST_ARC = 0.4, 2.6  # of the shorter arrow, and in letters
ARC_STEP = math.radians(3)
SMALLEST_ANGLE = math.radians(18)  # that its number can stand in; another stands below
CORNER = 0.5  # of a letter: the sign of a right angle
GAP = 3.0  # letters between two planes


def place_planes(planes: Sequence[Plane], room: Box, letters: Lettering) -> Layout:
    """Planes beside or below each other, in all of which a length means one number."""
    counts = range(1, len(planes) + 1)
    ways = (list(zip(planes, _rooms(len(planes), n, room, letters), strict=True)) for n in counts)
    units = [
        (min(_inches_of_1(plane, _field(plane, each, letters)) for plane, each in pairs), pairs)
        for pairs in ways
    ]
    unit, pairs = max(units, key=lambda way: way[0])
    return joined([_Drawing(plane, each, unit, letters).layout() for plane, each in pairs])


def _rooms(count: int, across: int, room: Box, letters: Lettering) -> list[Box]:
    """So many parts of a page, so many of them beside each other."""
    left, bottom, width, height = room
    gap, down = GAP * letters.text * POINT, math.ceil(count / across)
    wide, high = (width - gap * (across - 1)) / across, height / down
    places = (divmod(place, across) for place in range(count))
    return [
        (left + column * (wide + gap), bottom + height - (row + 1) * high, wide, high)
        for row, column in places
    ]


def _field(plane: Plane, room: Box, letters: Lettering) -> Box:
    """What titles above and names below leave to the arrows."""
    left, bottom, width, height = room
    line = letters.text * POINT * LINE
    above = (2.3 if plane.title else 1) * line
    below = 2 * line if _is_narrow(plane) else line
    side = HEAD * letters.text * POINT
    return left + side, bottom + below, max(width - 2 * side, 0.3), max(height - above - below, 0.3)


def _is_narrow(plane: Plane) -> bool:
    """Whether there is no room between the arrows for the number of their angle."""
    cosine = plane.cosine
    return cosine is not None and (plane.on_a_line or math.acos(cosine) < SMALLEST_ANGLE)


def _extent(plane: Plane) -> tuple[float, float, float]:
    """The furthest to the left and to the right, and how high, that the arrows reach."""
    across = [0.0, *(tip[0] for tip in plane.tips)]
    return min(across), max(across), plane.tips[KEY][1]


def _inches_of_1(plane: Plane, field: Box) -> float:
    low, high, top = _extent(plane)
    possible = [field[2] / (high - low)] if high > low else []
    possible += [field[3] / top] if top > 0 else []
    return min(possible, default=1.0)


@dataclass(frozen=True)
class _Drawing:
    """One plane in its part of the page."""

    plane: Plane
    room: Box
    unit: float  # inches
    letters: Lettering

    @property
    def letter(self) -> float:
        return self.letters.text * POINT

    @property
    def start(self) -> Place:
        """Where both arrows begin: so that they stand in the middle of the field."""
        left, bottom, width, height = _field(self.plane, self.room, self.letters)
        low, high, top = _extent(self.plane)
        x = left + (width - (low + high) * self.unit) / 2
        return x, bottom + (height - top * self.unit) / 2

    def at(self, point: Place) -> Place:
        """The place on the page of a point of the plane."""
        return self.start[0] + point[0] * self.unit, self.start[1] + point[1] * self.unit

    def layout(self) -> Layout:
        strokes = (*self._shadow(), *self._arc(), *self._arrows())
        words = (*self._title(), *self._names(), *self._angle())
        return Layout((0.0, 0.0), (), (), (), words, (), strokes=strokes)

    def _arrows(self) -> Iterator[Stroke]:
        for series, tip in enumerate(self.tips):
            if self.plane.arrows[series].length:
                points = (self.origins[series], tip)
                yield Stroke(points, THICK, series=series, head=HEAD * self.letter)

    @property
    def origins(self) -> tuple[Place, Place]:
        """On one line the key stands a little above the query, or it would hide it."""
        x, y = self.start
        return (x, y), (x, y + (APART * self.letter if self.plane.on_a_line else 0.0))

    @property
    def tips(self) -> tuple[Place, Place]:
        query, key = map(self.at, self.plane.tips)
        return query, (key[0], key[1] + self.origins[KEY][1] - self.origins[QUERY][1])

    def _shadow(self) -> Iterator[Stroke]:
        """What of the key lies along the query, between dashes."""
        if self.plane.on_a_line or not self.plane.angle:
            return
        tip = self.tips[KEY]
        foot = (tip[0], self.start[1])
        yield Stroke((tip, foot), THIN, dashed=True)
        ends = self.start if tip[0] < self.start[0] else self.tips[QUERY]
        if not self.start[0] <= foot[0] <= ends[0]:
            yield Stroke((ends, foot), THIN, dashed=True)
        corner = min(CORNER * self.letter, (tip[1] - foot[1]) / 2, abs(foot[0] - self.start[0]) / 2)
        side = math.copysign(corner, self.start[0] - foot[0])
        x, y = foot
        yield Stroke(((x + side, y), (x + side, y + corner), (x, y + corner)), THIN)

    @property
    def _radius(self) -> float:
        shorter = min(arrow.length for arrow in self.plane.arrows) * self.unit
        return min(ARC * shorter, LARGEST_ARC * self.letter)

    def _arc(self) -> Iterator[Stroke]:
        cosine = self.plane.cosine
        if cosine is None or self.plane.on_a_line:
            return
        angle = math.acos(cosine)
        steps = max(int(angle / ARC_STEP), 2)
        turns = [angle * step / steps for step in range(steps + 1)]
        yield Stroke(tuple(self._around(turn, self._radius) for turn in turns), THIN * 1.5)

    def _around(self, angle: float, radius: float) -> Place:
        x, y = self.start
        return x + radius * math.cos(angle), y + radius * math.sin(angle)

    def _title(self) -> Iterator[Words]:
        left, bottom, _, height = self.room
        if self.plane.title:
            y = bottom + height - self.letters.title * POINT
            yield Words(self.plane.title, left, y, self.letters.title, bold=True)

    def _names(self) -> Iterator[Words]:
        """The query below its arrow, the key above its own."""
        lowest = self.start[1] - LINE * self.letter
        highest = max(tip[1] for tip in self.tips) + 0.5 * self.letter
        middle = (self.origins[QUERY][0] + self.tips[QUERY][0]) / 2
        yield self._name(QUERY, middle, lowest)
        yield self._name(KEY, self.tips[KEY][0], highest)

    def _name(self, series: int, middle: float, y: float) -> Words:
        """As near to its place as the room lets it stand."""
        left, _, width, _ = self.room
        text, size = fitted(
            _named(self.plane.arrows[series]), self.letters.text, self.letters.smallest, width
        )
        half = text_width(text, size) / 2
        x = min(max(middle, left + half), left + width - half)
        return Words(text, x, y, size, across="center", series=series)

    def _angle(self) -> Iterator[Words]:
        cosine, size = self.plane.cosine, self.letters.text
        if cosine is None:
            return
        if _is_narrow(self.plane):
            x = (self.origins[QUERY][0] + self.tips[QUERY][0]) / 2
            y = self.start[1] - 2 * LINE * self.letter
            yield Words(f"angle {self.plane.angle}", x, y, size, across="center")
            return
        half = math.acos(cosine) / 2
        x, y = self._around(half, self._radius + 0.4 * self.letter)
        y = max(y - 0.36 * self.letter * math.cos(half), self.start[1] + 0.35 * self.letter)
        yield Words(self.plane.angle, self._beside_the_shadow(x), y, size)

    def _beside_the_shadow(self, x: float) -> float:
        """Where the number of the angle begins, so that no dashes go through it."""
        between, foot = 0.3 * self.letter, self.tips[KEY][0]
        ends = x + text_width(self.plane.angle, self.letters.text)
        return foot + between if x - between < foot < ends + between else x


def _named(arrow: Arrow) -> str:
    return f"{arrow.name}, length {arrow.length_text}"
