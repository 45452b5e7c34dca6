"""Sentences as one token reads them, a panel for each head, with bars of the words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from attnviz.renderers.picture import keys, paragraph, sentences
from attnviz.renderers.picture.items import Block, Box, Layout, Words, empty_layout, joined
from attnviz.renderers.picture.keys import Key
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering
from attnviz.renderers.picture.paragraph import Paragraph, tint_of
from attnviz.renderers.picture.texts import MIDDLE, fitted, panes, title_words
from attnviz.renderers.picture.ticks import shortened, text_width
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.numbers import cell_format

LARGEST = 2.0  # times the letters of a text, that a short sentence is written in
SMALLER = 0.93  # from one size that is tried to the next
HEADING = 1.7  # the height of a heading, in sizes of its letters
WORDS_SHARE = 0.65  # of the height, for the words of a sentence that does not fit
MUCH_SMALLER = 0.6  # times as large letters are too small for layers to be rows
GAP = 0.3  # between two panels, and above the bars, at most:
FEW_BARS = 3
ABOVE_BARS = 1.0  # so many sizes of the letters
# How many bars there must be room for, and how small letters may become for them, as a share of
# those of a text: many bars in large letters, else fewer, else smaller letters, else none.
WISHES = ((10, 1.0), (6, 1.0), (6, 0.8), (3, 0.0), (1, 0.0), (0, 0.0))
NATURAL_WIDTH = 10.0  # of a page with one sentence or two
AIR = 1.2  # times as high as it must be is a panel of its own size
LARGER = 1.33  # times as large as labels are the words beside few bars
HIGHEST_LIST = 40.0  # of bars, in sizes of its letters
HIGHEST_ARCH = 0.16  # of the width of a panel
ARCH_SHARE = 0.4  # of the height that is left over


@dataclass(frozen=True, eq=False)
class Panel:
    """A sentence in its room: which letters it has, and how many bars."""

    sentence: Sentence
    words: Paragraph
    bars: Ranking
    heading: float
    wish: int  # which one of the wishes could be granted

    @property
    def height(self) -> float:
        gap = _above_bars(self.words) if self.bars.rows else 0.0
        return self.heading + self.words.height + gap + self.bars.height

    @property
    def worth(self) -> tuple[int, float]:
        """The earlier wish is better, then larger letters."""
        return -self.wish, self.words.size


def natural_width(drawn: Sequence[Sentence]) -> float:
    return NATURAL_WIDTH if len(drawn) <= 2 else SLIDE[0]


def natural_height(
    drawn: Sequence[Sentence], in_a_layer: int, letters: Lettering, width: float
) -> float:
    """As high as its panels need to be, two of them side by side, or all of a layer."""
    across = in_a_layer if in_a_layer in range(1, 5) else min(len(drawn), 2)
    wide = (width - (across - 1) * GAP) / across
    high = max(_in_letters(each, wide, letters.text, letters).height for each in drawn)
    rows = math.ceil(len(drawn) / across)
    foot = keys.height(_keys(drawn), width, letters.axis)
    return rows * high * AIR + (rows - 1) * GAP + foot


def place(drawn: Sequence[Sentence], in_a_layer: int, room: Box, letters: Lettering) -> Layout:
    """As many panels side by side as let their letters be largest; below them what they mean."""
    above = _above(drawn, room, letters)
    panels, across = _best(tuple(drawn), in_a_layer, above, letters)
    boxes = panes(len(drawn), across, above, GAP)
    most = max(each.bars.rows for each in panels)
    placed = [_panel(*pair, letters, most) for pair in zip(panels, boxes, strict=True)]
    return joined([*placed, keys.drawn(_keys(drawn), room, letters.axis)])


def legible(drawn: Sequence[Sentence], in_a_layer: int, room: Box, letters: Lettering) -> int:
    """The more, the earlier a wish is granted."""
    panels, _ = _best(tuple(drawn), in_a_layer, _above(drawn, room, letters), letters)
    return len(WISHES) - max(panel.wish for panel in panels)


def crowded(drawn: Sequence[Sentence], in_a_layer: int, room: Box, letters: Lettering) -> str:
    """Whether few of the bars are shown, of which there would be more on a page for each head."""
    panels, _ = _best(tuple(drawn), in_a_layer, _above(drawn, room, letters), letters)
    few = any(len(p.bars.shown) < min(FEW_BARS, len(p.sentence.bars)) for p in panels)
    alone = legible(drawn[:1], 0, room, letters)
    return "all bars" if few and alone > legible(drawn, in_a_layer, room, letters) else ""


def _above(drawn: Sequence[Sentence], room: Box, letters: Lettering) -> Box:
    """What the line that explains colours leaves of a room."""
    left, bottom, width, height = room
    foot = keys.height(_keys(drawn), width, letters.axis)
    return left, bottom + foot, width, height - foot


@lru_cache(maxsize=4)  # asked for again: what is legible, what has no room, and where all stands
def _best(
    drawn: tuple[Sentence, ...], in_a_layer: int, room: Box, letters: Lettering
) -> tuple[list[Panel], int]:
    """A row for each layer, unless that leaves far smaller letters, or no bars."""
    choices = [_panels(drawn, across, room, letters) for across in range(1, len(drawn) + 1)]
    best = max(choices, key=lambda choice: min(each.worth for each in choice[0]))
    if not in_a_layer:
        return best
    layers = choices[in_a_layer - 1]
    large = layers[0][0].words.size >= MUCH_SMALLER * best[0][0].words.size
    bars = all(each.bars.shown for each in layers[0]) or not best[0][0].bars.shown
    return layers if large and bars else best


def _panels(
    drawn: Sequence[Sentence], across: int, room: Box, letters: Lettering
) -> tuple[list[Panel], int]:
    """All in letters of one size, so that none looks more important."""
    _, _, width, height = panes(len(drawn), across, room, GAP)[0]
    panels = [_fitting(each, width, height, letters) for each in drawn]
    size = min(each.words.size for each in panels)
    alike = [_in_letters(each, width, size, letters, height) for each in drawn]
    wish = max(each.wish for each in panels)
    return [_shortened(replace(each, wish=wish), height) for each in alike], across


def _fitting(sentence: Sentence, width: float, height: float, letters: Lettering) -> Panel:
    """The panel of the first wish that can be granted, in the largest letters."""
    for wish, (bars, share) in enumerate(WISHES):
        for size in _sizes(sentence, width, letters, max(share * letters.text, letters.smallest)):
            panel = _in_letters(sentence, width, size, letters, height)
            wanted = min(bars, len(sentence.bars))
            if panel.height <= height and len(panel.bars.shown) >= wanted:
                return replace(panel, wish=wish)
    return replace(_in_letters(sentence, width, letters.smallest, letters), wish=len(WISHES))


def _sizes(
    sentence: Sentence, width: float, letters: Lettering, smallest: float
) -> Iterator[float]:
    """First the one in which all words stand in one line, if it is large; then ever smaller."""
    largest = letters.text * LARGEST
    alone = min(paragraph.in_one_line(sentence, width), largest)
    if alone >= letters.text:
        yield alone
    size = largest
    while size > smallest:
        yield size
        size *= SMALLER
    yield smallest


def _in_letters(
    sentence: Sentence, width: float, size: float, letters: Lettering, height: float = math.inf
) -> Panel:
    """A panel in letters of a size, with as many bars as there is room for."""
    words = paragraph.paragraph(sentence, size, width)
    heading = min(size, letters.title) * POINT * HEADING if sentence.grid.title else 0.0
    spare = height - heading - words.height - _above_bars(words)
    left = min(spare, HIGHEST_LIST * letters.label * POINT)
    for most in (letters.label * LARGER, letters.label):
        small = max(min(size, most), letters.smallest)
        bars = sentences.word_bars(sentence, small, width, left)
        if bars.columns == 1 and not bars.left_out:
            break
    return Panel(sentence, words, bars, heading, len(WISHES))


def _shortened(panel: Panel, height: float) -> Panel:
    """Of a sentence that does not fit the lines around the token that reads, and bars below."""
    if panel.height <= height:
        return panel
    words, room = panel.words, height - panel.heading
    line = words.height / words.lines
    fewer = paragraph.around_the_query(words, max(int(room * WORDS_SHARE / line), 1))
    left = room - fewer.height - _above_bars(fewer)
    bars = sentences.word_bars(panel.sentence, panel.bars.size, panel.bars.wide, left)
    return replace(panel, words=fewer, bars=bars)


def _above_bars(words: Paragraph) -> float:
    return min(GAP, ABOVE_BARS * words.unit)


def _panel(panel: Panel, box: Box, letters: Lettering, most: int) -> Layout:
    """Heading, words and bars, with what is left over shared between arcs and bars.

    A bar is as high as in the panel that has most of them.
    """
    left, bottom, width, height = box
    top = bottom + height
    spare = max(height - panel.height, 0.0)
    arch = panel.words.unit
    if panel.words.lines == 1 and panel.sentence.reads_others:
        arch += min(spare * ARCH_SHARE, HIGHEST_ARCH * width)
    heading = [*_heading(panel, left, top, width)]
    words_top = top - panel.heading
    words = paragraph.drawn(panel.words, left, words_top, arch)
    under = words_top - panel.words.height - (arch - panel.words.unit) - _above_bars(panel.words)
    share = panel.bars.rows / max(most, 1)
    bars = sentences.drawn(panel.bars, left, under, (under - bottom) * share)
    return joined([replace(empty_layout(), words=tuple(heading)), words, bars])


def _heading(panel: Panel, left: float, top: float, width: float) -> Iterator[Words]:
    if panel.heading:
        size = panel.heading / HEADING / POINT
        text, points = fitted(panel.sentence.grid.title, size, size, width)
        off = panel.sentence.grid.is_all_off
        yield from title_words(text, left, top - size * POINT, points, off=off)


def _keys(drawn: Sequence[Sentence]) -> list[Key]:
    """What colours mean, each said once."""
    scales = dict.fromkeys(each.grid.scale for each in drawn)
    meant = [keys.of_scale(scale) for scale in scales]
    if any(each.query is not None for each in drawn):
        meant.append(keys.of_query("the token that attends"))
    if any(each.grid.hidden.any() for each in drawn):
        meant.append(keys.of_hidden(next(iter(scales))))
    return meant


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


def word_bars(sentence: Sentence, size: float, width: float, height: float) -> Ranking:
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
