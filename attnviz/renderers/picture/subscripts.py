"""Words with small letters below the line, drawn piece by piece; all lengths are inches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.placed import Words
from attnviz.renderers.picture.texts import BOLD
from attnviz.renderers.picture.ticks import text_width
from attnviz.renderers.picture.typesetting import LOWERED

SMALLER, LOWER = 0.78, 0.2  # of the letters beside them: how large they are, and how far below
EDGE = "|"  # behind it spaces have their width, too


def in_pieces(words: Words) -> Iterator[Words]:
    """What stands on the line and what below it, each in its letters and at its place."""
    texts = LOWERED.split(words.text)
    if len(texts) == 1:
        yield words
        return
    pieces = [
        (text, words.size * (SMALLER if place % 2 else 1.0)) for place, text in enumerate(texts)
    ]
    widths = [_width(text, size, bold=words.bold) for text, size in pieces]
    along = {"left": 0.0, "center": -0.5, "right": -1.0}[words.across] * sum(widths)
    for (text, size), width in zip(pieces, widths, strict=True):
        if text:
            below = 0.0 if size == words.size else LOWER * words.size * POINT
            yield _moved(replace(words, text=text, size=size, across="left"), along, below)
        along += width


def _width(text: str, size: float, *, bold: bool) -> float:
    wide = text_width(text + EDGE, size) - text_width(EDGE, size)
    return wide * (BOLD if bold else 1.0)


def _moved(words: Words, along: float, below: float) -> Words:
    """Along its own line, which may be turned, and below it."""
    turn = math.radians(words.angle)
    x = words.x + along * math.cos(turn) + below * math.sin(turn)
    return replace(words, x=x, y=words.y + along * math.sin(turn) - below * math.cos(turn))
