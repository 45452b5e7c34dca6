"""What is read of each word as bars, the longest first; all lengths are inches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from attnviz.renderers.picture.labels import MIDDLE
from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.paragraph import tint_of
from attnviz.renderers.picture.placed import Block, Box, Layout, Words, empty_layout
from attnviz.renderers.picture.ticks import shortened, text_width
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.numbers import cell_format

LOWEST, HIGHEST = 1.45, 2.6  # a row, in sizes of its letters
SHORTEST = 5.0  # a bar that is as long as can be
BETWEEN = 1.5  # two columns
BESIDE = 0.5  # a bar, on either side
BAR_HEIGHT = 0.66  # of its row
TRACK = 0.8  # points: the line around the whole scale


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows of words, bars and numbers, in columns side by side."""

    sentence: Sentence
    size: float  # points
    columns: int
    rows: int
    width: float  # of one column,
    wide: float  # and of all

    @property
    def unit(self) -> float:
        return self.size * POINT

    @property
    def shown(self) -> list[int]:
        """The words that have a row: all, or one fewer than fit, for a line says how many more."""
        every, most = self.sentence.bars, self.rows * self.columns
        return every if len(every) <= most else every[: max(most - 1, 0)]

    @property
    def left_out(self) -> str:
        """How many more there are, and how much is read of them, as far as there is room."""
        rest = self.sentence.bars[len(self.shown) :]
        if not rest:
            return ""
        together = cell_format(self.sentence.grid, 2)(
            float(self.sentence.grid.values[0][rest].sum())
        )
        most, fewest = f"and {len(rest):,} more, {together} together", f"{len(rest):,} more"
        told = (most, f"{len(rest):,} more: {together}", fewest)
        return next((text for text in told if text_width(text, self.size) <= self.width), fewest)

    @property
    def height(self) -> float:
        return self.rows * LOWEST * self.unit


def ranking(sentence: Sentence, size: float, width: float, height: float) -> Ranking:
    """All words in as few columns as hold them, or as many as there is room for."""
    count, unit = len(sentence.bars), size * POINT
    rows = max(int(height / (LOWEST * unit) + 1e-6), 0)
    needed = _label_width(sentence, size) + _number_width(sentence, size)
    least = needed + (SHORTEST + 2 * BESIDE) * unit
    most = max(int((width + BETWEEN * unit) / (least + BETWEEN * unit)), 1)
    columns = min(max(math.ceil(count / max(rows, 1)), 1), most)
    wide = (width - (columns - 1) * BETWEEN * unit) / columns
    if wide < needed + 2 * BESIDE * unit:
        rows = 0
    return Ranking(sentence, size, columns, min(rows, math.ceil(count / columns)), wide, width)


def drawn(each: Ranking, left: float, top: float, height: float) -> Layout:
    """The rows, spread over the height as far as becomes them."""
    if not each.rows:
        return empty_layout()
    row = min(max(height / each.rows, LOWEST * each.unit), HIGHEST * each.unit)
    blocks: list[Block] = []
    words: list[Words] = []
    for place, column in enumerate(each.shown):
        box = _row_box(each, place, left, top, row)
        blocks += _bar(each, column, box)
        words += _words(each, column, box)
    if each.left_out:
        x, y, _, _ = _row_box(each, len(each.shown), left, top, row)
        foot = y + row / 2 - MIDDLE * each.unit
        words.append(Words(each.left_out, x, foot, each.size, faint=True))
    return replace(empty_layout(), blocks=tuple(blocks), words=tuple(words))


def _row_box(each: Ranking, place: int, left: float, top: float, row: float) -> Box:
    across, down = divmod(place, each.rows)
    x = left + across * (each.width + BETWEEN * each.unit)
    return x, top - (down + 1) * row, each.width, row


def _bar(each: Ranking, column: int, box: Box) -> Iterator[Block]:
    """A bar in its colour, and a line around as much as it could be."""
    left, bottom, width, row = box
    before = _label_width(each.sentence, each.size) + BESIDE * each.unit
    after = _number_width(each.sentence, each.size) + BESIDE * each.unit
    tint, long = tint_of(each.sentence, column), width - before - after
    foot, high = bottom + row * (1 - BAR_HEIGHT) / 2, row * BAR_HEIGHT
    yield Block((left + before, foot, long * tint.share, high), tint)
    yield Block((left + before, foot, long, high), outlined=TRACK, faint=True)


def _words(each: Ranking, column: int, box: Box) -> Iterator[Words]:
    left, bottom, width, row = box
    foot = bottom + row / 2 - MIDDLE * each.unit
    yield Words(_label(each.sentence, column), left, foot, each.size)
    yield Words(_number(each.sentence, column), left + width, foot, each.size, across="right")


def _label(sentence: Sentence, column: int) -> str:
    return shortened(sentence.grid.columns.names[column])


def _number(sentence: Sentence, column: int) -> str:
    return cell_format(sentence.grid, 2)(float(sentence.grid.values[0, column]))


@lru_cache(maxsize=256)  # asked for again and again while a sentence finds its size
def _label_width(sentence: Sentence, size: float) -> float:
    return max(
        (text_width(_label(sentence, column), size) for column in sentence.bars), default=0.0
    )


@lru_cache(maxsize=256)
def _number_width(sentence: Sentence, size: float) -> float:
    return max(
        (text_width(_number(sentence, column), size) for column in sentence.bars), default=0.0
    )
