"""Several long maps in rows, such as those of two kinds of attention and their difference.

All lengths are inches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.renderers.picture.items import Box, Items
from attnviz.renderers.picture.long_map import NATURAL_WIDTH, LongMapDrawing
from attnviz.renderers.picture.page_frame import Drawing, Key
from attnviz.renderers.picture.text import POINT, Lettering
from attnviz.views.grids.long_map import LongMap

ROW_WIDTH = 1.4  # times as wide as one map is a page of a row of several
LETTERS = 0.62  # times as large are the letters beside each of several
GAP = 1.5  # between maps, in letters of labels


@dataclass(frozen=True)
class LongMapsDrawing(Drawing):
    """Rows of long maps; a last row of differences, which are fewer, ends at the right."""

    maps: tuple[LongMap, ...]
    across: int  # maps in a row

    @property
    def width(self) -> float:
        return NATURAL_WIDTH * (ROW_WIDTH if self.across > 1 else 1)

    @property
    def _drawings(self) -> list[LongMapDrawing]:
        return [LongMapDrawing(each, is_one_of_several=True) for each in self.maps]

    def keys(self) -> list[Key]:
        """Return the keys of all maps, each said once."""
        keys = [key for drawing in self._drawings for key in drawing.keys()]  # noqa: SIM118
        texts = [(key.meaning, key.scale) for key in keys]
        return [key for index, key in enumerate(keys) if texts[index] not in texts[:index]]

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return the number of maps, whatever the room."""
        return len(self.maps)

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height of all rows, each as high as its highest map."""
        letters = letters.scaled(LETTERS)
        gap = GAP * letters.label * POINT
        wide = (width - gap * (self.across - 1)) / self.across
        heights = [drawing.body_height(letters, wide) for drawing in self._drawings]
        starts = range(0, len(heights), self.across)
        rows = [heights[first : first + self.across] for first in starts]
        return sum(map(max, rows)) + gap * (len(rows) - 1)

    def body(self, room: Box, letters: Lettering) -> Items:
        """Yield each map in its part of the room."""
        letters = letters.scaled(LETTERS)
        for drawing, box in zip(self._drawings, self._boxes(room, letters), strict=True):
            yield from drawing.body(box, letters)

    @property
    def _ends_at_right(self) -> bool:
        return self.maps[-1].grid.scale.kind == "diverging"

    def _boxes(self, room: Box, letters: Lettering) -> Iterator[Box]:
        """Yield the part of the room that each map has."""
        left, bottom, width, height = room
        gap, down = GAP * letters.label * POINT, -(-len(self.maps) // self.across)
        wide, high = (width + gap) / self.across, (height + gap) / down
        for number in range(len(self.maps)):
            row, column = divmod(number, self.across)
            if self._ends_at_right:
                column += max(0, self.across * (row + 1) - len(self.maps))
            x, y = left + column * wide, bottom + height + gap - (row + 1) * high
            yield x, y, wide - gap, high - gap
