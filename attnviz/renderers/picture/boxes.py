"""Nested boxes: sizes and places of rows, columns and grids; in inches.

A `Space` is the room of one thing; a `Row` or a `Column` holds spaces, rows
or columns. Each knows its size, and places the boxes of its spaces, in their order, from its upper
left corner.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.renderers.picture.items import Box
from attnviz.renderers.picture.text import Size


@dataclass(frozen=True)
class Space:
    """The room of one thing (`width`, `height`), and of its labels on each side of it."""

    width: float
    height: float
    left: float = 0.0
    above: float = 0.0
    right: float = 0.0
    below: float = 0.0
    middle: float = 0.5  # what share of its height is above the line that its row is aligned by

    @property
    def size(self) -> Size:
        return self.left + self.width + self.right, self.above + self.height + self.below

    @property
    def above_line(self) -> float:
        """The distance from the line by which a row aligns the space to the top of the space."""
        return self.above + self.middle * self.height

    def boxes(self, left: float, top: float) -> Iterator[Box]:
        """Yield the box of the thing, without its labels, if the space's upper left
        corner is here.
        """
        bottom = top - self.above - self.height
        yield left + self.left, bottom, self.width, self.height


@dataclass(frozen=True)
class Row:
    """Parts beside each other, aligned by their middles, with a gap behind each but the last."""

    parts: tuple[Part, ...]
    gaps: float | tuple[float, ...] = 0.0

    @cached_property
    def above_line(self) -> float:
        """The distance from the line by which the parts are aligned to the top of the row."""
        return max(part.above_line for part in self.parts)

    @cached_property
    def size(self) -> Size:
        below_line = max(part.size[1] - part.above_line for part in self.parts)
        wide = sum(part.size[0] for part in self.parts) + sum(self._gaps)
        return wide, self.above_line + below_line

    @property
    def _gaps(self) -> Sequence[float]:
        gaps = self.gaps
        return gaps if isinstance(gaps, tuple) else [gaps] * (len(self.parts) - 1)

    def boxes(self, left: float, top: float) -> Iterator[Box]:
        """Yield the boxes of all parts from left to right, if the row's upper left
        corner is here.
        """
        for part, gap in zip(self.parts, (*self._gaps, 0.0), strict=True):
            yield from part.boxes(left, top - self.above_line + part.above_line)
            left += part.size[0] + gap


@dataclass(frozen=True)
class Column:
    """Parts below each other, with a gap between each two."""

    parts: tuple[Part, ...]
    gap: float = 0.0

    @cached_property
    def size(self) -> Size:
        high = sum(part.size[1] for part in self.parts) + self.gap * (len(self.parts) - 1)
        return max(part.size[0] for part in self.parts), high

    @property
    def above_line(self) -> float:
        """Half of the height: a row aligns a column by its middle."""
        return self.size[1] / 2

    def boxes(self, left: float, top: float) -> Iterator[Box]:
        """Yield the boxes of all parts from the top down, if its upper left corner is here.

        All parts begin at the same left edge.
        """
        for part in self.parts:
            yield from part.boxes(left, top)
            top -= part.size[1] + self.gap


Part = Space | Row | Column


def grid_of(spaces: Sequence[Space], across: int, gap: float, gap_below: float) -> Column:
    """Return a column of rows of `across` spaces each, with things aligned by their left edges.

    Every space of one grid column gets the same width; `gap_below` is between two rows.
    """
    columns = [spaces[start::across] for start in range(min(across, len(spaces)))]
    lefts = [max(space.left for space in column) for column in columns]
    rights = [max(space.width + space.right for space in column) for column in columns]
    aligned = [
        replace(space, left=lefts[index % across], right=rights[index % across] - space.width)
        for index, space in enumerate(spaces)
    ]
    starts = range(0, len(aligned), across)
    return Column(tuple(Row(tuple(aligned[s : s + across]), gap) for s in starts), gap_below)


def panes(
    count: int, across: int, room: Box, gap: float, gap_below: float | None = None
) -> list[Box]:
    """Return `count` equal boxes that fill `room` in rows of `across`, from the upper left.

    `gap_below` is the gap between two rows; it is `gap` if None.

    >>> panes(3, 2, (0.0, 0.0, 5.0, 3.0), 1.0)[1:]
    [(3.0, 2.0, 2.0, 1.0), (0.0, 0.0, 2.0, 1.0)]
    """
    left, bottom, width, height = room
    down = math.ceil(count / across)
    below = gap if gap_below is None else gap_below
    wide, high = (width - (across - 1) * gap) / across, (height - (down - 1) * below) / down
    return [*grid_of([Space(wide, high)] * count, across, gap, below).boxes(left, bottom + height)]
