"""Lines of text: smaller, shorter or wrapped to fit; labels of panels; boxes of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from attnviz.renderers.picture.items import Box, Mark, Words
from attnviz.renderers.picture.lettering import POINT
from attnviz.renderers.picture.ticks import BESIDE, PanelStyle, Ticks, text_width
from attnviz.views.grids.grid import OFF_SUFFIX, Curve, Curves, Grid

BOLD = 1.15  # bold letters are so much wider
ABOVE_A_PANEL = 0.45  # in letters of the title
TITLE_LEADING = 1.25
NARROWEST = 0.2  # of its size: no letter takes less
SHORTENED = 0.95  # of its letters a line keeps each time that it is cut
SHRINKING = (1.0, 0.9, 0.8, 0.72, 0.65, 0.58, 0.5)
BROKEN = 0.3  # of the worth of titles that stand on one line
NAMES = 0.85  # of the letters of a title: those of the lines of a chart
BETWEEN_NAMES = 1.0  # in letters

SENTENCE = ": "  # what follows it in a title is a sentence, which may be broken,
SENTENCE_LINES = 1.6  # to stand on two lines: words that are not broken leave some of each empty

OF_A_HEAD = re.compile(r"(?P<part>.+?) (?:· )?(?P<rest>(?:head \d+|L\d+).*)")

Titled = Grid | Curves | None


@dataclass(frozen=True)
class Headings:
    """What stands above the panels of a page: all in letters of one size, whole."""

    size: float
    lines: tuple[tuple[str, ...], ...]  # of each panel
    whole: bool  # whether each fits on one line

    def worth(self, style: PanelStyle) -> float:
        """From 1 to 0: large titles, each on one line, are worth larger panels."""
        whole = 1.0 if self.whole else BROKEN
        return whole * math.sqrt(self.size / style.title)

    def width(self, place: int) -> float:
        """Of the longest line above a panel."""
        return max((text_width(line, self.size) for line in self.lines[place]), default=0.0)

    def height(self, places: Sequence[int]) -> float:
        """The room above some of the panels."""
        most = max((len(self.lines[place]) for place in places), default=0)
        return (most * TITLE_LEADING + ABOVE_A_PANEL) * self.size * POINT if most else 0.0


def headings(shown: Sequence[Titled], room: float, style: PanelStyle) -> Headings:
    """Titles with so much room for each, in one line if letters can be small enough for it."""
    titles = [title_of(each) for each in shown]
    widest = max((text_width(title, 1.0) for title in titles), default=0.0)
    sizes = [style.title * share for share in SHRINKING if style.title * share >= style.smallest]
    fitting = [size for size in sizes if widest * size <= room]
    size = max(fitting, default=min(sizes, default=style.smallest))
    if any(SENTENCE in title for title in titles):
        size = max([size, *(each for each in sizes if widest * each <= SENTENCE_LINES * room)])
    lines = (wrapped(unbroken(title).split(" "), " ", size, room) for title in titles)
    named = (
        (*title, "") if isinstance(each, Curves) else title
        for each, title in zip(shown, map(tuple, lines), strict=True)
    )
    return Headings(size, tuple(named), size in fitting)


def without_what_all_say(titles: Sequence[str], scales: Sequence[str]) -> list[str]:
    """Titles without the word that all begin with, or that the colour bar says already.

    >>> without_what_all_say(["weights · head 0", "weights · head 1"], ["weight"] * 2)
    ['head 0', 'head 1']
    >>> without_what_all_say(["weights L0H0", "scores L0H0"], ["weight", "score"])
    ['weights L0H0', 'scores L0H0']
    >>> without_what_all_say(["weights"], ["weight"])
    ['']
    """
    found = [OF_A_HEAD.match(title) for title in titles]
    if len({match and match["part"] for match in found}) == 1 and all(found):
        return [match["rest"] for match in found if match]
    if len(titles) == 1 and titles[0] in (scales[0], f"{scales[0]}s"):
        return [""]
    return list(titles)


def unbroken(title: str) -> str:
    """With a sign kept on the line of its word."""
    return title.replace("✗ ", "✗\u00a0")


def title_of(each: Titled) -> str:
    """What a panel shows, and what one cell of it stands for."""
    if isinstance(each, Grid):
        return " · ".join(part for part in (each.title, each.pooled) if part)
    return "" if each is None else each.title


def panel_words(
    each: Titled,
    lines: Sequence[str],
    size: float,
    box: Box,
    smallest: float,
    names: Sequence[tuple[int, Curve]],
    room: float,
) -> Iterator[Words]:
    """The lines above a panel; of a chart the last is for names of lines, each with its number."""
    y = box[1] + box[3] + ABOVE_A_PANEL * size * POINT
    for line in reversed(lines):
        if isinstance(each, Curves) and line == "":
            letters = max(size * NAMES, smallest)
            yield from _names_of_lines(names, (box[0], y), room, letters, smallest)
        else:
            yield from title_words(line, box[0], y, size, off=_is_off(each))
        y += size * POINT * TITLE_LEADING


def _is_off(each: Titled) -> bool:
    return isinstance(each, Grid) and each.is_all_off


def title_words(line: str, x: float, y: float, size: float, *, off: bool) -> Iterator[Words]:
    """A title; the name of a head that is switched off is grey and struck through."""
    if not off:
        yield Words(line, x, y, size)
        return
    name, sign, rest = line.partition(OFF_SUFFIX)
    yield Words(name, x, y, size, faint=True, struck=True)
    yield Words(f"{sign}{rest}", x + text_width(name, size), y, size, faint=True)


def _names_of_lines(
    named: Sequence[tuple[int, Curve]],
    start: tuple[float, float],
    room: float,
    size: float,
    smallest: float,
) -> Iterator[Words]:
    """The lines' names in the lines' colours; where there is no room for all, the dashed alone."""
    size = _fitting([_name(line) for _, line in named], size, room)
    if size < smallest:
        named = [(number, line) for number, line in named if line.dashed]
        size = max(_fitting([_name(line) for _, line in named], size, room), smallest)
    x, y = start
    for number, line in named:
        series = None if line.dashed or line.plain else number
        yield Words(_name(line), x, y, size, series=series)
        x += text_width(_name(line), size) + BETWEEN_NAMES * size * POINT


def _name(line: Curve) -> str:
    return f"- - {line.name}" if line.dashed else line.name


def _fitting(names: Iterable[str], size: float, room: float) -> float:
    """The size at which names fit beside each other."""
    wide = sum(text_width(name, size) + BETWEEN_NAMES * size * POINT for name in names)
    return min(size, size * room / max(wide, 1e-6))


def panel_titles(
    each: Grid | Curves, box: Box, size: float, smallest: float, room: float
) -> Iterator[Words]:
    """What stands above a panel in one line: its title, and of a chart the names of its lines."""
    title, points = fitted(title_of(each), size, smallest, room)
    lines, names = [title] if title else [], list[tuple[int, Curve]]()
    if isinstance(each, Curves):
        lines, names = [title, ""], list(enumerate(each.lines))
    yield from panel_words(each, lines, points, box, smallest, names, box[2])


def fitted(text: str, size: float, smallest: float, room: float) -> tuple[str, float]:
    """A line made smaller until it fits, and then shorter."""
    most = int(room / (NARROWEST * smallest * POINT)) + 1
    if len(text) > most:  # measuring what cannot fit would take long
        text = f"{text[:most]}…"
    fitting = min(size, size * room / max(text_width(text, size), 1e-6))
    while fitting < smallest and len(text) > 1 and text_width(text, smallest) > room:
        text = text[: max(1, int(len(text) * SHORTENED) - 1)].rstrip("…") + "…"
        if len(text) <= 2:
            break
    return text, max(fitting, smallest)


def wrapped(parts: Sequence[str], between: str, points: float, room: float) -> list[str]:
    """Parts in as many lines as they need, broken between them."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}{between}{part}" if lines[-1] else part
        if lines[-1] and text_width(longer, points) > room:
            lines.append(part)
        else:
            lines[-1] = longer
    return [line for line in lines if line]


def panes(count: int, across: int, room: Box, gap: float) -> list[Box]:
    """So many boxes, so many of them in a row, from the top left.

    >>> panes(3, 2, (0.0, 0.0, 5.0, 3.0), 1.0)[1:]
    [(3.0, 2.0, 2.0, 1.0), (0.0, 0.0, 2.0, 1.0)]
    """
    left, bottom, width, height = room
    down = math.ceil(count / across)
    wide, high = (width - (across - 1) * gap) / across, (height - (down - 1) * gap) / down
    first = bottom + height - high
    places = (divmod(place, across) for place in range(count))
    return [
        (left + column * (wide + gap), first - row * (high + gap), wide, high)
        for row, column in places
    ]


MIDDLE, ASCENT = 0.36, 0.8  # of a letter's size: from its foot to its middle, and to its head
MARK = 0.035


def labels_at(rows: Ticks, columns: Ticks, box: Box, style: PanelStyle) -> Iterator[Words]:
    """The labels on the left of a panel and below it, and the titles of its two axes."""
    left, bottom, width, height = box
    x = left - BESIDE * 0.7 * rows.size * POINT
    for place, label in zip(rows.places, rows.labels, strict=True):
        y = bottom + height * (1 - (place + 0.5) / rows.count)
        yield Words(label, x, y - rows.size * POINT * MIDDLE, rows.size, across="right")
    yield from _below(columns, box)
    yield from row_title(rows.title, left - rows.extent, (bottom, bottom + height), style)
    foot = bottom - columns.extent
    yield from column_title(columns.title, foot, (left, left + width), style)


def _below(columns: Ticks, box: Box) -> Iterator[Words]:
    left, bottom, width, _ = box
    angle, size = columns.angle, columns.size
    across, along = {0: ("center", "baseline"), 45: ("right", "top"), 90: ("right", "center")}[
        angle
    ]
    line = size * POINT
    y = bottom - columns.beside * 0.7 * line - (line * ASCENT if angle == 0 else 0)
    for place, label in zip(columns.places, columns.labels, strict=True):
        x = left + width * (place + 0.5) / columns.count
        yield Words(label, x, y, size, angle=angle, across=across, along=along)


def row_title(
    text: str, right: float, span: tuple[float, float], style: PanelStyle
) -> Iterator[Words]:
    """What the rows between two heights are, written upwards, on the left of this place."""
    fitting, size = _fitted(text, span[1] - span[0], style)
    if fitting:
        x, y = right - 0.3 * style.axis * POINT, sum(span) / 2
        yield Words(fitting, x, y, size, faint=True, angle=90, across="center", along="bottom")


def column_title(
    text: str, top: float, span: tuple[float, float], style: PanelStyle
) -> Iterator[Words]:
    """What the columns between two places are, below this height."""
    fitting, size = _fitted(text, span[1] - span[0], style)
    if fitting:
        y = top - 0.25 * style.axis * POINT
        yield Words(fitting, sum(span) / 2, y, size, faint=True, across="center", along="top")


def _fitted(text: str, room: float, style: PanelStyle) -> tuple[str, float]:
    """As it is, in smaller letters, without what stands in brackets; or not at all."""
    for shorter in (text, text.partition(" (")[0]):
        size = min(style.axis, style.axis * room / max(text_width(shorter, style.axis), 1e-6))
        if size >= style.smallest:
            return shorter, size
    return "", style.axis


def marks_at(rows: Ticks, columns: Ticks, box: Box) -> Iterator[Mark]:
    """Where not every place has a label, a short line shows which place a label belongs to."""
    left, bottom, width, height = box
    if len(rows.places) < rows.count:
        for place in rows.places:
            y = bottom + height * (1 - (place + 0.5) / rows.count)
            yield (left - MARK, y), (left, y)
    if len(columns.places) < columns.count:
        for place in columns.places:
            x = left + width * (place + 0.5) / columns.count
            yield (x, bottom - MARK), (x, bottom)
