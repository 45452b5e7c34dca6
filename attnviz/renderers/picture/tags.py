"""The letters that tie framed maps to what is told of them; and the key that tells it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from string import ascii_letters

from attnviz.renderers.picture import keys
from attnviz.renderers.picture.keys import Key
from attnviz.renderers.picture.labels import MIDDLE
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.placed import Block, Box, Layout, Words, empty_layout, joined
from attnviz.renderers.picture.texts import BOLD, fitted
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.axes import GOES_ON, Axis
from attnviz.views.grids.overview import BENDS, Flag, Overview

ACCENT = 0  # the colour of frames and letters, among those of lines
SIDE = 1.35  # of a letter's box, in letters
PART = 0.26  # of a map, its letter may take
GAP = 0.5  # between a letter and its words, in letters
BETWEEN = 1.8  # between two of them in a line
LINE = 1.8  # from one line to the next, in letters
PAIR, LEADING = 1.2, 1.5  # from a name to what stands below it, and from there to the next

Pieces = tuple[tuple[str, bool], ...]  # words, and whether they are bold


def tag(number: int, right: float, top: float, size: float) -> Layout:
    """A letter in a box, whose upper right end is here."""
    side = SIDE * size * POINT
    box = (right - side, top - side, side, side)
    x, y = right - side / 2, top - side / 2 - MIDDLE * size * POINT
    letter = Words(_letter(number), x, y, size, bold=True, across="center", inside=ACCENT)
    return replace(empty_layout(), blocks=(Block(box, series=ACCENT),), words=(letter,))


def fitting(side: float, letters: Lettering) -> float:
    """How large the letter at a map can be."""
    return min(max(side * PART / POINT, letters.smallest), letters.label)


def _letter(number: int) -> str:
    return ascii_letters[number % len(ascii_letters)]


def width(drawn: Overview, letters: Lettering) -> float:
    """Of a column."""
    size = letters.axis
    told = (_wide(each, size) for flag in drawn.flags for each in _two_lines(drawn, flag))
    widest = max(told, default=0.0)
    return (SIDE + GAP) * size * POINT + widest if widest else 0.0


def column_height(drawn: Overview, letters: Lettering) -> float:
    return len(drawn.flags) * (PAIR + LEADING) * letters.axis * POINT


def column(drawn: Overview, room: Box, letters: Lettering) -> Layout:
    """What each letter means, in two lines, from the top."""
    left, bottom, _, high = room
    needed = column_height(drawn, letters)
    size = max(letters.axis * min(high / max(needed, 1e-6), 1.0), letters.smallest)
    letter, y = size * POINT, bottom + high - size * POINT
    layouts = []
    for number, flag in enumerate(drawn.flags):
        above, under = _two_lines(drawn, flag)
        x = left + (SIDE + GAP) * letter
        words = (*_words(above, x, y, size), *_words(under, x, y - PAIR * letter, size, faint=True))
        layouts += [tag(number, left + SIDE * letter, y + letter, size)]
        layouts += [replace(empty_layout(), words=words)]
        y -= (PAIR + LEADING) * letter
    return joined(layouts)


def height(drawn: Overview, letters: Lettering, room: float) -> float:
    """Of lines, and a little above them."""
    count = len(_in_lines(drawn, letters, room))
    return (count * LINE + 0.7) * letters.axis * POINT if count else 0.0


def lines(drawn: Overview, room: Box, letters: Lettering) -> Layout:
    """What each letter means, in lines from the top."""
    left, bottom, wide, high = room
    size, letter = letters.axis, letters.axis * POINT
    layouts, y = list[Layout](), bottom + high - 1.7 * letter
    for line in _in_lines(drawn, letters, wide):
        x = left
        for number in line:
            told = _one_line(drawn, drawn.flags[number])
            words = tuple(_words(told, x + (SIDE + GAP) * letter, y, size))
            top = y + (MIDDLE + SIDE / 2) * letter
            layouts += [tag(number, x + SIDE * letter, top, size)]
            layouts += [replace(empty_layout(), words=words)]
            x += _needed(told, size)
        y -= LINE * letter
    return joined(layouts)


def said(drawn: Overview, letters: Lettering, room: float, *, named: bool) -> list[Key]:
    """What colours mean and how they run, what one cell stands for, what is hidden; and the text.

    `named` says that tokens stand beside the maps.
    """
    scale, bent = keys.of_scale(drawn.scale), BENDS[drawn.bend]
    colors = replace(scale, meaning=f"{scale.meaning} ({bent})" if bent else scale.meaning)
    hidden = "grey = hidden by the mask" if drawn.hides else ""
    border = "" if drawn.reads.border is None else GOES_ON
    texts = [] if named else _texts(drawn)
    cut = [fitted(text, letters.note, letters.note, room)[0] for text in texts]
    return [colors, *(Key(part) for part in (drawn.pooled, hidden, border, *cut) if part)]


def _texts(drawn: Overview) -> list[str]:
    """The tokens of the rows and of the columns, as a text."""
    rows, columns = _text_of(drawn.reads), _text_of(drawn.read)
    return [rows] if rows == columns else [f"rows: {rows}", f"columns: {columns}"]


def _text_of(tokens: Axis) -> str:
    spaced = tokens.spaced or (True,) * len(tokens)
    words = zip(tokens.labels, spaced, strict=True)
    return "".join(f"{' ' * space}{label}" for label, space in words).strip()


def _in_lines(drawn: Overview, letters: Lettering, room: float) -> list[list[int]]:
    """The places of flags in lines that are no wider."""
    found, left = list[list[int]](), room
    for number, flag in enumerate(drawn.flags):
        needed = _needed(_one_line(drawn, flag), letters.axis)
        if not found or left + needed > room:
            found.append([])
            left = 0.0
        found[-1].append(number)
        left += needed
    return found


def _needed(told: Pieces, size: float) -> float:
    return (SIDE + GAP + BETWEEN) * size * POINT + _wide(told, size)


def _one_line(drawn: Overview, flag: Flag) -> Pieces:
    return ((f"{flag.kind} ", False), (drawn.names[flag.map], True), (f" {flag.number}", False))


def _two_lines(drawn: Overview, flag: Flag) -> tuple[Pieces, Pieces]:
    above = ((drawn.names[flag.map], True), (f" {flag.number}", False))
    return above, ((flag.kind, False),)


def _wide(pieces: Pieces, size: float) -> float:
    return sum(text_width(text, size) * (BOLD if bold else 1.0) for text, bold in pieces)


def _words(
    pieces: Pieces, x: float, y: float, size: float, *, faint: bool = False
) -> Iterator[Words]:
    for piece in pieces:
        yield Words(piece[0], x, y, size, bold=piece[1], faint=faint)
        x += _wide((piece,), size)
