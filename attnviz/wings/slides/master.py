"""The layout of all slides: size, fonts, boxes; letters small enough for every word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pptx
from pptx.enum.text import MSO_ANCHOR
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.oxml.ns import qn
from pptx.util import Inches

from attnviz.renderers import Look
from attnviz.renderers.colors import find_theme
from attnviz.renderers.picture.glyphs import fixed_settings, measurable_text
from attnviz.renderers.picture.page_frame import (
    LEADING,
    MAX_HEADLINE_LINES,
    Captions,
    headline_lines,
)
from attnviz.renderers.picture.still_pictures import view_captions
from attnviz.renderers.picture.text import POINT, Lettering, Size, wrap_parts
from attnviz.views.view import View
from attnviz.wording.numbers import typeset

if TYPE_CHECKING:
    from pptx.presentation import Presentation
    from pptx.slide import SlideLayout


LAYOUT_NAME = "Picture with Caption"  # of python-pptx: title, picture, text
TITLE_PLACEHOLDER, PICTURE_PLACEHOLDER, CAPTION_PLACEHOLDER = 0, 1, 2
UNWANTED_PARTS = (  # of python-pptx's empty presentation
    RELATIONSHIP_TYPE.THUMBNAIL,
    RELATIONSHIP_TYPE.PRINTER_SETTINGS,
    RELATIONSHIP_TYPE.EXTENDED_PROPERTIES,
)
DARK_COLOR_MAP = {"bg1": "dk1", "tx1": "lt1", "bg2": "dk2", "tx2": "lt2"}  # text is light there
COLOR_SCHEME_PATTERN = re.compile(r"<a:clrScheme .*</a:clrScheme>", re.DOTALL)
EDGE_MARGIN_SHARE = 0.75  # of the margin, free above a title and below a caption
ELLIPSIS = "…"  # in place of words without room: the notes have all of them
MAX_CAPTION_HEIGHT_SHARE = 0.3  # of a slide's height
WORDS_ONLY_TEXT_SCALE = 1.3  # of text on a slide without a picture, relative to a panel's title

SlideBox = tuple[float, float, float, float]  # left, top, width and height in inches


def start_deck(look: Look, boxes: SlideBoxes, letters: Lettering) -> Presentation:
    """Return a presentation without slides, with its size, the boxes of its layout and a theme."""
    deck = pptx.Presentation()
    for part in (deck.part, deck.part.package):
        for kind in UNWANTED_PARTS:
            _drop_part(part, kind)
    _resize_deck(deck, boxes.size)
    _color_theme(deck, look.theme)
    _arrange_layout(slide_layout(deck), boxes, letters)
    return deck


def slide_layout(deck: Presentation) -> SlideLayout:
    """Return python-pptx's layout with title, picture and caption, which every slide has."""
    layout = deck.slide_layouts.get_by_name(LAYOUT_NAME)
    assert layout is not None
    return layout


def set_box(shape: Any, box: SlideBox) -> None:
    shape.left, shape.top, shape.width, shape.height = map(Inches, box)


def _drop_part(owner: Any, kind: str) -> None:
    with suppress(KeyError):
        owner.drop_rel(owner.relate_to(owner.part_related_by(kind), kind))


def _resize_deck(deck: Presentation, size: Size) -> None:
    """Resize the slides to a size in inches, and stretch the shapes of all layouts with them."""
    assert deck.slide_width is not None
    assert deck.slide_height is not None
    across, down = Inches(size[0]) / deck.slide_width, Inches(size[1]) / deck.slide_height
    for layout in (deck.slide_master, *deck.slide_layouts):
        for shape in layout.placeholders:
            if shape.element.spPr.find(qn("a:xfrm")) is not None:  # others inherit their box
                box = shape.left, shape.top, shape.width, shape.height
                factors = across, down, across, down
                shape.left, shape.top, shape.width, shape.height = (
                    round(length * factor) for length, factor in zip(box, factors, strict=True)
                )
    deck.slide_width, deck.slide_height = Inches(size[0]), Inches(size[1])
    deck.element.sldSz.attrib.pop("type", None)  # which said 4:3


def _color_theme(deck: Presentation, name: str) -> None:
    """Write a theme's colours into the deck, so that slides added by hand have them, too."""
    master = deck.slide_master
    part = master.part.part_related_by(RELATIONSHIP_TYPE.THEME)
    part.blob = COLOR_SCHEME_PATTERN.sub(_color_scheme(name), part.blob.decode()).encode()
    if name == "dark":
        master.element.find(qn("p:clrMap")).attrib.update(DARK_COLOR_MAP)


def _color_scheme(name: str) -> str:
    """Return the XML of a theme's colours; of the dark theme light and dark are exchanged."""
    colors = find_theme(name)
    light, dark = (colors.paper, colors.hidden), (colors.ink, colors.faint)
    if name == "dark":
        light, dark = dark, light
    links = dict.fromkeys(("hlink", "folHlink"), colors.series[1])
    accents = {f"accent{number}": color for number, color in enumerate(colors.series, start=1)}
    slots = {"dk1": dark[0], "lt1": light[0], "dk2": dark[1], "lt2": light[1], **accents, **links}
    slot_elements = (
        f'<a:{slot}><a:srgbClr val="{c[1:].upper()}"/></a:{slot}>' for slot, c in slots.items()
    )
    return f'<a:clrScheme name="attnviz {name}">{"".join(slot_elements)}</a:clrScheme>'


def _arrange_layout(layout: SlideLayout, slide_boxes: SlideBoxes, letters: Lettering) -> None:
    """Set the boxes of title, picture and caption in a layout, and the sizes of their letters."""
    boxes_and_points = {
        TITLE_PLACEHOLDER: (slide_boxes.title, letters.headline),
        PICTURE_PLACEHOLDER: (slide_boxes.picture, letters.note),
        CAPTION_PLACEHOLDER: (slide_boxes.caption, letters.note),
    }
    for shape in layout.iter_cloneable_placeholders():  # those that slides have, too
        box, points = boxes_and_points[shape.placeholder_format.idx]
        set_box(shape, box)
        _set_shape(shape, points)


def _set_shape(shape: Any, points: float) -> None:
    """Start the words of a shape in its top left corner, in letters of so many points."""
    frame = shape.text_frame
    frame.vertical_anchor = MSO_ANCHOR.TOP
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    level = shape.element.txBody.find(f"{qn('a:lstStyle')}/{qn('a:lvl1pPr')}")
    level.find(qn("a:defRPr")).set("sz", str(round(points * 100)))


@dataclass(frozen=True)
class SlideBoxes:
    """The boxes of a slide's title, caption and picture, in inches."""

    size: Size
    title: SlideBox
    caption: SlideBox
    title_end: float  # from the top of the slide
    caption_start: float  # from its foot

    @property
    def picture(self) -> SlideBox:
        return 0.0, self.title_end, self.size[0], self.size[1] - self.title_end - self.caption_start

    @property
    def words_only_box(self) -> SlideBox:
        """The box of a caption on a slide without a picture: all below the title."""
        left, top, width, height = self.caption
        start = self.title_end + self.title[1]
        return left, start, width, top + height - start


def boxes_for(words: Iterable[SlideWords], size: Size, letters: Lettering) -> SlideBoxes:
    """Return boxes large enough for the words of several slides, so that nothing jumps between."""
    heights = [(slide_words.title.height, slide_words.height) for slide_words in words]
    title, caption = map(max, zip(*heights, strict=True))
    margin = letters.margin
    edge, width = EDGE_MARGIN_SHARE * margin, size[0] - 2 * margin
    foot = size[1] - edge - caption
    title_box, caption_box = (margin, edge, width, title), (margin, foot, width, caption)
    return SlideBoxes(size, title_box, caption_box, edge + title, size[1] - foot)


@dataclass(frozen=True)
class SlideParagraph:
    """A paragraph in letters of one size, in points, and how many lines it takes."""

    text: str
    size: float
    lines: int
    faint: bool = False

    @property
    def height(self) -> float:
        """The height of its lines, in inches."""
        return self.lines * self.size * POINT * LEADING


@dataclass(frozen=True)
class SlideWords:
    """The title above a picture, and the caption below it."""

    title: SlideParagraph
    caption: tuple[SlideParagraph, ...]

    @property
    def height(self) -> float:
        """The height of the caption, in inches."""
        return sum(paragraph.height for paragraph in self.caption)


@fixed_settings((), Captions())  # in matplotlib's own font, which is wide: they fit in any other
def slide_words_for(view: View, look: Look, letters: Lettering) -> SlideWords:
    """Return the title of a view's slide, and its caption, cut to the room that they have.

    The caption is how to read the picture; of a step, first what happens in it.
    """
    assert look.size is not None
    width = look.size[0] - 2 * letters.margin
    captions, is_drawn = view_captions(view, look), has_drawing(view)
    about = " ".join(section.about for section in view.sections)
    texts = (
        (about, letters.text if is_drawn else letters.title * WORDS_ONLY_TEXT_SCALE, False),
        (captions.notes, letters.note, False),
        (captions.origin, letters.small_print, True),
    )
    room = look.size[1] * (MAX_CAPTION_HEIGHT_SHARE if is_drawn else 1 - MAX_CAPTION_HEIGHT_SHARE)
    paragraphs = (
        SlideParagraph(typeset(text), size, len(_wrap_words(typeset(text), size, width)), faint)
        for text, size, faint in texts
        if text
    )
    title = _title_paragraph(typeset(view.headline or view.title), letters, width)
    return SlideWords(title, tuple(_fit_paragraphs(room, paragraphs, width)))


def has_drawing(view: View) -> bool:
    """Return whether a view has something to draw: steps may have only words."""
    return not view.sections or any(
        section.grids or section.planes or section.sums for section in view.sections
    )


def _title_paragraph(text: str, letters: Lettering, width: float) -> SlideParagraph:
    """Return a title in one line of large letters, or in a few smaller ones, cut if need be."""
    lines = list(headline_lines(measurable_text(text), letters.headline, width))
    shown_lines = [line.text for line in lines[:MAX_HEADLINE_LINES]]
    is_cut = len(lines) > MAX_HEADLINE_LINES or any(line.endswith(ELLIPSIS) for line in shown_lines)
    size = min((line.size for line in lines), default=letters.headline)
    shown_text = _shorten_to_lines(text, shown_lines) if is_cut else text
    return SlideParagraph(shown_text, size, max(len(shown_lines), 1))


def _shorten_to_lines(text: str, shown_lines: Sequence[str]) -> str:
    return f"{text[: len(' '.join(shown_lines))].rstrip(ELLIPSIS)}{ELLIPSIS}"


def _wrap_words(text: str, size: float, width: float) -> list[str]:
    """Return a text as lines of a width in inches, in letters of `size` points.

    Words longer than a line are broken anywhere.
    """
    letters = max(int(width / (size * POINT)), 1)  # so many fit in any case
    pieces = [
        word[start : start + letters]
        for word in measurable_text(text).split(" ")
        for start in range(0, max(len(word), 1), letters)
    ]
    return wrap_parts(pieces, " ", size, width)


def _fit_paragraphs(
    room: float, paragraphs: Iterator[SlideParagraph], width: float
) -> Iterator[SlideParagraph]:
    """Yield paragraphs while there is room (in inches); the last may be cut after some lines."""
    for paragraph in paragraphs:
        line = replace(paragraph, lines=1).height
        line_count = min(paragraph.lines, int(room / line + 1e-6))
        room -= line_count * line
        if line_count == paragraph.lines:
            yield paragraph
        elif line_count:
            shown_lines = _wrap_words(paragraph.text, paragraph.size, width)[:line_count]
            text = _shorten_to_lines(paragraph.text, shown_lines)
            yield replace(paragraph, text=text, lines=line_count)
