"""Many heads as small maps: where each stands, and which are framed; in inches.

Layers stand in one bank, or in several beside each other, and what frames mean on the right of the
maps or below them: whatever leaves maps larger. Frames stand around maps, in the gaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product

from attnviz.renderers.picture.fit import fill_lines, first_fit, smaller_sizes
from attnviz.renderers.picture.items import Block, Box, Items, Maps, Stroke, Words
from attnviz.renderers.picture.page_frame import Drawing, Key, keys_height, keys_items, scale_key
from attnviz.renderers.picture.panel_labels import (
    THINNING_STEPS,
    PanelStyle,
    Ticks,
    axis_items,
    column_ticks,
    panel_style,
    row_ticks,
)
from attnviz.renderers.picture.panel_rows import RAGGED_WORTH
from attnviz.renderers.picture.text import (
    BOLD,
    MIDDLE,
    POINT,
    SLIDE,
    Lettering,
    fit_line,
    text_width,
    widest_line,
)
from attnviz.views.grids.axes import GENERATED_NOTE, Axis
from attnviz.views.grids.overview import COLOR_SCALE_NOTES, Flag, Overview

# Points of the lines around maps, and through them
FAINT_LINE, FRAME_LINE, BORDER_LINE = 0.5, 3.2, 1.0
FRAME_SHARE = 0.75  # of the gap between maps, a frame may fill
MAP_GAP = 0.14  # between two maps, as a part of one
MAP_STRETCH, MAP_SQUEEZE = 1.5, 1.25  # of a cell, so that a page is filled
LARGEST_MAP, HIGHEST_SHEET = 2.6, 8.0  # of a map, and of all of them, on a page of its own size
FINEST_CELL = 0.025  # of a cell
NAMES_GAP = 0.5  # from maps to their names, in letters
NAMES_HEIGHT = 1.5  # the height of a line of names, in letters
NAME_LINE, NAME_SPACE = 1.1, 0.35  # of a name below another, and between two in a line, in letters
KEY_GAP = 1.2  # between maps and a key beside them, in letters
MAX_NAMED_TOKENS = 32  # tokens that stand beside maps,
TOKENS_WORTH = 0.5  # if maps keep this share of their area
BANK_GAP = 1.6  # between a bank of layers and the names of the next, in letters
FRAME_COLORS = (5, 1, 6, 2, 3, 4, 0, 7)  # among those of heads: unlike the blue of maps first
TAG_SIDE = 1.35  # of the sample of a frame, in letters
TAG_GAP = 0.5  # between a sample and its words, in letters
TAGS_GAP = 1.8  # between two of them in a line
TAG_LINE_PITCH = 1.8  # from one line to the next, in letters
TAG_PAIR, TAG_LEADING = 1.2, 1.5  # from a name to what stands below it, and from there to the next
TagText = tuple[tuple[str, bool], ...]  # words, and whether they are bold


@dataclass(frozen=True)
class HeadsDrawing(Drawing):
    """Small maps with their names, frames around those that have a flag, and the key
    to the flags.
    """

    overview: Overview

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height at which maps fill the width; few maps are no larger than 2.6 inches
        high.
        """
        overview = self.overview
        high, sheet = max(
            (
                _natural_map_height(sheet)
                for sheet in possible_sheets(overview, letters, (0.0, 0.0, width, 1e3))
                if sheet.key_beside
            ),
            key=lambda choice: choice[0] ** 2 * choice[1].worth,
        )
        sheet = _with_tokens(sheet) or sheet
        high, rows = _natural_map_height(sheet)[0], sheet.grid_shape[0] * (1 + MAP_GAP)
        titles = sheet.title_height * (sheet.grid_shape[0] - 1)
        key_height = tag_column_height(overview, letters)
        return max(high * rows + titles, key_height) + sheet.height_above + sheet.height_below

    def body(self, room: Box, letters: Lettering) -> Items:
        sheet = best_sheet(self.overview, room, letters)
        for part in (_map_items, _head_names, _token_labels, _frame_items, _tag_key_items):
            yield from part(sheet)
        (left, _, width, _), high = room, sheet.legend_height
        legend_box = (left, sheet.key_foot - high, width, high)  # below the maps, or the key
        yield from keys_items(sheet.legend, legend_box, letters.note)

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return how many labels the queries of a map have; 0 if tokens have no names."""
        tokens = best_sheet(self.overview, room, letters).tokens
        return len(tokens[0].positions) if tokens else 0


def _map_items(sheet: MapSheet) -> Items:
    """Yield all maps, with a thin line around each, and lines through it at the borders of its
    axes.
    """
    overview = sheet.overview
    boxes = tuple(sheet.box(*head) for head in overview.map_cells)
    yield Maps(overview.scale, boxes, overview.values, overview.hidden)
    yield from (Block(box, outlined=FAINT_LINE, faint=True) for box in boxes)
    yield from (line for box in boxes for line in _border_blocks(overview, box))


def _border_blocks(overview: Overview, box: Box) -> Iterator[Block]:
    """Yield lines through a map, where an axis has a border."""
    left, bottom, wide, high = box
    if overview.key_axis.border is not None:
        x = left + wide * overview.key_axis.border / len(overview.key_axis)
        yield Block((x, bottom, 0.0, high), outlined=BORDER_LINE)
    if overview.query_axis.border is not None:
        y = bottom + high * (1 - overview.query_axis.border / len(overview.query_axis))
        yield Block((left, y, wide, 0.0), outlined=BORDER_LINE)


def _head_names(sheet: MapSheet) -> Iterator[Words | Stroke]:
    """Yield layers on the left and heads above; every so many, where there is no room for all.

    Heads that share keys have `kv 0` above them; if a layer is in several rows, each map has its
    name.
    """
    overview, letters = sheet.overview, sheet.letters
    if sheet.is_wrapped:
        yield from _map_titles(sheet)
        return
    high, size = sheet.pitch[1], sheet.name_size
    tokens_width = sheet.tokens[0].extent if sheet.tokens else 0.0
    for row in _thinned_indices(overview.rows, high, size * POINT * NAME_LINE):
        x, bottom, _, height = sheet.box(row, 0)
        x -= tokens_width + NAMES_GAP * size * POINT
        y = bottom + height / 2 - MIDDLE * size * POINT
        yield Words(overview.rows.labels[row], x, y, size, halign="right")
    y = sheet.top_left[1] + NAMES_GAP * size * POINT
    for bank, column in product(range(sheet.banks), _named_columns(sheet)):
        left, _, width, _ = sheet.box(bank * sheet.layers_down, column)
        yield Words(overview.columns.labels[column], left + width / 2, y, size, halign="center")
    for name, start, end in _key_groups(sheet):
        line_y = sheet.top_left[1] + (NAMES_HEIGHT + 0.2) * size * POINT
        yield Stroke(((start, line_y), (end, line_y)))
        text, points = fit_line(name, size, letters.smallest, end - start)
        name_y = y + NAMES_HEIGHT * size * POINT
        yield Words(text, (start + end) / 2, name_y, points, halign="center", faint=True)


def _map_titles(sheet: MapSheet) -> Iterator[Words]:
    """Yield the name of each map over it, all in letters of one size."""
    overview, smallest, wide = sheet.overview, sheet.letters.smallest, sheet.map_size[0]
    size = min(fit_line(name, sheet.letters.axis, smallest, wide)[1] for name in overview.names)
    for name, head in zip(overview.names, overview.map_cells, strict=True):
        left, bottom, _, high = sheet.box(*head)
        text, _ = fit_line(name, size, size, wide)
        yield Words(text, left, bottom + high + NAMES_GAP * size * POINT * 0.8, size)


def _thinned_indices(axis: Axis, pitch: float, needed: float) -> range:
    """Return every place of an axis, or every second, fifth, tenth one.

    Places are `pitch` inches apart, and a label takes `needed` inches.
    """
    steps = (1, *THINNING_STEPS)
    return range(0, len(axis), first_fit(steps, lambda step: pitch * step >= needed))


def _named_columns(sheet: MapSheet) -> range:
    columns, size = sheet.overview.columns, sheet.name_size
    needed = widest_line(columns.labels, size) + NAME_SPACE * size * POINT
    return _thinned_indices(columns, sheet.pitch[0], needed)


def _key_groups(sheet: MapSheet) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each group of heads that share keys, such as `kv 0`, with its left and
    right end; again for each bank.
    """
    groups = sheet.overview.groups
    for bank in range(sheet.banks):
        for group, columns in groupby(range(len(groups)), lambda column: groups[column]):
            members, layer = list(columns), bank * sheet.layers_down
            start, end = sheet.box(layer, members[0]), sheet.box(layer, members[-1])
            yield f"kv {group}", start[0], end[0] + end[2]


def _token_labels(sheet: MapSheet) -> Iterator[Words | Stroke]:
    """Yield labels of tokens beside the first maps of layers, and below those of the last."""
    if sheet.tokens is None:
        return
    rows, columns = sheet.tokens
    last_row_start = len(sheet.overview.columns) - sheet.across
    for layer, head in sheet.overview.map_cells:
        is_last = layer == len(sheet.overview.rows) - 1 or (layer + 1) % sheet.layers_down == 0
        is_lowest = is_last and head >= last_row_start
        left = rows if head % sheet.across == 0 else Ticks("", 0)
        below = columns if is_lowest else Ticks("", 0)
        yield from axis_items(left, below, sheet.box(layer, head), _sheet_style(sheet.letters))


def _frame_items(sheet: MapSheet) -> Items:
    """Yield a thick line around each map that has a flag, in the gap, so that it hides no cell."""
    line = min(FRAME_LINE * POINT, FRAME_SHARE * MAP_GAP * min(sheet.map_size))
    for map_index, color in frame_colors(sheet.overview).items():
        left, bottom, wide, high = sheet.box(*sheet.overview.map_cells[map_index])
        box = left - line / 2, bottom - line / 2, wide + line, high + line
        yield Block(box, outlined=line / POINT, head=color)


def frame_colors(overview: Overview) -> dict[int, int]:
    framed = dict.fromkeys(flag.map_index for flag in overview.flags)
    return {each: FRAME_COLORS[n % len(FRAME_COLORS)] for n, each in enumerate(framed)}


def _tag_key_items(sheet: MapSheet) -> Items:
    """Yield the key of all frames, beside the maps or below them."""
    left, _, width, _ = sheet.room
    if sheet.key_beside:
        last_layer, last_head = (sheet.banks - 1) * sheet.layers_down, sheet.across - 1
        map_left, _, map_width, _ = sheet.box(last_layer, last_head)
        start = map_left + map_width + KEY_GAP * sheet.letters.axis * POINT
        high = sheet.top_left[1] - sheet.key_foot
        return tag_column_items(sheet, (start, sheet.key_foot, left + width - start, high))
    room = (left, sheet.key_foot, width, sheet.maps_foot - sheet.key_foot)
    return tag_lines_items(sheet, room)


@dataclass(frozen=True, eq=False)
class MapSheet:
    """Maps in a room: how large they are, and where their names and the key to the frames stand."""

    overview: Overview
    letters: Lettering
    room: Box
    key_beside: bool  # whether the key stands on the right, or below
    across: int  # maps beside each other: all of a layer, or fewer of one that is alone
    banks: int = 1  # into which layers are divided, beside each other
    tokens: tuple[Ticks, Ticks] | None = None  # beside the maps on the left, and below the last

    @property
    def _letter(self) -> float:
        """The size of a letter of the names, in inches."""
        return self.letters.axis * POINT

    @property
    def layers_down(self) -> int:
        return math.ceil(len(self.overview.rows) / self.banks)

    @property
    def worth(self) -> float:
        """How much its shape counts, beside the size of its maps: less with a shorter last part."""
        parts, whole = self.layers_down, len(self.overview.rows)
        if self.is_wrapped:
            parts, whole = self.across, len(self.overview.columns)
        return RAGGED_WORTH if whole % parts else 1.0

    @cached_property
    def name_size(self) -> float:
        """The size of the names of layers and heads, in points: the largest in which all fit."""
        wide, high = self.pitch
        widest = widest_line(self.overview.columns.labels, 1.0) + NAME_SPACE * POINT
        return first_fit(
            smaller_sizes(self.letters.axis, self.letters.smallest),
            lambda size: widest * size <= wide and size * POINT * NAME_LINE <= high,
        )

    @cached_property
    def left_width(self) -> float:
        """The width of the names of layers and of tokens, left of the maps of a bank."""
        tokens_width = self.tokens[0].extent if self.tokens else 0.0
        if self.is_wrapped:
            return tokens_width
        names = widest_line(self.overview.rows.labels, self.letters.axis)
        return names + NAMES_GAP * self._letter + tokens_width

    @property
    def is_wrapped(self) -> bool:
        """Whether a layer stands in several rows, so that each map has its own name."""
        return self.across < len(self.overview.columns)

    @property
    def title_height(self) -> float:
        return NAMES_HEIGHT * self._letter if self.is_wrapped else 0.0

    @property
    def height_above(self) -> float:
        """The height of the names of heads, and of the groups that share keys."""
        return (
            NAMES_HEIGHT * self._letter * (1 + (bool(self.overview.groups) and not self.is_wrapped))
        )

    @property
    def height_below(self) -> float:
        return (self.tokens[1].extent if self.tokens else 0.0) + self.legend_height

    @cached_property
    def legend(self) -> list[Key]:
        """The lines at the foot: what colours mean and how they run, what one cell stands for, what
        is hidden; and the text, unless tokens stand beside the maps.
        """
        overview, size = self.overview, self.letters.note
        scale, note = scale_key(overview.scale), COLOR_SCALE_NOTES[overview.bend]
        colors = replace(scale, meaning=f"{scale.meaning} ({note})" if note else scale.meaning)
        masked = "grey = hidden by the mask" if overview.has_masked_cells else ""
        border = "" if overview.query_axis.border is None else GENERATED_NOTE
        texts = _token_texts(overview) if self.tokens is None else []
        excerpts = [fit_line(text, size, size, self.room[2])[0] for text in texts]
        parts = (overview.pool_note, masked, border, *excerpts)
        return [colors, *(Key(part) for part in parts if part)]

    @cached_property
    def legend_height(self) -> float:
        return keys_height(self.legend, self.room[2], self.letters.note)

    @cached_property
    def key_room(self) -> tuple[float, float]:
        """The width and the height that the key takes from the maps; one of them is 0."""
        if self.key_beside:
            return tag_column_width(self.overview, self.letters) + KEY_GAP * self._letter, 0.0
        return 0.0, tag_lines_height(self.overview, self.letters, self.room[2])

    @cached_property
    def map_size(self) -> tuple[float, float]:
        """The size of a map: its cells are about square, if that fills the room."""
        (high, wide), (rows, columns) = self.overview.shape, self.grid_shape
        bank_gaps = (self.banks - 1) * BANK_GAP * self._letter
        across = self.room[2] - self.banks * self.left_width - bank_gaps - self.key_room[0]
        down = self.room[3] - self.height_above - self.height_below - self.key_room[1]
        max_width = max(across, 0.1) / self.banks / (columns + MAP_GAP * (columns - 1))
        down -= self.title_height * (rows - 1)
        max_height = max(down, 0.1) / (rows + MAP_GAP * (rows - 1))
        aspect = high / wide
        return min(max_width, max_height / aspect * MAP_STRETCH), min(
            max_height, max_width * aspect * MAP_SQUEEZE
        )

    @property
    def grid_shape(self) -> tuple[int, int]:
        return self.layers_down * math.ceil(len(self.overview.columns) / self.across), self.across

    @cached_property
    def pitch(self) -> tuple[float, float]:
        wide, high = self.map_size
        return wide * (1 + MAP_GAP), high * (1 + MAP_GAP) + self.title_height

    @cached_property
    def top_left(self) -> tuple[float, float]:
        left, bottom, _, height = self.room
        return left + self.left_width, bottom + height - self.height_above

    def box(self, row: int, column: int) -> Box:
        """Return where a map stands; a layer that is alone may go on in the next row."""
        bank, row = divmod(row, self.layers_down)
        extra_rows, column = divmod(column, self.across)
        (wide, high), (across, down), (left, top) = self.map_size, self.pitch, self.top_left
        bank_pitch = self.across * across - wide * MAP_GAP + self.left_width
        left += bank * (bank_pitch + BANK_GAP * self._letter)
        return left + column * across, top - (row + extra_rows) * down - high, wide, high

    @property
    def maps_foot(self) -> float:
        """Where maps end below, and the names of tokens."""
        tokens_height = self.tokens[1].extent if self.tokens else 0.0
        last_row_top = self.top_left[1] - (self.grid_shape[0] - 1) * self.pitch[1]
        return last_row_top - self.map_size[1] - tokens_height

    @property
    def key_foot(self) -> float:
        """Where the maps and the key end below."""
        key_foot = self.top_left[1] - tag_column_height(self.overview, self.letters)
        if self.key_beside:
            return min(self.maps_foot, max(key_foot, self.room[1] + self.legend_height))
        return self.maps_foot - self.key_room[1]


def possible_sheets(overview: Overview, letters: Lettering, room: Box) -> Iterator[MapSheet]:
    """Yield all sheets: with the key beside maps and below them, with layers in any number of
    banks; and a layer that is alone in any number of rows.
    """
    layers, heads = len(overview.rows), len(overview.columns)
    shapes = {(heads, math.ceil(layers / down)) for down in range(1, layers + 1)}
    if layers == 1:
        shapes = {(across, 1) for across in range(1, heads + 1)}
    for key_beside, (across, banks) in product((True, False), sorted(shapes)):
        yield MapSheet(overview, letters, room, key_beside, across, banks)


def _natural_map_height(sheet: MapSheet) -> tuple[float, MapSheet]:
    """Return how high maps want to be that fill the width of a page of their own; and the sheet."""
    shape, rows = sheet.overview.shape, sheet.grid_shape[0] * (1 + MAP_GAP)
    wide = sheet.pitch[0] / (1 + MAP_GAP)
    return min(wide * shape[0] / shape[1], LARGEST_MAP, HIGHEST_SHEET / rows), sheet


def best_sheet(overview: Overview, room: Box, letters: Lettering) -> MapSheet:
    """Return the sheet with the largest maps, and with names of tokens where there is room for
    them.

    Cells too small to be told apart are pooled.
    """
    best = max(
        possible_sheets(overview, letters, room),
        key=lambda sheet: math.prod(sheet.map_size) * sheet.worth,
    )
    with_tokens = _with_tokens(best)
    is_large = with_tokens and math.prod(with_tokens.map_size) > TOKENS_WORTH * math.prod(
        best.map_size
    )
    sheet = with_tokens if with_tokens and is_large else best
    (high, wide), (map_width, map_height) = overview.shape, sheet.map_size
    shape = (_cells_that_fit(high, map_height), _cells_that_fit(wide, map_width))
    return replace(sheet, overview=overview.pooled_to(*shape))


def _cells_that_fit(count: int, length: float) -> int:
    """Return how many of `count` cells can be told apart in `length` inches.

    It is all of them unless fewer than about half could be.
    """
    max_cells = max(math.ceil(length / FINEST_CELL), 1)
    return count if count < 2 * max_cells else max_cells


def _with_tokens(sheet: MapSheet) -> MapSheet | None:
    """Return the same sheet with the names of tokens; None if not all of them can be read.

    Pooled maps, and such with more than 32 tokens, have none.
    """
    overview, letters = sheet.overview, sheet.letters
    if (
        overview.shape != (len(overview.query_axis), len(overview.key_axis))
        or max(overview.shape) > MAX_NAMED_TOKENS
    ):
        return None
    for _ in range(2):
        (wide, high), style = sheet.map_size, _sheet_style(letters)
        queries, keys = overview.query_axis, overview.key_axis
        rows = row_ticks(queries, high / len(queries), style).untitled
        columns = column_ticks(keys, wide / len(keys), style).untitled
        sheet = replace(sheet, tokens=(rows, columns))
    all_named = len(rows.positions) == rows.count and len(columns.positions) == columns.count
    return sheet if all_named else None


def _sheet_style(letters: Lettering) -> PanelStyle:
    return panel_style(letters, SLIDE, 1.0, 1.0)


def _tag_sample(sheet: MapSheet, flag: Flag, right: float, top: float, size: float) -> Items:
    """Yield the frame of a flag, for the key, whose upper right end is here."""
    side, inset = TAG_SIDE * size * POINT, FRAME_LINE * POINT
    box = right - side + inset, top - side + inset, side - 2 * inset, side - 2 * inset
    yield Block(box, outlined=FRAME_LINE, head=frame_colors(sheet.overview)[flag.map_index])


def tag_column_width(overview: Overview, letters: Lettering) -> float:
    """Return the width of the key in a column; 0 if there are no flags."""
    size = letters.axis
    lines = (line for flag in overview.flags for line in _flag_text_lines(overview, flag))
    widest = max((_pieces_width(line, size) for line in lines), default=0.0)
    return (TAG_SIDE + TAG_GAP) * size * POINT + widest if widest else 0.0


def tag_column_height(overview: Overview, letters: Lettering) -> float:
    return len(overview.flags) * (TAG_PAIR + TAG_LEADING) * letters.axis * POINT


def tag_column_items(sheet: MapSheet, room: Box) -> Items:
    """Yield what each frame means, in two lines, from the top of a room; smaller if
    it is too low.
    """
    overview, letters = sheet.overview, sheet.letters
    left, bottom, _, high = room
    needed = tag_column_height(overview, letters)
    size = max(letters.axis * min(high / max(needed, 1e-6), 1.0), letters.smallest)
    letter, y = size * POINT, bottom + high - size * POINT
    for flag in overview.flags:
        head_line, kind_line = _flag_text_lines(overview, flag)
        x = left + (TAG_SIDE + TAG_GAP) * letter
        yield from _tag_sample(sheet, flag, left + TAG_SIDE * letter, y + letter, size)
        yield from _tag_words(head_line, x, y, size)
        yield from _tag_words(kind_line, x, y - TAG_PAIR * letter, size, faint=True)
        y -= (TAG_PAIR + TAG_LEADING) * letter


def tag_lines_height(overview: Overview, letters: Lettering, room: float) -> float:
    count = len(_wrapped_flags(overview, letters, room))
    return (count * TAG_LINE_PITCH + 0.7) * letters.axis * POINT if count else 0.0


def tag_lines_items(sheet: MapSheet, room: Box) -> Items:
    """Yield what each frame means, in lines from the top of a room."""
    overview, letters = sheet.overview, sheet.letters
    left, bottom, wide, high = room
    size, letter = letters.axis, letters.axis * POINT
    y = bottom + high - 1.7 * letter
    for line in _wrapped_flags(overview, letters, wide):
        x = left
        for flag in line:
            pieces = _flag_text(overview, flag)
            top = y + (MIDDLE + TAG_SIDE / 2) * letter
            yield from _tag_sample(sheet, flag, x + TAG_SIDE * letter, top, size)
            yield from _tag_words(pieces, x + (TAG_SIDE + TAG_GAP) * letter, y, size)
            x += _tag_width(pieces, size)
        y -= TAG_LINE_PITCH * letter


def _token_texts(overview: Overview) -> list[str]:
    rows, columns = _axis_text(overview.query_axis), _axis_text(overview.key_axis)
    return [rows] if rows == columns else [f"rows: {rows}", f"columns: {columns}"]


def _axis_text(tokens: Axis) -> str:
    """Return the tokens of an axis as a text, with spaces where they have some."""
    spaced = tokens.spaced or (True,) * len(tokens)
    words = zip(tokens.labels, spaced, strict=True)
    return "".join(f"{' ' * space}{label}" for label, space in words).strip()


def _wrapped_flags(overview: Overview, letters: Lettering, room: float) -> list[list[Flag]]:
    """Return the flags in lines that are no wider than `room`."""

    def width(flag: Flag) -> float:
        return _tag_width(_flag_text(overview, flag), letters.axis)

    return fill_lines(overview.flags, width, room)


def _tag_width(pieces: TagText, size: float) -> float:
    return (TAG_SIDE + TAG_GAP + TAGS_GAP) * size * POINT + _pieces_width(pieces, size)


def _flag_text(overview: Overview, flag: Flag) -> TagText:
    """Return the words for a flag in one line: its kind, the head in bold, and its number."""
    name = overview.names[flag.map_index]
    return (f"{flag.kind} ", False), (name, True), (f" {flag.number}", False)


def _flag_text_lines(overview: Overview, flag: Flag) -> tuple[TagText, TagText]:
    """Return the words for a flag in two lines: the head in bold with its number, and its kind."""
    head_line = ((overview.names[flag.map_index], True), (f" {flag.number}", False))
    return head_line, ((flag.kind, False),)


def _pieces_width(pieces: TagText, size: float) -> float:
    return sum(text_width(text, size) * (BOLD if bold else 1.0) for text, bold in pieces)


def _tag_words(
    pieces: TagText, x: float, y: float, size: float, *, faint: bool = False
) -> Iterator[Words]:
    """Yield some words, bold ones among them, from (x, y) on."""
    for piece in pieces:
        yield Words(piece[0], x, y, size, bold=piece[1], faint=faint)
        x += _pieces_width((piece,), size)
