"""A line below a picture that says what its colours, lines and hatching mean; in inches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnviz.renderers.picture.labels import MIDDLE
from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.placed import (
    Bar,
    Block,
    Box,
    Layout,
    Tint,
    Words,
    empty_layout,
    joined,
)
from attnviz.renderers.picture.ticks import text_width
from attnviz.renderers.picture.typesetting import typeset
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
        below = "≤ " if self.scale.below else ""
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
    end = f"{'≥ ' if scale.beyond else ''}{scale.high:g}"
    if scale.bend == "straight":
        return Key(typeset(end), scale)
    middle = float(scale.at(np.array(0.5)))
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
