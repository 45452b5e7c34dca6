"""A model while it learns, on one screen: heatmaps of all heads, their scores, and curves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attnviz.renderers.colors import theme
from attnviz.renderers.terminal.maps import arranged, drawn, smaller
from attnviz.renderers.terminal.ramps import RAMP, legend, painted
from attnviz.renderers.terminal.screen import BOLD, DIM, GAP, PLAIN, Screen, sized
from attnviz.views.grids.glimpse import Course, Glimpse
from attnviz.views.grids.grid import Grid
from attnviz.wording.numbers import share_text

SIDE, WIDEST_SIDE = 26, 36  # columns beside the maps, for scores and curves,
WIDE_ENOUGH, HIGH_ENOUGH = 60, 8  # of a screen that has room for that
HIGHEST_CURVE = 5  # lines
SCORE = 5  # columns of a score, at least
EIGHTHS = len(RAMP)
EXPLAINED = "each head's attention on:"  # over the scores

Lines = list[Text]


def glimpsed(glimpse: Glimpse, screen: Screen) -> Lines:
    """At most as many lines as the screen shows at once, and none is longer than it is wide."""
    above = list(_heading(glimpse, screen))
    lines = [*above, *_body(glimpse, screen, max(screen.rows - len(above), 1))]
    return [_end(line, screen.room) for line in lines[: screen.rows]]


def _heading(glimpse: Glimpse, screen: Screen) -> Iterator[Text]:
    """What is learned; how far it is, and as much of the rest as one line has room for."""
    whole = f"{glimpse.title}: {glimpse.about}"
    yield Text(whole if cell_len(whole) <= screen.room else glimpse.title, BOLD)
    yield Text(_fitting(glimpse.told, screen.room), DIM)


def _fitting(told: Iterable[str], room: int) -> str:
    """As much of what there is to say as one line has room for."""
    line = ""
    for each in told:
        longer = f"{line} · {each}" if line else each
        if cell_len(longer) <= room:
            line = longer
    return line


def _body(glimpse: Glimpse, screen: Screen, rows: int) -> Lines:
    """Maps of all heads, with scores and curves beside or below them; else of some; else of one."""
    narrower = replace(screen, width=screen.room - SIDE - GAP)
    for layers in (glimpse.layers, *_fewer(glimpse)):
        if screen.room >= WIDE_ENOUGH and rows >= HIGH_ENOUGH:
            how = arranged(layers, narrower, rows)
            if how:
                maps = list(drawn(layers, how, narrower))
                wide = max(line.cell_len for line in maps) + GAP
                beside = replace(screen, width=min(screen.room - wide, WIDEST_SIDE))
                return list(_side_by_side(maps, wide, _side(glimpse, beside, rows)))
        for below in (list(_below(glimpse, screen)), [_in_short(glimpse, screen)]):
            how = arranged(layers, screen, rows - len(below))
            if how:
                return [*drawn(layers, how, screen), *below]
    below = [_in_short(glimpse, screen)] if rows > 1 else []
    layers = ((smaller(layers[0][0], screen, rows - len(below)),),)
    how = arranged(layers, screen, rows - len(below))
    return [*(drawn(layers, how, screen) if how else ()), *below]


def _in_short(glimpse: Glimpse, screen: Screen) -> Text:
    """The numbers alone, as many as one line has room for; the last of them matters most."""
    told = [f"{each.name} {each.written}" for each in glimpse.courses[::-1]]
    return Text(_fitting(told, screen.room) or glimpse.courses[-1].written)


def _fewer(glimpse: Glimpse) -> Iterator[tuple[tuple[Grid, ...], ...]]:
    """The heads that do most of what is to be done, then the first of them alone."""
    every = [head for heads in glimpse.layers for head in heads]
    places = dict.fromkeys(_best(glimpse.scores)) or {0: None}
    if len(every) > len(places) > 1:
        yield (tuple(every[place] for place in sorted(places)),)
    yield ((every[next(iter(places))],),)


def _best(scores: Grid) -> list[int]:
    """Of each column the row that has most of it."""
    values = np.nan_to_num(scores.values)
    return [int(place) for place in values.argmax(0)] if values.size else []


def _side_by_side(left: Lines, wide: int, right: Lines) -> Iterator[Text]:
    for one, other in zip_longest(left, right, fillvalue=Text(end="")):
        line = one.copy()
        line.append(" " * (wide - line.cell_len))
        yield line.append_text(other)


def _side(glimpse: Glimpse, screen: Screen, rows: int) -> Lines:
    """Scores of heads, curves, and what the colours mean, as far as there is room."""
    low = 2 * len(glimpse.courses)  # lines of the lowest curves, with a line above each
    table = list(_table(glimpse.scores, screen, rows - low - 1))
    high = min(HIGHEST_CURVE, (rows - len(table) - 1) // len(glimpse.courses) - 1)
    drawn = [
        [_named(each), *_curve(glimpse, place, screen.room, max(high, 1), screen)]
        for place, each in enumerate(glimpse.courses)
    ]
    lines = [*table, *([Text()] if table else []), *(line for each in drawn for line in each)]
    scale = list(legend(glimpse.layers[0], screen))
    return [*lines, *([Text(), *scale] if len(lines) + 1 + len(scale) <= rows else [])]


def _named(course: Course) -> Text:
    return Text.assemble((f"{course.name} ", DIM), course.written, end="")


def _below(glimpse: Glimpse, screen: Screen) -> Iterator[Text]:
    """The same in a few lines: which head does most of what, and a low curve for each number."""
    scores = glimpse.scores
    told = [
        f"{name} {scores.rows.labels[row]} {share_text(float(scores.values[row, column]))}"
        for column, (name, row) in enumerate(zip(scores.columns.labels, _best(scores), strict=True))
    ]
    if told:
        yield Text(_fitting(told, screen.room) or _cut(told[0], screen.room))
    names = [_named(each) for each in glimpse.courses]
    start = min(max(name.cell_len for name in names) + 1, screen.room)
    for place, name in enumerate(names):
        name.truncate(start, pad=True)
        (curve,) = _curve(glimpse, place, max(min(screen.room - start, SIDE), 0), 1, screen)
        yield name.append_text(curve)


def _table(scores: Grid, screen: Screen, rows: int) -> Iterator[Text]:
    """Which head does what, with how much of its weight; of too many heads those that do most."""
    columns = range(len(scores.columns))
    if not columns or rows < 2:
        return
    if rows > len(scores.rows) + 1:
        yield _end(Text(EXPLAINED, DIM), screen.room)
        rows -= 1
    start = max(map(cell_len, scores.rows.labels)) + 1
    widths = _widths(scores.columns.labels, screen.room + 1 - start)
    line = Text(" " * start, DIM)
    for name, width in zip(scores.columns.labels, widths, strict=True):
        line.append(sized(_cut(name, width - 1).rjust(width - 1), width - 1) + " ")
    yield _end(line, screen.room)
    paint = painted(np.nan_to_num(scores.values), scores.scale, screen)
    for row in _shown(scores, rows - 1):
        line = Text(sized(scores.rows.labels[row], start), end="")
        for column, width in zip(columns, widths, strict=True):
            value = scores.values[row, column]
            text = "" if np.isnan(value) else share_text(float(value))
            style = paint.behind((row, column)) if screen.colored else PLAIN
            line.append(text.rjust(width - 1), style).append(" ")
        yield _end(line, screen.room)


def _widths(names: Sequence[str], room: int) -> list[int]:
    """As wide as names are, with a space behind each; where that is too wide, the widest less."""
    widths = [max(cell_len(each) + 1, SCORE) for each in names]
    while sum(widths) > room and max(widths) > SCORE:
        widths[widths.index(max(widths))] -= 1
    return widths


def _shown(scores: Grid, most: int) -> list[int]:
    """Every head, or those with the highest scores."""
    order = np.argsort(-np.nan_to_num(scores.values).max(1), kind="stable")
    return sorted(int(place) for place in order[:most])


def _curve(glimpse: Glimpse, place: int, width: int, height: int, screen: Screen) -> Iterator[Text]:
    """A number from the first step to the last, in blocks that stand on each other."""
    course, steps = glimpse.courses[place], glimpse.steps
    style = Style(color=theme(screen.theme).series[place]) if screen.colored else PLAIN
    at = np.linspace(0, steps[-1], min(width, len(steps)))  # it grows from the left
    values = course.values[np.searchsorted(steps, at, side="right") - 1]
    shares = np.clip(values / course.highest, 0, 1)
    levels = np.maximum(np.nan_to_num(shares) * height * EIGHTHS, 1).round().astype(int)
    for line in reversed(range(height)):
        parts = np.clip(levels - line * EIGHTHS, 0, EIGHTHS)
        yield Text("".join(f" {RAMP}"[part] for part in parts), style)


def _end(line: Text, room: int) -> Text:
    line.truncate(room)
    return line


def _cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else sized(text, room).rstrip()
