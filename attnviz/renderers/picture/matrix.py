"""Numbers in the cells of a panel, its title, and the colour bar of its scale."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from attnviz.renderers.picture.items import (
    MARK_OUTLINE,
    MIN_NUMBER_POINTS,
    Block,
    Box,
    ColorBar,
    Item,
    Items,
    Panel,
    Stroke,
    Words,
    panel_boxes,
)
from attnviz.renderers.picture.panel_labels import PanelStyle
from attnviz.renderers.picture.text import (
    POINT,
    Lettering,
    cached_by_font,
    fit_line,
    text_width,
    wrap_parts,
)
from attnviz.views.grids.grid import OFF_SUFFIX, Curve, Curves, Grid
from attnviz.views.grids.number_formats import NumberFormat, cell_format, cell_text
from attnviz.views.grids.scales import Scale
from attnviz.wording.numbers import typeset

MAX_NUMBER_POINTS = 10.0  # points
NUMBER_WIDTH = 0.8  # of the width of a cell, at most,
NUMBER_HEIGHT = 0.7  # and of its height
MAX_NUMBERED_CELLS = 2500  # cells: among more no number can be read
# More than there are on a page of many heads, of which each is asked for in turn
CACHED_GRIDS = 512
BAR_NUMBER_SHARES = (0.0, 0.5, 1.0)
# In letters of the labels beside it:
BAR_WIDTH, BAR_GAP, BAR_NUMBER_GAP = 1.0, 1.2, 0.4  # a colour bar, and the room on either side
LOWEST_BAR, HIGHEST_BAR, BAR_NAME_HEIGHT = 3.0, 22.0, 2.6  # of a bar; and of its name above it,
BAR_NAME_SHARE = 0.8  # of the letters of its ends
BAR_NAME_RISE = 0.7  # above the top of the panels, in letters
BAR_NAME_LEADING = 1.1  # which may have several lines
PANEL_TITLE_GAP = 0.45  # in letters of the title
TITLE_LEADING = 1.25
TITLE_SHARES = (1.0, 0.9, 0.8, 0.72, 0.65, 0.58, 0.5)
# Of the worth of titles that stand on one line; and of titles that could not be smaller
BROKEN_TITLE_WORTH, BROKEN_PAPER_TITLE_WORTH = 0.3, 0.7
CURVE_NAMES_SHARE = 0.85  # of the letters of a title: those of the lines of a chart
CURVE_NAMES_GAP = 1.0  # in letters
SENTENCE_SIGN = ": "  # what follows it in a title is a sentence, which may be broken,
SENTENCE_LINES = 1.6  # to stand on two lines: words that are not broken leave some of each empty
AFTER_HYPHEN = re.compile(r"(?<=\w-)(?=\w)")
PART_OF_HEAD = re.compile(r"(?P<part>.+?) (?:· )?(?P<rest>(?:head \d+|L\d+).*)")
CROSS_SIGN = " cross "  # in the name of a head of cross-attention
TitledPanel = Grid | Curves | None


def build_panel(
    grid: Grid, box: Box, largest: float = MAX_NUMBER_POINTS, smallest: float = MIN_NUMBER_POINTS
) -> Panel:
    """Return a panel with the numbers of its cells, in letters between two sizes.

    Words, and numbers without colours, are drawn however small.
    """
    wide, high = box[2] / len(grid.columns), box[3] / len(grid.rows)
    fitting = 10 * wide * NUMBER_WIDTH / longest_number(grid), high / POINT * NUMBER_HEIGHT
    # What has no colours, or words in its cells, is nothing without them, however small.
    least = 0.0 if grid.scale.kind == "none" or grid.words else smallest
    return Panel(grid, box, _cell_numbers(grid), min(largest, *fitting), least)


def with_numbers_like(panel: Panel, full: Grid, largest: float = MAX_NUMBER_POINTS) -> Panel:
    """Return a panel with its numbers in the format and size that those of the grid `full` would
    have.
    """
    numbers = _cell_texts(panel.grid, cell_format(full, 2))
    return replace(panel, numbers=numbers, fitting=build_panel(full, panel.box, largest).fitting)


@cached_by_font(CACHED_GRIDS)  # asked for again and again while panels find their places
def longest_number(grid: Grid) -> float:
    """Return the width of the longest number of a grid, in inches in letters of 10 points.

    If nothing is written in its cells, it is that of `−0.00`.
    """
    numbers = _cell_numbers(grid)
    texts = {*numbers.flat} if grid.words else _longest_texts(numbers)
    widths = (text_width(text, 10) for text in texts)
    return max(widths, default=0.0) or text_width("−0.00", 10)


@lru_cache(maxsize=CACHED_GRIDS)
def _cell_numbers(grid: Grid) -> np.ndarray:
    """Return the texts of the cells of a grid, with two decimals as a rule; empty for very many
    cells.
    """
    return _cell_texts(grid, cell_format(grid, 2))


def _cell_texts(grid: Grid, write: NumberFormat) -> np.ndarray:
    """Return what stands in the cells, written by `write`; an empty array for more
    than 2500 cells.
    """
    if grid.values.size > MAX_NUMBERED_CELLS:
        return np.empty((0, 0), dtype=object)
    numbers = np.empty(grid.values.shape, dtype=object)
    for index, value in np.ndenumerate(grid.values):
        number = typeset(cell_text(value.item(), bool(grid.hidden[index]), write))
        numbers[index] = grid.text_with_word(index[0], index[1], number)
    return numbers


def _longest_texts(numbers: np.ndarray) -> Iterator[str]:
    """Return those of the texts that have the most characters, each once."""
    longest = max((len(text) for text in numbers.flat), default=0)
    return (text for text in dict.fromkeys(numbers.flat) if len(text) == longest)


def color_scales(panels: Sequence[Grid | Curves | None]) -> tuple[Scale, ...]:
    """Return each scale of colour once, but for scales of grids that have words in their cells."""
    grids = [panel for panel in panels if isinstance(panel, Grid) and not panel.words]
    return tuple(dict.fromkeys(grid.scale for grid in grids if grid.scale.kind != "none"))


def bars_width(scales: Sequence[Scale], letters: Lettering) -> float:
    """Return the inches that colour bars take with what is written at them; 0 for no scales."""
    if not scales:
        return 0.0
    letter = letters.axis * POINT
    ends = max(text_width(text, letters.axis) for scale in scales for text in _bar_numbers(scale))
    size = _bar_name_size(letters)
    names = max(text_width(line, size) for each in scales for line in _bar_name_lines(each))
    return BAR_GAP * letter + max(names, (BAR_WIDTH + BAR_NUMBER_GAP) * letter + ends)


def _bar_letters(top: float, scales: Sequence[Scale], foot: float, letters: Lettering) -> Lettering:
    """Return the same letters; with smaller ones for axes if all bars would reach below `foot`."""
    pitch = (top - foot) / max(len(scales), 1)
    max_size = pitch / ((LOWEST_BAR + _bar_name_room(scales)) * POINT)
    return replace(letters, axis=min(letters.axis, max(max_size, letters.smallest)))


def _bar_name_room(scales: Sequence[Scale]) -> float:
    """Return the room above each bar, in letters: a name may have several lines."""
    return BAR_NAME_HEIGHT + BAR_NAME_LEADING * (
        max((len(_bar_name_lines(scale)) for scale in scales), default=1) - 1
    )


def scale_bars(
    items: Iterable[Item],
    scales: Sequence[Scale],
    right: float,
    span: tuple[float, float],
    letters: Lettering,
) -> Items:
    """Yield one colour bar below the other, from the top of the panels on.

    They stand to the right of `right`, each with its name and numbers, between the lower and the
    upper end of `span`.
    """
    boxes, name_height = panel_boxes(items), _bar_name_room(scales)
    foot, ceiling = span
    top = max(bottom + height for _, bottom, _, height in boxes)
    top = min(top, ceiling - BAR_NAME_RISE * letters.axis * POINT)
    letters = _bar_letters(top, scales, foot, letters)
    letter = letters.axis * POINT
    lowest = (LOWEST_BAR + name_height) * letter
    pitch = max((top - min(bottom for _, bottom, _, _ in boxes)) / max(len(scales), 1), lowest)
    height = min(pitch - name_height * letter, HIGHEST_BAR * letter)
    for number, scale in enumerate(scales):
        y = top - number * pitch - height - (name_height - BAR_NAME_HEIGHT + 0.8) * letter
        bar = ColorBar(scale, (right + BAR_GAP * letter, y, BAR_WIDTH * letter, height))
        yield bar
        yield from _bar_items(bar, letters)


def _bar_items(bar: ColorBar, letters: Lettering) -> Iterator[Words | Stroke]:
    """Yield the name of a scale above its bar, and its ends and its middle beside it."""
    left, bottom, width, height = bar.box
    letter = letters.axis * POINT
    for index, line in enumerate(reversed(_bar_name_lines(bar.scale))):
        y = bottom + height + (0.75 + BAR_NAME_LEADING * index) * letter
        yield Words(line, left, y, _bar_name_size(letters))
    x = left + width + BAR_NUMBER_GAP * letter
    for share, text in zip(BAR_NUMBER_SHARES, _bar_numbers(bar.scale), strict=True):
        y = bottom + height * share
        yield Words(text, x, y, letters.axis, valign="center_baseline")
        yield Stroke(((left + width, y), (left + 1.2 * width, y)))


def _bar_name_size(letters: Lettering) -> float:
    return max(BAR_NAME_SHARE * letters.axis, min(letters.smallest, letters.axis))


def _bar_name_lines(scale: Scale) -> list[str]:
    """Return the name of a scale, one word on a line: bars are narrow."""
    return scale.name.split()


def _bar_numbers(scale: Scale) -> list[str]:
    """Return what stands at the low end, in the middle and at the high end of a bar.

    Ends have ≤ or ≥ where values lie beyond them.
    """
    digits = "g" if scale.bend == "straight" else ".2g"
    numbers = [
        f"{number:{digits}}" for number in scale.values_at(np.array(BAR_NUMBER_SHARES)).tolist()
    ]
    numbers[0] = f"≤ {numbers[0]}" if scale.covers_smaller else numbers[0]
    numbers[-1] = f"≥ {numbers[-1]}" if scale.is_exceeded else numbers[-1]
    return [typeset(number) for number in numbers]


@dataclass(frozen=True)
class PanelHeadings:
    """The titles above the panels of a page, all in letters of one size."""

    size: float
    lines: tuple[tuple[str, ...], ...]  # of each panel
    on_one_line: bool  # whether each fits on one line

    def worth(self, style: PanelStyle) -> float:
        """Return from 1 to 0 how good titles are: large ones, each on one line, are worth larger
        panels.
        """
        can_shrink = style.smallest < style.title
        broken_worth = BROKEN_TITLE_WORTH if can_shrink else BROKEN_PAPER_TITLE_WORTH
        factor = 1.0 if self.on_one_line else broken_worth
        return factor * math.sqrt(self.size / style.title)

    def width(self, index: int) -> float:
        """Return the width of the longest line above a panel, in inches."""
        return max((text_width(line, self.size) for line in self.lines[index]), default=0.0)

    def height(self, indices: Sequence[int]) -> float:
        """Return the inches that the most lines above any of these panels take; 0 if there are
        none.
        """
        count = max((len(self.lines[index]) for index in indices), default=0)
        return (count * TITLE_LEADING + PANEL_TITLE_GAP) * self.size * POINT if count else 0.0


def fit_headings(contents: Sequence[TitledPanel], room: float, style: PanelStyle) -> PanelHeadings:
    """Return titles, each with `room` inches, in one line if letters can be small enough for it.

    Above a chart a line is kept free for the names of its curves.
    """
    titles = [panel_title(each) for each in contents]
    widest = max((text_width(title, 1.0) for title in titles), default=0.0)
    sizes = [style.title * share for share in TITLE_SHARES if style.title * share >= style.smallest]
    fitting_sizes = [size for size in sizes if widest * size <= room]
    size = max(fitting_sizes, default=min(sizes, default=style.smallest))
    if any(SENTENCE_SIGN in title for title in titles):
        size = max([size, *(each for each in sizes if widest * each <= SENTENCE_LINES * room)])
    lines = (title_lines(title, size, room) for title in titles)
    headings = (
        (*title, "") if isinstance(each, Curves) else title
        for each, title in zip(contents, map(tuple, lines), strict=True)
    )
    return PanelHeadings(size, tuple(headings), size in fitting_sizes)


def title_lines(title: str, size: float, room: float) -> list[str]:
    """Return a title in lines no wider than `room` inches, broken at spaces and after hyphens; a
    part that is wider still is cut.
    """
    words = title.replace("✗ ", "✗\u00a0").split(" ")  # the sign is never parted from its word
    parts = (AFTER_HYPHEN.split(w) if text_width(w, size) > room else [w] for w in words)
    lines = wrap_parts([*chain.from_iterable(parts)], " ", size, room)
    return [fit_line(line, size, size, room)[0] for line in lines]


def distinct_titles(titles: Sequence[str], scales: Sequence[str]) -> list[str]:
    """Return titles without the word that all begin with, or that the colour bar says already.

    >>> distinct_titles(["weights · head 0", "weights · head 1"], ["weight"] * 2)
    ['head 0', 'head 1']
    >>> distinct_titles(["weights L0H0", "scores L0H0"], ["weight", "score"])
    ['weights L0H0', 'scores L0H0']
    >>> distinct_titles(["weights L0H0", "weights L0 cross H0"], ["weight"] * 2)
    ['L0H0 self-attention', 'L0H0 cross-attention']
    >>> distinct_titles(["weights"], ["weight"])
    ['']
    """
    matches = [PART_OF_HEAD.match(title) for title in titles]
    if len({match and match["part"] for match in matches}) == 1 and all(matches):
        heads = [match["rest"] for match in matches if match]
        if any(CROSS_SIGN in head for head in heads):
            kinds = ["cross" if CROSS_SIGN in head else "self" for head in heads]
            names = [head.replace(CROSS_SIGN, "") for head in heads]
            return [f"{n} {kind}-attention" for n, kind in zip(names, kinds, strict=True)]
        return heads
    if len(titles) == 1 and titles[0] in (scales[0], f"{scales[0]}s"):
        return [""]
    return list(titles)


def panel_title(panel: TitledPanel) -> str:
    """Return what a panel shows, and what one cell of it stands for; "" for an empty place."""
    if isinstance(panel, Grid):
        return " · ".join(part for part in (panel.title, panel.pool_note) if part)
    return "" if panel is None else panel.title


def panel_title_words(
    panel: TitledPanel,
    lines: Sequence[str],
    size: float,
    box: Box,
    smallest: float,
    curves: Sequence[tuple[int, Curve]],
    room: float,
) -> Iterator[Words]:
    """Yield the lines above a panel; in place of an empty line above a chart, the names of curves.

    `curves` are these curves with their numbers, and `room` is the width for them where that of
    the panel is too little.
    """
    y = box[1] + box[3] + PANEL_TITLE_GAP * size * POINT
    for line in reversed(lines):
        if isinstance(panel, Curves) and line == "":
            name_size = max(size * CURVE_NAMES_SHARE, smallest)
            names = [_curve_label(line) for _, line in curves]
            is_wide = _labels_size(names, name_size, box[2]) < smallest
            yield from _curve_names_words(
                curves, (box[0], y), room if is_wide else box[2], name_size, smallest
            )
        else:
            yield from title_words(
                line, box[0], y, size, off=isinstance(panel, Grid) and panel.is_all_off
            )
        y += size * POINT * TITLE_LEADING


def title_words(line: str, x: float, y: float, size: float, *, off: bool) -> Iterator[Words]:
    """Yield a title; the name of a head that is switched off (`off`) is grey and struck through."""
    if not off:
        yield Words(line, x, y, size)
        return
    name, sign, rest = line.partition(OFF_SUFFIX)
    yield Words(name, x, y, size, faint=True, struck=True)
    yield Words(f"{sign}{rest}", x + text_width(name, size), y, size, faint=True)


def _curve_names_words(
    curves: Sequence[tuple[int, Curve]],
    start: tuple[float, float],
    room: float,
    size: float,
    smallest: float,
) -> Iterator[Words]:
    """Yield names of curves in their colours; where there is no room for all, those of dashed ones
    alone.
    """
    size = _labels_size([_curve_label(line) for _, line in curves], size, room)
    if size < smallest:
        curves = [(number, line) for number, line in curves if line.dashed]
        size = max(_labels_size([_curve_label(line) for _, line in curves], size, room), smallest)
    x, y = start
    for number, line in curves:
        series = None if line.dashed or line.plain else number
        yield Words(_curve_label(line), x, y, size, series=series)
        x += text_width(_curve_label(line), size) + CURVE_NAMES_GAP * size * POINT


def _curve_label(line: Curve) -> str:
    """Return the name of a curve, behind `- -` if it is dashed."""
    return f"- - {line.name}" if line.dashed else line.name


def _labels_size(names: Iterable[str], size: float, room: float) -> float:
    """Return the size, at most `size` points, at which names fit beside each other in `room`
    inches.
    """
    wide = sum(text_width(name, size) + CURVE_NAMES_GAP * size * POINT for name in names)
    return min(size, size * room / max(wide, 1e-6))


def one_line_title_words(
    panel: Grid | Curves, box: Box, size: float, smallest: float, room: float
) -> Iterator[Words]:
    """Yield a panel's title in one line, and above a chart the names of its curves as well."""
    title, points = fit_line(panel_title(panel), size, smallest, room)
    lines, curves = [title] if title else [], list[tuple[int, Curve]]()
    if isinstance(panel, Curves):
        lines, curves = [title, ""], list(enumerate(panel.lines))
    yield from panel_title_words(panel, lines, points, box, smallest, curves, box[2])


def largest_cell(grid: Grid) -> tuple[int, int] | None:
    """Return the row and the column of the largest number; None if no number is shown."""
    values = np.where(grid.hidden, -np.inf, np.nan_to_num(grid.values, nan=-np.inf))
    row, column = divmod(int(values.argmax()), values.shape[1])
    return (row, column) if np.isfinite(values[row, column]) else None


def product_marks(
    places: Sequence[tuple[Box, tuple[int, int]]], row: int, column: int
) -> Iterator[Block]:
    """Yield frames around a row of the first table, a column of the second, and the cell of the
    third that they make; `places` are the boxes and shapes of the three.
    """
    parts = ((row, None), (None, column), (row, column))
    for ((left, bottom, width, height), (rows, columns)), part in zip(places, parts, strict=True):
        down, across = part
        if down is not None:
            bottom, height = bottom + height - (down + 1) * height / rows, height / rows
        if across is not None:
            left, width = left + across * width / columns, width / columns
        yield Block((left, bottom, width, height), outlined=MARK_OUTLINE)
