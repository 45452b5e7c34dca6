"""Very many heads as small maps: where each stands, and the strongest ones framed.

What frames mean stands on the right of the maps or below them, wherever it leaves them larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, product

from attnviz.renderers.picture import keys
from attnviz.renderers.picture.items import (
    Block,
    Box,
    Layout,
    Maps,
    Mark,
    Words,
    empty_layout,
    joined,
)
from attnviz.renderers.picture.keys import Key
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering
from attnviz.renderers.picture.texts import MIDDLE, fitted, labels_at
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    Ticks,
    column_ticks,
    row_ticks,
    style_of,
    text_width,
)
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.overview import Overview

FAINT, FRAME, BORDER = 0.5, 2.4, 1.0  # points of the lines around maps, and through them


def place(drawn: Overview, room: Box, letters: Lettering) -> Layout:
    """The maps with their names, frames around those of which more is told, and the key."""
    found = sheet(drawn, room, letters)
    words = (*_names(found), *_tokens(found))
    marks = tuple(_lines_under_groups(found))
    around = replace(empty_layout(), words=words, marks=marks)
    return joined([_maps(found), around, *_frames(found), _key(found), _last_lines(found)])


def _maps(found: Sheet) -> Layout:
    drawn = found.drawn
    boxes = tuple(found.box(*each) for each in drawn.places)
    maps = Maps(drawn.scale, boxes, drawn.values, drawn.hidden)
    around = tuple(Block(box, outlined=FAINT, faint=True) for box in boxes)
    borders = tuple(line for box in boxes for line in _borders(drawn, box))
    return replace(empty_layout(), maps=(maps,), blocks=(*around, *borders))


def _borders(drawn: Overview, box: Box) -> Iterator[Block]:
    """Lines through a map, where something else begins on a side."""
    left, bottom, wide, high = box
    if drawn.key_axis.border is not None:
        x = left + wide * drawn.key_axis.border / len(drawn.key_axis)
        yield Block((x, bottom, 0.0, high), outlined=BORDER)
    if drawn.query_axis.border is not None:
        y = bottom + high * (1 - drawn.query_axis.border / len(drawn.query_axis))
        yield Block((left, y, wide, 0.0), outlined=BORDER)


def _names(found: Sheet) -> Iterator[Words]:
    """Layers on the left, heads above; every so many, where there is no room for all."""
    drawn, letters = found.drawn, found.letters
    if found.wrapped:
        yield from _titles(found)
        return
    (wide, high), (left, top), size = found.pitch, found.corner, letters.axis
    beyond = found.tokens[0].extent if found.tokens else 0.0
    x = left - beyond - BESIDE * size * POINT
    for row in _thinned(drawn.rows, high, size * POINT * 1.1):
        y = top - row * high - found.size[1] / 2 - MIDDLE * size * POINT
        yield Words(drawn.rows.labels[row], x, y, size, across="right")
    widest = max(text_width(label, size) for label in drawn.columns.labels)
    y = top + BESIDE * size * POINT
    for column in _thinned(drawn.columns, wide, widest + 0.5 * size * POINT):
        x = left + column * wide + found.size[0] / 2
        yield Words(drawn.columns.labels[column], x, y, size, across="center")
    for name, start, end in _groups(found):
        text, points = fitted(name, size, letters.smallest, end - start)
        above = y + ABOVE * size * POINT
        yield Words(text, (start + end) / 2, above, points, across="center", faint=True)


def _titles(found: Sheet) -> Iterator[Words]:
    """The name of each map over it."""
    size = found.letters.axis
    for name, place in zip(found.drawn.names, found.drawn.places, strict=True):
        left, bottom, wide, high = found.box(*place)
        text, points = fitted(name, size, found.letters.smallest, wide)
        yield Words(text, left, bottom + high + BESIDE * size * POINT * 0.8, points)


def _thinned(axis: Axis, pitch: float, needed: float) -> range:
    """Every place, or every second, fourth, eighth one."""
    step = 1
    while step < len(axis) and pitch * step < needed:
        step *= 2
    return range(0, len(axis), step)


def _groups(found: Sheet) -> Iterator[tuple[str, float, float]]:
    """`kv 0`, and from where to where its heads stand."""
    groups = found.drawn.groups
    for group, columns in groupby(range(len(groups)), lambda column: groups[column]):
        every = list(columns)
        start, end = found.box(0, every[0]), found.box(0, every[-1])
        yield f"kv {group}", start[0], end[0] + end[2]


def _lines_under_groups(found: Sheet) -> Iterator[Mark]:
    y = found.corner[1] + (ABOVE + 0.2) * found.letters.axis * POINT
    for _, start, end in _groups(found):
        yield (start, y), (end, y)


def _tokens(found: Sheet) -> Iterator[Words]:
    """Beside the first maps of layers, and below those of the last."""
    if found.tokens is None:
        return
    rows, columns = found.tokens
    last = len(found.drawn.columns) - found.across
    for layer, head in found.drawn.places:
        lowest = layer == len(found.drawn.rows) - 1 and head >= last
        left = rows if head % found.across == 0 else Ticks("", 0)
        under = columns if lowest else Ticks("", 0)
        yield from labels_at(left, under, found.box(layer, head), style_around(found.letters))


def _frames(found: Sheet) -> Iterator[Layout]:
    """A thick line around each map of which more is told, and the letter of what that is."""
    seen = set[int]()
    for number, flag in enumerate(found.drawn.flags):
        if flag.map_index in seen:
            continue
        seen.add(flag.map_index)
        left, bottom, wide, high = box = found.box(*found.drawn.places[flag.map_index])
        frame = Block(box, outlined=FRAME, series=keys.ACCENT)
        yield replace(empty_layout(), blocks=(frame,))
        size = keys.fitting(min(wide, high), found.letters)
        yield keys.tag(number, left + wide, bottom + high, size)


def _key(found: Sheet) -> Layout:
    left, _, width, _ = found.room
    if found.beside:
        start = found.right + AIR * found.letters.axis * POINT
        high = found.corner[1] - found.lowest
        return keys.column(
            found.drawn, (start, found.lowest, left + width - start, high), found.letters
        )
    room = (left, found.lowest, width, found.foot - found.lowest)
    return keys.lines(found.drawn, room, found.letters)


def _last_lines(found: Sheet) -> Layout:
    """Below the maps, or below the key."""
    left, _, width, _ = found.room
    room = (left, found.lowest - found.told, width, found.told)
    return keys.drawn(found.said, room, found.letters.note)


def legible(drawn: Overview, room: Box, letters: Lettering) -> int:
    """How many tokens have their names."""
    tokens = sheet(drawn, room, letters).tokens
    return len(tokens[0].places) if tokens else 0


GAP = 0.14  # between two maps, as a part of one
STRETCH, SQUEEZE = 1.5, 1.25  # of a cell, so that a page is filled
LARGEST, HIGHEST = 2.6, 8.0  # of a map, and of all of them, on a page of its own size
FINEST = 0.025  # of a cell
BESIDE = 0.5  # from maps to their names, in letters
ABOVE = 1.5  # the height of a line of names, in letters
AIR = 1.2  # between maps and a key beside them, in letters
MOST_NAMED = 32  # tokens that stand beside maps


@dataclass(frozen=True, eq=False)
class Sheet:
    """Maps in a room: how large they are, and where what is told of them stands."""

    drawn: Overview
    letters: Lettering
    room: Box
    beside: bool  # whether the key stands on the right, or below
    across: int  # maps beside each other: all of a layer, or fewer of one that is alone
    tokens: tuple[Ticks, Ticks] | None = None  # beside the maps on the left, and below the last

    @property
    def _letter(self) -> float:
        return self.letters.axis * POINT

    @property
    def left(self) -> float:
        """What names of layers take, and those of tokens."""
        beyond = self.tokens[0].extent if self.tokens else 0.0
        if self.wrapped:
            return beyond
        names = max(text_width(label, self.letters.axis) for label in self.drawn.rows.labels)
        return names + BESIDE * self._letter + beyond

    @property
    def wrapped(self) -> bool:
        """Whether a layer stands in several rows, so that each map has its own name."""
        return self.across < len(self.drawn.columns)

    @property
    def title(self) -> float:
        """What the name of a map takes that stands in a row below the first."""
        return ABOVE * self._letter if self.wrapped else 0.0

    @property
    def above(self) -> float:
        """What names of heads take, and of those whose keys they share."""
        return ABOVE * self._letter * (1 + (bool(self.drawn.groups) and not self.wrapped))

    @property
    def below(self) -> float:
        """What names of tokens take, and the last line."""
        told = self.told
        return (self.tokens[1].extent if self.tokens else 0.0) + told

    @property
    def said(self) -> list[Key]:
        """What colours mean, and whatever else the last lines say."""
        return keys.said(self.drawn, self.letters, self.room[2], named=self.tokens is not None)

    @property
    def told(self) -> float:
        """What the last lines take."""
        return keys.height(self.said, self.room[2], self.letters.note)

    @property
    def key(self) -> tuple[float, float]:
        """What the key takes of the width, and of the height."""
        if self.beside:
            return keys.width(self.drawn, self.letters) + AIR * self._letter, 0.0
        return 0.0, keys.tags_height(self.drawn, self.letters, self.room[2])

    @property
    def size(self) -> tuple[float, float]:
        """Of a map: its cells are about square, if that fills the room."""
        (high, wide), (rows, columns) = self.drawn.shape, self.counts
        across = self.room[2] - self.left - self.key[0]
        down = self.room[3] - self.above - self.below - self.key[1]
        most_wide = max(across, 0.1) / (columns + GAP * (columns - 1))
        down -= self.title * (rows - 1)
        most_high = max(down, 0.1) / (rows + GAP * (rows - 1))
        tall = high / wide
        return min(most_wide, most_high / tall * STRETCH), min(
            most_high, most_wide * tall * SQUEEZE
        )

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of maps."""
        parts = math.ceil(len(self.drawn.columns) / self.across)
        return len(self.drawn.rows) * parts, self.across

    @property
    def pitch(self) -> tuple[float, float]:
        """From one map to the next."""
        wide, high = self.size
        return wide * (1 + GAP), high * (1 + GAP) + self.title

    @property
    def corner(self) -> tuple[float, float]:
        """The upper left end of the first map."""
        left, bottom, _, height = self.room
        return left + self.left, bottom + height - self.above

    def box(self, row: int, column: int) -> Box:
        """Where a map stands; a layer that is alone may go on in the next row."""
        beyond, column = divmod(column, self.across)
        row += beyond
        (wide, high), (across, down), (left, top) = self.size, self.pitch, self.corner
        return left + column * across, top - row * down - high, wide, high

    @property
    def right(self) -> float:
        """Where the last map ends."""
        left, _, wide, _ = self.box(0, self.across - 1)
        return left + wide

    @property
    def foot(self) -> float:
        """Where maps end below, and the names of tokens."""
        beyond = self.tokens[1].extent if self.tokens else 0.0
        return self.box(self.counts[0] - 1, 0)[1] - beyond

    @property
    def lowest(self) -> float:
        """Where the maps and the key end below."""
        beside = self.corner[1] - keys.column_height(self.drawn, self.letters)
        if self.beside:
            told = self.told
            return min(self.foot, max(beside, self.room[1] + told))
        return self.foot - self.key[1]


def sheet(drawn: Overview, room: Box, letters: Lettering) -> Sheet:
    """Whatever makes maps largest; where tokens have room for their names, these stand there."""
    heads = len(drawn.columns)
    across = range(1, heads + 1) if len(drawn.rows) == 1 else (heads,)
    ways = product((True, False), across)
    best = max((Sheet(drawn, letters, room, *way) for way in ways), key=_area)
    named = _with_tokens(best)
    high, wide = drawn.shape
    size = best.size if named is None else named.size
    found = named or best
    finest = (_fitting(high, size[1]), _fitting(wide, size[0]))
    return replace(found, drawn=drawn.pooled_to(*finest))


def _fitting(count: int, length: float) -> int:
    """As many cells as can be told apart; all, where that makes half of them or more."""
    most = max(math.ceil(length / FINEST), 1)
    return count if count < 2 * most else most


def _area(each: Sheet) -> float:
    wide, high = each.size
    return wide * high


def _with_tokens(found: Sheet) -> Sheet | None:
    """The same with the names of tokens, if all of them can be read."""
    drawn, letters = found.drawn, found.letters
    if drawn.shape != (len(drawn.query_axis), len(drawn.key_axis)) or max(drawn.shape) > MOST_NAMED:
        return None
    for _ in range(2):
        (wide, high), style = found.size, style_around(letters)
        rows = row_ticks(replace(drawn.query_axis, title=""), high / len(drawn.query_axis), style)
        columns = column_ticks(replace(drawn.key_axis, title=""), wide / len(drawn.key_axis), style)
        found = replace(found, tokens=(rows, columns))
    whole = len(rows.places) == rows.count and len(columns.places) == columns.count
    return found if whole else None


def style_around(letters: Lettering) -> PanelStyle:
    return style_of(letters, SLIDE, 1.0, 1.0)


def natural_height(drawn: Overview, letters: Lettering, width: float) -> float:
    """So high that maps fill the width; of few maps no more than lets each be seen well."""
    heads = len(drawn.columns)
    across = min(heads, round(math.sqrt(1.5 * heads))) if len(drawn.rows) == 1 else heads
    endless = Sheet(drawn, letters, (0.0, 0.0, width, 1e3), True, max(across, 1))
    endless = _with_tokens(endless) or endless
    rows = endless.counts[0] * (1 + GAP)
    wide = endless.pitch[0] / (1 + GAP)
    high = min(wide * drawn.shape[0] / drawn.shape[1], LARGEST, HIGHEST / rows)
    titles = endless.title * (endless.counts[0] - 1)
    low = keys.column_height(drawn, letters)
    return max(high * rows + titles, low) + endless.above + endless.below
