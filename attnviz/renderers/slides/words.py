"""The words of a slide that can be edited: how large they are, so that all of them have room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attnviz.renderers import Look
from attnviz.renderers.picture.fonts import measurable
from attnviz.renderers.picture.frame import LEADING, MOST_LINES, Captions, headline
from attnviz.renderers.picture.glyphs import hermetic
from attnviz.renderers.picture.image import captions_of
from attnviz.renderers.picture.lettering import POINT, Lettering
from attnviz.renderers.picture.texts import wrapped
from attnviz.renderers.picture.typesetting import typeset
from attnviz.views.view import View

CUT = "…"  # in place of words that have no room: the notes have all of them
HIGHEST = 0.3  # of a slide's height: a caption
LARGER = 1.3  # times as large as a title of a panel: what stands on a slide without a picture


@dataclass(frozen=True)
class Paragraph:
    """Some words in letters of one size, in points."""

    text: str
    size: float
    lines: int
    faint: bool = False

    @property
    def height(self) -> float:
        return self.lines * self.size * POINT * LEADING


@dataclass(frozen=True)
class Words:
    """What stands over a picture, and below it."""

    title: Paragraph
    caption: tuple[Paragraph, ...]

    @property
    def height(self) -> float:
        """Of the caption."""
        return sum(each.height for each in self.caption)


def words_of(view: View, look: Look, letters: Lettering) -> Words:
    """The title of a view and how to read it; of a step, what happens in it.

    Whatever font shows them: matplotlib's own, by which they are measured, is a wide one.
    """
    with hermetic((), Captions()):
        return _words(view, look, letters)


def _words(view: View, look: Look, letters: Lettering) -> Words:
    assert look.size is not None
    width = look.size[0] - 2 * letters.margin
    captions, drawn = captions_of(view, look), is_drawn(view)
    about = " ".join(each.about for each in view.sections)
    texts = (
        (about, letters.text if drawn else letters.title * LARGER, False),
        (captions.notes, letters.note, False),
        (captions.made, letters.small_print, True),
    )
    room = look.size[1] * (HIGHEST if drawn else 1 - HIGHEST)
    set_ = (_set(typeset(text), size, faint, width) for text, size, faint in texts if text)
    title = _title(typeset(view.headline or view.title), letters, width)
    return Words(title, tuple(_within(room, set_, width)))


def is_drawn(view: View) -> bool:
    """Whether there is something to draw: of some steps there are but words."""
    return not view.sections or any(
        each.grids or each.planes or each.sums for each in view.sections
    )


def _title(text: str, letters: Lettering, width: float) -> Paragraph:
    """In one line of large letters, or in a few that are smaller."""
    lines = list(headline(measurable(text), letters.headline, width))
    kept = [line.text for line in lines[:MOST_LINES]]
    whole = len(lines) <= MOST_LINES and not any(line.endswith(CUT) for line in kept)
    size = min((line.size for line in lines), default=letters.headline)
    return Paragraph(text if whole else _cut(text, kept), size, max(len(kept), 1))


def _cut(text: str, kept: Sequence[str]) -> str:
    """The beginning of a text, as long as some lines are."""
    return f"{text[: len(' '.join(kept))].rstrip(CUT)}{CUT}"


def _set(text: str, size: float, faint: bool, width: float) -> Paragraph:
    return Paragraph(text, size, len(_lines(text, size, width)), faint)


def _lines(text: str, size: float, width: float) -> list[str]:
    """Lines of words; those that are longer than a line are broken anywhere."""
    letters = max(int(width / (size * POINT)), 1)  # that surely fit
    pieces = [
        word[start : start + letters]
        for word in measurable(text).split(" ")
        for start in range(0, max(len(word), 1), letters)
    ]
    return wrapped(pieces, " ", size, width)


def _within(room: float, paragraphs: Iterator[Paragraph], width: float) -> Iterator[Paragraph]:
    """As many lines of them as there is room for."""
    for each in paragraphs:
        line = replace(each, lines=1).height
        most = min(each.lines, int(room / line + 1e-6))
        room -= most * line
        if most == each.lines:
            yield each
        elif most:
            kept = _lines(each.text, each.size, width)[:most]
            yield replace(each, text=_cut(each.text, kept), lines=most)
