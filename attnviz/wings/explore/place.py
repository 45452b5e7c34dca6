"""Place: the chosen head, cell and pane, and how each key moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Pane = Literal["matrix", "overview", "arithmetic", "keys"]
FAR = 10**9  # so many cells that a move ends at the border


@dataclass(frozen=True)
class Place:
    """A head, the query and the key of a cell in it, and what is shown of them."""

    head: int = 0  # an index into all heads
    query: int = 0
    key: int = 0
    pane: Pane = "matrix"
    top: int = 0  # the first row and column of the matrix that are in sight
    left: int = 0
    zoom: int | None = None  # how large cells are; None: as large as all of them fit
    below: Pane = "matrix"  # the pane that comes back when the list of keys is closed
    scroll: int = 0  # the first line in sight of a pane that is longer than the screen


def move_cell(place: Place, down: int, right: int, shape: tuple[int, int]) -> Place:
    """Return the place with another cell of the same head, at most at the border of its matrix.

    >>> moved = move_cell(Place(query=1, key=1), 1, -5, (4, 4))
    >>> moved.query, moved.key
    (2, 0)
    """
    query, key = place.query + down, place.key + right
    return replace(place, query=_limit(query, shape[0]), key=_limit(key, shape[1]))


def step_layer(place: Place, step: int, cells: Sequence[tuple[int, int]]) -> Place:
    """Return the place in the head of the same number one layer further, else in the last of it.

    `cells`: the layer and the number of each head. The first layer follows the last.
    """
    layers = sorted({layer for layer, _ in cells})
    layer, number = cells[place.head]
    wanted = layers[(layers.index(layer) + step) % len(layers)]
    heads = [head for head, (its_layer, _) in enumerate(cells) if its_layer == wanted]
    return replace(place, head=min(heads, key=lambda head: abs(cells[head][1] - number)))


def keep_in_sight(
    place: Place, rows: int, columns: int, shape: tuple[int, int], rows_per_line: int = 1
) -> Place:
    """Return the place scrolled as little as brings its cell into a window of rows × columns.

    Where two rows share a line, the first in sight is an even one.
    """
    top = _scroll_to(place.top, place.query, rows, shape[0])
    if top % rows_per_line:
        top += 1 if top < place.query else -1
    left = _scroll_to(place.left, place.key, columns, shape[1])
    return place if (top, left) == (place.top, place.left) else replace(place, top=top, left=left)


def _scroll_to(first: int, position: int, count: int, whole: int) -> int:
    """Return the first position in sight, so that `position` is among the `count` in sight."""
    first = min(max(first, position - count + 1), position)
    return max(0, min(first, whole - count))


def _limit(position: int, count: int) -> int:
    return max(0, min(position, count - 1))
