"""Very many heads as small maps: layers in rows, heads in columns, the most telling ones framed.

What frames mean stands on the right of the maps or below them, wherever it leaves them larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from attnviz.renderers.picture import keys, tags
from attnviz.renderers.picture.labels import MIDDLE, labels_at
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.placed import (
    Block,
    Box,
    Layout,
    Maps,
    Mark,
    Words,
    empty_layout,
    joined,
)
from attnviz.renderers.picture.sheet import ABOVE, AIR, BESIDE, Sheet, sheet, style_around
from attnviz.renderers.picture.texts import fitted
from attnviz.renderers.picture.ticks import Ticks, text_width
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
    if drawn.read.border is not None:
        x = left + wide * drawn.read.border / len(drawn.read)
        yield Block((x, bottom, 0.0, high), outlined=BORDER)
    if drawn.reads.border is not None:
        y = bottom + high * (1 - drawn.reads.border / len(drawn.reads))
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
        if flag.map in seen:
            continue
        seen.add(flag.map)
        left, bottom, wide, high = box = found.box(*found.drawn.places[flag.map])
        frame = Block(box, outlined=FRAME, series=tags.ACCENT)
        yield replace(empty_layout(), blocks=(frame,))
        size = tags.fitting(min(wide, high), found.letters)
        yield tags.tag(number, left + wide, bottom + high, size)


def _key(found: Sheet) -> Layout:
    left, _, width, _ = found.room
    if found.beside:
        start = found.right + AIR * found.letters.axis * POINT
        high = found.corner[1] - found.lowest
        return tags.column(
            found.drawn, (start, found.lowest, left + width - start, high), found.letters
        )
    room = (left, found.lowest, width, found.foot - found.lowest)
    return tags.lines(found.drawn, room, found.letters)


def _last_lines(found: Sheet) -> Layout:
    """Below the maps, or below the key."""
    left, _, width, _ = found.room
    room = (left, found.lowest - found.told, width, found.told)
    return keys.drawn(found.said, room, found.letters.note)


def legible(drawn: Overview, room: Box, letters: Lettering) -> int:
    """How many tokens have their names."""
    tokens = sheet(drawn, room, letters).tokens
    return len(tokens[0].places) if tokens else 0
