"""Explored: who reads whom in each of many heads, for somebody to look around in by himself."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.cells import Cells
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.overview import Flag


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadMap:
    """Who reads whom in one head, or in several together."""

    name: str  # L4H7
    place: tuple[int, int]  # in which row and column of all heads it stands
    reads: Axis
    read: Axis  # the same as `reads`, where a sentence reads itself
    weights: Cells
    scores: Cells | None = None  # as the softmax receives them, whose result the weights are
    share: bool = True  # whether a row is divided up


@dataclass(frozen=True, eq=False, kw_only=True)
class Explored:
    """All heads that can be chosen from."""

    heads: tuple[HeadMap, ...]
    rows: Axis  # a place for each layer, or way of attending, or moment,
    columns: Axis  # and one for each head
    measure: str = "weight"  # what the numbers are called
    query: int | None = None  # the token that is asked for
    first: int = 0  # the head that is looked at first
    log: bool = False  # whether colours are by logarithm
    note: str = ""  # how to read it
    flags: tuple[Flag, ...] = ()  # what some heads do more than all others
