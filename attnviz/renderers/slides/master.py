"""The layout of all slides: size, fonts, places, and letters that leave room for every word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pptx
from pptx.enum.text import MSO_ANCHOR
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.oxml.ns import qn
from pptx.util import Inches

from attnviz.renderers import Look
from attnviz.renderers.colors import theme
from attnviz.renderers.picture.frame import LEADING, MOST_LINES, Captions, headline
from attnviz.renderers.picture.glyphs import hermetic, measurable
from attnviz.renderers.picture.image import captions_of
from attnviz.renderers.picture.lettering import POINT, Lettering, Size, typeset
from attnviz.renderers.picture.texts import wrapped
from attnviz.views.view import View

if TYPE_CHECKING:
    from pptx.presentation import Presentation
    from pptx.slide import SlideLayout


LAYOUT = "Picture with Caption"  # of those that python-pptx has: title, picture, text
TITLE, PICTURE, CAPTION = 0, 1, 2  # its placeholders
UNWANTED = (  # of its empty presentation: a picture of it, settings of a printer, an old name
    RELATIONSHIP_TYPE.THUMBNAIL,
    RELATIONSHIP_TYPE.PRINTER_SETTINGS,
    RELATIONSHIP_TYPE.EXTENDED_PROPERTIES,
)
ON_DARK = {"bg1": "dk1", "tx1": "lt1", "bg2": "dk2", "tx2": "lt2"}  # text is light there
SCHEME = re.compile(r"<a:clrScheme .*</a:clrScheme>", re.DOTALL)


def started(look: Look, places: Places, letters: Lettering) -> Presentation:
    """A presentation without slides, in the colours of a theme."""
    deck = pptx.Presentation()
    _remove_unwanted(deck)
    _resize(deck, places.size)
    _color(deck, look.theme)
    _arrange(layout_of(deck), places, letters)
    return deck


def layout_of(deck: Presentation) -> SlideLayout:
    """The one that every slide has."""
    found = deck.slide_layouts.get_by_name(LAYOUT)
    assert found is not None
    return found


def put(shape: Any, place: Place) -> None:
    """A shape at its place."""
    shape.left, shape.top, shape.width, shape.height = map(Inches, place)


def _remove_unwanted(deck: Presentation) -> None:
    parts = [deck.part, deck.part.package]
    for each in parts:
        for kind in UNWANTED:
            _drop(each, kind)


def _drop(holder: Any, kind: str) -> None:
    """Forget a part, where there is one of its kind."""
    try:
        part = holder.part_related_by(kind)
    except KeyError:
        return
    holder.drop_rel(holder.relate_to(part, kind))


def _resize(deck: Presentation, size: Size) -> None:
    """Slides of another size: what stands on any layout is moved and stretched with it."""
    assert deck.slide_width is not None
    assert deck.slide_height is not None
    across, down = Inches(size[0]) / deck.slide_width, Inches(size[1]) / deck.slide_height
    for each in (deck.slide_master, *deck.slide_layouts):
        for shape in each.placeholders:
            if shape.element.spPr.find(qn("a:xfrm")) is not None:  # others stand where these do
                box = shape.left, shape.top, shape.width, shape.height
                by = across, down, across, down
                shape.left, shape.top, shape.width, shape.height = (
                    round(length * times) for length, times in zip(box, by, strict=True)
                )
    deck.slide_width, deck.slide_height = Inches(size[0]), Inches(size[1])
    deck.element.sldSz.attrib.pop("type", None)  # which said 4:3


def _color(deck: Presentation, name: str) -> None:
    """Paper and ink as light and dark of the theme: what anybody adds has them, too."""
    master = deck.slide_master
    part = master.part.part_related_by(RELATIONSHIP_TYPE.THEME)
    part.blob = SCHEME.sub(_scheme(name), part.blob.decode()).encode()
    if name == "dark":
        master.element.find(qn("p:clrMap")).attrib.update(ON_DARK)


def _scheme(name: str) -> str:
    colors = theme(name)
    light, dark = (colors.paper, colors.hidden), (colors.ink, colors.faint)
    if name == "dark":
        light, dark = dark, light
    links = dict.fromkeys(("hlink", "folHlink"), colors.series[1])
    accents = {f"accent{place}": each for place, each in enumerate(colors.series, start=1)}
    slots = {"dk1": dark[0], "lt1": light[0], "dk2": dark[1], "lt2": light[1], **accents, **links}
    told = (f'<a:{slot}><a:srgbClr val="{c[1:].upper()}"/></a:{slot}>' for slot, c in slots.items())
    return f'<a:clrScheme name="attnviz {name}">{"".join(told)}</a:clrScheme>'


def _arrange(layout: SlideLayout, places: Places, letters: Lettering) -> None:
    """Title, picture and caption at their places, in letters of their size."""
    boxes = {TITLE: places.title, PICTURE: places.picture, CAPTION: places.caption}
    sizes = {TITLE: letters.headline, PICTURE: letters.note, CAPTION: letters.note}
    for shape in layout.iter_cloneable_placeholders():  # those that slides have, too
        number = shape.placeholder_format.idx
        put(shape, boxes[number])
        _set_shape(shape, sizes[number])


def _set_shape(shape: Any, size: float) -> None:
    """Words from the top left corner on, where pictures of words begin as well."""
    frame = shape.text_frame
    frame.vertical_anchor = MSO_ANCHOR.TOP
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    level = shape.element.txBody.find(f"{qn('a:lstStyle')}/{qn('a:lvl1pPr')}")
    level.find(qn("a:defRPr")).set("sz", str(round(size * 100)))


EDGE = 0.75  # of the margin that stays free above a title and below a caption

Place = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True)
class Places:
    """Of a slide of some size. A picture reaches from edge to edge, with its own margins."""

    size: Size
    title: Place
    caption: Place
    above: float  # where the title ends,
    below: float  # and how far from the foot of the slide the caption begins

    @property
    def picture(self) -> Place:
        """All between them: a picture has air around what it shows."""
        return 0.0, self.above, self.size[0], self.size[1] - self.above - self.below

    @property
    def room(self) -> Place:
        """For a caption alone, where nothing is drawn."""
        left, top, width, height = self.caption
        start = self.above + self.title[1]
        return left, start, width, top + height - start


def places_for(words: Iterable[Words], size: Size, letters: Lettering) -> Places:
    """The same on several slides, so that nothing jumps where one follows another."""
    every = list(words)
    title = max(each.title.height for each in every)
    caption = max(each.height for each in every)
    margin = letters.margin
    edge, width = EDGE * margin, size[0] - 2 * margin
    foot = size[1] - edge - caption
    return Places(
        size,
        (margin, edge, width, title),
        (margin, foot, width, caption),
        edge + title,
        size[1] - foot,
    )


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
    set_ = (
        _set_paragraph(typeset(text), size, faint, width) for text, size, faint in texts if text
    )
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


def _set_paragraph(text: str, size: float, faint: bool, width: float) -> Paragraph:
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
