"""The words around panels: titles, names of lines, small print; in as many lines as they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnviz.renderers.picture.placed import Box, Words
from attnviz.renderers.picture.ticks import POINT, text_width
from attnviz.views.grids.grid import Curves, Grid

TITLE, CAPTION = 13.0, 7.0  # points
SMALLER_TITLE = 10.5
SMALLEST_LINE = 6.0  # of a title
TITLE_LEADING = 1.5  # from one line of a title to the next
CAPTION_LEADING = 1.4
ROOM_FOR_CAPTION = 3.5  # inches; a smaller picture goes without small print
SMALLEST_TITLE = 7.0  # of a chart, that shares its line with the names of the lines
SERIES_LABEL = 8.0
BOLD = 1.15  # bold letters are so much wider
MARGIN = 0.22
ABOVE_A_PANEL = 0.07
SHORTENED = 0.95  # of its letters a line keeps each time that it is cut


@dataclass(frozen=True)
class Captions:
    """What is written around all panels of a picture."""

    title: str = ""
    small_print: str = ""


def title_lines(title: str, size: tuple[float, float]) -> list[str]:
    """A title that is too long for one line, even if it is smaller, goes on in the next."""
    room = size[0] - 2 * MARGIN
    if text_width(title, SMALLER_TITLE * BOLD) <= room:
        return [title] if title else []
    return wrapped(title.split(" "), " ", TITLE * BOLD, room)


def title_words(lines: Sequence[str], size: tuple[float, float]) -> Iterator[Words]:
    for number, line in enumerate(lines):
        y = size[1] - MARGIN - TITLE * POINT * (1 + number * TITLE_LEADING)
        text, points = fitted(line, TITLE, SMALLEST_LINE, (size[0] - 2 * MARGIN) / BOLD)
        yield Words(text, MARGIN, y, points, bold=True)


def panel_titles(
    each: Grid | Curves | None, box: Box, size: float, smallest: float, room: float
) -> Iterator[Words]:
    """What stands above a panel: its title, and of a chart the names of its lines."""
    if isinstance(each, Grid):
        heading = " · ".join(part for part in (each.title, each.pooled) if part)
        if heading:
            yield _panel_title(heading, box, room, size, smallest)
    elif each is not None:
        names = list(_names_of_lines(each, box))
        left = min((name.x for name in names), default=box[0] + box[2])
        yield _panel_title(each.title, box, left - box[0] - 0.04, size, smallest)
        yield from names


def _panel_title(text: str, box: Box, room: float, size: float, smallest: float) -> Words:
    fitting, points = fitted(text, size, smallest, room)
    return Words(fitting, box[0], box[1] + box[3] + ABOVE_A_PANEL, points)


def _names_of_lines(curves: Curves, box: Box) -> Iterator[Words]:
    """The lines' names in the lines' colours, from the right end of the title's line.

    Where there is no room for all beside the title, only what other charts have not: the dashed.
    """
    names = [f"- - {line.name}" if line.dashed else line.name for line in curves.lines]
    widths = [text_width(name, SERIES_LABEL) + 0.1 for name in names]
    fits = sum(widths) + text_width(curves.title, SMALLEST_TITLE) < box[2]
    right = box[0] + box[2] + 0.1
    for number, line in reversed(list(enumerate(curves.lines))):
        if fits or line.dashed:
            right -= widths[number]
            series = None if line.dashed else number
            yield Words(
                names[number], right, box[1] + box[3] + ABOVE_A_PANEL, SERIES_LABEL, series=series
            )


def fitted(text: str, size: float, smallest: float, room: float) -> tuple[str, float]:
    """A line made smaller until it fits, and then shorter."""
    fitting = min(size, size * room / max(text_width(text, size), 1e-6))
    while fitting < smallest and len(text) > 1 and text_width(text, smallest) > room:
        text = text[: max(1, int(len(text) * SHORTENED) - 1)].rstrip("…") + "…"
        if len(text) <= 2:
            break
    return text, max(fitting, smallest)


def caption_lines(caption: str, size: tuple[float, float]) -> list[str]:
    """The small print; a small picture goes without it."""
    if min(size) < ROOM_FOR_CAPTION:
        return []
    return wrapped(caption.split(" · "), " · ", CAPTION, size[0] - 2 * MARGIN)


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


def caption_words(lines: Sequence[str], size: tuple[float, float]) -> Iterator[Words]:
    for number, line in enumerate(reversed(lines)):
        yield Words(
            line,
            MARGIN,
            MARGIN * 0.7 + number * CAPTION * POINT * CAPTION_LEADING,
            CAPTION,
            faint=True,
        )
