"""Two vectors as arrows in their plane, drawn as SVG in the colours of a page."""

from __future__ import annotations

import math

from attnviz.renderers.page.tags import Markup, tag
from attnviz.views.grids.plane import Plane

WIDTH, HEIGHT, EDGE = 320, 200, 16
HEAD = 9.0  # how long the head of an arrow is
APART = 6.0  # between two arrows on one line
LINE = 18.0  # from one line of words to the next


def arrows(plane: Plane) -> Markup:
    """Both of them, with their names and lengths, and the angle between them."""
    tips = plane.tips
    low, high = min(0.0, tips[1][0]), max(tip[0] for tip in tips)
    top = max(tip[1] for tip in tips)
    wide = (WIDTH - 2 * EDGE) / ((high - low) or 1)
    unit = min(wide, (HEIGHT - 2 * EDGE) / top) if top else wide
    start = EDGE - low * unit, max(HEIGHT / 4, top * unit + EDGE)
    lines = [_arrow(series, tip, start, unit, plane) for series, tip in enumerate(tips)]
    said = [f"{each.name}: length {each.written}" for each in plane.arrows]
    words = [*said, f"angle {plane.angle}" if plane.angle else ""]
    rows = [_words(words, place, start[1]) for place in range(len(words))]
    high_in_all = start[1] + LINE * (len(rows) + 1)
    return tag(
        "svg",
        *lines,
        *rows,
        viewBox=f"0 0 {WIDTH} {high_in_all:.0f}",
        width=WIDTH,
        role="img",
        aria_label=", ".join(part for part in (plane.title, *words) if part),
    )


def _arrow(
    series: int, tip: tuple[float, float], start: tuple[float, float], unit: float, plane: Plane
) -> Markup:
    """A line with a head; on one line the second stands a little above the first."""
    x, y = start[0], start[1] - (APART if series and plane.on_a_line else 0)
    across, up = tip[0] * unit, tip[1] * unit
    turn = math.atan2(up, across)
    ends = [(x + across - HEAD * math.cos(turn + way), y - up + HEAD * math.sin(turn + way))
            for way in (0.4, -0.4)]  # fmt: skip
    head = "".join(f"M{x + across:.1f} {y - up:.1f}L{a:.1f} {b:.1f}" for a, b in ends)
    drawn = f"M{x:.1f} {y:.1f}L{x + across:.1f} {y - up:.1f}{head if any(tip) else ''}"
    return tag("path", d=drawn, class_=f"arrow line-{series}")


def _words(words: list[str], place: int, below: float) -> Markup:
    kind = f"word-{place}" if place < 2 else None
    return tag("text", words[place], x=EDGE, y=f"{below + LINE * (place + 1.2):.0f}", class_=kind)
