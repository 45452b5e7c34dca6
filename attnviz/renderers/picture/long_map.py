"""A LongMap: blocks in colour, axes that count tokens, profiles along the text.

All lengths are inches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from attnviz.renderers.picture.items import Block, Box, Items, Panel, Stroke, Words
from attnviz.renderers.picture.page_frame import Drawing, Key, masked_key, scale_key
from attnviz.renderers.picture.panel_labels import column_title, panel_style, row_title
from attnviz.renderers.picture.text import (
    MANY_PANELS_TITLE_SCALE,
    MIDDLE,
    POINT,
    SLIDE,
    Lettering,
    fit_line,
    text_width,
    wrap_parts,
)
from attnviz.views.grids.description import has_masked_cells
from attnviz.views.grids.long_map import (
    MAX_MARKS,
    MAX_ROUND_NUMBERS,
    LongMap,
    Profile,
    round_positions,
    thinned_marks,
)
from attnviz.views.grids.scales import round_up

NATURAL_WIDTH = 10.0  # of a page of its own
PROFILE_WIDTH, PROFILE_GAP = 4.2, 1.1  # in letters of labels
PROFILES_SHARE = 0.8  # of the size that it has without profiles keeps a map among several
MAPS_GAP, ROWS_GAP = 0.35, 0.25  # between maps
LAYER_ROWS_SHARE = 0.8  # of the largest size is enough for a row for each layer
LEAST_ASPECT = 0.2  # of a map among several that has fewer rows than columns
MOST_TITLE_LINES, WIDE_MAP = 2, 5.0  # of one among several; inches, below which it has one line
FEW_MARKS = 25  # of paragraphs beside each of several maps
WIDEST_PROFILE = 2.0  # times as wide, where the map leaves room
TICK, LABEL_GAP = 0.05, 0.35  # a mark at an axis; from it to its label, in letters
LEAST_HEIGHT = 0.4  # of a map of few queries, in widths
LINE_PITCH = 1.6  # of numbers below one another, in letters
MARK = 0.09  # a line where a paragraph begins
LEADING = 1.15
HIGHEST_QUANTILE = 0.99  # of the values of a profile, which its chart has room for
LINE_POINTS, EDGE_POINTS = 1.0, 0.6


@dataclass(frozen=True)
class LongMapDrawing(Drawing):
    """Maps of blocks with their axes, and narrow charts beside each for its profiles; of several,
    as many side by side as let them be largest, and only the profiles that leave room.
    """

    long_maps: tuple[LongMap, ...]
    per_layer: int = 0

    @property
    def width(self) -> float:
        return NATURAL_WIDTH if len(self.long_maps) == 1 else SLIDE[0]

    def keys(self) -> list[Key]:
        """Return the keys of colours, of cells, of what is hidden, and of marks of paragraphs."""
        first, grids = self.long_maps[0], [each.grid for each in self.long_maps]
        keys = [scale_key(scale) for scale in dict.fromkeys(grid.scale for grid in grids)]
        if has_masked_cells(grids):
            keys.append(masked_key(first.grid.scale))
        if len(grids) > 1 and first.grid.pool_note:
            keys.append(Key(first.grid.pool_note))
        marks, every = MapInRoom(first, Lettering(), is_one=len(grids) == 1).marks(first.row_tokens)
        if marks:
            which = "paragraphs begin" if every == 1 else f"every {every}th paragraph begins"
            keys.append(Key(f"lines at the edges: {which.replace('2th', '2nd')}"))
        return keys

    def key_size(self, letters: Lettering) -> float:
        """Return the size of the letters of keys, in points: smaller below several maps."""
        return letters.axis if len(self.long_maps) == 1 else max(letters.smallest, letters.note)

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return the number of profiles that each map has room for."""
        if len(self.long_maps) == 1:
            return len(self.long_maps[0].profiles)
        return self._placed_maps(self.room_above_keys(room, letters), letters).profiles

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height of maps that fill the width that labels and profiles leave."""
        if len(self.long_maps) == 1:
            return MapInRoom(self.long_maps[0], letters).height(width)
        return self._placed_maps((0.0, 0.0, width, math.inf), letters).height

    def body(self, room: Box, letters: Lettering) -> Items:
        if len(self.long_maps) == 1:
            drawn = MapInRoom(self.long_maps[0], letters)
            yield from drawn.items(drawn.map_box(room), room[0] + room[2])
            return
        placed = self._placed_maps(room, letters)
        yield from placed.items(room[0], room[1] + room[3])

    def _placed_maps(self, room: Box, letters: Lettering) -> MapTable:
        """Return the maps in as many columns as make them largest, a row for each layer where that
        is nearly so; with as many profiles as leave maps large.
        """
        share = max(MANY_PANELS_TITLE_SCALE, letters.smallest / letters.axis)
        small = letters.scaled(share) if letters.can_shrink else letters
        place = partial(MapTable, self.long_maps, small, room[2], room[3])
        count = len(self.long_maps)
        if room[3] == math.inf:
            across = self.per_layer if self.per_layer in range(2, 5) else math.ceil(count**0.5)
        else:
            sides = {across: place(across, 0).side[0] for across in range(1, count + 1)}
            across = max(sides, key=lambda each: sides[each])
            if sides.get(self.per_layer, 0.0) >= LAYER_ROWS_SHARE * sides[across]:
                across = self.per_layer
        least = PROFILES_SHARE * place(across, 0).side[0]
        most = len(self.long_maps[0].profiles)
        numbers = range(most, -1, -1)
        return place(across, next(n for n in numbers if place(across, n).side[0] >= least or not n))


@dataclass(frozen=True, eq=False)
class MapTable:
    """Several maps of equal size in rows; those with the same tokens share their numbers."""

    long_maps: tuple[LongMap, ...]
    letters: Lettering
    room_width: float
    room_height: float
    across: int
    profiles: int  # beside each map

    @cached_property
    def maps(self) -> list[MapInRoom]:
        """The maps, with those axes that have numbers."""
        tokens = {(each.row_tokens, each.column_tokens) for each in self.long_maps}
        is_shared, places = len(tokens) == 1, self.places
        return [
            MapInRoom(
                replace(each, profiles=each.profiles[: self.profiles]),
                self.letters,
                is_one=False,
                names_rows=not is_shared or not index % self.across,
                names_columns=not is_shared or (row + 1, column) not in places,
            )
            for index, (each, (row, column)) in enumerate(zip(self.long_maps, places, strict=True))
        ]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """The row and the column of each map; a last row of differences ends at the right."""
        count = len(self.long_maps)
        ends_at_right = self.long_maps[-1].grid.scale.kind == "diverging"
        skipped = -count % self.across if ends_at_right else 0
        last = (count - 1) // self.across
        return [
            (row, column + skipped * (row == last))
            for row, column in (divmod(index, self.across) for index in range(count))
        ]

    @cached_property
    def rows(self) -> list[list[MapInRoom]]:
        starts = range(0, len(self.maps), self.across)
        return [self.maps[start : start + self.across] for start in starts]

    @cached_property
    def pane(self) -> float:
        lefts = sum(each.left() for each in self.rows[0])
        return (self.room_width - lefts - (self.across - 1) * MAPS_GAP) / self.across

    @cached_property
    def above(self) -> float:
        return max(each.above(self.pane) for each in self.maps)

    @cached_property
    def side(self) -> tuple[float, float]:
        """The width and the height of a map."""
        below = sum(row[0].below() for row in self.rows) + (len(self.rows) - 1) * ROWS_GAP
        high = (self.room_height - below) / len(self.rows) - self.above
        wide = self.pane - self.maps[0].right()
        first = self.long_maps[0]
        aspect = min(max(len(first.row_tokens) / len(first.column_tokens), LEAST_ASPECT), 1.0)
        least = self.letters.label * POINT
        width = max(min(wide, high / aspect), least)
        return width, max(width * aspect, least)

    @property
    def height(self) -> float:
        below = sum(row[0].below() for row in self.rows) + (len(self.rows) - 1) * ROWS_GAP
        return len(self.rows) * (self.above + self.side[1]) + below

    def items(self, left: float, top: float) -> Items:
        width, height = self.side
        for number, row in enumerate(self.rows):
            _, first = self.places[number * self.across]
            lefts = sum(each.left() for each in self.rows[0][: first + 1]) - row[0].left()
            x = left + first * (self.pane + MAPS_GAP) + lefts * bool(first)
            for each in row:
                x += each.left()
                box = (x, top - self.above - height, width, height)
                yield from each.items(box, x + self.pane, top)
                x += self.pane + MAPS_GAP
            top -= self.above + height + row[0].below() + ROWS_GAP


@dataclass(frozen=True, eq=False)
class MapInRoom:
    """A map with its axes and profiles, in letters of these sizes."""

    long_map: LongMap
    letters: Lettering
    is_one: bool = True  # and not among several, which have titles
    names_rows: bool = True  # whether numbers and a title stand beside its rows,
    names_columns: bool = True  # and below its columns

    def height(self, width: float) -> float:
        """Return the height of a map that fills the width that labels and profiles leave."""
        side = width - self.left() - self.right()
        rows, columns = len(self.long_map.row_tokens), len(self.long_map.column_tokens)
        share = min(max(rows / columns, LEAST_HEIGHT), 1.0)
        return side * share + self.above(width) + self.below()

    def map_box(self, room: Box) -> Box:
        """Return where the map alone stands, as large as the room lets it be."""
        least = self.letters.label * POINT
        wide = max(room[2] - self.left() - self.right(), least)
        high = max(room[3] - self.above(room[2]) - self.below(), least)
        rows, columns = len(self.long_map.row_tokens), len(self.long_map.column_tokens)
        width = min(wide, high * max(columns / rows, 1.0))
        height = min(high, width * max(rows / columns, 1.0))
        width = min(wide, height * max(columns / rows, 1.0)) if rows <= columns else width
        bottom = room[1] + room[3] - self.above(room[2]) - height
        return room[0] + self.left(), bottom, width, height

    def items(self, box: Box, right: float, top: float = 0.0) -> Items:
        """Yield the map, its axes, and the profiles beside it, which end at `right`.

        `top` is the upper end of the title of one among several.
        """
        letters = self.letters
        yield Panel(self.long_map.grid, box, np.empty((0, 0), dtype=object), 0.0)
        yield from self._axes(box, letters)
        yield from self._paragraph_marks(box)
        if self.is_one:
            yield from self._pool_note(box, letters)
        for number, line in enumerate(self._title_lines(right - box[0])):
            y = top - (1 + number * LEADING) * letters.axis * POINT
            yield Words(line, box[0], y, letters.axis)
        gap = PROFILE_GAP * letters.label * POINT
        free = (right - box[0] - box[2]) / max(len(self.long_map.profiles), 1)
        pitch = min(free, (WIDEST_PROFILE * PROFILE_WIDTH + PROFILE_GAP) * letters.label * POINT)
        for number, profile in enumerate(self.long_map.profiles):
            x = box[0] + box[2] + gap + number * pitch
            yield from _profile_items(profile, (x, box[1], pitch - gap, box[3]), letters)

    def marks(self, tokens: range) -> tuple[list[int], int]:
        """Return the paragraphs that are marked, every n-th one, and n."""
        most = MAX_MARKS if self.is_one else FEW_MARKS
        return thinned_marks(self.long_map.paragraphs, tokens, most)

    def _title_lines(self, width: float) -> list[str]:
        """Return the name of the head in lines, with as much of what was found as has room."""
        if self.is_one:
            return []
        parts = [self.long_map.grid.title, *self.long_map.findings]
        for count in range(len(parts), 0, -1):
            title = f"{parts[0]}{': ' * (count > 1)}{' · '.join(parts[1:count])}"
            lines = wrap_parts(title.split(" "), " ", self.letters.axis, width)
            if len(lines) <= (MOST_TITLE_LINES if width >= WIDE_MAP else 1):
                break
        return lines[:1] if count == 1 else lines

    def left(self) -> float:
        """Return the room for the numbers and the title of the rows."""
        letters = self.letters
        if not self.names_rows:
            return TICK
        widest = text_width(f"{self.long_map.row_tokens.stop:,}", letters.label)
        return widest + (LABEL_GAP * letters.label + 1.6 * letters.axis) * POINT + TICK

    def right(self) -> float:
        """Return the room for the profiles, or for half of the last number of the columns."""
        letters = self.letters
        profiles = len(self.long_map.profiles) * (PROFILE_WIDTH + PROFILE_GAP)
        half = text_width(f"{self.long_map.column_tokens.stop:,}", letters.label) / 2
        return max(profiles * letters.label * POINT, half)

    def above(self, width: float) -> float:
        """Return the room for a title, the names of profiles, and what one cell stands for."""
        letters, profiles = self.letters, self.long_map.profiles
        lines = max(
            (len(_name_lines(each, letters)) for each in profiles), default=int(self.is_one)
        )
        lines += len(self._title_lines(width))
        return (lines * LEADING + 0.5) * letters.axis * POINT + MARK

    def below(self) -> float:
        """Return the room for the numbers and the title of the columns."""
        letters = self.letters
        if not self.names_columns:
            return TICK + 1.5 * letters.label * POINT * bool(self.long_map.profiles)
        return (1.7 * letters.label + 1.8 * letters.axis) * POINT

    def _axes(self, box: Box, letters: Lettering) -> Iterator[Words | Stroke]:
        """Yield round numbers of tokens at their places beside the map and below it, and titles."""
        left, bottom, width, height = box
        size, style = letters.label, panel_style(letters, (left + width, bottom + height), 1, 1)
        tokens = self.long_map.row_tokens
        lines = int(height / (LINE_PITCH * size * POINT))
        for position in round_positions(tokens, max(1, min(MAX_ROUND_NUMBERS, lines))):
            y = bottom + height * (1 - (position + 0.5 - tokens.start) / len(tokens))
            yield Stroke(((left - TICK, y), (left, y)))
            if not self.names_rows:
                continue
            x = left - TICK - LABEL_GAP * size * POINT
            yield Words(f"{position + 1:,}", x, y - MIDDLE * size * POINT, size, halign="right")
        tokens = self.long_map.column_tokens
        pitch = text_width(f"{tokens.stop:,}", size) + size * POINT
        most = min(MAX_ROUND_NUMBERS, int(width / pitch))
        positions = round_positions(tokens, most)
        if len(positions) == 1:  # the first number is short
            positions = round_positions(tokens, most + 1)
        for position in positions:
            x = left + width * (position + 0.5 - tokens.start) / len(tokens)
            yield Stroke(((x, bottom - TICK), (x, bottom)))
            if not self.names_columns:
                continue
            y, number = bottom - TICK - 1.15 * size * POINT, f"{position + 1:,}"
            x = min(x, left + width - text_width(number, size) / 2)  # beside it a profile begins
            yield Words(number, x, y, size, halign="center")
        grid, right = self.long_map.grid, left - self.left() + 1.6 * letters.axis * POINT
        if self.names_rows:
            yield from row_title(grid.rows.title, right, (bottom, bottom + height), style)
        foot = bottom - TICK - 1.6 * size * POINT
        if self.names_columns:
            yield from column_title(grid.columns.title, foot, (left, left + width), style)

    def _paragraph_marks(self, box: Box) -> Iterator[Stroke]:
        """Yield short lines at the left and the upper edge where paragraphs begin."""
        left, bottom, width, height = box
        right, top = left + width, bottom + height
        for share in self._mark_shares(self.long_map.row_tokens):
            y = bottom + height * (1 - share)
            yield Stroke(((right, y), (right + MARK, y)))
        for share in self._mark_shares(self.long_map.column_tokens):
            x = left + width * share
            yield Stroke(((x, top), (x, top + MARK)))

    def _mark_shares(self, tokens: range) -> list[float]:
        return [(position - tokens.start) / len(tokens) for position in self.marks(tokens)[0]]

    def _pool_note(self, box: Box, letters: Lettering) -> Iterator[Words]:
        """Yield what one cell stands for, above the map."""
        grid = self.long_map.grid
        text = " · ".join(filter(None, (grid.title, grid.pool_note)))
        if text_width(text, letters.smallest) > box[2]:
            text = text.partition(": ")[0]
        line, size = fit_line(text, letters.axis, letters.smallest, box[2])
        y = box[1] + box[3] + MARK + 0.5 * letters.axis * POINT
        yield Words(line, box[0], y, size, faint=True)


def _name_lines(profile: Profile, letters: Lettering) -> list[str]:
    width = (PROFILE_WIDTH + PROFILE_GAP * 0.6) * letters.label * POINT
    parts = [profile.name, f"({profile.unit})"] if profile.unit else [profile.name]
    words = [word for part in parts for word in part.split(" ")]
    return wrap_parts(words, " ", letters.axis, width)


def _profile_items(profile: Profile, box: Box, letters: Lettering) -> Items:
    """Yield a profile as a line beside the rows of the map, with its name and the ends of its
    axis."""
    left, bottom, width, height = box
    highest = profile.highest
    if highest is None:
        highest = float(np.nanquantile(profile.values, HIGHEST_QUANTILE))
    high = round_up(highest)
    yield Block(box, outlined=EDGE_POINTS, faint=True)
    count = len(profile.values)
    points = tuple(
        (left + width * min(value / high, 1.0), bottom + height * (1 - (row + 0.5) / count))
        for row, value in enumerate(profile.values.tolist())
        if value == value
    )
    if len(points) > 1:
        yield Stroke(points, LINE_POINTS, series=0)
    size = min(letters.axis, letters.axis * width / (1.2 * text_width("0" * 8, letters.axis)))
    y = bottom - TICK - 1.15 * letters.label * POINT
    yield Words("0", left, y, size)
    yield Words(profile.text(high), left + width, y, size, halign="right")
    y = bottom + height + MARK + 0.5 * letters.axis * POINT
    for line in reversed(_name_lines(profile, letters)):
        yield Words(line, left, y, letters.axis)
        y += LEADING * letters.axis * POINT
