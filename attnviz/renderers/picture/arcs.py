"""Words on the left, words on the right, and a line for all that is read; lengths are inches.

Two columns of words can be read at any length, and tell who reads from what is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attnviz.errors import AttnvizError
from attnviz.renderers.picture import keys
from attnviz.renderers.picture.items import (
    Arc,
    Block,
    Box,
    Layout,
    Mark,
    Place,
    Tint,
    Words,
    empty_layout,
    joined,
)
from attnviz.renderers.picture.keys import Key
from attnviz.renderers.picture.lettering import POINT, SLIDE, Lettering
from attnviz.renderers.picture.paragraph import thickness
from attnviz.renderers.picture.texts import MIDDLE, fitted, panes, title_words, without_what_all_say
from attnviz.renderers.picture.ticks import (
    PanelStyle,
    Ticks,
    row_ticks,
    shortened,
    text_width,
    widest,
)
from attnviz.views.grids.arcs import Arcs
from attnviz.views.grids.grid import block_size, pool_grid, with_common_scales
from attnviz.wording.numbers import share_text

MOST = 128  # tokens on a side: of more several stand together
PITCH = 1.6  # from one word to the next, in sizes of their letters, where there is room
FILLED = 0.85  # of that way is a word high, at most
MOST_LINES = 1000  # in a panel: those of the largest weights
WIDEST, TOGETHER = 0.6, 1.3  # of the way to the next word: one line, and all of one word
LARGEST_PITCH = 30.0  # points: of a longer way no more is taken for lines
THINNEST = 0.5  # points: the thinnest that a line of the largest weight can be
LINES_SHARE = 0.27  # of the width of a panel, at least, for the lines between the words
CUT = 0.1  # is what words are worth that lose their ends
MUCH_SMALLER = 0.6  # times the worth: panels are too small then for layers to be rows
BESIDE, MARK = 0.08, 0.05  # between a word and its lines, and the mark of a word left out
BEND = 0.45  # of the way across, from where a line turns
HEADING = 1.7  # the height of a heading, in sizes of its letters
SMALLER = 0.7  # times as large as one are the titles of many panels
FEW = 3  # panels
GAP = 0.35  # between two panels
MANY_WORDS = 24  # in all panels: of more they are as small as can be read
LOWEST = 0.4  # times as high as wide is a panel
NATURAL_WIDTH = (7.5, 5.0)  # of one panel, of one of several
OUTLINE = 1.5  # points
READABLE = 0.5  # of the words of a head alone: fewer on a page of several heads tell nothing
STRONG = 0.5  # times the largest weight: from here on a line has its number
LEAST_NUMBER = 0.05  # and of what one token reads from here on
NUMBER_SIZE = 0.8  # times as large as a word is the number of its line
LINES_BESIDE_NUMBERS = 0.3  # of the width of a panel, at least, where lines have numbers


@dataclass(frozen=True)
class Headed:
    """How large the words above panels are, in points; 0 if there are none."""

    title: float
    axis: float

    @property
    def height(self) -> float:
        return HEADING * (self.title + self.axis) * POINT

    def below(self, box: Box) -> Box:
        """What they leave of a panel."""
        left, bottom, width, height = box
        return left, bottom, width, max(height - self.height, 0.1)


@dataclass(frozen=True, eq=False)
class Panel:
    """The words of both sides, and the room between them."""

    drawn: Arcs
    box: Box  # from the first word to the last, words and all
    left: Ticks
    right: Ticks
    numbers: Mapping[int, str] = field(default_factory=dict)  # of the strongest lines, by place

    @property
    def number_size(self) -> float:
        return NUMBER_SIZE * self.left.size

    @property
    def lines(self) -> Box:
        """Between the words, and the numbers beside them."""
        x, y, width, height = self.box
        beside = 2 * BESIDE
        left, right = self.left.extent + beside, self.right.extent + beside
        numbers = widest(tuple(self.numbers.values()), self.number_size)
        numbers += BESIDE if self.numbers else 0.0
        if self.drawn.query is None:
            left += numbers
        else:
            right += numbers
        return x + left, y, max(width - left - right, 0.1), height

    @property
    def whole(self) -> bool:
        """Whether no word has lost its end for want of room."""
        sides = (self.drawn.grid.rows, self.left), (self.drawn.grid.columns, self.right)
        return all(
            label in (shortened(axis.labels[place]), shortened(axis.names[place]))
            for axis, side in sides
            for place, label in zip(side.places, side.labels, strict=True)
        )

    @property
    def pitch(self) -> float:
        return self.box[3] / max(self.left.count, self.right.count)

    def height(self, place: int, count: int) -> float:
        """Where the middle of a word is; the words of a shorter side stand in the middle."""
        middle = self.box[1] + self.box[3] / 2
        return middle + (count / 2 - place - 0.5) * self.pitch


def natural_width(drawn: Sequence[Arcs]) -> float:
    """Of a page with one panel, or with several beside each other."""
    across = _naturally_across(drawn)
    return min(across * NATURAL_WIDTH[len(drawn) > 1] + (across - 1) * GAP, SLIDE[0])


def natural_height(
    drawn: Sequence[Arcs], in_a_layer: int, letters: Lettering, width: float
) -> float:
    """As high as lets all words be read."""
    fitting = _of_fewer(drawn)
    across = in_a_layer or _naturally_across(fitting)
    count = max(max(each.grid.cells.shape) for each in fitting)
    size = letters.smallest if count * len(fitting) > MANY_WORDS else letters.label
    high = max(count * PITCH * size * POINT, width / across * LOWEST)
    rows = math.ceil(len(fitting) / across)
    headed = _headed(fitting, letters).height
    foot = keys.height(_keys(fitting), width, letters.axis)
    return rows * (high + headed) + (rows - 1) * GAP + foot


def _naturally_across(drawn: Sequence[Arcs]) -> int:
    return min(len(drawn), math.ceil(math.sqrt(len(drawn) * 1.6)))


def place(drawn: Sequence[Arcs], in_a_layer: int, room: Box, letters: Lettering) -> Layout:
    """As many panels side by side as let their words be largest; below them what lines mean."""
    fitting, headed = _of_fewer(drawn), _headed(drawn, letters)
    boxes = _boxes(fitting, in_a_layer, room, letters)
    placed = [_panel(*pair, headed, letters) for pair in zip(fitting, boxes, strict=True)]
    return joined([*placed, keys.drawn(_keys(fitting), room, letters.axis)])


def legible(drawn: Sequence[Arcs], in_a_layer: int, room: Box, letters: Lettering) -> int:
    """How many words of a side are written, at least, and that they are whole."""
    fitting, headed = _of_fewer(drawn), _headed(drawn, letters)
    boxes = map(headed.below, _boxes(fitting, in_a_layer, room, letters))
    alike = {
        (each.grid.rows, each.grid.columns): (each, box)
        for each, box in zip(fitting, boxes, strict=True)
    }
    panels = [_sides(each, box, letters) for each, box in alike.values()]
    written = min(len(side.places) for panel in panels for side in (panel.left, panel.right))
    return 2 * written + all(panel.whole for panel in panels)


def crowded(drawn: Sequence[Arcs], in_a_layer: int, room: Box, letters: Lettering) -> str:
    """Whether words are left out or cut, which would be whole on a page for each head."""
    alone = legible(drawn[:1], 0, room, letters)
    return "all words" if legible(drawn, in_a_layer, room, letters) < alone else ""


def refuse(drawn: Sequence[Arcs], room: Box, letters: Lettering) -> None:
    """Refuse so many heads on one page that most of their words could not be written."""
    alone, together = (legible(each, 0, room, letters) // 2 for each in (drawn[:1], drawn))
    if together >= READABLE * alone:
        return
    one = (
        f"draw one head: {drawn[-1].single_command} -o head.png; or "
        if drawn[-1].single_command
        else ""
    )
    raise AttnvizError(
        f"the lines of {len(drawn)} heads leave room for only {together} of {alone} words in one "
        "picture",
        f"{one}draw them on several pages: -o heads-{{page}}.png",
    )


def _boxes(fitting: Sequence[Arcs], in_a_layer: int, room: Box, letters: Lettering) -> list[Box]:
    """A row for each layer, unless that makes them far too small."""
    left, bottom, width, height = room
    foot = keys.height(_keys(fitting), width, letters.axis)
    above = (left, bottom + foot, width, height - foot)
    worth = {n: _worth(fitting, n, above, letters) for n in range(1, len(fitting) + 1)}
    across = max(worth, key=worth.__getitem__)
    if in_a_layer and worth[in_a_layer][0] >= MUCH_SMALLER * worth[across][0]:
        across = in_a_layer
    return panes(len(fitting), across, above, GAP)


def _of_fewer(drawn: Sequence[Arcs]) -> list[Arcs]:
    """Of very many tokens several stand together; one that reads stands alone all the same.

    What all titles say is left out of them.
    """
    fewer = [_pooled(each) for each in drawn]
    grids = with_common_scales([each.grid for each in fewer])
    titles = without_what_all_say([g.title for g in grids], [g.scale.label for g in grids])
    named = [replace(grid, title=title) for grid, title in zip(grids, titles, strict=True)]
    return [replace(each, grid=grid) for each, grid in zip(fewer, named, strict=True)]


def _pooled(each: Arcs) -> Arcs:
    if max(each.grid.cells.shape) <= MOST:
        return each
    grid, query = each.grid, each.query
    if query is not None:
        grid, query = grid.part(slice(query, query + 1)), 0
    down, across = (block_size(count, math.ceil(count / MOST)) for count in grid.cells.shape)
    pooled = pool_grid(grid, down, across)
    return Arcs(replace(pooled, pooled=pooled.pooled.replace("one cell", "one line")), query)


def _worth(
    drawn: Sequence[Arcs], across: int, room: Box, letters: Lettering
) -> tuple[float, float]:
    """How large words are, and after that how wide the lines reach."""
    box = panes(len(drawn), across, room, GAP)[0]
    below = _headed(drawn, letters).below(box)
    alike = {(each.grid.rows, each.grid.columns): each for each in drawn}  # often all of them
    panels = [_sides(each, below, letters) for each in alike.values()]
    sizes = [min(panel.left.size, panel.right.size) for panel in panels]
    shown = min(min(len(p.left.places) / p.left.count, 1.0) for p in panels)
    wide = min(panel.lines[2] for panel in panels)
    enough = min(wide / 1.2, 1.0)  # lines that are too short tell nothing
    whole = 1.0 if all(panel.whole for panel in panels) else CUT
    return min(sizes) * shown * enough * whole, wide


def _headed(drawn: Sequence[Arcs], letters: Lettering) -> Headed:
    """Many panels have small titles, and are told once what their two sides are."""
    few = len(drawn) <= FEW
    title = letters.title if few else max(letters.title * SMALLER, letters.smallest)
    return Headed(title if any(map(_title, drawn)) else 0.0, letters.axis if few else 0.0)


def _title(each: Arcs) -> str:
    return " · ".join(part for part in (each.grid.title, each.grid.pooled) if part)


def _sides(drawn: Arcs, box: Box, letters: Lettering) -> Panel:
    """The words of both sides, as large as their distance lets them be."""
    grid, (_, _, width, height) = drawn.grid, box
    pitch = height / max(grid.cells.shape)
    widest = max((width * (1 - LINES_SHARE) - 4 * BESIDE) / 2, MARK)
    style = PanelStyle(label=letters.headline, smallest=letters.smallest, widest_label=widest)
    left, right = (row_ticks(axis, pitch * FILLED, style) for axis in (grid.rows, grid.columns))
    size = min(left.size, right.size)
    panel = Panel(drawn, box, _in_letters(left, size), _in_letters(right, size))
    if NUMBER_SIZE * size < letters.smallest:
        return panel
    numbered = replace(panel, numbers=_numbers(drawn, left, right))
    return numbered if numbered.lines[2] >= LINES_BESIDE_NUMBERS * box[2] else panel


def _weights(drawn: Arcs) -> np.ndarray:
    """What has a line: nothing that is hidden, and nothing of tokens that are not asked about."""
    weights = np.where(drawn.grid.hidden, 0.0, np.nan_to_num(drawn.grid.values))
    if drawn.query is not None:
        weights[np.arange(len(weights)) != drawn.query] = 0.0
    return weights


def _numbers(drawn: Arcs, left: Ticks, right: Ticks) -> dict[int, str]:
    """The largest weight of each token that reads strongly; or all that one token reads.

    They stand beside words, each with a line of its own, where nothing covers them.
    """
    if not drawn.grid.share:
        return {}
    weights = _weights(drawn)
    if drawn.query is None:
        side, largest = left, weights.max(axis=1)
        least = STRONG * largest.max()
    else:
        side, largest, least = right, weights[drawn.query], LEAST_NUMBER
    return {at: share_text(largest[at]) for at in side.places if largest[at] >= max(least, 1e-9)}


def _in_letters(side: Ticks, size: float) -> Ticks:
    extent = max((text_width(label, size) for label in side.labels), default=0.0)
    return replace(side, size=size, extent=extent)


def _panel(drawn: Arcs, box: Box, headed: Headed, letters: Lettering) -> Layout:
    panel = _sides(drawn, headed.below(box), letters)
    blocks, words = _words_read(panel)
    return replace(
        empty_layout(),
        words=(
            *_headings(panel, box, headed, letters),
            *_words_that_read(panel),
            *words,
            *_numbers_of_lines(panel),
        ),
        marks=tuple(_marks(panel)),
        arcs=tuple(_lines(panel)),
        blocks=tuple(blocks),
    )


def _headings(panel: Panel, box: Box, headed: Headed, letters: Lettering) -> Iterator[Words]:
    """The title of the panel, and over each column whether its words read or are read."""
    left, bottom, width, height = box
    if title := _title(panel.drawn):
        text, size = fitted(title, headed.title, letters.smallest, width)
        top = bottom + height - headed.title * POINT
        yield from title_words(text, left, top, size, off=panel.drawn.grid.is_all_off)
    if not headed.axis:
        return
    grid, (_, y, _, high) = panel.drawn.grid, panel.lines
    foot = y + high + headed.axis * POINT * 0.4
    rows, columns = grid.rows.title, grid.columns.title
    room = width / 2 - GAP / 2
    size = min(fitted(text, headed.axis, 1.0, room)[1] for text in (rows, columns))
    yield Words(rows, left, foot, size, faint=True)
    yield Words(columns, left + width, foot, size, faint=True, across="right")


def _words_that_read(panel: Panel) -> Iterator[Words]:
    """On the left; where one is asked about, the others are faint."""
    query, side = panel.drawn.query, panel.left
    right = panel.box[0] + panel.left.extent + BESIDE
    for place, label in zip(side.places, side.labels, strict=True):
        y = panel.height(place, side.count) - MIDDLE * side.size * POINT
        faint = query not in (None, place)
        yield Words(label, right, y, side.size, faint=faint, across="right")


def _words_read(panel: Panel) -> tuple[list[Block], list[Words]]:
    """On the right; where one token is asked about, in the colour of what it reads of them."""
    side, query, (x, _, width, _) = panel.right, panel.drawn.query, panel.box
    blocks, words, left = [], [], x + width - side.extent - BESIDE
    for place, label in zip(side.places, side.labels, strict=True):
        y, tint = panel.height(place, side.count), None
        if query is not None:
            tint = _tint(panel.drawn, query, place)
            shown = panel.pitch * side.count / len(side.places)
            high = min(shown * 0.9, side.size * POINT * 1.4)
            box = (left - BESIDE / 2, y - high / 2, side.extent + BESIDE, high)
            blocks.append(Block(box, tint))
        faint = tint is not None and tint.value is None
        foot = y - MIDDLE * side.size * POINT
        words.append(Words(label, left, foot, side.size, faint=faint, over=tint))
    return blocks, words


def _tint(drawn: Arcs, row: int, column: int) -> Tint:
    grid = drawn.grid
    hidden = bool(grid.hidden[row, column])
    return Tint(grid.scale, None if hidden else float(grid.values[row, column]), grid.is_off(row))


def _numbers_of_lines(panel: Panel) -> Iterator[Words]:
    """Where the lines of a word begin; or where those of the one that is asked about end."""
    x, _, width, _ = panel.lines
    side, size = panel.left, panel.number_size
    right = x - BESIDE / 2
    if panel.drawn.query is not None:
        side = panel.right
        right = x + width + BESIDE / 2 + widest(tuple(panel.numbers.values()), size)
    for place, number in panel.numbers.items():
        y = panel.height(place, side.count) - MIDDLE * size * POINT
        yield Words(number, right, y, size, faint=True, across="right")


def _marks(panel: Panel) -> Iterator[Mark]:
    """Where not every place has a word, a short line shows which place a word belongs to."""
    x, _, width, _ = panel.lines
    for side, end, outward in ((panel.left, x, -MARK), (panel.right, x + width, MARK)):
        if len(side.places) < side.count:
            for place in side.places:
                y = panel.height(place, side.count)
                yield (end, y), (end + outward, y)


def _lines(panel: Panel) -> Iterator[Arc]:
    """All that is read, the thickest on top; a line too thin to be seen is not drawn."""
    grid, weights = panel.drawn.grid, _weights(panel.drawn)
    pitch = min(panel.pitch / POINT, LARGEST_PITCH)
    for place in np.argsort(weights, axis=None, kind="stable")[-MOST_LINES:].tolist():
        row, column = divmod(place, weights.shape[1])
        tint = Tint(grid.scale, float(weights[row, column]), grid.is_off(row))
        width = thickness(tint, WIDEST, TOGETHER) * pitch
        if tint.share:
            yield Arc(_bent(panel, row, column), max(width, tint.share * THINNEST), tint)


def _bent(panel: Panel, row: int, column: int) -> tuple[Place, Place, Place, Place]:
    x, _, width, _ = panel.lines
    y, to_y = panel.height(row, panel.left.count), panel.height(column, panel.right.count)
    bend = BEND * width
    return (x, y), (x + bend, y), (x + width - bend, to_y), (x + width, to_y)


def _count_of_lines(drawn: Arcs) -> int:
    rows = slice(None) if drawn.query is None else drawn.query
    return int((~drawn.grid.hidden[rows]).sum())


def _keys(drawn: Sequence[Arcs]) -> list[Key]:
    """What colours and lines mean, each said once."""
    scales = dict.fromkeys(each.grid.scale for each in drawn)
    meant = [*map(keys.of_scale, scales), Key("the thicker a line, the larger the weight")]
    if len(drawn) > FEW:
        meant.append(
            Key("left: the tokens that attend (queries); right: what they attend to (keys)")
        )
    asked = any(each.query is not None for each in drawn)
    if any(each.grid.cells.has_hidden for each in drawn):
        hidden = keys.of_hidden(next(iter(scales)))
        meant.append(hidden if asked else Key("masked links have no line"))
    if max(map(_count_of_lines, drawn)) > MOST_LINES:
        meant.append(Key(f"only the {MOST_LINES:,} largest weights of a head have lines"))
    return meant
