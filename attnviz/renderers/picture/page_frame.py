"""Frame: what stands around the panels of a page: headline, captions, notes, keys.

All of it begins at one left edge, with some room in between.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnviz.errors import AttnvizError, cmd, opt
from attnviz.renderers import PAGE_PLACEHOLDER
from attnviz.renderers.picture.fit import fill_lines
from attnviz.renderers.picture.items import Block, Box, ColorBar, Items, Layout, Tint, Words
from attnviz.renderers.picture.text import (
    ASCENT,
    BOLD,
    MIDDLE,
    POINT,
    SLIDE,
    Lettering,
    Size,
    fit_line,
    text_width,
    wrap_parts,
)
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.words_and_bars import Arcs, Sentence
from attnviz.wording.numbers import short_text, typeset

READABLE_SHARE = 0.5  # of the words of a head alone: fewer on a page of several heads tell nothing
# Lines of a headline, and how large each is
HEADLINE_SIZES = (1, 1.0), (2, 0.85), (2, 0.7), (3, 0.7)
MAX_HEADLINE_LINES = 3
LEADING = 1.3  # from one line to the next, in letters
# The last line of a headline, and by how much others are shortened
SHORTEST_LAST_LINE, NARROWING_STEP = 0.3, 0.96
SMALLEST_NOTE = 0.7  # of its size, where a single word has no room
HEADLINE_GAP = 0.55  # between the headline and the panels, in letters of the headline
MIN_SIDE_FOR_NOTES = 3.5  # inches; a smaller picture goes without small print
UNBREAKABLE_PHRASE = re.compile(r"(?<=\d) of (?=\d)|\bwith (?=\.\d)")  # 8 of 10, with .99
NOTE_SEPARATOR = " · "  # what can be parted, in notes
KEYS_LEADING = 1.6  # from one line to the next
# How wide and how high they are, in sizes of the letters
KEY_BAR, KEY_SWATCH = (6.0, 0.75), (1.5, 1.0)
KEYS_GAP, SAMPLE_GAP = 2.0, 0.4  # between two keys, and between a sample and its words
KEY_OUTLINE = 1.5  # points
PAGE_SLACK = 0.02  # inches that words may reach beyond the page, or into others


@dataclass(frozen=True)
class Captions:
    """What is written around all panels of a picture, and the room that others need at top and
    foot.
    """

    title: str = ""
    notes: str = ""  # how to read the panels
    origin: str = ""  # what made them, in faint letters
    has_custom_title: bool = False  # whether the title is somebody's own
    above: float = 0.0  # inches from the top of the page that are left to words of somebody else,
    below: float = 0.0  # and from its foot


@dataclass(frozen=True)
class Line:
    """A line of text in its size, without a position so far."""

    text: str
    size: float
    bold: bool = False
    faint: bool = False

    @property
    def height(self) -> float:
        """The height of the line in inches, with the gap to the next."""
        return self.size * POINT * LEADING


@dataclass(frozen=True)
class Frame:
    """The lines above and below the panels of a page."""

    size: Size
    letters: Lettering
    lines_above: tuple[Line, ...]
    lines_below: tuple[Line, ...]
    reserved: tuple[float, float] = (0.0, 0.0)  # inches above and below that are left to others

    @property
    def top(self) -> float:
        """The height on the page, in inches from its foot, at which its first line begins."""
        return self.size[1] - max(self.letters.margin, self.reserved[0])

    @property
    def room(self) -> Box:
        """The box that is left for panels."""
        margin = self.letters.margin
        over_words = self.letters.note * POINT if self.reserved[1] else 0.0
        bottom = max(margin, self.reserved[1] + over_words) + total_height(self.lines_below)
        under_words = self.lines_above or self.reserved[0]
        air = self.letters.headline * POINT * HEADLINE_GAP if under_words else 0.0
        top = self.top - total_height(self.lines_above) - air
        return margin, bottom, max(self.size[0] - 2 * margin, 0.5), max(top - bottom, 0.5)

    @property
    def span(self) -> tuple[float, float]:
        """The lower and the upper end of what is between the lines, in inches."""
        return self.room[1], self.top - total_height(self.lines_above)

    def words(self) -> Iterator[Words]:
        margin = self.letters.margin
        yield from stacked_words(self.lines_above, margin, self.top)
        foot = max(0.6 * margin, self.reserved[1])
        yield from stacked_words(self.lines_below, margin, foot + total_height(self.lines_below))


def make_frame(captions: Captions, size: Size, letters: Lettering) -> Frame:
    """Return the captions in lines that fit the page.

    A page with a side below 3.5 inches goes without notes and small print.
    """
    width = size[0] - 2 * letters.margin
    small = min(size) < MIN_SIDE_FOR_NOTES
    notes = [] if small else _caption_lines(captions.notes, letters.note, width)
    foot = [] if small else _caption_lines(captions.origin, letters.small_print, width, faint=True)
    headline = tuple(headline_lines(captions.title, letters.headline, width, letters.smallest))
    return Frame(size, letters, headline, (*notes, *foot), (captions.above, captions.below))


def headline_lines(text: str, size: float, width: float, smallest: float = 0.0) -> Iterator[Line]:
    """Yield a headline as one line of large letters, or as a few that are smaller.

    None becomes smaller than `smallest`; at worst lines are cut.
    """
    words = UNBREAKABLE_PHRASE.sub(lambda match: match[0].replace(" ", "\u00a0"), text).split(" ")
    for max_lines, share in HEADLINE_SIZES:
        points = max(size * share, min(smallest, size))
        lines = wrap_parts(words, " ", points * BOLD, width)
        if len(lines) <= max_lines:
            break
    lines = _even_lines(lines, words, points * BOLD, width)
    smallest = max(size * HEADLINE_SIZES[-1][1] / 2, min(smallest, points))
    for line in lines:
        cut_line, points = fit_line(line, points, smallest, width / BOLD)
        yield Line(cut_line, points, bold=True)


def _even_lines(lines: list[str], words: Sequence[str], size: float, width: float) -> list[str]:
    """Return the same number of lines, broken so that the last one is not much shorter, if
    possible.
    """
    room = width
    while (
        len(lines) > 1
        and text_width(lines[-1], size) < SHORTEST_LAST_LINE * width
        and room > width / 2
    ):
        room *= NARROWING_STEP
        narrower = wrap_parts(words, " ", size, room)
        if len(narrower) > len(lines):
            break
        lines = narrower
    return lines


def stacked_words(lines: Sequence[Line], left: float, top: float) -> Iterator[Words]:
    """Yield lines one below the other from `top` on, all with their left end at `left`."""
    for line in lines:
        foot = top - line.size * POINT
        yield Words(line.text, left, foot, line.size, bold=line.bold, faint=line.faint)
        top -= line.height


def _caption_lines(text: str, size: float, width: float, *, faint: bool = False) -> list[Line]:
    """Return notes in lines no wider than `width` inches, broken at ` · `; only long
    notes inside, rather than in smaller letters.
    """
    parts = wrap_parts(text.split(NOTE_SEPARATOR), NOTE_SEPARATOR, size, width)
    lines = [line for part in parts for line in wrap_parts(part.split(" "), " ", size, width)]
    return [Line(*fit_line(line, size, size * SMALLEST_NOTE, width), faint=faint) for line in lines]


def total_height(lines: Sequence[Line]) -> float:
    return sum(line.height for line in lines)


def words_have_room(layout: Layout) -> bool:
    """Return whether all words stand on the page, and none on another; slanted ones are not
    compared.
    """
    words = [each for each in layout.words if each.text.strip()]
    boxes = np.array([_text_bounds(each) for each in words]).reshape(-1, 4)
    on_page = (boxes[:, :2] >= -PAGE_SLACK).all() and (
        boxes[:, 2:] <= np.array(layout.size) + PAGE_SLACK
    ).all()
    straight = boxes[[each.angle % 90 == 0 for each in words]]
    starts, ends = straight[:, None, :2], straight[:, None, 2:]
    shared = np.minimum(ends, straight[:, 2:]) - np.maximum(starts, straight[:, :2])
    overlaps = np.triu((shared > PAGE_SLACK).all(axis=2), 1)
    return bool(on_page and not overlaps.any())


def _text_bounds(words: Words) -> Box:
    """Return the left, lower, right and upper end of a line of text, without its descenders."""
    unit = words.size * POINT
    width = text_width(words.text, words.size) * (BOLD if words.bold else 1.0)
    x = {"left": 0.0, "center": -width / 2, "right": -width}[words.halign]
    y = {"top": -ASCENT, "bottom": 0.0, "center": -MIDDLE, "center_baseline": -MIDDLE}.get(
        words.valign, 0.0
    )
    turn = math.radians(words.angle)
    corners = [(x + a, y * unit + b) for a in (0.0, width) for b in (0.0, 2 * MIDDLE * unit)]
    xs = [words.x + a * math.cos(turn) - b * math.sin(turn) for a, b in corners]
    ys = [words.y + a * math.sin(turn) + b * math.cos(turn) for a, b in corners]
    return min(xs), min(ys), max(xs), max(ys)


@dataclass(frozen=True)
class Key:
    """A sample, and what it means: a whole scale, the look of a word, or nothing but words."""

    meaning: str
    scale: Scale | None = None
    block: Block | None = None  # wherever it stands

    @property
    def prefix(self) -> str:
        """What stands before the sample: the name of a scale and its low end; else nothing."""
        if self.scale is None:
            return ""
        sign = "≤ " if self.scale.covers_smaller else ""
        return typeset(f"{self.scale.name} {sign}{self.scale.low:g}")

    @property
    def sample_size(self) -> tuple[float, float]:
        """The width and the height of the sample, in letters; zeros for words alone."""
        if self.scale is not None:
            return KEY_BAR
        return KEY_SWATCH if self.block is not None else (0.0, 0.0)

    def width(self, size: float) -> float:
        """Return the inches that the sample and its words take in letters of `size` points."""
        gaps = SAMPLE_GAP * (bool(self.prefix) + bool(self.sample_size[0]))
        words = text_width(self.prefix, size) + text_width(self.meaning, size)
        return words + (self.sample_size[0] + gaps) * size * POINT


@dataclass(frozen=True)
class Drawing:
    """A drawing that is no arrangement of panels, with keys to its colours below it."""

    @property
    def width(self) -> float:
        """The width of a page of its own, in inches."""
        return SLIDE[0]

    def keys(self) -> list[Key]:
        """Return what its colours mean, each said once; nothing unless a subclass has some."""
        return []

    def body_height(self, letters: Lettering, width: float) -> float:
        """Return the height in inches that the drawing wants in this width, without its keys."""
        raise NotImplementedError

    def body(self, room: Box, letters: Lettering) -> Items:
        """Yield its items in a room, which is the one above the keys."""
        raise NotImplementedError

    def legibility(self, room: Box, letters: Lettering) -> int:
        """Return how much can be read of the drawing and its labels, as a number to compare with
        others.
        """
        raise NotImplementedError

    def key_size(self, letters: Lettering) -> float:
        return letters.axis

    def _keys_height(self, letters: Lettering, width: float) -> float:
        """Return the inches that its keys take below the drawing."""
        return keys_height(self.keys(), width, self.key_size(letters))

    def crowded_out_text(self, room: Box, letters: Lettering) -> str:
        """Return a phrase for what has no room there, but would have some on several pages; else
        "".
        """
        return ""

    def refuse(self, room: Box, letters: Lettering) -> None:
        """Refuse a room in which nobody could read the drawing; any room will do unless a subclass
        objects.
        """

    def height(self, letters: Lettering, width: float) -> float:
        """Return the height in inches that the drawing wants in this width, with its keys."""
        return self.body_height(letters, width) + self._keys_height(letters, width)

    def room_above_keys(self, room: Box, letters: Lettering) -> Box:
        """Return the part of a room that the keys at its foot leave."""
        left, bottom, width, high = room
        foot = self._keys_height(letters, width)
        return left, bottom + foot, width, high - foot

    def items(self, room: Box, letters: Lettering) -> Items:
        yield from self.body(self.room_above_keys(room, letters), letters)
        yield from keys_items(self.keys(), room, self.key_size(letters))


def scale_key(scale: Scale) -> Key:
    """Return the key `weight 0 ▭ 1` of a scale; with the number in the middle if its colours are
    bent.
    """
    end = f"{'≥ ' if scale.is_exceeded else ''}{scale.high:g}"
    if scale.bend == "straight":
        return Key(typeset(end), scale)
    middle = float(scale.values_at(np.array(0.5)))
    return Key(typeset(f"{end}, {short_text(middle)} in the middle"), scale)


def masked_key(scale: Scale) -> Key:
    return Key("hidden by the mask", block=Block((0, 0, 0, 0), Tint(scale, None)))


def keys_height(keys: Sequence[Key], width: float, size: float) -> float:
    """Return the height that keys need in a width, with a little room above them; 0 for no keys."""
    lines = len(_key_lines(keys, width, size))
    return (lines * KEYS_LEADING + 0.4) * size * POINT if lines else 0.0


def keys_items(keys: Sequence[Key], room: Box, size: float) -> Items:
    """Yield keys at the foot of a room, from the left, in as many lines as they need."""
    left, bottom, width, _ = room
    lines = _key_lines(keys, width, size)
    for index, line in enumerate(reversed(lines)):
        x, y = left, bottom + index * KEYS_LEADING * size * POINT
        for key in line:
            yield from _key_items(key, x, y, size)
            x += key.width(size) + KEYS_GAP * size * POINT


def _key_lines(keys: Sequence[Key], width: float, size: float) -> list[list[Key]]:
    """Return keys in lines no wider than `width` inches."""
    narrow, gap = [_narrow_key(key, width, size) for key in keys], KEYS_GAP * size * POINT
    return fill_lines(narrow, lambda key: key.width(size) + gap, width + gap)


def _narrow_key(key: Key, width: float, size: float) -> Key:
    """Return a key no wider than `width` inches: its meaning loses what is in brackets, then its
    end.
    """
    for meaning in (key.meaning, key.meaning.partition(" (")[0]):
        shorter = replace(key, meaning=meaning)
        if shorter.width(size) <= width:
            return shorter
    room = width - replace(key, meaning="").width(size)
    return replace(key, meaning=fit_line(meaning, size, size, max(room, size * POINT))[0])


def _key_items(key: Key, x: float, y: float, size: float) -> Items:
    """Yield a key whose text begins at (x, y): words before the sample, the sample, its meaning."""
    unit = size * POINT
    width, high = key.sample_size
    start = x + (text_width(key.prefix, size) + SAMPLE_GAP * unit if key.prefix else 0.0)
    box = (start, y + (MIDDLE - high / 2) * unit, width * unit, high * unit)
    if key.scale is not None:
        yield ColorBar(key.scale, box)
    if key.block is not None:
        yield replace(key.block, box=box)
    if key.prefix:
        yield Words(key.prefix, x, y, size, faint=True)
    end = x + key.width(size)
    yield Words(key.meaning, end - text_width(key.meaning, size), y, size, faint=True)


def refuse_few_words(
    noun: str, heads: Sequence[Arcs | Sentence], together: int, alone: int
) -> None:
    """Refuse `heads` on one page, which leave room for `together` of the words that one `alone`
    has; the hint names the command for the head whose weight stands out most among them."""
    if together >= READABLE_SHARE * alone:
        return
    command = heads[_standing_out(heads)].single_command
    _, name, words = f"{command} -o head.png".split(" ", 2)
    hint = f"draw one head: {cmd[name]:{words}}; or " if command else ""
    raise AttnvizError(
        f"the {noun} of {len(heads)} heads leave room for only {together} of {alone} words in one "
        "picture",
        f"{hint}draw them on several pages: {opt.out:heads-{PAGE_PLACEHOLDER}.png}",
    )


def _standing_out(heads: Sequence[Arcs | Sentence]) -> int:
    """Return the index of the head with the weight that is furthest above the mean of all heads."""
    grids = [each.grid for each in heads]
    rows = [
        each.query if isinstance(each, Arcs) and each.query is not None else slice(None)
        for each in heads
    ]
    weights = [grid.values[row] for grid, row in zip(grids, rows, strict=True)]
    is_alike = len({each.shape for each in weights}) == 1
    mean = np.mean(weights, axis=0) if is_alike else 0.0
    return int(np.argmax([float((each - mean).max()) for each in weights]))
