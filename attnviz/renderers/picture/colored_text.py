"""Texts with coloured tokens, in lines and columns as on a printed page; in inches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.renderers.picture.fit import first_fit, smaller_sizes
from attnviz.renderers.picture.items import Block, Box, Items, Words, cell_tint
from attnviz.renderers.picture.matrix import title_words
from attnviz.renderers.picture.page_frame import Drawing, Key, masked_key, scale_key
from attnviz.renderers.picture.sentence import NATURAL_WIDTH, NEWLINE
from attnviz.renderers.picture.text import (
    MIDDLE,
    POINT,
    Lettering,
    cached_by_font,
    fit_line,
    text_width,
)
from attnviz.views.grids.words_and_bars import Sentence
from attnviz.wording.words import counted

LINE_HEIGHT, BOX_HEIGHT = 1.6, 1.38  # of a line, and of the colour behind a word, in letters
SPACE, PADDING = 0.22, 0.06  # between two words; at each end of one
COLUMN_WIDTH, COLUMN_GAP = 46.0, 2.0  # letters that a line has at most, about; between columns
HEIGHT_SHARE = 1.1  # of the width, up to which a page of its own keeps large letters


@dataclass(frozen=True)
class TextLine:
    """A line of a text: its words as column of the grid, distance from the left, and width."""

    sentence: Sentence
    words: tuple[tuple[int, float, float], ...] = ()
    title: str = ""  # of the text that begins below; then there are no words
    left_out: str = ""  # how many tokens are left out here


@dataclass(frozen=True)
class TextDrawing(Drawing):
    """Texts below each other, in as many columns as make lines that can be read."""

    texts: tuple[Sentence, ...]

    @property
    def width(self) -> float:
        return NATURAL_WIDTH

    def keys(self) -> list[Key]:
        scales = dict.fromkeys(text.grid.scale for text in self.texts)
        hidden = any(text.grid.hidden.any() for text in self.texts)
        return [*map(scale_key, scales), *[masked_key(next(iter(scales)))] * hidden]

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height of all lines, in smaller letters where the page became high."""
        size = first_fit(
            smaller_sizes(letters.text, letters.smallest),
            lambda each: _text_height(self.texts, each, width) <= HEIGHT_SHARE * width,
        )
        return _text_height(self.texts, size, width)

    def body(self, room: Box, letters: Lettering) -> Items:
        """Yield the texts in the largest letters that fit; at worst what is around the largest
        number.
        """
        left, bottom, width, height = room
        size = self._fitting_size(room, letters)
        lines, count = _lines_of_texts(self.texts, size, width), _column_count(size, width)
        pitch = LINE_HEIGHT * size * POINT
        high = min(math.ceil(len(lines) / count), max(int(height / pitch + 1e-6), 1))
        wide = _text_column_width(size, width)
        for number, line in enumerate(_lines_in_room(lines, high * count)):
            column, row = divmod(number, high)
            x = left + column * (wide + COLUMN_GAP * size * POINT)
            yield from _line_items(line, x, bottom + height - (row + 1) * pitch, size, wide)

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return 2 where the texts fit, else 1."""
        room = self.room_above_keys(room, letters)
        return 1 + self._fits(room, self._fitting_size(room, letters))

    def crowded_out_text(self, room: Box, letters: Lettering) -> str:
        """Return 'the whole text' if it has no room; else ""."""
        return "the whole text" if self.legibility(room, letters) == 1 else ""

    def _fitting_size(self, room: Box, letters: Lettering) -> float:
        sizes = smaller_sizes(letters.text, letters.smallest)
        return first_fit(sizes, lambda size: self._fits(room, size))

    def _fits(self, room: Box, size: float) -> bool:
        return _text_height(self.texts, size, room[2]) <= room[3] + 1e-6


def _text_height(texts: tuple[Sentence, ...], size: float, width: float) -> float:
    lines = math.ceil(len(_lines_of_texts(texts, size, width)) / _column_count(size, width))
    return lines * LINE_HEIGHT * size * POINT


def _column_count(size: float, width: float) -> int:
    return max(1, round(width / ((COLUMN_WIDTH + COLUMN_GAP) * size * POINT)))


def _text_column_width(size: float, width: float) -> float:
    count = _column_count(size, width)
    return (width - (count - 1) * COLUMN_GAP * size * POINT) / count


@cached_by_font(32)  # asked for again: what fits, and where all stands
def _lines_of_texts(texts: tuple[Sentence, ...], size: float, width: float) -> Sequence[TextLine]:
    wide = _text_column_width(size, width)
    return [line for text in texts for line in _lines_of_text(text, size, wide)]


def _lines_of_text(text: Sentence, size: float, width: float) -> Iterator[TextLine]:
    """Yield the title and the lines of a text; a line also ends behind the last of some ↵."""
    columns, unit = text.grid.columns, size * POINT
    if text.grid.title:
        yield TextLine(text, title=text.grid.title)
    words: list[tuple[int, float, float]] = []
    x = 0.0
    for column, label in enumerate(columns.labels):
        wide = min(text_width(label, size), width - 2 * PADDING * unit) + 2 * PADDING * unit
        x += SPACE * unit if words and columns.spaced[column] else 0.0
        if words and x + wide > width + 1e-6:
            yield TextLine(text, tuple(words))
            words, x = [], 0.0
        words.append((column, x, wide))
        x += wide
        if label.endswith(NEWLINE) and columns.labels[column + 1 : column + 2] != (NEWLINE,):
            yield TextLine(text, tuple(words))
            words, x = [], 0.0
    if words:
        yield TextLine(text, tuple(words))


def _lines_in_room(lines: Sequence[TextLine], room: int) -> Sequence[TextLine]:
    """Return at most `room` lines: those around the token with the largest number, and before and
    behind them how many tokens are left out.
    """
    if len(lines) <= room:
        return lines
    largest = [max((line.sentence.grid.values[0, column] for column, *_ in line.words), default=0)
               for line in lines]  # fmt: skip
    start = min(max(int(np.argmax(largest)) - room // 2, 0), len(lines) - room)
    shown, stop = [*lines[start : start + room]], start + room
    if start:
        tokens = sum(len(line.words) for line in lines[: start + 1])
        text = f"… {counted(tokens, 'token')} before"
        shown[0] = TextLine(lines[0].sentence, left_out=text)
    if stop < len(lines):
        tokens = sum(len(line.words) for line in lines[stop - 1 :])
        text = f"… {counted(tokens, 'more token')}"
        shown[-1] = TextLine(lines[0].sentence, left_out=text)
    return shown


def _line_items(line: TextLine, left: float, bottom: float, size: float, width: float) -> Items:
    grid, unit = line.sentence.grid, size * POINT
    y = bottom + (BOX_HEIGHT / 2 - MIDDLE) * unit
    if line.left_out:
        yield Words(line.left_out, left, y, size, faint=True)
    if line.title:
        title, points = fit_line(line.title, size, size, width)
        yield from title_words(title, left, y, points, off=grid.is_all_off)
    for column, x, wide in line.words:
        tint = cell_tint(grid, 0, column)
        yield Block((left + x, bottom, wide, BOX_HEIGHT * unit), tint)
        room = wide - 2 * PADDING * unit
        label, points = fit_line(grid.columns.labels[column], size, size, room)
        faint = tint.value is None
        yield Words(label, left + x + PADDING * unit, y, points, faint=faint, background=tint)
