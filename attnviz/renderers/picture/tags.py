"""The letters that tie framed maps to what is told of them; and the key that tells it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from string import ascii_letters

from attnviz.renderers.picture import keys
from attnviz.renderers.picture.bars import numbers_of
from attnviz.renderers.picture.labels import MIDDLE
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.placed import Bar, Block, Box, Layout, Words, empty_layout, joined
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.overview import Flag, Overview
from attnviz.views.grids.scales import Scale

ACCENT = 0  # the colour of frames and letters, among those of lines
SIDE = 1.35  # of a letter's box, in letters
PART = 0.34  # of a map, its letter may take
BOLD = 1.12  # times as wide as plain letters
GAP = 0.5  # between a letter and its words, in letters
BETWEEN = 1.8  # between two of them in a line
LEADING = 1.8  # from one line to the next, in letters;
PAIR = 1.25  # from a name to what stands below it
SCALE = 4.0  # of a column, its colour bar takes with its numbers
BAR = 9.0, 0.9  # how wide and how high a colour bar is
SMALLER = (1.0, 0.9, 0.8, 0.7, 0.6)  # times as large: letters of a column that is too long

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
    told = [SIDE * size * POINT + GAP * size * POINT + _wide(each, size)
            for flag in drawn.flags for each in _two_lines(drawn, flag)]  # fmt: skip
    return max([*told, BAR[0] * size * POINT + text_width(numbers_of(drawn.scale)[-1], size)])


def column_height(drawn: Overview, letters: Lettering) -> float:
    return (len(drawn.flags) * (PAIR + LEADING) + SCALE) * letters.axis * POINT


def column(drawn: Overview, room: Box, letters: Lettering) -> Layout:
    """From the top: what each letter means, in two lines; then the colours."""
    left, _, _, high = room
    needed = column_height(drawn, letters)
    share = next((each for each in SMALLER if needed * each <= high), SMALLER[-1])
    size = max(letters.axis * share, letters.smallest)
    letter, y = size * POINT, room[1] + high - size * POINT
    layouts = []
    for number, flag in enumerate(drawn.flags):
        above, under = _two_lines(drawn, flag)
        x = left + (SIDE + GAP) * letter
        words = (*_words(above, x, y, size), *_words(under, x, y - PAIR * letter, size, faint=True))
        layouts += [tag(number, left + SIDE * letter, y + letter, size)]
        layouts += [replace(empty_layout(), words=words)]
        y -= (PAIR + LEADING) * letter
    return joined([*layouts, _scale(drawn.scale, left, y, size)])


def _scale(scale: Scale, left: float, top: float, size: float) -> Layout:
    """Its name, the colours, and the numbers at both ends and in the middle."""
    letter = size * POINT
    wide, high = BAR[0] * letter, BAR[1] * letter
    foot = top - 0.5 * letter - high
    words = [Words(scale.label, left, top, size)]
    for text, x in zip(numbers_of(scale), (left, left + wide / 2, left + wide), strict=True):
        across = "left" if x == left else "center"
        words.append(Words(text, x, foot - 1.2 * letter, size, across=across))
    return replace(empty_layout(), bars=(Bar(scale, (left, foot, wide, high)),), words=tuple(words))


def height(drawn: Overview, letters: Lettering, room: float) -> float:
    """Of lines, and a little above them."""
    return (len(_in_lines(drawn, letters, room)) * LEADING + 0.4) * letters.axis * POINT


def lines(drawn: Overview, room: Box, letters: Lettering) -> Layout:
    """What each letter means, and the colours behind the last, in lines from the top."""
    left, bottom, wide, high = room
    letter = letters.axis * POINT
    layouts, y = list[Layout](), bottom + high - 1.4 * letter
    for line in _in_lines(drawn, letters, wide):
        x = left
        for number in line:
            layouts += [_told(drawn, number, x, y, letters)]
            x += _needed(drawn, number, letters)
        y -= LEADING * letter
    return joined(layouts)


def _told(drawn: Overview, number: int, x: float, y: float, letters: Lettering) -> Layout:
    """One of them in its line; behind the last flag are the colours."""
    size, letter = letters.axis, letters.axis * POINT
    if number == len(drawn.flags):
        return keys.drawn([keys.of_scale(drawn.scale)], (x, y, 1e3, letter), size)
    words = tuple(_words(_one_line(drawn, drawn.flags[number]), x + (SIDE + GAP) * letter, y, size))
    named = tag(number, x + SIDE * letter, y + 0.36 * letter + SIDE * letter / 2, size)
    return joined([named, replace(empty_layout(), words=words)])


def _in_lines(drawn: Overview, letters: Lettering, room: float) -> list[list[int]]:
    """The places of flags, and of the colours behind them, in lines that are no wider."""
    found, left = [list[int]()], 0.0
    for number in range(len(drawn.flags) + 1):
        needed = _needed(drawn, number, letters)
        if found[-1] and left + needed > room:
            found.append([])
            left = 0.0
        found[-1].append(number)
        left += needed
    return found


def _needed(drawn: Overview, number: int, letters: Lettering) -> float:
    size, letter = letters.axis, letters.axis * POINT
    if number == len(drawn.flags):
        return keys.of_scale(drawn.scale).width(size)
    told = _wide(_one_line(drawn, drawn.flags[number]), size)
    return (SIDE + GAP + BETWEEN) * letter + told


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
