"""Keys below a picture: what colours, letters and frames mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters

import numpy as np

from attnviz.renderers.picture import keys
from attnviz.renderers.picture.items import (
    Bar,
    Block,
    Box,
    Layout,
    Tint,
    Words,
    empty_layout,
    joined,
)
from attnviz.renderers.picture.lettering import POINT, Lettering, typeset
from attnviz.renderers.picture.texts import BOLD, MIDDLE, fitted
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.axes import GENERATED_NOTE, Axis
from attnviz.views.grids.overview import COLOR_SCALE_NOTES, Flag, Overview
from attnviz.views.grids.scales import Scale
from attnviz.wording.numbers import short_text

LEADING = 1.6  # from one line to the next
BAR, SWATCH = (6.0, 0.75), (1.5, 1.0)  # how wide and how high they are, in sizes of the letters
GAP, BESIDE = 2.0, 0.4  # between two keys, and between a sample and its words
OUTLINE = 1.5  # points


@dataclass(frozen=True)
class Key:
    """A sample, and what it means: a whole scale, the look of a word, or nothing but words."""

    meaning: str
    scale: Scale | None = None
    block: Block | None = None  # wherever it stands

    @property
    def before(self) -> str:
        if self.scale is None:
            return ""
        below = "≤ " if self.scale.covers_smaller else ""
        return typeset(f"{self.scale.name} {below}{self.scale.low:g}")

    @property
    def sample(self) -> tuple[float, float]:
        if self.scale is not None:
            return BAR
        return SWATCH if self.block is not None else (0.0, 0.0)

    def width(self, size: float) -> float:
        beside = BESIDE * (bool(self.before) + bool(self.sample[0]))
        words = text_width(self.before, size) + text_width(self.meaning, size)
        return words + (self.sample[0] + beside) * size * POINT


def of_scale(scale: Scale) -> Key:
    """`weight 0 ▭ 1`; of one whose colours are bent the number in the middle, too."""
    end = f"{'≥ ' if scale.is_exceeded else ''}{scale.high:g}"
    if scale.bend == "straight":
        return Key(typeset(end), scale)
    middle = float(scale.values_at(np.array(0.5)))
    return Key(typeset(f"{end}, {short_text(middle)} in the middle"), scale)


def of_hidden(scale: Scale) -> Key:
    return Key("hidden by the mask", block=Block((0, 0, 0, 0), Tint(scale, None)))


def of_query(meaning: str) -> Key:
    return Key(meaning, block=Block((0, 0, 0, 0), outlined=OUTLINE))


def height(keys: Sequence[Key], width: float, size: float) -> float:
    """What they need, and a little above them."""
    lines = len(_lines(keys, width, size))
    return (lines * LEADING + 0.4) * size * POINT if lines else 0.0


def drawn(keys: Sequence[Key], room: Box, size: float) -> Layout:
    """From the left, in as many lines as they need, at the foot of the room."""
    left, bottom, width, _ = room
    lines = _lines(keys, width, size)
    return joined([
        _line(line, left, bottom + place * LEADING * size * POINT, size)
        for place, line in enumerate(reversed(lines))
    ])  # fmt: skip


def _lines(keys: Sequence[Key], width: float, size: float) -> list[list[Key]]:
    lines: list[list[Key]] = []
    left = 0.0
    for key in keys:
        needed = key.width(size) + GAP * size * POINT
        if not lines or left + needed > width + GAP * size * POINT:
            lines.append([])
            left = 0.0
        lines[-1].append(key)
        left += needed
    return lines


def _line(line: Sequence[Key], x: float, y: float, size: float) -> Layout:
    layouts = []
    for key in line:
        layouts.append(_key(key, x, y, size))
        x += key.width(size) + GAP * size * POINT
    return joined(layouts)


def _key(key: Key, x: float, y: float, size: float) -> Layout:
    unit = size * POINT
    (width, high), words = key.sample, list(_words(key, x, y, size))
    start = x + (text_width(key.before, size) + BESIDE * unit if key.before else 0.0)
    box = (start, y + (MIDDLE - high / 2) * unit, width * unit, high * unit)
    bars = () if key.scale is None else (Bar(key.scale, box),)
    blocks = () if key.block is None else (replace(key.block, box=box),)
    return replace(empty_layout(), bars=bars, blocks=blocks, words=tuple(words))


def _words(key: Key, x: float, y: float, size: float) -> Iterator[Words]:
    if key.before:
        yield Words(key.before, x, y, size, faint=True)
    start = x + key.width(size) - text_width(key.meaning, size)
    yield Words(key.meaning, start, y, size, faint=True)


ACCENT = 0  # the colour of frames and letters, among those of lines
SIDE = 1.35  # of a letter's box, in letters
PART = 0.26  # of a map, its letter may take
TAG_GAP = 0.5  # between a letter and its words, in letters
BETWEEN = 1.8  # between two of them in a line
LINE = 1.8  # from one line to the next, in letters
PAIR, TAG_LEADING = 1.2, 1.5  # from a name to what stands below it, and from there to the next

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
    return (SIDE + TAG_GAP) * size * POINT + widest if widest else 0.0


def column_height(drawn: Overview, letters: Lettering) -> float:
    return len(drawn.flags) * (PAIR + TAG_LEADING) * letters.axis * POINT


def column(drawn: Overview, room: Box, letters: Lettering) -> Layout:
    """What each letter means, in two lines, from the top."""
    left, bottom, _, high = room
    needed = column_height(drawn, letters)
    size = max(letters.axis * min(high / max(needed, 1e-6), 1.0), letters.smallest)
    letter, y = size * POINT, bottom + high - size * POINT
    layouts = []
    for number, flag in enumerate(drawn.flags):
        above, under = _two_lines(drawn, flag)
        x = left + (SIDE + TAG_GAP) * letter
        words = (
            *_tag_words(above, x, y, size),
            *_tag_words(under, x, y - PAIR * letter, size, faint=True),
        )
        layouts += [tag(number, left + SIDE * letter, y + letter, size)]
        layouts += [replace(empty_layout(), words=words)]
        y -= (PAIR + TAG_LEADING) * letter
    return joined(layouts)


def tags_height(drawn: Overview, letters: Lettering, room: float) -> float:
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
            words = tuple(_tag_words(told, x + (SIDE + TAG_GAP) * letter, y, size))
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
    scale, bent = keys.of_scale(drawn.scale), COLOR_SCALE_NOTES[drawn.bend]
    colors = replace(scale, meaning=f"{scale.meaning} ({bent})" if bent else scale.meaning)
    hidden = "grey = hidden by the mask" if drawn.has_masked_cells else ""
    border = "" if drawn.query_axis.border is None else GENERATED_NOTE
    texts = [] if named else _texts(drawn)
    cut = [fitted(text, letters.note, letters.note, room)[0] for text in texts]
    return [colors, *(Key(part) for part in (drawn.pooled, hidden, border, *cut) if part)]


def _texts(drawn: Overview) -> list[str]:
    """The tokens of the rows and of the columns, as a text."""
    rows, columns = _text_of(drawn.query_axis), _text_of(drawn.key_axis)
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
    return (SIDE + TAG_GAP + BETWEEN) * size * POINT + _wide(told, size)


def _one_line(drawn: Overview, flag: Flag) -> Pieces:
    return (
        (f"{flag.kind} ", False),
        (drawn.names[flag.map_index], True),
        (f" {flag.number}", False),
    )


def _two_lines(drawn: Overview, flag: Flag) -> tuple[Pieces, Pieces]:
    above = ((drawn.names[flag.map_index], True), (f" {flag.number}", False))
    return above, ((flag.kind, False),)


def _wide(pieces: Pieces, size: float) -> float:
    return sum(text_width(text, size) * (BOLD if bold else 1.0) for text, bold in pieces)


def _tag_words(
    pieces: Pieces, x: float, y: float, size: float, *, faint: bool = False
) -> Iterator[Words]:
    for piece in pieces:
        yield Words(piece[0], x, y, size, bold=piece[1], faint=faint)
        x += _wide((piece,), size)
