"""What stands beside the rows of a table: numbers and words, one row in a line or two."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from rich.cells import cell_len

from attnviz.renderers.terminal.screen import Screen, sized
from attnviz.views.grids.axes import Axis
from attnviz.wording.words import isolated

SHORTEST_THIRD = 15  # columns that names may take on the narrowest screen
LONGEST_OF_PAIR = 15  # columns of each of two names in one line
BETWEEN = " / "


def row_names(axis: Axis) -> list[str]:
    """Numbers aligned on their right, then labels: ` 3 learning`."""
    width = max((len(number) for number in axis.numbers), default=0)
    if not width:
        return [*axis.labels]
    return [
        f"{number:>{width}} {isolated(label)}".rstrip()
        for number, label in zip(axis.numbers, axis.labels, strict=True)
    ]


def pair_names(axis: Axis) -> list[str]:
    """Two rows in a line, the upper and the lower: `1 The / 2 old`."""
    names = [_shortened(name) for name in row_names(axis)]
    width = max(map(cell_len, names[::2]), default=0)
    return [
        upper if lower is None else f"{sized(upper, width)}{BETWEEN}{lower}"
        for upper, lower in zip_longest(names[::2], names[1::2])
    ]


def range_names(axis: Axis) -> list[str]:
    """The numbers of two rows in a line: `1–2`; of rows that have none, the upper's name."""
    return list(_ranges(axis))


def _ranges(axis: Axis) -> Iterator[str]:
    for upper in range(0, len(axis), 2):
        first, last = axis.numbers[upper], axis.numbers[min(upper + 1, len(axis) - 1)]
        if not first or first == last:
            yield first or axis.labels[upper]
        else:
            yield f"{first.split('–')[0]}–{last.split('–')[-1]}"


def width_of(names: list[str], screen: Screen) -> int:
    """As wide as the longest name, at most a third of the screen, and a space behind it."""
    widest = max(map(cell_len, names), default=0)
    return min(widest, max(screen.room // 3, SHORTEST_THIRD)) + 1


def _shortened(name: str) -> str:
    return name if cell_len(name) <= LONGEST_OF_PAIR else sized(name, LONGEST_OF_PAIR)
