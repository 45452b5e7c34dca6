"""The words of a sentence in lines, coloured by what is read of them, with arcs; in inches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnviz.renderers.picture.items import (
    Arc,
    Block,
    Box,
    Layout,
    Place,
    Tint,
    Words,
    empty_layout,
)
from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.texts import MIDDLE, fitted
from attnviz.renderers.picture.ticks import text_width
from attnviz.views.grids.arcs import Sentence
from attnviz.wording.words import counted

NEWLINE = "↵"
PAD = 0.2  # beside a word, in sizes of its letters
BOX_HEIGHT = 1.5
SPACE, JOINT = 0.35, 0.05  # between two words, and between two pieces of one
BETWEEN = 1.0  # two lines, where arcs run
WIDEST_ARC, TOGETHER = 0.75, 3.0  # of the size of its letters: one arc, and all of them
FAINTEST_ARC = 0.15  # points: a thinner one is none
FLATTEST = 0.35  # of the height of the widest arc has one to the next word
BENT = 4 / 3  # a curve reaches three quarters of the way to the points that it is drawn towards
OUTLINE = 2.0  # points


@dataclass(frozen=True)
class Word:
    """A word in its place: in which line, and how far from its left end."""

    text: str
    column: int
    line: int
    left: float
    width: float


@dataclass(frozen=True, eq=False)
class Paragraph:
    """The words of a sentence in lines; of a long one those around the token that reads."""

    sentence: Sentence
    size: float  # points
    words: tuple[Word, ...]
    before: int = 0  # so many words are left out in front,
    after: int = 0  # and at the end

    @property
    def unit(self) -> float:
        return self.size * POINT

    @property
    def lines(self) -> int:
        last = max((word.line for word in self.words), default=0)
        return last + 1 + bool(self.after)

    @property
    def height(self) -> float:
        """All lines, each with the gap above it."""
        return self.lines * (BOX_HEIGHT + BETWEEN) * self.unit

    def box(self, word: Word, left: float, top: float) -> Box:
        """Where a word stands, if the gap above the first line ends at `top`."""
        below = word.line * (BOX_HEIGHT + BETWEEN) + BOX_HEIGHT
        return left + word.left, top - below * self.unit, word.width, BOX_HEIGHT * self.unit


def paragraph(sentence: Sentence, size: float, width: float) -> Paragraph:
    """As many lines as are needed in letters of this size."""
    return Paragraph(sentence, size, tuple(_words(sentence, size, width)))


def _words(sentence: Sentence, size: float, width: float) -> Iterator[Word]:
    columns, unit = sentence.grid.columns, size * POINT
    line, left, ended = 0, 0.0, False
    for column, label in enumerate(columns.labels):
        text, wide = _fitting(label, size, width)
        gap = (SPACE if not columns.spaced or columns.spaced[column] else JOINT) * unit
        left += gap if left else 0.0
        if left and (ended or left + wide > width + 1e-6):
            line, left = line + 1, 0.0
        yield Word(text, column, line, left, wide)
        left, ended = left + wide, label.endswith(NEWLINE)


def _fitting(label: str, size: float, width: float) -> tuple[str, float]:
    """A word, shortened if a whole line is not enough for it; and the width of its box."""
    around = 2 * PAD * size * POINT
    wide = text_width(label, size)
    if wide + around > width:
        label, _ = fitted(label, size, size, width - around)
        wide = min(text_width(label, size), width - around)
    return label, wide + around


def in_one_line(sentence: Sentence, width: float) -> float:
    """The size of letters in which all of a sentence stands in one line; 0 if it has several."""
    if any(label.endswith(NEWLINE) for label in sentence.grid.columns.labels[:-1]):
        return 0.0
    last = list(_words(sentence, 10.0, 1e9))[-1]
    return 10.0 * width / (last.left + last.width)


def around_the_query(every: Paragraph, most: int) -> Paragraph:
    """No more than so many lines: those around the token that reads."""
    last = every.words[-1].line
    if last < most:
        return every
    at = next((word.line for word in every.words if word.column == every.sentence.query), 0)
    room = max(most - 2, 1)  # two lines say what is left out
    first = min(max(at - room // 2, 0), last - room + 1)
    kept = [word for word in every.words if first <= word.line < first + room]
    before, after = kept[0].column, len(every.words) - kept[-1].column - 1
    down = first - bool(before)
    return replace(
        every,
        words=tuple(replace(word, line=word.line - down) for word in kept),
        before=before,
        after=after,
    )


def drawn(every: Paragraph, left: float, top: float, arch: float) -> Layout:
    """The lines, with so much room for arcs above the first."""
    top -= arch
    boxes = {word.column: every.box(word, left, top) for word in every.words}
    words = [*_written(every, boxes), *_left_out(every, left, top)]
    return replace(
        empty_layout(),
        arcs=tuple(_arcs(every, boxes, arch)),
        blocks=tuple(_blocks(every, boxes)),
        words=tuple(words),
    )


def tint_of(sentence: Sentence, column: int) -> Tint:
    grid = sentence.grid
    hidden = bool(grid.hidden[0, column])
    return Tint(grid.scale, None if hidden else float(grid.values[0, column]), grid.is_off(0))


def _blocks(every: Paragraph, boxes: dict[int, Box]) -> Iterator[Block]:
    for column, box in boxes.items():
        outlined = OUTLINE if column == every.sentence.query else 0.0
        yield Block(box, tint_of(every.sentence, column), outlined)


def _written(every: Paragraph, boxes: dict[int, Box]) -> Iterator[Words]:
    for word in every.words:
        left, bottom, width, height = boxes[word.column]
        tint = tint_of(every.sentence, word.column)
        yield Words(
            word.text, left + width / 2, bottom + height / 2 - MIDDLE * every.unit, every.size,
            faint=tint.value is None, across="center", over=tint,
        )  # fmt: skip


def _left_out(every: Paragraph, left: float, top: float) -> Iterator[Words]:
    places = ((every.before, 0, "before"), (every.after, every.lines - 1, "after"))
    for count, line, where in places:
        if count:
            _, bottom, _, height = every.box(Word("", 0, line, 0.0, 0.0), left, top)
            y = bottom + height / 2 - MIDDLE * every.unit
            yield Words(f"… {counted(count, 'token')} {where}", left, y, every.size, faint=True)


def _arcs(every: Paragraph, boxes: dict[int, Box], arch: float) -> Iterator[Arc]:
    """From the token that reads to all others, the thickest on top.

    What it reads of itself, its colour and its bar tell.
    """
    query = every.sentence.query
    if query is None or query not in boxes:
        return
    farthest = max(abs(_middle(box) - _middle(boxes[query])) for box in boxes.values())
    for column in reversed(every.sentence.most_read):
        tint = tint_of(every.sentence, column)
        width = thickness(tint, WIDEST_ARC, TOGETHER) * every.size
        if column in boxes and column != query and width >= FAINTEST_ARC:
            heights = arch, BETWEEN * every.unit
            points = _bent(boxes[query], boxes[column], heights, farthest)
            yield Arc(points, width, tint)


def thickness(tint: Tint, widest: float, together: float) -> float:
    """As a line's weight is: the widest at the end of the scale, all that one token reads together.

    Among many tokens scales end so early that all lines would be wide.
    """
    return min(tint.share * widest, max(tint.value or 0.0, 0.0) * together)


def _bent(
    start: Box, end: Box, heights: tuple[float, float], farthest: float
) -> tuple[Place, Place, Place, Place]:
    """An arch over one line; from line to line a curve that leaves and arrives upright."""
    (x, to_x), top = (_middle(start), _middle(end)), start[1] + start[3]
    above_first, between = heights
    if abs(start[1] - end[1]) > 1e-6:
        up = end[1] > start[1]
        y, to_y = (top, end[1]) if up else (start[1], end[1] + end[3])
        bend = between if up else -between
        return (x, y), (x, y + bend), (to_x, to_y - bend), (to_x, to_y)
    share = FLATTEST + (1 - FLATTEST) * abs(x - to_x) / max(farthest, 1e-6)
    high = top + share * above_first * BENT * 0.9
    return (x, top), (x, high), (to_x, high), (to_x, top)


def _middle(box: Box) -> float:
    return box[0] + box[2] / 2
