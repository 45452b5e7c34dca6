"""PointCloud: heads, say, placed by any two of their measures, each with examples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PointAxis:
    """A measure that points can be placed by."""

    name: str
    about: str
    is_share: bool  # whether all its numbers lie between 0 and 1


@dataclass(frozen=True)
class PointExample:
    """A line of text with a pair of its tokens, as an example of a point."""

    group: str  # such as "most" or "tenth 4 of 10"
    title: str  # such as "line 12: .93"
    line: int  # index in `PointCloud.lines`
    query: int
    key: int
    weight: str


@dataclass(frozen=True)
class Point:
    """One thing: its number on each axis (None: not known), and the ends of their intervals."""

    name: str
    kind: str  # the colour and the legend
    summary: tuple[str, ...]  # sentences on it
    values: tuple[float | None, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    examples: tuple[PointExample, ...]


@dataclass(frozen=True)
class LineTokens:
    """A line of text in tokens, and before which of them there is white space."""

    labels: tuple[str, ...]
    spaced: tuple[bool, ...]


@dataclass(frozen=True)
class PointCloud:
    """All points, the axes that they can be placed by, and the lines of their examples."""

    title: str
    axes: tuple[PointAxis, ...]
    first_axes: tuple[int, int]  # across and up, as the page opens
    kinds: tuple[str, ...]  # in the order of their colours
    points: tuple[Point, ...]
    lines: tuple[LineTokens, ...]
