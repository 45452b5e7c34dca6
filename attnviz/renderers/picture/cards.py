"""A card on a page of many: its heading, its small print, and tables as large as they must be.

Nothing here is made to fit: a card says how much room it takes, and `flow.py` finds that room.
All lengths are inches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from attnviz.renderers.picture.bars import scales_of
from attnviz.renderers.picture.card_tables import (
    ON_CARDS,
    SMALLEST,
    Body,
    Drawn,
    draw_tables,
    size_of,
)
from attnviz.renderers.picture.items import Bar, Layout, Words, empty_layout, joined
from attnviz.renderers.picture.lettering import POINT, typeset
from attnviz.renderers.picture.texts import BOLD, fitted, wrapped
from attnviz.renderers.picture.ticks import text_width
from attnviz.renderers.wrapping import break_sum
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.section import Drawable, Section, panel_table

HEADING, SMALLER_HEADING, SMALL = 11.0, 9.0, SMALLEST  # points
SUM, ABOVE_SUMS = SMALLEST, 0.06  # points; inches between tables and sums
NARROW = 0.3  # of its size is the width of a letter, at least, in a line of many
WIDEST_HEADING = 3.6  # a longer one is cut
WORDS_ALONE = 1.5  # the width of a panel of words alone
NARROWEST_SUMS, LONG = 3.0, 80  # inches; letters
SLACK = 0.95  # of the width: small letters that are fitted to pixels may come out wider
MOST_LINES = 2  # that a sentence may take in the small print
OUTSIDE_BRACKETS = re.compile(r" (?![^\[]*\])")  # so that `[4 × 3]` stays together
RULE = 0.07  # from a rule to the heading below it
KEY = (0.45, 0.075)  # a colour bar that lies beside a heading
LEADING, LEADING_OF_SUMS = 1.45, 1.3  # from one line to the next


@dataclass(frozen=True, eq=False)
class Card:
    """What one card shows."""

    heading: str
    shapes: str
    formula: str
    about: str
    drawn: Drawn
    sums: tuple[str, ...] = ()
    most: int = 0  # lines of sums
    plain: bool = False  # whether it goes without its small print,
    fine: bool = False  # and has small cells, whose colours take the place of numbers
    keyed: bool = True  # whether it is always wide enough for a key to its colours


@dataclass(frozen=True, eq=False)
class Head:
    """What stands above the tables: the heading, keys to the colours, and the small print."""

    heading: str
    size: float
    scales: tuple[Scale, ...]
    lines: tuple[str, ...]

    @property
    def height(self) -> float:
        return RULE + (HEADING + len(self.lines) * SMALL * LEADING) * POINT + 0.1


def card_of(each: Drawable) -> Card:
    """A table that is alone on its card needs no title beside the card's."""
    assert not isinstance(each, Overview), "a page with one is no page of cards"
    if not isinstance(each, Section):
        shown = each if isinstance(each, Curves) else panel_table(each)
        return Card(shown.title, "", "", "", (replace(shown, title=""),))
    grids = [without_titles(grid) for grid in each.grids]
    if len(grids) == 1:
        grids = [replace(grids[0], title="")]
    drawn, sums = tuple(_short_titles(grids)), tuple(line.text for line in each.sums)
    return Card(each.heading, each.shapes, each.formula, each.about, drawn, sums)


def without_titles(grid: Grid) -> Grid:
    """Only where both sides count the same must it be said which is which.

    Beside a row or two there is no room to say it.
    """
    alike = grid.rows.unit == grid.columns.unit
    rows = grid.rows if alike and len(grid.rows) > 2 else replace(grid.rows, title="")
    columns = grid.columns if alike else replace(grid.columns, title="")
    return replace(grid, rows=rows, columns=columns)


def _short_titles(grids: Sequence[Grid]) -> Iterator[Grid]:
    """Of `scores · head 0` and `scores · head 1` the end, if they are wider than their tables."""
    parts = [grid.title.rpartition(" · ") for grid in grids]
    alike = len({start for start, _, _ in parts}) == 1 and all(start for start, _, _ in parts)
    wide = any(
        text_width(grid.title, ON_CARDS.title) > size_of(grid, 1.0, 1.0)[0] for grid in grids
    )
    for grid, (_, _, end) in zip(grids, parts, strict=True):
        yield replace(grid, title=end) if alike and wide and len(grids) > 1 else grid


def thin(card: Card) -> Card:
    """As small as a card can be that has its tables, in colours without numbers."""
    parts = [grid.title.rpartition(" · ") for grid in card.drawn]
    starts = {start for start, _, _ in parts if start}
    titles = [end for _, _, end in parts]
    if len(starts) > 1:
        before = ["", *(start for start, _, _ in parts)]
        short = [end.removeprefix("head ") for end in titles]
        titles = [
            end if start == said else f"{start} {end}".strip()
            for said, (start, _, _), end in zip(before, parts, short, strict=False)
        ]
    drawn = (replace(grid, title=title) for grid, title in zip(card.drawn, titles, strict=True))
    return replace(card, drawn=tuple(drawn), plain=True, fine=True)


def least_width(card: Card) -> float:
    """What its words need, whatever its tables do."""
    heading = min(text_width(card.heading, SMALLER_HEADING * BOLD), WIDEST_HEADING)
    scales = scales_of(card.drawn) if card.keyed else ()
    keys = max((_key_width(scale) for scale in scales), default=0.0)
    return max(heading + keys, _least_of_sums(card), 0.0 if card.drawn else WORDS_ALONE)


def _least_of_sums(card: Card) -> float:
    """So much that they are not broken all the time."""
    if not card.most:
        return 0.0
    if any(len(each) > LONG for each in card.sums):  # to measure them would take long
        return NARROWEST_SUMS
    longest = max((text_width(each, SUM) for each in card.sums), default=0.0)
    return min(longest / SLACK, NARROWEST_SUMS)


@lru_cache(maxsize=4096)
def head(card: Card, width: float) -> Head:
    """As much as has its place in a panel of this width."""
    room = width - min(text_width(card.heading, SMALLER_HEADING * BOLD), WIDEST_HEADING)
    scales: list[Scale] = []
    for scale in reversed(scales_of(card.drawn)):
        room -= _key_width(scale)
        if room < -1e-6:
            break
        scales.append(scale)
    left = width - sum(map(_key_width, scales))
    heading, size = fitted(card.heading, HEADING, SMALLER_HEADING, left / BOLD + 1e-6)
    lines = () if card.plain and card.drawn else tuple(_small_print(card, width))
    return Head(heading, size, tuple(scales), lines)


def _small_print(card: Card, width: float) -> Iterator[str]:
    """The shapes; the formula and the sentence where they are short; or the sentence alone."""
    width *= SLACK
    about = wrapped(card.about.split(), " ", SMALL, width)
    if not card.drawn:
        yield from about
        return
    yield from wrapped(OUTSIDE_BRACKETS.split(card.shapes), " ", SMALL, width)
    if card.formula and text_width(card.formula, SMALL) <= width:
        yield card.formula
    if len(about) <= MOST_LINES:
        yield from about


@lru_cache(maxsize=4096)
def foot(card: Card, width: float) -> tuple[str, ...]:
    """The first of the sums, as many as stand on so many lines, and how many are left."""
    lines: list[str] = []
    for place, each in enumerate(card.sums if card.most else ()):
        more = list(islice(break_sum(each, lambda line: _fits(line, width * SLACK)), card.most + 1))
        last = place + 1 == len(card.sums)
        if len(lines) + len(more) > card.most - (not last):
            left = len(card.sums) - place
            return (*lines, f"… and {left} more") if lines else (*more[: card.most - 1], "…")
        lines += more
    return tuple(lines)


def _fits(line: str, width: float) -> bool:
    # To measure thousands of letters takes long, and they never fit.
    return len(line) * SUM * POINT * NARROW <= width and text_width(line, SUM) <= width


def height_of_foot(card: Card, width: float) -> float:
    lines = foot(card, width)
    return len(lines) * SUM * POINT * LEADING_OF_SUMS + (ABOVE_SUMS if lines else 0.0)


def draw_card(card: Card, tables: Body, left: float, top: float, width: float) -> Layout:
    """A card: a rule, the heading with the keys to its colours, the small print, the tables."""
    above = head(card, width)
    keys = tuple(_keys(above, left + width, top))
    below = top - above.height - tables.height - ABOVE_SUMS
    words = (
        *_heading(above, left, top),
        *(word for key in keys for word in _key_words(key)),
        *_sums(card, width, left, below),
    )
    rule = ((left, top), (left + width, top))
    frame = replace(empty_layout(), bars=keys, words=words, marks=(rule,))
    return joined([frame, *draw_tables(tables, left, top - above.height)])


def _heading(above: Head, left: float, top: float) -> Iterator[Words]:
    y = top - RULE - HEADING * POINT
    yield Words(above.heading, left, y, above.size, bold=True)
    for line in above.lines:
        y -= SMALL * POINT * LEADING
        yield Words(line, left, y, SMALL, faint=True)


def _sums(card: Card, width: float, left: float, top: float) -> Iterator[Words]:
    """Below the tables."""
    for line in foot(card, width):
        top -= SUM * POINT * LEADING_OF_SUMS
        yield Words(line, left, top + 0.3 * SUM * POINT, SUM)


def _keys(above: Head, right: float, top: float) -> Iterator[Bar]:
    """Colour bars that lie at the right end of the heading."""
    y = top - RULE - HEADING * POINT
    for scale in above.scales:
        high = text_width(_ends(scale)[1], SMALL)
        yield Bar(scale, (right - high - 0.04 - KEY[0], y, *KEY))
        right -= _key_width(scale)


def _key_width(scale: Scale) -> float:
    return sum(text_width(end, SMALL) for end in _ends(scale)) + KEY[0] + 0.2


def _ends(scale: Scale) -> tuple[str, str]:
    return typeset(f"{scale.low:g}"), typeset(f"{'≥ ' if scale.is_exceeded else ''}{scale.high:g}")


def _key_words(key: Bar) -> Iterator[Words]:
    """The two ends of a scale, on either side of its bar."""
    left, bottom, width, _ = key.box
    low, high = _ends(key.scale)
    yield Words(low, left - 0.04, bottom, SMALL, faint=True, across="right")
    yield Words(high, left + width + 0.04, bottom, SMALL, faint=True)
