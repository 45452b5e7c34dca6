"""Rankings as bars, side by side or below each other; lengths in inches.

Rankings stand side by side, or below each other where that leaves long bars. A remark stands beside
its bar; on a high page that few rows do not fill it stands below, so that bars are longer and
letters larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attnviz.renderers.picture import sentences
from attnviz.renderers.picture.items import Block, Box, Layout, Tint, Words, empty_layout, joined
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering
from attnviz.renderers.picture.texts import MIDDLE, fitted, panes
from attnviz.renderers.picture.ticks import shortened, text_width
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.numbers import cell_format
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.wording.words import counted

ROW, NATURAL_ROW, HIGHEST_ROW = 1.45, 1.67, 8.0  # in sizes of its letters
REMARK_BELOW = 1.5  # what a remark below its bar adds to these
TITLE = 1.9  # the height of a title, in sizes of its letters
GAP = 0.6  # between two rankings,
ABOVE = 0.3  # and between them and what stands above
BESIDE = 0.5  # a bar, on either side, in sizes of the letters
BAR_HEIGHT, THICKEST = 0.66, 3.2  # of its row; in sizes of the letters
MARK_WIDTH, MARK_HEIGHT = 3.0, 1.3  # of a line across a bar: points, and in heights of the bar
MARK_COLOR = 0  # among those of lines
SHORTEST_BAR = 4.0  # in sizes of the letters
REMARK, REMARK_LINE = 0.85, 1.2  # of the letters of a row; from a bar to the foot of one below
NATURAL_ROWS, FEW_ROWS = 10, 5
ROOMY_ROW = 2.3  # where rows could be higher, letters are larger,
LARGEST, LONG_BAR = 1.4, 0.4  # so many times, if the longest bar has so much of the width
SMALLER = 0.93  # from one size that is tried to the next
SENTENCES_SHARE = 0.6  # of a page, that they have at most


@dataclass(frozen=True, eq=False)
class List:
    """Some rows of a ranking, in letters of one size."""

    ranked: RankedBars
    size: float  # points
    rows: int
    below: bool  # whether a remark stands below its bar

    @property
    def unit(self) -> float:
        return self.size * POINT

    @property
    def shown(self) -> int:
        """All, or one fewer than there is room for: a line says how many more there are."""
        count = len(self.ranked.grid.rows)
        return count if count <= self.rows else max(self.rows - 1, 0)

    def label(self, row: int) -> str:
        return shortened(self.ranked.grid.rows.names[row])

    def number(self, row: int) -> str:
        write = cell_format(self.ranked.grid, 2)
        return "" if self.ranked.grid.hidden[row, 0] else write(float(self._value(row)))

    def said(self, row: int) -> str:
        return self.ranked.remark_text(row, cell_format(self.ranked.grid, 2))

    def tint(self, row: int) -> Tint:
        return Tint(self.ranked.grid.scale, float(self._value(row)), self.ranked.grid.is_off(row))

    def widest(self, words: Sequence[str], share: float = 1.0) -> float:
        return max((text_width(each, self.size * share) for each in words), default=0.0)

    def share(self, row: int) -> float:
        """How long a bar is, from 0, whichever sign its number has."""
        return abs(self._value(row)) / self.ranked.full_length

    def _value(self, row: int) -> float:
        return float(self.ranked.grid.values[row, 0])


Drawn = Sequence[Sentence | RankedBars]


def natural_width(drawn: Drawn) -> float:
    return SLIDE[0]


def natural_height(drawn: Drawn, letters: Lettering, width: float) -> float:
    """Room for the sentences, and for a good many rows."""
    read, rankings = _kinds(drawn)
    above = sentences.natural_height(read, 0, letters, width) + ABOVE if read else 0.0
    most = max((len(each.grid.rows) for each in rankings), default=0)
    rows = min(most, NATURAL_ROWS) * NATURAL_ROW * letters.label * POINT
    return above + (TITLE * letters.title * POINT + rows if rankings else 0.0)


def place(drawn: Drawn, room: Box, letters: Lettering) -> Layout:
    """Sentences above, rankings beside each other below."""
    read, rankings = _kinds(drawn)
    left, bottom, width, height = room
    above = 0.0
    if read:
        wanted = sentences.natural_height(read, 0, letters, width) + ABOVE
        above = min(wanted, SENTENCES_SHARE * height) if rankings else height
    upper = (left, bottom + height - above + ABOVE, width, max(above - ABOVE, 0.1))
    layouts = [sentences.place(read, 0, upper, letters)] if read else []
    if rankings:
        room = (left, bottom, width, height - above)
        boxes, lists = _arranged(rankings, room, letters)
        layouts += [_drawn(*pair, letters) for pair in zip(lists, boxes, strict=True)]
    return joined(layouts)


def legible(drawn: Drawn, room: Box, letters: Lettering) -> int:
    """How many rows can be read."""
    _, rankings = _kinds(drawn)
    return len(rankings)


def _kinds(drawn: Drawn) -> tuple[list[Sentence], list[RankedBars]]:
    return (
        [each for each in drawn if isinstance(each, Sentence)],
        [each for each in drawn if isinstance(each, RankedBars)],
    )


def _arranged(
    rankings: Sequence[RankedBars], room: Box, letters: Lettering
) -> tuple[list[Box], list[List]]:
    """In as few columns as show the most rows in letters of the usual size; none is left empty."""
    count = len(rankings)
    ways = list[tuple[list[Box], list[List]]]()
    for across in (each for each in range(1, count + 1) if count % each == 0):
        boxes = panes(count, across, room, GAP)
        ways.append((boxes, _of_one_size(rankings, boxes, letters)))
    # Of ways that are as good `max` takes the first: that with the longest bars.
    return max(
        ways,
        key=lambda way: (sum(each.shown for each in way[1]), min(way[1][0].size, letters.label)),
    )


def _of_one_size(
    rankings: Sequence[RankedBars], boxes: Sequence[Box], letters: Lettering
) -> list[List]:
    """Remarks stand below their bars if all rows then have larger letters."""
    pairs = list(zip(rankings, boxes, strict=True))
    beside = min(_size(*pair, letters) for pair in pairs)
    if any(any(each.remarks) for each in rankings):
        apart = min(_roomy(*pair, letters, below=True) for pair in pairs)
        if apart > max(beside, letters.label):
            return [_with_rows(*pair, apart, letters, below=True) for pair in pairs]
    return [_with_rows(*pair, beside, letters) for pair in pairs]


def _size(ranked: RankedBars, box: Box, letters: Lettering) -> float:
    """The largest letters in which a few rows have room, and a bar has length."""
    size = max(_roomy(ranked, box, letters), letters.label)
    while size > letters.label and not _has_long_bar(ranked, box, size, letters):
        size = max(size * SMALLER, letters.label)
    while size * SMALLER > letters.smallest and not _fits(ranked, box, size, letters):
        size *= SMALLER
    return max(size, letters.smallest)


def _roomy(ranked: RankedBars, box: Box, letters: Lettering, *, below: bool = False) -> float:
    """Letters of the size at which all rows fill the box."""
    room, row = box[3] - _title_height(ranked, letters), ROOMY_ROW + below * REMARK_BELOW
    size = room / (max(len(ranked.grid.rows), 1) * row * POINT)
    return min(size, LARGEST * letters.label)


def _has_long_bar(ranked: RankedBars, box: Box, size: float, letters: Lettering) -> bool:
    return _bar_width(_with_rows(ranked, box, size, letters), box[2]) >= LONG_BAR * box[2]


def _fits(ranked: RankedBars, box: Box, size: float, letters: Lettering) -> bool:
    made = _with_rows(ranked, box, size, letters)
    enough = made.rows >= min(FEW_ROWS, len(ranked.grid.rows))
    return enough and _bar_width(made, box[2]) >= SHORTEST_BAR * made.unit


def _with_rows(
    ranked: RankedBars, box: Box, size: float, letters: Lettering, *, below: bool = False
) -> List:
    left, row = box[3] - _title_height(ranked, letters), ROW + below * REMARK_BELOW
    return List(ranked, size, max(int(left / (row * size * POINT) + 1e-6), 0), below)


def _title_height(ranked: RankedBars, letters: Lettering) -> float:
    return TITLE * letters.title * POINT if ranked.grid.title else 0.0


def _bar_width(made: List, width: float) -> float:
    """What names, numbers and remarks leave."""
    rows = range(made.shown)
    names = made.widest([made.label(row) for row in rows])
    numbers = made.widest([made.number(row) for row in rows])
    remarks = 0.0 if made.below else made.widest([made.said(row) for row in rows], REMARK)
    return width - names - numbers - remarks - 3 * BESIDE * made.unit


def _drawn(made: List, box: Box, letters: Lettering) -> Layout:
    """A title, and the rows below it."""
    left, bottom, width, height = box
    ranked, top = made.ranked, bottom + height
    title, points = fitted(ranked.grid.title, letters.title, letters.smallest, width)
    y = top - letters.title * POINT
    heading = [Words(title, left, y, points)] if title else []
    key = _key(ranked, left + text_width(title, points), y, box, letters)
    top -= _title_height(ranked, letters)
    lines = made.shown + (made.shown < len(ranked.grid.rows))
    high = min(max((top - bottom) / max(lines, 1), ROW * made.unit), HIGHEST_ROW * made.unit)
    boxes = [(left, top - (row + 1) * high, width, high) for row in range(lines)]
    rows = [_row(made, row, boxes[row]) for row in range(made.shown)]
    rest = list(_rest(made, boxes[-1])) if lines > made.shown else []
    return joined([replace(empty_layout(), words=(*heading, *rest)), key, *rows])


def _key(ranked: RankedBars, x: float, y: float, box: Box, letters: Lettering) -> Layout:
    """What the lines across bars are, behind the title where there is room."""
    size, letter = letters.axis, letters.axis * POINT
    start, words = x + 2 * letter, f"mean of the {ranked.mark_title}"
    if not ranked.mark_title or start + letter + text_width(words, size) > box[0] + box[2]:
        return empty_layout()
    mark = _mark(start, y + MIDDLE * letter, letter)
    told = Words(words, start + BESIDE * letter, y, size, faint=True)
    return replace(empty_layout(), words=(told,), blocks=(mark,))


def _rest(made: List, box: Box) -> Iterator[Words]:
    more = counted(len(made.ranked.grid.rows) - made.shown, f"more {made.ranked.unit}")
    yield Words(f"and {more}", box[0], _foot(made, box), made.size, faint=True)


def _row(made: List, row: int, box: Box) -> Layout:
    left, bottom, width, high = box
    rows, unit = range(made.shown), made.unit
    names = made.widest([made.label(each) for each in rows])
    numbers = made.widest([made.number(each) for each in rows])
    start = left + names + numbers + 2 * BESIDE * unit
    long = max(_bar_width(made, width), SHORTEST_BAR * unit)
    under = REMARK_BELOW * unit if made.below else 0.0
    thick, mark = min((high - under) * BAR_HEIGHT, THICKEST * unit), made.ranked.mark_length(row)
    middle = bottom + (high + under) / 2
    foot, size = middle - MIDDLE * unit, made.size * REMARK
    x = start if made.below else start + long + BESIDE * unit
    y = middle - thick / 2 - size * POINT * REMARK_LINE if made.below else foot
    said, points = fitted(made.said(row), size, size, left + width - x + BESIDE * unit)
    words = (
        Words(made.label(row), left, foot, made.size),
        Words(made.number(row), start - BESIDE * unit, foot, made.size, across="right"),
        Words(said, x, y, points, faint=True),
    )
    blocks = [Block((start, middle - thick / 2, long * made.share(row), thick), made.tint(row))]
    if mark is not None:
        blocks.append(_mark(start + long * mark, middle, thick))
    return replace(empty_layout(), words=words, blocks=tuple(blocks))


def _mark(x: float, middle: float, thick: float) -> Block:
    """A line across a bar that is so thick, and a little longer."""
    wide, high = MARK_WIDTH * POINT, MARK_HEIGHT * thick
    return Block((x - wide / 2, middle - high / 2, wide, high), series=MARK_COLOR)


def _foot(made: List, box: Box) -> float:
    return box[1] + box[3] / 2 - MIDDLE * made.unit
