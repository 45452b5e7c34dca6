"""Sizes and widths of letters; lines shortened, shrunk or wrapped to fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from matplotlib import rcParams
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

from attnviz.renderers.look import SLIDE_LABEL_POINTS, USUAL_TEXT, TextSize

SLIDE = (13.333, 7.5)  # inches: the page of a slide, for which the sizes below are meant
MIN_LETTERING_SHARE = 0.55  # of a slide's letters: a figure in a paper is read from nearer by
SMALLEST_POINTS = 10.0  # points on a slide: nobody in the last row reads less
POINT = 1 / 72
MARGIN = 1.2  # in letters of the headline
# On paper, in letters of a label: a headline on one line, notes and small print, and the margin
PAPER_HEADLINE, PAPER_NOTE, PAPER_MARGIN = 1.15, 0.875, 0.25
HEADING_HEIGHT = 1.7  # of a line above a panel, in its letters
MANY_PANELS_TITLE_SCALE = 0.7  # times as large as one are the titles of many panels
Size = tuple[float, float]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
LOWERING_SIGN = "\N{FUNCTION APPLICATION}"  # takes no room; what follows stands below the line
LOWERED_NAME = re.compile(rf"{LOWERING_SIGN}(\w+)")
MATRIX_NAME = re.compile(r"\b([WwBb])_([a-z]+\d?|\d)\b")
MAX_LABEL_LETTERS = 24  # characters
# Large, for small letters are fitted to pixels and come out wider or narrower
MEASURED_POINTS = 100.0
BOLD = 1.15  # bold letters are so much wider
NARROWEST_IN_LINE = 0.3  # of its size is the width of a letter, at least, in a line of many
NARROWEST_LETTER_SHARE = 0.2  # of its size: no letter takes less
LINE_TOLERANCE = 1e-4  # inches that a line may be too wide: room is often a sum of widths
SHORTENING_STEP = 0.95  # of its letters a line keeps each time that it is cut
MIDDLE, ASCENT = (0.36, 0.8)  # of a letter's size: from its foot to its middle, and to its head


@dataclass(frozen=True)
class Lettering:
    """Sizes of letters in points: those of a slide, unless they are scaled."""

    headline: float = 28.0
    title: float = 20.0  # above a panel, and what a step is called
    text: float = 18.0  # sentences and sums
    label: float = SLIDE_LABEL_POINTS
    number: float = 18.0  # in cells, at most
    axis: float = 16.0  # titles of axes, ends of scales
    note: float = 14.0  # how to read what is drawn
    small_print: float = 11.0  # what made it
    smallest: float = SMALLEST_POINTS  # below, labels are thinned out and pages divided

    def scaled(self, factor: float, at_least: float = 0.0) -> Lettering:
        sizes = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(max(size * factor, at_least) for size in sizes))

    @property
    def can_shrink(self) -> bool:
        return self.smallest < self.label

    def grown(self, size: float, times: float) -> float:
        """Return how large letters of `size` points may become where there is room to spare."""
        return size * times

    @property
    def small_title(self) -> float:
        return max(self.title * MANY_PANELS_TITLE_SCALE, self.smallest)

    @property
    def margin(self) -> float:
        """The inches that stay free on each side of a page."""
        return self.headline * POINT * MARGIN


@dataclass(frozen=True)
class PaperLettering(Lettering):
    """Sizes of letters on paper: labels, titles and numbers are equal, and nothing shrinks or
    grows.
    """

    @property
    def margin(self) -> float:
        """The inches that stay free on each side of a page: a text has margins of its own."""
        return self.label * POINT * PAPER_MARGIN

    def grown(self, size: float, times: float) -> float:
        """Return the same size: letters on paper are those of the text around the figure."""
        return size


def paper_lettering(points: float) -> PaperLettering:
    """Return letters of `points` on paper, the same for everything but two.

    A headline on one line is larger (on several it is bold alone); notes and small print are
    smaller.
    """
    equal = dict.fromkeys((field.name for field in fields(Lettering)), points)
    note = PAPER_NOTE * points
    others = {"headline": PAPER_HEADLINE * points, "note": note, "small_print": note}
    return PaperLettering(**{**equal, **others})


def lettering(size: Size, text: TextSize = USUAL_TEXT) -> Lettering:
    """Return the sizes of letters for a page of this size, those of a slide in proportion; or
    letters on paper, if `text` has points.

    The factor of `text` makes them larger or smaller; none becomes too small to read.

    >>> lettering((13.333, 7.5)).label, round(lettering((26.666, 15.0)).label, 1)
    (18.0, 36.0)
    """
    if text.points is not None:
        return paper_lettering(text.points)
    share = lettering_share(size)
    larger = Lettering().scaled(share * text.factor, at_least=SMALLEST_POINTS * share)
    smallest = {"smallest": min(SMALLEST_POINTS * share, larger.label)}
    return Lettering(**{**vars(larger), **smallest})


def lettering_share(size: Size) -> float:
    """Return how many times as large as those of a slide the letters of a page are:
    0.55 at least.
    """
    return max(min(size[0] / SLIDE[0], size[1] / SLIDE[1]), MIN_LETTERING_SHARE)


def typeset_names(text: str) -> str:
    """Return a text with names of matrices as in a formula: W_query with `query` below the line.

    Meant only for attnviz's own words, since a token may be `w_key`, too.

    >>> typeset_names("Q = X W_query + b_query, joined w_out") == (
    ...     f"Q = X W{LOWERING_SIGN}query + b{LOWERING_SIGN}query, joined W{LOWERING_SIGN}out"
    ... )
    True
    """
    return MATRIX_NAME.sub(_lowered_name, text)


def _lowered_name(match: re.Match[str]) -> str:
    """Return the name that is matched as `W` or `b`, the sign that lowers, and what is to be
    lowered.
    """
    letter = match[1].replace("w", "W").replace("B", "b")
    return f"{letter}{LOWERING_SIGN}{match[2]}"


def shorten_label(label: str) -> str:
    return label if len(label) <= MAX_LABEL_LETTERS else label[: MAX_LABEL_LETTERS - 1] + "…"


def cached_by_font(
    maxsize: int,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return a decorator like `lru_cache` for functions that measure text: results are kept apart
    by the fonts that matplotlib is set to (`font.family`).
    """

    def decorate(measure: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        def measure_in(fonts: tuple[str, ...], *args: Any, **kwargs: Any) -> Result:
            return measure(*args, **kwargs)

        cached: Callable[..., Result] = lru_cache(maxsize)(measure_in)

        @wraps(measure)
        def measure_once(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return cached(tuple(rcParams["font.family"]), *args, **kwargs)

        return measure_once

    return decorate


def text_width(text: str, size: float) -> float:
    """Return the width of a line of text in letters of `size` points, in inches."""
    return _measured_width(text) * size / MEASURED_POINTS * POINT


def widest_line(texts: tuple[str, ...], size: float) -> float:
    """Return the width of the widest of some lines in letters of `size` points, in inches; 0 for
    none.
    """
    return _widest_width(texts) * size / MEASURED_POINTS * POINT


@cached_by_font(512)
def _widest_width(texts: tuple[str, ...]) -> float:
    """Return the width of the widest text in letters of 100 points, in points; 0 for none."""
    return max(map(_measured_width, texts), default=0.0)


@cached_by_font(8192)
def _measured_width(text: str) -> float:
    """Return the width of a text in letters of 100 points, in points."""
    font = FontProperties(family=rcParams["font.family"], size=MEASURED_POINTS)
    measure: Callable[..., tuple[float, float, float]] = _text_ruler().get_text_width_height_descent
    return measure(text, font, ismath=False)[0]


@lru_cache(maxsize=1)
def _text_ruler() -> RendererAgg:
    return RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call]


def fit_line(text: str, size: float, smallest: float, room: float) -> tuple[str, float]:
    """Return a line and its size in points: made smaller until it is no wider than `room` inches.

    A line too wide even at `smallest` is cut, with `…` at its end.
    """
    max_letters = int(room / (NARROWEST_LETTER_SHARE * smallest * POINT)) + 1
    if len(text) > max_letters:  # measuring what cannot fit would take long
        text = f"{text[:max_letters]}…"
    room += LINE_TOLERANCE
    fitting_size = min(size, size * room / max(text_width(text, size), 1e-6))
    while fitting_size < smallest and len(text) > 1 and text_width(text, smallest) > room:
        text = text[: max(1, int(len(text) * SHORTENING_STEP) - 1)].rstrip("…") + "…"
        if len(text) <= 2:
            break
    return text, max(fitting_size, smallest)


def fits_width(line: str, size: float, width: float) -> bool:
    """Return whether a line in letters of `size` points is no wider than `width` inches.

    A very long line is not measured: it is taken not to fit.
    """
    short = len(line) * size * POINT * NARROWEST_IN_LINE <= width
    return short and text_width(line, size) <= width


def wrap_parts(parts: Sequence[str], between: str, points: float, room: float) -> list[str]:
    """Return parts, joined by `between`, in as many lines as they need in `room` inches.

    A part wider than that has a line of its own; empty lines are left out.
    """
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}{between}{part}" if lines[-1] else part
        if lines[-1] and text_width(longer, points) > room:
            lines.append(part)
        else:
            lines[-1] = longer
    return [line for line in lines if line]
