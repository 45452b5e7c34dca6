"""What stands around all panels of a page: the headline, how to read it, and what made it.

All of it begins at one left edge, and leaves a room for the panels between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnviz.renderers.picture.items import Box, Words
from attnviz.renderers.picture.lettering import POINT, Lettering, Size
from attnviz.renderers.picture.texts import BOLD, fitted, wrapped
from attnviz.renderers.picture.ticks import text_width

SMALLER = ((1, 1.0), (2, 0.85), (2, 0.7), (3, 0.7))  # lines of a headline, and how large each is
MOST_LINES = 3
LEADING = 1.3  # from one line to the next, in letters
SHORTEST, NARROWER = 0.3, 0.96  # the last line of a headline, and by how much others are shortened
SMALLEST_NOTE = 0.7  # of its size; what has no room then stands in several lines
AIR = 0.55  # between the headline and the panels, in letters of the headline
ROOM_FOR_NOTES = 3.5  # inches; a smaller picture goes without small print
KEPT_TOGETHER = re.compile(r"(?<=\d) of (?=\d)|\bwith (?=\.\d)")  # 8 of 10, with .99
BETWEEN = " · "  # what can be parted, in notes


@dataclass(frozen=True)
class Captions:
    """What is written around all panels of a picture."""

    title: str = ""
    notes: str = ""  # how to read the panels
    made: str = ""  # what made them, in faint letters
    own: bool = False  # whether the title is somebody's own
    above: float = 0.0  # inches from the top of the page that are left to words of somebody else,
    below: float = 0.0  # and from its foot


@dataclass(frozen=True)
class Line:
    """A line of text in its size, which has yet to find its place."""

    text: str
    size: float
    bold: bool = False
    faint: bool = False

    @property
    def height(self) -> float:
        return self.size * POINT * LEADING


@dataclass(frozen=True)
class Frame:
    """The lines above and below the panels of a page."""

    size: Size
    letters: Lettering
    above: tuple[Line, ...]
    below: tuple[Line, ...]
    free: tuple[float, float] = (0.0, 0.0)  # inches above and below that are left to others

    @property
    def top(self) -> float:
        """Where its first line begins."""
        return self.size[1] - max(self.letters.margin, self.free[0])

    @property
    def room(self) -> Box:
        """What is left for panels."""
        margin = self.letters.margin
        over_words = self.letters.note * POINT if self.free[1] else 0.0
        bottom = max(margin, self.free[1] + over_words) + _height(self.below)
        under_words = self.above or self.free[0]
        air = self.letters.headline * POINT * AIR if under_words else 0.0
        top = self.top - _height(self.above) - air
        return margin, bottom, max(self.size[0] - 2 * margin, 0.5), max(top - bottom, 0.5)

    def words(self) -> Iterator[Words]:
        """The lines, each at its place."""
        margin = self.letters.margin
        yield from stacked(self.above, margin, self.top)
        foot = max(0.6 * margin, self.free[1])
        yield from stacked(self.below, margin, foot + _height(self.below))


def framed(captions: Captions, size: Size, letters: Lettering) -> Frame:
    """The captions in lines that fit the page."""
    width = size[0] - 2 * letters.margin
    small = min(size) < ROOM_FOR_NOTES
    notes = [] if small else _lines(captions.notes, letters.note, width)
    made = [] if small else _lines(captions.made, letters.small_print, width, faint=True)
    above = tuple(headline(captions.title, letters.headline, width))
    return Frame(size, letters, above, (*notes, *made), (captions.above, captions.below))


def headline(text: str, size: float, width: float) -> Iterator[Line]:
    """One line of large letters, or a few that are smaller."""
    words = KEPT_TOGETHER.sub(lambda kept: kept[0].replace(" ", "\u00a0"), text).split(" ")
    for most, share in SMALLER:
        lines = wrapped(words, " ", size * share * BOLD, width)
        if len(lines) <= most:
            break
    lines = _evened(lines, words, size * share * BOLD, width)
    for line in lines:
        fitting, points = fitted(line, size * share, size * SMALLER[-1][1] / 2, width / BOLD)
        yield Line(fitting, points, bold=True)


def _evened(lines: list[str], words: Sequence[str], size: float, width: float) -> list[str]:
    """As many lines, the last of them not much shorter than the others, if that can be."""
    room = width
    while len(lines) > 1 and text_width(lines[-1], size) < SHORTEST * width and room > width / 2:
        room *= NARROWER
        narrower = wrapped(words, " ", size, room)
        if len(narrower) > len(lines):
            break
        lines = narrower
    return lines


def stacked(lines: Sequence[Line], left: float, top: float) -> Iterator[Words]:
    """Lines one below the other, each standing on the foot of its own height."""
    for line in lines:
        foot = top - line.size * POINT
        yield Words(line.text, left, foot, line.size, bold=line.bold, faint=line.faint)
        top -= line.height


def _lines(text: str, size: float, width: float, *, faint: bool = False) -> list[Line]:
    parts = wrapped(text.split(BETWEEN), BETWEEN, size, width)
    lines = [line for part in parts for line in _within(part, size, width)]
    return [Line(*fitted(line, size, size * SMALLEST_NOTE, width), faint=faint) for line in lines]


def _within(part: str, size: float, width: float) -> list[str]:
    """A part as it is; a long one in lines of words, rather than in small letters."""
    long = text_width(part, size * SMALLEST_NOTE) > width
    return wrapped(part.split(" "), " ", size, width) if long else [part]


def _height(lines: Sequence[Line]) -> float:
    return sum(line.height for line in lines)
