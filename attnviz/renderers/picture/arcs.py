"""Words on the left, words on the right, and a line for each weight; in inches.

Two columns of words can be read at any length, and tell who reads from what is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attnviz.renderers.picture.boxes import panes
from attnviz.renderers.picture.items import (
    Arc,
    Block,
    Box,
    Items,
    Point,
    Stroke,
    Tint,
    Words,
    cell_tint,
)
from attnviz.renderers.picture.matrix import distinct_titles, panel_title, title_words
from attnviz.renderers.picture.page_frame import (
    Drawing,
    Key,
    masked_key,
    refuse_few_words,
    scale_key,
)
from attnviz.renderers.picture.panel_labels import PanelStyle, Ticks, row_ticks
from attnviz.renderers.picture.sentence import arc_width
from attnviz.renderers.picture.text import (
    HEADING_HEIGHT,
    MIDDLE,
    POINT,
    SLIDE,
    Lettering,
    fit_line,
    shorten_label,
    text_width,
    widest_line,
)
from attnviz.views.grids.grid import block_size, pool_grid, with_common_scales
from attnviz.views.grids.words_and_bars import Arcs
from attnviz.wording.numbers import share_text

MAX_WORDS = 128  # tokens on a side: of more several stand together
WORD_PITCH = 1.6  # from one word to the next, in sizes of their letters, where there is room
WORD_HEIGHT_SHARE = 0.85  # of that way is a word high, at most
MAX_LINES = 1000  # in a panel: those of the largest weights
WIDEST_LINE, WIDEST_SUM = 0.6, 1.3  # of the way to the next word: one line, and all of one word
MAX_LINE_PITCH = 30.0  # points: of a longer way no more is taken for lines
THINNEST_LINE = 0.5  # points: the thinnest that a line of the largest weight can be
LINES_SHARE = 0.27  # of the width of a panel, at least, for the lines between the words
CUT_LABEL_WORTH = 0.1  # is what words are worth that lose their ends
LAYER_ROWS_MIN_WORTH = 0.6  # times the worth: panels are too small then for layers to be rows
WORD_GAP, SIDE_MARK = 0.08, 0.05  # between a word and its lines, and the mark of a word left out
BEND_SHARE = 0.45  # of the way across, from where a line turns
FEW_PANELS = 3  # panels
ARCS_PANEL_GAP = 0.35  # between two panels
MANY_WORDS = 24  # in all panels: of more they are as small as can be read
LOWEST_PANEL_SHARE = 0.4  # times as high as wide is a panel
NATURAL_PANEL_WIDTHS = (7.5, 5.0)  # of one panel, of one of several
STRONG_WEIGHT_SHARE = 0.5  # times the largest weight: from here on a line has its number
LEAST_NUMBERED_WEIGHT = 0.05  # and of what one token reads from here on
LINE_NUMBER_SCALE = 0.8  # times as large as a word is the number of its line
NUMBERED_LINES_SHARE = 0.3  # of the width of a panel, at least, where lines have numbers


@dataclass(frozen=True)
class ArcsHeadings:
    """Sizes of the title and of the names of the two columns, in points; 0 if there are none."""

    title_size: float
    axis_size: float

    @property
    def height(self) -> float:
        """The inches that these lines take above a panel."""
        return HEADING_HEIGHT * (self.title_size + self.axis_size) * POINT

    def box_below(self, box: Box) -> Box:
        left, bottom, width, height = box
        return left, bottom, width, max(height - self.height, 0.1)


@dataclass(frozen=True, eq=False)
class ArcsPanel:
    """One head: its queries on the left, its keys on the right, and the room for lines between
    them.
    """

    arcs: Arcs
    box: Box  # from the first word to the last, words and all
    left: Ticks
    right: Ticks
    numbers: Mapping[int, str] = field(default_factory=dict)  # of the strongest lines, by place

    @property
    def number_size(self) -> float:
        """The size of the numbers of lines, in points."""
        return LINE_NUMBER_SCALE * self.left.size

    @property
    def lines_box(self) -> Box:
        """The box of the lines, between the tokens and the numbers beside these."""
        x, y, width, height = self.box
        gaps = 2 * WORD_GAP
        left, right = self.left.extent + gaps, self.right.extent + gaps
        numbers_width = widest_line(tuple(self.numbers.values()), self.number_size)
        numbers_width += WORD_GAP if self.numbers else 0.0
        if self.arcs.query is None:
            left += numbers_width
        else:
            right += numbers_width
        return x + left, y, max(width - left - right, 0.1), height

    @property
    def has_whole_labels(self) -> bool:
        """Whether no label is cut more than any label is, which is to 24 characters."""
        sides = (self.arcs.grid.rows, self.left), (self.arcs.grid.columns, self.right)
        return all(
            label in (shorten_label(axis.labels[position]), shorten_label(axis.names[position]))
            for axis, side in sides
            for position, label in zip(side.positions, side.labels, strict=True)
        )

    @property
    def pitch(self) -> float:
        """The distance from one token to the next, on the side with more of them."""
        return self.box[3] / max(self.left.count, self.right.count)

    def token_y(self, position: int, count: int) -> float:
        """Return the height of the middle of a token in a column of `count`; a shorter column is
        centred.
        """
        middle = self.box[1] + self.box[3] / 2
        return middle + (count / 2 - position - 0.5) * self.pitch


@dataclass(frozen=True)
class ArcsDrawing(Drawing):
    """A panel for each head, as many side by side as make their tokens largest."""

    heads: tuple[Arcs, ...]
    per_layer: int = 0

    @cached_property
    def pooled_heads(self) -> list[Arcs]:
        """The heads with very many tokens in blocks, on common scales, and with titles cut to what
        differs.

        One token that is chosen as the query stays alone.
        """
        pooled = [_pooled_arcs(head) for head in self.heads]
        grids = with_common_scales([head.grid for head in pooled])
        titles = distinct_titles([g.title for g in grids], [g.scale.label for g in grids])
        pairs = zip(pooled, grids, titles, strict=True)
        return [replace(head, grid=replace(grid, title=title)) for head, grid, title in pairs]

    @property
    def natural_columns(self) -> int:
        return min(len(self.heads), math.ceil(math.sqrt(len(self.heads) * 1.6)))

    @property
    def width(self) -> float:
        """The width of a page with one panel, or with several side by side, up to that
        of a slide.
        """
        across = self.natural_columns
        wide = across * NATURAL_PANEL_WIDTHS[len(self.heads) > 1] + (across - 1) * ARCS_PANEL_GAP
        return min(wide, SLIDE[0])

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height at which every token can be read."""
        heads, across = self.pooled_heads, self.per_layer or self.natural_columns
        count = max(max(head.grid.cells.shape) for head in heads)
        size = letters.smallest if count * len(heads) > MANY_WORDS else letters.label
        high = max(count * WORD_PITCH * size * POINT, width / across * LOWEST_PANEL_SHARE)
        rows = math.ceil(len(heads) / across)
        return rows * (high + _arcs_headings(heads, letters).height) + (rows - 1) * ARCS_PANEL_GAP

    def body(self, room: Box, letters: Lettering) -> Items:
        headings = _arcs_headings(self.heads, letters)
        for pair in zip(self.pooled_heads, self._panel_boxes(room, letters), strict=True):
            yield from _arcs_panel_items(*pair, headings, letters)

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return twice the number of labelled tokens on the shortest side, plus one if no label is
        cut.
        """
        headings = _arcs_headings(self.heads, letters)
        boxes = self._panel_boxes(self.room_above_keys(room, letters), letters)
        distinct = {
            (head.grid.rows, head.grid.columns): (head, headings.box_below(box))
            for head, box in zip(self.pooled_heads, boxes, strict=True)
        }
        panels = [_arcs_panel(head, box, letters) for head, box in distinct.values()]
        written = min(len(side.positions) for panel in panels for side in (panel.left, panel.right))
        return 2 * written + all(panel.has_whole_labels for panel in panels)

    def crowded_out_text(self, room: Box, letters: Lettering) -> str:
        """Return 'all words' if a page for each head would show more of them; else ""."""
        alone = ArcsDrawing(self.heads[:1]).legibility(room, letters)
        return "all words" if self.legibility(room, letters) < alone else ""

    def refuse(self, room: Box, letters: Lettering) -> None:
        """Refuse so many heads on one page that most of their words could not be written."""
        alone, together = (
            ArcsDrawing(heads).legibility(room, letters) // 2
            for heads in (self.heads[:1], self.heads)
        )
        refuse_few_words("lines", self.heads, together, alone)

    def keys(self) -> list[Key]:
        heads = self.pooled_heads
        scales = dict.fromkeys(head.grid.scale for head in heads)
        meanings = [*map(scale_key, scales), Key("the thicker a line, the larger the weight")]
        if len(heads) > FEW_PANELS:
            sides = "left: the tokens that attend (queries); right: what they attend to (keys)"
            meanings.append(Key(sides))
        if any(head.grid.cells.has_hidden for head in heads):
            has_query = any(head.query is not None for head in heads)
            hidden = masked_key(next(iter(scales)))
            meanings.append(hidden if has_query else Key("masked links have no line"))
        if max(map(_count_weights, heads)) > MAX_LINES:
            meanings.append(Key(f"only the {MAX_LINES:,} largest weights of a head have lines"))
        return meanings

    def _panel_boxes(self, room: Box, letters: Lettering) -> list[Box]:
        """Return the boxes of the panels: a row for each layer, unless that makes panels far too
        small.
        """
        count = len(self.heads)
        worth = {n: _worth_across(self.pooled_heads, n, room, letters) for n in range(1, count + 1)}
        across = max(worth, key=worth.__getitem__)
        layer = self.per_layer
        if layer and worth[layer][0] >= LAYER_ROWS_MIN_WORTH * worth[across][0]:
            across = layer
        return panes(count, across, room, ARCS_PANEL_GAP)


def _pooled_arcs(head: Arcs) -> Arcs:
    """Return a head whose queries and keys are at most 128 each: more are pooled in blocks.

    Of a head with a chosen query only that row is kept, if it is pooled.
    """
    if max(head.grid.cells.shape) <= MAX_WORDS:
        return head
    grid, query = head.grid, head.query
    if query is not None:
        grid, query = grid.part(slice(query, query + 1)), 0
    down, across = (block_size(count, math.ceil(count / MAX_WORDS)) for count in grid.cells.shape)
    pooled = pool_grid(grid, down, across)
    return Arcs(replace(pooled, pool_note=pooled.pool_note.replace("one cell", "one line")), query)


def _worth_across(
    heads: Sequence[Arcs], across: int, room: Box, letters: Lettering
) -> tuple[float, float]:
    """Return what to compare `across` panels in a row by: first the size of tokens, then the width
    of lines.

    The first is less where labels are left out or cut, or where lines are short.
    """
    box = panes(len(heads), across, room, ARCS_PANEL_GAP)[0]
    panel_box = _arcs_headings(heads, letters).box_below(box)
    distinct = {(head.grid.rows, head.grid.columns): head for head in heads}  # often all of them
    panels = [_arcs_panel(head, panel_box, letters) for head in distinct.values()]
    sizes = [min(panel.left.size, panel.right.size) for panel in panels]
    labelled = min(min(len(p.left.positions) / p.left.count, 1.0) for p in panels)
    lines_width = min(panel.lines_box[2] for panel in panels)
    lines_worth = min(lines_width / 1.2, 1.0)  # lines that are too short tell nothing
    labels_worth = 1.0 if all(panel.has_whole_labels for panel in panels) else CUT_LABEL_WORTH
    return min(sizes) * labelled * lines_worth * labels_worth, lines_width


def _arcs_headings(heads: Sequence[Arcs], letters: Lettering) -> ArcsHeadings:
    """Return the sizes of headings; many panels have small titles, and a key says what their sides
    are.
    """
    few_panels = len(heads) <= FEW_PANELS
    title = letters.title if few_panels else letters.small_title
    return ArcsHeadings(
        title if any(panel_title(head.grid) for head in heads) else 0.0,
        letters.axis if few_panels else 0.0,
    )


def _arcs_panel(head: Arcs, box: Box, letters: Lettering) -> ArcsPanel:
    """Return a panel with the tokens of both sides, as large as a box allows.

    Its lines have numbers if these can be read and leave the lines enough width.
    """
    grid, (_, _, width, height) = head.grid, box
    pitch = height / max(grid.cells.shape)
    widest = max((width * (1 - LINES_SHARE) - 4 * WORD_GAP) / 2, SIDE_MARK)
    largest = letters.headline if letters.can_shrink else letters.label
    style = PanelStyle(label=largest, smallest=letters.smallest, widest_label=widest)
    left, right = (
        row_ticks(axis, pitch * WORD_HEIGHT_SHARE, style) for axis in (grid.rows, grid.columns)
    )
    size = min(left.size, right.size)
    panel = ArcsPanel(head, box, _resized_side(left, size), _resized_side(right, size))
    if LINE_NUMBER_SCALE * size < letters.smallest:
        return panel
    numbered = replace(panel, numbers=_line_numbers(head, left, right))
    return numbered if numbered.lines_box[2] >= NUMBERED_LINES_SHARE * box[2] else panel


def _line_weights(head: Arcs) -> np.ndarray:
    """Return the weights that have lines, and 0 for others: masked ones, and any but the chosen
    query's.
    """
    weights = np.where(head.grid.hidden, 0.0, np.nan_to_num(head.grid.values))
    if head.query is not None:
        weights[np.arange(len(weights)) != head.query] = 0.0
    return weights


def _line_numbers(head: Arcs, left: Ticks, right: Ticks) -> dict[int, str]:
    """Return numbers by token: each strong query's largest weight, or all weights of one chosen
    query.

    They stand beside words, each with a line of its own, where nothing covers them. There are none
    unless the grid's values are shares.
    """
    if not head.grid.share:
        return {}
    weights = _line_weights(head)
    if head.query is None:
        side, largest = left, weights.max(axis=1)
        floor = STRONG_WEIGHT_SHARE * largest.max()
    else:
        side, largest, floor = right, weights[head.query], LEAST_NUMBERED_WEIGHT
    return {i: share_text(largest[i]) for i in side.positions if largest[i] >= max(floor, 1e-9)}


def _resized_side(side: Ticks, size: float) -> Ticks:
    extent = max((text_width(label, size) for label in side.labels), default=0.0)
    return replace(side, size=size, extent=extent)


def _arcs_panel_items(head: Arcs, box: Box, headings: ArcsHeadings, letters: Lettering) -> Items:
    panel = _arcs_panel(head, headings.box_below(box), letters)
    yield from _heading_words(panel, box, headings, letters)
    yield from _query_words(panel)
    yield from _key_words_and_blocks(panel)
    yield from _number_words(panel)
    yield from _side_marks(panel)
    yield from _link_arcs(panel)


def _heading_words(
    panel: ArcsPanel, box: Box, headings: ArcsHeadings, letters: Lettering
) -> Iterator[Words]:
    """Yield the title of the panel, and above each side what its tokens are: queries or keys."""
    left, bottom, width, height = box
    if title := panel_title(panel.arcs.grid):
        text, size = fit_line(title, headings.title_size, letters.smallest, width)
        top = bottom + height - headings.title_size * POINT
        yield from title_words(text, left, top, size, off=panel.arcs.grid.is_all_off)
    if not headings.axis_size:
        return
    grid, (_, y, _, high) = panel.arcs.grid, panel.lines_box
    foot = y + high + headings.axis_size * POINT * 0.4
    rows, columns = grid.rows.title, grid.columns.title
    room = width / 2 - ARCS_PANEL_GAP / 2
    size = min(fit_line(text, headings.axis_size, 1.0, room)[1] for text in (rows, columns))
    yield Words(rows, left, foot, size, faint=True)
    yield Words(columns, left + width, foot, size, faint=True, halign="right")


def _query_words(panel: ArcsPanel) -> Iterator[Words]:
    """Yield the tokens on the left; all but the chosen query are faint, if there is one."""
    query, side = panel.arcs.query, panel.left
    right = panel.box[0] + panel.left.extent + WORD_GAP
    for position, label in zip(side.positions, side.labels, strict=True):
        y = panel.token_y(position, side.count) - MIDDLE * side.size * POINT
        faint = query not in (None, position)
        yield Words(label, right, y, side.size, faint=faint, halign="right")


def _key_words_and_blocks(panel: ArcsPanel) -> Iterator[Block | Words]:
    """Yield the tokens on the right; with a chosen query, each on the colour of the weight that it
    gets.
    """
    side, query, (x, _, width, _) = panel.right, panel.arcs.query, panel.box
    left = x + width - side.extent - WORD_GAP
    for position, label in zip(side.positions, side.labels, strict=True):
        y, tint = panel.token_y(position, side.count), None
        if query is not None:
            tint = cell_tint(panel.arcs.grid, query, position)
            step = panel.pitch * side.count / len(side.positions)
            high = min(step * 0.9, side.size * POINT * 1.4)
            box = (left - WORD_GAP / 2, y - high / 2, side.extent + WORD_GAP, high)
            yield Block(box, tint)
        faint = tint is not None and tint.value is None
        foot = y - MIDDLE * side.size * POINT
        yield Words(label, left, foot, side.size, faint=faint, background=tint)


def _number_words(panel: ArcsPanel) -> Iterator[Words]:
    """Yield the numbers of lines, at the tokens on the left; with a chosen query, at those on the
    right.
    """
    x, _, width, _ = panel.lines_box
    side, size = panel.left, panel.number_size
    right = x - WORD_GAP / 2
    if panel.arcs.query is not None:
        side = panel.right
        right = x + width + WORD_GAP / 2 + widest_line(tuple(panel.numbers.values()), size)
    for position, number in panel.numbers.items():
        y = panel.token_y(position, side.count) - MIDDLE * size * POINT
        yield Words(number, right, y, size, faint=True, halign="right")


def _side_marks(panel: ArcsPanel) -> Iterator[Stroke]:
    """Yield a short line from each label to its token, on a side where only some tokens are
    labelled.
    """
    x, _, width, _ = panel.lines_box
    for side, end, outward in ((panel.left, x, -SIDE_MARK), (panel.right, x + width, SIDE_MARK)):
        if len(side.positions) < side.count:
            for position in side.positions:
                y = panel.token_y(position, side.count)
                yield Stroke(((end, y), (end + outward, y)))


def _link_arcs(panel: ArcsPanel) -> Iterator[Arc]:
    """Yield a curve for each of the 1000 largest weights, the thickest on top.

    A weight at or below the low end of the scale has none.
    """
    grid, weights = panel.arcs.grid, _line_weights(panel.arcs)
    pitch = min(panel.pitch / POINT, MAX_LINE_PITCH)
    for index in np.argsort(weights, axis=None, kind="stable")[-MAX_LINES:].tolist():
        row, column = divmod(index, weights.shape[1])
        tint = Tint(grid.scale, float(weights[row, column]), grid.is_off(row))
        width = arc_width(tint, WIDEST_LINE, WIDEST_SUM) * pitch
        if tint.share:
            yield Arc(_link_curve(panel, row, column), max(width, tint.share * THINNEST_LINE), tint)


def _link_curve(panel: ArcsPanel, row: int, column: int) -> tuple[Point, Point, Point, Point]:
    """Return the four points of the curve from a query to a key."""
    x, _, width, _ = panel.lines_box
    y, key_y = panel.token_y(row, panel.left.count), panel.token_y(column, panel.right.count)
    bend = BEND_SHARE * width
    return (x, y), (x + bend, y), (x + width - bend, key_y), (x + width, key_y)


def _count_weights(head: Arcs) -> int:
    rows = slice(None) if head.query is None else head.query
    return int((~head.grid.hidden[rows]).sum())
