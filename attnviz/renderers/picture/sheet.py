"""How large small maps are in a room, and where each stands; all lengths are inches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

from attnviz.renderers.picture import keys, tags
from attnviz.renderers.picture.keys import Key
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering
from attnviz.renderers.picture.placed import Box
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    Ticks,
    column_ticks,
    row_ticks,
    style_of,
    text_width,
)
from attnviz.views.grids.overview import Overview

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
        return tags.said(self.drawn, self.letters, self.room[2], named=self.tokens is not None)

    @property
    def told(self) -> float:
        """What the last lines take."""
        return keys.height(self.said, self.room[2], self.letters.note)

    @property
    def key(self) -> tuple[float, float]:
        """What the key takes of the width, and of the height."""
        if self.beside:
            return tags.width(self.drawn, self.letters) + AIR * self._letter, 0.0
        return 0.0, tags.height(self.drawn, self.letters, self.room[2])

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
        beside = self.corner[1] - tags.column_height(self.drawn, self.letters)
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
    return replace(found, drawn=drawn.grained(*finest))


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
    if drawn.shape != (len(drawn.reads), len(drawn.read)) or max(drawn.shape) > MOST_NAMED:
        return None
    for _ in range(2):
        (wide, high), style = found.size, style_around(letters)
        rows = row_ticks(replace(drawn.reads, title=""), high / len(drawn.reads), style)
        columns = column_ticks(replace(drawn.read, title=""), wide / len(drawn.read), style)
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
    low = tags.column_height(drawn, letters)
    return max(high * rows + titles, low) + endless.above + endless.below
