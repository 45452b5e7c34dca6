"""A long map: blocks of tokens in colour, axes that count tokens, and profiles along the text.

All lengths are inches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnviz.renderers.picture.items import Block, Box, Items, Panel, Stroke, Words
from attnviz.renderers.picture.page_frame import Drawing, Key, masked_key, scale_key
from attnviz.renderers.picture.panel_labels import column_title, panel_style, row_title
from attnviz.renderers.picture.text import (
    MIDDLE,
    POINT,
    Lettering,
    fit_line,
    text_width,
    wrap_parts,
)
from attnviz.views.grids.description import has_masked_cells
from attnviz.views.grids.long_map import (
    MAX_ROUND_NUMBERS,
    LongMap,
    Profile,
    round_positions,
    thinned_marks,
)
from attnviz.views.grids.scales import round_up

NATURAL_WIDTH = 10.0  # of a page of its own
PROFILE_WIDTH, PROFILE_GAP = 4.2, 1.1  # in letters of labels
WIDEST_PROFILE = 2.0  # times as wide, where the map leaves room
TICK, LABEL_GAP = 0.05, 0.35  # a mark at an axis; from it to its label, in letters
MARK = 0.09  # a line where a paragraph begins
LEADING = 1.15
HIGHEST_QUANTILE = 0.99  # of the values of a profile, which its chart has room for
LINE_POINTS, EDGE_POINTS = 1.0, 0.6


@dataclass(frozen=True)
class LongMapDrawing(Drawing):
    """A map of blocks with its axes, and one narrow chart beside it for each profile."""

    long_map: LongMap
    is_one_of_several: bool = False  # then its name stands above it, and what a cell is below all

    @property
    def width(self) -> float:
        return NATURAL_WIDTH

    def keys(self) -> list[Key]:
        """Return the keys of colours, of what is hidden, and of the marks of paragraphs."""
        grid = self.long_map.grid
        keys = [scale_key(grid.scale)]
        if self.is_one_of_several and grid.pool_note:
            keys.append(Key(grid.pool_note))
        if has_masked_cells([grid]):
            keys.append(masked_key(grid.scale))
        marks, every = thinned_marks(self.long_map.paragraphs, self.long_map.row_tokens)
        if marks:
            which = "paragraphs begin" if every == 1 else f"every {every}th paragraph begins"
            keys.append(Key(f"lines at the edges: {which.replace('2th', '2nd')}"))
        return keys

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return the number of profiles, whatever the room."""
        return len(self.long_map.profiles)

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height of a map that fills the width that labels and profiles leave."""
        side = width - self._left(letters) - self._right(letters)
        rows, columns = len(self.long_map.row_tokens), len(self.long_map.column_tokens)
        return side * min(rows / columns, 1.0) + self._above(letters) + self._below(letters)

    def body(self, room: Box, letters: Lettering) -> Items:
        """Yield the map as large as the room lets it be, its axes, and the profiles beside it."""
        left, above, below = self._left(letters), self._above(letters), self._below(letters)
        wide = max(room[2] - left - self._right(letters), letters.label * POINT)
        high = max(room[3] - above - below, letters.label * POINT)
        rows, columns = len(self.long_map.row_tokens), len(self.long_map.column_tokens)
        width = min(wide, high * max(columns / rows, 1.0))
        height = min(high, width * max(rows / columns, 1.0))
        width = min(wide, height * max(columns / rows, 1.0)) if rows <= columns else width
        box = (room[0] + left, room[1] + room[3] - above - height, width, height)
        yield Panel(self.long_map.grid, box, np.empty((0, 0), dtype=object), 0.0)
        yield from self._axes(box, letters)
        yield from self._paragraph_marks(box)
        yield from self._pool_note(box, room, letters)
        gap = PROFILE_GAP * letters.label * POINT
        free = (room[0] + room[2] - box[0] - box[2]) / max(len(self.long_map.profiles), 1)
        pitch = min(free, (WIDEST_PROFILE * PROFILE_WIDTH + PROFILE_GAP) * letters.label * POINT)
        for number, profile in enumerate(self.long_map.profiles):
            x = box[0] + box[2] + gap + number * pitch
            yield from _profile_items(profile, (x, box[1], pitch - gap, box[3]), letters)

    def _left(self, letters: Lettering) -> float:
        """Return the room for the numbers and the title of the rows."""
        widest = text_width(f"{self.long_map.row_tokens.stop:,}", letters.label)
        return widest + (LABEL_GAP * letters.label + 1.6 * letters.axis) * POINT + TICK

    def _right(self, letters: Lettering) -> float:
        """Return the room for the profiles, or for half of the last number of the columns."""
        profiles = len(self.long_map.profiles) * (PROFILE_WIDTH + PROFILE_GAP)
        half = text_width(f"{self.long_map.column_tokens.stop:,}", letters.label) / 2
        return max(profiles * letters.label * POINT, half)

    def _above(self, letters: Lettering) -> float:
        """Return the room for the names of profiles, and for what one cell stands for."""
        lines = max((len(_name_lines(each, letters)) for each in self.long_map.profiles), default=1)
        return (lines * LEADING + 0.5) * letters.axis * POINT + MARK

    def _below(self, letters: Lettering) -> float:
        """Return the room for the numbers and the title of the columns."""
        return (1.7 * letters.label + 1.8 * letters.axis) * POINT

    def _axes(self, box: Box, letters: Lettering) -> Iterator[Words | Stroke]:
        """Yield round numbers of tokens at their places beside the map and below it, and titles."""
        left, bottom, width, height = box
        size, style = letters.label, panel_style(letters, (left + width, bottom + height), 1, 1)
        tokens = self.long_map.row_tokens
        for position in round_positions(tokens):
            y = bottom + height * (1 - (position + 0.5 - tokens.start) / len(tokens))
            yield Stroke(((left - TICK, y), (left, y)))
            x = left - TICK - LABEL_GAP * size * POINT
            yield Words(f"{position + 1:,}", x, y - MIDDLE * size * POINT, size, halign="right")
        tokens = self.long_map.column_tokens
        pitch = text_width(f"{tokens.stop:,}", size) + size * POINT
        for position in round_positions(tokens, min(MAX_ROUND_NUMBERS, int(width / pitch))):
            x = left + width * (position + 0.5 - tokens.start) / len(tokens)
            yield Stroke(((x, bottom - TICK), (x, bottom)))
            y = bottom - TICK - 1.15 * size * POINT
            yield Words(f"{position + 1:,}", x, y, size, halign="center")
        grid, right = self.long_map.grid, left - self._left(letters) + 1.6 * letters.axis * POINT
        yield from row_title(grid.rows.title, right, (bottom, bottom + height), style)
        foot = bottom - TICK - 1.6 * size * POINT
        yield from column_title(grid.columns.title, foot, (left, left + width), style)

    def _paragraph_marks(self, box: Box) -> Iterator[Stroke]:
        """Yield short lines at the left and the upper edge where paragraphs begin."""
        left, bottom, width, height = box
        sides = (self.long_map.row_tokens, True), (self.long_map.column_tokens, False)
        for tokens, is_row in sides:
            marks, _ = thinned_marks(self.long_map.paragraphs, tokens)
            for position in marks:
                share = (position - tokens.start) / len(tokens)
                if is_row:
                    x, y = left + width, bottom + height * (1 - share)
                    yield Stroke(((x, y), (x + MARK, y)))
                else:
                    x, y = left + width * share, bottom + height
                    yield Stroke(((x, y), (x, y + MARK)))

    def _pool_note(self, box: Box, room: Box, letters: Lettering) -> Iterator[Words]:
        """Yield what one cell stands for, above the map."""
        grid = self.long_map.grid
        text = " · ".join(filter(None, (grid.title, grid.pool_note)))
        if self.is_one_of_several:
            text = grid.title
        if text_width(text, letters.smallest) > box[2]:
            text = text.partition(": ")[0]
        line, size = fit_line(text, letters.axis, letters.smallest, box[2])
        y = box[1] + box[3] + MARK + 0.5 * letters.axis * POINT
        yield Words(line, box[0], y, size, faint=not self.is_one_of_several)


def _name_lines(profile: Profile, letters: Lettering) -> list[str]:
    """Return the name of a profile in lines no wider than its chart."""
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
