"""A part of a page divided into boxes of one size, row by row; all lengths are inches."""

from __future__ import annotations

import math

from attnviz.renderers.picture.placed import Box


def panes(count: int, across: int, room: Box, gap: float) -> list[Box]:
    """So many boxes, so many of them in a row, from the top left.

    >>> panes(3, 2, (0.0, 0.0, 5.0, 3.0), 1.0)[1:]
    [(3.0, 2.0, 2.0, 1.0), (0.0, 0.0, 2.0, 1.0)]
    """
    left, bottom, width, height = room
    down = math.ceil(count / across)
    wide, high = (width - (across - 1) * gap) / across, (height - (down - 1) * gap) / down
    first = bottom + height - high
    places = (divmod(place, across) for place in range(count))
    return [
        (left + column * (wide + gap), first - row * (high + gap), wide, high)
        for row, column in places
    ]
