"""Sentences coloured by the attention of one token, with arcs and bars; in inches.

A panel for each head, all in letters of one size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from attnviz.renderers.picture.bars_list import (
    BAR_COLUMNS_GAP,
    BAR_GAP,
    BarList,
    BarRow,
    bar_columns_and_lines,
    count_bar_lines,
)
from attnviz.renderers.picture.boxes import panes
from attnviz.renderers.picture.fit import smaller_sizes
from attnviz.renderers.picture.items import Arc, Block, Box, Items, Point, Tint, Words, cell_tint
from attnviz.renderers.picture.matrix import title_words
from attnviz.renderers.picture.page_frame import (
    KEY_OUTLINE,
    Drawing,
    Key,
    masked_key,
    refuse_few_words,
    scale_key,
)
from attnviz.renderers.picture.text import (
    HEADING_HEIGHT,
    MIDDLE,
    POINT,
    SLIDE,
    Lettering,
    cached_by_font,
    fit_line,
    shorten_label,
    text_width,
    widest_line,
)
from attnviz.views.grids.number_formats import cell_format
from attnviz.views.grids.words_and_bars import Sentence
from attnviz.wording.words import counted

NEWLINE = "↵"
WORD_PADDING = 0.2  # beside a word, in sizes of its letters
BOX_HEIGHT = 1.5
WORD_GAP, PIECE_GAP = 0.35, 0.05  # between two words, and between two pieces of one
LINE_GAP = 1.0  # two lines, where arcs run
WIDEST_ARC, ARCS_TOGETHER = 0.75, 3.0  # of the size of its letters: one arc, and all of them
FAINTEST_ARC = 0.15  # points: a thinner one is none
FLATTEST_ARC = 0.35  # of the height of the widest arc has one to the next word
# A curve reaches three quarters of the way to the points that it is drawn towards
CURVE_REACH = 4 / 3
QUERY_OUTLINE = 2.0  # points
MAX_WORD_LETTER_SCALE = 2.0  # times the letters of a text, that a short sentence is written in
WORDS_SHARE = 0.65  # of the height, for the words of a sentence that does not fit
LAYER_ROWS_LETTER_SHARE = 0.6  # times as large letters are too small for layers to be rows
PANEL_GAP = 0.3  # between two panels, and above the bars, at most:
BARS_GAP_LETTERS = 1.0  # so many letters
FEW_BARS = 3
# How many bars there must be room for, and how small letters may become for them, as a share of
# those of a text: many bars in large letters, else fewer, else smaller letters, else none.
WISHES = ((10, 1.0), (6, 1.0), (6, 0.8), (3, 0.0), (1, 0.0), (0, 0.0))
NATURAL_WIDTH = 10.0  # of a page with one sentence or two
HEIGHT_SLACK = 1.2  # times as high as it must be is a panel of its own size
FEW_BARS_SCALE = 1.33  # times as large as labels are the words beside few bars
HIGHEST_LIST, HIGHEST_ROW = 40.0, 2.6  # of bars, in letters
HIGHEST_ARCH, ARCH_SHARE = 0.16, 0.4  # of the width of a panel; of the height that is left over
SHORTEST_BAR = 5.0  # letters
FRAMES_FROM = 0.25  # the end of a scale: from here frames of bars end at 1, below bars have none
SMALLEST_BAR, MOST_SMALL_BARS = 0.015, 2  # more bars below it are counted in a line


@dataclass(frozen=True)
class PlacedWord:
    """A word in its place: its column in the grid, its line, and its distance from the left end of
    it.
    """

    text: str
    column: int
    line: int
    left: float
    width: float


@dataclass(frozen=True, eq=False)
class Paragraph:
    """The words of a sentence in lines; of a long one those around the token that attends."""

    sentence: Sentence
    size: float  # points
    words: tuple[PlacedWord, ...]
    words_before: int = 0  # so many words are left out in front,
    words_after: int = 0  # and at the end

    @property
    def unit(self) -> float:
        """The size of a letter, in inches."""
        return self.size * POINT

    @property
    def lines(self) -> int:
        """The number of lines, with those that say how many words are left out."""
        last = max((word.line for word in self.words), default=0)
        return last + 1 + bool(self.words_after)

    @property
    def height(self) -> float:
        return self.lines * (BOX_HEIGHT + LINE_GAP) * self.unit

    def box(self, word: PlacedWord, left: float, top: float) -> Box:
        """Return where a word stands, if the gap above the first line ends at `top`."""
        below = word.line * (BOX_HEIGHT + LINE_GAP) + BOX_HEIGHT
        return left + word.left, top - below * self.unit, word.width, BOX_HEIGHT * self.unit


@cached_by_font(256)  # asked for again for each number of bars that is tried
def paragraph(sentence: Sentence, size: float, width: float) -> Paragraph:
    return Paragraph(sentence, size, tuple(_placed_words(sentence, size, width)))


def _placed_words(sentence: Sentence, size: float, width: float) -> Iterator[PlacedWord]:
    """Yield each word at its place; a line ends where the next word has no room, or behind a ↵."""
    columns, unit = sentence.grid.columns, size * POINT
    line, x, ended = 0, 0.0, False
    for column, label in enumerate(columns.labels):
        text, wide = _fitting_word(label, size, width)
        gap = (WORD_GAP if not columns.spaced or columns.spaced[column] else PIECE_GAP) * unit
        x += gap if x else 0.0
        if x and (ended or x + wide > width + 1e-6):
            line, x = line + 1, 0.0
        yield PlacedWord(text, column, line, x, wide)
        x, ended = x + wide, label.endswith(NEWLINE)


def _fitting_word(label: str, size: float, width: float) -> tuple[str, float]:
    """Return a word, cut if a whole line is not enough for it; and the width of its box."""
    padding = 2 * WORD_PADDING * size * POINT
    wide = text_width(label, size)
    if wide + padding > width:
        label, _ = fit_line(label, size, size, width - padding)
        wide = min(text_width(label, size), width - padding)
    return label, wide + padding


def one_line_size(sentence: Sentence, width: float) -> float:
    """Return the size of letters, in points, in which a whole sentence fills one line.

    It is 0 if the sentence has line breaks.
    """
    if any(label.endswith(NEWLINE) for label in sentence.grid.columns.labels[:-1]):
        return 0.0
    last_word = list(_placed_words(sentence, 10.0, 1e9))[-1]
    return 10.0 * width / (last_word.left + last_word.width)


def lines_around_query(passage: Paragraph, max_lines: int) -> Paragraph:
    """Return at most about `max_lines` lines of a paragraph, around the token that attends.

    Two lines say what is left out; without such a token the first lines are kept.
    """
    last_line = passage.words[-1].line
    if last_line < max_lines:
        return passage
    center = next((word.line for word in passage.words if word.column == passage.sentence.query), 0)
    room = max(max_lines - 2, 1)  # two lines say what is left out
    first_line = min(max(center - room // 2, 0), last_line - room + 1)
    words = [word for word in passage.words if first_line <= word.line < first_line + room]
    before, after = words[0].column, len(passage.words) - words[-1].column - 1
    shift = first_line - bool(before)
    return replace(
        passage,
        words=tuple(replace(word, line=word.line - shift) for word in words),
        words_before=before,
        words_after=after,
    )


def paragraph_items(passage: Paragraph, left: float, top: float, arch: float) -> Items:
    """Yield the lines, arcs and notes of a paragraph, with `arch` inches for arcs above the first
    line.
    """
    top -= arch
    boxes = {word.column: passage.box(word, left, top) for word in passage.words}
    yield from _word_arcs(passage, boxes, arch)
    yield from _word_blocks(passage, boxes)
    yield from _word_texts(passage, boxes)
    yield from _left_out_words(passage, left, top)


def _word_blocks(passage: Paragraph, boxes: dict[int, Box]) -> Iterator[Block]:
    """Yield a box in its colour for each word, with a line around the token that attends."""
    for column, box in boxes.items():
        outlined = QUERY_OUTLINE if column == passage.sentence.query else 0.0
        yield Block(box, cell_tint(passage.sentence.grid, 0, column), outlined)


def _word_texts(passage: Paragraph, boxes: dict[int, Box]) -> Iterator[Words]:
    """Yield the words that are written so far, each in the middle of its box."""
    written = passage.sentence.written
    for word in passage.words:
        if written is not None and word.column >= written:
            continue
        left, bottom, width, height = boxes[word.column]
        tint = cell_tint(passage.sentence.grid, 0, word.column)
        x, y = left + width / 2, bottom + height / 2 - MIDDLE * passage.unit
        faint = tint.value is None
        yield Words(word.text, x, y, passage.size, faint=faint, halign="center", background=tint)


def _left_out_words(passage: Paragraph, left: float, top: float) -> Iterator[Words]:
    """Yield `… 12 tokens before` and `… 3 tokens after`, if there are such."""
    notes = ((passage.words_before, 0, "before"), (passage.words_after, passage.lines - 1, "after"))
    for count, line, where in notes:
        if count:
            _, bottom, _, height = passage.box(PlacedWord("", 0, line, 0.0, 0.0), left, top)
            y = bottom + height / 2 - MIDDLE * passage.unit
            yield Words(f"… {counted(count, 'token')} {where}", left, y, passage.size, faint=True)


def _word_arcs(passage: Paragraph, boxes: dict[int, Box], arch: float) -> Iterator[Arc]:
    """Yield arcs from the token that attends to all others, the thickest on top; too thin ones are
    left out.

    How much it attends to itself, its colour and its bar tell.
    """
    query = passage.sentence.query
    if query is None or query not in boxes:
        return
    farthest = max(abs(_box_middle(box) - _box_middle(boxes[query])) for box in boxes.values())
    for column in reversed(passage.sentence.most_read):
        tint = cell_tint(passage.sentence.grid, 0, column)
        width = arc_width(tint, WIDEST_ARC, ARCS_TOGETHER) * passage.size
        if column in boxes and column != query and width >= FAINTEST_ARC:
            heights = arch, LINE_GAP * passage.unit
            points = _word_curve(boxes[query], boxes[column], heights, farthest)
            yield Arc(points, width, tint)


def arc_width(tint: Tint, widest: float, together: float) -> float:
    """Return the width of a line, as its weight is, in the unit of `widest` and `together`.

    It is `widest` at the end of the scale, and no more than the value times `together`: among many
    tokens scales end so early that all lines would be wide.
    """
    return min(tint.share * widest, max(tint.value or 0.0, 0.0) * together)


def _word_curve(
    start: Box, end: Box, heights: tuple[float, float], farthest: float
) -> tuple[Point, Point, Point, Point]:
    """Return the four points of an arch between two words.

    On one line it rises to a share of the room above; from line to line it leaves and arrives
    upright. `heights` are the room above the first line and that between two lines.
    """
    (x, to_x), top = (_box_middle(start), _box_middle(end)), start[1] + start[3]
    above_first, between = heights
    if abs(start[1] - end[1]) > 1e-6:
        up = end[1] > start[1]
        y, to_y = (top, end[1]) if up else (start[1], end[1] + end[3])
        bend = between if up else -between
        return (x, y), (x, y + bend), (to_x, to_y - bend), (to_x, to_y)
    share = FLATTEST_ARC + (1 - FLATTEST_ARC) * abs(x - to_x) / max(farthest, 1e-6)
    high = top + share * above_first * CURVE_REACH * 0.9
    return (x, top), (x, high), (to_x, high), (to_x, top)


def _box_middle(box: Box) -> float:
    return box[0] + box[2] / 2


@dataclass(frozen=True, eq=False)
class SentencePanel:
    """A sentence in its room: its words in lines, its bars, and which of the WISHES it grants."""

    sentence: Sentence
    words: Paragraph
    bars: BarList
    heading_height: float
    wish: int  # which one of the wishes could be granted

    @property
    def height(self) -> float:
        gap = _gap_above_bars(self.words) if self.bars.lines else 0.0
        return self.heading_height + self.words.height + gap + self.bars.height

    @property
    def worth(self) -> tuple[int, float]:
        """What to compare panels by: the earlier wish is better, then larger letters."""
        return -self.wish, self.words.size


@dataclass(frozen=True)
class SentenceDrawing(Drawing):
    """As many panels side by side as let their letters be largest; or a row for each layer."""

    sentences: tuple[Sentence, ...]
    per_layer: int = 0

    @property
    def width(self) -> float:
        return NATURAL_WIDTH if len(self.sentences) <= 2 else SLIDE[0]

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height its panels need, two of them side by side, or up to four that make up a
        layer.
        """
        count, per_layer = len(self.sentences), self.per_layer
        across = per_layer if per_layer in range(1, 5) else min(count, 2)
        wide, rows = (width - (across - 1) * PANEL_GAP) / across, math.ceil(count / across)
        panels = (_sentence_panel(each, wide, letters.text, letters) for each in self.sentences)
        return rows * max(panel.height for panel in panels) * HEIGHT_SLACK + (rows - 1) * PANEL_GAP

    def body(self, room: Box, letters: Lettering) -> Items:
        panels, across = _best_panels(self, room, letters)
        max_lines = max(panel.bars.lines for panel in panels)
        for panel, box in zip(panels, panes(len(panels), across, room, PANEL_GAP), strict=True):
            yield from _sentence_items(panel, box, max_lines)

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return a number that is larger, the earlier a wish (for many bars in large letters) is
        granted.
        """
        panels, _ = _best_panels(self, self.room_above_keys(room, letters), letters)
        return len(WISHES) - max(panel.wish for panel in panels)

    def crowded_out_text(self, room: Box, letters: Lettering) -> str:
        """Return 'all bars' if most have no room, and more would be shown on a page for each head;
        else "".
        """
        panels, _ = _best_panels(self, self.room_above_keys(room, letters), letters)
        lacks_bars = any(len(p.bars.shown_rows) < min(FEW_BARS, len(p.bars.rows)) for p in panels)
        single = SentenceDrawing(self.sentences[:1]).legibility(room, letters)
        return "all bars" if lacks_bars and single > self.legibility(room, letters) else ""

    def refuse(self, room: Box, letters: Lettering) -> None:
        """Refuse so many heads on one page that most of their words could not be written."""
        if len(self.sentences) > 1:
            above_keys = self.room_above_keys(room, letters)
            first, count = self.sentences[0], len(self.sentences)
            counts = (_written_words(first, number, above_keys, letters) for number in (count, 1))
            refuse_few_words("sentences", self.sentences, *counts)

    def keys(self) -> list[Key]:
        """Return what colours, the line around a word, and the look of hidden words mean."""
        scales = dict.fromkeys(sentence.grid.scale for sentence in self.sentences)
        meanings = [scale_key(scale) for scale in scales]
        if any(sentence.query is not None for sentence in self.sentences):
            outline = Block((0, 0, 0, 0), outlined=KEY_OUTLINE)
            meanings.append(Key("the token that attends", block=outline))
        if any(sentence.grid.hidden.any() for sentence in self.sentences):
            meanings.append(masked_key(next(iter(scales))))
        return meanings


def _written_words(sentence: Sentence, count: int, room: Box, letters: Lettering) -> int:
    """Return how many words have room in the smallest letters, uncut, where so many sentences like
    this one stand on a page."""
    written = [0]
    for across in range(1, count + 1):
        _, _, width, height = panes(count, across, room, PANEL_GAP)[0]
        panel = _sentence_panel(sentence, width, letters.smallest, letters, height)
        panel = _shortened_panel(panel, height)
        if panel.heading_height + panel.words.height <= height:
            labels, words = sentence.grid.columns.labels, panel.words.words
            written.append(sum(word.text == labels[word.column] for word in words))
    return max(written)


@cached_by_font(4)  # asked for again: what is legible, what has no room, and where all stands
def _best_panels(
    drawing: SentenceDrawing, room: Box, letters: Lettering
) -> tuple[list[SentencePanel], int]:
    """Return the panels that can have most bars and largest letters, and how many are side by side.

    A row for each layer is preferred, unless that leaves far smaller letters, or no bars.
    """
    sentences, per_layer = drawing.sentences, drawing.per_layer
    across = range(1, len(sentences) + 1)
    choices = [(_panels_across(sentences, count, room, letters), count) for count in across]
    best = max(choices, key=lambda choice: min(panel.worth for panel in choice[0]))
    if not per_layer:
        return best
    layers = choices[per_layer - 1]
    large = layers[0][0].words.size >= LAYER_ROWS_LETTER_SHARE * best[0][0].words.size
    bars = all(panel.bars.shown_rows for panel in layers[0]) or not best[0][0].bars.shown_rows
    return layers if large and bars else best


def _panels_across(
    sentences: Sequence[Sentence], across: int, room: Box, letters: Lettering
) -> list[SentencePanel]:
    """Return panels with `across` side by side, all in letters of one size, so that none looks more
    important.
    """
    _, _, width, height = panes(len(sentences), across, room, PANEL_GAP)[0]
    largest = [_largest_panel(each, width, height, letters) for each in sentences]
    size = min(panel.words.size for panel in largest)
    wish = max(panel.wish for panel in largest)
    panels = (_sentence_panel(each, width, size, letters, height, wish) for each in sentences)
    return [_shortened_panel(panel, height) for panel in panels]


def _largest_panel(
    sentence: Sentence, width: float, height: float, letters: Lettering
) -> SentencePanel:
    """Return the panel of the first wish (of bars and letters) that fits, in the largest letters.

    If none fits, it is in the smallest letters, as on a page of any height.
    """
    largest = letters.grown(letters.text, MAX_WORD_LETTER_SCALE)
    one_line = min(one_line_size(sentence, width), largest)
    first_sizes = [one_line] if one_line >= letters.text else []
    for wish, (bars, share) in enumerate(WISHES):
        smallest = max(share * letters.text, letters.smallest)
        for size in (*first_sizes, *smaller_sizes(largest, smallest)):
            panel = _sentence_panel(sentence, width, size, letters, height, wish)
            enough = len(panel.bars.shown_rows) >= min(bars, len(sentence.bars))
            if panel.height <= height and enough:
                return panel
    return _sentence_panel(sentence, width, letters.smallest, letters)


def _sentence_panel(
    sentence: Sentence,
    width: float,
    size: float,
    letters: Lettering,
    height: float = math.inf,
    wish: int = len(WISHES),
) -> SentencePanel:
    """Return a panel in letters of `size` points, with as many bars as have room in this height.

    `wish` is the place in WISHES that the panel grants.
    """
    words = paragraph(sentence, size, width)
    heading = min(size, letters.title) * POINT * HEADING_HEIGHT if sentence.grid.title else 0.0
    spare = height - heading - words.height - _gap_above_bars(words)
    spare = min(spare, HIGHEST_LIST * letters.label * POINT)
    for max_size in (letters.grown(letters.label, FEW_BARS_SCALE), letters.label):
        bars = word_bars(sentence, max(min(size, max_size), letters.smallest), width, spare)
        if bars.columns == 1 and not bars.remainder_text:
            break
    return SentencePanel(sentence, words, bars, heading, wish)


def _shortened_panel(panel: SentencePanel, height: float) -> SentencePanel:
    """Return a panel as it is, or, if it is higher than this, cut to fit.

    What is left are the lines around the token that attends, and fewer bars below them.
    """
    if panel.height <= height:
        return panel
    words, bars, room = panel.words, panel.bars, height - panel.heading_height
    line = words.height / words.lines
    passage = lines_around_query(words, max(int(room * WORDS_SHARE / line), 1))
    width = bars.columns * (bars.width + BAR_COLUMNS_GAP * bars.unit) - BAR_COLUMNS_GAP * bars.unit
    spare = room - passage.height - _gap_above_bars(passage)
    return replace(panel, words=passage, bars=word_bars(panel.sentence, bars.size, width, spare))


def _gap_above_bars(words: Paragraph) -> float:
    return min(PANEL_GAP, BARS_GAP_LETTERS * words.unit)


def word_bars(sentence: Sentence, size: float, width: float, height: float) -> BarList:
    """Return bars of all words in as few columns as hold them, or as many as have room.

    No bars are drawn in a column too narrow for labels and numbers.
    """
    rows, unit = _word_rows(sentence), size * POINT
    labels, numbers = ([row.label for row in rows], [row.number for row in rows])
    between = BAR_COLUMNS_GAP * unit
    needed = (
        widest_line(tuple(labels), size) + widest_line(tuple(numbers), size) + 2 * BAR_GAP * unit
    )
    max_columns = max(int((width + between) / (needed + SHORTEST_BAR * unit + between)), 1)
    bar_count = _bars_worth_showing(sentence)
    places = bar_count + (bar_count < len(rows))
    columns, lines = bar_columns_and_lines(places, count_bar_lines(height, size), max_columns)
    wide = (width - (columns - 1) * between) / columns

    def more(start: int) -> list[str]:
        """Return lines that count the words from `start` on and add up their weights, longest
        first.
        """
        grid, rest = sentence.grid, sentence.bars[start:]
        together = cell_format(grid, 2)(float(grid.values[0][rest].sum()))
        count = f"{len(rest):,} more"
        return [f"and {count}, {together} together", f"{count}: {together}", count]

    return BarList(
        rows,
        size,
        wide,
        lines if wide >= needed else 0,
        more,
        columns,
        tracked=True,
        framed=_frame_end(sentence) == 1,
        most_rows=bar_count,
    )


def _frame_end(sentence: Sentence) -> float:
    """Return the number of a bar of full length: 1, unless the scale ends so early that all bars
    would be short.
    """
    high = sentence.grid.scale.high
    return 1.0 if high >= FRAMES_FROM else high


def _bars_worth_showing(sentence: Sentence) -> int:
    """Return how many bars are not nearly 0; all if only a few are, or frames of a film may differ
    in that.
    """
    weights = sentence.grid.values[0][sentence.bars]
    small = int((weights < SMALLEST_BAR).sum())
    is_frame = sentence.written is not None or bool(sentence.grid.columns.reserved_labels)
    return len(weights) - (small if MOST_SMALL_BARS < small < len(weights) and not is_frame else 0)


@lru_cache(maxsize=256)  # asked for again and again while a sentence finds its size
def _word_rows(sentence: Sentence) -> tuple[BarRow, ...]:
    """Return a bar for each word that has one, with its label and number."""
    grid, write, end = sentence.grid, cell_format(sentence.grid, 2), _frame_end(sentence)
    labels = [shorten_label(grid.columns.names[column]) for column in sentence.bars]
    tints = [cell_tint(grid, 0, column) for column in sentence.bars]
    return tuple(
        BarRow(label, write(tint.value or 0.0), tint, min((tint.value or 0.0) / end, 1.0))
        for label, tint in zip(labels, tints, strict=True)
    )


def _sentence_items(panel: SentencePanel, box: Box, max_lines: int) -> Items:
    """Yield heading, words and bars, with what is left over shared between arcs and bars.

    `max_lines` is the number of lines of bars in the panel that has most, as all are equally high.
    """
    left, bottom, width, height = box
    top, arch = bottom + height, panel.words.unit
    spare = max(height - panel.height, 0.0)
    if panel.words.lines == 1 and panel.sentence.reads_others:
        arch += min(spare * ARCH_SHARE, HIGHEST_ARCH * width)
    if panel.heading_height:
        grid, size = panel.sentence.grid, panel.heading_height / HEADING_HEIGHT / POINT
        text, points = fit_line(grid.title, size, size, width)
        yield from title_words(text, left, top - size * POINT, points, off=grid.is_all_off)
    top -= panel.heading_height
    yield from paragraph_items(panel.words, left, top, arch)
    top -= panel.words.height + arch - panel.words.unit + _gap_above_bars(panel.words)
    share = panel.bars.lines / max(max_lines, 1)
    yield from panel.bars.items(left, top, (top - bottom) * share, HIGHEST_ROW)
