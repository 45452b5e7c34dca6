"""Rankings as bars, side by side or stacked, below their sentences; in inches.

Rankings stand side by side, or below each other where that leaves long bars. A remark stands beside
its bar; on a high page that few rows do not fill it stands below, so that bars are longer and
letters larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnviz.renderers.picture.bars_list import (
    REMARK_HEIGHT,
    BarList,
    BarRow,
    bar_mark,
    count_bar_lines,
    interval_mark,
)
from attnviz.renderers.picture.boxes import panes
from attnviz.renderers.picture.colored_text import TextDrawing
from attnviz.renderers.picture.fit import first_fit, smaller_sizes
from attnviz.renderers.picture.items import Box, Items, Tint, Words
from attnviz.renderers.picture.page_frame import LEADING, Drawing
from attnviz.renderers.picture.sentence import SentenceDrawing
from attnviz.renderers.picture.text import (
    MIDDLE,
    POINT,
    Lettering,
    shorten_label,
    text_width,
    wrap_parts,
)
from attnviz.views.grids.number_formats import cell_format
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.wording.numbers import typeset
from attnviz.wording.words import counted

NATURAL_ROW, ROOMY_ROW, HIGHEST_ROW = 1.67, 2.3, 8.0  # in letters
TITLE_ROOM = 1.9  # the height of a title, in its letters
GAP, LISTS_GAP = 0.6, 0.3  # between two rankings, and between them and what stands above
SHORTEST_BAR = 4.0  # letters
SHORT_REMARK = 12  # letters; for such remarks all letters are made smaller
NATURAL_ROWS, FEW_ROWS = 10, 5
LARGEST_SCALE, LONG_BAR = 1.4, 0.4  # times the letters of labels, if bars have so much of the width
KEY_GAP, KEY_SAMPLE = 2.0, 1.5  # letters: before the key to lines across bars; of its sample
SENTENCES_SHARE = 0.6  # of a page, that they have at most


@dataclass(frozen=True)
class RankingDrawing(Drawing):
    """Sentences above and rankings as bars below; rows that have no room are counted in a line."""

    panels: tuple[Sentence | RankedBars, ...]

    @property
    def rankings(self) -> list[RankedBars]:
        return [panel for panel in self.panels if isinstance(panel, RankedBars)]

    @property
    def sentences(self) -> SentenceDrawing | TextDrawing | None:
        sentences = tuple(panel for panel in self.panels if isinstance(panel, Sentence))
        return draw_sentences(sentences) if sentences else None

    def _sentences_height(self, letters: Lettering, width: float) -> float:
        sentences = self.sentences
        return 0.0 if sentences is None else sentences.height(letters, width) + LISTS_GAP

    def _upper_room(self, room: Box, letters: Lettering) -> Box:
        """Return the room of the sentences: at most 0.6 of the height, or more where rankings do
        not need the rest.
        """
        left, bottom, width, height = room
        most = max(SENTENCES_SHARE * height, height - self._rankings_height(letters, width))
        above = min(self._sentences_height(letters, width), most)
        return left, bottom + height - above + LISTS_GAP, width, max(above - LISTS_GAP, 0.1)

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height for all sentences, and for a title and at most ten rows of
        a ranking.
        """
        return self._sentences_height(letters, width) + self._rankings_height(letters, width)

    def _rankings_height(self, letters: Lettering, width: float) -> float:
        """Return the height for a title and at most ten rows of a ranking."""
        rankings = self.rankings
        row_count = max((len(ranked.grid.rows) for ranked in rankings), default=0)
        rows = min(row_count, NATURAL_ROWS) * NATURAL_ROW * letters.label * POINT
        titles = (_title_height(ranked, width, letters) for ranked in rankings)
        return max(titles, default=0.0) + rows

    def body(self, room: Box, letters: Lettering) -> Items:
        left, bottom, width, height = room
        if sentences := self.sentences:
            upper = self._upper_room(room, letters)
            yield from sentences.items(upper, letters)
            height = upper[1] - LISTS_GAP - bottom
        boxes, lists = _best_bars(self.rankings, (left, bottom, width, height), letters)
        for ranked, bars, box in zip(self.rankings, lists, boxes, strict=True):
            yield from _ranking_items(ranked, bars, box, letters)

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return the number of rankings, whatever the room; below a text, how legible that is."""
        if isinstance(self.sentences, TextDrawing):
            return self.sentences.legibility(self._upper_room(room, letters), letters)
        return len(self.rankings)

    def crowded_out_text(self, room: Box, letters: Lettering) -> str:
        """Return 'the whole text' if there is one above that has no room; else ""."""
        if not isinstance(self.sentences, TextDrawing):
            return ""
        return self.sentences.crowded_out_text(self._upper_room(room, letters), letters)


def draw_sentences(
    sentences: tuple[Sentence, ...], per_layer: int = 0
) -> SentenceDrawing | TextDrawing:
    """Return a drawing of sentences: with bars and arcs, or coloured text where all are texts."""
    if all(sentence.is_whole_text for sentence in sentences):
        return TextDrawing(sentences)
    return SentenceDrawing(sentences, per_layer)


def _best_bars(
    rankings: Sequence[RankedBars], room: Box, letters: Lettering
) -> tuple[list[Box], list[BarList]]:
    """Return a box and a list of bars for each ranking: the arrangement that shows the most rows.

    Among those that show as many, larger letters win, up to the usual size, then fewer columns. No
    arrangement leaves a place empty.
    """
    count = len(rankings)
    across = (columns for columns in range(1, count + 1) if count % columns == 0)
    choices = [panes(count, columns, room, GAP) for columns in across]
    # Of ways that are as good `max` takes the first: that with the longest bars.
    return max(
        ((boxes, _bars_of_one_size(rankings, boxes, letters)) for boxes in choices),
        key=lambda way: (
            sum(len(b.shown_rows) for b in way[1]),
            min(way[1][0].size, letters.label),
        ),
    )


def _bars_of_one_size(
    rankings: Sequence[RankedBars], boxes: Sequence[Box], letters: Lettering
) -> list[BarList]:
    """Return a list of bars for each ranking, all in letters of one size.

    Remarks stand below their bars if all rows then have larger letters, or as large ones but
    longer bars; else beside them.
    """
    pairs = list(zip(rankings, boxes, strict=True))
    size, remarks_below = min(_largest_size(*pair, letters) for pair in pairs), False
    if any(any(ranked.remarks) for ranked in rankings):
        size_below = min(_roomy_size(*pair, letters, REMARK_HEIGHT) for pair in pairs)
        beside = (_bar_list(*pair, size, letters) for pair in pairs)
        short = any(bars.bar_length < LONG_BAR * bars.width for bars in beside)
        if size_below > max(size, letters.label) or (short and size_below >= letters.label):
            size, remarks_below = size_below, True
    return [_bar_list(*pair, size, letters, below=remarks_below) for pair in pairs]


def _largest_size(ranked: RankedBars, box: Box, letters: Lettering) -> float:
    """Return the largest size of letters, in points, in which a few rows and long bars have room.

    It is a label's size or more where bars can be long, smaller to fit five rows or short remarks,
    and at worst the smallest size.
    """
    roomy = max(_roomy_size(ranked, box, letters), letters.label)
    min_rows = min(FEW_ROWS, len(ranked.grid.rows))
    room = box[3] - _title_height(ranked, box[2], letters)

    def has_long_bars(size: float) -> bool:
        return _bar_list(ranked, box, size, letters).bar_length >= LONG_BAR * box[2]

    def fits(size: float) -> bool:
        """Return whether a few rows have room in letters of this size, and their bars
        some length.
        """
        bars = _bar_list(ranked, box, size, letters)
        return (
            count_bar_lines(room, size) >= min_rows and bars.bar_length >= SHORTEST_BAR * bars.unit
        )

    def fits_with_remarks(size: float) -> bool:
        rows = _bar_list(ranked, box, size, letters).rows
        return fits(size) and all(row.remark for row in rows)

    size = first_fit(smaller_sizes(roomy, letters.label), has_long_bars)
    if 0 < max(map(len, ranked.remarks), default=0) <= SHORT_REMARK:
        smaller = first_fit(smaller_sizes(size, letters.smallest), fits_with_remarks)
        size = smaller if fits_with_remarks(smaller) else size
    return first_fit(smaller_sizes(size, letters.smallest), fits)


def _roomy_size(ranked: RankedBars, box: Box, letters: Lettering, extra: float = 0.0) -> float:
    """Return the size of letters, in points, in which all rows fill the box.

    It is at most 1.4 times a label's; `extra` letters are added to each row for a remark.
    """
    room = box[3] - _title_height(ranked, box[2], letters)
    size = room / (max(len(ranked.grid.rows), 1) * (ROOMY_ROW + extra) * POINT)
    return min(size, letters.grown(letters.label, LARGEST_SCALE))


def _bar_list(
    ranked: RankedBars, box: Box, size: float, letters: Lettering, *, below: bool = False
) -> BarList:
    """Return the bars of a ranking for a box, in letters of `size` points.

    `below` puts remarks below their bars and not beside them; at least one line is kept. Remarks
    that leave no room for bars are left out.
    """
    count, room = len(ranked.grid.rows), box[3] - _title_height(ranked, box[2], letters)
    lines = min(count_bar_lines(room, size, REMARK_HEIGHT if below else 0.0), count)

    def more(start: int) -> list[str]:
        return [f"and {counted(count - start, f'more {ranked.unit}')}"]

    rows = _ranking_rows(ranked)
    bars = BarList(
        rows,
        size,
        box[2],
        max(lines, 1),
        more,
        remarks_below=below,
        reserved_labels=ranked.grid.rows.reserved_labels,
    )
    if bars.bar_length >= SHORTEST_BAR * bars.unit:
        return bars
    return replace(bars, rows=tuple([replace(row, remark="") for row in rows]))


def _ranking_rows(ranked: RankedBars) -> tuple[BarRow, ...]:
    """Return a bar for each row of a ranking, as long as its number is large, whichever sign this
    has.
    """
    grid, write = ranked.grid, cell_format(ranked.grid, 2)
    values = grid.values[:, 0].tolist()
    return tuple(
        BarRow(
            shorten_label(name),
            "" if grid.hidden[row, 0] else typeset(write(value)),
            Tint(grid.scale, value, grid.is_off(row)),
            (value if ranked.intervals else abs(value)) / ranked.full_length,
            ranked.remark_text(row, write),
            ranked.mark_length(row),
            _interval_shares(ranked, row),
        )
        for row, (name, value) in enumerate(zip(grid.rows.names, values, strict=True))
    )


def _interval_shares(ranked: RankedBars, row: int) -> tuple[float, float] | None:
    """Return the interval of a row as shares of the longest bar; None without one."""
    if not ranked.intervals:
        return None
    low, high = ranked.intervals[row]
    return low / ranked.full_length, high / ranked.full_length


def _title_lines(
    ranked: RankedBars, width: float, letters: Lettering
) -> tuple[list[str], float, bool]:
    """Return the title of a ranking in lines, their size in points, and whether the key to the
    lines across bars has room behind the last one.
    """
    title, key = ranked.grid.title, _key_text(ranked, width, letters)
    size = max(min(letters.title, width / max(text_width(title, 1.0), 1e-6)), letters.smallest)
    lines = wrap_parts(title.split(" "), " ", size, width)
    gaps = (KEY_GAP + KEY_SAMPLE) * letters.axis * POINT
    used = text_width(lines[-1], size) + gaps + text_width(key, letters.axis) if lines else 0.0
    return lines, size, bool(key and lines) and used <= width


def _title_height(ranked: RankedBars, width: float, letters: Lettering) -> float:
    """Return the inches that the title of a ranking takes, and a key below it; 0 without both."""
    lines, size, key_behind = _title_lines(ranked, width, letters)
    count = len(lines) + (bool(_key_text(ranked, width, letters)) and not key_behind)
    last = (TITLE_ROOM - LEADING) * letters.title
    return (count * LEADING * size + last) * POINT if count else 0.0


def _ranking_items(ranked: RankedBars, bars: BarList, box: Box, letters: Lettering) -> Items:
    """Yield the title of a ranking, what the lines across its bars mean, and its rows."""
    left, bottom, width, height = box
    lines, size, key_behind = _title_lines(ranked, width, letters)
    y = bottom + height - size * POINT
    for number, line in enumerate(lines):
        yield Words(line, left, y - number * LEADING * size * POINT, size)
    y -= (len(lines) - key_behind) * LEADING * size * POINT
    behind = text_width(lines[-1], size) + KEY_GAP * letters.axis * POINT if key_behind else 0.0
    yield from _key_items(ranked, left + behind, y, width, letters)
    height -= _title_height(ranked, width, letters)
    yield from bars.items(left, bottom + height, height, HIGHEST_ROW)


def _key_text(ranked: RankedBars, width: float, letters: Lettering) -> str:
    """Return what the lines across bars mean, in few words if `width` inches have no room for all;
    empty if there are none.
    """
    words, few_words = ranked.interval_title, ranked.interval_title.partition(" of ")[0]
    if ranked.mark_title:
        words, few_words = f"mean of the {ranked.mark_title}", ranked.mark_title
    room = width - KEY_SAMPLE * letters.axis * POINT
    return words if text_width(words, letters.axis) <= room else few_words


def _key_items(ranked: RankedBars, x: float, y: float, width: float, letters: Lettering) -> Items:
    """Yield a sample of the lines across bars, with their meaning, from (x, y) on."""
    letter, middle = letters.axis * POINT, y + MIDDLE * letters.axis * POINT
    if ranked.mark_title:
        yield bar_mark(x + letter / 2, middle, letter)
    elif ranked.intervals:
        yield from interval_mark(x, x + letter, middle, letter)
    if words := _key_text(ranked, width, letters):
        yield Words(words, x + KEY_SAMPLE * letter, y, letters.axis, faint=True)
